"""Small channels: pixels of up to 16 elements taken apart or put together in registers.

    interleaved   r g b r g b r g ...   whole vectors of several pixels
    planar        r r r ... | g g g ... | b b b ...   one vector for each channel

Either side may be interleaved or planar. In between, each output channel is one vector of `pixels` lanes; elements are
converted there. Each element is read once and written once. `b` is the loop over pixels, `a` the loop over rows. The
number of channels, their order and the pixel's width are compile-time constants of the kernel.

Where a processor permutes within each 16 bytes of a wider vector alone, these parts have pixels of their own, which are
loaded to their place and stored from it:

    pixels 0 to 15 | pixels 16 to 31    one vector, whose parts are permuted alike
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from stridedgpu.devices.cpu.native.elements import Constants, Elements
from stridedgpu.devices.cpu.native.kernel_call import KernelCall, KernelFacts, LoopAxis, LoopMatch
from stridedgpu.devices.cpu.native.registers import LANE_BYTES, LINE_BYTES, shuffled_bytes
from stridedgpu.devices.cpu.native.transpose import transposes
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.device_plan import Width
from stridedgpu.values.strides import power_of_two

from .conversion import Affine
from .ir import LEAST_MASKED_BYTES, Code, Value, gathered, joined, vector_type
from .work_grid import Grid, Item


@dataclass(frozen=True, slots=True)
class Channels:
    """A kernel over rows of at least `pixels` pixels.

    `order` gives each output channel's position in the source pixel, or its plane number if the source is `planar`.
    `source_pixel` is the distance between source pixels in elements, 0 for a broadcast pixel. `target_pixel` is the
    same of an interleaved target, 0 of a planar one. A target pixel with more elements than channels is padded: with
    zeros if `fills`, else the padding is not written. `backwards`: the source pixels are in reverse order.
    `streaming`: non-temporal stores. `parts`: how many of a vector have pixels of their own.
    """

    elements: Elements
    rank: int
    pixels: int
    order: tuple[int, ...]
    planar: bool
    source_pixel: int
    target_pixel: int
    backwards: bool
    fills: bool = False
    streaming: bool = False
    parts: int = 1
    family: ClassVar[str] = "channels"

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

    def text(self, name: str) -> str:
        """The module."""
        code = Code()
        grid = Grid(code, self.elements, self.rank)
        with grid.items(1, self.pixels) as item:
            fixed = self._fixed_affines(grid, item)
            with code.loop(*item.a) as a:
                source, target = grid.addresses(grid.a, a, item.source, item.target)
                rows = [grid.affine(a, self.pixels, along=False)] if self.elements.constants == Constants.A else []
                start = target if self.streaming else None
                with grid.places(item.b, self.pixels, start, self._target_step) as (b, may_stream):
                    places = [grid.affine(b, self.pixels, along=True)] if self.elements.constants == Constants.B else []
                    affines = fixed or (rows or places) * len(self.order)
                    read, written = (
                        base + b * step for base, step in ((source, self._source_step), (target, self._target_step))
                    )
                    planes = self._load(grid, read)
                    pairs = zip(planes, affines, strict=True)
                    converted = [self.elements.convert(plane, affine) for plane, affine in pairs]
                    if self.target_pixel and converted[0].nbytes < LANE_BYTES:
                        converted = [plane.opaque() for plane in converted]
                    self._store(code, grid, converted, written, may_stream)
        return code.text(name)

    @property
    def _source_step(self) -> int:
        step = self.elements.source_bytes * self.source_pixel
        return -step if self.backwards else step

    @property
    def _target_step(self) -> int:
        return self.elements.target_bytes * (self.target_pixel or 1)

    def _fixed_affines(self, grid: Grid, item: Item) -> list[Affine]:
        """Each channel's scale and bias if they are constant over an item; else an empty list."""
        if self.elements.constants == Constants.SMALL:
            channels = map(grid.small_source.like, range(len(self.order)))
            return [grid.affine(channel, self.pixels, along=False) for channel in channels]
        if self.elements.constants == Constants.ITEM:
            return [grid.affine(item.place, self.pixels, along=False)] * len(self.order)
        return []

    def _load(self, grid: Grid, address: Value) -> list[Value]:
        """One vector of source elements for each output channel, from the pixel at an address on."""
        planes = [address]
        if self.planar:
            planes = [address + grid.small_source * channel for channel in self.order]
        if self.backwards:
            planes = [plane + self._source_step * (self.pixels - 1) for plane in planes]
        order = (0,) if self.planar else self.order
        return [vector for plane in planes for vector in self._taken_apart(plane, order)]

    def _taken_apart(self, address: Value, order: tuple[int, ...]) -> list[Value]:
        """De-interleave source pixels from an address on: one vector for each position in `order`."""
        element = self.elements.source_type
        if not self.source_pixel:
            return [address.load(element).splat(self.pixels)]
        pixels = self.pixels // self.parts
        # Load up to the last channel that is used and no further: the memory may end there.
        used = self.source_pixel * (pixels - 1) + max(order) + 1
        if self.source_pixel == 1 and not self.backwards:
            return [address.load(vector_type(self.pixels, element))]
        starts = list(range(0, used - pixels + 1, pixels))
        rest = used - len(starts) * pixels
        pieces = [self._piece(address, start) for start in starts]
        if rest:
            # The remainder is the end of a vector that begins earlier.
            last = self._piece(address, used - pixels)
            shifted = [lane + pixels - rest if lane % pixels < rest else -1 for lane in range(self.pixels)]
            pieces.append(last.shuffle(shifted))
        lanes = range(pixels)[::-1] if self.backwards else range(pixels)
        return [
            gathered(pieces, self._in_parts([self.source_pixel * lane + channel for lane in lanes]))
            for channel in order
        ]

    def _piece(self, address: Value, start: int) -> Value:
        """A vector of the source elements from `start` on of each part's pixels."""
        pixels, nbytes = self.pixels // self.parts, self.elements.source_bytes
        parts = range(self.parts)[::-1] if self.backwards else range(self.parts)
        type_ = vector_type(pixels, self.elements.source_type)
        elements = (self.source_pixel * pixels * part + start for part in parts)
        return joined([(address + nbytes * element).load(type_) for element in elements])

    def _in_parts(self, places: list[int]) -> list[int]:
        """The lanes of one part in vectors of one part each, as those of all parts in vectors of all."""
        pixels = self.pixels // self.parts
        return [
            place // pixels * self.pixels + pixels * part + place % pixels
            for part in range(self.parts)
            for place in places
        ]

    def _store(self, code: Code, grid: Grid, planes: list[Value], address: Value, may_stream: Value | None) -> None:
        """Write one vector of target elements for each output channel, or for each position in an interleaved pixel."""
        if not self.target_pixel:
            steps = [grid.small_target * channel for channel in range(len(planes))]
            starts = [address + step for step in steps]
            code.store_all(list(zip(planes, starts, strict=True)), may_stream)
            return
        vectors = self._interleaved(planes)
        stores = [(vector, address + piece * vector.nbytes) for piece, vector in enumerate(vectors)]
        if self.fills or self.target_pixel == len(planes):
            code.store_all(stores, may_stream)
            return
        for piece, (vector, start) in enumerate(stores):
            places = range(piece * vector.lanes, (piece + 1) * vector.lanes)
            code.store_some(vector, start, [place % self.target_pixel < len(planes) for place in places])

    def _interleaved(self, planes: list[Value]) -> list[Value]:
        """Interleave the planes into whole pixels, as many vectors for each part as a pixel has elements."""
        zero, pixels = planes[0].like(0), self.pixels // self.parts
        places = [
            min(place, len(planes)) * pixels + pixel for pixel in range(pixels) for place in range(self.target_pixel)
        ]
        vectors = [
            gathered([*planes, zero], self._in_parts(places[first : first + pixels]))
            for first in range(0, len(places), pixels)
        ]
        if self.parts == 1:
            return vectors
        starts = range(0, self.pixels, pixels)
        return [vector.shuffle(range(start, start + pixels)) for start in starts for vector in vectors]


class _SourcePixels(NamedTuple):
    """How the kernel reads: channel order, and the bytes from its first load to the first channel."""

    order: tuple[int, ...]
    planar: bool
    pixel: int
    offset: int = 0


def match_channels(match: LoopMatch) -> KernelCall | None:
    """The kernel for a pair of loops over pixels and channels, if there is one: the pair that reads the least."""
    filler, longest = match.problem.filler, policy().relayout.longest_pixel
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
    if read is None or target_pixel is None or pixels.channels is not None or pixels.size < limits.least_pixels:
        return None
    if read.planar and not target_pixel:
        return None
    one_side = read.planar != (target_pixel == 0)
    if count >= limits.long_channels and one_side and not filler and transposes(match, match.target_bytes):
        return None
    widest = max(match.source_bytes * (read.pixel > 1), match.target_bytes * (target_pixel > 0))
    shuffled = shuffled_bytes(widest)
    has_gaps = target_pixel > count + filler  # left by masked stores, which gain nothing in wider steps
    step_bytes = shuffled if has_gaps else _bytes_of_step(shuffled, read.pixel + count)
    lanes = power_of_two(min(pixels.size, step_bytes // widest))
    parts = max(1, lanes * widest // shuffled)
    if has_gaps and lanes * match.target_bytes < LEAST_MASKED_BYTES:
        return None
    a, outer = match.next_inner(small, pixels)
    streaming = (
        target_pixel in (0, count + filler)
        and lanes // (parts if target_pixel else 1) * match.target_bytes >= LINE_BYTES
        and match.streams(
            (a, *outer) if target_pixel else (a, *outer, small),
            pixels,
            lanes,
            read.pixel / (1 if read.planar else count),
        )
    )
    kernel = Channels(
        match.elements(a, pixels, small),
        len(outer),
        lanes,
        read.order,
        read.planar,
        read.pixel,
        target_pixel,
        pixels.source < 0,
        filler > 0,
        streaming,
        parts,
    )
    return replace(match, source_offset=match.source_offset + read.offset).call(
        kernel, outer, (a, 1), (pixels, lanes), small
    )


def _bytes_of_step(shuffled: int, vectors: int) -> int:
    """Bytes of a step of pixels on the wider side, whose vectors fit the registers, for one that shuffles so many."""
    target = policy().target
    registers = vectors * LINE_BYTES // target.vector_bytes
    return LINE_BYTES if registers <= target.vector_registers else max(shuffled, target.vector_bytes)


def _source_pixels(match: LoopMatch, small: LoopAxis, pixels: LoopAxis) -> _SourcePixels | None:
    """The source's pixel layout, interleaved or planar; None if the channels lie too far apart."""
    nbytes = match.source_bytes
    numbers = small.channels or tuple(range(small.size))
    step, uneven = divmod(small.source, nbytes)
    pixel, gap = divmod(abs(pixels.source), nbytes)
    if gap or pixel > policy().relayout.most_gaps * max(small.size, 4):
        return None
    lowest = min(0, step * max(numbers))
    order = tuple(step * number - lowest for number in numbers)
    if not uneven and pixel > 1 and max(order) < pixel:
        return _SourcePixels(order, planar=False, pixel=pixel, offset=lowest * nbytes)
    return _SourcePixels(numbers, planar=True, pixel=pixel)


def _target_pixel(match: LoopMatch, small: LoopAxis, pixels: LoopAxis) -> int | None:
    """Elements of a target pixel, 0 for planes; None if the channels lie too far apart."""
    filler, limits = match.problem.filler, policy().relayout
    if pixels.target == match.target_bytes and not filler:
        return 0
    pixel, gap = divmod(pixels.target, match.target_bytes)
    if gap or small.target != match.target_bytes:
        return None
    if filler:
        # After the filler come other pixels, or gaps that must not be written.
        return pixel if pixel == small.size + filler <= limits.longest_pixel else None
    return pixel if small.size <= pixel <= limits.most_gaps * max(small.size, 4) else None
