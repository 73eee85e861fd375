"""Launches of frames (`frames.cu`, `frame_pixels.cu`).

A kernel's parameters begin with the addresses of luma and of the target's lowest element, then have what `PLACE` packs:
the addresses of chroma, and the row and the column of the window's first pixel. The device writes them; here they are
0. The addresses are those of the planes for `frames.cu`, and for `frame_pixels.cu` those of each kind's first sample.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from stridedgpu.devices.cuda.planning.frame_pixels import FramePixelsChoice, sample_strides
from stridedgpu.devices.cuda.planning.frames import FrameChoice
from stridedgpu.devices.cuda.planning.gpu import LONGEST_ROW, KernelLaunch, divisor_words
from stridedgpu.planning.frame_problem import FrameProblem, FrameSurface
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.errors import LayoutError

from .frame_records import frame_shape, matrix_words
from .instantiation import instantiation
from .parameters import (
    ParameterBlock,
    conversion_argument,
    index_argument,
    number_argument,
    product_argument,
    sums_are_finite,
)

__all__ = ["PLACE", "frames_launch", "window_place"]

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
