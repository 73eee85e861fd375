"""`Compiler`: LLVM in a process of its own, started when it is first needed, as an object that compiles.

What ends that process, ends no other: the caller gets a `CompilerError` with what it said last, and does without. See
`compiler_process` for what is sent.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from stridedgpu.devices.cpu.target import Target
from stridedgpu.values.errors import DeviceError

_SCRIPT: Final = f"{__file__.rpartition(os.sep)[0]}{os.sep}compiler_process.py"

_MOST_SECONDS: Final = 10.0
"""The processor's time for one module. The slowest of the package's takes less than a second."""

_MOST_SAID: Final = 64 * 1024
"""Bytes of the process' last words that are read."""


class LoopError(DeviceError):
    """A loop that cannot be compiled or loaded here. Whoever runs loops catches it, and has NumPy do the work."""


class CompilerError(LoopError):
    """A module that was not compiled. `permanent`: no other can be compiled here either."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        """Keep the message and whether it is the last word."""
        super().__init__(message)
        self.permanent = permanent


class Library(NamedTuple):
    """The package llvmlite: its folder, and its version with the size of LLVM's library; None if it has neither."""

    folder: str
    identity: str | None


@lru_cache(maxsize=1)
def library() -> Library | None:
    """Find llvmlite, which is not imported; None where it is not installed."""
    spec = importlib.util.find_spec("llvmlite")
    folders = None if spec is None else spec.submodule_search_locations
    if not folders:
        return None
    folder = next(iter(folders))
    try:
        with open(f"{folder}/_version.py", "rb") as file:  # noqa: PTH123 - avoids importing `Path`
            version = file.read().hex()
        return Library(folder, f"{version} {os.stat(f'{folder}/binding/libllvmlite.so').st_size}")  # noqa: PTH116
    except OSError:
        return Library(folder, None)


class Compiler:
    """A compiler for any `Target`. One thread at a time uses it."""

    def __init__(self, seconds: float = _MOST_SECONDS) -> None:
        """Begin without a process. `seconds` of the processor's time are the most for one module."""
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._is_at_work = False

    def object_file(self, text: str, target: Target) -> bytes:
        """The object file of a module. Raises `CompilerError`."""
        return self.translated("object", text, target.architecture, target.level, _flags(target))

    def assembly(self, text: str, target: Target) -> str:
        """The assembly of a module, to read."""
        return self.translated("assembly", text, target.architecture, target.level, _flags(target)).decode()

    def translated(
        self, kind: Literal["object", "assembly"], text: str, architecture: str, cpu: str, flags: str
    ) -> bytes:
        """A module for a processor by LLVM's name and flags ("+avx2,+f16c")."""
        if self._is_at_work:  # a handler of a signal, or the end of an object, interrupts a compilation of its thread
            raise LoopError("the compiler of loops is at work for this thread already")
        content = text.encode()
        head = f"{kind} {architecture}-unknown-linux-gnu {cpu} {flags or '-'} {len(content)}\n".encode()
        try:
            # An interrupt may come with any call. A process is kept again after a whole answer alone: neither half of
            # one, nor the one that comes unasked, is taken for the next.
            kept, self._process, self._is_at_work = self._process, None, True
            for process in (kept, None):
                # One that had nothing to do for a while has ended, perhaps just now.
                with suppress(_EndedIdleError):
                    return self._exchanged(process or self._start(), head + content)
        finally:
            self._is_at_work = False
        raise CompilerError("the compiler of loops ends as soon as it is started", permanent=True)

    def _exchanged(self, process: subprocess.Popen[bytes], request: bytes) -> bytes:
        try:
            assert process.stdin is not None
            process.stdin.write(request)
            process.stdin.flush()
            said_ok, content = self._answer(process)
        except BrokenPipeError:
            raise self._died(process) from None
        except LoopError:
            raise
        except BaseException:
            _end(process)
            raise
        self._process = process
        if not said_ok:
            raise CompilerError(f"LLVM refuses a loop: {content.decode(errors='replace')[:500]}")
        return content

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the process, and wait until LLVM is loaded."""
        llvmlite = library()
        if llvmlite is None or not sys.executable or getattr(sys, "frozen", False):
            missing = "llvmlite is not installed" if llvmlite is None else "no Python is known that could run it"
            raise CompilerError(f"the compiler of loops cannot be started: {missing}", permanent=True)
        try:
            # A session of its own: an interrupt at the keyboard is for the caller alone.
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", _SCRIPT, os.path.dirname(llvmlite.folder), str(self._seconds)],  # noqa: PTH120
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise CompilerError(f"the compiler of loops cannot be started: {error}") from error
        try:
            atexit.register(self.stop)
            self._answer(process)
        except LoopError as error:
            raise CompilerError(str(error), permanent=True) from None
        except BaseException:
            _end(process)
            raise
        return process

    def _answer(self, process: subprocess.Popen[bytes]) -> tuple[bool, bytes]:
        """Whether the process did what it was sent, and what it says. Raises `LoopError` if it has ended."""
        assert process.stdout is not None
        head = process.stdout.readline().split()
        content = process.stdout.read(int(head[1])) if len(head) == 2 else b""
        if len(head) != 2 or len(content) < int(head[1]):
            raise self._died(process)
        return head[0] == b"ok", content

    def _died(self, process: subprocess.Popen[bytes]) -> LoopError:
        assert process.stderr is not None
        said = process.stderr.read(_MOST_SAID).decode(errors="replace").strip().splitlines()
        code = process.wait()
        _end(process)
        if code == 0:
            return _EndedIdleError()
        if code == -signal.SIGVTALRM:
            return CompilerError(f"LLVM did not compile a loop within {self._seconds:g} s of the processor's time")
        last = next((line for line in said if "LLVM ERROR" in line), said[-1] if said else "it said nothing")
        return CompilerError(f"the compiler of loops ended with code {code}: {last[:500]}")

    def stop(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            _end(process)

    def forget(self) -> None:
        """In a fork's child: leave the process to the parent."""
        process, self._process, self._is_at_work = self._process, None, False
        if process is not None:
            process.returncode = 0  # it is not waited for here
            _close(process)


class _EndedIdleError(LoopError):
    """The process ended in peace before it took a request."""


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, and close its pipes."""
    process.kill()
    process.wait()
    _close(process)


def _close(process: subprocess.Popen[bytes]) -> None:
    """Close the pipes of a process. What was to be written to one that has died is lost."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        assert pipe is not None
        with suppress(OSError):
            pipe.close()


def _flags(target: Target) -> str:
    return ",".join(f"+{name}" for name in sorted(target.features))
