"""Channel matrices by compiled loops: whole pixels in registers, in one pass.

    source     r g b r g b r g b ...  or planes     one vector of each channel, in numbers that are computed with
    matrix     r*m00 + g*m01 + b*m02                each product rounded, then each sum, from the first channel on
    target     y y y ...                            converted, and stored as planes or interleaved as whole pixels

An item of the work is a piece of the innermost loop. The last step of a loop is moved back to end with it, which does
some pixels twice and needs no tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count
from math import prod
from operator import add
from struct import pack
from typing import NamedTuple

from stridedgpu.devices.cpu.native.elements import can_convert
from stridedgpu.devices.cpu.native.matrix import has_mixing, mixing_loop
from stridedgpu.devices.cpu.native.pool import LoopCall
from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.interface import DirectLaunch
from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem
from stridedgpu.problems.device_plan import Width
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.strides import power_of_two

from .conversion import Affine, converted, storage_type, with_one_nan
from .ir import Code, Value, gathered, vector_type
from .jit import loop_of
from .work_grid import items_of


@dataclass(frozen=True, slots=True)
class MatrixKernel:
    """A kernel over pieces of rows of at least `lanes` pixels, below `outer` further loops.

    `source_pixel` and `target_pixel` are the elements from one pixel to the next where channels are interleaved, and 0
    where they are planes. A pixel of the source may end with elements that are no channels. Constants come as
    parameters; those of `conversion` say which there are.
    """

    conversion: Conversion
    columns: int
    lanes: int
    outer: int
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

    def text(self, name: str) -> str:
        """The module: items, and the steps of each."""
        code, conversion, lanes = Code(), self.conversion, self.lanes
        channel, target_channel, row, item_pixels, pieces = code.take(5)
        outer = [code.take(3) for _ in range(self.outer)]
        constants = Constants.loaded(code, conversion, self.rows, lanes)
        source_step = max(self.source_pixel, 1) * conversion.source.itemsize
        target_step = max(self.target_pixel, 1) * conversion.target.itemsize
        with items_of(code, [pieces], outer, (code.source, code.target)) as ((piece,), (source, target)):
            begin = piece * item_pixels
            with code.steps(begin, (begin + item_pixels).at_most(row), lanes) as at:
                vectors = self._channels(source + at * source_step, channel)
                mixed = mixed_vectors(vectors, conversion, constants)
                written = target + at * target_step
                # A pixel of one element is a plane's.
                store_pixels(mixed, written, self.target_pixel if self.target_pixel > 1 else 0, target_channel)
        return code.text(name)

    def _channels(self, address: Value, channel: Value) -> list[Value]:
        stored, pixel = storage_type(self.conversion.source), self.source_pixel
        if pixel < 2:
            starts = [address + channel * number for number in range(self.columns)]
            return [start.load(vector_type(self.lanes, stored)) for start in starts]
        whole = address.load(vector_type(self.lanes * pixel, stored))
        return [whole.shuffle(range(number, self.lanes * pixel, pixel)) for number in range(self.columns)]


def kernel_conversion(conversion: Conversion) -> Conversion:
    """The conversion of a kernel, whose constants are parameters: those that differ only in them share one."""
    return replace(
        conversion,
        scale=None if conversion.scale is None else (1.0,),
        bias=None if conversion.bias is None else (0.0,),
        matrix=None if conversion.matrix is None else tuple((1.0,) * len(row) for row in conversion.matrix),
    )


def constant_fields(conversion: Conversion, channels: int) -> list[int]:
    """The constants as parameters: the matrix, then the scale and the bias of each output channel."""
    numbers = [number for row in conversion.matrix or () for number in row]
    for values in (conversion.scale, conversion.bias):
        if values is not None:
            numbers += values if len(values) > 1 else values * channels
    return [_bits(number, "d" if conversion.compute.itemsize == 8 else "f") for number in numbers]


def _bits(number: float, kind: str) -> int:
    """A constant's bits as a signed number; what float32 cannot hold is infinite there."""
    if kind == "f" and abs(number) > 3.4028235677973366e38:
        number = float("inf") if number > 0 else float("-inf")
    return int.from_bytes(pack(kind, number).ljust(8, b"\0"), "little", signed=True)


class Constants(NamedTuple):
    """The rows of a matrix, and the scale and bias of each output channel, each in every lane."""

    matrix: list[list[Value]]
    affines: list[Affine]

    @classmethod
    def loaded(cls, code: Code, conversion: Conversion, channels: int, lanes: int) -> Constants:
        """Those of `constant_fields`, which are the last parameters."""
        compute, places, first = conversion.compute, count(), code.rest()

        def constant() -> Value:
            address = first + 8 * next(places)
            number = address.load(storage_type(compute), compute.itemsize)
            return number.splat(lanes)

        matrix = [[constant() for _ in row] for row in conversion.matrix or ()]
        scales, biases = (
            [None if values is None else constant() for _ in range(channels)]
            for values in (conversion.scale, conversion.bias)
        )
        return cls(matrix, [Affine(scale, bias) for scale, bias in zip(scales, biases, strict=True)])


def mixed_vectors(channels: Sequence[Value], conversion: Conversion, constants: Constants) -> list[Value]:
    """Each output channel of some pixels: vectors of the target, from vectors of all channels of the source."""
    decode = Conversion(conversion.source, conversion.compute)
    numbers = [converted(channel, decode, Affine(), finite=True) for channel in channels]
    last = replace(conversion, source=conversion.compute, channels=None, matrix=None)
    vectors = []
    for row, affine in zip(constants.matrix, constants.affines, strict=True):
        products = (number * weight for number, weight in zip(numbers, row, strict=True))
        total = reduce(add, products)
        vectors.append(converted(with_one_nan(total), last, affine, finite=False))
    return vectors


def store_pixels(channels: Sequence[Value], address: Value, pixel: int, channel: Value) -> None:
    """Write pixels as rows of planes, `channel` bytes apart, or interleaved if `pixel` elements have one each."""
    if not pixel:
        for number, vector in enumerate(channels):
            vector.code.store(vector, address + channel * number)
        return
    lanes = channels[0].lanes
    places = [number * lanes + at for at in range(lanes) for number in range(pixel)]
    for first in range(0, len(places), lanes):
        vector = gathered(channels, places[first : first + lanes])
        vector.code.store(vector, address + first * vector.nbytes // lanes)


def mixing_kernel(problem: ChannelMatrixProblem) -> MatrixKernel | str:
    """The kernel of a problem, or why there is none."""
    conversion, limits = problem.conversion, policy().pixels
    rows, columns = len(problem.matrix), len(problem.matrix[0])
    if not can_convert(conversion):
        return f"{conversion} is left to NumPy"
    if max(rows, columns) > limits.most_channels:
        return f"matrices of {rows} x {columns} are left to NumPy"
    if not problem.sizes or problem.is_empty or problem.sizes[-1] < limits.least_lanes:
        return f"rows of less than {limits.least_lanes} pixels are left to NumPy"
    across, source_across = problem.channel_strides
    pixels = []
    # Whole pixels are loaded: memory must be there behind the last one's channels.
    behind = problem.source.slack_bytes // conversion.source.itemsize
    for channel, pixel, channels, most in (
        (source_across, problem.source_strides[-1], columns, min(columns + behind, limits.most_channels)),
        (across, problem.target_strides[-1], rows, rows),
    ):
        if pixel == 1 and channels > 0:
            pixels.append(0)
        elif channel == 1 and channels <= pixel <= most:
            pixels.append(pixel)
        else:
            return f"pixels {pixel} elements apart, with channels {channel} apart, are left to NumPy"
    widest = max(conversion.compute.itemsize, conversion.source.itemsize, conversion.target.itemsize)
    lanes = min(limits.step_bytes // widest, power_of_two(problem.sizes[-1]))
    return MatrixKernel(kernel_conversion(conversion), columns, lanes, len(problem.sizes) - 1, *pixels)


def channel_matrix_kernel(problem: ChannelMatrixProblem) -> CpuKernel | str:
    """The compiled loops of a problem, or why it is left to NumPy."""
    kernel, limits, conversion = mixing_kernel(problem), policy().pixels, problem.conversion
    if isinstance(kernel, str):
        return kernel
    return CpuKernel(
        kernel.name,
        f"steps of {kernel.lanes} pixels, mixed in registers",
        Width(kernel.lanes * (kernel.source_pixel or 1) * conversion.source.itemsize),
        Width(kernel.lanes * conversion.target.itemsize),
        items=prod(problem.sizes[:-1]) * -(-problem.sizes[-1] // limits.item_pixels),
        shared_bytes=limits.shared_bytes,
        calls=(kernel,),
        is_native=has_mixing(kernel),
    )


def mixing_call(problem: ChannelMatrixProblem, kernel: MatrixKernel) -> LoopCall:
    """The loop of a problem, from each side's lowest element."""
    level = policy().native_level
    if level is not None and has_mixing(kernel):
        return mixing_loop(problem, kernel, level)
    item_pixels, conversion = policy().pixels.item_pixels, problem.conversion
    read, written = conversion.source.itemsize, conversion.target.itemsize
    across, source_across = problem.channel_strides
    *outer, row = problem.sizes
    pieces = -(-row // item_pixels)
    fields = [source_across * read, across * written, row, item_pixels, pieces]
    for size, source_stride, stride in zip(
        reversed(outer), reversed(problem.source_strides[:-1]), reversed(problem.target_strides[:-1]), strict=True
    ):
        fields += [size, source_stride * read, stride * written]
    fields += constant_fields(conversion, kernel.rows)
    offsets = problem.source_offset * read, problem.target_offset * written
    return LoopCall.of(loop_of(kernel), fields, prod(outer) * pieces, offsets)


def compiled_channel_matrix(plan: CpuPlan[ChannelMatrixProblem]) -> DirectLaunch | None:
    """A plan's pixels by a compiled loop; None where the problem is left to NumPy."""
    chosen, limits = plan.compiled, policy().pixels
    if chosen is None:
        return None
    call = mixing_call(plan.problem, chosen.calls[0])
    return call.launch(plan.bytes_moved * limits.arithmetic, limits.shared_bytes * limits.arithmetic)
