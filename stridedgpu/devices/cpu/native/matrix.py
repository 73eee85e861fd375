"""Channel matrices on the native library: strips of pixels go through stages, each a move of all their rows.

    uint8 pixels -> float16 planes        take apart, uint8 -> float32, mix to float16
    float32 planes -> int16 pixels        mix, float32 -> int16, put together

Frames end with the same stages. A work item is a piece of a long row, or some short rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from struct import pack, unpack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.cpu.numpy_loops.conversion import constants
from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.device_plan import Width
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.strides import power_of_two

from .calls import NativeFunction, native_function
from .elements import can_convert
from .moves import MOST_LOOPS, Move, conversion_moves
from .pool import LoopCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stridedgpu.devices.interface import DirectLaunch
    from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem

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


class Stage(NamedTuple):
    """A move, and the rows of a strip that it writes."""

    move: Move
    rows: int


@dataclass(frozen=True, slots=True)
class MatrixKernel:
    """A loop over pieces of rows, in steps of `lanes` pixels.

    `source_pixel` and `target_pixel` are the elements from one pixel to the next where channels are interleaved, and 0
    where they are planes. A pixel of the source may end with elements that are no channels.
    """

    conversion: Conversion
    columns: int
    lanes: int
    source_pixel: int
    target_pixel: int

    @property
    def rows(self) -> int:
        """The output channels."""
        return len(self.conversion.matrix or ())

    @property
    def name(self) -> str:
        """What it does, in a word."""
        source, target = (
            f"{element}{f'x{pixel}' if pixel else '_planes'}"
            for element, pixel in (
                (self.conversion.source, self.source_pixel),
                (self.conversion.target, self.target_pixel),
            )
        )
        return f"channel_matrix_{self.rows}x{self.columns}_{source}_{target}"


def mixing_kernel(problem: ChannelMatrixProblem) -> MatrixKernel | str:
    """The kernel of a problem, or why there is none."""
    conversion, limits = problem.conversion, policy().pixels
    rows, columns = len(problem.matrix), len(problem.matrix[0])
    if not can_convert(conversion) or len(problem.sizes) > MOST_LOOPS:
        return f"{conversion} is left to NumPy"
    if max(rows, columns) > limits.most_channels:
        return f"matrices of {rows} x {columns} are left to NumPy"
    if not problem.sizes or problem.is_empty or problem.sizes[-1] < limits.least_lanes:
        return f"rows of less than {limits.least_lanes} pixels are left to NumPy"
    across, source_across = problem.channel_strides
    found = []
    # Whole pixels are loaded: memory must be there behind the last one's channels.
    behind = problem.source.slack_bytes // conversion.source.itemsize
    for channel, pixel, channels, most in (
        (source_across, problem.source_strides[-1], columns, min(columns + behind, limits.most_channels)),
        (across, problem.target_strides[-1], rows, rows),
    ):
        if pixel == 1 and channels > 0:
            found.append(0)
        elif channel == 1 and channels <= pixel <= most:
            found.append(pixel)
        else:
            return f"pixels {pixel} elements apart, with channels {channel} apart, are left to NumPy"
    widest = max(conversion.compute.itemsize, conversion.source.itemsize, conversion.target.itemsize)
    lanes = min(limits.step_bytes // widest, power_of_two(problem.sizes[-1]))
    return MatrixKernel(conversion, columns, lanes, *found)


def channel_matrix_kernel(problem: ChannelMatrixProblem) -> CpuKernel | str:
    """The native loop of a problem, or why it is left to NumPy."""
    kernel, limits, conversion = mixing_kernel(problem), policy().pixels, problem.conversion
    if isinstance(kernel, str):
        return kernel
    return CpuKernel(
        kernel.name,
        f"steps of {kernel.lanes} pixels, mixed in the L1 cache",
        Width(kernel.lanes * (kernel.source_pixel or 1) * conversion.source.itemsize),
        Width(kernel.lanes * conversion.target.itemsize),
        items=prod(problem.sizes[:-1]) * -(-problem.sizes[-1] // limits.item_pixels),
        shared_bytes=limits.shared_bytes,
        calls=(kernel,),
    )


def channel_matrix_move(plan: CpuPlan[ChannelMatrixProblem]) -> DirectLaunch:
    """The native loop of a plan's pixels."""
    assert plan.native is not None, "the plan has a native loop"
    limits = policy().pixels
    call = mixing_call(plan.problem, plan.native.calls[0])
    return call.launch(plan.bytes_moved * limits.arithmetic, limits.shared_bytes * limits.arithmetic)


def mixing_call(problem: ChannelMatrixProblem, kernel: MatrixKernel) -> LoopCall:
    """The loop of a problem, from each side's lowest element."""
    conversion, (across, source_across) = problem.conversion, problem.channel_strides
    read, written = conversion.source.itemsize, conversion.target.itemsize
    *loops, (row, *_) = zip(problem.sizes, problem.source_strides, problem.target_strides, strict=True)
    stages = _stages(kernel)
    source_pixel, target_pixel = max(kernel.source_pixel, 1), max(kernel.target_pixel, 1)
    numbers, unit, kept = mixing_constants(conversion, kernel.rows)
    widest = max(read * max(source_pixel, kernel.columns), written * kernel.rows)
    staged = stage_fields(stages, numbers, widest, unit=unit)
    count, down, target_down = loops.pop() if loops else (1, 0, 0)
    block, pieces = _pieces(row)
    of_block, copies = max(1, policy().pixels.item_pixels // row), [0, 0]
    if row < _STEP or (row < _LINE and len(stages) > 1):
        of_block = staged[STRIP] // row
        copies = [native_function("copy", itemsize.bit_length() - 1) for itemsize in (read, written)]
    fields = [*staged, source_across * read, copies[0], 1 if source_pixel > 1 else kernel.columns, source_pixel, read]
    fields += [across * written, copies[1], 1 if target_pixel > 1 else kernel.rows, target_pixel, written]
    items = -(-count // of_block)
    fields += [0, 0, 0, count, down * read, target_down * written, of_block, items]
    fields += [row, source_pixel * read, target_pixel * written, block, pieces, 0, 0, len(loops)]
    for size, source_stride, stride in reversed(loops):
        fields += [size, source_stride * read, stride * written, 0, 0]
    offsets = problem.source_offset * read, problem.target_offset * written
    loop, places = NativeFunction.of("mixing"), prod(size for size, *_ in loops)
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
    fuses = columns == kernel.rows == 3 and stages[-1].move.family == "mix" and conversion.target.name == "float32"
    together = (0, 1, 3) if fuses else (0, 1)
    apart = together if conversion.source.name == "float32" else (0, 1)
    if kernel.source_pixel not in apart:
        stages.insert(0, Stage(pixels("take apart", conversion.source.itemsize, kernel.source_pixel), columns))
    if kernel.target_pixel not in together:
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
        stages, source = _casts(Conversion(source, compute), columns), compute
    pair = 0 if is_wide else 4 * _MIXABLE.index(source.name) + _MIXED.index(mixed.name)
    mix = Move("mix float64" if is_wide else "mix", pair * 4 + columns - 1, mixed.itemsize)
    return [*stages, Stage(mix, rows), *_casts(Conversion(mixed, target, rounding=conversion.rounding), rows)]


def _casts(conversion: Conversion, rows: int) -> list[Stage]:
    """The stages of a conversion without arithmetic; none where there is nothing to convert."""
    if conversion.source == conversion.target:
        return []
    moves, _ = conversion_moves(conversion, finite=True, products=False, along=False)
    return [Stage(move, rows) for move in moves]


def mixing_constants(conversion: Conversion, rows: int) -> tuple[list[int], float, list[NDArray[Any]]]:
    """The addresses of weights, scales and biases, 1 if there are scales or biases, else 0, and the memory of all."""
    compute = conversion.compute
    scale, bias = conversion.scale or (1.0,), conversion.bias or (-0.0,)
    weights = constants([number for row in conversion.matrix or () for number in row], compute)
    kept = [weights, *(np.resize(constants(values, compute), rows) for values in (scale, bias))]
    has_affine = conversion.scale is not None or conversion.bias is not None
    return [values.ctypes.data for values in kept], float(has_affine), kept


def stage_fields(
    stages: Sequence[Stage], numbers: Sequence[int], widest: int, *, pitch: int = 0, unit: float = 0.0
) -> list[int]:
    """The members of `Stages`, with the addresses of three arrays of constants and the bytes from a row's to the next.

    A pixel has `widest` bytes or less on both sides.
    """
    widest = max(widest, *(rows * move.bytes for move, rows in stages))
    fields = [*numbers, pitch, *unpack("=q", pack("=d", unit)), _STRIP_BYTES // widest & -_LINE, len(stages)]
    for move, rows in stages:
        fields += [native_function(move.family, move.place), rows, move.bytes]
    return fields + [0, 0, 0] * (_MOST_STAGES - len(stages))


def pixels(family: str, itemsize: int, count: int) -> Move:
    """The move between rows and pixels of so many elements."""
    return Move(family, (itemsize.bit_length() - 1) * 3 + count - 2, itemsize)
