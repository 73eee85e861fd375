"""The modules that exchange and order the memory of devices which the processor does not reach, by device.

They are imported by name when they are first used: each loads the library of its device.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Final

from .interface import EMULATED

__all__ = ["exchange_of", "overlap_of"]

_OF_EMULATED: Final = "stridedgpu.devices.emulated.exchange"
_OF_CUDA: Final = "stridedgpu.devices.cuda.runtime"


def exchange_of(device: str) -> ModuleType:
    """`array_interface`, `borrowed`, `cupy_array` and `device_capsule` of a CUDA device or the emulated one."""
    return import_module(_OF_EMULATED if device == EMULATED else f"{_OF_CUDA}.exchange")


def overlap_of(device: str) -> ModuleType:
    """`own_stream`, `event_of_current_stream` and `wait_for_event` of a CUDA device or the emulated one."""
    return import_module(_OF_EMULATED if device == EMULATED else f"{_OF_CUDA}.exchange")
