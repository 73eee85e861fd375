"""Resizes on the native library: which of its loops a kernel of a resize is, and the parameters that LLVM's has not.

A filter over bytes has a loop for each order of the passes. The passes themselves are functions of their own, by the
channels of a pixel and the parts of a weight:

    order[columns first]    calls    along[parts][channels], down[parts], and what moves a band

The channels of a conversion are chosen where columns are made: an order of channels costs nothing, and channels that
the result has not are not resized. Resized pixels become planes where the target has planes, so that a band is rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from stridedgpu.devices.cpu.compiled.resize_passes import CopyPass, NumberPass, PairPass, Pass
from stridedgpu.devices.cpu.compiled.resize_rows import HalfRows

from .calls import CompiledFunction
from .library import function

if TYPE_CHECKING:
    from stridedgpu.devices.cpu.compiled.resize_kernel import ResizeKernel

_LANE_BYTES: Final = 16
_PAIR_BYTES: Final = 32
"""Bytes of a row that one step turns, and of a pair of pixels of 16 rows."""


LEAST_HALVES: Final = 32
"""Pixels from which on a row of blocks of 2 x 2 is two steps; narrower ones are those of the linear rule."""


class Bands(NamedTuple):
    """What the passes leave: resized pixels of the `channels` of the source in this order, in planes or not.

    `chosen` says that these are the channels of the conversion, which is then done.
    """

    channels: tuple[int, ...]
    planar: bool
    chosen: bool = False

    def segment(self, width: int) -> int:
        """The elements from one plane of a row to the next, whole vectors; of pixels, those of a row."""
        return -(-width // _LANE_BYTES) * _LANE_BYTES if self.planar else width * len(self.channels)

    def unit(self, width: int, *, in_words: bool) -> int:
        """The elements of a row of scratch memory; `in_words`: a pixel has four, unless it has one."""
        if len(self.channels) == 1:
            return width
        if in_words:
            return -(-width // _LANE_BYTES) * _LANE_BYTES * 4
        return self.segment(width) * (len(self.channels) if self.planar else 1)


def table_loop(level: str) -> CompiledFunction:
    """The loop that makes the tables of a filter along an axis."""
    return CompiledFunction(function(level, "resize table"))


def resize_loop(level: str, kernel: ResizeKernel) -> CompiledFunction:
    """The loop of a kernel."""
    order = int(not kernel.columns_first) if kernel.by_rows is None else 2 + kernel.joins_passes
    return CompiledFunction(function(level, "resize", order))


_COPIED: Final = (1, 2, 4, 8)
"""Bytes of the elements that passes copy, and of those that are turned to columns."""

_ALONG: Final = (
    ("i16", "i16", "double", "half up"),
    ("float", "float", "double", "half up"),
    ("i8", "i32", "pairs", "kept"),
    ("i8", "float", "float", "kept"),
    ("i16", "float", "float", "kept"),
    ("float", "float", "float", "kept"),
    ("float", "float", "fused", "half even"),
)
_DOWN: Final = (
    ("i16", "i16", "double", "half up"),
    ("float", "float", "double", "half up"),
    ("i32", "i8", "i32", "shifted"),
    ("i32", "i8", "sum", "mean"),
    ("float", "i8", "float", "half even"),
    ("float", "i16", "float", "half even"),
    ("float", "float", "float", "half even"),
    ("float", "float", "fused", "half even"),
)
"""The passes along x and along y, behind copies, in the order of the library's: elements, sums, and their finish."""


def _number(rule: Pass, known: tuple[tuple[str, str, str, str], ...]) -> int | None:
    """The number of a pass among those of the library; None if it has none."""
    if isinstance(rule, CopyPass):
        return _COPIED.index(rule.read_bytes) if rule.read_bytes in _COPIED else None
    if isinstance(rule, NumberPass):
        sums = "fused" if rule.fuses else rule.number if rule.weighted else "sum"
    elif isinstance(rule, PairPass) and rule.parts == 1 and not rule.narrow:
        sums = "pairs"
    else:
        return None
    words = rule.read, rule.written, sums, str(rule.finish)
    return len(_COPIED) + known.index(words) if words in known else None


def _words(places: bytes) -> dict[str, int]:
    """16 places as two fields."""
    low, high = (int.from_bytes(places[at : at + 8], "little", signed=True) for at in (0, 8))
    return {"places_low": low, "places_high": high}


def resize_fields(
    level: str, kernel: ResizeKernel, bands: Bands, width: int, pixels: int, plane_stride: int
) -> dict[str, int]:
    """The fields of a geometry of so many columns, from rows of so many pixels, that only native loops read."""
    count, step, apart = len(bands.channels), kernel.step, bands.segment(width) if bands.planar else 1
    fields = {
        "pixel_out": _LANE_BYTES * (1 if bands.planar else count),
        "channel_out": _LANE_BYTES * apart,
        "step": step,
        "pixels": pixels,
        "ring_bytes": kernel.first.written_bytes,
        "band_bytes": kernel.second.written_bytes,
    }
    if kernel.prepares_rows:
        prepared = 0 if kernel.converts_rows else 1 + int(count == 4) if kernel.premultiplies else 2 + step
        fields["prepare"] = function(level, "resize prepared row", prepared)
    if kernel.by_rows is not None:
        # The places of both taps of four sums in a word, each before a byte of 0.
        numbers = bands.channels + bands.channels[-1:] * (4 - count)
        taps = [[tap * step + channel for tap in range(2)] for channel in numbers]
        if count == 1:
            taps = [[2 * number, 2 * number + 1] for number in range(4)]
        places = [byte for pair in taps for place in pair for byte in (place, 0xFF)]
        halves = isinstance(kernel.by_rows, HalfRows)
        if halves:  # of two pixels
            places = [place + 2 * step * pixel for pixel in range(2) for pair in taps for place in pair]
        passes = 2 if halves else int(kernel.joins_passes)
        return {
            **fields,
            **_words(bytes(places)),
            "along": function(level, "resize along linear", 2 * (count > 1)),
            "along_two": function(level, "resize along linear", 2 * (count > 1) + 1),
            "down": function(level, "resize down linear", (2 * passes + bands.planar) * 4 + count - 1),
        }
    if not kernel.interleaves:
        along, down = _number(kernel.along, _ALONG), _number(kernel.down, _DOWN)
        assert along is not None, "the library has the passes"
        assert down is not None, "the library has the passes"
        read, written = (_COPIED.index(nbytes) for nbytes in (kernel.along.read_bytes, kernel.along.written_bytes))
        return {
            **fields,
            "along": function(level, "resize along by taps", along * 4 + count - 1),
            "down": function(level, "resize down by taps", down),
            "into_columns": function(level, "resize into columns", read),
            "into_rows": function(level, "resize into rows", written),
            "shift": kernel.down.shift if isinstance(kernel.down, NumberPass) else 0,
            "joined": 1,
            **{f"joined_{number}": channel for number, channel in enumerate(bands.channels)},
        }
    block, joins = kernel.block_pixels, kernel.joins_planes
    places = [
        (pixel + half) * step + channel
        for pixel in range(0, block, 2)
        for channel in ((0,) if joins else bands.channels)
        for half in range(2)
    ]
    packed = bytes(places) + b"\xff" * (_LANE_BYTES - len(places))
    planes = [channel * plane_stride for channel in bands.channels] if joins else [0]
    if kernel.premultiplies:
        fields |= {
            "divide": function(level, "resize by alpha", 0 if bands.planar else 1 + int(count == 4)),
            "alpha": bands.channels.index(count - 1),
        }
    parts = kernel.along.parts if isinstance(kernel.along, PairPass) else 1
    return {
        **fields,
        "along": function(level, "resize along", (parts - 1) * 4 + count - 1),
        "down": function(level, "resize down", parts - 1),
        **_words(packed),
        "block": block,
        "pairs": len(places) // 2,
        "pair_pitch": _PAIR_BYTES * (count if joins else 1),
        "joined": len(planes),
        **{f"joined_{number}": stride for number, stride in enumerate(planes)},
    }
