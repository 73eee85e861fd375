"""What planners take and what they give, as values: a GPU's properties, and a kernel with its launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

THREADS: Final = 256
"""Threads of a block, unless a kernel's policy sets another number; kernels repeat it as `__launch_bounds__`."""

WARP: Final = 32
"""Lanes of a warp."""

LONGEST_ROW: Final = 2**31 - 1
"""Elements of the longest row of a window: kernels count its columns in 32 bits."""


@dataclass(frozen=True, slots=True)
class GpuProperties:
    """The properties of a GPU that affect plans.

    `compute_capability` is 90 for sm_90. `shared_bytes` is the most shared memory, in bytes, of one block.
    `bytes_in_flight` is the number of bytes that each multiprocessor must have in flight to saturate memory.
    """

    name: str
    compute_capability: int
    multiprocessors: int
    shared_bytes: int
    bytes_in_flight: int

    @property
    def widest_access(self) -> int:
        """Bytes of the widest load or store: 256-bit accesses came with sm_100."""
        return 32 if self.compute_capability >= 100 else 16


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One launch: an instantiation of a source, its grid, and its packed parameters.

    `sources` are file names in `kernels/`, joined into one text. `name` is the name expression that NVRTC instantiates
    (`parameters.instantiation`). Every kernel takes one structure by value: the source address in its first 8 bytes,
    the target address in the next 8, then the bytes of `parameters` from byte 16 on (its first 16 bytes are zero and
    are overwritten). Addresses are those of each side's lowest element. `tables` are constant arrays too long for a
    parameter block, as (byte offset of their address, contents). `tile` is the box of loops that a block, or a group
    of its lanes, moves at a time: an extent along each loop of a relayout.
    """

    sources: tuple[str, ...]
    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    parameters: bytes
    tables: tuple[tuple[int, bytes], ...] = ()
    tile: tuple[int, ...] = ()


def grid_of(blocks: int) -> tuple[int, int, int]:
    """The grid of at least `blocks` blocks, which `sg::linear_block` numbers.

    A grid has at most 2^31 - 1 blocks along x and 65535 along y; y is used beyond that, with 64-bit indices only.
    """
    y = -(-blocks // (2**31 - 1))
    return (-(-blocks // y), y, 1)


_BYTES_IN_FLIGHT: Final = {75: 16 << 10, 80: 16 << 10, 86: 16 << 10, 90: 32 << 10, 100: 64 << 10, 120: 16 << 10}
"""Bytes in flight per multiprocessor that saturate memory (bandwidth x latency), by least compute capability."""

_BYTES_IN_FLIGHT_HBM3E: Final = 48 << 10
"""The same for Hopper with HBM3e: the H200, and GH200 models with HBM3e."""

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


def bytes_in_flight(name: str, capability: int) -> int:
    """Bytes that each multiprocessor of a GPU must have in flight to saturate memory.

    >>> bytes_in_flight("NVIDIA H100", 90), bytes_in_flight("NVIDIA L4", 89)
    (32768, 16384)
    """
    if capability == 90 and "H200" in name:
        return _BYTES_IN_FLIGHT_HBM3E
    return _BYTES_IN_FLIGHT[max((least for least in _BYTES_IN_FLIGHT if least <= capability), default=75)]


def _gpu(name: str, capability: int, multiprocessors: int) -> GpuProperties:
    shared_bytes = _SHARED_BYTES[capability]
    return GpuProperties(name, capability, multiprocessors, shared_bytes, bytes_in_flight(name, capability))


REFERENCE_GPU: Final = _gpu("NVIDIA H200", 90, 132)
"""The GPU that plans are for if none is present."""

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
