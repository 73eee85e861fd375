"""Frames of luma and chroma, to RGB and from RGB: the choice of a kernel, its launch, and the addresses of a call.

The parameters of `frames.cu` and `frame_pixels.cu` begin with the addresses of luma and of the target's lowest element,
followed by what `PLACE` packs: the addresses of chroma, and the row and column of the window's first pixel. The
addresses are those of the planes for `frames.cu`, and of each kind's first sample for `frame_pixels.cu`. Those of
`frame_encode.cu` begin with red and the first sample of luma, followed by what `PLACES` packs: green, blue, and the
first samples of chroma. The device writes them; here they are 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.planning.device_plan import Width, in_words, index_bits
from stridedgpu.planning.frame_problem import FrameProblem, FrameSurface, SamplesProblem
from stridedgpu.values.colour_matrix import ColourMatrix
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import DeviceError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.pixel_formats import PixelFormat

from .gpu import LONGEST_ROW, KernelLaunch, divisor_words
from .parameters import (
    ParameterBlock,
    conversion_argument,
    index_argument,
    instantiation,
    number_argument,
    product_argument,
    sums_are_finite,
)
from .policy import policy
from .widths import Bound, alignment_bound, bounded_width, stride_bound


@dataclass(frozen=True, slots=True)
class SampleStrides:
    """Where the samples of one kind lie: the plane, its first sample, and the steps between rows and columns.

    `first`, `row` and `column` are in elements; rows and columns are those of the samples.
    """

    plane: int
    first: int
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class FramePixelsChoice:
    """The kernel of a problem, with scalar loads and stores."""

    problem: FrameProblem
    load: Width
    store: Width
    index_bits: int

    @property
    def family(self) -> str:
        """The only family: each pixel is stored by itself."""
        return "single"

    @property
    def kernel(self) -> str:
        """The kernel's name: format and chroma, the rows of the matrix if there is one, source type and target type."""
        problem, made = self.problem, self.problem.conversion
        mixed = "" if made.matrix is None else f"_matrix{len(made.matrix)}x3"
        return f"frames_single_{problem.samples.name}_{problem.chroma}{mixed}_{made.source}_{made.target}"

    def in_words(self) -> list[str]:
        """The kernel in lines, as plans explain it."""
        accesses = in_words("loads", self.load) + "; " + in_words("stores", self.store)
        pixels = "a thread makes the two pixels of a chroma sample, one by one"
        return [pixels, *self.problem.in_words(), accesses, f"{self.index_bits}-bit offsets"]


def choose_frame_pixels(problem: FrameProblem) -> FramePixelsChoice:
    """The kernel on any GPU. Raises `DeviceError` for packed planes whose samples have no common step."""
    sample_strides(problem.samples, problem.plane_strides)
    layout, why = problem.target.layout, "a thread has the samples of two pixels, wherever they are"
    _, height, width = layout.sizes
    return FramePixelsChoice(
        problem,
        Width(problem.samples.element.itemsize, why),
        Width(problem.target.element.itemsize, why),
        index_bits(max(layout.span, height * (width // 2 + 1))),
    )


def sample_strides(samples: PixelFormat, plane_strides: tuple[tuple[int, ...], ...]) -> tuple[SampleStrides, ...]:
    """Where luma and both kinds of chroma lie. Raises `DeviceError` for packed pixels with gaps between the samples."""
    found = []
    for kind in samples.channels:
        plane, (row, *steps) = samples.planes[kind.plane], plane_strides[kind.plane]
        across, inner = steps[0], steps[-1]
        if kind.step != plane.samples and across != plane.samples * inner:
            raise DeviceError(
                f"A plane of {samples.name} has strides {(row, *steps)}; a GPU takes pixels whose samples follow each "
                "other: relayout the plane before."
            )
        column = across if kind.step == plane.samples else kind.step * inner
        found.append(SampleStrides(kind.plane, kind.first * inner, row, column))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class FrameChoice:
    """The kernel of a problem: `length` pixels a thread, stored as vectors of planes, as whole pixels, or singly."""

    problem: FrameProblem
    load: Width
    store: Width
    length: int
    of_pixels: bool
    of_vectors: bool
    index_bits: int

    @property
    def family(self) -> str:
        """What a thread stores: whole "pixels", or columns of "planes"."""
        return "pixels" if self.of_pixels else "planes"

    @property
    def kernel(self) -> str:
        """The kernel's name: family, format, linear chroma, matrix; then type and bytes of a load and of a store."""
        made, frames = self.problem.conversion, self.problem.samples.name
        linear = "_linear" if self.problem.chroma == "linear" else ""
        mixed = "" if made.matrix is None else f"_matrix{len(made.matrix)}x3"
        reads = f"{frames}{linear}{mixed}_{made.source}x{self.load.nbytes}B"
        return f"frames_{self.family}_{reads}_{made.target}x{self.store.nbytes}B"

    def in_words(self) -> list[str]:
        """The kernel in lines, as plans explain it."""
        accesses = in_words("loads", self.load) + "; " + in_words("stores", self.store)
        together = f"{self.family}: a thread makes {self.length} neighbouring pixels of a row"
        return [together, *self.problem.in_words(), accesses, f"{self.index_bits}-bit offsets"]


def choose_frame(problem: FrameProblem, widest: int = 16) -> FrameChoice | FramePixelsChoice:
    """The kernel on a GPU with accesses of up to `widest` bytes.

    Raises `DeviceError` for a matrix with too many rows, and for packed planes whose samples have no common step.
    Samples that do not follow each other are for the kernel of single pixels.
    """
    made, target, limits = problem.conversion, problem.target, policy().frames
    rows, most = len(made.matrix or ()), policy().channel_matrix.most_channels
    if rows > most:
        raise DeviceError(
            f"matrix= has {rows} rows: a GPU mixes the colours of a frame into up to {most} channels; bring the frame "
            "to the CPU with to_device('cpu')."
        )
    follow = all(
        strides[1:] == ((plane.samples, 1) if plane.samples > 1 else (1,))
        for plane, strides in zip(problem.samples.planes, problem.plane_strides, strict=True)
    )
    if not follow:
        return choose_frame_pixels(problem)
    layout, itemsize = target.layout, target.element.itemsize
    pixel_bytes = problem.samples.channels[0].step * problem.samples.element.itemsize
    pixels = min(_most_pixels(problem), limits.luma_bytes // pixel_bytes)
    count, height, width = layout.sizes
    across, down, right = layout.strides
    joins = across == 1 and right == count and 2 <= count <= limits.most_joined and itemsize <= 4
    splits = right == 1 or width == 1
    store = Width(itemsize, "the target's columns do not lie side by side")
    if joins or splits:
        outer = [(down, height)] if joins else [(down, height), (across, count)]
        bounds = [
            alignment_bound("target", target.alignment),
            *(stride_bound("target", abs(step) * itemsize, widest) for step, size in outer if size > 1),
            Bound(pixels * itemsize, f"a thread makes up to {pixels} pixels"),
        ]
        if made.matrix is not None:
            sums = limits.sums_bytes // made.compute.itemsize
            bounds.append(Bound(sums * itemsize, f"a thread has {sums} sums of {made.compute} in registers"))
        if layout.offset:
            lowest = layout.offset * itemsize
            bounds.append(Bound(lowest & -lowest, "the target runs backwards"))
        store = bounded_width(bounds, itemsize, widest)
    length = store.nbytes // itemsize
    vectors = length >= 2
    if not vectors:
        length = limits.single_pixels
    load = length * pixel_bytes
    return FrameChoice(
        problem,
        Width(load, "what one thread's pixels take" if load < widest else ""),
        store,
        length,
        joins and vectors,
        splits and vectors,
        index_bits(max(layout.span, height * -(-width // length))),
    )


def _most_pixels(problem: FrameProblem) -> int:
    """Pixels of a thread that its registers hold, and that rows of the planes have as aligned vectors."""
    limits, itemsize = policy().frames, problem.samples.element.itemsize
    are_aligned = all(strides[0] * itemsize % limits.luma_bytes == 0 for strides in problem.plane_strides)
    if problem.target.element.itemsize == 1 and problem.chroma == "repeated" and are_aligned:
        return limits.byte_pixels
    return limits.most_pixels


_SHAPE: Final = struct.Struct("<3q 3q 4i 7i 4x")
"""`sg::FrameShape`, aligned to 8 bytes."""

_SAMPLES: Final = struct.Struct("<3Q")
"""The addresses of `sg::FrameRecord`, before its shape."""

_KINDS: Final = {"repeated": 0, "linear": 1}

_COLOURS: Final = 2
"""The values of `sg::FrameKind`."""


def matrix_words(matrix: ColourMatrix) -> tuple[int, ...]:
    """The members of `sg::FrameMatrix`, in their order."""
    return (
        matrix.luma_floor,
        matrix.chroma_centre,
        matrix.luma,
        matrix.red_v,
        matrix.green_u,
        matrix.green_v,
        matrix.blue_u,
    )


def frame_shape(surface: FrameSurface) -> bytes:
    """The `sg::FrameShape` of luma-chroma frames. Raises `DeviceError` for samples without a common step."""
    strides = sample_strides(surface.samples, surface.plane_strides)
    down, right = surface.samples.chroma_step
    height, width = surface.sizes
    return _SHAPE.pack(
        *(kind.row for kind in strides),
        *(kind.column for kind in strides),
        down.bit_length() - 1,
        height // down,
        width // right,
        _KINDS[surface.chroma],
        *matrix_words(surface.matrix),
    )


def frame_record(frame: FrameOperand) -> bytes:
    """The `sg::FrameRecord` of a luma-chroma frame. Raises `DeviceError` for samples without a common step."""
    surface, itemsize = frame.surface, frame.element.itemsize
    strides = sample_strides(surface.samples, surface.plane_strides)
    addresses = (frame.planes[kind.plane].address + kind.first * itemsize for kind in strides)
    return _SAMPLES.pack(*addresses) + frame_shape(surface)


def colours_record(layout: Layout, address: int, element: ElementType) -> bytes:
    """The `sg::FrameRecord` of an RGB image with axes C, H, W, whose lowest element is at `address`."""
    across, down, right = layout.strides
    first = address + (layout.offset - layout.first_offset) * element.itemsize
    addresses = (first + channel * across * element.itemsize for channel in range(3))
    return _SAMPLES.pack(*addresses) + _SHAPE.pack(*(down,) * 3, *(right,) * 3, 0, 0, 0, _COLOURS, *(0,) * 7)


PLACE: Final = struct.Struct("<QQII")
"""Behind source and target: two addresses of chroma, 0 if there is none, and the window's first row and column."""

_PLANES: Final = {1: "packed", 2: "pairs", 3: "apart"}


def frames_launch(choice: FrameChoice | FramePixelsChoice) -> KernelLaunch:
    """The kernel, grid and parameters that carry out a choice.

    Raises `LayoutError` for a window without pixels: there is nothing to launch.
    """
    layout = choice.problem.target.layout
    if layout.element_count == 0:
        raise LayoutError(f"A window of sizes {layout.sizes} has no elements; there is nothing to launch.")
    if max(layout.sizes[1:]) > LONGEST_ROW:
        raise LayoutError(f"A window of sizes {layout.sizes}: a GPU takes rows of up to {LONGEST_ROW} pixels.")
    return _pixels_launch(choice) if isinstance(choice, FramePixelsChoice) else _vectors_launch(choice)


def _vectors_launch(choice: FrameChoice) -> KernelLaunch:
    """Several pixels a thread."""
    problem, bits = choice.problem, choice.index_bits
    made, layout, samples = problem.conversion, problem.target.layout, problem.samples
    count, height, width = layout.sizes
    vectors = -(-width // choice.length)
    items = height * vectors
    block = ParameterBlock()
    block.add(bytes(PLACE.size), 8)
    is_finite = True
    if made.matrix is None:
        product = encode = conversion_argument(made)
        block.add(bytes(made.source.itemsize), made.source.itemsize)
        affines = block.add_affines(made)
    else:
        encoding, is_finite = _encoding(made), sums_are_finite(made.source, made.compute, made.matrix)
        product = product_argument(made.source, made.compute, made.matrix)
        encode = number_argument(encoding, source_is_finite=is_finite)
        block.add_numbers([number for row in made.matrix for number in row], made.compute)
        affines = block.add_affines(encoding, made.compute)
    for number in range(3):
        stride = problem.plane_strides[number][0] if number < len(problem.plane_strides) else 0
        block.add_index(stride, 64)
    for word in divisor_words(vectors, bits):
        block.add_index(word, bits)
    across, down, right = layout.strides
    for value in (across, down, right, layout.offset, items):
        block.add_index(value, bits)
    for constant in matrix_words(problem.matrix):
        block.add_int32(constant)
    rows, columns = samples.chroma_step
    for extent in (width, problem.sizes[0] // rows, problem.sizes[1] // columns):
        block.add_index(extent, 32)
    apart = len(samples.planes) == 3
    luma, *chroma = samples.channels
    blue, red = (channel.plane - 1 if apart else channel.first for channel in chroma)
    name = instantiation(
        "frames",
        (product, encode, index_argument(bits)),
        "FramesPolicy",
        planes=f"sg::FramePlanes::{_PLANES[len(samples.planes)]}",
        chroma_rows=rows,
        linear=problem.chroma == "linear",
        luma=luma.first,
        blue=blue,
        red=red,
        rows=len(made.matrix or ()),
        finite=is_finite,
        count=count,
        places=_places(problem),
        length=choice.length,
        of_pixels=choice.of_pixels,
        of_vectors=choice.of_vectors,
        affines=affines,
    )
    return block.launch_of("frames.cu", name, items)


def _pixels_launch(choice: FramePixelsChoice) -> KernelLaunch:
    """The two pixels of a chroma sample a thread."""
    problem, bits = choice.problem, choice.index_bits
    made, layout = problem.conversion, problem.target.layout
    count, height, width = layout.sizes
    pairs = width // 2 + 1
    items = height * pairs
    block = ParameterBlock()
    block.add(bytes(PLACE.size), 8)
    if made.matrix is None:
        decode = encode = conversion_argument(made)
        block.add(bytes(made.source.itemsize), made.source.itemsize)
        affines = block.add_affines(made)
    else:
        encoding = _encoding(made)
        decode, encode = number_argument(Conversion(made.source, made.compute)), number_argument(encoding)
        block.add_numbers([number for row in made.matrix for number in row], made.compute)
        affines = block.add_affines(encoding, made.compute)
    surface = FrameSurface(problem.samples, problem.sizes, problem.plane_strides, problem.matrix, problem.chroma)
    block.add(frame_shape(surface), 8)
    for word in divisor_words(pairs, bits):
        block.add_index(word, bits)
    across, down, right = layout.strides
    for value in (across, down, right, layout.offset, items):
        block.add_index(value, bits)
    block.add_index(width, 32)
    name = instantiation(
        "frame_pixels",
        (decode, encode, index_argument(bits)),
        "FramePixelsPolicy",
        rows=len(made.matrix or ()),
        count=count,
        places=_places(problem),
        affines=affines,
    )
    return block.launch_of("frame_pixels.cu", name, items)


def _places(problem: FrameProblem) -> str:
    """The colour of each channel as hexadecimal digits, the first channel's last."""
    return f"{sum(place << 4 * channel for channel, place in enumerate(problem.order)):#x}"


def _encoding(made: Conversion) -> Conversion:
    """From the sums of a matrix to elements of the target."""
    return Conversion(made.compute, made.target, made.scale, made.bias, None, made.rounding)


def window_place(
    choice: FrameChoice | FramePixelsChoice, addresses: Sequence[int], origin: tuple[int, int]
) -> tuple[int, bytes]:
    """For a window whose first pixel is at `origin`: the address of luma, and what `PLACE` packs.

    `addresses` are those of each plane's first sample.
    """
    problem = choice.problem
    if isinstance(choice, FramePixelsChoice):
        strides, itemsize = sample_strides(problem.samples, problem.plane_strides), problem.samples.element.itemsize
        luma, *chroma = (addresses[kind.plane] + kind.first * itemsize for kind in strides)
    else:
        luma, *chroma = (*addresses, 0, 0)[:3]
    return luma, PLACE.pack(*chroma, *origin)


@dataclass(frozen=True, slots=True)
class FrameEncodeChoice:
    """The kernel of a problem, with scalar loads and stores."""

    problem: SamplesProblem
    load: Width
    store: Width
    index_bits: int

    @property
    def family(self) -> str:
        """The only family: each thread makes the samples of a pair of pixels."""
        return "pairs"

    @property
    def kernel(self) -> str:
        """The kernel's name: the format and its element type."""
        return f"frame_encode_{self.problem.samples.name}_{self.problem.samples.element}"

    def in_words(self) -> list[str]:
        """The kernel in lines, as plans explain it."""
        accesses = in_words("loads", self.load) + "; " + in_words("stores", self.store)
        return ["a thread makes a pair of pixels", *self.problem.in_words(), accesses, f"{self.index_bits}-bit offsets"]


def choose_frame_encode(problem: SamplesProblem, widest: int = 16) -> FrameEncodeChoice:  # noqa: ARG001
    """The kernel on any GPU. Raises `DeviceError` for packed planes whose samples have no common step."""
    sample_strides(problem.samples, problem.plane_strides)
    height, width = problem.sizes
    access = Width(problem.samples.element.itemsize, "a thread has a pair of pixels")
    return FrameEncodeChoice(problem, access, access, index_bits(height * width))


PLACES: Final = struct.Struct("<4Q")
"""Behind red and luma: the addresses of green, blue, and of both kinds of chroma, 0 without chroma."""


def frame_encode_launch(choice: FrameEncodeChoice) -> KernelLaunch:
    """The kernel, grid and parameters that carry out a choice. Raises `LayoutError` for rows that are too long."""
    problem, bits = choice.problem, choice.index_bits
    (height, width), (down, right) = problem.sizes, problem.samples.chroma_step
    if max(height, width) > LONGEST_ROW:
        raise LayoutError(f"A frame of {height} x {width}: a GPU takes rows of up to {LONGEST_ROW} pixels.")
    kinds, matrix = sample_strides(problem.samples, problem.plane_strides), problem.matrix
    missing = (0,) * (3 - len(kinds))
    pairs = -(-width // 2)
    items = height // down * pairs
    number_bits = 32 if problem.samples.element.itemsize == 1 else 64
    block = ParameterBlock()
    block.add(bytes(PLACES.size), 8)
    steps = [layout.strides for layout in problem.colours]
    strides = (*(step[0] for step in steps), *(step[1] for step in steps))
    for stride in (*strides, *(k.row for k in kinds), *missing, *(k.column for k in kinds), *missing):
        block.add_index(stride, 64)
    for weight in (*matrix.y, *matrix.u, *matrix.v):
        block.add_index(weight, number_bits)
    for value in (matrix.bits, matrix.most, matrix.shift):
        block.add_int32(value)
    block.add(b"", number_bits // 8)  # the end of a structure
    block.add_index(width, 32)
    for word in (*divisor_words(pairs, bits), items):
        block.add_index(word, bits)
    name = instantiation(
        "frame_encode",
        (f"sg::{problem.samples.element}", index_argument(bits)),
        "FrameEncodePolicy",
        rows=down,
        chroma=right == 2,
        sums=(down, right) == (1, 2),
    )
    return block.launch_of("frame_encode.cu", name, items)


def sample_addresses(problem: SamplesProblem, planes: Sequence[int]) -> tuple[int, ...]:
    """The addresses of the first samples of luma and of both kinds of chroma, 0 without chroma.

    `planes` are the addresses of each plane's first sample.
    """
    itemsize = problem.samples.element.itemsize
    kinds = sample_strides(problem.samples, problem.plane_strides)
    return (*(planes[kind.plane] + kind.first * itemsize for kind in kinds), 0, 0)[:3]
