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

from dataclasses import dataclass
from typing import Final

from stridedgpu.devices.cpu.policy import policy

from .conversion import Affine
from .ir import Code, Value, vector_type
from .shuffles import gathered, joined
from .transpose import LANE_BYTES
from .work_grid import Constants, Elements, Grid, Item

__all__ = ["Channels"]

_TAIL_BYTES: Final = 8
"""Bytes of the last stores of a step, whose pixels a load of 16 bytes has: they end with it."""


@dataclass(frozen=True, slots=True)
class Channels:
    """A kernel over rows of at least `pixels` pixels.

    `order` gives each output channel's position in the source pixel, or its plane number if the source is `planar`.
    `source_pixel` is the distance between source pixels in elements, 0 for a broadcast pixel. `target_pixel` is the
    same of an interleaved target, 0 of a planar one. A target pixel with more elements than channels is padded: with
    zeros if `fills`, else the padding is not written. `backwards`: the source pixels are in reverse order.
    `reads_ahead`: source rows are prefetched, because they lie far apart. `streaming`: non-temporal stores.
    `parts`: how many of a vector have pixels of their own. `within`: bits of pixels without gaps move unchanged, so
    that each pixel is permuted by itself.
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
    reads_ahead: bool = False
    streaming: bool = False
    parts: int = 1
    within: bool = False

    def text(self, name: str) -> str:
        """The module."""
        code = Code()
        grid = Grid(code, self.elements, self.rank)
        with grid.items(1, self.pixels) as item:
            fixed = self._fixed_affines(code, grid, item)
            with code.loop(*item.a) as a:
                source = code.at(item.source, code.multiply(a, grid.a.source))
                target = code.at(item.target, code.multiply(a, grid.a.target))
                rows = [grid.affine(a, self.pixels, along=False)] if self.elements.constants == Constants.A else []
                start = target if self.streaming else None
                with grid.places(item.b, self.pixels, start, self._target_step) as (b, apart):
                    places = [grid.affine(b, self.pixels, along=True)] if self.elements.constants == Constants.B else []
                    affines = fixed or (rows or places) * len(self.order)
                    read, written = (
                        code.at(base, code.multiply(b, step))
                        for base, step in ((source, self._source_step), (target, self._target_step))
                    )
                    if self.within:
                        self._permute(code, grid, read, written)
                    else:
                        planes = self._load(code, grid, read, b)
                        made = [
                            self.elements.convert(code, plane, affine)
                            for plane, affine in zip(planes, affines, strict=True)
                        ]
                        self._store(code, grid, made, written, apart)
        return code.text(name)

    def _permute(self, code: Code, grid: Grid, source: Value, target: Value) -> None:
        """Move pixels as many whole ones at once as 16 bytes have, with the bytes behind them, written again later."""
        nbytes, step = self.elements.source_bytes, self._target_step
        pixels, total = range(self.pixels), self.pixels * step
        places = [
            pixel * step + channel * nbytes + byte
            for pixel in (pixels[::-1] if self.backwards else pixels)
            for channel in self.order
            for byte in range(nbytes)
        ]
        if self.backwards:
            source = code.at(source, -step * (self.pixels - 1))
        if self.reads_ahead:
            grid.prefetch_row(source, total)
        width = LANE_BYTES if LANE_BYTES % step else min(total, policy().target.vector_bytes)
        whole, most = width // step * step, total - width
        starts = [*range(0, most + 1, whole)]
        pieces = [(start, width) for start in starts]
        done = starts[-1] + whole
        while done < total:
            start = min(done, total - _TAIL_BYTES)
            pieces.append((start, _TAIL_BYTES))
            done = start + _TAIL_BYTES
        for start, size in pieces:
            wanted = places[start : start + min(size, whole)] if size == width else places[start : start + size]
            first = min(*wanted, most)
            lanes = [place - first for place in wanted] + [-1] * (size - len(wanted))
            vector = code.load(vector_type(width, "i8"), code.at(source, first), 1)
            code.store(code.shuffle(vector, None, lanes), code.at(target, start), 1)

    @property
    def _source_step(self) -> int:
        """Bytes from one source pixel to the next."""
        step = self.elements.source_bytes * self.source_pixel
        return -step if self.backwards else step

    @property
    def _target_step(self) -> int:
        """Bytes from one target pixel to the next."""
        return self.elements.target_bytes * (self.target_pixel or 1)

    def _fixed_affines(self, code: Code, grid: Grid, item: Item) -> list[Affine]:
        """Each channel's scale and bias if they are constant over an item; else an empty list."""
        if self.elements.constants == Constants.SMALL:
            return [
                grid.affine(code.full("i64", channel), self.pixels, along=False) for channel in range(len(self.order))
            ]
        if self.elements.constants == Constants.ITEM:
            return [grid.affine(item.place, self.pixels, along=False)] * len(self.order)
        return []

    def _load(self, code: Code, grid: Grid, address: Value, b: Value) -> list[Value]:
        """One vector of source elements for each output channel, from pixel `b` on at an address."""
        planes = [address]
        if self.planar:
            planes = [code.at(address, code.multiply(grid.small_source, channel)) for channel in self.order]
        if self.backwards and self.streaming:
            for plane in planes:
                grid.prefetch_backward(plane, b, -self._source_step, self.pixels)
        if self.backwards:
            planes = [code.at(plane, self._source_step * (self.pixels - 1)) for plane in planes]
        order = (0,) if self.planar else self.order
        return [vector for plane in planes for vector in self._taken_apart(code, grid, plane, order)]

    def _taken_apart(self, code: Code, grid: Grid, address: Value, order: tuple[int, ...]) -> list[Value]:
        """De-interleave source pixels from an address on: one vector for each position in `order`."""
        element, nbytes = self.elements.source_type, self.elements.source_bytes
        if not self.source_pixel:
            return [code.splat(code.load(element, address, 1), self.pixels)]
        pixels = self.pixels // self.parts
        # Load up to the last channel that is used and no further: the memory may end there.
        used = self.source_pixel * (pixels - 1) + max(order) + 1
        if self.reads_ahead:
            grid.prefetch_row(address, nbytes * (self.source_pixel * (self.pixels - pixels) + used))
        if self.source_pixel == 1 and not self.backwards:
            return [code.load(vector_type(self.pixels, element), address, 1)]
        starts = list(range(0, used - pixels + 1, pixels))
        rest = used - len(starts) * pixels
        pieces = [self._piece(code, address, start) for start in starts]
        if rest:
            # The remainder is the end of a vector that begins earlier.
            last = self._piece(code, address, used - pixels)
            shifted = [lane + pixels - rest if lane % pixels < rest else -1 for lane in range(self.pixels)]
            pieces.append(code.shuffle(last, None, shifted))
        lanes = range(pixels)[::-1] if self.backwards else range(pixels)
        return [
            gathered(code, pieces, self._in_parts([self.source_pixel * lane + channel for lane in lanes]))
            for channel in order
        ]

    def _piece(self, code: Code, address: Value, start: int) -> Value:
        """A vector of the source elements from `start` on of each part's pixels."""
        pixels, nbytes = self.pixels // self.parts, self.elements.source_bytes
        parts = range(self.parts)[::-1] if self.backwards else range(self.parts)
        type_ = vector_type(pixels, self.elements.source_type)
        elements = (self.source_pixel * pixels * part + start for part in parts)
        return joined(code, [code.load(type_, code.at(address, nbytes * element), 1) for element in elements])

    def _in_parts(self, places: list[int]) -> list[int]:
        """The lanes of one part in vectors of one part each, as those of all parts in vectors of all."""
        pixels = self.pixels // self.parts
        return [
            place // pixels * self.pixels + pixels * part + place % pixels
            for part in range(self.parts)
            for place in places
        ]

    def _store(self, code: Code, grid: Grid, planes: list[Value], address: Value, apart: Value | None) -> None:
        """Write one vector of target elements for each output channel, or for each position in an interleaved pixel."""
        if not self.target_pixel:
            steps = [code.multiply(grid.small_target, channel) for channel in range(len(planes))]
            starts = [code.at(address, step) for step in steps]
            code.store_all(list(zip(planes, starts, strict=True)), apart)
            return
        made = self._interleaved(code, planes)
        stores = [(vector, code.at(address, piece * vector.nbytes)) for piece, vector in enumerate(made)]
        if self.fills or self.target_pixel == len(planes):
            code.store_all(stores, apart)
            return
        for piece, (vector, start) in enumerate(stores):
            places = range(piece * vector.lanes, (piece + 1) * vector.lanes)
            code.store_some(vector, start, [place % self.target_pixel < len(planes) for place in places])

    def _interleaved(self, code: Code, planes: list[Value]) -> list[Value]:
        """Interleave the planes into whole pixels, as many vectors for each part as a pixel has elements."""
        zero, pixels = Value(planes[0].type, "zeroinitializer"), self.pixels // self.parts
        places = [
            min(place, len(planes)) * pixels + pixel for pixel in range(pixels) for place in range(self.target_pixel)
        ]
        made = [
            gathered(code, [*planes, zero], self._in_parts(places[first : first + pixels]))
            for first in range(0, len(places), pixels)
        ]
        if self.parts == 1:
            return made
        starts = range(0, self.pixels, pixels)
        return [code.shuffle(vector, None, range(start, start + pixels)) for start in starts for vector in made]
