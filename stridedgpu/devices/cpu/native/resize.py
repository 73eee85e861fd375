"""Resizes on the native library: which of its loops a kernel of a resize is, and the parameters that LLVM's has not.

A filter over bytes has a loop for each order of the passes. The passes themselves are functions of their own, by the
channels of a pixel and the parts of a weight:

    order[columns first]    calls    along[parts][channels], down[parts], and what moves a band

The channels of a conversion are chosen where columns are made: an order of channels costs nothing, and channels that
the result has not are not resized. Resized pixels become planes where the target has planes, so that a band is rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .calls import CompiledFunction
from .library import function

if TYPE_CHECKING:
    from stridedgpu.devices.cpu.compiled.resize_kernel import ResizeKernel

_LANE_BYTES = 16
_PAIR_BYTES = 32
"""Bytes of a row that one step turns, and of a pair of pixels of 16 rows."""


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

    def unit(self, width: int) -> int:
        """The elements of a row."""
        return self.segment(width) * (len(self.channels) if self.planar else 1)


def table_loop(level: str) -> CompiledFunction:
    """The loop that makes the tables of a filter along an axis."""
    return CompiledFunction(function(level, "resize table"))


def resize_loop(level: str, kernel: ResizeKernel) -> CompiledFunction:
    """The loop of a kernel over columns of pairs."""
    return CompiledFunction(function(level, "resize", int(not kernel.columns_first)))


def resize_fields(
    level: str, kernel: ResizeKernel, bands: Bands, parts: int, width: int, pixels: int, plane_stride: int
) -> dict[str, int]:
    """The fields of a geometry of so many columns, from rows of so many pixels, that only native loops read."""
    count, step, block, joins = len(bands.channels), kernel.step, kernel.block_pixels, kernel.joins_planes
    beside = (0,) if joins else bands.channels
    places = [
        (pixel + half) * step + channel for pixel in range(0, block, 2) for channel in beside for half in range(2)
    ]
    packed = bytes(places) + b"\xff" * (_LANE_BYTES - len(places))
    planes = [channel * plane_stride for channel in bands.channels] if joins else [0]
    apart = bands.segment(width) if bands.planar else 1
    return {
        "along": function(level, "resize along", (parts - 1) * 4 + count - 1),
        "down": function(level, "resize down", parts - 1),
        "pixel_out": _LANE_BYTES * (1 if bands.planar else count),
        "channel_out": _LANE_BYTES * apart,
        "step": step,
        "pixels": pixels,
        "places_low": int.from_bytes(packed[:8], "little", signed=True),
        "places_high": int.from_bytes(packed[8:], "little", signed=True),
        "block": block,
        "pairs": len(places) // 2,
        "pair_pitch": _PAIR_BYTES * (count if joins else 1),
        "joined": len(planes),
        **{f"joined_{plane}": stride for plane, stride in enumerate((*planes, 0, 0, 0, 0)[:4])},
    }
