"""A command for which memory that can be written never becomes executable, as under systemd's MemoryDenyWriteExecute.

PYTHONPATH=tests python -m harness.no_executable_memory COMMAND ...

The command's own children are refused the same. Linux has it from 6.3 on; elsewhere a line says so, and nothing is run.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys

PR_SET_MDWE = 65
PR_MDWE_REFUSE_EXEC_GAIN = 1


def main() -> None:
    """Give up executable memory, then become the command."""
    if ctypes.CDLL(None).prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0):
        print(f"{platform.system()} {platform.release()} cannot refuse executable memory: nothing is run")
        return
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
