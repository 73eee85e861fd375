"""Blocks: short runs on both sides, permuted in registers, as in patches of 2 x 2 pixels or many short axes.

    source runs               registers                        target runs
    a0 a1 a2 a3               a0 a1 a2 a3 b0 b1                a0 b0 c0 a1
    b0 b1 b2 b3         ->    b2 b3 c0 c1 c2 c3          ->    b1 c1 a2 b2
    c0 c1 c2 c3               or a vector of each run          c2 a3 b3 c3

A run is what several short loops walk contiguously together, and a block is a part of both sides' runs. What brings its
words to their places is data (`short_runs.py`): a block may have any size. Words at the end of a run that is no whole
number of vectors are written twice. A run that both sides have in common is a block of its own, copied as it is; and
pixels of 3 elements whose lines are transposed are blocks of a fixed size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, prod
from typing import ClassVar, Final, NamedTuple

import numpy as np

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.device_plan import Width

from .elements import Elements
from .kernel_call import ONCE, KernelCall, KernelFacts, LoopAxis, LoopMatch
from .pool import LoopCall
from .registers import LANE_BYTES
from .short_runs import (
    MOST_LOOPS,
    MOST_UNIT_BYTES,
    TURNED_COLUMNS,
    TURNED_COST,
    TURNED_PIXELS,
    UNIT_COST,
    WIDTHS,
    block_cost,
    permutation_factor,
    pieces_of,
    short_runs_loop,
    turned_lines,
    unit_bytes,
)

_TRIED: Final = 3
"""The blocks of least estimated cost whose tables are computed."""

_LEAST_RUNS: Final = 16
"""The runs of an item, where it has those that follow one another in the target."""


class Digit(NamedTuple):
    """A loop of a block: its size, and its step in words along each side's run; 0 where a step leaves the run."""

    size: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Blocks:
    """A kernel over blocks of words, `lanes` a vector.

    `digits` are the block's loops: a part of `a`, a part of `b`, then whole loops, whose source and target strides are
    `more` of a call.
    """

    elements: Elements
    lanes: int
    digits: tuple[Digit, ...]

    family: ClassVar[str] = "blocks"
    streaming: ClassVar[bool] = False

    def facts(self, row: LoopAxis) -> KernelFacts:  # noqa: ARG002
        """What `explain` says of the kernel."""
        digits = self.digits
        unit = unit_bytes(self)
        words = prod(digit.size for digit in digits)
        return KernelFacts(
            f"runs of {unit} bytes" if unit else f"blocks of {words} words, permuted in registers",
            self._width([digit.source for digit in digits]),
            self._width([digit.target for digit in digits]),
            (digits[0].size, digits[1].size),
        )

    def loop(self, call: KernelCall, owner: object) -> LoopCall:
        """The loop of a call of this kernel."""
        return short_runs_loop(call, owner)

    def _width(self, steps: Sequence[int]) -> Width:
        """The width of the accesses to runs along which the digits have some steps."""
        run, nbytes = prod(d.size for d, step in zip(self.digits, steps, strict=True) if step), self.elements.itemsize
        return Width(pieces_of(run, self.lanes)[0][1] * nbytes, f"a block's runs have {run * nbytes} bytes")

    def runs(self, steps: Sequence[int]) -> dict[tuple[int, ...], list[int]]:
        """The words of each run of a side, by its place in each digit; a digit that leaves a run has step 0."""
        places = np.indices([digit.size for digit in self.digits]).reshape(len(steps), -1)
        kept = places * (np.array(steps) == 0)[:, None]
        order = np.lexsort((np.array(steps) @ places, *kept[::-1]))
        runs = order.reshape(-1, prod(digit.size for digit, step in zip(self.digits, steps, strict=True) if step))
        return {tuple(run): words for run, words in zip(kept[:, runs[:, 0]].T.tolist(), runs.tolist(), strict=True)}


class _Block(NamedTuple):
    """A block: the size of each loop there, and each side's run, by the loops' numbers."""

    sizes: tuple[int, ...]
    source_run: tuple[int, ...]
    target_run: tuple[int, ...]


def match_blocks(match: LoopMatch) -> KernelCall | None:
    """The kernel of blocks; None if a conversion takes part, or a side has no run of two words."""
    level = policy().native_level
    if level is None or not match.problem.conversion.is_bitwise_copy or match.problem.filler:
        return None
    # Where no network of cache lines has room, loads of 16 bytes are merged.
    calls = (_fitting(match, vector_bytes) for vector_bytes in dict.fromkeys((WIDTHS[level], LANE_BYTES)))
    return next((call for call in calls if call is not None), None)


def _fitting(match: LoopMatch, vector_bytes: int) -> KernelCall | None:
    """The kernel of blocks in vectors of so many bytes that takes least; None without one."""
    match = _read_forward(_in_words(match), vector_bytes)
    loops, word = match.loops, match.source_bytes
    runs = [
        _run_of([loop.source for loop in loops], loops, word),
        _run_of([loop.target for loop in loops], loops, word),
    ]
    if not all(runs) or len(loops) > MOST_LOOPS:
        return None
    lanes = vector_bytes // word
    lengths = [lanes * times // 4 for times in (1, 2, 4, 8, 12, 16, 24, 32) if lanes * times >= 4 * min(lanes, 2)]
    blocks = {
        _block(loops, runs, wanted, whole=whole) for wanted in product(lengths, lengths) for whole in (False, True)
    }
    costs = sorted([(_cost(match, block, lanes), block) for block in blocks] + _unit(match) + _turned(match, runs))
    calls = ((cost, _call(match, block, lanes)) for cost, block in costs[:_TRIED] if cost < inf)
    found = [(cost * permutation_factor(call), call) for cost, call in calls]
    cost, call = min(found, key=lambda each: each[0], default=(inf, None))
    return call if cost < inf else None


def _unit(match: LoopMatch) -> list[tuple[float, _Block]]:
    """The time of a word of the run that both sides have in common, copied as it is, and the block; or nothing."""
    loops, word = match.loops, match.source_bytes
    unit = loops[-1]
    if not unit.source == unit.target == word or unit.channels or unit.size * word > MOST_UNIT_BYTES:
        return []
    run = (len(loops) - 1,)
    return [(UNIT_COST / unit.size, _Block((*[1] * run[0], unit.size), run, run))]


def _turned(match: LoopMatch, runs: Sequence[tuple[int, ...]]) -> list[tuple[float, _Block]]:
    """The time of a word of pixels of 3 elements whose lines are transposed, and the block; or nothing."""
    (unit, *columns), (same, *rows) = runs
    words = match.loops[unit].size
    nbytes = words * match.source_bytes
    if unit != same or nbytes not in TURNED_PIXELS or not columns or not rows or columns[0] == rows[0]:
        return []
    sizes = [1] * len(match.loops)
    sizes[unit], sizes[columns[0]], sizes[rows[0]] = words, TURNED_COLUMNS, turned_lines(nbytes)
    if any(sizes[n] >= match.loops[n].size for n in (columns[0], rows[0])):
        return []  # a whole loop is none of the two inner ones
    return [(TURNED_COST / words, _Block(tuple(sizes), (unit, columns[0]), (unit, rows[0])))]


def _in_words(match: LoopMatch) -> LoopMatch:
    """The elements, or the run that both sides have in common, as words of up to 8 bytes."""
    nbytes = match.source_bytes
    unit = next((loop for loop in match.loops if loop.source == loop.target == nbytes and not loop.channels), None)
    size = 1 if unit is None else unit.size
    word = min(8, nbytes * size & -(nbytes * size))
    words = nbytes * size // word
    loops = match.besides(*([] if unit is None else [unit]))
    if words > 1:
        loops = (*loops, LoopAxis(words, word, word, axis=-1 if unit is None else unit.axis))
    return replace(match, loops=loops, source_bytes=word, target_bytes=word)


def _read_forward(match: LoopMatch, vector_bytes: int) -> LoopMatch:
    """The same work with the loops reversed that read backward: they then continue a source run.

    A loop that continues a target run of less than a vector stays as it is.
    """
    for loop in match.loops:
        if loop.source < 0 and not 0 < loop.target < vector_bytes and not loop.channels:
            match, _ = match.flipped(loop)
    return match


def _run_of(strides: Sequence[int], loops: Sequence[LoopAxis], word: int) -> tuple[int, ...]:
    """The numbers of the loops that are contiguous together on a side with these strides, innermost first."""
    run: list[int] = []
    reach = word
    while True:
        number = next(
            (n for n, stride in enumerate(strides) if stride == reach and n not in run and not loops[n].channels), None
        )
        if number is None:
            return tuple(run)
        run.append(number)
        reach *= loops[number].size


def _block(
    loops: Sequence[LoopAxis], runs: Sequence[tuple[int, ...]], wanted: tuple[int, int], *, whole: bool
) -> _Block:
    """The block whose runs have as many words as wanted, or all; no more than those if `whole` vectors are written."""
    block_runs: list[tuple[int, ...]] = []
    sizes = [1] * len(loops)
    for run, words in zip(runs, wanted, strict=True):
        length, taken = 1, list[int]()
        for number in run:
            if length >= words:
                break
            size = loops[number].size
            part = min(words // length if whole else -(-words // length), size)
            taken.append(number)
            sizes[number] = max(sizes[number], part)
            length *= part
            if whole and part < size:
                break
        block_runs.append(tuple(taken))
    for block_run in block_runs:
        for number in block_run[:-1]:
            sizes[number] = loops[number].size
    return _Block(tuple(sizes), block_runs[0], block_runs[1])


def _cost(match: LoopMatch, block: _Block, lanes: int) -> float:
    """The time of a word."""
    loops, sizes, word = match.loops, block.sizes, match.source_bytes
    repeated = prod(-(-loop.size // size) * size / loop.size for loop, size in zip(loops, sizes, strict=True))
    return block_cost(_digits(block), word, word * lanes) / prod(sizes) * repeated


def _digits(block: _Block) -> list[Digit]:
    """Each loop of a block, with its steps along both sides' runs."""
    steps = []
    for run in (block.source_run, block.target_run):
        reach, along = 1, [0] * len(block.sizes)
        for number in run:
            along[number] = reach
            reach *= block.sizes[number]
        steps.append(along)
    return [Digit(size, read, written) for size, read, written in zip(block.sizes, *steps, strict=True)]


def _call(match: LoopMatch, block: _Block, lanes: int) -> KernelCall:
    """The call of a block's kernel: loops that are larger than the block lie in `a` and `b`, or outside."""
    loops, sizes, digits = match.loops, block.sizes, _digits(block)
    whole = [n for n, loop in enumerate(loops) if sizes[n] == loop.size]
    rest = [n for n in range(len(loops)) if n not in whole]
    # A loop in parts is `a` or `b`. Beside it, the longest one makes items long.
    even = [n for n in rest if not loops[n].channels]
    if all(sizes[n] == 1 for n in rest):
        # Runs that are copied follow one another in the target, where that makes items of some of them.
        even = sorted(even, key=lambda n: abs(loops[n].target))
        even = even[: 2 if prod(loops[n].size for n in even[:2]) >= _LEAST_RUNS else 3]
    longest = sorted(even, key=lambda n: (sizes[n] == 1, -loops[n].size))
    inner = sorted(longest[:2], key=lambda n: -abs(loops[n].target))
    outer = tuple(loops[n] for n in rest if n not in inner)
    absent = [(ONCE, Digit(1, 0, 0))] * (2 - len(inner))
    a, b = absent + [(loops[n], digits[n]) for n in inner]
    blocks = (a[1], b[1], *(digits[n] for n in whole))
    kernel = Blocks(match.elements(a[0], b[0]), lanes, blocks)
    each = 2 * match.source_bytes * prod(sizes[n] for n in whole)
    wanted = max(1, policy().relayout.bytes_of_item(match.problem.bytes_moved) // each)
    extents = max(1, wanted // min(wanted, b[0].size)), wanted
    call = match.call(kernel, outer, (a[0], a[1].size), (b[0], b[1].size), extents=extents)
    return replace(call, more=tuple(stride for n in whole for stride in (loops[n].source, loops[n].target)))
