"""Shuffles of whole vectors: gathers of lanes, transposes of lanes, and concatenation."""

from __future__ import annotations

from collections.abc import Sequence

from stridedgpu.devices.cpu.policy import policy

from .ir import LANE_BYTES, LINE_BYTES, Value, permuting

__all__ = ["gathered", "joined", "shuffled_bytes", "transposed_lanes", "transposed_pairs"]


def shuffled_bytes(itemsize: int) -> int:
    """Bytes of the widest vector that one instruction permutes at this element size."""
    return LINE_BYTES if permuting(itemsize) in policy().target.features else LANE_BYTES


def gathered(vectors: Sequence[Value], places: Sequence[int]) -> Value:
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
    result = vectors[first].shuffle(mask, vectors[second] if others else None)
    filled = {lane for lane, place in enumerate(mask) if place >= 0}
    for number in others[1:]:
        here = {lane for lane, place in enumerate(places) if place >= 0 and place // lanes == number}
        mask = [
            lanes + place % lanes if lane in here else lane if lane in filled else -1
            for lane, place in enumerate(places)
        ]
        result = result.shuffle(mask, vectors[number])
        filled |= here
    return result


def transposed_lanes(lines: list[Value], lane: int) -> list[Value]:
    """Transpose the elements within each 16 bytes of `lane` vectors: row r, element c becomes row c, element r.

    Rows half the height apart are interleaved, log2(lane) times: log2(lane) shuffles a vector.
    """
    half = lane // 2
    width = lines[0].lanes
    low = [start + at // 2 + width * (at % 2) for start in range(0, width, lane) for at in range(lane)]
    high = [place + half for place in low]
    for _ in range(lane.bit_length() - 1):
        lines = [lines[number].shuffle(mask, lines[number + half]) for number in range(half) for mask in (low, high)]
    return lines


def transposed_pairs(rows: Sequence[Value], pairs: Sequence[tuple[int, int]]) -> list[Value]:
    """Up to 8 pairs of the bytes of 16 rows of 16 bytes: each pair of row 0, of row 1, and so on; two pairs a vector.

    A vector has four rows that are four apart. One shuffle of bytes puts the pairs side by side, two rounds of shuffles
    within 16 bytes bring four neighbouring rows together, and one of 64 bits orders these.
    """
    places = [place for pair in pairs for place in pair]
    places += [-1] * (LANE_BYTES - len(places))
    mask = [start + place if place >= 0 else -1 for start in range(0, LINE_BYTES, LANE_BYTES) for place in places]
    first, second, third, fourth = (joined(list(rows[number::4])).shuffle(mask).recast("i16") for number in range(4))
    halves = zip(_interleaved(first, second), _interleaved(third, fourth), strict=True)
    found = [vector for left, right in halves for vector in _interleaved(left.recast("i32"), right.recast("i32"))]
    return [vector.recast("i64").shuffle([0, 2, 4, 6, 1, 3, 5, 7]) for vector in found[: -(-len(pairs) // 2)]]


def _interleaved(left: Value, right: Value) -> list[Value]:
    """The lower and the upper halves of each 16 bytes of two vectors, lane by lane in turns."""
    lanes = left.lanes
    lane = lanes * LANE_BYTES // left.nbytes
    low = [start + at // 2 + lanes * (at % 2) for start in range(0, lanes, lane) for at in range(lane)]
    return [left.shuffle(low, right), left.shuffle([place + lane // 2 for place in low], right)]


def joined(vectors: list[Value]) -> Value:
    """Concatenate a power of two of vectors."""
    while len(vectors) > 1:
        places = range(2 * vectors[0].lanes)
        vectors = [left.shuffle(places, right) for left, right in zip(vectors[::2], vectors[1::2], strict=True)]
    return vectors[0]
