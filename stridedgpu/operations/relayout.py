"""Relayout: move the elements of one operand into another layout, and convert them."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.operand import AllocationSpec, Operand, share_memory
from stridedgpu.devices.selection import CPU, chosen_device, device_named
from stridedgpu.planning.channel_matrix_problem import ChannelMatrixProblem, moving_problem
from stridedgpu.planning.relayout_problem import RelayoutProblem
from stridedgpu.values.axis_labels import dims_of, inferred_labels
from stridedgpu.values.conversion import Conversion, ConversionOptions, conversion as conversion_of
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType
from stridedgpu.values.errors import BindingError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .channel_blocks import ChannelOrder, parse_order, parts
from .move import move_elements, zero_bytes
from .options import NO_MEMORY_OPTIONS, MemoryOptions

__all__ = ["assign_operand", "clear_buffer", "relayout_operand", "result_sizes"]


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
        problem = _problem_into(source.spec, dims, options, out.spec)
        if source.reach[0] < out.reach[1] and out.reach[0] < source.reach[1]:
            _check_apart(source, out, "out")
        (CPU if here == "cpu" else device_named(here)).launch_for(problem)(source, out, stream)
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


@lru_cache(maxsize=4096)
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


@lru_cache(maxsize=4096)
def _problem_into(
    source: TensorSpec, dims: str | None, options: ConversionOptions, target: TensorSpec
) -> RelayoutProblem | ChannelMatrixProblem:
    """A relayout into an existing `out`, whose layout and type are checked; cached."""
    labels = inferred_labels(dims, source.layout.ndim, None)
    channel_axis = labels.index("C") if "C" in labels else None
    conversion = _conversion(source, channel_axis, options, target.element)
    if target.element != conversion.target:
        raise LayoutError(f"dtype={conversion.target} is not what out holds, {target.element}.")
    _check_layout(target.layout, result_sizes(source.layout.sizes, conversion, channel_axis), "out")
    return moving_problem(source, target, conversion, channel_axis)


def _conversion(
    source: TensorSpec, channel_axis: int | None, options: ConversionOptions, otherwise: ElementType
) -> Conversion:
    """The conversion of a source's elements; `otherwise` is the type for a `dtype` of None."""
    count = None if channel_axis is None else source.layout.sizes[channel_axis]
    return options.conversion(source.element, count, otherwise)


def assign_operand(source: Operand, target: Operand, stream: object = None, name: str = "out") -> None:
    """Write `source` into `target`, of the same sizes and on any device, with a cast if the types differ.

    `name` is the target's name in messages.
    """
    _check_target(source, target, source.layout.sizes, name)
    move_elements(source, target, conversion_of(source.element, target.element), None, stream)


def clear_buffer(buffer: Buffer) -> None:
    """Make every byte of a buffer zero."""
    zeros, whole = _byte_layouts(buffer.nbytes)
    byte = ELEMENT_TYPES["uint8"]
    assign_operand(Operand(zero_bytes(buffer.device), zeros, byte), Operand(buffer, whole, byte))


@lru_cache(maxsize=1024)
def _byte_layouts(nbytes: int) -> tuple[Layout, Layout]:
    """One byte repeated, and as many bytes in a row."""
    return Layout((nbytes,), (0,)), Layout((nbytes,))


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
        _check_target(window, into, result_sizes(part.source.sizes, part.conversion, part.channel_axis), "out")
        move_elements(window, into, part.conversion, part.channel_axis, stream, filler)
        if part.filler and not filler:
            # Elements that cross to another device bring no zeros.
            zeros = Operand(zero_bytes(there), Layout(()).broadcast_to(part.zeros.sizes), target.element)
            assign_operand(zeros, into.with_layout(part.zeros), None if there == "cpu" else stream)


def _check_target(source: Operand, target: Operand, sizes: tuple[int, ...], name: str) -> None:
    """Raise unless `target` can receive a result of `sizes` computed from `source`."""
    if target.buffer.readonly:
        raise BindingError(f"{name} is read-only.")
    _check_layout(target.layout, sizes, name)
    _check_apart(source, target, name)


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


def result_sizes(sizes: tuple[int, ...], made: Conversion, channel_axis: int | None) -> tuple[int, ...]:
    """The sizes of the result: the source's, with the selected channels along the channel axis."""
    if channel_axis is None:
        return sizes
    return (*sizes[:channel_axis], made.output_channels(sizes[channel_axis]), *sizes[channel_axis + 1 :])
