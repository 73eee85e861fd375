"""Compiled loops over frames: the choice of a kernel, its windows, and single rows for other operations' loops."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from struct import pack, unpack

from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.operand import Operand
from stridedgpu.planning.device_plan import Width
from stridedgpu.planning.frame_problem import FrameProblem, FrameSurface

from .channel_matrix import constant_fields, kernel_conversion
from .conversion import can_compile
from .frame_kernel import FrameKernel
from .jit import CompiledFunction, loop_of
from .worker_pool import run_shared

__all__ = ["RowLoop", "compiled_frames", "frame_kernel", "frames_kernel", "row_loop"]


def frame_kernel(problem: FrameProblem, phase: int = 0) -> FrameKernel | str:
    """The kernel of a problem for windows that begin at an even (`phase` 0) or odd column (1), or why there is none."""
    conversion, layout, limits = problem.conversion, problem.target.layout, policy().frames
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
    if conversion.matrix is not None and len(conversion.matrix) > policy().channel_matrix.most_channels:
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
        shared_bytes=policy().frames.shared_bytes,
    )


def compiled_frames(plan: CpuPlan) -> Callable[[Sequence[Operand], tuple[int, int], Operand], None] | None:
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
        limits = policy().frames
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
