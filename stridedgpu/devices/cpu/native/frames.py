"""Frames on the native library: the parameters of the loops from samples to colours, and back.

Formats are data: how chroma lies, and which samples come first. Behind the colours of a strip come the stages of
`matrix.py`: a conversion or a mix of them, and what puts pixels together.
"""

from __future__ import annotations

import ctypes
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.cpu.numpy_loops.conversion import constants
from stridedgpu.devices.cpu.policy import policy

from .calls import CompiledFunction
from .library import function
from .matrix import STRIP, Stage, can_convert, mixing_constants, mixing_stages, pixels, stage_fields
from .moves import conversion_moves, copy_move

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stridedgpu.devices.cpu.compiled.frames import FrameKernel
    from stridedgpu.devices.operand import Operand
    from stridedgpu.problems.frame_problem import FrameProblem, SamplesProblem
    from stridedgpu.values.colour_matrix import ColourMatrix
    from stridedgpu.values.pixel_formats import PixelFormat

_STRIP_BYTES: Final = 2048
"""The most bytes of a strip's row of samples."""

_MOST_CHANNELS: Final = 4
_OF_PLANES: Final = 6
_OF_WINDOW: Final = 11
"""Fields of the planes, and those with what else a window has of its own: the first of `Frame`."""

_OF_COLOURS: Final = 4
"""Fields of the colours: the first of `FrameEncoding`, before those of the planes."""

_PLANAR: Final = 0
_PAIRED: Final = 1
_PACKED: Final = 2
"""How chroma lies, in the order of the library's."""


def has_frames(kernel: FrameKernel) -> bool:
    """Whether the library has the loop of a kernel."""
    channels = kernel.conversion.output_channels(3)
    return policy().native_level is not None and can_convert(kernel.conversion) and channels <= _MOST_CHANNELS


def frames_loop(kernel: FrameKernel, level: str) -> CompiledFunction:
    """The loop of a kernel, on a level of the library."""
    place = 2 * (kernel.samples.element.itemsize - 1) + kernel.linear
    return CompiledFunction(function(level, "frames", place))


class NativeFrameParameters:
    """The parameters of a problem's loop for a window: those that all windows share are computed once."""

    def __init__(self, problem: FrameProblem, kernel: FrameKernel, level: str) -> None:
        """Those of all windows."""
        self._samples, self._sizes = problem.samples, problem.sizes
        conversion, itemsize, element = problem.conversion, problem.target.element.itemsize, problem.samples.element
        across, down, right = problem.target.layout.strides
        channels, _, width = problem.target.layout.sizes
        order, stages, unit = conversion.channels or (0, 1, 2), list[Stage](), 0.0
        numbers, kept, pitch = [0, 0, 0], list[NDArray[Any]](), 0
        if conversion.matrix is not None:
            stages = mixing_stages(conversion, 3)
            numbers, unit, kept = mixing_constants(conversion, channels)
        else:
            if not conversion.is_bitwise_copy:
                moves, _ = conversion_moves(conversion, finite=kernel.finite, products=False, along=False)
                stages = [Stage(move, channels) for move in moves]
            if conversion.has_arithmetic:
                pitch, unit = conversion.compute.itemsize, conversion.unit or 0.0
                given = conversion.scale or (1.0,), conversion.bias or (-0.0,), (0.0,)
                kept = [np.resize(constants(values, conversion.compute), channels) for values in given]
                numbers = [values.ctypes.data for values in kept]
        is_direct = not (stages or kernel.pixel or kernel.mirrored) and order in ((0, 1, 2), (2, 1, 0))
        if kernel.pixel > 1:
            stages.append(Stage(pixels("put together", itemsize, kernel.pixel), channels))
        elif not stages or stages[-1].move.family.startswith("mix"):  # whose steps are whole
            stages.append(Stage(copy_move(itemsize), channels))
        staged = stage_fields(stages, level, numbers, itemsize * channels, pitch=pitch, unit=unit)
        staged[STRIP] = min(staged[STRIP], _STRIP_BYTES // element.itemsize)
        steps = {after - before for before, after in pairwise(order)} or {0}
        count = len(order)
        ordered = [0, 0, count, count, *order] if len(steps) > 1 else [order[0], *steps, count, 0, *order]
        self._kept = kept
        shared = [
            *_format_fields(self._samples),
            *_matrix_fields(problem.matrix),
            *_moves(level, self._samples),
            *(down * itemsize, across * itemsize, right * itemsize, width, int(kernel.mirrored), int(is_direct)),
            *(ordered + [0] * (_MOST_CHANNELS - count)),
            *staged,
        ]
        self._fields = _array([0] * _OF_WINDOW + shared)

    def __call__(self, planes: Sequence[Operand], origin: tuple[int, int]) -> ctypes.Array[ctypes.c_int64]:
        """The parameters for a window that begins at a pixel of a frame."""
        (top, left), (height, width), (rows, columns) = origin, self._sizes, self._samples.chroma_step
        above, before = top // rows, left // columns
        fields = type(self._fields).from_buffer_copy(self._fields)
        fields[:_OF_PLANES] = [*_plane_fields(self._samples, planes, (top, before * columns))]
        edges = -above, height // rows - 1 - above, width // columns - 1 - before
        fields[_OF_PLANES:_OF_WINDOW] = [top % rows, left % columns, *edges]
        return fields


def _plane_fields(samples: PixelFormat, planes: Sequence[Operand], origin: tuple[int, int]) -> list[int]:
    """The addresses and row pitches of the planes of luma, blue and red, at a pixel; zeros where there is no chroma."""
    itemsize, (top, left), fields = samples.element.itemsize, origin, list[int]()
    for kind in samples.channels:
        plane, operand = samples.planes[kind.plane], planes[kind.plane]
        down, right = operand.layout.strides[:2]
        place = top // plane.rows * down + left // plane.columns * right
        fields += [operand.address + place * itemsize, down * itemsize]
    return fields + [0] * (_OF_PLANES - len(fields))


def _format_fields(samples: PixelFormat) -> list[int]:
    """How a format's chroma lies, whether red and luma come before and behind, and the rows that share chroma."""
    luma, *chroma = samples.channels
    if not chroma:
        return [_PLANAR, 0, 0, 1]
    blue, red = chroma
    arrangement = _PLANAR if blue.plane != red.plane else _PACKED if blue.plane == luma.plane else _PAIRED
    return [arrangement, int(arrangement != _PLANAR and red.first < blue.first), luma.first, samples.chroma_step[0]]


def _moves(level: str, samples: PixelFormat) -> list[int]:
    """The moves that take pairs of samples apart, and that copy samples."""
    itemsize = samples.element.itemsize
    moves = pixels("take apart", itemsize, 2), copy_move(itemsize)
    return [function(level, move.family, move.place) for move in moves]


def _matrix_fields(matrix: ColourMatrix) -> list[int]:
    return [
        *(matrix.luma_least, matrix.luma_floor, matrix.chroma_centre),
        *(matrix.luma, matrix.red_v, matrix.green_u, matrix.green_v, matrix.blue_u),
    ]


def samples_loop(problem: SamplesProblem, level: str) -> CompiledFunction:
    """The loop from colours to samples, on a level of the library."""
    return CompiledFunction(function(level, "frame samples", problem.samples.element.itemsize - 1))


class NativeSamplesParameters:
    """The parameters of that loop: those of a problem are computed once."""

    def __init__(self, problem: SamplesProblem, places: tuple[int, ...] | None, level: str) -> None:
        """Those of all images; `places` are those of red, green and blue in a packed pixel."""
        samples, matrix = problem.samples, problem.matrix
        itemsize = samples.element.itemsize
        fields = [*(places or (0, 1, 2)), int(places is not None), *_format_fields(samples)]
        for *weights, offset in (matrix.y, matrix.u, matrix.v):
            fields += [*weights, (1 << (matrix.bits - 1)) + (offset << matrix.bits)]
        fields += [matrix.bits, matrix.most, matrix.shift]
        moves = pixels("take apart", itemsize, 3), pixels("put together", itemsize, 2), copy_move(itemsize)
        fields += [function(level, move.family, move.place) for move in moves]
        self._samples, self._of_pixels = samples, places is not None
        self._fields = _array([0] * (_OF_COLOURS + _OF_PLANES) + [*fields, problem.sizes[1]])

    def __call__(self, colours: Sequence[Operand], planes: Sequence[Operand]) -> ctypes.Array[ctypes.c_int64]:
        """The parameters for the planes of an image's colours and those of a frame."""
        addresses = [colour.address for colour in colours]
        if self._of_pixels:
            addresses = [min(addresses)] * len(addresses)
        fields = type(self._fields).from_buffer_copy(self._fields)
        pitch = colours[0].layout.strides[0] * self._samples.element.itemsize
        fields[:_OF_COLOURS] = [*addresses, pitch]
        fields[_OF_COLOURS : _OF_COLOURS + _OF_PLANES] = [*_plane_fields(self._samples, planes, (0, 0))]
        return fields


def _array(fields: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(fields))(*fields)
