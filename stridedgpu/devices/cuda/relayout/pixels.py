"""Pixels of few channels: how many of them a thread holds, and the launches that split, join and move them.

`Pixels` are interleaved on one side and planar on the other (`channels.cu`); `WholePixels` are interleaved on both
(`pixels.cu`). Rows or planes that are not aligned to vectors take `shifted_channels.cu`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final

from stridedgpu.devices.cuda.gpu import GpuProperties, KernelLaunch
from stridedgpu.devices.cuda.parameters import ParameterBlock, conversion_argument, index_argument, instantiation
from stridedgpu.devices.cuda.policy import BulkCopyPolicy, policy
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.strides import power_of_two, round_up

from .choice import (
    NO_LOOP,
    Family,
    LoopAxis,
    RelayoutChoice,
    add_loops,
    itemsizes_of,
    loops_of,
    owns_gaps,
    owns_last_gap,
    pixel_axes,
    reversed_channels,
    tile_box,
    without_channel,
)

_VECTOR_BYTES: Final = 16
"""Bytes of a vector: the alignment of shared memory, and of the addresses and sizes of bulk copies."""


@dataclass(frozen=True, slots=True)
class PixelGroup:
    """The pixels that one thread moves at once: `length` of them, `pitch` elements each, and their shared memory."""

    length: int
    pitch: int
    itemsize: int

    @property
    def nbytes(self) -> int:
        """Bytes of the pixels."""
        return self.length * self.pitch * self.itemsize

    @property
    def shared_bytes(self) -> int:
        """Bytes with the padding that keeps groups an odd number of units apart: `PixelGroup` in pixel_groups.cuh."""
        unit = min(self.length * self.itemsize, 16)
        return self.nbytes + (unit if unit >= 4 and self.nbytes // unit % 2 == 0 else 0)


@dataclass(frozen=True, slots=True)
class Pixels:
    """A problem's pixels. Each pair is (source, target).

    `axes` are the axis inside a pixel and the axis over pixels, `small` and `pixels` their loops. `pitches` are the
    distances between pixels in elements, 1 on a planar side: `planar` is 0 for the source, 1 for the target, or None.
    With `fills`, the gaps between the target's pixels are written too. Of a row's last pixel, the first `lasts`
    elements are moved or filled.
    """

    planar: int | None
    axes: tuple[int, int]
    small: LoopAxis
    pixels: LoopAxis
    pitches: tuple[int, int]
    itemsizes: tuple[int, int]
    lasts: tuple[int, int]
    fills: bool
    filler: int
    conversion: Conversion

    @property
    def splits(self) -> bool:
        """True if the source has pixels, and the target planes."""
        return self.planar == 1

    @property
    def interleaved(self) -> tuple[int, int]:
        """Pitch and item size of the side that has pixels, where the other one is planar."""
        side = 0 if self.splits else 1
        return self.pitches[side], self.itemsizes[side]

    @property
    def planar_itemsize(self) -> int:
        """Bytes of an element of a plane."""
        return self.itemsizes[1 if self.splits else 0]

    @property
    def fit_registers(self) -> bool:
        """True if whole pixels, padding included, and the constants of all channels fit a thread's registers."""
        limits, (pitch, _) = policy().family, self.interleaved
        filled = not self.filler or (not self.splits and pitch == self.small.size + self.filler)
        most = limits.filled_pitch if self.filler else limits.pitch
        return pitch <= most and self.small.size <= limits.pitch and not self.pixels.is_channel and filled

    @property
    def leaves_gaps(self) -> bool:
        """True if the target's pixels have gaps that may not be written."""
        return self.small.size < self.pitches[1] and not self.fills

    @property
    def chooses(self) -> bool:
        """True if a table selects the elements of a source pixel."""
        return self.small.is_channel and self.conversion.channels is not None and self.planar != 0

    @property
    def group_bytes(self) -> int:
        """The bytes of pixels that a thread may hold, where one side is planar."""
        limits = policy().pixels
        return limits.split_bytes if self.interleaved[0] <= policy().family.pitch else limits.filled_bytes

    @property
    def most_planar_bytes(self) -> int:
        """Bytes of the widest vector of a plane for which all its pixels, whole, fit a thread's registers.

        While pixels are joined, the vectors of their planes occupy registers, too.
        """
        pixel_bytes = prod(self.interleaved)
        length = max(1, self.group_bytes // pixel_bytes)
        if not self.splits:
            room = policy().pixels.joined_bytes[self.conversion.compute.itemsize]
            length = min(length, max(1, room // (pixel_bytes + self.small.size * self.planar_itemsize)))
        return power_of_two(length) * self.planar_itemsize

    @property
    def groups(self) -> tuple[PixelGroup, PixelGroup]:
        """The groups of a thread on both sides, where both have pixels."""
        limits, sides = policy().pixels, list(zip(self.pitches, self.itemsizes, strict=True))
        whole = max(1, limits.whole_bytes // sum(map(prod, sides)))
        most = min(limits.whole_pixels, limits.plane_bytes // max(self.itemsizes), whole)
        length = power_of_two(most)
        if self.pixels.source_stride < 0 or self.pixels.target_stride < 0:
            # Pixels are reversed in whole groups.
            length = min(length, self.pixels.size & -self.pixels.size)
        source, target = (PixelGroup(length, *side) for side in sides)
        return source, target


def pixels_of(problem: RelayoutProblem) -> Pixels | None:
    """The pixels of a problem of the family CHANNELS, or None."""
    axes = pixel_axes(problem)
    if axes is None:
        return None
    small, pixels = (loops_of(problem)[axis] for axis in axes)
    if small.target_stride != 1:
        chooses = small.is_channel and problem.conversion.channels is not None
        used = problem.source_extents[axes[0]] if chooses else small.size
        pitch = abs(pixels.source_stride)
        return _pixels(problem, 1, axes, (pitch, 1), (pitch if problem.filler else used, 1))
    return _pixels(problem, 0, axes, (1, abs(pixels.target_stride)), (1, small.size))


def whole_pixels_of(problem: RelayoutProblem) -> Pixels:
    """The pixels of a problem of the family PIXELS: the innermost loop is inside a pixel, the next one over pixels."""
    inner = len(problem.sizes) - 1
    pitches = abs(problem.source_strides[inner - 1]), problem.target_strides[inner - 1]
    return _pixels(problem, None, (inner, inner - 1), pitches, (problem.source_extents[inner], problem.sizes[inner]))


def _pixels(
    problem: RelayoutProblem, planar: int | None, axes: tuple[int, int], pitches: tuple[int, int], used: tuple[int, int]
) -> Pixels:
    """The pixels along these axes, of which the first `used` elements are read and written."""
    small, pixels = (loops_of(problem)[axis] for axis in axes)
    (read, written), pitch = used, pitches[1]
    fills = pitch > written and (problem.filler > 0 or owns_gaps(problem, pitch))
    if pitch > 1 and (problem.filler or (fills and owns_last_gap(problem, pitch))):
        written = pitch
    itemsizes, conversion = itemsizes_of(problem), problem.conversion
    return Pixels(planar, axes, small, pixels, pitches, itemsizes, (read, written), fills, problem.filler, conversion)


@dataclass(frozen=True, slots=True)
class _Tiles:
    """The tiles of one launch: groups of a row, rows, and how many tiles lie along each.

    Threads load the pixels; or, with `stages`, bulk copies bring them, and the blocks are one wave: `resident` of them
    on a multiprocessor. A block then has `block_tiles` tiles, or fewer if it is one of the last, and brings up to
    `stage_tiles` at once, all of one row, to one of its stages.
    """

    groups: int
    rows: int
    counts: tuple[int, int]
    blocks: int
    threads: int
    shared_bytes: int
    stages: int = 0
    resident: int = 1
    stage_tiles: int = 0
    block_tiles: int = 0

    def launch(
        self, block: ParameterBlock, source: str, name: str, problem: RelayoutProblem, shape: Pixels, length: int
    ) -> KernelLaunch:
        """The launch of a kernel; a group has `length` pixels."""
        small, along = shape.axes
        extents = {small: problem.sizes[small], along: (self.stage_tiles or 1) * self.groups * length}
        outer = [axis for axis in range(len(problem.sizes)) if axis not in (*shape.axes, problem.channel_axis)]
        if outer:
            extents[max(outer, key=problem.sizes.__getitem__)] = self.rows
        tile = tile_box(problem, extents)
        return block.launch(source, name, self.blocks, self.threads, shared_bytes=self.shared_bytes, tile=tile)


def _bulk_tiles(
    limits: BulkCopyPolicy,
    loops: _PixelLoops,
    group: PixelGroup,
    load_bytes: int,
    gpu: GpuProperties,
    thread_bytes: int,
) -> _Tiles | None:
    """The tiles of whole source pixels that bulk copies bring, or None where threads load them.

    `load_bytes` says how wide the source's vectors may be. A thread has `thread_bytes` of shared memory beside the
    stages. Threads load pixels on GPUs that the policy leaves out; where a group is padded in shared memory, or a row
    is no multiple of 16 bytes or of a group; where a stage leaves threads idle; and where there is less than a stage
    for each block.
    """
    least, most = limits.capabilities
    pixels, rows = loops.shape.pixels.size, loops.rows.size * loops.count
    row_bytes = pixels * group.pitch * group.itemsize
    is_same = group.shared_bytes == group.nbytes and not row_bytes % _VECTOR_BYTES
    if (
        not least <= gpu.compute_capability <= most
        or not is_same
        or load_bytes % _VECTOR_BYTES
        or pixels % group.length
    ):
        return None
    groups = max(1, _VECTOR_BYTES // (group.length * group.itemsize))
    row_tiles = -(-pixels // (groups * group.length))
    of_threads = limits.threads * thread_bytes
    room = min(limits.stage_bytes, (limits.block_bytes - of_threads) // limits.stages)
    stage_tiles = min(room // (groups * group.nbytes), row_tiles)
    blocks = gpu.multiprocessors * limits.resident_blocks
    is_filled = stage_tiles * groups >= limits.well_filled * limits.threads
    if not is_filled or rows * row_tiles < blocks * stage_tiles:
        return None
    return _Tiles(
        groups=groups,
        rows=1,
        counts=(row_tiles, loops.rows.size),
        blocks=blocks,
        threads=limits.threads,
        shared_bytes=limits.stages * stage_tiles * groups * group.nbytes + of_threads,
        stages=limits.stages,
        resident=limits.resident_blocks,
        stage_tiles=stage_tiles,
        block_tiles=-(-rows * row_tiles // blocks),
    )


def _tiles(
    loops: _PixelLoops,
    length: int,
    group_bytes: tuple[int, ...],
    whole: int,
    gpu: GpuProperties,
    usual_bytes: int | None = None,
) -> _Tiles:
    """The tiles that threads load, for rows in groups of `length` pixels, one thread a group.

    A group takes `group_bytes` of shared memory, for each side that is staged. A block should use `usual_bytes` of it,
    by default the policy's. `whole` groups fill whole vectors of the interleaved side.
    """
    limits, rows = policy().pixels, loops.rows.size
    wanted = (limits.shared_bytes if usual_bytes is None else usual_bytes) // sum(group_bytes)
    fewest, usual, largest = limits.groups
    groups = min(max(wanted, usual), largest, limits.most_shared_bytes // sum(group_bytes))
    needed = -(-loops.shape.pixels.size // length)
    while True:
        row_groups = round_up(min(needed, max(groups // whole, 1) * whole), whole)
        # Tiles of equal size avoid a sliver as the last one.
        row_groups = round_up(-(-needed // -(-needed // row_groups)), whole)
        tile_rows = min(rows, max(1, groups // row_groups))
        counts = -(-needed // row_groups), -(-rows // tile_rows)
        blocks = prod(counts) * loops.count
        if blocks >= gpu.multiprocessors or groups <= fewest:
            break
        groups //= 2
    *first, last = (tile_rows * row_groups * nbytes for nbytes in group_bytes)
    shared_bytes = sum(round_up(nbytes, _VECTOR_BYTES) for nbytes in first) + last
    return _Tiles(row_groups, tile_rows, counts, blocks, limits.threads, shared_bytes)


@dataclass(frozen=True, slots=True)
class _PixelLoops:
    """How a kernel iterates over pixels: in the order of the interleaved side, the source's if both are interleaved.

    `rows` is the largest of the other loops, `batch` the rest, and `channel` a channel axis among them. `starts` are
    the source's and the target's first elements.
    """

    shape: Pixels
    rows: LoopAxis
    batch: tuple[LoopAxis, ...]
    channel: LoopAxis
    starts: tuple[int, int]

    @property
    def count(self) -> int:
        """How many times the rows are iterated over."""
        return self.channel.size * prod(loop.size for loop in self.batch)

    @property
    def backwards(self) -> bool:
        """Whether the pixels of the two sides are in opposite directions."""
        return (self.shape.pixels.source_stride < 0) != (self.shape.pixels.target_stride < 0)

    @property
    def axis(self) -> str:
        """The `sg::ChannelAxis` of per-channel constants and offsets."""
        if self.shape.small.is_channel:
            return f"sg::ChannelAxis::{'source' if self.shape.splits else 'target'}"
        return f"sg::ChannelAxis::{'block' if self.channel.is_channel else 'none'}"

    @property
    def chooses(self) -> bool:
        """Whether a table selects the elements of a pixel that become planes."""
        return self.shape.splits and self.shape.chooses

    def parameters(
        self, tiles: _Tiles, vectors: tuple[int, int], bits: int
    ) -> tuple[ParameterBlock, int, dict[str, str]]:
        """The kernels' `sg::PixelsParameters`, its loops, and the last members of the policies.

        `vectors` is the number of vectors of a tile's row on each side.
        """
        shape, rows = self.shape, self.rows
        small, count, block = shape.small, shape.pixels.size, ParameterBlock(bits)
        # Elements of a row on each side, up to the last element moved.
        lengths = ((count - 1) * pitch + last for pitch, last in zip(shape.pitches, shape.lasts, strict=True))
        block.add_indices(*self.starts, prod(tiles.counts) * self.count, count, rows.size, *lengths)
        block.add_indices(rows.source_stride, rows.target_stride)
        block.add_divisors(*tiles.counts, small.size if self.chooses else self.channel.size)
        plane_step = small.target_stride if shape.splits else small.source_stride
        block.add_indices(self.channel.target_stride, plane_step)
        block.add_divisors(*vectors, tiles.groups, bits=32)
        block.add_indices(tiles.rows, tiles.stage_tiles, tiles.block_tiles, bits=32)
        rank = add_loops(block, self.batch)
        stride = small.source_stride if small.is_channel else self.channel.source_stride
        order = block.add_order(shape.conversion, stride)
        return block, rank, {"axis": self.axis, "affines": block.add_affines(shape.conversion), "order": order}


def _loops(problem: RelayoutProblem, shape: Pixels) -> _PixelLoops:
    """The iteration of a problem of the family CHANNELS or PIXELS."""
    starts = (problem.source_offset, 0)
    outer = [loop for axis, loop in enumerate(loops_of(problem)) if axis not in shape.axes]
    if shape.splits and shape.small.source_stride < 0:
        small, starts = shape.small.reversed(starts)
        conversion = reversed_channels(shape.conversion) if small.is_channel else shape.conversion
        shape = replace(shape, small=small, conversion=conversion)
    if shape.planar != 0 and shape.pixels.source_stride < 0:
        pixels, starts = shape.pixels.reversed(starts)
        shape = replace(shape, pixels=pixels)
    if shape.planar != 0 and shape.small.source_stride < 0:
        starts = starts[0] - (shape.small.size - 1), starts[1]
    others, channel = without_channel(outer)
    rows = max(others, key=lambda loop: loop.size, default=NO_LOOP)
    if others:
        others.remove(rows)
    return _PixelLoops(shape, rows, tuple(others), channel, starts)


def channels_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family CHANNELS: pixels split into planes, or planes joined to pixels."""
    shape, bits = pixels_of(plan.problem), plan.index_bits
    assert shape is not None
    loops = _loops(plan.problem, shape)
    load, store = plan.load.nbytes, plan.store.nbytes
    pixel_bytes, planar_bytes = (load, store) if shape.splits else (store, load)
    length, (pitch, itemsize) = planar_bytes // shape.planar_itemsize, shape.interleaved
    group = PixelGroup(length, pitch, itemsize)
    is_whole = shape.splits and shape.lasts[0] == pitch
    tiles = _bulk_tiles(policy().bulk_copies, loops, group, load, gpu, 0) if is_whole else None
    if tiles is None:
        whole = max(1, pixel_bytes // itemsize // length)
        tiles = _tiles(loops, length, (group.shared_bytes,), whole, gpu)
    # A group of planes is one vector of each plane.
    row_vectors = tiles.groups * group.nbytes // pixel_bytes
    vectors = (row_vectors, tiles.groups) if shape.splits else (tiles.groups, row_vectors)
    block, rank, channel_constants = loops.parameters(tiles, vectors, bits)
    name = instantiation(
        "channels",
        (conversion_argument(loops.shape.conversion), index_argument(bits)),
        "ChannelsPolicy",
        rank=rank,
        direction=f"sg::Direction::{'split' if shape.splits else 'join'}",
        channels=pitch if loops.chooses else shape.small.size,
        pitch=pitch,
        fills_pixels=shape.fills,
        pixel_bytes=pixel_bytes,
        planar_bytes=planar_bytes,
        backwards=loops.backwards,
        whole=shape.splits and shape.pixels.size % length == 0,
        threads=tiles.threads,
        stages=tiles.stages,
        resident=tiles.resident,
        **channel_constants,
    )
    return tiles.launch(block, "channels.cu", name, plan.problem, shape, length)


def pixels_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family PIXELS: padded, reduced, or with channels in another order or type."""
    shape, bits = whole_pixels_of(plan.problem), plan.index_bits
    loops = _loops(plan.problem, shape)
    source, target = groups = shape.groups
    length, widths = source.length, (plan.load.nbytes, plan.store.nbytes)
    tiles = _whole_bulk_tiles(plan, loops, gpu)
    if tiles is None:
        whole = max(1, *(width // (length * group.itemsize) for width, group in zip(widths, groups, strict=True)))
        tiles = _tiles(loops, length, (source.shared_bytes, target.shared_bytes), whole, gpu)
    read, written = (tiles.groups * group.nbytes // width for width, group in zip(widths, groups, strict=True))
    block, rank, channel_constants = loops.parameters(tiles, (read, written), bits)
    name = instantiation(
        "pixels",
        (conversion_argument(shape.conversion), index_argument(bits)),
        "PixelsPolicy",
        rank=rank,
        channels=shape.small.size,
        source_pitch=source.pitch,
        target_pitch=target.pitch,
        fills_pixels=shape.fills,
        turned=shape.small.source_stride < 0,
        backwards=loops.backwards,
        length=length,
        load_bytes=plan.load.nbytes,
        store_bytes=plan.store.nbytes,
        threads=tiles.threads,
        stages=tiles.stages,
        resident=tiles.resident,
        **channel_constants,
    )
    return tiles.launch(block, "pixels.cu", name, plan.problem, shape, length)


def _whole_bulk_tiles(plan: RelayoutChoice, loops: _PixelLoops, gpu: GpuProperties) -> _Tiles | None:
    """The tiles that bulk copies bring, or None where threads load them.

    Threads also load pixels that run backwards, and where a row or a tile of the target is no whole vectors or ends
    with elements that the target does not own.
    """
    (source, target), store = loops.shape.groups, plan.store.nbytes
    if loops.shape.lasts != loops.shape.pitches or loops.backwards:
        return None
    tiles = _bulk_tiles(policy().whole_bulk_copies, loops, source, plan.load.nbytes, gpu, target.shared_bytes)
    row_bytes = loops.shape.pixels.size * target.pitch * target.itemsize
    return None if tiles is None or tiles.groups * target.nbytes % store or row_bytes % store else tiles


def shifted_channels_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family CHANNELS or PIXELS whose pixels begin anywhere in their vectors."""
    problem, bits = plan.problem, plan.index_bits
    shape = pixels_of(problem) if plan.family is Family.CHANNELS else whole_pixels_of(problem)
    assert shape is not None
    loops = _loops(problem, shape)
    channels, length = shape.small.size, policy().pixels.shifted_bytes // min(shape.itemsizes)
    sides = list(zip(shape.pitches, shape.itemsizes, strict=True))
    read_bytes, written_bytes = (length * item * (channels if pitch == 1 else pitch) for pitch, item in sides)
    tiles = _tiles(loops, length, (read_bytes, written_bytes), 1, gpu, policy().pixels.shifted_shared_bytes)
    group_bytes = [length * pitch * item for pitch, item in sides]
    read, written = (-(-tiles.groups * nbytes // _VECTOR_BYTES) + 1 for nbytes in group_bytes)
    row_bytes = sum(
        # Vectors, and a group and a word past their end, of each plane or of the pixels.
        (channels if pitch == 1 else 1) * (vectors * _VECTOR_BYTES + round_up(nbytes + _VECTOR_BYTES, _VECTOR_BYTES))
        for (pitch, _), vectors, nbytes in zip(sides, (read, written), group_bytes, strict=True)
    )
    tiles = replace(tiles, shared_bytes=tiles.rows * row_bytes)
    block, rank, channel_constants = loops.parameters(tiles, (read, written), bits)
    name = instantiation(
        "shifted_channels",
        (conversion_argument(loops.shape.conversion), index_argument(bits)),
        "ShiftedChannelsPolicy",
        rank=rank,
        channels=channels,
        source_pitch=shape.pitches[0],
        target_pitch=shape.pitches[1],
        turned=plan.family is Family.PIXELS and shape.small.source_stride < 0,
        backwards=loops.backwards,
        length=length,
        threads=tiles.threads,
        **channel_constants,
    )
    return tiles.launch(block, "shifted_channels.cu", name, problem, shape, length)
