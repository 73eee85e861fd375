"""`Arithmetic`: how a resized pixel is computed from its taps, one description for every device and execution.

A resize is separable: one pass along each axis. In each pass a pixel is a weighted sum of neighbouring pixels, its
taps. Libraries differ in the type and precision of the weights, in the intermediate between the passes, and in how the
last sum becomes a pixel. This module states the differences as a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import ElementTypeError, LayoutError

__all__ = ["INTERPOLATIONS", "PASSES", "Arithmetic", "Interpolation", "Passes", "arithmetic_of", "interpolation_named"]

Passes = Literal["horizontal", "vertical", "pillow-13"]
"""The pass that comes first; "pillow-13" chooses it by the sizes, as Pillow 13 does."""

PASSES: Final[tuple[Passes, ...]] = ("horizontal", "vertical", "pillow-13")


class Interpolation(StrEnum):
    """The library and filter that a resize reproduces to the bit."""

    PILLOW_BOX = "pillow-box"
    PILLOW_BILINEAR = "pillow-bilinear"
    PILLOW_HAMMING = "pillow-hamming"
    PILLOW_BICUBIC = "pillow-bicubic"
    PILLOW_LANCZOS = "pillow-lanczos"
    PILLOW_NEAREST = "pillow-nearest"
    OPENCV_LINEAR = "opencv-linear"
    OPENCV_LINEAR_EXACT = "opencv-linear-exact"
    OPENCV_NEAREST = "opencv-nearest"
    OPENCV_AREA = "opencv-area"
    OPENCV_CUBIC = "opencv-cubic"

    @property
    def is_pillow(self) -> bool:
        """True for Pillow's rules."""
        return self.startswith("pillow")

    @property
    def is_nearest(self) -> bool:
        """True if each pixel is a copy of one source pixel."""
        return self.endswith("nearest")


INTERPOLATIONS: Final = tuple(str(name) for name in Interpolation)


class Arithmetic(StrEnum):
    """How sums of taps become pixels. `spec` has the numbers; `first` and `second` name the passes in order."""

    COPY = "copy"
    PILLOW_FIXED = "pillow-fixed"
    PILLOW_DOUBLE = "pillow-double"
    OPENCV_LINEAR = "opencv-linear"
    OPENCV_EXACT = "opencv-exact"
    OPENCV_CUBIC = "opencv-cubic"
    OPENCV_MEAN = "opencv-mean"
    OPENCV_QUARTER = "opencv-quarter"
    OPENCV_FLOAT = "opencv-float"

    @property
    def spec(self) -> ArithmeticSpec:
        """The weights, the intermediate between the passes, and the rule in words."""
        return _SPECS[self]


@dataclass(frozen=True, slots=True)
class ArithmeticSpec:
    """The numbers of an `Arithmetic`.

    `weights` is the NumPy name of the weights' type; integer weights have `bits` fractional bits. `between` is the type
    of a pixel between the passes, None for the source's own. `words` describes both passes.
    """

    weights: str
    bits: int
    between: str | None
    words: str


_SPECS: Final = {
    Arithmetic.COPY: ArithmeticSpec("int32", 0, None, "each pixel is a copy of one source pixel"),
    Arithmetic.PILLOW_FIXED: ArithmeticSpec(
        "int32", 22, None, "each pass: (sum of taps + 2^21) >> 22 in 32 bits, clamped to 0..255; 8 bits between"
    ),
    Arithmetic.PILLOW_DOUBLE: ArithmeticSpec(
        "float64", 0, None, "each pass: the sum of taps in float64, in order; the source's type between"
    ),
    Arithmetic.OPENCV_LINEAR: ArithmeticSpec(
        "int32",
        11,
        "int32",
        "first pass: H = sum of taps; second: (((b0 (H0 >> 4)) >> 16) + ((b1 (H1 >> 4)) >> 16) + 2) >> 2",
    ),
    Arithmetic.OPENCV_EXACT: ArithmeticSpec(
        "int32", 8, "int32", "first pass: H = sum of taps; second: (sum of taps of H + 2^15) >> 16"
    ),
    Arithmetic.OPENCV_CUBIC: ArithmeticSpec(
        "int32", 11, "int32", "first pass: H = sum of taps; second: (sum of taps of H + 2^21) >> 22, clamped to 0..255"
    ),
    Arithmetic.OPENCV_MEAN: ArithmeticSpec(
        "int32", 0, "int32", "both passes: sums of whole pixels; then float32(sum) * factor, half to even"
    ),
    Arithmetic.OPENCV_QUARTER: ArithmeticSpec(
        "int32", 0, "int32", "both passes: sums of whole pixels; then (sum + 2) >> 2"
    ),
    Arithmetic.OPENCV_FLOAT: ArithmeticSpec(
        "float32", 0, "float32", "both passes: sums of taps in float32, in order; integers half to even, saturated"
    ),
}

_OF_PILLOW: Final = {
    "uint8": Arithmetic.PILLOW_FIXED,
    "uint16": Arithmetic.PILLOW_DOUBLE,
    "float32": Arithmetic.PILLOW_DOUBLE,
}

_OF_OPENCV: Final = {
    Interpolation.OPENCV_LINEAR: Arithmetic.OPENCV_LINEAR,
    Interpolation.OPENCV_LINEAR_EXACT: Arithmetic.OPENCV_EXACT,
    Interpolation.OPENCV_CUBIC: Arithmetic.OPENCV_CUBIC,
    Interpolation.OPENCV_AREA: Arithmetic.OPENCV_FLOAT,
}


def interpolation_named(name: object) -> Interpolation:
    """The interpolation of a name. Raises `LayoutError` for an unknown one.

    >>> interpolation_named("pillow-bicubic").is_pillow
    True
    """
    try:
        return Interpolation(name)  # type: ignore[arg-type]
    except ValueError:
        raise LayoutError(f"interpolation={name!r} is unknown; there are {', '.join(INTERPOLATIONS)}.") from None


def arithmetic_of(interpolation: Interpolation, element: ElementType) -> Arithmetic:
    """The arithmetic for pixels of a type, apart from the special cases of integer scale factors.

    Raises `ElementTypeError` for types that the rule's library does not resize.
    """
    if interpolation.is_nearest:
        return Arithmetic.COPY
    if interpolation.is_pillow:
        found = _OF_PILLOW.get(element.name)
    elif element.name == "uint8":
        found = _OF_OPENCV[interpolation]
    elif element.name in ("uint16", "float32") and interpolation is not Interpolation.OPENCV_LINEAR_EXACT:
        found = Arithmetic.OPENCV_FLOAT
    else:
        found = None
    if found is None:
        types = "uint8" if interpolation is Interpolation.OPENCV_LINEAR_EXACT else "uint8, uint16 and float32"
        raise ElementTypeError(
            f"interpolation={str(interpolation)!r} resizes {types}, and the source holds {element}: relayout it with "
            "dtype= first, or take a nearest interpolation, which moves elements of every type."
        )
    return found
