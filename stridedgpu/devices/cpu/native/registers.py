"""Vector registers as the planner sees them: a cache line, a lane, and the vectors that one instruction permutes."""

from __future__ import annotations

from typing import Final

from stridedgpu.devices.cpu.policy import policy

LINE_BYTES: Final = 64
"""Bytes of a cache line, and of the widest vector."""

LANE_BYTES: Final = 16
"""Bytes within which every vector instruction set shuffles."""


_PERMUTING: Final = {1: "avx512vbmi", 2: "avx512bw"}
"""The instruction set of AVX-512 that permutes a line's elements of so many bytes; of wider ones it is AVX-512F."""


def shuffled_bytes(itemsize: int) -> int:
    """Bytes of the widest vector that one instruction permutes at this element size."""
    return LINE_BYTES if _PERMUTING.get(itemsize, "avx512f") in policy().target.features else LANE_BYTES
