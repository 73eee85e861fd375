"""`Planned`: what every plan that people are given tells, whatever it plans, and where it can be run."""

from __future__ import annotations

from typing import Protocol, Self

from stridedgpu.devices.cuda.planning.gpu import REFERENCE_GPU
from stridedgpu.devices.operand import Operand
from stridedgpu.planning.device_plan import DevicePlan
from stridedgpu.values.errors import DeviceError, ElementTypeError

__all__ = ["HasOperand", "Planned", "no_tensor"]


class HasOperand(Protocol):
    """Anything that holds an operand: a tensor."""

    @property
    def operand(self) -> Operand:
        """The buffer, layout and element type."""


def no_tensor(**arguments: object) -> ElementTypeError:
    """What a plan raises when one of its arguments is not a tensor."""
    name, value = next((name, value) for name, value in arguments.items() if not hasattr(value, "operand"))
    return ElementTypeError(
        f"{name} is of type {type(value).__name__}; a plan runs on tensors, and asarray() makes one of any array."
    )


class Planned:
    """A plan as people see it. Where its device cannot be had, which `missing` tells, it can only be read.

    It never changes, so that a copy is the plan itself. A pickle holds what was to be done and for which device; there
    it is planned and made ready again, for the device of that name where it arrives.
    """

    __slots__ = ()

    plan: DevicePlan
    missing: str | None

    @property
    def device(self) -> str:
        """The device that this is planned for: "cpu", "cuda:0"."""
        return self.plan.device

    @property
    def kernel(self) -> str:
        """The kernel's name: family and variant."""
        return self.plan.kernel

    @property
    def load_bytes(self) -> int:
        """Bytes of one load."""
        return self.plan.load.nbytes

    @property
    def store_bytes(self) -> int:
        """Bytes of one store."""
        return self.plan.store.nbytes

    @property
    def vector_bytes(self) -> int:
        """The smaller of the two."""
        return min(self.load_bytes, self.store_bytes)

    @property
    def index_bits(self) -> int:
        """Bits of the arithmetic that offsets are worked out in: 32 or 64."""
        return self.plan.index_bits

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, each element once."""
        return self.plan.bytes_moved

    def explain(self) -> str:
        """The plan in plain words."""
        if self.missing is None:
            return self.plan.explain()
        gpu = REFERENCE_GPU
        return (
            f"{self.plan.explain()}\n  planned for a reference GPU, {gpu.name} (compute capability "
            f"{gpu.compute_capability / 10}): {self.missing}"
        )

    def check_runnable(self) -> None:
        """Raise `DeviceError` where the plan's device cannot be had."""
        if self.missing is not None:
            raise DeviceError(f"This plan can be read and not run. {self.missing}")

    def __repr__(self) -> str:
        """What is planned, in a line; `explain` says all."""
        can_run = "" if self.missing is None else ", to be read only"
        return f"<{type(self).__name__} {self.kernel} on {self.device}, {self.bytes_moved:,} bytes{can_run}>"

    def __copy__(self) -> Self:
        """The plan itself."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """The plan itself."""
        return self
