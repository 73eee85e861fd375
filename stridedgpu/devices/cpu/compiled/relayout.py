"""The CPU's relayouts: which compiled kernel moves a problem's elements, with which extents, and its run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd
from typing import Final, NamedTuple

import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.relayout_problem import Problem
from stridedgpu.values.tensor_spec import WIDEST_ACCESS

from .channels import Channels
from .conversion import can_compile
from .ir import LINE_BYTES
from .jit import compiled, processor_features
from .relayout_walk import (
    ONCE,
    Draft,
    Loop,
    Parameters,
    Walk,
    elements_of,
    make_walk,
    next_inner,
    reads_rows_apart,
    writes_past_caches,
)
from .rows import Rows, Step
from .shuffles import odd_unit, word_bytes
from .transpose import LANE_BYTES, Transpose
from .worker_pool import run_shared

__all__ = ["compiled_relayout", "kernel_of", "relayout_kernel", "walk_of"]

_ZEROS: Final = Buffer.of(np.zeros(WIDEST_ACCESS, np.uint8))
"""What filler is read from."""

_WAY_BYTES: Final = 4096
"""Lines so many bytes apart share a place in the cache nearest to a core, which has room there for `_WAYS` of them."""

_WAYS: Final = 8


def walk_of(problem: Problem) -> Walk | None:
    """The kernel for a problem.

    None where there is nothing to move, where the conversion is left to NumPy, and where no kernel writes a filler
    together with the elements.
    """
    if problem.element_count == 0 or not can_compile(problem.conversion):
        return None
    draft = Draft.of(problem)
    if problem.filler:
        return _channels(problem, draft)
    odd = _widened(problem, draft)
    if odd.source_bytes == word_bytes(odd.source_bytes):
        draft = odd
    ours, theirs = draft.ours, draft.theirs
    if ours is not None and (ours is theirs or ours.source == 0) and ours.size * draft.target_bytes >= LANE_BYTES:
        return _rows(problem, draft)
    return (
        _channels(problem, draft)
        or _transpose(problem, draft)
        or _odd_transpose(problem, odd)
        or _subsampled(problem, draft)
        or _rows(problem, draft)
    )


def _widened(problem: Problem, draft: Draft) -> Draft:
    """Short runs of unchanged bits as elements of so many bytes."""
    if not problem.conversion.moves_bits or len(draft.loops) < 2:
        return draft
    inner, nbytes = draft.loops[-1], draft.source_bytes
    whole = inner.size * nbytes
    if inner.source == inner.target == nbytes and inner.channels is None and whole <= LANE_BYTES:
        return replace(draft, loops=draft.loops[:-1], source_bytes=whole, target_bytes=whole)
    return draft


def _channels(problem: Problem, draft: Draft) -> Walk | None:
    """The small-channel kernel, if some pair of loops runs over pixels and their channels: that which reads least."""
    # The channels that are filled up are the innermost loop.
    loops = draft.loops[-1:] if problem.filler else draft.loops
    longest = policy().relayout.longest_pixel
    smalls = [loop for loop in loops if loop.size <= longest and (loop.size >= 2 or problem.filler)]
    made = [_interleave(problem, draft, small, pixels) for small in smalls for pixels in draft.besides(small)]
    return min((walk for walk in made if walk is not None), key=_elements_read, default=None)


def _elements_read(walk: Walk) -> float:
    """Elements that a small-channel kernel reads for each that it writes."""
    kernel = walk.kernel
    assert isinstance(kernel, Channels), "made by _interleave"
    return float(kernel.source_pixel) if kernel.planar else kernel.source_pixel / len(kernel.order)


def _subsampled(problem: Problem, draft: Draft) -> Walk | None:
    """The small-channel kernel for every other element, or every third: the first channel of pixels of as many."""
    pixels = draft.ours or draft.theirs
    if pixels is None:
        return None
    return _interleave(problem, draft, Loop(1, draft.source_bytes, draft.target_bytes), pixels)


def _interleave(problem: Problem, draft: Draft, small: Loop, pixels: Loop) -> Walk | None:
    """The small-channel kernel for two loops, if they fit it."""
    count, read = small.size, _source_pixels(draft, small, pixels)
    target_pixel = _target_pixel(draft, small, pixels, problem.filler)
    if read is None or target_pixel is None or pixels.channels is not None:
        return None
    if pixels.size < policy().relayout.least_pixels:
        return None
    if read.planar and not target_pixel:
        return None
    one_side = read.planar != (target_pixel == 0)
    long = count >= policy().relayout.long_channels
    if long and one_side and not problem.filler and _transposes(draft, draft.target_bytes):
        return None
    widest = max(draft.source_bytes * (read.pixel > 1), draft.target_bytes * (target_pixel > 0))
    lanes = _power_of_two(min(pixels.size, _shuffled_bytes(widest) // widest))
    a, outer = next_inner(draft, small, pixels)
    rows = (a, *outer) if target_pixel else (a, *outer, small)
    kernel = Channels(
        elements_of(problem, draft, a, pixels, small),
        len(outer),
        lanes,
        read.order,
        read.planar,
        read.pixel,
        target_pixel,
        pixels.source < 0,
        problem.filler > 0,
        reads_rows_apart(problem, pixels, a),
        target_pixel in (0, count + problem.filler)
        and lanes * draft.target_bytes >= LINE_BYTES
        and writes_past_caches(problem, rows, pixels, lanes),
    )
    moved = replace(draft, source_offset=draft.source_offset + read.offset)
    return make_walk(problem, kernel, moved, outer, (a, 1), (pixels, lanes), small)


class _SourcePixels(NamedTuple):
    """How the small-channel kernel reads: its order, and in bytes how far before the first channel it begins."""

    order: tuple[int, ...]
    planar: bool
    pixel: int
    offset: int = 0


def _source_pixels(draft: Draft, small: Loop, pixels: Loop) -> _SourcePixels | None:
    """The source's pixels, with the channels in them or in planes; None where they lie too far apart."""
    nbytes = draft.source_bytes
    numbers = small.channels or tuple(range(small.size))
    step, uneven = divmod(small.source, nbytes)
    pixel, gap = divmod(abs(pixels.source), nbytes)
    if gap or pixel > 2 * max(small.size, 4):
        return None
    lowest = min(0, step * max(numbers))
    order = tuple(step * number - lowest for number in numbers)
    if not uneven and pixel > 1 and max(order) < pixel:
        return _SourcePixels(order, planar=False, pixel=pixel, offset=lowest * nbytes)
    return _SourcePixels(numbers, planar=True, pixel=pixel) if pixel <= policy().relayout.largest_step else None


def _target_pixel(draft: Draft, small: Loop, pixels: Loop, filler: int) -> int | None:
    """The elements of a target's pixel, 0 where its channels lie in planes; None where they lie too far apart."""
    if pixels.target == draft.target_bytes and not filler:
        return 0
    pixel, gap = divmod(pixels.target, draft.target_bytes)
    if gap or small.target != draft.target_bytes:
        return None
    if filler:
        # Behind the filler lie other pixels, or gaps that are somebody else's.
        return pixel if pixel == small.size + filler <= policy().relayout.longest_pixel else None
    return pixel if small.size <= pixel <= 2 * max(small.size, 4) else None


def _shuffled_bytes(itemsize: int) -> int:
    """The widest vector whose elements one instruction shuffles freely."""
    needed = {1: "avx512vbmi", 2: "avx512bw"}.get(itemsize, "avx512f")
    return LINE_BYTES if needed in processor_features() else LANE_BYTES


def _transposes(draft: Draft, word: int) -> bool:
    """Whether each side is contiguous along another loop, and both are as long as a lane of words."""
    ours, theirs = draft.ours, draft.theirs
    if ours is None or theirs is None or ours is theirs:
        return False
    return min(ours.size, theirs.size) >= LANE_BYTES // word


def _transpose(problem: Problem, draft: Draft) -> Walk | None:
    """The tiled transpose, if the loops allow it."""
    ours, theirs = draft.ours, draft.theirs
    if ours is None or theirs is None or not _transposes(draft, draft.target_bytes):
        return None
    lane = LANE_BYTES // draft.target_bytes
    if theirs.source < 0:
        draft, theirs = draft.flipped(theirs)
    outer = draft.besides(ours, theirs)
    aligned = all(loop.target % LINE_BYTES == 0 for loop in (theirs, *outer))
    # Lines that begin anywhere are written in part at both ends: the longer they are, the less of that there is.
    line = LINE_BYTES if aligned else policy().relayout.unaligned_line_bytes[draft.target_bytes]
    rows = _rows_of_tiles(ours.size, line // draft.target_bytes, max(lane, LINE_BYTES // draft.target_bytes))
    columns = _power_of_two(min(theirs.size, max(lane, LINE_BYTES // draft.source_bytes)))
    large = problem.bytes_moved >= policy().relayout.streamed_tiles_bytes
    streaming = aligned and large and rows * draft.target_bytes == LINE_BYTES
    extent = policy().relayout.tile_bytes if aligned else policy().relayout.unaligned_tile_bytes
    return _tiles(problem, draft, (ours, theirs), (rows, columns), extent, streaming=streaming)


def _rows_of_tiles(size: int, most: int, least: int) -> int:
    """Rows of a tile: fewer, down to `least`, where the last tile would do a quarter of them all twice, or more."""
    rows = _power_of_two(min(size, most))
    while rows > least and -(-size // rows) * rows * 4 > size * 5:
        rows //= 2
    return rows


def _odd_transpose(problem: Problem, draft: Draft) -> Walk | None:
    """The tiled transpose of pixels of 3, 5, 6 or another odd number of bytes, which stay together."""
    ours, theirs, nbytes = draft.ours, draft.theirs, draft.source_bytes
    word = word_bytes(nbytes)
    if word == nbytes or ours is None or theirs is None or not _transposes(draft, word):
        return None
    if min(ours.size, theirs.size) < policy().relayout.least_pixels:
        return None
    lane = LANE_BYTES // word
    if theirs.source < 0:
        draft, theirs = draft.flipped(theirs)
    unit = odd_unit(nbytes)
    rows = _power_of_two(min(ours.size, policy().relayout.odd_tile))
    columns = _power_of_two(min(theirs.size, max(lane, _shuffled_bytes(unit) // unit)))
    extent = policy().relayout.unaligned_tile_bytes
    return _tiles(problem, draft, (ours, theirs), (rows, columns), extent, streaming=False)


def _tiles(
    problem: Problem, draft: Draft, loops: tuple[Loop, Loop], tile: tuple[int, int], extent: int, *, streaming: bool
) -> Walk:
    """The tiled transpose of our loop and theirs, in tiles of so many rows and columns, so many bytes in a row."""
    (ours, theirs), (rows, columns) = loops, tile
    outer = draft.besides(ours, theirs)
    kernel = Transpose(elements_of(problem, draft, theirs, ours), len(outer), rows, columns, streaming)
    extents = extent // draft.source_bytes, extent // 2 // draft.target_bytes
    return make_walk(problem, kernel, draft, outer, (theirs, columns), (ours, rows), extents=extents)


def _rows(problem: Problem, draft: Draft) -> Walk:
    """Rows in whatever steps."""
    b = draft.ours or _row_apart(draft)
    # Of a row whose elements lie apart, what lies beside them in the source belongs to other rows.
    others = [loop for loop in draft.besides(b) if loop.source and loop.channels is None]
    near = min(others, key=lambda loop: abs(loop.source), default=b)
    if abs(near.source) < abs(b.source):
        a, outer = near, draft.besides(near, b)
    else:
        a, outer = next_inner(draft, b)
    steps = {draft.source_bytes: Step.FORWARD, -draft.source_bytes: Step.BACKWARD, 0: Step.REPEATED}
    source_step = steps.get(b.source, Step.STRIDED)
    target_step = Step.FORWARD if b.target == draft.target_bytes else Step.STRIDED
    whole = LINE_BYTES // draft.target_bytes
    streaming = (
        target_step is Step.FORWARD
        # Where a few elements are all that is read, the caches write as fast as memory does.
        and source_step in (Step.FORWARD, Step.BACKWARD)
        and b.size >= whole
        and writes_past_caches(problem, (a, *outer), b, whole)
    )
    lanes = whole if streaming else _lanes_of_row(problem, draft, b, source_step, target_step)
    prefetches = source_step in (Step.FORWARD, Step.BACKWARD) and reads_rows_apart(problem, b, a)
    elements = elements_of(problem, draft, a, b)
    kernel = Rows(elements, len(outer), lanes, source_step, target_step, prefetches, streaming)
    extents = None
    if Step.STRIDED in (source_step, target_step):
        rows, row = policy().relayout.strided_tile
        extents = rows, min(row, _WAYS * _WAY_BYTES // gcd(b.source or 1, _WAY_BYTES))
    return make_walk(problem, kernel, draft, outer, (a, 1), (b, lanes), extents=extents)


def _row_apart(draft: Draft) -> Loop:
    """The loop for rows whose target elements lie apart: that along which they are nearest, unless it is short."""
    free = [loop for loop in draft.loops if loop.channels is None]
    longest = max(free, key=lambda loop: loop.size, default=ONCE)
    return next((loop for loop in reversed(free) if loop.size >= policy().relayout.least_row), longest)


def _lanes_of_row(problem: Problem, draft: Draft, b: Loop, source_step: Step, target_step: Step) -> int:
    """Elements of one step along a row that stays in the caches."""
    widest = max(draft.source_bytes, draft.target_bytes)
    if Step.STRIDED not in (source_step, target_step):
        step_bytes = policy().relayout.step_bytes if problem.conversion.moves_bits else LINE_BYTES
    elif source_step is target_step and problem.conversion.moves_bits:
        step_bytes = policy().relayout.scalars * widest
    else:
        step_bytes = LANE_BYTES
    return _power_of_two(min(b.size, step_bytes // widest))


def _power_of_two(most: int) -> int:
    """The largest power of two up to `most`."""
    return 1 << (most.bit_length() - 1)


def relayout_kernel(problem: Problem) -> CpuKernel | None:
    """The compiled loops of a problem; None where it is left to NumPy.

    Where no kernel writes a filler together with the elements, its zeros are a second walk.
    """
    walk = walk_of(problem)
    if walk is not None:
        return kernel_of(problem, (walk,))
    if not problem.filler:
        return None
    elements, zeros = walk_of(problem.without_filler()), walk_of(problem.filler_alone())
    return None if elements is None or zeros is None else kernel_of(problem.without_filler(), (elements, zeros))


def kernel_of(problem: Problem, walks: tuple[Walk, ...]) -> CpuKernel:
    """The name, widths and tile of the first of some walks, which moves the elements."""
    walk, (source, target) = walks[0], (problem.source.element, problem.target.element)
    loads, stores = walk.accesses
    family, words = {Rows: "rows", Channels: "channels", Transpose: "transpose"}[type(walk.kernel)], walk.words
    return CpuKernel(
        f"{family}_{source}x{loads.nbytes}B_{target}x{stores.nbytes}B",
        f"compiled {words}" + ("; then zeros behind each run" if len(walks) > 1 else ""),
        loads,
        stores,
        walk.tile(problem.sizes),
        walk.items,
        policy().relayout.shared_bytes,
        walks,
    )


def compiled_relayout(plan: CpuPlan) -> Callable[[Buffer, int, Buffer, int], None] | None:
    """A plan with its kernel compiled or loaded; None where there is none, or this processor cannot run it."""
    chosen, problem = plan.compiled, plan.problem
    if chosen is None:
        return None
    moves = [_move(walk, chosen, plan.bytes_moved) for walk in chosen.walks]
    if len(moves) == 1 or None in moves:
        return None if None in moves else moves[0]
    elements, zeros = moves
    assert elements is not None
    assert zeros is not None
    behind = problem.sizes[-1] * problem.target.element.itemsize

    def move(source: Buffer, source_start: int, target: Buffer, target_start: int) -> None:
        elements(source, source_start, target, target_start)
        zeros(_ZEROS, 0, target, target_start + behind)

    return move


def _move(walk: Walk, kernel: CpuKernel, nbytes: int) -> Callable[[Buffer, int, Buffer, int], None] | None:
    """One walk of a plan that moves so many bytes."""
    loop = compiled(walk.kernel.text)
    if loop is None:
        return None
    parameters, items = walk.packed(), walk.items
    source_offset, target_offset = walk.source_offset, walk.target_offset
    place = parameters.address
    alone = kernel.shared_bytes is None or nbytes < kernel.shared_bytes

    # The parameters stay where they are for as long as they are held.
    def move(
        source: Buffer, source_start: int, target: Buffer, target_start: int, _held: Parameters = parameters
    ) -> None:
        reads = source.address + source_start + source_offset
        writes = target.address + target_start + target_offset
        if alone:
            loop.alone(reads, writes, place, 0, items)
        else:
            run_shared(loop, reads, writes, place, items, nbytes=nbytes)

    return move
