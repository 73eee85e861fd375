"""Frames on a CUDA device: every window is one launch over the planes where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from stridedgpu.devices.cuda.launches.frames import PLACE, frames_launch, window_place
from stridedgpu.devices.cuda.planning.frames import choose_frame, plan_frame
from stridedgpu.devices.frame_interface import FrameLaunch
from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.operand import Operand
from stridedgpu.planning.frame_problem import FramePlan, FrameProblem
from stridedgpu.values.errors import DeviceError

from .compile import compiled_kernel
from .device import CudaDevice
from .launch import PreparedKernel

__all__ = ["CudaFrames"]


class CudaFrames:
    """One NVIDIA GPU, making colours of luma and chroma."""

    def __init__(self, backend: CudaDevice, number: int) -> None:
        """Nothing is compiled yet."""
        self._backend = backend
        self._number = number
        self._launches = lru_cache(maxsize=1024)(self._make_launch)

    def plan_frame(self, problem: FrameProblem) -> FramePlan:
        """What runs for a problem. Raises `DeviceError` for what only the CPU does."""
        return plan_frame(problem, self._backend.name, self._backend.widest_access)

    def write_samples(self, picture: Sequence[Operand], frame: FrameOperand, stream: object) -> None:  # noqa: ARG002
        """Refused: no kernel makes samples of colours."""
        raise DeviceError(
            f"{self._backend.name} makes no {frame.samples.name} of colours; bring picture and frame to the CPU with "
            "to_device('cpu')."
        )

    def prepare_frame(self, plan: FramePlan) -> FrameLaunch:
        """A plan with its kernel compiled and its parameters packed."""
        return self._launches(plan.problem)

    def _make_launch(self, problem: FrameProblem) -> FrameLaunch:
        """Compile and pack."""
        launch = frames_launch(choose_frame(problem, self._backend.widest_access))
        function = compiled_kernel(launch.sources, launch.name, self._number, launch.shared_bytes)
        tables = tuple(self._backend.uploaded(held) for _, held in launch.tables)
        prepared = _PreparedFrames(launch, function, self._number, tables)

        def run(planes: Sequence[Operand], origin: tuple[int, int], target: Operand, stream: object) -> None:
            luma, place = window_place(problem, [plane.address for plane in planes], origin)
            prepared.with_place(place)
            buffer = planes[0].buffer
            prepared(buffer, luma - buffer.address, target.buffer, target.start_bytes, stream)

        return run


class _PreparedFrames(PreparedKernel):
    """A launch that has the addresses of chroma besides those of luma and target."""

    def with_place(self, place: bytes) -> None:
        """Say where chroma is, and where in it the window begins, for this thread's next launch."""
        try:
            block, _, _ = self._threads.block
        except AttributeError:
            block, _, _ = self._block_of_thread()
        block[16 : 16 + PLACE.size] = place
