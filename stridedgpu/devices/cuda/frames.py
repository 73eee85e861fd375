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
from stridedgpu.problems.device_plan import Width, index_bits
from stridedgpu.problems.frame_problem import FrameProblem, FrameSurface, SamplesProblem
from stridedgpu.values.colour_matrix import FRACTION_BITS, ColourMatrix
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import DeviceError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.pixel_formats import PixelFormat

from .choice import Bound, CudaPlan, NamedChoice, backwards_bound, row_width
from .gpu import LONGEST_ROW, THREADS, KernelLaunch
from .parameters import (
    ParameterBlock,
    conversion_argument,
    index_argument,
    instantiation,
    matrix_encoding,
    number_argument,
    places_argument,
    product_argument,
    sums_are_finite,
)
from .policy import policy


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
class FramePixelsChoice(NamedChoice[FrameProblem]):
    """The kernel of frames whose samples lie anywhere, with scalar loads and stores."""


def choose_frame_pixels(problem: FrameProblem) -> FramePixelsChoice:
    """The kernel on any GPU. Raises `DeviceError` for packed planes whose samples have no common step."""
    sample_strides(problem.samples, problem.plane_strides)
    layout, why = problem.target.layout, "a thread has the samples of two pixels, wherever they are"
    _, height, width = layout.sizes
    conversion = problem.conversion
    reads = f"{problem.samples.name}_{problem.chroma}{_mixed(conversion)}"
    return FramePixelsChoice(
        problem,
        Width(problem.samples.element.itemsize, why),
        Width(problem.target.element.itemsize, why),
        index_bits(max(layout.span, height * (width // 2 + 1))),
        "single",
        f"frames_single_{reads}_{conversion.source}_{conversion.target}",
        "a thread makes the two pixels of a chroma sample, one by one",
    )


def sample_strides(samples: PixelFormat, plane_strides: tuple[tuple[int, ...], ...]) -> tuple[SampleStrides, ...]:
    """Where luma and both kinds of chroma lie. Raises `DeviceError` for packed pixels with gaps between the samples."""
    strides = []
    for kind in samples.channels:
        plane, (row, *steps) = samples.planes[kind.plane], plane_strides[kind.plane]
        across, inner = steps[0], steps[-1]
        if kind.step != plane.samples and across != plane.samples * inner:
            raise DeviceError(
                f"A plane of {samples.name} has strides {(row, *steps)}; a GPU takes pixels whose samples follow each "
                "other: relayout the plane before."
            )
        column = across if kind.step == plane.samples else kind.step * inner
        strides.append(SampleStrides(kind.plane, kind.first * inner, row, column))
    return tuple(strides)


@dataclass(frozen=True, slots=True)
class FrameChoice(CudaPlan[FrameProblem]):
    """The kernel of a problem: `length` pixels a thread, stored as vectors of planes, as whole pixels, or singly.

    The family says what a thread stores: whole "pixels", or columns of "planes".
    """

    length: int
    of_vectors: bool

    @property
    def kernel(self) -> str:
        """The kernel's name: family, format, linear chroma, matrix; then type and bytes of a load and of a store."""
        conversion = self.problem.conversion
        linear = "_linear" if self.problem.chroma == "linear" else ""
        reads = f"{self.problem.samples.name}{linear}{_mixed(conversion)}_{conversion.source}x{self.load.nbytes}B"
        return f"frames_{self.family}_{reads}_{conversion.target}x{self.store.nbytes}B"

    @property
    def summary(self) -> str:
        """What a thread does."""
        return f"{self.family}: a thread makes {self.length} neighbouring pixels of a row"


def _mixed(conversion: Conversion) -> str:
    """The sizes of the matrix, in a kernel's name."""
    return "" if conversion.matrix is None else f"_matrix{len(conversion.matrix)}x3"


def choose_frame(problem: FrameProblem, widest: int = 16) -> FrameChoice | FramePixelsChoice:
    """The kernel on a GPU with accesses of up to `widest` bytes.

    Raises `DeviceError` for a matrix with too many rows, and for packed planes whose samples have no common step.
    Samples that do not follow each other, planes of colours and packed samples of 16 bits are for the kernel of single
    pixels.
    """
    conversion, target, limits = problem.conversion, problem.target, policy().frames
    rows, most = len(conversion.matrix or ()), policy().channel_matrix.most_channels
    if rows > most:
        raise DeviceError(
            f"matrix= has {rows} rows: a GPU mixes the colours of a frame into up to {most} channels; bring the frame "
            "to the CPU with to_device('cpu')."
        )
    follow = problem.samples.kind == "yuv" and all(
        strides[1:] == ((plane.samples, 1) if plane.samples > 1 else (1,))
        for plane, strides in zip(problem.samples.planes, problem.plane_strides, strict=True)
    )
    is_packed = len(problem.samples.planes) == 1
    if not follow or (is_packed and problem.samples.element.itemsize > 1):
        return choose_frame_pixels(problem)
    layout, itemsize = target.layout, target.element.itemsize
    pixel_bytes = problem.samples.element.itemsize * max(
        plane.samples // plane.columns for plane in problem.samples.planes
    )
    pixels = min(_most_pixels(problem), limits.luma_bytes // pixel_bytes)
    count, height, width = layout.sizes
    across, _, right = layout.strides
    joins = across == 1 and right == count and 2 <= count <= limits.most_joined and itemsize <= 4
    splits = right == 1 or width == 1
    store = Width(itemsize, "the target's columns do not lie side by side")
    if joins or splits:
        bounds = [Bound(pixels * itemsize, f"a thread makes up to {pixels} pixels")]
        if conversion.matrix is not None:
            sums = limits.sums_bytes // conversion.compute.itemsize
            bounds.append(Bound(sums * itemsize, f"a thread has {sums} sums of {conversion.compute} in registers"))
        store = row_width(target, (1,) if joins else (1, 0), [*bounds, *backwards_bound(target)], widest)
    length = store.nbytes // itemsize
    vectors = length >= 2
    if not vectors:
        length = limits.single_pixels
    load = length * pixel_bytes
    return FrameChoice(
        problem,
        Width(load, "what one thread's pixels take" if load < widest else ""),
        store,
        index_bits(max(layout.span, height * -(-width // length))),
        "pixels" if joins and vectors else "planes",
        length,
        splits and vectors,
    )


def _most_pixels(problem: FrameProblem) -> int:
    """Pixels of a thread that its registers hold, and that rows of the planes have as aligned vectors."""
    limits, itemsize = policy().frames, problem.samples.element.itemsize
    are_aligned = all(strides[0] * itemsize % limits.luma_bytes == 0 for strides in problem.plane_strides)
    if problem.target.element.itemsize == 1 and problem.chroma == "repeated" and are_aligned:
        return limits.byte_pixels
    return limits.most_pixels


_SHAPE: Final = struct.Struct("<3q 3q 5i 10i 4x")
"""`sg::FrameShape`, aligned to 8 bytes."""

_SAMPLES: Final = struct.Struct("<3Q")
"""The addresses of `sg::FrameRecord`, before its shape."""

_KINDS: Final = {"repeated": 0, "linear": 1}
_WHOLE: Final = 2
_COLOURS: Final = 3
"""The values of `sg::FrameKind`: of chroma by its upsampling, of 4:4:4, and of colours."""


def _matrix_words(matrix: ColourMatrix) -> tuple[int, ...]:
    """The members of `sg::FrameMatrix`, in their order."""
    return (
        matrix.luma_least,
        matrix.luma_floor,
        matrix.chroma_centre,
        matrix.luma,
        matrix.red_v,
        matrix.green_u,
        matrix.green_v,
        matrix.blue_u,
        matrix.bits,
        int(matrix.floors),
    )


_AS_THEY_ARE: Final = ColourMatrix(0, 0, 0, 1 << FRACTION_BITS, 0, 0, 0, 0, 0)
"""The matrix of colours that are multiplied by 1."""


def _three(kinds: tuple[SampleStrides, ...]) -> tuple[SampleStrides, ...]:
    """Three kinds of samples: those of gray are all of its one plane."""
    return kinds if len(kinds) > 1 else kinds * 3


def _frame_shape(surface: FrameSurface) -> bytes:
    """The `sg::FrameShape` of frames. Raises `DeviceError` for samples without a common step."""
    strides = _three(sample_strides(surface.samples, surface.plane_strides))
    down, right = surface.samples.chroma_step
    height, width = surface.sizes
    return _SHAPE.pack(
        *(kind.row for kind in strides),
        *(kind.column for kind in strides),
        down.bit_length() - 1,
        -(-height // down),
        -(-width // right),
        width,
        _COLOURS if surface.samples.kind != "yuv" else _WHOLE if right == 1 else _KINDS[surface.chroma],
        *_matrix_words(surface.matrix),
    )


def frame_record(frame: FrameOperand) -> bytes:
    """The `sg::FrameRecord` of a frame. Raises `DeviceError` for samples without a common step."""
    surface, itemsize = frame.surface, frame.element.itemsize
    strides = _three(sample_strides(surface.samples, surface.plane_strides))
    addresses = (frame.planes[kind.plane].address + kind.first * itemsize for kind in strides)
    return _SAMPLES.pack(*addresses) + _frame_shape(surface)


def colours_record(layout: Layout, address: int, element: ElementType) -> bytes:
    """The `sg::FrameRecord` of an RGB image with axes C, H, W, whose lowest element is at `address`."""
    across, down, right = layout.strides
    first = address + (layout.offset - layout.first_offset) * element.itemsize
    addresses = (first + channel * across * element.itemsize for channel in range(3))
    shape = _SHAPE.pack(*(down,) * 3, *(right,) * 3, 0, 0, 0, 0, _COLOURS, *_matrix_words(_AS_THEY_ARE))
    return _SAMPLES.pack(*addresses) + shape


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
    problem, bits = choice.problem, choice.index_bits
    conversion, layout, samples = problem.conversion, problem.target.layout, problem.samples
    count, height, width = layout.sizes
    vectors = -(-width // choice.length)
    items = height * vectors
    is_finite, matrix = True, conversion.matrix
    if matrix is not None:
        is_finite = sums_are_finite(conversion.source, conversion.compute, matrix)
    block, affines, encode = _converting_block(choice, sums_are_finite=is_finite)
    product = encode if matrix is None else product_argument(conversion.source, conversion.compute, matrix)
    pitches = [strides[0] for strides in problem.plane_strides]
    block.add_indices(*pitches, *(0,) * (3 - len(pitches)), bits=64)
    block.add_divisors(vectors)
    block.add_indices(*layout.strides, layout.offset, items)
    block.add_int32(*_matrix_words(problem.matrix))
    rows, columns = samples.chroma_step
    block.add_indices(width, -(-problem.sizes[0] // rows), problem.sizes[1], bits=32)
    luma, *chroma = samples.channels
    blue, red = (kind.plane - 1 if len(samples.planes) == 3 else kind.first for kind in chroma)
    name = instantiation(
        "frames",
        (product, encode, index_argument(bits)),
        "FramesPolicy",
        planes=f"sg::FramePlanes::{_PLANES[len(samples.planes)]}",
        chroma_rows=rows,
        chroma_columns=columns,
        linear=problem.chroma == "linear" and columns == 2,
        floors=problem.matrix.floors,
        luma=luma.first,
        blue=blue,
        red=red,
        rows=len(matrix or ()),
        finite=is_finite,
        count=count,
        places=places_argument(problem.order),
        length=choice.length,
        of_pixels=choice.family == "pixels",
        of_vectors=choice.of_vectors,
        affines=affines,
    )
    return block.launch("frames.cu", name, -(-items // THREADS))


def _pixels_launch(choice: FramePixelsChoice) -> KernelLaunch:
    problem, bits = choice.problem, choice.index_bits
    conversion, layout = problem.conversion, problem.target.layout
    count, height, width = layout.sizes
    pairs = width // 2 + 1
    items = height * pairs
    block, affines, encode = _converting_block(choice, sums_are_finite=False)
    widening = Conversion(conversion.source, conversion.compute)
    decode = encode if conversion.matrix is None else number_argument(widening)
    block.add(_frame_shape(problem), 8)
    block.add_divisors(pairs)
    block.add_indices(*layout.strides, layout.offset, items)
    block.add_indices(width, bits=32)
    name = instantiation(
        "frame_pixels",
        (decode, encode, index_argument(bits)),
        "FramePixelsPolicy",
        rows=len(conversion.matrix or ()),
        count=count,
        places=places_argument(problem.order),
        affines=affines,
    )
    return block.launch("frame_pixels.cu", name, -(-items // THREADS))


def _converting_block(
    choice: FrameChoice | FramePixelsChoice, *, sums_are_finite: bool
) -> tuple[ParameterBlock, str, str]:
    """Parameters up to the conversion, and the arguments of its affines and of itself."""
    conversion = choice.problem.conversion
    block = ParameterBlock(choice.index_bits)
    block.add(bytes(PLACE.size), 8)
    if conversion.matrix is None:
        block.add(bytes(conversion.source.itemsize), conversion.source.itemsize)
        return block, block.add_affines(conversion), conversion_argument(conversion)
    encoding = matrix_encoding(conversion)
    block.add_numbers((number for row in conversion.matrix for number in row), conversion.compute)
    affines = block.add_affines(encoding, conversion.compute)
    return block, affines, number_argument(encoding, source_is_finite=sums_are_finite)


def window_place(
    choice: FrameChoice | FramePixelsChoice, addresses: Sequence[int], origin: tuple[int, int]
) -> tuple[int, bytes]:
    """For a window whose first pixel is at `origin`: the address of luma, and what `PLACE` packs.

    `addresses` are those of each plane's first sample.
    """
    problem = choice.problem
    if isinstance(choice, FramePixelsChoice):
        itemsize = problem.samples.element.itemsize
        strides = _three(sample_strides(problem.samples, problem.plane_strides))
        luma, *chroma = (addresses[kind.plane] + kind.first * itemsize for kind in strides)
    else:
        luma, *chroma = (*addresses, 0, 0)[:3]
    return luma, PLACE.pack(*chroma, *origin)


def choose_frame_encode(problem: SamplesProblem, widest: int = 16) -> NamedChoice[SamplesProblem]:  # noqa: ARG001
    """The kernel on any GPU. Raises `DeviceError` for packed planes whose samples have no common step."""
    sample_strides(problem.samples, problem.plane_strides)
    height, width = problem.sizes
    access = Width(problem.samples.element.itemsize, "a thread has a pair of pixels")
    name = f"frame_encode_{problem.samples.name}_{problem.samples.element}"
    bits = index_bits(height * width)
    return NamedChoice(problem, access, access, bits, "pairs", name, "a thread makes a pair of pixels")


PLACES: Final = struct.Struct("<4Q")
"""Behind red and luma: the addresses of green, blue, and of both kinds of chroma, 0 without chroma."""


def frame_encode_launch(choice: NamedChoice[SamplesProblem]) -> KernelLaunch:
    """The kernel, grid and parameters that carry out a choice. Raises `LayoutError` for rows that are too long."""
    problem, bits = choice.problem, choice.index_bits
    (height, width), (down, right) = problem.sizes, problem.samples.chroma_step
    if max(height, width) > LONGEST_ROW:
        raise LayoutError(f"A frame of {height} x {width}: a GPU takes rows of up to {LONGEST_ROW} pixels.")
    kinds, matrix = sample_strides(problem.samples, problem.plane_strides), problem.matrix
    missing = (0,) * (3 - len(kinds))
    pairs = -(-width // 2)
    items = -(-height // down) * pairs
    number_bits = 32 if problem.samples.element.itemsize == 1 else 64
    block = ParameterBlock(bits)
    block.add(bytes(PLACES.size), 8)
    for axis in (0, 1):
        block.add_indices(*(layout.strides[axis] for layout in problem.colours), bits=64)
    block.add_indices(*(kind.row for kind in kinds), *missing, *(kind.column for kind in kinds), *missing, bits=64)
    block.add_indices(*matrix.y, *matrix.u, *matrix.v, bits=number_bits)
    block.add_int32(matrix.bits, matrix.most, matrix.shift)
    block.add(b"", number_bits // 8)  # the end of a structure
    block.add_indices(height, width, bits=32)
    block.add_divisors(pairs)
    block.add_indices(items)
    name = instantiation(
        "frame_encode",
        (f"sg::{problem.samples.element}", index_argument(bits)),
        "FrameEncodePolicy",
        rows=down,
        columns=right if len(kinds) > 1 else 0,
        packed=right == 2 and len(problem.samples.planes) == 1,
    )
    return block.launch("frame_encode.cu", name, -(-items // THREADS))


def sample_addresses(problem: SamplesProblem, planes: Sequence[int]) -> tuple[int, ...]:
    """The addresses of the first samples of luma and of both kinds of chroma, 0 without chroma.

    `planes` are the addresses of each plane's first sample.
    """
    itemsize = problem.samples.element.itemsize
    kinds = sample_strides(problem.samples, problem.plane_strides)
    return (*(planes[kind.plane] + kind.first * itemsize for kind in kinds), 0, 0)[:3]
