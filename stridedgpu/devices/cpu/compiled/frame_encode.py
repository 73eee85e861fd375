"""RGB to the samples of frames by compiled loops: weighted sums of vectors, in one pass.

    colours   r g b r g b r g b r g b          vectors of `lanes` pixels, planes or packed pixels, in wider integers
    luma      y y y y ...                      of every row
    chroma    u v u v ...                      of the even pixels of the first of two rows, or of the sums of two pixels

A work item is one row of chroma: two rows of pixels, or one. The last step of a row is moved back to end with the row.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stridedgpu.devices.cpu.native.frames import NativeSamplesParameters, samples_loop
from stridedgpu.devices.cpu.native.pool import run_shared
from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.operand import Operand
from stridedgpu.problems.device_plan import Width
from stridedgpu.problems.frame_problem import SamplesProblem
from stridedgpu.values.colour_matrix import LumaMatrix
from stridedgpu.values.pixel_formats import PixelFormat
from stridedgpu.values.strides import power_of_two

from .ir import Code, Value, gathered, vector_type
from .jit import loop_of

SamplesMove = Callable[[Sequence[Operand], Sequence[Operand]], None]
"""What writes the planes of a frame from its colours."""


@dataclass(frozen=True, slots=True)
class SamplesKernel:
    """A kernel over rows of at least `lanes` pixels; `places` are those of red, green and blue in a packed pixel."""

    samples: PixelFormat
    matrix: LumaMatrix
    places: tuple[int, ...] | None
    lanes: int

    @property
    def name(self) -> str:
        """The kernel in a word, as plans name it."""
        return f"frame_encode_{self.samples.name}_{'planes' if self.places is None else 'pixels'}x{self.lanes}"

    def text(self, name: str) -> str:
        """The LLVM module."""
        code, lanes, planes = Code(), self.lanes, len(self.samples.planes)
        *colours_at, pitch = code.take(4)
        addresses = [address.pointer() for address in colours_at]
        targets = [(address.pointer(), stride) for address, stride in (code.take(2) for _ in range(planes))]
        (width,) = code.take(1)
        down, right = self.samples.chroma_step
        with code.loop(code.first, code.last) as item, code.steps(0, width, lanes) as at:
            for number in range(down):
                row = item * down + number
                colours = self._colours(addresses, row * pitch, at)
                vectors = [self._sample(colours, self.matrix.y)]
                if number == 0 and right == 2:
                    vectors += self._chroma(colours, sums=down == 1)
                for plane, (start, stride) in enumerate(targets):
                    rows = row if self.samples.planes[plane].rows == 1 else item
                    self._store(vectors, plane, start + rows * stride, at)
        return code.text(name)

    @property
    def _itemsize(self) -> int:
        return self.samples.element.itemsize

    @property
    def _element(self) -> str:
        return f"i{8 * self._itemsize}"

    def _colours(self, addresses: list[Value], row: Value, at: Value) -> list[Value]:
        """Red, green and blue of the pixels from a column on, in integers of the sums."""
        lanes, itemsize, vector = self.lanes, self._itemsize, vector_type(self.lanes, self._element)
        if self.places is None:
            starts = [address + row for address in addresses]
            narrow = [(start + at * itemsize).load(vector, itemsize) for start in starts]
        else:
            start = addresses[0] + row + at * (3 * itemsize)
            loaded = [(start + part * lanes * itemsize).load(vector, itemsize) for part in range(3)]
            narrow = [gathered(loaded, [3 * n + place for n in range(lanes)]) for place in self.places]
        return [samples.cast("zext", "i32" if itemsize == 1 else "i64") for samples in narrow]

    def _sample(self, colours: list[Value], weights: tuple[int, int, int, int]) -> Value:
        """One kind of sample, as `stridedgpu.values.colour_matrix.LumaMatrix` states it."""
        matrix = self.matrix
        red, green, blue = (colour * weight for colour, weight in zip(colours, weights, strict=False))
        total = red + green + blue + ((1 << (matrix.bits - 1)) + (weights[3] << matrix.bits))
        whole = total.shifted(matrix.bits).intrinsic("llvm.smax", 0).intrinsic("llvm.smin", matrix.most)
        narrow = whole.cast("trunc", self._element)
        return narrow << matrix.shift if matrix.shift else narrow

    def _chroma(self, colours: list[Value], *, sums: bool) -> list[Value]:
        """Blue and red difference of every pair of pixels."""
        even, odd = ([colour.shuffle(range(first, self.lanes, 2)) for colour in colours] for first in range(2))
        taken = [left + right for left, right in zip(even, odd, strict=True)] if sums else even
        return [self._sample(taken, weights) for weights in (self.matrix.u, self.matrix.v)]

    def _store(self, vectors: Sequence[Value], number: int, row: Value, at: Value) -> None:
        """Write those samples that lie in a plane, of the pixels from a column on: luma, or luma and both chromas."""
        plane, lanes, itemsize = self.samples.planes[number], self.lanes, self._itemsize
        places = [-1] * (lanes // plane.columns * plane.samples)
        for place, (samples, vector) in enumerate(zip(self.samples.channels, vectors, strict=False)):
            if samples.plane == number:
                for lane in range(vector.lanes):
                    places[samples.first + samples.step * lane] = lanes * place + lane
        if max(places) < 0:
            return
        whole = range(lanes)
        wide = [vector.shuffle([n if n < vector.lanes else -1 for n in whole]) for vector in vectors]
        column = at // plane.columns
        start = row + column * (plane.samples * itemsize)
        for first in range(0, len(places), lanes):
            piece = gathered(wide, places[first : first + lanes])
            piece.code.store(piece, start + first * itemsize, itemsize)


def samples_kernel(problem: SamplesProblem) -> CpuKernel | str:
    """The compiled loops of a problem, or why it is left to NumPy."""
    limits, (height, width), itemsize = policy().pixels, problem.sizes, problem.samples.element.itemsize
    if width < limits.least_lanes:
        return f"images narrower than {limits.least_lanes} pixels are left to NumPy"
    for plane, strides in zip(problem.samples.planes, problem.plane_strides, strict=True):
        if strides[1:] != ((plane.samples, 1) if plane.samples > 1 else (1,)):
            return f"planes with steps of {strides} elements are left to NumPy"
    steps = {layout.strides for layout in problem.colours}
    lowest = min(layout.offset for layout in problem.colours)
    places = tuple(layout.offset - lowest for layout in problem.colours)
    right = {layout.strides[1] for layout in problem.colours}
    if len(steps) != 1 or not (right == {1} or (right == {3} and max(places) < 3)):
        return f"images with steps of {sorted(steps)} elements along H, W are left to NumPy"
    lanes = min(limits.step_bytes // itemsize, power_of_two(width))
    kernel = SamplesKernel(problem.samples, problem.matrix, places if right == {3} else None, lanes)
    return CpuKernel(
        kernel.name,
        f"rows in steps of {lanes} pixels, from colours to samples in registers",
        Width(lanes * itemsize),
        Width(lanes * itemsize),
        items=height // problem.samples.chroma_step[0],
        shared_bytes=limits.shared_bytes,
        calls=(kernel,),
        is_native=policy().native_level is not None,
    )


def compiled_samples(plan: CpuPlan[SamplesProblem]) -> SamplesMove | None:
    """A plan's samples by a compiled loop; None where the problem is left to NumPy."""
    chosen, problem, limits = plan.compiled, plan.problem, policy().pixels
    if chosen is None:
        return None
    kernel: SamplesKernel = chosen.calls[0]
    level, items, itemsize, width = (
        policy().native_level,
        chosen.items,
        problem.samples.element.itemsize,
        problem.sizes[1],
    )
    loop = loop_of(kernel) if level is None else samples_loop(problem, level)
    work, shared = (limits.arithmetic * nbytes for nbytes in (problem.bytes_moved, limits.shared_bytes))

    def compiled_parameters(colours: Sequence[Operand], planes: Sequence[Operand]) -> ctypes.Array[ctypes.c_int64]:
        addresses = [colour.address for colour in colours]
        fields = addresses if kernel.places is None else [min(addresses)] * 3
        fields.append(colours[0].layout.strides[0] * itemsize)
        for plane in planes:
            fields += [plane.address, plane.layout.strides[0] * itemsize]
        return (ctypes.c_int64 * (len(fields) + 1))(*fields, width)

    parameters_of = compiled_parameters if level is None else NativeSamplesParameters(problem, kernel.places, level)

    def write(colours: Sequence[Operand], planes: Sequence[Operand]) -> None:
        parameters = parameters_of(colours, planes)
        run_shared(loop, 0, 0, ctypes.addressof(parameters), items, nbytes=work, shared_bytes=shared)

    return write
