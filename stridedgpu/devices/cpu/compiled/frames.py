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

from stridedgpu.devices.cpu.native.calls import CompiledFunction
from stridedgpu.devices.cpu.native.elements import can_convert
from stridedgpu.devices.cpu.native.frames import NativeFrameParameters, frames_loop, has_frames
from stridedgpu.devices.cpu.native.pool import run_shared
from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.operand import Operand
from stridedgpu.problems.device_plan import Width
from stridedgpu.problems.frame_problem import FrameProblem, FrameSurface
from stridedgpu.values.colour_matrix import FRACTION_BITS, ColourMatrix
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.pixel_formats import PixelFormat, Samples
from stridedgpu.values.strides import power_of_two

from .channel_matrix import Constants, constant_fields, kernel_conversion, mixed_vectors, store_pixels
from .conversion import converted
from .ir import Code, Value, vector_type
from .jit import loop_of


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

    def text(self, name: str) -> str:
        """The LLVM module."""
        return _Text(self).text(name)


class _Text:
    """Builds the code of one kernel.

    Its parameters are the planes' addresses and row strides; the target's row and channel strides in bytes, and its
    width; the row and column of the window's first pixel within its chroma sample; for linear chroma the frame's first
    and last row and its last column of chroma, in samples from the window's first one; then the constants.
    """

    def __init__(self, kernel: FrameKernel) -> None:
        self._kernel, self._code = kernel, Code()
        code, planes = self._code, len(kernel.samples.planes)
        self._samples_of, self._element = kernel.samples.channels, f"i{8 * kernel.samples.element.itemsize}"
        self._number = "i32" if kernel.matrix.most == 255 else "i64"
        self._itemsize = kernel.samples.element.itemsize
        self._planes = [(address.pointer(), stride) for address, stride in (code.take(2) for _ in range(planes))]
        self._target_row, self._target_channel, self._width, self._parity, self._phase = code.take(5)
        self._edges = code.take(3) if kernel.linear else []
        self._constants = Constants.loaded(code, kernel.conversion, kernel.conversion.output_channels(3), kernel.lanes)

    def text(self, name: str) -> str:
        """The LLVM module: a loop over rows, the steps of a row, and the odd last step."""
        code, kernel = self._code, self._kernel
        lanes = kernel.lanes
        even = self._width & -2 if kernel.odd else self._width
        down = kernel.samples.chroma_step[0]
        with code.loop(code.first, code.last) as row:
            row_of_frame = row + self._parity
            shared = row_of_frame >> (down.bit_length() - 1)
            rows = [
                address + (row if plane.rows == 1 else shared) * stride
                for plane, (address, stride) in zip(kernel.samples.planes, self._planes, strict=True)
            ]
            if kernel.linear and down == 2:
                # The other row of chroma beside a row of pixels, of each plane: behind the planes' own rows.
                above_or_below, (first, last, _) = (row_of_frame & 1) * 2 - 1, self._edges
                beside = (shared + above_or_below).at_most(last).at_least(first)
                rows += [address + beside * stride for address, stride in self._planes]
            target = code.target + row * self._target_row
            with code.steps(0, even, lanes) as at:
                self._step(rows, target, at, kernel.phase)
            if kernel.odd:
                self._step(rows, target, self._width - lanes, 1 - kernel.phase)
        return code.text(name)

    def _step(self, rows: Sequence[Value], target: Value, at: Value, phase: int) -> None:
        """Write `lanes` pixels from a column on; `phase` 1: the first one is the second column of its chroma sample."""
        kernel = self._kernel
        colours = self._colours(self._luma(rows, at), *self._chromas(rows, (at + self._phase) >> 1, phase))
        if kernel.conversion.matrix is not None:
            pixels = mixed_vectors(colours, kernel.conversion, self._constants)
        else:
            order = kernel.conversion.channels or range(3)
            pixels = [
                converted(colours[channel], kernel.conversion, affine, finite=kernel.finite)
                for channel, affine in zip(order, self._constants.affines, strict=True)
            ]
        step = kernel.conversion.target.itemsize * (kernel.pixel or 1)
        if kernel.mirrored:  # the last pixel of the step has the lowest address
            pixels = [vector.shuffle(range(kernel.lanes)[::-1]) for vector in pixels]
            at, step = at + (kernel.lanes - 1), -step
        store_pixels(pixels, target + at * step, kernel.pixel, self._target_channel)

    # Samples, in the type of memory

    def _samples(self, row: Value, place: Value, samples: Samples, count: int) -> Value:
        """`count` samples of one kind from one of their columns on; a single one is loaded without those beside it."""
        step = samples.step
        first = samples.first % step  # the luma of packed pixels is in one column of each
        start = place * step
        if count == 1:
            step, start, first = 1, start + first, 0
        address = row + start * self._itemsize
        vector = address.load(vector_type(count * step, self._element))
        return vector if step == 1 else vector.shuffle(range(first, count * step, step))

    def _luma(self, rows: Sequence[Value], at: Value) -> Value:
        """Luma, at least the least that counts, in its narrow type: a vector has more of its lanes."""
        luma = self._samples_of[0]
        # The address of packed pixels is that of a whole pair.
        column = at if luma.step == 1 else at + self._phase
        vector = self._samples(rows[luma.plane], column, luma, self._kernel.lanes)
        least = self._kernel.matrix.luma_least
        return vector.intrinsic("llvm.umax", least) if least else vector

    # Chroma as signed numbers, in 32 or 64 bits

    def _chromas(self, rows: Sequence[Value], place: Value, phase: int) -> list[list[Value]]:
        """Blue and red difference of the first columns of chroma samples and, if they differ, of the second columns."""
        if self._kernel.linear:
            blue, red = (self._linear_chroma(rows, place, samples, phase) for samples in self._samples_of[1:])
            return [list(pair) for pair in zip(blue, red, strict=True)]
        half, columns = self._kernel.lanes // 2, (place, place + 1) if phase else (place,)
        return [
            [
                self._centred(self._wide(self._samples(rows[samples.plane], column, samples, half)))
                for samples in self._samples_of[1:]
            ]
            for column in columns
        ]

    def _linear_chroma(self, rows: Sequence[Value], place: Value, samples: Samples, phase: int) -> list[Value]:
        """One kind of chroma for the first and the second of every two pixels.

        From column p of chroma on, where s(p + half) is the last column of the frame if that is further left:

            near   s(p)      s(p + 1)  ...  s(p + half - 1)
            far    s(p + 1)  s(p + 2)  ...  s(p + half)
        """
        half = self._kernel.lanes // 2
        near = self._sums(rows, place, samples, half)
        behind = self._sums(rows, (place + half).at_most(self._edges[2]), samples, 1)
        far = near.shuffle(range(1, half + 1), behind.extract(0).splat(half))
        own, mean = far if phase else near, near + far
        values = [(own + 2) >> 2, (mean + 4) >> 3]
        return [self._centred(value) for value in (values[::-1] if phase else values)]

    def _sums(self, rows: Sequence[Value], place: Value, samples: Samples, count: int) -> Value:
        """Four times `count` samples from a chroma column on, between two rows if these share samples."""
        planes = len(self._kernel.samples.planes)
        own = self._wide(self._samples(rows[samples.plane], place, samples, count))
        if len(rows) == planes:
            return own << 2
        beside = self._wide(self._samples(rows[planes + samples.plane], place, samples, count))
        return own * 3 + beside

    def _wide(self, vector: Value) -> Value:
        return vector.cast("zext", self._number)

    def _centred(self, vector: Value) -> Value:
        return vector - self._kernel.matrix.chroma_centre

    # Colours, clamped, in the type of samples

    def _colours(self, luma: Value, *chromas: Sequence[Value]) -> list[Value]:
        matrix, lanes = self._kernel.matrix, self._kernel.lanes
        y = self._wide(luma) * matrix.luma
        products = [self._products(*chroma) for chroma in chromas]
        even, odd = products[0], products[-1]
        places = [lane // 2 + (lane % 2) * (lanes // 2) for lane in range(lanes)]
        colours = []
        for first, second in zip(even, odd, strict=True):
            total = y + first.shuffle(places, second)
            colours.append(self._bounded(total.shifted(FRACTION_BITS)).cast("trunc", self._element))
        return colours

    def _products(self, blue: Value, red: Value) -> tuple[Value, Value, Value]:
        """The terms that chroma adds to each colour, with what makes black 0 and the rounding offset."""
        matrix = self._kernel.matrix
        half = (1 << (FRACTION_BITS - 1)) - matrix.luma_floor * matrix.luma
        green = red * matrix.green_v + blue * matrix.green_u
        return (red * matrix.red_v + half, green + half, blue * matrix.blue_u + half)

    def _bounded(self, sums: Value) -> Value:
        return sums.intrinsic("llvm.smax", 0).intrinsic("llvm.smin", self._kernel.matrix.most)


# The choice of a kernel, windows, and single rows for other operations' loops


def frame_kernel(problem: FrameProblem, phase: int = 0) -> FrameKernel | str:
    """The kernel of a problem for windows that begin at an even (`phase` 0) or odd column (1), or why there is none."""
    conversion, layout, limits = problem.conversion, problem.target.layout, policy().pixels
    channels, height, width = layout.sizes
    across, _, right = layout.strides
    if not can_convert(conversion):
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
    lanes = min(max(limits.step_bytes // widest, limits.least_lanes), power_of_two(width))
    if conversion.matrix is not None and len(conversion.matrix) > policy().pixels.most_channels:
        return f"{conversion} is left to NumPy"
    constants = (*(conversion.scale or ()), *(conversion.bias or ()))
    finite = all(isfinite(unpack("f", pack("f", value))[0]) if abs(value) < 3e38 else False for value in constants)
    shape = kernel_conversion(conversion)
    odd = bool(width % 2) and problem.samples.chroma_step[1] == 2
    linear = problem.chroma == "linear"
    return FrameKernel(problem.samples, problem.matrix, shape, finite, lanes, pixel, right < 0, odd, phase, linear)


def frames_kernel(problem: FrameProblem) -> CpuKernel | str:
    """The compiled loops of a problem, one for windows from each column of a chroma sample, or why there are none."""
    kernels = [frame_kernel(problem, phase) for phase in range(problem.samples.chroma_step[1])]
    kernel = kernels[0]
    if isinstance(kernel, str):
        return kernel
    return CpuKernel(
        kernel.name,
        f"rows in steps of {kernel.lanes} pixels, from samples to elements of the target in registers",
        Width(kernel.lanes * problem.samples.channels[0].step * problem.samples.element.itemsize),
        Width(kernel.lanes * problem.target.element.itemsize),
        items=problem.target.layout.sizes[1],
        shared_bytes=policy().pixels.shared_bytes,
        calls=tuple(kernels),
        is_native=has_frames(kernel),
    )


FrameMove = Callable[[Sequence[Operand], tuple[int, int], Operand], None]
"""What writes the window of a frame's planes that begins at a pixel."""


def compiled_frames(plan: CpuPlan[FrameProblem]) -> FrameMove | None:
    """The compiled loop over a plan's windows, or None for NumPy."""
    chosen, problem, limits = plan.compiled, plan.problem, policy().pixels
    if chosen is None:
        return None
    loops = [_loop_of(kernel) for kernel in chosen.calls]
    pack = _parameters_of(problem, chosen.calls[0])
    work, shared = (limits.arithmetic * nbytes for nbytes in (problem.bytes_moved, limits.shared_bytes))

    def write(planes: Sequence[Operand], origin: tuple[int, int], target: Operand) -> None:
        parameters = pack(planes, origin)
        loop, address = loops[origin[1] % len(loops)], ctypes.addressof(parameters)
        height = target.layout.sizes[1]
        run_shared(loop, 0, target.address, address, height, nbytes=work, shared_bytes=shared)

    return write


def _loop_of(kernel: FrameKernel) -> CompiledFunction:
    level = policy().native_level
    return frames_loop(kernel, level) if level is not None and has_frames(kernel) else loop_of(kernel)


def _parameters_of(problem: FrameProblem, kernel: FrameKernel) -> FrameParameters:
    level = policy().native_level
    if level is not None and has_frames(kernel):
        return NativeFrameParameters(problem, kernel, level)
    return _CompiledParameters(problem)


FrameParameters = Callable[[Sequence[Operand], tuple[int, int]], ctypes.Array[ctypes.c_int64]]
"""What makes a loop's parameters for the window of a frame's planes that begins at a pixel."""


@dataclass(frozen=True, slots=True)
class RowLoop:
    """The compiled loop that other loops call for single rows of a frame, as packed RGB pixels of the samples' type.

    Columns begin at an even `left`. The item number of the loop is the number of a row; consecutive rows are written
    `pitch` bytes apart.
    """

    loop: CompiledFunction
    left: int
    pitch: int
    pack: FrameParameters

    def parameters(self, planes: Sequence[Operand]) -> ctypes.Array[ctypes.c_int64]:
        """The parameters of the loop for a frame; the caller keeps them alive while it runs."""
        return self.pack(planes, (0, self.left))


def row_loop(surface: FrameSurface, columns: tuple[int, int]) -> RowLoop | None:
    """The loop over a frame's rows between two columns, the first of them even; None for NumPy."""
    left, right = columns
    problem = surface.window(surface.sizes[0], right - left)
    kernel = frame_kernel(problem)
    if isinstance(kernel, str):
        return None
    pitch = problem.target.layout.strides[1] * surface.samples.element.itemsize
    return RowLoop(_loop_of(kernel), left, pitch, _parameters_of(problem, kernel))


class _CompiledParameters:
    """The parameters of a problem's compiled loops for a window: those that all windows share are computed once."""

    def __init__(self, problem: FrameProblem) -> None:
        self._samples, self._sizes, self._linear = problem.samples, problem.sizes, problem.chroma == "linear"
        layout, itemsize = problem.target.layout, problem.target.element.itemsize
        across, down, _ = layout.strides
        self._steps = (down * itemsize, across * itemsize, layout.sizes[2])
        self._constants = constant_fields(problem.conversion, layout.sizes[0])

    def __call__(self, planes: Sequence[Operand], origin: tuple[int, int]) -> ctypes.Array[ctypes.c_int64]:
        """The parameters for a window that begins at a pixel of a frame."""
        samples, (top, left) = self._samples, origin
        itemsize = samples.element.itemsize
        fields = []
        for plane, operand in zip(samples.planes, planes, strict=True):
            down, right = operand.layout.strides[:2]
            place = top // plane.rows * down + left // plane.columns * right
            fields += [operand.address + place * itemsize, down * itemsize]
        rows_of_chroma, columns_of_chroma = samples.chroma_step
        fields += [*self._steps, top % rows_of_chroma, left % columns_of_chroma]
        if self._linear:
            (height, width), above, before = self._sizes, top // rows_of_chroma, left // columns_of_chroma
            fields += [-above, height // rows_of_chroma - 1 - above, width // columns_of_chroma - 1 - before]
        fields += self._constants
        return (ctypes.c_int64 * len(fields))(*fields)
