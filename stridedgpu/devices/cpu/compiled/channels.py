"""Small channels: pixels of up to 16 elements taken apart or put together in registers.

    interleaved   r g b r g b r g ...   whole vectors of several pixels
    planar        r r r ... | g g g ... | b b b ...   one vector for each channel

Either side may be interleaved or planar. In between, each output channel is one vector of `pixels` lanes; elements are
converted there. Each element is read once and written once. `b` is the loop over pixels, `a` the loop over rows. The
number of channels, their order and the pixel's width are compile-time constants of the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from .conversion import Affine
from .ir import Code, Value, vector_type
from .shuffles import gathered
from .work_grid import Constants, Elements, Grid, Item

__all__ = ["Channels"]


@dataclass(frozen=True, slots=True)
class Channels:
    """A kernel over rows of at least `pixels` pixels.

    `order` gives each output channel's position in the source pixel, or its plane number if the source is `planar`.
    `source_pixel` is the distance between source pixels in elements, 0 for a broadcast pixel. `target_pixel` is the
    same of an interleaved target, 0 of a planar one. A target pixel with more elements than channels is padded: with
    zeros if `fills`, else the padding is not written. `backwards`: the source pixels are in reverse order.
    `reads_ahead`: source rows are prefetched, because they lie far apart. `streaming`: non-temporal stores.
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
                    planes = self._load(code, grid, code.at(source, code.multiply(b, self._source_step)), b)
                    made = [
                        self.elements.convert(code, plane, affine)
                        for plane, affine in zip(planes, affines, strict=True)
                    ]
                    self._store(code, grid, made, code.at(target, code.multiply(b, self._target_step)), apart)
        return code.text(name)

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
        type_ = vector_type(self.pixels, element)
        # Load up to the last channel that is used and no further: the memory may end there.
        used = self.source_pixel * (self.pixels - 1) + max(order) + 1
        if self.reads_ahead:
            grid.prefetch_row(address, nbytes * used)
        pieces = [
            code.load(type_, code.at(address, nbytes * start), 1)
            for start in range(0, used - self.pixels + 1, self.pixels)
        ]
        rest = used - len(pieces) * self.pixels
        if rest:
            # The remainder is the end of a vector that begins earlier.
            last = code.load(type_, code.at(address, nbytes * (used - self.pixels)), 1)
            shifted = [lane + self.pixels - rest if lane < rest else -1 for lane in range(self.pixels)]
            pieces.append(code.shuffle(last, None, shifted))
        lanes = range(self.pixels)[::-1] if self.backwards else range(self.pixels)
        return [gathered(code, pieces, [self.source_pixel * lane + channel for lane in lanes]) for channel in order]

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
            places = range(piece * self.pixels, (piece + 1) * self.pixels)
            code.store_some(vector, start, [place % self.target_pixel < len(planes) for place in places])

    def _interleaved(self, code: Code, planes: list[Value]) -> list[Value]:
        """Interleave the planes into whole pixels, as many vectors as a pixel has elements."""
        zero = Value(planes[0].type, "zeroinitializer")
        places = [
            min(place, len(planes)) * self.pixels + pixel
            for pixel in range(self.pixels)
            for place in range(self.target_pixel)
        ]
        return [
            gathered(code, [*planes, zero], places[first : first + self.pixels])
            for first in range(0, len(places), self.pixels)
        ]
