"""Resizes on the CPU: NumPy's sums of taps, and compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from stridedgpu.devices.cpu.numpy_loops.resize import numpy_resize_kernel, resize_located
from stridedgpu.devices.cpu.plan import CpuKernel, CpuOperation, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.resize_problem import ResizeProblem

__all__ = ["OPERATION"]


def _run_numpy(problem: ResizeProblem) -> Callable[..., None]:
    return lambda windows, sources, target: resize_located(problem, range(len(windows)), windows, sources, target)


def _compiled(problem: ResizeProblem) -> CpuKernel | str | None:
    from stridedgpu.devices.cpu.compiled.resize import resize_kernel

    return resize_kernel(problem)


def _run_compiled(plan: CpuPlan) -> Callable[..., None] | None:
    from stridedgpu.devices.cpu.compiled.resize import compiled_resize

    return compiled_resize(plan.problem, partial(resize_located, plan.problem))


def _at_once_bytes() -> int:
    return policy().promotion.resize_bytes


OPERATION: Final = CpuOperation(
    numpy_resize_kernel,
    _run_numpy,
    _compiled,
    _run_compiled,
    at_once_bytes=_at_once_bytes,
    tells_why=True,
)
