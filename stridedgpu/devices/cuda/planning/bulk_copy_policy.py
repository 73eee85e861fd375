"""The policy of bulk copies: on which GPUs, and how much shared memory their blocks have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["WHOLE_PIXELS", "BulkCopyPolicy"]

_KB: Final = 1024


@dataclass(frozen=True, slots=True)
class BulkCopyPolicy:
    """Bulk copies (`cp.async.bulk`) of pixels; without arguments, of those split into planes: `channels.cu`."""

    capabilities: tuple[int, int] = (90, 119)
    """Least and highest compute capability of GPUs that make them. Below sm_90 there are none; on sm_120 a
    microbenchmark saw them slower than loads (kekzl/imp#169). An empty range, such as (0, 0), leaves them out."""

    stages: int = 3
    """Stages of a block's shared memory: threads split one while the others are filled."""

    stage_bytes: int = 12 * _KB
    """Most bytes of a stage. Four blocks have 96 KB on their way, more than the 64 KB that a B200 wants."""

    well_filled: float = 0.75
    """Least share of a block's threads that have a group of each stage."""

    threads: int = 256
    """Threads of a block."""

    block_bytes: int = 48 * _KB
    """Most bytes of a block's shared memory: the largest of a launch without a kernel attribute."""

    resident_blocks: int = 4
    """Blocks of a multiprocessor, whose grid is one wave: 64 registers a thread, and 144 KB of shared memory. With
    five, of 48 registers, pixels of 5 channels spill."""


WHOLE_PIXELS: Final = BulkCopyPolicy(stage_bytes=6 * _KB, threads=128, block_bytes=31 * _KB, resident_blocks=7)
"""Of pixels on both sides (`pixels.cu`), whose warps have 10 to 18 KB of a block's shared memory for the target: seven
blocks of 28 KB are what a multiprocessor of sm_90 and sm_100 holds, and have 84 KB on their way."""
