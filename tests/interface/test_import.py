"""What `import stridedgpu` loads: NumPy, and nothing that a program did not ask for."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stridedgpu

HEAVY = (
    "PIL",
    "cuda",
    "cupy",
    "cupyx",
    "jax",
    "matplotlib",
    "ml_dtypes",
    "numba",
    "onnxruntime",
    "rich",
    "scipy",
    "skimage",
    "torch",
)
MODULES_OF_THE_IMPORT = 6
"""The package itself, the package `devices`, and what of the standard library NumPy has not loaded yet."""


def python(code: str) -> str:
    same_package = os.environ | {"PYTHONPATH": str(Path(stridedgpu.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=same_package, capture_output=True, text=True, timeout=600, check=True
    )
    return done.stdout.strip()


def loaded_by(code: str) -> set[str]:
    """The modules that some code loads after NumPy."""
    return set(
        python(f"import sys, numpy; before = {{*sys.modules}}\n{code}\nprint(*{{*sys.modules}} - before)").split()
    )


def test_import_loads_numpy_and_next_to_nothing_else():
    loaded = loaded_by("import stridedgpu")
    assert len(loaded) <= MODULES_OF_THE_IMPORT, sorted(loaded)


FORKED = """
import importlib.abc, os, signal, sys, threading, time
import numpy
import stridedgpu as sg

class Slow(importlib.abc.MetaPathFinder):
    "The import of one module begins, and takes a second."

    def find_spec(self, name, path, target=None):
        if name == "stridedgpu.{module}":
            begun.set()
            time.sleep(1)

begun = threading.Event()
sys.meta_path.insert(0, Slow())
threading.Thread(target=lambda: {first_use}, daemon=True).start()
assert begun.wait(20)
child = os.fork()
if not child:
    signal.alarm(20)
    {first_use}
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize(
    "module, first_use",
    [
        ("operations.relayout", "sg.relayout(numpy.zeros((2, 3)))"),
        ("values.layout", "sg.Layout((2, 3))"),
        ("devices.cpu.numpy_loops.conversion", "sg.relayout(numpy.zeros((2, 3)))"),
    ],
    ids=["below a name", "a name", "inside of a function"],
)
def test_a_child_that_is_forked_while_a_thread_imports_can_import_too(module, first_use):
    assert python(FORKED.format(module=module, first_use=first_use)) == "0"


def test_using_every_public_name_loads_no_optional_library():
    loaded = loaded_by("import stridedgpu as sg\nfor name in sg.__all__: getattr(sg, name)")
    assert sorted(loaded & set(HEAVY)) == []


def test_the_command_line_loads_pillow_only_when_needed():
    assert sorted(loaded_by("import stridedgpu.__main__") & set(HEAVY)) == []


@pytest.mark.parametrize("name", ["Layout", "asarray", "relayout", "gather"])
def test_a_public_name_loads_no_layer_above_its_own(name):
    above = ("commands", "iobinding", "picture", "drawing", "preprocess", "devices.cuda.runtime")
    if name == "Layout":
        above += ("api", "devices.cpu", "devices.cuda", "exchange", "operations", "problems")
    if name == "asarray":
        above += ("devices.cuda.relayout",)
    loaded = loaded_by(f"import stridedgpu as sg; sg.{name}")
    packages = tuple(f"stridedgpu.{package}" for package in above)
    assert [module for module in sorted(loaded) if module.startswith(packages)] == []


def test_a_relayout_loads_nothing_of_the_other_operations():
    """First use is the import above all: what it loads is counted here, and timed by `benchmarks/bench_import.py`."""
    loaded = loaded_by("import stridedgpu as sg; sg.relayout(numpy.zeros((4, 6), numpy.uint8), dtype='float32')")
    others = re.compile(
        r"stridedgpu\..*(resize|gather|scatter|crop|raw|frame_(?!like)|frames|colour_matrix|pixel_formats|index_rule)"
        r"|logging|pathlib|html|inspect"
    )
    assert [module for module in sorted(loaded) if others.match(module)] == []


def test_every_public_name_is_there_and_stated():
    assert sorted(set(stridedgpu.__all__)) == sorted(stridedgpu.__all__)
    assert [name for name in stridedgpu.__all__ if not hasattr(stridedgpu, name)] == []
    assert dir(stridedgpu) == sorted(stridedgpu.__all__)


def test_a_type_checker_sees_the_modules_that_the_names_come_from():
    (block,) = (
        node
        for node in ast.parse(Path(stridedgpu.__file__).read_text(encoding="utf-8")).body
        if isinstance(node, ast.If) and node.orelse
    )
    seen = {alias.name: node.module or alias.name for node in block.body for alias in node.names}
    assert seen == stridedgpu._MODULES
    assert {*seen, "__version__"} == set(stridedgpu.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'stridedgpu' has no attribute 'transpose'"):
        _ = stridedgpu.transpose


def test_names_of_other_libraries_lead_to_those_here():
    for name, advice in stridedgpu._ELSEWHERE.items():
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'; {re.escape(advice)}"):
            getattr(stridedgpu, name)
        function = advice.partition("(")[0].partition(" ")[0].partition("=")[0]
        assert hasattr(stridedgpu, function) or function in ("einops", "t[...,", "torch.from_dlpack", "device"), name


def test_the_function_devices_keeps_its_name_when_the_package_devices_is_imported():
    said = python("import stridedgpu as sg, stridedgpu.devices.selection, stridedgpu.devices.cpu; print(sg.devices)")
    assert said.startswith("<function devices")
