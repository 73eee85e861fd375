"""`Recipe`: a geometry of a resize, prepared for compiled loops; its tables are compiled loops' or NumPy's."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.frame_problem import FrameSurface
from stridedgpu.planning.resize_problem import ResizeProblem, ResizeWindow
from stridedgpu.planning.resize_taps import WindowTaps

from .conversion import can_compile
from .frames import RowLoop, row_loop
from .jit import CompiledFunction, loop_of
from .resize_bands import BandMove, band_move, why_unmixed
from .resize_choice import RowShape, columns_reached, filter_kernel, weighs_colours, window_kernel
from .resize_filters import FilterAxes, filter_axes, filter_tables
from .resize_geometry import GEOMETRY
from .resize_kernel import BAND_ROWS, ROWS, ResizeKernel
from .resize_tables import Scratch, compacted, memory_functions, ring_mask, row_taps, tap_groups

__all__ = ["Recipe", "Recipes", "why_numpy"]

_IN_ORDER: Final = itemgetter(*GEOMETRY)

_WIDEST_ELEMENT: Final = 8
"""Bytes of the widest element in a vector's lane."""


def why_numpy(problem: ResizeProblem, window: ResizeWindow) -> str | None:
    """None if a window's loops are compiled; else the reason why NumPy resizes it."""
    shape = RowShape.of(window.layout)
    why = _why_not_read(problem, window, shape)
    if shape is None or why is not None or filter_axes(problem, window) is not None:
        return why
    taps, surface = problem.taps(window), window.surface
    if surface is not None and not taps.columns_first:
        return "frames whose rows are resized first are left to NumPy"
    if surface is not None and row_loop(surface, _columns_read(taps.columns.reach, surface)) is None:
        return f"{surface} of {surface.sizes[1]} columns are left to NumPy"
    if weighs_colours(problem, taps) and (shape.planes > 1 or shape.step != shape.channels):
        return "alpha in a plane of its own, or of padded pixels, is left to NumPy"
    _, _, height, width = problem.visible(window)
    return why_unmixed(problem, height, width)


def _why_not_read(problem: ResizeProblem, window: ResizeWindow, shape: RowShape | None) -> str | None:
    """None if compiled loops read a window's rows, of `shape`; else the reason why NumPy does."""
    if 0 in problem.visible(window)[2:]:
        return "nothing of the picture is seen"
    if not can_compile(problem.conversion):
        return f"{problem.conversion} is left to NumPy"
    if problem.conversion.source.itemsize > _WIDEST_ELEMENT:
        return f"elements of {problem.conversion.source.itemsize} bytes are left to NumPy"
    if shape is None:
        return f"pictures with steps of {window.layout.strides} elements along C, H, W are left to NumPy"
    if shape.elements < ROWS:
        return f"pictures with less than {ROWS} elements in a row are left to NumPy"
    return None


def _columns_read(reach: tuple[int, int], surface: FrameSurface) -> tuple[int, int]:
    """The columns of a frame that are converted: those that taps read, in whole pairs, and some beside few."""
    first, stop = reach
    width, least = surface.sizes[1], policy().resize.least_columns
    left = max(0, min(first, width - least)) & -2
    return left, min(max(stop + stop % 2, left + least), width)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A prepared geometry: its loop, the address of its fields, and the objects that keep these alive.

    `place` is the top, left, height and width of what is seen. `source` is the distance in bytes from the lowest
    element to the lowest element of the first row and plane. `work` is the number of products of both passes. `rows` is
    what converts the rows of a frame.
    """

    loop: CompiledFunction
    fields: int
    place: tuple[int, int, int, int]
    source: int
    work: int
    rows: RowLoop | None
    kept: tuple[object, ...]


class _Tables(NamedTuple):
    """The tables of a geometry, as fields, and what keeps them alive; `ring_rows` rows of the first pass are kept."""

    fields: dict[str, int]
    ring_rows: int
    kept: tuple[object, ...]


class _Shape(NamedTuple):
    """The rows of a window in memory, and the columns that are read: `first` to `last`, in `elements` a plane."""

    rows: RowShape
    first: int
    last: int

    @property
    def elements(self) -> int:
        """Elements from the first one read to the last one, both included."""
        return (self.last - self.first - 1) * self.rows.step + self.rows.channels


class Recipes:
    """Makes the recipes of a problem's windows."""

    def __init__(self, problem: ResizeProblem) -> None:
        """Store the problem; the copies of bands are prepared on first use."""
        self._problem = problem
        self._walks: dict[tuple[int, ...], tuple[BandMove, BandMove]] = {}

    def made(self, window: ResizeWindow) -> Recipe | None:
        """Build the tables of a window's geometry; None if NumPy resizes it."""
        problem, rows = self._problem, RowShape.of(window.layout)
        if rows is None or _why_not_read(problem, window, rows) is not None:
            return None
        axes = filter_axes(problem, window)
        if axes is not None:
            kernel = filter_kernel(rows.channels, rows.step, columns_first=axes.columns_first)
            shape = _Shape(rows, *columns_reached(axes.columns.reach, window.layout.sizes[2], rows))
            return self._recipe(window, kernel, shape, _filter_tables(problem, axes, kernel, shape), _products(axes))
        if why_numpy(problem, window) is not None:
            return None
        taps, made_rows = problem.taps(window), None
        shape = _Shape(rows, *columns_reached(taps.columns.reach, window.layout.sizes[2], rows))
        if window.surface is not None:
            shape = _Shape(rows, *_columns_read(taps.columns.reach, window.surface))
            made_rows = row_loop(window.surface, shape[1:])
        kernel = window_kernel(problem, taps, rows, converts_rows=made_rows is not None)
        return self._recipe(window, kernel, shape, _numpy_tables(taps, kernel, shape), taps.products, made_rows)

    def _recipe(
        self,
        window: ResizeWindow,
        kernel: ResizeKernel,
        shape: _Shape,
        tables: _Tables,
        products: int,
        made_rows: RowLoop | None = None,
    ) -> Recipe:
        """The recipe of a window with its tables."""
        loop = loop_of(kernel)
        problem, layout, rows, elements = self._problem, window.layout, shape.rows, shape.elements
        _, _, height, width = place = problem.visible(window)
        unit, itemsize = width * kernel.out_step, problem.conversion.source.itemsize
        pitch = 0 if made_rows is None else made_rows.pitch
        memory = Scratch.of(kernel, elements, unit, rows.planes, tables.ring_rows, pitch)
        bands = 0 if kernel.writes_target else height
        whole, rest = self._walked(bands, width, 0 if rows.planes > 1 else kernel.out_step, memory.band_pitch)
        allocate, free = memory_functions()
        fields = {
            "allocate": allocate,
            "free": free,
            "scratch_bytes": memory.nbytes,
            "row_stride": layout.strides[1] * itemsize,
            "planes": rows.planes,
            "plane_stride": rows.plane_stride * itemsize,
            "elements": elements,
            "columns": width,
            "ring_pitch": memory.ring_pitch,
            "unit": unit,
            "outputs_at": memory.outputs,
            "ring_at": memory.ring,
            "band_at": memory.band,
            "target_row": problem.target.layout.strides[2] * problem.target.element.itemsize,
            "band_pitch": memory.band_pitch,
            "rows_kernel": 0 if made_rows is None else made_rows.loop.address,
            "rows_at": memory.rows,
            "rows_pitch": pitch,
            **tables.fields,
            **whole.fields,
            **rest.fields,
        }
        packed = (ctypes.c_int64 * len(GEOMETRY))(*_IN_ORDER(fields))
        start = (1 - shape.last if rows.mirrored else shape.first) * rows.step
        lowest = layout.offset - layout.first_offset + start
        kept = (packed, tables, whole, rest)
        work = products * problem.channels
        return Recipe(loop, ctypes.addressof(packed), place, lowest * itemsize, work, made_rows, kept)

    def _walked(self, height: int, width: int, step: int, pitch: int) -> tuple[BandMove, BandMove]:
        """The copies of a whole band and of the remaining rows of `height`, from scratch memory to the target."""
        key = (height, width, step, pitch)
        if key not in self._walks:
            sizes = (BAND_ROWS if height >= BAND_ROWS else 0, height % BAND_ROWS)
            whole, rest = (
                band_move(self._problem, kind, rows, width, step, pitch)
                for kind, rows in zip(("whole", "rest"), sizes, strict=True)
            )
            self._walks[key] = whole, rest
        return self._walks[key]


def _numpy_tables(taps: WindowTaps, kernel: ResizeKernel, shape: _Shape) -> _Tables:
    """The tables of any rule, by NumPy."""
    first, last, step = shape.first, shape.last, shape.rows.step
    along = tap_groups(taps.columns, kernel.along, taps.arithmetic)
    np.clip(along.indices, first, last - 1, out=along.indices)  # padding may name the pixel behind the last
    along.indices[...] = ((last - 1) - along.indices if shape.rows.mirrored else along.indices - first) * step
    if kernel.by_rows is not None:
        along = row_taps(kernel.by_rows, along, shape.elements)
    down = tap_groups(taps.rows, kernel.down, taps.arithmetic)
    rows = compacted(down, kernel.step_rows)
    down = rows.taps if kernel.keeps_rows else down
    fields = {
        "column_groups": along.most,
        "column_counts": along.counts.ctypes.data,
        "column_indices": along.indices.ctypes.data,
        "column_weights": along.weights.ctypes.data,
        "row_groups": down.most,
        "row_counts": down.counts.ctypes.data,
        "row_indices": down.indices.ctypes.data,
        "row_weights": down.weights.ctypes.data,
        "sources": rows.sources.ctypes.data,
        "row_firsts": rows.firsts.ctypes.data,
        "row_ends": rows.ends.ctypes.data,
        "ring_mask": rows.mask,
        "factor": int(np.float32(taps.factor).view(np.int32)),
    }
    return _Tables(fields, _ring_rows(kernel, rows.mask), (along, rows, down))


def _filter_tables(problem: ResizeProblem, axes: FilterAxes, kernel: ResizeKernel, shape: _Shape) -> _Tables:
    """The tables of Pillow's filters, by a compiled loop: rows that are read follow each other without a gap."""
    rule, step = problem.rule.interpolation, shape.rows.step
    origin = (shape.last - 1) * step if shape.rows.mirrored else -shape.first * step
    along = filter_tables(rule, axes.columns, step=-step if shape.rows.mirrored else step, origin=origin)
    low, stop = axes.rows.reach
    mask, sources = 0, np.empty(0, np.int64)
    if kernel.columns_first:
        mask = ring_mask(min(axes.rows.most_taps, stop - low), kernel.step_rows)
        sources = np.minimum(np.arange(low, stop + ROWS), stop - 1)
        down = filter_tables(rule, axes.rows, origin=-low, mask=mask)
    else:
        down = filter_tables(rule, axes.rows)
    fields = {
        "column_groups": along.groups,
        "column_counts": along.counts,
        "column_indices": along.indices,
        "column_weights": along.weights,
        "row_groups": down.groups,
        "row_counts": down.counts,
        "row_indices": down.indices,
        "row_weights": down.weights,
        "sources": sources.ctypes.data,
        "row_firsts": down.firsts,
        "row_ends": down.ends,
        "ring_mask": mask,
        "factor": 0,
    }
    return _Tables(fields, _ring_rows(kernel, mask), (along, down, sources))


def _ring_rows(kernel: ResizeKernel, mask: int) -> int:
    """Rows between the passes: a ring of them, 16 where rows come first, none where the passes are one."""
    if kernel.joins_passes:
        return 0
    return mask + 1 if kernel.columns_first else ROWS


def _products(axes: FilterAxes) -> int:
    """At least the products of one channel in both passes."""
    (top, bottom), (left, right) = axes.rows.reach, axes.columns.reach
    rows, columns = axes.rows.pixels[2], axes.columns.pixels[2]
    across, down = (bottom - top, columns) if axes.columns_first else (rows, right - left)
    return axes.columns.most_taps * columns * across + axes.rows.most_taps * rows * down
