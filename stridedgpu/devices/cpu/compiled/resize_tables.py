"""The tables of one geometry as a resize's machine code reads them: groups of taps, source rows, scratch memory.

NumPy makes the tables of any rule from `AxisTaps`. Those of filters over bytes are made by a loop, native or compiled:
random boxes never recur, and NumPy takes longer than the resize. The loop runs the same operations of float64 in the
same order as `problems.resize_taps`, none of them fused.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from stridedgpu.devices.cpu.native.registers import LINE_BYTES
from stridedgpu.devices.cpu.native.resize import table_loop
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.resize_problem import ResizeProblem, ResizeWindow
from stridedgpu.problems.resize_taps import (
    Array,
    AxisGeometry,
    AxisTaps,
    FilterSteps,
    WindowTaps,
    filter_steps,
    pillow_columns_first,
)
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.interpolation import Interpolation, ResizeSums, arithmetic_of
from stridedgpu.values.strides import round_up

from .ir import Code, Value
from .jit import loop_of
from .resize_kernel import BAND_ROWS, ENDS_BYTES, ROWS, ResizeKernel
from .resize_passes import LOW_BITS, NumberPass, PairPass, Pass
from .resize_rows import WORD_SUMS, RowPass, TapRows


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
    prepared = ROWS if kernel.keeps_rows else mask + 1
    return Tables({"ring_mask": mask, "sources": sources.ctypes.data, **fields}, ring_rows, prepared, sources, kept)


def _ring_mask(span: int, step_rows: int) -> int:
    """The number of rows of a ring, a power of two, minus one.

    Rows of the result read up to `span` rows, of which `step_rows` come in one step.
    """
    return (1 << (span + step_rows - 1).bit_length()) - 1


def elements_read(kernel: ResizeKernel, columns: tuple[int, int], channels: int) -> int:
    """The elements of a row, of `channels` in a plane, that the pass along x reads.

    What lies behind a row of gathered pixels is scratch memory as well.
    """
    elements = (columns[1] - columns[0] - 1) * kernel.step + channels
    return max(elements, ROWS) if kernel.gathers else elements


# By NumPy

_DTYPES: Final = {"i32": np.int32, "float": np.float32, "double": np.float64}


class _Groups(NamedTuple):
    """Taps one by one or in pairs: `counts` of groups, `indices` (pixels, groups, 1 or 2) and `weights`.

    `indices` and `counts` are int64. Single taps have one weight each, (pixels, groups), of the sum's type. Pairs have
    weights (pixels, groups, parts), each of which packs two 16-bit numbers in 32 bits, the first tap's in the lower
    half. The parts are the upper and the lower bits of Pillow's weights. Padding after the last tap has weight 0.
    """

    counts: Array
    indices: Array
    weights: Array

    def fields(self, axis: str) -> dict[str, int]:
        """The fields of an axis."""
        arrays = {f"{axis}_{name}": array.ctypes.data for name, array in self._asdict().items()}
        return {f"{axis}_groups": int(self.indices.shape[1]), f"{axis}_unused": 0, **arrays}


def _numpy_tables(taps: WindowTaps, kernel: ResizeKernel, columns: tuple[int, int], *, mirrored: bool) -> Tables:
    """The tables of any rule, for rows of which the columns from a first to a last one are read."""
    first, last = columns
    if kernel.interleaves:
        along = _even_groups(taps.columns, columns, taps.arithmetic, mirrored=mirrored)
    else:
        along = _groups(taps.columns, kernel.along, taps.arithmetic)
        indices = np.clip(along.indices, first, last - 1)  # padding may name the pixel behind the last
        along = along._replace(indices=((last - 1) - indices if mirrored else indices - first) * kernel.step)
    if kernel.by_rows is not None:
        along = _row_groups(kernel.by_rows, along, elements_read(kernel, columns, kernel.by_rows.channels))
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
    if kernel.keeps_rows or kernel.prepares_rows:
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
    if rule.group == 1:
        number = _DTYPES[rule.number] if isinstance(rule, NumberPass) else np.int32
        indices = taps.indices.astype(np.int64)[:, :, None]
        return _Groups(taps.counts.astype(np.int64), indices, np.ascontiguousarray(taps.weights, number))
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
    words = _words(weights, in_two=isinstance(rule, PairPass) and rule.parts == 2)
    return _Groups((taps.counts.astype(np.int64) + 1) // 2, indices.reshape(taps.count, width // 2, 2), words)


def _words(weights: Array, *, in_two: bool) -> Array:
    """The weights of pairs of taps, in one part or two."""
    parts = [weights >> LOW_BITS, weights & (1 << LOW_BITS) - 1] if in_two else [weights]
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
    indices = np.minimum((starts - before)[:, None] + np.arange(wide.shape[1]), last - first - 1)
    return _Groups((counts + before + 1) // 2, indices.reshape(taps.count, -1, 2), _words(wide, in_two=True))


def _row_groups(rule: RowPass, pairs: _Groups, elements: int) -> _Groups:
    """The taps of an axis, in elements, as a pass over rows of so many elements reads them: two neighbours a pixel.

    The tables are padded to whole steps, and to those of native loops. Weights are in the order of the sums of a step.
    Loads near the end of a row begin earlier: the weights of a pair change places, since that of the other tap is 0,
    and `counts` are the bits by which a word is shifted.
    """
    if not isinstance(rule, TapRows):
        return pairs
    fill = -len(pairs.counts) % max(rule.pixels, ROWS)
    places = np.pad(pairs.indices[:, 0, 0], (0, fill), "edge")
    weights = np.pad(pairs.weights[:, 0, 0], (0, fill))
    begins = np.minimum(places, elements - rule.pixel_bytes)
    shifts = (places - begins) * 8
    if rule.word_pixels > 1:
        weights = np.where(begins < places, weights << 16, weights)
    # One for each sum, and of each step the even words before the odd ones.
    words = np.repeat(weights, rule.out_step).reshape(-1, 4, 2, WORD_SUMS)
    weights = np.ascontiguousarray(words.transpose(0, 2, 1, 3).reshape(-1))
    return _Groups(shifts, begins.reshape(-1, 1, 1), weights)


# By a compiled loop


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


def has_tables(problem: ResizeProblem) -> bool:
    """Whether the loop makes the tables of a problem's windows, apart from frames."""
    rule = problem.rule
    if rule.interpolation.filter is None:
        return False
    is_fixed = arithmetic_of(rule.interpolation, problem.conversion.source) is ResizeSums.FIXED_POINT
    return is_fixed and _SINES is not None


def filter_axes(problem: ResizeProblem, window: ResizeWindow) -> FilterAxes | None:
    """The axes of a window whose tables the loop makes; None if NumPy makes them.

    NumPy has other rules, frames, a matrix, and axes without a pass where the native library is not used.
    """
    rule, is_native = problem.rule, policy().native_level is not None
    if not has_tables(problem) or not (is_native or (window.surface is None and problem.conversion.matrix is None)):
        return None
    _, _, (row, column) = problem.resized(window)
    down, along = problem.axes(window)
    above, before, _, width = window.place
    first, begin, seen_height, seen_width = problem.visible(window)
    if (down.is_whole or along.is_whole) and not is_native:
        return None
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
    step, parity = (1, 1) if kernel.interleaves else (kernel.step, 0)
    step, origin = (-step, (last - 1) * step) if mirrored else (step, -first * step)
    along, columns_memory = filter_table(interpolation, axes.columns, step=step, origin=origin, parity=parity)
    low, stop = axes.rows.reach
    mask, sources = 0, np.empty(0, np.int64)
    if kernel.columns_first or kernel.prepares_rows:
        mask = _ring_mask(min(axes.rows.most_taps, stop - low), kernel.step_rows)
        sources = np.minimum(np.arange(low, stop + 2 * ROWS), stop - 1)
        down, rows_memory = filter_table(interpolation, axes.rows, origin=-low, mask=mask)
    else:
        down, rows_memory = filter_table(interpolation, axes.rows)
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
    `counts`, `firsts` and `ends` have an entry for each pixel, `indices` two entries for each of its `groups`,
    `weights` the two parts of a pair, or one part of narrow weights, which do without `unused` fractional bits. Entries
    behind a pixel's count are not written. Raises `DeviceError` without the memory for them.
    """
    (start, ahead, count), groups = axis.pixels, (axis.most_taps + 1 + parity) // 2
    values = (2 * groups + 3) * (axis.target if interpolation.has_narrow_weights else 1)
    sizes = (_PARAMETERS.size // _WORD, count, count, count, 2 * count * groups, count * groups, values)
    try:
        memory = np.empty(sum(sizes), np.int64)
    except MemoryError as error:
        raise DeviceError(f"The CPU has no {sum(sizes) * _WORD} bytes left for the tables of a resize.") from error
    places = [memory.ctypes.data]
    for size in sizes[:-1]:
        places.append(places[-1] + size * _WORD)
    assert _SINES is not None, "axes have been made"
    level, number = policy().native_level, filter_number(interpolation)
    kind = number or 0, int(interpolation.has_narrow_weights)
    counts = axis.source, axis.target, start, ahead, count
    numbers = *counts, step, origin + axis.first * step, mask, parity, groups, *kind, 0
    _PARAMETERS.pack_into(memory.data, 0, *axis.steps, *numbers, *_SINES, *places[1:])
    loop = table_loop(level) if level is not None and number is not None else loop_of(_TableKernel(interpolation))
    loop.alone(0, 0, places[0], 0, 1)
    tables = dict(zip(_ADDRESSES[2:-1], places[1:-1], strict=True))
    return {"groups": groups, "unused": int(memory[_UNUSED]), **tables}, memory


def filter_number(interpolation: Interpolation) -> int | None:
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


class _Maths(NamedTuple):
    """The functions of filters in compiled code, of float64."""

    sin: Value
    cos: Value

    def select(self, condition: Value, value: Value | float, other: Value | float) -> Value:
        yes = value if isinstance(value, Value) else condition.code.constant(value, "double")
        return condition.select(yes, other)

    def is_zero(self, x: Value) -> Value:
        return x == 0.0

    def absolute(self, x: Value) -> Value:
        return x.intrinsic("llvm.fabs")

    def multiply_add(self, x: Value, factor: Value | float, addend: float) -> Value:
        return x * factor + addend

    def sine(self, x: Value) -> Value:
        return self.sin(x, returns="double")

    def cosine(self, x: Value) -> Value:
        return self.cos(x, returns="double")


@dataclass(frozen=True, slots=True)
class _TableKernel:
    """The loop: for each pixel its filter's values and their sum, then their shares of it as integers, two by two."""

    interpolation: Interpolation

    def text(self, name: str) -> str:
        return _TableBuilder(self.interpolation).text(name)


class _TableBuilder:
    """One loop under construction.

    The values of a pixel's taps are a row of memory, whose last word is their sum. Narrow weights need the largest
    share of the whole axis: their loop first writes a row for each pixel of the axis. Others have one row for all.
    """

    def __init__(self, interpolation: Interpolation) -> None:
        self._interpolation, self._narrow = interpolation, interpolation.has_narrow_weights
        self._code = code = Code()
        self._words = words = {
            field: (code.parameters + 8 * n).load("double" if field in _STEPS else "i64", 8)
            for n, field in enumerate((*_STEPS, *_NUMBERS, *_ADDRESSES))
        }
        self._low, self._scale, self._support, self._narrowing = (words[field] for field in _STEPS)
        self._tables = {field: words[field].pointer() for field in _ADDRESSES}
        self._maths = _Maths(self._tables["sine"], self._tables["cosine"])
        self._sum_place = words["groups"] * 2 + 2

    def text(self, name: str) -> str:
        code, words = self._code, self._words
        factor = self._low.like(1 << _BITS)
        if self._narrow:
            with code.fold(words["target"], [self._low.like(0)]) as (pixel, most):
                most[0] = self._filter(pixel).at_least(most[0])
            factor = self._precision(most[0])
        with code.loop(0, words["count"]) as place:
            pixel = words["first"] + place * words["next"]
            if not self._narrow:
                self._filter(pixel)
            self._write(place, pixel, factor)
        return code.text(name)

    def _filter(self, pixel: Value) -> Value:
        """Write a pixel's row of values, with 0 before and behind them. The result is the largest share of a tap."""
        code, row, filter_ = self._code, self._row(pixel), self._interpolation.filter
        center, start, count = self._span(pixel)
        assert filter_ is not None, "the rule has one"
        zero = self._low.like(0)
        with code.fold(count, [zero, zero]) as (tap, carried):
            distance = (tap + start).cast("sitofp", "double") - center + 0.5
            value: Value = filter_(distance * self._narrowing, self._maths)
            code.store(value, row + (tap + 1) * _WORD, _WORD)
            carried[:] = carried[0] + value, value.at_least(carried[1])
        total, most = carried
        total = (total == 0.0).select(1.0, total)
        code.store(zero, row, _WORD)
        code.store(zero, row + (count + 1) * _WORD, _WORD)
        code.store(total, row + self._sum_place * _WORD, _WORD)
        return most / total

    def _write(self, place: Value, pixel: Value, factor: Value) -> None:
        """Write the entries of a pixel of the result, `place`: weights are shares times `factor`."""
        code, words, row = self._code, self._words, self._row(pixel)
        _, start, count = self._span(pixel)
        total = (row + self._sum_place * _WORD).load("double", _WORD)
        last, is_mirrored = count - 1, words["step"] * words["parity"] < 0
        lowest, ahead = is_mirrored.select(last, 0), is_mirrored.select(code.constant(-1), 1)
        before = ((start + lowest) * words["step"] + words["origin"]) & words["parity"]
        pairs = (count + before + 1) >> 1
        with code.loop(0, pairs) as pair:
            group = place * words["groups"] + pair
            weights = []
            for half in range(2):
                tap = lowest + (pair * 2 + half - before) * ahead
                value = (row + (tap + 1) * _WORD).load("double", _WORD)
                weights.append(_half_away(value / total * factor))
                source = start + tap.at_least(0).at_most(last)
                index = (source * words["step"] + words["origin"]) & words["mask"]
                self._store(index, "indices", group * 2 + half)
            parts = [weights]
            if not self._narrow:
                uppers = [weight.shifted(LOW_BITS) for weight in weights]
                parts = [uppers, [weight & ((1 << LOW_BITS) - 1) for weight in weights]]
            words_at = self._tables["weights"] + group * (4 * len(parts))
            for part, (left, right) in enumerate(parts):
                code.store((left & 0xFFFF) | (right << 16), words_at + 4 * part, 4)
        first = start + words["origin"]
        for entry, table in ((pairs, "counts"), (first, "firsts"), (first + count, "ends")):
            self._store(entry, table, place)

    def _precision(self, largest: Value) -> Value:
        """As `resize_taps` does: two to the power of the bits that are used. Those that are not become a parameter."""
        code, most = self._code, float(1 << (self._interpolation.weight_bits - 1))
        first = [largest * 2.0, largest.like(1), code.constant(_BITS)]
        with code.fold(_BITS, first) as (_, carried):
            scaled, factor, unused = carried
            fits = scaled + 0.5 < most
            doubled = fits.select(factor * 2.0, factor)
            unused = unused - fits.cast("zext", "i64")
            carried[:] = scaled * 2.0, doubled, unused
        _, factor, unused = carried
        code.store(unused, code.parameters + _WORD * _UNUSED, _WORD)
        return factor

    def _row(self, pixel: Value) -> Value:
        if not self._narrow:
            return self._tables["values"]
        return self._tables["values"] + pixel * (self._sum_place + 1) * _WORD

    def _span(self, pixel: Value) -> tuple[Value, Value, Value]:
        """The centre of a pixel in the source, its first tap, and the number of its taps."""
        center = self._low + (pixel.cast("sitofp", "double") + 0.5) * self._scale
        edges = center - self._support, center + self._support
        begin, end = ((edge + 0.5).cast("fptosi", "i64") for edge in edges)
        start = begin.at_least(0)
        return center, start, end.at_most(self._words["source"]) - start

    def _store(self, value: Value, table: str, place: Value) -> None:
        self._code.store(value, self._tables[table] + place * _WORD, _WORD)


def _half_away(scaled: Value) -> Value:
    """A number as an integer of 32 bits, rounded half away from zero."""
    half = scaled.like(0.5).intrinsic("llvm.copysign", scaled)
    return (scaled + half).cast("fptosi", "i32")


# Scratch memory


def scratch_fields(
    kernel: ResizeKernel, elements: int, unit: int, planes: int, tables: Tables, row_bytes: int
) -> dict[str, int]:
    """The parts of one thread's scratch memory: transposed columns, outputs, ring, band, and rows of frames.

    Rows of `elements` a plane are resized to `unit`; a prepared row has `row_bytes`.
    """
    along, down = kernel.along, kernel.down
    outputs = ring = 0
    if kernel.by_rows is None:
        planes_joined = kernel.channels // kernel.row_channels
        columns = elements * ROWS * along.read_bytes * planes_joined
        behind = (1 + planes_joined) * ENDS_BYTES if kernel.interleaves else 0
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
