"""The compiled loops that suit a window of a resize: the shape of its rows in memory, and the passes over them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.resize_problem import ResizeProblem
from stridedgpu.planning.resize_taps import AxisTaps, WindowTaps
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.interpolation import Arithmetic
from stridedgpu.values.layout import Layout

from .resize_kernel import ROWS, ResizeKernel
from .resize_rows import WINDOW_BYTES, WORD_BYTES, HalfRows, PairRows, WordRows
from .resize_rules import halving_passes, passes_of

__all__ = ["RowShape", "columns_reached", "filter_kernel", "weighs_colours", "window_kernel"]


@dataclass(frozen=True, slots=True)
class RowShape:
    """The layout of a row's elements: `channels` interleaved at every `step`, or planes; in elements.

    `elements` is the distance from the lowest to the highest element of a row in one plane, both included. `mirrored`:
    x runs backwards.
    """

    channels: int
    step: int
    planes: int
    plane_stride: int
    elements: int
    mirrored: bool

    @classmethod
    def of(cls, layout: Layout) -> RowShape | None:
        """The shape of a layout with axes C, H, W; None for other layouts."""
        (count, _, width), (across, _, right) = layout.sizes, layout.strides
        step, limits = 1 if width == 1 else abs(right), policy().resize
        if count == 1:
            across = 1
        if across == 1 and count <= step and count <= limits.most_channels and step <= limits.most_step:
            return cls(count, step, 1, 0, (width - 1) * step + count, right < 0)
        if step <= limits.most_step:
            return cls(1, step, count, across, (width - 1) * step + 1, right < 0)
        return None


def weighs_colours(problem: ResizeProblem, taps: WindowTaps) -> bool:
    """Whether alpha weights the colours: not where all pixels are copies."""
    return problem.rule.premultiplies and not (taps.rows.copies and taps.columns.copies)


def columns_reached(reach: tuple[int, int], width: int, shape: RowShape) -> tuple[int, int]:
    """The columns of the source that are read, from first to one past the last: widened to a vector at least."""
    first, last = reach
    least = min(width, -(-(ROWS - shape.channels) // shape.step) + 1)
    last = min(width, max(last, first + least))
    return min(first, last - least), last


def filter_kernel(channels: int, step: int, *, columns_first: bool) -> ResizeKernel:
    """The kernel of Pillow's filters over bytes, one for all geometries."""
    widest, pairs, _ = _instructions()
    return _filter_kernel(channels, step, columns_first, widest, pairs)


@lru_cache(maxsize=64)
def _filter_kernel(channels: int, step: int, columns_first: bool, widest: bool, pairs: bool) -> ResizeKernel:
    rules = passes_of(Arithmetic.PILLOW_FIXED, element_type("uint8"), (False, False), pairs=pairs, widest=widest)
    return ResizeKernel(*rules, channels, step, columns_first)


def window_kernel(problem: ResizeProblem, taps: WindowTaps, shape: RowShape, *, converts_rows: bool) -> ResizeKernel:
    """The kernel of a window."""
    copies = taps.columns.copies, taps.rows.copies
    widest, pairs, permutes = _instructions()
    weighs = weighs_colours(problem, taps)
    arithmetic = taps.arithmetic
    if arithmetic is Arithmetic.OPENCV_QUARTER and problem.conversion.source.name == "uint8":
        if shape.step == shape.channels and not shape.mirrored and _halves(taps, shape.channels):
            rows = HalfRows(shape.channels, widest=widest)
            return ResizeKernel(
                *halving_passes(),
                shape.channels,
                shape.step,
                by_rows=rows,
                joins_passes=not converts_rows,
                # Without AVX-512, a store of some bytes is one of each byte.
                writes_target=widest and not converts_rows and _keeps_pixels(problem, shape.channels),
                converts_rows=converts_rows,
            )
        # The mean of four bytes is INTER_LINEAR with weights of one half.
        arithmetic = Arithmetic.OPENCV_LINEAR
    rules = passes_of(
        arithmetic,
        problem.conversion.source,
        copies if taps.columns_first else copies[::-1],
        pairs=pairs,
        widest=widest,
    )
    by_rows: PairRows | WordRows | None = None
    if arithmetic is Arithmetic.OPENCV_LINEAR and pairs and not shape.mirrored:
        if shape.channels > 1 and 2 * shape.step <= WORD_BYTES:
            by_rows = WordRows(shape.channels, shape.step, widest, windows=0)
        elif shape.step == 1:
            by_rows = PairRows(1, 1, widest, windows=0)
        if by_rows is not None and permutes:
            by_rows = replace(by_rows, windows=_windows(taps.columns, shape.step, by_rows))
    joins = by_rows is not None and not converts_rows and _share_few_rows(taps.rows)
    return ResizeKernel(
        *rules,
        shape.channels,
        shape.step,
        taps.columns_first,
        by_rows,
        weighs,
        joins_passes=joins,
        packs_pixels=joins and problem.target.layout.strides[1] == 1,
        converts_rows=converts_rows,
    )


def _keeps_pixels(problem: ResizeProblem, channels: int) -> bool:
    """Whether rows of the target are resized pixels as they are: `channels` interleaved, without gaps, of one type."""
    made, layout = problem.conversion, problem.target.layout
    if not made.is_bitwise_copy or made.channels is not None or layout.sizes[1] != channels:
        return False
    return layout.strides[3] == channels and (channels == 1 or layout.strides[1] == 1)


def _halves(taps: WindowTaps, channels: int) -> bool:
    """Whether each pixel is made of two neighbours in each of two rows, in order, and a row fills a vector."""
    columns = taps.columns
    in_order = np.array_equal(columns.starts, columns.starts[0] + 2 * np.arange(columns.count))
    whole = all(axis.counts.min() == axis.counts.max() == axis.most == 2 for axis in (columns, taps.rows))
    inside = columns.first <= columns.starts[0] and columns.starts[-1] + 2 <= columns.stop
    return in_order and whole and bool(inside) and columns.count >= HalfRows(channels, widest=False).pixels


def _share_few_rows(rows: AxisTaps) -> bool:
    """Whether rows of the result read so few source rows together that a kept row seldom serves another one."""
    first, stop = rows.reach
    return stop - first >= policy().resize.joined_rows * rows.count


def _windows(columns: AxisTaps, step: int, rows: PairRows | WordRows) -> int:
    """The fewest windows that have the taps of each step of a pass; 0 if more would take longer than single loads."""
    first, stop = columns.reach
    if (stop - first - 1) * step + rows.channels < WINDOW_BYTES:
        return 0
    for windows in rows.window_counts:
        pixels = rows.pixels // windows
        begins, ends = columns.starts[::pixels], columns.starts[pixels - 1 :: pixels]
        if len(ends) < len(begins):
            ends = np.append(ends, columns.starts[-1])
        if int(np.abs(ends - begins).max()) * step + rows.pixel_bytes <= WINDOW_BYTES:
            return windows
    return 0


def _instructions() -> tuple[bool, bool, bool]:
    """What this processor has: 32 products of 16 bits at once; sums of pairs of products; shuffles of 128 bytes."""
    features = policy().target.features
    return "avx512bw" in features, "avx2" in features, {"avx512bw", "avx512vbmi"} <= features
