"""What every device can do: the small interface between operations and the modules that compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from stridedgpu.devices.cuda.planning.relayout import Plan
from stridedgpu.planning.pitched_copy import Runs

from .buffer import Buffer

__all__ = ["Backend", "DeviceInfo", "Launch", "Move", "RemoteBackend"]

Launch = Callable[[Buffer, int, Buffer, int, object], None]
"""A plan made ready by a device: `launch(source, source_start, target, target_start, stream)` runs it.

The starts are the bytes before the lowest element of each side. Nothing that lasts is allocated.
"""


Move = Callable[[Buffer, int, Buffer, int], None]
"""The same on a device without streams: `move(source, source_start, target, target_start)`."""


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

    def allocate(self, nbytes: int, alignment: int, stream: object = None) -> Buffer:
        """New bytes, not initialised, at an address that is a multiple of `alignment`.

        On a device with streams they belong to `stream` (None: the current one): once freed, they may be given out
        again for work that follows there. Raises `DeviceError` when the memory cannot be had; existing buffers are
        untouched.
        """

    def prepare(self, plan: Plan) -> Launch:
        """A plan made ready: kernels compiled and parameters packed, so that running it is only the launch."""

    def synchronize(self) -> None:
        """Wait for the work of this device, and raise what it found wrong."""


class RemoteBackend(Backend, Protocol):
    """A device whose memory the processor does not reach, with copies between there and here."""

    def allocate_staging(self, nbytes: int) -> Buffer:
        """Bytes on the CPU that copies to and from this device are fastest with."""

    def copy(
        self, source: Buffer, source_start: int, target: Buffer, target_start: int, runs: Runs, stream: object
    ) -> None:
        """Copy runs of bytes between this device, on either side, and the CPU or a device of the same kind.

        When it returns, bytes on the CPU may be read, or changed, at once.
        """
