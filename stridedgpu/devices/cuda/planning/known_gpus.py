"""Properties of GPUs by name, so that plans can be made for a GPU that is not present."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from .gpu import REFERENCE_GPU, GpuProperties

__all__ = ["KNOWN_GPUS", "bytes_in_flight"]

_BYTES_IN_FLIGHT: Final = {75: 16 << 10, 80: 16 << 10, 86: 16 << 10, 90: 32 << 10, 100: 64 << 10, 120: 16 << 10}
"""Bytes in flight per multiprocessor that saturate memory (bandwidth x latency), by least compute capability."""

_BYTES_IN_FLIGHT_HBM3E: Final = 48 << 10
"""The same for Hopper with HBM3e: the H200, and GH200 models with HBM3e."""


def bytes_in_flight(name: str, capability: int) -> int:
    """Bytes that each multiprocessor of a GPU must have in flight to saturate memory.

    >>> bytes_in_flight("NVIDIA H100", 90), bytes_in_flight("NVIDIA L4", 89)
    (32768, 16384)
    """
    if capability == 90 and "H200" in name:
        return _BYTES_IN_FLIGHT_HBM3E
    return _BYTES_IN_FLIGHT[max((least for least in _BYTES_IN_FLIGHT if least <= capability), default=75)]


_SHARED_BYTES: Final = {
    75: 64 << 10,
    80: 163 << 10,
    87: 163 << 10,
    89: 99 << 10,
    90: 227 << 10,
    100: 227 << 10,
    120: 99 << 10,
}
"""The most shared memory of a block, in bytes: CUDA C++ Programming Guide, "Technical Specifications per Compute
Capability"."""


def _gpu(name: str, capability: int, multiprocessors: int) -> GpuProperties:
    return GpuProperties(
        name, capability, multiprocessors, _SHARED_BYTES[capability], bytes_in_flight(name, capability)
    )


KNOWN_GPUS: Final[Mapping[str, GpuProperties]] = MappingProxyType(
    {
        "t4": _gpu("NVIDIA T4", 75, 40),
        "a100": _gpu("NVIDIA A100", 80, 108),
        "orin": _gpu("NVIDIA Jetson AGX Orin", 87, 16),
        "l4": _gpu("NVIDIA L4", 89, 58),
        "4090": _gpu("NVIDIA GeForce RTX 4090", 89, 128),
        "h100": _gpu("NVIDIA H100 SXM", 90, 132),
        "h200": REFERENCE_GPU,
        "b200": _gpu("NVIDIA B200", 100, 148),
        "5090": _gpu("NVIDIA GeForce RTX 5090", 120, 170),
    }
)
"""By short name, oldest first; compute capabilities and multiprocessors are those of NVIDIA's architecture papers."""
