"""`Interpolation`: the rules of a resize as a table: filter, support, weights, sums and rounding of each.

A resize is separable: one pass along each axis. In a pass a pixel is a weighted sum of neighbouring pixels, its taps.
`stridedgpu.problems.resize_taps` computes taps by these rows; NumPy, native loops and CUDA's kernels sum them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import pi
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from .dtypes import ElementType
from .errors import ElementTypeError, LayoutError

InterpolationName: TypeAlias = Literal[
    "pillow-box",
    "pillow-bilinear",
    "pillow-hamming",
    "pillow-bicubic",
    "pillow-lanczos",
    "pillow-nearest",
    "opencv-linear",
    "opencv-linear-exact",
    "opencv-nearest",
    "opencv-area",
    "opencv-cubic",
    "torch-bilinear",
    "torch-bicubic",
    "torch-lanczos",
    "torch-nearest",
]
"""The library and its filter, of `resize` and its relatives."""

Passes: TypeAlias = Literal["horizontal", "vertical", "pillow-13"]
"""The first pass of Pillow's filters; "pillow-13" chooses it by the sizes, as Pillow 13 does."""

PASSES: Final[tuple[Passes, ...]] = get_args(Passes)


# Filters: a weight by the distance x, in float64, each operation rounded. `kernels/cpu/resize_tables.hpp` has the same
# operations.


Number: TypeAlias = Any
"""An array of NumPy's: filters take its + - * / & and comparisons."""


class Maths(Protocol):
    """What filters need of numbers besides these operators."""

    def select(self, condition: Number, value: Number, other: Number) -> Number:
        """`value` where the condition holds, else `other`; both are computed."""

    def is_zero(self, x: Number) -> Number:
        """Whether it is 0."""

    def absolute(self, x: Number) -> Number:
        """The absolute value."""

    def multiply_add(self, x: Number, factor: Number, addend: Number) -> Number:
        """`x * factor + addend`: each step rounded in float64, and rounded once in float32, as torch's loops do."""

    def sine(self, x: Number) -> Number:
        """The C library's sine."""

    def cosine(self, x: Number) -> Number:
        """The C library's cosine."""


Filter: TypeAlias = Callable[[Number, Maths], Number]


def _box(x: Number, maths: Maths) -> Number:
    return maths.select((x > -0.5) & (x <= 0.5), 1.0, 0.0)


def _triangle(x: Number, maths: Maths) -> Number:
    near = maths.absolute(x) * -1.0 + 1.0
    return maths.select(near > 0.0, near, 0.0)


def _cubic(x: Number, maths: Maths) -> Number:
    a, x = -0.5, maths.absolute(x)
    near = maths.multiply_add(maths.multiply_add(x, a + 2.0, -(a + 3.0)) * x, x, 1.0)
    far = maths.multiply_add(maths.multiply_add(x - 5.0, x, 8.0), x, -4.0) * a
    return maths.select(x < 1.0, near, maths.select(x < 2.0, far, 0.0))


def _sinc(x: Number, maths: Maths) -> Number:
    angle = x * pi
    return maths.select(maths.is_zero(x), 1.0, maths.sine(angle) / angle)


def _hamming(x: Number, maths: Maths) -> Number:
    x = maths.absolute(x)
    # Pillow's constants are float32: 0.46f and 0.54f.
    window = maths.cosine(x * pi) * 0.46000000834465027 + 0.5400000214576721
    near = maths.select(maths.is_zero(x), 1.0, _sinc(x, maths) * window)
    return maths.select(x < 1.0, near, 0.0)


def _lanczos(x: Number, maths: Maths) -> Number:
    return maths.select((x >= -3.0) & (x < 3.0), _sinc(x, maths) * _sinc(x / 3.0, maths), 0.0)


# Sums


class Finish(StrEnum):
    """What becomes of the sum of a pass."""

    KEPT = "kept"
    """The sum itself, in the type of the sums."""
    SHIFTED = "shifted"
    """Fixed point: rounded half up, shifted and clamped to the pixels' type."""
    UPPER = "upper"
    """OpenCV's INTER_LINEAR: the terms are the upper halves of (weight * (sum >> 4)); then as `SHIFTED`."""
    MEAN = "mean"
    """float32(sum) times the factor of a block, then as `HALF_EVEN`."""
    HALF_UP = "half up"
    """Integers half up and clamped; float32 with one NaN."""
    HALF_EVEN = "half even"
    """Integers half to even and clamped; float32 with one NaN."""


@dataclass(frozen=True, slots=True)
class ResizeSumsSpec:
    """The numbers of a `ResizeSums`.

    `weights` is the NumPy name of the type of weights and sums; integer weights have `bits` fractional bits. `first`
    and `second` are what becomes of the sums of each pass, `shift` the bits by which the last integers are shifted
    (of both passes, if the first is not `KEPT`). `words` describes both passes.
    """

    weights: str
    bits: int
    first: Finish
    second: Finish
    shift: int
    words: str


class ResizeSums(StrEnum):
    """How sums of taps become pixels."""

    COPY = "copy"
    FIXED_POINT = "fixed-point"
    PILLOW_DOUBLE = "pillow-double"
    OPENCV_LINEAR = "opencv-linear"
    OPENCV_EXACT = "opencv-exact"
    OPENCV_CUBIC = "opencv-cubic"
    OPENCV_MEAN = "opencv-mean"
    OPENCV_QUARTER = "opencv-quarter"
    OPENCV_FLOAT = "opencv-float"
    TORCH_FLOAT = "torch-float"

    @property
    def spec(self) -> ResizeSumsSpec:
        """The weights, the roundings, and the rule in words."""
        return _SPECS[self]

    @property
    def fuses(self) -> bool:
        """Whether products behind the `rounded_taps` are added without being rounded."""
        return self is ResizeSums.TORCH_FLOAT


_SPECS: Final = {
    arithmetic: ResizeSumsSpec(weights, bits, Finish(first), Finish(second), shift, words)
    for arithmetic, weights, bits, first, second, shift, words in (
        (ResizeSums.COPY, "int32", 0, "kept", "kept", 0, "each pixel is a copy of one source pixel"),
        (ResizeSums.FIXED_POINT, "int32", 22, "shifted", "shifted", 22,
         "each pass: (sum of taps + 2^21) >> 22 in 32 bits, clamped to 0..255; 8 bits between"),
        (ResizeSums.PILLOW_DOUBLE, "float64", 0, "half up", "half up", 0,
         "each pass: the sum of taps in float64, in order; the source's type between"),
        (ResizeSums.OPENCV_LINEAR, "int32", 11, "kept", "upper", 2,
         "first pass: H = sum of taps; second: (((b0 (H0 >> 4)) >> 16) + ((b1 (H1 >> 4)) >> 16) + 2) >> 2"),
        (ResizeSums.OPENCV_EXACT, "int32", 8, "kept", "shifted", 16,
         "first pass: H = sum of taps; second: (sum of taps of H + 2^15) >> 16"),
        (ResizeSums.OPENCV_CUBIC, "int32", 11, "kept", "shifted", 22,
         "first pass: H = sum of taps; second: (sum of taps of H + 2^21) >> 22, clamped to 0..255"),
        (ResizeSums.OPENCV_MEAN, "int32", 0, "kept", "mean", 0,
         "both passes: sums of whole pixels; then float32(sum) * factor, half to even"),
        (ResizeSums.OPENCV_QUARTER, "int32", 0, "kept", "shifted", 2,
         "both passes: sums of whole pixels; then (sum + 2) >> 2"),
        (ResizeSums.OPENCV_FLOAT, "float32", 0, "kept", "half even", 0,
         "both passes: sums of taps in float32, in order; integers half to even, saturated"),
        (ResizeSums.TORCH_FLOAT, "float32", 0, "half even", "half even", 0,
         "each pass: the sum of taps in float32, in order, the products of groups of four rounded and the last fused"),
    )
}  # fmt: skip


def rounded_taps(count: Number) -> Number:
    """How many of a sum's taps have rounded products where a sum `fuses`: the first one, and whole groups of four.

    torch's loops for AVX2 and AVX-512 multiply four taps at a time, and fuse each of the last ones.

    >>> [rounded_taps(count) for count in (1, 4, 5, 8, 9)]
    [1, 1, 5, 5, 9]
    """
    return ((count - 1) & -4) + 1


# Rules

Sampling: TypeAlias = Literal["nearest", "filter", "linear", "linear-exact", "cubic", "area"]
"""How taps are placed and weighted: one pixel; a filter that widens where an axis shrinks, cut at the image's edges; or
OpenCV's, whose taps repeat the pixels at the edges."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Interpolation:
    """The library and filter that a resize reproduces to the bit; one object for each name.

    `arithmetic_of` has the element types that the rule resizes, apart from integer scale factors. A "filter"
    weights a source pixel by `filter` at its distance, and reads `support` pixels to either side, both counted in
    pixels of the coarser of the two grids. Its integer weights have 22 fractional bits, of which an axis uses as many
    as leave its largest weight within `weight_bits` bits. With `cuts_boxes` the whole pixels that a box touches are cut
    out first, and taps end at their edges.
    """

    name: InterpolationName
    sampling: Sampling
    arithmetic_of: Mapping[str, ResizeSums]
    filter: Filter | None = None
    support: float = 0.0
    weight_bits: int = 32
    cuts_boxes: bool = False

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    def __reduce__(self) -> tuple[object, ...]:
        return interpolation_named, (self.name,)

    @property
    def is_pillow(self) -> bool:
        """True for Pillow's rules."""
        return self.name.startswith("pillow")

    @property
    def has_narrow_weights(self) -> bool:
        """Whether the fractional bits of an axis's integer weights depend on the largest of them."""
        return self.weight_bits < 32

    @property
    def is_nearest(self) -> bool:
        """True if each pixel is a copy of one source pixel."""
        return self.sampling == "nearest"


_PILLOW: Final = {
    "uint8": ResizeSums.FIXED_POINT,
    "uint16": ResizeSums.PILLOW_DOUBLE,
    "float32": ResizeSums.PILLOW_DOUBLE,
}
_OPENCV: Final = dict.fromkeys(("uint8", "uint16", "float32"), ResizeSums.OPENCV_FLOAT)
_TORCH: Final = {"uint8": ResizeSums.FIXED_POINT, "float32": ResizeSums.TORCH_FLOAT}

INTERPOLATIONS: Final[Mapping[str, Interpolation]] = {
    rule.name: rule
    for rule in (
        Interpolation("pillow-box", "filter", _PILLOW, _box, 0.5),
        Interpolation("pillow-bilinear", "filter", _PILLOW, _triangle, 1.0),
        Interpolation("pillow-hamming", "filter", _PILLOW, _hamming, 1.0),
        Interpolation("pillow-bicubic", "filter", _PILLOW, _cubic, 2.0),
        Interpolation("pillow-lanczos", "filter", _PILLOW, _lanczos, 3.0),
        Interpolation("pillow-nearest", "nearest", {}),
        Interpolation("opencv-linear", "linear", {**_OPENCV, "uint8": ResizeSums.OPENCV_LINEAR}),
        Interpolation("opencv-linear-exact", "linear-exact", {"uint8": ResizeSums.OPENCV_EXACT}),
        Interpolation("opencv-nearest", "nearest", {}),
        Interpolation("opencv-area", "area", _OPENCV),
        Interpolation("opencv-cubic", "cubic", {**_OPENCV, "uint8": ResizeSums.OPENCV_CUBIC}),
        Interpolation("torch-bilinear", "filter", _TORCH, _triangle, 1.0, weight_bits=16, cuts_boxes=True),
        Interpolation("torch-bicubic", "filter", _TORCH, _cubic, 2.0, weight_bits=16, cuts_boxes=True),
        Interpolation("torch-lanczos", "filter", _TORCH, _lanczos, 3.0, weight_bits=16, cuts_boxes=True),
        Interpolation("torch-nearest", "nearest", {}, cuts_boxes=True),
    )
}
"""Every rule by its name."""


def interpolation_named(name: object) -> Interpolation:
    """The interpolation of a name. Raises `LayoutError` for an unknown one.

    >>> interpolation_named("pillow-bicubic").support
    2.0
    """
    rule = INTERPOLATIONS.get(name) if isinstance(name, str) else None
    if rule is None:
        raise LayoutError(f"interpolation={name!r} is unknown; there are {', '.join(INTERPOLATIONS)}.")
    return rule


def arithmetic_of(interpolation: Interpolation, element: ElementType) -> ResizeSums:
    """The arithmetic for pixels of a type, apart from the special cases of integer scale factors.

    Raises `ElementTypeError` for types that the rule's library does not resize.
    """
    if interpolation.is_nearest:
        return ResizeSums.COPY
    arithmetic = interpolation.arithmetic_of.get(element.name)
    if arithmetic is None:
        *first, last = interpolation.arithmetic_of
        types = f"{', '.join(first)} and {last}" if first else last
        raise ElementTypeError(
            f"interpolation={str(interpolation)!r} resizes {types}, and the source holds {element}: relayout it with "
            "dtype= first, or take a nearest interpolation, which moves elements of every type."
        )
    return arithmetic
