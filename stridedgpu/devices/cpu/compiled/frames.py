"""Frames by compiled loops: from samples through RGB to target elements, in registers, in one pass.

    luma      y y y y y y y y         one vector of `lanes` pixels
    chroma    u v u v u v u v         half as many pairs: multiplied once, then each lane is repeated; linear chroma has
                                      a vector of means for the even columns, and one for the odd columns
    colours   r ... | g ... | b ...   clamped, converted to the target type, and stored as rows of three planes or as
                                      interleaved pixels

A work item is one row of the window. The last step of a row is moved back to end with the row: some pixels are written
twice, and there is no tail loop. If the width is odd, this step begins at an odd column, and its chroma is one lane
later.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from struct import pack, unpack
from typing import Final

from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.operand import Operand
from stridedgpu.problems.device_plan import Width
from stridedgpu.problems.frame_problem import FrameProblem, FrameSurface
from stridedgpu.values.colour_matrix import FRACTION_BITS, ColourMatrix
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.pixel_formats import PixelFormat, Samples

from .channel_matrix import Constants, constant_fields, kernel_conversion, mixed_vectors, store_pixels
from .conversion import can_compile, converted
from .ir import Code, Value, vector_type
from .jit import CompiledFunction, loop_of
from .worker_pool import run_shared

__all__ = ["FrameKernel", "RowLoop", "compiled_frames", "frame_kernel", "frames_kernel", "row_loop"]

_FIELDS: Final = ("target_row", "target_channel", "width", "parity", "phase")
"""Parameters between the planes' addresses and row strides and the constants, in bytes and pixels.

`parity` and `phase` are the row and column of the window's first pixel within its chroma sample.
"""

_EDGES: Final = ("first_row", "last_row", "last_column")
"""Further parameters for linear chroma: the ends of the frame's chroma, in samples from the window's first one."""


@dataclass(frozen=True, slots=True)
class FrameKernel:
    """A kernel over the rows of windows of at least `lanes` pixels.

    `pixel` is the elements from one pixel of an interleaved target to the next, or 0 for planes. With `phase` the
    window begins at an odd column, with `odd` its width is odd, and with `mirrored` the target's columns run backwards.
    With `linear`, chroma is that of `stridedgpu.problems.frame_problem.CHROMA`, else repeated.
    """

    samples: PixelFormat
    matrix: ColourMatrix
    conversion: Conversion
    finite: bool
    lanes: int
    pixel: int
    mirrored: bool
    odd: bool
    phase: int
    linear: bool = False

    @property
    def name(self) -> str:
        """The kernel in a word, as plans name it."""
        lies = f"pixels{self.pixel}" if self.pixel else "planes"
        chroma = "_linear" if self.linear else ""
        return f"frame_{self.samples.name}{chroma}_{lies}_{self.conversion.target}x{self.lanes}"

    @property
    def order(self) -> tuple[int, ...]:
        """The colour of each output channel: 0 red, 1 green, 2 blue."""
        return self.conversion.channels or (0, 1, 2)

    @property
    def count(self) -> int:
        """The number of output channels."""
        return self.conversion.output_channels(3)

    def text(self, name: str) -> str:
        """The LLVM module."""
        return _Text(self).text(name)


class _Text:
    """Builds the code of one kernel."""

    def __init__(self, kernel: FrameKernel) -> None:
        """Begin the function and load its parameters."""
        self._kernel, self._code = kernel, Code()
        code, planes = self._code, len(kernel.samples.planes)
        self._number = "i32" if kernel.matrix.most == 255 else "i64"
        self._itemsize = kernel.samples.element.itemsize
        self._planes = [(code.pointer(code.parameter(2 * n)), code.parameter(2 * n + 1)) for n in range(planes)]
        fields = [code.parameter(2 * planes + n) for n in range(len(_FIELDS))]
        self._target_row, self._target_channel, self._width, self._parity, self._phase = fields
        place = 2 * planes + len(_FIELDS)
        if kernel.linear:
            self._edges = [code.parameter(place + n) for n in range(len(_EDGES))]
            place += len(_EDGES)
        self._constants = Constants.loaded(code, kernel.conversion, kernel.count, place, kernel.lanes)

    def text(self, name: str) -> str:
        """The LLVM module: a loop over rows, the steps of a row, and the odd last step."""
        code, kernel = self._code, self._kernel
        lanes = kernel.lanes
        even = code.binary("and", self._width, -2) if kernel.odd else self._width
        last = code.binary("sub", even, lanes)
        down = kernel.samples.chroma_step[0]
        with code.loop(code.first, code.last) as row:
            row_of_frame = code.add(row, self._parity)
            shared = code.binary("lshr", row_of_frame, down.bit_length() - 1)
            rows = [
                code.at(address, code.multiply(row if plane.rows == 1 else shared, stride))
                for plane, (address, stride) in zip(kernel.samples.planes, self._planes, strict=True)
            ]
            if kernel.linear and down == 2:
                # The other row of chroma beside a row of pixels, of each plane: behind the planes' own rows.
                above_or_below = code.binary("sub", code.multiply(code.binary("and", row_of_frame, 1), 2), 1)
                beside = self._clamped(code.add(shared, above_or_below))
                rows += [code.at(address, code.multiply(beside, stride)) for address, stride in self._planes]
            target = code.at(code.target, code.multiply(row, self._target_row))
            with code.loop(0, even, lanes) as at:
                self._step(rows, target, code.smaller(at, last), kernel.phase)
            if kernel.odd:
                self._step(rows, target, code.binary("sub", self._width, lanes), 1 - kernel.phase)
        return code.text(name)

    def _step(self, rows: Sequence[Value], target: Value, at: Value, phase: int) -> None:
        """Write `lanes` pixels from a column on; `phase` 1: the first one is the second column of its chroma sample."""
        code, kernel = self._code, self._kernel
        if self._goes_by_words and not phase:
            by_words = self._colours_of_words if len(kernel.samples.planes) > 1 else self._colours_of_pairs
            colours = by_words(rows, at)
        else:
            colours = self._colours(self._luma(rows, at), *self._chromas(rows, at, phase))
        if kernel.conversion.matrix is not None:
            pixels = mixed_vectors(code, colours, kernel.conversion, self._constants)
        else:
            pixels = [
                converted(code, colours[channel], kernel.conversion, affine, finite=kernel.finite)
                for channel, affine in zip(kernel.order, self._constants.affines, strict=True)
            ]
        step = kernel.conversion.target.itemsize * (kernel.pixel or 1)
        if kernel.mirrored:  # the last pixel of the step has the lowest address
            pixels = [code.shuffle(vector, None, range(kernel.lanes)[::-1]) for vector in pixels]
            at, step = code.add(at, kernel.lanes - 1), -step
        store_pixels(code, pixels, code.at(target, code.multiply(at, step)), kernel.pixel, self._target_channel)

    def _luma(self, rows: Sequence[Value], at: Value) -> Value:
        """Samples of luma above black, in 32 or 64 bits."""
        code, lanes = self._code, self._kernel.lanes
        luma = self._kernel.samples.channels[0]
        # In packed pixels the load begins at the first byte of a pixel, and ends at the last byte of one.
        address = code.at(rows[luma.plane], code.multiply(self._whole_column(at, luma.step), self._itemsize))
        vector = code.load(vector_type(lanes * luma.step, self._element), address, 1)
        if luma.step > 1:
            vector = code.shuffle(vector, None, [luma.step * n + luma.first % luma.step for n in range(lanes)])
        floor = self._kernel.matrix.luma_floor
        if floor:  # in the narrow type, of which a vector has more lanes
            name = f"llvm.usub.sat.v{vector.lanes}{vector.element}"
            vector = code.call(name, vector.type, vector, code.full(vector.type, floor))
        return code.cast("zext", vector, self._number)

    def _whole_column(self, at: Value, step: int) -> Value:
        """The distance in elements from the address of a row to the luma of a column."""
        code = self._code
        if step == 1:
            # The plane's address is already that of the window's first pixel.
            return at
        return code.multiply(code.add(at, self._phase), step)

    @property
    def _element(self) -> str:
        return f"i{8 * self._itemsize}"

    def _chromas(self, rows: Sequence[Value], at: Value, phase: int) -> list[tuple[Value, Value]]:
        """Blue and red difference for the first columns of chroma samples and, if they differ, the second columns."""
        code = self._code
        place = code.binary("lshr", code.add(at, self._phase), 1)
        if self._kernel.linear:
            (first_blue, second_blue), (first_red, second_red) = (
                self._linear_chroma(rows, place, samples, phase) for samples in self._kernel.samples.channels[1:]
            )
            return [(first_blue, first_red), (second_blue, second_red)]
        first = self._chroma(rows, place)
        return [first, self._chroma(rows, code.add(place, 1)) if phase else first]

    def _chroma(self, rows: Sequence[Value], place: Value) -> tuple[Value, Value]:
        """Samples of both kinds from a chroma column on, one for two pixels, with the centre subtracted."""
        code, kernel = self._code, self._kernel
        chroma = [
            code.binary(
                "sub",
                self._samples(rows[samples.plane], place, samples, kernel.lanes // 2),
                kernel.matrix.chroma_centre,
            )
            for samples in kernel.samples.channels[1:]
        ]
        return chroma[0], chroma[1]

    def _linear_chroma(self, rows: Sequence[Value], place: Value, samples: Samples, phase: int) -> list[Value]:
        """One kind of chroma for the first and the second of every two pixels, with the centre subtracted.

        From column p of chroma on, where s(p + half) is the last column of the frame if that is further left:

            near   s(p)      s(p + 1)  ...  s(p + half - 1)
            far    s(p + 1)  s(p + 2)  ...  s(p + half)
        """
        code, half = self._code, self._kernel.lanes // 2
        near = self._sums(rows, place, samples, half)
        behind = self._sums(rows, code.smaller(code.add(place, half), self._edges[2]), samples, 1)
        far = code.shuffle(near, code.splat(code.extract(behind, 0), half), range(1, half + 1))
        own, mean = far if phase else near, code.add(near, far)
        values = [code.binary("lshr", code.add(own, 2), 2), code.binary("lshr", code.add(mean, 4), 3)]
        return [
            code.binary("sub", value, self._kernel.matrix.chroma_centre)
            for value in (values[::-1] if phase else values)
        ]

    def _sums(self, rows: Sequence[Value], place: Value, samples: Samples, count: int) -> Value:
        """Four times `count` samples from a chroma column on, between two rows if these share samples."""
        code, planes = self._code, len(self._kernel.samples.planes)
        own = self._samples(rows[samples.plane], place, samples, count)
        if len(rows) == planes:
            return code.binary("shl", own, 2)
        return code.add(code.binary("mul", own, 3), self._samples(rows[planes + samples.plane], place, samples, count))

    def _samples(self, row: Value, place: Value, samples: Samples, count: int) -> Value:
        """Samples of one kind from a chroma column on; a single one is loaded without those beside it."""
        code = self._code
        if count == 1:
            address = code.at(
                row, code.multiply(code.add(code.multiply(place, samples.step), samples.first), self._itemsize)
            )
            vector = code.load(vector_type(1, self._element), address, 1)
        else:
            address = code.at(row, code.multiply(place, samples.step * self._itemsize))
            vector = code.load(vector_type(count * samples.step, self._element), address, 1)
            if samples.step > 1:
                vector = code.shuffle(vector, None, [samples.step * n + samples.first for n in range(count)])
        return code.cast("zext", vector, self._number)

    def _clamped(self, row: Value) -> Value:
        """A row of chroma inside the frame: its first or last row in place of those beyond."""
        code, (first, last, _) = self._code, self._edges
        inside = code.smaller(row, last)
        return code.select(code.compare("icmp slt", inside, first), first, inside)

    def _colours(self, luma: Value, *chromas: tuple[Value, Value]) -> list[Value]:
        """Red, green and blue, clamped."""
        code, matrix, lanes = self._code, self._kernel.matrix, self._kernel.lanes
        y = code.binary("mul", luma, matrix.luma)
        products = [self._products(*chroma) for chroma in chromas]
        even, odd = products[0], products[-1]
        places = [lane // 2 + (lane % 2) * (lanes // 2) for lane in range(lanes)]
        colours = []
        for first, second in zip(even, odd, strict=True):
            total = code.add(y, code.shuffle(first, second, places))
            shifted = code.binary("ashr", total, FRACTION_BITS)
            clamped = self._bounded("smin", self._bounded("smax", shifted, 0), matrix.most)
            colours.append(code.cast("trunc", clamped, self._element))
        return colours

    @property
    def _goes_by_words(self) -> bool:
        """True if adjacent 8-bit samples are extracted from words: four of luma and two of chroma, or a pair's four.

        Wider targets of planes need one number a lane, which the other path has already.
        """
        kernel = self._kernel
        fits = len(kernel.samples.planes) == 1 or kernel.conversion.target.itemsize == 1
        return fits and self._itemsize == 1 and not kernel.linear

    def _colours_of_words(self, rows: Sequence[Value], at: Value) -> list[Value]:
        """Red, green and blue from words of four pixels; vector k has pixel k of every word.

        Shifts extract samples from words and insert colours into words, without a shuffle:

            luma     y0 y1 y2 y3 | y4 y5 y6 y7 | ...      four vectors of 32-bit numbers
            chroma   u0 v0 u2 v2 | u4 v4 u6 v6 | ...      two of each kind
        """
        code, kernel = self._code, self._kernel
        luma = code.load(vector_type(kernel.lanes, "i8"), code.at(rows[0], at), 1)
        if kernel.matrix.luma_floor:
            name = f"llvm.usub.sat.v{kernel.lanes}i8"
            luma = code.call(name, luma.type, luma, code.full(luma.type, kernel.matrix.luma_floor))
        words = code.recast(luma, "i32")
        shifted = [words if not k else code.binary("lshr", words, 8 * k) for k in range(4)]
        bright = [
            code.binary("mul", code.binary("and", word, 255) if k < 3 else word, kernel.matrix.luma)
            for k, word in enumerate(shifted)
        ]
        blue, red = (self._signed_chroma(rows, at, samples) for samples in kernel.samples.channels[1:])
        products = [self._products(*pair) for pair in zip(blue, red, strict=True)]
        return [
            self._in_words([code.add(bright[k], products[k // 2][colour]) for k in range(4)]) for colour in range(3)
        ]

    def _colours_of_pairs(self, rows: Sequence[Value], at: Value) -> list[Value]:
        """Red, green and blue from words of a pair of packed pixels, y0 u y1 v in any order."""
        code, kernel, half = self._code, self._kernel, self._kernel.lanes // 2
        luma, *chroma = kernel.samples.channels
        loaded = code.load(vector_type(4 * half, "i8"), code.at(rows[0], self._whole_column(at, luma.step)), 1)
        places = (luma.first, luma.first + luma.step)
        if kernel.matrix.luma_floor:
            floors = sum(kernel.matrix.luma_floor << 8 * place for place in places)
            name = f"llvm.usub.sat.v{loaded.lanes}i8"
            loaded = code.call(
                name, loaded.type, loaded, code.recast(code.full(vector_type(half, "i32"), floors), "i8")
            )
        words = code.recast(loaded, "i32")
        signed = []
        for samples in chroma:
            # x - 128 is x with the highest bit inverted, as a signed number.
            left = code.binary("shl", words, 24 - 8 * samples.first)
            signed.append(code.binary("ashr", code.binary("xor", left, -(2**31)), 24))
        products = self._products(*signed)
        bright = [
            code.binary("mul", code.binary("and", code.binary("lshr", words, 8 * place), 255), kernel.matrix.luma)
            for place in places
        ]
        return [
            code.cast("trunc", self._in_halves(*(code.add(value, product) for value in bright)), "i8")
            for product in products
        ]

    def _signed_chroma(self, rows: Sequence[Value], at: Value, samples: Samples) -> list[Value]:
        """One kind of chroma for pixels 0 and 1 and for pixels 2 and 3 of every four, with the centre subtracted."""
        code, lanes = self._code, self._kernel.lanes
        place = code.binary("lshr", code.add(at, self._phase), 1)
        address = code.at(rows[samples.plane], code.multiply(place, samples.step))
        loaded = code.load(vector_type(lanes * samples.step // 2, "i8"), address, 1)
        # x - 128 is x with the highest bit inverted, as a signed number.
        turned = code.recast(code.binary("xor", loaded, -128), f"i{16 * samples.step}")
        words = turned if samples.step == 2 else code.cast("zext", turned, "i32")
        places = [samples.first + samples.step * number for number in range(2)]
        left = [code.binary("shl", words, 24 - 8 * place) if place < 3 else words for place in places]
        return [code.binary("ashr", word, 24) for word in left]

    def _in_words(self, totals: list[Value]) -> Value:
        """Sums of pixels 0, 1, 2 and 3 of every four: shifted, clamped, and in the order of the pixels."""
        code = self._code
        even, odd = self._in_halves(totals[0], totals[2]), self._in_halves(totals[1], totals[3])
        return code.recast(code.binary("or", even, code.binary("shl", odd, 8)), "i8")

    def _in_halves(self, low: Value, high: Value) -> Value:
        """Sums shifted and clamped, as the lower and the upper 16 bits of words."""
        code = self._code
        lower = code.binary("and", code.binary("ashr", low, FRACTION_BITS), 0xFFFF)
        upper = code.binary("and", code.binary("ashr", high, FRACTION_BITS - 16), -0x10000)
        both = code.recast(code.binary("or", lower, upper), "i16")
        return self._bounded("smin", self._bounded("smax", both, 0), self._kernel.matrix.most)

    def _products(self, blue: Value, red: Value) -> tuple[Value, Value, Value]:
        """The terms that chroma adds to each colour, rounding offset included."""
        code, matrix = self._code, self._kernel.matrix
        half = 1 << (FRACTION_BITS - 1)
        green = code.add(code.binary("mul", red, matrix.green_v), code.binary("mul", blue, matrix.green_u))
        return (
            code.add(code.binary("mul", red, matrix.red_v), half),
            code.add(green, half),
            code.add(code.binary("mul", blue, matrix.blue_u), half),
        )

    def _bounded(self, operation: str, vector: Value, bound: int) -> Value:
        code = self._code
        name = f"llvm.{operation}.v{vector.lanes}{vector.element}"
        return code.call(name, vector.type, vector, code.full(vector.type, bound))


# The choice of a kernel, windows, and single rows for other operations' loops


def frame_kernel(problem: FrameProblem, phase: int = 0) -> FrameKernel | str:
    """The kernel of a problem for windows that begin at an even (`phase` 0) or odd column (1), or why there is none."""
    conversion, layout, limits = problem.conversion, problem.target.layout, policy().pixels
    channels, height, width = layout.sizes
    across, _, right = layout.strides
    if not can_compile(conversion):
        return f"{conversion} is left to NumPy"
    if not height or width < limits.least_lanes:
        return f"windows narrower than {limits.least_lanes} pixels are left to NumPy"
    for plane, strides in zip(problem.samples.planes, problem.plane_strides, strict=True):
        if strides[1:] != ((plane.samples, 1) if plane.samples > 1 else (1,)):
            return f"planes with steps of {strides} elements are left to NumPy"
    if abs(right) == 1:
        pixel = 0
    elif across == 1 and abs(right) == channels:
        pixel = channels
    else:
        return f"targets with steps of {layout.strides} elements along C, H, W are left to NumPy"
    widest = max(conversion.target.itemsize, problem.samples.element.itemsize)
    lanes = min(max(limits.step_bytes // widest, limits.least_lanes), 1 << (width.bit_length() - 1))
    if conversion.matrix is not None and len(conversion.matrix) > policy().pixels.most_channels:
        return f"{conversion} is left to NumPy"
    constants = (*(conversion.scale or ()), *(conversion.bias or ()))
    finite = all(isfinite(unpack("f", pack("f", value))[0]) if abs(value) < 3e38 else False for value in constants)
    shape = kernel_conversion(conversion)
    odd = bool(width % 2) and problem.samples.chroma_step[1] == 2
    linear = problem.chroma == "linear"
    return FrameKernel(problem.samples, problem.matrix, shape, finite, lanes, pixel, right < 0, odd, phase, linear)


def frames_kernel(problem: FrameProblem) -> CpuKernel | str:
    """The compiled loops of a problem, or why it is left to NumPy."""
    kernel = frame_kernel(problem)
    if isinstance(kernel, str):
        return kernel
    return CpuKernel(
        kernel.name,
        f"rows in steps of {kernel.lanes} pixels, from samples to elements of the target in registers",
        Width(kernel.lanes * problem.samples.channels[0].step * problem.samples.element.itemsize),
        Width(kernel.lanes * problem.target.element.itemsize),
        items=problem.target.layout.sizes[1],
        shared_bytes=policy().pixels.shared_bytes,
    )


def compiled_frames(
    plan: CpuPlan[FrameProblem],
) -> Callable[[Sequence[Operand], tuple[int, int], Operand], None] | None:
    """The compiled loop over a plan's windows, or None for NumPy."""
    problem: FrameProblem = plan.problem
    kernels = [frame_kernel(problem, phase) for phase in range(problem.samples.chroma_step[1])]
    compilable = [kernel for kernel in kernels if not isinstance(kernel, str)]
    return _Windows(problem, [loop_of(kernel) for kernel in compilable]) if len(compilable) == len(kernels) else None


@dataclass(frozen=True, slots=True)
class RowLoop:
    """The compiled loop that other loops call for single rows of a frame, as packed RGB pixels of the samples' type.

    Columns begin at an even `left`. `parameters` are the loop's for the planes of a frame. The item number of the loop
    is the number of a row; consecutive rows are written `pitch` bytes apart.
    """

    loop: CompiledFunction
    left: int
    pitch: int
    windows: _Windows

    def parameters(self, planes: Sequence[Operand]) -> ctypes.Array[ctypes.c_int64]:
        """The parameters of the loop; the caller keeps them alive while it runs."""
        return self.windows.parameters(planes, (0, self.left))


def row_loop(surface: FrameSurface, columns: tuple[int, int]) -> RowLoop | None:
    """The loop over a frame's rows between two columns, the first of them even; None for NumPy."""
    left, right = columns
    problem = surface.window(surface.sizes[0], right - left)
    kernel = frame_kernel(problem)
    if isinstance(kernel, str):
        return None
    loop = loop_of(kernel)
    itemsize = surface.samples.element.itemsize
    return RowLoop(loop, left, problem.target.layout.strides[1] * itemsize, _Windows(problem, [loop]))


class _Windows:
    """A problem with its kernels: one for windows that begin at an even column, and one for an odd column."""

    def __init__(self, problem: FrameProblem, loops: list[CompiledFunction]) -> None:
        """Pack the parameters that all windows share."""
        self._problem, self._loops = problem, loops
        layout, itemsize = problem.target.layout, problem.target.element.itemsize
        across, down, _ = layout.strides
        self._steps = (down * itemsize, across * itemsize, layout.sizes[2])
        self._constants = constant_fields(problem.conversion, layout.sizes[0])
        limits = policy().pixels
        self._alone = problem.bytes_moved < limits.shared_bytes
        self._work = limits.arithmetic * problem.bytes_moved

    def __call__(self, planes: Sequence[Operand], origin: tuple[int, int], target: Operand) -> None:
        """Write one window."""
        parameters = self.parameters(planes, origin)
        loop = self._loops[origin[1] % self._problem.samples.chroma_step[1]]
        height = target.layout.sizes[1]
        if self._alone:
            loop.alone(0, target.address, ctypes.addressof(parameters), 0, height)
        else:
            run_shared(loop, 0, target.address, ctypes.addressof(parameters), height, nbytes=self._work)

    def parameters(self, planes: Sequence[Operand], origin: tuple[int, int]) -> ctypes.Array[ctypes.c_int64]:
        """The parameters of the loop for a window that begins at a pixel of a frame."""
        samples, (top, left) = self._problem.samples, origin
        itemsize = samples.element.itemsize
        fields = []
        for plane, operand in zip(samples.planes, planes, strict=True):
            down, right = operand.layout.strides[:2]
            place = top // plane.rows * down + left // plane.columns * right
            fields += [operand.address + place * itemsize, down * itemsize]
        rows_of_chroma, columns_of_chroma = samples.chroma_step
        fields += [*self._steps, top % rows_of_chroma, left % columns_of_chroma]
        if self._problem.chroma == "linear":
            (height, width), above, before = self._problem.sizes, top // rows_of_chroma, left // columns_of_chroma
            fields += [-above, height // rows_of_chroma - 1 - above, width // columns_of_chroma - 1 - before]
        fields += self._constants
        return (ctypes.c_int64 * len(fields))(*fields)
