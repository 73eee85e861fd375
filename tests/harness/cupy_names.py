"""Look up in the installed CuPy the names that the CUDA modules use, and the order of arguments; run as a program."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ARGUMENTS = {
    "driver.launchKernel": "f grid_dim_x grid_dim_y grid_dim_z block_dim_x block_dim_y block_dim_z "
    "shared_mem_bytes stream kernel_params extra",
    "runtime.eventRecord": "event stream",
    "runtime.memcpy2DAsync": "dst dpitch src spitch width height kind stream",
    "runtime.memcpyAsync": "dst src size kind stream",
    "runtime.memcpyPeerAsync": "dst dstDevice src srcDevice size stream",
    "runtime.memsetAsync": "ptr value size stream",
    "runtime.streamWaitEvent": "stream event flags",
}
"""What these functions take, which Cython writes into their documentation; they are called by position."""


def dotted_names(source: str) -> set[str]:
    """Every attribute path that starts at `cupy`, or at `runtime` where that is `cupy.cuda.runtime`."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        path = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            path.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and path:
            root = {"cupy": "cupy", "runtime": "cupy.cuda.runtime"}.get(inner.id)
            if root:
                found.add(".".join((root, *reversed(path))))
    return found


def main(folder: Path) -> None:
    import cupy

    names = set().union(*(dotted_names(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")))
    assert len(names) > 25, sorted(names)
    missing = []
    for name in sorted(names):
        value = cupy
        try:
            for part in name.split(".")[1:]:
                value = getattr(value, part)
        except AttributeError:
            missing.append(name)
    assert not missing, missing
    for name, arguments in ARGUMENTS.items():
        module, _, function = name.partition(".")
        signature = getattr(getattr(cupy.cuda, module), function).__doc__.splitlines()[0]
        assert re.findall(r"(\w+)(?:=\w+)?[,)]", signature) == arguments.split(), signature
    assert hasattr(cupy.cuda.Stream, "__cuda_stream__")
    assert hasattr(cupy.cuda.function.Function, "ptr")
    assert hasattr(cupy.RawKernel, "kernel")
    print(*sorted(names), sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
