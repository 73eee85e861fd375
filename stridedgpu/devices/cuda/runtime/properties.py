"""The properties of a CUDA device: for planners, and as one line of text."""

from __future__ import annotations

from typing import Any, Final

import cupy

from stridedgpu.devices.cuda.planning.gpu import GpuProperties
from stridedgpu.devices.interface import DeviceInfo

__all__ = ["describe_device", "gpu_properties"]

_BYTES_IN_FLIGHT: Final = {75: 16 << 10, 80: 16 << 10, 86: 16 << 10, 90: 32 << 10, 100: 64 << 10, 120: 16 << 10}
"""Bytes in flight per multiprocessor that saturate memory (bandwidth x latency), by least compute capability."""

_BYTES_IN_FLIGHT_HBM3E: Final = 48 << 10
"""The same for Hopper with HBM3e: the H200, and the GH200 that has it."""


def gpu_properties(number: int) -> GpuProperties:
    """The properties of the device with that number that change a plan."""
    properties = _properties(number)
    name = _name(properties)
    capability = int(properties["major"]) * 10 + int(properties["minor"])
    in_flight = _BYTES_IN_FLIGHT[max((least for least in _BYTES_IN_FLIGHT if least <= capability), default=75)]
    if capability == 90 and "H200" in name:
        in_flight = _BYTES_IN_FLIGHT_HBM3E
    return GpuProperties(
        name=name,
        compute_capability=capability,
        multiprocessors=int(properties["multiProcessorCount"]),
        shared_bytes=int(properties["sharedMemPerBlockOptin"]),
        bytes_in_flight=in_flight,
    )


def describe_device(number: int) -> DeviceInfo:
    """The device's name, memory and compute capability."""
    properties = _properties(number)
    memory = f"{int(properties['totalGlobalMem']) / 1e9:.0f} GB"
    capability = f"compute capability {properties['major']}.{properties['minor']}"
    return DeviceInfo(f"cuda:{number}", available=True, description=f"{_name(properties)}, {memory}, {capability}")


def _properties(number: int) -> dict[str, Any]:
    """The CUDA runtime's own table."""
    found: dict[str, Any] = cupy.cuda.runtime.getDeviceProperties(number)
    return found


def _name(properties: dict[str, Any]) -> str:
    """The product's name, which the runtime gives as bytes."""
    name = properties["name"]
    return name.decode() if isinstance(name, bytes) else str(name)
