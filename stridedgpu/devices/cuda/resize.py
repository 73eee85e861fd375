"""Resizes: the choice of a kernel and of its tile, its launch, and the records of the samples.

A block makes one tile of a resized window (`resize_tiles.cu`, `resize_products.cu`), or each thread fetches the pixels
that its taps read (`resize_pairs.cu`, `resize_nearest.cu`). A tile is chosen for the taps of a batch: the source rows
and columns of its pixels must fit shared memory, all rows at once or a chunk of them at a time. The parameters begin
with two addresses: that of the records (`resize_records`), and that of the batch's lowest element. The device writes
both; here they are 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np

from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.interface import ResizeSource
from stridedgpu.problems.device_plan import Width, describe_access, index_bits
from stridedgpu.problems.resize_problem import ResizeProblem, ResizeWindow
from stridedgpu.problems.resize_taps import AxisTaps, TapReach, WindowTaps
from stridedgpu.values.bounded_cache import bounded_cache, count_bytes
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.interpolation import ResizeSums, arithmetic_of
from stridedgpu.values.strides import round_up

from .choice import Bound, CudaPlan, KernelFamily, backwards_bound, check_windows, row_width
from .frames import colours_record, frame_record
from .gpu import GpuProperties, KernelLaunch
from .parameters import ParameterBlock, conversion_argument, index_argument, instantiation
from .policy import ResizePolicy, policy
from .resize_products import NEIGHBOURS, THREADS, ProductTiles, product_tiles, takes_products, zero_bits

_ALIGNMENT: Final = 16
"""Bytes of the widest access to shared memory."""

_SPAN_BYTES: Final = 8

_START_BYTES: Final = 4
"""Bytes of the stored start of a row of a chunk."""

_BETWEEN_BYTES: Final = {ResizeSums.OPENCV_CUBIC: 4, ResizeSums.OPENCV_MEAN: 4, ResizeSums.OPENCV_FLOAT: 4}
"""Bytes of an element between the passes, as in resize_rules.cuh; for other rules those of the source type."""


@dataclass(frozen=True, slots=True)
class TileUse:
    """The properties of a block's work that its tile depends on.

    `count` is the number of channels resized together, `length` the elements of a store, which divide a tile's width.
    """

    arithmetic: ResizeSums
    columns_first: bool
    itemsize: int
    count: int
    length: int

    @property
    def weight_bytes(self) -> int:
        """Bytes of a weight, and of a sum."""
        return 8 if self.arithmetic is ResizeSums.PILLOW_DOUBLE else 4

    @property
    def between_bytes(self) -> int:
        """Bytes of an element between the passes."""
        return _BETWEEN_BYTES.get(self.arithmetic, self.itemsize)


@dataclass(frozen=True, slots=True)
class ResizeTiles:
    """A tile in pixels, the fields of `sg::ResizeMemory` in their order, and the total bytes.

    `length` is the elements of a store, which divide the width. `chunk_rows` is the number of source rows in shared
    memory together. `reach` is the most source rows and columns of a tile, `taps` the most taps of a row and of a
    column.
    """

    height: int
    width: int
    length: int
    chunk_rows: int
    reach: tuple[int, int]
    taps: tuple[int, int]
    memory: tuple[int, ...]
    shared_bytes: int

    @property
    def chunks(self) -> int:
        """The number of times that a block loads rows."""
        return -(-self.reach[0] // self.chunk_rows)


def resize_tiles(
    use: TileUse, taps: Sequence[WindowTaps], size: tuple[int, int], shared_bytes: int, limits: ResizePolicy
) -> ResizeTiles | None:
    """The tile for windows of `size` (height, width) with these taps; None if not even a row of the smallest fits.

    `shared_bytes` is the shared memory that a block may have; `limits` has the tiles to try.
    """
    rows, columns = TapReach([one.rows for one in taps]), TapReach([one.columns for one in taps])
    for most, wanted in limits.budgets:
        budget = min(most, shared_bytes)
        for tile in _sizes(use, size, limits):
            tiles = _fitting(use, (rows, columns), tile, budget, limits.most_rows)
            if tiles is not None and tiles.chunk_rows >= min(wanted, tiles.reach[0]):
                return tiles
    return None


def _sizes(use: TileUse, size: tuple[int, int], limits: ResizePolicy) -> Iterator[tuple[int, int, int]]:
    """Height, width and elements of a store of tiles that divide a window evenly."""
    for sizes in limits.tiles:
        height, width = (-(-extent // -(-extent // most)) for extent, most in zip(size, sizes, strict=True))
        length = use.length if sizes[1] > 1 else 1
        yield height, round_up(width, length), length


def _fitting(
    use: TileUse, axes: tuple[TapReach, TapReach], tile: tuple[int, int, int], budget: int, most_rows: int
) -> ResizeTiles | None:
    """The tile's layout in shared memory, with as many rows a chunk as the budget allows."""
    (height, width, length), (down, along) = tile, axes
    rows, columns, most = down.reach(height), along.reach(width), (down.most, along.most)
    # A row may begin and end inside a vector, and so may the repeated edge pixels before it.
    pitch = _up(columns * use.count * use.itemsize + 3 * (_ALIGNMENT - 1))
    slots, reached = width * use.count, columns * use.count
    between_elements, sums_elements = (slots, slots) if use.columns_first else (reached, reached)
    between_pitch = _up(between_elements * use.between_bytes)
    sums_pitch = _up(_up(sums_elements) * use.weight_bytes)
    result_pitch = _up(slots * use.itemsize)
    fixed = [
        _up(width * _SPAN_BYTES),
        _up(height * _SPAN_BYTES),
        _up(width * most[1] * use.weight_bytes),
        _up(height * most[0] * use.weight_bytes),
    ]
    taken = sum(fixed) + _ALIGNMENT + height * result_pitch + (0 if use.columns_first else height * between_pitch)
    row_bytes = pitch + _START_BYTES + (between_pitch if use.columns_first else 0)
    chunk = min(rows, (budget - taken) // row_bytes)
    if chunk < rows:
        taken += height * sums_pitch
        chunk = min((budget - taken) // row_bytes, most_rows)
    if chunk < 1:
        return None
    sizes = [
        *fixed,
        _up(chunk * _START_BYTES),
        chunk * pitch,
        (chunk if use.columns_first else height) * between_pitch,
        height * sums_pitch if chunk < rows else 0,
        height * result_pitch,
    ]
    places = [sum(sizes[:number]) for number in range(len(sizes))]
    memory = (*places[1:], chunk, pitch, between_pitch, sums_pitch, result_pitch, most[0])
    return ResizeTiles(height, width, length, chunk, (rows, columns), most, memory, sum(sizes))


def _up(nbytes: int) -> int:
    return round_up(nbytes, _ALIGNMENT)


_VECTOR_BYTES: Final = 16
"""Bytes of the widest access; source rows are staged, and tiles read, in such vectors of shared memory."""

_OFFSET_BITS: Final = 64
"""Bits of the offsets within an image, as its record stores them."""

_FRAME_GROUP: Final = 8
"""Pixels of a frame's row whose luma is one load, if it is an aligned vector: `sg::FrameGroups`."""


class ResizeFamily(KernelFamily):
    """Kinds of source reads, by the contiguity of the source."""

    PIXELS = "pixels", "pixels: rows of whole pixels are staged in shared memory as they lie, all channels together"
    PLANES = "planes", "planes: rows of one channel are staged in shared memory as they lie, each by itself"
    ELEMENTS = "elements", "elements: rows are staged in shared memory element by element, up to 4 channels together"
    FRAMES = "frames", "frames: rows are converted from luma and chroma while they are staged in shared memory"
    PAIRS = "pairs", "pairs: pixels are fetched one by one where the two taps along either axis read them"
    NEAREST = "nearest", "nearest: each element of a store is fetched from the pixel that it is a copy of"


_WHOLE_PIXELS: Final = (ResizeFamily.PIXELS, ResizeFamily.FRAMES)
"""The families that stage all channels of the source in shared memory together."""

_FETCHED: Final = (ResizeFamily.PAIRS, ResizeFamily.NEAREST)
"""The families without tiles: a thread fetches the pixels that its taps read."""

_PAIRED: Final = (ResizeSums.OPENCV_LINEAR, ResizeSums.OPENCV_EXACT, ResizeSums.OPENCV_QUARTER)
"""Sums that have two taps along either axis under any rule; "opencv-area" is one, where images grow."""


@dataclass(frozen=True, slots=True)
class ResizeChoice(CudaPlan[ResizeProblem]):
    """The kernel of a resize on one GPU, with its access widths and tiles.

    `load` is the width of a load from a run that is long enough, at any address; `store` is the width of a store. A
    block resizes `count` channels together. With `stores_pixels`, a store takes adjacent elements of interleaved
    pixels. `limits` are the threads of a block and the tiles to try, largest first. `tiles` are those of the problem's
    window, or None if every call states its windows.
    """

    family: ResizeFamily
    gpu: GpuProperties
    count: int
    stores_pixels: bool
    limits: ResizePolicy
    tiles: ResizeTiles | ProductTiles | None

    @property
    def kernel(self) -> str:
        """The kernel's name: family, then type and bytes of a load and of a store."""
        source, target = self.problem.conversion.source, self.problem.conversion.target
        kind = "_frames" if self.problem.reads_frames and self.family in _FETCHED else ""
        kind = "_products" if isinstance(self.tiles, ProductTiles) else kind
        return f"resize_{self.family}{kind}_{source}x{self.load.nbytes}B_{target}x{self.store.nbytes}B"

    @property
    def groups(self) -> int:
        """The number of blocks that share the channels of a tile."""
        channels = self.problem.target.layout.sizes[1]
        return 1 if self.reads_whole else -(-channels // self.count)

    @property
    def reads_whole(self) -> bool:
        """Whether all channels of the source are read together, in its order."""
        return self.family in _WHOLE_PIXELS or (
            self.family is ResizeFamily.PAIRS and _is_whole(self.problem, self.limits.together)
        )

    @property
    def pixels(self) -> int:
        """Pixels of a thread in a row of `resize_pairs.cu`; sums of 16-bit frames take two registers each."""
        is_deep = self.problem.reads_frames and self.problem.conversion.source.itemsize > 1
        return 1 if is_deep else self.limits.pairs.pixels

    def use(self, arithmetic: ResizeSums, *, columns_first: bool) -> TileUse:
        """The inputs of the choice of a tile."""
        conversion = self.problem.conversion
        length = self.store.nbytes // conversion.target.itemsize
        return TileUse(arithmetic, columns_first, conversion.source.itemsize, self.count, length)

    def for_taps(self, taps: Sequence[WindowTaps]) -> ResizeChoice:
        """The choice for windows with one arithmetic and one order of passes: it has their tiles.

        Raises `DeviceError` if the source pixels of one result pixel exceed shared memory.
        """
        if self.family in _FETCHED:
            return self
        if taps[0].arithmetic in _PAIRED:
            return _pairs(self.problem, self.gpu)
        _, _, height, width = self.problem.target.layout.sizes
        use = self.use(taps[0].arithmetic, columns_first=taps[0].columns_first)
        tiles = self._product_tiles(taps) or resize_tiles(
            use, taps, (height, width), self.gpu.shared_bytes, self.limits
        )
        if tiles is None:
            columns, rows = (
                max(axis.most for axis in axes) for axes in zip(*((one.columns, one.rows) for one in taps), strict=True)
            )
            raise DeviceError(
                f"A resized pixel is made of up to {rows} x {columns} pixels, more than the {self.gpu.shared_bytes} B "
                f"of shared memory of a block on {self.gpu.name} hold; resize in two steps, or on the CPU."
            )
        itemsize, store = self.problem.target.element.itemsize, self.store
        if tiles.length * itemsize < store.nbytes:
            store = Width(tiles.length * itemsize, _NARROWER[type(tiles)])
        return replace(self, store=store, tiles=tiles)

    def _product_tiles(self, taps: Sequence[WindowTaps]) -> ProductTiles | None:
        """The tiles by products of matrices; None where the problem, the GPU or the taps need other sums."""
        if self.family not in (ResizeFamily.PIXELS, ResizeFamily.PLANES) or not takes_products(self.problem, self.gpu):
            return None
        return product_tiles(
            taps,
            self.count,
            has_narrow_weights=self.problem.rule.interpolation.has_narrow_weights,
            interleaves=self.stores_pixels,
            gpu=self.gpu,
            limits=self.limits.products,
        )

    def describe(self) -> list[str]:
        """The kernel in lines, as plans explain it."""
        return [
            self.summary,
            *self.problem.describe(),
            f"writes in steps of {self.problem.target.layout.strides} elements along N, C, H, W",
            describe_access("loads", self.load),
            describe_access("stores", self.store),
            *self._tile_words(),
        ]

    def _tile_words(self) -> list[str]:
        """The lines about the tile and its shared memory."""
        if self.family is ResizeFamily.NEAREST:
            return []
        if self.family is ResizeFamily.PAIRS:
            pixels = "1 pixel" if self.pixels == 1 else f"{self.pixels} pixels"
            return [f"a thread makes {pixels} of {self.count} channels in each of up to {self.limits.pairs.rows} rows"]
        by_products = isinstance(self.tiles, ProductTiles)
        threads = THREADS if by_products else self.limits.threads
        block = f"a block of {threads} threads makes"
        if self.tiles is None:
            (height, width), (nbytes, rows) = self.limits.tiles[0], self.limits.budgets[0]
            return [
                f"{block} up to {height} x {width} pixels of {self.count} channels",
                f"a call has the largest tile that fits {nbytes} B of shared memory, {rows} source rows at a time",
            ]
        tiles = self.tiles
        read = f"{tiles.reach[0]} x {tiles.reach[1]} of the source, {tiles.chunk_rows} rows at a time"
        ways = ["both passes are products of matrices on tensor cores"] if by_products else []
        return [
            f"{block} {tiles.height} x {tiles.width} pixels of {self.count} channels, of up to {read}",
            *ways,
            f"{tiles.shared_bytes} B of shared memory",
        ]


def choose_resize(problem: ResizeProblem, gpu: GpuProperties) -> ResizeChoice:
    """The kernel for a problem.

    Raises `DeviceError` for resizes that only the CPU does.
    """
    arithmetic = arithmetic_of(problem.rule.interpolation, problem.conversion.source)
    if problem.rule.interpolation.sampling in ("linear", "linear-exact"):
        return _pairs(problem, gpu)
    family, count = _family(problem, copies=arithmetic is ResizeSums.COPY)
    if problem.rule.premultiplies and family is not ResizeFamily.PIXELS:
        raise DeviceError(
            f"{gpu.name} weights colours by alpha where the channels of an image's pixels lie side by side, without "
            "gaps, and all images are alike; relayout to NHWC first, or resize on the CPU."
        )
    layout = problem.target.layout
    channels = layout.sizes[1]
    together = family in _WHOLE_PIXELS or count == channels
    pixels = layout.strides[3] == channels > 1 and layout.strides[1] == 1 and together
    load, store = _load_width(problem, family), _store_width(problem, pixels=pixels)
    choice = ResizeChoice(problem, load, store, _OFFSET_BITS, family, gpu, count, pixels, policy().resize, None)
    if problem.window is None or layout.element_count == 0:
        return choice
    return choice.for_taps([problem.taps(problem.window)])


def _pairs(problem: ResizeProblem, gpu: GpuProperties) -> ResizeChoice:
    """The kernel of two taps along either axis. Neighbouring threads have neighbouring pixels: accesses coalesce."""
    target, limits, element = problem.target, policy().resize, problem.conversion.source
    count = problem.channels if _is_whole(problem, limits.together) else min(target.layout.sizes[1], limits.together)
    load = Width(element.itemsize, "pixels of the source are fetched one by one")
    store = Width(target.element.itemsize, "neighbouring threads have neighbouring pixels")
    family, pixels = ResizeFamily.PAIRS, False
    return ResizeChoice(problem, load, store, _OFFSET_BITS, family, gpu, count, pixels, limits, None)


def _is_whole(problem: ResizeProblem, together: int) -> bool:
    """Whether pixels are those of frames, or have up to `together` channels side by side and no gaps between."""
    channel, column = problem.source_steps
    return problem.reads_frames or (channel == 1 and 2 <= column == problem.channels <= together)


def _family(problem: ResizeProblem, *, copies: bool) -> tuple[ResizeFamily, int]:
    """The family, and the number of channels resized together."""
    layout, channels, column = problem.target.layout, problem.target.layout.sizes[1], problem.source_steps[1]
    if copies:
        return ResizeFamily.NEAREST, 1
    if _is_whole(problem, policy().resize.together):
        return ResizeFamily.FRAMES if problem.reads_frames else ResizeFamily.PIXELS, problem.channels
    if column == 1 and (layout.strides[3] == 1 or channels == 1):
        return ResizeFamily.PLANES, 1
    return ResizeFamily.ELEMENTS, min(channels, policy().resize.together)


def _load_width(problem: ResizeProblem, family: ResizeFamily) -> Width:
    if family in (ResizeFamily.PIXELS, ResizeFamily.PLANES):
        return Width(_VECTOR_BYTES)
    itemsize = problem.conversion.source.itemsize
    if family is ResizeFamily.FRAMES:
        return Width(_FRAME_GROUP * itemsize, "a thread reads luma of eight pixels; samples that lie apart singly")
    if family is ResizeFamily.NEAREST:
        return Width(itemsize, "pixels of the source are picked one by one")
    return Width(itemsize, "the source's elements do not follow each other")


def _store_width(problem: ResizeProblem, *, pixels: bool) -> Width:
    """The width of a store to a row of the target: its strides and its alignment must be whole vectors."""
    target, layout = problem.target, problem.target.layout
    itemsize, width = target.element.itemsize, layout.sizes[3]
    if not pixels and layout.strides[3] != 1 and width != 1:
        return Width(itemsize, "the target's columns do not lie side by side")
    most = _VECTOR_BYTES // problem.conversion.source.itemsize * itemsize
    bounds = [Bound(most, f"a thread takes up to {_VECTOR_BYTES} B of resized pixels"), *backwards_bound(target)]
    return row_width(target, (0, 2) if pixels else (0, 1, 2), bounds, _VECTOR_BYTES)


_NARROWER: Final[Mapping[type, str]] = {
    ResizeTiles: "wider tiles reach more of the source than shared memory holds",
    ProductTiles: f"a thread has {NEIGHBOURS} adjacent elements of a row",
}
"""Why a store is narrower than the target allows, by the tiles."""

_SAMPLE: Final = struct.Struct("<3Q 3q 3I2iI 3I2iI 4i I f I 2H")
"""`sg::ResizeSample`, aligned to 16 bytes; it begins with three addresses in the source."""

SAMPLE_BYTES: Final = _SAMPLE.size

_COPIED: Final = {
    ResizeSums.COPY: 1,
    ResizeSums.FIXED_POINT: 1 << 22,
    ResizeSums.PILLOW_DOUBLE: 1,
    ResizeSums.TORCH_FLOAT: 1,
}
"""The weight of the one tap of an axis that has no pass: sums come out as they went in."""


@dataclass(frozen=True, slots=True)
class ResizeSample:
    """One image of a launch: window, taps, its source's lowest address, its number and place in the target.

    `frame` is its `sg::FrameRecord` if the problem reads frames; it then has the addresses, and `address` is not used.
    """

    window: ResizeWindow
    taps: WindowTaps
    address: int
    number: int
    place: tuple[int, int, int, int]
    frame: bytes = b""


def window_launch(choice: ResizeChoice) -> KernelLaunch | None:
    """The launch of a problem whose images share one window; None if every call states its windows."""
    window = choice.problem.window
    if window is None:
        return None
    return resize_launch(choice, [choice.problem.taps(window)] * choice.problem.target.layout.sizes[0])


def resize_launch(choice: ResizeChoice, taps: Sequence[WindowTaps]) -> KernelLaunch:
    """The kernel, grid and parameters for samples with these taps, all summed alike and in one order of passes.

    The choice is that for these taps. Raises `LayoutError` for a batch without elements.
    """
    check_windows(choice.problem.target.layout, len(taps))
    if choice.family is ResizeFamily.NEAREST:
        return _nearest(choice, len(taps))
    if choice.family is ResizeFamily.PAIRS:
        return _by_pairs(choice, taps)
    assert choice.tiles is not None, "the choice is that for these taps"
    if isinstance(choice.tiles, ProductTiles):
        return _by_products(choice, taps, choice.tiles)
    return _tiled(choice, taps, choice.tiles)


def _tiled(choice: ResizeChoice, taps: Sequence[WindowTaps], tiles: ResizeTiles) -> KernelLaunch:
    """A block for each tile of each sample, and for each group of channels."""
    problem, conversion = choice.problem, choice.problem.conversion
    _, channels, height, width = problem.target.layout.sizes
    counts = (-(-width // tiles.width), -(-height // tiles.height), choice.groups)
    run = tiles.width * (channels if choice.stores_pixels else 1)
    block, affines, order = _common(choice)
    block.add_divisors(*counts, run // tiles.length, channels, bits=32)
    block.add_indices(height, width, tiles.height, tiles.width, *tiles.memory, bits=32)
    name = instantiation(
        "resize_tiles",
        (_reader(choice, conversion.source), conversion_argument(conversion)),
        "ResizePolicy",
        arithmetic=f"sg::ResizeArithmetic::{taps[0].arithmetic.replace('-', '_')}",
        columns_first=taps[0].columns_first,
        pixels=choice.stores_pixels,
        premultiplies=problem.rule.premultiplies,
        store_bytes=tiles.length * conversion.target.itemsize,
        affines=affines,
        order=order,
    )
    blocks, tile = prod(counts) * len(taps), (tiles.height, tiles.width)
    return block.launch(
        "resize_tiles.cu", name, blocks, choice.limits.threads, shared_bytes=tiles.shared_bytes, tile=tile
    )


def _by_products(choice: ResizeChoice, taps: Sequence[WindowTaps], tiles: ProductTiles) -> KernelLaunch:
    """The same, by products of matrices."""
    problem = choice.problem
    _, channels, height, width = problem.target.layout.sizes
    counts = (-(-height // tiles.height), -(-width // tiles.width), choice.groups)
    number = prod(counts) * len(taps)
    turns = tiles.turns(number, choice.gpu.multiprocessors, choice.limits.products)
    block, affines, order = _common(choice)
    block.add_divisors(*counts, channels, bits=32)
    block.add_indices(number, turns, bits=32)
    block.add_indices(height, width, tiles.height, tiles.width, *tiles.memory, bits=32)
    name = instantiation(
        "resize_products",
        (str(choice.count), conversion_argument(problem.conversion)),
        "ResizeProductsPolicy",
        columns_first=taps[0].columns_first,
        pixels=choice.stores_pixels,
        pieces=tiles.sums.pieces,
        saturates=tiles.sums.saturates,
        store_bytes=choice.store.nbytes,
        affines=affines,
        order=order,
    )
    blocks, threads, tile = -(-number // turns), THREADS, (tiles.height, tiles.width)
    return block.launch("resize_products.cu", name, blocks, threads, shared_bytes=tiles.shared_bytes, tile=tile)


def _nearest(choice: ResizeChoice, samples: int) -> KernelLaunch:
    """A thread for each vector of the target."""
    problem, conversion = choice.problem, choice.problem.conversion
    _, channels, height, width = problem.target.layout.sizes
    planes, run = (1, width * channels) if choice.stores_pixels else (channels, width)
    vectors = -(-run * conversion.target.itemsize // choice.store.nbytes)
    items = samples * planes * height * vectors
    bits = index_bits(items)
    block, affines, order = _common(choice)
    block.add_indices(items, bits=64)
    block.add_divisors(vectors, height, planes, bits=bits)
    block.add_divisors(channels, bits=32)
    block.add_indices(width, bits=32)
    name = instantiation(
        "resize_nearest",
        (conversion_argument(conversion), index_argument(bits)),
        "ResizeNearestPolicy",
        pixels=choice.stores_pixels,
        frames=problem.reads_frames,
        store_bytes=choice.store.nbytes,
        affines=affines,
        order=order,
    )
    threads = choice.limits.threads
    return block.launch("resize_nearest.cu", name, -(-items // threads), threads)


def _by_pairs(choice: ResizeChoice, taps: Sequence[WindowTaps]) -> KernelLaunch:
    """A thread for a few pixels of some rows; of fewer rows where threads are few."""
    problem, conversion = choice.problem, choice.problem.conversion
    _, channels, height, width = problem.target.layout.sizes
    vectors = -(-width // choice.pixels)
    threads, rows = choice.limits.threads, choice.limits.pairs.rows
    columns = vectors * choice.groups * len(taps)
    while rows > 1 and columns * -(-height // rows) < choice.gpu.multiprocessors * choice.limits.pairs.least_threads:
        rows //= 2
    items = columns * -(-height // rows)
    bits = index_bits(items)
    block, affines, order = _common(choice)
    block.add_indices(items, bits=64)
    block.add_divisors(vectors, -(-height // rows), choice.groups, bits=bits)
    block.add_divisors(channels, bits=32)
    block.add_indices(height, width, rows, bits=32)
    name = instantiation(
        "resize_pairs",
        (_quad_reader(choice), conversion_argument(conversion), index_argument(bits)),
        "ResizePairsPolicy",
        arithmetic=f"sg::ResizeArithmetic::{taps[0].arithmetic.replace('-', '_')}",
        length=choice.pixels,
        affines=affines,
        order=order,
    )
    return block.launch("resize_pairs.cu", name, -(-items // threads), threads)


def _quad_reader(choice: ResizeChoice) -> str:
    """The type that fetches the pixels of two taps along either axis."""
    element, (_, column) = choice.problem.conversion.source, choice.problem.source_steps
    if choice.problem.reads_frames:
        return f"sg::FrameQuadReader<sg::{element}>"
    step = column if choice.reads_whole or column == 1 else 0
    return f"sg::QuadReader<sg::{element}, {choice.count}, {step}>"


def _common(choice: ResizeChoice) -> tuple[ParameterBlock, str, str]:
    """The parameters of both kernels up to the target's strides, and the arguments of affines and order."""
    problem, layout = choice.problem, choice.problem.target.layout
    block = ParameterBlock(choice.index_bits)
    block.add(bytes(8), 8)
    block.add_table(problem.fill or bytes(problem.channels * problem.conversion.source.itemsize))
    affines = block.add_affines(problem.conversion)
    order = block.add_order(problem.conversion, 1, bits=32)
    block.add_indices(layout.offset, *layout.strides)
    return block, affines, order


def _reader(choice: ResizeChoice, element: ElementType) -> str:
    if choice.family is ResizeFamily.FRAMES:
        return f"sg::FrameReader<sg::{element}>"
    kind = "ElementReader" if choice.family is ResizeFamily.ELEMENTS else "RunReader"
    return f"sg::{kind}<sg::{element}, {choice.count}>"


def resize_samples(
    problem: ResizeProblem, windows: Sequence[ResizeWindow], sources: Sequence[ResizeSource]
) -> list[list[ResizeSample]]:
    """The samples of each launch: those that are summed alike, in one order of passes.

    Raises `DeviceError` for a frame whose samples have no common step.
    """
    together: dict[tuple[ResizeSums, bool], list[ResizeSample]] = {}
    for number, (window, taps, source) in enumerate(zip(windows, problem.taps_of(windows), sources, strict=True)):
        frame, address = b"", 0
        if isinstance(source, FrameOperand):
            frame = frame_record(source)
        else:
            buffer, start = source
            address = buffer.address + start
            if problem.reads_frames:
                frame = colours_record(window.layout, address, problem.conversion.source)
        sample = ResizeSample(window, taps, address, number, problem.visible(window), frame)
        together.setdefault((taps.arithmetic, taps.columns_first), []).append(sample)
    return list(together.values())


def resize_records(samples: Sequence[ResizeSample], itemsize: int) -> bytes:
    """The records of a launch's samples, and behind them their taps, each geometry's once, and their frames."""
    tables: list[bytes] = []
    places: dict[int, tuple[tuple[int, int, int, int, int, bool], int]] = {}
    end = len(samples) * _SAMPLE.size

    def axis(taps: AxisTaps, arithmetic: ResizeSums) -> tuple[tuple[int, int, int, int, int, bool], int]:
        nonlocal end
        place = places.get(id(taps))
        if place is None:
            spans, weights, zeros = _table(taps, arithmetic)
            tables.extend((spans, weights))
            most = 1 if taps.copies else taps.most
            place = places[id(taps)] = (end, end + len(spans), most, taps.first, taps.stop, taps.copies), zeros
            end += len(spans) + len(weights)
        return place

    records = []
    for sample in samples:
        layout, taps = sample.window.layout, sample.taps
        (rows, row_zeros), (columns, column_zeros) = (axis(one, taps.arithmetic) for one in (taps.rows, taps.columns))
        place = (*sample.place, sample.number, taps.factor)
        if sample.frame:
            records.append(_SAMPLE.pack(*(0,) * 6, *rows, *columns, *place, end, 0, 0))
            tables.append(sample.frame)
            end += len(sample.frame)
            continue
        low, high = sample.address, sample.address + layout.span * itemsize
        first = low + (layout.offset - layout.first_offset) * itemsize
        zeros = row_zeros, column_zeros
        records.append(_SAMPLE.pack(first, low, high, *layout.strides, *rows, *columns, *place, 0, *zeros))
    return b"".join((*records, *tables))


@bounded_cache
def _table(taps: AxisTaps, arithmetic: ResizeSums) -> tuple[bytes, bytes, int]:
    """The spans and the weights of one axis, each whole multiples of 8 bytes, and the zeros that all weights end in."""
    spans = np.stack([taps.starts, taps.counts], axis=1).astype("<i4").tobytes()
    weights = np.full((taps.count, 1), _COPIED[arithmetic]) if taps.copies else taps.weights
    packed = weights.astype(np.dtype(arithmetic.spec.weights).newbyteorder("<")).tobytes()
    zeros = zero_bits(taps) if arithmetic is ResizeSums.FIXED_POINT else 0
    count_bytes(taps.nbytes + len(spans) + len(packed))
    return spans, packed + bytes(-len(packed) % _SPAN_BYTES), zeros
