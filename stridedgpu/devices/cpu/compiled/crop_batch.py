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

__all__ = ["ENTRY_FIELDS", "LIST_FIELDS", "Band", "batch_text", "list_text"]

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
    source_stride: int = 0
    target_stride: int = 0
    lowest: int = 0
    runs: int = 0
    run_stride: int = 0
    lines: int = 0


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


LIST_FIELDS: Final = 9
"""Parameters of `list_text`: the last row and column where a window inside begins, the bytes from a row, a column and
an image to the next one, and from a window to the next one, the address of a band, its rows and the number of bands."""


def list_text(name: str) -> str:
    """The module: a function that makes the entries of windows inside their images, one a window, of even steps.

    Its arguments are the addresses of the origins (rows and columns), of the list, and of the parameters, those of the
    first image's pixel at row and column 0 and of the first window's element that entries begin with, and the number
    of windows. The list has a word before the entries that is 0 afterwards if every window is inside.
    """
    code = Code("ptr origins", "ptr list", "ptr parameters", "i64 pixel", "i64 written", "i64 count")
    fields = _fields(code, code.argument("parameters"), LIST_FIELDS)
    last_row, last_column, down, right, next_image, next_window, band, rows, bands = fields
    place = code.argument("origins")
    zero = code.full("i64", 0)
    with code.fold(code.argument("count"), [zero]) as (number, carried):
        y, x = _fields(code, code.at(place, code.multiply(number, 16)), 2)
        # Unsigned, rows and columns before the first one are far behind the last one.
        beyond = code.binary("or", code.compare("icmp ugt", y, last_row), code.compare("icmp ugt", x, last_column))
        carried[0] = code.select(beyond, code.full("i64", 1), carried[0])
        offset = code.add(code.add(code.multiply(y, down), code.multiply(x, right)), code.multiply(number, next_image))
        source = code.add(code.argument("pixel"), offset)
        target = code.add(code.argument("written"), code.multiply(number, next_window))
        entry = code.at(code.argument("list"), code.add(code.multiply(number, 8 * ENTRY_FIELDS), 8))
        for field, value in enumerate((source, target, band, rows, zero, bands)):
            code.store(value, code.at(entry, 8 * field), 8)
    code.store(carried[0], code.argument("list"), 8)
    return code.text(name)


def _fields(code: Code, address: Value, count: int) -> list[Value]:
    """Load `count` consecutive 64-bit numbers."""
    return [code.load("i64", code.at(address, 8 * place), 8) for place in range(count)]
