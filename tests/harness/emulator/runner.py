"""Runs CUDA kernels on the CPU under AddressSanitizer and UndefinedBehaviorSanitizer.

    program = Program.compile(joined_source("indexing.cuh") + KERNEL, ["copy<sg::uint32>"])
    source, target = Buffer(array), Buffer(numpy.zeros_like(array), alignment=16)
    job = Job("copy<sg::uint32>", grid=(4,), block=(256,), arguments=(source, target, numpy.uint32(1000)))
    [[_, copied]] = program.run([job])

A program is a separate executable, since a sanitizer ends its process; it is kept in a cache by the hash of all that
went into it, and so is what all programs share: the precompiled header, and the objects that run threads and read jobs.
Many jobs run in one process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import pathlib
import platform
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .cache import cache_directory

ORDERS: tuple[Literal["forward", "reversed", "random"], ...] = ("forward", "reversed", "random")

_HERE = pathlib.Path(__file__).parent
_HEADER = "job_runner.h"
_HOST_SOURCES = (_HERE / "cuda_host.cpp", _HERE / "job_runner.cpp", _HERE / "matrix_host.cpp")
_FLAGS = (
    "-std=c++20",
    "-Og",
    "-g1",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-omit-frame-pointer",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-fsanitize=address,undefined",
    # What AddressSanitizer stops anyway, and what no kernel has.
    "-fno-sanitize=null,object-size,nonnull-attribute,returns-nonnull-attribute,pointer-overflow,vptr",
    "-fno-sanitize-recover=all",
    "-fsanitize-sections=shared_memory",
    # Kernels run for milliseconds and compile for seconds: accesses are checked by calls, which are little code.
    "--param=asan-instrumentation-with-call-threshold=0",
    "-w",
)
# Sanitizers watch kernels; what runs these looks at their memory itself, and sets rounding modes.
_HOST_FLAGS = ("-O3", "-frounding-math", "-fno-sanitize=all")
_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=0:exitcode=1",
    "UBSAN_OPTIONS": "print_stacktrace=0",
}


class EmulationError(Exception):
    """A kernel was stopped: by a sanitizer, or because its threads wait for each other in vain."""


def why_unavailable() -> str | None:
    """Why kernels cannot be emulated here, or None if they can."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return f"the emulator's fibers are for Linux on x86-64, not {platform.system()} on {platform.machine()}"
    if _compiler() is None:
        return "there is no g++ (set CXX to name one)"
    return None


@dataclasses.dataclass(frozen=True, eq=False)
class Buffer:
    """Device memory with these initial bytes, aligned to `alignment` bytes and to no more, with poison around it."""

    data: npt.NDArray[Any] | bytes
    alignment: int = 16

    def __post_init__(self) -> None:
        if self.alignment < 1 or self.alignment & (self.alignment - 1):
            raise ValueError(f"alignment={self.alignment} is not a power of two")


@dataclasses.dataclass(frozen=True, eq=False)
class Pointer:
    """The address `offset` bytes into a buffer."""

    buffer: Buffer
    offset: int = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """A struct passed by value: its bytes, and the addresses to write at byte positions in them."""

    data: bytes
    pointers: tuple[tuple[int, Pointer], ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class Job:
    """One launch of a kernel. Arguments are buffers, pointers, records, or NumPy scalars of the parameter's type."""

    kernel: str
    grid: Sequence[int]
    block: Sequence[int]
    arguments: Sequence[Buffer | Pointer | Record | np.generic]
    shared_bytes: int = 0
    order: Literal["forward", "reversed", "random"] = "forward"
    seed: int = 0
    label: str = ""

    def buffers(self) -> list[Buffer]:
        """The buffers that the arguments name, each once, in order of appearance."""
        found: dict[int, Buffer] = {}
        for argument in self.arguments:
            for _, pointer in _record(argument).pointers:
                found.setdefault(id(pointer.buffer), pointer.buffer)
        return list(found.values())

    def pack(self, kernel_number: int) -> bytes:
        """The job as job_runner.h reads it."""
        buffers = self.buffers()
        numbers = {id(buffer): number for number, buffer in enumerate(buffers)}
        header = (kernel_number, *_extent(self.grid), *_extent(self.block), self.shared_bytes)
        parts = [struct.pack("<11I", *header, ORDERS.index(self.order), self.seed, len(buffers))]
        for buffer in buffers:
            content = _bytes(buffer)
            parts += [struct.pack("<QQ", len(content), buffer.alignment), content]
        parts.append(struct.pack("<I", len(self.arguments)))
        for argument in self.arguments:
            record = _record(argument)
            parts += [struct.pack("<I", len(record.data)), record.data, struct.pack("<I", len(record.pointers))]
            parts += [struct.pack("<IIq", at, numbers[id(to.buffer)], to.offset) for at, to in record.pointers]
        return b"".join(parts)


@dataclasses.dataclass(frozen=True)
class Program:
    """Kernels compiled for the host, by name."""

    executable: pathlib.Path
    kernels: tuple[str, ...]

    @classmethod
    def compile(cls, source: str, kernels: Iterable[str]) -> Program:
        """Compile a source, or take it from the cache.

        Args:
            source: the text that NVRTC would get, without include lines.
            kernels: names of the kernels to run, templates with their arguments, as in C++: ``"copy<sg::uint32>"``.

        Raises:
            EmulationError: it does not compile; the message is the compiler's.
        """
        names = tuple(kernels)
        entries = ",\n    ".join(f"ENTRY({name})" for name in names)
        text = f'#include "{_HEADER}"\n{source}\nRUN_KERNELS(\n    {entries})\n'
        executable = cache_directory() / _hash(_host_key(), text)
        if not executable.exists():
            _build(text, executable)
        return cls(executable, names)

    def run(self, jobs: Sequence[Job], timeout: float = 1800) -> list[list[bytes]]:
        """Run the jobs in order; the bytes of each job's buffers afterwards.

        Raises:
            EmulationError: a job was stopped. The message has its label and the reason.
        """
        packed = struct.pack("<I", len(jobs)) + b"".join(job.pack(self.kernels.index(job.kernel)) for job in jobs)
        with tempfile.TemporaryDirectory(prefix="stridedgpu-") as directory:
            job_file, result_file = pathlib.Path(directory, "jobs"), pathlib.Path(directory, "results")
            job_file.write_bytes(packed)
            ran = subprocess.run(
                [self.executable, job_file, result_file],
                env={**os.environ, **_ENVIRONMENT},
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
            )
            content = result_file.read_bytes() if result_file.exists() else b""
        results: list[list[bytes]] = []
        at = 0
        for job in jobs:
            sizes = [len(_bytes(buffer)) for buffer in job.buffers()]
            if at + sum(sizes) > len(content):
                break
            results.append([content[at + sum(sizes[:i]) : at + sum(sizes[: i + 1])] for i in range(len(sizes))])
            at += sum(sizes)
        if ran.returncode:
            stopped = jobs[min(len(results), len(jobs) - 1)]
            raise EmulationError(f"{stopped.label or stopped.kernel} ({stopped.order} order): {ran.stderr[:4000]}")
        return results


def _record(argument: Buffer | Pointer | Record | np.generic) -> Record:
    if isinstance(argument, Record):
        return argument
    if isinstance(argument, np.generic):
        return Record(argument.tobytes())
    pointer = Pointer(argument) if isinstance(argument, Buffer) else argument
    return Record(bytes(8), ((0, pointer),))


def _bytes(buffer: Buffer) -> bytes:
    return buffer.data if isinstance(buffer.data, bytes) else buffer.data.tobytes()


def _extent(extent: Sequence[int]) -> tuple[int, ...]:
    return (*extent, *[1] * (3 - len(extent)))


def _compiler() -> str | None:
    return shutil.which(os.environ.get("CXX", "g++"))


@functools.cache
def _compiler_version() -> str:
    compiler = _compiler()
    assert compiler is not None, why_unavailable()
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout


def _hash(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]


@functools.cache
def _host_key() -> str:
    """The hash of all that programs have in common."""
    files = (*sorted(_HERE.glob("*.h")), *_HOST_SOURCES)
    return _hash(_compiler_version(), *_FLAGS, *_HOST_FLAGS, *(file.read_text(encoding="utf-8") for file in files))


def _host() -> pathlib.Path:
    """A folder with what all programs share: the header, precompiled, and the objects to link."""
    host = cache_directory() / f"host-{_host_key()}"
    if not host.exists():
        with tempfile.TemporaryDirectory(dir=host.parent) as directory:
            built = pathlib.Path(directory, "host")
            built.mkdir()
            _compile("-x", "c++-header", _HERE / _HEADER, "-o", built / f"{_HEADER}.gch")
            for source in _HOST_SOURCES:
                _compile(*_HOST_FLAGS, "-c", source, "-o", built / f"{source.stem}.o")
            # Another process may have been faster.
            with contextlib.suppress(OSError):
                built.rename(host)
    return host


def _build(text: str, executable: pathlib.Path) -> None:
    """Compile beside the final place and move there, so that another process never runs half a program."""
    host = _host()
    with tempfile.TemporaryDirectory(dir=executable.parent) as directory:
        unit, built = pathlib.Path(directory, "unit.cpp"), pathlib.Path(directory, "program")
        unit.write_text(text, encoding="utf-8")
        # The compiler looks for the precompiled header beside each place where the header may be.
        _compile(f"-I{host}", f"-I{_HERE}", unit, *sorted(host.glob("*.o")), "-o", built)
        built.replace(executable)


def _compile(*arguments: str | pathlib.Path) -> None:
    """Run g++ with the flags that all units share, as a precompiled header demands."""
    compiler = _compiler()
    assert compiler is not None, why_unavailable()
    command = [compiler, *_FLAGS, *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise EmulationError(f"g++ refused the source:\n{ran.stderr[:8000]}")
