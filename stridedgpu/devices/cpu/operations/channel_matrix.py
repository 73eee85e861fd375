"""Channels mixed by a matrix on the CPU: NumPy's loops, and compiled ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from stridedgpu.devices.cpu.numpy_loops.channel_matrix import mix_channels, numpy_channel_matrix_kernel
from stridedgpu.devices.cpu.plan import CpuKernel, CpuOperation, CpuPlan
from stridedgpu.planning.channel_matrix_problem import ChannelMatrixProblem

__all__ = ["OPERATION"]


def _run_numpy(problem: ChannelMatrixProblem) -> Callable[..., None]:
    return partial(mix_channels, problem)


def _compiled(problem: ChannelMatrixProblem) -> CpuKernel | str:
    from stridedgpu.devices.cpu.compiled.channel_matrix import channel_matrix_kernel

    return channel_matrix_kernel(problem)


def _run_compiled(plan: CpuPlan) -> Callable[..., None] | None:
    from stridedgpu.devices.cpu.compiled.channel_matrix import compiled_channel_matrix

    return compiled_channel_matrix(plan)


OPERATION: Final = CpuOperation(
    numpy_channel_matrix_kernel, _run_numpy, _compiled, _run_compiled, arguments=4, tells_why=True
)
