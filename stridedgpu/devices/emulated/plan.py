"""`EmulatedPlan`: the plan of the loops that carry out a launch of the emulated device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stridedgpu.devices.cpu.plan import CpuPlan
from stridedgpu.devices.cuda.gpu import REFERENCE_GPU
from stridedgpu.devices.cuda.plan import CudaPlan
from stridedgpu.devices.interface import EMULATED
from stridedgpu.planning.device_plan import Width

__all__ = ["EmulatedPlan"]


@dataclass(frozen=True, slots=True)
class EmulatedPlan:
    """A plan of the CPU, and the kernel that a GPU would run in its place.

    Kernel, widths, tile and threads are those of the CPU's loops: they are what runs.
    """

    loops: CpuPlan
    on_gpu: CudaPlan

    @property
    def device(self) -> str:
        """The device's name."""
        return EMULATED

    @property
    def problem(self) -> Any:
        """The operation as loops."""
        return self.loops.problem

    @property
    def kernel(self) -> str:
        """The name of the CPU's loops."""
        return self.loops.kernel

    @property
    def load(self) -> Width:
        """The width of one load, and its limit."""
        return self.loops.load

    @property
    def store(self) -> Width:
        """The width of one store, and its limit."""
        return self.loops.store

    @property
    def index_bits(self) -> int:
        """Bits of the arithmetic for offsets."""
        return self.loops.index_bits

    @property
    def tile(self) -> tuple[int, ...]:
        """The box that one step moves, along the problem's loops."""
        return self.loops.tile

    @property
    def shape(self) -> str:
        """The division of work among threads."""
        return self.loops.shape

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, each element once."""
        return self.loops.bytes_moved

    def explain(self) -> str:
        """The loops of the CPU, when they run, and the kernel of a GPU."""
        gpu = self.on_gpu
        widths = f"loads {gpu.load.nbytes} B, stores {gpu.store.nbytes} B"
        return "\n  ".join(
            [
                f"{self.kernel} on {self.device}: loops of the CPU, run when somebody waits for them",
                *(line.strip() for line in self.loops.explain().splitlines()[1:]),
                f"a GPU such as {REFERENCE_GPU.name} would run {gpu.kernel}: {widths}",
            ]
        )
