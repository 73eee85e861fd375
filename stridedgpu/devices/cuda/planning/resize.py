"""`ResizeChoice`: the CUDA kernel of a resize, its access widths, and its tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from stridedgpu.planning.device_plan import Width, in_words
from stridedgpu.planning.resize_arithmetic import Arithmetic, arithmetic_of
from stridedgpu.planning.resize_problem import ResizeProblem, WindowTaps
from stridedgpu.values.errors import DeviceError

from .gpu import GpuProperties
from .policy import ResizePolicy, policy
from .resize_tiles import ResizeTiles, TileUse, resize_tiles
from .widths import Bound, alignment_bound, bounded_width, stride_bound

__all__ = ["ResizeChoice", "ResizeFamily", "choose_resize"]

_VECTOR_BYTES: Final = 16
"""Bytes of the widest access; source rows are staged, and tiles read, in such vectors of shared memory."""

_FRAME_GROUP: Final = 8
"""Pixels of a frame's row whose luma is one load, if it is an aligned vector: `sg::FrameGroups`."""


class ResizeFamily(StrEnum):
    """Kinds of source reads, by the contiguity of the source."""

    PIXELS = "pixels"
    PLANES = "planes"
    ELEMENTS = "elements"
    FRAMES = "frames"
    NEAREST = "nearest"

    @property
    def description(self) -> str:
        """The family in plain words."""
        return _DESCRIPTIONS[self]


_WHOLE_PIXELS: Final = (ResizeFamily.PIXELS, ResizeFamily.FRAMES)
"""The families that resize all channels of the source together."""

_DESCRIPTIONS: Final = {
    ResizeFamily.PIXELS: "pixels: rows of whole pixels are staged in shared memory as they lie, all channels together",
    ResizeFamily.PLANES: "planes: rows of one channel are staged in shared memory as they lie, each by itself",
    ResizeFamily.ELEMENTS: "elements: rows are staged in shared memory element by element, up to 4 channels together",
    ResizeFamily.FRAMES: "frames: rows are converted from luma and chroma while they are staged in shared memory",
    ResizeFamily.NEAREST: "nearest: each element of a store is fetched from the pixel that it is a copy of",
}


@dataclass(frozen=True, slots=True)
class ResizeChoice:
    """The kernel of a resize on one GPU, with its access widths and tiles.

    `load` is the width of a load from a run that is long enough, at any address; `store` is the width of a store. A
    block resizes `count` channels together. With `stores_pixels`, a store takes adjacent elements of interleaved
    pixels. `limits` are the threads of a block and the tiles to try, largest first. `tiles` are those of the problem's
    window, or None if every call states its windows.
    """

    problem: ResizeProblem
    gpu: GpuProperties
    family: ResizeFamily
    load: Width
    store: Width
    count: int
    stores_pixels: bool
    limits: ResizePolicy
    tiles: ResizeTiles | None

    @property
    def kernel(self) -> str:
        """The kernel's name: family, then type and bytes of a load and of a store."""
        made = self.problem.conversion
        frames = "_frames" if self.problem.reads_frames and self.family is ResizeFamily.NEAREST else ""
        return f"resize_{self.family}{frames}_{made.source}x{self.load.nbytes}B_{made.target}x{self.store.nbytes}B"

    @property
    def index_bits(self) -> int:
        """Bits of the offsets within an image, as its record stores them."""
        return 64

    @property
    def groups(self) -> int:
        """The number of blocks that share the channels of a tile."""
        together = self.problem.target.layout.sizes[1] if self.family in _WHOLE_PIXELS else self.count
        return -(-self.problem.target.layout.sizes[1] // together)

    def use(self, arithmetic: Arithmetic, *, columns_first: bool) -> TileUse:
        """The inputs of the choice of a tile."""
        made = self.problem.conversion
        length = self.store.nbytes // made.target.itemsize
        return TileUse(arithmetic, columns_first, made.source.itemsize, self.count, length)

    def for_taps(self, taps: Sequence[WindowTaps]) -> ResizeChoice:
        """The choice for windows with one arithmetic and one order of passes: it has their tiles.

        Raises `DeviceError` if the source pixels of one result pixel exceed shared memory.
        """
        if self.family is ResizeFamily.NEAREST:
            return self
        _, _, height, width = self.problem.target.layout.sizes
        use = self.use(taps[0].arithmetic, columns_first=taps[0].columns_first)
        tiles = resize_tiles(use, taps, (height, width), self.gpu.shared_bytes, self.limits)
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
            store = Width(itemsize, "wider tiles reach more of the source than shared memory holds")
        return replace(self, store=store, tiles=tiles)

    def in_words(self) -> list[str]:
        """The kernel in lines, as plans explain it."""
        return [
            self.family.description,
            *self.problem.in_words(),
            f"writes in steps of {self.problem.target.layout.strides} elements along N, C, H, W",
            in_words("loads", self.load),
            in_words("stores", self.store),
            *self._tile_words(),
        ]

    def _tile_words(self) -> list[str]:
        """The lines about the tile and its shared memory."""
        if self.family is ResizeFamily.NEAREST:
            return []
        block = f"a block of {self.limits.threads} threads makes"
        if self.tiles is None:
            (height, width), (nbytes, rows) = self.limits.tiles[0], self.limits.budgets[0]
            return [
                f"{block} up to {height} x {width} pixels of {self.count} channels",
                f"a call has the largest tile that fits {nbytes} B of shared memory, {rows} source rows at a time",
            ]
        tiles = self.tiles
        read = f"{tiles.reach[0]} x {tiles.reach[1]} of the source, {tiles.chunk_rows} rows at a time"
        return [
            f"{block} {tiles.height} x {tiles.width} pixels of {self.count} channels, of up to {read}",
            f"{tiles.shared_bytes} B of shared memory",
        ]


def choose_resize(problem: ResizeProblem, gpu: GpuProperties) -> ResizeChoice:
    """The kernel for a problem.

    Raises `DeviceError` for resizes that only the CPU does.
    """
    arithmetic = arithmetic_of(problem.rule.interpolation, problem.conversion.source)
    family, count = _family(problem, copies=arithmetic is Arithmetic.COPY)
    if problem.rule.premultiplies and family is not ResizeFamily.PIXELS:
        raise DeviceError(
            f"{gpu.name} weights colours by alpha where the channels of a picture's pixels lie side by side, without "
            "gaps, and all pictures are alike; relayout to NHWC first, or resize on the CPU."
        )
    layout = problem.target.layout
    channels = layout.sizes[1]
    together = family in _WHOLE_PIXELS or count == channels
    pixels = layout.strides[3] == channels > 1 and layout.strides[1] == 1 and together
    load, store = _load_width(problem, family), _store_width(problem, pixels=pixels)
    choice = ResizeChoice(problem, gpu, family, load, store, count, pixels, policy().resize, None)
    if problem.window is None or layout.element_count == 0:
        return choice
    return choice.for_taps([problem.taps(problem.window)])


def _family(problem: ResizeProblem, *, copies: bool) -> tuple[ResizeFamily, int]:
    """The family, and the number of channels resized together."""
    layout, (channel, column) = problem.target.layout, problem.source_steps
    made = layout.sizes[1]
    if copies:
        return ResizeFamily.NEAREST, 1
    if problem.reads_frames:
        return ResizeFamily.FRAMES, problem.channels
    if channel == 1 and 2 <= column == problem.channels <= policy().resize.together:
        return ResizeFamily.PIXELS, column
    if column == 1 and (layout.strides[3] == 1 or made == 1):
        return ResizeFamily.PLANES, 1
    return ResizeFamily.ELEMENTS, min(made, policy().resize.together)


def _load_width(problem: ResizeProblem, family: ResizeFamily) -> Width:
    """The width of a load from a row of the source."""
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
    read = problem.conversion.source.itemsize
    bounds = [
        alignment_bound("target", target.alignment),
        *(
            stride_bound("target", abs(layout.strides[axis]) * itemsize, _VECTOR_BYTES)
            for axis in ((0, 2) if pixels else (0, 1, 2))
            if layout.sizes[axis] > 1
        ),
        Bound(_VECTOR_BYTES // read * itemsize, f"a thread takes up to {_VECTOR_BYTES} B of resized pixels"),
    ]
    if layout.offset:
        bounds.append(Bound(layout.offset * itemsize, "the target runs backwards"))
    return bounded_width(bounds, itemsize, _VECTOR_BYTES)
