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
from dataclasses import dataclass, replace
from itertools import product
from math import inf, prod
from operator import mul
from typing import ClassVar, Final, NamedTuple

from stridedgpu.devices.cpu.native.elements import Elements
from stridedgpu.devices.cpu.native.kernel_call import ONCE, KernelCall, KernelFacts, LoopAxis, LoopMatch
from stridedgpu.devices.cpu.native.registers import LINE_BYTES, shuffled_bytes
from stridedgpu.devices.cpu.native.short_runs import WIDTHS, permutation_cost, permutation_factor
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.device_plan import Width
from stridedgpu.values.strides import power_of_two

from .ir import Code, Value, gathered, vector_type
from .work_grid import Grid

_TRIED: Final = 5
"""The blocks of least estimated cost of which the native library's shuffles are counted."""


class Digit(NamedTuple):
    """A loop of a block: its size, and its step in words along each side's run; 0 where a step leaves the run."""

    size: int
    source: int
    target: int


class Vector(NamedTuple):
    """A vector in a register, and the number of the word in each lane; undefined lanes follow."""

    value: Value
    words: list[int]


class Access(NamedTuple):
    """Consecutive words of a run: the place of the run in each digit, and the number of its words before them."""

    words: list[int]
    run: tuple[int, ...]
    begin: int


@dataclass(frozen=True, slots=True)
class Blocks:
    """A kernel over blocks of words, `lanes` a vector.

    `digits` are the block's loops: a part of `a`, a part of `b`, then whole loops, whose source and target strides are
    the parameters behind those of the `rank` outer loops.
    """

    elements: Elements
    rank: int
    lanes: int
    digits: tuple[Digit, ...]

    family: ClassVar[str] = "blocks"
    streaming: ClassVar[bool] = False

    def facts(self, row: LoopAxis) -> KernelFacts:  # noqa: ARG002
        """What `explain` says of the kernel."""
        digits = self.digits
        return KernelFacts(
            f"blocks of {prod(digit.size for digit in digits)} words, permuted in registers",
            self._width([digit.source for digit in digits]),
            self._width([digit.target for digit in digits]),
            (digits[0].size, digits[1].size),
        )

    def _width(self, steps: Sequence[int]) -> Width:
        """The width of the accesses to runs along which the digits have some steps."""
        run, nbytes = prod(d.size for d, step in zip(self.digits, steps, strict=True) if step), self.elements.itemsize
        return Width(pieces_of(run, self.lanes)[0][1] * nbytes, f"a block's runs have {run * nbytes} bytes")

    def text(self, name: str) -> str:
        """The module."""
        code = Code()
        grid = Grid(code, self.elements, self.rank)
        whole = code.take(2 * len(self.digits) - 4)
        reads = [grid.a.source, grid.b.source, *whole[::2]]
        writes = [grid.a.target, grid.b.target, *whole[1::2]]
        loads, stores = self.accesses()
        read_at, written_at = self._offsets(code, loads, reads), self._offsets(code, stores, writes)
        a_step, b_step = self.digits[0].size, self.digits[1].size
        with grid.items(a_step, b_step) as item, code.steps(*item.a, a_step) as a:
            row = grid.addresses(grid.a, a, item.source, item.target)
            with code.steps(*item.b, b_step) as b:
                source, target = grid.addresses(grid.b, b, *row)
                vectors = [
                    self._loaded(source + offset, load.words) for load, offset in zip(loads, read_at, strict=True)
                ]
                for vector, store, offset in zip(self.permuted(vectors, stores), stores, written_at, strict=True):
                    value = vector.value
                    if len(store.words) < self.lanes:
                        opaque = value.opaque() if value.nbytes == LINE_BYTES else value
                        value = opaque.shuffle(range(len(store.words)))
                    code.store(value, target + offset)
        return code.text(name)

    def permuted(self, vectors: list[Vector], stores: Sequence[Access]) -> list[Vector]:
        """The vectors of the stores, by shuffles of those of the loads."""
        wanted = [store.words for store in stores]
        return self._gathered(self._merged(vectors, wanted), wanted)

    def _offsets(self, code: Code, accesses: Sequence[Access], strides: Sequence[Value]) -> list[Value]:
        """The distance of each access from the block's first word in bytes, by the strides between a side's runs."""
        starts: dict[tuple[int, ...], Value] = {}
        offsets = []
        for access in accesses:
            if access.run not in starts:
                start = code.constant(0)
                for place, stride in zip(access.run, strides, strict=True):
                    if place:
                        start = start + stride * place
                starts[access.run] = start
            offsets.append(starts[access.run] + access.begin * self.elements.source_bytes)
        return offsets

    def _places(self) -> list[tuple[int, ...]]:
        """The place of each word in each of the block's loops."""
        return list(product(*(range(digit.size) for digit in self.digits)))

    def accesses(self) -> tuple[list[Access], list[Access]]:
        """The loads and the stores of a block."""
        return self._accesses([digit.source for digit in self.digits]), self._accesses([d.target for d in self.digits])

    def runs(self, steps: Sequence[int]) -> dict[tuple[int, ...], list[int]]:
        """The words of each run of a side, by its place in each digit; a digit that leaves a run has step 0."""
        runs: dict[tuple[int, ...], dict[int, int]] = {}
        for word, places in enumerate(self._places()):
            run = tuple(0 if step else place for place, step in zip(places, steps, strict=True))
            runs.setdefault(run, {})[sum(map(mul, places, steps))] = word
        return {run: [words[number] for number in range(len(words))] for run, words in runs.items()}

    def _accesses(self, steps: Sequence[int]) -> list[Access]:
        """The vectors of each run of a side."""
        return [
            Access(words[begin : begin + count], run, begin)
            for run, words in self.runs(steps).items()
            for begin, count in pieces_of(len(words), self.lanes)
        ]

    def _loaded(self, address: Value, words: list[int]) -> Vector:
        """Load consecutive words into the first lanes of a vector."""
        value = address.load(vector_type(len(words), self.elements.source_type))
        if len(words) < self.lanes:
            value = value.shuffle([*range(len(words)), *[-1] * (self.lanes - len(words))])
        return Vector(value, words)

    def _merged(self, vectors: list[Vector], wanted: list[list[int]]) -> list[Vector]:
        """Merge vectors until each wanted one has words of one group.

        First along the loops that the target's runs have and the source's do not, the innermost first; then along the
        source's runs.
        """
        digits, places = self.digits, self._places()
        along = [number for number, digit in enumerate(digits) if digit.size > 1 and not digit.source]
        along.sort(key=lambda number: digits[number].target)
        groups: dict[tuple[int, ...], list[Vector]] = {}
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
            while size > 1 and _sources(parts, wanted) > 1:
                parts = [
                    self._pair(parts[first + half : first + min(half + 2, size)], order)
                    for first in range(0, len(parts), size)
                    for half in range(0, size, 2)
                ]
                size = -(-size // 2)
        return [vector for part in parts for vector in part]

    def _pair(self, parts: list[list[Vector]], order: Sequence[tuple[list[int], int]]) -> list[Vector]:
        """The words of two groups of vectors, sorted; one group as it is."""
        vectors = [vector for part in parts for vector in part]
        if len(parts) == 1:
            return vectors
        words = sorted({word for vector in vectors for word in vector.words}, key=order.__getitem__)
        return self._gathered(
            vectors, [words[first : first + self.lanes] for first in range(0, len(words), self.lanes)]
        )

    def _gathered(self, vectors: list[Vector], wanted: list[list[int]]) -> list[Vector]:
        """Gather each of the wanted vectors' words from some vectors."""
        where = {
            word: number * self.lanes + lane
            for number, vector in enumerate(vectors)
            for lane, word in enumerate(vector.words)
        }
        values = [vector.value for vector in vectors]
        return [
            Vector(gathered(values, [where[word] for word in words] + [-1] * (self.lanes - len(words))), words)
            for words in wanted
        ]


def _sources(parts: list[list[Vector]], wanted: list[list[int]]) -> int:
    """The most groups of vectors that a wanted one has words of."""
    place = {word: number for number, part in enumerate(parts) for vector in part for word in vector.words}
    return max(len({place[word] for word in words}) for words in wanted)


def pieces_of(count: int, lanes: int) -> list[tuple[int, int]]:
    """The vectors of a run of so many words, each by its first word and its number of words, a power of two.

    >>> pieces_of(21, 8), pieces_of(7, 8)
    ([(0, 8), (8, 8), (13, 8)], [(0, 4), (3, 4)])
    """
    each = min(lanes, power_of_two(count))
    return [(min(first, count - each), each) for first in range(0, count, each)]


class _Block(NamedTuple):
    """A block: the size of each loop there, and each side's run, by the loops' numbers."""

    sizes: tuple[int, ...]
    source_run: tuple[int, ...]
    target_run: tuple[int, ...]


def match_blocks(match: LoopMatch) -> KernelCall | None:
    """The kernel of blocks; None if a conversion takes part, or a side has no run of two words."""
    if not match.problem.conversion.is_bitwise_copy or match.problem.filler:
        return None
    match = _in_words(match)
    level = policy().native_level
    call = None if level is None else _native_call(match, WIDTHS[level])
    if call is not None:
        return call
    word = match.source_bytes
    vector_bytes = shuffled_bytes(word)
    match, lanes = _read_forward(match, vector_bytes), vector_bytes // word
    loops, runs = match.loops, _runs_of(match)
    if not all(runs):
        return None
    lengths = [length for length in (lanes, lanes // 2, lanes // 4) if length > 1]
    blocks = {_block(loops, runs, wanted) for wanted in product(lengths, lengths)}
    # With their copies between two merges, vectors of a block take half of the registers.
    most = policy().target.vector_registers // 4 * vector_bytes
    fitting = [block for block in blocks if prod(block.sizes) * word <= most]
    if not fitting:
        return None
    return _call(match, min(fitting, key=lambda block: (_cost(loops, block, lanes), block)), lanes)


def _native_call(match: LoopMatch, vector_bytes: int) -> KernelCall | None:
    """The kernel for the native library, which compiles nothing for a block: its size is free. None without a loop."""
    match, lanes = _read_forward(match, vector_bytes), vector_bytes // match.source_bytes
    loops, runs = match.loops, _runs_of(match)
    if not all(runs):
        return None
    lengths = [lanes * times // 4 for times in (1, 2, 4, 8, 12, 16, 24, 32) if lanes * times >= 4 * min(lanes, 2)]
    blocks = {
        _block(loops, runs, wanted, whole=whole) for wanted in product(lengths, lengths) for whole in (False, True)
    }
    costs = sorted((_native_cost(loops, block, lanes), block) for block in blocks)
    calls = ((cost, _call(match, block, lanes)) for cost, block in costs[:_TRIED] if cost < inf)
    found = [(cost * permutation_factor(call), call) for cost, call in calls]
    cost, call = min(found, key=lambda each: each[0], default=(inf, None))
    return call if cost < inf else None


def _runs_of(match: LoopMatch) -> list[tuple[int, ...]]:
    """The source's run and the target's."""
    loops, word = match.loops, match.source_bytes
    return [
        _run_of([loop.source for loop in loops], loops, word),
        _run_of([loop.target for loop in loops], loops, word),
    ]


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
    loops: Sequence[LoopAxis], runs: Sequence[tuple[int, ...]], wanted: tuple[int, int], *, whole: bool | None = None
) -> _Block:
    """The block whose runs have as many words as wanted, or all; no more than those if `whole` vectors are written.

    Without `whole`, a longer loop has parts of a power of two.
    """
    block_runs: list[tuple[int, ...]] = []
    sizes = [1] * len(loops)
    for run, words in zip(runs, wanted, strict=True):
        length, taken = 1, list[int]()
        for number in run:
            if length >= words:
                break
            part, size = words // length if whole else -(-words // length), loops[number].size
            taken.append(number)
            if whole is not None:
                part = min(part, size)
            elif part >= size:
                # A kernel for every size of a short loop, but not of a longer one.
                part = size if size <= policy().relayout.short_side else power_of_two(size)
            sizes[number] = max(sizes[number], part)
            length *= part
            if whole and part < size:
                break
        block_runs.append(tuple(taken))
    for block_run in block_runs:
        for number in block_run[:-1]:
            sizes[number] = loops[number].size
    return _Block(tuple(sizes), block_runs[0], block_runs[1])


def _native_cost(loops: Sequence[LoopAxis], block: _Block, lanes: int) -> float:
    """The time of a word on the native library."""
    sizes, words = block.sizes, prod(block.sizes)
    lengths = [prod(sizes[number] for number in run) for run in (block.source_run, block.target_run)]
    repeated = prod(-(-loop.size // size) * size / loop.size for loop, size in zip(loops, sizes, strict=True))
    pairs = WIDTHS.get(policy().native_level or "") == LINE_BYTES
    return permutation_cost(words, lengths[0], lengths[1], lanes, pairs=pairs) / words * repeated


def _cost(loops: Sequence[LoopAxis], block: _Block, lanes: int) -> float:
    """Loads, stores and shuffles for each word; a store counts twice."""
    sizes, words = block.sizes, prod(block.sizes)
    (reads, loads), (writes, stores) = (_accesses(sizes, run, lanes) for run in (block.source_run, block.target_run))
    # The vectors with words of one stored vector: those of other source runs, and those along a source run.
    reach, span = 1, 1
    for number in block.source_run:
        span += (sizes[number] - 1) * reach if number in block.target_run else 0
        reach *= sizes[number]
    merged = prod(sizes[number] for number in block.target_run if number not in block.source_run) * -(-span // lanes)
    shuffles = -(-words // lanes) * (merged - 1).bit_length()
    repeated = prod(-(-loop.size // size) * size / loop.size for loop, size in zip(loops, sizes, strict=True))
    return (reads * loads + 2 * writes * stores + shuffles) / words * repeated


def _accesses(sizes: Sequence[int], run: Sequence[int], lanes: int) -> tuple[int, int]:
    """The runs of a block on one side, and the vectors of each."""
    length = prod(sizes[number] for number in run)
    return prod(sizes) // length, len(pieces_of(length, lanes))


def _call(match: LoopMatch, block: _Block, lanes: int) -> KernelCall:
    """The call of a block's kernel: loops that are larger than the block lie in `a` and `b`, or outside."""
    loops, sizes = match.loops, block.sizes
    steps = []
    for run in (block.source_run, block.target_run):
        reach, along = 1, [0] * len(loops)
        for number in run:
            along[number] = reach
            reach *= sizes[number]
        steps.append(along)
    digits = [Digit(size, read, written) for size, read, written in zip(sizes, *steps, strict=True)]
    whole = [n for n, loop in enumerate(loops) if sizes[n] == loop.size]
    rest = [n for n in range(len(loops)) if n not in whole]
    # A loop in parts is `a` or `b`. Beside it, the longest one makes items long.
    longest = sorted((n for n in rest if not loops[n].channels), key=lambda n: (sizes[n] == 1, -loops[n].size))
    inner = sorted(longest[:2], key=lambda n: -abs(loops[n].target))
    outer = tuple(loops[n] for n in rest if n not in inner)
    absent = [(ONCE, Digit(1, 0, 0))] * (2 - len(inner))
    a, b = absent + [(loops[n], digits[n]) for n in inner]
    blocks = (a[1], b[1], *(digits[n] for n in whole))
    kernel = Blocks(match.elements(a[0], b[0]), len(outer), lanes, blocks)
    each = 2 * match.source_bytes * prod(sizes[n] for n in whole)
    wanted = max(1, policy().relayout.bytes_of_item(match.problem.bytes_moved) // each)
    extents = max(1, wanted // min(wanted, b[0].size)), wanted
    call = match.call(kernel, outer, (a[0], a[1].size), (b[0], b[1].size), extents=extents)
    return replace(call, more=tuple(stride for n in whole for stride in (loops[n].source, loops[n].target)))
