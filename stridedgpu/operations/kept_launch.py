"""`KeptLaunch`: the allocation of a result, and the launch that writes it, prepared once and kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from stridedgpu.devices.operand import AllocationSpec

__all__ = ["KeptLaunch"]

LaunchT = TypeVar("LaunchT")


@dataclass(slots=True)
class KeptLaunch(Generic[LaunchT]):
    """What is cached of an operation into new memory.

    The launch is prepared after the first allocation, since one that fails compiles nothing:
    `launch = result.launch or result.kept(...)`.
    """

    allocation: AllocationSpec
    launch: LaunchT | None = field(default=None, init=False)

    def kept(self, launch: LaunchT) -> LaunchT:
        """Keep a launch for the calls after this one."""
        self.launch = launch
        return launch
