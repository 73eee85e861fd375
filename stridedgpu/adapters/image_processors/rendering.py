"""Windows of images into one batch, by a processor's resize and arithmetic, and zeros around the windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.api.gather import gather
from stridedgpu.api.relayout import relayout
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.cpu.recycled_memory import RecycledMemory
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_named
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.operations.images import CropSources
from stridedgpu.operations.move import move_elements
from stridedgpu.operations.options import NO_MEMORY_OPTIONS, MemoryOptions
from stridedgpu.operations.relayout import relayout_operand
from stridedgpu.operations.resize import installed_passes
from stridedgpu.preprocess.geometry import Placement
from stridedgpu.preprocess.windows import write_placed
from stridedgpu.problems.resize_problem import ResizeRule
from stridedgpu.values.conversion import Conversion, conversion_options
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.interpolation import interpolation_named
from stridedgpu.values.layout import Layout

from .normalising import Backend, Normalising
from .sizes import MOST_PIXELS, Size

__all__ = ["Renderer", "resize_rule"]

_INT64: Final = ELEMENT_TYPES["int64"]
_RGBA: Final = 4
_WEIGHED: Final = {f"pillow-{name}" for name in ("box", "bilinear", "hamming", "bicubic", "lanczos")}
"""The interpolations by which Pillow weighs the colours of mode RGBA by alpha."""

_BATCH: Final = ("N", "C", "H", "W")

_INTERPOLATIONS: Final[dict[Backend, dict[int, str]]] = {
    "torchvision": {1: "torch-lanczos", 2: "torch-bilinear", 3: "torch-bicubic"},
    "pil": {
        0: "pillow-nearest",
        1: "pillow-lanczos",
        2: "pillow-bilinear",
        3: "pillow-bicubic",
        4: "pillow-box",
        5: "pillow-hamming",
    },
}
"""The interpolations by the numbers of PIL.Image.Resampling."""

_TORCHVISION_NAMES: Final = {"nearest-exact": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
"""The numbers of torchvision's InterpolationMode."""


def resize_rule(resample: Any, backend: Backend, *, floats: bool = False) -> ResizeRule:
    """The resize that `resample` names: a number as in PIL.Image.Resampling, or a mode of torchvision.

    Raises `LayoutError` for one that is not reproduced, as torch's Lanczos of `floats`.
    """
    value = getattr(resample, "value", resample)
    number = _TORCHVISION_NAMES.get(value) if isinstance(value, str) else value
    named = _INTERPOLATIONS[backend].get(number) if isinstance(number, int) else None
    if named is None or (floats and named == "torch-lanczos"):
        known = "2 or 3" if floats else "1, 2 or 3" if backend == "torchvision" else "0 to 5"
        raise LayoutError(
            f"resample={resample!r} is not reproduced for backend={backend!r}; it is {known}, as PIL.Image.Resampling "
            "has them."
        )
    interpolation = interpolation_named(named)
    return ResizeRule(interpolation, installed_passes() if interpolation.is_pillow else "horizontal")


@dataclass(frozen=True)
class Renderer:
    """What turns images into windows: the resize (None: pixels keep their size), the arithmetic, and the device.

    Results on the CPU lie in `memory`, which uses that of released results again. `colour` has the bytes around an
    image inside its window; None is zeros.
    """

    rule: ResizeRule | None
    how: Normalising
    device: str
    memory: RecycledMemory
    colour: tuple[int, ...] | None = None

    @cached_property
    def plain(self) -> Renderer:
        """The same without arithmetic: bytes, with zeros around images."""
        return replace(self, how=Normalising(self.how.backend), colour=None)

    def batch(
        self, images: Sequence[Operand] | CropSources, placements: Sequence[Placement], extent: Size
    ) -> StridedTensor:
        """One window of each image, axes N, C, H, W of `extent`; around windows that are smaller are zeros."""
        sources = images if isinstance(images, CropSources) else CropSources.of_images(images)
        batch = self._empty((len(placements), sources.channels, *extent), self.target)
        self.write(sources, placements, batch)
        return StridedTensor.over(batch, "NCHW")

    def write(self, sources: CropSources, placements: Sequence[Placement], batch: Operand) -> None:
        """One window of each image into a new `batch` of the result's type, axes N, C, H, W, as `batch` gives it."""
        channels, how, rule = sources.channels, self.how, self.rule
        written = self.written(channels)
        if how.first is not None:
            self._write_floats(sources.images(), placements, written, batch)
            _clear_around(batch, placements)
            return
        if rule is not None and channels == _RGBA and rule.interpolation.name in _WEIGHED:
            rule = replace(rule, premultiplies=True)
        # Around windows that images cover, zeros of the result come behind the arithmetic.
        fill = b"" if all(placed.covers for placed in placements) else bytes(self.colour or channels)
        if len(fill) not in (0, channels):
            raise LayoutError(f"An image has {channels} channels, and the colour around it {len(fill)}.")
        is_final = written.target is self.target
        windows = batch if is_final else self._empty(batch.layout.sizes, written.target)
        write_placed(sources, placements, rule, written, fill, windows)
        if not is_final:
            table, places = _table_on(how, channels, self.device), StridedTensor.over(windows)
            gather(table, places, mode="clip", out=StridedTensor.over(batch))
        _clear_around(batch, placements)

    def _write_floats(
        self, images: Sequence[Operand], placements: Sequence[Placement], written: Conversion, batch: Operand
    ) -> None:
        """Windows of bytes that become floats before they are resized, with one image of floats at a time."""
        options = conversion_options(dtype=written.source, scale=self.how.first)
        fill = bytes(written.source.itemsize * images[0].layout.sizes[0])
        for row, (image, placed) in enumerate(zip(images, placements, strict=True)):
            if self.rule is not None and placed.place[3] == 1 and placed.place[2] != placed.source[0]:
                raise LayoutError(
                    f"An image of {placed.source[0]} x {placed.source[1]} pixels becomes {placed.place[2]} x 1, and "
                    "torch resizes floats to one column with a defect: ask for two columns at least."
                )
            floats, _ = relayout_operand(image, "CHW", options, MemoryOptions(device=self.device), None, None)
            window = batch.with_layout(batch.layout.sliced(slice(row, row + 1)))
            write_placed(CropSources.of_images([floats]), [placed], self.rule, written, fill, window)

    @cached_property
    def target(self) -> ElementType:
        """The type of the result."""
        return self.how.target

    @cached_property
    def written(self) -> Callable[[int], Conversion]:
        """The conversion in the pass over the pixels, by the channels; it has another target than a table's values."""
        how = self.how
        return lru_cache(maxsize=8)(lambda channels: how.conversion(channels) or how.places(channels))

    def zeros(self, sizes: tuple[int, ...]) -> StridedTensor:
        """Zeros of the result's type."""
        result = self.allocated(sizes)
        result[...] = 0
        return result

    def allocated(self, sizes: tuple[int, ...]) -> StridedTensor:
        """New memory of the result's type."""
        return StridedTensor.over(self._empty(sizes, self.target))

    def masks(self, windows: Sequence[Size], extent: Size) -> NDArray[np.int64]:
        """1 where each window is, and 0 around it; on the CPU."""
        spec = NO_MEMORY_OPTIONS.allocation((len(windows), *extent), ("N", "H", "W"), _INT64)
        masks: NDArray[np.int64] = array_of_operand(spec.allocate(self.memory))
        for mask, (height, width) in zip(masks, windows, strict=True):
            mask[:height, :width] = 1
            mask[height:] = 0
            mask[:height, width:] = 0
        return masks

    def rows(self, sizes: tuple[int, ...], channels: int) -> StridedTensor:
        """New memory for `rearranged`, whose result `finished` gives."""
        return StridedTensor.over(self._empty(sizes, self.written(channels).target))

    def rearranged(self, pixels: Operand, opened: Layout, rows: StridedTensor, places: Layout, axis: int) -> None:
        """Bytes seen with the axes of `opened`, by the arithmetic, into rows seen with those of `places`.

        `axis` is that of the channels.
        """
        written = self.written(opened.sizes[axis])
        move_elements(pixels.with_layout(opened), rows.operand.with_layout(places), written, axis)

    def finished(self, rows: StridedTensor, channels: int) -> StridedTensor:
        """Rows that were written: themselves, or what the table has at the places that they hold."""
        if rows.element is self.target:
            return rows
        result = StridedTensor.over(self._empty(rows.sizes, self.target))
        return gather(_table_on(self.how, channels, self.device), rows, mode="clip", out=result)

    def _empty(self, sizes: tuple[int, ...], element: ElementType) -> Operand:
        if len(sizes) >= len(_BATCH) and sizes[-2] * sizes[-1] > MOST_PIXELS:
            raise LayoutError(
                f"Images of {sizes[-2]} x {sizes[-1]} pixels are asked for; each has {MOST_PIXELS} at most: give a "
                "smaller crop_size, pad_size or size_divisor."
            )
        labels = _BATCH if len(sizes) == len(_BATCH) else (None,) * len(sizes)
        spec = NO_MEMORY_OPTIONS.allocation(sizes, labels, element)
        return spec.allocate(self.memory if self.device == "cpu" else device_named(self.device))


def _clear_around(batch: Operand, placements: Sequence[Placement]) -> None:
    """Zeros below and to the right of windows that are smaller than the batch's."""
    extent = batch.layout.sizes[2:]
    for row, placed in enumerate(placements):
        if placed.size != extent:
            (height, width), whole = placed.size, StridedTensor.over(batch)
            for part in (whole[row, :, height:, :], whole[row, :, :height, width:]):
                if 0 not in part.sizes:
                    part[...] = 0


@lru_cache(maxsize=64)
def _table_on(how: Normalising, channels: int, device: str) -> StridedTensor:
    """The table's rows, one behind the other, on a device."""
    return relayout(how.table(channels).reshape(-1), dtype=how.target.name).to_device(device)
