"""Machine code of LLVM text for a target: from the cache on disk, else compiled by llvmlite in a process of its own.

The cache key covers the whole text, the compiler's version and the target's instruction sets: everything that
determines the machine code, and nothing else. llvmlite is the compiler under Numba. Numba itself would cost half a
second in every process before its first cached kernel runs. Where nothing can be compiled or loaded, `why_unavailable`
says why, and NumPy does the work.

Python calls loops as builtin functions of CPython, with the calling code of an extension module, which takes a fifth of
the time of a call through `ctypes`. All that it uses is in CPython's stable ABI:

    self         a `bytes` object with the addresses of that function, of CPython's own functions, and of None; then
                 a word for each parameter of the function, and one for each further argument
    arguments    integers, each converted by PyLong_AsVoidPtr, and added to a word
    GIL          PyEval_SaveThread, the call, PyEval_RestoreThread
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from struct import pack
from typing import Final, Protocol

from stridedgpu.devices.cpu.executable_memory import why_refused
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.target import Target
from stridedgpu.devices.settings import variable

from . import kernel_cache
from .compiler import Compiler, CompilerError, LoopError, library
from .ir import Code, Value, needs_of
from .object_file import functions_of

DISABLING: Final = "STRIDEDGPU_COMPILED"
"""The environment variable that disables compiled loops when it is "0"."""

_disabled: Final = variable(DISABLING)

_METH_FASTCALL: Final = 0x80
"""The calling convention of `python_function_text`: `self`, an array of arguments, and their number."""


class CompiledFunction:
    """A compiled loop at an address, for compiled code that calls it; and for Python, which not every loop needs."""

    def __init__(self, address: int) -> None:
        self.address = address

    @cached_property
    def alone(self) -> Callable[[int, int, int, int, int], None]:
        """`alone(source, target, parameters, first, last)` runs the items from `first` to `last`.

        The first three arguments are addresses. The call releases Python's lock.
        """
        return python_function(self.address, 5)


def why_unavailable() -> str | None:
    """None if kernels can be compiled and run; else the reason, and what would help."""
    if _disabled() == "0":
        return f"{DISABLING}=0 leaves all work to NumPy"
    missing = None if library() else 'compiled loops would be faster than NumPy; pip install "stridedgpu[cpu]"'
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


def python_function(address: int, arity: int) -> Callable[..., None]:
    """The function at an address as a Python function of so many unsigned 64-bit integers, which returns None.

    A call releases Python's lock. It does not check its arguments: their number and types must be right. Outside of
    CPython, and where this cannot be compiled, it goes through `ctypes`.
    """
    try:
        return _builtin(_definition(tuple(range(arity)), None, keeps_lock=False), address, (0,) * arity)
    except LoopError:
        return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arity)(address)


def moving_function(
    loop: CompiledFunction,
    parameters: int,
    items: int,
    offsets: Sequence[int],
    *,
    owner: object,
    keeps_lock: bool,
    target_first: bool = False,
) -> Callable[..., None]:
    """A loop as a function of addresses, for all its items and the parameters at an address.

    Arguments: source, target[, indices]; the indices' address goes to parameter 0. `target_first`: target, source.
    Each offset is added to an address. A call releases Python's lock unless it `keeps_lock`. The function keeps the
    `owner` of the parameters alive. A function of indices must not be called twice at a time.
    """
    sides = (1, 0) if target_first else (0, 1)
    read, written = (offsets[side] for side in sides)
    passed, stored = (*sides, None, None, None), None if len(offsets) == 2 else 2
    words = (read, written, parameters, 0, items, *offsets[2:])
    try:
        return _builtin(_definition(passed, stored, keeps_lock=keeps_lock), loop.address, words, owner)
    except LoopError:
        run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(loop.address)

    def move(*addresses: int, _owner: object = owner) -> None:
        if stored is not None:
            ctypes.c_uint64.from_address(parameters).value = addresses[stored] + offsets[stored]
        run(addresses[sides[0]] + read, addresses[sides[1]] + written, parameters, 0, items)

    return move


def runs_alone() -> bool:
    """Whether functions that keep Python's lock run one after another: calls may then have parameters in common."""
    is_locked: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    return sys.implementation.name == "cpython" and is_locked()


_PYTHON_FUNCTIONS: Final = ("PyLong_AsVoidPtr", "PyEval_SaveThread", "PyEval_RestoreThread", "Py_IncRef")
"""The functions of CPython whose addresses follow the called function's in `self`; then comes None."""


def python_function_text(
    offset: int, passed: tuple[int | None, ...], stored: int | None = None, *, keeps_lock: bool = False
) -> str:
    """The module with the function `kernel(self, arguments, count)`.

    `offset` is the number of bytes from a `bytes` object to its contents. `passed` are the numbers of the arguments
    that are added to the words of the function's parameters; None adds nothing. The argument `stored` goes, with the
    word behind those, to the address that is the third parameter: it is the place of indices.
    """
    code = Code("ptr self", "ptr arguments", "i64 count", returns="ptr")

    def of_self(place: int, type_: str) -> Value:
        return (code.argument("self") + (offset + 8 * place)).load(type_)

    names = ("function", *_PYTHON_FUNCTIONS, "none")
    known = {name: of_self(place, "ptr") for place, name in enumerate(names)}

    def word(place: int, argument: int | None) -> Value:
        constant = of_self(len(names) + place, "i64")
        if argument is None:
            return constant.pointer()
        number = (code.argument("arguments") + 8 * argument).load("ptr", 8)
        return known["PyLong_AsVoidPtr"](number, returns="ptr") + constant

    words = [word(place, argument) for place, argument in enumerate(passed)]
    if stored is not None:
        code.store(word(len(passed), stored), words[2], 8)
    state = None if keeps_lock else known["PyEval_SaveThread"](returns="ptr")
    known["function"](*words)
    if state is not None:
        known["PyEval_RestoreThread"](state)
    known["Py_IncRef"](known["none"])
    code.give(known["none"])
    return code.text("kernel")


class _Definition(ctypes.Structure):
    """CPython's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


@cache
def _definition(passed: tuple[int | None, ...], stored: int | None, *, keeps_lock: bool) -> _Definition:
    """The definition of builtin functions that pass on these arguments. Two threads may get one each.

    Raises `LoopError` outside of CPython, and where it cannot be compiled.
    """
    if sys.implementation.name != "cpython":
        raise LoopError(f"{sys.implementation.name} has no builtin functions of CPython")
    contents = b"contents"
    offset = (ctypes.cast(ctypes.c_char_p(contents), ctypes.c_void_p).value or 0) - id(contents)
    (address,) = machine_functions(python_function_text(offset, passed, stored, keeps_lock=keeps_lock), "")
    definition = _Definition(b"run", address, _METH_FASTCALL, None)
    _KEPT.append(definition)
    return definition


_KEPT: Final[list[_Definition]] = []
"""Every definition: CPython refers to them for ever."""


def _builtin(definition: _Definition, address: int, words: Sequence[int], owner: object = None) -> Callable[..., None]:
    """A builtin function that calls the function at an address, and keeps an `owner` alive as its module."""
    functions = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _PYTHON_FUNCTIONS]
    contents = pack(f"={len(functions) + 2}Q", address, *functions, id(None))
    contents += b"".join(pack("=Q", word % (1 << 64)) for word in words)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.argtypes, make.restype = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object), ctypes.py_object
    function: Callable[..., None] = make(ctypes.addressof(definition), contents, owner)
    return function


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
