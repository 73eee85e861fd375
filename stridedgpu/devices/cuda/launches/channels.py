"""The launch of the small-channel kernels: pixels split into planes, or planes joined to pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from stridedgpu.devices.cuda.planning.gpu import GpuProperties, KernelLaunch, divisor_words, grid_of
from stridedgpu.devices.cuda.planning.pixels import PixelGroup, pixels_of
from stridedgpu.devices.cuda.planning.policy import policy
from stridedgpu.devices.cuda.planning.relayout import RelayoutChoice
from stridedgpu.planning.relayout_problem import Problem
from stridedgpu.values.conversion import Conversion

from .bulk_copies import Shares, shares_of
from .instantiation import instantiation
from .parameters import ParameterBlock, conversion_argument, index_argument
from .tiles import Loop, loops_of, outer_words, pixel_box, pixel_tile, reversed_channels, reversed_loop

__all__ = ["ChannelWalk", "launch", "outer_loops", "walk_of"]


@dataclass(frozen=True, slots=True)
class ChannelWalk:
    """How a kernel iterates over pixels: in the order of the interleaved side, the source's if both are interleaved.

    `rows` is the largest of the other loops, `batch` the rest, and `channel` a channel axis among them. Each pair is
    (source, target). `pitches` are the distances between pixels in elements, 1 on a planar side; of a row's last pixel,
    the first `lasts` elements are moved. `turned`: the source's channels are in reverse order.
    """

    small: Loop
    pixels: Loop
    rows: Loop
    batch: tuple[Loop, ...]
    channel: Loop
    starts: tuple[int, int]
    pitches: tuple[int, int]
    lasts: tuple[int, int]
    itemsizes: tuple[int, int]
    conversion: Conversion
    turned: bool = False

    @property
    def splits(self) -> bool:
        """Whether pixels are split into planes."""
        return self.pitches[1] == 1

    @property
    def count(self) -> int:
        """How many times the rows are iterated over."""
        return self.channel.size * prod(loop.size for loop in self.batch)

    @property
    def backwards(self) -> bool:
        """Whether the pixels of the two sides are in opposite directions."""
        return (self.pixels.source_stride < 0) != (self.pixels.target_stride < 0)

    @property
    def chooses(self) -> bool:
        """Whether a table selects the elements of a pixel that become planes."""
        return self.splits and self.small.is_channel and self.conversion.channels is not None

    @property
    def axis(self) -> str:
        """The `sg::ChannelAxis` of per-channel constants and offsets."""
        if self.small.is_channel:
            return f"sg::ChannelAxis::{'source' if self.splits else 'target'}"
        return f"sg::ChannelAxis::{'block' if self.channel.is_channel else 'none'}"

    @property
    def row_elements(self) -> tuple[int, int]:
        """Elements of a row on each side, up to the last element moved."""
        source, target = (
            (self.pixels.size - 1) * pitch + last for pitch, last in zip(self.pitches, self.lasts, strict=True)
        )
        return source, target

    @property
    def plane_step(self) -> int:
        """Elements from plane to plane, where one side has planes."""
        return self.small.target_stride if self.splits else self.small.source_stride

    def parameters(
        self,
        tile: tuple[int, int],
        tiles: tuple[int, int],
        vectors: tuple[int, int],
        bits: int,
        shares: Shares | None = None,
    ) -> tuple[ParameterBlock, tuple[int, str, str]]:
        """The kernels' `sg::PixelsParameters`, and template arguments: rank, and the kinds of per-channel constants.

        `tile` is (groups of a row, rows); `tiles` is the number of tiles along each; `vectors` is the number of vectors
        of a tile's row on each side; `shares` are those of blocks whose pixels bulk copies bring.
        """
        block, pixels, rows = ParameterBlock(), self.pixels, self.rows
        sizes = (prod(tiles) * self.count, pixels.size, rows.size)
        for number in (*self.starts, *sizes, *self.row_elements, rows.source_stride, rows.target_stride):
            block.add_index(number, bits)
        for divisor in (*tiles, self.small.size if self.chooses else self.channel.size):
            for word in divisor_words(divisor, bits):
                block.add_index(word, bits)
        block.add_index(self.channel.target_stride, bits)
        block.add_index(self.plane_step, bits)
        row_groups, tile_rows = tile
        for divisor in (*vectors, row_groups):
            for word in divisor_words(divisor, 32):
                block.add_index(word, 32)
        staged = (0, 0) if shares is None else (shares.stage_tiles, shares.block_tiles)
        for number in (tile_rows, *staged):
            block.add_index(number, 32)
        rank, words = outer_words(self.batch, bits)
        block.add_axes(words, bits)
        stride = self.small.source_stride if self.small.is_channel else self.channel.source_stride
        order = block.add_order(self.conversion, stride, bits)
        return block, (rank, block.add_affines(self.conversion), order)


def outer_loops(loops: Sequence[Loop]) -> tuple[Loop, tuple[Loop, ...], Loop]:
    """Classify the loops outside pixels: the largest as rows, the rest, and a channel axis."""
    channel = next((loop for loop in loops if loop.is_channel), Loop(1, 0, 0))
    others = [loop for loop in loops if not loop.is_channel]
    rows = max(others, key=lambda loop: loop.size, default=Loop(1, 0, 0))
    if others:
        others.remove(rows)
    return rows, tuple(others), channel


def walk_of(problem: Problem) -> ChannelWalk:
    """The walk of a problem of the family CHANNELS."""
    shape = pixels_of(problem)
    assert shape is not None
    small, pixels, conversion = shape.small, shape.pixels, problem.conversion
    source_start, target_start = problem.source_offset, 0
    if shape.splits and small.source_stride < 0:
        small, source_start, target_start = reversed_loop(small, source_start, target_start)
        conversion = reversed_channels(conversion) if small.is_channel else conversion
    if shape.splits and pixels.source_stride < 0:
        pixels, source_start, target_start = reversed_loop(pixels, source_start, target_start)
    outer = [loop for axis, loop in enumerate(loops_of(problem)) if axis not in (shape.small_axis, shape.pixel_axis)]
    pitches, lasts = (shape.pitch, 1), (shape.last, 1)
    return ChannelWalk(
        small,
        pixels,
        *outer_loops(outer),
        (source_start, target_start),
        pitches if shape.splits else pitches[::-1],
        lasts if shape.splits else lasts[::-1],
        (problem.source.element.itemsize, problem.target.element.itemsize),
        conversion,
    )


def launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family CHANNELS."""
    walk, shape, bits = walk_of(plan.problem), pixels_of(plan.problem), plan.index_bits
    assert shape is not None
    pixels, rows = walk.pixels, walk.rows
    load, store = plan.load.nbytes, plan.store.nbytes
    pixel_bytes, planar_bytes = (load, store) if shape.splits else (store, load)
    length = planar_bytes // shape.planar_itemsize
    group = PixelGroup(length, shape.pitch, shape.interleaved_itemsize)
    is_whole = shape.splits and walk.lasts[0] == shape.pitch
    bulk = policy().bulk_copies
    shares = shares_of(bulk, group, pixels.size, rows.size * walk.count, is_whole, load, gpu)
    if shares is None:
        whole = max(1, pixel_bytes // shape.interleaved_itemsize // length)
        tile = pixel_tile(length, group.shared_bytes, pixels.size, rows.size, walk.count, whole, gpu)
        row_groups, tile_rows = tile
        tiles = -(-pixels.size // (row_groups * length)), -(-rows.size // tile_rows)
        blocks, box, shared_bytes = prod(tiles) * walk.count, tile, row_groups * tile_rows * group.shared_bytes
    else:
        row_groups, tiles, tile = shares.groups, (shares.row_tiles, rows.size), (shares.groups, 1)
        blocks, box, shared_bytes = shares.blocks, (shares.stage_tiles * row_groups, 1), shares.shared_bytes
    threads = policy().pixels.threads if shares is None else bulk.threads
    # A group of planes is one vector of each plane.
    row_vectors = row_groups * length * shape.pitch * shape.interleaved_itemsize // pixel_bytes
    vectors = (row_vectors, row_groups) if shape.splits else (row_groups, row_vectors)
    block, (rank, affines, order) = walk.parameters(tile, tiles, vectors, bits, shares)
    name = instantiation(
        "channels",
        (conversion_argument(walk.conversion), index_argument(bits)),
        "ChannelsPolicy",
        rank=rank,
        direction=f"sg::Direction::{'split' if shape.splits else 'join'}",
        channels=shape.pitch if walk.chooses else walk.small.size,
        pitch=shape.pitch,
        fills_pixels=shape.fills,
        pixel_bytes=pixel_bytes,
        planar_bytes=planar_bytes,
        backwards=walk.backwards,
        whole=shape.splits and pixels.size % length == 0,
        threads=threads,
        stages=0 if shares is None else shares.stages,
        resident=1 if shares is None else bulk.resident_blocks,
        axis=walk.axis,
        affines=affines,
        order=order,
    )
    return KernelLaunch(
        ("channels.cu",),
        name,
        grid_of(blocks),
        (threads, 1, 1),
        shared_bytes,
        block.parameters,
        block.tables,
        pixel_box(plan.problem, (shape.small_axis, shape.pixel_axis), box[0] * length, box[1]),
    )
