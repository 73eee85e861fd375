"""Match a relayout's loops to the kernel of blocks: when it takes less time, which loops a block has, and how much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import NamedTuple

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.relayout_problem import RelayoutProblem

from .blocks import Blocks, Digit, pieces_of
from .channels import Channels
from .ir import LINE_BYTES
from .kernel_call import ONCE, KernelCall, LoopAxis, LoopMatch, elements_of, kernel_call
from .rows import Rows, Step
from .transpose import LANE_BYTES, Transpose
from .transpose_strips import TransposeStrips

__all__ = ["blocks_of", "suits_blocks"]


def suits_blocks(walk: KernelCall, moved: int, widest: Callable[[int], int]) -> bool:
    """Whether the loads or stores of a walk that moves so many bytes are so narrow that blocks take less time.

    `widest` is that of `blocks_of`.
    """
    kernel, limits = walk.kernel, policy().relayout
    nbytes = kernel.elements.target_bytes
    if kernel.streaming:
        return False
    if isinstance(kernel, Channels):
        most = widest(nbytes) if moved < limits.cached_bytes else min(widest(nbytes), 2 * LANE_BYTES)
        return kernel.pixels * nbytes < most or len(kernel.order) >= limits.long_channels
    if isinstance(kernel, Transpose):
        in_strips = isinstance(kernel, TransposeStrips) and nbytes > 1
        short = limits.short_strip if in_strips else limits.short_side
        in_tiles = not kernel.in_registers and moved < limits.cached_bytes
        return widest(1) == LINE_BYTES and (in_tiles or min(loop.size for loop in walk.inner) < short)
    if isinstance(kernel, Rows):
        if Step.STRIDED in (kernel.source_step, kernel.target_step):
            return True
        is_forward = kernel.source_step is kernel.target_step is Step.FORWARD
        return is_forward and walk.inner[1].size * nbytes < LINE_BYTES
    return False


class _Block(NamedTuple):
    """A block: its loops, the size of each there, and each side's run, by the loops' numbers."""

    sizes: tuple[int, ...]
    source_run: tuple[int, ...]
    target_run: tuple[int, ...]


def blocks_of(
    problem: RelayoutProblem, draft: LoopMatch, widest: Callable[[int], int], registers: int
) -> KernelCall | None:
    """The kernel of blocks; None if a conversion takes part, or a side has no run of two words.

    `widest` gives the bytes of a vector that one instruction permutes, by the bytes of its words.
    """
    if not problem.conversion.is_bitwise_copy or problem.filler:
        return None
    draft = _in_words(draft)
    word = draft.source_bytes
    vector_bytes = widest(word)
    draft = _read_forward(draft, vector_bytes)
    loops, lanes = draft.loops, vector_bytes // word
    runs = [
        _run_of([loop.source for loop in loops], loops, word),
        _run_of([loop.target for loop in loops], loops, word),
    ]
    lengths = [length for length in (lanes, lanes // 2, lanes // 4) if length > 1]
    made = {_block(loops, runs, wanted) for wanted in product(lengths, lengths)}
    # With their copies between two merges, vectors of a block take half of the registers.
    fitting = [block for block in made if prod(block.sizes) * word <= registers // 4 * widest(word)]
    if not fitting or not all(runs):
        return None
    chosen = min(fitting, key=lambda block: (_cost(loops, block, lanes), block))
    return _walk(problem, draft, chosen, lanes)


def _in_words(draft: LoopMatch) -> LoopMatch:
    """The elements, or the run that both sides have in common, as words of up to 8 bytes."""
    nbytes = draft.source_bytes
    unit = next((loop for loop in draft.loops if loop.source == loop.target == nbytes and not loop.channels), None)
    size = 1 if unit is None else unit.size
    word = min(8, nbytes * size & -(nbytes * size))
    words = nbytes * size // word
    loops = draft.besides(*([] if unit is None else [unit]))
    if words > 1:
        loops = (*loops, LoopAxis(words, word, word, axis=-1 if unit is None else unit.axis))
    return replace(draft, loops=loops, source_bytes=word, target_bytes=word)


def _read_forward(draft: LoopMatch, vector_bytes: int) -> LoopMatch:
    """The same work with the loops reversed that read backward, so that they continue a source run.

    A loop that continues a target run of less than a vector stays as it is.
    """
    for loop in draft.loops:
        if loop.source < 0 and not 0 < loop.target < vector_bytes and not loop.channels:
            draft, _ = draft.flipped(loop)
    return draft


def _run_of(strides: Sequence[int], loops: Sequence[LoopAxis], word: int) -> tuple[int, ...]:
    """The numbers of the loops that are contiguous together on a side with these strides, innermost first."""
    run: list[int] = []
    reach = word
    while True:
        found = next(
            (n for n, stride in enumerate(strides) if stride == reach and n not in run and not loops[n].channels), None
        )
        if found is None:
            return tuple(run)
        run.append(found)
        reach *= loops[found].size


def _block(loops: Sequence[LoopAxis], runs: Sequence[tuple[int, ...]], wanted: tuple[int, int]) -> _Block:
    """The block whose runs have as many words as wanted, or all."""
    taken: list[tuple[int, ...]] = []
    sizes = [1] * len(loops)
    for run, words in zip(runs, wanted, strict=True):
        length, here = 1, []
        for number in run:
            if length >= words:
                break
            here.append(number)
            part, size = -(-words // length), loops[number].size
            if part >= size:
                # A kernel for every size of a short loop, but not of a longer one.
                part = size if size <= policy().relayout.short_side else 1 << (size.bit_length() - 1)
            sizes[number] = max(sizes[number], part)
            length *= part
        taken.append(tuple(here))
    for run in taken:
        for number in run[:-1]:
            sizes[number] = loops[number].size
    return _Block(tuple(sizes), taken[0], taken[1])


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


def _walk(problem: RelayoutProblem, draft: LoopMatch, block: _Block, lanes: int) -> KernelCall:
    """The walk of a block's kernel: loops that are larger than the block lie in `a` and `b`, or outside."""
    loops, word = draft.loops, draft.source_bytes
    steps = []
    for run in (block.source_run, block.target_run):
        reach, along = 1, dict.fromkeys(range(len(loops)), 0)
        for number in run:
            along[number] = reach
            reach *= block.sizes[number]
        steps.append(along)
    digits = [Digit(size, steps[0][n], steps[1][n]) for n, size in enumerate(block.sizes)]
    whole = [n for n, loop in enumerate(loops) if block.sizes[n] == loop.size]
    rest = [n for n in range(len(loops)) if n not in whole]
    # A loop in parts is `a` or `b`. Beside it, the longest one makes items long.
    inner = sorted((n for n in rest if loops[n].channels is None), key=lambda n: (block.sizes[n] == 1, -loops[n].size))[
        :2
    ]
    inner.sort(key=lambda n: -abs(loops[n].target))
    outer = tuple(loops[n] for n in rest if n not in inner)
    absent = [(ONCE, Digit(1, 0, 0))] * (2 - len(inner))
    a, b = absent + [(loops[n], digits[n]) for n in inner]
    kernel = Blocks(
        elements_of(problem, draft, a[0], b[0]),
        len(outer),
        lanes,
        (a[1], b[1], *(digits[n] for n in whole)),
    )
    each = 2 * word * prod(block.sizes[n] for n in whole)
    wanted = max(1, policy().relayout.bytes_of_item(problem.bytes_moved) // each)
    extents = max(1, wanted // min(wanted, b[0].size)), wanted
    made = kernel_call(problem, kernel, draft, outer, (a[0], a[1].size), (b[0], b[1].size), extents=extents)
    return replace(made, unrolled=tuple(loops[n] for n in whole))
