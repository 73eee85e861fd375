"""The launch of packed tiles: the choice among tiles with the plan's widths, and the tables of elements."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from stridedgpu.devices.cuda.planning.gpu import GpuProperties, KernelLaunch, divisor_words, grid_of
from stridedgpu.devices.cuda.planning.packed_tiles import PackedTile, chunk_pitch, packed_tiles, shared_bytes
from stridedgpu.devices.cuda.planning.policy import policy
from stridedgpu.devices.cuda.planning.relayout import RelayoutChoice
from stridedgpu.values.strides import round_up

from .instantiation import instantiation
from .parameters import ParameterBlock, conversion_argument, index_argument
from .tiles import Loop, gaps_are_ours, outer_words

__all__ = ["launch"]

_GAP: Final = 0xFFFF
_ZERO: Final = 0xFFFE
"""Special values of the table of positions: `packed_gap` and `packed_zero` in packed_tile.cu."""


def launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan whose kernel is that of the family PACKED_TILE."""
    problem, bits, conversion = plan.problem, plan.index_bits, plan.problem.conversion
    source_itemsize, target_itemsize = problem.source.element.itemsize, problem.target.element.itemsize
    gaps = "zeros" if problem.filler else "ours" if gaps_are_ours(problem, 1) else "kept"
    tile = _tile_for(plan, gpu, fills_gaps=gaps == "ours")
    loops = tile.loops
    channel = next((i for i, loop in enumerate(loops) if loop.is_channel), None)
    in_tile = channel is not None and tile.extents[channel] > 1
    load_length, store_length = plan.load.nbytes // source_itemsize, plan.store.nbytes // target_itemsize
    pitch = chunk_pitch(tile.chunk_length, load_length, source_itemsize)

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
    lengths = (tile.chunk_length, tile.row_length)
    vectors = [-(-length // each) for length, each in zip(lengths, (load_length, store_length), strict=True)]
    for number in (
        *divisor_words(vectors[0], 32),
        *divisor_words(vectors[1], 32),
        tile.chunk_count,
        tile.row_count,
        pitch,
        *lengths,
    ):
        block.add_index(number, 32)
    for number in _shrinks(tile):
        block.add_index(number, 32)
    rank, words = outer_words([loops[i] for i in tile.outer if not loops[i].is_channel], bits)
    block.add_axes(words, bits)
    order = block.add_order(
        replace(conversion, channels=None) if in_tile else conversion, outer_channel.source_stride, bits
    )
    affines = block.add_affines(conversion)
    name = instantiation(
        "packed_tile",
        (conversion_argument(conversion), index_argument(bits)),
        "PackedTilePolicy",
        rank=rank,
        load_bytes=plan.load.nbytes,
        store_bytes=plan.store.nbytes,
        gaps=f"sg::Gaps::{gaps}",
        threads=policy().packed_tile.threads,
        affines=affines,
        order=order,
    )
    return KernelLaunch(
        ("packed_tile.cu",),
        name,
        grid_of(tile.blocks()),
        (policy().packed_tile.threads, 1, 1),
        shared_bytes(tile.chunk_count * pitch, source_itemsize),
        block.parameters,
        block.tables,
        tile.extents,
    )


def _tile_for(plan: RelayoutChoice, gpu: GpuProperties, *, fills_gaps: bool) -> PackedTile:
    """The best tile that leaves no multiprocessor idle, else the one with most blocks; all keep the plan's widths."""
    problem = plan.problem
    load_length = plan.load.nbytes // problem.source.element.itemsize
    store_length = plan.store.nbytes // problem.target.element.itemsize
    tiles = [tile for tile in packed_tiles(problem) if tile.allows(load_length, store_length, fills_gaps=fills_gaps)]
    busy = (tile for tile in tiles if tile.blocks() >= gpu.multiprocessors)
    return next(busy, None) or max(tiles, key=PackedTile.blocks)


def _slots(tile: PackedTile) -> list[int | None]:
    """The partial loops, padded to three slots."""
    return [*tile.partial, *[None] * (3 - len(tile.partial))]


def _shrinks(tile: PackedTile) -> list[int]:
    """What each missing place of a partial loop subtracts: from chunks, from rows, from reversed positions."""
    steps = []
    for i in _slots(tile):
        loop = Loop(1, 0, 0) if i is None else tile.loops[i]
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
