"""Relayout: move the elements of one operand into another layout, and convert them."""

from __future__ import annotations

from collections.abc import Hashable
from math import inf
from typing import NamedTuple

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.interface import Device, MoveLaunch
from stridedgpu.devices.launch_cache import cached_launches, settings
from stridedgpu.devices.operand import AllocationSpec, Operand, share_memory
from stridedgpu.devices.selection import CPU, chosen_device, device_named
from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem, moving_problem
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.values.axis_labels import Labels, dims_of, inferred_labels
from stridedgpu.values.bounded_cache import bounded_cache
from stridedgpu.values.conversion import Conversion, ConversionOptions, conversion as conversion_of
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType
from stridedgpu.values.errors import BindingError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .channel_blocks import ChannelOrder, Part, order_of_blocks, parse_order, parts
from .move import clear_fillers, move_elements, zero_bytes
from .options import DEFAULT_ALIGNMENT, NO_MEMORY_OPTIONS, MemoryOptions, allocate_operand
from .plans import HasOperand, Plan, PlanOperand


def relayout_operand(
    source: Operand,
    dims: str | None,
    options: ConversionOptions,
    memory: MemoryOptions,
    out: Operand | None,
    stream: object,
) -> tuple[Operand, str | None]:
    """`stridedgpu.relayout` on operands; also returns the labels of the result."""
    here = source.buffer.device
    if out is not None:
        if memory is not NO_MEMORY_OPTIONS:
            memory.check_beside_out()
        if here != out.buffer.device:
            raise BindingError(
                f"out is on {out.buffer.device} and the source on {here}; both must be on one device. "
                "Move the source with to_device first, or write out[...] = source."
            )
        if out.buffer.readonly:
            raise BindingError("out is read-only.")
        if out.layout.ndim == source.layout.ndim + 1 and _fill_blocks(source, dims, options, out, stream):
            return out, dims
        device = CPU if here == "cpu" else device_named(here)
        launch = _launch_into(source.spec, dims, options, out.spec, device, settings())
        if source.reach[0] < out.reach[1] and out.reach[0] < source.reach[1]:
            _check_apart(source, out, "out")
        if out.buffer.fillers is not None:
            clear_fillers(out.buffer)
        launch(source, out, stream)
        return out, dims
    there = here if memory.device is None else chosen_device(memory.device)
    device = CPU if there == "cpu" else device_named(there)
    result = _result(source.spec, dims, options, memory)
    target = result.allocation.allocate(device, stream)
    if result.blocks is not None and result.channel_axis is not None:
        _move_blocks(source, target, result.conversion, result.channel_axis, result.blocks, stream)
    elif device.name == here and result.problem is not None:
        device.launch_for(result.problem)(source, target, stream)
    else:
        move_elements(source, target, result.conversion, result.channel_axis, stream)
    return target, result.dims


def on_device(source: Operand, device: str) -> Operand:
    """A packed copy on another device, whose axes lie in memory in the source's order: no element changes its place.

    Axes that repeat their elements become the outermost ones.
    """
    layout = source.layout
    order = sorted(range(layout.ndim), key=lambda axis: -abs(layout.strides[axis]) or -inf)
    packed = Layout(tuple(layout.sizes[axis] for axis in order)).permuted(
        [order.index(axis) for axis in range(layout.ndim)]
    )
    target = allocate_operand(packed, source.element, DEFAULT_ALIGNMENT, device)
    move_elements(source, target, conversion_of(source.element, source.element), None, None)
    return target


class _Result(NamedTuple):
    """The result of a relayout: its memory and labels, and the problem, if one launch on one device writes it.

    `blocks` is the memory order if it fills channels up, else None.
    """

    allocation: AllocationSpec
    dims: str | None
    conversion: Conversion
    channel_axis: int | None
    blocks: ChannelOrder | None
    problem: RelayoutProblem | ChannelMatrixProblem | None


@bounded_cache
def _result(source: TensorSpec, dims: str | None, options: ConversionOptions, memory: MemoryOptions) -> _Result:
    """The result of a relayout into new memory; cached."""
    order = parse_order(memory.layout) if isinstance(memory.layout, str) else None
    labels = inferred_labels(dims, source.layout.ndim, None if order is None else order.letters)
    channel_axis = labels.index("C") if "C" in labels else None
    conversion = _conversion(source, channel_axis, options, source.element)
    sizes = result_sizes(source.layout.sizes, conversion, channel_axis)
    allocation = memory.allocation(sizes, labels, conversion.target)
    if allocation.layout.ndim != len(labels):
        dims = None
    elif order is not None:
        dims = dims_of(labels)
    if order is None or order.multiple == 1:
        problem = moving_problem(source, allocation.spec, conversion, channel_axis)
        return _Result(allocation, dims, conversion, channel_axis, None, problem)
    if options.matrix is not None:
        raise LayoutError(
            f"layout={memory.layout!r} fills channels up, which matrix= does not: relayout with matrix= first, then "
            "into it."
        )
    return _Result(allocation, dims, conversion, channel_axis, order, None)


@cached_launches
def _launch_into(
    source: TensorSpec,
    dims: str | None,
    options: ConversionOptions,
    target: TensorSpec,
    device: Device,
    key: Hashable,  # noqa: ARG001 - of the cache: the settings
) -> MoveLaunch:
    """A relayout into an existing `out`, whose layout and type are checked; cached."""
    labels = inferred_labels(dims, source.layout.ndim, None)
    channel_axis = labels.index("C") if "C" in labels else None
    conversion = _conversion(source, channel_axis, options, target.element)
    if target.element != conversion.target:
        raise LayoutError(f"dtype={conversion.target} is not what out holds, {target.element}.")
    _check_layout(target.layout, result_sizes(source.layout.sizes, conversion, channel_axis), "out")
    return device.launch_for(moving_problem(source, target, conversion, channel_axis))


def _conversion(
    source: TensorSpec, channel_axis: int | None, options: ConversionOptions, otherwise: ElementType
) -> Conversion:
    """The conversion of a source's elements; `otherwise` is the type for a `dtype` of None."""
    count = None if channel_axis is None else source.layout.sizes[channel_axis]
    return options.conversion(source.element, count, otherwise)


def move_between(
    source: TensorSpec, target: TensorSpec, labels: Labels, options: ConversionOptions, name: str
) -> tuple[Conversion, int | None]:
    """The conversion from one side to another, and its channel axis.

    Raises `LayoutError` if the target, the argument `name`, does not fit.
    """
    channel_axis = labels.index("C") if "C" in labels else None
    conversion = _conversion(source, channel_axis, options, target.element)
    wanted = result_sizes(source.layout.sizes, conversion, channel_axis)
    if target.layout.sizes != wanted:
        raise LayoutError(f"{name} has sizes {target.layout.sizes}; this relayout makes sizes {wanted}.")
    if target.layout.has_overlap:
        raise LayoutError(f"{name} repeats or overlaps its own elements: {target.layout}.")
    return conversion, channel_axis


class RelayoutPlan(Plan):
    """A relayout, planned once by `plan_relayout` and run many times: `plan(src, out)`.

    It runs on tensors with the sizes, strides and types of the plan; their offsets may differ. On a GPU, and in place
    of a descriptor on any device, tensors must also have the planned alignment and slack. On the CPU a tensor in place
    of a tensor may have any address that is a whole number of elements. If the plan's device is unavailable, as
    `missing` tells, the plan is for a reference GPU and can only be read.
    """

    __slots__ = ()

    def __call__(self, src: HasOperand, out: HasOperand, stream: object = None) -> None:
        """Run on two tensors; nothing is written if they do not fit the plan.

        Raises `BindingError` for another layout, type, device or alignment than planned, a read-only `out`, or tensors
        that share memory. Raises `DeviceError` if the plan's device is unavailable.
        """
        try:
            source, target = src.operand, out.operand
            (launch,) = self.launches
            source_fits, target_fits = source.fitted, target.fitted
        except BindingError:
            raise  # of a tensor that was released
        except (AttributeError, ValueError):
            self.refuse(src=src, out=out)
        for_source, for_target = self.sides
        if source_fits is not for_source:
            for_source.check("src", source)
        if target_fits is not for_target:
            for_target.check("out", target)
        (read, read_end), (start, end) = source.reach, target.reach
        if read < end and start < read_end and share_memory(source, target):
            raise BindingError("out shares memory with src.")
        direct = self.direct
        if direct is not None and stream is None:
            direct(read, start)
            return
        direct = launch(source, target, stream)
        if direct is not None:
            self.keep(direct)


def planned_relayout(
    source: PlanOperand, target: PlanOperand, dims: str | None, options: ConversionOptions, device: str
) -> RelayoutPlan:
    """The plan of a relayout from a source with these labels. Raises `LayoutError` where the target does not fit."""
    if device != "cpu":
        return _plan(source, target, dims, options, device)
    return _known_plan(source, target, dims, options, settings())


@cached_launches
def _known_plan(
    source: PlanOperand,
    target: PlanOperand,
    dims: str | None,
    options: ConversionOptions,
    key: Hashable,  # noqa: ARG001 - of the cache: the settings
) -> RelayoutPlan:
    """A plan for the CPU, one value for all calls alike; other devices may come and go."""
    return _plan(source, target, dims, options, "cpu")


def _plan(
    source: PlanOperand, target: PlanOperand, dims: str | None, options: ConversionOptions, device: str
) -> RelayoutPlan:
    conversion, channel_axis = move_between(
        source.spec, target.spec, inferred_labels(dims, source.spec.layout.ndim), options, "dst"
    )
    problem = moving_problem(source.spec, target.spec, conversion, channel_axis)
    return RelayoutPlan.of(device, (problem,), (source.required(device), target.required(device, is_written=True)))


def assign_operand(source: Operand, target: Operand, stream: object = None, name: str = "out") -> None:
    """Write `source` into `target`, of the same sizes and on any device, with a cast if the types differ.

    `name` is the target's name in messages.
    """
    _check_target(source, target, source.layout.sizes, name)
    move_elements(source, target, conversion_of(source.element, target.element), None, stream)


def clear_buffer(buffer: Buffer) -> None:
    """Make every byte of a buffer zero."""
    byte, whole = ELEMENT_TYPES["uint8"], Layout((buffer.nbytes,))
    zeros = Operand(zero_bytes(buffer.device), Layout(whole.sizes, (0,)), byte)
    assign_operand(zeros, Operand(buffer, whole, byte))


def _fill_blocks(source: Operand, dims: str | None, options: ConversionOptions, out: Operand, stream: object) -> bool:
    """Relayout into `out` if its channels are the result's in blocks; whether they are."""
    labels = inferred_labels(dims, source.layout.ndim, None)
    channel_axis = labels.index("C") if "C" in labels else None
    conversion = _conversion(source.spec, channel_axis, options, out.element)
    sizes = result_sizes(source.layout.sizes, conversion, channel_axis)
    order = order_of_blocks(sizes, channel_axis, out.layout.sizes)
    if order is None or channel_axis is None:
        return False
    if options.matrix is not None:
        raise LayoutError("matrix= does not fill channels up, as out= has them: relayout with matrix= first.")
    if out.element != conversion.target:
        raise LayoutError(f"dtype={conversion.target} is not what out holds, {out.element}.")
    _check_target(source, out, out.layout.sizes, "out")
    _move_blocks(source, out, conversion, channel_axis, order, stream)
    return True


def _move_blocks(
    source: Operand, target: Operand, conversion: Conversion, channel_axis: int, order: ChannelOrder, stream: object
) -> None:
    """Fill a channel-padded or channel-blocked target part by part, zeros included."""
    here, there = source.buffer.device, target.buffer.device
    for part in parts(source.layout, target.layout, conversion, channel_axis, order):
        window, into = (
            operand.with_layout(layout) for operand, layout in ((source, part.source), (target, part.target))
        )
        is_behind = part.channel_axis is not None and part.target.strides[part.channel_axis] == 1
        filler = part.filler if here == there and is_behind else 0
        _check_target(window, into, result_sizes(part.source.sizes, part.conversion, part.channel_axis), "out")
        move_elements(window, into, part.conversion, part.channel_axis, stream, filler)
        if not filler:  # elements that cross to another device, or lie apart, bring no zeros
            clear_filler(target, part, None if there == "cpu" else stream)


def clear_filler(target: Operand, part: Part, stream: object) -> None:
    """Make the fillers behind the channels of a part of `target` zero."""
    if part.filler:
        zeros = Operand(zero_bytes(target.buffer.device), Layout(()).broadcast_to(part.zeros.sizes), target.element)
        assign_operand(zeros, target.with_layout(part.zeros), stream)


def _check_target(source: Operand, target: Operand, sizes: tuple[int, ...], name: str) -> None:
    """Raise unless `target` can receive a result of `sizes` computed from `source`."""
    if target.buffer.readonly:
        raise BindingError(f"{name} is read-only.")
    _check_layout(target.layout, sizes, name)
    _check_apart(source, target, name)
    if target.buffer.fillers is not None:
        clear_fillers(target.buffer)


def _check_layout(layout: Layout, sizes: tuple[int, ...], name: str) -> None:
    """Raise `LayoutError` unless a target's layout has these sizes and a separate place for each element."""
    if layout.sizes != sizes:
        raise LayoutError(f"{name} has sizes {layout.sizes}; this relayout makes sizes {sizes}.")
    if layout.has_overlap:
        raise LayoutError(f"{name} repeats or overlaps its own elements: {layout}; relayout into a packed tensor.")


def _check_apart(source: Operand, target: Operand, name: str) -> None:
    """Raise `BindingError` if source and target share memory."""
    if share_memory(source, target):
        raise BindingError(
            f"{name} shares memory with the source; write into another tensor, or copy the source first."
        )


def result_sizes(sizes: tuple[int, ...], conversion: Conversion, channel_axis: int | None) -> tuple[int, ...]:
    """The sizes of the result: the source's, with the selected channels along the channel axis."""
    if channel_axis is None:
        return sizes
    return (*sizes[:channel_axis], conversion.output_channels(sizes[channel_axis]), *sizes[channel_axis + 1 :])
