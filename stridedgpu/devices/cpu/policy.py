"""The CPU's policy: every threshold of NumPy's and of compiled loops, with its unit and the origin of its value.

`policy()` returns the current one, that of this machine's `Target`. Values were chosen by sweeps on two cores of a Zen
4 with 32 MB of last-level cache; a field with another origin says so. "Without: 0.7" is the share of their speed that
drawn cases keep without a threshold, on average over those that it changes, measured on one core of a Zen 5 with 32 MB
of last-level cache, with AVX-512 and with x86-64-v3. `using` tries others.
Named tuples are defined in a third of the time of frozen dataclasses, which were a tenth of a process' first move.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from .index_policy import GatherPolicy, IndexCheckPolicy
from .relayout_policy import RelayoutPolicy
from .target import Target

__all__ = [
    "TEMPORARY",
    "ChannelMatrixPolicy",
    "CropsPolicy",
    "FramesPolicy",
    "GatherPolicy",
    "IndexCheckPolicy",
    "MemoryPolicy",
    "NumpyPolicy",
    "Policy",
    "PromotionPolicy",
    "RelayoutPolicy",
    "ResizePolicy",
    "SharingPolicy",
    "policy",
    "using",
]

_KB: Final = 1024
_MB: Final = 1024 * 1024


class NumpyPolicy(NamedTuple):
    """NumPy's loops: blocks fit a core's cache, and outweigh Python's calls. Not measured, unless a field says so."""

    small_axis: int = 16
    """Elements up to which an axis becomes a Python loop of a relayout, if another axis can be the inner one."""

    least_looped: int = 4 * _KB
    """The fewest elements of one iteration of such a loop, which costs Python some microseconds."""

    small_tensor: int = 64 * _KB
    """Elements up to which one assignment is as fast as any loop order; in Python loops, 16^4 took 25 times as long."""

    block_elements: int = 128 * _KB
    """Elements of a block of a relayout; a conversion allocates more blocks of up to 8 bytes an element, a few MB."""

    tile: tuple[int, int] = (256, 512)
    """Extents of a block along the target's and the source's contiguous axes: the shorter one, the longer the other."""

    gathered_elements: int = 32 * _KB
    """Elements of a block of a gather: with their offsets, some hundred KB."""

    long_row: int = 2 * _KB
    """Elements from which on a gathered row is copied by a call of its own."""

    elements_of_call: int = _KB
    """Elements that amortise one NumPy call."""

    searched_indices: int = 128 * _KB
    """Indices of one step of the search for a wrong index."""

    flags_of_index: int = 32
    """Elements that each of some distinct indices could name, up to which each of them has a flag, where more are
    sorted: 100,000 indices took 0.1 to 0.6 ms by 1 to 100 flags each, and 3.8 sorted."""

    block_pixels: int = 64 * _KB
    """Pixels, or raw samples, of a block of any other operation; numbers take 2 to 8 bytes in each of its channels."""


class MemoryPolicy(NamedTuple):
    """Memory of results that is used again; not measured."""

    kept_blocks: int = 4
    """Free blocks kept for reuse; another one replaces the oldest."""

    recycled_bytes: int = 256 * _KB
    """Bytes from which on a block is kept: the C library recycles smaller ones itself."""


class PromotionPolicy(NamedTuple):
    """When work is promoted from NumPy to a compiled loop."""

    at_once_bytes: int = _MB
    """Bytes moved from which on the first call compiles: for fewer, NumPy is faster than loading the loop."""

    resize_bytes: int = 64 * _KB
    """The same for a resize: its loops serve every geometry, and NumPy takes some 20 times as long."""

    frame_bytes: int = 0
    """The same of a window of a frame: all are compiled at once, whose loops serve every window of a format."""

    calls: int = 16
    """The number of the call of one small problem that loads its loop."""


class SharingPolicy(NamedTuple):
    """When threads share the items of one call."""

    spins: int = 2000
    """Polls of an idle thread before it parks: some 50 us on x86, as long as waking a parked thread takes."""

    chunks: int = 32
    """Chunks of a thread's share of the items; each costs an atomic addition and an indirect call."""

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


class CropsPolicy(NamedTuple):
    """Windows of a batch."""

    shared_bytes: int = 512 * _KB
    """Bytes moved from which on threads share a batch."""

    least_entries: int = 16
    """Entries that threads share evenly; smaller batches are cut into pieces."""

    least_alike: int = 12
    """Windows of sources with one layout from which on their entries are worked out together, by NumPy: 64 took 35 us
    instead of 99, and 8 of them 27 instead of 23."""

    most_recipes: int = 4 * _KB
    """Kinds of windows, and of rectangles with their loops and parameters, that are kept; a limit of memory, not
    measured."""

    most_batches: int = 64
    """Layouts of batches whose moves are kept for each problem; not measured, either."""

    moved_bytes: int = 4 * _MB
    """Bytes moved up to which windows inside all images at one place are one move: 0.45 to 1 of the time of a list. Of
    more, rows of large images have to be prefetched, as a list's are: one move took 0.6 to 1.9 times as long."""

    row_ahead_bytes: int = 4 * _KB
    """Bytes of rows with a border, far apart, between the row that is read and the one that is prefetched: rows of 512
    bytes took 0.7 to 0.9 of the time that two rows ahead took."""

    merged_bytes: range = range(9, 65)
    """Bytes of rows with a border that are written as one vector each, up to a cache line, where bytes are loaded by a
    mask: 0.4 to 0.9 of the time."""

    band_bytes: int = 4 * _KB
    """Bytes of source of a band: long enough to prefetch the next one, and the L1 cache fits both."""


class FramesPolicy(NamedTuple):
    """Frames of luma and chroma; measured on Sapphire Rapids (AVX-512) with 1080p NV12.

    Raw samples take the same thresholds.
    """

    shared_bytes: int = 256 * _KB
    """Bytes moved from which on threads share a window's rows."""

    arithmetic: int = 2
    """Weight of a frame's bytes in the decision to wake threads: one takes as long as two bytes of a plain move."""

    step_bytes: int = 64
    """Bytes of one channel in a step along a row of the wider side: uint8 are stored twice as fast as by half of it."""

    least_lanes: int = 4
    """Pixels of the narrowest step; NumPy has narrower windows."""


class ResizePolicy(NamedTuple):
    """Windows that are resized; not measured."""

    pieces: int = 2
    """Parts of a window for each thread: small enough that a late thread delays the others little."""

    most_channels: int = 4
    """The most channels of an interleaved pixel whose sums and products fit the registers."""

    most_step: int = 16
    """The most elements from one pixel to the next: the elements between are transposed, too."""

    least_columns: int = 16
    """The fewest columns of a frame that are converted, if it has as many: steps of its loop then take 16 pixels."""

    joined_rows: float = 1.5
    """Source rows for each row of the result from which on OpenCV's two passes are one: most rows are read once."""

    most_geometries: int = 256
    """Geometries whose tables are kept, some 20 KB each for 224 x 224: random boxes never recur."""


class ChannelMatrixPolicy(NamedTuple):
    """Pixels mixed by a matrix: the same thresholds as those of frames, whose loops are alike."""

    shared_bytes: int = 256 * _KB
    """Bytes moved from which on threads share the pixels."""

    arithmetic: int = 2
    """Weight of a byte in the decision to wake threads, beside one of a plain move."""

    step_bytes: int = 64
    """Bytes of the numbers of one channel in a step: a vector of the widest registers."""

    least_lanes: int = 4
    """Pixels of the shortest row; NumPy has shorter ones."""

    most_channels: int = 4
    """The most channels of either side: 16 numbers of a matrix and 8 vectors of pixels fit the registers."""

    item_pixels: int = 16 * 1024
    """Pixels of an item of a row: threads share long rows, and an item's cost outweighs its start."""


class Policy(NamedTuple):
    """All thresholds of a processor, by what they decide."""

    target: Target
    numpy: NumpyPolicy = NumpyPolicy()
    memory: MemoryPolicy = MemoryPolicy()
    promotion: PromotionPolicy = PromotionPolicy()
    sharing: SharingPolicy = SharingPolicy()
    relayout: RelayoutPolicy = RelayoutPolicy()
    gather: GatherPolicy = GatherPolicy()
    crops: CropsPolicy = CropsPolicy()
    frames: FramesPolicy = FramesPolicy()
    resize: ResizePolicy = ResizePolicy()
    channel_matrix: ChannelMatrixPolicy = ChannelMatrixPolicy()
    index_check: IndexCheckPolicy = IndexCheckPolicy()

    @classmethod
    def of(cls, target: Target) -> Policy:
        """The thresholds for a processor.

        Thresholds of what leaves the caches follow their sizes. A last-level cache larger than that of the measurements
        is shared by more cores, and counts as one of that size.
        """
        shared, own = min(target.last_level_bytes, _MEASURED_BYTES), target.l2_bytes
        return cls(
            target,
            relayout=RelayoutPolicy(streamed_bytes=shared * 5 // 8, cached_bytes=shared // 2),
            gather=GatherPolicy(streamed_bytes=shared // 2, columns_bytes=own // 4, far_bytes=2 * own),
        )


_MEASURED_BYTES: Final = 32 * _MB
"""The last-level cache of the measurements."""


def policy() -> Policy:
    """The current policy: this processor's, unless a `using` block has another."""
    return TEMPORARY.policy or _own or _of_this_processor()


class _Temporary:
    """The policy of a `using` block, whose launches are not those of calls after it; None outside of any."""

    __slots__ = ("policy",)

    def __init__(self) -> None:
        self.policy: Policy | None = None


TEMPORARY: Final = _Temporary()


@contextmanager
def using(chosen: Policy) -> Iterator[None]:
    """Plan by another policy inside the block, for any target; existing plans keep their own."""
    before, TEMPORARY.policy = TEMPORARY.policy, chosen
    try:
        yield
    finally:
        TEMPORARY.policy = before


def _of_this_processor() -> Policy:
    """The policy of this processor, which is asked at the first call, not when modules are imported."""
    global _own  # noqa: PLW0603
    _own = Policy.of(Target.here())
    return _own


_own: Policy | None = None
