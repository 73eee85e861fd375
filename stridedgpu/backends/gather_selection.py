"""Which device picks elements by index: the one that the data is on."""

from __future__ import annotations

from typing import Final

from stridedgpu.errors import DeviceError

from .cpu_gather import CpuGather
from .gather_interface import GatherBackend
from .selection import backend_named, device_name

__all__ = ["gather_backend_named"]

_CPU: Final = CpuGather()


def gather_backend_named(device: str) -> GatherBackend:
    """The device of that name, ready for gathers.

    Raises `DeviceError` when it cannot be had, saying why and how to get it.
    """
    if device_name(device) == "cpu":
        return _CPU
    backend = backend_named(device)
    raise DeviceError(f"{backend.name} has no kernels for gather in this version; bring the data to the CPU first.")
