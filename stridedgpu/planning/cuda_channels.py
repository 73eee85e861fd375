"""The launch of the small-channel kernels: pixels split into planes, or planes joined to pixels."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from stridedgpu.convert import Conversion

from .cuda_tiles import Loop, channels_turned, loops_of, outer_words, pixel_tile, turned
from .gpu import GpuProperties, KernelLaunch, divisor_words, grid_of
from .kernel_parameters import ParameterBlock, conversion_argument, index_argument
from .pixels import PixelGroup, Pixels, pixels_of
from .plan import Plan
from .problem import Problem

__all__ = ["ChannelWalk", "launch", "walk_of"]

_THREADS: Final = 256


@dataclass(frozen=True, slots=True)
class ChannelWalk:
    """How a kernel walks pixels and planes: forwards through the pixels' memory, from where both sides start.

    `rows` is the largest of the other loops, `batch` are the rest, and `channel` is a channel axis among them.
    """

    shape: Pixels
    small: Loop
    pixels: Loop
    rows: Loop
    batch: tuple[Loop, ...]
    channel: Loop
    starts: tuple[int, int]
    conversion: Conversion

    @property
    def count(self) -> int:
        """How many times the rows are walked."""
        return self.channel.size * prod(loop.size for loop in self.batch)

    @property
    def backwards(self) -> bool:
        """Whether the planes run against the pixels."""
        return (self.pixels.target_stride if self.shape.splits else self.pixels.source_stride) < 0

    @property
    def chooses(self) -> bool:
        """Whether a table says which of a pixel's elements become planes."""
        return self.shape.splits and self.small.is_channel and self.conversion.channels is not None

    @property
    def axis(self) -> str:
        """The `sg::ChannelAxis` of what differs from channel to channel."""
        if self.small.is_channel:
            return f"sg::ChannelAxis::{'source' if self.shape.splits else 'target'}"
        return f"sg::ChannelAxis::{'block' if self.channel.is_channel else 'none'}"

    def add_to(self, block: ParameterBlock, blocks: int, tiles: tuple[int, int], bits: int) -> None:
        """What the kernels' parameters begin with; `tiles` are those of a row, and of the rows."""
        small, pixels, rows = self.small, self.pixels, self.rows
        plane_step = small.target_stride if self.shape.splits else small.source_stride
        elements = (pixels.size - 1) * self.shape.pitch + self.shape.last
        numbers = (*self.starts, blocks, pixels.size, rows.size, elements, rows.source_stride, rows.target_stride)
        for number in (*numbers, plane_step):
            block.add_index(number, bits)
        for divisor in (*tiles, small.size if self.chooses else self.channel.size):
            for word in divisor_words(divisor, bits):
                block.add_index(word, bits)
        block.add_index(self.channel.target_stride, bits)

    def add_outer_to(self, block: ParameterBlock, bits: int) -> tuple[int, str, str]:
        """What they end with; the template arguments of the loops, and of what differs from channel to channel."""
        rank, words = outer_words(self.batch, bits)
        block.add_axes(words, bits)
        stride = self.small.source_stride if self.small.is_channel else self.channel.source_stride
        order = block.add_order(self.conversion, stride, bits)
        return rank, block.add_affines(self.conversion), order


def walk_of(problem: Problem) -> ChannelWalk:
    """The walk of a problem of the family CHANNELS."""
    shape = pixels_of(problem)
    assert shape is not None
    small, pixels, conversion = shape.small, shape.pixels, problem.conversion
    source_start, target_start = problem.source_offset, 0
    if shape.splits and small.source_stride < 0:
        small, source_start, target_start = turned(small, source_start, target_start)
        conversion = channels_turned(conversion) if small.is_channel else conversion
    if shape.splits and pixels.source_stride < 0:
        pixels, source_start, target_start = turned(pixels, source_start, target_start)
    outer = [loop for axis, loop in enumerate(loops_of(problem)) if axis not in (shape.small_axis, shape.pixel_axis)]
    channel = next((loop for loop in outer if loop.is_channel), Loop(1, 0, 0))
    outer = [loop for loop in outer if not loop.is_channel]
    rows = max(outer, key=lambda loop: loop.size, default=Loop(1, 0, 0))
    if outer:
        outer.remove(rows)
    return ChannelWalk(shape, small, pixels, rows, tuple(outer), channel, (source_start, target_start), conversion)


def launch(plan: Plan, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family CHANNELS."""
    walk, bits = walk_of(plan.problem), plan.index_bits
    shape, pixels, rows = walk.shape, walk.pixels, walk.rows
    load, store = plan.load.nbytes, plan.store.nbytes
    pixel_bytes, planar_bytes = (load, store) if shape.splits else (store, load)
    length = planar_bytes // shape.planar_itemsize
    group = PixelGroup(length, shape.pitch, shape.interleaved_itemsize)
    whole = max(1, pixel_bytes // shape.interleaved_itemsize // length)
    row_groups, tile_rows = pixel_tile(length, group.shared_bytes, pixels.size, rows.size, walk.count, whole, gpu)
    tiles = -(-pixels.size // (row_groups * length)), -(-rows.size // tile_rows)
    blocks = prod(tiles) * walk.count

    block = ParameterBlock()
    walk.add_to(block, blocks, tiles, bits)
    row_vectors = row_groups * length * shape.pitch * shape.interleaved_itemsize // pixel_bytes
    for word in (*divisor_words(row_vectors, 32), *divisor_words(row_groups, 32), tile_rows):
        block.add_index(word, 32)
    rank, affines, order = walk.add_outer_to(block, bits)
    arguments = (
        conversion_argument(walk.conversion),
        index_argument(bits),
        rank,
        f"sg::Direction::{'split' if shape.splits else 'join'}",
        shape.pitch if walk.chooses else walk.small.size,
        shape.pitch,
        str(shape.fills).lower(),
        pixel_bytes,
        planar_bytes,
        str(walk.backwards).lower(),
        _THREADS,
        walk.axis,
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
