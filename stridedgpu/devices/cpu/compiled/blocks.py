"""Blocks: short runs on both sides, permuted in registers, as in patches of 2 x 2 pixels or many short axes.

    source runs               registers                        target runs
    a0 a1 a2 a3               a0 b0 a1 b1    a2 b2 a3 b3       a0 b0 c0 a1
    b0 b1 b2 b3         ->    c0 c1 c2 c3                ->    b1 c1 a2 b2
    c0 c1 c2 c3               merged two by two                c2 a3 b3 c3

A run is what several short loops walk contiguously together, and a block has whole vectors of both sides' runs. Vectors
are merged in pairs, along one loop after the other, and each merge sorts the words of a pair as the target has them:
a transpose of 16 by 16 takes 4 shuffles a vector. The sizes of a block's loops and their places in the runs are
compile-time constants; strides between runs are parameters. Words at the end of a run that is no whole number of
vectors are written twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from operator import mul
from typing import Final, NamedTuple

from .ir import Code, Value, vector_type
from .shuffles import gathered
from .work_grid import OUTER_FIELDS, OUTER_PLACE, Elements, Grid

__all__ = ["Blocks", "Digit", "pieces_of"]

_GATHERED: Final = 3
"""Groups of vectors that are no longer merged in pairs: the stored vectors are gathered from them."""


class Digit(NamedTuple):
    """A loop of a block: its size, and its step in words along each side's run; 0 where a step leaves the run."""

    size: int
    source: int
    target: int


class _Vector(NamedTuple):
    """A vector in a register, and the number of the word in each lane; undefined lanes follow."""

    value: Value
    words: list[int]


class _Access(NamedTuple):
    """Consecutive words of a run, and the distance of the first from the block's first word in bytes."""

    words: list[int]
    offset: Value


@dataclass(frozen=True, slots=True)
class Blocks:
    """A kernel over blocks of words, `lanes` a vector.

    `digits` are the block's loops: a part of `a`, a part of `b`, then whole loops, whose parameters follow those of the
    `rank` outer loops.
    """

    elements: Elements
    rank: int
    lanes: int
    digits: tuple[Digit, ...]

    @property
    def streaming(self) -> bool:
        """Stores go through the caches: few of them are whole lines."""
        return False

    @property
    def widths(self) -> list[tuple[int, int]]:
        """For each side the bytes of an access, and of a run."""
        made = []
        for steps in ([digit.source for digit in self.digits], [digit.target for digit in self.digits]):
            count = prod(digit.size for digit, step in zip(self.digits, steps, strict=True) if step)
            made.append(
                (pieces_of(count, self.lanes)[0][1] * self.elements.source_bytes, count * self.elements.source_bytes)
            )
        return made

    def text(self, name: str) -> str:
        """The module."""
        code = Code()
        grid = Grid(code, self.elements, self.rank)
        fields = [OUTER_PLACE + OUTER_FIELDS * (self.rank + place) for place in range(len(self.digits) - 2)]
        loads = self._accesses(
            code,
            [digit.source for digit in self.digits],
            [grid.a.source, grid.b.source, *(code.parameter(field + 1) for field in fields)],
        )
        stores = self._accesses(
            code,
            [digit.target for digit in self.digits],
            [grid.a.target, grid.b.target, *(code.parameter(field + 2) for field in fields)],
        )
        a_step, b_step = self.digits[0].size, self.digits[1].size
        with grid.items(a_step, b_step) as item, grid.steps(item.a, a_step) as a:
            source = code.at(item.source, code.multiply(a, grid.a.source))
            target = code.at(item.target, code.multiply(a, grid.a.target))
            with grid.steps(item.b, b_step) as b:
                here = code.at(source, code.multiply(b, grid.b.source))
                there = code.at(target, code.multiply(b, grid.b.target))
                vectors = [self._loaded(code, code.at(here, load.offset), load.words) for load in loads]
                wanted = [store.words for store in stores]
                made = self._gathered(code, self._merged(code, vectors, wanted), wanted)
                for vector, store in zip(made, stores, strict=True):
                    value = vector.value
                    if len(store.words) < self.lanes:
                        value = code.shuffle(value, None, range(len(store.words)))
                    code.store(value, code.at(there, store.offset), 1)
        return code.text(name)

    def _places(self) -> list[tuple[int, ...]]:
        """The place of each word in each of the block's loops."""
        return list(product(*(range(digit.size) for digit in self.digits)))

    def _accesses(self, code: Code, steps: Sequence[int], strides: Sequence[Value]) -> list[_Access]:
        """The vectors of each run of a side, given each digit's step along the run, and its stride if it leaves it."""
        runs: dict[tuple[int, ...], dict[int, int]] = {}
        for word, places in enumerate(self._places()):
            run = tuple(0 if step else place for place, step in zip(places, steps, strict=True))
            runs.setdefault(run, {})[sum(map(mul, places, steps))] = word
        made = []
        for first, run_words in runs.items():
            start = code.full("i64", 0)
            for place, stride in zip(first, strides, strict=True):
                if place:
                    start = code.add(start, code.multiply(stride, place))
            for begin, count in pieces_of(len(run_words), self.lanes):
                words = [run_words[begin + number] for number in range(count)]
                made.append(_Access(words, code.add(start, begin * self.elements.source_bytes)))
        return made

    def _loaded(self, code: Code, address: Value, words: list[int]) -> _Vector:
        """Load consecutive words into the first lanes of a vector."""
        value = code.load(vector_type(len(words), self.elements.source_type), address, 1)
        if len(words) < self.lanes:
            value = code.shuffle(value, None, [*range(len(words)), *[-1] * (self.lanes - len(words))])
        return _Vector(value, words)

    def _merged(self, code: Code, vectors: list[_Vector], wanted: list[list[int]]) -> list[_Vector]:
        """Merge vectors until each wanted one has words of few of them.

        First along the loops that the target's runs have and the source's do not, the innermost first; then along the
        source's runs.
        """
        digits, places = self.digits, self._places()
        along = [number for number, digit in enumerate(digits) if digit.size > 1 and not digit.source]
        along.sort(key=lambda number: digits[number].target)
        groups: dict[tuple[int, ...], list[_Vector]] = {}
        for vector in vectors:
            key = tuple(places[vector.words[0]][number] for number in reversed(along))
            groups.setdefault(key, []).append(vector)
        keys = sorted(groups)
        each = len(groups[keys[0]])
        parts = [[groups[key][number]] for number in range(each) for key in keys]
        # Words in the order of the target: by its runs, and along each.
        steps = [digit.target for digit in digits]
        order = [
            ([0 if step else place for place, step in zip(at, steps, strict=True)], sum(map(mul, at, steps)))
            for at in places
        ]
        for length in [*(digits[number].size for number in along), each]:
            size = length
            while size > 1 and _sources(parts, wanted) > _GATHERED:
                parts = [
                    self._pair(code, parts[first + half : first + min(half + 2, size)], order)
                    for first in range(0, len(parts), size)
                    for half in range(0, size, 2)
                ]
                size = -(-size // 2)
        return [vector for part in parts for vector in part]

    def _pair(self, code: Code, parts: list[list[_Vector]], order: Sequence[tuple[list[int], int]]) -> list[_Vector]:
        """The words of two groups of vectors, sorted; one group as it is."""
        vectors = [vector for part in parts for vector in part]
        if len(parts) == 1:
            return vectors
        words = sorted({word for vector in vectors for word in vector.words}, key=order.__getitem__)
        return self._gathered(
            code, vectors, [words[first : first + self.lanes] for first in range(0, len(words), self.lanes)]
        )

    def _gathered(self, code: Code, vectors: list[_Vector], wanted: list[list[int]]) -> list[_Vector]:
        """Gather each of the wanted vectors' words from some vectors."""
        where = {
            word: number * self.lanes + lane
            for number, vector in enumerate(vectors)
            for lane, word in enumerate(vector.words)
        }
        values = [vector.value for vector in vectors]
        made = []
        for words in wanted:
            places = [where[word] for word in words] + [-1] * (self.lanes - len(words))
            made.append(_Vector(gathered(code, values, places), words))
        return made


def _sources(parts: list[list[_Vector]], wanted: list[list[int]]) -> int:
    """The most groups of vectors that a wanted one has words of."""
    place = {word: number for number, part in enumerate(parts) for vector in part for word in vector.words}
    return max(len({place[word] for word in words}) for words in wanted)


def pieces_of(count: int, lanes: int) -> list[tuple[int, int]]:
    """The vectors of a run of so many words, each by its first word and its number of words, a power of two.

    >>> pieces_of(21, 8), pieces_of(7, 8)
    ([(0, 8), (8, 8), (13, 8)], [(0, 4), (3, 4)])
    """
    each = min(lanes, 1 << (count.bit_length() - 1))
    return [(min(first, count - each), each) for first in range(0, count, each)]
