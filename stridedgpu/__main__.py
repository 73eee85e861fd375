"""The command line: `python -m stridedgpu` and one of `preprocess`, `show`, `size`, `explain`, `bench` and `info`.

Bad arguments and bad input end in one line on stderr and exit code 2. No partial file is left behind.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import NoReturn

from . import __version__
from .commands.bench.command import add_bench
from .commands.console import one_line, print_table
from .commands.explain import add_explain
from .commands.preprocess import add_preprocess
from .commands.show import add_show
from .commands.size import add_size
from .devices.selection import devices
from .values.errors import StridedGpuError

LIBRARIES = {
    "numpy": "numpy",
    "pillow": "stridedgpu[cli]",
    "rich": "stridedgpu[cli]",
    "scikit-image": "stridedgpu[demo]",
    "llvmlite": "stridedgpu[cpu]",
    "ml_dtypes": "stridedgpu[ml-dtypes]",
    "cupy-cuda12x": "stridedgpu[cuda12]",
    "cupy-cuda13x": "stridedgpu[cuda13]",
}
REFUSED, INTERRUPTED, BROKEN_PIPE = 2, 130, 1


class OneLineParser(argparse.ArgumentParser):
    """An argument parser that reports an error in one line, without the usage that argparse prints first."""

    def error(self, message: str) -> NoReturn:
        """Print `message` on stderr and exit with code 2."""
        if message.endswith(": expected one argument"):
            message += "; a value that begins with a minus is given as --name=-1"
        self.exit(REFUSED, f"{self.prog}: {one_line(message)}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 2 refused, 130 interrupted."""
    parser = build_parser()
    chosen = parser.parse_args(arguments)
    if chosen.run is None:
        parser.error("give a command: preprocess, show, size, explain, bench or info; --help says what they do")
    try:
        with _termination_unwinds(), _output_goes_somewhere():
            chosen.run(chosen)
            sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except MemoryError as problem:
        reason = str(problem) or "not enough of it is free"
        return _refuse(parser, f"out of memory: {reason}; use fewer pictures, a smaller --size or a narrower --dtype")
    except StridedGpuError as problem:
        return _refuse(parser, str(problem))
    except OSError as problem:
        if problem.filename is None:
            _drop_output()
        return _refuse(parser, f"{problem.filename or 'output'!r}: {problem.strerror or problem}")
    return 0


def _drop_output() -> None:
    """Discard what standard output still buffers, so that Python's flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(parser: argparse.ArgumentParser, message: str) -> int:
    print(f"{parser.prog}: {one_line(message)}", file=sys.stderr)
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


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = OneLineParser(
        prog="stridedgpu", description="Image and feature tensors in strided memory.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"stridedgpu {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(metavar="COMMAND")
    add_preprocess(commands)
    add_show(commands)
    add_size(commands)
    add_explain(commands)
    add_bench(commands)
    info = commands.add_parser("info", help="print the version, the devices and the libraries", allow_abbrev=False)
    info.set_defaults(run=run_info)
    return parser


def run_info(_chosen: argparse.Namespace) -> None:
    """Print the version, the usable devices, why the others are unusable, and which libraries are installed."""
    print(f"stridedgpu {__version__}, Python {platform.python_version()}, {platform.platform()}")
    print("devices")
    print_table(
        [
            (device.name, device.description if device.available else f"not available: {device.reason}")
            for device in devices()
        ]
    )
    print("libraries")
    print_table([(name, _version_of(name, extra)) for name, extra in LIBRARIES.items()])


def _version_of(library: str, extra: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return f'not installed: pip install "{extra}"'


if __name__ == "__main__":
    sys.exit(main())
