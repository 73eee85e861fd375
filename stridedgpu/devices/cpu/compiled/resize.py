"""Resize by compiled loops: windows become one list of row bands, which all threads share."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from stridedgpu.devices.cpu.native.calls import CompiledFunction
from stridedgpu.devices.cpu.native.elements import can_convert
from stridedgpu.devices.cpu.native.pool import run_shared
from stridedgpu.devices.cpu.numpy_loops.resize import Borders, resize_located
from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.thread_count import get_num_threads
from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.interface import EvenlyLocated, Located, ResizeSource
from stridedgpu.devices.row_buffer import RowBuffer
from stridedgpu.problems.device_plan import Width
from stridedgpu.problems.resize_problem import ResizeProblem, ResizeWindow
from stridedgpu.values.errors import DeviceError

from .resize_kernel import BAND_ROWS, ENTRY_FIELDS, ROWS
from .resize_recipes import Recipe, Recipes, is_native, why_numpy

__all__ = ["compiled_resize", "resize_kernel"]

_BY_ROWS: Final = ("linear", "area")
"""Samplings whose first pass may be one of `resize_rows`: the processor and the windows decide."""

_LANES: Final = 16
"""Bytes of one load and one store of compiled loops: a byte of each of 16 rows, or as many of one."""

ResizeMove = Callable[[Sequence[ResizeWindow], Sequence[ResizeSource], Located], None]
"""What resizes all of them."""


def resize_kernel(problem: ResizeProblem) -> CpuKernel | str | None:
    """The compiled loops of a problem; None, or the reason, where it is left to NumPy.

    Where windows come with every call, those that have no compiled loops are left to NumPy one by one.
    """
    conversion, (count, _, height, _) = problem.conversion, problem.target.layout.sizes
    why = None if problem.window is None else why_numpy(problem, problem.window)
    if why is not None or not can_convert(conversion):
        return why
    rows = f"{ROWS} source rows a vector"
    if problem.rule.interpolation.sampling in _BY_ROWS and conversion.source.name == "uint8":
        rows = f"source rows one by one where pixels lie close, else {ROWS} a vector"
    return CpuKernel(
        f"resize_compiled_{problem.rule.interpolation}_{conversion.source}_{conversion.target}",
        f"compiled loops: {rows}, bands of {BAND_ROWS} rows of the result are converted in the cache",
        Width(_LANES),
        Width(_LANES),
        items=count * -(-height // BAND_ROWS),
        shared_bytes=0,
        is_native=is_native(problem),
    )


def compiled_resize(plan: CpuPlan[ResizeProblem]) -> ResizeMove | None:
    """A plan's windows by compiled loops, the others by NumPy; None where no loop converts its elements."""
    return _Windows(plan.problem) if can_convert(plan.problem.conversion) else None


class _Entries:
    """The entries of a kernel, in memory for one call at a time; `work` is the number of their products."""

    __slots__ = ("_count", "_loop", "_start", "_words", "_work")

    def __init__(self, loop: CompiledFunction, fields: Sequence[int], work: int) -> None:
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
            entries = _Entries(recipe.loop, fields, recipe.work * sources.number)
        entries.run(sources.buffer.address + sources.start, buffer.address + start)
        ready.append(entries)

    def _run(self, batch: _Batch, sources: Sequence[ResizeSource], target: Located) -> None:
        """Write windows from images anywhere; those that are left to NumPy come last."""
        (buffer, start), (sample, down, right) = target, self._steps
        first_pixel = buffer.address + start + self._base
        by_loop: dict[int, tuple[CompiledFunction, list[int]]] = {}
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
