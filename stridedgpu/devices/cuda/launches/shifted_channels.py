"""The launch of the kernel `kernels/relayout/shifted_channels.cu`: pixels that begin anywhere in their vectors.

Families CHANNELS and PIXELS take it where rows or planes are not aligned to whole vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from stridedgpu.devices.cuda.planning.families import Family, pixel_axes
from stridedgpu.devices.cuda.planning.gpu import GpuProperties, KernelLaunch, grid_of
from stridedgpu.devices.cuda.planning.policy import policy
from stridedgpu.devices.cuda.planning.relayout import RelayoutChoice
from stridedgpu.values.strides import round_up

from .channels import ChannelWalk, walk_of
from .instantiation import instantiation
from .parameters import conversion_argument, index_argument
from .pixels import whole_walk_of
from .tiles import pixel_box, pixel_tile

__all__ = ["launch"]

_VECTOR_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class _Runs:
    """One side of a tile: `count` runs a row, `group` bytes of a group of pixels in each, up to `vectors` vectors."""

    count: int
    group: int
    vectors: int

    @property
    def nbytes(self) -> int:
        """Bytes of shared memory, including a group and a word past the end."""
        return self.count * (self.vectors * _VECTOR_BYTES + round_up(self.group + _VECTOR_BYTES, _VECTOR_BYTES))


def launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a funnel-shifted plan of the family CHANNELS or PIXELS."""
    walk = walk_of(plan.problem) if plan.family is Family.CHANNELS else whole_walk_of(plan.problem)
    bits, pixels, rows = plan.index_bits, walk.pixels, walk.rows
    length = policy().pixels.shifted_bytes // min(walk.itemsizes)
    group_bytes = [
        length * itemsize * (walk.small.size if pitch == 1 else pitch)
        for itemsize, pitch in zip(walk.itemsizes, walk.pitches, strict=True)
    ]
    usual_bytes = policy().pixels.shifted_shared_bytes
    tile = pixel_tile(length, sum(group_bytes), pixels.size, rows.size, walk.count, 1, gpu, usual_bytes)
    row_groups, tile_rows = tile
    tiles = -(-pixels.size // (row_groups * length)), -(-rows.size // tile_rows)
    read, written = (_runs(walk, side, length, row_groups) for side in (0, 1))
    block, (rank, affines, order) = walk.parameters(tile, tiles, (read.vectors, written.vectors), bits)
    source_pitch, target_pitch = walk.pitches
    name = instantiation(
        "shifted_channels",
        (conversion_argument(walk.conversion), index_argument(bits)),
        "ShiftedChannelsPolicy",
        rank=rank,
        channels=walk.small.size,
        source_pitch=source_pitch,
        target_pitch=target_pitch,
        turned=walk.turned,
        backwards=walk.backwards,
        length=length,
        threads=policy().pixels.threads,
        axis=walk.axis,
        affines=affines,
        order=order,
    )
    return KernelLaunch(
        ("shifted_channels.cu",),
        name,
        grid_of(prod(tiles) * walk.count),
        (policy().pixels.threads, 1, 1),
        tile_rows * (read.nbytes + written.nbytes),
        block.parameters,
        block.tables,
        pixel_box(plan.problem, _axes(plan), row_groups * length, tile_rows),
    )


def _axes(plan: RelayoutChoice) -> tuple[int, int]:
    """The axis inside a pixel, and the axis over pixels."""
    inner = len(plan.problem.sizes) - 1
    found = pixel_axes(plan.problem) if plan.family is Family.CHANNELS else (inner, inner - 1)
    assert found is not None
    return found


def _runs(walk: ChannelWalk, side: int, length: int, row_groups: int) -> _Runs:
    """The runs of the source (0) or of the target (1)."""
    pitch = walk.pitches[side]
    group = length * pitch * walk.itemsizes[side]
    return _Runs(walk.small.size if pitch == 1 else 1, group, -(-row_groups * group // _VECTOR_BYTES) + 1)
