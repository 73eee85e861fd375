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
from stridedgpu.planning.relayout_problem import RelayoutProblem
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.strides import round_up

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
    """A problem's pixels, `pitch` elements apart on one side and planar on the other.

    With `splits`, the source has the pixels. `used` elements of each are moved. With `fills`, the gaps between a
    target's pixels are written too, and so are the first `last` elements of a row's last pixel. `filler` is the number
    of zeros that may follow a run of the target.
    """

    small_axis: int
    pixel_axis: int
    small: LoopAxis
    pixels: LoopAxis
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
        limits = policy().family
        filled = not self.filler or (not self.splits and self.pitch == self.small.size + self.filler)
        most = limits.filled_pitch if self.filler else limits.pitch
        return self.pitch <= most and self.small.size <= limits.pitch and not self.pixels.is_channel and filled

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
    itemsizes = itemsizes_of(problem)
    channels = problem.conversion.channels if splits and small.is_channel else None
    used = small.size if channels is None else max(channels) + 1
    fills = not splits and _fills(problem, pitch, used)
    return Pixels(
        *axes,
        small,
        pixels,
        splits,
        pitch,
        used,
        fills,
        _last(problem, pitch, used, fills=fills),
        problem.filler,
        *(itemsizes if splits else itemsizes[::-1]),
        problem.conversion.compute.itemsize,
    )


def _fills(problem: RelayoutProblem, pitch: int, used: int) -> bool:
    """Whether the gaps between the target's pixels are written."""
    return pitch > used and (problem.filler > 0 or owns_gaps(problem, pitch))


def _last(problem: RelayoutProblem, pitch: int, used: int, *, fills: bool) -> int:
    """The elements of a row's last pixel that are moved or filled."""
    return pitch if problem.filler or (fills and owns_last_gap(problem, pitch)) else used


@dataclass(frozen=True, slots=True)
class WholePixels:
    """A problem's pixels: the innermost loop is inside a pixel, the next one is over the pixels.

    With `fills`, the gaps between the target's pixels are written too, and so are the first `last` elements of a row's
    last pixel. The first `used` elements of each source pixel are read.
    """

    small: LoopAxis
    pixels: LoopAxis
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
    pitches, itemsizes = (abs(pixels.source_stride), pixels.target_stride), itemsizes_of(problem)
    pixel_bytes = sum(pitch * itemsize for pitch, itemsize in zip(pitches, itemsizes, strict=True))
    limits = policy().pixels
    most = min(limits.whole_pixels, limits.plane_bytes // max(itemsizes), max(1, limits.whole_bytes // pixel_bytes))
    length = 1 << (most.bit_length() - 1)
    if pixels.source_stride < 0:
        # Pixels are reversed in whole groups.
        length = min(length, pixels.size & -pixels.size)
    fills = _fills(problem, pitches[1], small.size)
    return WholePixels(
        small,
        pixels,
        problem.source_extents[-1],
        fills,
        _last(problem, pitches[1], small.size, fills=fills),
        *(PixelGroup(length, pitch, itemsize) for pitch, itemsize in zip(pitches, itemsizes, strict=True)),
    )


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
        self,
        block: ParameterBlock,
        source: str,
        name: str,
        problem: RelayoutProblem,
        axes: tuple[int, int],
        length: int,
    ) -> KernelLaunch:
        """The launch of a kernel; `axes` are the axis inside a pixel and the axis over pixels, `length` of a group."""
        small, along = axes
        extents = {small: problem.sizes[small], along: (self.stage_tiles or 1) * self.groups * length}
        outer = [axis for axis in range(len(problem.sizes)) if axis not in (*axes, problem.channel_axis)]
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
    pixels, rows = loops.pixels.size, loops.rows.size * loops.count
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
    needed = -(-loops.pixels.size // length)
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

    `rows` is the largest of the other loops, `batch` the rest, and `channel` a channel axis among them. Each pair is
    (source, target). `pitches` are the distances between pixels in elements, 1 on a planar side; of a row's last pixel,
    the first `lasts` elements are moved. `turned`: the source's channels are in reverse order.
    """

    small: LoopAxis
    pixels: LoopAxis
    rows: LoopAxis
    batch: tuple[LoopAxis, ...]
    channel: LoopAxis
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

    def parameters(
        self, tiles: _Tiles, vectors: tuple[int, int], bits: int
    ) -> tuple[ParameterBlock, tuple[int, str, str]]:
        """The kernels' `sg::PixelsParameters`, and template arguments: rank, and the kinds of per-channel constants.

        `vectors` is the number of vectors of a tile's row on each side.
        """
        block, pixels, rows = ParameterBlock(bits), self.pixels, self.rows
        # Elements of a row on each side, up to the last element moved.
        lengths = ((pixels.size - 1) * pitch + last for pitch, last in zip(self.pitches, self.lasts, strict=True))
        block.add_indices(*self.starts, prod(tiles.counts) * self.count, pixels.size, rows.size, *lengths)
        block.add_indices(rows.source_stride, rows.target_stride)
        block.add_divisors(*tiles.counts, self.small.size if self.chooses else self.channel.size)
        plane_step = self.small.target_stride if self.splits else self.small.source_stride
        block.add_indices(self.channel.target_stride, plane_step)
        block.add_divisors(*vectors, tiles.groups, bits=32)
        block.add_indices(tiles.rows, tiles.stage_tiles, tiles.block_tiles, bits=32)
        rank = add_loops(block, self.batch)
        stride = self.small.source_stride if self.small.is_channel else self.channel.source_stride
        order = block.add_order(self.conversion, stride)
        return block, (rank, block.add_affines(self.conversion), order)


def _outer_loops(loops: list[LoopAxis]) -> tuple[LoopAxis, tuple[LoopAxis, ...], LoopAxis]:
    """Classify the loops outside pixels: the largest as rows, the rest, and a channel axis."""
    others, channel = without_channel(loops)
    rows = max(others, key=lambda loop: loop.size, default=NO_LOOP)
    if others:
        others.remove(rows)
    return rows, tuple(others), channel


def _split_loops(problem: RelayoutProblem, shape: Pixels) -> _PixelLoops:
    """The iteration of a problem of the family CHANNELS."""
    small, pixels, conversion = shape.small, shape.pixels, problem.conversion
    starts = (problem.source_offset, 0)
    if shape.splits and small.source_stride < 0:
        small, starts = small.reversed(starts)
        conversion = reversed_channels(conversion) if small.is_channel else conversion
    if shape.splits and pixels.source_stride < 0:
        pixels, starts = pixels.reversed(starts)
    outer = [loop for axis, loop in enumerate(loops_of(problem)) if axis not in (shape.small_axis, shape.pixel_axis)]
    pitches, lasts = (shape.pitch, 1), (shape.last, 1)
    return _PixelLoops(
        small,
        pixels,
        *_outer_loops(outer),
        starts,
        pitches if shape.splits else pitches[::-1],
        lasts if shape.splits else lasts[::-1],
        itemsizes_of(problem),
        conversion,
    )


def _whole_loops(problem: RelayoutProblem, shape: WholePixels) -> _PixelLoops:
    """The iteration of a problem of the family PIXELS."""
    pixels, starts = shape.pixels, (problem.source_offset, 0)
    if pixels.source_stride < 0:
        pixels, starts = pixels.reversed(starts)
    runs_back = shape.small.source_stride < 0
    return _PixelLoops(
        shape.small,
        pixels,
        *_outer_loops(loops_of(problem)[:-2]),
        (starts[0] - (shape.small.size - 1 if runs_back else 0), starts[1]),
        (shape.source.pitch, shape.target.pitch),
        (shape.used, shape.last),
        itemsizes_of(problem),
        problem.conversion,
        runs_back,
    )


def channels_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family CHANNELS: pixels split into planes, or planes joined to pixels."""
    shape, bits = pixels_of(plan.problem), plan.index_bits
    assert shape is not None
    loops = _split_loops(plan.problem, shape)
    load, store = plan.load.nbytes, plan.store.nbytes
    pixel_bytes, planar_bytes = (load, store) if shape.splits else (store, load)
    length = planar_bytes // shape.planar_itemsize
    group = PixelGroup(length, shape.pitch, shape.interleaved_itemsize)
    is_whole = shape.splits and loops.lasts[0] == shape.pitch
    tiles = _bulk_tiles(policy().bulk_copies, loops, group, load, gpu, 0) if is_whole else None
    if tiles is None:
        whole = max(1, pixel_bytes // shape.interleaved_itemsize // length)
        tiles = _tiles(loops, length, (group.shared_bytes,), whole, gpu)
    # A group of planes is one vector of each plane.
    row_vectors = tiles.groups * group.nbytes // pixel_bytes
    vectors = (row_vectors, tiles.groups) if shape.splits else (tiles.groups, row_vectors)
    block, (rank, affines, order) = loops.parameters(tiles, vectors, bits)
    name = instantiation(
        "channels",
        (conversion_argument(loops.conversion), index_argument(bits)),
        "ChannelsPolicy",
        rank=rank,
        direction=f"sg::Direction::{'split' if shape.splits else 'join'}",
        channels=shape.pitch if loops.chooses else loops.small.size,
        pitch=shape.pitch,
        fills_pixels=shape.fills,
        pixel_bytes=pixel_bytes,
        planar_bytes=planar_bytes,
        backwards=loops.backwards,
        whole=shape.splits and loops.pixels.size % length == 0,
        threads=tiles.threads,
        stages=tiles.stages,
        resident=tiles.resident,
        axis=loops.axis,
        affines=affines,
        order=order,
    )
    return tiles.launch(block, "channels.cu", name, plan.problem, (shape.small_axis, shape.pixel_axis), length)


def pixels_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family PIXELS: padded, reduced, or with channels in another order or type."""
    shape, bits = whole_pixels_of(plan.problem), plan.index_bits
    loops = _whole_loops(plan.problem, shape)
    length, widths, groups = shape.source.length, (plan.load.nbytes, plan.store.nbytes), (shape.source, shape.target)
    tiles = _whole_bulk_tiles(plan, loops, shape, gpu)
    if tiles is None:
        whole = max(1, *(width // (length * group.itemsize) for width, group in zip(widths, groups, strict=True)))
        tiles = _tiles(loops, length, (shape.source.shared_bytes, shape.target.shared_bytes), whole, gpu)
    read, written = (tiles.groups * group.nbytes // width for width, group in zip(widths, groups, strict=True))
    block, (rank, affines, order) = loops.parameters(tiles, (read, written), bits)
    name = instantiation(
        "pixels",
        (conversion_argument(loops.conversion), index_argument(bits)),
        "PixelsPolicy",
        rank=rank,
        channels=loops.small.size,
        source_pitch=loops.pitches[0],
        target_pitch=loops.pitches[1],
        fills_pixels=shape.fills,
        turned=loops.turned,
        backwards=loops.backwards,
        length=length,
        load_bytes=plan.load.nbytes,
        store_bytes=plan.store.nbytes,
        threads=tiles.threads,
        stages=tiles.stages,
        resident=tiles.resident,
        axis=loops.axis,
        affines=affines,
        order=order,
    )
    return tiles.launch(block, "pixels.cu", name, plan.problem, _pixel_axes(plan), length)


def _whole_bulk_tiles(
    plan: RelayoutChoice, loops: _PixelLoops, shape: WholePixels, gpu: GpuProperties
) -> _Tiles | None:
    """The tiles that bulk copies bring, or None where threads load them.

    Threads also load pixels that run backwards, and where a row or a tile of the target is no whole vectors or ends
    with elements that are not ours.
    """
    source, target, store = shape.source, shape.target, plan.store.nbytes
    if shape.used != source.pitch or shape.last != target.pitch or loops.backwards:
        return None
    tiles = _bulk_tiles(policy().whole_bulk_copies, loops, source, plan.load.nbytes, gpu, target.shared_bytes)
    row_bytes = loops.pixels.size * target.pitch * target.itemsize
    return None if tiles is None or tiles.groups * target.nbytes % store or row_bytes % store else tiles


@dataclass(frozen=True, slots=True)
class _Runs:
    """One side of a tile: `count` runs a row, `group` bytes of a group of pixels in each, up to `vectors` vectors."""

    count: int
    group: int
    vectors: int

    @classmethod
    def of(cls, loops: _PixelLoops, side: int, length: int, row_groups: int) -> _Runs:
        """The runs of the source (0) or of the target (1)."""
        pitch = loops.pitches[side]
        group = length * pitch * loops.itemsizes[side]
        return cls(loops.small.size if pitch == 1 else 1, group, -(-row_groups * group // _VECTOR_BYTES) + 1)

    @property
    def nbytes(self) -> int:
        """Bytes of shared memory, including a group and a word past the end."""
        return self.count * (self.vectors * _VECTOR_BYTES + round_up(self.group + _VECTOR_BYTES, _VECTOR_BYTES))


def shifted_channels_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family CHANNELS or PIXELS whose pixels begin anywhere in their vectors."""
    problem, bits = plan.problem, plan.index_bits
    if plan.family is Family.CHANNELS:
        shape = pixels_of(problem)
        assert shape is not None
        loops = _split_loops(problem, shape)
    else:
        loops = _whole_loops(problem, whole_pixels_of(problem))
    length = policy().pixels.shifted_bytes // min(loops.itemsizes)
    read_bytes, written_bytes = (
        length * itemsize * (loops.small.size if pitch == 1 else pitch)
        for itemsize, pitch in zip(loops.itemsizes, loops.pitches, strict=True)
    )
    tiles = _tiles(loops, length, (read_bytes, written_bytes), 1, gpu, policy().pixels.shifted_shared_bytes)
    read, written = (_Runs.of(loops, side, length, tiles.groups) for side in (0, 1))
    tiles = replace(tiles, shared_bytes=tiles.rows * (read.nbytes + written.nbytes))
    block, (rank, affines, order) = loops.parameters(tiles, (read.vectors, written.vectors), bits)
    name = instantiation(
        "shifted_channels",
        (conversion_argument(loops.conversion), index_argument(bits)),
        "ShiftedChannelsPolicy",
        rank=rank,
        channels=loops.small.size,
        source_pitch=loops.pitches[0],
        target_pitch=loops.pitches[1],
        turned=loops.turned,
        backwards=loops.backwards,
        length=length,
        threads=tiles.threads,
        axis=loops.axis,
        affines=affines,
        order=order,
    )
    return tiles.launch(block, "shifted_channels.cu", name, problem, _pixel_axes(plan), length)


def _pixel_axes(plan: RelayoutChoice) -> tuple[int, int]:
    """The axis inside a pixel, and the axis over pixels."""
    inner = len(plan.problem.sizes) - 1
    axes = pixel_axes(plan.problem) if plan.family is Family.CHANNELS else (inner, inner - 1)
    assert axes is not None
    return axes
