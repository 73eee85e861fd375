"""Plans run by compiled loops, on as many threads as the work is worth."""

from __future__ import annotations

from typing import Final

import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cuda.planning.relayout import Plan
from stridedgpu.devices.interface import Move
from stridedgpu.planning.relayout_problem import Problem
from stridedgpu.values.tensor_spec import WIDEST_ACCESS

from .jit import compiled
from .relayout import walk_of
from .relayout_walk import Walk
from .worker_pool import run_shared

__all__ = ["compiled_move"]

_ZEROS: Final = Buffer.of(np.zeros(WIDEST_ACCESS, np.uint8))
"""What filler is read from."""


def compiled_move(plan: Plan) -> Move | None:
    """A plan with its kernel compiled or loaded; None where its conversion or this processor is left to NumPy."""
    problem = plan.problem
    made = _walked(problem)
    if made is not None or not problem.filler:
        return made
    elements, zeros = _walked(problem.without_filler()), _walked(problem.filler_alone())
    if elements is None or zeros is None:
        return None
    behind = problem.sizes[-1] * problem.target.element.itemsize

    def move(source: Buffer, source_start: int, target: Buffer, target_start: int) -> None:
        elements(source, source_start, target, target_start)
        zeros(_ZEROS, 0, target, target_start + behind)

    return move


def _walked(problem: Problem) -> Move | None:
    """A problem as one walk of its kernel; None where there is none."""
    walk = walk_of(problem)
    loop = None if walk is None else compiled(walk.kernel.text)
    if walk is None or loop is None:
        return None
    parameters, items = walk.parameters.ctypes.data, walk.items
    source_offset, target_offset = walk.source_offset, walk.target_offset
    nbytes = problem.bytes_moved
    alone = nbytes < policy().relayout.shared_bytes

    # The parameters stay where they are for as long as the walk is held.
    def move(source: Buffer, source_start: int, target: Buffer, target_start: int, _held: Walk = walk) -> None:
        reads = source.address + source_start + source_offset
        writes = target.address + target_start + target_offset
        if alone:
            loop.alone(reads, writes, parameters, 0, items)
        else:
            run_shared(loop, reads, writes, parameters, items, nbytes=nbytes)

    return move
