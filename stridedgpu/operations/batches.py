"""Batches of images as results: in new memory or in `out`, in one part or in blocks of channels, in one step or two.

The kernels of some devices make each output channel of a resize or crop of one source channel. With a matrix they write
a batch with the sources' type and channels, channels last, and a relayout with the matrix writes the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from stridedgpu.devices.interface import Launch
from stridedgpu.devices.operand import AllocationSpec, Operand
from stridedgpu.devices.selection import CPU, chosen_device, device_named, planner_named
from stridedgpu.problems.channel_matrix_problem import moving_problem
from stridedgpu.values.axis_labels import Labels
from stridedgpu.values.conversion import Conversion, conversion as conversion_of
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .channel_blocks import ChannelOrder, Part, order_of_blocks, parse_order, parts
from .images import CropSources, as_batch
from .options import MemoryOptions
from .plans import check_output
from .relayout import assign_operand, clear_filler

BATCH: Labels = ("N", "C", "H", "W")


def steps_of(
    problem: Callable[[TensorSpec, Conversion], Any], target: TensorSpec, conversion: Conversion, device: str
) -> tuple[tuple[Any, ...], AllocationSpec | None]:
    """The problems that write a target with the axes N, C, H, W, in order, and the memory between two of them.

    `problem` makes that of the images into a target. A matrix that a device does not mix itself is a second step.
    """
    if conversion.matrix is None or planner_named(device)[0].mixes_windows:
        return (problem(target, conversion),), None
    count, _, height, width = target.layout.sizes
    unmixed = count, len(conversion.matrix[0]), height, width
    room = MemoryOptions("NHWC").allocation(unmixed, BATCH, conversion.source)
    unchanged = conversion_of(conversion.source, conversion.source)
    return (problem(room.spec, unchanged), moving_problem(room.spec, target, conversion, 1)), room


def run_steps(
    launches: Sequence[Launch],
    room: AllocationSpec | None,
    windows: object,
    sources: object,
    target: Operand,
    stream: object,
) -> object:
    """Launch one or two steps from windows of sources into `target`; returns what the launch gives of one step."""
    if room is None:
        return launches[0](windows, sources, (target.buffer, target.start_bytes), stream)
    unmixed = room.allocate(device_named(target.buffer.device), stream)
    launches[0](windows, sources, (unmixed.buffer, unmixed.start_bytes), stream)
    launches[1](unmixed, target, stream)
    return None


def batch_result(
    sources: CropSources,
    shape: tuple[tuple[int, ...], Labels],
    conversion: Conversion,
    memory: MemoryOptions,
    out: Operand | None,
    write: Callable[[Operand, Conversion], None],
    stream: object,
) -> Operand:
    """The result of an operation on images, of a `shape` (sizes and labels), in `out` or in new memory.

    `write` fills a batch with axes N, C, H, W (of volumes N, C, D, H, W) by a conversion; a channel-blocked order has a
    batch for each block. For another device the result is written beside the images and moved.
    """
    (sizes, labels), here = shape, sources.device
    order = parse_order(memory.layout) if isinstance(memory.layout, str) else None
    there = here if memory.device is None else chosen_device(memory.device)
    if out is None:
        room = memory.allocation(sizes, labels, conversion.target)
        target = room.allocate(CPU if here == "cpu" else device_named(here), stream)
    else:
        order = order_of_blocks(sizes, labels.index("C") if "C" in labels else None, out.layout.sizes)
        wanted = sizes if order is None else out.layout.sizes
        check_output(out, wanted, conversion.target, here, sources.near(out))
        target = out
    batch = batched(target, labels)
    if order is None or order.multiple == 1:
        write(batch, conversion)
    else:
        for part in _batch_parts(batch.layout, conversion, sources.channels, order):
            write(batch if part.target is batch.layout else batch.with_layout(part.target), part.conversion)
            clear_filler(batch, part, stream)
    if there == here:
        return target
    arrived = room.allocate(device_named(there), stream)
    assign_operand(target, arrived, stream)
    if order is not None and order.multiple > 1 and not order.is_blocked:  # these fillers are no elements, and stay
        arrived_batch = batched(arrived, labels)
        for part in _batch_parts(arrived_batch.layout, conversion, sources.channels, order):
            clear_filler(arrived_batch, part, None if there == "cpu" else stream)
    return arrived


def batched(target: Operand, labels: Labels) -> Operand:
    """A result with the axes N, C, H, W; an axis that `labels` lack has size 1."""
    if len(labels) >= len(BATCH):
        return target
    layout = target.layout
    is_blocked = layout.ndim > len(labels)
    whole = layout.unsqueezed(0) if is_blocked else as_batch(layout, "".join(map(str, labels)))
    return target.with_layout(whole, owns_padding=target.owns_padding)


def _batch_parts(batch: Layout, conversion: Conversion, source_channels: int, order: ChannelOrder) -> Iterator[Part]:
    """The parts of a batch, axes N, C, H, W, whose channels are filled up: one, or one for each block of channels.

    Each part is written from whole images: its conversion chooses their channels.
    """
    if conversion.matrix is not None:
        raise LayoutError("matrix= does not fill channels up: relayout with matrix= first, then into a filled layout.")
    if order.is_blocked and conversion.channels is None:
        conversion = replace(conversion, channels=tuple(range(source_channels)))
    return parts(batch, batch, conversion, 1, order)
