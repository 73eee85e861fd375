"""The launch of the small-channel kernels: pixels split into planes, or planes joined to pixels."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from stridedgpu.strides import round_up

from . import cuda_packed_tile
from .cuda_tiles import Loop, channels_turned, gaps_are_ours, loops_of, outer_words, safe_width, turned
from .families import pixel_axes
from .gpu import GpuProperties, KernelLaunch, divisor_words, grid_of
from .kernel_parameters import ParameterBlock, conversion_argument, index_argument
from .plan import Plan
from .problem import Problem

__all__ = ["PixelGroup", "launch"]

_LARGEST_PITCH: Final = 8
"""Elements of a pixel that one thread holds in registers; pixels with more go through packed tiles."""

_GROUP_BYTES: Final = 512
"""A thread holds at most so much of a group in registers."""

_THREADS: Final = 256
_FEWEST_GROUPS: Final = 64
_SHARED_BYTES: Final = (16 * 1024, 48 * 1024)
"""What a block's groups should fill, and what they must not exceed."""


@dataclass(frozen=True, slots=True)
class PixelGroup:
    """The pixels that one thread moves at once: `length` of them, `pitch` elements each, and their shared memory."""

    length: int
    pitch: int
    itemsize: int

    @property
    def shared_bytes(self) -> int:
        """Bytes with the filling that keeps groups apart by an odd number of units: `PixelGroup` in channels.cu."""
        nbytes = self.length * self.pitch * self.itemsize
        unit = min(self.length * self.itemsize, 16)
        return nbytes + (unit if unit >= 4 and nbytes // unit % 2 == 0 else 0)


def launch(plan: Plan, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family CHANNELS."""
    problem, bits = plan.problem, plan.index_bits
    axes = pixel_axes(problem)
    assert axes is not None
    small_axis, pixel_axis = axes
    splits = problem.target_strides[small_axis] != 1
    loops = loops_of(problem)
    small, pixels = loops[small_axis], loops[pixel_axis]
    pitch = abs(pixels.source_stride if splits else pixels.target_stride)
    filled = problem.filler == 0 or pitch == small.size + problem.filler
    if pitch > _LARGEST_PITCH or pixels.is_channel or not filled:
        return cuda_packed_tile.launch(plan, gpu)

    conversion = problem.conversion
    source_start, target_start = problem.source_offset, 0
    if splits and small.source_stride < 0:
        small, source_start, target_start = turned(small, source_start, target_start)
        conversion = channels_turned(conversion) if small.is_channel else conversion
    if splits and pixels.source_stride < 0:
        pixels, source_start, target_start = turned(pixels, source_start, target_start)
    backwards = (pixels.target_stride if splits else pixels.source_stride) < 0

    outer = [loop for axis, loop in enumerate(loops) if axis not in (small_axis, pixel_axis)]
    channel = next((loop for loop in outer if loop.is_channel), Loop(1, 0, 0))
    outer = [loop for loop in outer if not loop.is_channel]
    rows = max(outer, key=lambda loop: loop.size, default=Loop(1, 0, 0))
    batch = list(outer)
    if outer:
        batch.remove(rows)

    itemsizes = (problem.source.element.itemsize, problem.target.element.itemsize)
    load = safe_width(
        plan.load.nbytes, itemsizes[0], _steps(loops, pixel_axis, small_axis, "source", planar=not splits)
    )
    store = safe_width(plan.store.nbytes, itemsizes[1], _steps(loops, pixel_axis, small_axis, "target", planar=splits))
    used, fills = _used_elements(problem, small, pitch, splits=splits)
    if not splits and used < pitch and not fills:
        store = itemsizes[1]
    pixel_bytes, planar_bytes = (load, store) if splits else (store, load)
    interleaved_itemsize, planar_itemsize = itemsizes if splits else itemsizes[::-1]
    length = planar_bytes // planar_itemsize
    while (backwards and pixels.size % length) or length * pitch * interleaved_itemsize > _GROUP_BYTES:
        length //= 2
    group = PixelGroup(length, pitch, interleaved_itemsize)
    whole = max(1, pixel_bytes // interleaved_itemsize // length)
    row_groups, tile_rows = _tile(
        group, pixels.size, rows.size, channel.size * prod(loop.size for loop in batch), whole, gpu
    )
    pixel_tiles = -(-pixels.size // (row_groups * length))
    row_tiles = -(-rows.size // tile_rows)
    blocks = pixel_tiles * row_tiles * channel.size * prod(loop.size for loop in batch)

    chooses = splits and small.is_channel and conversion.channels is not None
    block = ParameterBlock()
    last = pitch if fills else used
    plane_step = small.target_stride if splits else small.source_stride
    numbers = (source_start, target_start, blocks, pixels.size, rows.size, (pixels.size - 1) * pitch + last)
    for number in (*numbers, rows.source_stride, rows.target_stride, plane_step):
        block.add_index(number, bits)
    for divisor in (pixel_tiles, row_tiles, small.size if chooses else channel.size):
        for word in divisor_words(divisor, bits):
            block.add_index(word, bits)
    block.add_index(channel.target_stride, bits)
    row_vectors = row_groups * length * pitch * interleaved_itemsize // pixel_bytes
    for word in (*divisor_words(row_vectors, 32), *divisor_words(row_groups, 32), tile_rows):
        block.add_index(word, 32)
    rank, words = outer_words(batch, bits)
    block.add_axes(words, bits)
    order = block.add_order(conversion, small.source_stride if small.is_channel else channel.source_stride, bits)
    affines = block.add_affines(conversion)
    axis = "none" if problem.channel_axis is None else "block"
    if small.is_channel:
        axis = "source" if splits else "target"
    arguments = (
        conversion_argument(conversion),
        index_argument(bits),
        rank,
        f"sg::Direction::{'split' if splits else 'join'}",
        pitch if chooses else small.size,
        pitch,
        str(fills).lower(),
        pixel_bytes,
        length * planar_itemsize,
        str(backwards).lower(),
        _THREADS,
        f"sg::ChannelAxis::{axis}",
        affines,
        order,
    )
    return KernelLaunch(
        ("channels.cu",),
        f"sg::channels<{', '.join(map(str, arguments))}>",
        grid_of(blocks),
        (_THREADS, 1, 1),
        row_groups * tile_rows * group.shared_bytes,
        block.parameters,
        block.tables,
    )


def _steps(loops: list[Loop], pixel_axis: int, small_axis: int, side: str, *, planar: bool) -> list[int]:
    """The strides of one side that start its vectors: all but those of the axes inside a row."""
    inside = (pixel_axis,) if planar else (pixel_axis, small_axis)
    return [getattr(loop, f"{side}_stride") for axis, loop in enumerate(loops) if axis not in inside]


def _used_elements(problem: Problem, small: Loop, pitch: int, *, splits: bool) -> tuple[int, bool]:
    """How many elements of a pixel are used, and whether the rest of a target's pixels is written too."""
    if splits:
        channels = problem.conversion.channels if small.is_channel else None
        return max(channels) + 1 if channels is not None else small.size, False
    return small.size, pitch > small.size and (problem.filler > 0 or gaps_are_ours(problem, pitch))


def _tile(group: PixelGroup, pixels: int, rows: int, batch: int, whole: int, gpu: GpuProperties) -> tuple[int, int]:
    """Groups of a row and rows of a tile; `whole` groups make whole vectors of the interleaved side."""
    wanted, most = (limit // group.shared_bytes for limit in _SHARED_BYTES)
    groups = min(max(wanted, _THREADS), 4 * _THREADS, most)
    needed = -(-pixels // group.length)
    while True:
        row_groups = round_up(min(needed, max(groups // whole, 1) * whole), whole)
        # Tiles of equal size, so that the last one is not a sliver.
        row_groups = round_up(-(-needed // -(-needed // row_groups)), whole)
        tile_rows = min(rows, max(1, groups // row_groups))
        tiles = -(-needed // row_groups) * -(-rows // tile_rows) * batch
        if tiles >= gpu.multiprocessors or groups <= _FEWEST_GROUPS:
            return row_groups, tile_rows
        groups //= 2
