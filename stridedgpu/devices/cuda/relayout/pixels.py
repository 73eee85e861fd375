"""Pixels of few channels: how many of them a thread holds, and the launches that split, join and move them.

`Pixels` are interleaved on one side and planar on the other (`channels.cu`); `WholePixels` are interleaved on both
(`pixels.cu`). Rows or planes that are not aligned to vectors take `shifted_channels.cu`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from stridedgpu.devices.cuda.gpu import GpuProperties, KernelLaunch, divisor_words, grid_of
from stridedgpu.devices.cuda.parameters import ParameterBlock, conversion_argument, index_argument, instantiation
from stridedgpu.devices.cuda.policy import BulkCopyPolicy, policy
from stridedgpu.planning.relayout_problem import RelayoutProblem
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.strides import round_up

from .choice import (
    Family,
    Loop,
    RelayoutChoice,
    gaps_are_ours,
    last_gap_is_there,
    loops_of,
    outer_words,
    pixel_axes,
    pixel_box,
    pixel_tile,
    reversed_channels,
    reversed_loop,
)


@dataclass(frozen=True, slots=True)
class PixelGroup:
    """The pixels that one thread moves at once: `length` of them, `pitch` elements each, and their shared memory."""

    length: int
    pitch: int
    itemsize: int

    @property
    def shared_bytes(self) -> int:
        """Bytes with the padding that keeps groups an odd number of units apart: `PixelGroup` in pixel_groups.cuh."""
        nbytes = self.length * self.pitch * self.itemsize
        unit = min(self.length * self.itemsize, 16)
        return nbytes + (unit if unit >= 4 and nbytes // unit % 2 == 0 else 0)


@dataclass(frozen=True, slots=True)
class Pixels:
    """A problem's pixels, `pitch` elements apart on one side and planar on the other.

    With `splits`, the source has the pixels. `used` elements of each are moved. With `fills`, the gaps between a
    target's pixels are written too, and so are the first `last` elements of a row's last pixel. `filler` is the number
    of zeros that may follow a run of the target.
    """

    small_axis: int
    pixel_axis: int
    small: Loop
    pixels: Loop
    splits: bool
    pitch: int
    used: int
    fills: bool
    last: int
    filler: int
    interleaved_itemsize: int
    planar_itemsize: int
    compute_itemsize: int

    @property
    def fit_registers(self) -> bool:
        """True if whole pixels, padding included, and the constants of all channels fit a thread's registers."""
        filled = not self.filler or (not self.splits and self.pitch == self.small.size + self.filler)
        most = policy().family.filled_pitch if self.filler else policy().family.pitch
        return self.pitch <= most and self.small.size <= policy().family.pitch and not self.pixels.is_channel and filled

    @property
    def leaves_gaps(self) -> bool:
        """True if the target's pixels have gaps that may not be written."""
        return not self.splits and self.used < self.pitch and not self.fills

    @property
    def group_bytes(self) -> int:
        """The bytes of pixels that a thread may hold."""
        return policy().pixels.split_bytes if self.pitch <= policy().family.pitch else policy().pixels.filled_bytes

    @property
    def most_planar_bytes(self) -> int:
        """Bytes of the widest vector of a plane for which all its pixels, whole, fit a thread's registers.

        While pixels are joined, the vectors of their planes occupy registers, too.
        """
        pixel_bytes = self.pitch * self.interleaved_itemsize
        length = max(1, self.group_bytes // pixel_bytes)
        if not self.splits:
            room = policy().pixels.joined_bytes[self.compute_itemsize]
            length = min(length, max(1, room // (pixel_bytes + self.small.size * self.planar_itemsize)))
        return (1 << (length.bit_length() - 1)) * self.planar_itemsize


def pixels_of(problem: RelayoutProblem) -> Pixels | None:
    """The pixels of a problem of the family CHANNELS, or None."""
    axes = pixel_axes(problem)
    if axes is None:
        return None
    splits = problem.target_strides[axes[0]] != 1
    loops = loops_of(problem)
    small, pixels = (loops[axis] for axis in axes)
    pitch = abs(pixels.source_stride if splits else pixels.target_stride)
    itemsizes = (problem.source.element.itemsize, problem.target.element.itemsize)
    channels = problem.conversion.channels if splits and small.is_channel else None
    used = small.size if channels is None else max(channels) + 1
    fills = not splits and pitch > used and (problem.filler > 0 or gaps_are_ours(problem, pitch))
    last = pitch if problem.filler or (fills and last_gap_is_there(problem, pitch)) else used
    return Pixels(
        *axes,
        small,
        pixels,
        splits,
        pitch,
        used,
        fills,
        last,
        problem.filler,
        *(itemsizes if splits else itemsizes[::-1]),
        problem.conversion.compute.itemsize,
    )


@dataclass(frozen=True, slots=True)
class WholePixels:
    """A problem's pixels: the innermost loop is inside a pixel, the next one is over the pixels.

    With `fills`, the gaps between the target's pixels are written too, and so are the first `last` elements of a row's
    last pixel. The first `used` elements of each source pixel are read.
    """

    small: Loop
    pixels: Loop
    used: int
    fills: bool
    last: int
    source: PixelGroup
    target: PixelGroup

    @property
    def leaves_gaps(self) -> bool:
        """True if the target's pixels have gaps that may not be written."""
        return self.small.size < self.target.pitch and not self.fills


def whole_pixels_of(problem: RelayoutProblem) -> WholePixels:
    """The pixels of a problem of the family PIXELS."""
    *_, pixels, small = loops_of(problem)
    pitches = (abs(pixels.source_stride), pixels.target_stride)
    itemsizes = (problem.source.element.itemsize, problem.target.element.itemsize)
    pixel_bytes = sum(pitch * itemsize for pitch, itemsize in zip(pitches, itemsizes, strict=True))
    limits = policy().pixels
    most = min(limits.whole_pixels, limits.plane_bytes // max(itemsizes), max(1, limits.whole_bytes // pixel_bytes))
    length = 1 << (most.bit_length() - 1)
    if pixels.source_stride < 0:
        # Pixels are reversed in whole groups.
        length = min(length, pixels.size & -pixels.size)
    pitch = pitches[1]
    fills = pitch > small.size and (problem.filler > 0 or gaps_are_ours(problem, pitch))
    return WholePixels(
        small,
        pixels,
        problem.source_extents[-1],
        fills,
        pitch if problem.filler or (fills and last_gap_is_there(problem, pitch)) else small.size,
        *(PixelGroup(length, each, itemsize) for each, itemsize in zip(pitches, itemsizes, strict=True)),
    )


_BULK_BYTES: Final = 16
"""Addresses and sizes of bulk copies are multiples of it."""


@dataclass(frozen=True, slots=True)
class Shares:
    """How the blocks of one wave share rows of `row_tiles` tiles, each of `groups` groups of pixels.

    A block has `block_tiles` of them, or fewer if it is one of the last, and brings up to `stage_tiles` at once, all of
    one row, to one of `stages` stages of `stage_bytes` of shared memory. It has `shared_bytes` in all.
    """

    groups: int
    row_tiles: int
    stage_tiles: int
    block_tiles: int
    blocks: int
    stages: int
    stage_bytes: int
    shared_bytes: int


def shares_of(
    chosen: BulkCopyPolicy,
    group: PixelGroup,
    pixels: int,
    rows: int,
    is_whole: bool,
    load_bytes: int,
    gpu: GpuProperties,
    thread_bytes: int = 0,
) -> Shares | None:
    """The shares of rows of `pixels` whole pixels, or None where threads load them.

    `is_whole` says whether rows end with a whole pixel, `load_bytes` how wide their vectors may be. A thread has
    `thread_bytes` of shared memory beside the stages. Threads load pixels on GPUs that the policy leaves out; where a
    group is padded in shared memory, or a row is no multiple of 16 bytes or of a group; where a stage leaves threads
    idle; and where there is less than a stage for each block.
    """
    least, most = chosen.capabilities
    group_bytes = group.length * group.pitch * group.itemsize
    row_bytes = pixels * group.pitch * group.itemsize
    is_same = is_whole and group.shared_bytes == group_bytes and not row_bytes % _BULK_BYTES
    if not least <= gpu.compute_capability <= most or not is_same or load_bytes % _BULK_BYTES or pixels % group.length:
        return None
    groups = max(1, _BULK_BYTES // (group.length * group.itemsize))
    row_tiles = -(-pixels // (groups * group.length))
    of_threads = chosen.threads * thread_bytes
    room = min(chosen.stage_bytes, (chosen.block_bytes - of_threads) // chosen.stages)
    stage_tiles = min(room // (groups * group_bytes), row_tiles)
    blocks = gpu.multiprocessors * chosen.resident_blocks
    is_filled = stage_tiles * groups >= chosen.well_filled * chosen.threads
    if not is_filled or rows * row_tiles < blocks * stage_tiles:
        return None
    stage_bytes = stage_tiles * groups * group_bytes
    return Shares(
        groups,
        row_tiles,
        stage_tiles,
        -(-rows * row_tiles // blocks),
        blocks,
        chosen.stages,
        stage_bytes,
        chosen.stages * stage_bytes + of_threads,
    )


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


def walk_of(problem: RelayoutProblem) -> ChannelWalk:
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


def channels_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
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


_SHARED_ALIGNMENT: Final = 16
"""Alignment in bytes of the target's part of shared memory."""


def whole_walk_of(problem: RelayoutProblem) -> ChannelWalk:
    """The iteration of a problem of the family PIXELS."""
    shape = whole_pixels_of(problem)
    pixels, source_start, target_start = shape.pixels, problem.source_offset, 0
    if pixels.source_stride < 0:
        pixels, source_start, target_start = reversed_loop(pixels, source_start, target_start)
    runs_back = shape.small.source_stride < 0
    return ChannelWalk(
        shape.small,
        pixels,
        *outer_loops(loops_of(problem)[:-2]),
        (source_start - (shape.small.size - 1 if runs_back else 0), target_start),
        (shape.source.pitch, shape.target.pitch),
        (shape.used, shape.last),
        (shape.source.itemsize, shape.target.itemsize),
        problem.conversion,
        runs_back,
    )


def pixels_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family PIXELS."""
    walk, shape, bits = whole_walk_of(plan.problem), whole_pixels_of(plan.problem), plan.index_bits
    length, vectors, groups = shape.source.length, (plan.load.nbytes, plan.store.nbytes), (shape.source, shape.target)
    bulk, shares = policy().whole_bulk_copies, _shares_of(plan, walk, shape, gpu)
    if shares is None:
        whole = max(1, *(each // (length * group.itemsize) for each, group in zip(vectors, groups, strict=True)))
        shared = sum(group.shared_bytes for group in groups)
        tile = pixel_tile(length, shared, walk.pixels.size, walk.rows.size, walk.count, whole, gpu)
        row_groups, tile_rows = tile
        tiles = -(-walk.pixels.size // (row_groups * length)), -(-walk.rows.size // tile_rows)
        source_bytes = round_up(tile_rows * row_groups * shape.source.shared_bytes, _SHARED_ALIGNMENT)
        shared_bytes = source_bytes + tile_rows * row_groups * shape.target.shared_bytes
        blocks, box, threads = prod(tiles) * walk.count, tile, policy().pixels.threads
    else:
        row_groups, tiles, tile = shares.groups, (shares.row_tiles, walk.rows.size), (shares.groups, 1)
        box, shared_bytes = (shares.stage_tiles * row_groups, 1), shares.shared_bytes
        blocks, threads = shares.blocks, bulk.threads
    source_vectors, target_vectors = (
        row_groups * length * group.pitch * group.itemsize // each for each, group in zip(vectors, groups, strict=True)
    )
    block, (rank, affines, order) = walk.parameters(tile, tiles, (source_vectors, target_vectors), bits, shares)
    source_pitch, target_pitch = walk.pitches
    name = instantiation(
        "pixels",
        (conversion_argument(walk.conversion), index_argument(bits)),
        "PixelsPolicy",
        rank=rank,
        channels=walk.small.size,
        source_pitch=source_pitch,
        target_pitch=target_pitch,
        fills_pixels=shape.fills,
        turned=walk.turned,
        backwards=walk.backwards,
        length=length,
        load_bytes=plan.load.nbytes,
        store_bytes=plan.store.nbytes,
        threads=threads,
        stages=0 if shares is None else shares.stages,
        resident=1 if shares is None else bulk.resident_blocks,
        axis=walk.axis,
        affines=affines,
        order=order,
    )
    inner = len(plan.problem.sizes) - 1
    return KernelLaunch(
        ("pixels.cu",),
        name,
        grid_of(blocks),
        (threads, 1, 1),
        shared_bytes,
        block.parameters,
        block.tables,
        pixel_box(plan.problem, (inner, inner - 1), box[0] * length, box[1]),
    )


def _shares_of(plan: RelayoutChoice, walk: ChannelWalk, shape: WholePixels, gpu: GpuProperties) -> Shares | None:
    """The shares of blocks whose pixels bulk copies bring, or None where threads load them.

    Threads also load pixels that run backwards, and where a row or a tile of the target is no whole vectors or ends
    with elements that are not ours.
    """
    source, target, store = shape.source, shape.target, plan.store.nbytes
    is_whole = shape.used == source.pitch and shape.last == target.pitch
    rows = walk.rows.size * walk.count
    shares = shares_of(
        policy().whole_bulk_copies,
        source,
        walk.pixels.size,
        rows,
        is_whole and not walk.backwards,
        plan.load.nbytes,
        gpu,
        target.shared_bytes,
    )
    group_bytes = target.length * target.pitch * target.itemsize
    tile_bytes = 0 if shares is None else shares.groups * group_bytes
    row_bytes = walk.pixels.size * target.pitch * target.itemsize
    return None if tile_bytes % store or row_bytes % store else shares


_VECTOR_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class _Runs:
    """One side of a tile: `count` runs a row, `group` bytes of a group of pixels in each, up to `vectors` vectors."""

    count: int
    group: int
    vectors: int

    @property
    def nbytes(self) -> int:
        """Bytes of shared memory, including a group and a word past the end."""
        return self.count * (self.vectors * _VECTOR_BYTES + round_up(self.group + _VECTOR_BYTES, _VECTOR_BYTES))


def shifted_channels_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a funnel-shifted plan of the family CHANNELS or PIXELS."""
    walk = walk_of(plan.problem) if plan.family is Family.CHANNELS else whole_walk_of(plan.problem)
    bits, pixels, rows = plan.index_bits, walk.pixels, walk.rows
    length = policy().pixels.shifted_bytes // min(walk.itemsizes)
    group_bytes = [
        length * itemsize * (walk.small.size if pitch == 1 else pitch)
        for itemsize, pitch in zip(walk.itemsizes, walk.pitches, strict=True)
    ]
    usual_bytes = policy().pixels.shifted_shared_bytes
    tile = pixel_tile(length, sum(group_bytes), pixels.size, rows.size, walk.count, 1, gpu, usual_bytes)
    row_groups, tile_rows = tile
    tiles = -(-pixels.size // (row_groups * length)), -(-rows.size // tile_rows)
    read, written = (_runs(walk, side, length, row_groups) for side in (0, 1))
    block, (rank, affines, order) = walk.parameters(tile, tiles, (read.vectors, written.vectors), bits)
    source_pitch, target_pitch = walk.pitches
    name = instantiation(
        "shifted_channels",
        (conversion_argument(walk.conversion), index_argument(bits)),
        "ShiftedChannelsPolicy",
        rank=rank,
        channels=walk.small.size,
        source_pitch=source_pitch,
        target_pitch=target_pitch,
        turned=walk.turned,
        backwards=walk.backwards,
        length=length,
        threads=policy().pixels.threads,
        axis=walk.axis,
        affines=affines,
        order=order,
    )
    return KernelLaunch(
        ("shifted_channels.cu",),
        name,
        grid_of(prod(tiles) * walk.count),
        (policy().pixels.threads, 1, 1),
        tile_rows * (read.nbytes + written.nbytes),
        block.parameters,
        block.tables,
        pixel_box(plan.problem, _axes(plan), row_groups * length, tile_rows),
    )


def _axes(plan: RelayoutChoice) -> tuple[int, int]:
    """The axis inside a pixel, and the axis over pixels."""
    inner = len(plan.problem.sizes) - 1
    found = pixel_axes(plan.problem) if plan.family is Family.CHANNELS else (inner, inner - 1)
    assert found is not None
    return found


def _runs(walk: ChannelWalk, side: int, length: int, row_groups: int) -> _Runs:
    """The runs of the source (0) or of the target (1)."""
    pitch = walk.pitches[side]
    group = length * pitch * walk.itemsizes[side]
    return _Runs(walk.small.size if pitch == 1 else 1, group, -(-row_groups * group // _VECTOR_BYTES) + 1)
