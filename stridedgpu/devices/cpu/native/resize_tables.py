"""The tables of one geometry as the loops of a resize read them: groups of taps, source rows, scratch memory.

NumPy makes the tables of any rule from `AxisTaps`. Those of filters over bytes are made by a loop of the library:
random boxes never recur, and NumPy takes longer than the resize. The loop runs the same operations of float64 in the
same order as `problems.resize_taps`, none of them fused.
"""

from __future__ import annotations

import ctypes
import struct
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.launch_cache import cached_launches
from stridedgpu.problems.resize_problem import ResizeProblem, ResizeWindow
from stridedgpu.problems.resize_taps import (
    LONG_AXIS,
    Array,
    AxisGeometry,
    AxisTaps,
    FilterSteps,
    WindowTaps,
    filter_steps,
    pillow_columns_first,
)
from stridedgpu.values.bounded_cache import array_bytes, count_bytes
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.interpolation import Interpolation, ResizeSums, arithmetic_of
from stridedgpu.values.strides import round_up

from .calls import NativeFunction
from .library import function
from .registers import LINE_BYTES
from .resize_kernels import BAND_ROWS, ROWS, WORD_BYTES, Pass, ResizeKernel

_LOW_BITS: Final = 11
"""Bits of the lower part of Pillow's weights."""

_WORD_SUMS: Final = 4
"""Sums of a word."""

_ENDS_BYTES: Final = 2 * ROWS * ROWS
"""A copy of the ends of 16 rows, since vectors of whole pairs would reach behind the rows. No more than that is written
behind the last pair, and for each plane that is joined as much."""


class Tables(NamedTuple):
    """The tables of a geometry, as fields, and what keeps them alive.

    `ring_rows` rows of the first pass are kept, and `prepared_rows` of the source where these are prepared. `sources`
    are the numbers of the source rows that are read, in their order.
    """

    fields: dict[str, int]
    ring_rows: int
    prepared_rows: int
    sources: Array
    kept: tuple[object, ...]


def window_tables(
    interpolation: Interpolation,
    taps: FilterAxes | WindowTaps,
    kernel: ResizeKernel,
    columns: tuple[int, int],
    *,
    mirrored: bool,
) -> Tables:
    """The tables of a window, for rows of which the columns from a first to a last one are read."""
    if isinstance(taps, FilterAxes):
        return _filter_tables(interpolation, taps, kernel, columns, mirrored=mirrored)
    return _numpy_tables(taps, kernel, columns, mirrored=mirrored)


def _tables(kernel: ResizeKernel, mask: int, fields: dict[str, int], sources: Array, *kept: object) -> Tables:
    """Tables with a ring of rows; 16 where rows come first, none where the passes are one."""
    ring_rows = 0 if kernel.joins_passes else mask + 1 if kernel.columns_first else ROWS
    count_bytes(array_bytes((sources, kept)))
    prepared = ROWS if kernel.keeps_rows else mask + 1
    return Tables({"ring_mask": mask, "sources": sources.ctypes.data, **fields}, ring_rows, prepared, sources, kept)


def _ring_mask(span: int, step_rows: int) -> int:
    """The number of rows of a ring, a power of two, minus one.

    Rows of the result read up to `span` rows, of which `step_rows` come in one step.
    """
    return (1 << (span + step_rows - 1).bit_length()) - 1


# By NumPy


class _Groups(NamedTuple):
    """Taps one by one or in pairs: `counts` of groups, `indices` (pixels, groups, 1 or 2) and `weights`.

    `indices` and `counts` are int64; columns of pairs have one index a pixel. Single taps have one weight each,
    (pixels, groups), of the type of the sum. Pairs have weights (pixels, groups, parts), each of which packs two 16-bit
    numbers in 32 bits, the first tap's in the lower half. The parts are the upper and the lower bits of Pillow's
    weights. Padding after the last tap has weight 0.
    """

    counts: Array
    indices: Array
    weights: Array

    def fields(self, axis: str) -> dict[str, int]:
        """The fields of an axis."""
        arrays = {f"{axis}_{name}": array.ctypes.data for name, array in self._asdict().items()}
        return {f"{axis}_groups": int(self.weights.shape[1]), f"{axis}_unused": 0, **arrays}


def _numpy_tables(taps: WindowTaps, kernel: ResizeKernel, columns: tuple[int, int], *, mirrored: bool) -> Tables:
    """The tables of any rule, for rows of which the columns from a first to a last one are read."""
    first, last = columns
    if kernel.reads == "pairs":
        along = _even_groups(taps.columns, columns, taps.arithmetic, mirrored=mirrored)
    else:
        along = _groups(taps.columns, kernel.along, taps.arithmetic)
        indices = np.clip(along.indices, first, last - 1)  # padding may name the pixel behind the last
        along = along._replace(indices=((last - 1) - indices if mirrored else indices - first) * kernel.step)
    if kernel.reads == "words":
        along = _word_groups(along, kernel.channels, kernel.elements(columns))
    down = _groups(taps.rows, kernel.down, taps.arithmetic)
    # The source rows that any tap reads, and the taps' indices into them.
    low, high = int(down.indices.min()), int(down.indices.max())
    if high - low < down.indices.size:
        used, places = np.arange(low, high + 1), down.indices - low
    else:
        used, inverse = np.unique(down.indices, return_inverse=True)
        places = inverse.reshape(down.indices.shape)
    # Up to a whole group of rows, and the one behind it, which is prefetched.
    sources = np.concatenate([used, np.full(2 * ROWS, used[-1], np.int64)])
    # A pixel's taps ascend.
    firsts, ends = np.ascontiguousarray(places[:, 0, 0]), places[:, -1, -1] + 1
    mask = _ring_mask(int((ends - firsts).max()), kernel.step_rows)
    if kernel.keeps_rows or kernel.prepares:
        down = down._replace(indices=places & mask)
    fields = {
        **along.fields("column"),
        **down.fields("row"),
        "row_firsts": firsts.ctypes.data,
        "row_ends": ends.ctypes.data,
        "factor": int(np.float32(taps.factor).view(np.int32)),
    }
    return _tables(kernel, mask, fields, sources, along, down, firsts, ends)


def _groups(taps: AxisTaps, rule: Pass, arithmetic: ResizeSums) -> _Groups:
    """The taps of an axis as a pass reads them, in pixels of the source."""
    if not rule.in_pairs:
        indices = taps.indices.astype(np.int64)[:, :, None]
        return _Groups(taps.counts.astype(np.int64), indices, np.ascontiguousarray(taps.weights, rule.number))
    width = taps.most + taps.most % 2
    # Padding taps have weight 0, so any pixel inside the image serves.
    indices = np.minimum(taps.starts[:, None] + np.arange(width), taps.stop - 1)
    if len(taps.starts) and taps.starts.min() < taps.first:
        np.maximum(indices, taps.first, out=indices)
    weights = np.zeros((taps.count, width), np.int32)
    weights[:, : taps.most] = taps.weights
    if taps.copies:
        weights <<= arithmetic.spec.bits
    elif arithmetic is ResizeSums.OPENCV_QUARTER:  # INTER_LINEAR with weights of one half
        weights <<= ResizeSums.OPENCV_LINEAR.spec.bits - 1
    words = _words(weights, in_two=rule.parts == 2)
    return _Groups((taps.counts.astype(np.int64) + 1) // 2, indices.reshape(taps.count, width // 2, 2), words)


def _words(weights: Array, *, in_two: bool) -> Array:
    """The weights of pairs of taps, in one part or two."""
    parts = [weights >> _LOW_BITS, weights & (1 << _LOW_BITS) - 1] if in_two else [weights]
    return np.stack([part[:, 0::2] & 0xFFFF | part[:, 1::2] << 16 for part in parts], axis=2)


def _even_groups(taps: AxisTaps, columns: tuple[int, int], arithmetic: ResizeSums, *, mirrored: bool) -> _Groups:
    """The taps of an axis for columns that are pairs of pixels: ascending from an even one, whose weight may be 0."""
    (first, last), counts = columns, taps.counts.astype(np.int64)
    starts, weights, places = taps.starts - first, taps.weights, np.arange(taps.most)
    if mirrored:
        starts, order = last - first - starts - counts, counts[:, None] - 1 - places
        weights = np.where(order < 0, 0, np.take_along_axis(weights, np.maximum(order, 0), 1))
    before = starts & 1
    wide = np.zeros((taps.count, taps.most // 2 * 2 + 2), np.int32)
    np.put_along_axis(wide, before[:, None] + places, weights << (arithmetic.spec.bits if taps.copies else 0), 1)
    return _Groups((counts + before + 1) // 2, starts.astype(np.int64), _words(wide, in_two=True))


def _word_groups(pairs: _Groups, channels: int, elements: int) -> _Groups:
    """The taps of an axis, in elements, as a pass over rows of so many elements reads them: two neighbours a pixel.

    The tables are padded to whole steps. Weights are in the order of the sums of 8 words. Loads near the end of a row
    begin earlier: the weights of a pair change places, since that of the other tap is 0, and `counts` are the bits by
    which a word is shifted.
    """
    of_word = 1 if channels > 1 else _WORD_SUMS  # pixels of a word
    fill = -len(pairs.counts) % max(8 * of_word, ROWS)
    places = np.pad(pairs.indices[:, 0, 0], (0, fill), "edge")
    weights = np.pad(pairs.weights[:, 0, 0], (0, fill))
    begins = np.minimum(places, elements - WORD_BYTES // of_word)
    shifts = (places - begins) * 8
    if of_word > 1:
        weights = np.where(begins < places, weights << 16, weights)
    # One for each sum, and of each step the even words before the odd ones.
    words = np.repeat(weights, _WORD_SUMS // of_word).reshape(-1, 4, 2, _WORD_SUMS)
    weights = np.ascontiguousarray(words.transpose(0, 2, 1, 3).reshape(-1, 1))
    return _Groups(shifts, begins, weights)


# By a loop


class FilterAxis(NamedTuple):
    """One axis of a resize by a filter: source pixels `first` to `first + source` have its taps.

    `target` is the number of pixels of the whole axis. `pixels` are the first pixel of the result, the distance to the
    next, 1 or -1, and their count.
    """

    steps: FilterSteps
    first: int
    source: int
    target: int
    pixels: tuple[int, int, int]

    @property
    def reach(self) -> tuple[int, int]:
        """The first source pixel that is read, and the one after the last."""
        start, step, count = self.pixels
        low, high = sorted((start, start + step * (count - 1)))
        return self.first + self.steps.reach(low, self.source)[0], self.first + self.steps.reach(high, self.source)[1]

    @property
    def copies(self) -> bool:
        """Whether the axis has no pass."""
        return self.steps == _NO_PASS

    @property
    def most_taps(self) -> int:
        """Taps that no pixel has more of: both edges of its filter are rounded down."""
        return int(2 * self.steps.support) + 2


class FilterAxes(NamedTuple):
    """Both axes of a window, and whether the pass along rows comes first."""

    rows: FilterAxis
    columns: FilterAxis
    columns_first: bool

    @property
    def products(self) -> int:
        """At least the products of one channel in both passes."""
        (top, bottom), (left, right) = self.rows.reach, self.columns.reach
        rows, columns = self.rows.pixels[2], self.columns.pixels[2]
        across, down = (bottom - top, columns) if self.columns_first else (rows, right - left)
        return self.columns.most_taps * columns * across + self.rows.most_taps * rows * down


def filter_axes(problem: ResizeProblem, window: ResizeWindow) -> FilterAxes | None:
    """The axes of a window whose tables the loop makes; None if NumPy makes them."""
    rule = problem.rule
    is_fixed = arithmetic_of(rule.interpolation, problem.conversion.source) is ResizeSums.FIXED_POINT
    if _SINES is None or not is_fixed or _filter_number(rule.interpolation) is None:
        return None
    _, _, (row, column) = problem.resized(window)
    down, along = problem.axes(window)
    if rule.interpolation.has_narrow_weights and max(down.target, along.target) > LONG_AXIS:
        return None  # the loop would hold the whole axis, whose largest share these weights need
    above, before, _, width = window.place
    first, begin, seen_height, seen_width = problem.visible(window)
    start, step = (width - 1 - (begin - before), -1) if window.flip else (begin - before, 1)
    return FilterAxes(
        FilterAxis(_steps_of(rule.interpolation, down), row, down.source, down.target, (first - above, 1, seen_height)),
        FilterAxis(_steps_of(rule.interpolation, along), column, along.source, along.target, (start, step, seen_width)),
        pillow_columns_first(rule.passes, down, along),
    )


_NO_PASS: Final = FilterSteps(0.0, 1.0, 0.5, 1.0)
"""The steps of an axis without a pass: it has the pixel itself, whose share is 1 by every filter."""


def _steps_of(interpolation: Interpolation, axis: AxisGeometry) -> FilterSteps:
    """The steps of a filter."""
    return _NO_PASS if axis.is_whole else filter_steps(interpolation, axis)


def _filter_tables(
    interpolation: Interpolation, axes: FilterAxes, kernel: ResizeKernel, columns: tuple[int, int], *, mirrored: bool
) -> Tables:
    """The tables of filters: source rows that are read follow each other without a gap."""
    first, last = columns
    step, origin = (-1, last - 1) if mirrored else (1, -first)
    level = policy().native_level
    along, columns_memory = _known_table(interpolation, axes.columns, step, origin, -1, 1, level)
    low, stop = axes.rows.reach
    mask, sources = 0, np.empty(0, np.int64)
    if kernel.columns_first or kernel.prepares:
        mask = _ring_mask(min(axes.rows.most_taps, stop - low), kernel.step_rows)
        sources = np.minimum(np.arange(low, stop + 2 * ROWS), stop - 1)
        down, rows_memory = _known_table(interpolation, axes.rows, 1, -low, mask, 0, level)
    else:
        down, rows_memory = _known_table(interpolation, axes.rows, 1, 0, -1, 0, level)
    fields = {f"{axis}_{name}": at for axis, table in (("column", along), ("row", down)) for name, at in table.items()}
    fields["factor"] = 0
    return _tables(kernel, mask, fields, sources, columns_memory, rows_memory)


_STEPS: Final = FilterSteps._fields
_NUMBERS: Final = (
    *("source", "target", "first", "next", "count", "step", "origin", "mask", "parity", "groups"),
    *("filter", "narrow", "unused"),
)
_ADDRESSES: Final = ("sine", "cosine", "counts", "firsts", "ends", "indices", "weights", "values")

_FILTERS: Final = ("box", "bilinear", "hamming", "bicubic", "lanczos")
"""The filters in the order of the native library's."""

_PARAMETERS: Final = struct.Struct(f"={len(_STEPS)}d{len(_NUMBERS) + len(_ADDRESSES)}q")
"""The parameters of the loop, in the order of these names."""

_UNUSED: Final = len(_STEPS) + len(_NUMBERS) - 1
"""The parameter that the loop writes."""

_WORD: Final = 8

_BITS: Final = ResizeSums.FIXED_POINT.spec.bits


def filter_table(
    interpolation: Interpolation, axis: FilterAxis, *, step: int = 1, origin: int = 0, mask: int = -1, parity: int = 0
) -> tuple[dict[str, int], Array]:
    """The tables of an axis, in which source pixel `i` is the index `(i * step + origin) & mask`, and their memory.

    With `parity` 1 indices ascend, and pairs of taps begin at even ones: a tap of weight 0 may stand before the first.
    `counts`, `firsts` and `ends` have an entry for each pixel, `indices` two entries for each of its `groups`, with
    `parity` one entry for all. `weights` have the two parts of a pair, or one part of narrow weights, which do without
    `unused` fractional bits. Entries behind a pixel's count are not written. Raises `DeviceError` without the memory
    for them.
    """
    (start, ahead, count), groups = axis.pixels, (axis.most_taps + 1 + parity) // 2
    indices = count if parity else 2 * count * groups
    sizes = (_PARAMETERS.size // _WORD, count, count, count, indices, count * groups)
    row_words = (2 * groups + 3) * (axis.target if interpolation.has_narrow_weights else 1)
    try:
        memory, values = np.empty(sum(sizes), np.int64), np.empty(row_words)
    except MemoryError as error:
        total = (sum(sizes) + row_words) * _WORD
        raise DeviceError(f"The CPU has no {total} bytes left for the tables of a resize.") from error
    places = [memory.ctypes.data]
    for size in sizes[:-1]:
        places.append(places[-1] + size * _WORD)
    assert _SINES is not None, "axes have been made"
    kind = _filter_number(interpolation), int(interpolation.has_narrow_weights)
    counts = axis.source, axis.target, start, ahead, count
    numbers = *counts, step, origin + axis.first * step, mask, parity, groups, *kind, 0
    _PARAMETERS.pack_into(memory.data, 0, *axis.steps, *numbers, *_SINES, *places[1:], values.ctypes.data)
    _table_loop(policy().native_level or "").alone(0, 0, places[0], 0, 1)
    tables = dict(zip(_ADDRESSES[2:-1], places[1:], strict=True))
    return {"groups": groups, "unused": int(memory[_UNUSED]), **tables}, memory


@cached_launches
def _known_table(
    interpolation: Interpolation,
    axis: FilterAxis,
    step: int,
    origin: int,
    mask: int,
    parity: int,
    level: str | None,  # noqa: ARG001 - of the cache: whose loop makes it
) -> tuple[dict[str, int], Array]:
    """The tables of an axis, which recipes share, and each of them counts."""
    return filter_table(interpolation, axis, step=step, origin=origin, mask=mask, parity=parity)


@lru_cache(maxsize=16)
def _table_loop(level: str) -> NativeFunction:
    """The loop that makes the tables of a filter along an axis."""
    return NativeFunction(function(level, "resize table"))


def _filter_number(interpolation: Interpolation) -> int | None:
    """The number of a rule's filter among those of the native library; None for another one."""
    name = interpolation.name.partition("-")[2]
    return _FILTERS.index(name) if name in _FILTERS and interpolation.filter is not None else None


def _sines() -> tuple[int, int] | None:
    """The addresses of the C library's sine and cosine, which Python's are; None where they are not to be had."""
    try:
        library = ctypes.CDLL(None)
        sine, cosine = (ctypes.cast(function, ctypes.c_void_p).value for function in (library.sin, library.cos))
    except (AttributeError, OSError, TypeError):  # Windows has no library of all symbols
        return None
    return None if sine is None or cosine is None else (sine, cosine)


_SINES: Final = _sines()


# Scratch memory


def scratch_fields(
    kernel: ResizeKernel, elements: int, unit: int, planes: int, tables: Tables, row_bytes: int
) -> dict[str, int]:
    """The parts of one thread's scratch memory: transposed columns, outputs, ring, band, and rows of frames.

    Rows of `elements` a plane are resized to `unit`; a prepared row has `row_bytes`.
    """
    along, down = kernel.along, kernel.down
    outputs = ring = 0
    if not kernel.by_rows:
        joined = kernel.channels if kernel.joins_planes else 1
        columns = elements * ROWS * along.read_bytes * joined
        behind = (1 + joined) * _ENDS_BYTES if kernel.reads == "pairs" else 0
        outputs = round_up(columns + behind, LINE_BYTES)
        ring = outputs + round_up(unit + ROWS, LINE_BYTES) * ROWS * along.written_bytes
    # A store of a whole register may reach behind a plane's end.
    band_pitch = round_up(unit * planes + LINE_BYTES, LINE_BYTES)
    between = band_pitch * along.written_bytes if kernel.columns_first else elements * down.written_bytes
    ring_pitch = round_up(between, LINE_BYTES) + LINE_BYTES * along.written_bytes
    band = ring + tables.ring_rows * ring_pitch
    rows = band + BAND_ROWS * band_pitch * kernel.second.written_bytes
    return {
        "outputs_at": outputs,
        "ring_at": ring,
        "band_at": band,
        "rows_at": rows,
        "scratch_bytes": rows + tables.prepared_rows * row_bytes + 2 * LINE_BYTES,
        "ring_pitch": ring_pitch,
        "band_pitch": band_pitch,
    }
