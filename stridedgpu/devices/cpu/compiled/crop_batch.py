"""A batch of windows as a list of entries: a window, or part of one, that its kernel moves band by band.

    entry   band 0   is moved while the rows of band 1 are prefetched
            band 1
            ...
            last     overlaps the band before it, so that all bands have the same height

Windows begin anywhere in memory and their rows lie pages apart, out of reach of hardware prefetchers. Threads share
the entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .ir import LINE_BYTES, Code, Value

__all__ = ["ENTRY_FIELDS", "Band", "batch_text"]

ENTRY_FIELDS: Final = 6
"""Fields of an entry: the kernel's source and target address in the first row, the address of its band, its number
of rows, its first band and the band after its last one."""


@dataclass(frozen=True, slots=True)
class Band:
    """The constants of all bands of one kind, as a batch kernel reads them; strides and offsets are in bytes.

    `kernel` is the address of a compiled loop that runs on one thread. `parameters` (an address) and `items` are its
    arguments for one band of `height` rows. The first source row has `runs` of bytes, `run_stride` apart; the first one
    begins at `lowest`, relative to the source address of the kernel. Each run covers `lines` cache lines.
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
    """The module: a loop over entries and their bands; the kernel's parameters are the list of entries."""
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
                # A prefetch after the last row has no effect.
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
    """Load `count` consecutive 64-bit numbers."""
    return [code.load("i64", code.at(address, 8 * place), 8) for place in range(count)]
