"""How an image processor turns bytes into numbers: a table of 256 values a channel, and the conversion that equals it.

Where bytes become floats there are 256 values a channel, whatever the arithmetic is. The table is computed with the
library's own steps, each rounded to its type. A conversion that is computed as pixels are written has to give the same
table, to the bit; where none does, pixels are looked up in the table, in a second pass.

- torchvision's backend: `(x - m) / s` in float32, with m and s the mean and std in float32 times 1 / rescale_factor,
  rounded to float32. Without a mean: x times rescale_factor, in float32.
- PIL's backend: x times rescale_factor in float64, rounded to float32, then `(x - mean) / std` in float32.
- EfficientNet divides by std once more with `include_top`, and with `rescale_offset` subtracts 1 before the mean.
- Llama 4: x times rescale_factor, minus mean, divided by std, each rounded to bfloat16, as are mean and std.
- DINOv3 resizes floats, x times rescale_factor in float32. What is resized has no table: `(y - mean) / std` in float32.

Source: transformers, image_processing_backends.py and image_transforms.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from stridedgpu.api.relayout import relayout
from stridedgpu.exchange.array_like import operand_of_array
from stridedgpu.operations.move import move_elements
from stridedgpu.values.conversion import Conversion, conversion, conversion_options
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType
from stridedgpu.values.errors import LayoutError

Backend = Literal["torchvision", "pil"]

_UINT8: Final = ELEMENT_TYPES["uint8"]
_INT32: Final = ELEMENT_TYPES["int32"]
_BFLOAT16: Final = ELEMENT_TYPES["bfloat16"]
_FLOAT32: Final = ELEMENT_TYPES["float32"]
_BYTES: Final = np.arange(256, dtype=np.uint8)

Figures = tuple[float, ...] | float


@dataclass(frozen=True, slots=True)
class Normalising:
    """The arithmetic of an image processor: the numbers of its declaration, None for steps that it leaves out.

    `again` is EfficientNet's second division by `std`. `flips` reverses the three channels at the end. `floats`: the
    result is float32 even if no step makes it so. `first` is the factor by which bytes become floats before they are
    resized; `factor` is then None. With `halves` each step of factor and mean is rounded to bfloat16.
    """

    backend: Backend
    factor: float | None = None
    mean: Figures | None = None
    std: Figures | None = None
    again: Figures | None = None
    offset: bool = False
    flips: bool = False
    floats: bool = False
    first: float | None = None
    halves: bool = False

    @property
    def source(self) -> ElementType:
        """The type of the pixels that are resized."""
        return _UINT8 if self.first is None else _FLOAT32

    @property
    def target(self) -> ElementType:
        """The type of the result: bytes stay bytes where nothing is computed."""
        if self.halves and self.factor is not None and self.mean is not None:
            return _BFLOAT16
        steps = (self.factor, self.mean, self.again, self.first)
        return _FLOAT32 if self.floats or any(step is not None for step in steps) else _UINT8

    @property
    def channels(self) -> int:
        """The channels that the mean is for; 1 where one number is for all."""
        return len(self.mean) if isinstance(self.mean, tuple) else 1

    def table(self, channels: int) -> NDArray[np.float32]:
        """The value of each byte in each channel, (channels, 256), before channels are reversed.

        Raises `LayoutError` if the mean or std is for another number of channels.
        """
        return _table(self, channels)

    @property
    def keywords(self) -> dict[str, Any]:
        """The options of every operation, and of `Preprocess`, that are nearest to this arithmetic."""
        if self.target is _UINT8 or (self.factor is None and self.mean is None):
            return {"dtype": self.target.name}
        name = "transformers" if self.backend == "torchvision" else "transformers-pil"
        factor = 1.0 if self.factor is None else self.factor
        return {"dtype": "float32", "scale": factor, "mean": self.mean, "std": self.std, "arithmetic": name}

    def conversion(self, channels: int) -> Conversion | None:
        """The conversion with the table's bits; None where there is none, and pixels are looked up."""
        return _conversion(self, channels)

    def places(self, channels: int) -> Conversion:
        """The conversion of each byte to its place in the table, whose rows lie one behind the other."""
        rows = [256.0 * channel for channel in range(channels)]
        order = (2, 1, 0) if self.flips else None
        offsets = rows[::-1] if self.flips else rows
        return conversion(_UINT8, _INT32, scale=1.0, bias=offsets, channels=order, source_channels=channels)


def figures_of(figures: Any) -> Figures | None:
    """A mean or a std as a value that can be hashed."""
    if isinstance(figures, (list, tuple)):
        return tuple(float(figure) for figure in figures)
    return None if figures is None else float(figures)


def _table(how: Normalising, channels: int) -> NDArray[np.float32]:
    figures = {name: _of_channels(name, getattr(how, name), channels) for name in ("mean", "std", "again")}
    values = np.broadcast_to(_BYTES, (channels, 256)).astype(np.float32)
    mean, std, again = figures["mean"], figures["std"], figures["again"]
    if how.target is _BFLOAT16 and how.factor is not None and mean is not None and std is not None:
        values = _rounded(values * np.float32(how.factor))
        return _rounded(_rounded(values - _rounded(mean)) / _rounded(std))
    with np.errstate(all="ignore"):
        if how.factor is not None:
            if how.backend == "torchvision" and mean is not None and std is not None and not how.offset:
                unit = np.float32(1.0 / how.factor)
                mean, std = mean * unit, std * unit
            elif how.backend == "torchvision":
                values = values * np.float32(how.factor)
            else:
                values = (values.astype(np.float64) * how.factor).astype(np.float32)
        if how.offset:
            values = values - np.float32(1)
        if mean is not None and std is not None:
            values = (values - mean) / std
        if again is not None:
            values = (values - np.float32(0)) / again
    values.flags.writeable = False
    return values


def _rounded(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Values rounded to bfloat16, as float32."""
    result: NDArray[np.float32] = relayout(relayout(values, dtype="bfloat16"), dtype="float32").numpy()
    return result


def _of_channels(name: str, figures: Figures | None, channels: int) -> NDArray[np.float32] | None:
    """One number for each channel, as a column; None without."""
    if figures is None:
        return None
    named = "image_mean" if name == "mean" else "image_std"
    numbers = figures if isinstance(figures, tuple) else (figures,) * channels
    if len(numbers) != channels:
        raise LayoutError(
            f"{named}={figures} has {len(numbers)} values, and an image has {channels} channels: "
            "do_convert_rgb=True makes three of any image, and image.convert('RGB') of one of Pillow."
        )
    return np.array(numbers, np.float32)[:, None]


@lru_cache(maxsize=256)
def _conversion(how: Normalising, channels: int) -> Conversion | None:
    if how.flips and channels != 3:
        raise LayoutError(f"do_flip_channel_order=True reverses three channels, and an image has {channels}.")
    order = (2, 1, 0) if how.flips else None
    if how.first is not None:
        # Of floats, mean and std are those of the channels where they are written.
        keywords = {name: one[::-1] if order and isinstance(one, tuple) else one for name, one in how.keywords.items()}
        return conversion_options(**keywords, channels=order).conversion(_FLOAT32, channels, _FLOAT32)
    if how.target is _BFLOAT16:
        return None
    wanted = how.table(channels)[:: -1 if how.flips else 1]
    try:
        options = conversion_options(**how.keywords, channels=order)
        nearest = options.conversion(_UINT8, channels, _UINT8)
    except LayoutError:  # for a mean above 1, say, which the operations take for one of bytes
        return None
    result = np.empty((channels, 256), nearest.target.name)
    rows = np.ascontiguousarray(np.broadcast_to(_BYTES, (channels, 256)))
    move_elements(operand_of_array(rows), operand_of_array(result), nearest, 0)
    same = np.array_equal(result.astype(np.float32).view(np.uint32), wanted.view(np.uint32))
    return nearest if same else None
