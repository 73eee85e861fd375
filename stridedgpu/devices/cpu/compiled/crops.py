"""Crops by compiled loops: the windows of a batch become one list of relayouts, which all threads share."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.interface import Located
from stridedgpu.planning.crop_windows import Crop, CropProblem, Crops, Rectangle, rectangles
from stridedgpu.planning.relayout_problem import Problem, relayout_problem
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .conversion import can_compile
from .crop_batch import ENTRY_FIELDS, Band, batch_text
from .ir import LINE_BYTES
from .jit import Loop, compiled
from .relayout import kernel_of, walk_of
from .relayout_walk import Walk
from .worker_pool import run_shared

__all__ = ["compiled_crops", "crops_kernel"]


@dataclass(frozen=True, slots=True)
class _Recipe:
    """How rectangles of one kind are moved; both offsets are in bytes, from the rectangle's first pixel on that side.

    On the target side this pixel is in row 0 of the batch's first sample, relative to the batch's lowest element, and
    `pitch` is the distance between rows in bytes. `band` is the address of a `Band`.
    """

    height: int
    pitch: int
    source_offset: int
    target_offset: int
    band: int
    kept: tuple[object, ...]


def crops_kernel(problem: CropProblem) -> CpuKernel | None:
    """The compiled loops of windows inside their sources; None if the conversion is left to NumPy.

    With a matrix each rectangle has a launch of its own, by the compiled loops that mix channels.

    Parts outside a source, and sources with another row pitch, may run other loops.
    """
    if not can_compile(problem.conversion) or problem.is_empty or problem.conversion.matrix is not None:
        return None
    channel, column = problem.source_steps
    _, _, height, width = problem.target.layout.sizes
    # Windows are parts of larger images, so their rows lie apart.
    strides = (channel or 1, 2 * width * (abs(column) or 1), column or 1)
    crop = Crop(Layout((problem.source_channels, height, width), strides), (0, 0))
    band = _band_of(problem, crop, Rectangle(slice(0, height), slice(0, width), (0, 0)), _band_rows(problem))
    inner = kernel_of(band.problem, (band.walk,))
    return CpuKernel(
        f"crops_{inner.name}",
        f"a list of windows in bands of {_band_rows(problem)} rows, each by {inner.words}",
        inner.load,
        inner.store,
        items=problem.target.layout.sizes[0],
        shared_bytes=policy().crops.shared_bytes,
        walks=inner.walks,
    )


def compiled_crops(plan: CpuPlan) -> Callable[[Crops, Sequence[Located], Located], None] | None:
    """Compile a plan's loops; None where the plan has none, or this processor cannot run them."""
    loop = None if plan.compiled is None else compiled(batch_text)
    return None if loop is None else _Crops(plan.problem, loop)


def _band_rows(problem: CropProblem) -> int:
    """Rows of one band."""
    return max(1, policy().crops.band_bytes // (len(problem.fill) * problem.target.layout.sizes[3]))


@dataclass(frozen=True, slots=True)
class _Rows:
    """A band of a rectangle as a relayout: its walk, and both layouts from the lowest element on."""

    problem: Problem
    source: Layout
    target: Layout
    walk: Walk


def _band_of(problem: CropProblem, crop: Crop, part: Rectangle, height: int) -> _Rows:
    """The first `height` rows of a rectangle."""
    conversion, whole = problem.conversion, slice(None)
    window = problem.target.layout.sliced(0)
    if crop.flip:
        window = window.sliced((whole, whole, slice(None, None, -1)))
    target = window.sliced((whole, slice(0, height), part.columns))
    sizes = (crop.layout.sizes[0], *target.sizes[1:])
    source = Layout(sizes, (1, 0, 0) if part.source is None else crop.layout.strides)
    read = TensorSpec(source.shifted(-source.first_offset), conversion.source, 1)
    written = TensorSpec(target.shifted(-target.first_offset), conversion.target, 1)
    rows = relayout_problem(read, written, conversion, 0)
    walk = walk_of(rows)
    assert walk is not None, "the conversion can be compiled, and no rectangle is empty"
    return _Rows(rows, source, target, walk)


class _Crops:
    """A prepared plan, with the recipes of the rectangle kinds seen so far."""

    def __init__(self, problem: CropProblem, loop: Loop) -> None:
        """Store the problem; recipes are planned on first use."""
        self._problem = problem
        self._loop = loop
        self._fill = Buffer.of(problem.fill)
        self._recipes: dict[tuple[object, ...], _Recipe] = {}
        self._itemsize = problem.conversion.source.itemsize
        self._pitch = problem.target.layout.strides[0] * problem.conversion.target.itemsize
        _, _, height, width = problem.target.layout.sizes
        self._size = height, width
        self._wholes: dict[tuple[tuple[int, ...], bool], _Recipe] = {}
        self._band_rows = _band_rows(problem)
        self._bytes_moved = problem.bytes_moved

    def __call__(self, crops: Crops, sources: Sequence[Located], target: Located) -> None:
        """Write every window."""
        entries: list[_Entry] = []
        (rows, columns), itemsize, pitch, wholes = self._size, self._itemsize, self._pitch, self._wholes
        batch, first = target
        place = batch.address + first
        for crop, (buffer, start) in zip(crops, sources, strict=True):
            layout, (y, x), flip = crop
            _, height, width = layout.sizes
            origin = buffer.address + start
            if 0 <= y <= height - rows and 0 <= x <= width - columns:  # most windows are inside their source
                recipe = wholes.get((layout.strides, flip)) or self._whole(crop)
                _, down, right = layout.strides
                reads = origin + (layout.offset + y * down + x * right) * itemsize + recipe.source_offset
                entries.append((reads, place + recipe.target_offset, rows, recipe))
            else:
                entries += self._parts(crop, origin, place)
            place += pitch
        if entries:
            _run(self._loop, entries, self._bytes_moved)

    def _whole(self, crop: Crop) -> _Recipe:
        """The recipe of a window inside its source, cached for windows of the same kind."""
        if len(self._wholes) >= policy().crops.most_recipes:
            self._wholes.clear()
        rows, columns = self._size
        recipe = self._recipe(crop, Rectangle(slice(0, rows), slice(0, columns), (0, 0)))
        self._wholes[crop.layout.strides, crop.flip] = recipe
        return recipe

    def _parts(self, crop: Crop, origin: int, place: int) -> Iterator[_Entry]:
        """The rectangles of a window that crosses an edge; `origin` is the source's address, `place` the window's."""
        _, down, right = crop.layout.strides
        for part in rectangles(crop, self._size):
            recipe = self._recipe(crop, part)
            if part.source is None:
                reads = self._fill.address
            else:
                y, x = part.source
                reads = origin + (crop.layout.offset + y * down + x * right) * self._itemsize
            writes = place + recipe.target_offset + part.rows.start * recipe.pitch
            yield reads + recipe.source_offset, writes, part.rows.stop - part.rows.start, recipe

    def _recipe(self, crop: Crop, part: Rectangle) -> _Recipe:
        """The recipe of a rectangle, cached by kind."""
        height = min(part.rows.stop - part.rows.start, self._band_rows)
        strides = None if part.source is None else crop.layout.strides
        key = (strides, crop.flip, height, part.columns.start, part.columns.stop)
        if key not in self._recipes:
            if len(self._recipes) >= policy().crops.most_recipes:
                self._recipes.clear()
            self._recipes[key] = self._made(crop, part, height)
        return self._recipes[key]

    def _made(self, crop: Crop, part: Rectangle, height: int) -> _Recipe:
        """Plan the recipe of a rectangle that is moved in bands of `height` rows."""
        conversion, rows = self._problem.conversion, _band_of(self._problem, crop, part, height)
        walk, source_layout, target_layout = rows.walk, rows.source, rows.target
        loop = compiled(walk.kernel.text)
        assert loop is not None, "the loop over entries was compiled here"
        itemsize = conversion.source.itemsize
        lowest = source_layout.first_offset * itemsize
        parameters = walk.packed()
        band = Band(
            loop.address,
            parameters.address,
            walk.items,
            height,
            source_layout.strides[1] * itemsize,
            target_layout.strides[1] * conversion.target.itemsize,
            -walk.source_offset - min(0, (height - 1) * source_layout.strides[1] * itemsize),
            *_runs_of_row(source_layout, itemsize),
        )
        fields = (ctypes.c_int64 * len(astuple(band)))(*astuple(band))
        return _Recipe(
            height,
            band.target_stride,
            lowest + walk.source_offset,
            target_layout.first_offset * conversion.target.itemsize + walk.target_offset,
            ctypes.addressof(fields),
            (parameters, loop, fields),
        )


_Entry = tuple[int, int, int, _Recipe]
"""Source and target address of a rectangle, its rows, and its recipe."""


def _runs_of_row(layout: Layout, itemsize: int) -> tuple[int, int, int]:
    """The runs of one source row (axes C, H, W) that are prefetched: number, distance in bytes, cache lines of each."""
    (channels, _, width), (across, _, right) = layout.sizes, layout.strides
    if not across or not right:
        return 0, 0, 0
    if abs(across) < abs(right):
        reach = (width - 1) * abs(right) + channels * abs(across)
        return 1, 0, reach * itemsize // LINE_BYTES + 1
    return channels, abs(across) * itemsize, (width * abs(right)) * itemsize // LINE_BYTES + 1


def _run(loop: Loop, entries: Sequence[_Entry], nbytes: int) -> None:
    """Run a kernel over a list of entries; the caller keeps the memory that the entries point to alive."""
    alone = nbytes < policy().crops.shared_bytes
    pieces = 1 if alone else -(-policy().crops.least_entries // len(entries))
    fields: list[int] = []
    for reads, writes, rows, recipe in entries:
        bands = -(-rows // recipe.height)
        if pieces == 1:
            fields += (reads, writes, recipe.band, rows, 0, bands)
            continue
        step = -(-bands // pieces)
        for first in range(0, bands, step):
            fields += (reads, writes, recipe.band, rows, first, min(first + step, bands))
    table = (ctypes.c_int64 * len(fields))(*fields)
    place, count = ctypes.addressof(table), len(fields) // ENTRY_FIELDS
    if alone:
        loop.alone(0, 0, place, 0, count)
    else:
        run_shared(loop, 0, 0, place, count, nbytes=nbytes)
