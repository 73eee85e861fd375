"""Relayout on the CPU: NumPy's loops, and compiled ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.numpy_loops.relayout import NumpyRelayout, numpy_relayout_kernel
from stridedgpu.devices.cpu.plan import CpuKernel, CpuOperation, CpuPlan
from stridedgpu.devices.interface import DirectLaunch
from stridedgpu.problems.relayout_problem import RelayoutProblem

__all__ = ["OPERATION"]


def _run_numpy(problem: RelayoutProblem) -> Callable[[Buffer, int, Buffer, int], None]:
    loops = NumpyRelayout(problem)

    def move(source: Buffer, source_start: int, target: Buffer, target_start: int) -> None:
        loops(source.bytes[source_start:], target.bytes[target_start:])

    return move


def _compiled(problem: RelayoutProblem) -> CpuKernel | None:
    from stridedgpu.devices.cpu.compiled.relayout import relayout_kernel

    return relayout_kernel(problem)


def _run_compiled(plan: CpuPlan) -> DirectLaunch | None:
    from stridedgpu.devices.cpu.compiled.relayout import compiled_relayout

    return compiled_relayout(plan)


OPERATION: Final = CpuOperation(
    numpy_relayout_kernel, _run_numpy, _compiled, _run_compiled, arguments=4, by_address=True
)
