"""Pixels into a frame's luma and chroma on the CPU: NumPy's integers, and compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from stridedgpu.devices.cpu.numpy_loops.frames import numpy_samples_kernel, write_samples
from stridedgpu.devices.cpu.plan import CpuKernel, CpuOperation, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.frame_problem import SamplesProblem

__all__ = ["OPERATION"]


def _run_numpy(problem: SamplesProblem) -> Callable[..., None]:
    return partial(write_samples, problem)


def _compiled(problem: SamplesProblem) -> CpuKernel | str:
    from stridedgpu.devices.cpu.compiled.frame_encode import samples_kernel

    return samples_kernel(problem)


def _run_compiled(plan: CpuPlan) -> Callable[..., None] | None:
    from stridedgpu.devices.cpu.compiled.frame_encode import compiled_samples

    return compiled_samples(plan)


def _at_once_bytes() -> int:
    return policy().promotion.frame_bytes


OPERATION: Final = CpuOperation(
    numpy_samples_kernel,
    _run_numpy,
    _compiled,
    _run_compiled,
    arguments=2,
    at_once_bytes=_at_once_bytes,
    tells_why=True,
)
