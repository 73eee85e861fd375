"""Frames on the CPU: which loops write a window, compiled or NumPy's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from stridedgpu.devices.cpu.compiled.jit import why_unavailable
from stridedgpu.devices.cpu.numpy_loops.frame_samples import write_samples
from stridedgpu.devices.cpu.numpy_loops.frames import frame_loops
from stridedgpu.devices.frame_interface import FrameLaunch
from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.operand import Operand
from stridedgpu.planning.device_plan import Width
from stridedgpu.planning.frame_problem import FramePlan, FrameProblem
from stridedgpu.values.errors import DeviceError

__all__ = ["CpuFrames"]

_NUMPY: Final = "numpy_frame_bands"
"""The name of the loops that do everything."""


class CpuFrames:
    """The processor's conversions of frames."""

    @staticmethod
    def plan_frame(problem: FrameProblem) -> FramePlan:
        """How this processor does it."""
        reason = why_unavailable()
        return _planned(problem, reason)

    @staticmethod
    def write_samples(picture: Sequence[Operand], frame: FrameOperand, stream: object) -> None:
        """Samples by NumPy's loops."""
        _check_no_stream(stream)
        write_samples(picture, frame)

    @staticmethod
    def prepare_frame(plan: FramePlan) -> FrameLaunch:
        """The plan's loops; they run where they are called, and take no stream."""
        return _prepared(plan)


def _check_no_stream(stream: object) -> None:
    if stream is not None:
        raise DeviceError(f"stream={stream!r} has no meaning on the CPU, where calls return when they are done.")


@lru_cache(maxsize=1024)
def _planned(problem: FrameProblem, reason: str | None) -> FramePlan:
    """Compiled loops, or NumPy's for a reason."""
    if reason is None:
        from stridedgpu.devices.cpu.compiled.frames import frame_kernel

        kernel = frame_kernel(problem)
        if not isinstance(kernel, str):
            load = kernel.lanes * problem.samples.channels[0].step * problem.samples.element.itemsize
            store = kernel.lanes * problem.target.element.itemsize
            return FramePlan(problem, "cpu", kernel.name, Width(load), Width(store), 64)
        reason = kernel
    sample, element = problem.samples.element, problem.target.element
    return FramePlan(problem, "cpu", _NUMPY, Width(sample.itemsize), Width(element.itemsize), 64, reason)


@lru_cache(maxsize=1024)
def _prepared(plan: FramePlan) -> FrameLaunch:
    """The plan's loops, kept for the next call."""
    problem = plan.problem
    compiled = None
    if plan.kernel != _NUMPY:
        from stridedgpu.devices.cpu.compiled.frames import compiled_frames

        compiled = compiled_frames(problem)

    def launch(planes: Sequence[Operand], origin: tuple[int, int], target: Operand, stream: object) -> None:
        _check_no_stream(stream)
        if compiled is None:
            frame_loops(problem, planes, origin, target)
        else:
            compiled(planes, origin, target)

    return launch
