"""A batch of windows: each entry of a list is a window, or part of one, which its kernel moves a band at a time.

    entry   band 0   is moved, while the rows of band 1 are on their way to the caches
            band 1
            ...
            last     begins earlier where less than a band is left, so that all bands are equally high

Windows begin anywhere in memory, and their rows lie pages apart: no processor foresees where the next one is. Threads
share out the entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .ir import LINE_BYTES, Code, Value

__all__ = ["ENTRY_FIELDS", "Band", "batch_text"]

ENTRY_FIELDS: Final = 6
"""Of an entry: the kernel's source and target for its first row, the address of its band, its rows, and of its bands
the first and the one behind the last."""


@dataclass(frozen=True, slots=True)
class Band:
    """What all bands of one kind have in common, as a batch kernel reads it; strides and offsets are in bytes.

    `kernel` is the address of a compiled loop that works alone; `parameters` (an address) and `items` are its own for
    one band of `height` rows. The first row has `runs` of bytes in the source, from `lowest` on, relative to what the
    kernel is given, `run_stride` apart; each touches `lines` cache lines.
    """

    kernel: int
    parameters: int
    items: int
    height: int
    source_stride: int
    target_stride: int
    lowest: int
    runs: int
    run_stride: int
    lines: int


def batch_text(name: str) -> str:
    """The module: a loop over entries and their bands; the list is what it has for parameters."""
    code = Code()
    with code.loop(code.first, code.last) as number:
        entry = code.at(Value("ptr", "%parameters"), code.multiply(number, 8 * ENTRY_FIELDS))
        source, target, band, rows, begin, end = _fields(code, entry, ENTRY_FIELDS)
        fields = _fields(code, code.pointer(band), len(Band.__slots__))
        kernel, parameters, items, height, source_stride, target_stride, lowest, runs, run_stride, lines = fields
        last = code.binary("sub", rows, height)
        with code.loop(begin, end) as place:
            soon = code.multiply(code.add(place, 1), height)
            with code.when(code.compare("icmp slt", soon, rows)):
                # A prefetch behind the last row has no effect.
                first = code.at(code.pointer(code.add(source, lowest)), code.multiply(soon, source_stride))
                with code.loop(0, height) as below, code.loop(0, runs) as run:
                    address = code.at(first, code.multiply(below, source_stride))
                    address = code.at(address, code.multiply(run, run_stride))
                    with code.loop(0, lines) as line:
                        code.prefetch(code.at(address, code.multiply(line, LINE_BYTES)))
            row = code.smaller(code.multiply(place, height), last)
            code.run(
                code.pointer(kernel),
                code.at(code.pointer(source), code.multiply(row, source_stride)),
                code.at(code.pointer(target), code.multiply(row, target_stride)),
                code.pointer(parameters),
                code.full("i64", 0),
                items,
            )
    return code.text(name)


def _fields(code: Code, address: Value, count: int) -> list[Value]:
    """So many 64-bit numbers that follow each other."""
    return [code.load("i64", code.at(address, 8 * place), 8) for place in range(count)]
