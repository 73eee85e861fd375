"""Kernels of resizes: both passes, how source rows are read, the bands behind them, and the fields that loops read.

The library has a loop for each order of the passes. The passes themselves are functions of their own, by the channels
of a pixel and the types and sums of a rule:

    order    calls    what prepares rows, along[rule][channels], down[rule], and what moves a band

The channels of a conversion are chosen where columns are made: an order of channels costs nothing, and channels that
the result has not are not resized. Resized pixels become planes where the target has planes, so that a band is rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.resize_problem import ResizeProblem
from stridedgpu.problems.resize_taps import AxisTaps, WindowTaps
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.interpolation import Finish, ResizeSums
from stridedgpu.values.layout import Layout

from .calls import NativeFunction
from .library import function

if TYPE_CHECKING:
    from .resize_tables import FilterAxes

ROWS: Final = 16
"""Source rows in one step of the first pass: the lanes of a vector."""

BAND_ROWS: Final = 16
"""Rows of the result that are converted in one step."""

ENTRY_FIELDS: Final = 5
"""Fields of an entry: the bytes from a call's source to the lowest row, and from its target to the first pixel; the
address of the geometry; the first row of the result and the row after the last.

The word before the entries is 0, and 1 after a thread failed to allocate its scratch memory."""

_TAPS: Final = ("groups", "counts", "indices", "weights", "unused")
MOVE: Final = ("kernel", "parameters", "items", "source", "target")
BAND_MOVES: Final = tuple(f"{rows}_{field}" for rows in ("whole", "rest") for field in MOVE)

GEOMETRY: Final = (
    *("allocate", "free", "scratch_bytes"),
    *("sources", "row_stride", "planes", "plane_stride", "elements", "columns"),
    *(f"column_{field}" for field in _TAPS),
    *(f"row_{field}" for field in (*_TAPS, "firsts", "ends")),
    *("ring_mask", "ring_pitch", "unit", "outputs_at", "ring_at", "band_at", "target_row"),
    *BAND_MOVES,
    *("band_pitch", "factor", "rows_kernel", "rows_at", "rows_pitch"),
    *("along", "down", "pixel_out", "channel_out", "step", "pixels", "places_low", "places_high"),
    *("block", "pairs", "pair_pitch", "joined", *(f"joined_{plane}" for plane in range(4))),
    *("into_columns", "into_rows", "along_two", "prepare", "divide", "alpha", "ring_bytes", "band_bytes", "shift"),
    *("apart", *(f"gathered_{channel}" for channel in range(4))),
)
"""64-bit fields that all windows of one geometry share, in memory order: `Geometry` in kernels/cpu/resize.hpp.

Offsets `_at`, the strides of the source and the ring's pitch are in bytes, `unit` and the band's pitch in elements.
Offsets count from the start of the scratch memory, which begins with the transposed columns. `whole` and `rest` are the
moves of a whole band to the target, and of the rows that remain: a loop's address and that of its parameters, its
items, and the bytes to its first element on either side. `factor` is that of a mean, in bits of float32, and `unused`
the fractional bits that narrow weights of an axis do without.
"""

_LANE_BYTES: Final = 16
_PAIR_BYTES: Final = 32
"""Bytes of a row that one step turns, and of a pair of pixels of 16 rows."""

WORD_BYTES: Final = 8
"""Bytes of a word: two neighbouring pixels of up to four elements, or four pairs of neighbours in a plane."""

_LEAST_HALVES: Final = 32
"""Pixels from which on a row of blocks of 2 x 2 is two steps; narrower ones are those of the linear rule."""

_NARROW_BITS: Final = 15
"""The most fractional bits of weights that fit one part of 16 bits."""


# The passes


class Pass(NamedTuple):
    """One pass: the types of an element before and behind it, how taps are summed, and what becomes of the sum.

    copy                  the only tap
    pairs                 two taps a multiplication of 16-bit numbers: weights have `parts` of 16 bits
    rows                  OpenCV's INTER_LINEAR and blocks of 2 x 2: two rows of 16-bit sums
    int32, float32, ...   one tap at a time, by weights of this type
    fused                 float32, the products behind the `rounded_taps` fused
    ones                  int32, all weights 1
    """

    read: str
    written: str
    sums: str
    finish: Finish = Finish.KEPT
    shift: int = 0
    parts: int = 1

    @property
    def read_bytes(self) -> int:
        """Bytes of an element before the pass."""
        return _BYTES[self.read]

    @property
    def written_bytes(self) -> int:
        """Bytes of an element behind the pass."""
        return _BYTES[self.written]

    @property
    def number(self) -> str:
        """The type of weights of single taps."""
        return {"fused": "float32", "ones": "int32", "copy": "int32"}.get(self.sums, self.sums)

    @property
    def in_pairs(self) -> bool:
        """Whether tables have two taps in a group."""
        return self.sums in ("pairs", "rows")


_BYTES: Final = {"uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "float32": 4, "uint64": 8}

_ALONG: Final = (
    ("uint16", "uint16", "float64", Finish.HALF_UP),
    ("float32", "float32", "float64", Finish.HALF_UP),
    ("uint8", "int32", "pairs", Finish.KEPT),
    ("uint8", "float32", "float32", Finish.KEPT),
    ("uint16", "float32", "float32", Finish.KEPT),
    ("float32", "float32", "float32", Finish.KEPT),
    ("float32", "float32", "fused", Finish.HALF_EVEN),
    ("uint16", "int32", "ones", Finish.KEPT),
)
_DOWN: Final = (
    ("uint16", "uint16", "float64", Finish.HALF_UP),
    ("float32", "float32", "float64", Finish.HALF_UP),
    ("int32", "uint8", "int32", Finish.SHIFTED),
    ("int32", "uint8", "ones", Finish.MEAN),
    ("float32", "uint8", "float32", Finish.HALF_EVEN),
    ("float32", "uint16", "float32", Finish.HALF_EVEN),
    ("float32", "float32", "float32", Finish.HALF_EVEN),
    ("float32", "float32", "fused", Finish.HALF_EVEN),
    ("int32", "uint16", "ones", Finish.MEAN),
    ("int32", "uint16", "ones", Finish.SHIFTED),
)
"""The passes along x and along y over columns of 16 rows, behind copies, in the order of the library's."""

_COPIED: Final = (1, 2, 4, 8)
"""Bytes of the elements that passes copy, and of those that are turned to columns."""


def _number(rule: Pass, known: tuple[tuple[str, str, str, Finish], ...]) -> int:
    """The number of a pass among those of the library."""
    return _COPIED.index(rule.read_bytes) if rule.sums == "copy" else len(_COPIED) + known.index(rule[:4])


@lru_cache(maxsize=256)
def passes_of(
    arithmetic: ResizeSums, element: ElementType, copies: tuple[bool, bool] = (False, False), *, narrow: bool = False
) -> tuple[Pass, Pass]:
    """The first and the second pass over pixels of a type, by the table of `stridedgpu.values.interpolation`.

    `copies` says which of them only copies. `narrow` weights are torch's, of one part. Pillow's have 22 fractional bits
    and a sign. They are split into `w = high * 2^11 + low`, so that each part fits 16 bits, and the whole sum is exact
    in 32 bits.
    """
    if arithmetic is ResizeSums.COPY:
        copy = _copy(element.itemsize)
        return copy, copy
    spec, pixels = arithmetic.spec, element.name
    upper, whole = spec.second is Finish.UPPER, spec.weights == "int32"
    between = pixels if spec.first is not Finish.KEPT else "int16" if upper else spec.weights
    # OpenCV's second pass reads INTER_LINEAR's sums without their 4 lowest bits.
    shifts = (4 if upper else 0 if spec.first is Finish.KEPT else spec.shift), spec.shift
    sums = "fused" if arithmetic.fuses else "ones" if whole and not spec.bits else spec.weights

    def one(read: str, written: str, finish: Finish, shift: int, *, copied: bool) -> Pass:
        if finish is Finish.UPPER:
            return Pass(read, written, "rows")
        if read == "uint8" and whole:
            return Pass(read, written, "pairs", finish, shift, 1 if narrow or spec.bits <= _NARROW_BITS else 2)
        return _copy(_BYTES[read]) if copied else Pass(read, written, sums, finish, shift)

    return (
        one(pixels, between, spec.first, shifts[0], copied=copies[0]),
        one(between, pixels, spec.second, shifts[1], copied=copies[1]),
    )


def _copy(itemsize: int) -> Pass:
    """The pass that copies elements of so many bytes."""
    word = f"uint{8 * itemsize}"
    return Pass(word, word, "copy")


_HALVES: Final = Pass("uint8", "int16", "pairs"), Pass("int16", "uint8", "rows")
"""Both passes over blocks of 2 x 2; their types alone are read."""


# The rows of the source


class RowShape(NamedTuple):
    """The layout of a row's elements: `channels` interleaved at every `step`, or planes; in elements.

    `elements` is the distance from the lowest to the highest element of a row in one plane, both included. `mirrored`:
    x runs backwards.
    """

    channels: int
    step: int
    planes: int
    plane_stride: int
    elements: int
    mirrored: bool

    @classmethod
    def of(cls, layout: Layout) -> RowShape | None:
        """The shape of a layout with axes C, H, W; None for other layouts."""
        (count, _, width), (across, _, right) = layout.sizes, layout.strides
        step, limits = 1 if width == 1 else abs(right), policy().resize
        if count == 1:
            across = 1
        if across == 1 and count <= step and count <= limits.most_channels and step <= limits.most_step:
            return cls(count, step, 1, 0, (width - 1) * step + count, right < 0)
        if step <= limits.most_step:
            return cls(1, step, count, across, (width - 1) * step + 1, right < 0)
        return None

    @property
    def in_words(self) -> bool:
        """Whether a word has two neighbouring pixels, or four pairs of neighbours in a plane."""
        return self.step == 1 or (self.channels > 1 and 2 * self.step <= WORD_BYTES)

    def gathered(self) -> RowShape:
        """The shape of rows into which pixels are gathered: all their channels side by side, or those of one plane."""
        together, width = self.channels * self.planes, (self.elements - self.channels) // self.step + 1
        if together > policy().resize.most_channels:
            return self._replace(step=1, elements=width, mirrored=False)
        return RowShape(together, together, 1, 0, width * together, mirrored=False)

    def columns(self, reach: tuple[int, int], width: int) -> tuple[int, int]:
        """The columns of the source that are read, from first to one past the last: a vector of them at least."""
        first, last = reach
        least = min(width, -(-(ROWS - self.channels) // self.step) + 1)
        last = min(width, max(last, first + least))
        return min(first, last - least), last


# The kernel


@dataclass(frozen=True, slots=True)
class ResizeKernel:
    """A kernel for images of `channels` interleaved channels, whose pixels begin `step` elements apart.

    Planes count as images of 1 channel, several to a window, unless columns interleave them. `reads` says how the pass
    along x reads rows:

        columns    16 of them are transposed: a vector has one element of 16 rows, so one weight serves all its lanes
        pairs      the same with pairs of neighbouring pixels of each row, for filters over bytes
        words      as they lie: two neighbours a pixel anywhere in a row, OpenCV's INTER_LINEAR
        halves     as they lie: blocks of 2 x 2
    """

    along: Pass
    down: Pass
    channels: int
    step: int
    columns_first: bool = True
    reads: str = "columns"
    prepares: str = ""
    """What prepares rows of the source before a pass reads them: "frame", "alpha", "gathered", or nothing."""
    joins_passes: bool = False
    """Whether the second pass takes its two rows in registers, and no row is kept for another one."""
    joins_planes: bool = False
    """Whether the channels lie in planes, whose pixels are interleaved in pairs of columns."""

    @property
    def by_rows(self) -> bool:
        """Whether rows are read as they lie."""
        return self.reads in ("words", "halves")

    @property
    def step_rows(self) -> int:
        """Source rows in one step of the first pass along x."""
        return 2 if self.by_rows else ROWS

    @property
    def keeps_rows(self) -> bool:
        """Whether rows of the first pass along x wait in a ring for the rows of the result that read them."""
        return self.columns_first and not self.joins_passes

    @property
    def first(self) -> Pass:
        """The first pass."""
        return self.along if self.columns_first else self.down

    @property
    def second(self) -> Pass:
        """The second pass."""
        return self.down if self.columns_first else self.along

    @property
    def block_pixels(self) -> int:
        """Pixels of whole pairs in a vector of a row."""
        return ROWS // self.step & -2

    def elements(self, columns: tuple[int, int]) -> int:
        """The elements of a row, from a first to a last column, that the pass along x reads.

        What lies behind a row of gathered pixels is scratch memory as well.
        """
        channels = 1 if self.joins_planes else self.channels
        elements = (columns[1] - columns[0] - 1) * self.step + channels
        return max(elements, ROWS) if self.prepares == "gathered" else elements


def kernel_of(
    problem: ResizeProblem, taps: FilterAxes | WindowTaps, shape: RowShape, *, reads_frames: bool
) -> tuple[ResizeKernel, RowShape]:
    """The kernel of a window with the channels of the source, and the shape of rows that its passes read."""
    arithmetic = taps.arithmetic if isinstance(taps, WindowTaps) else ResizeSums.FIXED_POINT
    is_quarter = arithmetic is ResizeSums.OPENCV_QUARTER and problem.conversion.source.name == "uint8"
    is_linear = arithmetic is ResizeSums.OPENCV_LINEAR or is_quarter
    is_filter, prepares = arithmetic is ResizeSums.FIXED_POINT, "frame" if reads_frames else ""
    if weighs_colours(problem, taps):
        prepares = "alpha"
    elif 2 * shape.step > ROWS if is_filter else is_linear and (shape.mirrored or not shape.in_words):
        # No vector has a pair of pixels, or no word has both taps in order.
        prepares, shape = "gathered", shape.gathered()
    element, channels, planes = problem.conversion.source, shape.channels, shape.planes
    order = taps.columns_first
    kernel = partial(ResizeKernel, channels=channels, step=shape.step, columns_first=order, prepares=prepares)
    if is_filter:
        narrow = not isinstance(taps, WindowTaps) and problem.rule.interpolation.has_narrow_weights
        joins = taps.columns_first and 1 < planes <= policy().resize.most_channels
        passes = passes_of(arithmetic, element, narrow=narrow)
        return kernel(*passes, channels=planes if joins else channels, reads="pairs", joins_planes=joins), shape
    assert isinstance(taps, WindowTaps), "the tables of other rules are NumPy's"
    if is_quarter and shape.step == channels and _halves(taps):
        return kernel(*_HALVES, reads="halves", joins_passes=True), shape
    if is_linear:
        # The mean of four bytes is INTER_LINEAR with weights of one half.
        passes, joins = passes_of(ResizeSums.OPENCV_LINEAR, element), _share_few_rows(taps.rows)
        return kernel(*passes, reads="words", joins_passes=joins), shape
    copies = taps.columns.copies, taps.rows.copies
    passes = passes_of(arithmetic, element, copies if taps.columns_first else copies[::-1])
    along, down = passes if taps.columns_first else passes[::-1]
    return kernel(along, down), shape


def weighs_colours(problem: ResizeProblem, taps: FilterAxes | WindowTaps) -> bool:
    """Whether alpha weights the colours: not where all pixels are copies."""
    return problem.rule.premultiplies and not (taps.rows.copies and taps.columns.copies)


def _halves(taps: WindowTaps) -> bool:
    """Whether each pixel is made of two neighbours in each of two rows, in order, and a row is two steps."""
    columns = taps.columns
    in_order = np.array_equal(columns.starts, columns.starts[0] + 2 * np.arange(columns.count))
    whole = all(axis.counts.min() == axis.counts.max() == axis.most == 2 for axis in (columns, taps.rows))
    inside = columns.first <= columns.starts[0] and columns.starts[-1] + 2 <= columns.stop
    return in_order and whole and bool(inside) and columns.count >= _LEAST_HALVES


def _share_few_rows(rows: AxisTaps) -> bool:
    """Whether rows of the result read so few source rows together that a kept row seldom serves another one."""
    first, stop = rows.reach
    return stop - first >= policy().resize.joined_rows * rows.count


# Bands


class Bands(NamedTuple):
    """What the passes leave: resized pixels of the `channels` of the source in this order, in planes or not.

    `chosen` says that these are the channels of the conversion, which is then done.
    """

    channels: tuple[int, ...]
    planar: bool
    chosen: bool = False

    @classmethod
    def of(cls, problem: ResizeProblem, kernel: ResizeKernel) -> Bands:
        """Those of a kernel: planes where the target has the channels of a pixel apart, and where they are mixed."""
        chosen, together = problem.conversion.channels, kernel.channels  # others are planes by themselves
        _, across, _, right = problem.target.layout.strides
        planar = right == 1 or across != 1 or problem.conversion.matrix is not None
        may_leave = not (kernel.by_rows or kernel.prepares == "alpha")
        is_order = chosen is not None and together == problem.channels and len(set(chosen)) == len(chosen)
        if chosen is not None and is_order and (may_leave or len(chosen) == together):
            return cls(chosen, planar, chosen=True)
        return cls(tuple(range(together)), planar)

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

    def strides(self, width: int, pitch: int) -> tuple[int, int, int]:
        """The strides of rows along C, H, W; one channel alone is one of planes without a gap between."""
        if len(self.channels) == 1:
            return width, pitch, 1
        return (self.segment(width), pitch, 1) if self.planar else (1, pitch, len(self.channels))


# The functions of the library


@lru_cache(maxsize=16)
def order_loop(level: str, order: int) -> NativeFunction:
    """The loop of an order of the passes."""
    return NativeFunction(function(level, "resize", order))


def resize_loop(level: str, kernel: ResizeKernel) -> NativeFunction:
    """The loop of a kernel."""
    return order_loop(level, 2 + kernel.joins_passes if kernel.by_rows else int(not kernel.columns_first))


def _words(places: bytes) -> dict[str, int]:
    """16 places as two fields."""
    low, high = (int.from_bytes(places[at : at + 8], "little", signed=True) for at in (0, 8))
    return {"places_low": low, "places_high": high}


def resize_fields(
    level: str, kernel: ResizeKernel, bands: Bands, width: int, pixels: int, plane_stride: int
) -> dict[str, int]:
    """The fields of passes to so many columns, from rows of so many pixels whose planes are so far apart."""
    count, step, apart = len(bands.channels), kernel.step, bands.segment(width) if bands.planar else 1
    fields = {
        "pixel_out": _LANE_BYTES * (1 if bands.planar else count),
        "channel_out": _LANE_BYTES * apart,
        "step": step,
        "pixels": pixels,
        "ring_bytes": kernel.first.written_bytes,
        "band_bytes": kernel.second.written_bytes,
    }
    if kernel.prepares:
        place = {"frame": 0, "alpha": 1 + int(count == 4), "gathered": 2 + step}[kernel.prepares]
        fields["prepare"] = function(level, "resize prepared row", place)
    if kernel.by_rows:
        return fields | _row_fields(level, kernel, bands)
    if kernel.reads == "pairs":
        return fields | _pair_fields(level, kernel, bands, plane_stride)
    along, down = _number(kernel.along, _ALONG), _number(kernel.down, _DOWN)
    read, written = (_COPIED.index(nbytes) for nbytes in (kernel.along.read_bytes, kernel.along.written_bytes))
    return {
        **fields,
        "along": function(level, "resize along by taps", along * 4 + count - 1),
        "down": function(level, "resize down by taps", down),
        "into_columns": function(level, "resize into columns", read),
        "into_rows": function(level, "resize into rows", written),
        "shift": kernel.down.shift,
        "joined": 1,
        **{f"joined_{number}": channel for number, channel in enumerate(bands.channels)},
    }


def _row_fields(level: str, kernel: ResizeKernel, bands: Bands) -> dict[str, int]:
    """The passes over rows as they lie, and the places of both taps of four sums in a word, each before a byte of 0."""
    count, step = len(bands.channels), kernel.step
    numbers = bands.channels + bands.channels[-1:] * (4 - count)
    taps = [[tap * step + channel for tap in range(2)] for channel in numbers]
    if count == 1:
        taps = [[2 * number, 2 * number + 1] for number in range(4)]
    places, passes = [byte for pair in taps for place in pair for byte in (place, 0xFF)], int(kernel.joins_passes)
    if kernel.reads == "halves":  # of two pixels
        places, passes = [place + 2 * step * pixel for pixel in range(2) for pair in taps for place in pair], 2
    return {
        **_words(bytes(places)),
        "along": function(level, "resize along linear", 2 * (count > 1)),
        "along_two": function(level, "resize along linear", 2 * (count > 1) + 1),
        "down": function(level, "resize down linear", (2 * passes + bands.planar) * 4 + count - 1),
    }


def _pair_fields(level: str, kernel: ResizeKernel, bands: Bands, plane_stride: int) -> dict[str, int]:
    """The passes over columns of pairs, and how pairs lie in a vector of a row."""
    count, step, joins = len(bands.channels), kernel.step, kernel.joins_planes
    places = [
        (pixel + half) * step + channel
        for pixel in range(0, kernel.block_pixels, 2)
        for channel in ((0,) if joins else bands.channels)
        for half in range(2)
    ]
    planes = [channel * plane_stride for channel in bands.channels] if joins else [0]
    parts, fields = kernel.along.parts, dict[str, int]()
    if kernel.prepares == "alpha":
        place = 0 if bands.planar else 1 + int(count == 4)
        fields = {"divide": function(level, "resize by alpha", place), "alpha": bands.channels.index(count - 1)}
    return {
        **fields,
        **_words(bytes(places) + b"\xff" * (_LANE_BYTES - len(places))),
        "along": function(level, "resize along", (parts - 1) * 4 + count - 1),
        "down": function(level, "resize down", parts - 1),
        "block": kernel.block_pixels,
        "pairs": len(places) // 2,
        "pair_pitch": _PAIR_BYTES * (count if joins else 1),
        "joined": len(planes),
        **{f"joined_{number}": stride for number, stride in enumerate(planes)},
    }


def gathered_fields(shape: RowShape, pixels: int) -> dict[str, int]:
    """The fields of pixels that are gathered from a row, so many from its lowest address on: forwards in each case."""
    across, apart, first = shape.plane_stride if shape.channels == 1 else 1, shape.step, 0
    if shape.mirrored:
        first, apart = (pixels - 1) * apart, -apart
    places: Sequence[int] = range(shape.gathered().channels)
    return {"apart": apart, **{f"gathered_{channel}": first + channel * across for channel in places}}
