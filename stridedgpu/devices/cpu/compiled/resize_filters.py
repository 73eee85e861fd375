"""The tables of Pillow's filters for a new box, by a compiled loop: random boxes never recur, and NumPy takes longer.

One call of the loop is one axis. Its weights have the bits of `planning.resize_taps.pillow_taps`: the same operations
of float64 in the same order, none of them fused.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from functools import lru_cache, partialmethod
from typing import Final, NamedTuple

import numpy as np

from stridedgpu.planning.resize_problem import ResizeProblem, ResizeWindow
from stridedgpu.planning.resize_taps import FilterSteps, filter_steps, pillow_columns_first
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.interpolation import Arithmetic, Filter, Interpolation, arithmetic_of

from .ir import Code, Value
from .jit import loop_of
from .resize_passes import LOW_BITS
from .resize_tables import Array

__all__ = ["FilterAxes", "FilterAxis", "FilterTables", "filter_axes", "filter_tables"]


class FilterAxis(NamedTuple):
    """One axis of a resize by one of Pillow's filters: source pixels `first` to `first + source` have its taps.

    `pixels` are the first pixel of the result, the distance to the next, 1 or -1, and their count.
    """

    steps: FilterSteps
    first: int
    source: int
    pixels: tuple[int, int, int]

    @property
    def reach(self) -> tuple[int, int]:
        """The first source pixel that is read, and the one after the last."""
        start, step, count = self.pixels
        low, high = sorted((start, start + step * (count - 1)))
        reached = self.steps.reach(low, self.source)[0], self.steps.reach(high, self.source)[1]
        return self.first + reached[0], self.first + reached[1]

    @property
    def most_taps(self) -> int:
        """Taps that no pixel has more of: both edges of its filter are rounded down."""
        return int(2 * self.steps.support) + 2


class FilterAxes(NamedTuple):
    """Both axes of a window, and whether the pass along rows comes first."""

    rows: FilterAxis
    columns: FilterAxis
    columns_first: bool


def filter_axes(problem: ResizeProblem, window: ResizeWindow) -> FilterAxes | None:
    """The axes of a window whose tables the loop makes; None if NumPy makes them.

    NumPy has other rules, frames, a matrix, and axes without a pass.
    """
    rule = problem.rule
    if rule.interpolation.filter is None or rule.premultiplies or window.surface is not None:
        return None
    if problem.conversion.matrix is not None or _sines() is None:
        return None
    if arithmetic_of(rule.interpolation, problem.conversion.source) is not Arithmetic.PILLOW_FIXED:
        return None
    sizes, _, (row, column) = window.resized()
    down, along = window.axes()
    above, before, _, width = window.place
    first, begin, seen_height, seen_width = problem.visible(window)
    if down.is_whole or along.is_whole:
        return None
    start, step = begin - before, 1
    if window.flip:
        start, step = width - 1 - start, -1
    return FilterAxes(
        FilterAxis(filter_steps(rule.interpolation, down), row, sizes[0], (first - above, 1, seen_height)),
        FilterAxis(filter_steps(rule.interpolation, along), column, sizes[1], (start, step, seen_width)),
        pillow_columns_first(rule.passes, down, along),
    )


class FilterTables(NamedTuple):
    """The addresses of an axis's tables, as `TapGroups` and `Compacted` have them, in the `memory` that has them.

    `counts`, `firsts` and `ends` have an entry for each pixel, `indices` and `weights` two entries for each of its
    `groups`. Entries behind a pixel's count are not written.
    """

    memory: Array
    groups: int
    counts: int
    firsts: int
    ends: int
    indices: int
    weights: int


_FIELDS: Final = (
    "low", "scale", "support", "narrowing",
    "source", "first", "next", "count", "step", "origin", "mask", "groups",
    "sine", "cosine",
    "counts", "firsts", "ends", "indices", "weights", "sums",
)  # fmt: skip
"""Four float64, integers and addresses of the parameters, each of 8 bytes."""

_PARAMETERS: Final = struct.Struct("=4d16q")

_WORD: Final = 8


def filter_tables(
    interpolation: Interpolation, axis: FilterAxis, *, step: int = 1, origin: int = 0, mask: int = -1
) -> FilterTables:
    """The tables of an axis, in which source pixel `i` is the index `(i * step + origin) & mask`.

    Raises `DeviceError` without the memory for them.
    """
    (start, ahead, count), groups = axis.pixels, (axis.most_taps + 1) // 2
    sizes = (len(_FIELDS), count, count, count, 2 * count * groups, count * groups, 2 * groups + 1)
    try:
        memory = np.empty(sum(sizes), np.int64)
    except MemoryError as error:
        raise DeviceError(f"The CPU has no {sum(sizes) * _WORD} bytes left for the tables of a resize.") from error
    places = [memory.ctypes.data]
    for size in sizes[:-1]:
        places.append(places[-1] + size * _WORD)
    sines = _sines()
    assert sines is not None, "axes have been made"
    numbers = axis.source, start, ahead, count, step, origin + axis.first * step, mask, groups
    _PARAMETERS.pack_into(memory.data, 0, *axis.steps, *numbers, *sines, *places[1:])
    loop_of(_TablesKernel(interpolation)).alone(0, 0, places[0], 0, 1)
    return FilterTables(memory, groups, *places[1:6])


@dataclass(frozen=True, slots=True)
class _TablesKernel:
    """The loop that works out the tables of a filter."""

    interpolation: Interpolation

    def text(self, name: str) -> str:
        """The module with a function of this name."""
        assert self.interpolation.filter is not None, "the rule has one"
        return _text(self.interpolation.filter, name)


@dataclass(frozen=True, slots=True, eq=False)
class _Number:
    """A number of a filter: its operations append code. Conditions are numbers of one bit."""

    code: Code
    value: Value

    def of(self, number: _Number | float) -> Value:
        """Another number as a value; a constant has all its bits."""
        return number.value if isinstance(number, _Number) else _constant(number)

    def _with(self, operation: str, other: _Number | float) -> _Number:
        return _Number(self.code, self.code.binary(operation, self.value, self.of(other)))

    def _compared(self, condition: str, other: _Number | float) -> _Number:
        left, right = self.value, self.of(other)
        return _Number(self.code, self.code.value("i1", f"fcmp {condition} double {left.name}, {right.name}"))

    __add__ = partialmethod(_with, "fadd")
    __sub__ = partialmethod(_with, "fsub")
    __mul__ = partialmethod(_with, "fmul")
    __truediv__ = partialmethod(_with, "fdiv")
    __and__ = partialmethod(_with, "and")
    __lt__ = partialmethod(_compared, "olt")
    __le__ = partialmethod(_compared, "ole")
    __gt__ = partialmethod(_compared, "ogt")
    __ge__ = partialmethod(_compared, "oge")


@dataclass(frozen=True, slots=True)
class _Maths:
    """The functions of filters in compiled code; `sines` are the addresses of the C library's sine and cosine."""

    sines: tuple[Value, Value]

    def select(self, condition: _Number, value: _Number | float, other: _Number | float) -> _Number:
        """Both values, and one of them."""
        chosen = condition.code.select(condition.value, condition.of(value), condition.of(other))
        return _Number(condition.code, chosen)

    def is_zero(self, x: _Number) -> _Number:
        """Compared with 0."""
        return x._compared("oeq", 0.0)

    def absolute(self, x: _Number) -> _Number:
        """An intrinsic."""
        return _Number(x.code, x.code.call("llvm.fabs.f64", "double", x.value))

    def sine(self, x: _Number) -> _Number:
        """A call."""
        return _Number(x.code, x.code.call_for("double", self.sines[0], x.value))

    def cosine(self, x: _Number) -> _Number:
        """A call."""
        return _Number(x.code, x.code.call_for("double", self.sines[1], x.value))


def _constant(number: float) -> Value:
    """Any float64 as a constant, to the bit."""
    return Value("double", f"0x{struct.pack('>d', number).hex().upper()}")


@lru_cache(maxsize=1)
def _sines() -> tuple[int, int] | None:
    """The addresses of the C library's sine and cosine, which Python's are; None where they are not to be had."""
    try:
        library = ctypes.CDLL(None)
        sine, cosine = (ctypes.cast(function, ctypes.c_void_p).value for function in (library.sin, library.cos))
    except (AttributeError, OSError, TypeError):  # Windows has no library of all symbols
        return None
    return None if sine is None or cosine is None else (sine, cosine)


def _text(filter_: Filter, name: str) -> str:
    """The loop: for each pixel its filter's values and their sum, then their shares of it in 22 bits, two by two."""
    code = Code()
    fields = {
        field: code.load("double" if place < 4 else "i64", code.at(Value("ptr", "%parameters"), _WORD * place), _WORD)
        for place, field in enumerate(_FIELDS)
    }
    tables = {field: code.pointer(fields[field]) for field in _FIELDS[12:]}
    with code.loop(0, fields["count"]) as number:
        pixel = code.cast("sitofp", code.add(fields["first"], code.multiply(number, fields["next"])), "double")
        half = _constant(0.5)
        center = code.binary(
            "fadd", fields["low"], code.binary("fmul", code.binary("fadd", pixel, half), fields["scale"])
        )
        edges = [
            code.cast("fptosi", code.binary("fadd", code.binary(side, center, fields["support"]), half), "i64")
            for side in ("fsub", "fadd")
        ]
        start = code.select(code.compare("icmp sgt", edges[0], 0), edges[0], code.full("i64", 0))
        count = code.binary("sub", code.smaller(edges[1], fields["source"]), start)
        with code.fold(count, [_constant(0.0)]) as (tap, total):
            away = code.binary("fsub", code.cast("sitofp", code.add(tap, start), "double"), center)
            x = code.binary("fmul", code.binary("fadd", away, half), fields["narrowing"])
            value = filter_(_Number(code, x), _Maths((tables["sine"], tables["cosine"]))).value
            code.store(value, code.at(tables["sums"], code.multiply(tap, _WORD)), _WORD)
            total[0] = code.binary("fadd", total[0], value)
        code.store(_constant(0.0), code.at(tables["sums"], code.multiply(count, _WORD)), _WORD)
        divides = code.compare("fcmp une", total[0], "0.0")
        divisor = code.select(divides, total[0], _constant(1.0))
        pairs = code.binary("lshr", code.add(count, 1), 1)
        last = code.add(count, -1)
        row = code.multiply(number, fields["groups"])

        def index(tap: Value) -> Value:
            placed = code.add(code.multiply(code.add(start, code.smaller(tap, last)), fields["step"]), fields["origin"])
            return code.binary("and", placed, fields["mask"])

        with code.loop(0, pairs) as pair:
            into = code.multiply(code.add(row, pair), 2 * _WORD)
            halves = []
            for place in range(2):
                tap = code.add(code.multiply(pair, 2), place)
                value = code.load("double", code.at(tables["sums"], code.multiply(tap, _WORD)), _WORD)
                halves.append(_fixed(code, code.binary("fdiv", value, divisor)))
                code.store(index(tap), code.at(code.at(tables["indices"], into), _WORD * place), _WORD)
            words = code.at(tables["weights"], code.multiply(code.add(row, pair), _WORD))
            for part, bits in enumerate(("ashr", "and")):
                low, high = (
                    code.binary(bits, weight, LOW_BITS if bits == "ashr" else (1 << LOW_BITS) - 1) for weight in halves
                )
                joined = code.binary("or", code.binary("and", low, 0xFFFF), code.binary("shl", high, 16))
                code.store(joined, code.at(words, 4 * part), 4)
        code.store(pairs, code.at(tables["counts"], code.multiply(number, _WORD)), _WORD)
        begin = code.add(start, fields["origin"])
        code.store(begin, code.at(tables["firsts"], code.multiply(number, _WORD)), _WORD)
        code.store(code.add(begin, count), code.at(tables["ends"], code.multiply(number, _WORD)), _WORD)
    return code.text(name)


def _fixed(code: Code, weight: Value) -> Value:
    """A weight with 22 fractional bits, rounded half away from zero."""
    scaled = code.binary("fmul", weight, _constant(4194304.0))
    half = code.call("llvm.copysign.f64", "double", _constant(0.5), scaled)
    return code.cast("fptosi", code.binary("fadd", scaled, half), "i32")
