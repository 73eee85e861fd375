"""Resize by compiled loops: windows become one list of row bands, which all threads share."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Final

import numpy as np

from stridedgpu.devices.cpu.numpy_loops.resize import Borders
from stridedgpu.devices.cpu.plan import CpuKernel
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.thread_count import get_num_threads
from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.interface import Located, ResizeSource
from stridedgpu.planning.device_plan import Width
from stridedgpu.planning.frame_problem import FrameSurface
from stridedgpu.planning.resize_arithmetic import Interpolation
from stridedgpu.planning.resize_problem import ResizeProblem, ResizeWindow, WindowTaps
from stridedgpu.values.errors import DeviceError

from .conversion import can_compile
from .frames import RowLoop, row_loop
from .jit import Loop, compiled
from .resize_bands import BandMove, band_move, why_unmixed
from .resize_choice import RowShape, columns_reached, weighs_colours, window_kernel
from .resize_geometry import ENTRY_FIELDS, GEOMETRY
from .resize_kernel import BAND_ROWS, ROWS, ResizeKernel
from .resize_tables import Scratch, compacted, memory_functions, row_taps, tap_groups
from .worker_pool import run_shared

__all__ = ["compiled_resize", "resize_kernel", "why_numpy"]

_BY_ROWS: Final = (Interpolation.OPENCV_LINEAR, Interpolation.OPENCV_AREA)
"""Interpolations whose first pass may be one of `resize_rows`: the processor and the windows decide."""

_LANES: Final = 16
"""Bytes of one load and one store of compiled loops: a byte of each of 16 rows, or as many of one."""

RestMove = Callable[[Sequence[int], Sequence[ResizeWindow], Sequence[ResizeSource], Located], None]
"""Resizes some of the windows, selected by number."""

ResizeMove = Callable[[Sequence[ResizeWindow], Sequence[ResizeSource], Located], None]
"""What resizes all of them."""

_WIDEST_ELEMENT: Final = 8
"""Bytes of the widest element in a vector's lane."""


def resize_kernel(problem: ResizeProblem) -> CpuKernel | None:
    """The compiled loops of a problem; None where it is left to NumPy.

    Where windows come with every call, those that have no compiled loops are left to NumPy one by one.
    """
    made, (count, _, height, _) = problem.conversion, problem.target.layout.sizes
    if not can_compile(made) or (problem.window is not None and why_numpy(problem, problem.window) is not None):
        return None
    rows = f"{ROWS} source rows a vector"
    if problem.rule.interpolation in _BY_ROWS and made.source.name == "uint8":
        rows = f"source rows one by one where pixels lie close, else {ROWS} a vector"
    return CpuKernel(
        f"resize_compiled_{problem.rule.interpolation}_{made.source}_{made.target}",
        f"compiled loops: {rows}, bands of {BAND_ROWS} rows of the result are converted in the cache",
        Width(_LANES),
        Width(_LANES),
        items=count * -(-height // BAND_ROWS),
        shared_bytes=0,
    )


def why_numpy(problem: ResizeProblem, window: ResizeWindow) -> str | None:
    """None if a window's loops are compiled; else the reason why NumPy resizes it."""
    if 0 in problem.visible(window)[2:]:
        return "nothing of the picture is seen"
    if not can_compile(problem.conversion):
        return f"{problem.conversion} is left to NumPy"
    if problem.conversion.source.itemsize > _WIDEST_ELEMENT:
        return f"elements of {problem.conversion.source.itemsize} bytes are left to NumPy"
    shape = RowShape.of(window.layout)
    if shape is None:
        return f"pictures with steps of {window.layout.strides} elements along C, H, W are left to NumPy"
    if shape.elements < ROWS:
        return f"pictures with less than {ROWS} elements in a row are left to NumPy"
    taps, surface = problem.taps(window), window.surface
    if surface is not None and not taps.columns_first:
        return "frames whose rows are resized first are left to NumPy"
    if surface is not None and row_loop(surface, _columns_read(taps, surface)) is None:
        return f"{surface} of {surface.sizes[1]} columns are left to NumPy"
    if weighs_colours(problem, taps) and (shape.planes > 1 or shape.step != shape.channels):
        return "alpha in a plane of its own, or of padded pixels, is left to NumPy"
    _, _, height, width = problem.visible(window)
    return why_unmixed(problem, height, width)


def _columns_read(taps: WindowTaps, surface: FrameSurface) -> tuple[int, int]:
    """The columns of a frame that are converted: those that taps read, in whole pairs, and some beside few."""
    first, stop = taps.columns.reach
    width, least = surface.sizes[1], policy().resize.least_columns
    left = max(0, min(first, width - least)) & -2
    return left, min(max(stop + stop % 2, left + least), width)


def compiled_resize(problem: ResizeProblem, rest: RestMove) -> ResizeMove | None:
    """A problem's windows by compiled loops, the others by `rest`; None on unsupported processors."""
    if not can_compile(problem.conversion):
        return None
    return _Windows(problem, rest)


@dataclass(frozen=True, slots=True)
class _Recipe:
    """A prepared geometry: its loop, the address of its fields, and the objects that keep these alive.

    `place` is the top, left, height and width of what is seen. `source` is the distance in bytes from the lowest
    element to the lowest element of the first row and plane. `work` is the number of products of both passes. `rows` is
    what converts the rows of a frame.
    """

    loop: Loop
    fields: int
    place: tuple[int, int, int, int]
    source: int
    work: int
    rows: RowLoop | None
    kept: tuple[object, ...]


class _Windows:
    """A problem with the geometries of the windows seen so far."""

    def __init__(self, problem: ResizeProblem, rest: RestMove) -> None:
        """Store the problem; geometries are prepared on first use."""
        self._problem, self._rest = problem, rest
        self._recipes: dict[ResizeWindow, _Recipe | None] = {}
        self._evicting = Lock()
        self._latest: tuple[Sequence[ResizeWindow], list[_Recipe | None]] = ((), [])
        self._walks: dict[tuple[int, ...], tuple[BandMove, BandMove]] = {}
        self._borders = Borders(problem)
        layout, itemsize = problem.target.layout, problem.target.element.itemsize
        sample, _, down, right = layout.strides
        self._steps = sample * itemsize, down * itemsize, right * itemsize
        self._base, self._size = (layout.offset - layout.first_offset) * itemsize, layout.sizes[2:]

    def __call__(self, windows: Sequence[ResizeWindow], sources: Sequence[ResizeSource], target: Located) -> None:
        """Write every window."""
        buffer, start = target
        batch = buffer.address + start + self._base
        sample, down, right = self._steps
        entries: dict[int, tuple[Loop, list[int]]] = {}
        left: list[int] = []
        kept: list[object] = []
        work = 0
        pieces = _pieces(len(windows))
        failed = ctypes.c_int64(0)
        failed_at = ctypes.addressof(failed)
        recipes = self._recipes_of(windows)  # kept until the loops are done: another thread may evict them meanwhile
        for number, (recipe, given) in enumerate(zip(recipes, sources, strict=True)):
            if recipe is None:
                left.append(number)
                continue
            top, first, height, width = place = recipe.place
            if (height, width) != self._size:
                self._borders(buffer.bytes[start:], number, place)
            begins = batch + number * sample + top * down + first * right
            if isinstance(given, FrameOperand):
                assert recipe.rows is not None, "windows with a surface have frames"
                parameters = recipe.rows.parameters(given.planes)
                kept.append(parameters)
                source = ctypes.addressof(parameters)
            else:
                memory, start_of = given
                source = memory.address + start_of + recipe.source
            _, fields = entries.setdefault(recipe.loop.address, (recipe.loop, []))
            step = -(-height // (pieces * BAND_ROWS)) * BAND_ROWS
            for row in range(0, height, step):
                fields += (source, begins, recipe.fields, row, min(row + step, height), failed_at)
            work += recipe.work
        for loop, fields in entries.values():
            _run(loop, fields, work, failed)
        if left:
            self._rest(left, windows, sources, target)

    def _recipes_of(self, windows: Sequence[ResizeWindow]) -> list[_Recipe | None]:
        """The recipe of each window. Those of a tuple are found again by its identity, without a hash of each."""
        latest, known = self._latest
        if windows is latest:
            return known
        recipes = [self._recipe(window) for window in windows]
        if isinstance(windows, tuple):
            self._latest = windows, recipes
        return recipes

    def _recipe(self, window: ResizeWindow) -> _Recipe | None:
        """The recipe of a window, cached by geometry."""
        try:
            return self._recipes[window]
        except KeyError:
            made = self._made(window)
            with self._evicting:
                if len(self._recipes) >= policy().resize.most_geometries:
                    del self._recipes[next(iter(self._recipes))]
                self._recipes[window] = made
            return made

    def _made(self, window: ResizeWindow) -> _Recipe | None:
        """Build the tables of a window's geometry; None if NumPy resizes it."""
        problem = self._problem
        shape = RowShape.of(window.layout)
        if shape is None or why_numpy(problem, window) is not None:
            return None
        taps, layout, made_rows = problem.taps(window), window.layout, None
        first, last = columns_reached(taps.columns, layout.sizes[2], shape)
        if window.surface is not None:
            first, last = _columns_read(taps, window.surface)
            made_rows = row_loop(window.surface, (first, last))
        kernel = window_kernel(problem, taps, shape, converts_rows=made_rows is not None)
        loop = _loop(kernel)
        if loop is None:
            return None
        elements = (last - first - 1) * shape.step + shape.channels
        along = tap_groups(taps.columns, kernel.along, taps.arithmetic)
        np.clip(along.indices, first, last - 1, out=along.indices)  # padding may name the pixel behind the last
        along.indices[...] = ((last - 1) - along.indices if shape.mirrored else along.indices - first) * shape.step
        if kernel.by_rows is not None:
            along = row_taps(kernel.by_rows, along, elements)
        rows = compacted(tap_groups(taps.rows, kernel.down, taps.arithmetic), kernel.step_rows)
        down = rows.taps if kernel.columns_first else tap_groups(taps.rows, kernel.down, taps.arithmetic)
        _, _, height, width = place = problem.visible(window)
        unit, itemsize = width * kernel.out_step, problem.conversion.source.itemsize
        pitch, ring_rows = 0 if made_rows is None else made_rows.pitch, rows.mask + 1 if kernel.columns_first else ROWS
        memory = Scratch.of(kernel, elements, unit, shape.planes, ring_rows, pitch)
        whole, rest = self._walked(height, width, 0 if shape.planes > 1 else kernel.out_step, memory.band_pitch)
        allocate, free = memory_functions()
        fields = {
            "allocate": allocate,
            "free": free,
            "scratch_bytes": memory.nbytes,
            "sources": rows.sources.ctypes.data,
            "row_stride": layout.strides[1] * itemsize,
            "planes": shape.planes,
            "plane_stride": shape.plane_stride * itemsize,
            "elements": elements,
            "columns": width,
            "column_groups": along.most,
            "column_counts": along.counts.ctypes.data,
            "column_indices": along.indices.ctypes.data,
            "column_weights": along.weights.ctypes.data,
            "row_groups": down.most,
            "row_counts": down.counts.ctypes.data,
            "row_indices": down.indices.ctypes.data,
            "row_weights": down.weights.ctypes.data,
            "row_firsts": rows.firsts.ctypes.data,
            "row_ends": rows.ends.ctypes.data,
            "ring_mask": rows.mask,
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
            "factor": int(np.float32(taps.factor).view(np.int32)),
            **{f"whole_{name}": value for name, value in whole.fields.items()},
            **{f"rest_{name}": value for name, value in rest.fields.items()},
        }
        packed = (ctypes.c_int64 * len(GEOMETRY))(*(fields[name] for name in GEOMETRY))
        lowest = layout.offset - layout.first_offset + (1 - last if shape.mirrored else first) * shape.step
        work = taps.products * problem.channels
        kept = (packed, along, rows, down, whole, rest)
        return _Recipe(loop, ctypes.addressof(packed), place, lowest * itemsize, work, made_rows, kept)

    def _walked(self, height: int, width: int, step: int, pitch: int) -> tuple[BandMove, BandMove]:
        """The copies of a whole band and of the remaining rows, from a thread's scratch memory to the target."""
        key = (height, width, step, pitch)
        if key not in self._walks:
            sizes = (BAND_ROWS if height >= BAND_ROWS else 0, height % BAND_ROWS)
            whole, rest = (band_move(self._problem, rows, width, step, pitch) for rows in sizes)
            self._walks[key] = whole, rest
        return self._walks[key]


@lru_cache(maxsize=64)
def _loop(kernel: ResizeKernel) -> Loop | None:
    return compiled(kernel.text)


def _pieces(windows: int) -> int:
    """Parts of one window for threads to share; each part repeats the source rows around its first row."""
    threads = get_num_threads()
    return 1 if threads == 1 else max(1, policy().resize.pieces * threads // max(windows, 1))


def _run(loop: Loop, fields: Sequence[int], work: int, failed: ctypes.c_int64) -> None:
    """Run a kernel over its entries, which name `failed`.

    Raises `DeviceError` if a thread could not allocate its scratch memory.
    """
    table = (ctypes.c_int64 * len(fields))(*fields)
    place, count = ctypes.addressof(table), len(fields) // ENTRY_FIELDS
    run_shared(loop, 0, 0, place, count, nbytes=work)
    if failed.value:
        raise DeviceError("The CPU has no memory left for the rows between the passes of a resize.")
