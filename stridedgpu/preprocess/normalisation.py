"""Normalisations by name, the largest value of an image's samples, and the window that values are clamped to.

| name | mean | std | source |
|---|---|---|---|
| "0..1", "unit" | 0 | 1 | torchvision's ToTensor |
| "imagenet" | 0.485, 0.456, 0.406 | 0.229, 0.224, 0.225 | torchvision's reference training, models since 0.1 |
| "clip" | 0.48145466, 0.4578275, 0.40821073 | 0.26862954, 0.26130258, 0.27577711 | openai/CLIP, clip/clip.py |
| "siglip" | 0.5 | 0.5 | google/siglip, preprocessor_config.json |
| "inception" | 0.5 | 0.5 | TF-Slim, inception_preprocessing.py; timm's IMAGENET_INCEPTION_MEAN |

Three numbers are those of red, green and blue; they follow `channels`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from stridedgpu.devices.operand import Operand
from stridedgpu.exchange.array_like import operand_of_array
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.values.conversion import IMAGENET, Normalisation, normalisation
from stridedgpu.values.errors import BindingError, LayoutError

if TYPE_CHECKING:
    from stridedgpu.values.dtypes import ElementType

    from .declaration import Declaration

__all__ = ["NORMALISATIONS", "Normalization", "clipped", "largest", "mean_and_std", "scale_and_bias"]

_HALF: Final = ((0.5,), (0.5,))
_UNIT: Final = ((0.0,), (1.0,))

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


def mean_and_std(step: Declaration) -> tuple[Numbers | None, Numbers | None]:
    """The mean and standard deviation of each output channel, named or given; None where there is none."""
    if step.normalize is None:
        return step.mean, step.std
    mean, std = NORMALISATIONS[step.normalize]
    if len(mean) == 1 or step.channels is None:
        return mean, std
    if max(step.channels) >= len(mean):
        raise LayoutError(
            f"normalize={step.normalize!r} is for red, green and blue, and channels={step.channels} asks for others."
        )
    return tuple(mean[channel] for channel in step.channels), tuple(std[channel] for channel in step.channels)


def largest(step: Declaration, element: ElementType) -> float:
    """The value that becomes 1: the declared maximum, else an integer type's largest, else 1."""
    if step.maximum is not None:
        return float(step.maximum)
    return float(2 ** (8 * element.itemsize - (element.kind == "i")) - 1) if element.is_integer else 1.0


def scale_and_bias(step: Declaration, element: ElementType) -> Normalisation:
    """The factor of a pixel of a type and the addend after it, for each output channel; None where there is none.

    With `arithmetic="divide"` it is the divisor, the addend before it, and the unit.
    """
    mean, std = mean_and_std(step)
    if mean is None and std is None:
        return Normalisation(step.scale, step.bias)
    if step.clip is None and (step.maximum is None or step.arithmetic == "divide"):
        return normalisation(element, mean, std, step.arithmetic, step.maximum)
    low, high = step.clip if step.clip is not None else (0.0, largest(step, element))
    mean, std = mean or (0.0,), std or (1.0,)
    count = max(len(mean), len(std))
    means, deviations = (values * (count // len(values)) for values in (mean, std))
    return Normalisation(
        tuple(1.0 / ((high - low) * deviation) for deviation in deviations),
        tuple(-(low / (high - low) + centre) / deviation for centre, deviation in zip(means, deviations, strict=True)),
    )


def clipped(image: Operand, bounds: tuple[float, float]) -> Operand:
    """A copy of an image clamped to the bounds. Raises for images on a GPU, and for bounds that no value fits."""
    if image.buffer.device != "cpu":
        raise BindingError(
            f"it is on {image.buffer.device}, and clip= is for images on the CPU: bring it with .numpy()."
        )
    low, high = bounds
    array = array_of_operand(image)
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        low, high = max(int(np.ceil(low)), limits.min), min(int(np.floor(high)), limits.max)
        if low > high:
            raise LayoutError(
                f"clip={bounds} keeps no value of {image.element}, whose values are {limits.min} to {limits.max}."
            )
    elif array.dtype.kind != "f":
        raise LayoutError(f"clip={bounds} is for numbers, and the image holds {image.element}.")
    return operand_of_array(np.clip(array, array.dtype.type(low), array.dtype.type(high)))
