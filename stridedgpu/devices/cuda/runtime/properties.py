"""The properties of a CUDA device: for planners, and as one line of text."""

from __future__ import annotations

from typing import Any

import cupy

from stridedgpu.devices.cuda.planning.gpu import GpuProperties
from stridedgpu.devices.cuda.planning.known_gpus import bytes_in_flight
from stridedgpu.devices.interface import DeviceInfo

__all__ = ["describe_device", "gpu_properties"]


def gpu_properties(number: int) -> GpuProperties:
    """The properties of the device with that number that change a plan."""
    properties = _properties(number)
    name = _name(properties)
    capability = int(properties["major"]) * 10 + int(properties["minor"])
    return GpuProperties(
        name=name,
        compute_capability=capability,
        multiprocessors=int(properties["multiProcessorCount"]),
        shared_bytes=int(properties["sharedMemPerBlockOptin"]),
        bytes_in_flight=bytes_in_flight(name, capability),
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
