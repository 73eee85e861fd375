"""Crops by compiled loops: the windows of a batch become one list of relayouts, which all threads share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.interface import DirectCrops, EvenlyLocated, Located, addresses_of
from stridedgpu.planning.crop_windows import Crop, CropProblem, Crops, Rectangle, are_alike
from stridedgpu.values.layout import Layout

from .conversion import can_compile
from .crop_batch import ENTRY_FIELDS, batch_text
from .crop_moves import BatchMoves, run_entries
from .crop_recipes import CropRecipes, Kind
from .crop_walks import band_of, band_rows
from .jit import CompiledFunction, compiled
from .relayout import kernel_of

__all__ = ["compiled_crops", "crops_kernel"]


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
    band = band_of(problem, crop, Rectangle(slice(0, height), slice(0, width), (0, 0)), band_rows(problem))
    inner = kernel_of(band.problem, (band.walk,))
    return CpuKernel(
        f"crops_{inner.name}",
        f"a list of windows in bands of {band_rows(problem)} rows, each by {inner.words}",
        inner.load,
        inner.store,
        items=problem.target.layout.sizes[0],
        shared_bytes=policy().crops.shared_bytes,
        walks=inner.walks,
    )


def compiled_crops(plan: CpuPlan) -> Callable[[Crops, Sequence[Located], Located], DirectCrops | None] | None:
    """Compile a plan's loops; None where the plan has none."""
    return None if plan.compiled is None else _Crops(plan.problem, compiled(batch_text))


class _Crops:
    """A prepared plan: makes the list of entries, and runs the loop over it."""

    def __init__(self, problem: CropProblem, loop: CompiledFunction) -> None:
        """Store the problem; recipes are planned on first use."""
        self._problem, self._loop, self._nbytes = problem, loop, problem.bytes_moved
        self._batches: dict[tuple[Layout, int], BatchMoves] = {}
        self._recipes = CropRecipes(problem)
        self._pitch = problem.target.layout.strides[0] * problem.conversion.target.itemsize

    def __call__(self, crops: Crops, sources: Sequence[Located], target: Located) -> DirectCrops | None:
        """Write every window."""
        (buffer, first), layouts = target, crops.layouts
        place = buffer.address + first
        if isinstance(sources, EvenlyLocated) and True not in crops.flips:
            direct = self._of_batch(layouts[0], sources.step)
            if direct(sources.buffer.address + sources.start, place, crops.origins):
                return direct
        if len(layouts) >= policy().crops.least_alike and are_alike(layouts):
            entries, _kept = self._of_alike(layouts[0], crops, sources, place)
        else:
            entries, _kept = self._of_each(crops, sources, place)
        # Kinds are kept until the loop is done: another thread may forget them meanwhile.
        if len(entries):
            run_entries(self._loop, entries, self._nbytes)
        return None

    def _of_batch(self, image: Layout, step: int) -> BatchMoves:
        """The moves of batches of such images, which are `step` bytes apart."""
        key = image, step
        try:
            return self._batches[key]
        except KeyError:
            if len(self._batches) >= policy().crops.most_batches:
                self._batches.clear()
            made = self._batches[key] = BatchMoves(self._problem, self._recipes, self._loop, image, step)
            return made

    def _of_each(self, crops: Crops, sources: Sequence[Located], place: int) -> tuple[NDArray[np.int64], list[Kind]]:
        """The entries of windows of any sources, one by one, and their kinds."""
        itemsize, kind_of = self._recipes.itemsize, self._recipes.kind
        fields: list[int] = []
        kinds = []
        for crop, (buffer, start) in zip(crops, sources, strict=True):
            (_, down, right), (y, x) = crop.layout.strides, crop.origin
            pixel = buffer.address + start + (crop.layout.offset + y * down + x * right) * itemsize
            kind = kind_of(crop)
            for is_fill, read, written, band, rows, bands in kind.parts:
                fields += (read if is_fill else pixel + read, place + written, band, rows, 0, bands)
            kinds.append(kind)
            place += self._pitch
        return np.array(fields, np.int64).reshape(-1, ENTRY_FIELDS), kinds

    def _of_alike(
        self, layout: Layout, crops: Crops, sources: Sequence[Located], place: int
    ) -> tuple[NDArray[np.int64], list[Kind]]:
        """The entries of windows of sources with one layout, all at once, and their kinds."""
        kinds, which = self._recipes.kinds(layout, crops)
        (_, down, right), itemsize, count = layout.strides, self._recipes.itemsize, len(crops)
        pixels = crops.origins @ np.array((down * itemsize, right * itemsize))
        pixels += addresses_of(sources) + layout.offset * itemsize
        windows = np.arange(count) * self._pitch + place
        entries = np.empty((count, max(len(kind.parts) for kind in kinds), ENTRY_FIELDS), np.int64)
        if which is None:
            (kind,) = kinds
            entries[...], moves = kind.entries, kind.moves
        else:
            joined = np.zeros((len(kinds), *entries.shape[1:]), np.int64)
            moving = np.zeros(joined.shape[:2], np.int64)
            for number, kind in enumerate(kinds):
                joined[number, : len(kind.parts)], moving[number, : len(kind.parts)] = kind.entries, kind.moves
            entries[...], moves = joined[which], moving[which]
        entries[:, :, 0] += moves * pixels[:, np.newaxis]
        entries[:, :, 1] += windows[:, np.newaxis]
        return (entries.reshape(-1, ENTRY_FIELDS) if which is None else entries[entries[:, :, -1] > 0]), kinds
