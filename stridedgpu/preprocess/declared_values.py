"""Canonical forms of a declaration's values: tuples of Python numbers, integers, ranges and probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from numbers import Real
from operator import index
from typing import Any, Final

from stridedgpu.exchange.array_like import plain
from stridedgpu.values.channel_matrix import Matrix, matrix_rows
from stridedgpu.values.errors import LayoutError

__all__ = [
    "INTEGERS",
    "NUMBERS",
    "plain_flip",
    "plain_integer",
    "plain_matrix",
    "plain_numbers",
    "plain_pad",
    "plain_ranges",
]

INTEGERS: Final = ("seed", "row_pitch_bytes", "mask_fill")
"""The fields that are one integer, or None."""

NUMBERS: Final = (
    *("mean", "std", "scale", "bias", "clip", "fill", "gain", "offset"),
    *("channels", "resize", "crop", "letterbox"),
)
"""The fields that are one number or several."""

_PIXELS: Final = "a height and a width in pixels, or one for both"

_WHOLE: Final = {
    "channels": "such as (2, 1, 0)",
    "crop": _PIXELS,
    "letterbox": _PIXELS,
    "resize": "a height and a width in pixels, or one for the shorter side",
}

_PAIRS: Final = {
    "clip": "the least and the largest value that are kept, such as (-1000, 400)",
    "gain": "the range of a factor, such as (0.8, 1.2)",
    "offset": "the range of an addend in units of 0..1, such as (-0.1, 0.1)",
}

_USUAL_RANGES: Final = ((0.08, 1.0), (3 / 4, 4 / 3))
"""The ranges of torchvision's RandomResizedCrop."""


def plain_numbers(name: str, value: Any) -> Any:
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
    if name in _PAIRS:
        return _pair(name, value, numbers)
    if not exact or not numbers:
        wanted = f"integers, {_WHOLE[name]}" if name in _WHOLE else "a number, or one for each channel"
        raise LayoutError(f"{name}={value!r} must be {wanted}.")
    return numbers * 2 if name in ("crop", "letterbox") and len(numbers) == 1 else numbers


def _pair(name: str, value: Any, numbers: tuple[float, ...]) -> tuple[float, float]:
    """A range. Raises `LayoutError` unless it is two finite numbers in order; a clip needs room between them."""
    fits = len(numbers) == 2 and all(map(isfinite, numbers)) and numbers[0] <= numbers[1]
    if not fits or (name == "clip" and numbers[0] == numbers[1]):
        raise LayoutError(f"{name}={value!r} must be two numbers in order: {_PAIRS[name]}.")
    return numbers[0], numbers[1]


def plain_integer(name: str, value: Any) -> int | None:
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


def plain_matrix(value: object) -> Matrix | None:
    """A matrix of any library as tuples of Python numbers; None stays."""
    if value is None:
        return None
    return tuple(tuple(memoryview(row).cast("d")) for row in matrix_rows(value))


def plain_ranges(value: Any) -> tuple[tuple[float, float], tuple[float, float]] | None:
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
            f"width / height, such as {_USUAL_RANGES}; True stands for these. The size of the result is crop=."
        )
    return (least, most), (narrow, wide)


def plain_pad(value: object) -> tuple[int, int, int, int] | None:
    """Rows above, columns before, rows below and columns after an image; one number stands for all, two for pairs."""
    if value is None:
        return None
    given = plain(value)
    entries = tuple(given) if isinstance(given, (Sequence, tuple)) and not isinstance(given, str) else (given,)
    is_whole = all(isinstance(entry, int) and not isinstance(entry, bool) and entry >= 0 for entry in entries)
    if not is_whole or len(entries) not in (1, 2, 4):
        raise LayoutError(
            f"pad={value!r} must be numbers of pixels from 0: one for all sides, two for rows and columns, or four for "
            "top, left, bottom and right."
        )
    above, before, below, after = entries * (4 // len(entries))
    return above, before, below, after


def plain_flip(value: Any, seed: int | None) -> Any:
    """Whether to mirror, without a seed; with one the probability, which is one half for True. None stays."""
    if value is None:
        return None
    probability = float(value) if isinstance(value, Real) else -1.0
    if not 0 <= probability <= 1:
        raise LayoutError(f"flip={value!r} must be True, False, or a probability between 0 and 1.")
    if seed is None:
        if probability not in (0, 1):
            raise LayoutError(f"flip={value!r} is a probability, which needs seed= to be decided by.")
        return bool(probability)
    return 0.5 if value is True else probability
