"""A kernel over a batch of windows: each entry of a list is a window, or part of one, moved a band of rows at a time.

    entry   band 0   the kernel moves it, while the rows of band 1 are on their way to the caches
            band 1
            ...
            last     begins earlier where less than a band is left, so that all bands are equally high

Windows begin anywhere in memory, and their rows lie pages apart: no processor foresees where the next one is. Threads
share out the entries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .llvm_code import LINE_BYTES, Code, Value

__all__ = ["ENTRY_FIELDS", "Band", "batch_text"]

ENTRY_FIELDS: Final = 6
"""Of an entry: the kernel's source and target for its first row, the address of its band, its rows, and of its bands
the first and the one behind the last."""


@dataclass(frozen=True, slots=True)
class Band:
    """What all bands of one kind have in common, as a batch kernel reads it; strides and offsets are in bytes.

    `parameters` (an address) and `items` are the kernel's for one band of `height` rows. Its first row has `runs` of
    bytes in the source, from `lowest` on, relative to what the kernel is given, `run_stride` apart; each touches
    `lines` cache lines.
    """

    parameters: int
    items: int
    height: int
    source_stride: int
    target_stride: int
    lowest: int
    runs: int
    run_stride: int
    lines: int


def batch_text(kernel: Callable[[str], str]) -> Callable[[str], str]:
    """The module of a batch, from that of the kernel that moves a band."""
    return lambda name: _joined(kernel(f"{name}_band"), _BatchCode().module(name))


class _BatchCode(Code):
    """The loop over entries and bands; the list is what it has for parameters."""

    def module(self, name: str) -> str:
        """The function that calls the kernel `name`_band."""
        entries = Value("ptr", "%parameters")
        with self.loop(self.first, self.last) as number:
            entry = self.at(entries, self.multiply(number, 8 * ENTRY_FIELDS))
            source, target, band, rows, begin, end = self._fields(entry, ENTRY_FIELDS)
            fields = self._fields(self.pointer(band), len(Band.__slots__))
            parameters, items, height, source_stride, target_stride, lowest, runs, run_stride, lines = fields
            last = self.binary("sub", rows, height)
            with self.loop(begin, end) as place:
                row = self.smaller(self.multiply(place, height), last)
                soon = self.multiply(self.add(place, 1), height)
                inside = self.compare("icmp slt", soon, rows)
                with self.when(inside):
                    # Rows behind the last one may be asked for: that harms nobody.
                    first = self.at(self.pointer(self.add(source, lowest)), self.multiply(soon, source_stride))
                    with self.loop(0, height) as below, self.loop(0, runs) as run:
                        address = self.at(first, self.multiply(below, source_stride))
                        address = self.at(address, self.multiply(run, run_stride))
                        with self.loop(0, lines) as line:
                            self.prefetch(self.at(address, self.multiply(line, LINE_BYTES)))
                reads = self.at(self.pointer(source), self.multiply(row, source_stride))
                writes = self.at(self.pointer(target), self.multiply(row, target_stride))
                self._call(f"{name}_band", reads, writes, self.pointer(parameters), self.full("i64", 0), items)
        return self.text(name)

    def _call(self, function: str, *arguments: Value) -> None:
        """Call a function of this module that returns nothing."""
        given = ", ".join(f"{argument.type} {argument.name}" for argument in arguments)
        self._lines.append(f"  call void @{function}({given})")

    def _fields(self, address: Value, count: int) -> list[Value]:
        """So many 64-bit numbers that follow each other."""
        return [self.load("i64", self.at(address, 8 * place), 8) for place in range(count)]


def _joined(*modules: str) -> str:
    """Modules as one: what several of them declare is declared once."""
    lines = [line for module in modules for line in module.split("\n")]
    common = {line: None for line in lines if line.startswith(("declare", "!"))}
    return "\n".join([*common, *(line for line in lines if line not in common)])
