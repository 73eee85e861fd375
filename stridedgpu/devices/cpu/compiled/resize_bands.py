"""Finished rows of a resize, a band at a time: converted, or mixed by a matrix, into the target by a compiled loop."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Final

from stridedgpu.planning.channel_matrix_problem import ChannelMatrixProblem, moving_problem
from stridedgpu.planning.relayout_problem import RelayoutProblem
from stridedgpu.planning.resize_problem import ResizeProblem
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .channel_matrix import mixing_loop, why_numpy
from .jit import compiled
from .relayout import plan_relayout
from .resize_kernel import BAND_ROWS

__all__ = ["BandMove", "band_move", "why_unmixed"]

_FIELDS: Final = ("kernel", "parameters", "items", "source", "target")
"""The address of a loop and of its parameters, its items, and the bytes to its first element on either side."""


@dataclass(frozen=True, slots=True)
class BandMove:
    """The compiled loop of some rows, as fields of a geometry, and the objects that keep it alive."""

    fields: dict[str, int]
    kept: tuple[object, ...]


def band_move(problem: ResizeProblem, kind: str, rows: int, width: int, step: int, pitch: int) -> BandMove:
    """The move of `rows` rows of a window: of pixels `step` elements apart, or of planes if that is 0.

    `kind` begins the names of its fields: those of a whole band, or of the rest.
    """
    names = [f"{kind}_{field}" for field in _FIELDS]
    if not rows:
        return BandMove(dict.fromkeys(names, 0), ())
    band = _band_problem(problem, rows, width, (1, pitch, step) if step else (width, pitch, 1))
    first = _placed(problem, rows, width).first_offset * problem.conversion.target.itemsize
    if isinstance(band, ChannelMatrixProblem):
        mixing = mixing_loop(band)
        assert mixing is not None, "bands that no compiled loop mixes are left to NumPy"
        address = ctypes.addressof(mixing.parameters)
        numbers = mixing.loop.address, address, mixing.items, mixing.source_offset, first + mixing.target_offset
        return BandMove(dict(zip(names, numbers, strict=True)), (mixing,))
    walk = plan_relayout(band)
    assert walk is not None, "the conversion can be compiled, and there are pixels"
    loop = compiled(walk.kernel.text)
    parameters = walk.packed()
    numbers = loop.address, parameters.address, walk.items, walk.source_offset, first + walk.target_offset
    return BandMove(dict(zip(names, numbers, strict=True)), (parameters, loop))


def why_unmixed(problem: ResizeProblem, height: int, width: int) -> str | None:
    """The reason why no compiled loop mixes the channels of a window's bands; None if one does, or nothing is mixed."""
    if problem.conversion.matrix is None:
        return None
    for rows in sorted({min(height, BAND_ROWS), height % BAND_ROWS} - {0}):
        band = _band_problem(problem, rows, width, (2 * rows * width, 2 * width, 1))
        why = why_numpy(band) if isinstance(band, ChannelMatrixProblem) else None
        if why is not None:
            return why
    return None


def _band_problem(
    problem: ResizeProblem, rows: int, width: int, strides: tuple[int, int, int]
) -> RelayoutProblem | ChannelMatrixProblem:
    """The conversion of finished rows, whose strides along C, H, W are given, into the target."""
    made, written = problem.conversion, _placed(problem, rows, width)
    # Scratch memory has whole words of pixels: elements behind the last one's channels may be read.
    behind = max(strides[2] - problem.channels, 0) * made.source.itemsize
    source = TensorSpec(Layout((problem.channels, rows, width), strides), made.source, 1, behind)
    target = TensorSpec(written.shifted(-written.first_offset), made.target, 1)
    return moving_problem(source, target, made, 0)


def _placed(problem: ResizeProblem, rows: int, width: int) -> Layout:
    """The layout of some rows of a window in the target, with axes C, H, W."""
    into = problem.target.layout.sliced((0, slice(None), slice(0, rows), slice(0, width)))
    return Layout(into.sizes, into.strides)
