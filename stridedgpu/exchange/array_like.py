"""Anything array-like as an operand over the same memory; other libraries are recognised without importing them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from stridedgpu.devices.array_interface import exchange_of
from stridedgpu.devices.buffer import Buffer, address_of
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import cuda_device_of_memory, device_named
from stridedgpu.values.axis_labels import checked_dims, labels_of
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType, check_fits, element_type
from stridedgpu.values.errors import BindingError, DeviceError, ElementTypeError, LayoutError, StridedGpuError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import canonical_axes, element_strides

from .dlpack import dlpack_operand
from .exports import array_of_operand
from .foreign_memory import LARGEST_RANK, check_bytes, check_steps, foreign_memory
from .named_axes import check_named_axes, named_axes

_ARRAY: Final = np.ndarray

_LEAVES: Final = frozenset((int, float, bool, complex, str, bytes, type(None), _ARRAY))
"""Types in sequences that NumPy reads through no protocol."""

_NESTS: Final = frozenset((list, tuple))

_MOST_NESTS: Final = 1 << 20
"""Lists of one depth, beyond which they are looked at one by one: those of a list in itself have no end."""

_PROTOCOLS: Final = ("__array_interface__", "__array_struct__", "__array__")
"""NumPy's own protocols. Source: https://numpy.org/doc/stable/user/basics.interoperability.html."""


def operand_of(obj: object, dims: str | None = None, stream: object = None) -> tuple[Operand, str | None]:
    """Anything array-like as an operand, with the labels of its axes (None: no labels).

    `dims` is the order of the **given** object's axes ("NHWC"). The operand's axes are then in canonical order over the
    same memory, and so are the labels ("NCHW"). Without `dims` a tensor keeps its own labels, and xarray's arrays have
    those of their axes' names, as TorchCodec's frames have theirs. The memory is shared if `foreign_operand` shares it,
    which orders work on `stream`. No tensor is built.

    Raises what `foreign_operand` raises, and `LayoutError` for `dims` that do not fit the axes.

    >>> operand, labels = operand_of(np.zeros((2, 4, 5, 3), np.uint8), "NHWC")
    >>> operand.layout.sizes, operand.layout.strides, labels
    ((2, 3, 4, 5), (60, 1, 15, 3), 'NCHW')
    """
    if dims is not None and not isinstance(dims, str):
        checked_dims(dims, 0)  # raises: `dims` is no string
    if type(obj) is _ARRAY:
        return _operand_of_array(obj, None, dims)[0], None if dims is None else canonical_axes(dims)
    memory = _operand_of_torch(obj)
    if memory is not None:
        return (memory, None) if dims is None else with_canonical_axes(memory, dims)
    operand: object = getattr(obj, "operand", None)
    if isinstance(operand, Operand):
        return (operand, obj.dims) if dims is None else with_canonical_axes(operand, dims)  # type: ignore[attr-defined]
    return labelled(obj, foreign_operand(obj, None, stream)[0], dims)


def operand_of_argument(name: str, obj: object, wanted: str, stream: object = None) -> tuple[Operand, str | None]:
    """`operand_of` of the argument `name`, which a refusal names; what is no array of numbers must be `wanted`."""
    try:
        return operand_of(obj, None, stream)
    except (BindingError, LayoutError) as refusal:
        raise type(refusal)(f"{name}: {refusal}") from refusal
    except (ElementTypeError, ValueError) as error:
        raise ElementTypeError(f"{name}={obj!r} must be {wanted}.") from error


def labelled(obj: object, operand: Operand, dims: str | None) -> tuple[Operand, str | None]:
    """The operand of an object of another library with the axes `dims`, or else those that it names or has, canonical.

    Raises `LayoutError` for `dims` that do not fit the axes or contradict their names.
    """
    axes = (_axes_of_frames(obj) or named_axes(obj)) if dims is None else dims
    if axes is None:
        return operand, None
    ordered = with_canonical_axes(operand, axes)
    if dims is not None:
        check_named_axes(obj, dims)
    return ordered


def with_canonical_axes(operand: Operand, dims: str) -> tuple[Operand, str]:
    """An operand with its axes reordered from `dims` to canonical order, and its labels, over the same memory.

    Raises `LayoutError` for `dims` that do not fit the axes.
    """
    if not isinstance(dims, str):
        checked_dims(dims, 0)  # raises: `dims` is no string
    layout = canonical_layout(operand.layout, dims)
    return Operand(operand.buffer, layout, operand.element, operand.owns_padding), canonical_axes(dims)


def foreign_operand(obj: object, copy: bool | None = None, stream: object = None) -> tuple[Operand, bool]:
    """An object of another library as an operand, and whether the operand shares the object's memory.

    Arrays and objects with DLPack (arrays of PyTorch, JAX and CuPy, values of ONNX Runtime), the CUDA Array Interface,
    NumPy's protocols or the buffer protocol are wrapped. On a CUDA device `stream`, or else the current stream, waits
    for the object's own stream. Pillow's images, scalars and nested sequences are copied. So are, unless `copy=False`,
    elements that are byte-swapped, misaligned, or at strides that are no whole number of elements. An object that
    refuses DLPack gives its array, if it has one.

    Raises `ElementTypeError` for what NumPy can only represent as objects and for elements of less than a byte, and
    with `copy=False` for swapped bytes. Raises `LayoutError` for a masked array that hides elements, and with
    `copy=False` for strides that are no whole number of elements. Raises `DeviceError` for an unavailable device.
    """
    if isinstance(obj, np.ndarray):
        return _operand_of_array(obj, copy)
    if isinstance(obj, (int, float, complex, type)):  # a class of arrays has their methods
        return _operand_of_values(obj), False
    if hasattr(obj, "__dlpack__"):
        memory = _operand_of_torch(obj)
        if memory is not None:
            return memory, True
        try:
            return _operand_of_capsule(obj, copy, stream)
        except (BufferError, NotImplementedError, TypeError) as refusal:
            instead = None if isinstance(refusal, StridedGpuError) else _operand_instead(obj, copy)
            if instead is None:
                raise
            return instead
    if hasattr(obj, "__cuda_array_interface__"):
        return _operand_of_interface(obj, stream), True
    if _is_of(obj, "PIL.Image", "Image"):
        image = array_of_pillow(obj).copy()
        # Black and white come as 0 and 255, which NumPy does not turn into valid bools.
        return operand_of_array(image.view(np.uint8) != 0 if image.dtype == np.bool_ else image), False
    tensor = frame_tensor(obj)
    if tensor is not obj:
        return foreign_operand(tensor, copy, stream)
    shared = None if isinstance(obj, np.generic) else _array_held_by(obj, copy)
    if shared is not None:
        return _operand_of_array(shared, copy)
    return _operand_of_values(obj), False


def shared_operand(name: str, obj: object, stream: object = None) -> Operand:
    """The operand of the argument `name`, anything array-like, over the same memory; `stream` waits as it does there.

    Raises `LayoutError` if that takes a copy, as for lists and Pillow's images, besides what `foreign_operand` raises.
    """
    source_operand = getattr(obj, "operand", None)
    if isinstance(source_operand, Operand):
        return source_operand
    operand, is_shared = foreign_operand(obj, False, stream)  # noqa: FBT003 - as copy=
    if not is_shared:
        raise LayoutError(
            f"{name} is a {type(obj).__name__}, whose memory cannot be shared; give a tensor or an array."
        )
    return operand


def _operand_of_values(obj: object) -> Operand:
    """A number or nested sequences of numbers, as NumPy makes an array of them."""
    if isinstance(obj, str) or (isinstance(obj, os.PathLike) and isinstance(obj.__fspath__(), (str, bytes))):
        raise ElementTypeError(
            f"{os.fspath(obj)!r} is text, no numbers: read the file of an image first, as by sg.load(paths, step), "
            "numpy.load, or Pillow's Image.open and sg.asarray(image, dims='HWC')."
        )
    array = array_of_values(obj)
    if array.dtype == object:
        if any(map(is_video_frame, array.flat[:1])):
            raise ElementTypeError(
                f"A {type(array.flat[0]).__name__} is planes, not one array. sg.Frame.of(frame) shares them, and "
                "sg.relayout(frame) makes an RGB tensor of them."
            )
        raise ElementTypeError(f"{type(obj).__name__} is not array-like: NumPy can only hold it as objects.")
    return operand_of_array(array)


def array_of_values(obj: object, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Numbers, nested sequences or an array-like as NumPy's array, as `numpy.asarray` makes it.

    NumPy reads the memory of whatever in `obj` has its protocols or the buffer protocol. All of that is checked first.

    Raises `BindingError` for memory that cannot be there, and `ElementTypeError` for what NumPy makes no array of.

    >>> array_of_values([[1, 2], np.array([3, 4])]).tolist()
    [[1, 2], [3, 4]]
    """
    try:
        return np.asarray(obj if _is_plain(obj) else _with_checked_arrays(obj, 0), dtype)
    except StridedGpuError:
        raise
    except MemoryError:
        raise DeviceError(f"The CPU has no memory left for an array of this {type(obj).__name__}.") from None
    except (TypeError, ValueError) as problem:
        raise ElementTypeError(f"This {type(obj).__name__} is not array-like: {problem}") from None


def _is_plain(obj: object) -> bool:
    """Whether lists and tuples of one depth have numbers, texts and arrays of NumPy at their ends, as most have."""
    level: Sequence[Any] = (obj,)
    for _ in range(LARGEST_RANK + 1):
        kinds = set(map(type, level))
        if kinds <= _LEAVES:
            return True
        if not kinds <= _NESTS or len(level) > _MOST_NESTS:
            return False
        level = tuple(chain.from_iterable(level))
    return False


def _with_checked_arrays(obj: Any, depth: int) -> object:
    """An object, or sequences nested below it, with a checked array in the place of each array-like."""
    kind = type(obj)
    if _is_of(obj, "numpy.ma", "MaskedArray"):
        _check_mask(obj)
    if kind in _LEAVES or depth > LARGEST_RANK or isinstance(obj, (str, bytes, type, np.generic, _ARRAY)):
        return obj
    if kind is not list and kind is not tuple:
        array = _array_held_by(obj, None)
        if array is not None:
            if array.dtype.hasobject and any(hasattr(obj, name) for name in _PROTOCOLS[:2]):
                raise ElementTypeError(f"{kind.__name__} is not array-like: its memory would be read as objects.")
            return array
        if not (hasattr(obj, "__len__") and hasattr(obj, "__getitem__")) or isinstance(obj, dict):
            return obj
        obj = list(obj)
    if _LEAVES.issuperset(map(type, obj)):
        return obj
    return [_with_checked_arrays(part, depth + 1) for part in obj]


def operand_of_array(array: NDArray[np.generic], dims: str | None = None) -> Operand:
    """A NumPy array's memory as an operand, borrowed; a read-only array stays read-only.

    `dims` is the order of its axes. Raises `LayoutError` if the array's strides are no whole number of elements, and
    `ElementTypeError` for its dtype.
    """
    return _operand_of_array(array, copy=False, dims=dims)[0]


def plain(value: object) -> Any:
    """Arrays, and scalars of libraries, as Python lists and numbers; any other object unchanged."""
    if isinstance(value, _ARRAY) and value.size > _MOST_LISTED:
        return value
    return value.tolist() if hasattr(value, "tolist") and not isinstance(value, type) else value


_MOST_LISTED: Final = 1 << 20
"""More numbers than any argument has: a repeated array can have more than there is memory for."""


def value_operand(value: object, target: ElementType) -> Operand:
    """An array-like or scalar to be written, as an operand; a Python integer must fit an integer `target`."""
    if isinstance(value, int) and not isinstance(value, bool):
        check_fits("value", value, target)
        if not -(2**63) <= value < 2**64:
            value = _rounded("value", value)
    return foreign_operand(value)[0]


def _rounded(name: str, value: int) -> float:
    """An integer beyond 64 bits as the nearest float64. Raises `LayoutError` if it is out of float64's range."""
    try:
        return float(value)
    except OverflowError:
        raise LayoutError(f"{name}, an integer of {value.bit_length()} bits, is beyond every float.") from None


def _array_held_by(obj: Any, copy: bool | None) -> NDArray[np.generic] | None:
    """The array of an object with NumPy's protocols or the buffer protocol; None if it has none to share."""
    if any(hasattr(obj, name) for name in _PROTOCOLS):
        try:
            array = np.array(obj, copy=False if copy is False else None)
        except ValueError as problem:
            if copy is False:
                return None
            raise ElementTypeError(f"This {type(obj).__name__} is not array-like: {problem}") from None
        except (TypeError, OverflowError) as problem:
            if hasattr(obj, "__array__"):
                raise
            raise ElementTypeError(f"{type(obj).__name__} is not array-like: {problem}") from None
    else:
        try:
            array = np.asarray(memoryview(obj))
        except TypeError:
            return None
        except ValueError as problem:
            raise ElementTypeError(f"{type(obj).__name__} is not array-like: {problem}") from None
    return _checked(obj, array)


def _operand_instead(obj: object, copy: bool | None) -> tuple[Operand, bool] | None:
    """The array or bytes of an object that exports no capsule, and whether they are shared; None if it has none.

    So are pyarrow's arrays of bits and with nulls, and PyAV's planes of packed samples.
    """
    try:
        shared = _array_held_by(obj, copy)
        if shared is not None:
            return _operand_of_array(shared, copy)
        array = _array_held_by(obj, None)
    except StridedGpuError:
        raise
    except (BufferError, RuntimeError, TypeError, ValueError):
        return None
    return None if array is None else (operand_of_array(array), False)


def array_of_pillow(image: object) -> NDArray[Any]:
    """The pixels of an image of Pillow, whose array interface is a copy made for the caller.

    Raises `BindingError` where another thread changes the image meanwhile: its shape is that of other bytes.
    """
    return _checked(image, np.asarray(image))


def _checked(obj: object, array: NDArray[Any]) -> NDArray[Any]:
    """The array that NumPy made of an object. Raises `BindingError` if its memory cannot be there."""
    check_steps(type(obj).__name__, address_of(array), array.shape, array.strides, array.itemsize)
    check_bytes(type(obj).__name__, array)
    return array


def _operand_of_array(array: NDArray[np.generic], copy: bool | None, dims: str | None = None) -> tuple[Operand, bool]:
    """An array's memory, or a copy if the memory is unusable as it is; and whether the memory is shared.

    With `dims` the axes are put in canonical order.
    """
    if type(array) is not _ARRAY and _is_of(array, "numpy.ma", "MaskedArray"):
        _check_mask(array)
    dtype, is_moved = array.dtype, copy is not False
    described = _shared_as(dtype, array.shape, array.strides, dims)
    if described is None and not is_moved:
        described = _described(dtype, array.shape, array.strides, dims)  # raises: no operand has such bytes or strides
    if described is not None:
        element, layout, nbytes, before, itemsize = described
        address = address_of(array)
        if not is_moved or itemsize == 1 or not address % itemsize:
            start = address - before if before else address
            # Arguments without names: names take Python a third as long again.
            buffer = Buffer.trusted(start, nbytes, array, None, "cpu", not array.flags.writeable)
            return Operand.whole(buffer, layout, element), True
    return operand_of_array(array.astype(dtype.newbyteorder("="), order="C", copy=True), dims), False


def _check_mask(array: Any) -> None:
    """Raise `LayoutError` for a masked array that hides elements: a tensor has no mask and would expose them."""
    hidden = np.count_nonzero(np.ma.getmaskarray(array))
    if hidden:
        raise LayoutError(
            f"This masked array hides {hidden} of its {array.size} elements, and a tensor has no mask: give "
            "array.filled(value), or array.data for every element."
        )


_Described = tuple[ElementType, Layout, int, int, int]
"""An array's element type, its layout from the lowest element, the bytes of that, those before coordinates 0, and those
of an element."""


@lru_cache(maxsize=1024)
def _shared_as(
    dtype: np.dtype[np.generic], sizes: tuple[int, ...], steps: tuple[int, ...], dims: str | None
) -> _Described | None:
    """How memory is described that is shared; None for swapped bytes, and strides that are no whole elements."""
    if not dtype.isnative or element_strides(sizes, steps, dtype.itemsize or 1) is None:
        return None
    return _described(dtype, sizes, steps, dims)


def _described(
    dtype: np.dtype[np.generic], sizes: tuple[int, ...], steps: tuple[int, ...], dims: str | None
) -> _Described:
    """How an array's memory is described. With `dims`, the order of its axes, the layout's axes are canonical."""
    element = element_type(dtype)
    itemsize = element.itemsize
    strides = element_strides(sizes, steps, itemsize)
    if strides is None:
        raise LayoutError(f"The array's strides of {steps} bytes are not whole elements of {itemsize} bytes; copy it.")
    layout = Layout(sizes, strides)
    if dims is not None:
        layout = canonical_layout(layout, dims)
    lowest = layout.first_offset
    return element, layout.shifted(-lowest), layout.span * itemsize, -lowest * itemsize, itemsize


@lru_cache(maxsize=1024)
def canonical_layout(layout: Layout, dims: str) -> Layout:
    """The layout with its labelled axes reordered from `dims` to canonical order, after its plain axes."""
    labels = labels_of(checked_dims(dims, layout.ndim), layout.ndim)
    axes = (*range(layout.ndim - len(dims)), *(labels.index(letter) for letter in canonical_axes(dims)))
    return layout.permuted(axes)


def _operand_of_torch(obj: Any) -> Operand | None:
    """A tensor of PyTorch on the CPU at its own address, in a quarter of the time of a capsule.

    PyTorch resizes no tensor again that gave its array, `obj.numpy()`; of an address it knows nothing. None for any
    other object, and for a tensor that is more than memory: the capsule, or its error, says more.
    """
    if type(obj).__module__ != "torch":
        return None
    torch = sys.modules.get("torch")
    if type(obj) is not getattr(torch, "Tensor", None) or not obj.is_cpu:
        return None
    element = ELEMENT_TYPES.get(str(obj.dtype).removeprefix("torch."))
    if element is None or obj.requires_grad or obj.is_conj() or obj.is_neg():
        return None
    try:
        address, sizes, strides, owner = obj.data_ptr(), tuple(obj.shape), obj.stride(), obj.untyped_storage()
    except RuntimeError:  # sparse, nested, or inside of torch.func
        return None
    if not address or address % element.itemsize:
        return None
    return foreign_memory("Tensor", address, sizes, strides, element, owner=owner)


def _operand_of_interface(obj: object, stream: object) -> Operand:
    """The memory of an object with the CUDA Array Interface."""
    device = cuda_device_of_memory(0)
    device_named(device)
    return Operand(*exchange_of(device).borrowed(obj, stream))


def _operand_of_capsule(obj: Any, copy: bool | None, stream: object) -> tuple[Operand, bool]:
    """The memory of an object with DLPack, or with an interface besides where its capsule was taken before.

    An image of nvImageCodec has one capsule, and then raises a `RuntimeError`.
    """
    try:
        operand = dlpack_operand(obj, stream)
    except RuntimeError as refusal:
        if isinstance(refusal, StridedGpuError) or not _has_interface(obj):
            raise
        return _operand_of_interface(obj, stream), True
    if operand.element.name == "uint8" and _is_of(obj, "onnxruntime", "OrtValue") and "bool" in obj.data_type():
        operand = Operand(operand.buffer, operand.layout, ELEMENT_TYPES["bool"])  # ONNX Runtime exports bools as uint8
    itemsize = operand.element.itemsize
    if copy is None and itemsize > 1 and operand.buffer.device == "cpu" and operand.address % itemsize:
        return operand_of_array(array_of_operand(operand).copy()), False
    return operand, True


def _has_interface(obj: Any) -> bool:
    """Whether an object states memory of a GPU; PyTorch's tensors raise errors of several types if they do not."""
    try:
        return obj.__cuda_array_interface__ is not None
    except (AttributeError, RuntimeError, TypeError):
        return False


_VIDEO_FRAMES: Final = (("av", "VideoFrame"), ("torchcodec.decoders", "RawFrame"))


def video_frame_types() -> tuple[type, ...]:
    """The classes of frames that decoders give: PyAV's and TorchCodec's, where these are loaded."""
    kinds = (getattr(sys.modules.get(module), name, None) for module, name in _VIDEO_FRAMES)
    return tuple(kind for kind in kinds if isinstance(kind, type))


def is_video_frame(obj: object) -> bool:
    """True for a VideoFrame of PyAV, and for a RawFrame of TorchCodec."""
    return _is_of(obj, *_VIDEO_FRAMES[0]) or is_raw_frame(obj)


def is_raw_frame(obj: object) -> bool:
    """True for a RawFrame of TorchCodec."""
    return _is_of(obj, *_VIDEO_FRAMES[1])


def frame_tensor(obj: Any) -> Any:
    """The RGB tensor of a Frame or FrameBatch of TorchCodec; any other object as it is."""
    is_loaded = "torchcodec" in sys.modules
    is_decoded = is_loaded and (_is_of(obj, "torchcodec", "Frame") or _is_of(obj, "torchcodec", "FrameBatch"))
    return obj.data if is_decoded else obj


def _axes_of_frames(obj: Any) -> str | None:
    """The axes of a Frame or FrameBatch of TorchCodec, whose three channels come first or last; None for others."""
    tensor = frame_tensor(obj)
    if tensor is obj or tensor.ndim > len("NCHW"):  # of clips
        return None
    return ("NCHW" if tensor.shape[-3] == len("RGB") else "NHWC")[-tensor.ndim :]


def _is_of(obj: object, module: str, name: str) -> bool:
    """True if an object is of a library's class; a library that is not loaded has no objects."""
    library = sys.modules.get(module)
    if library is None:
        return False
    kind = getattr(library, name, None)
    return isinstance(kind, type) and isinstance(obj, kind)
