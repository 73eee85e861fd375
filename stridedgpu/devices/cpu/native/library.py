"""The native library: the file that is made of `kernels/cpu` when the package is built, and its functions.

The library is plain C: it exports functions by name and needs nothing of Python's but the addresses of a few functions
of the stable ABI, which it is handed when it is loaded. One file serves every Python from 3.11 on. Where there is none,
`why_unavailable` says why, and NumPy does the work.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from functools import lru_cache
from typing import Any, Final

from stridedgpu.devices.settings import variable
from stridedgpu.values.errors import DeviceError

DISABLING: Final = "STRIDEDGPU_COMPILED"
"""The environment variable that leaves all work to NumPy when it is "0"."""


def architecture() -> str:
    """The processor's architecture as Linux names it: "x86_64", "aarch64" and others."""
    name = os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name.lower(), name)


PATH: Final = f"{__file__.removesuffix('library.py')}kernels-{architecture()}.bin"
"""The file; with the suffix of a shared library it would look like an extension module of Python's."""

_PYTHON_FUNCTIONS: Final = (
    "PyLong_AsVoidPtr",
    "PyBytes_AsString",
    "PyErr_Occurred",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "Py_IncRef",
    "PyThread_acquire_lock",
    "PyThread_release_lock",
)
"""The members of `Python` in kernels/cpu/python_abi.hpp, before None."""

_disabled: Final = variable(DISABLING)


def why_unavailable() -> str | None:
    """None if there is a native library that may be used; else the reason.

    Whether this processor has what a level of the library needs, `Target.lacks` says.
    """
    if _disabled() == "0":
        return f"{DISABLING}=0 leaves all work to NumPy"
    return _loaded()[1]


_MISSING: Final = (
    "this installation has no native library, so NumPy does the work at a fraction of the speed: it was not built "
    "(`pip install --force-reinstall --no-cache-dir --verbose stridedgpu` says why)"
)


def library() -> Any:
    """The loaded library, or None with one warning where there is none.

    Raises `DeviceError` where no memory is left to load it: a later call may have some.
    """
    return _loaded()[0]


@lru_cache(maxsize=1)
def _loaded() -> tuple[Any, str | None]:
    """The library, or None and the reason."""
    try:
        loaded = ctypes.CDLL(PATH)
        python = ctypes.pythonapi
        addresses = [ctypes.cast(getattr(python, name), ctypes.c_void_p).value for name in _PYTHON_FUNCTIONS]
    except (AttributeError, OSError) as error:
        reason = _MISSING
        if os.path.exists(PATH):  # noqa: PTH110 - importing `Path` takes 4 ms
            try:
                bytearray(2 * os.path.getsize(PATH))  # noqa: PTH202
            except MemoryError:
                raise DeviceError("The CPU has no memory left to load the native library.") from error
            reason = f"the native library cannot be loaded ({error}), so NumPy does the work at a fraction of the speed"
        warnings.warn(f"stridedgpu: {reason}.", RuntimeWarning, stacklevel=2)
        return None, reason
    loaded.stridedgpu_connect((ctypes.c_void_p * (len(addresses) + 1))(*addresses, id(None)))
    loaded.stridedgpu_level.restype = ctypes.c_char_p
    loaded.stridedgpu_level.argtypes = (ctypes.c_int64,)
    loaded.stridedgpu_function.restype = ctypes.c_void_p
    loaded.stridedgpu_function.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64)
    return loaded, None


@lru_cache(maxsize=1)
def levels() -> tuple[str, ...]:
    """The levels of instructions that the library has loops for, by the names of setup.py."""
    loaded, names = library(), list[str]()
    while loaded is not None and (name := loaded.stridedgpu_level(len(names))) is not None:
        names.append(name.decode())
    return tuple(dict.fromkeys(names))


@lru_cache(maxsize=4096)
def function(level: str, family: str, place: int = 0) -> int:
    """The address of the function at a place of a family. Raises `DeviceError` where there is none."""
    address: int | None = library().stridedgpu_function(level.encode(), family.encode(), place)
    if address is None:
        raise DeviceError(f"The native library has no function {place} of {family!r} for {level}.")
    return address
