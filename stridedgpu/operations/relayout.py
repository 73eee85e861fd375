"""Relayout: move the elements of one operand into another of any layout, converting on the way."""

from __future__ import annotations

from dataclasses import dataclass

from stridedgpu.devices.interface import Device, RelayoutLaunch
from stridedgpu.devices.operand import Operand, share_memory
from stridedgpu.devices.selection import backend_named, device_name
from stridedgpu.planning.device_plan import DevicePlan
from stridedgpu.planning.relayout_problem import relayout_problem
from stridedgpu.values.axis_labels import Labels, dims_of, inferred_labels
from stridedgpu.values.conversion import Conversion, conversion
from stridedgpu.values.errors import BindingError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.memoized import remembered
from stridedgpu.values.tensor_spec import TensorSpec

from .allocation import AllocationSpec
from .channel_blocks import ChannelOrder, parse_order, parts
from .options import MemoryOptions, ValueOptions
from .transfer import move_elements, zero_bytes

__all__ = ["assign_operand", "relayout_operand", "result_sizes"]


def relayout_operand(
    source: Operand, dims: str | None, values: ValueOptions, memory: MemoryOptions, out: Operand | None, stream: object
) -> tuple[Operand, str | None]:
    """What `stridedgpu.relayout` does, on operands; the labels of the result stand beside it."""
    if out is not None:
        memory.check_beside_out()
    layout = memory.layout
    order = parse_order(layout) if isinstance(layout, str) else None
    labels = inferred_labels(dims, source.layout.ndim, None if order is None else order.letters)
    channel_axis = labels.index("C") if "C" in labels else None
    source_channels = None if channel_axis is None else source.layout.sizes[channel_axis]
    made = values.conversion(source.element, source_channels, source.element if out is None else out.element)
    if out is not None:
        if out.element != made.target:
            raise LayoutError(f"dtype={made.target} is not what out holds, {out.element}.")
        if source.buffer.device != out.buffer.device:
            raise BindingError(
                f"out is on {out.buffer.device} and the source on {source.buffer.device}; both must be on one device. "
                "Move the source with to_device first, or write out[...] = source."
            )
        _move(source, out, made, channel_axis, stream)
        return out, dims
    here = source.buffer.device
    backend = backend_named(here if memory.device is None else device_name(memory.device))
    at_once = backend if backend.name == here and (order is None or order.multiple == 1) else None
    result = _result(source.spec, made, channel_axis, labels, dims, *memory[:3], at_once)
    target = result.spec.allocate(backend, stream)
    if result.plan is not None:
        launch: RelayoutLaunch = backend.prepare(result.plan)
        launch(source.buffer, source.start_bytes, target.buffer, target.start_bytes, stream)
    elif order is not None and order.multiple > 1 and channel_axis is not None:
        _move_blocks(source, target, made, channel_axis, order, stream)
    else:
        move_elements(source, target, made, channel_axis, stream)
    return target, result.dims


@dataclass(frozen=True, slots=True)
class _Result:
    """What a relayout makes: its memory, its labels and, where one launch does it all, the plan of that."""

    spec: AllocationSpec
    dims: str | None
    plan: DevicePlan | None


@remembered
def _result(
    source: TensorSpec,
    made: Conversion,
    channel_axis: int | None,
    labels: Labels,
    dims: str | None,
    layout: str | Layout | None,
    row_pitch_bytes: int | None,
    alignment: int | None,
    device: Device | None,
) -> _Result:
    """The result for a source and arguments; `device` is the one that does it all in one launch, if so."""
    sizes = result_sizes(source.layout.sizes, made, channel_axis)
    spec = MemoryOptions(layout, row_pitch_bytes, alignment).allocation(sizes, labels, made.target)
    if spec.layout.ndim != len(labels):
        dims = None
    elif isinstance(layout, str):
        dims = dims_of(labels)
    plan = None if device is None else device.plan(relayout_problem(source, spec.spec, made, channel_axis))
    return _Result(spec, dims, plan)


def assign_operand(source: Operand, target: Operand, stream: object = None, name: str = "out") -> None:
    """Write `source` into `target`, of the same sizes and on any device, with a cast where the types differ.

    `name` is what messages call the target.
    """
    _move(source, target, conversion(source.element, target.element), None, stream, name)


def _move_blocks(
    source: Operand, target: Operand, made: Conversion, channel_axis: int, order: ChannelOrder, stream: object
) -> None:
    """Fill a channel-padded or channel-blocked target part by part, zeros included."""
    here, there = source.buffer.device, target.buffer.device
    for part in parts(source.layout, target.layout, made, channel_axis, order):
        window, into = (
            operand.with_layout(layout) for operand, layout in ((source, part.source), (target, part.target))
        )
        filler = part.filler if here == there else 0
        _check_target(window, into, part.conversion, part.channel_axis)
        move_elements(window, into, part.conversion, part.channel_axis, stream, filler)
        if part.filler and not filler:
            # What crosses to another device has no zeros.
            zeros = Operand(zero_bytes(there), Layout(()).broadcast_to(part.zeros.sizes), target.element)
            assign_operand(zeros, into.with_layout(part.zeros), None if there == "cpu" else stream)


def _move(
    source: Operand, target: Operand, made: Conversion, channel_axis: int | None, stream: object, name: str = "out"
) -> None:
    """Check the target, and move."""
    _check_target(source, target, made, channel_axis, name)
    move_elements(source, target, made, channel_axis, stream)


def _check_target(
    source: Operand, target: Operand, made: Conversion, channel_axis: int | None, name: str = "out"
) -> None:
    """Raise unless `target` can be written with what `made` makes of `source`."""
    wanted = result_sizes(source.layout.sizes, made, channel_axis)
    if target.layout.sizes != wanted:
        raise LayoutError(f"{name} has sizes {target.layout.sizes}; this relayout makes sizes {wanted}.")
    if target.buffer.readonly:
        raise BindingError(f"{name} is read-only.")
    if target.layout.has_overlap:
        raise LayoutError(
            f"{name} repeats or overlaps its own elements: {target.layout}; relayout into a packed tensor."
        )
    if share_memory(source, target):
        raise BindingError(
            f"{name} shares memory with the source; write into another tensor, or copy the source first."
        )


def result_sizes(sizes: tuple[int, ...], made: Conversion, channel_axis: int | None) -> tuple[int, ...]:
    """The sizes that come out: the source's, with the chosen channels along the channel axis."""
    if made.channels is None or channel_axis is None:
        return sizes
    return (*sizes[:channel_axis], len(made.channels), *sizes[channel_axis + 1 :])
