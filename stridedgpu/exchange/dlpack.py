"""DLPack capsules: read as operands, and given element types that their exporter has no code for.

The structures are those of dlpack.h 1.1, https://github.com/dmlc/dlpack/blob/main/include/dlpack/dlpack.h.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any, Final

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import backend_named
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType
from stridedgpu.values.errors import DeviceError, ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout

__all__ = ["CPU", "CUDA", "dlpack_operand", "retyped"]

CPU: Final = 1
CUDA: Final = 2
_CUDA_HOST: Final = 3
_CUDA_MANAGED: Final = 13

_CODES: Final = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_OWN_CODES: Final = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}
"""`DLDataTypeCode`: one for each kind, and for types that are a kind of their own."""


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


class _Versioned(ctypes.Structure):
    """`DLManagedTensorVersioned`; the older `DLManagedTensor` begins with the tensor."""

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

_READ_ONLY: Final = 1
_VERSION: Final = (1, 0)

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, (ctypes.py_object,)
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def retyped(capsule: Any, element: ElementType) -> Any:
    """The capsule, which nobody has taken yet, with another element type of the same size."""
    tensor, _ = _contents(capsule)
    tensor.code = _OWN_CODES[element.name]
    return capsule


def _device_of(obj: Any) -> str:
    """The device that an object with `__dlpack_device__` is on: "cpu" or "cuda:N".

    Raises `DeviceError` for any other.
    """
    kind, number = obj.__dlpack_device__()
    if kind in (CPU, _CUDA_HOST):
        return "cpu"
    if kind in (CUDA, _CUDA_MANAGED):
        return f"cuda:{number}"
    raise DeviceError(
        f"{type(obj).__name__} is on a device of DLPack's type {int(kind)}, which is neither a CPU nor a CUDA device; "
        "bring it to the CPU first."
    )


def dlpack_operand(obj: Any) -> Operand:
    """The memory of an object with DLPack as an operand, borrowed; on a CUDA device the current stream waits for it.

    It is read-only where the object says so, or has no way to say. Raises `ElementTypeError` for elements that a tensor
    cannot hold, `LayoutError` for PyTorch's negated views, `DeviceError` for devices that cannot be had.
    """
    if getattr(obj, "is_neg", None) is not None and obj.is_neg():
        raise LayoutError(
            f"{type(obj).__name__} is a view with its sign bit set, which DLPack drops: call resolve_neg()."
        )
    device = _device_of(obj)
    capsule = _requested(obj) if device == "cpu" else _requested_on(device, obj)
    tensor, flags = _contents(capsule)
    element = _element_of(obj, tensor)
    rank = tensor.ndim
    sizes = tuple(tensor.shape[:rank]) if rank else ()
    layout, lowest = _from_lowest(sizes, tuple(tensor.strides[:rank]) if rank and tensor.strides else None)
    # Never taken, the capsule gives the memory back when the last view lets it go.
    buffer = Buffer(
        (tensor.data or 0) + tensor.byte_offset + lowest * element.itemsize,
        layout.span * element.itemsize,
        owner=capsule,
        device=device,
        readonly=_says_read_only(obj) if flags is None else bool(flags & _READ_ONLY),
    )
    return Operand(buffer, layout, element)


@lru_cache(maxsize=1024)
def _from_lowest(sizes: tuple[int, ...], strides: tuple[int, ...] | None) -> tuple[Layout, int]:
    """A layout that begins with its lowest element, and how far that is from coordinates 0."""
    layout = Layout(sizes, strides)
    return layout.shifted(-layout.first_offset), layout.first_offset


def _says_read_only(obj: Any) -> bool:
    """What an object whose capsules have no version says elsewhere: older PyTorch's on a GPU can be written, say."""
    try:
        _, readonly = obj.__cuda_array_interface__["data"]
    except (AttributeError, KeyError, RuntimeError):
        return True
    return bool(readonly)


def _requested(obj: Any, **request: object) -> Any:
    """A capsule with a version, from producers that know such."""
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
    """A capsule of a CUDA device's memory, for which the current stream there waits.

    That device is the current one meanwhile: CuPy's arrays take the current device's stream for the one they are made
    on.
    """
    backend_named(device)
    from stridedgpu.devices.cuda.runtime.streams import LEGACY_STREAM, current_on

    with current_on(int(device.removeprefix("cuda:")), None) as handle:
        return _requested(obj, stream=handle or LEGACY_STREAM)


def _contents(capsule: Any) -> tuple[_Tensor, int | None]:
    """What a capsule points at, and its flags if it has a version."""
    name = _name_of(capsule)
    if name not in (b"dltensor", b"dltensor_versioned"):
        raise LayoutError(f"__dlpack__ returned {capsule!r}, which is no DLPack capsule that can still be taken.")
    address = _pointer_of(capsule, name)
    if name == b"dltensor":
        return _Tensor.from_address(address), None
    held = _Versioned.from_address(address)
    if held.version[0] != _VERSION[0]:
        raise LayoutError(f"__dlpack__ returned a capsule of version {tuple(held.version)}; versions 1.x can be read.")
    return held.tensor, held.flags


def _element_of(obj: object, tensor: _Tensor) -> ElementType:
    """The element type of a tensor. Raises `ElementTypeError` for one that there is none for."""
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
