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
from stridedgpu.planning.crop_windows import Crop, CropProblem, Crops, Rectangle, overhang, rectangles
from stridedgpu.values.layout import Layout

from .crop_batch import ENTRY_FIELDS, Band
from .crop_walks import band_of, band_rows, bordered_walk
from .ir import LINE_BYTES
from .jit import compiled
from .kernel_call import KernelCall

__all__ = ["CropRecipes", "Kind"]


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
        else:
            key = layout.strides, flip, overhang(crop, self._size)
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
        """Plan the rectangles of a kind, of which this is a window: one, if a kernel writes its rows with a border."""
        bordered = bordered_walk(self._problem, crop) if any(overhang(crop, self._size)) else None
        if bordered is not None:
            return _one_part(*bordered)
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


def _one_part(walk: KernelCall, memory: Buffer) -> Kind:
    """A kind of windows that one walk writes, as one band of one row."""
    loop, parameters = compiled(walk.kernel.text), walk.packed()
    band = Band(loop.address, parameters.address, walk.items, height=1)
    fields = (ctypes.c_int64 * len(astuple(band)))(*astuple(band))
    offsets = walk.source_offset, walk.target_offset
    part = Part(is_fill=False, source=offsets[0], target=offsets[1], band=ctypes.addressof(fields), rows=1, bands=1)
    return Kind((part,), ((parameters, loop, fields, memory),))


def _runs_of_row(layout: Layout, itemsize: int) -> tuple[int, int, int]:
    """The runs of one source row (axes C, H, W) that are prefetched: number, distance in bytes, cache lines of each."""
    (channels, _, width), (across, _, right) = layout.sizes, layout.strides
    if not across or not right:
        return 0, 0, 0
    if abs(across) < abs(right):
        reach = (width - 1) * abs(right) + channels * abs(across)
        return 1, 0, reach * itemsize // LINE_BYTES + 1
    return channels, abs(across) * itemsize, (width * abs(right)) * itemsize // LINE_BYTES + 1
