"""Packed rows on the native library: where the rows of a pack lie, and the move that converts it."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from .calls import CompiledFunction
from .library import function
from .pool import LoopCall
from .rows import MOST_LANES, NO_CONSTANTS, Arithmetic, Chain, conversion_moves, has_rows

if TYPE_CHECKING:
    from stridedgpu.devices.cpu.compiled.kernel_call import KernelCall
    from stridedgpu.devices.cpu.compiled.packed import Packed


def has_packed(call: KernelCall) -> bool:
    """Whether the library has the loop of a call of a kernel of packs: a conversion that is one move."""
    return has_rows(call) and len(chain_of(call).moves) == 1


def chain_of(call: KernelCall) -> Chain:
    """The moves of a call."""
    elements, along = call.kernel.elements, len({*call.constants_order}) > 1
    moves, by_products = conversion_moves(
        elements.conversion, finite=elements.finite, products=elements.by_products, along=along
    )
    return Chain(tuple(moves), by_products)


def packed_loop(call: KernelCall, level: str, owner: object) -> LoopCall:
    """The loop of a call of a kernel of packs; it keeps an `owner` of more memory alive."""
    kernel: Packed = call.kernel  # type: ignore[assignment]
    (move,), by_products = chain_of(call)
    arithmetic = Arithmetic.of(call, by_products=by_products)
    strides = iter(call.more)
    axes = [np.arange(loop.size, dtype=np.int64) * (0 if loop.repeats else next(strides)) for loop in kernel.loops]
    offsets = reduce(np.add.outer, axes, np.zeros((), np.int64)).ravel()
    lines = np.array(call.constants_order).reshape(len(kernel.lines), -1)
    order = np.repeat(lines, kernel.lines, axis=0).ravel()
    # A step may read behind the last.
    constants = [np.pad(values[order], (0, MOST_LANES)) for values in arithmetic.values] or NO_CONSTANTS
    inner, outer, tables = call.grid()
    fields = [
        *arithmetic.unit_words,
        function(level, move.family, move.place),
        kernel.row * kernel.elements.source_bytes,
        len(offsets),
        len(order),
        offsets.ctypes.data,
        *(values.ctypes.data for values in constants),
        *inner,
        len(call.outer),
        *outer,
    ]
    loop = CompiledFunction(function(level, "packed"))
    places = call.source_offset, call.target_offset
    return LoopCall.of(loop, fields, call.items, places, (offsets, constants, tables, owner))
