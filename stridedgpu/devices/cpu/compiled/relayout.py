"""Plan and run relayouts on compiled loops: choose the kernel, its loops and extents, then run it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.interface import DirectLaunch
from stridedgpu.planning.relayout_problem import RelayoutProblem
from stridedgpu.values.tensor_spec import WIDEST_ACCESS

from .blocks import Blocks
from .bordered_rows import BorderedRows
from .channels import Channels
from .conversion import can_compile
from .ir import LINE_BYTES, permuting
from .jit import compiled, moving_function
from .kernel_call import (
    KernelCall,
    LoopAxis,
    LoopMatch,
    elements_of,
    kernel_call,
    next_inner,
    power_of_two,
    reads_rows_apart,
    writes_past_caches,
)
from .relayout_blocks import blocks_of, suits_blocks
from .relayout_rows import rows_of
from .rows import Rows
from .shuffles import odd_unit, word_bytes
from .transpose import LANE_BYTES, Transpose
from .transpose_strips import TransposeStrips
from .worker_pool import sharing_function

__all__ = ["compiled_relayout", "kernel_of", "moving", "plan_relayout", "relayout_kernel"]

_ZEROS: Final = Buffer.of(np.zeros(WIDEST_ACCESS, np.uint8))
"""The source of filler zeros."""


def plan_relayout(problem: RelayoutProblem) -> KernelCall | None:
    """The kernel and loops of a problem.

    None if there is nothing to move, if the conversion is left to NumPy, or if no kernel writes the filler together
    with the elements.
    """
    if problem.element_count == 0 or not can_compile(problem.conversion):
        return None
    draft = LoopMatch.of(problem)
    if problem.filler:
        return _channels(problem, draft)
    odd = _widened(problem, draft)
    if odd.source_bytes == word_bytes(odd.source_bytes):
        draft = odd
    target_loop, source_loop = draft.target_loop, draft.source_loop
    if (
        target_loop is not None
        and (target_loop is source_loop or target_loop.source == 0)
        and target_loop.size * draft.target_bytes >= LANE_BYTES
    ):
        pixels = _channels(problem, draft) if _is_pixel(draft, target_loop) else None
        return pixels or _of_short_runs(problem, rows_of(problem, draft))
    return _of_short_runs(
        problem,
        _channels(problem, draft)
        or _transpose(problem, draft)
        or _odd_transpose(problem, odd)
        or _subsampled(problem, draft)
        or rows_of(problem, draft),
    )


def _is_pixel(draft: LoopMatch, row: LoopAxis) -> bool:
    """Whether vectors of several rows take less time than a step for each row."""
    return row.source < 0 and row.size <= policy().relayout.longest_pixel and row.size * draft.target_bytes < LINE_BYTES


def _of_short_runs(problem: RelayoutProblem, walk: KernelCall) -> KernelCall:
    """The walk, or that of blocks where its loads or stores are narrow enough for blocks to take less time."""
    if not suits_blocks(walk, problem.bytes_moved, _shuffled_bytes):
        return walk
    return blocks_of(problem, LoopMatch.of(problem), _shuffled_bytes, policy().target.vector_registers) or walk


def _widened(problem: RelayoutProblem, draft: LoopMatch) -> LoopMatch:
    """Reinterpret short runs of a bitwise copy as larger elements."""
    if not problem.conversion.is_bitwise_copy or len(draft.loops) < 2:
        return draft
    inner, nbytes = draft.loops[-1], draft.source_bytes
    whole = inner.size * nbytes
    if inner.source == inner.target == nbytes and inner.channels is None and whole <= LANE_BYTES:
        return replace(draft, loops=draft.loops[:-1], source_bytes=whole, target_bytes=whole)
    return draft


def _channels(problem: RelayoutProblem, draft: LoopMatch) -> KernelCall | None:
    """The small-channel kernel, if a pair of loops runs over pixels and channels: the pair that reads the least."""
    # Channels with filler are the innermost loop.
    loops = draft.loops[-1:] if problem.filler else draft.loops
    longest = policy().relayout.longest_pixel
    smalls = [loop for loop in loops if loop.size <= longest and (loop.size >= 2 or problem.filler)]
    made = [_interleave(problem, draft, small, pixels) for small in smalls for pixels in draft.besides(small)]
    return min((walk for walk in made if walk is not None), key=_elements_read, default=None)


def _elements_read(walk: KernelCall) -> float:
    """Elements that a small-channel kernel reads for each element that it writes."""
    kernel = walk.kernel
    assert isinstance(kernel, Channels), "made by _interleave"
    return float(kernel.source_pixel) if kernel.planar else kernel.source_pixel / len(kernel.order)


def _subsampled(problem: RelayoutProblem, draft: LoopMatch) -> KernelCall | None:
    """The small-channel kernel for every second or third element: the first channel of pixels of two or three."""
    pixels = draft.target_loop or draft.source_loop
    if pixels is None:
        return None
    return _interleave(problem, draft, LoopAxis(1, draft.source_bytes, draft.target_bytes), pixels)


_LEAST_MASKED_BYTES: Final = 16
"""Bytes of the narrowest vector of pixels with gaps. LLVM 22 compiles some masked stores of narrower ones for ever."""


def _interleave(problem: RelayoutProblem, draft: LoopMatch, small: LoopAxis, pixels: LoopAxis) -> KernelCall | None:
    """The small-channel kernel for a pair of loops, if they fit it."""
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
    shuffled = _shuffled_bytes(widest)
    has_gaps = target_pixel > count + problem.filler  # left by masked stores, which gain nothing in wider steps
    step_bytes = shuffled if has_gaps else _bytes_of_step(shuffled, read.pixel + count)
    lanes = power_of_two(min(pixels.size, step_bytes // widest))
    parts = max(1, lanes * widest // shuffled)
    if has_gaps and lanes * draft.target_bytes < _LEAST_MASKED_BYTES:
        return None
    a, outer = next_inner(draft, small, pixels)
    rows = (a, *outer) if target_pixel else (a, *outer, small)
    streaming = (
        target_pixel in (0, count + problem.filler)
        and lanes // (parts if target_pixel else 1) * draft.target_bytes >= LINE_BYTES
        and writes_past_caches(problem, rows, pixels, lanes, read.pixel / (1 if read.planar else count))
    )
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
        streaming and reads_rows_apart(pixels, a),
        streaming,
        parts,
        shuffled == LANE_BYTES and not problem.filler and _permutes_within(problem, draft, read, lanes, target_pixel),
    )
    moved = replace(draft, source_offset=draft.source_offset + read.offset)
    return kernel_call(problem, kernel, moved, outer, (a, 1), (pixels, lanes), small)


def _bytes_of_step(shuffled: int, vectors: int) -> int:
    """Bytes of a step of pixels on the wider side, whose vectors fit the registers, for one that shuffles so many."""
    target = policy().target
    registers = vectors * LINE_BYTES // target.vector_bytes
    return LINE_BYTES if registers <= target.vector_registers else max(shuffled, target.vector_bytes)


def _permutes_within(
    problem: RelayoutProblem, draft: LoopMatch, read: _SourcePixels, lanes: int, target_pixel: int
) -> bool:
    """Whether both sides have the same pixels, without gaps, of which a load has two or more."""
    count, nbytes = len(read.order), len(read.order) * draft.source_bytes
    same = not read.planar and read.pixel == target_pixel == count == max(read.order) + 1
    fits = 2 * nbytes <= LANE_BYTES or LANE_BYTES % nbytes == 0
    return same and fits and lanes * nbytes >= LANE_BYTES and problem.conversion.is_bitwise_copy


class _SourcePixels(NamedTuple):
    """How the small-channel kernel reads: channel order, and the bytes from its first load to the first channel."""

    order: tuple[int, ...]
    planar: bool
    pixel: int
    offset: int = 0


def _source_pixels(draft: LoopMatch, small: LoopAxis, pixels: LoopAxis) -> _SourcePixels | None:
    """The source's pixel layout, interleaved or planar; None if the channels lie too far apart."""
    nbytes = draft.source_bytes
    numbers = small.channels or tuple(range(small.size))
    step, uneven = divmod(small.source, nbytes)
    pixel, gap = divmod(abs(pixels.source), nbytes)
    if gap or pixel > policy().relayout.most_gaps * max(small.size, 4):
        return None
    lowest = min(0, step * max(numbers))
    order = tuple(step * number - lowest for number in numbers)
    if not uneven and pixel > 1 and max(order) < pixel:
        return _SourcePixels(order, planar=False, pixel=pixel, offset=lowest * nbytes)
    return _SourcePixels(numbers, planar=True, pixel=pixel)


def _target_pixel(draft: LoopMatch, small: LoopAxis, pixels: LoopAxis, filler: int) -> int | None:
    """Elements of a target pixel, 0 for planes; None if the channels lie too far apart."""
    if pixels.target == draft.target_bytes and not filler:
        return 0
    pixel, gap = divmod(pixels.target, draft.target_bytes)
    if gap or small.target != draft.target_bytes:
        return None
    if filler:
        # After the filler come other pixels, or gaps that must not be written.
        return pixel if pixel == small.size + filler <= policy().relayout.longest_pixel else None
    return pixel if small.size <= pixel <= policy().relayout.most_gaps * max(small.size, 4) else None


def _shuffled_bytes(itemsize: int) -> int:
    """Bytes of the widest vector that one instruction permutes at this element size."""
    return LINE_BYTES if permuting(itemsize) in policy().target.features else LANE_BYTES


def _transposes(draft: LoopMatch, word: int) -> bool:
    """Whether the two sides are contiguous along different loops, each at least a lane of words long."""
    target_loop, source_loop = draft.target_loop, draft.source_loop
    if target_loop is None or source_loop is None or target_loop is source_loop:
        return False
    return min(target_loop.size, source_loop.size) >= LANE_BYTES // word


def _transpose(problem: RelayoutProblem, draft: LoopMatch) -> KernelCall | None:
    """The tiled transpose, if the loops allow it."""
    target_loop, source_loop = draft.target_loop, draft.source_loop
    if target_loop is None or source_loop is None or not _transposes(draft, draft.target_bytes):
        return None
    lane = LANE_BYTES // draft.target_bytes
    if source_loop.source < 0:
        draft, source_loop = draft.flipped(source_loop)
    outer = draft.besides(target_loop, source_loop)
    aligned = all(loop.target % LINE_BYTES == 0 for loop in (source_loop, *outer))
    limits = policy().relayout
    streaming = aligned and problem.bytes_moved >= limits.streamed_bytes
    strips = None if streaming else _strips(problem, draft, (source_loop, target_loop))
    if strips is not None:
        return strips
    side = _side_in_registers(draft, min(target_loop.size, source_loop.size))
    if side and not streaming:
        elements = elements_of(problem, draft, source_loop, target_loop)
        kernel = Transpose(elements, len(outer), side, side, in_registers=True)
        return kernel_call(problem, kernel, draft, outer, (source_loop, side), (target_loop, side))
    # Unaligned lines are written partially at both ends. Longer lines have a smaller partial share.
    line = LINE_BYTES if aligned else limits.unaligned_line_bytes
    rows = power_of_two(min(target_loop.size, line // draft.target_bytes))
    columns = power_of_two(min(source_loop.size, max(lane, LINE_BYTES // draft.source_bytes)))
    streaming = streaming and rows * draft.target_bytes == LINE_BYTES
    return _tiles(problem, draft, (target_loop, source_loop), (rows, columns), streaming=streaming)


def _strips(problem: RelayoutProblem, draft: LoopMatch, loops: tuple[LoopAxis, LoopAxis]) -> KernelCall | None:
    """The transpose of a source and a target loop in strips; None for conversions and short target lines."""
    (source_loop, target_loop), limits, nbytes = loops, policy().relayout, draft.target_bytes
    rows, columns = LINE_BYTES // nbytes, LANE_BYTES // nbytes
    if not problem.conversion.is_bitwise_copy or nbytes & (nbytes - 1) or columns < 2:
        return None
    if target_loop.size < max(rows, limits.least_strip):
        return None
    outer = draft.besides(target_loop, source_loop)
    elements = elements_of(problem, draft, source_loop, target_loop)
    kernel = TransposeStrips(elements, len(outer), rows, columns, in_registers=True)
    # An item is some strips along whole source lines.
    wanted = max(rows, limits.bytes_of_item(problem.bytes_moved) // (2 * nbytes))
    along = min(source_loop.size, wanted // rows)
    extents = along, wanted // along
    return kernel_call(problem, kernel, draft, outer, (source_loop, columns), (target_loop, rows), extents=extents)


def _side_in_registers(draft: LoopMatch, size: int) -> int:
    """Elements of a side of the square that is transposed in registers; 0 where scratch memory takes fewer shuffles."""
    widest = LINE_BYTES if "avx512f" in policy().target.features else LINE_BYTES // 2
    sides = {4: widest // 4, 8: widest // 8}
    side = min(size, sides.get(draft.target_bytes, 0), widest // draft.source_bytes)
    return power_of_two(side) if side >= LANE_BYTES // draft.target_bytes else 0


def _odd_transpose(problem: RelayoutProblem, draft: LoopMatch) -> KernelCall | None:
    """The tiled transpose of pixels of 3, 5, 6 or another odd number of bytes, moved as units."""
    target_loop, source_loop, nbytes = draft.target_loop, draft.source_loop, draft.source_bytes
    word = word_bytes(nbytes)
    if word == nbytes or target_loop is None or source_loop is None or not _transposes(draft, word):
        return None
    if min(target_loop.size, source_loop.size) < policy().relayout.least_pixels:
        return None
    lane = LANE_BYTES // word
    if source_loop.source < 0:
        draft, source_loop = draft.flipped(source_loop)
    unit = odd_unit(nbytes)
    rows = power_of_two(min(target_loop.size, LINE_BYTES))
    columns = power_of_two(min(source_loop.size, max(lane, _shuffled_bytes(unit) // unit)))
    return _tiles(problem, draft, (target_loop, source_loop), (rows, columns))


def _tiles(
    problem: RelayoutProblem,
    draft: LoopMatch,
    loops: tuple[LoopAxis, LoopAxis],
    tile: tuple[int, int],
    *,
    streaming: bool = False,
) -> KernelCall:
    """The tiled transpose of a target and a source loop in tiles of some rows and columns."""
    (target_loop, source_loop), (rows, columns), extent = loops, tile, policy().relayout.tile_bytes
    outer = draft.besides(target_loop, source_loop)
    kernel = Transpose(elements_of(problem, draft, source_loop, target_loop), len(outer), rows, columns, streaming)
    extents = extent // draft.source_bytes, extent // 2 // draft.target_bytes
    return kernel_call(problem, kernel, draft, outer, (source_loop, columns), (target_loop, rows), extents=extents)


def relayout_kernel(problem: RelayoutProblem) -> CpuKernel | None:
    """The compiled loops of a problem; None if it is left to NumPy.

    If no kernel writes the filler together with the elements, a second walk writes the zeros.
    """
    walk = plan_relayout(problem)
    if walk is not None:
        return kernel_of(problem, (walk,))
    if not problem.filler:
        return None
    elements, zeros = plan_relayout(problem.without_filler()), plan_relayout(problem.filler_alone())
    return None if elements is None or zeros is None else kernel_of(problem.without_filler(), (elements, zeros))


_FAMILIES: Final = {
    Rows: "rows",
    BorderedRows: "bordered_rows",
    Channels: "channels",
    Transpose: "transpose",
    TransposeStrips: "transpose",
    Blocks: "blocks",
}


def kernel_of(problem: RelayoutProblem, walks: tuple[KernelCall, ...]) -> CpuKernel:
    """Describe the first of the walks, which moves the elements: its name, widths and tile."""
    walk, (source, target) = walks[0], (problem.source.element, problem.target.element)
    loads, stores = walk.accesses
    family, words = _FAMILIES[type(walk.kernel)], walk.words
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


def compiled_relayout(plan: CpuPlan) -> DirectLaunch | None:
    """Compile or load a plan's kernel; None where the plan has none."""
    chosen, problem = plan.compiled, plan.problem
    if chosen is None:
        return None
    moves = [moving(walk, plan.bytes_moved, chosen.shared_bytes) for walk in chosen.walks]
    if len(moves) == 1:
        return moves[0]
    elements, zeros = moves
    behind = problem.sizes[-1] * problem.target.element.itemsize

    def move(source: int, target: int) -> None:
        elements(source, target)
        zeros(_ZEROS.address, target + behind)

    return move


def moving(walk: KernelCall, nbytes: int, shared_bytes: int | None, held: object = None) -> DirectLaunch:
    """The compiled loop of a walk, one of those that move `nbytes` in all.

    Threads share it from `shared_bytes` on, if that is given. What is `held` is kept alive with it.
    """
    loop = compiled(walk.kernel.text)
    parameters, items = walk.packed(), walk.items
    offsets = walk.source_offset, walk.target_offset
    place, brief = parameters.address, nbytes < policy().sharing.brief_bytes
    alone = moving_function(loop, place, items, offsets, held=(parameters, held), keeps_lock=brief)
    if shared_bytes is None or nbytes < shared_bytes:
        return alone
    return sharing_function(loop, alone, place, items, offsets, nbytes)
