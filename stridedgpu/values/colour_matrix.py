"""`ColourMatrix`: brightness and colour difference to red, green and blue, and back, in integers.

With y, u and v the samples less `luma_floor`, `chroma_centre` and `chroma_centre`, luma at least `luma_least` before:

    red   = (y * luma + 2^19 + v * red_v) >> 20                    clamped to 0 ... most
    green = (y * luma + 2^19 + v * green_v + u * green_u) >> 20
    blue  = (y * luma + 2^19 + u * blue_u) >> 20

The constants are 20-bit fixed point. They follow from a standard's share of red, Kr, and of blue, Kb, in brightness:

    luma     most / luma range              red_v     2 (1 - Kr) most / chroma range
    blue_u   2 (1 - Kb) most / chroma range
    green_u  -blue_u Kb / (1 - Kr - Kb)     green_v   -red_v Kr / (1 - Kr - Kb)

    bt601   Kr 0.299, Kb 0.114      bt709   Kr 0.2126, Kb 0.0722      bt2020   Kr 0.2627, Kb 0.0593

At 8 bits, limited range has brightness 16 to 235 and colour difference 16 to 240 around 128; full range has 0 to 255.
Each further bit doubles these. "bt601" at limited range and 8 bits instead has OpenCV's constants, which come from
1.164, 1.596, 0.813, 0.391 and 2.018, so that its bits are those of `cv2.cvtColor`,
which takes luma below black, 0 to 15, as black: its `luma_least` is 16, and that of all others 0.

`ARITHMETIC` has another arithmetic, "swscale": that of FFmpeg's swscale for planes of 8 bits, with constants of 13
fractional bits. Those of limited range are rounded to 16 bits first, times 224/255 rounded toward 0 for full range,
and then rounded to 13. Where pixels share chroma, each product is rounded down by itself:

    red    = (y * luma >> 13) + (v * red_v >> 13)        green and blue likewise

Of 4:4:4 the sum is rounded, in 32 bits with 22 of fraction: one of 512 levels or more wraps round, and is clamped to 0.

Accuracy against float64, rounded to nearest. All 2^24 samples of 8 bits: 3.4% of the colours differ with OpenCV's
constants, at most 1 in 9,000 with the others; always by one level, and no result is 0.7 of a level from the exact
value. 2^21 random samples of each depth, every matrix and range: at most 0.46% of the colours differ of 9 bits, 0.31%
of 10, 0.34% of 12, 0.35% of 14 and 0.33% of 16, and no result is 0.53 of a level from the exact value. All colours of
planes of red, green and blue: none differs of 8, 9, 10 and 16 bits, 0.17% of 12 and 0.01% of 14, by one level, and no
result is 0.51 of a level from the exact value.

Sources: ITU-R BT.601-7, BT.709-6, BT.2020-2 and BT.2100-2; OpenCV, `modules/imgproc/src/color_yuv.simd.hpp`; all 2^24
samples of 8 bits through swscale 7, 8 and 9 of PyAV's wheels for x86-64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from .errors import LayoutError
from .pixel_formats import PIXEL_FORMATS, PixelFormat

FRACTION_BITS: Final = 20
"""Fractional bits of constants, but of swscale's for 4:4:4."""

STANDARDS: Final = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722), "bt2020": (0.2627, 0.0593)}
"""Shares of red and of blue in brightness."""

ARITHMETIC: Final = ("rounded", "swscale")
"""How samples become colours: by one rounded sum, or as in FFmpeg's swscale."""

GRAY: Final = (9798, 19235, 3735)
"""The weights of red, green and blue in gray, times 2^15: BT.601's, as `cv2.COLOR_RGB2GRAY` has them."""

GRAY_BITS: Final = 15
"""Fractional bits of the gray weights; the sum is rounded by adding half of the last bit."""


@dataclass(frozen=True, slots=True)
class ColourMatrix:
    """Fixed-point constants from YUV samples to RGB; `most` is the largest colour value: 255 or 65535.

    They have `bits` fractional bits. With `floors` each product is rounded down by itself, else their sum is rounded.
    """

    luma_least: int
    luma_floor: int
    chroma_centre: int
    luma: int
    red_v: int
    green_u: int
    green_v: int
    blue_u: int
    most: int
    bits: int = FRACTION_BITS
    floors: bool = False


@dataclass(frozen=True, slots=True)
class LumaMatrix:
    """Fixed-point constants from RGB to samples: three weights times 2^`bits`, and an offset, for each sample.

    luma = ((red * y[0] + green * y[1] + blue * y[2] + 2^(bits - 1) + y[3] * 2^bits) >> bits) << shift

    The sum is clamped to 0 ... `most` before the left shift; u and v likewise. Chroma of 4:2:2 is made of the sums of
    two pixels' colours, whose weights are half as large; behind the last column of an odd width, it counts twice.
    """

    y: tuple[int, int, int, int]
    u: tuple[int, int, int, int]
    v: tuple[int, int, int, int]
    bits: int = FRACTION_BITS
    most: int = 255
    shift: int = 0


def check_matrix(matrix: object) -> str:
    """The name of a standard. Raises `LayoutError` for another."""
    if not isinstance(matrix, str) or matrix not in STANDARDS:
        raise LayoutError(f"matrix={matrix!r} is unknown; it is one of {', '.join(map(repr, STANDARDS))}.")
    return matrix


def check_arithmetic(arithmetic: object, samples: PixelFormat, height: int, chroma: str) -> str:
    """The name of an arithmetic. Raises `LayoutError` for another, and for "swscale" where it has no rule here.

    Of other formats, and of an odd height where pixels share chroma, swscale interpolates chroma; each of its versions
    does so in a way of its own.
    """
    if not isinstance(arithmetic, str) or arithmetic not in ARITHMETIC:
        raise LayoutError(f"arithmetic={arithmetic!r} is unknown; it is one of {', '.join(map(repr, ARITHMETIC))}.")
    if arithmetic != "swscale" or (samples.kind != "yuv" and samples.bits == 8):
        return arithmetic
    leave = "leave arithmetic= out, or take swscale's own pixels, as frame.to_ndarray(format='rgb24') of PyAV has them."
    if samples.bits > 8 or len(samples.planes) != 3:
        rows = (row for row in PIXEL_FORMATS.values() if row.kind == "yuv" and row.bits == 8)
        known = [row.name for row in rows if len(row.planes) == 3]
        raise LayoutError(f"arithmetic='swscale' is for {', '.join(known)}, and this frame is {samples.name}; {leave}")
    if height % 2 and samples.chroma_step[1] == 2:
        raise LayoutError(
            f"arithmetic='swscale' is for an even height where pixels share chroma, and this {samples.name} frame has "
            f"{height} rows; {leave}"
        )
    if chroma != "repeated":
        raise LayoutError(
            f"arithmetic='swscale' repeats chroma, and chroma={chroma!r} does not; leave one of them out."
        )
    return arithmetic


@lru_cache(maxsize=64)
def colour_matrix(matrix: str, samples: PixelFormat, *, full_range: bool, arithmetic: str = "rounded") -> ColourMatrix:
    """The constants for a standard and a format's samples, by the rule of an arithmetic.

    Samples of more than 8 bits give 16-bit colours, whose largest value is the same white. Those of a format of colours
    or of gray have full range, and no constant but `luma`, by which each colour is multiplied.

    >>> from .pixel_formats import PIXEL_FORMATS
    >>> colour_matrix("bt709", PIXEL_FORMATS["nv12"], full_range=True).luma == 1 << 20
    True
    """
    most = samples.element.limits[1]
    # Of 10 bits at the top of 16, full range ends at 1023 * 64.
    brightest = (2**samples.bits - 1) << (8 * samples.element.itemsize - samples.bits)
    if samples.kind != "yuv":
        return ColourMatrix(0, 0, 0, round(most / brightest * 2**FRACTION_BITS) << samples.shift, 0, 0, 0, 0, most)
    top = 2 ** (8 * samples.element.itemsize - 8 - samples.shift)  # an 8-bit code of 1, as it stands in an element
    if arithmetic == "swscale":
        return _swscale_matrix(matrix, samples, full_range=full_range)
    if matrix == "bt601" and not full_range and samples.bits == 8:
        return ColourMatrix(16, 16, 128, 1220542, 1673527, -409993, -852492, 2116026, most)
    luma_range, chroma_range = (brightest, brightest) if full_range else (219 << _depth(most), 224 << _depth(most))
    exact = _exact_constants(matrix, most / luma_range, most / chroma_range)
    # Rounded before the shift, so that the same image at the bottom of its elements has the same colours.
    luma, red_v, green_u, green_v, blue_u = (round(value * 2**FRACTION_BITS) << samples.shift for value in exact)
    return ColourMatrix(0, 0 if full_range else 16 * top, 128 * top, luma, red_v, green_u, green_v, blue_u, most)


def _exact_constants(matrix: str, luma: float, chroma: float) -> tuple[float, ...]:
    """The constants of `ColourMatrix` from `luma` on, for the levels that one of luma and one of chroma make."""
    red, blue = STANDARDS[check_matrix(matrix)]
    green = 1 - red - blue
    red_v, blue_u = 2 * (1 - red) * chroma, 2 * (1 - blue) * chroma
    return luma, red_v, -blue_u * blue / green, -red_v * red / green, blue_u


def _swscale_matrix(matrix: str, samples: PixelFormat, *, full_range: bool) -> ColourMatrix:
    """The constants of swscale, which `check_arithmetic` has found to be those of the format."""
    floors = samples.chroma_step[1] == 2
    bits, black = FRACTION_BITS if floors else _WRAPPING_BITS, 0 if full_range else 16
    numbers = [round(value * 2**16) for value in _exact_constants(matrix, 255 / 219, 255 / 224)]
    if full_range:
        numbers = [2**16, *(int(number * 224 / 255) for number in numbers[1:])]
    luma, red_v, green_u, green_v, blue_u = (number + 4 >> 3 << (bits - 13) for number in numbers)
    return ColourMatrix(0, black, 128, luma, red_v, green_u, green_v, blue_u, 255, bits, floors)


def luma_matrix(matrix: str, samples: PixelFormat, *, full_range: bool) -> LumaMatrix:
    """The constants from RGB of a format's element type to its samples.

    "bt601" of limited range and 8 bits has OpenCV's: those of `COLOR_RGB2YUV_YUY2` for 4:2:2, and of
    `COLOR_RGB2YUV_I420` for the others; gray has those of `COLOR_RGB2GRAY`. For other matrices and ranges, luma's three
    weights are rounded so that white is exact, and the weights of u and v so that gray has no colour. Of a format of
    colours, the three samples are red, green and blue.
    """
    nothing = (0, 0, 0, 0)
    width, beyond = 8 * samples.element.itemsize, samples.bits - 8
    most, white = 2**samples.bits - 1, 2**width - 1
    bits = FRACTION_BITS if width == 8 else _DEEP_FRACTION_BITS
    fixed_point = bits, most, width - samples.bits - samples.shift
    one = 2**bits
    if samples.kind == "rgb":
        own = round(one * most / white)
        return LumaMatrix((own, 0, 0, 0), (0, own, 0, 0), (0, 0, own, 0), *fixed_point)
    if samples.kind == "gray":
        red_, green_, blue_ = (round(weight * one * most / (white << GRAY_BITS)) for weight in GRAY)
        return LumaMatrix((red_, green_, blue_, 0), nothing, nothing, *fixed_point)
    joined = 2 if samples.chroma_step == (1, 2) else 1  # the pixels whose sum gives chroma
    if matrix == "bt601" and not full_range and samples.bits == 8:
        return _OPENCV_422 if joined == 2 else _OPENCV_420
    red, blue = STANDARDS[check_matrix(matrix)]
    luma, chroma = (most / white,) * 2 if full_range else ((219 << beyond) / white, (224 << beyond) / white)
    half = round(one * chroma / 2 / joined)
    y_red, y_blue = round(red * luma * one), round(blue * luma * one)
    u_red, v_blue = (
        round(-share * chroma * one / (2 * (1 - own)) / joined) for share, own in ((red, blue), (blue, red))
    )
    centre = 128 << beyond
    return LumaMatrix(
        (y_red, round(luma * one) - y_red - y_blue, y_blue, 0 if full_range else 16 << beyond),
        (u_red, -half - u_red, half, centre),
        (half, -half - v_blue, v_blue, centre),
        *fixed_point,
    )


_OPENCV_420: Final = LumaMatrix(
    (269484, 528482, 102760, 16), (-155188, -305135, 460324, 128), (460324, -385875, -74448, 128)
)

_OPENCV_422: Final = LumaMatrix(
    (4211 << 6, 8258 << 6, 1606 << 6, 16),
    (-1212 << 6, -2384 << 6, 3596 << 6, 128),
    (3596 << 6, -3015 << 6, -582 << 6, 128),
)
"""OpenCV's have 14 fractional bits."""

_WRAPPING_BITS: Final = 22
"""Fractional bits with which sums of 512 levels are beyond 32 bits."""

_DEEP_FRACTION_BITS: Final = 32
"""Fractional bits of weights for 16-bit colours; with 20, their rounding would be a tenth of a 10-bit level."""


def _depth(most: int) -> int:
    return most.bit_length() - 8
