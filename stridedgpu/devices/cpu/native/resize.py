"""Resizes on the native library: windows become one list of row bands, which all threads share.

A `Recipe` is one geometry, prepared: its kernel, tables, and the moves of its bands.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.cpu.numpy_loops.resize import Borders, resize_located
from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.thread_count import get_num_threads
from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.interface import EvenlyLocated, Located, ResizeSource
from stridedgpu.devices.launch_cache import cached_launches
from stridedgpu.devices.row_buffer import RowBuffer
from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem, moving_problem
from stridedgpu.problems.device_plan import Width
from stridedgpu.problems.relayout_problem import RelayoutProblem, relayout_problem
from stridedgpu.problems.resize_problem import Place, ResizeProblem, ResizeWindow
from stridedgpu.problems.resize_taps import WindowTaps
from stridedgpu.values.bounded_cache import count_bytes
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import round_up
from stridedgpu.values.tensor_spec import TensorSpec

from .calls import NativeFunction
from .elements import can_convert
from .frames import RowLoop, row_loop
from .matrix import mixing_call, mixing_kernel
from .pool import LoopCall, run_shared
from .registers import LINE_BYTES
from .relayout import plan_relayout
from .resize_kernels import (
    BAND_MOVES,
    BAND_ROWS,
    ENTRY_FIELDS,
    GEOMETRY,
    MOVE,
    ROWS,
    Bands,
    RowShape,
    gathered_fields,
    kernel_of,
    resize_fields,
    resize_loop,
    weighs_colours,
)
from .resize_tables import FilterAxes, filter_axes, scratch_fields, window_tables

__all__ = ["resize_kernel", "resize_move"]

_IN_ORDER: Final = itemgetter(*GEOMETRY)
_ROW_STRIDE, _SOURCES = GEOMETRY.index("row_stride"), GEOMETRY.index("sources")

_WIDEST_ELEMENT: Final = 8
"""Bytes of the widest element in a vector's lane."""

_BY_ROWS: Final = ("linear", "area")
"""Samplings whose first pass reads rows of bytes as they lie."""

_LANES: Final = 16
"""Bytes of one load and one store: a byte of each of 16 rows, or as many of one."""

ResizeMove = Callable[[Sequence[ResizeWindow], Sequence[ResizeSource], Located], None]
"""What resizes all of them."""


def resize_kernel(problem: ResizeProblem) -> CpuKernel | str | None:
    """The loops of a problem; None, or the reason, where it is left to NumPy.

    Where windows come with every call, those that have no loops are left to NumPy one by one.
    """
    conversion, (count, _, height, _) = problem.conversion, problem.target.layout.sizes
    why = None if problem.window is None else why_numpy(problem, problem.window)
    if why is not None or not can_convert(conversion):
        return why
    rows = f"{ROWS} source rows a vector"
    if problem.rule.interpolation.sampling in _BY_ROWS and conversion.source.name == "uint8":
        rows = "source rows one by one"
    return CpuKernel(
        f"resize_native_{problem.rule.interpolation}_{conversion.source}_{conversion.target}",
        f"native loops: {rows}, bands of {BAND_ROWS} rows of the result are converted in the cache",
        Width(_LANES),
        Width(_LANES),
        items=count * -(-height // BAND_ROWS),
        shared_bytes=0,
    )


def resize_move(plan: CpuPlan[ResizeProblem]) -> ResizeMove:
    """A plan's windows by the library, the others by NumPy."""
    return _Windows(plan.problem)


# What the library resizes

_MIXED: Final = Bands((0,), planar=True)


def why_numpy(problem: ResizeProblem, window: ResizeWindow) -> str | None:
    """None if the library resizes a window; else the reason why NumPy resizes it."""
    choice = _choice(problem, window)
    return choice if isinstance(choice, str) else None


def _choice(problem: ResizeProblem, window: ResizeWindow) -> tuple[RowShape, FilterAxes | WindowTaps] | str:
    """The shape of a window's rows and its taps, or the reason why NumPy resizes it."""
    conversion, surface = problem.conversion, window.surface
    _, _, height, width = problem.visible(window)
    shape = RowShape.of(window.layout)
    if not height or not width:
        return "nothing of the image is seen"
    if not can_convert(conversion):
        return f"{conversion} is left to NumPy"
    if conversion.source.itemsize > _WIDEST_ELEMENT:
        return f"elements of {conversion.source.itemsize} bytes are left to NumPy"
    if shape is None:
        return f"images with steps of {window.layout.strides} elements along C, H, W are left to NumPy"
    if shape.elements < ROWS:
        return f"images with less than {ROWS} elements in a row are left to NumPy"
    taps = filter_axes(problem, window) or problem.taps(window)
    if surface is not None and row_loop(surface, _columns(shape, taps, window)) is None:
        return f"{surface} of {surface.sizes[1]} columns are left to NumPy"
    if weighs_colours(problem, taps) and (shape.planes > 1 or shape.step != shape.channels):
        return "alpha in a plane of its own, or of padded pixels, is left to NumPy"
    if conversion.matrix is not None:
        for rows in sorted({min(height, BAND_ROWS), height % BAND_ROWS} - {0}):
            band = _band_problem(problem, rows, width, (2 * rows * width, 2 * width, 1), _MIXED)
            kernel = mixing_kernel(band) if isinstance(band, ChannelMatrixProblem) else None
            if isinstance(kernel, str):
                return kernel
    return shape, taps


def _columns(shape: RowShape, taps: FilterAxes | WindowTaps, window: ResizeWindow) -> tuple[int, int]:
    """The columns of the source that are read, from first to one past the last; those of a frame in whole pairs."""
    (_, _, width), surface = window.layout.sizes, window.surface
    first, last = shape.columns(taps.columns.reach, width)
    return (first, last) if surface is None else (first & -2, min(last + last % 2, width))


# Bands


def _band_fields(
    problem: ResizeProblem, height: int, width: int, pitch: int, bands: Bands
) -> tuple[dict[str, int], list[LoopCall]]:
    """The moves of a whole band of finished rows and of the remaining rows of `height`, with what they refer to."""
    fields, calls = dict.fromkeys(BAND_MOVES, 0), []
    for kind, rows in (("whole", BAND_ROWS if height >= BAND_ROWS else 0), ("rest", height % BAND_ROWS)):
        if rows:
            call = _band_call(_band_problem(problem, rows, width, bands.strides(width, pitch), bands))
            calls.append(call)
            source, target = call.offsets
            first = _placed(problem, rows, width).first_offset * problem.conversion.target.itemsize
            numbers = call.loop.address, call.parameters, call.items, source, first + target
            fields |= {f"{kind}_{name}": number for name, number in zip(MOVE, numbers, strict=True)}
    return fields, calls


def _band_call(band: RelayoutProblem | ChannelMatrixProblem) -> LoopCall:
    """What moves finished rows to the target's lowest element."""
    if isinstance(band, ChannelMatrixProblem):
        kernel = mixing_kernel(band)
        assert not isinstance(kernel, str), "bands that no loop mixes are left to NumPy"
        return mixing_call(band, kernel)
    call = plan_relayout(band)
    assert call is not None, "the library has the conversion, and there are pixels"
    return call.loop()


def _band_problem(
    problem: ResizeProblem, rows: int, width: int, strides: tuple[int, int, int], bands: Bands
) -> RelayoutProblem | ChannelMatrixProblem:
    """The conversion of finished rows; that of pixels with constants of their own is one of rows with as many."""
    conversion, channels = problem.conversion, problem.channels
    if bands.chosen:
        conversion, channels = replace(conversion, channels=None), len(bands.channels)
    written = _placed(problem, rows, width)
    is_mixed = conversion.channels is not None or conversion.matrix is not None
    if strides[0] == 1 and channels > 1 and not is_mixed and written.strides[2] == channels:
        sizes = rows, width * channels
        read, into = Layout(sizes, strides[1::-1]), Layout(sizes, (written.strides[1], 1))
        repeated = (
            None if values is None else (values * width if len(values) > 1 else values)
            for values in (conversion.scale, conversion.bias)
        )
        scale, bias = repeated
        conversion = replace(conversion, scale=scale, bias=bias)
        source, target = TensorSpec(read, conversion.source, 1), TensorSpec(into, conversion.target, 1)
        return relayout_problem(source, target, conversion, 1)
    source = TensorSpec(Layout((channels, rows, width), strides), conversion.source, 1)
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
    what converts the rows of a frame. `sources` are the numbers of the rows that are read, in their order, and None
    where the kernel reads rows by number.
    """

    loop: NativeFunction
    fields: int
    place: Place
    source: int
    work: int
    rows: RowLoop | None
    sources: NDArray[np.int64] | None
    packed: ctypes.Array[ctypes.c_int64]
    kept: tuple[object, ...]

    def over_rows(self, rows: NDArray[np.int64]) -> Recipe:
        """The same for an image whose rows lie at these addresses: an entry's source is then the bytes into a row."""
        assert self.sources is not None, "the kernel reads rows that are listed"
        sources = rows[self.sources]
        packed = type(self.packed).from_buffer_copy(self.packed)
        packed[_ROW_STRIDE], packed[_SOURCES] = 1, sources.ctypes.data
        return replace(self, fields=ctypes.addressof(packed), packed=packed, kept=(self.kept, sources))


class Recipes:
    """The recipes of a problem's windows; cached, and some 40 KB each for 224 x 224."""

    def __init__(self, problem: ResizeProblem) -> None:
        self._problem = problem

    @cached_launches
    def of(self, window: ResizeWindow) -> Recipe | None:
        """The recipe of a window; None if NumPy resizes it."""
        choice = _choice(self._problem, window)
        return None if isinstance(choice, str) else self.prepared(window, *choice)

    @cached_launches
    def _bands(self, height: int, width: int, pitch: int, bands: Bands) -> tuple[dict[str, int], list[LoopCall]]:
        return _band_fields(self._problem, height, width, pitch, bands)

    def prepared(self, window: ResizeWindow, shape: RowShape, taps: FilterAxes | WindowTaps) -> Recipe:
        """Choose the kernel of a window's geometry and build its tables."""
        problem, place, surface = self._problem, self._problem.visible(window), window.surface
        level, itemsize, (height, width) = policy().native_level, problem.conversion.source.itemsize, place[2:]
        assert level is not None, "windows are prepared for the library"
        columns = _columns(shape, taps, window)
        rows, pixels = None if surface is None else row_loop(surface, columns), columns[1] - columns[0]
        kernel, read = kernel_of(problem, taps, shape, reads_frames=rows is not None)
        bands, planes = Bands.of(problem, kernel), 1 if kernel.joins_planes else read.planes
        tables = window_tables(problem.rule.interpolation, taps, kernel, columns, mirrored=read.mirrored)
        elements, unit = kernel.elements(columns), bands.unit(width, in_words=kernel.by_rows)
        pitch = rows.pitch if rows is not None else round_up(elements + ROWS, LINE_BYTES) if kernel.prepares else 0
        scratch = scratch_fields(kernel, elements, unit, planes, tables, pitch)
        moves, moved = self._bands(height, width, scratch["band_pitch"], bands)
        allocate, free = memory_functions()
        fields = {
            **_ZEROS,
            "allocate": allocate,
            "free": free,
            "row_stride": 0 if rows is not None else window.layout.strides[1] * itemsize,
            "planes": planes,
            "plane_stride": shape.plane_stride * itemsize,
            "elements": elements,
            "columns": width,
            "unit": unit,
            "target_row": problem.target.layout.strides[2] * problem.target.element.itemsize,
            "rows_kernel": 0 if rows is None else rows.loop.address,
            "rows_pitch": pitch,
            **scratch,
            **tables.fields,
            **moves,
            **resize_fields(level, kernel, bands, width, pixels, shape.plane_stride),
        }
        if kernel.prepares == "gathered":
            fields |= gathered_fields(shape, pixels)
        packed = (ctypes.c_int64 * len(GEOMETRY))(*_IN_ORDER(fields))
        start = (1 - columns[1] if shape.mirrored else columns[0]) * shape.step
        source = (window.layout.offset - window.layout.first_offset + start) * itemsize
        work, sources = taps.products * problem.channels, tables.sources if kernel.keeps_rows else None
        loop, kept = resize_loop(level, kernel), (tables, moved)
        return Recipe(loop, ctypes.addressof(packed), place, source, work, rows, sources, packed, kept)


_ZEROS: Final = dict.fromkeys(GEOMETRY, 0)


def memory_functions() -> tuple[int, int]:
    """The addresses of allocate and free functions that need no Python lock."""
    python = ctypes.pythonapi
    allocate, free = (
        ctypes.cast(function, ctypes.c_void_p).value for function in (python.PyMem_RawMalloc, python.PyMem_RawFree)
    )
    assert allocate is not None, "every Python has it"
    assert free is not None, "every Python has it"
    return allocate, free


# Windows


class _Entries:
    """The entries of a kernel, in memory for one call at a time; `work` is the number of their products."""

    __slots__ = ("_count", "_loop", "_start", "_words", "_work")

    def __init__(self, loop: NativeFunction, fields: Sequence[int], work: int) -> None:
        """Store the fields of all entries."""
        self._words = (ctypes.c_int64 * (1 + len(fields)))(0, *fields)
        self._start, self._count = ctypes.addressof(self._words) + 8, len(fields) // ENTRY_FIELDS
        self._loop, self._work = loop, work

    def run(self, source: int, target: int) -> None:
        """Run the kernel over the entries. Raises `DeviceError` if a thread could not allocate its scratch memory."""
        run_shared(self._loop, source, target, self._start, self._count, nbytes=self._work)
        if self._words[0]:
            raise DeviceError("The CPU has no memory left for the rows between the passes of a resize.")


_MOST_STEPS: Final = 64
"""Steps between images whose entries are kept for each batch; a limit of memory."""


class _Batch(NamedTuple):
    """The windows of a call with their recipes, and the one that all have which fill the target; None if they differ.

    `ready` are entries of that recipe that no call uses, by the step of images in one buffer and the threads.
    """

    windows: Sequence[ResizeWindow]
    recipes: Sequence[Recipe | None]
    uniform: Recipe | None
    ready: dict[tuple[int, int], list[_Entries]]


class _Windows:
    """A problem with the geometries of the windows seen so far."""

    def __init__(self, problem: ResizeProblem) -> None:
        """Store the problem; geometries are prepared on first use."""
        self._problem, self._recipes = problem, Recipes(problem)
        if problem.window is not None:
            self._recipes.of(problem.window)  # a launch that stays has counted what it keeps of the window
        self._borders = Borders(problem) if problem.fill else None
        self._latest = _Batch((), (), None, {})
        layout, itemsize = problem.target.layout, problem.target.element.itemsize
        sample, _, down, right = layout.strides
        self._steps = sample * itemsize, down * itemsize, right * itemsize
        self._base, self._size = (layout.offset - layout.first_offset) * itemsize, layout.sizes[2:]

    def __call__(self, windows: Sequence[ResizeWindow], sources: Sequence[ResizeSource], target: Located) -> None:
        """Write every window."""
        batch = self._latest
        if windows is not batch.windows:
            batch = self._batch(windows)
        if batch.uniform is not None and isinstance(sources, EvenlyLocated):
            self._run_uniform(batch, batch.uniform, sources, target)
        else:
            self._run(batch, sources, target)

    def _batch(self, windows: Sequence[ResizeWindow]) -> _Batch:
        """The recipes of windows. A plan's are a tuple, which later calls know without a hash of each window."""
        recipes = [self._recipes.of(window) for window in windows]
        first = recipes[0] if recipes else None
        fills = first is not None and first.place == (0, 0, *self._size)
        batch = _Batch(windows, recipes, first if fills and all(other is first for other in recipes) else None, {})
        if isinstance(windows, tuple):
            self._latest = batch
        return batch

    def _run_uniform(self, batch: _Batch, recipe: Recipe, sources: EvenlyLocated, target: Located) -> None:
        """Write windows of one recipe from images at even steps; their entries serve later calls."""
        buffer, start = target
        key = sources.step, get_num_threads()
        ready = batch.ready.get(key)
        if ready is None:
            if len(batch.ready) >= _MOST_STEPS:
                batch.ready.clear()
            ready = batch.ready[key] = []
        try:
            entries = ready.pop()
        except IndexError:
            pieces, fields = -(-_pieces() // sources.number), list[int]()
            for number in range(sources.number):
                begins = self._base + number * self._steps[0]
                fields += _entries(recipe.source + number * sources.step, begins, recipe, pieces)
            count_bytes(8 * len(fields))
            entries = _Entries(recipe.loop, fields, recipe.work * sources.number)
        entries.run(sources.buffer.address + sources.start, buffer.address + start)
        ready.append(entries)

    def _run(self, batch: _Batch, sources: Sequence[ResizeSource], target: Located) -> None:
        """Write windows from images anywhere; those that are left to NumPy come last."""
        (buffer, start), (sample, down, right) = target, self._steps
        first_pixel = buffer.address + start + self._base
        by_loop: dict[int, tuple[NativeFunction, list[int]]] = {}
        left: list[int] = []
        kept: list[object] = []
        work, pieces = sum(recipe.work for recipe in batch.recipes if recipe is not None), _pieces()
        for number, (recipe, located) in enumerate(zip(batch.recipes, sources, strict=True)):
            if recipe is None:
                left.append(number)
                continue
            top, first, height, width = place = recipe.place
            if self._borders is not None and (height, width) != self._size:
                self._borders(buffer.bytes[start:], number, place)
            begins, used = first_pixel + number * sample + top * down + first * right, recipe
            if isinstance(located, FrameOperand):
                assert recipe.rows is not None, "windows with a surface have frames"
                parameters = recipe.rows.parameters(located.planes)
                kept.append(parameters)
                source = ctypes.addressof(parameters)
            elif isinstance(located[0], RowBuffer) and not located[1] and recipe.sources is not None:
                used = recipe.over_rows(located[0].rows)
                kept.append(used)
                source = used.source
            else:
                memory, offset = located
                source = memory.address + offset + recipe.source
            _, fields = by_loop.setdefault(recipe.loop.address, (recipe.loop, []))
            fields += _entries(source, begins, used, -(-pieces * recipe.work // work))
        for loop, fields in by_loop.values():
            _Entries(loop, fields, work).run(0, 0)
        if left:
            resize_located(self._problem, batch.windows, sources, target, left)


def _entries(source: int, target: int, recipe: Recipe, pieces: int) -> list[int]:
    """The fields of a window's entries, in pieces of as many bands, one more or less, for threads to share.

    Each piece repeats the source rows around its first row.
    """
    height = recipe.place[2]
    if pieces == 1:
        return [source, target, recipe.fields, 0, height]
    bands = -(-height // BAND_ROWS)
    pieces = min(pieces, bands)
    rows = [*(-(-bands * piece // pieces) * BAND_ROWS for piece in range(pieces)), height]
    return [field for first, last in pairwise(rows) for field in (source, target, recipe.fields, first, last)]


def _pieces() -> int:
    """Parts of all work of a call for threads to share: a window has as many as its share of the work, rounded up."""
    threads = get_num_threads()
    return 1 if threads == 1 else policy().resize.pieces * threads
