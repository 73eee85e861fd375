"""Which device resizes: the one that the pictures are on."""

from __future__ import annotations

from typing import Final

from stridedgpu.devices.cpu.resize import CpuResize
from stridedgpu.values.errors import DeviceError

from .resize_interface import ResizeBackend

__all__ = ["resize_backend_named"]

_CPU: Final = CpuResize()


def resize_backend_named(device: str) -> ResizeBackend:
    """The device of that name, ready to resize. Raises `DeviceError` when it cannot be had."""
    if device != "cpu":
        raise DeviceError(
            f"device={device!r} does not resize yet: bring the pictures to the CPU with .to_device('cpu')."
        )
    return _CPU
