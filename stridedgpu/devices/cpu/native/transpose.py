"""Transposes on the native library: elements are transposed by their size, and converted where they lie in rows.

float32                     transpose
uint8 -> float32            transpose bytes, convert the vectors of bytes in registers: pairs of types that people have
int8 -> uint16              transpose bytes into a tile in the L1 cache, convert its rows into those of the target
float64 -> uint8            convert rows of the source into a tile, transpose its bytes
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

IN_REGISTERS: Final = (
    "uint8>float16", "uint8>bfloat16", "uint8>float32", "float32>uint8", "float32>float16",
    "uint8>int32", "uint16>float32", "int16>float32", "float16>float32", "bfloat16>float32", "float32>float64",
    "float32>bfloat16", "float32>int8", "float16>uint8", "float32>int32", "int32>float32", "float64>float32",
)  # fmt: skip
"""The pairs of types that are converted in registers, in the order of the library's table."""

_SCALED: Final = IN_REGISTERS[:5]
"""Those with one scale and one bias, too."""

_TURNED: Final = {Constants.A: Constants.B, Constants.B: Constants.A}
"""The loop that constants follow where rows and their elements change places."""


def transpose_loop(call: KernelCall, level: str, owner: object) -> LoopCall:
    """The loop of a call of a kernel of transposes; it keeps an `owner` of more memory alive."""
    elements = call.kernel.elements
    narrow, place = min(elements.source_bytes, elements.target_bytes), elements.constants
    move = Move("transpose", narrow.bit_length() - 1, narrow)
    chain = Chain((move,))
    # Elements of a step, and the most of a tile.
    columns, lines = (LANE_BYTES // narrow,) * 2, (LINE_BYTES // narrow,) * 2
    if in_registers := _in_registers(call):
        columns, lines, chain = (LANE_BYTES // narrow,) * 2, (LINE_BYTES // narrow,) * 2, Chain((in_registers,))
    elif not elements.itemsize:
        # Conversions go along the source's lines before elements are transposed, and along the target's afterwards.
        wide, narrows = max(elements.source_bytes, elements.target_bytes), elements.target_bytes < elements.source_bytes
        along = place == (Constants.A if narrows else Constants.B)
        moves, by_products = conversion_moves(
            elements.conversion, finite=elements.finite, products=elements.by_products, along=along
        )
        chain = Chain((*moves, move) if narrows else (move, *moves), by_products)
        # The longer side of a tile is the conversion's rows.
        tile = TILE_BYTES // max(each.bytes for each in chain.moves[:-1])
        most = min(2 * LINE_BYTES // narrow, tile // columns[0])
        lines = max(columns[0], LINE_BYTES // wide), most
        columns = columns[0], tile // most
        if narrows:
            (a, b), (of_a, of_b) = call.inner, call.blocks
            call, place = replace(call, inner=(b, a), blocks=(of_b, of_a)), _TURNED.get(place, place)
    fields, kept = chain_fields(call, chain, level, place)
    offsets = call.source_offset, call.target_offset
    loop = CompiledFunction(function(level, "transposes"))
    return LoopCall.of(loop, [*columns, *lines, *fields], call.items, offsets, (kept, owner))


def _in_registers(call: KernelCall) -> Move | None:
    """The transpose of a call that converts in registers, if the library has one and lines fill a vector."""
    elements, conversion = call.kernel.elements, call.conversion
    pair, (a, b) = f"{conversion.source.name}>{conversion.target.name}", call.inner
    narrow = min(elements.source_bytes, elements.target_bytes)
    if elements.itemsize or a.size < LANE_BYTES // narrow or b.size < LINE_BYTES // narrow:
        return None
    if not conversion.has_arithmetic:
        has = pair in IN_REGISTERS and not (conversion.rounding == "truncate" and conversion.target.is_integer)
        return Move("transpose converted", IN_REGISTERS.index(pair), elements.target_bytes) if has else None
    has = pair in _SCALED and conversion.arithmetic == "multiply" and conversion.rounding != "truncate"
    has = has and elements.constants == Constants.ITEM
    return Move("transpose scaled", _SCALED.index(pair), elements.target_bytes) if has else None
