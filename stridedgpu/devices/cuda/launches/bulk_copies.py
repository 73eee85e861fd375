"""Where bulk copies bring pixels to shared memory, and how blocks share the pixels then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stridedgpu.devices.cuda.planning.bulk_copy_policy import BulkCopyPolicy
from stridedgpu.devices.cuda.planning.gpu import GpuProperties
from stridedgpu.devices.cuda.planning.pixels import PixelGroup

__all__ = ["Shares", "shares_of"]

_BULK_BYTES: Final = 16
"""Addresses and sizes of bulk copies are multiples of it."""


@dataclass(frozen=True, slots=True)
class Shares:
    """How the blocks of one wave share rows of `row_tiles` tiles, each of `groups` groups of pixels.

    A block has `block_tiles` of them, or fewer if it is one of the last, and brings up to `stage_tiles` at once, all of
    one row, to one of `stages` stages of `stage_bytes` of shared memory. It has `shared_bytes` in all.
    """

    groups: int
    row_tiles: int
    stage_tiles: int
    block_tiles: int
    blocks: int
    stages: int
    stage_bytes: int
    shared_bytes: int


def shares_of(
    chosen: BulkCopyPolicy,
    group: PixelGroup,
    pixels: int,
    rows: int,
    is_whole: bool,
    load_bytes: int,
    gpu: GpuProperties,
    thread_bytes: int = 0,
) -> Shares | None:
    """The shares of rows of `pixels` whole pixels, or None where threads load them.

    `is_whole` says whether rows end with a whole pixel, `load_bytes` how wide their vectors may be. A thread has
    `thread_bytes` of shared memory beside the stages. Threads load pixels on GPUs that the policy leaves out; where a
    group is padded in shared memory, or a row is no multiple of 16 bytes or of a group; where a stage leaves threads
    idle; and where there is less than a stage for each block.
    """
    least, most = chosen.capabilities
    group_bytes = group.length * group.pitch * group.itemsize
    row_bytes = pixels * group.pitch * group.itemsize
    is_same = is_whole and group.shared_bytes == group_bytes and not row_bytes % _BULK_BYTES
    if not least <= gpu.compute_capability <= most or not is_same or load_bytes % _BULK_BYTES or pixels % group.length:
        return None
    groups = max(1, _BULK_BYTES // (group.length * group.itemsize))
    row_tiles = -(-pixels // (groups * group.length))
    of_threads = chosen.threads * thread_bytes
    room = min(chosen.stage_bytes, (chosen.block_bytes - of_threads) // chosen.stages)
    stage_tiles = min(room // (groups * group_bytes), row_tiles)
    blocks = gpu.multiprocessors * chosen.resident_blocks
    is_filled = stage_tiles * groups >= chosen.well_filled * chosen.threads
    if not is_filled or rows * row_tiles < blocks * stage_tiles:
        return None
    stage_bytes = stage_tiles * groups * group_bytes
    return Shares(
        groups,
        row_tiles,
        stage_tiles,
        -(-rows * row_tiles // blocks),
        blocks,
        chosen.stages,
        stage_bytes,
        chosen.stages * stage_bytes + of_threads,
    )
