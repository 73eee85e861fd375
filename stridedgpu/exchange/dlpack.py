"""DLPack capsules: read as operands, and relabelled with element types that their exporter has no code for.

The structures are those of dlpack.h 1.1, https://github.com/dmlc/dlpack/blob/main/include/dlpack/dlpack.h.
"""

from __future__ import annotations

import ctypes
import datetime as dt
from ctypes import PYFUNCTYPE, c_char, c_int32, c_int64, c_uint8, c_void_p
from struct import Struct
from typing import Any, Final

from stridedgpu.devices.interface import EMULATED
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import cuda_device_of_memory, device_named
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType
from stridedgpu.values.errors import DeviceError, ElementTypeError, LayoutError

from .foreign_memory import LARGEST_RANK, foreign_memory

CPU: Final = 1
CUDA: Final = 2
_CUDA_HOST: Final = 3
_CUDA_MANAGED: Final = 13

_ON_HOST: Final = (CPU, _CUDA_HOST)
"""Devices whose memory the processor reaches at the same address: its own, and page-locked memory."""

_CODES: Final = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_OWN_CODES: Final = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}
"""`DLDataTypeCode` of the types that have a code of their own."""

_TENSOR: Final = "QiiiBBHQQQ"
"""`DLTensor`: data, device type and number, ndim, type code, bits, lanes, shape, strides, byte offset."""

_MANAGED: Final = Struct(f"={_TENSOR}8xQ")
"""`DLManagedTensor`: the tensor, and the deleter behind a context."""

_VERSIONED: Final = Struct(f"=II8xQQ{_TENSOR}")
"""`DLManagedTensorVersioned`: version, deleter behind a context, flags, tensor. Later versions keep these fields."""

_DEVICE_AT: Final = 8
"""The byte of a `DLTensor` with the device's type."""

_CODE_AT: Final = 20
"""The byte of a `DLTensor` with the type code."""

_VERSIONED_TENSOR_AT: Final = 32
"""The byte of a `DLManagedTensorVersioned` where its tensor begins."""

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
_NAME: Final = b"dltensor"
_VERSIONED_NAME: Final = b"dltensor_versioned"
"""The names of a capsule that nobody has taken yet."""

_USED: Final = {_NAME: b"used_dltensor", _VERSIONED_NAME: b"used_dltensor_versioned"}
"""What a consumer renames a capsule to when it takes the memory: no second consumer can then take it too."""

_BYTES: Final = {size: c_char * size for size in (_MANAGED.size, _VERSIONED.size)}

_deleter_at: Final = PYFUNCTYPE(None, c_void_p)
"""A producer's deleter, called with the GIL as capsules call it."""


def retyped(capsule: object, element: ElementType) -> Any:
    """An unconsumed capsule, relabelled with another element type of the same size."""
    name, address = _structure(capsule)
    at = _CODE_AT if name == _NAME else _VERSIONED_TENSOR_AT + _CODE_AT
    c_uint8.from_address(address + at).value = _OWN_CODES[element.name]
    return capsule


def labelled_cuda(capsule: object) -> Any:
    """An unconsumed capsule of the CPU, relabelled as memory of the first CUDA device: emulated memory."""
    name, address = _structure(capsule)
    at = _DEVICE_AT if name == _NAME else _VERSIONED_TENSOR_AT + _DEVICE_AT
    c_int32.from_address(address + at).value = CUDA
    return capsule


class _Taken:
    """Memory taken from a capsule: its producer's deleter is called when the last view is released."""

    __slots__ = ("_address", "_deleter", "_producer")

    def __init__(self, producer: object, capsule: object, name: bytes, address: int, deleter: int) -> None:
        # An image of nvImageCodec frees its memory whether or not its capsule is in use.
        self._producer = producer
        self._address = address
        self._deleter = _deleter_at(deleter) if deleter else None
        _rename(capsule, _USED[name])

    def __del__(self) -> None:
        if self._deleter is not None:
            self._deleter(self._address)


def _stated_device(obj: object) -> tuple[int, int]:
    """DLPack's type and number of the device that an object says it is on. Raises `LayoutError` for no such pair."""
    if not hasattr(obj, "__dlpack_device__"):
        raise LayoutError(f"{type(obj).__name__} has __dlpack__ and no __dlpack_device__, and so no DLPack.")
    pair = obj.__dlpack_device__()
    if isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], int) and isinstance(pair[1], int):
        return pair
    raise LayoutError(f"{type(obj).__name__}.__dlpack_device__() returned {pair!r}; it is (device type, number).")


def _device_of(obj: object, pair: tuple[int, int]) -> str:
    """The name of a device that an object is on: "cpu", "cuda:N" or "cuda-emulated"; `DeviceError` for others."""
    kind, number = pair
    if kind in _ON_HOST:
        return "cpu"
    if kind in (CUDA, _CUDA_MANAGED):
        return cuda_device_of_memory(number)
    raise DeviceError(
        f"{type(obj).__name__} is on a device of DLPack's type {int(kind)}, which is neither a CPU nor a CUDA device; "
        "bring it to the CPU first."
    )


def dlpack_operand(obj: object, stream: object = None) -> Operand:
    """An object with DLPack as an operand over its memory; on a CUDA device `stream`, or the current one, waits for it.

    The operand is read-only if the object says so, or cannot say. Raises `ElementTypeError` for elements that a tensor
    cannot represent, `LayoutError` for PyTorch's negated views, `DeviceError` for unavailable devices.
    """
    is_negated = getattr(obj, "is_neg", None)
    if is_negated is not None and is_negated():
        raise LayoutError(
            f"{type(obj).__name__} is a view with its sign bit set, which DLPack drops: call resolve_neg()."
        )
    # PyTorch's `__dlpack_device__` takes as long as its export. Its `is_cpu` is enough; the export itself is checked.
    stated = None if getattr(obj, "is_cpu", False) is True else _stated_device(obj)
    device = "cpu" if stated is None else _device_of(obj, stated)
    capsule = _requested(obj) if device == "cpu" else _requested_on(device, obj, stream)
    name, structure = _structure(capsule)
    if name == _NAME:
        fields = _MANAGED.unpack_from(_BYTES[_MANAGED.size].from_address(structure))
        data, kind, number, rank, code, bits, lanes, shape, steps, offset, deleter = fields
        readonly = _says_read_only(obj)
    else:
        fields = _VERSIONED.unpack_from(_BYTES[_VERSIONED.size].from_address(structure))
        major, minor, deleter, flags, data, kind, number, rank, code, bits, lanes, shape, steps, offset = fields
        if major != _VERSION[0]:
            raise LayoutError(f"__dlpack__ returned a capsule of version {(major, minor)}; versions 1.x can be read.")
        readonly = bool(flags & _READ_ONLY)
    producer = type(obj).__name__
    # The shape is read only behind these checks.
    if not 0 <= rank <= LARGEST_RANK:
        raise LayoutError(f"{producer} exports {rank} axes; 0 to {LARGEST_RANK} can be taken.")
    if rank and not shape:
        raise LayoutError(f"{producer} exports {rank} axes without sizes: the shape of its DLTensor is null.")
    if (kind, number) != stated and not (stated is None and kind in _ON_HOST):
        raise DeviceError(
            f"{producer} exports memory on DLPack's device {(kind, number)}, and "
            f"{'is_cpu' if stated is None else '__dlpack_device__()'} says {stated or 'the CPU'}; both must agree."
        )
    element = _ELEMENTS.get((code, bits, lanes))
    if element is None:
        described = f"type code {code} of {bits} bits and {lanes} lanes"
        why = _SHARE_BYTES if bits < 8 else "which no tensor holds: share its bytes as uint8."
        raise ElementTypeError(f"{producer} holds DLPack's {described}, {why}")
    sizes = tuple((c_int64 * rank).from_address(shape)) if rank else ()
    strides = tuple((c_int64 * rank).from_address(steps)) if rank and steps else None
    if device != "cpu" and strides and max(map(abs, strides)) * element.itemsize >= _BEYOND_63_BITS:
        strides = _interface_strides(obj, element.itemsize, strides)
    taken = _Taken(obj, capsule, name, structure, deleter)
    if device == EMULATED:
        from stridedgpu.devices.emulated.exchange import check_address

        check_address(producer, data + offset)
    return foreign_memory(
        producer, data + offset, sizes, strides, element, owner=taken, device=device, readonly=readonly
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


def _requested(obj: Any, **request: object) -> object:
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


def _requested_on(device: str, obj: object, stream: object) -> object:
    """A capsule of a CUDA device's memory; `stream`, or the current stream on that device, waits for it.

    PyTorch keeps the memory of its tensors until that stream has read it. The device is made current during the call,
    since CuPy's arrays use the current device's stream for the device of the array.
    """
    device_named(device)
    if device == EMULATED:
        from stridedgpu.devices.emulated.exchange import requested

        return requested(obj, _requested, stream)
    from stridedgpu.devices.cuda.runtime.streams import LEGACY_STREAM, current_on, keep_for_stream, stream_handle

    number = int(device.removeprefix("cuda:"))
    with current_on(number, None) as current:  # which CuPy takes for the stream of its array
        handle = current if stream is None else stream_handle(stream, number)
        capsule = _requested(obj, stream=handle or LEGACY_STREAM)
        keep_for_stream(obj, number, handle)
        return capsule


def _structure(capsule: object) -> tuple[bytes, int]:
    """The name of an unconsumed capsule, and the address of the structure that it points at."""
    try:
        return _VERSIONED_NAME, _pointer_of(capsule, _VERSIONED_NAME)
    except ValueError:  # another name, or no capsule
        if isinstance(capsule, _CAPSULE) and _name_of(capsule) == _NAME:
            return _NAME, _pointer_of(capsule, _NAME)
    raise LayoutError(f"__dlpack__ returned {capsule!r}, which is no DLPack capsule that can still be taken.")


_ELEMENTS: Final = {
    (_OWN_CODES.get(element.name, _CODES.get(element.kind)), 8 * element.itemsize, 1): element
    for element in ELEMENT_TYPES.values()
}
