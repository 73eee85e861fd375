"""Gather and scatter on the CPU: NumPy's blocks, and compiled loops; and the check of their indices."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.numpy_loops.gather import NumpyGather, check_indices, numpy_gather_kernel
from stridedgpu.devices.cpu.plan import CpuKernel, CpuOperation, CpuPlan
from stridedgpu.devices.cpu.promotion import Promotion, compiled_from
from stridedgpu.devices.interface import DirectCheck, DirectLaunch, Located
from stridedgpu.problems.gather_problem import GatherProblem
from stridedgpu.problems.index_rule import IndexRule

__all__ = ["OPERATION", "check_by"]


def check_by(rule: IndexRule, indices: Located) -> DirectCheck | None:
    """Raise `IndexError` for the first index that a rule forbids; returns the compiled check if there is one."""
    look = _look(rule)
    buffer, start = indices
    if not (look.work if look.at is None else look.chosen())(buffer.address + start):
        check_indices(rule, buffer.bytes[start:])
    loops = look.loops
    if loops is None:
        return None

    def check(indices: int) -> None:
        if not loops(indices):
            _refuse(rule, indices)

    return check


@lru_cache(maxsize=1024)
def _look(rule: IndexRule) -> Promotion:
    """A quick look at indices, cached by rule: True if all are allowed. If not, NumPy finds the wrong one."""

    def compiled() -> Callable[[int], bool] | None:
        from stridedgpu.devices.cpu.compiled.index_check import compiled_index_check

        return compiled_index_check(rule)

    nbytes = rule.index.layout.element_count * rule.index.element.itemsize
    return Promotion(compiled_from(nbytes) if nbytes else None, lambda: _unseen, compiled)


def _unseen(indices: int) -> bool:  # noqa: ARG001 - as every look is called
    """Leave the check of all indices to NumPy."""
    return False


def _refuse(rule: IndexRule, indices: int) -> None:
    """Raise `IndexError` for the first of the indices at an address that a rule forbids."""
    nbytes = rule.index.layout.span * rule.index.element.itemsize
    check_indices(rule, Buffer.trusted(indices, nbytes, None, readonly=True).bytes)


def _checked(problem: GatherProblem, move: DirectLaunch) -> DirectLaunch:
    """A move that looks at its indices first, where the problem's mode refuses any."""
    if not problem.refuses_indices:
        return move
    rule = problem.rule
    look = _look(rule)

    def checked(dense: int, indexed: int, indices: int) -> None:
        if not (look.work if look.at is None else look.chosen())(indices):
            _refuse(rule, indices)
        move(dense, indexed, indices)

    return checked


def _run_numpy(problem: GatherProblem) -> Callable[..., None]:
    blocks, rule = NumpyGather(problem), problem.rule if problem.refuses_indices else None

    def move(
        dense: Buffer, dense_start: int, indexed: Buffer, indexed_start: int, indices: Buffer, indices_start: int
    ) -> None:
        if rule is not None:
            check_by(rule, (indices, indices_start))
        blocks(dense.bytes[dense_start:], indexed.bytes[indexed_start:], indices.bytes[indices_start:])

    return move


def _compiled(problem: GatherProblem) -> CpuKernel | None:
    from stridedgpu.devices.cpu.compiled.gather import gather_kernel

    return gather_kernel(problem)


def _run_compiled(plan: CpuPlan) -> DirectLaunch | None:
    from stridedgpu.devices.cpu.compiled.gather import compiled_gather

    move = compiled_gather(plan)
    return None if move is None else _checked(plan.problem, move)


OPERATION: Final = CpuOperation(numpy_gather_kernel, _run_numpy, _compiled, _run_compiled, arguments=6, by_address=True)
