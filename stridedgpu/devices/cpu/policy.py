"""The CPU's policy: every threshold that decides how a loop is planned, with its unit and where its value comes from.

`policy()` is the one in force, for the caches of this machine. The values were found by sweeps on AMD EPYC (Zen 4,
2 cores, 32 MB of last-level cache) with `benchmarks/bench_cpu_relayout.py` and `benchmarks/bench_cpu_gather.py`; a
field that was measured elsewhere, or follows from something else, says so. A tuner tries other values with `using`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

__all__ = [
    "CropsPolicy",
    "FramesPolicy",
    "GatherPolicy",
    "IndexCheckPolicy",
    "Policy",
    "PromotionPolicy",
    "RelayoutPolicy",
    "SharingPolicy",
    "last_level_cache_bytes",
    "policy",
    "using",
]

_KB: Final = 1024
_MB: Final = 1024 * 1024

_USUAL_CACHE_BYTES: Final = 32 * _MB
"""The last-level cache of a machine that does not say how large it is: that of the machine of the measurements."""

_CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
"""Where Linux describes the caches of the first core."""


@dataclass(frozen=True, slots=True)
class PromotionPolicy:
    """When work goes from NumPy to a compiled loop."""

    at_once_bytes: int = _MB
    """Bytes moved from which on a loop is compiled at the first call: fewer take NumPy less time than loading it."""

    resize_bytes: int = 64 * _KB
    """The same of a resize, whose loops serve every geometry, and which takes NumPy some 20 times as long."""

    frame_bytes: int = 0
    """The same of a window of a frame: all are compiled at once, whose loops serve every window of a format."""

    calls: int = 16
    """The call of one small piece of work at which its loop is loaded."""


@dataclass(frozen=True, slots=True)
class SharingPolicy:
    """When threads share the items of one call."""

    spins: int = 2000
    """Looks of an idle thread before it parks: some 50 us on x86, as long as it takes to wake a parked one."""

    chunks: int = 32
    """Parts in which a thread takes its share of the items: an atomic addition and an indirect call for each."""

    waking_bytes: int = 10 * _MB
    """Bytes moved from which on parked workers are woken: 12 MB take one thread 0.7 ms, waking takes 50 to 150 us."""

    waking_gap_ns: int = 50_000
    """Nanoseconds from a call to the next within which workers are woken for fewer bytes: they spin for so long."""


@dataclass(frozen=True, slots=True)
class RelayoutPolicy:
    """Relayout: items, non-temporal stores, prefetching, and the extents of the three kernels."""

    shared_bytes: int = _MB
    """Bytes moved from which on threads share a call: at 512 KB one thread alone was 1.2 times as fast."""

    items: int = 256
    """Items, about, of a move that is large enough."""

    item_bytes: range = range(128 * _KB, _MB)
    """Bytes that one item moves, about: fewer are not worth starting, and more are no faster."""

    streamed_bytes: int = 24 * _MB
    """Bytes moved from which on rows and pixels are written by non-temporal stores: three quarters of the cache.

    No more on a Xeon (Sapphire Rapids) whose cache of 105 MB other machines' guests share: there, moves of 24 to 40 MB
    took 1.3 to 2.4 times as long without. In a quiet cache of 32 MB they took half.
    """

    streamed_tiles_bytes: int = 8 * _MB
    """The same for transposes, a quarter of the cache: their stores evict lines in an order that no prefetcher follows.

    On the Xeon, 8 MB took 7 times as long without.
    """

    long_row_bytes: int = 8 * _KB
    """Bytes of a target row from which on it is streamed wherever it begins; shorter ones only as whole lines."""

    prefetched_bytes: int = _MB
    """Bytes moved from which on source rows are prefetched: those of fewer are mostly in a cache."""

    row_gap_bytes: int = _KB
    """Bytes from a row's end to the next row's start that hardware prefetchers do not cross."""

    rows_ahead: int = 2
    """Rows between the one that is read and the one that is prefetched."""

    step_bytes: int = 32
    """Bytes of one step along a row of unchanged bits: wherever it begins, every other step lies within a line."""

    scalars: int = 4
    """Elements of a step where they are neither read nor written as vectors, nor converted as such."""

    least_row: int = 8
    """Elements of a row that make it the inner loop where they lie apart in the target."""

    strided_tile: tuple[int, int] = (256, 512)
    """Rows, and elements of each, of a tile whose rows' elements lie apart: neighbours share cache lines."""

    tile_bytes: int = _KB
    """Bytes of source line that a transpose walks along before it turns to the next lines."""

    unaligned_tile_bytes: int = 4 * _KB
    """The same for unaligned targets: a cache line that two tiles share is completed soon."""

    unaligned_line_bytes: Mapping[int, int] = field(
        default_factory=lambda: MappingProxyType({1: 128, 2: 512, 4: 1024, 8: 1024, 16: 256})
    )
    """Bytes of a tile's unaligned target line, by the bytes of an element."""

    odd_tile: int = 64
    """Rows of a tile of elements of odd sizes: whole cache lines, whatever the size."""

    line_ahead_bytes: int = 256
    """Bytes along a source line of a transpose from what is read to what is prefetched."""

    longest_pixel: int = 16
    """Elements of a pixel that is put together in registers: as many vectors as AVX-512 leaves free."""

    least_pixels: int = 4
    """Pixels of a row that fill a vector: rows of fewer are no pixels."""

    largest_step: int = 4
    """Elements from one to the next of a plane: all between them are read as well."""

    long_channels: int = 8
    """Channels from which on a transpose takes fewer shuffles than putting pixels together."""

    def bytes_of_item(self, nbytes: int) -> int:
        """Bytes of one item, about, of so many in all."""
        return max(self.item_bytes.start, min(nbytes // self.items, self.item_bytes.stop))


@dataclass(frozen=True, slots=True)
class GatherPolicy:
    """Gather and scatter: items, non-temporal stores, and prefetching."""

    shared_bytes: int = _MB
    """Bytes moved from which on threads share a call: 128 KB took 12 us shared, and NumPy 4."""

    items: int = 64
    """Items, about, of a result that is large enough."""

    item_bytes: range = range(64 * _KB, _MB)
    """Bytes that one item writes, about: fewer are not worth starting, nor waiting for streamed lines."""

    streamed_bytes: int = 4 * _MB
    """Bytes of a result from which on it is written by non-temporal stores: an eighth of the cache.

    24 MB was better by 1.2 to 2.7 in 10 of 18 cases in a quiet cache of 32 MB; on the Xeon it was worse in 18 of 20,
    by 2 in the mean.
    """

    chunk_indices: int = 256
    """Indices resolved together: their offsets take 2 KB of the stack, which no page probe is needed for."""

    chunks_ahead: int = 3
    """Chunks between the indices that are resolved and those that are prefetched."""

    runs_ahead: int = 12
    """Runs between the one that is copied and the one that is prefetched."""

    grouped_ahead: int = 32
    """The same for runs that are put together to a vector: they are short and soon done."""

    unrolled: int = 4
    """Runs of one turn of the loop over a chunk."""

    most_lines_ahead: int = 16
    """Lines of a run that are prefetched; the hardware prefetcher has the lines behind them."""

    large_span_bytes: int = 16 * _MB
    """Bytes that single elements are spread over from which on they are prefetched too."""

    most_lines_of_row: int = 512
    """Lines of a row with an index for each element: with the next row's they fit the first-level cache."""

    uses_of_line: int = 4
    """Indices to a line that make its prefetch worth it."""

    parts_of_run: int = 4
    """Parts of a long run that is scattered: they are written independently of each other."""

    short_loop: int = 8
    """Steps of a loop that is walked around a longer one: within, it would leave vectors empty."""

    longest_step: int = 256
    """Bytes of one step along a long run: four cache lines."""

    def bytes_of_item(self, nbytes: int) -> int:
        """Bytes of one item, about, of so many in all."""
        return max(self.item_bytes.start, min(nbytes // self.items, self.item_bytes.stop))


@dataclass(frozen=True, slots=True)
class CropsPolicy:
    """Windows of a batch."""

    shared_bytes: int = 512 * _KB
    """Bytes moved from which on threads share a batch."""

    least_entries: int = 16
    """Windows that are shared evenly: those of a smaller batch are cut in pieces."""

    band_bytes: int = 4 * _KB
    """Bytes of source of a band: the next one has time to arrive, and the first-level cache holds both."""


@dataclass(frozen=True, slots=True)
class FramesPolicy:
    """Frames of luma and chroma, found on Intel Xeon (Sapphire Rapids, AVX-512) with 1080p NV12."""

    shared_bytes: int = 256 * _KB
    """Bytes moved from which on threads share a window's rows."""

    arithmetic: int = 2
    """Bytes moved that take as long as one of a frame: what threads are woken for is counted in bytes moved."""

    step_bytes: int = 64
    """Bytes of one channel in a step along a row, of samples or of target elements, whichever are wider: a cache line,
    which interleaved uint8 are stored twice as fast by as by half a one."""

    least_lanes: int = 8
    """Pixels of the narrowest step; NumPy has narrower windows."""


@dataclass(frozen=True, slots=True)
class IndexCheckPolicy:
    """Indices checked before a gather."""

    shared_bytes: int = 256 * _KB
    """Bytes of indices from which on threads share a check."""

    item_indices: int = 16 * _KB
    """Indices of one item."""


@dataclass(frozen=True, slots=True)
class Policy:
    """All thresholds of the CPU, by what they decide."""

    promotion: PromotionPolicy = field(default_factory=PromotionPolicy)
    sharing: SharingPolicy = field(default_factory=SharingPolicy)
    relayout: RelayoutPolicy = field(default_factory=RelayoutPolicy)
    gather: GatherPolicy = field(default_factory=GatherPolicy)
    crops: CropsPolicy = field(default_factory=CropsPolicy)
    frames: FramesPolicy = field(default_factory=FramesPolicy)
    index_check: IndexCheckPolicy = field(default_factory=IndexCheckPolicy)


def policy() -> Policy:
    """The policy in force."""
    return _of_this_machine() if _chosen is None else _chosen


@contextmanager
def using(chosen: Policy) -> Iterator[None]:
    """Plan by another policy inside the block; a plan that was made before keeps its own."""
    global _chosen  # noqa: PLW0603
    before, _chosen = _chosen, chosen
    try:
        yield
    finally:
        _chosen = before


_chosen: Policy | None = None


@lru_cache(maxsize=1)
def _of_this_machine() -> Policy:
    """The thresholds for the caches of the machine that this program runs on.

    A smaller last-level cache than that of the measurements is full sooner. A larger one belongs to more cores.
    """
    share = min(1.0, last_level_cache_bytes() / _USUAL_CACHE_BYTES)
    relayout, gather = RelayoutPolicy(), GatherPolicy()
    return Policy(
        relayout=replace(
            relayout,
            streamed_bytes=int(relayout.streamed_bytes * share),
            streamed_tiles_bytes=int(relayout.streamed_tiles_bytes * share),
        ),
        gather=replace(gather, streamed_bytes=int(gather.streamed_bytes * share)),
    )


@lru_cache(maxsize=1)
def last_level_cache_bytes() -> int:
    """Bytes of the last-level cache of the first core, as the system has it; 32 MB where it does not say.

    >>> last_level_cache_bytes() > 0
    True
    """
    return _said_by_linux() or _said_by_posix() or _USUAL_CACHE_BYTES


def _said_by_linux() -> int:
    """The largest of the caches that the first core has, 0 where there is no such directory."""
    largest = 0
    for path in _CACHES.glob("index*/size"):
        try:
            said = path.read_text().strip()
        except OSError:
            continue
        number, unit = said[:-1], {"K": _KB, "M": _MB}.get(said[-1:], 0)
        if number.isdecimal():
            largest = max(largest, int(number) * unit)
    return largest


def _said_by_posix() -> int:
    """What `sysconf` knows of the third-level cache, 0 where it does not."""
    try:
        return max(0, os.sysconf("SC_LEVEL3_CACHE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return 0
