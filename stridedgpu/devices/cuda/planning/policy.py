"""CUDA's policy: every threshold that decides a plan, a tile or a launch, with its unit and where its value comes from.

`policy()` is the one in force. No value has been measured on a GPU. Each follows from the hardware (lines of 128 bytes,
32 banks, 64K registers a multiprocessor), or from compiled machine code: the largest value without spills on sm_75 to
sm_120 (`tests/cuda/kernels/test_matrix.py`), or the one with the best figures of `benchmarks/kernel_facts.py --model`.
A tuner tries other values with `using`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

__all__ = [
    "CropsPolicy",
    "FamilyPolicy",
    "FramesPolicy",
    "GatherPolicy",
    "GenericPolicy",
    "PackedTilePolicy",
    "PixelsPolicy",
    "Policy",
    "ResizePolicy",
    "RowsPolicy",
    "RunStepsPolicy",
    "TransposePolicy",
    "policy",
    "using",
]

_KB: Final = 1024


@dataclass(frozen=True, slots=True)
class FamilyPolicy:
    """Which kernel moves a problem."""

    small_axis: int = 16
    """Elements of an axis up to which it is interleaved in registers, not transposed through tiles."""

    short_run_bytes: int = 16
    """Bytes below which a run is moved together with its neighbours: one vector."""

    pitch: int = 8
    """Elements of a pixel, padding included, that one thread holds in registers; larger go through packed tiles."""

    filled_pitch: int = 32
    """The same of a pixel that is filled up with zeros, which take no registers until they are written."""

    peeled_run_bytes: int = 128
    """Bytes of a run from which on its end, no whole vector, is moved by smaller steps: one cache line."""

    generic_elements: int = 4
    """Elements of the generic kernel's widest store, which it gathers one by one."""

    permuted_pitch: int = 4
    """Elements of a pixel up to which byte permutes take it apart wherever it begins."""


@dataclass(frozen=True, slots=True)
class RunStepsPolicy:
    """Steps along a run that is contiguous on both sides (`flat.cu`, `rows.cu`, `shifted_rows.cu`)."""

    resident_threads: int = 2048
    """Threads of a multiprocessor that share its bytes in flight; sm_75, sm_86 and sm_120 have fewer and need fewer."""

    least_bytes: int = 64
    """Bytes that a thread loads before it uses the first: four vectors of 16 bytes."""

    most_loads: int = 16
    """Loads in flight of a thread: with narrow vectors the number of requests is the limit, not their bytes."""

    most_stored_bytes: int = 256
    """Bytes that a thread stores: beyond, registers and code grow without more bytes in flight."""


@dataclass(frozen=True, slots=True)
class RowsPolicy:
    """How rows are cut into chunks, and groups of lanes given to them."""

    well_filled: float = 0.8
    """Share of lanes with work from which on whole warps move a row."""

    groups: tuple[tuple[int, float], ...] = ((128, 0.8), (32, 0.65), (16, 0.65))
    """Least bytes that a group's lanes access beside each other (a line, a sector, a vector), and least share of lanes
    with work; in the order of preference."""

    most_chunks: int = 4
    """Chunks of a thread: each has addresses of its own in registers."""

    most_accesses: int = 12
    """Accesses in flight of a thread of a group: with more, addresses and comparisons take the registers."""

    most_stores: int = 8
    """Stores of a thread to one chunk where they are narrower than loads: each is compared with the row's end."""

    far_apart_bytes: int = 128
    """Bytes of a row from which on consecutive rows may lie far apart: stores still fill whole cache lines."""


@dataclass(frozen=True, slots=True)
class GenericPolicy:
    """Vectors of a thread of `generic.cu`."""

    most_items: int = 8
    """Vectors of a thread, which share the arithmetic of where a run lies."""

    most_elements: int = 16
    """Elements that a thread holds in registers."""

    most_bytes: int = 128
    """The same in bytes of the wider side."""

    well_filled: float = 0.8
    """Share of vectors inside their run from which on a thread takes more of them."""


@dataclass(frozen=True, slots=True)
class TransposePolicy:
    """Tiles of `transpose.cu`."""

    extents: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({1: 128, 2: 64, 4: 64, 8: 32, 16: 32}))
    """Elements along either side of a tile, by the bytes of an element: 16 KB, or 4 KB and 8 KB of 2 and 16 bytes."""

    small_extents: Mapping[int, int] = field(
        default_factory=lambda: MappingProxyType({1: 32, 2: 32, 4: 32, 8: 16, 16: 16})
    )
    """The same where larger tiles would leave multiprocessors without a block."""

    threads: int = 256
    """Threads of a block."""


@dataclass(frozen=True, slots=True)
class PixelsPolicy:
    """Pixels of few channels: groups in registers, and tiles of groups in shared memory."""

    split_bytes: int = 512
    """Bytes of a group of pixels that a thread holds while it takes them apart or puts them together."""

    filled_bytes: int = 160
    """The same of pixels that are mostly zeros: shared memory has a group for each thread of a block."""

    joined_bytes: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({4: 640, 8: 512}))
    """Bytes of a group and of the planes that it is put together from, by the bytes of a number that is computed."""

    whole_bytes: int = 160
    """Bytes of a group on both sides where pixels stay pixels."""

    whole_pixels: int = 16
    """Pixels of such a group: of bytes, they make whole vectors whatever their number of channels."""

    plane_bytes: int = 32
    """Bytes of one channel of such a group: one vector."""

    shifted_bytes: int = 8
    """Bytes of one channel of a group whose rows begin anywhere, of the narrower type."""

    groups: tuple[int, int, int] = (64, 256, 1024)
    """Groups of a block: at least, where there are few; usually; at most."""

    shared_bytes: int = 16 * _KB
    """Bytes of shared memory that a block's groups should fill."""

    shifted_shared_bytes: int = 32 * _KB
    """The same where both sides go through shared memory, because rows begin anywhere."""

    most_shared_bytes: int = 48 * _KB
    """Bytes that they must not exceed: a launch has no more without an attribute of the kernel."""

    threads: int = 256
    """Threads of a block."""


@dataclass(frozen=True, slots=True)
class PackedTilePolicy:
    """Tiles of `packed_tile.cu`."""

    tiles: tuple[tuple[int, int], ...] = ((256, 32768), (128, 32768), (64, 32768), (64, 8192), (32, 8192), (32, 2048))
    """Tiles to try, the best first: bytes of a run on both sides and bytes in all, of the wider element."""

    last_tiles: tuple[tuple[int, int], ...] = ((16, 32768), (1, 32768), (1, 2048))
    """Tiles to try where none of these fits."""

    shared_bytes: int = 40 * _KB
    """Bytes of shared memory of a tile: five blocks on a multiprocessor of sm_90."""

    longer_runs: int = 8
    """How many times as long a run becomes where nothing else fills the tile."""

    most_gaps: int = 2
    """How many times as long as its elements, or as 4 of them, a run may be with its gaps."""

    threads: int = 256
    """Threads of a block."""


@dataclass(frozen=True, slots=True)
class GatherPolicy:
    """Gather, scatter, and the check of indices."""

    most_indices: int = 4
    """Indices that a thread holds for one vector, unless one tuple has more: 4 elements, or 2 with a pair each."""

    short_row_bytes: int = 16
    """Bytes up to which a row that is no vector is short."""

    least_shifted_bytes: int = 64
    """Bytes of a row from which on finding the ends of its vectors costs less than moving single elements."""

    in_flight: int = 4
    """Vectors, elements or rows in flight of a thread."""

    elements_in_flight: int = 8
    """Elements, or indices of tuples, in flight of a thread where each element has an index."""

    vectors_for_ends: int = 4
    """Vectors that take as many instructions as finding the ends of a run that begins anywhere."""

    fewest_lanes: int = 8
    """Lanes of a group that moves such a run: 8 vectors of 16 bytes are one cache line."""

    inner_elements: int = 16
    """Elements in flight of a thread of the inner-axis gather."""

    inner_rows: int = 8
    """Outer rows of such a thread, which share its indices."""

    long_row_threads: int = 512
    """Threads of a block where a row has work for more than 256: they share the sectors that they read."""

    checked_indices: int = 4
    """Indices in flight of a thread that checks them."""


@dataclass(frozen=True, slots=True)
class CropsPolicy:
    """Windows of a batch."""

    in_flight_bytes: int = 64
    """Bytes of a source in flight of a thread, over its rows."""

    most_rows: int = 4
    """Rows of a thread, which share the arithmetic of their columns."""


@dataclass(frozen=True, slots=True)
class FramesPolicy:
    """Frames of luma and chroma (`frames.cu`); chosen by registers and widths, not measured."""

    most_pixels: int = 8
    """Pixels of a thread: 8 B of luma and of chroma, and a vector of 16 B of each plane of 16-bit floats."""

    single_pixels: int = 4
    """Pixels of a thread that stores them one by one."""

    most_joined: int = 4
    """Channels of a pixel that is put together in registers."""


@dataclass(frozen=True, slots=True)
class ResizePolicy:
    """Tiles of `resize_tiles.cu`; `benchmarks/resize_model.py` has their figures."""

    together: int = 4
    """Channels that a block resizes together: their sums stay in registers."""

    tiles: tuple[tuple[int, int], ...] = (
        (32, 64),
        (16, 64),
        (16, 32),
        (8, 32),
        (8, 16),
        (4, 16),
        (2, 16),
        (1, 16),
        (1, 1),
    )
    """Heights and widths to try, in pixels, the first that fits is taken: large tiles reach fewer pixels twice. Widths
    are up to 64, the columns of two warps; the last one's stores are single elements."""

    budgets: tuple[tuple[int, int], ...] = ((48 * _KB, 32), (96 * _KB, 16), (1 << 30, 1))
    """Bytes of shared memory of a block, and the least rows of the source that are then to be there together, the first
    that fits: 48 KB need no attribute of the kernel and leave room for three other blocks, 96 KB for one other, and the
    last is all that a GPU has. A block's 8 warps take four rows each at a time: 32 rows keep them busy."""

    most_rows: int = 128
    """Rows of the source that are there together: with more, nothing is gained."""

    threads: int = 256
    """Threads of a block."""


@dataclass(frozen=True, slots=True)
class Policy:
    """All thresholds of CUDA, by what they decide."""

    family: FamilyPolicy = field(default_factory=FamilyPolicy)
    run_steps: RunStepsPolicy = field(default_factory=RunStepsPolicy)
    rows: RowsPolicy = field(default_factory=RowsPolicy)
    generic: GenericPolicy = field(default_factory=GenericPolicy)
    transpose: TransposePolicy = field(default_factory=TransposePolicy)
    pixels: PixelsPolicy = field(default_factory=PixelsPolicy)
    packed_tile: PackedTilePolicy = field(default_factory=PackedTilePolicy)
    gather: GatherPolicy = field(default_factory=GatherPolicy)
    crops: CropsPolicy = field(default_factory=CropsPolicy)
    frames: FramesPolicy = field(default_factory=FramesPolicy)
    resize: ResizePolicy = field(default_factory=ResizePolicy)


def policy() -> Policy:
    """The policy in force."""
    return _chosen


@contextmanager
def using(chosen: Policy) -> Iterator[None]:
    """Plan by another policy inside the block; a plan that was made before keeps its own.

    >>> from dataclasses import replace
    >>> small = replace(policy(), rows=replace(policy().rows, most_chunks=2))
    >>> with using(small):
    ...     policy().rows.most_chunks
    2
    """
    global _chosen  # noqa: PLW0603
    before, _chosen = _chosen, chosen
    try:
        yield
    finally:
        _chosen = before


_chosen: Policy = Policy()
