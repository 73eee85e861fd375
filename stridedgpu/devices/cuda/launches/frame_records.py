"""Frames as kernels read them sample by sample: `sg::FrameShape` and `sg::FrameRecord` of `frame_samples.cuh`."""

from __future__ import annotations

import struct
from typing import Final

from stridedgpu.devices.cuda.planning.frame_pixels import sample_strides
from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.planning.frame_problem import FrameSurface
from stridedgpu.values.colour_matrix import ColourMatrix
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.layout import Layout

__all__ = ["colours_record", "frame_record", "frame_shape", "matrix_words"]

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
