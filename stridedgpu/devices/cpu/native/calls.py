"""Builtin functions of CPython around functions of the native library: a call takes a tenth of one through `ctypes`.

    self         a `bytes` object with what the library's side of the call needs
    arguments    integers, each converted by PyLong_AsVoidPtr
    GIL          PyEval_SaveThread, the call, PyEval_RestoreThread; or kept for brief work

Outside of CPython calls go through `ctypes`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from struct import pack
from typing import Any, Final

from stridedgpu.devices.cpu.policy import policy

from .library import function, library

_METH_FASTCALL: Final = 0x80
"""The calling convention of the library's builtin functions: `self`, an array of arguments, and their number."""

_MOST_ARGUMENTS: Final = 6
"""Arguments of a function that `python_function` can call."""


def native_function(family: str, place: int = 0) -> int:
    """The address of a function of the library, on the level that the policy chooses."""
    level = policy().native_level
    assert level is not None, "what is planned for the library runs on it"
    return function(level, family, place)


class NativeFunction:
    """A loop at an address, for native code that calls it; and for Python, which not every loop needs."""

    def __init__(self, address: int) -> None:
        self.address = address

    @classmethod
    def of(cls, family: str, place: int = 0) -> NativeFunction:
        """The loop at a place of a family of the library."""
        return cls(native_function(family, place))

    @cached_property
    def alone(self) -> Callable[[int, int, int, int, int], None]:
        """`alone(source, target, parameters, first, last)` runs the items from `first` to `last`.

        The first three arguments are addresses. The call releases Python's lock.
        """
        return python_function(self.address, 5)


def python_function(address: int, arity: int) -> Callable[..., None]:
    """The function at an address as a Python function of so many 64-bit integers, which returns None.

    A call releases Python's lock. It does not check its arguments: their number and types must be right.
    """
    assert arity <= _MOST_ARGUMENTS, "the library passes on so many"
    if sys.implementation.name == "cpython":
        return builtin("stridedgpu_call", pack("=Q", address))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arity)(address)


def moving_function(
    loop: NativeFunction,
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
    has_indices = len(offsets) == 3
    source, target = (1, 0) if target_first else (0, 1)
    if sys.implementation.name == "cpython":
        indexed = offsets[2] if has_indices else 0
        numbers = offsets[source], offsets[target], indexed, source, target, int(has_indices), int(keeps_lock)
        return builtin("stridedgpu_move", pack("=3Q7q", loop.address, parameters, items, *numbers), owner)
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(loop.address)

    def move(*addresses: int, _owner: object = owner) -> None:
        if has_indices:
            ctypes.c_uint64.from_address(parameters).value = addresses[2] + offsets[2]
        run(addresses[source] + offsets[source], addresses[target] + offsets[target], parameters, 0, items)

    return move


def runs_alone() -> bool:
    """Whether functions that keep Python's lock run one after another: calls may then have parameters in common."""
    is_locked: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    return sys.implementation.name == "cpython" and is_locked()


class _Definition(ctypes.Structure):
    """CPython's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


_DEFINITIONS: Final[dict[str, _Definition]] = {}
"""The definition for each function of the library that a builtin function calls: CPython refers to it for ever."""


def builtin(name: str, contents: bytes, owner: object = None) -> Callable[..., None]:
    """A builtin function by the library's function of this name, with the contents of its `self`.

    It keeps an `owner` alive as its module.
    """
    definition = _DEFINITIONS.get(name)
    if definition is None:
        address = ctypes.cast(getattr(library(), name), ctypes.c_void_p).value
        definition = _DEFINITIONS.setdefault(name, _Definition(b"run", address, _METH_FASTCALL, None))
    make: Any = ctypes.pythonapi.PyCFunction_NewEx
    make.argtypes, make.restype = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object), ctypes.py_object
    function: Callable[..., None] = make(ctypes.addressof(definition), contents, owner)
    return function
