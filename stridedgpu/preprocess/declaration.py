"""What `Preprocess` declares: plain values, checked as far as they can be before any picture comes."""

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
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.strides import canonical_axes

__all__ = ["SEEDS", "Declaration"]

SEEDS: Final = range(-(2**63), 2**63)
"""The seeds there are."""

_WHOLE: Final = {"channels": "such as (2, 1, 0)", "crop": "a height and a width in pixels, or one for both"}

_CHOICES: Final = {"errors": ("raise", "skip"), "output": ("numpy", "tensor")}


@dataclass(frozen=True, repr=False)
class Declaration:
    """The fields of `Preprocess`, which says what they mean."""

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
    crop: Any = None
    flip: bool | float | None = None
    seed: int | None = None
    key: str | int | None = None
    row_pitch_bytes: int | None = None
    alignment: int = 32
    device: str = "auto"
    errors: Literal["raise", "skip"] = "raise"
    output: Literal["numpy", "tensor"] = "numpy"

    def __post_init__(self) -> None:
        """Refuse what no picture could fit, and keep plain values: tuples, and the type's name."""
        for name in ("mean", "std", "scale", "bias", "channels", "crop"):
            object.__setattr__(self, name, _plain_numbers(name, getattr(self, name)))
        for name in ("seed", "row_pitch_bytes"):
            object.__setattr__(self, name, _plain_integer(name, getattr(self, name)))
        object.__setattr__(self, "dtype", element_type(self.dtype).name)
        checked_alignment(self.alignment)
        _check_choices(self)
        _check_axes(self)
        _check_numbers(self)
        _check_chance(self)
        device: object = self.device
        if not (isinstance(device, str) and device == "auto"):
            device_name(device)

    @property
    def moves_windows(self) -> bool:
        """Whether pictures are cropped or mirrored."""
        return self.crop is not None or bool(self.flip)

    @property
    def channel_count(self) -> int | None:
        """The channels of the result as far as the declaration says."""
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
        exact = all(number == entry or name not in _WHOLE for number, entry in zip(numbers, entries, strict=True))
    except (TypeError, ValueError, OverflowError):
        exact, numbers = False, ()
    if not exact or not numbers:
        wanted = f"integers, {_WHOLE[name]}" if name in _WHOLE else "a number, or one for each channel"
        raise LayoutError(f"{name}={value!r} must be {wanted}.")
    return numbers * 2 if name == "crop" and len(numbers) == 1 else numbers


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
    """Raise unless columns have names or places, and each choice is one that there is."""
    for name in ("column", "key"):
        value = getattr(step, name)
        if value is not None and (not isinstance(value, (str, int)) or isinstance(value, bool)):
            raise LayoutError(f"{name}={value!r} must be one column's name, or its place in a tuple.")
    for name, known in _CHOICES.items():
        chosen = getattr(step, name)
        if not (isinstance(chosen, str) and chosen in known):
            raise LayoutError(f"{name}={chosen!r} is unknown; it is {known[0]!r} or {known[1]!r}.")


def _check_axes(step: Declaration) -> None:
    """Raise unless `dims` and `layout` order the same axes, rows among them, that the rest of the step needs."""
    if not isinstance(step.layout, str):
        raise LayoutError(f"layout={step.layout!r} is not an axis order such as 'NCHW'.")
    wanted = canonical_axes(step.layout)
    if sorted(str(step.dims)) != sorted(wanted) or "N" not in wanted:
        raise LayoutError(
            f"dims={step.dims!r} and layout={step.layout!r} must order the same axes, N among them, such as 'NHWC'."
        )
    if step.moves_windows and wanted != "NCHW":
        raise LayoutError(f"crop and flip are for the axes N, C, H and W, not dims={step.dims!r}.")
    if step.crop is not None and (len(step.crop) != 2 or min(step.crop) < 1):
        raise LayoutError(f"crop={step.crop} must be height and width, in pixels.")


def _check_numbers(step: Declaration) -> None:
    """Raise where mean and std stand beside scale and bias, or for numbers that no channels could have."""
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
    """Raise unless a seed is one of those there are, and a probability between 0 and 1 stands beside one."""
    if step.seed is not None and step.seed not in SEEDS:
        raise LayoutError(f"seed={step.seed} must be from {SEEDS.start} to {SEEDS.stop - 1}.")
    if step.flip is not None and not (isinstance(step.flip, Real) and 0 <= step.flip <= 1):
        raise LayoutError(f"flip={step.flip!r} must be True, False, or a probability between 0 and 1.")
    if step.seed is None and step.flip not in (None, 0, 1):
        raise LayoutError(f"flip={step.flip!r} is a probability, which needs seed= to be decided by.")
