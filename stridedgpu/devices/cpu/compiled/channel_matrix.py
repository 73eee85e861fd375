"""Channel matrices by compiled loops: whole pixels in registers, in one pass.

    source     r g b r g b r g b ...  or planes     one vector of each channel, in numbers that are computed with
    matrix     r*m00 + g*m01 + b*m02                each product rounded, then each sum, from the first channel on
    target     y y y ...                            converted, and stored as planes or interleaved as whole pixels

An item of the work is a piece of the innermost loop. The last step of a loop is moved back to end with it, which does
some pixels twice and needs no tail.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from struct import pack
from typing import NamedTuple

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.channel_matrix_problem import ChannelMatrixProblem
from stridedgpu.planning.device_plan import Width
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.dtypes import ElementType

from .conversion import Affine, can_compile, converted, storage_type
from .ir import Code, Value, vector_type
from .jit import CompiledFunction, loop_of
from .shuffles import gathered
from .worker_pool import run_shared

__all__ = [
    "MixingLoop",
    "channel_matrix_kernel",
    "compiled_channel_matrix",
    "mixed_vectors",
    "mixing_loop",
    "why_numpy",
]


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
        sides = "_".join(
            f"{element}{f'x{pixel}' if pixel else '_planes'}"
            for element, pixel in (
                (self.conversion.source, self.source_pixel),
                (self.conversion.target, self.target_pixel),
            )
        )
        return f"channel_matrix_{self.rows}x{self.columns}_{sides}"

    def text(self, name: str) -> str:
        """The module."""
        return _Text(self).text(name)


def _kernel(problem: ChannelMatrixProblem) -> MatrixKernel | str:
    """The kernel of a problem, or why there is none."""
    made, limits = problem.conversion, policy().channel_matrix
    rows, columns = len(problem.matrix), len(problem.matrix[0])
    if not can_compile(made):
        return f"{made} is left to NumPy"
    if max(rows, columns) > limits.most_channels:
        return f"matrices of {rows} x {columns} are left to NumPy"
    if not problem.sizes or problem.is_empty or problem.sizes[-1] < limits.least_lanes:
        return f"rows of less than {limits.least_lanes} pixels are left to NumPy"
    across, source_across = problem.channel_strides
    pixels = []
    # Whole pixels are loaded: memory must be there behind the last one's channels.
    behind = problem.source.slack_bytes // made.source.itemsize
    for channel, pixel, count, most in (
        (source_across, problem.source_strides[-1], columns, min(columns + behind, limits.most_channels)),
        (across, problem.target_strides[-1], rows, rows),
    ):
        if pixel == 1 and count > 0:
            pixels.append(0)
        elif channel == 1 and count <= pixel <= most:
            pixels.append(pixel)
        else:
            return f"pixels {pixel} elements apart, with channels {channel} apart, are left to NumPy"
    widest = max(made.compute.itemsize, made.source.itemsize, made.target.itemsize)
    lanes = min(limits.step_bytes // widest, 1 << (problem.sizes[-1].bit_length() - 1))
    shape = Conversion(
        made.source,
        made.target,
        None if made.scale is None else (1.0,),
        None if made.bias is None else (0.0,),
        None,
        made.rounding,
        ((1.0,) * columns,) * rows,
    )
    return MatrixKernel(shape, columns, lanes, len(problem.sizes) - 1, *pixels)


def why_numpy(problem: ChannelMatrixProblem) -> str | None:
    """Why a problem has no compiled loops; None where it has."""
    kernel = _kernel(problem)
    return kernel if isinstance(kernel, str) else None


def channel_matrix_kernel(problem: ChannelMatrixProblem) -> CpuKernel | None:
    """The compiled loops of a problem; None where it is left to NumPy."""
    kernel = _kernel(problem)
    if isinstance(kernel, str):
        return None
    limits, made = policy().channel_matrix, problem.conversion
    return CpuKernel(
        kernel.name,
        f"steps of {kernel.lanes} pixels, mixed in registers",
        Width(kernel.lanes * (kernel.source_pixel or 1) * made.source.itemsize),
        Width(kernel.lanes * made.target.itemsize),
        items=prod(problem.sizes[:-1]) * -(-problem.sizes[-1] // limits.item_pixels),
        shared_bytes=limits.shared_bytes,
    )


class MixingLoop(NamedTuple):
    """A problem's compiled loop and its parameters, items, and bytes from each side's lowest element to the first."""

    loop: CompiledFunction
    parameters: ctypes.Array[ctypes.c_int64]
    items: int
    source_offset: int
    target_offset: int


def mixing_loop(problem: ChannelMatrixProblem) -> MixingLoop | None:
    """The compiled loop of a problem; None where the problem is left to NumPy."""
    kernel = _kernel(problem)
    if isinstance(kernel, str):
        return None
    loop = loop_of(kernel)
    limits, made = policy().channel_matrix, problem.conversion
    read, written = made.source.itemsize, made.target.itemsize
    across, source_across = problem.channel_strides
    *outer, row = problem.sizes
    pieces = -(-row // limits.item_pixels)
    fields = [source_across * read, across * written, row, limits.item_pixels, pieces]
    for size, source_stride, stride in zip(
        reversed(outer), reversed(problem.source_strides[:-1]), reversed(problem.target_strides[:-1]), strict=True
    ):
        fields += [size, source_stride * read, stride * written]
    kind = "d" if made.compute.itemsize == 8 else "f"
    numbers = [number for row_of in problem.matrix for number in row_of]
    for values in (made.scale, made.bias):
        if values is not None:
            numbers += values if len(values) > 1 else values * len(problem.matrix)
    fields += [_bits(number, kind) for number in numbers]
    parameters = (ctypes.c_int64 * len(fields))(*fields)
    offsets = problem.source_offset * read, problem.target_offset * written
    return MixingLoop(loop, parameters, prod(outer) * pieces, *offsets)


def compiled_channel_matrix(plan: CpuPlan) -> Callable[[Buffer, int, Buffer, int], None] | None:
    """A plan's pixels by a compiled loop; None where the problem is left to NumPy."""
    problem: ChannelMatrixProblem = plan.problem
    mixing, limits = mixing_loop(problem), policy().channel_matrix
    if mixing is None:
        return None
    loop, parameters, items, begins, writes = mixing
    address = ctypes.addressof(parameters)
    alone, nbytes = problem.bytes_moved < limits.shared_bytes, problem.bytes_moved * limits.arithmetic

    def move(source: Buffer, source_start: int, target: Buffer, target_start: int) -> None:
        first, into = source.address + source_start + begins, target.address + target_start + writes
        assert parameters, "kept for as long as the loop may run"
        if alone:
            loop.alone(first, into, address, 0, items)
        else:
            run_shared(loop, first, into, address, items, nbytes=nbytes)

    return move


def _bits(number: float, kind: str) -> int:
    """A constant's bits as a signed number; what float32 cannot hold is infinite there."""
    if kind == "f" and abs(number) > 3.4028235677973366e38:
        number = float("inf") if number > 0 else float("-inf")
    return int.from_bytes(pack(kind, number).ljust(8, b"\0"), "little", signed=True)


def mixed_vectors(
    code: Code, channels: Sequence[Value], made: Conversion, rows: Sequence[Sequence[Value]], affines: Sequence[Affine]
) -> list[Value]:
    """Each output channel of some pixels: vectors of the target, from vectors of all channels of the source.

    `rows` are the matrix, each number in every lane.
    """
    decode = Conversion(made.source, made.compute)
    numbers = [converted(code, channel, decode, Affine(), finite=True) for channel in channels]
    last = Conversion(made.compute, made.target, made.scale, made.bias, None, made.rounding)
    vectors = []
    for row, affine in zip(rows, affines, strict=True):
        total = code.binary("fmul", numbers[0], row[0])
        for number, weight in zip(numbers[1:], row[1:], strict=True):
            total = code.binary("fadd", total, code.binary("fmul", number, weight))
        quiet = code.full(total.type, "0x7FF8000000000000")
        total = code.select(code.compare("fcmp uno", total, total), quiet, total)
        vectors.append(converted(code, total, last, affine, finite=False))
    return vectors


class _Text:
    """One kernel's code while it is written."""

    def __init__(self, kernel: MatrixKernel) -> None:
        """Read the parameters."""
        self._kernel, self._code = kernel, Code()
        code = self._code
        self._channel, self._target_channel, self._row, self._item, self._pieces = (
            code.parameter(place) for place in range(5)
        )
        self._outer = [[code.parameter(5 + 3 * loop + place) for place in range(3)] for loop in range(kernel.outer)]
        self._place = 5 + 3 * kernel.outer
        self._matrix = [[self._constant() for _ in range(kernel.columns)] for _ in range(kernel.rows)]
        made = kernel.conversion
        scales = [None if made.scale is None else self._constant() for _ in range(kernel.rows)]
        biases = [None if made.bias is None else self._constant() for _ in range(kernel.rows)]
        self._affines = [Affine(scale, bias) for scale, bias in zip(scales, biases, strict=True)]

    def text(self, name: str) -> str:
        """The module: items, and the steps of each."""
        code, kernel = self._code, self._kernel
        source_step, target_step = (
            max(pixel, 1) * element.itemsize
            for pixel, element in (
                (kernel.source_pixel, kernel.conversion.source),
                (kernel.target_pixel, kernel.conversion.target),
            )
        )
        last = code.binary("sub", self._row, kernel.lanes)
        with code.loop(code.first, code.last) as item:
            number, piece = code.binary("udiv", item, self._pieces), code.binary("urem", item, self._pieces)
            source, target = code.source, code.target
            for size, source_stride, stride in self._outer:
                place, number = code.binary("urem", number, size), code.binary("udiv", number, size)
                source = code.at(source, code.multiply(place, source_stride))
                target = code.at(target, code.multiply(place, stride))
            begin = code.multiply(piece, self._item)
            end = code.smaller(code.add(begin, self._item), self._row)
            with code.loop(begin, end, kernel.lanes) as step:
                at = code.smaller(step, last)
                vectors = self._channels(code.at(source, code.multiply(at, source_step)))
                made = mixed_vectors(code, vectors, kernel.conversion, self._matrix, self._affines)
                self._store(made, code.at(target, code.multiply(at, target_step)))
        return code.text(name)

    def _constant(self) -> Value:
        """The next constant, in every lane."""
        code, compute = self._code, self._kernel.conversion.compute
        address = code.at(Value("ptr", "%parameters"), 8 * self._place)
        self._place += 1
        number = code.load(storage_type(compute, opaque=False), address, compute.itemsize)
        return code.splat(number, self._kernel.lanes)

    def _channels(self, address: Value) -> list[Value]:
        """One vector of each channel of the source."""
        code, kernel = self._code, self._kernel
        element: ElementType = kernel.conversion.source
        stored, pixel = storage_type(element, opaque=False), kernel.source_pixel
        if pixel < 2:
            return [
                code.load(vector_type(kernel.lanes, stored), code.at(address, code.multiply(self._channel, number)), 1)
                for number in range(kernel.columns)
            ]
        whole = code.load(vector_type(kernel.lanes * pixel, stored), address, 1)
        return [
            code.shuffle(whole, None, [pixel * lane + channel for lane in range(kernel.lanes)])
            for channel in range(kernel.columns)
        ]

    def _store(self, channels: list[Value], address: Value) -> None:
        """Write the pixels as rows of planes, or interleaved."""
        code, kernel = self._code, self._kernel
        lanes, pixel, itemsize = kernel.lanes, kernel.target_pixel, kernel.conversion.target.itemsize
        if pixel < 2:
            for number, vector in enumerate(channels):
                code.store(vector, code.at(address, code.multiply(self._target_channel, number)), 1)
            return
        places = [channel * lanes + at for at in range(lanes) for channel in range(pixel)]
        for piece, first in enumerate(range(0, len(places), lanes)):
            vector = gathered(code, channels, places[first : first + lanes])
            code.store(vector, code.at(address, piece * lanes * itemsize), 1)
