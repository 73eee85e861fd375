"""Resize on a CUDA device: the samples' records and taps are sent, and every window is written in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cuda.launches.resize import ResizeSample, resize_launch, resize_records
from stridedgpu.devices.cuda.planning.gpu import KernelLaunch
from stridedgpu.devices.cuda.planning.resize import ResizePlan as CudaResizePlan, plan_resize
from stridedgpu.devices.interface import Located
from stridedgpu.devices.resize_interface import ResizeLaunch, ResizePlan
from stridedgpu.planning.pitched_copy import Runs
from stridedgpu.planning.resize_arithmetic import Arithmetic
from stridedgpu.planning.resize_problem import ResizeProblem, ResizeWindow

from .compile import compiled_kernel
from .device import CudaDevice
from .launch import PreparedKernel
from .streams import stream_handle

__all__ = ["CudaResize"]

_ALIGNMENT: Final = 256


class CudaResize:
    """One NVIDIA GPU, resizing."""

    def __init__(self, backend: CudaDevice, number: int) -> None:
        """Nothing is compiled or allocated yet."""
        self._backend = backend
        self._number = number
        self._kernels = lru_cache(maxsize=1024)(self._make_kernel)

    def plan_resize(self, problem: ResizeProblem) -> CudaResizePlan:
        """What runs for a problem. Raises `DeviceError` for what only the CPU does."""
        return plan_resize(problem, self._backend.name, self._backend.properties)

    def prepare_resize(self, plan: ResizePlan) -> ResizeLaunch:
        """A plan whose launch is one kernel for all windows that are summed alike, in one order of passes."""
        planned = self.plan_resize(plan.problem)

        def launch(
            windows: Sequence[ResizeWindow], sources: Sequence[Located], target: Located, stream: object
        ) -> None:
            if planned.problem.target.layout.element_count == 0:
                stream_handle(stream, self._number)
                return
            for samples in _alike(planned.problem, windows, sources):
                kernel = self._kernels(resize_launch(planned, [sample.taps for sample in samples]))
                records = resize_records(samples, planned.problem.conversion.source.itemsize)
                there = self._backend.allocate(len(records), _ALIGNMENT, stream)
                self._backend.copy(Buffer.of(records), 0, there, 0, Runs(len(records)), stream)
                kernel(there, 0, *target, stream)

        return launch

    def _make_kernel(self, launch: KernelLaunch) -> PreparedKernel:
        """Compile and pack."""
        function = compiled_kernel(launch.sources, launch.name, self._number, launch.shared_bytes)
        tables = tuple(self._backend.uploaded(held) for _, held in launch.tables)
        return PreparedKernel(launch, function, self._number, tables)


def _alike(
    problem: ResizeProblem, windows: Sequence[ResizeWindow], sources: Sequence[Located]
) -> list[list[ResizeSample]]:
    """The samples of each launch."""
    together: dict[tuple[Arithmetic, bool], list[ResizeSample]] = {}
    for number, (window, (buffer, start)) in enumerate(zip(windows, sources, strict=True)):
        taps = problem.taps(window)
        sample = ResizeSample(window, taps, buffer.address + start, number, problem.visible(window))
        together.setdefault((taps.arithmetic, taps.columns_first), []).append(sample)
    return list(together.values())
