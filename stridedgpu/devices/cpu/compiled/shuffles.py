"""Shuffles of whole vectors: gathers of lanes, transposes of lanes, and unpacking of elements of odd sizes.

An element of 3, 5, 6, 7 or 9 to 15 bytes is packed in memory. In a register it takes the next larger power of two, and
the bytes after its end are undefined:

    memory     r g b r g b r g b r g b ...
    register   r g b . r g b . r g b . r g b . ...
"""

from __future__ import annotations

from collections.abc import Sequence

from stridedgpu.devices.cpu.policy import policy

from .ir import LANE_BYTES, LINE_BYTES, Code, Value, permuting, vector_type

__all__ = [
    "gathered",
    "joined",
    "odd_unit",
    "packed",
    "shuffled_bytes",
    "transposed_lanes",
    "unpacked",
    "word_bytes",
]


def shuffled_bytes(itemsize: int) -> int:
    """Bytes of the widest vector that one instruction permutes at this element size."""
    return LINE_BYTES if permuting(itemsize) in policy().target.features else LANE_BYTES


def gathered(code: Code, vectors: Sequence[Value], places: Sequence[int]) -> Value:
    """Gather the lanes at `places` of several concatenated vectors, two vectors a shuffle.

    The result is as long as one of them; -1 leaves a lane undefined.
    """
    lanes = vectors[0].lanes
    # The end of a long element in narrow vectors is undefined.
    first, *others = sorted({place // lanes for place in places if place >= 0}) or [0]
    second = others[0] if others else -1
    mask = [
        place % lanes + lanes * (place // lanes == second) if place >= 0 and place // lanes in (first, second) else -1
        for place in places
    ]
    result = code.shuffle(vectors[first], vectors[second] if others else None, mask)
    filled = {lane for lane, place in enumerate(mask) if place >= 0}
    for number in others[1:]:
        here = {lane for lane, place in enumerate(places) if place >= 0 and place // lanes == number}
        mask = [
            lanes + place % lanes if lane in here else lane if lane in filled else -1
            for lane, place in enumerate(places)
        ]
        result = code.shuffle(result, vectors[number], mask)
        filled |= here
    return result


def transposed_lanes(code: Code, lines: list[Value], lane: int) -> list[Value]:
    """Transpose the elements within each 16 bytes of `lane` vectors: row r, element c becomes row c, element r.

    Rows half the height apart are interleaved, log2(lane) times: log2(lane) shuffles a vector.
    """
    half = lane // 2
    width = lines[0].lanes
    low = [start + at // 2 + width * (at % 2) for start in range(0, width, lane) for at in range(lane)]
    high = [place + half for place in low]
    for _ in range(lane.bit_length() - 1):
        lines = [
            code.shuffle(lines[number], lines[number + half], mask) for number in range(half) for mask in (low, high)
        ]
    return lines


def word_bytes(nbytes: int) -> int:
    """Bytes of an element in a register."""
    return 1 << (nbytes - 1).bit_length()


def odd_unit(nbytes: int) -> int:
    """The largest power of two that divides an element's size: the unit of shuffles."""
    return nbytes & -nbytes


def unpacked(code: Code, address: Value, lanes: int, nbytes: int) -> Value:
    """Load `lanes` packed elements from an address and widen each to a word."""
    unit, word = odd_unit(nbytes), word_bytes(nbytes)
    pieces = [
        code.load(vector_type(lanes, f"i{8 * unit}"), code.at(address, piece * lanes * unit), 1)
        for piece in range(nbytes // unit)
    ]
    parts, units = word // unit, nbytes // unit
    places = [element * units + part if part < units else -1 for element in range(lanes) for part in range(parts)]
    words = [gathered(code, pieces, places[first : first + lanes]) for first in range(0, len(places), lanes)]
    return code.recast(joined(code, words), f"i{8 * word}")


def packed(code: Code, vector: Value, nbytes: int) -> list[Value]:
    """Pack words to elements, as consecutive vectors to store."""
    unit, word = odd_unit(nbytes), word_bytes(nbytes)
    lanes, parts, units = vector.lanes, word // unit, nbytes // unit
    whole = code.recast(vector, f"i{8 * unit}")
    pieces = [code.shuffle(whole, None, range(first, first + lanes)) for first in range(0, lanes * parts, lanes)]
    places = [element * parts + part for element in range(lanes) for part in range(units)]
    return [gathered(code, pieces, places[first : first + lanes]) for first in range(0, len(places), lanes)]


def joined(code: Code, vectors: list[Value]) -> Value:
    """Concatenate a power of two of vectors."""
    while len(vectors) > 1:
        places = range(2 * vectors[0].lanes)
        vectors = [code.shuffle(left, right, places) for left, right in zip(vectors[::2], vectors[1::2], strict=True)]
    return vectors[0]
