"""Mixed channels on the native library: the stages of a strip of pixels, each a move of all its rows.

    uint8 pixels -> float16 planes        take apart, uint8 -> float32, mix to float16
    float32 planes -> int16 pixels        mix, float32 -> int16, put together

Frames end with the same stages.
"""

from __future__ import annotations

from math import prod
from struct import pack, unpack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.cpu.numpy_loops.conversion import constants
from stridedgpu.devices.cpu.policy import policy

from .calls import CompiledFunction
from .elements import TYPES
from .library import function
from .moves import Move
from .pool import LoopCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stridedgpu.devices.cpu.compiled.channel_matrix import MatrixKernel
    from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem
    from stridedgpu.values.conversion import Conversion
    from stridedgpu.values.dtypes import ElementType

_MIXABLE: Final = ("uint8", "uint16", "float16", "float32")
_MIXED: Final = ("uint8", "float16", "bfloat16", "float32")
"""The types that are mixed in one move, and those that they become."""

_STRIP_BYTES: Final = 8192
_LINE: Final = 64
"""Bytes of a strip, and the pixels below which many rows are one in a strip, unless a row takes but one move."""

_STEP: Final = 16
"""Pixels of the longest step of a mix."""

STRIP: Final = 5
"""The place of the pixels of a strip in `Stages`."""

_MOST_STAGES: Final = 6
_MOST_LOOPS: Final = 64


class Stage(NamedTuple):
    """A move, and the rows of a strip that it writes."""

    move: Move
    rows: int


def can_convert(conversion: Conversion) -> bool:
    """Whether the library has the conversion's types."""
    return {conversion.source.name, conversion.target.name} <= {*TYPES}


def has_mixing(kernel: MatrixKernel) -> bool:
    """Whether the library has the loop of a kernel."""
    return policy().native_level is not None and can_convert(kernel.conversion) and kernel.outer <= _MOST_LOOPS


def mixing_loop(problem: ChannelMatrixProblem, kernel: MatrixKernel, level: str) -> LoopCall:
    """The loop of a problem, on a level of the library."""
    conversion, (across, source_across) = problem.conversion, problem.channel_strides
    read, written = conversion.source.itemsize, conversion.target.itemsize
    *loops, (row, *_) = zip(problem.sizes, problem.source_strides, problem.target_strides, strict=True)
    stages = _stages(kernel)
    source_pixel, target_pixel = max(kernel.source_pixel, 1), max(kernel.target_pixel, 1)
    numbers, unit, kept = mixing_constants(conversion, kernel.rows)
    widest = max(read * max(source_pixel, kernel.columns), written * kernel.rows)
    staged = stage_fields(stages, level, numbers, widest, unit=unit)
    count, down, target_down = loops.pop() if loops else (1, 0, 0)
    block, pieces = _pieces(row)
    of_block, copies = max(1, policy().pixels.item_pixels // row), [0, 0]
    if row < _STEP or (row < _LINE and len(stages) > 1):
        of_block = staged[STRIP] // row
        copies = [function(level, "copy", itemsize.bit_length() - 1) for itemsize in (read, written)]
    fields = [*staged, source_across * read, copies[0], 1 if source_pixel > 1 else kernel.columns, source_pixel, read]
    fields += [across * written, copies[1], 1 if target_pixel > 1 else kernel.rows, target_pixel, written]
    items = -(-count // of_block)
    fields += [0, 0, 0, count, down * read, target_down * written, of_block, items]
    fields += [row, source_pixel * read, target_pixel * written, block, pieces, 0, 0, len(loops)]
    for size, source_stride, stride in reversed(loops):
        fields += [size, source_stride * read, stride * written, 0, 0]
    offsets = problem.source_offset * read, problem.target_offset * written
    loop, places = CompiledFunction(function(level, "mixing")), prod(size for size, *_ in loops)
    return LoopCall.of(loop, fields, places * items * pieces, offsets, kept)


def _pieces(row: int) -> tuple[int, int]:
    """The pixels of an item of a long row, and the items; none is shorter than a step."""
    pieces = max(1, row // max(policy().pixels.item_pixels, _LINE))
    while row - (pieces - 1) * -(-row // pieces) < _LINE and pieces > 1:
        pieces -= 1
    return -(-row // pieces), pieces


def _stages(kernel: MatrixKernel) -> list[Stage]:
    """The stages of a kernel."""
    conversion, columns = kernel.conversion, kernel.columns
    stages = mixing_stages(conversion, columns)
    # Pixels of three float32 are mixed as they lie.
    fused = 3 if conversion.source.name == conversion.target.name == "float32" and columns == kernel.rows == 3 else 1
    if kernel.source_pixel not in (0, 1, fused):
        stages.insert(0, Stage(pixels("take apart", conversion.source.itemsize, kernel.source_pixel), columns))
    if kernel.target_pixel not in (0, 1, fused):
        stages.append(Stage(pixels("put together", conversion.target.itemsize, kernel.target_pixel), kernel.rows))
    return stages


def mixing_stages(conversion: Conversion, columns: int) -> list[Stage]:
    """The stages from rows of the source's channels to rows of the target's elements."""
    assert conversion.matrix is not None, "there are channels to mix"
    source, compute, target, rows = conversion.source, conversion.compute, conversion.target, len(conversion.matrix)
    truncates = conversion.rounding == "truncate" and target.is_integer
    is_wide = compute.itemsize == 8
    mixed = target if target.name in _MIXED and not (truncates or is_wide) else compute
    stages = []
    if is_wide or source.name not in _MIXABLE:
        stages = [] if source == compute else [Stage(cast(source, compute), columns)]
        source = compute
    pair = 0 if is_wide else 4 * _MIXABLE.index(source.name) + _MIXED.index(mixed.name)
    mix = Move("mix float64" if is_wide else "mix", pair * 4 + columns - 1, mixed.itemsize)
    return [*stages, Stage(mix, rows), *cast_stages(conversion, mixed, rows)]


def cast_stages(conversion: Conversion, numbers: ElementType, rows: int) -> list[Stage]:
    """The stages from rows of numbers to rows of the target's elements."""
    target = conversion.target
    if numbers == target:
        return []
    stages = [Stage(cast(numbers, target), rows)]
    if conversion.rounding == "truncate" and target.is_integer and numbers.kind == "f":
        truncate = Move("truncate", int(numbers.itemsize == 8), numbers.itemsize)
        stages.insert(0, Stage(truncate, rows))
    return stages


def mixing_constants(conversion: Conversion, rows: int) -> tuple[list[int], float, list[NDArray[Any]]]:
    """The addresses of weights, scales and biases, 1 if there are scales or biases, else 0, and the memory of all."""
    compute = conversion.compute
    scale, bias = conversion.scale or (1.0,), conversion.bias or (-0.0,)
    weights = constants([number for row in conversion.matrix or () for number in row], compute)
    kept = [weights, *(np.resize(constants(values, compute), rows) for values in (scale, bias))]
    has_affine = conversion.scale is not None or conversion.bias is not None
    return [values.ctypes.data for values in kept], float(has_affine), kept


def stage_fields(
    stages: Sequence[Stage], level: str, numbers: Sequence[int], widest: int, *, pitch: int = 0, unit: float = 0.0
) -> list[int]:
    """The members of `Stages`, with the addresses of three arrays of constants and the bytes from a row's to the next.

    A pixel has `widest` bytes or less on both sides.
    """
    widest = max(widest, *(rows * move.bytes for move, rows in stages))
    fields = [*numbers, pitch, *unpack("=q", pack("=d", unit)), _STRIP_BYTES // widest & -_LINE, len(stages)]
    for move, rows in stages:
        fields += [function(level, move.family, move.place), rows, move.bytes]
    return fields + [0, 0, 0] * (_MOST_STAGES - len(stages))


def pixels(family: str, itemsize: int, count: int) -> Move:
    """The move between rows and pixels of so many elements."""
    return Move(family, (itemsize.bit_length() - 1) * 3 + count - 2, itemsize)


def cast(source: ElementType, target: ElementType, arithmetic: int = 0) -> Move:
    """A conversion without arithmetic (0), or with one scale and bias a row (1)."""
    place = (TYPES.index(source.name) * len(TYPES) + TYPES.index(target.name)) * 3 + arithmetic
    return Move("convert", place, target.itemsize)
