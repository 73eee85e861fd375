"""Transposes: the source is contiguous along `a`, the target along `b`; both are long.

    source                     registers                              target
    16 bytes of as many        a vector holds 16 bytes of 4 lines;    a vector for each of
    lines as a vector   ->     transposed within each 16 bytes   ->   as many lines as 16
    has elements                                                      bytes have elements

A strip's source lines are read to their ends before the next strip begins. Elements are transposed by their size where
they are narrower. Pairs of types that people have are converted in registers; others where they lie in rows:

    int8 -> uint16              transpose bytes into a tile in the L1 cache, convert its rows into those of the target
    float64 -> uint8            convert rows of the source into a tile, transpose its bytes
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.device_plan import Width
from stridedgpu.values.strides import power_of_two

from .calls import NativeFunction
from .elements import Constants, Elements
from .kernel_call import KernelCall, KernelFacts, LoopAxis, LoopMatch
from .moves import TILE_BYTES, Chain, Move, chain_fields, conversion_moves
from .pool import LoopCall
from .registers import LANE_BYTES, LINE_BYTES

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


@dataclass(frozen=True, slots=True)
class Transpose:
    """A kernel over strips of `rows` source lines (along `b`), `columns` elements (along `a`) a step.

    `rows` are the target elements of a vector, and `columns` those of 16 bytes, or fewer where a loop is short. The
    vectors of a `streaming` kernel are whole cache lines; aligned ones are written by non-temporal stores.
    """

    elements: Elements
    rows: int
    columns: int
    streaming: bool = False
    family: ClassVar[str] = "transpose"

    def facts(self, row: LoopAxis) -> KernelFacts:  # noqa: ARG002
        """What `explain` says of the kernel."""
        source, target = self.elements.source_bytes, self.elements.target_bytes
        return KernelFacts(
            f"transpose: tiles of {self.rows} target by {self.columns} source elements",
            Width(self.columns * source, f"tiles are {self.columns} elements of a source line wide"),
            Width(self.rows * target, f"tiles are {self.rows} elements of a target line wide"),
            (self.columns, self.rows),
        )

    def loop(self, call: KernelCall, owner: object) -> LoopCall:
        """The loop of a call of this kernel; it keeps an `owner` of more memory alive."""
        elements, place = self.elements, self.elements.constants
        narrow, wide = sorted((elements.source_bytes, elements.target_bytes))
        move = Move("transpose", narrow.bit_length() - 1, narrow)
        # Elements of a step, and the most of a tile.
        step, line = LANE_BYTES // narrow, LINE_BYTES // narrow
        columns, lines = (step, step), (line, line)
        if elements.itemsize:
            chain = Chain((move,))
        elif in_registers := _in_registers(call):
            chain = Chain((in_registers,))
        else:
            # Conversions go along the source's lines before elements are transposed, and along the target's afterwards.
            narrows = elements.target_bytes < elements.source_bytes
            along = place == (Constants.A if narrows else Constants.B)
            moves, by_products = conversion_moves(
                elements.conversion, finite=elements.finite, products=elements.by_products, along=along
            )
            chain = Chain((*moves, move) if narrows else (move, *moves), by_products)
            # The longer side of a tile is the conversion's rows.
            tile = TILE_BYTES // max(each.bytes for each in chain.moves[:-1])
            longer = min(2 * line, tile // step)
            columns, lines = (step, tile // longer), (max(step, LINE_BYTES // wide), longer)
            if narrows:
                (a, b), (of_a, of_b) = call.inner, call.blocks
                call, place = replace(call, inner=(b, a), blocks=(of_b, of_a)), _TURNED.get(place, place)
        fields, kept = chain_fields(call, chain, place)
        offsets = call.source_offset, call.target_offset
        loop = NativeFunction.of("transposes")
        return LoopCall.of(loop, [*columns, *lines, *fields], call.items, offsets, (kept, owner))


def transposes(match: LoopMatch, word: int) -> bool:
    """Whether the two sides are contiguous along different loops, each at least a lane of words long."""
    target_loop, source_loop = match.target_loop, match.source_loop
    if target_loop is None or source_loop is None or target_loop is source_loop:
        return False
    return min(target_loop.size, source_loop.size) >= LANE_BYTES // word


def match_transpose(match: LoopMatch) -> KernelCall | None:
    """The transpose in strips, if the loops allow it. Elements of 16 bytes are as quick as rows."""
    target_loop, source_loop, nbytes = match.target_loop, match.source_loop, match.target_bytes
    if target_loop is None or source_loop is None or nbytes == LANE_BYTES or not transposes(match, nbytes):
        return None
    if source_loop.source < 0:
        match, source_loop = match.flipped(source_loop)
    moved, limits = match.problem.bytes_moved, policy().relayout
    rows, columns = power_of_two(min(target_loop.size, LINE_BYTES // nbytes)), LANE_BYTES // nbytes
    if not match.problem.conversion.is_bitwise_copy:
        columns = max(columns, min(4, rows, power_of_two(source_loop.size)))  # loads of two elements take longer
    outer = match.besides(target_loop, source_loop)
    aligned = all(loop.target % LINE_BYTES == 0 for loop in (source_loop, *outer))
    streaming = aligned and rows * nbytes == LINE_BYTES and moved >= limits.streamed_bytes
    kernel = Transpose(match.elements(source_loop, target_loop), rows, columns, streaming)
    # An item is some strips along whole source lines. A conversion takes two cache lines of the narrower side.
    narrow = min(match.source_bytes, nbytes)
    strip = rows if match.problem.conversion.is_bitwise_copy else max(rows, 2 * LINE_BYTES // narrow)
    wanted = max(strip, limits.bytes_of_item(moved) // (2 * nbytes))
    along = min(source_loop.size, wanted // strip)
    return match.call(kernel, outer, (source_loop, columns), (target_loop, rows), extents=(along, wanted // along))


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
    has = has and elements.finite and elements.constants == Constants.ITEM
    return Move("transpose scaled", _SCALED.index(pair), elements.target_bytes) if has else None
