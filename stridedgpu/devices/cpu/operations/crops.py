"""Crops on the CPU: a relayout for each window by NumPy, and compiled loops over all windows."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from stridedgpu.devices.cpu.numpy_loops.crops import numpy_crops_kernel, run_crops
from stridedgpu.devices.cpu.plan import CpuKernel, CpuOperation, CpuPlan
from stridedgpu.devices.cpu.prepared import planned, prepared
from stridedgpu.devices.interface import Launch
from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem
from stridedgpu.problems.crop_windows import CropProblem
from stridedgpu.problems.relayout_problem import RelayoutProblem

__all__ = ["OPERATION"]


def _run_numpy(problem: CropProblem) -> Callable[..., None]:
    def prepare(rectangle: RelayoutProblem | ChannelMatrixProblem) -> Launch:
        return _quiet_launch(planned(rectangle))

    return lambda crops, sources, target: run_crops(problem, prepare, crops, sources, target)


@lru_cache(maxsize=1024)
def _quiet_launch(plan: CpuPlan) -> Launch:
    """The launch of a part of a window; `CpuDevice.prepare` would print a verbose line for each."""
    return prepared(plan)[0]


def _compiled(problem: CropProblem) -> CpuKernel | None:
    from stridedgpu.devices.cpu.compiled.crops import crops_kernel

    return crops_kernel(problem)


def _run_compiled(plan: CpuPlan) -> Callable[..., object] | None:
    from stridedgpu.devices.cpu.compiled.crops import compiled_crops

    return compiled_crops(plan)


OPERATION: Final = CpuOperation(numpy_crops_kernel, _run_numpy, _compiled, _run_compiled)
