"""Indices in compiled loops: loaded as stored, then resolved to positions that are always inside the axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from stridedgpu.problems.index_rule import Mode

from .ir import Code, Value, vector_type

__all__ = [
    "MOST_POSITIONS",
    "IndexKind",
    "lanes_of",
    "load_indices",
    "positions_of",
    "resolved",
    "taken_out",
]

_MOST_LANES: Final = 8
"""64-bit lanes of the widest vector."""

MOST_POSITIONS: Final = 1 << 31
"""The size of the longest axis whose positions are numbers of 32 bits with a sign."""


@dataclass(frozen=True, slots=True)
class IndexKind:
    """The storage of indices and their mode: bytes, signedness, contiguous or not, and the out-of-range mode."""

    nbytes: int
    signed: bool
    packed: bool
    mode: Mode


def lanes_of(count: int) -> int:
    """How many of `count` indices are loaded at once: a power of two."""
    return 1 << (min(count, _MOST_LANES).bit_length() - 1)


def load_indices(code: Code, kind: IndexKind, address: Value, stride: Value, lanes: int) -> Value:
    """Load `lanes` indices from an address on, widened to 64 bits; `stride` is in bytes."""
    type_ = f"i{8 * kind.nbytes}"
    if kind.packed:
        numbers = code.load(vector_type(lanes, type_), address, 1)
    else:
        numbers = Value(vector_type(lanes, type_), "poison")
        for lane in range(lanes):
            numbers = code.insert(numbers, code.load(type_, address, 1), lane)
            address = code.at(address, stride)
    return numbers if kind.nbytes == 8 else code.cast("sext" if kind.signed else "zext", numbers, "i64")


def resolved(code: Code, kind: IndexKind, numbers: Value, size: Value) -> Value:
    """Resolve indices to positions from 0 to `size` - 1, both as 64-bit vectors; `size` is positive.

    Modes that check assume valid indices here. An index that changed after the check is clamped to the last position.
    """
    if kind.mode == "wrap":
        rest = code.binary("srem" if kind.signed else "urem", numbers, size)
        if not kind.signed:
            return rest
        return code.select(code.compare("icmp slt", rest, 0), code.binary("add", rest, size), rest)
    last = code.binary("add", size, -1)
    if kind.signed and kind.mode == "clip":
        numbers = code.select(code.compare("icmp slt", numbers, 0), code.full(numbers.type, 0), numbers)
    elif kind.signed:
        numbers = code.select(code.compare("icmp slt", numbers, 0), code.binary("add", numbers, size), numbers)
    return code.select(code.compare("icmp ult", numbers, last), numbers, last)


def positions_of(code: Code, kind: IndexKind, numbers: Value, size: Value) -> Value:
    """Resolve one index or a vector of them, as stored, to positions in 32 bits; `size` is at most `MOST_POSITIONS`."""
    lanes = numbers.lanes if numbers.type.startswith("<") else 0
    if kind.nbytes == 8 and kind.mode not in {"clip", "wrap"}:
        numbers = code.cast("trunc", numbers, "i32")  # they were checked
    element = numbers.element if lanes else numbers.type
    if element != "i64":
        size = code.cast("trunc", size, element)
    places = resolved(code, kind, numbers, code.splat(size, lanes) if lanes else size)
    return places if element == "i32" else code.cast("trunc" if element == "i64" else "zext", places, "i32")


def taken_out(code: Code, numbers: Value) -> Iterator[Value]:
    """The lanes of a vector of 32-bit numbers with a sign, one by one in 64 bits: two by an instruction."""
    words = code.recast(numbers, "i64")
    for place in range(words.lanes):
        word = code.extract(words, place)
        yield code.cast("sext", code.cast("trunc", word, "i32"), "i64")
        yield code.binary("ashr", word, 32)
