"""No part needs what only POSIX has: by the source of the pure ones, and all run where it is missing."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import stridedgpu

PACKAGE = Path(stridedgpu.__file__).parent
POSIX_MODULES = {"fcntl", "grp", "posix", "pwd", "resource", "termios", "tty"}
POSIX_NAMES = {
    "os": {"fork", "geteuid", "getuid", "register_at_fork", "sched_getaffinity", "setsid", "mkfifo", "killpg"},
    "signal": {"SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "alarm", "setitimer"},
}


def guarded(tree: ast.AST) -> set[int]:
    """The lines under a condition that asks whether a name is there, or which platform this is."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp)) and any(
            word in ast.unparse(node.test) for word in ("hasattr", "platform", "os.name")
        ):
            lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


@pytest.mark.parametrize("folder", ["values", "problems", "operations", "exchange", "drawing", "api"])
def test_no_module_names_what_only_posix_has(folder):
    found = []
    for path in (PACKAGE / folder).rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        free = guarded(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.lineno not in free:
                posix = POSIX_NAMES.get(node.value.id, ())
                found += [f"{path.name}:{node.lineno} {node.value.id}.{node.attr}"] * (node.attr in posix)
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            found += [f"{path.name}:{node.lineno} {name}" for name in names if name.split(".")[0] in POSIX_MODULES]
    assert not found, found


PROGRAM = """
import os, signal, sys
for module, names in {names!r}.items():
    for name in names:
        if hasattr(sys.modules[module], name):
            delattr(sys.modules[module], name)
import numpy as np
for module in {modules!r}:
    sys.modules[module] = None
import stridedgpu as sg
frames = np.arange(2 * 8 * 9 * 3, dtype=np.uint8).reshape(2, 8, 9, 3)
made = sg.relayout(frames, dims="NHWC", layout="NCHW", dtype="float32", mean=0.5, std=0.5, device="cpu")
assert np.array_equal(made.numpy(), frames.transpose(0, 3, 1, 2) * np.float32(1 / 127.5) - np.float32(1))
assert sg.gather(made, [1, 0]).sizes == made.sizes
assert sg.resize(frames, (4, 4), dims="NHWC").sizes == (2, 3, 4, 4)
assert sg.gather_crops(frames, [[0, 0], [1, 1]], (4, 4), dims="NHWC").sizes == (2, 3, 4, 4)
assert sg.Preprocess(crop=4, device="cpu")(frames).shape == (2, 3, 4, 4)
assert sg.BufferTensorDesc("uint8", (1, 3, 4, 5)).to_ctypes().DimensionCount == 4
from stridedgpu.__main__ import main
assert main(["size", "--sizes", "1x3x4x5"]) == 0
print("every call ran")
"""


@pytest.mark.parametrize("loops", ["native", "NumPy's"])
def test_every_operation_runs_without_what_only_posix_has(loops):
    code = PROGRAM.format(
        names={key: sorted(value) for key, value in POSIX_NAMES.items()}, modules=sorted(POSIX_MODULES - {"posix"})
    )
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent), "STRIDEDGPU_COMPILED": str(int(loops == "native"))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("every call ran\n"), done.stderr
