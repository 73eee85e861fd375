"""`StridedTensor`: a dtype and a layout over a buffer: its facts and views, how elements move, and what it exports."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import index as as_index
from types import ModuleType, TracebackType
from typing import Any, Final, NoReturn, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.interface import EMULATED
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import chosen_device, device_named
from stridedgpu.exchange.array_like import shared_operand, value_operand
from stridedgpu.exchange.exports import (
    array_of_operand,
    cuda_array_interface,
    dlpack_capsule,
    dlpack_device,
    native_array,
    numpy_dtype,
)
from stridedgpu.operations.move import without_repeats
from stridedgpu.operations.options import DEFAULT_ALIGNMENT, allocate_operand, result_options
from stridedgpu.operations.relayout import assign_operand, clear_buffer, on_device, relayout_operand
from stridedgpu.typing import DeviceLike, DTypeLike, ResultKeywords, StreamLike, TensorLike
from stridedgpu.values.axis_labels import checked_dims, dims_of, inferred_labels, labels_of, permutation
from stridedgpu.values.descriptor import BufferTensorDesc
from stridedgpu.values.dtypes import ELEMENT_TYPES, DataType, ElementType, element_type
from stridedgpu.values.errors import BindingError, DeviceError, ElementTypeError, LayoutError, StridedGpuError
from stridedgpu.values.indexing import Index
from stridedgpu.values.layout import Layout
from stridedgpu.values.memoized import memoized
from stridedgpu.values.strides import integer, integers

_NUMBERS: Final = "compute with .numpy(), torch.from_dlpack or another library's view of the memory"

_FEW_VALUES: Final = 16
"""Elements up to which `repr` shows their values."""

_NO_LIMIT: Final = 1 << 20

_ELSEWHERE: Final = {
    **dict.fromkeys(("transpose", "T", "mT", "moveaxis", "swapaxes"), "permute(axes) orders axes anew"),
    **dict.fromkeys(("reshape", "view", "ravel", "flatten"), "reinterpret(sizes=...) is a reshape without a copy"),
    **dict.fromkeys(("expand", "repeat"), "broadcast_to(sizes) repeats without a copy"),
    **dict.fromkeys(("astype", "type", "float", "half"), "relayout(dtype=...) converts"),
    **dict.fromkeys(("cpu", "cuda", "to"), "to_device(device) moves, and relayout(device=..., dtype=...) converts too"),
    **dict.fromkeys(("clone", "contiguous"), "copy() packs"),
    **dict.fromkeys(("size", "numel"), "layout.element_count is the number of elements, and sizes those of each axis"),
    **dict.fromkeys(("flip", "flipud", "fliplr"), "t[::-1] runs backwards"),
    **dict.fromkeys(("take", "index_select"), "gather(t, indices, axis) picks"),
    **dict.fromkeys(("sum", "mean", "max", "min", "std"), _NUMBERS),
    **dict.fromkeys(("torch", "to_torch", "to_dlpack"), "torch.from_dlpack(t) shares the memory"),
    "stride": "strides has those of each axis, in elements",
    "fill_": "t[...] = value fills",
    "data_ptr": "operand.address is that of the first element",
}
"""Attributes that NumPy's and PyTorch's users look for, and their names here."""


class Released:
    """Replaces the operand of a released tensor: every use raises.

    `kept` is memory whose address was exported, and that must live as long as the tensor.
    """

    def __init__(self, kept: Buffer | None = None) -> None:
        self._kept = kept

    def __getattr__(self, name: str) -> NoReturn:
        raise BindingError("This tensor was released, by its `with` block or release(); make another over the memory.")


class _Elsewhere:
    """An attribute of other libraries' tensors, which says what there is here.

    `__getattr__` would say it, too, and with it every attribute of a tensor takes Python several times as long.
    """

    __slots__ = ("_advice", "_name")

    def __init__(self, name: str, advice: str) -> None:
        self._name = name
        self._advice = advice

    def __get__(self, tensor: object, owner: type) -> NoReturn:
        raise AttributeError(f"A {owner.__name__} has no {self._name!r}; {self._advice}.", name=self._name, obj=tensor)


class StridedTensor:
    """Elements of one type, laid out with sizes and strides over raw bytes on one device.

    `buffer` is a `Buffer` or any contiguous object with the buffer protocol, which keeps its owner; `layout` gives the
    elements' places, in elements from its start; `dtype` is a NumPy dtype, a name or a `DataType`; `dims` labels the
    last axes, such as "NCHW". Views share the buffer and keep it alive.

    Raises `BindingError` when the layout leaves the buffer, `ElementTypeError` for an unknown type.

    >>> tensor = StridedTensor(bytearray(range(12)), Layout((2, 3), (5, 1), offset=1), "uint8")
    >>> tensor.numpy().tolist()
    [[1, 2, 3], [6, 7, 8]]
    """

    __slots__ = ("__weakref__", "dims", "operand")

    operand: Operand
    """Buffer, layout and element type: what operations work on."""
    dims: str | None
    """The labels of the last axes, or None."""

    def __init__(self, buffer: object, layout: Layout, dtype: DTypeLike, *, dims: str | None = None) -> None:
        if not isinstance(layout, Layout):
            raise LayoutError(f"layout={layout!r} is not a Layout, such as Layout((2, 3)).")
        set_operand(self, Operand(Buffer.of(buffer), layout, element_type(dtype)))
        set_dims(self, checked_dims(dims, layout.ndim))

    @staticmethod
    def over(operand: Operand, dims: str | None = None) -> StridedTensor:
        """A tensor of an existing operand, and of labels that are known to fit it."""
        tensor = _new(StridedTensor)
        set_operand(tensor, operand)
        set_dims(tensor, dims)
        return tensor

    # Facts

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Raise: a tensor's attributes are immutable, and `tensor[...] = value` writes elements."""
        raise AttributeError(f"{name!r} of a tensor cannot be set; make a view, or write elements with t[...] = value.")

    @property
    def layout(self) -> Layout:
        """Sizes, strides and offset, in elements from the buffer's start."""
        return self.operand.layout

    @property
    def buffer(self) -> Buffer:
        """The bytes that the tensor's layout refers to."""
        return self.operand.buffer

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return self.layout.sizes

    @property
    def shape(self) -> tuple[int, ...]:
        """The same as `sizes`, by NumPy's name."""
        return self.layout.sizes

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements (not bytes) from one element to the next along each axis."""
        return self.layout.strides

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.layout.ndim

    @property
    def element(self) -> ElementType:
        """The element type, without needing the library that a NumPy dtype may come from."""
        return self.operand.element

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype; bfloat16 and float8 need ml_dtypes."""
        return numpy_dtype(self.element)

    @property
    def data_type(self) -> DataType:
        """The DirectML type, or `DataType.UNKNOWN` for bool, bfloat16, float8 and complex."""
        return self.element.data_type

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.element.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, as in NumPy: no padding, repeats counted. `buffer.nbytes` is the memory's size."""
        return self.layout.element_count * self.itemsize

    @property
    def device(self) -> str:
        """The device of the memory: "cpu" or "cuda:N"."""
        return self.buffer.device

    @property
    def alignment(self) -> int:
        """The power of two, in bytes, guaranteed to divide the address of this tensor's first element."""
        return self.operand.alignment

    @property
    def desc(self) -> BufferTensorDesc:
        """The DirectML descriptor of this tensor, whose bytes start at its first element.

        Raises `LayoutError` if DirectML cannot describe it: rank 0 or above 8, empty, flipped, an unknown type, more
        than 2^32-1 elements.
        """
        if self.data_type is DataType.UNKNOWN:
            raise LayoutError(f"DirectML has no element type for {self.element}.")
        total = None
        if self.operand.owns_padding and self.layout.span:
            total = self.buffer.nbytes // 4 * 4
        alignment = self.alignment if self.alignment >= self.itemsize else 0
        return BufferTensorDesc(self.data_type, self.sizes, self.strides, total, alignment)

    def __dir__(self) -> list[str]:
        """The attributes, without those of other libraries that only say what there is here."""
        return [name for name in super().__dir__() if name not in _ELSEWHERE]

    # Views

    def _view(
        self, layout: Layout, dims: str | None, *, element: ElementType | None = None, whole: bool
    ) -> StridedTensor:
        """Another layout over the same buffer; a `whole` view has every element, and keeps the owned padding."""
        operand = self.operand
        owns = whole and operand.owns_padding
        return StridedTensor.over(Operand(operand.buffer, layout, element or operand.element, owns), dims)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> StridedTensor:
        """A window: integers, slices with any step, `...` and None, as in NumPy; never a copy."""
        operand, dims = self.operand, self.dims
        layout, axes = operand.layout.window(index)
        if dims is not None and axes is not None:
            dims = _kept_dims(dims, operand.layout.ndim, axes)
        return StridedTensor.over(Operand.trusted(operand.buffer, layout, operand.element), dims)

    def permute(self, order: str | Sequence[int]) -> StridedTensor:
        """The axes in another order: axis numbers, or letters such as "NHWC".

        Without labels, axes of rank 4 and 5 are taken to be NCHW and NCDHW. Plain axes stay in front.
        """
        operand = self.operand
        exact = order if isinstance(order, str) else integers("axes", order)
        layout, dims = _permuted(operand.layout, self.dims, exact)
        view = Operand.trusted(operand.buffer, layout, operand.element, operand.owns_padding)
        return StridedTensor.over(view, dims)

    def broadcast_to(self, sizes: Sequence[int]) -> StridedTensor:
        """Repeated to `sizes` with strides of 0; leading axes are added as NumPy does."""
        return self._view(self.layout.broadcast_to(sizes), self.dims, whole=False)

    def squeeze(self, axis: int | Sequence[int] | None = None) -> StridedTensor:
        """Without the axes of size 1, or the given ones."""
        exact = integers("axis", axis) if isinstance(axis, Sequence) else axis
        return self._view(*_squeezed(self.layout, self.dims, exact), whole=True)

    def unsqueeze(self, axis: int) -> StridedTensor:
        """With a new plain axis of size 1 at `axis`, counted in the result."""
        return self._view(*_unsqueezed(self.layout, self.dims, axis), whole=True)

    def ensure_rank(self, rank: int) -> StridedTensor:
        """With leading axes of size 1 added, or taken away, as DirectML wants {1, 1, H, W}."""
        rank = integer("rank", rank)
        layout = self.layout.aligned_to_rank(rank)
        dims = self.dims
        full = {4: "NCHW", 5: "NCDHW"}.get(rank)
        if dims is not None and full is not None and full.endswith(dims):
            dims = full
        elif dims is not None:
            dims = dims[-rank:] if rank else None
        return self._view(layout, dims, whole=True)

    def reinterpret(
        self, dtype: DTypeLike | None = None, sizes: Sequence[int] | None = None, strides: Sequence[int] | None = None
    ) -> StridedTensor:
        """The same bytes as other elements, never a copy.

        With `dtype` alone, or with `sizes` to follow, the last axis is counted in the new elements, as in NumPy and
        PyTorch: it must be contiguous, and the sizes and strides must come out whole. `sizes` alone is a reshape.
        `strides` (in new elements, from this view's first byte) define any other view, such as the low halves of int64:
        `t.reinterpret("uint32", t.sizes, [2 * s for s in t.strides])`.

        Raises `LayoutError` when a view is impossible, `BindingError` when it would leave this tensor's buffer.
        """
        element = self.element if dtype is None else element_type(dtype)
        if strides is not None:
            start = self.layout.offset * self.itemsize
            if start % element.itemsize:
                raise LayoutError(
                    f"The view starts {start} bytes into its buffer, not at a whole {element.itemsize}-byte element."
                )
            layout = Layout(self.sizes if sizes is None else sizes, strides, start // element.itemsize)
            return self._view(layout, None, element=element, whole=False)
        layout = self.layout.reinterpreted(self.itemsize, element.itemsize)
        if sizes is None:
            return self._view(layout, self.dims, element=element, whole=True)
        return self._view(layout.reshaped(sizes), None, element=element, whole=True)

    def as_strided(self, sizes: Sequence[int], strides: Sequence[int], offset: int = 0) -> StridedTensor:
        """Any sizes and strides over the buffer, `offset` elements from this view's first; kept inside the buffer."""
        return self._view(Layout(sizes, strides, offset).shifted(self.layout.offset), None, whole=False)

    # Moving elements

    def relayout(
        self,
        *,
        device: DeviceLike | None = None,
        out: TensorLike | None = None,
        stream: StreamLike | None = None,
        **options: Unpack[ResultKeywords],
    ) -> StridedTensor:
        """The same elements in another layout, type, scale or channel order: see `stridedgpu.relayout`."""
        conversion, memory = result_options("StridedTensor.relayout", options, device)
        written = output_tensor(out)
        target = None if written is None else written.operand
        operand, dims = relayout_operand(self.operand, self.dims, conversion, memory, target, stream)
        return StridedTensor.over(operand, dims) if written is None else written

    def copy(self) -> StridedTensor:
        """A packed copy, in this tensor's own axis order, on the same device."""
        return self.relayout()

    def to_device(self, device: str) -> StridedTensor:
        """This tensor on another device, packed in the order of its memory; itself when it is there already.

        Frames of a decoder (NHWC) stay pixels, and planes stay planes: `relayout(device=)` packs axes in the tensor's
        own order instead. A copy to a GPU is queued on the current stream, and this tensor may be changed on return. A
        copy from one is done on return.
        """
        where = chosen_device(device)
        return self if where == self.device else StridedTensor.over(on_device(self.operand, where), self.dims)

    def __setitem__(self, index: Index | tuple[Index, ...], value: TensorLike) -> None:
        """Write a tensor, array or scalar into a view, broadcast and converted as `relayout` does.

        Raises before anything is written: sizes that do not broadcast, an integer that does not fit, a read-only or
        overlapping view, a value that shares memory with it.
        """
        target = self.operand
        if index is not Ellipsis or target.spec.owns_padding:  # a view leaves the gaps as they are
            target = self[index].operand
        source = value.operand if isinstance(value, StridedTensor) else value_operand(value, target.element)
        if source.layout.sizes != target.layout.sizes:
            source = source.with_layout(source.layout.broadcast_to(target.layout.sizes))
        assign_operand(source, target, name="the view")

    # The memory, as others take it

    def numpy(self) -> NDArray[Any]:
        """A NumPy array: over the same memory on the CPU, a copy from any other device."""
        operand = self.operand
        if operand.buffer.device != "cpu":
            target = allocate_operand(Layout(operand.layout.sizes), operand.element, DEFAULT_ALIGNMENT, "cpu")
            assign_operand(operand, target)
            operand = target
        return array_of_operand(operand)

    def native(self) -> Any:
        """The array of the device's library over the same memory: NumPy's on the CPU, CuPy's on a CUDA device.

        Code for both devices computes with it and with `xp`, its module. Nothing is copied, and no stream waits: CuPy's
        current stream orders its work. Raises `LayoutError` for read-only memory on a CUDA device.

        >>> import stridedgpu as sg
        >>> tensor = sg.zeros((2, 3), "float32", device="cpu")
        >>> tensor.native()[:] = tensor.xp.arange(3)
        >>> tensor.tolist()
        [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]
        """
        return native_array(self.operand)

    @property
    def xp(self) -> ModuleType:
        """The module of `native()`'s array: `numpy` on the CPU, `cupy` on a CUDA device.

        Raises `DeviceError` on the emulated device, which has none.
        """
        if self.device == EMULATED:
            self.native()  # raises: CuPy does not reach emulated memory
        return np if self.device == "cpu" else sys.modules["cupy"]  # a tensor on a CUDA device has loaded it

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """For NumPy's functions, on the CPU only."""
        if self.device != "cpu":
            raise TypeError(f"A tensor on {self.device} is not turned into a NumPy array unasked; call .numpy().")
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's type and number of the device."""
        return dlpack_device(self.operand)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule over the same memory, strides and offset included; `BufferError` if DLPack lacks support."""
        request = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        return dlpack_capsule(self.operand, **request)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA Array Interface, version 3, on a CUDA device; absent elsewhere."""
        interface = cuda_array_interface(self.operand)
        self.buffer.is_lent = True  # the consumer refers to this tensor, not to the buffer
        return interface

    def release(self) -> None:
        """Release the memory, as `memoryview.release` does; `with tensor:` does so at the end of its block.

        Memory of the library's own is freed, and borrowed memory is returned to its owner, a decoder or a mapped file.
        The tensor then refuses every use with a `BindingError`; a second release does nothing. On a CUDA device work
        may still use the memory: order the owner's next use on the same stream, or `synchronize` first. Memory whose
        address was exported by the CUDA Array Interface, which cannot be returned, stays as long as the tensor.

        Raises `BufferError`, and releases nothing, while anything else uses the memory: a view or another tensor, a
        NumPy array, a DLPack capsule.

        >>> import stridedgpu as sg
        >>> memory = bytearray(6)
        >>> with sg.asarray(memory) as tensor:
        ...     tensor[...] = 7
        >>> memory.extend(b"!")  # which a bytearray refuses while anything looks at it
        >>> tensor
        StridedTensor(released)
        """
        if isinstance(self.operand, Released):
            return
        buffer, facts = self.buffer, (self.layout, self.element, self.operand.owns_padding)
        if buffer.is_lent:
            set_operand(self, Released(buffer))
            return
        kept, watched = buffer if buffer.has_arrays() else None, weakref.ref(buffer)
        set_operand(self, Released())
        del buffer
        if (user := kept or watched()) is not None:
            set_operand(self, Operand(user, *facts))
            raise BufferError(
                "This tensor's memory is still in use, by a view, another tensor, a NumPy array or a DLPack capsule; "
                "let go of those first."
            )

    def __enter__(self) -> Self:
        """This tensor, for the length of a `with` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Release; after an error, whose frames may refer to views, memory that is in use stays with its users."""
        try:
            self.release()
        except BufferError:
            if kind is None:
                raise
            set_operand(self, Released())

    # As Python's numbers and lists; from a device the elements are copied

    def item(self) -> Any:
        """The one element as a Python number. Raises `ValueError` where there are more, or none.

        >>> import stridedgpu as sg
        >>> sg.asarray([[1, 2], [3, 4]])[1, 0].item()
        3
        """
        if self.layout.element_count != 1:
            raise ValueError(f"A tensor of sizes {self.sizes} has {self.layout.element_count} elements, not one.")
        return self.numpy().item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; a number at rank 0."""
        return self.numpy().tolist()

    def __bool__(self) -> bool:
        """The truth of a tensor of one element; an error otherwise, as in NumPy."""
        if self.layout.element_count != 1:
            raise ValueError(f"The truth of a tensor of sizes {self.sizes} is ambiguous; compare its .numpy().")
        return bool(self.numpy().reshape(()))

    def __float__(self) -> float:
        """The one element. Raises `TypeError` where there are more, as the other conversions do."""
        return float(self._number())

    def __int__(self) -> int:
        """The one element, truncated towards zero."""
        return int(self._number())

    def __complex__(self) -> complex:
        """The one element."""
        return complex(self._number())

    def __index__(self) -> int:
        """The one element, which must be an integer."""
        return as_index(self._number())

    def __format__(self, spec: str) -> str:
        """The one element formatted with `spec`, such as ".2f"; without a `spec`, the tensor's `repr`."""
        return format(self._number(), spec) if spec else str(self)

    def _number(self) -> Any:
        try:
            return self.item()
        except ValueError as problem:
            raise TypeError(str(problem)) from None

    # What Python expects of a container

    def __len__(self) -> int:
        """The size of the first axis."""
        if not self.sizes:
            raise TypeError("A tensor of rank 0 has no first axis to count or iterate over; .item() is its element.")
        return self.sizes[0]

    def __iter__(self) -> Iterator[StridedTensor]:
        """Views along the first axis."""
        return (self[place] for place in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Identity: elements are not compared, and a comparison with an array or a scalar raises."""
        if self is other:
            return True
        if isinstance(other, (StridedTensor, np.ndarray, np.generic, int, float, complex)):
            raise TypeError(
                "== does not compare elements: use a.numpy() == b, np.array_equal(a, b), or `a is b` for one tensor."
            )
        return NotImplemented

    __hash__ = object.__hash__

    # Copies that keep strides and labels

    def __copy__(self) -> StridedTensor:
        """A tensor of the same layout and labels in new memory on the same device; gaps that are not its own are 0."""
        return StridedTensor.over(copied_operand(self.operand), self.dims)

    def __deepcopy__(self, memo: dict[int, object]) -> StridedTensor:
        """The same: elements hold no objects."""
        return self.__copy__()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle elements, layout, labels, alignment and device, and the gaps that the tensor owns; others become 0.

        A read-only tensor comes back read-only.
        """
        return _unpickled, (state_of_operand(self.operand), self.dims)

    # In words and pictures

    def describe(self) -> str:
        """Describe the memory in a few lines.

        Sizes and strides; the bytes spanned, the share of padding and its owner; the DirectML descriptor, or why there
        is none; packed, padded, broadcast or overlapping; alignment.
        """
        from stridedgpu.drawing.subject import description

        try:
            directml: BufferTensorDesc | StridedGpuError = self.desc
        except StridedGpuError as problem:
            directml = problem
        return "\n".join([repr(self), *description(self.operand, directml)])

    def __repr__(self) -> str:
        """The tensor in one line, with the values of a few elements that lie on the CPU in memory with an owner."""
        if isinstance(self.operand, Released):
            return "StridedTensor(released)"
        layout = self.layout
        kinds = ("broadcast", layout.is_broadcast), ("padded", layout.is_padded), ("packed", layout.is_packed)
        kind = next((name for name, holds in kinds if holds), "overlapping")
        facts = [
            f"sizes={self.sizes}",
            f"strides={self.strides}",
            f"dtype={self.element}",
            f"dims={self.dims!r}",
            f"device={self.device!r}",
            f"alignment={self.alignment}",
            kind + (", read-only" if self.buffer.readonly else ""),
            *self._few_values(),
        ]
        return f"StridedTensor({', '.join(facts)})"

    def _few_values(self) -> list[str]:
        """The values as one entry of `repr`, if they are few and reading them neither waits nor needs a library.

        Memory at an address without an owner is not read: it may be gone.
        """
        operand, buffer = self.operand, self.buffer
        is_kept = buffer.owned or buffer.owner is not None
        if buffer.device != "cpu" or not is_kept or not 0 < operand.layout.element_count <= _FEW_VALUES:
            return []
        try:
            array = array_of_operand(operand)
        except ElementTypeError:  # a type of ml_dtypes, which is not installed
            return []
        text = np.array2string(array, separator=", ", max_line_width=_NO_LIMIT, threshold=_NO_LIMIT)
        return [f"values={' '.join(text.split())}"]

    def _repr_svg_(self) -> str:
        """The picture that notebooks show."""
        from stridedgpu.drawing.svg import svg

        return svg(self)

    def _repr_html_(self) -> str:
        """The picture that notebooks show where they take HTML: hover, tab and coordinates."""
        from stridedgpu.drawing.page import fragment

        return fragment(self)


for _name, _advice in _ELSEWHERE.items():
    setattr(StridedTensor, _name, _Elsewhere(_name, _advice))

set_operand, set_dims = (getattr(StridedTensor, name).__set__ for name in ("operand", "dims"))
"""The setters of a tensor's two values, for creation and release; nothing else can set them."""

_new: Final = object.__new__


@lru_cache(maxsize=1024)
def _kept_dims(dims: str, ndim: int, axes: tuple[int | None, ...]) -> str | None:
    """The labels of a window, each of whose axes came from one of the tensor's, or is new."""
    labels = labels_of(dims, ndim)
    return dims_of(tuple(None if axis is None else labels[axis] for axis in axes))


@memoized
def _permuted(layout: Layout, dims: str | None, order: str | Sequence[int]) -> tuple[Layout, str | None]:
    """A layout with its axes in another order, and the labels in that order."""
    labels = inferred_labels(dims, layout.ndim, order) if isinstance(order, str) else labels_of(dims, layout.ndim)
    axes = permutation(order, labels)
    return layout.permuted(axes), dims_of(tuple(labels[axis] for axis in axes))


@memoized
def _squeezed(layout: Layout, dims: str | None, axis: int | Sequence[int] | None) -> tuple[Layout, str | None]:
    """A layout without axes of size 1, and the labels of the others."""
    result = layout.squeezed(axis)
    if axis is None:
        gone = {place for place, size in enumerate(layout.sizes) if size == 1}
    else:
        gone = {layout.axis_of(entry) for entry in (axis if isinstance(axis, Sequence) else (axis,))}
    return result, dims_of(
        tuple(label for place, label in enumerate(labels_of(dims, layout.ndim)) if place not in gone)
    )


@memoized
def _unsqueezed(layout: Layout, dims: str | None, axis: int) -> tuple[Layout, str | None]:
    """A layout with one more plain axis of size 1, and its labels."""
    result, labels = layout.unsqueezed(axis), labels_of(dims, layout.ndim)
    place = axis % result.ndim
    return result, dims_of((*labels[:place], None, *labels[place:]))


def _unpickled(state: State, dims: str | None) -> StridedTensor:
    """A tensor on its former device, or one of its kind; else on the CPU, with a warning."""
    return StridedTensor.over(restored_operand(state), dims)


def output_tensor(out: object, stream: object = None) -> StridedTensor | None:
    """`out` as a tensor over the same memory: a tensor itself, or any array whose memory can be shared and written.

    On a CUDA device `stream`, or else the current one, waits for an array's own stream.

    Raises `LayoutError` for anything else. Arrays of JAX, which never change, are refused with a `BindingError`.
    """
    if out is None or isinstance(out, StridedTensor):
        return out
    if type(out).__module__.partition(".")[0] in ("jax", "jaxlib"):
        raise BindingError("out is an array of JAX, which never change; write into a tensor, and share that with JAX.")
    return StridedTensor.over(shared_operand("out", out, stream))


State = tuple[bytes, bool, Layout, str, int, str, bool]
"""A pickled operand: its bytes, and whether gaps are among them; the layout, the type's name, alignment, device, and
whether it is read-only."""


def copied_operand(operand: Operand) -> Operand:
    """The elements of an operand, and the gaps that it owns, in the same layout in new memory on the same device."""
    if not operand.owns_padding and without_repeats(operand.layout).has_overlap:
        return restored_operand((*state_of_operand(operand)[:-1], False))
    has_gaps = _keeps_gaps(operand)
    layout = operand.layout.shifted(-operand.layout.first_offset)
    alignment = max(operand.buffer.alignment, operand.element.itemsize)
    result = allocate_operand(layout, operand.element, alignment, operand.buffer.device)
    if not has_gaps:
        clear_buffer(result.buffer)
    assign_operand(_kept(operand, has_gaps), _kept(result, has_gaps))
    return result


def state_of_operand(operand: Operand) -> State:
    """An operand as host values; the bytes of device memory are copied to the host."""
    has_gaps = _keeps_gaps(operand)
    kept = _kept(operand, has_gaps)
    if not has_gaps or operand.buffer.device != "cpu":
        there, kept = kept, allocate_operand(Layout(kept.layout.sizes), kept.element, kept.element.itemsize, "cpu")
        assign_operand(there, kept)
    contents = kept.buffer.bytes[kept.start_bytes : kept.start_bytes + kept.span_bytes]
    layout = operand.layout.shifted(-operand.layout.first_offset)
    once = without_repeats(layout)
    if once.has_overlap and not operand.owns_padding:
        is_element = Buffer.of(bytearray(layout.span))
        array_of_operand(Operand(is_element, once, ELEMENT_TYPES["uint8"]))[...] = 1
        contents = contents.reshape(-1, operand.element.itemsize) * is_element.bytes[:, None]
    facts = operand.element.name, operand.buffer.alignment, operand.buffer.device, operand.buffer.readonly
    return contents.tobytes(), has_gaps, layout, *facts


def restored_operand(state: State) -> Operand:
    """The operand of a pickled state, on the same kind of device.

    If there is no such device, the operand is restored on the CPU, with a warning that gives the reason.
    """
    contents, has_gaps, layout, dtype, alignment, device, readonly = state
    element = element_type(dtype)
    result = allocate_operand(layout, element, max(alignment, element.itemsize), _device_like(device))
    if not has_gaps:
        clear_buffer(result.buffer)
    place, memory = _kept(result, has_gaps), Buffer.of(contents)
    if memory.nbytes != place.layout.element_count * place.element.itemsize:
        raise LayoutError(f"This pickle has {memory.nbytes} bytes for {place.layout} of {place.element}.")
    assign_operand(Operand(memory, Layout(place.layout.sizes), place.element), place)
    result.buffer.readonly = readonly
    return result


def _keeps_gaps(operand: Operand) -> bool:
    """Whether copies of an operand take all bytes that it spans: there are no gaps, they are its own, or it overlaps.

    Those of any other are another's: the columns beside a crop, the other fields of records.
    """
    once = without_repeats(operand.layout)
    return operand.owns_padding or once.element_count == once.span or once.has_overlap


def _kept(operand: Operand, has_gaps: bool) -> Operand:
    """What copies take: the bytes that an operand spans, or each of its elements once."""
    return _spanned(operand) if has_gaps else operand.with_layout(without_repeats(operand.layout))


def _spanned(operand: Operand) -> Operand:
    """The bytes from the lowest element to the highest, gaps included."""
    layout = Layout((operand.span_bytes,), (1,), operand.start_bytes if operand.span_bytes else 0)
    return Operand(operand.buffer, layout, element_type("uint8"))


def _device_like(device: str) -> str:
    """The same device if it is available, else the first of its kind, else the CPU."""
    for name in dict.fromkeys((device, device.partition(":")[0])):
        try:
            return device_named(name).name
        except DeviceError as error:
            missing = error
    warnings.warn(f"A tensor from {device} is unpickled on the CPU: {missing}", RuntimeWarning, stacklevel=4)
    return "cpu"
