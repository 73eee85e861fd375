"""Normalisations by name, the range of values that becomes 0..1, the values of borders, and clamping.

| name | mean | std | source |
|---|---|---|---|
| "0..1", "unit" | 0 | 1 | torchvision's ToTensor |
| "imagenet" | 0.485, 0.456, 0.406 | 0.229, 0.224, 0.225 | torchvision's reference training, models since 0.1 |
| "clip" | 0.48145466, 0.4578275, 0.40821073 | 0.26862954, 0.26130258, 0.27577711 | openai/CLIP, clip/clip.py |
| "siglip" | 0.5 | 0.5 | google/siglip, preprocessor_config.json |
| "inception" | 0.5 | 0.5 | TF-Slim, inception_preprocessing.py; timm's IMAGENET_INCEPTION_MEAN |

Three numbers are those of red, green and blue, and follow `channels`. Where `channels` repeats a grey image, they are
those of the three output channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from stridedgpu.devices.operand import Operand
from stridedgpu.exchange.array_like import operand_of_array
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.values.conversion import IMAGENET, Conversion, Normalisation, normalisation
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import BindingError, LayoutError

if TYPE_CHECKING:
    from stridedgpu.values.dtypes import ElementType

    from .declaration import Declaration

__all__ = [
    "NORMALISATIONS",
    "Normalization",
    "border_values",
    "clipped",
    "mean_and_std",
    "scale_and_bias",
    "unit_range",
]

_HALF: Final = ((0.5,), (0.5,))
_UNIT: Final = ((0.0,), (1.0,))

_BYTE: Final = 255
"""The byte that is white."""

Numbers = tuple[float, ...]

Normalization = Literal["0..1", "unit", "imagenet", "clip", "siglip", "inception"]
"""The value of `normalize=`."""

NORMALISATIONS: Final[dict[Normalization, tuple[Numbers, Numbers]]] = {
    "0..1": _UNIT,
    "unit": _UNIT,
    "imagenet": IMAGENET,
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "siglip": _HALF,
    "inception": _HALF,
}
"""Mean and standard deviation in units of 0..1, one number or those of red, green and blue."""


def mean_and_std(step: Declaration, source_channels: int | None = None) -> tuple[Numbers | None, Numbers | None]:
    """The mean and standard deviation of each output channel, named or given; None where there is none.

    `source_channels` are those of an image, None while there is none.
    """
    if step.normalize is None:
        return step.mean, step.std
    mean, std = NORMALISATIONS[step.normalize]
    if len(mean) == 1 or step.channels is None:
        return mean, std
    if step.mode == "gray" or (source_channels == 1 and len(step.channels) == len(mean)):
        return mean, std  # a grey image has no red, green and blue to choose from
    if max(step.channels) >= len(mean):
        raise LayoutError(
            f"normalize={step.normalize!r} is for red, green and blue, and channels={step.channels} asks for others."
        )
    return tuple(mean[channel] for channel in step.channels), tuple(std[channel] for channel in step.channels)


def unit_range(step: Declaration, element: ElementType) -> tuple[float, float]:
    """The values of images of a type that become 0 and 1.

    They are the bounds of `clip`, else 0 and the declared maximum, else 0 and an integer type's largest value, else 0
    and 1.
    """
    if step.clip is not None:
        return step.clip[0], step.clip[1]
    if step.maximum is not None:
        return 0.0, float(step.maximum)
    return 0.0, float(2 ** (8 * element.itemsize - (element.kind == "i")) - 1) if element.is_integer else 1.0


def border_values(step: Declaration, element: ElementType) -> Any:
    """The step's fill in images of a type: 0 to 255 of the declaration is `unit_range`, rounded for integers.

    Raises `LayoutError` for a value that the type cannot hold.
    """
    given = step.chosen_fill
    low, high = unit_range(step, element)
    if (low, high) == (0, _BYTE):
        return given
    values = [low + value / _BYTE * (high - low) for value in (given if isinstance(given, tuple) else (given,))]
    if element.is_integer:
        values = [_whole(step, value, element) for value in values]
    if step.clip is not None:
        least, most = _bounds(step.clip, element)
        values = [min(max(value, least), most) for value in values]
    return values[0] if len(values) == 1 else tuple(values)


def _whole(step: Declaration, value: float, element: ElementType) -> int:
    """The value of a border in images of integers."""
    limits = np.iinfo(element.name)
    if not limits.min <= value <= limits.max:
        _, high = unit_range(step, element)
        raise LayoutError(
            f"fill={step.chosen_fill} is {value:g} in images of {element}, which hold {limits.min} to {limits.max}: "
            f"fill is in units of bytes, and 255 of them are {high:g} here."
        )
    return round(value)


def scale_and_bias(step: Declaration, element: ElementType, source_channels: int | None = None) -> Normalisation:
    """The factor of a pixel of a type and the addend after it, for each output channel; None where there is none.

    With `arithmetic="divide"` it is the divisor, the addend before it, and the unit. `source_channels` are the image's.
    """
    mean, std = mean_and_std(step, source_channels)
    if mean is None and std is None:
        return Normalisation(step.scale, step.bias)
    if step.clip is None and (step.maximum is None or step.arithmetic == "divide"):
        return normalisation(element, mean, std, step.arithmetic, step.maximum)
    low, high = unit_range(step, element)
    mean, std = mean or (0.0,), std or (1.0,)
    if step.clip is not None and {*mean} == {0.0} and {*std} == {1.0}:
        return _unit(step.clip, element, Conversion(element, element_type(step.dtype)).compute)
    count = max(len(mean), len(std))
    means, deviations = (values * (count // len(values)) for values in (mean, std))
    return Normalisation(
        tuple(1.0 / ((high - low) * deviation) for deviation in deviations),
        tuple(-(low / (high - low) + centre) / deviation for centre, deviation in zip(means, deviations, strict=True)),
    )


def _unit(clip: tuple[float, float], element: ElementType, compute: ElementType) -> Normalisation:
    """The factor and the addend of values between the bounds, by which no value leaves 0..1.

    In the type of the arithmetic the least value becomes 0. The factor is the largest one, near 1 / (high - low), by
    which the largest value does not exceed 1: a product and a sum that are rounded keep the order of values.
    """
    number = np.dtype(compute.name).type
    least, most = map(number, _bounds(clip, element))
    factor = number(1.0 / (clip[1] - clip[0]))
    while most * factor - least * factor > 1:
        factor = np.nextafter(factor, number(0))
    return Normalisation((float(factor),), (-float(least * factor),))


def _bounds(clip: tuple[float, float], element: ElementType) -> tuple[Any, Any]:
    """The least and the largest value that images of a type keep. Raises `LayoutError` if there is none."""
    low, high = clip
    if element.is_integer:
        limits = np.iinfo(element.name)
        least, most = max(int(np.ceil(low)), limits.min), min(int(np.floor(high)), limits.max)
        if least > most:
            raise LayoutError(
                f"clip={clip} keeps no value of {element}, whose values are {limits.min} to {limits.max}."
            )
        return least, most
    if element.kind != "f":
        raise LayoutError(f"clip={clip} is for numbers, and the image holds {element}.")
    number = np.dtype(element.name).type
    return number(low), number(high)


def clipped(image: Operand, bounds: tuple[float, float]) -> Operand:
    """A copy of an image clamped to the bounds. Raises for images on a GPU, and for bounds that no value fits."""
    if image.buffer.device != "cpu":
        raise BindingError(
            f"it is on {image.buffer.device}, and clip= is for images on the CPU: bring it with .numpy()."
        )
    low, high = _bounds(bounds, image.element)
    array = array_of_operand(image)
    return operand_of_array(np.clip(array, array.dtype.type(low), array.dtype.type(high)))
