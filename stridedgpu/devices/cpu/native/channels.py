"""Small channels: pixels of up to 16 elements, taken apart to planes, put together of planes, or permuted.

    interleaved   r g b r g b r g ...   whole vectors of several pixels
    planar        r r r ... | g g g ... | b b b ...   one vector for each channel

Either side may be interleaved or planar. `b` is the loop over pixels, `a` the loop over rows. The moves of a kernel are
those of `channel_moves`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final, NamedTuple

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.device_plan import Width
from stridedgpu.values.strides import power_of_two

from .channel_moves import TRANSPOSED, channels_loop
from .elements import Elements
from .kernel_call import KernelCall, KernelFacts, LoopAxis, LoopMatch
from .pool import LoopCall
from .registers import LANE_BYTES, LINE_BYTES
from .transpose import transposes

_WIDEST_TRANSPOSED: Final = 8
"""Bytes of an element from which on pixels are not transposed."""

LONGEST_PIXEL: Final = 16
"""Elements of the largest pixel interleaved in registers. With 4 or 8: 0.68 at worst."""

_LEAST_PIXELS: Final = 4
"""Pixels from which on a row fills a vector; shorter rows do not count as pixels."""

_MOST_GAPS: Final = 2
"""Most length of a pixel with its gaps, relative to its channels or to 4. With 1: 0.91, and 0.34 at worst."""


@dataclass(frozen=True, slots=True)
class Channels:
    """A kernel over rows of pixels, of which a step takes `pixels`.

    `order` gives each output channel's position in the source pixel, or its plane number if the source is `planar`.
    `source_pixel` is the distance between source pixels in elements, 0 for a broadcast pixel. `target_pixel` is the
    same of an interleaved target, 0 of a planar one. A target pixel with more elements than channels is padded: with
    zeros if `fills`, else the padding is not written. `streaming`: non-temporal stores.
    """

    elements: Elements
    pixels: int
    order: tuple[int, ...]
    planar: bool
    source_pixel: int
    target_pixel: int
    fills: bool = False
    streaming: bool = False
    family: ClassVar[str] = "channels"

    @property
    def is_transposed(self) -> bool:
        """Whether pixels of 8 to 16 elements are transposed.

        Copies of pixels of 8 bytes, and of elements of 8, take less time in blocks.
        """
        elements = self.target_pixel if self.planar else 0 if self.target_pixel else self.source_pixel
        itemsize = self.elements.itemsize
        in_blocks = itemsize and (elements * itemsize <= TRANSPOSED[0] or itemsize >= _WIDEST_TRANSPOSED)
        return elements in TRANSPOSED and not in_blocks

    def facts(self, row: LoopAxis) -> KernelFacts:
        """What `explain` says of the kernel."""
        ways = ("pixels", "planes")
        ends = f"{ways[self.planar]} to {ways[not self.target_pixel]}"
        limit, elements = f"a step takes {self.pixels} pixels of {row.size} in a row", self.elements
        loads = Width(self.pixels * elements.source_bytes, limit)
        if not self.source_pixel:
            loads = Width(elements.source_bytes, "one pixel is repeated")
        return KernelFacts(
            f"channels: {ends}, {self.pixels} pixels of {len(self.order)} elements a step",
            loads,
            Width(self.pixels * elements.target_bytes, limit),
            (1, self.pixels),
        )

    def loop(self, call: KernelCall, owner: object) -> LoopCall:
        """The loop of a call of this kernel."""
        return channels_loop(call, owner)


class _SourcePixels(NamedTuple):
    """How the kernel reads: channel order, and the bytes from its first load to the first channel."""

    order: tuple[int, ...]
    planar: bool
    pixel: int
    offset: int = 0


def match_channels(match: LoopMatch) -> KernelCall | None:
    """The kernel for a pair of loops over pixels and channels, if there is one: the pair that reads the least."""
    filler, longest = match.problem.filler, LONGEST_PIXEL
    # Channels with filler are the innermost loop.
    loops = match.loops[-1:] if filler else match.loops
    smalls = [loop for loop in loops if loop.size <= longest and (loop.size >= 2 or filler)]
    calls = [_interleave(match, small, pixels) for small in smalls for pixels in match.besides(small)]
    return min((call for call in calls if call is not None), key=_elements_read, default=None)


def _elements_read(call: KernelCall) -> float:
    """Elements read for each element written."""
    kernel = call.kernel
    assert isinstance(kernel, Channels), "from _interleave"
    return float(kernel.source_pixel) if kernel.planar else kernel.source_pixel / len(kernel.order)


def match_subsampled(match: LoopMatch) -> KernelCall | None:
    """The kernel for every second or third element: the first channel of pixels of two or three.

    Elements of 16 bytes fill a lane: there is nothing to shuffle.
    """
    pixels = match.target_loop or match.source_loop
    small = LoopAxis(1, match.source_bytes, match.target_bytes)
    return None if pixels is None or match.source_bytes == LANE_BYTES else _interleave(match, small, pixels)


def _interleave(match: LoopMatch, small: LoopAxis, pixels: LoopAxis) -> KernelCall | None:
    """The kernel for a pair of loops, if they fit it."""
    count, filler, limits = small.size, match.problem.filler, policy().relayout
    read, target_pixel = _source_pixels(match, small, pixels), _target_pixel(match, small, pixels)
    if read is None or target_pixel is None or pixels.channels is not None or pixels.size < _LEAST_PIXELS:
        return None
    if read.planar and not target_pixel:
        return None
    one_side = read.planar != (target_pixel == 0)
    is_long = max(read.pixel if not read.planar else 0, target_pixel) > LONGEST_PIXEL
    in_lanes = match.problem.conversion.is_bitwise_copy and count * match.target_bytes % LANE_BYTES == 0
    is_block = count >= limits.long_channels and one_side and not filler and (is_long or in_lanes)
    if is_block and transposes(match, match.target_bytes):
        return None
    widest = max(match.source_bytes * (read.pixel > 1), match.target_bytes * (target_pixel > 0))
    lanes = power_of_two(min(pixels.size, LINE_BYTES // widest))
    a, outer = match.next_inner(small, pixels)
    streaming = target_pixel in (0, count + filler) and match.streams(
        (a, *outer) if target_pixel else (a, *outer, small),
        pixels,
        LINE_BYTES // match.target_bytes,
        read.pixel / (1 if read.planar else count),
    )
    elements = match.elements(a, pixels, small)
    kernel = Channels(elements, lanes, read.order, read.planar, read.pixel, target_pixel, filler > 0, streaming)
    return replace(match, source_offset=match.source_offset + read.offset).call(
        kernel, outer, (a, 1), (pixels, lanes), small
    )


def _source_pixels(match: LoopMatch, small: LoopAxis, pixels: LoopAxis) -> _SourcePixels | None:
    """The source's pixel layout, interleaved or planar; None if the channels lie too far apart."""
    nbytes = match.source_bytes
    numbers = small.channels or tuple(range(small.size))
    step, uneven = divmod(small.source, nbytes)
    pixel, gap = divmod(abs(pixels.source), nbytes)
    if gap or pixel > _MOST_GAPS * max(small.size, 4):
        return None
    lowest = min(0, step * max(numbers))
    order = tuple(step * number - lowest for number in numbers)
    if not uneven and pixel > 1 and max(order) < pixel:
        return _SourcePixels(order, planar=False, pixel=pixel, offset=lowest * nbytes)
    return _SourcePixels(numbers, planar=True, pixel=pixel)


def _target_pixel(match: LoopMatch, small: LoopAxis, pixels: LoopAxis) -> int | None:
    """Elements of a target pixel, 0 for planes; None if the channels lie too far apart."""
    filler = match.problem.filler
    if pixels.target == match.target_bytes and not filler:
        return 0
    pixel, gap = divmod(pixels.target, match.target_bytes)
    if gap or small.target != match.target_bytes:
        return None
    if filler:
        # After the filler come other pixels, or gaps that must not be written.
        return pixel if pixel == small.size + filler <= LONGEST_PIXEL else None
    return pixel if small.size <= pixel <= _MOST_GAPS * max(small.size, 4) else None
