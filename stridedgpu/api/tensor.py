"""`StridedTensor`: a dtype and a layout over a buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, Unpack

import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import chosen_device
from stridedgpu.exchange.array_like import shared_operand, value_operand
from stridedgpu.operations.options import result_options
from stridedgpu.operations.relayout import assign_operand, on_device, relayout_operand
from stridedgpu.typing import DeviceLike, DTypeLike, ResultKeywords, StreamLike, TensorLike
from stridedgpu.values.axis_labels import checked_dims, dims_of, inferred_labels, labels_of, permutation
from stridedgpu.values.dtypes import ElementType, element_type
from stridedgpu.values.errors import BindingError, LayoutError
from stridedgpu.values.indexing import Index
from stridedgpu.values.layout import Layout
from stridedgpu.values.memoized import memoized
from stridedgpu.values.strides import integer, integers

from .tensor_facts import set_dims, set_operand
from .tensor_protocols import State, TensorProtocols, copied_operand, restored_operand, state_of_operand

__all__ = ["StridedTensor", "output_tensor"]


class StridedTensor(TensorProtocols):
    """Elements of one type, laid out with sizes and strides over raw bytes on one device.

    `buffer` is a `Buffer` or any contiguous object with the buffer protocol, which keeps its owner; `layout` gives the
    elements' places, in elements from its start; `dtype` is a NumPy dtype, a name or a `DataType`; `dims` labels the
    last axes, such as "NCHW". Views share the buffer and keep it alive.

    Raises `BindingError` when the layout leaves the buffer, `ElementTypeError` for an unknown type.

    >>> tensor = StridedTensor(bytearray(range(12)), Layout((2, 3), (5, 1), offset=1), "uint8")
    >>> tensor.numpy().tolist()
    [[1, 2, 3], [6, 7, 8]]
    """

    __slots__ = ("__weakref__",)

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

    # Copies that keep gaps, strides and labels

    def __copy__(self) -> StridedTensor:
        """A tensor of the same layout, gaps and labels in new memory on the same device."""
        return StridedTensor.over(copied_operand(self.operand), self.dims)

    def __deepcopy__(self, memo: dict[int, object]) -> StridedTensor:
        """The same: elements hold no objects."""
        return self.__copy__()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the bytes that the layout spans, padding included, with layout, labels, alignment and device."""
        return _unpickled, (state_of_operand(self.operand), self.dims)


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
