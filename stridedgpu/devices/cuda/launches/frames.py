"""Launches of frames (`frames.cu`).

A kernel's parameters begin with the addresses of the window's first luma and of the target's lowest element, then have
what `PLACE` packs: the addresses of its chroma, and where in its samples the window's first pixel is. The device writes
them; here they are 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from stridedgpu.devices.cuda.planning.frames import FrameChoice
from stridedgpu.devices.cuda.planning.gpu import LONGEST_ROW, THREADS, KernelLaunch, divisor_words, grid_of
from stridedgpu.planning.frame_problem import FrameProblem
from stridedgpu.values.errors import LayoutError

from .instantiation import instantiation
from .parameters import ParameterBlock, conversion_argument, index_argument

__all__ = ["PLACE", "frames_launch", "window_place"]

PLACE: Final = struct.Struct("<QQII")
"""Behind source and target: the addresses of up to two planes of chroma, the row's and the column's phase."""

_PLANES: Final = {1: "packed", 2: "pairs", 3: "apart"}


def frames_launch(choice: FrameChoice) -> KernelLaunch:
    """The kernel, grid and parameters that carry out a choice.

    Raises `LayoutError` for a window without pixels: there is nothing to launch.
    """
    problem, bits = choice.problem, choice.index_bits
    layout, matrix, samples = problem.target.layout, problem.matrix, problem.samples
    count, height, width = layout.sizes
    if layout.element_count == 0:
        raise LayoutError(f"A window of sizes {layout.sizes} has no elements; there is nothing to launch.")
    if width > LONGEST_ROW:
        raise LayoutError(f"A window of sizes {layout.sizes}: a GPU takes rows of up to {LONGEST_ROW} pixels.")
    vectors = -(-width // choice.length)
    items = height * vectors
    block = ParameterBlock()
    block.add(bytes(PLACE.size), 8)
    affines = block.add_affines(problem.conversion)
    for number in range(3):
        stride = problem.plane_strides[number][0] if number < len(problem.plane_strides) else 0
        block.add_index(stride, 64)
    for word in divisor_words(vectors, bits):
        block.add_index(word, bits)
    across, down, right = layout.strides
    for value in (across, down, right, layout.offset, items):
        block.add_index(value, bits)
    constants = (matrix.luma_floor, matrix.chroma_centre, matrix.luma, matrix.red_v, matrix.green_u, matrix.green_v)
    for constant in (*constants, matrix.blue_u):
        block.add_int32(constant)
    block.add_index(width, 32)
    apart = len(samples.planes) == 3
    luma, *chroma = samples.channels
    blue, red = (channel.plane - 1 if apart else channel.first for channel in chroma)
    places = sum(place << 4 * channel for channel, place in enumerate(problem.order))
    name = instantiation(
        "frames",
        (conversion_argument(problem.conversion), index_argument(bits)),
        "FramesPolicy",
        planes=f"sg::FramePlanes::{_PLANES[len(samples.planes)]}",
        chroma_rows=samples.chroma_step[0],
        luma=luma.first,
        blue=blue,
        red=red,
        count=count,
        places=f"{places:#x}",
        length=choice.length,
        of_pixels=choice.of_pixels,
        of_vectors=choice.of_vectors,
        affines=affines,
    )
    return KernelLaunch(
        sources=("frames.cu",),
        name=name,
        grid=grid_of(-(-items // THREADS)),
        block=(THREADS, 1, 1),
        shared_bytes=0,
        parameters=block.parameters,
        tables=block.tables,
    )


def window_place(problem: FrameProblem, addresses: Sequence[int], origin: tuple[int, int]) -> tuple[int, bytes]:
    """For a window whose first pixel is at `origin`: the address of its luma, and what `PLACE` packs.

    `addresses` are those of each plane's first sample.
    """
    samples, (top, left) = problem.samples, origin
    found = [
        address + (top // plane.rows * strides[0] + left // plane.columns * plane.samples) * samples.element.itemsize
        for plane, strides, address in zip(samples.planes, problem.plane_strides, addresses, strict=True)
    ]
    rows, columns = samples.chroma_step
    chroma = (*found[1:], 0, 0)[:2]
    return found[0], PLACE.pack(*chroma, top % rows, left % columns)
