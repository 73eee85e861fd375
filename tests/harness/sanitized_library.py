"""A command with a native library whose undefined behaviour ends the process (UBSan, in traps).

PYTHONPATH=tests python -m harness.sanitized_library MODULE ...

The compiler is ziglang's, which has no runtime of AddressSanitizer: that nothing outside an operand is read or written
the tests show by memory between pages that nobody may touch (`fenced_memory.py`).
"""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
from pathlib import Path

FLAGS = "-fsanitize=undefined -fsanitize-trap=undefined -fno-sanitize=function"
"""Loops are called through one type of function, whatever they take."""


def main() -> None:
    os.environ["CXXFLAGS"] = FLAGS
    setup = runpy.run_path(str(Path(__file__).parents[2] / "setup.py"))
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "kernels.bin"
        setup["build_library"](setup["this_platform"](), built)

        from stridedgpu.devices.cpu.native import library

        library.PATH = str(built)
        assert library.library() is not None
        _, sys.argv = sys.argv[0], sys.argv[1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
