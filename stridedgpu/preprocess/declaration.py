"""The declaration of a `Preprocess` step: plain values, checked before any image arrives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from math import isfinite
from numbers import Real
from operator import index
from typing import Any, Final, Literal

from stridedgpu.devices.buffer import checked_alignment
from stridedgpu.devices.selection import device_name
from stridedgpu.exchange.array_like import plain
from stridedgpu.operations.allocation import DEFAULT_ALIGNMENT
from stridedgpu.planning.resize_arithmetic import interpolation_named
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.strides import canonical_axes

__all__ = ["SEEDS", "Declaration"]

SEEDS: Final = range(-(2**63), 2**63)
"""The range of valid seeds."""

_PIXELS: Final = "a height and a width in pixels, or one for both"

_WHOLE: Final = {
    "channels": "such as (2, 1, 0)",
    "crop": _PIXELS,
    "letterbox": _PIXELS,
    "resize": "a height and a width in pixels, or one for the shorter side",
}

_CHOICES: Final = {"errors": ("raise", "skip"), "output": ("numpy", "tensor")}


@dataclass(frozen=True, repr=False)
class Declaration:
    """The fields of `Preprocess`, whose docstring explains them."""

    column: str | int | None = None
    _: KW_ONLY
    dims: str = "NHWC"
    layout: str = "NCHW"
    dtype: Any = "float32"
    mean: Any = None
    std: Any = None
    scale: Any = None
    bias: Any = None
    channels: Any = None
    resize: Any = None
    crop: Any = None
    random_resized_crop: Any = None
    letterbox: Any = None
    interpolation: str | None = None
    flip: bool | float | None = None
    seed: int | None = None
    key: str | int | None = None
    row_pitch_bytes: int | None = None
    alignment: int = DEFAULT_ALIGNMENT
    device: str = "auto"
    errors: Literal["raise", "skip"] = "raise"
    output: Literal["numpy", "tensor"] = "numpy"

    def __post_init__(self) -> None:
        """Refuse what no image could fit, and normalise the values: sequences to tuples, the type to its name."""
        for name in ("mean", "std", "scale", "bias", "channels", "resize", "crop", "letterbox"):
            object.__setattr__(self, name, _plain_numbers(name, getattr(self, name)))
        for name in ("seed", "row_pitch_bytes"):
            object.__setattr__(self, name, _plain_integer(name, getattr(self, name)))
        object.__setattr__(self, "dtype", element_type(self.dtype).name)
        checked_alignment(self.alignment)
        _check_choices(self)
        object.__setattr__(self, "random_resized_crop", _plain_ranges(self.random_resized_crop))
        _check_axes(self)
        _check_resize(self)
        _check_numbers(self)
        _check_chance(self)
        device: object = self.device
        if not (isinstance(device, str) and device == "auto"):
            device_name(device)

    @property
    def moves_windows(self) -> bool:
        """True if images are resized, cropped or mirrored."""
        return self.resizes or self.crop is not None or bool(self.flip)

    @property
    def resizes(self) -> bool:
        """True if images are resized."""
        return self.resize is not None or self.random_resized_crop is not None or self.letterbox is not None

    @property
    def window(self) -> tuple[int, int] | None:
        """Height and width of every result, or None if the declaration leaves them open."""
        chosen = self.crop or self.letterbox or (self.resize if self.resize and len(self.resize) == 2 else None)
        return None if chosen is None else (chosen[0], chosen[1])

    @property
    def chosen_interpolation(self) -> str:
        """The interpolation; by default OpenCV's for letterbox, as in YOLO, else Pillow's, as in torchvision."""
        return self.interpolation or ("pillow-bilinear" if self.letterbox is None else "opencv-linear")

    @property
    def channel_count(self) -> int | None:
        """The channels of the result, or None if the declaration leaves them open."""
        if self.channels is not None:
            return len(self.channels)
        declared = (len(values) for values in (self.mean, self.std, self.scale, self.bias) if values is not None)
        return next((count for count in declared if count > 1), None)


def _plain_numbers(name: str, value: Any) -> Any:
    """A sequence as a tuple of Python numbers, and one number as a tuple; None stays."""
    if value is None:
        return None
    given = plain(value)
    try:
        entries = tuple(given) if isinstance(given, (Sequence, tuple)) and not isinstance(given, str) else (given,)
        numbers = tuple(int(entry) if name in _WHOLE else float(entry) for entry in entries)
        exact = name not in _WHOLE or all(
            number == entry and not isinstance(entry, bool) for number, entry in zip(numbers, entries, strict=True)
        )
    except (TypeError, ValueError, OverflowError):
        exact, numbers = False, ()
    if not exact or not numbers:
        wanted = f"integers, {_WHOLE[name]}" if name in _WHOLE else "a number, or one for each channel"
        raise LayoutError(f"{name}={value!r} must be {wanted}.")
    return numbers * 2 if name in ("crop", "letterbox") and len(numbers) == 1 else numbers


def _plain_integer(name: str, value: Any) -> int | None:
    """An integer of any library as Python's; None stays."""
    if value is None:
        return None
    try:
        whole = index(value) if not isinstance(value, bool) else None
    except TypeError:
        whole = None
    if whole is None:
        raise LayoutError(f"{name}={value!r} must be an integer.")
    return whole


def _check_choices(step: Declaration) -> None:
    """Raise unless columns have names or places, and each choice is a valid one."""
    for name in ("column", "key"):
        value = getattr(step, name)
        if value is not None and (not isinstance(value, (str, int)) or isinstance(value, bool)):
            raise LayoutError(f"{name}={value!r} must be one column's name, or its place in a tuple.")
    for name, known in _CHOICES.items():
        chosen = getattr(step, name)
        if not (isinstance(chosen, str) and chosen in known):
            raise LayoutError(f"{name}={chosen!r} is unknown; it is {known[0]!r} or {known[1]!r}.")


def _check_axes(step: Declaration) -> None:
    """Raise unless `dims` and `layout` order the same axes, rows included, and all that the rest needs."""
    if not isinstance(step.layout, str):
        raise LayoutError(f"layout={step.layout!r} is not an axis order such as 'NCHW'.")
    wanted = canonical_axes(step.layout)
    if sorted(str(step.dims)) != sorted(wanted) or "N" not in wanted:
        raise LayoutError(
            f"dims={step.dims!r} and layout={step.layout!r} must order the same axes, N among them, such as 'NHWC'."
        )
    if step.moves_windows and wanted != "NCHW":
        raise LayoutError(f"resize, crop and flip are for the axes N, C, H and W, not dims={step.dims!r}.")
    for name in ("crop", "letterbox"):
        window = getattr(step, name)
        if window is not None and (len(window) != 2 or min(window) < 1):
            raise LayoutError(f"{name}={window} must be height and width, in pixels, at least 1 each.")


def _plain_ranges(value: Any) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Two ranges of positive numbers as floats; None stays, and True selects torchvision's ranges."""
    if value is None:
        return None
    if value is True:
        return _USUAL_RANGES
    try:
        (least, most), (narrow, wide) = ((float(low), float(high)) for low, high in value)
        fits = 0 < least <= most <= 1 and 0 < narrow <= wide and isfinite(wide)
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise LayoutError(
            f"random_resized_crop={value!r} must be two ranges, of the share of a picture's area, up to 1, and of "
            f"width / height, such as {_USUAL_RANGES}; True stands for these."
        )
    return (least, most), (narrow, wide)


_USUAL_RANGES: Final = ((0.08, 1.0), (3 / 4, 4 / 3))
"""The ranges of torchvision's RandomResizedCrop."""


def _check_resize(step: Declaration) -> None:
    """Raise unless at most one option resizes images, and all results have one size."""
    given = [name for name in ("resize", "random_resized_crop", "letterbox") if getattr(step, name) is not None]
    if len(given) > 1 or (step.letterbox is not None and step.crop is not None):
        both = " and ".join([*given, *(["crop"] if len(given) == 1 else [])])
        raise LayoutError(f"{both} cannot be declared together: each says how large the result is.")
    if step.random_resized_crop is not None and step.crop is None:
        raise LayoutError("random_resized_crop= needs crop=, the height and width of the result.")
    if step.resize is not None and (len(step.resize) > 2 or min(step.resize) < 1):
        raise LayoutError(
            f"resize={step.resize} must be height and width in pixels, or one for the shorter side, at least 1 each."
        )
    if step.resize is not None and len(step.resize) == 1 and step.crop is None:
        raise LayoutError(f"resize={step.resize[0]} is the shorter side alone: add crop=, or give height and width.")
    if step.interpolation is not None:
        interpolation_named(step.interpolation)
        if not given:
            raise LayoutError(f"interpolation={step.interpolation!r} is for resize=, random_resized_crop=, letterbox=.")


def _check_numbers(step: Declaration) -> None:
    """Raise if mean and std stand beside scale and bias, or for numbers that no channels could have."""
    normal, direct = {"mean": step.mean, "std": step.std}, {"scale": step.scale, "bias": step.bias}
    if any(values is not None for values in normal.values()) and any(values is not None for values in direct.values()):
        raise LayoutError("mean and std say the same as scale and bias in other units; give one pair of them.")
    given = {name: values for name, values in {**normal, **direct}.items() if values is not None}
    for name, values in given.items():
        if not all(map(isfinite, values)):
            raise LayoutError(f"{name}={values} must be finite.")
    if step.std is not None and min(step.std) <= 0:
        raise LayoutError(f"std={step.std} must be above 0.")
    if step.channels is not None and min(step.channels) < 0:
        raise LayoutError(f"channels={step.channels} must be channels of the picture, counted from 0.")
    counts = {len(values) for values in given.values()} - {1}
    counts |= {len(step.channels)} if step.channels is not None and counts else set()
    if len(counts) > 1:
        raise LayoutError(f"{step} has values for {' and for '.join(map(str, sorted(counts)))} channels.")


def _check_chance(step: Declaration) -> None:
    """Raise unless the seed is valid, and a probability is between 0 and 1 and has a seed."""
    if step.seed is not None and step.seed not in SEEDS:
        raise LayoutError(f"seed={step.seed} must be from {SEEDS.start} to {SEEDS.stop - 1}.")
    if step.flip is not None and not (isinstance(step.flip, Real) and 0 <= step.flip <= 1):
        raise LayoutError(f"flip={step.flip!r} must be True, False, or a probability between 0 and 1.")
    if step.seed is None and step.flip not in (None, 0, 1):
        raise LayoutError(f"flip={step.flip!r} is a probability, which needs seed= to be decided by.")
