"""Gather and scatter on the CPU: NumPy's blocks, and native loops; and the check of their indices."""

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
    allowed = _native_check(rule, settings())
    buffer, start = indices
    if allowed is None:
        check_indices(rule, buffer.bytes[start:])
        return None

    def check(indices: int) -> None:
        if not allowed(indices):
            _refuse(rule, indices)

    if not allowed(buffer.address + start):
        check_indices(rule, buffer.bytes[start:])
    return check


@cached_launches
def _native_check(rule: IndexRule, *_settings: Hashable) -> Callable[[int], bool] | None:
    """The native check, True if all indices are allowed. If not, or where there is none, NumPy finds the wrong one.

    It is by rule: gathers and scatters with the same indices share it.
    """
    if policy().native_level is None or not rule.index.layout.element_count:
        return None
    from .native.index_check import native_index_check

    return native_index_check(rule)


def _refuse(rule: IndexRule, indices: int) -> None:
    """Raise `IndexError` for the first of the indices at an address that a rule forbids."""
    nbytes = rule.index.layout.span * rule.index.element.itemsize
    check_indices(rule, Buffer.trusted(indices, nbytes, None, readonly=True).bytes)


def gather_move(plan: CpuPlan[GatherProblem]) -> DirectLaunch:
    """The native loops of a plan, behind the check of their indices where the mode refuses any."""
    from .native.gather import gather_loops

    move, problem = gather_loops(plan), plan.problem
    if not problem.refuses_indices:
        return move
    rule = problem.rule
    allowed = _native_check(rule, settings())

    def checked(dense: int, indexed: int, indices: int) -> None:
        if allowed is None or not allowed(indices):
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
