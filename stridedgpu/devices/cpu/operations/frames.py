"""Frames of luma and chroma into pixels on the CPU: NumPy's integers, and compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from stridedgpu.devices.cpu.numpy_loops.frames import frame_loops, numpy_frames_kernel
from stridedgpu.devices.cpu.plan import CpuKernel, CpuOperation, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.frame_problem import FrameProblem

__all__ = ["OPERATION"]


def _run_numpy(problem: FrameProblem) -> Callable[..., None]:
    return partial(frame_loops, problem)


def _compiled(problem: FrameProblem) -> CpuKernel | str:
    from stridedgpu.devices.cpu.compiled.frames import frames_kernel

    return frames_kernel(problem)


def _run_compiled(plan: CpuPlan) -> Callable[..., None] | None:
    from stridedgpu.devices.cpu.compiled.frames import compiled_frames

    return compiled_frames(plan)


def _at_once_bytes() -> int:
    return policy().promotion.frame_bytes


OPERATION: Final = CpuOperation(
    numpy_frames_kernel,
    _run_numpy,
    _compiled,
    _run_compiled,
    arguments=3,
    at_once_bytes=_at_once_bytes,
    tells_why=True,
)
