"""Machine code of LLVM text for a target: from the cache on disk, else compiled by llvmlite in a process of its own.

The cache key covers the whole text, the compiler's version and the target's instruction sets: everything that
determines the machine code, and nothing else. llvmlite is the compiler under Numba. Numba itself would cost half a
second in every process before its first cached kernel runs. Where nothing can be compiled or loaded, `why_unavailable`
says why, and NumPy does the work.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Final, Protocol

from stridedgpu.devices.cpu.executable_memory import why_refused
from stridedgpu.devices.cpu.native.calls import CompiledFunction
from stridedgpu.devices.cpu.native.library import DISABLING, why_unavailable as library_missing
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.target import Target

from . import kernel_cache
from .compiler import Compiler, CompilerError, LoopError, library
from .ir import needs_of
from .object_file import functions_of


def why_unavailable() -> str | None:
    """None if kernels can be compiled and run; else the reason, and what would help."""
    no_library = library_missing()
    if no_library is not None:
        return no_library
    missing = (
        None
        if library()
        else 'patches and pixels of many channels would be faster by compiled loops; pip install "stridedgpu[cpu]"'
    )
    return why_refused() or policy().target.lacks or missing or _FAILED.reason


def try_compiler() -> None:
    """Start the compiler where it could be needed: `why_unavailable` knows then whether it can be loaded."""
    if why_unavailable() is None:
        with COMPILING, suppress(LoopError):
            assembly("")


_MOST_DEATHS: Final = 3
"""Deaths of the compiler after which it is not started again: each took some 50 ms, and one is of one text."""


class _Failed:
    """What compiling has failed at in this process.

    `texts` are the digests of modules that ended the compiler. `reason` says why nothing is compiled any more.
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.reason: str | None = None

    def note(self, digest: str, error: CompilerError) -> None:
        self.texts[digest] = str(error)
        if error.permanent or len(self.texts) >= _MOST_DEATHS:
            self.reason = str(error)


_FAILED: Final = _Failed()


def compiled(text: Callable[[str], str]) -> CompiledFunction:
    """The loop of the module `text(name)`, compiled now or loaded from the cache.

    Raises `LoopError` where it cannot be: NumPy does the work then.
    """
    (address,) = machine_functions(text("kernel"), "")
    return CompiledFunction(address)


class HasText(Protocol):
    """A kernel: a value whose method writes its module."""

    def text(self, name: str) -> str:
        """The module with a function of this name."""

    def __hash__(self) -> int:
        """Equal kernels have equal texts for one target."""


def loop_of(kernel: HasText) -> CompiledFunction:
    """The loop of a kernel for the policy's target, whose text is written once. Raises `LoopError`."""
    return _loop_of(kernel, policy().target)


@lru_cache(maxsize=1024)
def _loop_of(kernel: HasText, target: Target) -> CompiledFunction:  # noqa: ARG001 - a text depends on it
    return compiled(kernel.text)


def machine_functions(text: str, *endings: str) -> tuple[int, ...]:
    """The addresses of a module's functions, named `kernel` followed by each of `endings`.

    They are compiled now or taken from the cache. Machine code is never freed, so each module is loaded once and its
    addresses are kept for the life of the process. Raises `LoopError` where that fails: without memory for it, on a
    processor that lacks what the module needs, or by an error of the compiler.
    """
    with COMPILING:
        target, llvmlite = policy().target, library()
        identity = None if llvmlite is None else llvmlite.identity
        digest = hashlib.sha256(f"{target.identity}\n{identity}\n{text}".encode()).hexdigest()[:32]
        addresses = _LOADED.get(digest)
        if addresses is None:
            _check_target(text, target)
            name = f"kernel_{digest}"
            object_file = cached = None if identity is None else kernel_cache.read(digest)
            if object_file is None:
                object_file = _compiled_now(digest, text.replace("@kernel", f"@{name}"), target)
            loaded = functions_of(object_file, *(name + ending for ending in endings))
            if loaded is None:
                raise LoopError(
                    f"A compiled loop of {len(object_file)} bytes cannot be loaded: the CPU has no memory left, or "
                    f"makes none executable. {DISABLING}=0 leaves all work to NumPy."
                )
            if cached is None and identity is not None:
                kernel_cache.write(digest, object_file)
            addresses = _LOADED[digest] = loaded
        return addresses


def _check_target(text: str, target: Target) -> None:
    """Raise `LoopError` unless the module can run here, and the target has what its intrinsics need."""
    if not target.runs_on(Target.here()):
        raise LoopError(f"Loops for {target.words} cannot run on this processor, {Target.here().words}.")
    missing = sorted(needs_of(text) - target.features)
    if missing:
        raise LoopError(f"A loop needs {', '.join(missing)}, which {target.words} lacks.")


def _compiled_now(digest: str, text: str, target: Target) -> bytes:
    said = _FAILED.reason or _FAILED.texts.get(digest)
    if said is not None:
        raise LoopError(f"{said}. {DISABLING}=0 leaves all work to NumPy.")
    try:
        return _COMPILER.object_file(text, target)
    except CompilerError as error:
        _FAILED.note(digest, error)
        raise


_LOADED: Final[dict[str, tuple[int, ...]]] = {}
"""The function addresses of every loaded module, by the digest of its text and compiler: some 200 bytes each."""


def assembly(text: str) -> str:
    """The assembly of a module for the policy's target, to read."""
    with COMPILING:
        try:
            return _COMPILER.assembly(text, policy().target)
        except CompilerError as error:
            _FAILED.note(text, error)
            raise


COMPILING: Final = threading.RLock()
"""Held while the compiler is loaded or at work."""

_COMPILER: Final = Compiler()


def _leave_compiler() -> None:
    """In a fork's child: the compiler is the parent's."""
    _COMPILER.forget()
    COMPILING.release()


if hasattr(os, "register_at_fork"):
    # A fork waits for a running compilation: the child would inherit half of an answer and a lock held for ever.
    os.register_at_fork(before=COMPILING.acquire, after_in_parent=COMPILING.release, after_in_child=_leave_compiler)
