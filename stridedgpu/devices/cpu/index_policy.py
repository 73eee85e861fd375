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

    streamed_bytes: int = 4 * _MB
    """Bytes of a result from which on it is written by non-temporal stores: an eighth of the cache, half of an AMD's.

    On a Xeon, 24 MB was slower in 18 of 20 cases, by 2. In a quiet cache of 32 MB of an EPYC it was faster by 1.2 to
    2.7 in 10 of 18, and in a busy one 16 MB by 1.05 on average.
    """

    streamed_shared: float = 1
    """Times `streamed_bytes` from which on runs are written so where threads share a call. On AMD's Zen 4 it is 3:
    cached stores took 0.5 to 0.9 of the time for results of 10 to 42 MB from tables of 2.5 and 10 MB."""

    hardware: bool = True
    """Whether elements are gathered by the processor's own instruction, which takes AMD's Zen longer than single loads:
    those took 0.5 to 0.95 of its time for 0.1 to 40 MB. Large results from a table, which is read in no order, took 1.1
    to 1.5 times as long by single loads, and are gathered everywhere."""

    scattered_elements: int = 256
    """Elements of a group of short rows that are scattered: groups of 40 took 1.05 to 1.35 times as long."""

    row_registers: int = 16
    """The most vector registers that hold rows from which elements are looked up: half of those of AVX-512."""

    load_cost: float = 2
    """Instructions for each element from which on loading it by itself takes less than looking it up in registers."""

    loaded_bytes: int = 1
    """Bytes of an element from which on single loads into the lanes of a vector take less than single stores: of 1 and
    2 bytes they took 0.54 to 1 of the time."""

    near_span_bytes: int = 32 * _KB
    """Span in bytes of the largest table from which elements of any number are loaded so, a first-level cache: larger
    results from larger tables took 0.9 to 1.5 times as long as the processor's gathers and stores past the caches."""

    index_ahead_bytes: int = 4 * _KB
    """Bytes between the indices of elements that are loaded one by one and those that are prefetched: beyond the caches
    0.85 of the time."""

    columns_bytes: int = 256 * _KB
    """Bytes of columns whose elements are gathered together along rows, where all are more than `near_columns_bytes`:
    64 KB to 512 KB took 0.3 to 1 of the time of all at once for 3 to 28 MB, loaded one by one."""

    near_columns_bytes: int = _MB
    """Bytes of columns that are in a second-level cache."""

    row_ahead_bytes: int = 2 * _KB
    """Bytes between the row that elements are loaded from one by one and the one that is prefetched: 0.6 to 0.9 of the
    time in 3 to 40 MB."""

    least_row_ahead_bytes: int = _KB
    """Bytes of the shortest such row that is prefetched: with shorter ones the hardware keeps pace, and 40 MB of them
    took up to 1.3 times as long."""

    chunk_indices: int = 256
    """Indices resolved together: their offsets take 2 KB of the stack, below the size of a stack probe."""

    chunks_ahead: int = 3
    """Chunks between the resolved and the prefetched indices."""

    runs_ahead: int = 12
    """Runs between the copied and the prefetched one."""

    grouped_ahead: int = 32
    """The same for runs combined into vectors, which are short and copied quickly."""

    unrolled: int = 4
    """Runs in one iteration of the unrolled loop over a chunk."""

    most_lines_ahead: int = 16
    """The most cache lines of a run that are prefetched; the hardware prefetcher fetches the following ones."""

    prefetched_span_bytes: int = 2 * _MB
    """Span in bytes from which on runs are prefetched: a smaller one is in the second-level cache of most processors,
    where a prefetch costs as much as a load."""

    large_span_bytes: int = 16 * _MB
    """Span in bytes from which on single elements are prefetched, too."""

    most_lines_of_row: int = 512
    """The most cache lines of a row with an index for each element: with the next row's they fit the L1 cache."""

    uses_of_line: int = 4
    """Indices for each cache line that make its prefetch pay off."""

    parts_of_run: int = 4
    """Parts of a long scattered run, which are written independently."""

    short_loop: int = 8
    """Steps up to which a loop is moved outside a longer one; as the inner loop it would leave vectors partly empty."""

    longest_step: int = 256
    """Bytes of one step along a long run: four cache lines."""

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

    names_of_index: int = 32
    """Elements that each of some distinct indices could name, up to which these have a byte each that is marked. Of
    more, indices are looked up in a hash table: 10,000 took 0.9 to 2.5 ns each by marks from 4 to 32 elements, 4 from
    64 on, and 3.4 by hashing; a million took 1.4 to 2.8 and 17 to 21. The memory is up to 32 bytes for each index."""

    most_bits: int = 256
    """Elements that each of a row's distinct indices could name, up to which these have a bit each in registers: 0.35
    to 0.9 of the time of marks in memory, and 1.0 to 2.5 for 384 to 1000 of them."""

    table_bytes: int = 16 * _KB
    """Bytes of a table that several positions share, half a first-level cache: 2 to 128 KB took the same time."""

    least_columns: int = 64
    """Positions beside one another whose indices, a row each, are checked together: 16 took up to 1.7 times as long,
    since a cache line of indices was read again."""

    narrowed_bytes: int = 1 << 62
    """Bytes of indices from which on their check writes their positions for the gather, which then reads one or two
    bytes for each: 0.6 to 1.05 of the time for elements in 0.2 to 150 MB; 192 KB on an AMD, where it was measured."""

    narrowed_run: int = 8
    """The most bytes that such an index stands for: 16 gained nothing."""

    crowded_bytes: range = range(20 * _MB, 32 * _MB)
    """Bytes moved that leave no room for positions in the last-level cache, where an index stands for `crowded_run`:
    1.1 to 1.3 times the time."""

    crowded_run: int = 4
    """Bytes from which on; for fewer, positions take the same time or less."""

    most_position_bytes: int = 31 * _MB
    """The most bytes of positions: those of a larger allocation are zeroed by the system for each call."""

    def indices_of_item(self, count: int, nbytes: int) -> int:
        """Indices of one item, about, of so many in `nbytes`."""
        if nbytes < self.shared_bytes:
            return self.item_indices
        return min(self.item_indices, max(count // self.shared_items, _LEAST_ITEM))
