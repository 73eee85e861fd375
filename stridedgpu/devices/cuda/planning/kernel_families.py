"""Which kernel carries out a plan on a GPU: some shapes of a family belong to a neighbour's kernel."""

from __future__ import annotations

from stridedgpu.planning.relayout_problem import Problem

from .families import Family, unit_axis
from .packed_tiles import packed_tiles
from .pixels import pixels_of

__all__ = ["kernel_family"]


def kernel_family(problem: Problem, family: Family) -> Family:
    """The family whose kernel moves a problem of `family`.

    Pixels that a thread cannot hold go through packed tiles, and so does a transpose that picks channels along the
    source's run; a table of channels that does not fit into a tile goes element by element.
    """
    if family is Family.CHANNELS:
        pixels = pixels_of(problem)
        if pixels is not None and pixels.fit_registers:
            return Family.CHANNELS
        family = Family.PACKED_TILE
    if family is Family.TRANSPOSE and problem.conversion.channels is not None:
        family = Family.PACKED_TILE if problem.channel_axis == unit_axis(problem.source_strides) else family
    if family is Family.PACKED_TILE and next(packed_tiles(problem), None) is None:
        return Family.GENERIC
    return family
