"""CUDA's policy: every threshold of plans, tiles, launches and memory, with its unit and the origin of its value.

`policy()` is the current one. No value has been measured on a GPU. Each follows from the hardware (lines of 128 bytes,
32 banks, 64K registers a multiprocessor), or from compiled machine code: the largest value without spills on sm_75 to
sm_120 (`tests/cuda/kernels/test_matrix.py`), or the one with the best figures of `benchmarks/kernel_facts.py --model`.
A tuner tries other values with `using`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from stridedgpu.devices.settings import POLICIES, using_policies

_KB: Final = 1024


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    """Memory on its way to the device: records, uploads; and tables there. Sizes are not measured on a GPU."""

    pieces: int = 16
    """Records that may be on their way to the device; the next one waits for the first."""
    piece_bytes: int = 32 * _KB
    """The least bytes of page-locked memory for records: those of 400 windows of crops."""
    uploads: int = 8
    """Pieces of uploads that may be on their way to the device; the next one waits for the first. Page-locked memory
    for uploads is bounded by as many times the next number: 64 MB a device."""
    upload_bytes: int = 8 * _KB * _KB
    """Bytes of a piece of an upload. At 25 GB/s, what PCIe 4.0 x16 carries, the last one is on its way for 0.3 ms when
    the host is done; and packing it moves 16 MB, for which the CPU's policy wakes its workers."""
    least_upload_bytes: int = 64 * _KB
    """The least bytes of a piece of an upload, so that programs with small ones keep little memory page-locked."""
    filled_alone_bytes: int = _KB * _KB
    """Bytes of one run below which it is copied to its piece without a plan, as the CPU compiles from that size on."""
    retired_bytes: int = 64 * _KB * _KB
    """Bytes of retired tables on a device above which they are freed, after a wait: some thousand packed tiles of 10 to
    100 KB each."""


@dataclass(frozen=True, slots=True)
class BulkCopyPolicy:
    """Bulk copies (`cp.async.bulk`) of pixels; without arguments, of those split into planes: `channels.cu`."""

    capabilities: tuple[int, int] = (90, 119)
    """Least and highest compute capability of GPUs that make them. Below sm_90 there are none; on sm_120 a
    microbenchmark saw them slower than loads (kekzl/imp#169). An empty range, such as (0, 0), leaves them out."""
    stages: int = 3
    """Stages of a block's shared memory: threads split one while the others are filled."""
    stage_bytes: int = 12 * _KB
    """Most bytes of a stage. Four blocks have 96 KB on their way, more than the 64 KB that a B200 wants."""
    well_filled: float = 0.75
    """Least share of a block's threads that have a group of each stage."""
    threads: int = 256
    """Threads of a block."""
    block_bytes: int = 48 * _KB
    """Most bytes of a block's shared memory: the largest of a launch without a kernel attribute."""
    resident_blocks: int = 4
    """Blocks of a multiprocessor, whose grid is one wave: 64 registers a thread, and 144 KB of shared memory. With
    five, of 48 registers, pixels of 5 channels spill."""


WHOLE_PIXELS: Final = BulkCopyPolicy(stage_bytes=6 * _KB, threads=128, block_bytes=31 * _KB, resident_blocks=7)
"""Of pixels on both sides (`pixels.cu`), whose warps have 10 to 18 KB of a block's shared memory for the target: seven
blocks of 28 KB are what a multiprocessor of sm_90 and sm_100 holds, and have 84 KB on their way."""

_Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class FamilyPolicy:
    """The choice of the kernel family."""

    small_axis: int = 16
    """Elements up to which an axis is interleaved in registers instead of transposed through tiles."""
    short_run_bytes: int = 16
    """Bytes below which a run is moved together with adjacent runs: one vector."""
    pitch: int = 8
    """Elements of a pixel, padding included, up to which a thread holds it in registers; else packed tiles move it."""
    filled_pitch: int = 32
    """The same for pixels padded with zeros, which need no registers before the store."""
    peeled_run_bytes: int = 128
    """Bytes of a run from which on its partial last vector moves in smaller accesses: one cache line."""
    generic_elements: int = 4
    """Elements of the generic kernel's widest store; they are loaded one by one."""
    permuted_pitch: int = 4
    """Elements of a pixel up to which byte permutes de-interleave it at any offset."""


@dataclass(frozen=True, slots=True)
class RunStepsPolicy:
    """Steps along a run that is contiguous on both sides (`flat.cu`, `rows.cu`, `shifted_rows.cu`)."""

    resident_threads: int = 2048
    """Threads of a multiprocessor that share its bytes in flight; sm_75, sm_86 and sm_120 have fewer and need fewer."""
    least_bytes: int = 64
    """Bytes that a thread loads before it uses the first: four vectors of 16 bytes."""
    most_loads: int = 16
    """Most loads in flight per thread; with narrow vectors the limit is the number of requests, not bytes."""
    most_stored_bytes: int = 256
    """Most bytes that a thread stores: more take registers and code without more bytes in flight."""


@dataclass(frozen=True, slots=True)
class RowsPolicy:
    """The division of rows into chunks, and the groups of lanes that move them."""

    well_filled: float = 0.8
    """Least share of active lanes for whole warps to move a row."""
    groups: tuple[tuple[int, float], ...] = ((128, 0.8), (32, 0.65), (16, 0.65))
    """(least contiguous bytes per group: a line, a sector or a vector; least share of active lanes), in order of
    preference."""
    most_chunks: int = 4
    """Most chunks of a thread: each takes registers for its addresses."""
    most_accesses: int = 12
    """Most accesses in flight of a thread in a group: more take registers for addresses and comparisons."""
    most_stores: int = 8
    """Most stores of a thread to one chunk if they are narrower than loads: each needs a bounds check."""
    most_narrow_stores: int = 16
    """Most of them to all chunks of a thread: 32 of 8 bytes, of 64 converted elements, spill up to sm_90."""
    least_shifted_bytes: int = 48
    """Bytes of an unaligned row of the target from which on words are shifted: its model has 0.55 of a copy beside 0.35
    for elements one by one; 0.37 and 0.41 for 32 bytes."""
    far_apart_bytes: int = 128
    """Bytes of a row from which on consecutive rows may be far apart: stores still fill whole cache lines."""


@dataclass(frozen=True, slots=True)
class GenericPolicy:
    """Vectors of a thread of `generic.cu`."""

    most_items: int = 8
    """Most vectors of a thread; they share the address arithmetic of their run."""
    most_elements: int = 16
    """Elements that a thread holds in registers."""
    most_bytes: int = 128
    """The same in bytes of the wider side."""
    well_filled: float = 0.8
    """Least share of vectors inside their run for a thread to take more of them."""


@dataclass(frozen=True, slots=True)
class TransposePolicy:
    """Tiles of `transpose.cu`."""

    extents: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({1: 128, 2: 64, 4: 64, 8: 32, 16: 32}))
    """Elements along either side of a tile, by the bytes of an element: 16 KB, or 4 KB and 8 KB of 2 and 16 bytes."""
    small_extents: Mapping[int, int] = field(
        default_factory=lambda: MappingProxyType({1: 32, 2: 32, 4: 32, 8: 16, 16: 16})
    )
    """The same if larger tiles would leave multiprocessors idle."""
    widest_bytes: int = 16
    """Most bytes of one access. On sm_100, elements of 2 bytes take 39 registers with vectors of 32 bytes, and 29 with
    those of 16: 6 and 8 blocks of a multiprocessor. The model has 0.87 and 0.93 of a copy, and no loss above 0.01."""
    threads: int = 256
    """Threads of a block."""


@dataclass(frozen=True, slots=True)
class PixelsPolicy:
    """Pixels of few channels: groups in registers, and tiles of groups in shared memory."""

    widest_bytes: int = 16
    """Most bytes of one access. Vectors of 32 bytes take 64 to 67 registers a thread in code for sm_100, and three or
    four blocks of a multiprocessor; those of 16 take 48 to 53, and five blocks of RGB, in as few instructions."""
    split_bytes: int = 512
    """Bytes of a group of pixels that a thread holds while it splits or joins them."""
    filled_bytes: int = 160
    """The same for pixels with mostly zeros: shared memory has a group for each thread of a block."""
    joined_bytes: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({4: 640, 8: 512}))
    """Bytes of a group together with its planes while they are joined, by the bytes of the compute type."""
    whole_bytes: int = 160
    """Bytes of a group on both sides if both are interleaved."""
    whole_pixels: int = 16
    """Pixels of such a group: whole vectors of bytes for any number of channels."""
    plane_bytes: int = 32
    """Bytes of one channel of such a group: one vector."""
    shifted_bytes: int = 8
    """Bytes of one channel of an unaligned group, in the narrower type."""
    groups: tuple[int, int, int] = (64, 256, 1024)
    """Groups of a block: minimum, usual number, maximum."""
    shared_bytes: int = 16 * _KB
    """Bytes of shared memory that a block's groups should fill."""
    shifted_shared_bytes: int = 32 * _KB
    """The same if both sides are staged, because rows are unaligned."""
    most_shared_bytes: int = 48 * _KB
    """The limit of these bytes: the largest dynamic shared memory of a launch without a kernel attribute."""
    threads: int = 256
    """Threads of a block."""


@dataclass(frozen=True, slots=True)
class PackedTilePolicy:
    """Tiles of `packed_tile.cu`."""

    tiles: tuple[tuple[int, int], ...] = ((256, 32768), (128, 32768), (64, 32768), (64, 8192), (32, 8192), (32, 2048))
    """Tiles to try, the best first: bytes of a run on both sides, and bytes in all, both of the wider element."""
    last_tiles: tuple[tuple[int, int], ...] = ((16, 32768), (1, 32768), (1, 2048))
    """Tiles to try if none of these fits."""
    shared_bytes: int = 40 * _KB
    """Bytes of shared memory of a tile: five blocks on a multiprocessor of sm_90."""
    longer_runs: int = 8
    """Factor by which a run grows if nothing else fills the tile."""
    most_gaps: int = 2
    """Most length of a run with its gaps, relative to its elements or to 4 of them."""
    threads: int = 256
    """Threads of a block."""


@dataclass(frozen=True, slots=True)
class TurnedPixelsPolicy:
    """Tiles of `turned_pixels.cu`."""

    tiles: tuple[tuple[int, int], ...] = ((32, 224), (32, 128), (32, 64), (32, 32))
    """Pixels of a tile along the source's and along the target's run, the best first. The longer run is the target's:
    its rows often begin inside a sector, and a sector that two blocks write is written twice. Larger tiles share the
    work of a block's addresses."""
    shared_bytes: int = 46 * _KB
    """Most bytes of a tile on both sides; with the gaps between rows a launch then needs no kernel attribute."""
    group_bytes: int = 48
    """Most bytes of a row of a thread's group of pixels, whose rows are all in registers."""
    fewest: int = 16
    """Least pixels of a run on either side; shorter ones take a packed tile, which spans several runs."""
    threads: int = 256
    """Threads of a block."""


@dataclass(frozen=True, slots=True)
class GatherPolicy:
    """Gather, scatter, and the check of indices."""

    most_indices: int = 4
    """Indices of one vector held by a thread, or those of one tuple if more: 4 elements, or 2 with a pair each."""
    short_row_bytes: int = 16
    """Bytes up to which a row that is not a whole vector is short."""
    least_shifted_bytes: int = 64
    """Bytes of an unaligned row from which on whole vectors pay for the search of their ends."""
    short_rows_widest_bytes: int = 16
    """Most bytes of one access to rows shorter than a cache line. With those of 32, rows of 64 bytes are two lanes
    each, and the grid one wave: the model has 0.62 of a copy on sm_100, and 0.70 with those of 16."""
    in_flight: int = 4
    """Vectors, elements or rows in flight of a thread."""
    in_flight_bytes: int = 64
    """Bytes of rows in flight of a thread: 8 blocks are resident, with 128 KB on their way."""
    group_bytes: int = 128
    """Least bytes that a group loads of a longer row at a time: one cache line."""
    vectors_for_index: int = 8
    """Vectors that cost as many instructions as an index and the addresses of its chunk."""
    many_blocks: int = 20
    """Blocks of a multiprocessor from which on a thread has all; with half, few waves have a fuller last one."""
    elements_in_flight: int = 8
    """Elements, or indices of tuples, in flight of a thread where each element has an index."""
    vectors_for_ends: int = 4
    """Vectors that cost as many instructions as the ends of an unaligned run."""
    inner_elements: int = 16
    """Elements in flight of a thread of the inner-axis gather."""
    inner_rows: int = 8
    """Outer rows of such a thread, which share its indices."""
    long_row_threads: int = 512
    """Threads of a block if a row has work for more than 256: they share the sectors that they read."""
    checked_indices: int = 4
    """Indices in flight of a thread in a check."""


@dataclass(frozen=True, slots=True)
class CropsPolicy:
    """Windows of a batch."""

    in_flight_bytes: int = 64
    """Bytes of a source in flight of a thread, over its rows."""
    most_rows: int = 4
    """Rows of a thread, which share the arithmetic of their columns."""
    most_turns: int = 2
    """Most times that a thread has its rows in flight: the record of a sample is waited for once."""
    waves: int = 8
    """Blocks for each multiprocessor that are left before a thread takes more turns."""
    run_bytes: int = 32
    """Most bytes of one source channel that a thread holds in registers for one store."""
    pixels_bytes: int = 96
    """The same for whole pixels: 32 of 3 bytes, or 8 of 3 float32."""
    most_pitch: int = 4
    """Most elements of a pixel that is de-interleaved in registers, unused ones included."""


@dataclass(frozen=True, slots=True)
class FramesPolicy:
    """Frames of luma and chroma (`frames.cu`); derived from registers and widths, not measured."""

    most_pixels: int = 8
    """Pixels of a thread: 8 B of luma and of chroma, and a 16 B vector of each plane of 16-bit floats."""
    byte_pixels: int = 16
    """The same of repeated chroma and targets of bytes: 16 B of luma and of chroma, and a 16 B vector of each plane.
    Linear chroma would not fit the registers; rows that begin between multiples of 16 B would be read singly."""
    luma_bytes: int = 16
    """Most bytes that a thread reads of luma's plane: 8 pixels of 16 bits, or of packed pixels."""
    single_pixels: int = 4
    """Pixels of a thread with scalar stores."""
    sums_bytes: int = 32
    """Bytes of the sums that a row of a matrix makes of a thread's pixels: 8 float32 or 4 float64."""
    most_joined: int = 4
    """Most channels of a pixel that is interleaved in registers."""


@dataclass(frozen=True, slots=True)
class ChannelMatrixPolicy:
    """Channels mixed by a matrix (`channel_matrix.cu`)."""

    most_channels: int = 8
    """Most channels of either side: a thread has all of a pixel's in registers, 16 for float64."""


@dataclass(frozen=True, slots=True)
class ResizeProductsPolicy:
    """Tiles of `resize_products.cu`."""

    tiles: tuple[tuple[int, int, int], ...] = (
        *((32, 64, 5), (32, 64, 4), (32, 32, 4), (32, 32, 3), (32, 32, 2)),
        *((16, 16, 4), (16, 16, 3), (16, 16, 2), (16, 8, 4), (16, 8, 3), (16, 8, 2), (16, 16, 1), (16, 8, 1)),
    )
    """Heights and widths to try, in pixels, and the blocks whose shared memory a multiprocessor must hold; the first
    that fits is used. Heights are 16 or 32, the rows of one or two products, and widths 8 times a power of two; of one
    channel twice as many."""
    few: tuple[int, int] = (2, 4 * _KB)
    """Where a multiprocessor holds only so many blocks, each must have so many bytes of the source at once: it waits
    for them while few others work. `resize_tiles.cu` is the kernel where they are less."""
    most_turns: int = 8
    """Most tiles that a block makes one after another, at most 32: a lane describes each. Down a column of tiles they
    share the weights of the pass across, and the rows of one are copied while another is written."""


@dataclass(frozen=True, slots=True)
class ResizePairsPolicy:
    """Pixels of a thread of `resize_pairs.cu`."""

    pixels: int = 2
    """Pixels of a row: their taps are in registers, and their loads on their way together. With four, frames spill."""
    rows: int = 8
    """Most rows, which share the taps of columns; a power of two."""
    least_threads: int = 2048
    """Threads for each multiprocessor that are left before a thread takes more rows."""


@dataclass(frozen=True, slots=True)
class ResizePolicy:
    """Tiles of `resize_tiles.cu`; the figures come from `benchmarks/resize_model.py`."""

    together: int = 4
    """Channels resized together by a block: their sums fit the registers."""
    tiles: _Pairs = ((32, 64), (16, 64), (16, 32), (8, 32), (8, 16), (4, 16), (2, 16), (1, 16), (1, 1))
    """Heights and widths to try, in pixels; the first that fits is used. Large tiles share more source pixels. Widths
    are up to 64, the columns of two warps; tiles of the last width use scalar stores."""
    budgets: _Pairs = ((48 * _KB, 32), (96 * _KB, 16), (1 << 30, 1))
    """(bytes of shared memory of a block, least source rows staged at once); the first that fits is used. 48 KB need no
    kernel attribute and leave room for three other blocks, 96 KB for one; the last entry is all shared memory of the
    GPU. Each of a block's 8 warps takes four rows at a time, so 32 rows keep all of them busy."""
    most_rows: int = 128
    """Most source rows staged at once: more gain nothing."""
    threads: int = 256
    """Threads of a block."""
    products: ResizeProductsPolicy = field(default_factory=ResizeProductsPolicy)
    """The tiles of products of matrices."""
    pairs: ResizePairsPolicy = field(default_factory=ResizePairsPolicy)
    """The pixels of a thread where there are two taps along either axis."""


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """All thresholds of CUDA, by the choice that they affect. Launches are cached by the object."""

    family: FamilyPolicy = field(default_factory=FamilyPolicy)
    run_steps: RunStepsPolicy = field(default_factory=RunStepsPolicy)
    rows: RowsPolicy = field(default_factory=RowsPolicy)
    generic: GenericPolicy = field(default_factory=GenericPolicy)
    transpose: TransposePolicy = field(default_factory=TransposePolicy)
    pixels: PixelsPolicy = field(default_factory=PixelsPolicy)
    bulk_copies: BulkCopyPolicy = field(default_factory=BulkCopyPolicy)
    whole_bulk_copies: BulkCopyPolicy = WHOLE_PIXELS
    packed_tile: PackedTilePolicy = field(default_factory=PackedTilePolicy)
    turned_pixels: TurnedPixelsPolicy = field(default_factory=TurnedPixelsPolicy)
    gather: GatherPolicy = field(default_factory=GatherPolicy)
    crops: CropsPolicy = field(default_factory=CropsPolicy)
    frames: FramesPolicy = field(default_factory=FramesPolicy)
    channel_matrix: ChannelMatrixPolicy = field(default_factory=ChannelMatrixPolicy)
    resize: ResizePolicy = field(default_factory=ResizePolicy)
    memory: MemoryPolicy = field(default_factory=MemoryPolicy)


def policy() -> Policy:
    """The current policy."""
    chosen = POLICIES.get()
    return (chosen and chosen.cuda) or _DEFAULT


def using(chosen: Policy) -> AbstractContextManager[None]:
    """Plan this thread's calls by another policy inside the block; existing plans keep their own.

    >>> from dataclasses import replace
    >>> small = replace(policy(), rows=replace(policy().rows, most_chunks=2))
    >>> with using(small):
    ...     policy().rows.most_chunks
    2
    """
    return using_policies(cuda=chosen)


_DEFAULT: Final = Policy()
