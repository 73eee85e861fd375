"""What every device can do: the small interface between operations and the modules that compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from stridedgpu.buffer import Buffer
from stridedgpu.planning.plan import Plan

__all__ = ["Backend", "DeviceInfo", "Launch"]

Launch = Callable[[Buffer, int, Buffer, int, object], None]
"""A plan made ready by a device: `launch(source, source_start, target, target_start, stream)` runs it.

The starts are the bytes before the lowest element of each side. Nothing that lasts is allocated.
"""


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One device, and whether it can be used.

    `name` is what `device=` takes; `description` says in a line what it is; `reason` says why it cannot be used, or
    what would make it faster, and how.
    """

    name: str
    available: bool
    description: str
    reason: str | None = None


class Backend(Protocol):
    """A device that owns memory and runs plans."""

    @property
    def name(self) -> str:
        """The device's name: "cpu" or "cuda:N"."""

    @property
    def widest_access(self) -> int:
        """Bytes of the widest single load or store that plans for this device may use."""

    def allocate(self, nbytes: int, alignment: int) -> Buffer:
        """New bytes, not initialised, at an address that is a multiple of `alignment`.

        Raises `DeviceError` when the memory cannot be had; existing buffers are untouched.
        """

    def prepare(self, plan: Plan) -> Launch:
        """A plan made ready: kernels compiled and parameters packed, so that running it is only the launch."""

    def synchronize(self) -> None:
        """Wait for the work of this device, and raise what it found wrong."""
