"""The thresholds of gathers, scatters and the check of indices on the CPU, a part of its policy: see `policy.py`."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["GatherPolicy", "IndexCheckPolicy"]

_KB: Final = 1024
_MB: Final = 1024 * 1024

_LEAST_ITEM: Final = 2 * _KB
"""Bytes, or indices, of the smallest item that threads share: its start is worth it, and no vector is longer."""


class GatherPolicy(NamedTuple):
    """Gather and scatter: items, non-temporal stores, and prefetching."""

    shared_bytes: int = 512 * _KB
    """Bytes moved from which on threads share a call: 500 KB took 0.75 of one thread's time, 1 MB 0.6, and 48 rows of 4
    KB, which are 390 KB, 1.5."""

    shared_items: int = 8
    """Items, at least, of a result that threads share: 320 KB moved took 0.94 of one thread's time in fewer, and 0.88
    so."""

    items: int = 64
    """Approximate number of items of a large result."""

    item_bytes: range = range(64 * _KB, _MB)
    """Range of bytes written by one item: smaller ones do not amortise their start and their streamed stores."""

    streamed_bytes: int = 16 * _MB
    """Bytes of a result from which on it is written by non-temporal stores: half of the last-level cache. Never: 0.6;
    from 8 MB on: 0.85."""

    streamed_shared: float = 3
    """Times `streamed_bytes` from which on runs are written so where threads share a call. With 1: 0.5 to 0.9 for
    results of 10 to 42 MB from tables of 2.5 and 10 MB on a quiet Zen 4, 0.8 to 6.7 beside other work on a Zen 5."""

    scattered_elements: int = 256
    """Elements of a group of short rows that are scattered. Groups of 40: 0.83 to 0.98, and 0.38 at worst."""

    row_registers: int = 16
    """The most vector registers that hold rows from which elements are looked up: half of those of AVX-512. With 8: 0.3
    to 0.4 for rows of 1000 bytes."""

    load_cost: float = 2
    """Instructions for each element from which on loading it by itself takes less than looking it up in registers.
    Without: 0.31 and 0.62 for slices, and up to 1.7 for rows."""

    index_ahead_bytes: int = 4 * _KB
    """Bytes between the indices that are resolved and those that are prefetched. Without: 0.45 at worst, for rows in 11
    MB."""

    columns_bytes: int = 256 * _KB
    """Bytes of columns whose elements are gathered together along rows: a quarter of the second-level cache. All at
    once: 0.83 to 0.87, and 0.41 at worst."""

    row_ahead_bytes: int = 2 * _KB
    """Bytes between the row that elements are loaded from one by one and the one that is prefetched. Without: 0.71."""

    chunk_indices: int = 256
    """Indices resolved together: their offsets take 2 KB of the stack, below the size of a stack probe."""

    chunks_ahead: int = 3
    """Chunks between the resolved and the prefetched indices."""

    runs_ahead: int = 12
    """Runs between the copied and the prefetched one. With 4: 0.97."""

    unrolled: int = 4
    """Runs in one iteration of the unrolled loop over a chunk. With 1: 0.96, and 0.75 at worst."""

    most_lines_ahead: int = 16
    """The most cache lines of a run that are prefetched; the hardware prefetcher fetches the following ones. With 4:
    0.97, and 0.83 at worst."""

    far_bytes: int = 2 * _MB
    """Span in bytes from which on what is picked is prefetched, twice the second-level cache: what is nearer is read as
    quickly as it is prefetched. Never: 0.96 to 1.05, and 0.71 at worst; always: 0.95."""

    uses_of_line: int = 4
    """Indices for each cache line that make its prefetch pay off."""

    parts_of_run: int = 4
    """Parts of a long scattered run, which threads write independently; one thread takes 0.8 of the time without."""

    short_loop: int = 8
    """Steps up to which a loop is moved outside a longer one; as the inner loop it would leave vectors partly empty.
    Without: 0.92 to 1.08, and 0.77 at worst, for two slices of many rows."""

    longest_step: int = 256
    """Bytes of one step along a long run: four cache lines. With one: 0.93, and 0.78 at worst."""

    def bytes_of_item(self, nbytes: int, moved: int) -> int:
        """Bytes of one item, about, of a result of so many in a call that moves `moved`."""
        wanted = max(self.item_bytes.start, min(nbytes // self.items, self.item_bytes.stop))
        return wanted if moved < self.shared_bytes else min(wanted, max(nbytes // self.shared_items, _LEAST_ITEM))


class IndexCheckPolicy(NamedTuple):
    """Indices checked before a gather."""

    shared_bytes: int = 256 * _KB
    """Bytes of indices from which on threads share a check."""

    item_indices: int = 16 * _KB
    """Indices of one item."""

    shared_items: int = 8
    """Items, at least, of a check that threads share: three of 45,000 indices leave one thread waiting."""

    small_marks: int = 64 * _KB
    """Bytes of a table of marks that is always used: it takes microseconds, and sorting by NumPy some ten."""

    def indices_of_item(self, count: int, nbytes: int) -> int:
        """Indices of one item, about, of so many in `nbytes`."""
        if nbytes < self.shared_bytes:
            return self.item_indices
        return min(self.item_indices, max(count // self.shared_items, _LEAST_ITEM))
