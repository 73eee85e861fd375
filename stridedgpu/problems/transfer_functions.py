"""Transfer functions of high dynamic range, as tables: from a colour's code to light, and from light to an SDR colour.

Light is a number for each of red, green and blue, rounded once from float64 to float32. For a code e of 0 to 1:

    pq, linear    ((max(e^(1/m2) - c1, 0)) / (c2 - c3 e^(1/m2)))^(1/m1)    1.0 is 10,000 cd/m2 of the display
    hlg, linear   e^2 / 3 up to e = 0.5, else (exp((e - c) / a) + b) / 12    1.0 is the peak of the scene

    m1 = 2610 / 2^14   m2 = 2523 / 2^5   c1 = 3424 / 2^12   c2 = 2413 / 2^7   c3 = 2392 / 2^7
    a = 0.17883277     b = 1 - 4 a       c = 0.5 - a ln(4 a)

For SDR, light is that of a display of `PEAK` cd/m2, for which most such video is made: of PQ as it is, up to `PEAK`,
and of HLG the scene's to the power of 1.2. The white of SDR is that of HDR's graphics, `WHITE`. With e and w the codes
that PQ has for the light and for `WHITE`, each divided by the code of `PEAK`, and k = 1.5 w - 0.5, e becomes:

    e                                                             up to k
    (2 t^3 - 3 t^2 + 1) k + (t^3 - 2 t^2 + t) (1 - k) + (3 t^2 - 2 t^3) w    above, t = (e - k) / (1 - k)

Then light of 1.0 is `WHITE`. `TO_BT709` mixes it into BT.709's primaries; what these cannot show is clamped. A light y
of 0 to 1, rounded to 16 bits, is the colour 12.92 y up to 0.0031308, else 1.055 y^(1/2.4) - 0.055, rounded to 8 bits.

Each entry of the tables is its formula's exact value, rounded: computed with 40 digits, all are the same.

Sources: ITU-R BT.2100-2, tables 4 and 5; BT.2390-10, 5.4.1, without its black level, for each colour by itself;
BT.2408-4, 2.1, for white; BT.2407-0, 2.2, whose matrix has four places; IEC 61966-2-1 for the last curve.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

_Curve: TypeAlias = NDArray[np.float64]

TRANSFERS: Final = ("pq", "hlg")
"""How a code means light: BT.2100's perceptual quantization, and its hybrid of a logarithm and a gamma."""

LIGHTS: Final = ("linear", "sdr")
"""What operations see of such codes: light, or colours for a display of standard dynamic range."""

PEAK: Final = 1000
WHITE: Final = 203
"""Luminances in cd/m2."""

TO_BT709: Final = (
    (1.660491, -0.587641, -0.072850),
    (-0.124550, 1.132900, -0.008350),
    (-0.018151, -0.100579, 1.118730),
)
"""From the primaries of BT.2100, which are BT.2020's, to those of BT.709; each row adds up to 1."""

STEPS: Final = 65535
"""The largest code of 16 bits, and the steps of light before SDR's curve."""

_M1, _M2 = 2610 / 2**14, 2523 / 2**5
_C1, _C2, _C3 = 3424 / 2**12, 2413 / 2**7, 2392 / 2**7
_A: Final = 0.17883277
_B: Final = 1 - 4 * _A
_C: Final = 0.5 - _A * np.log(4 * _A)


@lru_cache(maxsize=8)
def light_of_codes(transfer: str, light: str, most: int) -> NDArray[np.float32]:
    """The light of each code from 0 to `most`, which is 1.0 of the signal.

    >>> light_of_codes("pq", "linear", 65535)[[0, -1]].tolist()
    [0.0, 1.0]
    """
    codes = np.arange(most + 1) / most
    values = _light_of_pq(codes) if transfer == "pq" else _light_of_hlg(codes)
    if light == "sdr":
        luminance = 10_000 * values if transfer == "pq" else PEAK * values**1.2
        values = _compressed(luminance) / WHITE
    return _constant(values.astype(np.float32))


@lru_cache(maxsize=1)
def sdr_of_light() -> NDArray[np.uint8]:
    """The colour of 8 bits of each light, in steps of `STEPS` to 1.0.

    >>> sdr_of_light()[[0, 13107, 65535]].tolist()
    [0, 124, 255]
    """
    light = np.arange(STEPS + 1) / STEPS
    colours = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return _constant(np.rint(255 * colours).astype(np.uint8))


def _light_of_pq(codes: _Curve) -> _Curve:
    """Display light, of 10,000 cd/m2."""
    root = codes ** (1 / _M2)
    light: _Curve = (np.maximum(root - _C1, 0) / (_C2 - _C3 * root)) ** (1 / _M1)
    return light


def _pq_of_light(light: Any) -> _Curve:
    """The inverse of `_light_of_pq`."""
    root = np.asarray(light) ** _M1
    codes: _Curve = ((_C1 + _C2 * root) / (1 + _C3 * root)) ** _M2
    return codes


def _light_of_hlg(codes: _Curve) -> _Curve:
    """Scene light."""
    return np.where(codes <= 0.5, codes**2 / 3, (np.exp((codes - _C) / _A) + _B) / 12)


def _compressed(luminance: _Curve) -> _Curve:
    """Luminances of up to `PEAK` in those of up to `WHITE`."""
    brightest = _pq_of_light(PEAK / 10_000)
    codes = np.minimum(_pq_of_light(luminance / 10_000) / brightest, 1)
    white = _pq_of_light(WHITE / 10_000) / brightest
    knee = 1.5 * white - 0.5
    t = (codes - knee) / (1 - knee)
    bent = (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee) + (3 * t**2 - 2 * t**3) * white
    return 10_000 * _light_of_pq(np.where(codes < knee, codes, bent) * brightest)


def _constant(table: NDArray[Any]) -> NDArray[Any]:
    table.flags.writeable = False
    return table
