"""Relayout: move the elements of one operand into another of any layout, converting on the way."""

from __future__ import annotations

from collections.abc import Sequence

from stridedgpu.backends.selection import backend_named, device_name
from stridedgpu.convert import Conversion, conversion
from stridedgpu.dims import Labels, dims_of, inferred_labels, memory_axes
from stridedgpu.dtypes import element_type
from stridedgpu.errors import BindingError, LayoutError
from stridedgpu.layout import Layout
from stridedgpu.operand import Operand, share_memory
from stridedgpu.planning.plan import plan_relayout
from stridedgpu.strides import packed_strides, padded_strides

from .allocation import DEFAULT_ALIGNMENT, allocate_operand

__all__ = ["assign_operand", "layout_in_order", "relayout_operand"]


def relayout_operand(
    source: Operand,
    dims: str | None,
    *,
    layout: str | Layout | None,
    dtype: object,
    scale: float | Sequence[float] | None,
    bias: float | Sequence[float] | None,
    channels: Sequence[int] | None,
    rounding: str,
    row_pitch_bytes: int | None,
    alignment: int | None,
    device: str | None,
    out: Operand | None,
    stream: object,
) -> tuple[Operand, str | None]:
    """What `stridedgpu.relayout` does, on operands; the labels of the result stand beside it."""
    order = layout if isinstance(layout, str) else None
    labels = inferred_labels(dims, source.layout.ndim, order)
    channel_axis = labels.index("C") if "C" in labels else None
    if out is not None and any(given is not None for given in (layout, row_pitch_bytes, alignment, device)):
        raise LayoutError("out= says where and how to write: leave out layout, row_pitch_bytes, alignment and device.")
    target_type = element_type(dtype) if dtype is not None else out.element if out is not None else source.element
    made = conversion(
        source.element,
        target_type,
        scale=scale,
        bias=bias,
        channels=channels,
        source_channels=None if channel_axis is None else source.layout.sizes[channel_axis],
        rounding=rounding,
    )
    if out is not None:
        if out.element != target_type:
            raise LayoutError(f"dtype={target_type} is not what out holds, {out.element}.")
        _move(source, out, made, channel_axis, stream)
        return out, dims
    sizes = _result_sizes(source.layout.sizes, made, channel_axis)
    if isinstance(layout, Layout):
        if layout.sizes != sizes or row_pitch_bytes is not None:
            raise LayoutError(f"layout={layout} must have the sizes {sizes}, and takes no row_pitch_bytes.")
        wanted = layout
    else:
        wanted = layout_in_order(sizes, order, labels, target_type.itemsize, row_pitch_bytes)
    where = source.buffer.device if device is None else device_name(device)
    target = allocate_operand(wanted, target_type, DEFAULT_ALIGNMENT if alignment is None else alignment, where)
    _move(source, target, made, channel_axis, stream)
    return target, dims_of(labels) if order is not None else dims


def assign_operand(source: Operand, target: Operand, stream: object = None) -> None:
    """Write `source` into `target`, of the same sizes, with a cast where the types differ."""
    _move(source, target, conversion(source.element, target.element), None, stream)


def layout_in_order(
    sizes: tuple[int, ...], order: str | None, labels: Labels, itemsize: int, row_pitch_bytes: int | None
) -> Layout:
    """A packed layout in the memory order of the letters (None: of the axes), or with rows a pitch apart."""
    axes = tuple(range(len(sizes))) if order is None else memory_axes(order, labels)
    if row_pitch_bytes is None:
        return Layout(sizes, packed_strides(sizes, axes))
    height = labels.index("H") if "H" in labels else None
    return Layout(sizes, padded_strides(sizes, axes, itemsize, row_pitch_bytes, height_axis=height))


def _move(source: Operand, target: Operand, made: Conversion, channel_axis: int | None, stream: object) -> None:
    """Check the target, plan, and run."""
    _check_target(source, target, made, channel_axis)
    device = target.buffer.device
    backend = backend_named(device)
    plan = plan_relayout(source.side, target.side, made, channel_axis, device, backend.widest_access)
    backend.prepare(plan)(source.buffer, source.start_bytes, target.buffer, target.start_bytes, stream)


def _check_target(source: Operand, target: Operand, made: Conversion, channel_axis: int | None) -> None:
    """Raise unless `target` can be written with what `made` makes of `source`."""
    wanted = _result_sizes(source.layout.sizes, made, channel_axis)
    if target.layout.sizes != wanted:
        raise LayoutError(f"out has sizes {target.layout.sizes}; this relayout makes sizes {wanted}.")
    if source.buffer.device != target.buffer.device:
        raise BindingError(
            f"out is on {target.buffer.device} and the source on {source.buffer.device}; both must be on one device."
        )
    if target.buffer.readonly:
        raise BindingError("out is read-only.")
    if target.layout.has_overlap:
        raise LayoutError(f"out repeats or overlaps its own elements: {target.layout}; relayout into a packed tensor.")
    if share_memory(source, target):
        raise BindingError("out shares memory with the source; write into another tensor, or copy the source first.")


def _result_sizes(sizes: tuple[int, ...], made: Conversion, channel_axis: int | None) -> tuple[int, ...]:
    """The sizes that come out: the source's, with the chosen channels along the channel axis."""
    if made.channels is None or channel_axis is None:
        return sizes
    return (*sizes[:channel_axis], len(made.channels), *sizes[channel_axis + 1 :])
