"""Look up in the installed CuPy every dotted name that the package's CUDA modules use; run as a program."""

from __future__ import annotations

import ast
import sys
from pathlib import Path


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

    names = set().union(*(dotted_names(path.read_text()) for path in folder.glob("cuda*.py")))
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
    assert hasattr(cupy.cuda.Stream, "__cuda_stream__")
    assert hasattr(cupy.cuda.function.Function, "ptr")
    assert hasattr(cupy.RawKernel, "kernel")
    print(*sorted(names), sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
