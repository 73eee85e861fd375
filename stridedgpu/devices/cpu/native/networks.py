"""Networks: blocks in up to 8 registers of a cache line, on processors that shuffle two of them by one instruction.

A block's source runs lie one behind the other in registers, and its target runs in results:

    registers   a0 a1 a2 b0 b1 b2 c0 c1   c2 d0 d1 d2
    result      a0 b0 c0 d0 a1 b1 c1 d1   of both, at places 0 3 6 9 1 4 7 10
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, product
from math import inf
from operator import mul
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .registers import LINE_BYTES

if TYPE_CHECKING:
    from .blocks import Blocks

_VECTORS: Final = (1, 2, 3, 4, 6, 8)
"""How many registers and results a network may have."""

_MOST_DIRECT: Final = 3
"""The most vectors of which a result is merged one after the other; of more, pairs are merged before."""

_MOST_WITHOUT: Final = 4
"""The most registers of a network whose results cannot be merged in halves."""

_FORMS: Final = ((1, 1), (1, 2), (1, 4), (2, 1), (4, 1), (2, 2), (1, 0), (0, 1), (0, 0), (4, 4), (4, 0), (2, 0))
"""The pieces of each register and of each result that the library has networks for."""

_SIZES: Final = (64, 32, 16, 8, 4, 2, 1)
"""Bytes of parts of results that are stored."""

_COST = 5
"""The time of a network beside loads, shuffles and stores, in shuffles; on a Zen 5 one takes a cycle."""


_Place = tuple[int, int]


class _Piece(NamedTuple):
    """Words of a run that lie together in a register: the run's place in each digit, and where they begin in both."""

    run: tuple[int, ...]
    begin: int
    lane: int
    words: list[int]


class _Permutation(NamedTuple):
    """The pieces of as many registers as results, and the tables of all results.

    `in_halves`: half of the results take no more than a vector of each pair of registers.
    """

    registers: list[list[_Piece]]
    results: list[list[_Piece]]
    in_halves: bool
    tables: NDArray[np.uint8]


def network_cost(words: int, source_run: int, target_run: int, lanes: int) -> float:
    """The time of a network by the words of a block and of a side's run."""
    registers, loads = _vectors_of(words // source_run, source_run, lanes)
    results, stores = _vectors_of(words // target_run, target_run, lanes)
    count = next((count for count in _VECTORS if count >= max(registers, results)), 0)
    if not count:
        return inf
    shuffles = count * count / 2 if count > _MOST_DIRECT else count * max(1, count - 1)
    # Tables of eight registers are loaded for each block.
    shuffles *= 1 if count < _VECTORS[-1] else 1.6
    is_even_read, is_even_written = (
        length % lanes == 0 or length in {lanes // 2, lanes // 4} for length in (source_run, target_run)
    )
    loading = loads if is_even_read else 4 + 2.5 * loads
    storing = 1.5 * stores if is_even_written else 6 + 2 * count + 2 * stores
    return _COST + shuffles + loading + storing


def network_factor(kernel: Blocks) -> float:
    """The time of a network in the estimated one: more where pairs cannot be merged for half of the results."""
    registers, _, in_halves, _ = _permutation_of(kernel)
    if in_halves or len(registers) <= _MOST_DIRECT:
        return 1
    return 1.3 if len(registers) <= _MOST_WITHOUT else inf


def _vectors_of(runs: int, length: int, lanes: int) -> tuple[int, int]:
    """The vectors that runs of a length take, and their pieces."""
    whole, rest = divmod(length, lanes)
    return runs * whole + (-(-runs // (lanes // rest)) if rest else 0), runs * (whole + (rest > 0))


def _vectors(kernel: Blocks) -> tuple[list[list[_Piece]], list[list[_Piece]]]:
    """The pieces of a block's registers and of its results."""
    lanes = kernel.lanes
    registers = _packed(kernel.runs([digit.source for digit in kernel.digits]), lanes)
    results = _packed(kernel.runs([digit.target for digit in kernel.digits]), lanes)
    for pieces in results:
        # Pieces that are all as long fill each result: a missing one is the last again.
        for _ in range(len(pieces), _even(results, lanes)):
            pieces.append(pieces[-1]._replace(lane=pieces[-1].lane + len(pieces[-1].words)))
    return registers, results


@lru_cache(maxsize=256)
def _permutation_of(kernel: Blocks) -> _Permutation:
    """The places of a block's words, and the tables that bring them there."""
    word = kernel.elements.itemsize
    lanes = kernel.lanes
    registers, results = _vectors(kernel)
    count = next(count for count in _VECTORS if count >= max(len(registers), len(results)))
    registers += [[]] * (count - len(registers))
    results += [results[-1]] * (count - len(results))
    tables = None
    if count > _MOST_DIRECT:
        orders = [[*range(count)], [*range(0, count, 2), *range(1, count, 2)]]
        paired = [orders[0], [place for k in range(count // 2) for place in (k, k + count // 2)]]
        # Halves of the results take half of each pair more often where all vectors are as long.
        sides = ((registers, kernel.digits, "source"), (results, kernel.digits, "target"))
        packings = [
            [vectors, *_packed_evenly(kernel.runs([getattr(digit, side) for digit in digits]), count)]
            for vectors, digits, side in sides
        ]
        for read, written, order, pairs in product(*packings, orders, paired):
            these, those = [read[place] for place in pairs], [written[place] for place in order]
            tables = _tables_in_halves(_wanted(these, those), lanes)
            if tables is not None:
                registers, results = these, those
                break
    in_halves = tables is not None
    if tables is None:
        tables = [table for result in _wanted(registers, results) for table in _tables_of(result, count)]
    of_bytes = [
        [(side * lanes + lane) * word + byte for side, lane in table for byte in range(word)]
        + [0] * (LINE_BYTES - len(table) * word)
        for table in tables
    ]
    return _Permutation(registers, results, in_halves, aligned(of_bytes))


def _wanted(registers: list[list[_Piece]], results: list[list[_Piece]]) -> list[list[_Place]]:
    """Where each lane of each result comes from: a register, and a lane of it."""
    where = {
        number: (register, piece.lane + at)
        for register, pieces in enumerate(registers)
        for piece in pieces
        for at, number in enumerate(piece.words)
    }
    return [[where[number] for piece in pieces for number in piece.words] for pieces in results]


def _tables_in_halves(wanted: list[list[_Place]], lanes: int) -> list[list[_Place]] | None:
    """The tables of each half of the results: of each pair of registers, then of each result; None if it has no room.

    A place of a table is 0 or 1 for the left or the right vector, and a lane.
    """
    tables: list[list[_Place]] = []
    half = len(wanted) // 2
    for results in (wanted[:half], wanted[half:]):
        merged: list[dict[_Place, int]] = [{} for _ in range(half)]
        for register, lane in chain.from_iterable(results):
            places = merged[register // 2]
            places.setdefault((register % 2, lane), len(places))
        if max(map(len, merged)) > lanes:
            return None
        tables += map(list, merged)
        for result in results:
            of_pairs = [(register // 2, merged[register // 2][register % 2, lane]) for register, lane in result]
            tables += _tables_of(of_pairs, half)
    return tables


def _tables_of(result: list[_Place], vectors: int) -> list[list[_Place]]:
    """The tables by which a result is merged of some vectors, of which each adds its lanes to those before."""
    # What is taken from earlier vectors stays in its lane, from the first two at once.
    return [
        [(int(vector == second), lane if second in (vector, 1) else kept) for kept, (vector, lane) in enumerate(result)]
        for second in range(1, max(2, vectors))
    ]


def aligned(tables: list[list[int]]) -> NDArray[np.uint8]:
    """The tables in cache lines."""
    nbytes = len(tables) * len(tables[0])
    memory = np.empty(nbytes + LINE_BYTES, np.uint8)
    begin = -memory.ctypes.data % LINE_BYTES
    lines = memory[begin : begin + nbytes].reshape(len(tables), -1)
    lines[:] = tables
    return lines


def _packed(runs: dict[tuple[int, ...], list[int]], lanes: int) -> list[list[_Piece]]:
    """The words of some runs in vectors: each piece in the first one that has room for it."""
    vectors: list[list[_Piece]] = []
    room: list[int] = []
    for run, words in runs.items():
        for begin in range(0, len(words), lanes):
            piece = words[begin : begin + lanes]
            number = next((n for n, free in enumerate(room) if free >= len(piece)), len(room))
            if number == len(room):
                room.append(lanes)
                vectors.append([])
            vectors[number].append(_Piece(run, begin, lanes - room[number], piece))
            room[number] -= len(piece)
    return vectors


def network_fields(kernel: Blocks, reads: Sequence[int], writes: Sequence[int]) -> tuple[list[int], object]:
    """The fields of `Network` between the steps and the grid, by the strides of both sides; and what they point to."""
    registers, results, in_halves, tables = _permutation_of(kernel)
    word, lanes = kernel.elements.itemsize, kernel.lanes
    loaded, stored = _even(registers, lanes), _even(results, lanes)
    if any(len(pieces) < stored for pieces in results):
        stored = 0
    if (loaded, stored) not in _FORMS:
        # Parts and masks do what has no form of its own.
        loaded, stored = next((form for form in ((loaded, 0), (0, stored)) if form in _FORMS), (0, 0))
    loads = _pieces(registers, word, reads, max(loaded, *map(len, registers)))
    if loaded:
        # What is not used of a register is read from where there is memory.
        for turn, row in enumerate(loads):
            row[row[:, 1] == 0, 0] = (int(loads[0, 0, 0]) - turn * (LINE_BYTES // loaded)) % 2**64
    if stored:
        stores, parts = _pieces(results, word, writes, stored), [0] * len(_SIZES)
    else:
        stores, parts = _parts(results, word, writes)
    arrays = loads, tables, stores
    counts = len(registers), int(in_halves), loaded, stored, len(loads)
    return [*counts, *(array.ctypes.data for array in arrays), *parts], arrays


def _pieces(vectors: Sequence[list[_Piece]], word: int, strides: Sequence[int], turns: int) -> NDArray[np.uint64]:
    """The first piece of each vector, the second of each ...: where lane 0 would lie, and its lanes, in bytes."""
    table = np.zeros((turns, len(vectors), 2), np.uint64)
    for number, pieces in enumerate(vectors):
        for turn, piece in enumerate(pieces):
            offset = sum(map(mul, piece.run, strides)) + (piece.begin - piece.lane) * word
            table[turn, number] = offset % 2**64, ((1 << len(piece.words) * word) - 1) << piece.lane * word
    return table


def _packed_evenly(runs: dict[tuple[int, ...], list[int]], count: int) -> list[list[list[_Piece]]]:
    """The words of some runs in vectors as long as each other, about: one way, or none."""
    if count % len(runs):
        return []
    each = count // len(runs)
    return [
        [
            [_Piece(run, begin, 0, words[begin : (turn + 1) * len(words) // each])]
            for run, words in runs.items()
            for turn in range(each)
            for begin in [turn * len(words) // each]
        ]
    ]


def _even(vectors: Sequence[list[_Piece]], lanes: int) -> int:
    """The pieces of each vector if all are as long, 1, 2 or 4; else 0."""
    sizes = {len(piece.words) for pieces in vectors for piece in pieces}
    return lanes // sizes.pop() if len(sizes) == 1 and sizes <= {lanes, lanes // 2, lanes // 4} else 0


def _parts(vectors: Sequence[list[_Piece]], word: int, strides: Sequence[int]) -> tuple[NDArray[np.uint64], list[int]]:
    """Parts of vectors in memory, with their places in all of them; and how many parts have each size."""
    of_size: dict[int, list[tuple[int, int]]] = {size: [] for size in _SIZES}
    for number, pieces in enumerate(vectors):
        for piece in pieces:
            offset = sum(map(mul, piece.run, strides)) + piece.begin * word
            place, nbytes = number * LINE_BYTES + piece.lane * word, len(piece.words) * word
            size = min(_SIZES[0], 1 << nbytes.bit_length() - 1)
            for begin in range(0, nbytes, size):
                at = min(begin, nbytes - size)
                of_size[size].append((offset + at, place + at))
    return np.array([part for parts in of_size.values() for part in parts], np.int64).view(np.uint64), [
        *map(len, of_size.values())
    ]
