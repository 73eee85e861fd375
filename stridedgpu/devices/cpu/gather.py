"""Gather and scatter on the CPU: NumPy's blocks, and compiled loops; and the check of their indices."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.interface import DirectCheck, DirectLaunch, Located
from stridedgpu.devices.launch_cache import cached_launches, settings
from stridedgpu.problems.gather_problem import GatherProblem
from stridedgpu.problems.index_rule import IndexRule

from .numpy_loops.gather import NumpyGather, check_indices
from .plan import CpuPlan
from .policy import policy


def check_by(rule: IndexRule, indices: Located) -> DirectCheck | None:
    """Raise `IndexError` for the first index that a rule forbids; returns the native check if there is one."""
    quick = _quick_check(rule, settings())
    buffer, start = indices
    if quick is None or not quick(buffer.address + start):
        check_indices(rule, buffer.bytes[start:])
    if quick is None:
        return None

    def check(indices: int) -> None:
        if not quick(indices):
            _refuse(rule, indices)

    return check


@cached_launches
def _quick_check(rule: IndexRule, *_settings: Hashable) -> Callable[[int], bool] | None:
    """The native check, True if all indices are allowed. If not, or where there is none, NumPy finds the wrong one.

    It is by rule: gathers and scatters with the same indices share it.
    """
    if policy().why_numpy is not None or not rule.index.layout.element_count:
        return None
    from .compiled.index_check import compiled_index_check

    return compiled_index_check(rule)


def _refuse(rule: IndexRule, indices: int) -> None:
    """Raise `IndexError` for the first of the indices at an address that a rule forbids."""
    nbytes = rule.index.layout.span * rule.index.element.itemsize
    check_indices(rule, Buffer.trusted(indices, nbytes, None, readonly=True).bytes)


def checked_compiled_loops(plan: CpuPlan[GatherProblem]) -> DirectLaunch | None:
    """The compiled loops of a plan, behind the check of their indices where the mode refuses any."""
    from .compiled.gather import compiled_gather

    move, problem = compiled_gather(plan), plan.problem
    if move is None or not problem.refuses_indices:
        return move
    rule = problem.rule
    quick = _quick_check(rule, settings())

    def checked(dense: int, indexed: int, indices: int) -> None:
        if quick is None or not quick(indices):
            _refuse(rule, indices)
        move(dense, indexed, indices)

    return checked


def checked_numpy_loops(problem: GatherProblem) -> Callable[..., None]:
    """NumPy's blocks on buffers with the start of each operand in bytes, behind the same check."""
    blocks, rule = NumpyGather(problem), problem.rule if problem.refuses_indices else None

    def move(
        dense: Buffer, dense_start: int, indexed: Buffer, indexed_start: int, indices: Buffer, indices_start: int
    ) -> None:
        if rule is not None:
            check_by(rule, (indices, indices_start))
        blocks(dense.bytes[dense_start:], indexed.bytes[indexed_start:], indices.bytes[indices_start:])

    return move
