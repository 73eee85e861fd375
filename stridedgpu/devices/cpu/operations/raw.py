"""Packed samples of cameras on the CPU: NumPy's integers, and compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from stridedgpu.devices.cpu.numpy_loops.raw import numpy_raw_kernel, unpack_samples
from stridedgpu.devices.cpu.plan import CpuKernel, CpuOperation, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.raw_problem import RawProblem

__all__ = ["OPERATION"]


def _run_numpy(problem: RawProblem) -> Callable[..., None]:
    return partial(unpack_samples, problem)


def _compiled(problem: RawProblem) -> CpuKernel | str:
    from stridedgpu.devices.cpu.compiled.raw import raw_kernel

    return raw_kernel(problem)


def _run_compiled(plan: CpuPlan) -> Callable[..., None] | None:
    from stridedgpu.devices.cpu.compiled.raw import compiled_raw

    return compiled_raw(plan)


def _at_once_bytes() -> int:
    return policy().promotion.frame_bytes


OPERATION: Final = CpuOperation(
    numpy_raw_kernel,
    _run_numpy,
    _compiled,
    _run_compiled,
    arguments=4,
    at_once_bytes=_at_once_bytes,
    tells_why=True,
)
