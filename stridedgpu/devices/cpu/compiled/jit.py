"""Compile LLVM text to machine code for this processor, by llvmlite, with a cache on disk.

The cache key covers the whole text, the compiler's version and the processor's features: everything that determines the
machine code, and nothing else. A process that finds all its kernels there does not load the compiler. llvmlite is the
compiler under Numba. Numba itself would cost half a second in every process before its first cached kernel runs.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import mmap
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache, cached_property, lru_cache
from operator import add
from struct import pack
from typing import Any, Final

from stridedgpu.values.environment import variable
from stridedgpu.values.errors import DeviceError

from . import kernel_cache
from .object_file import functions_of
from .python_function_ir import PYTHON_FUNCTIONS, moving_function_text, python_function_text
from .target import Target, record_name, remember, remembered

__all__ = [
    "COMPILING",
    "DISABLING",
    "Loop",
    "assembly",
    "compiled",
    "machine_functions",
    "moving_function",
    "processor",
    "processor_features",
    "python_function",
    "why_unavailable",
]

DISABLING: Final = "STRIDEDGPU_COMPILED"
"""The environment variable that disables compiled loops when it is "0"."""

_disabled: Final = variable(DISABLING)

_METH_FASTCALL: Final = 0x80
"""The calling convention of `python_function_text`: `self`, an array of arguments, and their number."""


class Loop:
    """A compiled loop at an address, for compiled code that calls it; and for Python, which not every loop needs."""

    def __init__(self, address: int) -> None:
        """Remember the address."""
        self.address = address

    @cached_property
    def alone(self) -> Callable[[int, int, int, int, int], None]:
        """`alone(source, target, parameters, first, last)` runs the items from `first` to `last`.

        The first three arguments are addresses. The call releases Python's lock.
        """
        return python_function(self.address, 5)


def why_unavailable() -> str | None:
    """None if kernels can be compiled; else the reason, and what would help."""
    if _disabled() == "0":
        return f"{DISABLING}=0 leaves all work to NumPy"
    return _why_not_here()


@lru_cache(maxsize=1)
def _why_not_here() -> str | None:
    """What this machine lacks, without loading the compiler."""
    if sys.byteorder != "little" or sys.maxsize < 2**32:
        return "kernels are compiled for little-endian processors of 64 bits only"
    if importlib.util.find_spec("llvmlite") is None:
        return 'compiled loops would be faster than NumPy; pip install "stridedgpu[cpu]"'
    return None


def compiled(text: Callable[[str], str]) -> Loop | None:
    """The loop of the module `text(name)`, compiled now or loaded from the cache.

    None where this processor lacks the instructions that conversions rely on.
    """
    with COMPILING:
        if _target().lacks:
            return None
        (address,) = machine_functions(text("kernel"), "")
        return Loop(address)


def machine_functions(text: str, *endings: str) -> tuple[int, ...]:
    """The addresses of a module's functions, named `kernel` followed by each of `endings`.

    They are compiled now or taken from the cache. Machine code is never freed, so each module is loaded once and its
    addresses are kept for the life of the process. Raises `DeviceError` without the memory to do so.
    """
    with COMPILING:
        digest = hashlib.sha256(f"{_target().identity}\n{text}".encode()).hexdigest()[:32]
        found = _LOADED.get(digest)
        if found is None:
            _check_room(_KERNEL_BYTES)
            name = f"kernel_{digest}"
            machine_code = kernel_cache.read(digest)
            if machine_code is None:
                machine_code = _compiler().machine_code(text.replace("@kernel", f"@{name}"))
                kernel_cache.write(digest, machine_code)
            names = [name + ending for ending in endings]
            found = _LOADED[digest] = functions_of(machine_code, *names) or _compiler().load(machine_code, *names)
        return found


_LIBRARY_BYTES: Final = 256 << 20
"""Address space for the compiler, which grew a process by 220 MiB: llvmlite 0.50's library alone has 171."""

_KERNEL_BYTES: Final = 32 << 20
"""Address space for one module; compiling and loading one of each operation grew a process by less than 8 MiB each."""


def _check_room(nbytes: int) -> None:
    """Raise `DeviceError` unless the process may have so much more address space.

    LLVM ends the process when an allocation fails, so a limit (`ulimit -v`, RLIMIT_AS) has to be noticed before.
    """
    try:
        mmap.mmap(-1, nbytes).close()
    except (OSError, MemoryError):
        raise DeviceError(
            f"The CPU has no {nbytes >> 20} MiB of memory left for the compiler of its loops; {DISABLING}=0 leaves "
            "all work to NumPy."
        ) from None


_LOADED: Final[dict[str, tuple[int, ...]]] = {}
"""The function addresses of every loaded module, by the digest of its text and compiler: some 200 bytes each."""


class _Definition(ctypes.Structure):
    """CPython's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


def python_function(address: int, arity: int) -> Callable[..., None]:
    """The function at an address as a Python function of so many unsigned 64-bit integers, which returns None.

    A call releases Python's lock. It does not check its arguments: their number and types must be right. Outside of
    CPython it goes through `ctypes`.
    """
    if sys.implementation.name != "cpython":
        return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arity)(address)
    return _builtin(_of_words(arity), address)


def moving_function(
    loop: Loop,
    parameters: int,
    items: int,
    offsets: Sequence[int],
    *,
    held: object,
    keeps_lock: bool,
    target_first: bool = False,
) -> Callable[..., None]:
    """A loop as a function of the addresses of its sides, for all its items and the parameters at an address.

    The sides are a source, a target and, if there is a third offset, indices, whose place is the first parameter;
    `target_first`: a target and a source. Each offset is added to an address. A call releases Python's lock unless it
    `keeps_lock`. The function keeps what is `held` alive: the parameters. One of indices is not called twice at a time.
    """
    if sys.implementation.name == "cpython":
        definition = _of_move(len(offsets), keeps_lock, target_first)
        words = pack(f"=QQ{len(offsets)}q", parameters, items, *offsets)
        return _builtin(definition, loop.address, words, held)
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(loop.address)

    def move(*addresses: int, _held: object = held) -> None:
        one, other, *indices = map(add, addresses, offsets)
        for first in indices:
            ctypes.c_uint64.from_address(parameters).value = first
        run(*((other, one) if target_first else (one, other)), parameters, 0, items)

    return move


def runs_alone() -> bool:
    """Whether functions that keep Python's lock run one after another, so that calls may have parameters in common."""
    is_locked: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    return sys.implementation.name == "cpython" and is_locked()


def _builtin(definition: _Definition, address: int, more: bytes = b"", held: object = None) -> Callable[..., None]:
    """A builtin function of `python_function_ir` that calls the function at an address.

    It keeps what is `held` alive, in the place of its module.
    """
    functions = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in PYTHON_FUNCTIONS]
    words = pack(f"={len(functions) + 2}Q", address, *functions, id(None)) + more
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.argtypes, make.restype = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object), ctypes.py_object
    function: Callable[..., None] = make(ctypes.addressof(definition), words, held)
    return function


@cache
def _of_words(arity: int) -> _Definition:
    """The definition of functions of so many words."""
    return _defined(python_function_text(_contents_offset(), arity))


@cache
def _of_move(sides: int, keeps_lock: bool, target_first: bool) -> _Definition:
    """The definition of functions of moves."""
    text = moving_function_text(_contents_offset(), sides, keeps_lock=keeps_lock, target_first=target_first)
    return _defined(text)


def _defined(text: str) -> _Definition:
    """The definition of a module's builtin function. Two threads may ask for the first one at a time, and get two."""
    (address,) = machine_functions(text, "")
    definition = _Definition(b"run", address, _METH_FASTCALL, None)
    _KEPT.append(definition)
    return definition


_KEPT: Final[list[_Definition]] = []
"""Every definition: CPython refers to them for ever."""


def _contents_offset() -> int:
    """Bytes from a `bytes` object to its contents."""
    contents = b"contents"
    return (ctypes.cast(ctypes.c_char_p(contents), ctypes.c_void_p).value or 0) - id(contents)


def assembly(text: str) -> str:
    """The assembly of a module for this processor, to read."""
    with COMPILING:
        return _compiler().assembly(text)


def processor() -> str:
    """The processor's architecture, as in LLVM's triples: "x86_64", "aarch64" and others."""
    with COMPILING:
        return _target().processor


def processor_features() -> frozenset[str]:
    """The names of the instruction sets that kernels may use, as LLVM spells them."""
    with COMPILING:
        return _target().features


COMPILING: Final = threading.RLock()
"""Held while the compiler is loaded or at work."""

if hasattr(os, "register_at_fork"):
    # A fork waits for a running compilation: the child would inherit a half-finished compiler and a lock held for ever.
    os.register_at_fork(before=COMPILING.acquire, after_in_parent=COMPILING.release, after_in_child=COMPILING.release)


class _Compiler:
    """LLVM, configured for the processor that this program runs on."""

    def __init__(self) -> None:
        _check_room(_LIBRARY_BYTES)
        import llvmlite.binding as llvm

        self._llvm = llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._generator = llvm.Target.from_default_triple()
        flags = llvm.get_host_cpu_features().flatten()
        version, triple = str(llvm.llvm_version_info), str(self._generator.triple)
        self.target = Target(version, triple, llvm.get_host_cpu_name(), flags)
        self._machine = self._new_machine()

    def _new_machine(self) -> Any:
        cpu, flags = self.target.cpu, self.target.flags
        return self._generator.create_target_machine(
            cpu=cpu, features=flags, opt=3, reloc="default", codemodel="jitdefault", jit=True
        )

    @cached_property
    def _engine(self) -> Any:
        """LLVM's loader, for object files that `object_file` does not load."""
        return self._llvm.create_mcjit_compiler(self._llvm.parse_assembly(""), self._new_machine())

    def machine_code(self, text: str) -> bytes:
        """Compile a module to an object file."""
        module = self._llvm.parse_assembly(text)
        module.verify()
        return bytes(self._machine.emit_object(module))

    def assembly(self, text: str) -> str:
        """Compile a module to assembly text."""
        return str(self._machine.emit_assembly(self._llvm.parse_assembly(text)))

    def load(self, machine_code: bytes, *names: str) -> tuple[int, ...]:
        """Load an object file; the addresses of the named functions."""
        self._engine.add_object_file(self._llvm.ObjectFileRef.from_data(machine_code))
        self._engine.finalize_object()
        return tuple(int(self._engine.get_function_address(name)) for name in names)


@lru_cache(maxsize=1)
def _compiler() -> _Compiler:
    return _Compiler()


@lru_cache(maxsize=1)
def _target() -> Target:
    """What LLVM generates code for, from its record or from LLVM."""
    name = record_name()
    target = remembered(name)
    if target is None:
        target = _compiler().target
        remember(name, target)
    return target
