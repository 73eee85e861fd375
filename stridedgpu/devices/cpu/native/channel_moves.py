"""The moves of small channels: which of the library's a kernel of channels is, and their parameters.

Pixels that are taken apart, put together or reordered are one move: a template for pixels of two to seven elements,
transposes of 8 to 16, or a permutation of bytes by tables that are computed here. A few conversions are done between a
template's shuffles and its stores. The others are moves of rows, before or behind the shuffle, on the side where less
is shuffled; between moves the pixels lie in a tile in the L1 cache. Rows shorter than a step are copied to a tile and
from one, and pixels with gaps are written from one. Some stores past the caches are those of a move of rows:

    uint8 pixels -> float32 planes                    one move
    uint8 pixels -> float32 planes, nine channels     taken apart, converted in rows
    float32 planes -> uint16 pixels                   converted in rows, put together
    int8 pixels -> float32 pixels, reversed           permuted, converted in rows
    uint8 pixels -> the first bytes of wider ones     permuted to pixels with zeros, copied between the gaps
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, repeat
from math import lcm
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .calls import NativeFunction, native_function
from .elements import Constants
from .moves import MOST_LANES, NO_CONSTANTS, TILE_BYTES, Arithmetic, Move, conversion_moves, copy_move
from .pool import LoopCall
from .registers import LANE_BYTES, LINE_BYTES, shuffled_bytes

if TYPE_CHECKING:
    from .channels import Channels
    from .kernel_call import KernelCall

_SOURCE, _TARGET, _FIRST_TILE = range(3)
"""Where moves read and write, in the order of kernels/cpu/channels.hpp."""

_REPEATED: Final = 2048
"""Elements of pixels in a row of a tile, for each of which constants are repeated."""

_ABSENT: Final = -(1 << 63)
"""In place of the plane of an element that no plane has."""

_SIZES: Final = (1, 2, 4)
"""Bytes of the elements of templates by size, in the order of the library's tables, before conversions."""

_TEMPLATES: Final = range(2, 8)
_LARGE: Final = range(3, 5)
TRANSPOSED: Final = range(8, 17)
"""Elements of a pixel of templates by size, of templates with conversions and with stores past the caches, and of
transposes."""

_TO_PLANES: Final = (
    ("uint8", "float32"), ("uint8", "float16"), ("uint8", "bfloat16"), ("uint16", "float32"), ("float16", "float32"),
    ("float32", "float16"), ("float32", "uint8"),
)  # fmt: skip
_TO_PIXELS: Final = (
    ("float32", "uint8"), ("float16", "uint8"), ("uint8", "float32"), ("uint8", "float16"), ("float16", "float32"),
    ("float32", "float16"),
)  # fmt: skip
"""Conversions while pixels are taken apart, or put together, in the order of the tables: each without arithmetic and
with it."""

_STREAMED: Final = (*((pair, True) for pair in _TO_PLANES[:3]), *((pair, False) for pair in _TO_PIXELS[:4]))
"""Those with stores past the caches, and whether these are of planes."""

_ORDERS: Final = (
    (2, (1, 0)), (3, (2, 1, 0)), (4, (2, 1, 0, 3)), (4, (3, 2, 1, 0)), (4, (3, 0, 1, 2)), (4, (1, 2, 3, 0)),
    (4, (0, 1, 2)), (4, (2, 1, 0)), (3, (0, 1, 2, -1)), (3, (2, 1, 0, -1)), (-3, (0, 1, 2)), (-4, (0, 1, 2, 3)),
)  # fmt: skip
"""Pixels that templates make of pixels: the elements from one of the source's to the next, and the order of those that
are taken; -1 is a zero."""


class Side(NamedTuple):
    """Pixels somewhere: the bytes from one to the next, and to the element, or the plane, of each channel."""

    place: int
    pixel: int
    channels: tuple[int, ...]
    itemsize: int

    @property
    def is_planar(self) -> bool:
        """Whether the elements of a channel are contiguous."""
        return self.pixel == self.itemsize

    @property
    def positions(self) -> tuple[int, ...]:
        """Each channel's position in a pixel."""
        return tuple(channel // self.itemsize for channel in self.channels)

    @property
    def is_full(self) -> bool:
        """Whether pixels are contiguous, and of the channels alone, in any order."""
        return sorted(self.positions) == [*range(self.pixel // self.itemsize)]

    @property
    def is_ordered(self) -> bool:
        """Whether pixels are contiguous elements in their order."""
        return self.is_full and self.pixel > 0 and [*self.positions] == sorted(self.positions)


class Step(NamedTuple):
    """A move of a chain, None to shuffle by size; what it writes: planes or pixels, bytes of an element, and filler."""

    move: Move | None
    planar: bool
    itemsize: int
    filler: int = 0


class Chain(NamedTuple):
    """The moves of a kernel of channels; `by_products`: divisions are products, whose constants are two factors."""

    steps: tuple[Step, ...]
    by_products: bool = False
    is_short: bool = False
    """Whether rows are shorter than a step: they are copied to a tile first, and from one at last."""


def sides_of(call: KernelCall) -> tuple[Side, Side]:
    """The source and the target of a call."""
    kernel: Channels = call.kernel  # type: ignore[assignment]
    small, (_, row), elements = call.small, call.inner, kernel.elements
    assert small is not None, "the kernel unrolls it"
    step = small.source if kernel.planar else elements.source_bytes
    read = tuple(step * number for number in kernel.order)
    step = elements.target_bytes if kernel.target_pixel else small.target
    written = tuple(step * number for number in range(len(read)))
    return (
        Side(_SOURCE, row.source, read, elements.source_bytes),
        Side(_TARGET, row.target, written, elements.target_bytes),
    )


def chain_of(call: KernelCall) -> Chain:
    """The moves of a call: rows that are shorter than a step of a shuffle are copied to a tile, and from one."""
    chain = _chain(call, is_short=False)
    narrowest = min(map(_bytes_shuffled, chain.steps, repeat(call)), default=LINE_BYTES)
    if call.inner[1].size * narrowest >= LINE_BYTES:
        return chain
    return _chain(call, is_short=True)._replace(is_short=True)


def _bytes_shuffled(step: Step, call: KernelCall) -> int:
    """Bytes of an element while a step shuffles it; those of a line where it does not."""
    if step.move is None:
        return step.itemsize
    sides = {"to planes": call.kernel.elements.source_bytes, "to pixels": call.kernel.elements.target_bytes}
    return sides.get(step.move.family, LINE_BYTES)


def _chain(call: KernelCall, *, is_short: bool) -> Chain:
    """The moves of a call, for rows that are shorter than a step, or not."""
    kernel: Channels = call.kernel  # type: ignore[assignment]
    elements, (source, target) = kernel.elements, sides_of(call)
    read, written, planar = source.itemsize, target.itemsize, not kernel.target_pixel
    filler = 0 if planar else target.pixel // written - len(target.channels)
    has_gaps = filler > 0 and not kernel.fills
    before: list[Step] = []
    if is_short and source.pixel > 0 and not kernel.planar:
        before, source = [Step(_pixel_rows(read), planar=False, itemsize=read)], source._replace(place=_FIRST_TILE)
    elif (kernel.planar and not source.is_planar) or is_short:
        before, source = [Step(copy_move(read), planar=True, itemsize=read)], source._replace(pixel=read)
    elif source.pixel < 0 and not (elements.itemsize and not planar):
        turned = source._replace(place=_FIRST_TILE, pixel=-source.pixel)
        if _shuffle_of(source, turned) is not None:  # rows of pixels that are mirrored first
            before, source = [Step(None, planar=False, itemsize=read)], turned
    shuffled = Step(None, planar, written, filler)
    last: list[Step] = []
    if has_gaps:
        last = [Step(_pixel_rows(written, has_gaps=True), planar=False, itemsize=written)]
    elif is_short:
        last = [Step(copy_move(written) if planar else _pixel_rows(written), planar, written)]
    if elements.itemsize:
        return Chain((*before, shuffled, *last))
    fused = _fused(kernel, source, target)
    if fused is not None:
        return Chain((*before, Step(fused, planar, written), *last))
    along = elements.constants == Constants.B
    # Constants along the pixels are those of planes, and what lies behind a pixel is not converted.
    can_begin = source.is_planar or (source.is_full and source.pixel > 0 and not along)
    begins = can_begin and (written < read or filler > 0 or (source.is_planar and (along or written == read)))
    is_apart = source.is_planar if begins else planar or along
    moves, by_products = conversion_moves(
        elements.conversion,
        finite=elements.finite,
        products=elements.by_products,
        along=elements.constants == (Constants.B if is_apart else Constants.SMALL),
    )
    converted = [Step(move, is_apart, move.bytes) for move in moves]
    in_order = not (source.is_planar or planar or filler or along) and source.is_ordered
    if in_order:
        return Chain((*before, *converted, *last), by_products)
    if begins:
        return Chain((*before, *converted, shuffled, *last), by_products)
    behind = [shuffled] if is_apart != planar or filler else []
    return Chain((*before, Step(None, is_apart, read), *converted, *behind, *last), by_products)


def _pixel_rows(nbytes: int, *, has_gaps: bool = False) -> Move:
    """A copy of rows of pixels, or of pixels between gaps that are not written."""
    return Move("pixel rows", int(has_gaps), nbytes)


def _fused(kernel: Channels, source: Side, target: Side) -> Move | None:
    """The move that converts between its shuffles and its stores, if there is one."""
    elements, conversion, planar = kernel.elements, kernel.elements.conversion, not kernel.target_pixel
    pair, pixels = (conversion.source.name, conversion.target.name), source if planar else target
    known, arithmetic = _TO_PLANES if planar else _TO_PIXELS, conversion.has_arithmetic
    truncates = conversion.rounding == "truncate" and conversion.target.is_integer
    if pair not in known or truncates or elements.constants == Constants.B or not _is_split(source, target, _LARGE):
        return None
    if arithmetic and (conversion.arithmetic != "multiply" or not elements.finite):
        return None
    return _template(planar, len(_SIZES) + 2 * known.index(pair) + arithmetic, pixels, target.itemsize)


def _template(planar: bool, kind: int, pixels: Side, nbytes: int) -> Move:
    """The move of a kind that takes pixels apart, or puts them together, and writes elements of so many bytes."""
    place = kind * len(_TEMPLATES) + pixels.pixel // pixels.itemsize - _TEMPLATES.start
    return Move("to planes" if planar else "to pixels", place, nbytes)


def _is_split(source: Side, target: Side, counts: range) -> bool:
    """Whether one side is planes, and the other whole pixels of so many elements, which are read or written once."""
    if source.is_planar == target.is_planar:
        return False
    pixels = source if target.is_planar else target
    fits = pixels.pixel // pixels.itemsize in counts and len({*pixels.channels}) == len(pixels.channels)
    return fits and (target.is_planar or pixels.is_full)


def _shuffle_of(source: Side, target: Side) -> Move | None:
    """The template that shuffles elements by their size; None where it is a permutation by tables."""
    nbytes = source.itemsize
    if nbytes not in _SIZES:
        return None
    kind = _SIZES.index(nbytes)
    if _is_split(source, target, _TEMPLATES):
        return _template(target.is_planar, kind, source if target.is_planar else target, nbytes)
    if _is_split(source, target, TRANSPOSED):
        return Move("many to planes" if target.is_planar else "many to pixels", kind, nbytes)
    if source.is_planar or target.is_planar:
        return None
    filler = target.pixel // nbytes - len(target.channels)
    order = source.pixel // nbytes, (*source.positions, *[-1] * filler)
    return Move("orders", kind * len(_ORDERS) + _ORDERS.index(order), nbytes) if order in _ORDERS else None


def _streams(move: Move | None, source: Side, target: Side) -> bool:
    """Whether a move of pixels has stores past the caches, which planes have where they begin a line together."""
    if move is not None and move.family == "pixel rows":
        return True  # no other move takes its place
    if move is None or move.family not in {"orders", "to planes", "to pixels"}:
        return False
    if target.is_planar and (_pitch(target) or 0) % LINE_BYTES:
        return False
    kind = move.place // len(_TEMPLATES) - len(_SIZES)
    if move.family == "orders" or kind < 0:
        return move.family == "orders" or _is_split(source, target, _LARGE)
    known = _TO_PLANES if target.is_planar else _TO_PIXELS
    return (known[kind // 2], target.is_planar) in _STREAMED


class Stages:
    """The moves of a call with their parameters, in the order of `PixelStage`; `kept` is memory that they point to."""

    def __init__(self, call: KernelCall) -> None:
        chain, (self._source, self._target) = chain_of(call), sides_of(call)
        self._call, self._constants = call, call.kernel.elements.constants
        self._arithmetic = Arithmetic.of(call, by_products=chain.by_products)
        self._compute = call.conversion.compute.itemsize
        self.fields: list[int] = []
        self.kept: list[object] = [self._arithmetic]
        self._of_pixels = False
        self.count, self.fewest = 0, 1
        """The moves, and the pixels that they need."""
        self._is_short = chain.is_short
        sides = [self._target] if not chain.is_short else [self._source, self._target]
        filled = max(0 if side.is_planar else abs(side.pixel) // side.itemsize for side in sides)
        channels, widest = len(self._source.channels), max((step.itemsize for step in chain.steps[:-1]), default=1)
        streaming = call.kernel.streaming
        if streaming:
            widest = max(widest, self._target.itemsize)
        most = TILE_BYTES // max(filled, channels) // LINE_BYTES * LINE_BYTES // widest
        if self._constants == Constants.SMALL and any(step.move and not step.planar for step in chain.steps):
            most = min(most, _REPEATED // channels)
        self.most = most // LINE_BYTES * LINE_BYTES or most // LANE_BYTES * LANE_BYTES or most
        """Pixels of a tile."""
        now = self._source
        for number, step in enumerate(chain.steps, 1):
            wanted = self._target if number == len(chain.steps) else self._tile(now, step)
            if step.move is not None and step.move.family == "pixel rows":
                self._pixel_rows(step.move, now, wanted)
            elif step.move is not None and step.move.family not in {"to planes", "to pixels"}:
                self._rows(step.move, now, wanted)
            else:
                move, layout = self._move_of_pixels(step, now, wanted)
                direct = not streaming or wanted is not self._target or _streams(move, now, wanted)
                if not direct and not (wanted.is_planar and step.move):
                    tile = self._tile(now, step)
                    move, layout = self._move_of_pixels(step, now, tile)
                    self._pixels(move, now, tile, layout)
                    self._rows(copy_move(tile.itemsize), tile, wanted)
                else:
                    self._pixels(move, now, wanted, layout)
            now = wanted

    @property
    def unit_words(self) -> tuple[int, ...]:
        """The bits of the numbers of a first step."""
        return self._arithmetic.unit_words

    @property
    def least(self) -> int:
        """The pixels of the source and of the target that the moves need."""
        return 1 if self._is_short else self.fewest

    @property
    def is_whole(self) -> bool:
        """Whether one move of pixels takes all rows of an item."""
        return self.count == 1 and self._of_pixels and self.joins

    @property
    def ahead(self) -> tuple[int, int, int]:
        """What is prefetched: planes, bytes from one to the next, and of each one's pixels."""
        source = self._source
        # It pays where the target is not read before it is written, and the next source takes less than a tile.
        if source.itemsize >= self._target.itemsize or not self._call.kernel.streaming:
            return 0, 0, 0
        if source.is_planar:
            return len(source.channels), _pitch(source) or 0, source.pixel
        return 1, 0, abs(source.pixel)

    @property
    def joins(self) -> bool:
        """Whether a tile may have several rows, whose constants are alike."""
        return self._constants not in {Constants.A, Constants.B}

    def _tile(self, source: Side, step: Step) -> Side:
        """A tile that a move from a side writes."""
        place = _FIRST_TILE + (source.place == _FIRST_TILE)
        pitch, count, nbytes = (
            -(-self.most * step.itemsize // LINE_BYTES) * LINE_BYTES,
            len(source.channels),
            step.itemsize,
        )
        if step.move is not None and step.move.family == "pixel rows":
            return source._replace(place=place)
        if step.planar:
            return Side(place, nbytes, tuple(pitch * number for number in range(count)), nbytes)
        converts = step.move is not None and step.move.family not in {"to planes", "to pixels"}
        positions = source.positions if converts and not source.is_planar else range(count)
        return Side(place, (count + step.filler) * nbytes, tuple(nbytes * number for number in positions), nbytes)

    def _add(self, move: Move, source: Side, target: Side, *numbers: int, layout: Sequence[NDArray[Any]] = ()) -> None:
        """Add a move; `numbers` are the fields behind the places."""
        self.count += 1
        self.kept.append(layout)
        address = layout[-1].ctypes.data if layout else 0
        self.fields += [native_function(move.family, move.place), address, source.place, target.place, *numbers]

    def _move_of_pixels(self, step: Step, source: Side, target: Side) -> tuple[Move, list[NDArray[Any]]]:
        """A move of pixels to planes or to other pixels, or of planes to pixels, and its layout, the last array."""
        nbytes, size = source.itemsize, self.most if self._is_short else self._call.inner[1].size
        move = step.move or _shuffle_of(source, target)
        if move is None:
            size = min(size, self.most)
            is_wide = shuffled_bytes(1) == LINE_BYTES and size * nbytes >= LINE_BYTES
            word = LINE_BYTES if is_wide else LANE_BYTES
            self.fewest = max(self.fewest, word // nbytes)
            return Move("permute", int(is_wide), nbytes), permutation(source, target, word)
        pixels, planes = (source, target) if target.is_planar else (target, source)
        layout = np.array([[_ABSENT] * TRANSPOSED[-1], [0] * TRANSPOSED[-1]], np.int64)
        if planes.is_planar:
            for number, (position, plane) in enumerate(zip(pixels.positions, planes.channels, strict=True)):
                layout[:, position] = plane, number
        wanted = LINE_BYTES // (source if not source.is_planar else target).itemsize
        self.fewest = max(self.fewest, min(wanted, size, self.most))
        return move, [layout]

    def _pixel_rows(self, move: Move, source: Side, target: Side) -> None:
        """Add a copy of rows of pixels, or of pixels between gaps."""
        first, nbytes = min(source.channels), max(source.channels) - min(source.channels) + source.itemsize
        if target.place == _TARGET and not move.place:
            nbytes = target.pixel
        layout: list[NDArray[Any]] = [np.array([nbytes], np.int64)]
        if move.place:
            words = lcm(target.pixel, LINE_BYTES) // LINE_BYTES
            is_written = np.arange(words * LINE_BYTES) % target.pixel < nbytes
            masks = np.packbits(is_written, bitorder="little").view(np.uint64)
            layout = [masks, np.array([nbytes, words, masks.ctypes.data], np.int64)]
        self._of_pixels = True
        steps, addresses = (source.pixel, target.pixel), [each.ctypes.data for each in NO_CONSTANTS]
        self._add(move, source, target, first, first, 1, 1, 0, 0, *steps, *steps, 0, 0, 0, *addresses, layout=layout)

    def _pixels(self, move: Move, source: Side, target: Side, layout: list[NDArray[Any]]) -> None:
        """Add a move of pixels, with constants of each channel, or of all."""
        values = self._arithmetic.values or NO_CONSTANTS
        self.kept.append(values)
        each = self._compute if self._constants == Constants.SMALL and self._arithmetic.values else 0
        steps = source.pixel, target.pixel
        streams = int(target.place == _TARGET and self._call.kernel.streaming)
        numbers = (0, 0, 1, 1, 0, 0, *steps, *steps, each, 0, streams, *(each.ctypes.data for each in values))
        self._of_pixels = True
        self._add(move, source, target, *numbers, layout=layout)

    def _rows(self, move: Move, source: Side, target: Side) -> None:
        """A move of the rows of planes, or of one row of all pixels."""
        streams = int(target.place == _TARGET and self._call.kernel.streaming)
        values, small = self._arithmetic.values or NO_CONSTANTS, self._constants == Constants.SMALL
        if source.is_planar or target.is_planar:
            count, elements = len(source.channels), 1
            steps, pitches = (source.pixel, target.pixel), (_pitch(source), _pitch(target))
        else:
            count, elements = 1, source.pixel // source.itemsize
            steps, pitches = (source.itemsize, target.itemsize), (0, 0)
            if small and self._arithmetic.values:
                places = np.argsort(source.positions)
                values = tuple(np.resize(each[places], elements * self.most) for each in values)
        # A step may read behind the last.
        values = tuple(_aligned(np.pad(each, (0, MOST_LANES))) for each in values)
        self.kept.append(values)
        pitch = self._compute if small and elements == 1 else 0
        along = self._compute if self._constants == Constants.B else 0
        channels = [0] if elements > 1 or pitches[0] is not None else range(count)
        for channel in channels:
            rows = count // len(channels)
            self._add(
                move,
                source,
                target,
                source.channels[channel] if elements == 1 else 0,
                target.channels[channel] if elements == 1 else 0,
                rows,
                elements,
                pitches[0] or 0,
                pitches[1] or 0,
                *steps,
                source.pixel,
                target.pixel,
                pitch,
                along,
                streams,
                *(each.ctypes.data + channel * pitch for each in values),
            )


def _pitch(side: Side) -> int | None:
    """Bytes from a channel's plane to the next; None if that is no one number."""
    first, *others = {after - before for before, after in pairwise(side.channels)} or {0}
    return None if others else first


def _aligned(values: NDArray[Any]) -> NDArray[Any]:
    """A copy that begins at a cache line: whole vectors of it are loaded."""
    memory = np.empty(values.nbytes + LINE_BYTES, np.uint8)
    first = -memory.ctypes.data % LINE_BYTES
    copied: NDArray[Any] = memory[first : first + values.nbytes].view(values.dtype)
    copied[:] = values
    return copied


def permutation(source: Side, target: Side, word: int) -> list[NDArray[Any]]:
    """The tables of a permutation by words of so many bytes; the last array is a `Permutation`."""
    nbytes, count = source.itemsize, len(source.channels)
    pixels = word // nbytes
    in_word = np.arange(word)
    if target.is_planar:
        puts = list(target.channels)
        wanted = [channel + in_word // nbytes * source.pixel + in_word % nbytes for channel in source.channels]
    else:
        puts = [*range(0, pixels * target.pixel, word)]
        wanted = []
        for put in puts:
            pixel, place = np.divmod(put + in_word, target.pixel)
            channel = place // nbytes
            known = np.append(source.channels, 0)[np.minimum(channel, count)]
            wanted.append(np.where(channel < count, known + pixel * source.pixel + place % nbytes, _ABSENT))
    used = np.concatenate(wanted)
    used = used[used != _ABSENT]
    # What is contiguous: all pixels, or each plane.
    extents = (
        [(channel, channel + word) for channel in source.channels]
        if source.is_planar
        else [(used.min(), used.max() + 1)]
    )
    loads = [_loads(bytes_, extents, word) for bytes_ in wanted]
    most = max(map(len, loads))
    from_zero = word == LANE_BYTES or most < 2 or any((bytes_ == _ABSENT).any() for bytes_ in wanted)
    starts, places = [], []
    for bytes_, needed in zip(wanted, loads, strict=True):
        begins = needed + [extents[0][0]] * (most - len(needed))
        starts += begins
        done = bytes_ == _ABSENT
        for number, begin in enumerate(begins):
            here = ~done & (bytes_ >= begin) & (bytes_ < begin + word)
            done |= here
            if word == LANE_BYTES:
                places.append(np.where(here, bytes_ - begin, 0x80))
            elif number == 0 and not from_zero:
                before = np.where(here, bytes_ - begin, in_word)
            else:
                kept = before if number == 1 and not from_zero else in_word
                places.append(np.where(here, word + bytes_ - begin, kept))
    arrays = [_aligned(np.concatenate(places).astype(np.uint8)), np.array(puts, np.int64), np.array(starts, np.int64)]
    tables, put, load = (each.ctypes.data for each in arrays)
    return [*arrays, np.array([pixels, len(puts), most, from_zero, put, load, tables], np.int64)]


def _loads(wanted: NDArray[Any], extents: list[tuple[int, int]], word: int) -> list[int]:
    """Where to load words that together have the wanted bytes, from within the extents."""
    loads: list[int] = []
    for begin, end in extents:
        rest = np.sort(wanted[(wanted >= begin) & (wanted < end)])
        while len(rest):
            loads.append(min(int(rest[0]), end - word))
            rest = rest[rest >= loads[-1] + word]
    return loads


def channels_loop(call: KernelCall, owner: object) -> LoopCall:
    """The loop of a call of a kernel of channels; it keeps an `owner` of memory alive."""
    stages = Stages(call)
    table = np.array(stages.fields, np.int64)
    inner, outer, tables = call.grid()
    constants = call.kernel.elements.constants
    compute = call.conversion.compute.itemsize
    fields = [
        *stages.unit_words,
        compute * (constants == Constants.ITEM),
        compute * (constants == Constants.A),
        stages.least,
        stages.most,
        stages.fewest,
        int(stages.is_whole),
        int(stages.joins),
        *stages.ahead,
        stages.count,
        table.ctypes.data,
        *(0, 0, 0),
        *inner,
        len(call.outer),
        *outer,
    ]
    loop = NativeFunction.of("channels")
    offsets = call.source_offset, call.target_offset
    return LoopCall.of(loop, fields, call.items, offsets, (stages.kept, table, tables, owner))
