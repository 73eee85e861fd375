"""The CPU's policy: every threshold of NumPy's loops and of native ones, with its unit and the origin of its value.

`policy()` returns the current one, that of this machine's `Target`. Values were chosen by sweeps on two cores of a Zen
4 with 32 MB of last-level cache; a field with another origin says so. "Without: 0.7" is the share of their speed that
drawn cases keep without a threshold, on average over those that it changes, measured on one core of a Zen 5 with 32 MB
of last-level cache, with AVX-512 and with x86-64-v3. `using` tries others.
Named tuples are defined in a third of the time of frozen dataclasses, which were a tenth of a process' first move.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from stridedgpu.devices.settings import POLICIES, using_policies

from .native.library import why_unavailable
from .target import Target

_KB: Final = 1024
_MB: Final = 1024 * 1024


class SharingPolicy(NamedTuple):
    """When threads share the items of one call."""

    spins: int = 2000
    """Polls of an idle thread before it parks: some 50 us on x86, as long as waking a parked thread takes."""

    thread_bytes: int = 192 * _KB
    """Bytes moved for each thread from the third on: the caller takes some microseconds to wake one. Not measured,
    since it decides nothing on two cores."""

    waking_bytes: int = 10 * _MB
    """Bytes moved from which on parked workers are woken, in 50 to 150 us: 12 MB take one thread 0.7 ms."""

    waking_gap_ns: int = 50_000
    """Nanoseconds between calls within which smaller calls wake workers, too: woken workers spin for that long."""

    brief_bytes: int = 128 * _KB
    """Bytes moved below which a call keeps Python's lock, for some 3 us: its release takes 40 ns, and gathers at the
    same time would need parameters of their own."""


_SHARED_ITEMS: Final = 8
"""Items, at least, of a call that threads share: 320 and 400 KB took 0.9 of the time in three, and 0.8 in eight."""

_LEAST_ITEM: Final = 2 * _KB
"""Bytes, or indices, of the smallest item that threads share: its start is worth it, and no vector is longer."""


class RelayoutPolicy(NamedTuple):
    """Relayout: items, non-temporal stores, prefetching, and the extents of the three kernels."""

    shared_bytes: int = 384 * _KB
    """Bytes moved from which on threads share a call: 400 KB took 0.75 to 0.8 of one thread's time, 1 MB 0.6, and 200
    KB 1.0 to 1.3."""

    items: int = 256
    """Approximate number of items of a large move."""

    item_bytes: range = range(128 * _KB, _MB)
    """Range of bytes of one item: smaller ones do not amortise their start, and larger ones are no faster."""

    streamed_bytes: int = 20 * _MB
    """Bytes moved from which on one thread writes rows, pixels and aligned transposes by non-temporal stores: five
    eighths of the last-level cache. Several threads do from twice as many on: two cores at times write past the caches
    no faster than one. Without: 0.78 to 0.9 of the speed of what is streamed, and 0.32 at worst."""

    short_side: int = 32
    """Elements of the shorter side of a transpose below which blocks take its place. Up to as many, a loop lies in a
    block as a whole, and its size is a constant of the kernel. With 16: 0.77 to 0.96, and 0.49 at worst."""

    long_row_bytes: int = 8 * _KB
    """Bytes of a target row from which on it is streamed at any address; shorter rows only as whole cache lines. Rows
    at any address never streamed: 0.92 to 1, and 0.65 at worst."""

    step_bytes: int = 128
    """Bytes of one step along a row of the wider side: two cache lines."""

    cached_bytes: int = 16 * _MB
    """Bytes moved that stay in the last-level cache: half of it. From there on rows are moved in the order of the
    source, where they follow one another, and not in that of the target (never: 0.6, and 0.34 at worst; always: 0.71 to
    0.76, and 0.3). Above, no step of 32 bytes of pixels is done in blocks (at any size: 0.7 to 1.2, and 0.38; never:
    0.5 to 0.9, and 0.4)."""

    long_channels: int = 8
    """Channels from which on a transpose takes fewer shuffles than interleaving. Without: 0.52 to 0.57."""

    def bytes_of_item(self, nbytes: int) -> int:
        """Approximate bytes of one item of a move of `nbytes`."""
        wanted = max(self.item_bytes.start, min(nbytes // self.items, self.item_bytes.stop))
        return wanted if nbytes < self.shared_bytes else min(wanted, nbytes // _SHARED_ITEMS)


class GatherPolicy(NamedTuple):
    """Gather and scatter: items, registers, and prefetching."""

    shared_bytes: int = 512 * _KB
    """Bytes moved from which on threads share a call: 500 KB took 0.75 of one thread's time, 1 MB 0.6, and 48 rows of 4
    KB, which are 390 KB, 1.5."""

    items: int = 64
    """Approximate number of items of a large result."""

    item_bytes: range = range(64 * _KB, _MB)
    """Range of bytes written by one item: smaller ones do not amortise their start."""

    row_registers: int = 16
    """The most vector registers that hold rows from which elements are looked up: half of those of AVX-512. With 8: 0.3
    to 0.4 for rows of 1000 bytes."""

    load_cost: float = 2
    """Instructions for each element from which on loading it by itself takes less than looking it up in registers.
    Without: 0.31 and 0.62 for slices, and up to 1.7 for rows."""

    def bytes_of_item(self, nbytes: int, moved: int) -> int:
        """Bytes of one item, about, of a result of so many in a call that moves `moved`."""
        wanted = max(self.item_bytes.start, min(nbytes // self.items, self.item_bytes.stop))
        return wanted if moved < self.shared_bytes else min(wanted, max(nbytes // _SHARED_ITEMS, _LEAST_ITEM))


class IndexCheckPolicy(NamedTuple):
    """Indices checked before a gather."""

    shared_bytes: int = 256 * _KB
    """Bytes of indices from which on threads share a check."""

    item_indices: int = 16 * _KB
    """Indices of one item."""

    small_marks: int = 64 * _KB
    """Bytes of a table of marks that is always used: it takes microseconds, and sorting by NumPy some ten."""

    flags_of_index: int = 32
    """Use flags while elements / indices is at most this, else sort: 100,000 indices took 0.1 to 0.6 ms by 1 to 100
    flags each, and 3.8 sorted."""

    def indices_of_item(self, count: int, nbytes: int) -> int:
        """Indices of one item, about, of so many in `nbytes`."""
        if nbytes < self.shared_bytes:
            return self.item_indices
        return min(self.item_indices, max(count // _SHARED_ITEMS, _LEAST_ITEM))


class CropsPolicy(NamedTuple):
    """Windows of a batch."""

    shared_bytes: int = 512 * _KB
    """Bytes moved from which on threads share a batch."""

    merged_bytes: range = range(9, 65)
    """Bytes of rows with a border that are written as one vector each, up to a cache line, where bytes are loaded by a
    mask: 0.4 to 0.9 of the time."""


class PixelsPolicy(NamedTuple):
    """Frames of luma and chroma, raw samples, and pixels mixed by a matrix; measured on Sapphire Rapids (AVX-512)."""

    shared_bytes: int = 256 * _KB
    """Bytes moved from which on threads share a window's rows."""

    arithmetic: int = 2
    """Weight of a byte in the decision to wake threads: one takes as long as two bytes of a plain move."""

    step_bytes: int = 64
    """Bytes of one channel in a step along a row of the wider side: uint8 are stored twice as fast as by half of it."""

    least_lanes: int = 4
    """Pixels of the narrowest step; NumPy has narrower windows."""

    most_channels: int = 4
    """The most channels of a matrix: 16 numbers and 8 vectors of pixels fit the registers."""

    item_pixels: int = 16 * 1024
    """Pixels of an item of a matrix: threads share long rows, and an item's cost outweighs its start."""


class ResizePolicy(NamedTuple):
    """Windows that are resized; not measured."""

    pieces: int = 2
    """Parts of all windows for each thread: small enough that a late thread delays the others little."""

    most_channels: int = 4
    """The most channels of an interleaved pixel whose sums and products fit the registers."""

    most_step: int = 16
    """The most elements from one pixel to the next: the elements between are transposed, too."""

    joined_rows: float = 1.5
    """Source rows for each row of the result from which on OpenCV's two passes are one: most rows are read once."""


class Policy(NamedTuple):
    """All thresholds of a processor, by what they decide."""

    target: Target
    native: bool = True
    """Whether the native library is used; without it NumPy does all work."""
    sharing: SharingPolicy = SharingPolicy()
    relayout: RelayoutPolicy = RelayoutPolicy()
    gather: GatherPolicy = GatherPolicy()
    crops: CropsPolicy = CropsPolicy()
    pixels: PixelsPolicy = PixelsPolicy()
    resize: ResizePolicy = ResizePolicy()
    index_check: IndexCheckPolicy = IndexCheckPolicy()

    @property
    def native_level(self) -> str | None:
        """The level of the native library's loops for the target; None if it has none."""
        return self.target.native_level if self.native else None

    @property
    def why_numpy(self) -> str | None:
        """None if the native library does the work; else the reason why NumPy does."""
        if self.native_level is not None:
            return None
        missing = why_unavailable() or self.target.lacks
        return missing or f"the native library has no loops for {self.target.words} here"

    @classmethod
    def of(cls, target: Target) -> Policy:
        """The thresholds for a processor.

        Thresholds of what leaves the caches follow their sizes. A last-level cache larger than that of the measurements
        is shared by more cores, and counts as one of that size.
        """
        shared = min(target.last_level_bytes, _MEASURED_BYTES)
        return cls(target, relayout=RelayoutPolicy(streamed_bytes=shared * 5 // 8, cached_bytes=shared // 2))


_MEASURED_BYTES: Final = 32 * _MB
"""The last-level cache of the measurements."""


def policy() -> Policy:
    """The current policy: this processor's, unless a `using` block has another."""
    chosen = POLICIES.get()
    return (chosen and chosen.cpu) or _own or _of_this_processor()


def using(chosen: Policy) -> AbstractContextManager[None]:
    """Plan this thread's calls by another policy inside the block, for any target; plans with loops keep them."""
    return using_policies(cpu=chosen)


def _of_this_processor() -> Policy:
    """The policy of this processor, which is asked at the first call, not when modules are imported."""
    global _own  # noqa: PLW0603
    _own = Policy.of(Target.here())
    return _own


_own: Policy | None = None
