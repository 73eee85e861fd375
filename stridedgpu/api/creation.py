"""Creation of tensors: in new memory, or over memory of another library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import numpy as np

from stridedgpu.devices.buffer import Buffer as Memory, check_range
from stridedgpu.devices.cpu.device import ZeroedMemory
from stridedgpu.devices.operand import AllocationSpec, Operand
from stridedgpu.devices.selection import chosen_device, cuda_device_of_memory, default_device, device_name, device_named
from stridedgpu.exchange.array_like import array_of_values, foreign_operand, labelled, operand_of
from stridedgpu.operations.channel_blocks import parse_order
from stridedgpu.operations.options import DEFAULT_ALIGNMENT, MemoryOptions, truth
from stridedgpu.operations.relayout import clear_buffer
from stridedgpu.typing import BytesLike, DeviceLike, DTypeLike, LayoutLike, SupportsDLPack, TensorLike
from stridedgpu.values.axis_labels import Labels, checked_dims, inferred_labels, labels_of
from stridedgpu.values.dtypes import ElementType, element_type
from stridedgpu.values.errors import BindingError, DeviceError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.memoized import memoized
from stridedgpu.values.strides import canonical_axes, integer, integers

from .tensor import StridedTensor

_ARRAY: Final = np.ndarray

_ZEROS: Final = ZeroedMemory()
"""The zeros of the CPU."""


def empty(
    sizes: Sequence[int],
    dtype: DTypeLike,
    *,
    layout: LayoutLike | None = None,
    dims: str | None = None,
    row_pitch_bytes: int | None = None,
    alignment: int = DEFAULT_ALIGNMENT,
    device: DeviceLike | None = None,
) -> StridedTensor:
    """A new tensor whose elements are not initialised; the channels that "NHWC8" adds to a pixel are zeros.

    `sizes` are elements in canonical order (N, C, D, H, W). `layout` is the memory order ("NHWC"; with channels in
    multiples "NHWC8" or, in blocks, "NCHW4"), an exact `Layout`, or None for row-major. `dims` labels the axes (an
    order string does that too). `row_pitch_bytes` is the bytes from one row to the next. `alignment` is the bytes, a
    power of two, that the first element's address is a multiple of. `device` is "cpu", "cuda" or "cuda:N", None for
    the first CUDA device that works, else the CPU.

    The buffer's bytes are `calc_buffer_tensor_size`, and the tensor owns its padding.

    Raises `LayoutError` for sizes, orders, pitches or alignments that break a rule, `ElementTypeError` for an
    unknown type, `DeviceError` when the device or its memory cannot be had.

    >>> batch = empty((2, 3, 4, 5), "uint8", layout="NHWC", row_pitch_bytes=16, device="cpu")
    >>> batch.strides, batch.dims, batch.buffer.nbytes
    ((64, 1, 16, 3), 'NCHW', 128)
    """
    return _new(sizes, dtype, dims, MemoryOptions(layout, row_pitch_bytes, alignment, device))


def zeros(
    sizes: Sequence[int],
    dtype: DTypeLike,
    *,
    layout: LayoutLike | None = None,
    dims: str | None = None,
    row_pitch_bytes: int | None = None,
    alignment: int = DEFAULT_ALIGNMENT,
    device: DeviceLike | None = None,
) -> StridedTensor:
    """A new tensor of zeros, padding included; the arguments are those of `empty`.

    >>> zeros((2, 2), "float16", device="cpu").numpy().tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    return _new(sizes, dtype, dims, MemoryOptions(layout, row_pitch_bytes, alignment, device), zeroed=True)


def full(
    sizes: Sequence[int],
    value: complex,
    dtype: DTypeLike,
    *,
    layout: LayoutLike | None = None,
    dims: str | None = None,
    row_pitch_bytes: int | None = None,
    alignment: int = DEFAULT_ALIGNMENT,
    device: DeviceLike | None = None,
) -> StridedTensor:
    """A new tensor with every element `value`, converted as `relayout` does; the other arguments are those of `empty`.

    Raises `LayoutError` for an integer that the type cannot hold, besides what `empty` raises.

    >>> full((2, 2), 7, "uint8", device="cpu").numpy().tolist()
    [[7, 7], [7, 7]]
    """
    if array_of_values(value, object).ndim:
        raise LayoutError(f"value={value!r} is not one number; fill a tensor from an array with tensor[...] = array.")
    tensor = _new(sizes, dtype, dims, MemoryOptions(layout, row_pitch_bytes, alignment, device))
    tensor[...] = value
    return tensor


def asarray(
    obj: TensorLike,
    *,
    dims: str | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    copy: bool | None = None,
) -> StridedTensor:
    """Anything array-like as a tensor, over the same memory when that is possible.

    `dims` is the order of the object's own axes ("NHWC" for frames of a decoder); the tensor has its axes in canonical
    order over the same memory. T, Z, Y, X and B are letters too: Z, Y, X are D, H, W; B is N beside C, else
    C; T is N, or D beside an N. An array of xarray whose axes have known names ("time", "band", "y", "x")
    needs no `dims`. `dtype` converts, `device` moves, as `to_device` does; `copy=True` always copies, `copy=False`
    raises if a copy is needed, None copies only then; an array of another byte order needs one, since tensors have the
    machine's own. A read-only object makes a read-only tensor.

    Takes tensors, NumPy arrays and scalars, objects with DLPack or the CUDA Array Interface (CuPy, PyTorch, JAX, ONNX
    Runtime's OrtValue), with NumPy's array interface or the buffer protocol, numbers and nested sequences, all without
    importing their libraries. Pillow's images are copied. Raises `LayoutError` if `copy=False` is impossible,
    `ElementTypeError` for elements that a tensor cannot represent.

    >>> frames = asarray(np.zeros((2, 4, 5, 3), np.uint8), dims="NHWC")
    >>> frames.sizes, frames.strides, frames.dims
    ((2, 3, 4, 5), (60, 1, 15, 3), 'NCHW')
    """
    if type(obj) is _ARRAY and copy is None and dtype is None and device is None:
        return StridedTensor.over(*operand_of(obj, dims))
    if copy is not None and not isinstance(copy, bool):
        raise LayoutError(f"copy={copy!r} is none of True, False and None.")
    is_tensor, shared = isinstance(obj, StridedTensor), True
    if is_tensor and dims is None:
        tensor = cast("StridedTensor", obj)
        _ = tensor.element  # a tensor that was released refuses
        if dtype is None and device is None and not copy:
            return tensor
    elif copy is None or is_tensor:
        tensor = StridedTensor.over(*operand_of(obj, dims))
    else:
        operand, shared = foreign_operand(obj, copy)
        tensor = StridedTensor.over(*labelled(obj, operand, dims))
    if not shared and copy is False:
        raise LayoutError(f"copy=False, but {type(obj).__name__} has no memory that a tensor could share.")
    if dtype is None and device is None and not is_tensor:
        return tensor.copy() if copy and shared else tensor
    wanted = tensor.element if dtype is None else element_type(dtype)
    where = tensor.device if device is None else chosen_device(device)
    if wanted == tensor.element and where == tensor.device:
        return tensor.copy() if copy and shared else tensor
    if copy is False:
        raise LayoutError(f"copy=False, but {tensor.element} on {tensor.device} as {wanted} on {where} needs a copy.")
    return tensor.to_device(where) if wanted == tensor.element else tensor.relayout(dtype=wanted, device=where)


def from_dlpack(obj: SupportsDLPack, *, dims: str | None = None) -> StridedTensor:
    """A tensor over the memory of an object with DLPack, never a copy. `dims` orders its axes as in `asarray`.

    Raises `LayoutError` for an object without DLPack.

    >>> from_dlpack(np.zeros((2, 3), np.float32)).sizes
    (2, 3)
    """
    if not hasattr(obj, "__dlpack__"):
        raise LayoutError(f"{type(obj).__name__} has no __dlpack__; wrap it with asarray.")
    return asarray(obj, dims=dims, copy=False)


def frombuffer(
    buffer: BytesLike,
    sizes: Sequence[int],
    dtype: DTypeLike,
    *,
    dims: str | None = None,
    row_pitch_bytes: int | None = None,
    offset_bytes: int = 0,
) -> StridedTensor:
    """A tensor over bytes that a decoder, a file mapping or a socket filled: no copy, padded rows included.

    `buffer` is a contiguous object with the buffer protocol: bytes, bytearray, mmap, a ctypes or NumPy array. `sizes`
    are the elements along each axis in the order in which they lie, outermost first, and `dims` names these axes
    ("HWC"), as in `asarray`: the tensor's axes are in canonical order. `row_pitch_bytes` is the bytes from one row to
    the next, None if rows follow each other; the last row needs no padding. `offset_bytes` is where the first element
    begins. Memory that cannot be written makes a read-only tensor.

    Raises `BindingError` for a buffer that is too short and an offset that is misaligned for the type, `LayoutError`
    for sizes, dims and pitches that do not fit.

    >>> surface = bytearray(4 * 512)  # 4 rows of 160 RGB pixels, 512 bytes apart
    >>> frame = frombuffer(surface, (4, 160, 3), "uint8", dims="HWC", row_pitch_bytes=512)
    >>> frame.sizes, frame.strides, frame.dims
    ((3, 4, 160), (1, 512, 3), 'CHW')
    """
    stated, element = integers("sizes", sizes, least=0), element_type(dtype)
    if dims is None:
        ordered, labels = stated, labels_of(None, len(stated))
    else:
        place = labels_of(checked_dims(dims, len(stated)), len(stated)).index
        if len(dims) != len(stated):
            raise LayoutError(f"dims={dims!r} names {len(dims)} axes, and there are {len(stated)} sizes.")
        ordered = tuple(stated[place(letter)] for letter in canonical_axes(dims))
        labels = labels_of(canonical_axes(dims), len(stated))
    layout, _ = MemoryOptions(dims, row_pitch_bytes).layouts(ordered, labels, element)
    memory, offset = Memory.of(buffer), integer("offset_bytes", offset_bytes, least=0)
    start = memory.address + offset
    if start % element.itemsize:
        raise BindingError(
            f"offset_bytes={offset} puts the first element at the address {start:#x}, which is not a multiple of the "
            f"{element.itemsize} bytes of {element}; copy the bytes to memory of their own first."
        )
    nbytes = layout.span * element.itemsize
    if offset + nbytes > memory.nbytes:
        raise BindingError(
            f"buffer has {memory.nbytes} bytes; sizes={stated} of {element} with row_pitch_bytes={row_pitch_bytes} "
            f"need {nbytes} from offset_bytes={offset} on."
        )
    window = Memory(start, nbytes, owner=memory.owner, readonly=memory.readonly)
    return StridedTensor.over(Operand(window, layout, element), dims and canonical_axes(dims))


def from_pointer(
    ptr: int,
    sizes: Sequence[int],
    dtype: DTypeLike,
    *,
    owner: object,
    layout: LayoutLike | None = None,
    dims: str | None = None,
    row_pitch_bytes: int | None = None,
    device: str = "cpu",
    readonly: bool = False,
) -> StridedTensor:
    """A tensor over memory at an address: a decoder's pitched surface, a camera's frame, the result of a C library.

    `ptr` is the address, an integer or `ctypes.c_void_p`, of the element at coordinates 0. `sizes` are elements in
    canonical order, and `layout`, `dims` and `row_pitch_bytes` define their layout, as in `empty`. The memory ends with
    the last element: nothing after it is ever accessed. `owner` is the object that keeps the memory alive; every view
    refers to it. With None the caller keeps the memory alive. `device` is the device of the address: "cpu" or "cuda:N".
    The caller orders work that still writes there before the tensor's first use. `readonly` memory is never written.
    The alignment is computed from the address. The channels that "NHWC8" adds to a pixel become zeros with the first
    element that is written.

    An address cannot be checked: a wrong one ends the process. Raises `BindingError` for a null address or one that is
    misaligned for the type, `LayoutError` for layouts as in `empty`, and `DeviceError` for an unavailable device.

    >>> import ctypes
    >>> surface = (ctypes.c_uint8 * (4 * 512))()  # 4 rows of 160 RGB pixels, 512 bytes apart
    >>> frame = from_pointer(ctypes.addressof(surface), (1, 3, 4, 160), "uint8", layout="NHWC", row_pitch_bytes=512,
    ...                      owner=surface)
    >>> frame.strides, frame.dims, frame.buffer.owner is surface
    ((2048, 1, 512, 3), 'NCHW', True)
    >>> surface[512 + 3 * 7 + 2] = 99  # row 1, pixel 7, blue
    >>> int(frame.numpy()[0, 2, 1, 7])
    99
    """
    sizes = integers("sizes", sizes, least=0)
    element = element_type(dtype)
    memory = MemoryOptions(layout, row_pitch_bytes)
    dims, labels = _labelled(dims, len(sizes), layout)
    wanted, stored = memory.layouts(sizes, labels, element)
    number = getattr(ptr, "value", ptr) or 0
    (address,) = integers("ptr", (number,), least=0)
    if stored.span and (address == 0 or address % element.itemsize):
        raise BindingError(
            f"ptr={address:#x} is not the address of {element} elements: it must be a multiple of {element.itemsize}, "
            "and not null."
        )
    if device == "auto":
        raise DeviceError("device='auto' cannot say where an address is; it is 'cpu', 'cuda' or 'cuda:N'.")
    where = device_name(device)
    if where.startswith("cuda:"):
        where = cuda_device_of_memory(int(where.removeprefix("cuda:")))
    device_named(where)
    start = address + stored.first_offset * element.itemsize if stored.span else 0
    nbytes = stored.span * element.itemsize
    check_range(f"ptr={address:#x}", address, start, nbytes)
    buffer = Memory(start, nbytes, owner=owner, device=where, readonly=truth("readonly", readonly))
    visible = wanted.shifted(-stored.first_offset)
    if visible.sizes != stored.sizes:  # then each pixel has fillers behind its channels
        channels = (*(slice(None),) * labels.index("C"), slice(visible.sizes[labels.index("C")], None))
        buffer.fillers = stored.sliced(channels), element
    return StridedTensor.over(Operand(buffer, visible, element), dims if visible.ndim == len(sizes) else None)


def _new(
    sizes: Sequence[int], dtype: DTypeLike, dims: str | None, memory: MemoryOptions, *, zeroed: bool = False
) -> StridedTensor:
    """A new tensor, of sizes in canonical order. Elements are not initialised unless `zeroed`; fillers are zeros."""
    kind = dtype if type(dtype) is str else element_type(dtype)
    spec, dims = _spec(integers("sizes", sizes, least=0), kind, dims, *memory[:3])
    where = default_device() if memory.device is None else chosen_device(memory.device)
    if not zeroed and spec.owns_padding:
        return StridedTensor.over(spec.allocate(device_named(where)), dims)
    if where == "cpu":
        return StridedTensor.over(spec.allocate(_ZEROS), dims)
    operand = spec.allocate(device_named(where))
    clear_buffer(operand.buffer)
    return StridedTensor.over(operand, dims)


@memoized
def _spec(
    sizes: tuple[int, ...],
    dtype: str | ElementType,
    dims: str | None,
    layout: str | Layout | None,
    row_pitch_bytes: int | None,
    alignment: int | None,
) -> tuple[AllocationSpec, str | None]:
    """What to allocate for a new tensor, and its labels."""
    element = element_type(dtype)
    dims, labels = _labelled(dims, len(sizes), layout)
    if isinstance(layout, Layout):
        layout = layout.shifted(-layout.first_offset)
    spec = MemoryOptions(layout, row_pitch_bytes, alignment).allocation(sizes, labels, element)
    return spec, dims if spec.layout.ndim == len(sizes) else None


def _labelled(dims: str | None, ndim: int, layout: object) -> tuple[str | None, Labels]:
    """The labels of a tensor of canonical sizes, as `dims` and one for each axis; an order string defines them too."""
    dims = _canonical_dims(dims, ndim)
    if not isinstance(layout, str):
        return dims, labels_of(dims, ndim)
    letters = parse_order(layout).letters
    if dims is None and len(canonical_axes(letters)) == ndim:
        dims = canonical_axes(letters)
    return dims, inferred_labels(dims, ndim, letters)


def _canonical_dims(dims: str | None, ndim: int) -> str | None:
    """Labels for new sizes, which are in canonical order."""
    letters = checked_dims(dims, ndim)
    if letters is not None and letters != canonical_axes(letters):
        raise LayoutError(
            f"dims={dims!r} is not in canonical order; sizes go with dims={canonical_axes(str(dims))!r}, "
            f"and layout={dims!r} says the order in memory."
        )
    return letters
