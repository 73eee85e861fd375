"""Windows of images into one batch, by a processor's resize and arithmetic, and zeros around the windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.cpu.recycled_memory import RecycledMemory
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_named
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.operations.images import CropSources
from stridedgpu.operations.move import move_elements
from stridedgpu.operations.options import MemoryOptions
from stridedgpu.operations.resize import installed_passes
from stridedgpu.preprocess.geometry import Placement
from stridedgpu.preprocess.windows import write_placed
from stridedgpu.problems.resize_problem import ResizeRule
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType
from stridedgpu.values.errors import BindingError, LayoutError
from stridedgpu.values.interpolation import interpolation_named
from stridedgpu.values.layout import Layout

from .arithmetic import Backend, Normalising
from .sizes import Size

__all__ = ["Renderer", "resize_rule"]

_FLOAT32: Final = ELEMENT_TYPES["float32"]
_UINT8: Final = ELEMENT_TYPES["uint8"]
_RGBA: Final = 4
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


def resize_rule(resample: Any, backend: Backend) -> ResizeRule:
    """The resize that `resample` names: a number as in PIL.Image.Resampling, or a mode of torchvision.

    Raises `LayoutError` for one that is not reproduced.
    """
    value = getattr(resample, "value", resample)
    number = _TORCHVISION_NAMES.get(value) if isinstance(value, str) else value
    named = _INTERPOLATIONS[backend].get(number) if isinstance(number, int) else None
    if named is None:
        known = "1, 2 or 3" if backend == "torchvision" else "0 to 5"
        raise LayoutError(
            f"resample={resample!r} is not reproduced for backend={backend!r}; it is {known}, as PIL.Image.Resampling "
            "has them."
        )
    interpolation = interpolation_named(named)
    return ResizeRule(interpolation, installed_passes() if interpolation.is_pillow else "horizontal")


@dataclass(frozen=True)
class Renderer:
    """What turns images into windows: the resize (None: pixels keep their size), the arithmetic, and the device.

    Results on the CPU lie in `memory`, which uses that of released results again.
    """

    rule: ResizeRule | None
    how: Normalising
    device: str
    memory: RecycledMemory

    @cached_property
    def plain(self) -> Renderer:
        """The same without arithmetic: bytes."""
        return replace(self, how=Normalising(self.how.backend))

    def batch(self, images: Sequence[Operand], placements: Sequence[Placement], extent: Size) -> StridedTensor:
        """One window of each image, axes N, C, H, W of `extent`; around windows that are smaller are zeros."""
        channels = images[0].layout.sizes[0]
        how = self.how.conversion(channels)
        element = _UINT8 if how is None else how.target
        batch = self._empty((len(images), channels, *extent), element)
        unchanged = conversion(_UINT8, _UINT8) if how is None else how
        rule = self.rule
        if (
            rule is not None
            and channels == _RGBA
            and rule.interpolation.is_pillow
            and not rule.interpolation.is_nearest
        ):
            rule = replace(rule, premultiplies=True)  # as Pillow resizes its mode RGBA
        write_placed(CropSources.of_images(images), placements, rule, unchanged, bytes(channels), batch)
        if how is None:
            batch = self._looked_up(batch)
        self._clear_around(batch, placements, extent)
        return StridedTensor.over(batch, "NCHW")

    def zeros(self, sizes: tuple[int, ...]) -> StridedTensor:
        """Zeros of the result's type."""
        found = StridedTensor.over(self._empty(sizes, _UINT8 if self.how.is_identity else _FLOAT32))
        found[...] = 0
        return found

    def rearranged(self, pixels: Operand, opened: Layout, rows: StridedTensor, places: Layout, axis: int) -> None:
        """Bytes seen with the axes of `opened`, by the arithmetic, into rows seen with those of `places`.

        `axis` is that of the channels.
        """
        how = self.how.conversion(opened.sizes[axis])
        source = pixels.with_layout(opened)
        if how is None:
            raise BindingError("This arithmetic has no conversion for patches.")
        move_elements(source, rows.operand.with_layout(places), how, axis)

    def rows(self, sizes: tuple[int, ...]) -> StridedTensor:
        """New memory of the result's type."""
        return StridedTensor.over(self._empty(sizes, _UINT8 if self.how.is_identity else _FLOAT32))

    def _empty(self, sizes: tuple[int, ...], element: ElementType) -> Operand:
        labels = _BATCH if len(sizes) == len(_BATCH) else (None,) * len(sizes)
        spec = MemoryOptions().allocation(sizes, labels, element)
        return spec.allocate(self.memory if self.device == "cpu" else device_named(self.device))

    def _looked_up(self, batch: Operand) -> Operand:
        """Bytes in the arithmetic's table."""
        if self.device != "cpu":
            raise BindingError(
                f"This arithmetic is a table of the CPU, and the device is {self.device}: leave device= out and move "
                "the result."
            )
        table = self.how.table(batch.layout.sizes[1])
        found = self._empty(batch.layout.sizes, _FLOAT32)
        pixels, values = array_of_operand(batch), array_of_operand(found)
        for channel, row in enumerate(table[:: -1 if self.how.flips else 1]):
            source = len(table) - 1 - channel if self.how.flips else channel
            for image in range(len(pixels)):
                np.take(row, pixels[image, source], out=values[image, channel], mode="clip")
        return found

    def _clear_around(self, batch: Operand, placements: Sequence[Placement], extent: Size) -> None:
        """Zeros below and to the right of windows that are smaller than the batch's."""
        smaller = [(row, placed.size) for row, placed in enumerate(placements) if placed.size != extent]
        if not smaller:
            return
        tensor = StridedTensor.over(batch, "NCHW")
        for row, (height, width) in smaller:
            for part in (tensor[row, :, height:, :], tensor[row, :, :height, width:]):
                if 0 not in part.sizes:
                    part[...] = 0
