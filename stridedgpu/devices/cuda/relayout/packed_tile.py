"""Packed tiles (`packed_tile.cu`): the boxes of loops that may be tiles, the bounds of their vectors, the launch."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from stridedgpu.devices.cuda.gpu import GpuProperties, KernelLaunch
from stridedgpu.devices.cuda.parameters import ParameterBlock, conversion_argument, index_argument, instantiation
from stridedgpu.devices.cuda.policy import policy
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.values.strides import round_up
from stridedgpu.values.tensor_spec import WIDEST_ACCESS

from .choice import NO_LOOP, LoopAxis, RelayoutChoice, add_loops, itemsizes_of, loops_of, owns_gaps


@dataclass(frozen=True, slots=True)
class Step:
    """A number of elements that a vector must divide; `text` is the reason, with "{}" for the bytes."""

    elements: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class PackedTile:
    """A box of the loops. `chunk` and `row` are the loops inside a chunk and inside a row, the innermost first.

    Positions are in elements: `chunk_places(i)` are the positions of loop `i`'s coordinates inside a chunk. `filler`
    zeros follow each run of the last loop.
    """

    loops: tuple[LoopAxis, ...]
    extents: tuple[int, ...]
    chunk: tuple[int, ...]
    row: tuple[int, ...]
    channels: tuple[int, ...] | None
    filler: int

    @property
    def chunk_loops(self) -> list[int]:
        """The loops that enumerate chunks; broadcast elements are read once."""
        return [i for i in self._enumerating(self.chunk) if self.loops[i].source_stride]

    @property
    def row_loops(self) -> list[int]:
        """The loops that enumerate rows."""
        return self._enumerating(self.row)

    @property
    def partial(self) -> list[int]:
        """The loops that a tile cuts, those of a row first, so that adjacent blocks write adjacent memory."""
        cut = [i for i, loop in enumerate(self.loops) if 1 < self.extents[i] < loop.size]
        return sorted(cut, key=lambda i: i not in self.row)

    @property
    def outer(self) -> list[int]:
        """The loops of which a block has one coordinate."""
        return [i for i, extent in enumerate(self.extents) if extent == 1]

    @property
    def chunk_length(self) -> int:
        """Elements of a chunk, gaps included."""
        return sum(max(self.chunk_places(i)) for i in self.chunk) + 1

    @property
    def row_length(self) -> int:
        """Elements of a row, gaps and filler included."""
        return sum((self.extents[i] - 1) * self.loops[i].target_stride for i in self.row) + 1 + self.filler

    @property
    def chunk_count(self) -> int:
        """Chunks of a whole tile."""
        return prod(self.extents[i] for i in self.chunk_loops)

    @property
    def row_count(self) -> int:
        """Rows of a whole tile."""
        return prod(self.extents[i] for i in self.row_loops)

    @property
    def holds_channels(self) -> bool:
        """True if a tile has all or one of the channels of a channel table, and all of those that are padded."""
        of_table = self.channels is None or not any(self.loops[i].is_channel for i in self.partial)
        return of_table and (not self.filler or self.extents[-1] == self.loops[-1].size)

    def chunk_places(self, i: int) -> list[int]:
        """The positions in a chunk of the coordinates of one of its loops."""
        loop, extent = self.loops[i], self.extents[i]
        steps = [x * loop.source_stride for x in self.source_coordinates(i)]
        return steps if loop.source_stride > 0 else [step + (extent - 1) * -loop.source_stride for step in steps]

    def source_coordinates(self, i: int) -> Sequence[int]:
        """The source's coordinates along a loop: those of the channel table if there is one."""
        return self.channels if self.loops[i].is_channel and self.channels is not None else range(self.extents[i])

    def blocks(self) -> int:
        """The number of tiles."""
        return prod(-(-loop.size // extent) for loop, extent in zip(self.loops, self.extents, strict=True))

    def source_steps(self) -> Iterator[Step]:
        """The distances between the start addresses of chunks."""
        for i in (*self.outer, *self.chunk_loops):
            yield Step(self.loops[i].source_stride)
        for i in self.partial:
            if i in self.chunk:
                yield Step(self.extents[i] * self.loops[i].source_stride, "tiles of the source start {} B apart")
                if self.loops[i].source_stride < 0:
                    # The last tile is shorter, and begins at the end of the loop.
                    text = "a run of the source is {} B long and runs backwards"
                    yield Step(self.loops[i].size * self.loops[i].source_stride, text)

    def target_steps(self, *, fills_gaps: bool) -> Iterator[Step]:
        """The distances between the start addresses of rows, and between the runs of a row if gaps are not filled."""
        for i in (*self.outer, *self.row_loops):
            yield Step(self.loops[i].target_stride)
        count = 1
        for i in self.row:
            if i in self.partial:
                yield Step(self.extents[i] * self.loops[i].target_stride, "tiles of the target start {} B apart")
            if self.loops[i].target_stride > count and not fills_gaps:
                yield Step(count, "a run of the target is {} B long, and the target does not own what follows")
                yield Step(self.loops[i].target_stride)
            count = self.extents[i] * self.loops[i].target_stride + (self.filler if i == len(self.loops) - 1 else 0)

    def allows(self, load_length: int, store_length: int, *, fills_gaps: bool) -> bool:
        """True if vectors of so many elements divide every step."""
        loads, stores = self.source_steps(), self.target_steps(fills_gaps=fills_gaps)
        return all(step.elements % load_length == 0 for step in loads) and all(
            step.elements % store_length == 0 for step in stores
        )

    def _enumerating(self, inside: Sequence[int]) -> list[int]:
        return [i for i, extent in enumerate(self.extents) if extent > 1 and i not in inside]


def packed_tiles(problem: RelayoutProblem) -> Iterator[PackedTile]:
    """The tiles that fit into shared memory, the best first; none if each would have only some of the channels."""
    fitting = False
    for attempts in (policy().packed_tile.tiles, policy().packed_tile.last_tiles):
        for tile in _fitting(problem, attempts):
            fitting = True
            if tile.holds_channels:
                yield tile
        if fitting:
            return


def chunk_pitch(length: int, load_length: int, itemsize: int) -> int:
    """Elements from chunk to chunk in shared memory: whole loads, and an odd number of words or elements."""
    unit = max(1, 4 // itemsize)
    units = -(-round_up(length, load_length) // unit)
    return (units | 1) * unit


def shared_bytes(elements: int, itemsize: int) -> int:
    """Bytes of shared memory with the padding that `PackedMemory` in packed_tile.cu adds after every 128."""
    return elements * itemsize + elements * itemsize // 128 * max(itemsize, 4)


def _fitting(problem: RelayoutProblem, attempts: Sequence[tuple[int, int]]) -> Iterator[PackedTile]:
    """The attempted tiles that keep to their element count and, for loads of any width, to a block's shared memory."""
    itemsize = problem.source.element.itemsize
    widest, limit = max(itemsize, problem.target.element.itemsize), policy().packed_tile.shared_bytes
    loops = tuple(loops_of(problem))
    for run_bytes, nbytes in attempts:
        elements = nbytes // widest
        tile = _tile_of(loops, problem, max(1, run_bytes // widest), elements)
        pitch = chunk_pitch(tile.chunk_length, max(1, WIDEST_ACCESS // itemsize), itemsize)
        if shared_bytes(tile.chunk_count * pitch, itemsize) <= limit and prod(tile.extents) <= elements:
            yield tile


def _tile_of(loops: tuple[LoopAxis, ...], problem: RelayoutProblem, run: int, elements: int) -> PackedTile:
    """A tile with runs of about `run` elements on both sides, if the loops allow, and up to `elements` in all."""
    channels = problem.conversion.channels
    fillers = ([0] * len(loops), [0] * (len(loops) - 1) + [problem.filler])
    strides = [[abs(loop.source_stride) for loop in loops], [loop.target_stride for loop in loops]]
    orders = [sorted((i for i in range(len(loops)) if steps[i]), key=steps.__getitem__) for steps in strides]
    extents = [1] * len(loops)
    for order, steps, filled in zip(orders, strides, fillers, strict=True):
        count = 1
        for i in order:
            if count >= run or steps[i] > policy().packed_tile.most_gaps * max(count, 4):
                break
            needed = -(-run // count)
            whole = loops[i].size <= 2 * needed
            # Parts of a run are whole vectors, even of 1-byte elements.
            extents[i] = max(
                extents[i], loops[i].size if whole else round_up(needed, min(WIDEST_ACCESS, loops[i].size))
            )
            count *= extents[i] + filled[i]
            if extents[i] < loops[i].size:
                break
    chunk, row = (_prefix(loops, extents, *side) for side in zip(orders, strides, fillers, strict=True))
    largest = max((i for i, extent in enumerate(extents) if extent == 1), key=lambda i: loops[i].size, default=None)
    room = elements // prod(extents)
    if largest is not None and room > 1 and not (loops[largest].is_channel and channels is not None):
        extents[largest] = min(loops[largest].size, room)
    elif largest is None:
        # One long run on both sides: a block takes more of it, up to a table of elements that stays in the cache.
        for i, loop in enumerate(loops):
            if extents[i] < loop.size and not (loop.is_channel and channels is not None):
                extents[i] = min(loop.size, extents[i] * max(1, min(room, policy().packed_tile.longer_runs)))
                room //= policy().packed_tile.longer_runs
    return PackedTile(loops, tuple(extents), tuple(chunk), tuple(row), channels, problem.filler)


def _prefix(
    loops: Sequence[LoopAxis],
    extents: Sequence[int],
    order: Sequence[int],
    steps: Sequence[int],
    fillers: Sequence[int],
) -> list[int]:
    """The innermost loops of one side that form one run: all of them whole, except the last."""
    inside: list[int] = []
    count = 1
    for i in order:
        if extents[i] == 1 < loops[i].size or steps[i] > policy().packed_tile.most_gaps * max(count, 4):
            break
        inside.append(i)
        count *= extents[i] + fillers[i]
        if extents[i] < loops[i].size:
            break
    return inside


_GAP: Final = 0xFFFF

_ZERO: Final = 0xFFFE
"""Special values of the table of positions: `packed_gap` and `packed_zero` in packed_tile.cu."""


def packed_tile_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan whose kernel is that of the family PACKED_TILE."""
    problem, bits, conversion = plan.problem, plan.index_bits, plan.problem.conversion
    gaps = "zeros" if problem.filler else "ours" if owns_gaps(problem, 1) else "kept"
    tile = _tile_for(plan, gpu, fills_gaps=gaps == "ours")
    loops = tile.loops
    channel = next((i for i, loop in enumerate(loops) if loop.is_channel), None)
    in_tile = channel is not None and tile.extents[channel] > 1
    load_length, store_length = plan.lengths
    source_itemsize, _ = itemsizes_of(problem)
    pitch = chunk_pitch(tile.chunk_length, load_length, source_itemsize)

    block = ParameterBlock(bits)
    block.add_table(_chunk_table(tile, bits))
    block.add_table(_row_table(tile, pitch, bits))
    block.add_table(_position_table(tile, pitch, store_length))
    lowest = sum((tile.extents[i] - 1) * min(loops[i].source_stride, 0) for i in tile.chunk)
    block.add_indices(problem.source_offset + lowest, 0, tile.blocks())
    for i in _slots(tile):
        loop, extent = (NO_LOOP, 1) if i is None else (loops[i], tile.extents[i])
        steps = [extent * loop.source_stride, extent * loop.target_stride, extent * loop.is_channel]
        block.add_indices(loop.size, extent, *steps)
        block.add_divisors(-(-loop.size // extent))
    outer_channel = NO_LOOP if channel is None or in_tile else loops[channel]
    block.add_divisors(outer_channel.size)
    block.add_indices(outer_channel.target_stride)
    block.add_divisors(-(-tile.chunk_length // load_length), -(-tile.row_length // store_length), bits=32)
    counts = (tile.chunk_count, tile.row_count, pitch, tile.chunk_length, tile.row_length)
    block.add_indices(*counts, *_shrinks(tile), bits=32)
    rank = add_loops(block, [loops[i] for i in tile.outer if not loops[i].is_channel])
    order = block.add_order(replace(conversion, channels=None) if in_tile else conversion, outer_channel.source_stride)
    affines = block.add_affines(conversion)
    threads = policy().packed_tile.threads
    name = instantiation(
        "packed_tile",
        (conversion_argument(conversion), index_argument(bits)),
        "PackedTilePolicy",
        rank=rank,
        load_bytes=plan.load.nbytes,
        store_bytes=plan.store.nbytes,
        gaps=f"sg::Gaps::{gaps}",
        threads=threads,
        affines=affines,
        order=order,
    )
    nbytes = shared_bytes(tile.chunk_count * pitch, source_itemsize)
    return block.launch("packed_tile.cu", name, tile.blocks(), threads, shared_bytes=nbytes, tile=tile.extents)


def _tile_for(plan: RelayoutChoice, gpu: GpuProperties, *, fills_gaps: bool) -> PackedTile:
    """The best tile that leaves no multiprocessor idle, else the one with most blocks; all keep the plan's widths."""
    tiles = [tile for tile in packed_tiles(plan.problem) if tile.allows(*plan.lengths, fills_gaps=fills_gaps)]
    busy = (tile for tile in tiles if tile.blocks() >= gpu.multiprocessors)
    return next(busy, None) or max(tiles, key=PackedTile.blocks)


def _slots(tile: PackedTile) -> list[int | None]:
    """The partial loops, padded to three slots."""
    return [*tile.partial, *[None] * (3 - len(tile.partial))]


def _shrinks(tile: PackedTile) -> list[int]:
    """What each missing place of a partial loop subtracts: from chunks, from rows, from reversed positions."""
    steps = []
    for i in _slots(tile):
        loop = NO_LOOP if i is None else tile.loops[i]
        inside = abs(loop.source_stride) if i in tile.chunk else 0
        steps.append((inside, loop.target_stride if i in tile.row else 0, inside if loop.source_stride < 0 else 0))
    return [number for numbers in zip(*steps, strict=True) for number in numbers]


def _positions(tile: PackedTile, pitch: int, i: int) -> list[int]:
    """What each coordinate of a loop adds to an element's position in shared memory."""
    if i in tile.chunk:
        return tile.chunk_places(i)
    if i not in tile.chunk_loops:
        return [0] * tile.extents[i]
    inner = tile.chunk_loops[tile.chunk_loops.index(i) + 1 :]
    return [x * pitch * prod(tile.extents[j] for j in inner) for x in range(tile.extents[i])]


def _sums(added: Iterable[Sequence[int]]) -> list[int]:
    """For each coordinate along some loops, the last one fastest: the sum of what the loops' own coordinates add."""
    sums = [0]
    for numbers in added:
        sums = [total + number for total in sums for number in numbers]
    return sums


def _multiples(tile: PackedTile, i: int, step: int) -> list[int]:
    """`step` times each coordinate of a loop in the tile."""
    return [x * step for x in range(tile.extents[i])]


def _channels(tile: PackedTile, i: int) -> list[int]:
    """What each coordinate of a loop adds to the channel."""
    return _multiples(tile, i, int(tile.loops[i].is_channel))


def _runs(
    tile: PackedTile,
    along: Sequence[int],
    offsets: Sequence[int],
    positions: Sequence[int],
    channels: Sequence[int],
    bits: int,
) -> bytes:
    """A table of `sg::PackedRun`, one for each coordinate along some loops."""
    places = [_sums(_multiples(tile, i, int(i == slot)) for i in along) for slot in _slots(tile)]
    code = struct.Struct("<I5I" if bits == 32 else "<Q5I4x")
    columns = zip(offsets, positions, channels, *places, strict=True)
    return b"".join([code.pack(offset % 2**bits, *numbers) for offset, *numbers in columns])


def _chunk_table(tile: PackedTile, bits: int) -> bytes:
    """The table of the chunks' source offsets, relative to the tile's first."""
    along = tile.chunk_loops
    offsets = _sums([x * tile.loops[i].source_stride for x in tile.source_coordinates(i)] for i in along)
    none = [0] * len(offsets)
    return _runs(tile, along, offsets, none, none, bits)


def _row_table(tile: PackedTile, pitch: int, bits: int) -> bytes:
    """The table of the rows' target offsets, and of their base positions and base channels."""
    along = tile.row_loops
    offsets = _sums(_multiples(tile, i, tile.loops[i].target_stride) for i in along)
    positions = _sums(_positions(tile, pitch, i) for i in along)
    return _runs(tile, along, offsets, positions, _sums(_channels(tile, i) for i in along), bits)


def _position_table(tile: PackedTile, pitch: int, store_length: int) -> bytes:
    """For each position of a row: its element's position in shared memory (or gap, or zero), and its channel."""
    words = [_GAP] * round_up(tile.row_length, store_length)
    places = _sums(_multiples(tile, i, tile.loops[i].target_stride) for i in tile.row)
    positions = _sums(_positions(tile, pitch, i) for i in tile.row)
    channels = _sums(_channels(tile, i) for i in tile.row)
    for place, position, channel in zip(places, positions, channels, strict=True):
        words[place] = position | channel << 16
    if tile.filler:
        innermost = len(tile.loops) - 1
        coordinates = _sums(_multiples(tile, i, int(i == innermost)) for i in tile.row)
        for place, coordinate in zip(places, coordinates, strict=True):
            if coordinate == tile.loops[-1].size - 1:
                words[place + 1 : place + 1 + tile.filler] = [_ZERO] * tile.filler
    return struct.pack(f"<{len(words)}I", *words)
