"""What each instruction of arithmetic does to the registers of a `Warp`: a function for each name.

Sums and products are taken in 64 bits of which the low 32 are kept. NVIDIA documents the names only ("CUDA Binary
Utilities", instruction set reference); the meanings are those that make kernels' results right, which tests compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from .sass import Instruction, Number, Predicate, Register
from .sass_reals import COMPARISONS, REAL_OPERATIONS, Lanes, Operation

__all__ = ["OPERATIONS"]

_WORD: Final = np.uint64(2**32)
_LOW: Final = np.uint64(2**32 - 1)


def _parts(one: Instruction) -> tuple[list[Any], list[Any], list[Any]]:
    """The results, the numbers that are read, and the predicates that are read."""
    first = next(place for place in range(1, len(one.operands)) if not isinstance(one.operands[place], Predicate))
    rest = one.operands[first:]
    numbers = [operand for operand in rest if not isinstance(operand, Predicate)]
    return list(one.operands[:first]), numbers, [operand for operand in rest if isinstance(operand, Predicate)]


def _add(warp: Any, one: Instruction, lanes: Lanes) -> None:
    """Up to three numbers and, with .X, carries; a subtrahend is what it lacks to 2^32."""
    (result, *carries), numbers, predicates = _parts(one)
    if "64" in one.modifiers:
        warp.set_pair(result, sum(map(warp.pair, numbers)), lanes)
        return
    total = np.zeros(lanes.size, np.uint64)
    for operand in numbers:
        value = warp.value(operand)
        if isinstance(operand, Register) and "-" in operand.sign:
            value = np.where(value == 0, _WORD, value)
        total = total + value
    if "X" in one.modifiers:
        for predicate in predicates:
            total = total + warp.truth(predicate).astype(np.uint64)
    warp.set(result, total, lanes)
    for least, carry in enumerate(carries, 1):
        warp.set_predicate(carry, total >> np.uint64(32) >= least, lanes)


def _multiply_add(warp: Any, one: Instruction, lanes: Lanes) -> None:
    (result, *carries), (a, b, c), predicates = _parts(one)
    modifiers = set(one.modifiers)
    if modifiers & {"WIDE", "HI"}:
        read = warp.value if "U32" in modifiers else warp.signed
        product = read(a).astype(np.uint64) * read(b).astype(np.uint64)
        total = product + warp.pair(c)
        if "HI" in modifiers:
            warp.set(result, total >> np.uint64(32), lanes)
        else:
            warp.set_pair(result, total, lanes)
            for carry in carries:
                warp.set_predicate(carry, total < product, lanes)
        return
    total = warp.value(a) * warp.value(b) + warp.value(c)
    if "X" in modifiers:
        total = total + warp.truth(predicates[0]).astype(np.uint64)
    warp.set(result, total, lanes)


def _shift_add(warp: Any, one: Instruction, lanes: Lanes) -> None:
    (result, *carries), numbers, predicates = _parts(one)
    a, b = warp.value(numbers[0]), warp.value(numbers[1])
    shift = warp.value(numbers[-1])
    if "HI" in one.modifiers:
        high = warp.value(numbers[2]) if len(numbers) == 4 else np.zeros_like(a)
        if "SX32" in one.modifiers:
            high = np.where(a >> np.uint64(31), _LOW, np.uint64(0))
        shifted = (high << np.uint64(32) | a) << shift >> np.uint64(32)
    else:
        shifted = a << shift & _LOW
    total = shifted + b
    if "X" in one.modifiers:
        total = total + warp.truth(predicates[0]).astype(np.uint64)
    warp.set(result, total, lanes)
    for carry in carries:
        warp.set_predicate(carry, total >= _WORD, lanes)


def _funnel_shift(warp: Any, one: Instruction, lanes: Lanes) -> None:
    result, low, by, high = one.operands
    shift = warp.value(by)
    shift = shift & np.uint64(31) if "W" in one.modifiers else np.minimum(shift, np.uint64(63))
    if "L" in one.modifiers:
        # Of .U64.HI the high half of 64 bits, else the low number alone.
        value = (warp.value(high) << np.uint64(32) | warp.value(low)) << shift
        value = value >> np.uint64(32) if "HI" in one.modifiers else value
    else:
        value = warp.value(high) << np.uint64(32) | warp.value(low)
        shift = shift + np.uint64(32) if "HI" in one.modifiers else shift
        if "S32" in one.modifiers:
            value = (value.view(np.int64) >> np.minimum(shift, np.uint64(63)).astype(np.int64)).view(np.uint64)
        else:
            value = np.where(shift > 63, np.uint64(0), value >> np.minimum(shift, np.uint64(63)))
    warp.set(result, value, lanes)


def _looked_up(inputs: list[Lanes], table: int) -> Lanes:
    """Bit by bit, what a table says of three inputs: its bit 4a + 2b + c."""
    found = np.zeros_like(inputs[0])
    everything = ~np.zeros_like(inputs[0])
    for entry in range(8):
        if table >> entry & 1:
            term = everything
            for place, value in enumerate(inputs):
                term = term & (value if entry >> (2 - place) & 1 else ~value)
            found = found | term
    return found


def _logic(warp: Any, one: Instruction, lanes: Lanes) -> None:
    results = list(one.operands[: 2 if isinstance(one.operands[0], Predicate) else 1])
    a, b, c, table = one.operands[len(results) : len(results) + 4]
    assert isinstance(table, Number), one.text
    value = _looked_up([warp.value(a), warp.value(b), warp.value(c)], table.bits) & _LOW
    warp.set(results[-1], value, lanes)
    if len(results) == 2:
        warp.set_predicate(results[0], value != 0, lanes)


def _predicate_logic(warp: Any, one: Instruction, lanes: Lanes) -> None:
    first, second, a, b, c, *tables = one.operands
    inputs = [warp.truth(operand) for operand in (a, b, c)]
    for result, table in zip((first, second), tables, strict=True):
        warp.set_predicate(result, _looked_up(inputs, table.bits), lanes)


def _compare(warp: Any, one: Instruction, lanes: Lanes) -> None:
    first, second, a, b, *predicates = one.operands
    read = warp.value if "U32" in one.modifiers else warp.signed
    if {"U64", "S64"} & set(one.modifiers):
        read = warp.pair if "U64" in one.modifiers else lambda operand: warp.pair(operand).view(np.int64)
    compare = COMPARISONS[one.modifiers[0]]
    x, y = read(a), read(b)
    found = compare(x, y)
    if "EX" in one.modifiers:
        # The high halves decide, and where they are equal the low halves' comparison.
        low = warp.truth(predicates[1])
        found = np.where(x == y, low, found)
    other = warp.truth(predicates[0])
    combine = np.logical_and if "AND" in one.modifiers else np.logical_or
    warp.set_predicate(first, combine(found, other), lanes)
    warp.set_predicate(second, combine(~found, other), lanes)


def _select(warp: Any, one: Instruction, lanes: Lanes) -> None:
    result, a, b, predicate = one.operands
    read, write = (warp.pair, warp.set_pair) if "64" in one.modifiers else (warp.value, warp.set)
    write(result, np.where(warp.truth(predicate), read(a), read(b)), lanes)


def _extreme(warp: Any, one: Instruction, lanes: Lanes) -> None:
    """The smaller or, with an inverted predicate, the larger; VIADDMNMX adds the first two beforehand.

    With "RELU" nothing is below zero.
    """
    (result, *numbers), predicate = _numbers(one), next(o for o in one.operands[::-1] if isinstance(o, Predicate))
    if {"S64", "U64"} & set(one.modifiers):
        pairs = [warp.pair(number) for number in numbers]
        first, second = (pair.view(np.int64) if "S64" in one.modifiers else pair for pair in pairs)
        value = np.where(warp.truth(predicate), np.minimum(first, second), np.maximum(first, second))
        warp.set_pair(result, value.view(np.uint64), lanes)
        return
    a, b = warp.value(numbers[0]), warp.value(numbers[-1])
    if one.name == "VIADDMNMX":
        a = a + warp.value(numbers[1]) & _LOW
    if "U32" not in one.modifiers:
        a, b = (value.astype(np.uint32).view(np.int32).astype(np.int64) for value in (a, b))
    value = np.where(warp.truth(predicate), np.minimum(a, b), np.maximum(a, b))
    if "RELU" in one.modifiers:
        value = np.maximum(value, 0)
    warp.set(result, value.astype(np.uint64), lanes)


def _numbers(one: Instruction) -> list[Any]:
    """The operands that are no predicates."""
    return [operand for operand in one.operands if not isinstance(operand, Predicate)]


def _permute(warp: Any, one: Instruction, lanes: Lanes) -> None:
    result, a, selectors, b = one.operands
    source = warp.value(b) << np.uint64(32) | warp.value(a)
    chosen = warp.value(selectors)
    value = np.zeros_like(source)
    for byte in range(4):
        digit = chosen >> np.uint64(4 * byte)
        picked = source >> (digit & np.uint64(7)) * np.uint64(8) & np.uint64(0xFF)
        sign = np.where(picked & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
        value |= np.where(digit & np.uint64(8), sign, picked) << np.uint64(8 * byte)
    warp.set(result, value, lanes)


def _move(warp: Any, one: Instruction, lanes: Lanes) -> None:
    if "64" in one.modifiers:
        warp.set_pair(one.operands[0], warp.pair(one.operands[1]), lanes)
    else:
        warp.set(one.operands[0], warp.value(one.operands[1]), lanes)


def _special(warp: Any, one: Instruction, lanes: Lanes) -> None:
    name = str(one.operands[1])
    if one.name == "CS2R" and "32" not in one.modifiers:
        warp.set_pair(one.operands[0], warp.special(name), lanes)
    else:
        warp.set(one.operands[0], warp.special(name), lanes)


def _predicates_out(warp: Any, one: Instruction, lanes: Lanes) -> None:
    """The chosen predicates as bits, in place of those bits of a register."""
    result, _, kept, mask = one.operands
    value = warp.value(kept) & ~warp.value(mask)
    warp.set(result, value | warp.all_predicates() & warp.value(mask), lanes)


def _predicates_in(warp: Any, one: Instruction, lanes: Lanes) -> None:
    _, value, mask = one.operands
    for number in range(7):
        if int(warp.value(mask)[0]) >> number & 1:
            bit = warp.value(value) >> np.uint64(number) & np.uint64(1)
            warp.set_predicate(Predicate(number, uniform=False), bit != 0, lanes)


def _pack_saturated(warp: Any, one: Instruction, lanes: Lanes) -> None:
    """Two numbers, saturated to bytes, below the low half of a third."""
    result, high, low, above = one.operands
    first, second = (np.clip(warp.signed(number), 0, 255).astype(np.uint64) for number in (low, high))
    warp.set(result, first | second << np.uint64(8) | warp.value(above) << np.uint64(16), lanes)


def _multiply_pairs(warp: Any, one: Instruction, lanes: Lanes) -> None:
    """A number plus both halves of one register times two bytes of another: the lower two, or the upper two."""
    result, pair, four, added = one.operands
    assert one.modifiers[:3] in (("2A", "LO", "U16"), ("2A", "HI", "U16")), one.text
    two = warp.value(four) >> np.uint64(16 if "HI" in one.modifiers else 0)
    half, byte = np.uint64(0xFFFF), np.uint64(0xFF)
    low = (warp.value(pair) & half) * (two & byte)
    high = (warp.value(pair) >> np.uint64(16)) * (two >> np.uint64(8) & byte)
    warp.set(result, low + high + warp.value(added), lanes)


def _multiply_matrices(warp: Any, one: Instruction, lanes: Lanes) -> None:
    """Sums (16 x 8) of products of bytes, by the layouts of the PTX ISA for mma.m16n8k32."""
    assert one.modifiers[0] == "16832", one.text
    result, a, b, c = one.operands
    group, place = np.divmod(np.arange(32), 4)

    def words(register: Any, count: int) -> Lanes:
        steps = (Register(255 if register.is_zero else register.number + step, uniform=False) for step in range(count))
        return np.stack([warp.value(step) for step in steps], axis=1).astype(np.uint32)

    def numbers(register: Any, count: int, kind: str) -> Lanes:
        """Lane, register, byte."""
        return words(register, count).view({"U8": np.uint8, "S8": np.int8}[kind]).reshape(32, count, 4).astype(np.int64)

    left, right = np.zeros((16, 32), np.int64), np.zeros((32, 8), np.int64)
    depths = 4 * place[:, None] + np.arange(4)
    for number in range(4):
        left[group[:, None] + number % 2 * 8, depths + number // 2 * 16] = numbers(a, 4, one.modifiers[1])[:, number]
    for number in range(2):
        right[depths + number * 16, group[:, None]] = numbers(b, 2, one.modifiers[2])[:, number]
    sums, before = left @ right, words(c, 4).astype(np.int64)
    for number in range(4):
        found = before[:, number] + sums[group + number // 2 * 8, 2 * place + number % 2]
        warp.set(result, found.astype(np.uint64), lanes, number)


OPERATIONS: Final[Mapping[str, Operation]] = {
    "IADD": _add,
    "IADD3": _add,
    "VIADD": _add,
    "IMAD": _multiply_add,
    "IDP": _multiply_pairs,
    "IMMA": _multiply_matrices,
    "LEA": _shift_add,
    "SHF": _funnel_shift,
    "LOP3": _logic,
    "PLOP3": _predicate_logic,
    "ISETP": _compare,
    "FSEL": _select,
    "SEL": _select,
    "IMNMX": _extreme,
    "VIMNMX": _extreme,
    "VIADDMNMX": _extreme,
    "PRMT": _permute,
    "I2IP": _pack_saturated,
    "MOV": _move,
    "R2UR": _move,
    "S2R": _special,
    "S2UR": _special,
    "CS2R": _special,
    "P2R": _predicates_out,
    "R2P": _predicates_in,
    **REAL_OPERATIONS,
}
"""By name; those of the uniform registers, which begin with U, do the same."""
