"""`ARITHMETIC_RULES`: how a value becomes a normalised number, step by step, by the library whose bits these are.

Each step is rounded to float32, and all of them to float64 where a side of "multiply" or "divide" is wide. `unit` is
the number of a first step, the same for all channels; `bias` and `scale` are one or one for each channel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from struct import pack, unpack
from typing import Final, Literal, NamedTuple, TypeAlias, cast

from .constants import Doubles, PerChannel, floats
from .dtypes import ElementType
from .errors import LayoutError

Arithmetic = Literal["multiply", "divide", "torchvision-v2", "transformers", "transformers-pil"]
Normalization = Literal["0..1", "unit", "imagenet", "clip", "siglip", "inception"]

Operation = Literal["multiply", "add", "divide", "multiply in float64"]
Constant = Literal["scale", "bias", "unit"]
Steps: TypeAlias = tuple[tuple[Operation, Constant], ...]


def as_float32(number: float) -> float:
    """A number rounded to float32, infinite beyond its range."""
    try:
        rounded: float = unpack("f", pack("f", number))[0]
    except OverflowError:
        return inf if number > 0 else -inf
    return rounded


class Factors(NamedTuple):
    """The numbers that become 1, and their reciprocal: transformers' `rescale_factor`."""

    maximum: float
    factor: float


@dataclass(frozen=True, slots=True)
class ArithmeticRule:
    """An arithmetic as a row of a table.

    `steps` are operations with constants. `scale` and `bias` are those of a channel, by its standard deviation or mean,
    and `unit` that of all. `words` is the formula. `alone` is the arithmetic of a `scale=` without mean and standard
    deviation; if it is not None, `scale=` is the library's rescale factor, beside them too.
    """

    steps: Steps
    words: str
    scale: Callable[[float, Factors], float]
    bias: Callable[[float, float, Factors], float]
    unit: Callable[[Factors], float | None] = lambda _: None
    alone: Arithmetic | None = None


_NORMALISED: Final[Steps] = (("add", "bias"), ("divide", "scale"))
"""The steps of torchvision's `Normalize` and of transformers' `normalize`."""


def _deviation(std: float, _: Factors) -> float:
    return std


def _centre(mean: float, _std: float, _factors: Factors) -> float:
    return -mean


ARITHMETIC_RULES: Final[Mapping[Arithmetic, ArithmeticRule]] = {
    "multiply": ArithmeticRule(
        (("multiply", "scale"), ("add", "bias")),
        "x * scale + bias",
        lambda std, factors: 1.0 / (factors.maximum * std),
        lambda mean, std, _: -mean / std,
    ),
    # torchvision, transforms/functional.py, `to_tensor`
    "divide": ArithmeticRule(
        (("divide", "unit"), *_NORMALISED),
        "((x / maximum) - mean) / std, as torchvision's ToTensor and Normalize",
        _deviation,
        _centre,
        lambda factors: int(factors.maximum),
    ),
    # torchvision, transforms/v2/functional/_misc.py, `to_dtype_image`
    "torchvision-v2": ArithmeticRule(
        (("multiply", "unit"), *_NORMALISED),
        "((x * (1 / maximum)) - mean) / std, as torchvision's ToDtype(scale=True) and Normalize",
        _deviation,
        _centre,
        lambda factors: 1.0 / factors.maximum,
    ),
    # transformers, image_processing_backends.py, `_fuse_mean_std_and_rescale_factor`
    "transformers": ArithmeticRule(
        _NORMALISED,
        "(x - mean * maximum) / (std * maximum), as transformers with torchvision",
        lambda std, factors: as_float32(as_float32(std) * as_float32(1.0 / factors.factor)),
        lambda mean, _, factors: -as_float32(as_float32(mean) * as_float32(1.0 / factors.factor)),
        alone="multiply",
    ),
    # transformers, image_transforms.py, `rescale` and `normalize`
    "transformers-pil": ArithmeticRule(
        (("multiply in float64", "unit"), *_NORMALISED),
        "((x * (1 / maximum), in float64) - mean) / std, as transformers with Pillow",
        _deviation,
        _centre,
        lambda factors: factors.factor,
        alone="transformers-pil",
    ),
}
"""The steps and constants of each arithmetic, for every implementation."""


def checked_arithmetic(arithmetic: object) -> Arithmetic:
    """`arithmetic`, checked. Raises `LayoutError` for anything but a name."""
    if not (isinstance(arithmetic, str) and arithmetic in ARITHMETIC_RULES):
        *forms, last = (f"{name!r} ({rule.words})" for name, rule in ARITHMETIC_RULES.items())
        raise LayoutError(f"arithmetic={arithmetic!r} is unknown; it is {', '.join(forms)} or {last}.")
    return cast("Arithmetic", arithmetic)


# Named figures

Figures = tuple[float, ...]
"""One number, or those of red, green and blue."""

NORMALISATIONS: Final[dict[Normalization, tuple[Figures, Figures]]] = {
    "0..1": ((0.0,), (1.0,)),  # torchvision's ToTensor
    "unit": ((0.0,), (1.0,)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),  # torchvision's reference training, models since 0.1
    # openai/CLIP, clip/clip.py
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "siglip": ((0.5,), (0.5,)),  # google/siglip, preprocessor_config.json
    "inception": ((0.5,), (0.5,)),  # TF-Slim, inception_preprocessing.py; timm's IMAGENET_INCEPTION_MEAN
}
"""Mean and standard deviation in units of 0..1, as `normalize` names them."""


def named_figures(
    normalize: Normalization, channels: tuple[int, ...] | None, source_channels: int | None
) -> tuple[Figures, Figures]:
    """The mean and standard deviation of a name, for each output channel: those of three colours follow `channels`.

    A grey source has no red, green and blue to choose from: repeated three times, it has the figures of all.
    """
    mean, std = NORMALISATIONS[normalize]
    if len(mean) == 1 or channels is None or (source_channels == 1 and len(channels) == len(mean)):
        return mean, std
    if max(channels) >= len(mean):
        raise LayoutError(
            f"normalize={normalize!r} is for red, green and blue, and channels={channels} asks for others."
        )
    return tuple(mean[channel] for channel in channels), tuple(std[channel] for channel in channels)


def checked_normalize(normalize: object) -> Normalization:
    """`normalize`, checked. Raises `LayoutError` for anything but a name."""
    if not (type(normalize) is str and normalize in NORMALISATIONS):
        *names, last = map(repr, NORMALISATIONS)
        raise LayoutError(f"normalize={normalize!r} is unknown; it is {', '.join(names)} or {last}.")
    return normalize


# Constants


class Constants(NamedTuple):
    """The scale, bias and unit of an arithmetic, as its steps take them."""

    scale: tuple[float, ...] | None
    bias: tuple[float, ...] | None
    unit: float | None = None


def normalisation(
    source: ElementType,
    mean: PerChannel | Doubles | None,
    std: PerChannel | Doubles | None,
    arithmetic: object = "multiply",
    maximum: float | None = None,
    factor: float | None = None,
) -> Constants:
    """The constants of `(x / maximum - mean) / std`; `maximum` is by default an integer source's largest value, else 1.

    `mean` and `std` are in units of 0..1, one value or one a channel, as torchvision has them; a mean above 1 of values
    that are divided is refused. `factor` states the reciprocal of `maximum` in its place.
    """
    means = floats("mean", 0.0 if mean is None else mean)
    deviations = floats("std", 1.0 if std is None else std)
    if any(value == 0 for value in deviations):
        raise LayoutError(f"std={deviations} must not hold 0.")
    count = max(len(means), len(deviations))
    if {len(means), len(deviations)} - {1, count}:
        raise LayoutError(f"mean has {len(means)} values and std has {len(deviations)}; give one, or one a channel.")
    means, deviations = (values * (count // len(values)) for values in (means, deviations))
    largest = source.limits[1] if source.is_integer else 1
    most = 1.0 / factor if factor is not None else largest if maximum is None else maximum
    if most > 1 and max(means) > 1:
        raise LayoutError(
            f"mean={means} is for values up to {most:g}, and they are divided by {most:g} first, as torchvision "
            f"does; divide mean and std by {most:g}, too."
        )
    name = checked_arithmetic(arithmetic)
    _check_source(name, source, most, maximum)
    rule, factors = ARITHMETIC_RULES[name], Factors(most, 1.0 / most if factor is None else factor)
    return Constants(
        tuple(rule.scale(deviation, factors) for deviation in deviations),
        tuple(rule.bias(centre, deviation, factors) for centre, deviation in zip(means, deviations, strict=True)),
        rule.unit(factors),
    )


def _check_source(arithmetic: Arithmetic, source: ElementType, most: float, maximum: float | None) -> None:
    """Raise `LayoutError` for types and largest values that an arithmetic is not for."""
    if arithmetic == "divide":
        if not source.is_integer or source.itemsize > 4:
            raise LayoutError(
                f"arithmetic='divide' divides integers of up to 32 bits by their largest value, and the source has "
                f"{source}; leave it out."
            )
        if most != int(most) or not 1 <= most < 1 << 53:
            raise LayoutError(f"arithmetic='divide' divides by a whole number from 1 below 2**53; maximum={maximum!r}.")
    elif arithmetic != "multiply":
        most_bytes = 2 if source.is_integer else 4
        if not (source.is_integer or source.kind == "f") or source.itemsize > most_bytes:
            raise LayoutError(
                f"arithmetic={arithmetic!r} is for integers of up to 16 bits and floats of up to 32, and the source "
                f"has {source}; leave it out."
            )
