"""Indices in compiled loops: loaded as stored, then resolved to positions that are always inside the axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from stridedgpu.problems.index_rule import Mode
from stridedgpu.values.strides import power_of_two

from .ir import Value, vector_type

_MOST_LANES: Final = 8
"""64-bit lanes of the widest vector."""


@dataclass(frozen=True, slots=True)
class IndexKind:
    """The storage of indices and their mode: bytes, signedness, contiguous or not, and the out-of-range mode."""

    nbytes: int
    signed: bool
    packed: bool
    mode: Mode


def lanes_of(count: int) -> int:
    """How many of `count` indices are loaded at once: a power of two."""
    return power_of_two(min(count, _MOST_LANES))


def load_indices(kind: IndexKind, address: Value, stride: Value, lanes: int) -> Value:
    """Load `lanes` indices from an address on, widened to 64 bits; `stride` is in bytes."""
    type_ = f"i{8 * kind.nbytes}"
    if kind.packed:
        numbers = address.load(vector_type(lanes, type_))
    else:
        each = (index.load(type_) for index in address.strided(stride, lanes))
        numbers = address.code.vector(vector_type(lanes, type_), each)
    return numbers if kind.nbytes == 8 else numbers.cast("sext" if kind.signed else "zext", "i64")


def resolved(kind: IndexKind, numbers: Value, size: Value) -> Value:
    """Resolve indices to positions from 0 to `size` - 1, both as 64-bit vectors; `size` is positive.

    Modes that check assume valid indices here. An index that changed after the check is clamped to the last position.
    """
    size = numbers.like(size)
    if kind.mode == "wrap":
        rest = numbers.binary("srem" if kind.signed else "urem", size)
        if not kind.signed:
            return rest
        return (rest < 0).select(rest + size, rest)
    last = size - 1
    if kind.signed and kind.mode == "clip":
        numbers = (numbers < 0).select(0, numbers)
    elif kind.signed:
        numbers = (numbers < 0).select(numbers + size, numbers)
    return numbers.compare("icmp ult", last).select(numbers, last)


def positions_of(kind: IndexKind, numbers: Value, size: Value) -> Value:
    """Resolve one index or a vector of them, as stored, to positions in 32 bits; `size` is at most 2^31."""
    if kind.nbytes == 8 and kind.mode not in {"clip", "wrap"}:
        numbers = numbers.cast("trunc", "i32")  # they were checked
    element = numbers.element
    if element != "i64":
        size = size.cast("trunc", element)
    places = resolved(kind, numbers, size)
    return places if element == "i32" else places.cast("trunc" if element == "i64" else "zext", "i32")


def taken_out(numbers: Value) -> Iterator[Value]:
    """The lanes of a vector of 32-bit numbers with a sign, one by one in 64 bits: two by an instruction."""
    words = numbers.recast("i64")
    for place in range(words.lanes):
        word = words.extract(place)
        yield word.cast("trunc", "i32").cast("sext", "i64")
        yield word.shifted(32)
