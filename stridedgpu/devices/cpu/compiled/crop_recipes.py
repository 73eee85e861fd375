"""How windows are moved: the rectangles of each kind of window, and the kernel and parameters that move each of them.

A kind is what windows have in common that overlap their sources alike: all that lie inside are of one kind, and those
of one image that reach over the same edges by the same number of pixels. Only addresses differ within a kind.

    kind    fill  fill  fill      a row for each rectangle: offsets, band, rows, bands
            fill  image fill
"""

from __future__ import annotations

import ctypes
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.crop_windows import Crop, CropProblem, Crops, Rectangle, rectangles
from stridedgpu.planning.relayout_problem import Problem, relayout_problem
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .crop_batch import ENTRY_FIELDS, Band
from .ir import LINE_BYTES
from .jit import compiled
from .relayout import walk_of
from .relayout_walk import Walk

__all__ = ["CropRecipes", "Kind", "band_of", "band_rows"]


class Part(NamedTuple):
    """A rectangle of a window, with offsets in bytes.

    `source` is relative to the image's pixel at the window's origin, which may lie outside the image; for the fill
    (`is_fill`) it is an address. `target` is relative to the window's place in the batch. `band` is the address of a
    `Band`, of which there are `bands` in `rows` rows.
    """

    is_fill: bool
    source: int
    target: int
    band: int
    rows: int
    bands: int


class Kind:
    """The rectangles of windows of one kind. `recipes` are kept alive: parts refer to their memory."""

    def __init__(self, parts: tuple[Part, ...], recipes: tuple[object, ...]) -> None:
        """Store them."""
        self.parts = parts
        self._recipes = recipes

    @cached_property
    def entries(self) -> NDArray[np.int64]:
        """The parts as entries, without the addresses of an image and of a batch."""
        rows = [(read, written, band, rows, 0, bands) for _, read, written, band, rows, bands in self.parts]
        return np.array(rows, np.int64).reshape(-1, ENTRY_FIELDS)

    @cached_property
    def moves(self) -> NDArray[np.int64]:
        """1 for each part that is read from an image, 0 for each other."""
        return np.array([not part.is_fill for part in self.parts], np.int64)


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


def band_rows(problem: CropProblem) -> int:
    """Rows of one band."""
    return max(1, policy().crops.band_bytes // (len(problem.fill) * problem.target.layout.sizes[3]))


@dataclass(frozen=True, slots=True)
class _Rows:
    """A band of a rectangle as a relayout: its walk, and both layouts from the lowest element on."""

    problem: Problem
    source: Layout
    target: Layout
    walk: Walk


def band_of(problem: CropProblem, crop: Crop, part: Rectangle, height: int) -> _Rows:
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


class CropRecipes:
    """The kinds of windows of one problem that were seen so far; each is planned on first use."""

    def __init__(self, problem: CropProblem) -> None:
        """Store the problem."""
        self._problem = problem
        self._fill = Buffer.of(problem.fill)
        self._recipes: dict[tuple[object, ...], _Recipe] = {}
        self._kinds: dict[tuple[object, ...], Kind] = {}
        self._band_rows = band_rows(problem)
        _, _, height, width = problem.target.layout.sizes
        self._size = height, width
        self.itemsize = problem.conversion.source.itemsize

    def kind(self, crop: Crop) -> Kind:
        """The kind of a window."""
        layout, (y, x), flip = crop
        (rows, columns), (_, height, width) = self._size, layout.sizes
        if 0 <= y <= height - rows and 0 <= x <= width - columns:  # most windows are inside their source
            key: tuple[object, ...] = layout.strides, flip
        else:  # the rows and columns beyond each edge, as many as a window has at most
            above, below = min(max(-y, 0), rows), min(max(y + rows - height, 0), rows)
            before, behind = min(max(-x, 0), columns), min(max(x + columns - width, 0), columns)
            key = layout.strides, flip, above, below, before, behind
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._made_kind(crop)
            if len(self._kinds) >= policy().crops.most_recipes:
                self._kinds.clear()
            self._kinds[key] = kind
        return kind

    def kinds(self, layout: Layout, crops: Crops) -> tuple[list[Kind], NDArray[np.intp] | None]:
        """The kinds of windows whose sources have one layout, and each window's; None if there is one kind.

        Origins beyond an edge by the window's size or more are all alike, as are all inside.
        """
        (rows, columns), (_, height, width), origins = self._size, layout.sizes, crops.origins
        rooms = np.array((height - rows, width - columns))
        is_inside = height >= rows and width >= columns
        is_inside = is_inside and bool((origins.view(np.uint64) <= rooms.view(np.uint64)).all())
        if is_inside and True not in crops.flips:
            return [self.kind(Crop(layout, (0, 0)))], None
        codes = np.array(crops.flips, np.int64)
        y = x = 0
        if not is_inside:
            near = np.minimum(np.maximum(origins, (-rows, -columns)), (height, width))
            near[(near >= 0) & (near <= rooms)] = 0
            # From -size to size: those behind the last one inside are counted from there.
            steps = near - np.maximum(rooms, 0) * (near > rooms)
            codes += 2 * ((steps[:, 0] + rows) * (2 * columns + 1) + steps[:, 1] + columns)
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
        found = []
        for number in first.tolist():
            if not is_inside:
                y, x = near[number].tolist()
            found.append(self.kind(Crop(layout, (y, x), crops.flips[number])))
        return found, which if len(found) > 1 else None

    def _made_kind(self, crop: Crop) -> Kind:
        """Plan the rectangles of a kind, of which this is a window."""
        (y, x), (_, down, right) = crop.origin, crop.layout.strides
        parts, recipes = [], []
        for part in rectangles(crop, self._size):
            recipe, rows = self._recipe(crop, part), part.rows.stop - part.rows.start
            reads = self._fill.address
            if part.source is not None:
                reads = ((part.source[0] - y) * down + (part.source[1] - x) * right) * self.itemsize
            writes = recipe.target_offset + part.rows.start * recipe.pitch
            bands, is_fill = -(-rows // recipe.height), part.source is None
            parts.append(Part(is_fill, reads + recipe.source_offset, writes, recipe.band, rows, bands))
            recipes.append(recipe)
        return Kind(tuple(parts), tuple(recipes))

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
        conversion, rows = self._problem.conversion, band_of(self._problem, crop, part, height)
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


def _runs_of_row(layout: Layout, itemsize: int) -> tuple[int, int, int]:
    """The runs of one source row (axes C, H, W) that are prefetched: number, distance in bytes, cache lines of each."""
    (channels, _, width), (across, _, right) = layout.sizes, layout.strides
    if not across or not right:
        return 0, 0, 0
    if abs(across) < abs(right):
        reach = (width - 1) * abs(right) + channels * abs(across)
        return 1, 0, reach * itemsize // LINE_BYTES + 1
    return channels, abs(across) * itemsize, (width * abs(right)) * itemsize // LINE_BYTES + 1
