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
from itertools import chain
from math import ceil, inf, prod
from operator import attrgetter, mul
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.values.strides import power_of_two

from .calls import NativeFunction
from .networks import aligned, network_cost, network_factor, network_fields
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

TURNED_COLUMNS: Final = 16
"""Pixels of each source line of a block of pixels of 3 elements."""

TURNED_PIXELS: Final = (3, 6, 12)
"""Bytes of pixels of 3 elements that are transposed by words of 4."""

TURNED_COST: Final = 0.6
"""The time of a pixel of 3 elements that is transposed."""

_MERGE_COST = 3
"""The time of merges beside loads, shuffles and stores."""

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


def unit_bytes(kernel: Blocks) -> int:
    """The bytes of a block that is one short run of both sides; 0 of any other."""
    a, b, *whole = kernel.digits
    nbytes = prod(digit.size for digit in whole) * kernel.elements.itemsize
    is_unit = a.size == b.size == 1 and all(digit.size == 1 or digit.source == digit.target == 1 for digit in whole)
    return nbytes if is_unit and 2 <= nbytes <= MOST_UNIT_BYTES else 0


def turned_lines(pixel_bytes: int) -> int:
    """The source lines of a block of pixels of 3 elements: a vector of words of 4 elements."""
    return _REGISTERS[policy().native_level or "neon"] * 3 // 4 // pixel_bytes


def turned_word(kernel: Blocks) -> int:
    """The bytes of a word of 4 elements where a block is one of pixels of 3 elements, transposed; else 0."""
    if len(kernel.digits) != 3:
        return 0
    pixels, lines, (words, *steps) = kernel.digits
    nbytes = words * kernel.elements.itemsize
    if nbytes not in TURNED_PIXELS or steps != [1, 1]:
        return 0
    is_turned = pixels == (TURNED_COLUMNS, words, 0) and lines == (turned_lines(nbytes), 0, words)
    return nbytes * 4 // 3 if is_turned else 0


def _width(kernel: Blocks) -> int:
    """Bytes of a kernel's vectors."""
    return kernel.lanes * kernel.elements.itemsize


def block_cost(digits: Sequence[Digit], word: int, width: int) -> float:
    """The time of a block in shuffles, about, by its loops; infinite if it is too large."""
    source_run, target_run = (prod(digit.size for digit in digits if step(digit)) for step in (_read, _written))
    words = prod(digit.size for digit in digits)
    lanes = width // word
    return network_cost(words, source_run, target_run, lanes) if width == LINE_BYTES else _merge_cost(digits, lanes)


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
    return network_factor(kernel)


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


class _Source(NamedTuple):
    """A block's source runs: where they begin, words of each and of a load, and the place of each word in all runs."""

    begins: list[tuple[int, ...]]
    length: int
    read: int
    where: dict[int, int]

    def loads_of(self, words: Iterable[int]) -> list[tuple[_Begin, dict[int, int]]]:
        """The fewest loads that have some words, each with the lanes of those."""
        loads: list[tuple[_Begin, dict[int, int]]] = []
        first = end = 0
        for place, number in sorted((self.where[number], number) for number in words):
            if place >= end:
                run, at = divmod(place, self.length)
                at = min(at, self.length - self.read)
                first = run * self.length + at
                end = first + self.read
                loads.append(((self.begins[run], at), {}))
            loads[-1][1][number] = place - first
        return loads


class _Rounds(NamedTuple):
    """Two rounds of merges: the words of each slot, and the slots of each result, at most so many."""

    slots: list[list[int]]
    taken: list[list[int]]
    takes: int

    @classmethod
    def of(cls, results: Sequence[Sequence[int]], source: _Source, together: int, lanes: int) -> _Rounds:
        """The slots that have the words of so many results together, in the order of the source."""
        slots, taken = list[list[int]](), list[list[int]]()
        for first in range(0, len(results), together):
            group = [{*words} for words in results[first : first + together]]
            needed = sorted(set[int]().union(*group), key=source.where.__getitem__)
            begin = len(slots)
            slots += [needed[at : at + lanes] for at in range(0, len(needed), lanes)]
            taken += [[n for n in range(begin, len(slots)) if not words.isdisjoint(slots[n])] for words in group]
        return cls(slots, taken, max(map(len, taken)))


def _table(words: Sequence[int], lanes_of: dict[int, int], word: int) -> list[int]:
    """The table of a vector's words, of a load or a slot that has some of them in these lanes."""
    places = [*_NOTHING]
    for lane, number in enumerate(words):
        if number in lanes_of:
            places[lane * word : lane * word + word] = range(lanes_of[number] * word, (lanes_of[number] + 1) * word)
    return places


@lru_cache(maxsize=256)
def _merges_of(kernel: Blocks) -> _Merges:
    """The merges of a block: in two rounds where that takes fewer tables."""
    lanes, word = kernel.lanes, kernel.elements.itemsize
    sources, targets = (kernel.runs([step(digit) for digit in kernel.digits]) for step in (_read, _written))
    length = len(next(iter(sources.values())))
    where = {number: place for place, number in enumerate(chain.from_iterable(sources.values()))}
    source = _Source(list(sources), length, min(lanes, power_of_two(length)), where)
    # Results that begin alike in their runs follow one another: they have words of the same loads.
    (*_, (_, written)) = pieces = pieces_of(len(next(iter(targets.values()))), lanes)
    puts = [(run, begin) for begin, _ in pieces for run in targets]
    results = [targets[run][begin : begin + written] for run, begin in puts]
    vectors, loads, rounds = results, [source.loads_of(words) for words in results], _Rounds([], [], 0)
    most = max(map(len, loads))
    least = len(results) * most
    if most >= _LEAST_IN_ROUNDS and min(source.read, written) * word >= _LEAST_IN_ROUNDS_BYTES:
        for tried in (_Rounds.of(results, source, together, lanes) for together in _ROUNDS):
            of_slots = [source.loads_of(words) for words in tried.slots]
            each = max(map(len, of_slots))
            tables = len(of_slots) * each + len(results) * tried.takes
            if tables < least and tried.takes in _ROUNDS and len(of_slots) <= _MOST_SLOTS:
                vectors, loads, rounds, most, least = tried.slots, of_slots, tried, each, tables
    gets, taken, places = list[_Begin](), list[int](), list[list[int]]()
    for words, of_vector in zip(vectors, loads, strict=True):
        missing = most - len(of_vector)
        gets += [begin for begin, _ in of_vector] + [of_vector[0][0]] * missing
        places += [_table(words, lanes_of, word) for _, lanes_of in of_vector] + [_NOTHING] * missing
    for words, slots in zip(results, rounds.taken, strict=False):
        missing = rounds.takes - len(slots)
        taken += slots + slots[:1] * missing
        lanes_of_slots = ({number: lane for lane, number in enumerate(rounds.slots[n])} for n in slots)
        places += [_table(words, lanes_of, word) for lanes_of in lanes_of_slots] + [_NOTHING] * missing
    nbytes = source.read * word, written * word
    return _Merges(*nbytes, most, len(rounds.slots), rounds.takes, puts, gets, taken, aligned(places))


def short_runs_loop(call: KernelCall, owner: object) -> LoopCall:
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
        vector = min(2 * LANE_BYTES, _REGISTERS[policy().native_level or "neon"])
        tables = puts, gets, np.array(merges.taken, np.int64) * vector, merges.places
        place, kept = _MERGES, tables
        fields = [*steps, merges.read, merges.written, len(puts), merges.loads]
        fields += [merges.slots, merges.takes, *(each.ctypes.data for each in tables)]
    else:
        place, (fields, kept) = _NETWORKS, network_fields(kernel, reads, writes)
        fields = [*steps, *fields]
    loop = NativeFunction.of("short runs", place)
    return LoopCall.of(loop, [*fields, *grid], call.items, offsets, (kept, channels, owner))
