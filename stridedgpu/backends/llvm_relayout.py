"""Which compiled kernel moves a plan's elements, and with which parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np

from stridedgpu.planning.problem import Problem

from .llvm_channels import Channels
from .llvm_code import LINE_BYTES
from .llvm_conversion import can_compile
from .llvm_loops import Constants, Elements
from .llvm_rows import Rows, Step
from .llvm_transpose import LANE_BYTES, Transpose
from .machine_code import processor_features
from .numpy_conversion import Array

__all__ = ["Kernel", "Walk", "walk_of"]

Kernel = Rows | Channels | Transpose

_STEP_BYTES: Final = 256
"""Bytes of one step along a row: enough independent loads and stores to hide the loop around them."""

_ITEM_BYTES: Final = 128 * 1024
"""Bytes that one item of the work moves, about: many items to share out, and each worth starting."""

_TILE_BYTES: Final = 1024
"""Bytes of source line that a transpose walks along before it turns to the next lines."""

_STREAMED_BYTES: Final = 32 * 1024 * 1024
"""Moves of so many bytes fill a last-level cache: writing past it spares reading the lines that are replaced."""

_STREAMED_TILES_BYTES: Final = 8 * 1024 * 1024
"""Transposes gain from it sooner: they replace lines in an order that no prefetcher foresees."""

_UNALIGNED_LINE_BYTES: Final = {1: 128, 2: 256, 4: 256, 8: 256, 16: 64}
"""Bytes that a tile writes in one piece where pieces are not aligned, by the bytes of an element."""

_LONG_CHANNELS: Final = 8
"""From here on a transpose of tiles takes fewer shuffles than putting pixels together one channel after another."""


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop: steps in bytes, steps through the constants, and each channel's number where not evenly spaced."""

    size: int
    source: int
    target: int
    constants: int = 0
    channels: tuple[int, ...] | None = None


_ONCE: Final = Loop(1, 0, 0)


@dataclass(frozen=True, slots=True)
class Walk:
    """A kernel with its parameters: items from 0 to `items`, from `source_offset` and `target_offset` bytes on.

    `parameters` is kept alive by whoever calls the kernel, and so are the arrays whose addresses it holds.
    """

    kernel: Kernel
    items: int
    source_offset: int
    target_offset: int
    parameters: Array
    kept: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class _Draft:
    """Loops being matched to a kernel; the first of the pair of offsets is the source's."""

    loops: tuple[Loop, ...]
    source_bytes: int
    target_bytes: int
    source_offset: int
    target_offset: int = 0

    def flipped(self, loop: Loop) -> tuple[_Draft, Loop]:
        """The same work with one loop run from its end."""
        turned = replace(loop, source=-loop.source, target=-loop.target, constants=-loop.constants)
        last = loop.size - 1
        return replace(
            self,
            loops=tuple(turned if other is loop else other for other in self.loops),
            source_offset=self.source_offset + last * loop.source,
            target_offset=self.target_offset + last * loop.target,
        ), turned


def walk_of(problem: Problem) -> Walk | None:
    """The kernel for a problem; None where there is nothing to move, or its conversion is left to NumPy."""
    conversion = problem.conversion
    if problem.element_count == 0 or not can_compile(conversion):
        return None
    draft = _widened(problem, _loops_of(problem))
    finite = all(values is None or np.isfinite(values).all() for values in (conversion.scale, conversion.bias))
    elements = Elements(
        replace(conversion, scale=conversion.scale and (0.0,), bias=conversion.bias and (0.0,), channels=None),
        Constants.ITEM,
        bool(finite),
        draft.source_bytes if conversion.moves_bits else 0,
    )
    ours = next((loop for loop in draft.loops if loop.target == draft.target_bytes and loop.channels is None), None)
    theirs = next(
        (loop for loop in draft.loops if abs(loop.source) == draft.source_bytes and loop.channels is None), None
    )
    made: Walk | None = None
    contiguous = ours is not None and (ours is theirs or ours.source == 0)
    if not (contiguous and ours is not None and ours.size * draft.target_bytes >= LANE_BYTES):
        made = _channels(problem, elements, draft)
        if made is None and ours is not None and theirs is not None and ours is not theirs:
            made = _transpose(problem, elements, draft, ours, theirs)
    return made or _rows(problem, elements, draft, ours, theirs)


def _loops_of(problem: Problem) -> _Draft:
    """The problem's loops in bytes."""
    source, target, conversion = problem.source.element, problem.target.element, problem.conversion
    per_channel = any(values is not None and len(values) > 1 for values in (conversion.scale, conversion.bias))
    loops = [
        Loop(
            size,
            theirs * source.itemsize,
            ours * target.itemsize,
            int(axis == problem.channel_axis and per_channel),
            conversion.channels if axis == problem.channel_axis else None,
        )
        for axis, (size, ours, theirs) in enumerate(
            zip(problem.sizes, problem.target_strides, problem.source_strides, strict=True)
        )
    ]
    return _Draft(tuple(loops), source.itemsize, target.itemsize, problem.source_offset * source.itemsize)


def _widened(problem: Problem, draft: _Draft) -> _Draft:
    """Short runs of unchanged bits that are as long as an element of another size, as such elements."""
    if not problem.conversion.moves_bits or len(draft.loops) < 2:
        return draft
    inner, nbytes = draft.loops[-1], draft.source_bytes
    whole = inner.size * nbytes
    if inner.source == inner.target == nbytes and inner.channels is None and whole in (2, 4, 8, 16):
        return replace(draft, loops=draft.loops[:-1], source_bytes=whole, target_bytes=whole)
    return draft


def _channels(problem: Problem, elements: Elements, draft: _Draft) -> Walk | None:
    """The small-channel kernel, if some pair of loops runs over pixels and their channels."""
    for small in draft.loops:
        if not 2 <= small.size <= 16:
            continue
        for pixels in draft.loops:
            if pixels is not small and pixels.channels is None and pixels.size >= 4:
                made = _interleave(problem, elements, draft, small, pixels)
                if made is not None:
                    return made
    return None


def _interleave(problem: Problem, elements: Elements, draft: _Draft, small: Loop, pixels: Loop) -> Walk | None:
    """The small-channel kernel for two loops, if they fit it."""
    nbytes, count = draft.source_bytes, small.size
    order = small.channels or tuple(range(count))
    source_pixel = target_pixel = offset = 0
    if abs(pixels.source) != nbytes:
        step, uneven = divmod(small.source, nbytes)
        source_pixel, gap = divmod(abs(pixels.source), nbytes)
        lowest = min(0, step * max(order))
        order = tuple(step * channel - lowest for channel in order)
        offset = lowest * nbytes
        if uneven or gap or not max(order) < source_pixel <= 2 * max(count, 4):
            return None
    if pixels.target != draft.target_bytes:
        target_pixel = count
        if pixels.target != count * draft.target_bytes or small.target != draft.target_bytes:
            return None
    if not (source_pixel or target_pixel):
        return None
    if count >= _LONG_CHANNELS and not (source_pixel and target_pixel) and small.channels is None:
        lane = LANE_BYTES // draft.target_bytes
        if count >= lane and pixels.size >= lane:
            return None
    widest = max(nbytes if source_pixel else 1, draft.target_bytes if target_pixel else 1)
    lanes = _power_of_two(min(pixels.size, _shuffled_bytes(widest) // widest))
    a, outer = _next_inner(draft, (small, pixels))
    kernel = Channels(
        _with_constants(elements, a, pixels, small),
        len(outer),
        lanes,
        order,
        source_pixel,
        target_pixel,
        pixels.source < 0,
        problem.bytes_moved >= _STREAMED_BYTES and lanes * draft.target_bytes >= LINE_BYTES,
    )
    moved = replace(draft, source_offset=draft.source_offset + offset)
    return _walk(problem, kernel, moved, outer, (a, 1), (pixels, lanes), small)


def _shuffled_bytes(itemsize: int) -> int:
    """The widest vector whose elements one instruction shuffles freely."""
    needed = {1: "avx512vbmi", 2: "avx512bw"}.get(itemsize, "avx512f")
    return LINE_BYTES if needed in processor_features() else LANE_BYTES


def _transpose(problem: Problem, elements: Elements, draft: _Draft, ours: Loop, theirs: Loop) -> Walk | None:
    """The tiled transpose, if both sides are as long as a lane."""
    lane = LANE_BYTES // draft.target_bytes
    if min(ours.size, theirs.size) < lane:
        return None
    if theirs.source < 0:
        draft, theirs = draft.flipped(theirs)
    outer = tuple(loop for loop in draft.loops if loop is not ours and loop is not theirs)
    aligned = all(loop.target % LINE_BYTES == 0 for loop in (theirs, *outer))
    # Lines that begin anywhere are written in part at both ends: the longer they are, the less of that there is.
    line = LINE_BYTES if aligned else _UNALIGNED_LINE_BYTES[draft.target_bytes]
    rows = _power_of_two(min(ours.size, line // draft.target_bytes))
    columns = _power_of_two(min(theirs.size, max(lane, LINE_BYTES // draft.source_bytes)))
    streaming = aligned and problem.bytes_moved >= _STREAMED_TILES_BYTES and rows * draft.target_bytes == LINE_BYTES
    kernel = Transpose(_with_constants(elements, theirs, ours, None), len(outer), rows, columns, streaming)
    extents = _TILE_BYTES // draft.source_bytes, _TILE_BYTES // 2 // draft.target_bytes
    return _walk(problem, kernel, draft, outer, (theirs, columns), (ours, rows), extents=extents)


def _rows(problem: Problem, elements: Elements, draft: _Draft, ours: Loop | None, theirs: Loop | None) -> Walk:
    """Rows in whatever steps."""
    free = [loop for loop in draft.loops if loop.channels is None]
    b = ours or (free[-1] if free else _ONCE)
    if theirs is not None and theirs is not b and b.source != 0:
        a = theirs
        outer = tuple(loop for loop in draft.loops if loop is not a and loop is not b)
    else:
        a, outer = _next_inner(draft, (b,))
    steps = {draft.source_bytes: Step.FORWARD, -draft.source_bytes: Step.BACKWARD, 0: Step.REPEATED}
    source_step = steps.get(b.source, Step.STRIDED)
    target_step = Step.FORWARD if b.target == draft.target_bytes else Step.STRIDED
    widest = max(draft.source_bytes, draft.target_bytes)
    strided = Step.STRIDED in (source_step, target_step)
    lanes = _power_of_two(min(b.size, LANE_BYTES // widest if strided else _STEP_BYTES // widest))
    large = problem.bytes_moved >= _STREAMED_BYTES
    streaming = large and target_step is Step.FORWARD and lanes * draft.target_bytes >= LINE_BYTES
    kernel = Rows(_with_constants(elements, a, b, None), len(outer), lanes, source_step, target_step, streaming)
    # Where a row's elements lie apart, the lines around them are used again by the next rows, while they are near.
    extents = (LINE_BYTES, 8 * LINE_BYTES) if strided else None
    return _walk(problem, kernel, draft, outer, (a, 1), (b, lanes), extents=extents)


def _next_inner(draft: _Draft, taken: tuple[Loop, ...]) -> tuple[Loop, tuple[Loop, ...]]:
    """The innermost loop besides those taken, and the loops outside of it."""
    rest = [loop for loop in draft.loops if not any(loop is other for other in taken)]
    inner = next((loop for loop in reversed(rest) if loop.channels is None), _ONCE)
    return inner, tuple(loop for loop in rest if loop is not inner)


def _with_constants(elements: Elements, a: Loop, b: Loop, small: Loop | None) -> Elements:
    """The elements, with the loop that their constants follow."""
    for loop, place in ((a, Constants.A), (b, Constants.B), (small, Constants.SMALL)):
        if loop is not None and loop.constants:
            return replace(elements, constants=place)
    return elements


def _walk(
    problem: Problem,
    kernel: Kernel,
    draft: _Draft,
    outer: tuple[Loop, ...],
    a: tuple[Loop, int],
    b: tuple[Loop, int],
    small: Loop | None = None,
    extents: tuple[int, int] | None = None,
) -> Walk:
    """The parameters as a kernel reads them."""
    conversion = problem.conversion
    count, step = next(((loop.size, loop.constants) for loop in draft.loops if loop.constants), (1, 1))
    constants = [
        # A loop that was turned around reads them from the other end.
        np.zeros(0) if values is None else np.resize(np.array(values, conversion.compute.name), count)[::step].copy()
        for values in (conversion.scale, conversion.bias)
    ]
    kept = list(constants)
    each = (draft.source_bytes + draft.target_bytes) * (1 if small is None else small.size)
    if extents is None:
        b_block = _block(b, _ITEM_BYTES // each)
        a_block = _block(a, _ITEM_BYTES // each // b_block)
    else:
        a_block, b_block = _block(a, extents[0]), _block(b, extents[1])
    fields = [values.ctypes.data for values in constants]
    blocks = []
    for (loop, _), block in ((a, a_block), (b, b_block)):
        blocks.append(-(-loop.size // block))
        fields += [loop.size, loop.source, loop.target, block, blocks[-1]]
    fields += [0, 0] if small is None else [small.source, small.target]
    for loop in reversed(outer):
        table = 0
        if loop.channels is not None:
            kept.append(np.array(loop.channels, np.int64) * loop.source)
            table = kept[-1].ctypes.data
        fields += [loop.size, loop.source, loop.target, loop.constants, table]
    items = prod(loop.size for loop in outer) * prod(blocks)
    return Walk(
        kernel, items, draft.source_offset, draft.target_offset, np.array(fields, np.int64), tuple(kept)
    )


def _block(inner: tuple[Loop, int], wanted: int) -> int:
    """Elements of a block: about as many as wanted, in whole steps."""
    loop, step = inner
    return max(step, min(wanted, loop.size) // step * step) if loop.size > step else step


def _power_of_two(most: int) -> int:
    """The largest power of two up to `most`."""
    return 1 << (most.bit_length() - 1)
