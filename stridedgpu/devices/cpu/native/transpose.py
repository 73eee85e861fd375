"""Transposes on the native library: elements are transposed by their size, and converted where they lie in rows.

float32                     transpose
uint8 -> float32            transpose bytes into a tile in the L1 cache, convert its rows into those of the target
float32 -> uint8            convert rows of the source into a tile, transpose its bytes
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from .calls import CompiledFunction
from .elements import Constants
from .library import function
from .pool import LoopCall
from .registers import LANE_BYTES, LINE_BYTES
from .rows import TILE_BYTES, Chain, Move, chain_fields, conversion_moves, has_rows

if TYPE_CHECKING:
    from .kernel_call import KernelCall

has_transpose: Final = has_rows
"""Whether the library has the moves of a call of a kernel of transposes."""

_TURNED: Final = {Constants.A: Constants.B, Constants.B: Constants.A}
"""The loop that constants follow where rows and their elements change places."""


def transpose_loop(call: KernelCall, level: str, owner: object) -> LoopCall:
    """The loop of a call of a kernel of transposes; it keeps an `owner` of more memory alive."""
    elements = call.kernel.elements
    narrow, place = min(elements.source_bytes, elements.target_bytes), elements.constants
    move = Move("transpose", narrow.bit_length() - 1, narrow)
    columns, lines = LANE_BYTES // narrow, LINE_BYTES // narrow
    chain = Chain((move,))
    if not elements.itemsize:
        # Conversions go along the source's lines before elements are transposed, and along the target's afterwards.
        narrows = elements.target_bytes < elements.source_bytes
        along = place == (Constants.A if narrows else Constants.B)
        moves, by_products = conversion_moves(
            elements.conversion, finite=elements.finite, products=elements.by_products, along=along
        )
        chain = Chain((*moves, move) if narrows else (move, *moves), by_products)
        # The longer side of a tile is the conversion's rows.
        tile = TILE_BYTES // max(each.bytes for each in chain.moves[:-1])
        lines = min(2 * lines, tile // columns)
        columns = tile // lines
        if narrows:
            (a, b), (of_a, of_b) = call.inner, call.blocks
            call, place = replace(call, inner=(b, a), blocks=(of_b, of_a)), _TURNED.get(place, place)
    fields, kept = chain_fields(call, chain, level, place)
    offsets = call.source_offset, call.target_offset
    loop = CompiledFunction(function(level, "transposes"))
    return LoopCall.of(loop, [columns, lines, *fields], call.items, offsets, (kept, owner))
