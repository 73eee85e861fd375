"""DLPack capsules: read as operands, and relabelled with element types that their exporter has no code for.

The structures are those of dlpack.h 1.1, https://github.com/dmlc/dlpack/blob/main/include/dlpack/dlpack.h.
"""

from __future__ import annotations

import ctypes
import datetime as dt
from functools import lru_cache
from typing import Any, Final

from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_named
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType
from stridedgpu.values.errors import DeviceError, ElementTypeError, LayoutError

from .foreign_memory import LARGEST_RANK, foreign_memory

__all__ = ["CPU", "CUDA", "dlpack_operand", "retyped"]

CPU: Final = 1
CUDA: Final = 2
_CUDA_HOST: Final = 3
_CUDA_MANAGED: Final = 13

_CODES: Final = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_OWN_CODES: Final = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}
"""`DLDataTypeCode` of the types that have a code of their own."""


_Deleter: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Tensor(ctypes.Structure):
    """`DLTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """`DLManagedTensor`."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    """`DLManagedTensorVersioned`, whose first four fields every later version keeps."""

    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_BELOW_A_BYTE: Final = frozenset({"int2", "int4", "uint1", "uint2", "uint4", "float4_e2m1fn", "float4_e2m1fn_x2"})
_SHARE_BYTES: Final = (
    "elements of less than a byte: share its bytes as uint8, or describe them with a BufferTensorDesc."
)

_BEYOND_63_BITS: Final = 2**63
"""The first stride, in bytes, that no signed 64-bit number can represent."""

_READ_ONLY: Final = 1
_VERSION: Final = (1, 0)

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, (ctypes.py_object,)
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_CAPSULE: Final = type(dt.datetime_CAPI)  # a name for it is new in Python 3.13
_UNVERSIONED: Final = b"dltensor"
_VERSIONED: Final = b"dltensor_versioned"
"""The names of a capsule that nobody has taken yet."""

_USED_UNVERSIONED: Final = b"used_dltensor"
_USED_VERSIONED: Final = b"used_dltensor_versioned"
"""What a consumer renames a capsule to when it takes the memory: no second consumer can then take it too."""


_deleter_at: Final = lru_cache(maxsize=64)(_Deleter)
"""A producer's deleter: the same function for each of its capsules."""


def retyped(capsule: Any, element: ElementType) -> Any:
    """An unconsumed capsule, relabelled with another element type of the same size."""
    _managed(capsule).tensor.code = _OWN_CODES[element.name]
    return capsule


class _Taken:
    """Memory taken from a capsule: its producer's deleter is called when the last view is released."""

    __slots__ = ("_deleter", "_managed")

    def __init__(self, capsule: Any, managed: _Managed | _Versioned) -> None:
        self._managed = ctypes.addressof(managed)
        deleter = managed.deleter
        self._deleter = _deleter_at(deleter) if deleter else None
        _rename(capsule, _USED_VERSIONED if type(managed) is _Versioned else _USED_UNVERSIONED)

    def __del__(self) -> None:
        if self._deleter is not None:
            self._deleter(self._managed)


def _told_device(obj: Any) -> tuple[int, int]:
    """DLPack's type and number of the device that an object says it is on. Raises `LayoutError` for no such pair."""
    told = obj.__dlpack_device__()
    if isinstance(told, tuple) and len(told) == 2 and isinstance(told[0], int) and isinstance(told[1], int):
        return told
    raise LayoutError(f"{type(obj).__name__}.__dlpack_device__() returned {told!r}; it is (device type, number).")


def _device_of(obj: Any, told: tuple[int, int]) -> str:
    """The name of a device that an object is on: "cpu" or "cuda:N". Raises `DeviceError` for any other."""
    kind, number = told
    if kind in (CPU, _CUDA_HOST):
        return "cpu"
    if kind in (CUDA, _CUDA_MANAGED):
        return f"cuda:{number}"
    raise DeviceError(
        f"{type(obj).__name__} is on a device of DLPack's type {int(kind)}, which is neither a CPU nor a CUDA device; "
        "bring it to the CPU first."
    )


def dlpack_operand(obj: Any) -> Operand:
    """An object with DLPack as an operand over its memory; on a CUDA device the current stream waits for it.

    The operand is read-only if the object says so, or cannot say. Raises `ElementTypeError` for elements that a tensor
    cannot represent, `LayoutError` for PyTorch's negated views, `DeviceError` for unavailable devices.
    """
    if getattr(obj, "is_neg", None) is not None and obj.is_neg():
        raise LayoutError(
            f"{type(obj).__name__} is a view with its sign bit set, which DLPack drops: call resolve_neg()."
        )
    told = _told_device(obj)
    device = _device_of(obj, told)
    capsule = _requested(obj) if device == "cpu" else _requested_on(device, obj)
    managed = _managed(capsule)
    tensor, producer = managed.tensor, type(obj).__name__
    _check(obj, tensor, told)
    element = _element_of(obj, tensor)
    rank = tensor.ndim
    readonly = bool(managed.flags & _READ_ONLY) if isinstance(managed, _Versioned) else _says_read_only(obj)
    sizes = tuple(tensor.shape[:rank]) if rank else ()
    strides = tuple(tensor.strides[:rank]) if rank and tensor.strides else None
    if device != "cpu" and strides and max(map(abs, strides)) * element.itemsize >= _BEYOND_63_BITS:
        strides = _interface_strides(obj, element.itemsize, strides)
    address = (tensor.data or 0) + tensor.byte_offset
    taken = _Taken(capsule, managed)
    return foreign_memory(producer, address, sizes, strides, element, owner=taken, device=device, readonly=readonly)


def _check(obj: Any, tensor: _Tensor, told: tuple[int, int]) -> None:
    """Refuse what would be read from a wrong place: the shape is looked at only behind this."""
    name = type(obj).__name__
    if not 0 <= tensor.ndim <= LARGEST_RANK:
        raise LayoutError(f"{name} exports {tensor.ndim} axes; 0 to {LARGEST_RANK} can be taken.")
    if tensor.ndim and not tensor.shape:
        raise LayoutError(f"{name} exports {tensor.ndim} axes without sizes: the shape of its DLTensor is null.")
    if (own := tuple(tensor.device)) != told:
        raise DeviceError(
            f"{name} exports memory on DLPack's device {own}, and __dlpack_device__() says {told}; both must agree."
        )


def _interface_strides(obj: Any, itemsize: int, strides: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of an object's CUDA Array Interface, or `strides` if it has none.

    Up to and including 14.2, CuPy divides the bytes of negative strides as unsigned numbers in its capsules, giving
    some 2^64 / itemsize (https://github.com/cupy/cupy/issues/10172). Its array interface is correct.
    """
    try:
        steps = obj.__cuda_array_interface__["strides"]
    except (AttributeError, KeyError, RuntimeError):
        return strides
    if steps is None or len(steps) != len(strides) or any(step % itemsize for step in steps):
        return strides
    return tuple(int(step) // itemsize for step in steps)


def _says_read_only(obj: Any) -> bool:
    """Whether an object is read-only, for capsules without a version; older PyTorch's on a GPU are writable."""
    try:
        _, readonly = obj.__cuda_array_interface__["data"]
    except (AttributeError, KeyError, RuntimeError):
        return True
    return bool(readonly)


def _requested(obj: Any, **request: object) -> Any:
    """A versioned capsule, if the producer supports them."""
    try:
        try:
            return obj.__dlpack__(max_version=_VERSION, **request)
        except TypeError:
            return obj.__dlpack__(**request)
    except Exception as error:
        name = str(getattr(obj, "dtype", "")).removeprefix("torch.")
        if name in _BELOW_A_BYTE:
            raise ElementTypeError(f"{type(obj).__name__} holds {name}, {_SHARE_BYTES}") from error
        raise


def _requested_on(device: str, obj: Any) -> Any:
    """A capsule of a CUDA device's memory; the current stream on that device waits for it.

    The device is made current during the call, since CuPy's arrays use the current device's stream for the device of
    the array.
    """
    device_named(device)
    from stridedgpu.devices.cuda.runtime.streams import LEGACY_STREAM, current_on

    with current_on(int(device.removeprefix("cuda:")), None) as handle:
        return _requested(obj, stream=handle or LEGACY_STREAM)


def _managed(capsule: Any) -> _Managed | _Versioned:
    """The structure that an unconsumed capsule points at."""
    name = _name_of(capsule) if isinstance(capsule, _CAPSULE) else None
    if name != _VERSIONED and name != _UNVERSIONED:  # noqa: PLR1714 - twice as fast as a set
        raise LayoutError(f"__dlpack__ returned {capsule!r}, which is no DLPack capsule that can still be taken.")
    address = _pointer_of(capsule, name)
    if name == _UNVERSIONED:
        return _Managed.from_address(address)
    found = _Versioned.from_address(address)
    if found.version[0] != _VERSION[0]:
        raise LayoutError(f"__dlpack__ returned a capsule of version {tuple(found.version)}; versions 1.x can be read.")
    return found


def _element_of(obj: object, tensor: _Tensor) -> ElementType:
    """The element type of a tensor. Raises `ElementTypeError` for an unknown one."""
    found = _ELEMENTS.get((tensor.code, tensor.bits, tensor.lanes))
    if found is None:
        told = f"type code {tensor.code} of {tensor.bits} bits and {tensor.lanes} lanes"
        why = _SHARE_BYTES if tensor.bits < 8 else "which no tensor holds: share its bytes as uint8."
        raise ElementTypeError(f"{type(obj).__name__} holds DLPack's {told}, {why}")
    return found


_ELEMENTS: Final = {
    (_OWN_CODES.get(element.name, _CODES.get(element.kind)), 8 * element.itemsize, 1): element
    for element in ELEMENT_TYPES.values()
}
