"""The launch of packed tiles: which box of the loops is a tile, and the tables that say where its elements lie."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Final

from stridedgpu.strides import round_up

from . import cuda_generic
from .cuda_tiles import Loop, gaps_are_ours, loops_of, outer_words, safe_width
from .gpu import GpuProperties, KernelLaunch, divisor_words, grid_of
from .kernel_parameters import ParameterBlock, conversion_argument, index_argument
from .plan import Plan
from .problem import Problem

__all__ = ["launch"]

_THREADS: Final = 256
_SHARED_BYTES: Final = 40 * 1024
_ATTEMPTS: Final = ((256, 8192), (128, 8192), (64, 8192), (64, 2048), (32, 2048), (32, 512))
"""Tiles to try, the best first: bytes that a run should have on both sides, and elements in all."""

_LAST_ATTEMPTS: Final = ((16, 8192), (1, 8192), (1, 512))
"""What fits where nothing else does."""

_GAP: Final = 0xFFFF
_ZERO: Final = 0xFFFE
"""In the table of positions: `packed_gap` and `packed_zero` in packed_tile.cu."""

_MOST_GAPS: Final = 2
"""A run may be so many times as long as its elements, or as 4 elements."""


@dataclass(frozen=True, slots=True)
class _Tile:
    """A box of the loops. `chunk` and `row` are the loops inside a chunk and inside a row, the innermost first.

    Positions are in elements: `chunk_places[i]` are those of loop `i`'s coordinates inside a chunk. Behind each run of
    the last loop lie `filler` zeros.
    """

    loops: tuple[Loop, ...]
    extents: tuple[int, ...]
    chunk: tuple[int, ...]
    row: tuple[int, ...]
    channels: tuple[int, ...] | None
    filler: int = 0

    @property
    def chunk_loops(self) -> list[int]:
        """The loops that enumerate chunks; what is repeated is read once."""
        return [i for i in self._enumerating(self.chunk) if self.loops[i].source_stride]

    @property
    def row_loops(self) -> list[int]:
        """The loops that enumerate rows."""
        return self._enumerating(self.row)

    @property
    def partial(self) -> list[int]:
        """The loops that a tile takes a part of, a row's first: blocks beside each other write beside each other."""
        found = [i for i, loop in enumerate(self.loops) if 1 < self.extents[i] < loop.size]
        return sorted(found, key=lambda i: i not in self.row)

    @property
    def outer(self) -> list[int]:
        """The loops that a block has one place of."""
        return [i for i, extent in enumerate(self.extents) if extent == 1]

    @property
    def chunk_length(self) -> int:
        """Elements of a chunk, gaps included."""
        return sum(max(self.chunk_places(i)) for i in self.chunk) + 1

    @property
    def row_length(self) -> int:
        """Elements of a row, gaps and filler included."""
        return sum((self.extents[i] - 1) * self.loops[i].target_stride for i in self.row) + 1 + self.filler

    def chunk_places(self, i: int) -> list[int]:
        """Where the coordinates of one of a chunk's loops lie in it."""
        loop, extent = self.loops[i], self.extents[i]
        steps = [x * loop.source_stride for x in self.source_coordinates(i)]
        return steps if loop.source_stride > 0 else [step + (extent - 1) * -loop.source_stride for step in steps]

    def source_coordinates(self, i: int) -> Sequence[int]:
        """The source's coordinates along a loop: those of a table of channels where there is one."""
        return self.channels if self.loops[i].is_channel and self.channels is not None else range(self.extents[i])

    def blocks(self) -> int:
        """How many tiles there are."""
        return prod(-(-loop.size // extent) for loop, extent in zip(self.loops, self.extents, strict=True))

    def _enumerating(self, inside: Sequence[int]) -> list[int]:
        return [i for i, extent in enumerate(self.extents) if extent > 1 and i not in inside]


def launch(plan: Plan, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan of the family PACKED_TILE, or of a neighbour that its own kernel is not made for."""
    problem, bits, conversion = plan.problem, plan.index_bits, plan.problem.conversion
    source_itemsize, target_itemsize = problem.source.element.itemsize, problem.target.element.itemsize
    loops = tuple(loops_of(problem))
    tile, load = _best_tile(plan, loops, gpu)
    channel = next((i for i, loop in enumerate(loops) if loop.is_channel), None)
    in_tile = channel is not None and tile.extents[channel] > 1
    if channel is not None and in_tile and conversion.channels and tile.extents[channel] < loops[channel].size:
        return cuda_generic.launch(plan, gpu)
    if tile.filler and tile.extents[-1] < loops[-1].size:
        return cuda_generic.launch(plan, gpu)
    steps = [loops[i].target_stride for i in (*tile.outer, *tile.row_loops)]
    steps += [tile.extents[i] * loops[i].target_stride for i in tile.partial]
    store = safe_width(plan.store.nbytes, target_itemsize, steps)
    gaps = "zeros" if tile.filler else "ours" if gaps_are_ours(problem, 1) else "kept"
    load_length, store_length = load // source_itemsize, store // target_itemsize
    pitch = _pitch(tile.chunk_length, load_length, source_itemsize)

    block = ParameterBlock()
    block.add_table(_chunk_table(tile, bits))
    block.add_table(_row_table(tile, pitch, bits))
    block.add_table(_position_table(tile, pitch, store_length))
    lowest = sum((tile.extents[i] - 1) * min(loops[i].source_stride, 0) for i in tile.chunk)
    block.add_index(problem.source_offset + lowest, bits)
    for number in (0, tile.blocks()):
        block.add_index(number, bits)
    for i in _slots(tile):
        loop, extent = (Loop(1, 0, 0), 1) if i is None else (loops[i], tile.extents[i])
        steps = [extent * loop.source_stride, extent * loop.target_stride, extent * loop.is_channel]
        for number in (loop.size, extent, *steps, *divisor_words(-(-loop.size // extent), bits)):
            block.add_index(number, bits)
    outer_channel = Loop(1, 0, 0) if channel is None or in_tile else loops[channel]
    for number in (*divisor_words(outer_channel.size, bits), outer_channel.target_stride):
        block.add_index(number, bits)
    counts = [prod(tile.extents[i] for i in chosen) for chosen in (tile.chunk_loops, tile.row_loops)]
    lengths = (tile.chunk_length, tile.row_length)
    vectors = [-(-length // each) for length, each in zip(lengths, (load_length, store_length), strict=True)]
    for number in (*divisor_words(vectors[0], 32), *divisor_words(vectors[1], 32), *counts, pitch, *lengths):
        block.add_index(number, 32)
    for number in _shrinks(tile):
        block.add_index(number, 32)
    rank, words = outer_words([loops[i] for i in tile.outer if not loops[i].is_channel], bits)
    block.add_axes(words, bits)
    order = block.add_order(
        replace(conversion, channels=None) if in_tile else conversion, outer_channel.source_stride, bits
    )
    affines = block.add_affines(conversion)
    arguments = (
        conversion_argument(conversion),
        index_argument(bits),
        rank,
        load,
        store,
        f"sg::Gaps::{gaps}",
        _THREADS,
        affines,
        order,
    )
    return KernelLaunch(
        ("packed_tile.cu",),
        f"sg::packed_tile<{', '.join(map(str, arguments))}>",
        grid_of(tile.blocks()),
        (_THREADS, 1, 1),
        _shared_bytes(counts[0] * pitch, source_itemsize),
        block.parameters,
        block.tables,
    )


def _best_tile(plan: Plan, loops: tuple[Loop, ...], gpu: GpuProperties) -> tuple[_Tile, int]:
    """The first tile to try that fits into shared memory and leaves no multiprocessor idle, and its load width."""
    itemsize = plan.problem.source.element.itemsize
    widest = max(itemsize, plan.problem.target.element.itemsize)
    fitting: list[tuple[_Tile, int]] = []
    for run_bytes, elements in (*_ATTEMPTS, *_LAST_ATTEMPTS):
        if fitting and (run_bytes, elements) in _LAST_ATTEMPTS:
            break
        tile = _tile_of(loops, plan.problem, max(1, run_bytes // widest), elements)
        load = _load_width(plan, tile)
        chunks = prod(tile.extents[i] for i in tile.chunk_loops)
        used = _shared_bytes(chunks * _pitch(tile.chunk_length, load // itemsize, itemsize), itemsize)
        if used <= _SHARED_BYTES and prod(tile.extents) <= elements:
            if tile.blocks() >= gpu.multiprocessors:
                return tile, load
            fitting.append((tile, load))
    return max(fitting, key=lambda entry: entry[0].blocks())


def _tile_of(loops: tuple[Loop, ...], problem: Problem, run: int, elements: int) -> _Tile:
    """A tile with runs of about `run` elements on both sides, if the loops allow, and up to `elements` in all."""
    channels = problem.conversion.channels
    filled = [0] * (len(loops) - 1) + [problem.filler]
    strides = [[abs(loop.source_stride) for loop in loops], [loop.target_stride for loop in loops]]
    orders = [sorted((i for i in range(len(loops)) if steps[i]), key=steps.__getitem__) for steps in strides]
    extents = [1] * len(loops)
    for order, steps, fillers in zip(orders, strides, ([0] * len(loops), filled), strict=True):
        count = 1
        for i in order:
            if count >= run or steps[i] > _MOST_GAPS * max(count, 4):
                break
            needed = -(-run // count)
            whole = loops[i].size <= 2 * needed
            extents[i] = max(extents[i], loops[i].size if whole else round_up(needed, min(16, loops[i].size)))
            count *= extents[i] + fillers[i]
            if extents[i] < loops[i].size:
                break
    chunk, row = (
        _prefix(loops, extents, order, steps, fillers)
        for order, steps, fillers in zip(orders, strides, ([0] * len(loops), filled), strict=True)
    )
    largest = max((i for i, extent in enumerate(extents) if extent == 1), key=lambda i: loops[i].size, default=None)
    room = elements // prod(extents)
    if largest is not None and room > 1 and not (loops[largest].is_channel and channels is not None):
        extents[largest] = min(loops[largest].size, room)
    return _Tile(loops, tuple(extents), tuple(chunk), tuple(row), channels, problem.filler)


def _prefix(
    loops: Sequence[Loop],
    extents: Sequence[int],
    order: Sequence[int],
    steps: Sequence[int],
    fillers: Sequence[int],
) -> list[int]:
    """The innermost loops of one side that make one run: all whole but the last."""
    inside: list[int] = []
    count = 1
    for i in order:
        if extents[i] == 1 < loops[i].size or steps[i] > _MOST_GAPS * max(count, 4):
            break
        inside.append(i)
        count *= extents[i] + fillers[i]
        if extents[i] < loops[i].size:
            break
    return inside


def _load_width(plan: Plan, tile: _Tile) -> int:
    """The widest load that divides whatever separates two chunks."""
    loops = tile.loops
    steps = [loops[i].source_stride for i in (*tile.outer, *tile.chunk_loops)]
    for i in tile.partial:
        steps.append(tile.extents[i] * loops[i].source_stride)
        if loops[i].source_stride < 0:
            # The last tile is shorter, and starts where the loop ends.
            steps.append(loops[i].size * loops[i].source_stride)
    return safe_width(plan.load.nbytes, plan.problem.source.element.itemsize, steps)


def _pitch(length: int, load_length: int, itemsize: int) -> int:
    """Elements from chunk to chunk in shared memory: whole loads, and an odd number of words or elements."""
    unit = max(1, 4 // itemsize)
    units = -(-round_up(length, load_length) // unit)
    return (units | 1) * unit


def _shared_bytes(elements: int, itemsize: int) -> int:
    """Bytes of shared memory with the filling that `PackedMemory` in packed_tile.cu puts after every 128."""
    return elements * itemsize + elements * itemsize // 128 * max(itemsize, 4)


def _slots(tile: _Tile) -> list[int | None]:
    """The partial loops, in three slots."""
    return [*tile.partial, *[None] * (3 - len(tile.partial))]


def _shrinks(tile: _Tile) -> list[int]:
    """What a missing place of each partial loop takes off: of chunks, of rows, of positions that run backwards."""
    steps = []
    for i in _slots(tile):
        loop = Loop(1, 0, 0) if i is None else tile.loops[i]
        inside = abs(loop.source_stride) if i in tile.chunk else 0
        steps.append((inside, loop.target_stride if i in tile.row else 0, inside if loop.source_stride < 0 else 0))
    return [number for numbers in zip(*steps, strict=True) for number in numbers]


def _positions(tile: _Tile, pitch: int, i: int) -> list[int]:
    """What each coordinate of a loop adds to an element's position in shared memory."""
    if i in tile.chunk:
        return tile.chunk_places(i)
    if i not in tile.chunk_loops:
        return [0] * tile.extents[i]
    inner = tile.chunk_loops[tile.chunk_loops.index(i) + 1 :]
    return [x * pitch * prod(tile.extents[j] for j in inner) for x in range(tile.extents[i])]


def _coordinates(tile: _Tile, loops: Sequence[int]) -> list[dict[int, int]]:
    """The coordinates along some loops, the last one fastest."""
    return [dict(zip(loops, at, strict=True)) for at in product(*(range(tile.extents[i]) for i in loops))]


def _run(tile: _Tile, at: dict[int, int], offset: int, position: int, channel: int, bits: int) -> bytes:
    """An `sg::PackedRun`."""
    places = [0 if i is None else at.get(i, 0) for i in _slots(tile)]
    packed = struct.pack("<5I", position, channel, *places)
    code, padding = ("<I", 0) if bits == 32 else ("<Q", 4)
    return struct.pack(code, offset % 2**bits) + packed + bytes(padding)


def _chunk_table(tile: _Tile, bits: int) -> bytes:
    """Where chunks start in the source, from the tile's first."""
    return b"".join(
        _run(
            tile,
            at,
            sum(tile.source_coordinates(i)[x] * tile.loops[i].source_stride for i, x in at.items()),
            0,
            0,
            bits,
        )
        for at in _coordinates(tile, tile.chunk_loops)
    )


def _row_table(tile: _Tile, pitch: int, bits: int) -> bytes:
    """Where rows start in the target, and what their elements' positions and channels start from."""
    return b"".join(
        _run(
            tile,
            at,
            sum(x * tile.loops[i].target_stride for i, x in at.items()),
            sum(_positions(tile, pitch, i)[x] for i, x in at.items()),
            sum(x for i, x in at.items() if tile.loops[i].is_channel),
            bits,
        )
        for at in _coordinates(tile, tile.row_loops)
    )


def _position_table(tile: _Tile, pitch: int, store_length: int) -> bytes:
    """For each position of a row: its element's position in shared memory, a gap or a zero, and its channel."""
    words = [_GAP] * round_up(tile.row_length, store_length)
    positions = {i: _positions(tile, pitch, i) for i in tile.row}
    for at in _coordinates(tile, tile.row):
        place = sum(x * tile.loops[i].target_stride for i, x in at.items())
        channel = sum(x for i, x in at.items() if tile.loops[i].is_channel)
        words[place] = sum(positions[i][x] for i, x in at.items()) | channel << 16
        if at.get(len(tile.loops) - 1, 0) == tile.loops[-1].size - 1:
            words[place + 1 : place + 1 + tile.filler] = [_ZERO] * tile.filler
    return struct.pack(f"<{len(words)}I", *words)
