"""`Recipe`: one geometry of a resize, prepared for compiled loops: its kernel, tables, and moves of bands."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from functools import cache
from operator import itemgetter
from threading import Lock
from typing import Final, NamedTuple

import numpy as np

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem, moving_problem
from stridedgpu.problems.frame_problem import FrameSurface
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.problems.resize_problem import Place, ResizeProblem, ResizeWindow
from stridedgpu.problems.resize_taps import AxisTaps, WindowTaps
from stridedgpu.values.interpolation import Arithmetic, Finish
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .channel_matrix import mixing_call, mixing_kernel
from .conversion import can_compile
from .frames import RowLoop, row_loop
from .jit import CompiledFunction, LoopError, loop_of
from .relayout import loop_call, plan_relayout
from .resize_kernel import BAND_ROWS, GEOMETRY, ROWS, ResizeKernel
from .resize_passes import PairPass, RowPairPass, passes_of
from .resize_rows import WINDOW_BYTES, WORD_BYTES, HalfRows, TapRows
from .resize_tables import FilterAxes, filter_axes, filter_tables, numpy_tables, scratch_fields

__all__ = ["Recipe", "Recipes", "why_numpy"]

_IN_ORDER: Final = itemgetter(*GEOMETRY)

_WIDEST_ELEMENT: Final = 8
"""Bytes of the widest element in a vector's lane."""


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

    def columns(self, reach: tuple[int, int], width: int) -> tuple[int, int]:
        """The columns of the source that are read, from first to one past the last: a vector of them at least."""
        first, last = reach
        least = min(width, -(-(ROWS - self.channels) // self.step) + 1)
        last = min(width, max(last, first + least))
        return min(first, last - least), last


def why_numpy(problem: ResizeProblem, window: ResizeWindow) -> str | None:
    """None if a window's loops are compiled; else the reason why NumPy resizes it."""
    return _why_numpy(problem, window, RowShape.of(window.layout), filter_axes(problem, window))


def _why_numpy(
    problem: ResizeProblem, window: ResizeWindow, shape: RowShape | None, axes: FilterAxes | None
) -> str | None:
    """The same for rows of a shape; windows whose tables a compiled loop makes have `axes`."""
    conversion, surface = problem.conversion, window.surface
    _, _, height, width = problem.visible(window)
    if not height or not width:
        return "nothing of the picture is seen"
    if not can_compile(conversion):
        return f"{conversion} is left to NumPy"
    if conversion.source.itemsize > _WIDEST_ELEMENT:
        return f"elements of {conversion.source.itemsize} bytes are left to NumPy"
    if shape is None:
        return f"pictures with steps of {window.layout.strides} elements along C, H, W are left to NumPy"
    if shape.elements < ROWS:
        return f"pictures with less than {ROWS} elements in a row are left to NumPy"
    if axes is not None:
        return None
    taps = problem.taps(window)
    if surface is not None and not taps.columns_first:
        return "frames whose rows are resized first are left to NumPy"
    if surface is not None and row_loop(surface, _columns_of_frame(taps.columns.reach, surface)) is None:
        return f"{surface} of {surface.sizes[1]} columns are left to NumPy"
    if _weighs_colours(problem, taps) and (shape.planes > 1 or shape.step != shape.channels):
        return "alpha in a plane of its own, or of padded pixels, is left to NumPy"
    if conversion.matrix is not None:
        for rows in sorted({min(height, BAND_ROWS), height % BAND_ROWS} - {0}):
            band = _band_problem(problem, rows, width, (2 * rows * width, 2 * width, 1))
            kernel = mixing_kernel(band) if isinstance(band, ChannelMatrixProblem) else None
            if isinstance(kernel, str):
                return kernel
    return None


def _columns_of_frame(reach: tuple[int, int], surface: FrameSurface) -> tuple[int, int]:
    """The columns of a frame that are converted: those that taps read, in whole pairs, and some beside few."""
    first, stop = reach
    width, least = surface.sizes[1], policy().resize.least_columns
    left = max(0, min(first, width - least)) & -2
    return left, min(max(stop + stop % 2, left + least), width)


def _weighs_colours(problem: ResizeProblem, taps: WindowTaps) -> bool:
    """Whether alpha weights the colours: not where all pixels are copies."""
    return problem.rule.premultiplies and not (taps.rows.copies and taps.columns.copies)


# The kernel


def instructions() -> tuple[bool, bool]:
    """What this processor has: sums of pairs of products; shuffles of 128 bytes."""
    features = policy().target.features
    return "avx2" in features, {"avx512bw", "avx512vbmi"} <= features


def _window_kernel(
    problem: ResizeProblem, taps: WindowTaps, shape: RowShape, *, columns_first: bool, converts_rows: bool
) -> ResizeKernel:
    """The kernel of a window whose tables NumPy makes."""
    pairs, permutes = instructions()
    arithmetic = taps.arithmetic
    if arithmetic is Arithmetic.OPENCV_QUARTER and problem.conversion.source.name == "uint8":
        if shape.step == shape.channels and not shape.mirrored and _halves(taps, shape.channels):
            return ResizeKernel(
                PairPass("i8", "i16", 1, Finish.KEPT, 0, pairs=False),  # its types alone are read
                RowPairPass("i16", "i8", weighted=False),
                shape.channels,
                shape.step,
                by_rows=HalfRows(shape.channels),
                joins_passes=not converts_rows,
                converts_rows=converts_rows,
            )
        # The mean of four bytes is INTER_LINEAR with weights of one half.
        arithmetic = Arithmetic.OPENCV_LINEAR
    copies = taps.columns.copies, taps.rows.copies
    passes = passes_of(arithmetic, problem.conversion.source, copies if columns_first else copies[::-1], pairs=pairs)
    by_rows: TapRows | None = None
    if arithmetic is Arithmetic.OPENCV_LINEAR and pairs and not shape.mirrored:
        if shape.step == 1 or (shape.channels > 1 and 2 * shape.step <= WORD_BYTES):
            by_rows = TapRows(shape.channels, shape.step)
        if by_rows is not None and permutes:
            by_rows = replace(by_rows, windows=_windows(taps.columns, by_rows))
    return ResizeKernel(
        *passes,
        shape.channels,
        shape.step,
        columns_first,
        by_rows,
        _weighs_colours(problem, taps),
        joins_passes=by_rows is not None and not converts_rows and _share_few_rows(taps.rows),
        converts_rows=converts_rows,
    )


def _filter_kernel(problem: ResizeProblem, shape: RowShape, *, columns_first: bool) -> ResizeKernel:
    """The kernel of filters over bytes, one for all geometries."""
    pairs, _ = instructions()
    passes = passes_of(Arithmetic.FIXED_POINT, problem.conversion.source, (False, False), pairs=pairs)
    return ResizeKernel(*passes, shape.channels, shape.step, columns_first)


def _halves(taps: WindowTaps, channels: int) -> bool:
    """Whether each pixel is made of two neighbours in each of two rows, in order, and a row fills a vector."""
    columns = taps.columns
    in_order = np.array_equal(columns.starts, columns.starts[0] + 2 * np.arange(columns.count))
    whole = all(axis.counts.min() == axis.counts.max() == axis.most == 2 for axis in (columns, taps.rows))
    inside = columns.first <= columns.starts[0] and columns.starts[-1] + 2 <= columns.stop
    return in_order and whole and bool(inside) and columns.count >= HalfRows(channels).pixels


def _share_few_rows(rows: AxisTaps) -> bool:
    """Whether rows of the result read so few source rows together that a kept row seldom serves another one."""
    first, stop = rows.reach
    return stop - first >= policy().resize.joined_rows * rows.count


def _windows(columns: AxisTaps, rows: TapRows) -> int:
    """The fewest windows that have the taps of each step of a pass; 0 if more would take longer than single loads."""
    (first, stop), step = columns.reach, rows.step_elements
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


# Bands


class _BandMove(NamedTuple):
    """What moves some finished rows to the target, as fields of a geometry, and the objects that keep it alive."""

    fields: dict[str, int]
    kept: tuple[object, ...] = ()


def _band_move(problem: ResizeProblem, kind: str, rows: int, width: int, step: int, pitch: int) -> _BandMove:
    """The move of `rows` rows of pixels `step` elements apart, or of planes if that is 0.

    `kind` begins the names of its fields: "whole" for those of a whole band, or "rest".
    """
    names = [field for field in GEOMETRY if field.startswith(f"{kind}_")]
    if not rows:
        return _BandMove(dict.fromkeys(names, 0))
    band = _band_problem(problem, rows, width, (1, pitch, step) if step else (width, pitch, 1))
    first = _placed(problem, rows, width).first_offset * problem.conversion.target.itemsize
    if isinstance(band, ChannelMatrixProblem):
        kernel = mixing_kernel(band)
        assert not isinstance(kernel, str), "bands that no compiled loop mixes are left to NumPy"
        call = mixing_call(band, kernel)
    else:
        move = plan_relayout(band)
        assert move is not None, "the conversion can be compiled, and there are pixels"
        call = loop_call(move)
    source, target = call.offsets
    numbers = call.loop.address, call.parameters, call.items, source, first + target
    return _BandMove(dict(zip(names, numbers, strict=True)), (call,))


def _band_problem(
    problem: ResizeProblem, rows: int, width: int, strides: tuple[int, int, int]
) -> RelayoutProblem | ChannelMatrixProblem:
    """The conversion of finished rows with these strides along C, H, W into the target."""
    conversion, written = problem.conversion, _placed(problem, rows, width)
    # Scratch memory has whole words of pixels: elements behind the last one's channels may be read.
    behind = max(strides[2] - problem.channels, 0) * conversion.source.itemsize
    source = TensorSpec(Layout((problem.channels, rows, width), strides), conversion.source, 1, behind)
    target = TensorSpec(written.shifted(-written.first_offset), conversion.target, 1)
    return moving_problem(source, target, conversion, 0)


def _placed(problem: ResizeProblem, rows: int, width: int) -> Layout:
    """The layout of some rows of a window in the target, with axes C, H, W."""
    into = problem.target.layout.sliced((0, slice(None), slice(0, rows), slice(0, width)))
    return Layout(into.sizes, into.strides)


# Recipes


@dataclass(frozen=True, slots=True)
class Recipe:
    """A prepared geometry: its loop, the address of its fields, and the objects that keep these alive.

    `place` is the top, left, height and width of what is seen. `source` is the distance in bytes from the lowest
    element to the lowest element of the first row and plane. `work` is the number of products of both passes. `rows` is
    what converts the rows of a frame.
    """

    loop: CompiledFunction
    fields: int
    place: Place
    source: int
    work: int
    rows: RowLoop | None
    kept: tuple[object, ...]


class Recipes:
    """The recipes of a problem's windows; of those that were seen, the latest are kept."""

    def __init__(self, problem: ResizeProblem) -> None:
        """Store the problem."""
        self._problem = problem
        self._known: dict[ResizeWindow, Recipe | None] = {}
        self._evicting = Lock()
        self._moves: dict[tuple[int, ...], tuple[_BandMove, _BandMove]] = {}

    def of(self, window: ResizeWindow) -> Recipe | None:
        """The recipe of a window; None if NumPy resizes it."""
        try:
            return self._known[window]
        except KeyError:
            try:
                recipe = self.prepared(window)
            except LoopError:
                recipe = None
            with self._evicting:
                if len(self._known) >= policy().resize.most_geometries:
                    del self._known[next(iter(self._known))]
                self._known[window] = recipe
            return recipe

    def prepared(self, window: ResizeWindow) -> Recipe | None:
        """Choose the kernel of a window's geometry and build its tables; None if NumPy resizes it."""
        problem, shape, width = self._problem, RowShape.of(window.layout), window.layout.sizes[2]
        axes = filter_axes(problem, window)
        if shape is None or _why_numpy(problem, window, shape, axes) is not None:
            return None
        rows: RowLoop | None = None
        if axes is not None:
            columns, products = shape.columns(axes.columns.reach, width), axes.products
            kernel = _filter_kernel(problem, shape, columns_first=axes.columns_first)
            tables = filter_tables(problem.rule.interpolation, axes, kernel, columns, mirrored=shape.mirrored)
        else:
            taps = problem.taps(window)
            columns, products = shape.columns(taps.columns.reach, width), taps.products
            if window.surface is not None:
                columns = _columns_of_frame(taps.columns.reach, window.surface)
                rows = row_loop(window.surface, columns)
            kernel = _window_kernel(
                problem, taps, shape, columns_first=taps.columns_first, converts_rows=rows is not None
            )
            tables = numpy_tables(taps, kernel, columns, mirrored=shape.mirrored)
        loop = loop_of(kernel)
        place, itemsize = problem.visible(window), problem.conversion.source.itemsize
        height, width = place[2:]
        elements = (columns[1] - columns[0] - 1) * shape.step + shape.channels
        unit, pitch = width * kernel.out_step, 0 if rows is None else rows.pitch
        scratch = scratch_fields(kernel, elements, unit, shape.planes, tables.ring_rows, pitch)
        step = 0 if shape.planes > 1 else kernel.out_step
        moves = self._band_moves(height, width, step, scratch["band_pitch"])
        allocate, free = memory_functions()
        fields = {
            "allocate": allocate,
            "free": free,
            "row_stride": window.layout.strides[1] * itemsize,
            "planes": shape.planes,
            "plane_stride": shape.plane_stride * itemsize,
            "elements": elements,
            "columns": width,
            "unit": unit,
            "target_row": problem.target.layout.strides[2] * problem.target.element.itemsize,
            "rows_kernel": 0 if rows is None else rows.loop.address,
            "rows_pitch": pitch,
            **scratch,
            **tables.fields,
            **moves[0].fields,
            **moves[1].fields,
        }
        packed = (ctypes.c_int64 * len(GEOMETRY))(*_IN_ORDER(fields))
        start = (1 - columns[1] if shape.mirrored else columns[0]) * shape.step
        source = (window.layout.offset - window.layout.first_offset + start) * itemsize
        kept, work = (packed, tables, moves), products * problem.channels
        return Recipe(loop, ctypes.addressof(packed), place, source, work, rows, kept)

    def _band_moves(self, height: int, width: int, step: int, pitch: int) -> tuple[_BandMove, _BandMove]:
        """The moves of a whole band and of the remaining rows of `height`, from scratch memory to the target."""
        key = (height, width, step, pitch)
        moves = self._moves.get(key)
        if moves is None:
            whole = _band_move(self._problem, "whole", BAND_ROWS if height >= BAND_ROWS else 0, width, step, pitch)
            moves = whole, _band_move(self._problem, "rest", height % BAND_ROWS, width, step, pitch)
            if len(self._moves) >= policy().resize.most_geometries:
                self._moves.clear()
            self._moves[key] = moves
        return moves


@cache
def memory_functions() -> tuple[int, int]:
    """The addresses of allocate and free functions that need no Python lock."""
    python = ctypes.pythonapi
    allocate, free = (
        ctypes.cast(function, ctypes.c_void_p).value for function in (python.PyMem_RawMalloc, python.PyMem_RawFree)
    )
    assert allocate is not None, "every Python has it"
    assert free is not None, "every Python has it"
    return allocate, free
