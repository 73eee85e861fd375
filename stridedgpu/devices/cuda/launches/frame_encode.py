"""Launches of RGB into frames (`frame_encode.cu`).

A kernel's parameters begin with six addresses: those of red and of the first sample of luma, then what `PLACES` packs:
those of green, blue, and the first samples of chroma. The device writes them; here they are 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from stridedgpu.devices.cuda.planning.frame_encode import FrameEncodeChoice
from stridedgpu.devices.cuda.planning.frame_pixels import sample_strides
from stridedgpu.devices.cuda.planning.gpu import LONGEST_ROW, KernelLaunch, divisor_words
from stridedgpu.planning.frame_problem import SamplesProblem
from stridedgpu.values.errors import LayoutError

from .instantiation import instantiation
from .parameters import ParameterBlock, index_argument

__all__ = ["PLACES", "frame_encode_launch", "sample_addresses"]

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
