"""The command line: `python -m stridedgpu` and one of `preprocess`, `which`, `show`, `size`, `explain` and `info`.

Bad arguments and bad input end in one line on stderr and exit code 2. No partial file is left behind.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Final

from . import __version__
from .commands.console import one_line
from .commands.parser import REFUSED, CommandParser
from .values.errors import StridedGpuError

_PROGRAM: Final = "stridedgpu"

_MODULES: Final = {
    "preprocess": "preprocess",
    "which": "which",
    "show": "show",
    "size": "show",
    "explain": "explain",
    "info": "info",
}
"""Each command's module in `commands`, whose function `add_NAME` makes its parser. Only a given command is imported."""

DONE, INTERRUPTED, BROKEN_PIPE = 0, 130, 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 2 refused, 3 done without some images, 130 interrupted."""
    words = sys.argv[1:] if arguments is None else arguments
    named = [name for name in words[:1] if name in _MODULES]
    if words[:1] == ["bench"]:
        return _refuse("benchmarks run from a checkout of the repository: python -m benchmarks --quick")
    try:
        with _imports_stay() if arguments is None else nullcontext():
            parser = build_parser(named or _MODULES)
        chosen = parser.parse_args(words)
        if chosen.run is None:
            parser.error("give a command: preprocess, which, show, size, explain or info; --help says what they do")
        with _termination_unwinds(), _output_goes_somewhere(), _warnings_are_lines():
            code: int = chosen.run(chosen) or DONE
            sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"{_PROGRAM}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except MemoryError as problem:
        reason = str(problem) or "not enough of it is free"
        return _refuse(f"out of memory: {reason}; use fewer images, a smaller --size or a narrower --dtype")
    except StridedGpuError as problem:
        return _refuse(str(problem))
    except OSError as problem:
        if problem.filename is None:
            _drop_output()
        return _refuse(f"{problem.filename or 'output'!r}: {problem.strerror or problem}")
    return code


@contextmanager
def _imports_stay() -> Iterator[None]:
    """Keep the garbage collector from what is imported inside, at import, later, and when the process ends.

    Modules live as long as the process: collections took a quarter of the time of the imports of `preprocess`.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def _drop_output() -> None:
    """Discard what standard output still buffers, so that Python's flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(message: str) -> int:
    print(f"{_PROGRAM}: {one_line(message)}", file=sys.stderr)
    return REFUSED


@contextmanager
def _output_goes_somewhere() -> Iterator[None]:
    """Discard what is printed if standard output is closed, as it is for some jobs."""
    if sys.stdout:
        yield
        return
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield


@contextmanager
def _warnings_are_lines() -> Iterator[None]:
    """Print each warning as one line, without the line of source that it comes from."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_rest, **_line: f"stridedgpu: {one_line(str(message))}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


@contextmanager
def _termination_unwinds() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise SystemExit, so that partly written files are removed."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]  # Windows has no SIGHUP
    before = {number: signal.signal(number, leave) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def build_parser(names: Collection[str] = tuple(_MODULES)) -> argparse.ArgumentParser:
    """The parser of these commands, by default of all."""
    parser = CommandParser(prog=_PROGRAM, description="Image and feature tensors in strided memory.")
    parser.add_argument("--version", action="version", version=f"stridedgpu {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(metavar="COMMAND")
    for name in names:
        module = import_module(f"{__package__}.commands.{_MODULES[name]}")
        getattr(module, f"add_{name}")(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
