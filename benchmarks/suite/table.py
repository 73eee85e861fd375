"""Results as a table for a person: through rich where it is installed, in plain columns otherwise."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from .records import DEVICE_COPY, OWN_COPY, UNDECIDED, Record, Results

__all__ = ["COLUMNS", "headline", "row_of", "slower_rows", "table_text", "time_text", "undecided_text"]

COLUMNS: Final = ("workload", "kernel family", "time", "GB/s", "of own copy", "of device copy", "best peer", "ratio")
"""What a row says of a workload; `ratio` is the best peer's time by ours."""


def time_text(seconds: float) -> str:
    """Seconds in the unit that leaves three figures readable."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds / size < 999.5 else f"{seconds / size:.0f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def ratio_text(ratio: float | None) -> str:
    """How many times as fast as a peer, or that nobody was there."""
    if ratio is None:
        return "-"
    return f"{ratio:.2f}x" if ratio < 10 else f"{ratio:.0f}x"


def row_of(record: Record) -> tuple[str, ...]:
    """The columns of one workload; a call's cost is no speed of memory, and has none."""
    calls = record.measures == "call"
    share = [f"{record.share(copy):.0%}" for copy in (OWN_COPY, DEVICE_COPY)]
    best = record.best_peer
    peer = "-" if best is None else f"{best} {time_text(record.peers[best])}"
    speed = "-" if calls else f"{record.gigabytes_per_second():.1f}"
    return (
        record.workload,
        record.family,
        time_text(record.seconds),
        speed,
        *(("-", "-") if calls else share),
        peer,
        ratio_text(record.ratio),
    )


def headline(results: Results) -> str:
    """Device, versions, commit and date in a line or two."""
    made = results.provenance
    device, versions = made["device"], made["versions"]
    more = f"{device['threads']} threads, {device['loops']} loops" if device["kind"] == "cpu" else ""
    driver = f"driver {device['driver']}" if device["kind"] == "cuda" else ""
    about = ", ".join(filter(None, (device["name"], more, driver)))
    named = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    return f"{about}\n{named}; commit {made['commit'] or 'unknown'}, {made['date']}, scale {made['scale']}"


def slower_rows(records: Iterable[Record]) -> list[tuple[str, str, str, str, str]]:
    """Where a peer is faster: workload, our time, the peer, its time, and how many times as fast it is; worst first."""
    found = [(1 / record.ratio, record) for record in records if record.ratio and record.verdict == "slower"]
    rows = []
    for faster, record in sorted(found, key=lambda entry: -entry[0]):
        best = str(record.best_peer)
        peer_time = time_text(record.peers[best])
        rows.append((record.workload, time_text(record.seconds), best, peer_time, f"{faster:.2f}x"))
    return rows


def undecided_text(records: Iterable[Record]) -> str:
    """The workloads in which nobody is faster beyond doubt, in a sentence; empty where there are none."""
    names = [record.workload for record in records if record.verdict == UNDECIDED]
    return f"Undecided, since the intervals of the medians overlap: {', '.join(names)}.\n" if names else ""


def table_text(results: Results, columns: int) -> str:
    """The table, `columns` characters wide where rich lays it out, and below it where others are faster."""
    rows = [row_of(record) for record in results.workloads]
    lines = [headline(results), "", _laid_out(rows, COLUMNS, columns)]
    slower = slower_rows(results.workloads)
    if slower:
        names = ("workload", "stridedgpu", "faster", "its time", "by")
        lines += [
            f"Where a peer is faster ({len(slower)} of {len(rows)} workloads):",
            _laid_out(slower, names, columns),
        ]
    return "\n".join([*lines, undecided_text(results.workloads)]).rstrip("\n") + "\n"


def _laid_out(rows: Sequence[tuple[str, ...]], names: tuple[str, ...], columns: int) -> str:
    return _rich(rows, names, columns) if find_spec("rich") else _plain(rows, names)


def _plain(rows: Sequence[tuple[str, ...]], names: tuple[str, ...]) -> str:
    """Columns as wide as they must be, figures to the right."""
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    lines = []
    for row in (names, *rows):
        cells = [
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def _rich(rows: Sequence[tuple[str, ...]], names: tuple[str, ...], columns: int) -> str:
    """Rich's table, as text: a slower workload stands out where the terminal has colours."""
    box: Any = import_module("rich.box")
    console: Any = import_module("rich.console")
    table: Any = import_module("rich.table").Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(names):
        table.add_column(name, justify="left" if place == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    screen = console.Console(file=io.StringIO(), width=max(columns, 110), force_terminal=False, color_system=None)
    screen.print(table)
    text: str = screen.file.getvalue()
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n"
