"""Gather and scatter on the CPU: NumPy's blocks, and compiled loops; and the check of their indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.cpu.numpy_loops.gather import NumpyGather, check_indices, numpy_gather_kernel
from stridedgpu.devices.cpu.plan import CpuKernel, CpuOperation, CpuPlan
from stridedgpu.devices.cpu.promotion import Promotion, compiled_from
from stridedgpu.devices.interface import Located
from stridedgpu.planning.gather_problem import GatherProblem
from stridedgpu.planning.index_rule import IndexRule, Mode

__all__ = ["OPERATION", "index_check"]


def index_check(rule: IndexRule) -> Callable[[Located, Mode], None]:
    """The check of a rule: it raises `IndexError` for the first index that the rule and the mode forbid."""
    nbytes = rule.index.layout.element_count * rule.index.element.itemsize
    looks = Promotion(compiled_from(nbytes) if nbytes else None, lambda: _unseen, lambda: _compiled_look(rule))

    def check(indices: Located, mode: Mode) -> None:
        in_range = mode in ("raise", "deferred")
        if not rule.axis_pitches and (not in_range or (looks.work if looks.at is None else looks.chosen())(indices)):
            return
        check_indices(rule, _bytes(indices), in_range=in_range, mode=mode)

    return check


def _compiled_look(rule: IndexRule) -> Callable[[Located], bool] | None:
    """A quick look at the indices: True if all are valid. If not, NumPy finds the wrong one."""
    from stridedgpu.devices.cpu.compiled.index_check import compiled_index_check

    return compiled_index_check(rule)


def _unseen(indices: Located) -> bool:  # noqa: ARG001 - as every look is called
    """Leave the check of all indices to NumPy."""
    return False


def _bytes(located: Located) -> NDArray[np.uint8]:
    """The memory from an operand's lowest element on."""
    buffer, start = located
    return buffer.bytes[start:]


def _run_numpy(problem: GatherProblem) -> Callable[[Located, Located, Located], None]:
    blocks = NumpyGather(problem)
    return lambda dense, indexed, indices: blocks(_bytes(dense), _bytes(indexed), _bytes(indices))


def _compiled(problem: GatherProblem) -> CpuKernel | None:
    from stridedgpu.devices.cpu.compiled.gather import gather_kernel

    return gather_kernel(problem)


def _run_compiled(plan: CpuPlan) -> Callable[..., None] | None:
    from stridedgpu.devices.cpu.compiled.gather import compiled_gather

    return compiled_gather(plan)


OPERATION: Final = CpuOperation(numpy_gather_kernel, _run_numpy, _compiled, _run_compiled)
