"""Short runs on the native library: the tables by which its loops permute the blocks of a kernel (`blocks.py`).

merges      each stored vector of 16 bytes is merged of loads, each by a table of its bytes' places there; a result of
many loads is merged of slots, which are merged of loads
networks    where an instruction shuffles two cache lines: a block's source runs lie one behind the other in registers,
and its target runs in results, whose tables have places in all registers
units       a run of both sides is copied by two steps that overlap
turns       pixels of 3 elements are transposed as words of 4
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, product
from math import ceil, inf, prod
from operator import attrgetter, mul
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.values.strides import power_of_two

from .calls import CompiledFunction
from .library import function
from .pool import LoopCall
from .registers import LANE_BYTES, LINE_BYTES

if TYPE_CHECKING:
    from .blocks import Blocks, Digit
    from .kernel_call import KernelCall

WIDTHS: Final = {"v4": LINE_BYTES, "v3": LANE_BYTES, "neon": LANE_BYTES}
"""Bytes of the vectors that a level permutes: two of a line by one instruction, or 16 bytes of one."""

_REGISTERS: Final = {"v4": 64, "v3": 32, "neon": 16}
"""Bytes of a level's registers: `VECTOR` in kernels/cpu/simd.hpp."""

_MERGES, _UNITS, _TURNS, _NETWORKS = range(4)
"""The loops of the library."""

MOST_LOOPS: Final = 64
"""The most loops around a block."""

MOST_UNIT_BYTES: Final = 2 * LINE_BYTES
"""Bytes of the longest run of both sides that two steps copy."""

UNIT_COST: Final = 3.0
"""The time to copy a run of both sides, in shuffles of two vectors; on a Zen 5 one takes a cycle."""

TURNED_BYTES: Final = 48
"""Bytes of each source line of a block of pixels of 3 elements."""

TURNED_COST: Final = 0.6
"""The time of a pixel of 3 elements that is transposed."""

_BLOCK_COST, _MERGE_COST = 5, 3
"""The time of a network, and of merges, beside loads, shuffles and stores."""

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

_LEAST_BYTES: Final = 2
"""Bytes of the shortest load and result of merges."""

_MOST_LOADS: Final = 256
"""The most loads of a block's merges: their tables take 4 KB of the L1 cache."""

_MOST_SLOTS: Final = 64
_ROUNDS: Final = range(2, 5)
"""How many slots a result may be merged of."""

_LEAST_IN_ROUNDS, _LEAST_IN_ROUNDS_BYTES = 6, 8
"""The least loads of a result that are merged in two rounds, and the least bytes of loads and results there."""

_NOTHING: Final = [128] * LANE_BYTES
"""The table that takes no byte."""

_read, _written = attrgetter("source"), attrgetter("target")

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


def unit_bytes(kernel: Blocks) -> int:
    """The bytes of a block that is one short run of both sides; 0 of any other."""
    a, b, *whole = kernel.digits
    nbytes = prod(digit.size for digit in whole) * kernel.elements.itemsize
    is_unit = a.size == b.size == 1 and all(digit.size == 1 or digit.source == digit.target == 1 for digit in whole)
    return nbytes if is_unit and 2 <= nbytes <= MOST_UNIT_BYTES else 0


def turned_lines(pixel_bytes: int) -> int:
    """The source lines of a block of pixels of 3 elements of 1 or 2 bytes: a vector of words of 4 elements."""
    return _REGISTERS[policy().native_level or "neon"] * 3 // 4 // pixel_bytes


def turned_word(kernel: Blocks) -> int:
    """The bytes of a word of 4 elements where a block is one of pixels of 3 elements, transposed; else 0."""
    if len(kernel.digits) != 3:
        return 0
    pixels, lines, (words, *steps) = kernel.digits
    nbytes = words * kernel.elements.itemsize
    if nbytes not in (3, 6) or steps != [1, 1]:
        return 0
    is_turned = pixels == (TURNED_BYTES // nbytes, words, 0) and lines == (turned_lines(nbytes), 0, words)
    return nbytes * 4 // 3 if is_turned else 0


def _width(kernel: Blocks) -> int:
    """Bytes of a kernel's vectors."""
    return kernel.lanes * kernel.elements.itemsize


def block_cost(digits: Sequence[Digit], word: int, width: int) -> float:
    """The time of a block in shuffles, about, by its loops; infinite if it is too large."""
    source_run, target_run = (prod(digit.size for digit in digits if step(digit)) for step in (_read, _written))
    words = prod(digit.size for digit in digits)
    lanes = width // word
    return _network_cost(words, source_run, target_run, lanes) if width == LINE_BYTES else _merge_cost(digits, lanes)


def _network_cost(words: int, source_run: int, target_run: int, lanes: int) -> float:
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
    return _BLOCK_COST + shuffles + loading + storing


def _merge_cost(digits: Sequence[Digit], lanes: int) -> float:
    """The time of merges, by the source runs and the distance along each that a result's words have."""
    read, written = (prod(digit.size for digit in digits if step(digit)) for step in (_read, _written))
    read, each = min(lanes, power_of_two(read)), min(lanes, power_of_two(written))
    left, runs, span = each, 1, 1
    for digit in sorted(digits, key=_written):
        if digit.target and digit.size > 1:
            along, left = min(digit.size, left), -(-left // digit.size)
            if digit.source:
                span += (along - 1) * digit.source
            else:
                runs *= along
    results = prod(digit.size for digit in digits) // written * -(-written // each)
    loads = runs * -(-span // read)
    takes = _takes(loads)
    return _merge_time(results, -(-loads // max(1, takes)), results if takes else 0, takes)


def _merge_time(results: int, loads: int, slots: int, takes: int) -> float:
    """The time of merges: of so many results and slots; infinite if the tables are too large."""
    if slots > _MOST_SLOTS or slots * loads + results * (takes or loads) > _MOST_LOADS:
        return inf
    return _MERGE_COST + (slots or results) * (1.5 + 0.75 * loads) + (results * (1.5 + 0.75 * takes) if takes else 0)


def _takes(loads: int) -> int:
    """The slots of which a result of so many loads is merged; 0 for one that is merged of the loads."""
    return 0 if loads < _LEAST_IN_ROUNDS else min(_ROUNDS[-1], ceil(loads**0.5))


def permutation_factor(call: KernelCall) -> float:
    """The time of a call's blocks in the estimated one.

    Merges may take more loads; networks take longer where pairs cannot be merged for half of the results.
    """
    kernel: Blocks = call.kernel  # type: ignore[assignment]
    if unit_bytes(kernel) or turned_word(kernel):
        return 1
    if _width(kernel) == LANE_BYTES:
        merges = _merges_of(kernel)
        if min(merges.read, merges.written) < _LEAST_BYTES:
            return inf
        return _merge_time(len(merges.puts), merges.loads, merges.slots, merges.takes) / _merge_cost(
            kernel.digits, kernel.lanes
        )
    registers, _, in_halves, _ = _permutation_of(kernel)
    if in_halves or len(registers) <= _MOST_DIRECT:
        return 1
    return 1.3 if len(registers) <= _MOST_WITHOUT else inf


def pieces_of(count: int, lanes: int) -> list[tuple[int, int]]:
    """The vectors of a run of so many words, each by its first word and its number of words, a power of two.

    >>> pieces_of(21, 8), pieces_of(7, 8)
    ([(0, 8), (8, 8), (13, 8)], [(0, 4), (3, 4)])
    """
    each = min(lanes, power_of_two(count))
    return [(min(first, count - each), each) for first in range(0, count, each)]


_Begin = tuple[tuple[int, ...], int]
"""Where a load or a result begins: the run's place in each digit, and words before it there."""


class _Merges(NamedTuple):
    """Merges of a block: bytes of a load and of a result, where both begin in runs, the slots of results, and tables.

    Each slot has `loads`, and each result as many `takes`; without slots, each result has loads.
    """

    read: int
    written: int
    loads: int
    slots: int
    takes: int
    puts: list[_Begin]
    gets: list[_Begin]
    taken: list[int]
    places: NDArray[np.uint8]


@lru_cache(maxsize=256)
def _merges_of(kernel: Blocks) -> _Merges:
    """The loads that each result of a block is merged of: of each source run the fewest that have its words."""
    lanes, word = kernel.lanes, kernel.elements.itemsize
    sources, targets = (kernel.runs([step(digit) for digit in kernel.digits]) for step in (_read, _written))
    where = {number: (run, at) for run, numbers in sources.items() for at, number in enumerate(numbers)}
    runs = list(sources.values())
    read = min(lanes, power_of_two(len(runs[0])))
    results = [
        [((run, begin), numbers[begin : begin + count]) for begin, count in pieces_of(len(numbers), lanes)]
        for run, numbers in targets.items()
    ]
    written = len(results[0][0][1])

    def loads_of(words: Iterable[int]) -> list[tuple[_Begin, dict[int, int]]]:
        """The loads that have some words, each with the lanes of those."""
        loads: list[tuple[_Begin, dict[int, int]]] = []
        for at, number in sorted((where[number], number) for number in words):
            run, place = at
            if not loads or loads[-1][0][0] != run or place >= loads[-1][0][1] + read:
                loads.append(((run, min(place, len(runs[0]) - read)), {}))
            (_, first), lanes_of = loads[-1]
            lanes_of[number] = place - first
        return loads

    def table(words: Sequence[int], lanes_of: dict[int, int]) -> list[int]:
        places = [*_NOTHING]
        for lane, number in enumerate(words):
            if number in lanes_of:
                places[lane * word : lane * word + word] = range(lanes_of[number] * word, (lanes_of[number] + 1) * word)
        return places

    flat = [*chain(*results)]
    vectors = [words for _, words in flat]
    loads = [loads_of(words) for words in vectors]
    most, slots, taken = max(map(len, loads)), list[list[int]](), list[list[int]]()
    takes, least = 0, len(flat) * most
    if most >= _LEAST_IN_ROUNDS and min(read, written) * word >= _LEAST_IN_ROUNDS_BYTES:
        # Results that begin alike in their runs have words of the same loads.
        turned = [*chain(*zip(*results, strict=True))]
        for together in _ROUNDS:
            of_group, of_result = list[list[int]](), list[list[int]]()
            for first in range(0, len(turned), together):
                group = [{*words} for _, words in turned[first : first + together]]
                needed = sorted(set[int]().union(*group), key=where.__getitem__)
                begin = len(of_group)
                of_group += [needed[at : at + lanes] for at in range(0, len(needed), lanes)]
                numbers = range(begin, len(of_group))
                of_result += [[n for n in numbers if not words.isdisjoint(of_group[n])] for words in group]
            of_slots, each = [loads_of(words) for words in of_group], max(map(len, of_result))
            of_slot = max(map(len, of_slots))
            time = len(of_group) * of_slot + len(turned) * each
            if time < least and each in _ROUNDS and len(of_group) <= _MOST_SLOTS:
                flat, loads, vectors, slots, taken = turned, of_slots, of_group, of_group, of_result
                takes, most, least = each, of_slot, time
    gets, tables = list[_Begin](), list[list[int]]()
    for words, of_vector in zip(vectors, loads, strict=True):
        missing = most - len(of_vector)
        gets += [begin for begin, _ in of_vector] + [of_vector[0][0]] * missing
        tables += [table(words, lanes_of) for _, lanes_of in of_vector] + [_NOTHING] * missing
    of_results = list[int]()
    for (_, words), of_it in zip(flat, taken, strict=False):
        missing = takes - len(of_it)
        of_results += of_it + of_it[:1] * missing
        tables += [table(words, {number: lane for lane, number in enumerate(slots[n])}) for n in of_it]
        tables += [_NOTHING] * missing
    begins = [begin for begin, _ in flat]
    return _Merges(read * word, written * word, most, len(slots), takes, begins, gets, of_results, _aligned(tables))


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
    return _Permutation(registers, results, in_halves, _aligned(of_bytes))


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


def _aligned(tables: list[list[int]]) -> NDArray[np.uint8]:
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


def short_runs_loop(call: KernelCall, level: str, owner: object) -> LoopCall:
    """The loop of a call of a kernel of blocks; it keeps an `owner` of more memory alive."""
    kernel: Blocks = call.kernel  # type: ignore[assignment]
    inner, outer, channels = call.grid()
    grid = [0, 0, 0, *inner, len(call.outer), *outer]
    offsets = call.source_offset, call.target_offset
    reads = [*(loop.source for loop in call.inner), *call.more[::2]]
    writes = [*(loop.target for loop in call.inner), *call.more[1::2]]
    steps = kernel.digits[0].size, kernel.digits[1].size
    kept: object = ()
    if nbytes := unit_bytes(kernel):
        place, fields = _UNITS, [nbytes]
    elif word := turned_word(kernel):
        place, fields = _TURNS, [word]
    elif _width(kernel) == LANE_BYTES:
        merges = _merges_of(kernel)
        word = kernel.elements.itemsize
        puts, gets = (
            np.array([sum(map(mul, run, strides)) + begin * word for run, begin in begins], np.int64)
            for begins, strides in ((merges.puts, writes), (merges.gets, reads))
        )
        vector = min(2 * LANE_BYTES, _REGISTERS[level])
        tables = puts, gets, np.array(merges.taken, np.int64) * vector, merges.places
        place, kept = _MERGES, tables
        fields = [*steps, merges.read, merges.written, len(puts), merges.loads]
        fields += [merges.slots, merges.takes, *(each.ctypes.data for each in tables)]
    else:
        place, (fields, kept) = _NETWORKS, _network_fields(kernel, reads, writes)
        fields = [*steps, *fields]
    loop = CompiledFunction(function(level, "short runs", place))
    return LoopCall.of(loop, [*fields, *grid], call.items, offsets, (kept, channels, owner))


def _network_fields(kernel: Blocks, reads: Sequence[int], writes: Sequence[int]) -> tuple[list[int], object]:
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
