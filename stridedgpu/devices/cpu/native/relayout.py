"""Plan and run relayouts on native loops: choose the kernel, its loops and extents, then run it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.interface import DirectLaunch
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.values.tensor_spec import WIDEST_ACCESS

from .blocks import match_blocks
from .channels import LONGEST_PIXEL, Channels, match_channels, match_subsampled
from .elements import can_convert
from .kernel_call import KernelCall, LoopMatch
from .packed import match_packed
from .registers import LANE_BYTES, LINE_BYTES, shuffled_bytes
from .rows import Rows, Step, match_rows
from .transpose import Transpose, match_transpose

_WORDS: Final = (2, 4, 8, LANE_BYTES)
"""Bytes of short runs that are one element."""

_ZEROS: Final = Buffer.of(np.zeros(WIDEST_ACCESS, np.uint8))
"""The source of filler zeros."""


def plan_relayout(problem: RelayoutProblem) -> KernelCall | None:
    """The kernel and loops of a problem.

    None if there is nothing to move, if the conversion is left to NumPy, or if no kernel writes the filler together
    with the elements.
    """
    if problem.element_count == 0 or not can_convert(problem.conversion):
        return None
    match = LoopMatch.of(problem)
    if problem.filler:
        return match_channels(match)
    call = _matched(match)
    # Where loads or stores are narrow, blocks of several short loops take less time.
    return (match_blocks(match) if suits_blocks(call, problem.bytes_moved) else None) or call


def _matched(match: LoopMatch) -> KernelCall:
    """The kernel that fits the loops, blocks left out: the first in the order of their speed."""
    match = _widened(match)
    row = match.target_loop
    nbytes = 0 if row is None else row.size * match.target_bytes
    if row is not None and (row is match.source_loop or row.source == 0) and nbytes >= LANE_BYTES:
        # Vectors of several short rows that are reversed take less time than a step for each row.
        is_pixel = row.source < 0 and row.size <= LONGEST_PIXEL and nbytes < LINE_BYTES
        return (match_channels(match) if is_pixel else match_packed(match)) or match_rows(match)
    return match_channels(match) or match_transpose(match) or match_subsampled(match) or match_rows(match)


def _widened(match: LoopMatch) -> LoopMatch:
    """Reinterpret short runs of a bitwise copy as larger elements."""
    if not match.problem.conversion.is_bitwise_copy or len(match.loops) < 2:
        return match
    inner, nbytes = match.loops[-1], match.source_bytes
    whole = inner.size * nbytes
    if inner.source == inner.target == nbytes and inner.channels is None and whole in _WORDS:
        return replace(match, loops=match.loops[:-1], source_bytes=whole, target_bytes=whole)
    return match


def suits_blocks(call: KernelCall, moved: int) -> bool:
    """Whether the loads or stores of a call that moves so many bytes are so narrow that blocks take less time."""
    kernel, limits = call.kernel, policy().relayout
    nbytes = kernel.elements.target_bytes
    if kernel.streaming:
        return False
    if isinstance(kernel, Channels):
        widest = shuffled_bytes(nbytes)
        most = widest if moved < limits.cached_bytes else min(widest, 2 * LANE_BYTES)
        is_long = len(kernel.order) >= limits.long_channels and not kernel.is_transposed
        return kernel.pixels * nbytes < most or is_long
    if isinstance(kernel, Transpose):
        return shuffled_bytes(1) == LINE_BYTES and min(loop.size for loop in call.inner) < limits.short_side
    if isinstance(kernel, Rows):
        if Step.STRIDED in (kernel.source_step, kernel.target_step):
            return True
        is_forward = kernel.source_step is kernel.target_step is Step.FORWARD
        return is_forward and call.inner[1].size * nbytes < LINE_BYTES
    return False


def relayout_kernel(problem: RelayoutProblem) -> CpuKernel | None:
    """The native loops of a problem; None if it is left to NumPy.

    If no kernel writes the filler together with the elements, a second call writes the zeros.
    """
    call = plan_relayout(problem)
    if call is not None:
        return kernel_of(problem, (call,))
    if not problem.filler:
        return None
    elements, zeros = plan_relayout(problem.without_filler()), plan_relayout(problem.filler_alone())
    return None if elements is None or zeros is None else kernel_of(problem.without_filler(), (elements, zeros))


def kernel_of(problem: RelayoutProblem, calls: tuple[KernelCall, ...]) -> CpuKernel:
    """Describe the first of the calls, which moves the elements: its name, widths and tile."""
    call, (source, target) = calls[0], (problem.source.element, problem.target.element)
    words, loads, stores, _ = call.facts
    return CpuKernel(
        f"{call.kernel.family}_{source}x{loads.nbytes}B_{target}x{stores.nbytes}B",
        f"native {words}" + ("; then zeros behind each run" if len(calls) > 1 else ""),
        loads,
        stores,
        call.tile(problem.sizes),
        call.items,
        policy().relayout.shared_bytes,
        calls,
    )


def relayout_move(plan: CpuPlan[RelayoutProblem]) -> DirectLaunch:
    """The move of a plan that has native loops."""
    chosen, problem = plan.native, plan.problem
    assert chosen is not None, "what NumPy does has no native loops"
    calls: tuple[KernelCall, ...] = chosen.calls
    moves = [call.loop().launch(plan.bytes_moved, chosen.shared_bytes) for call in calls]
    if len(moves) == 1:
        return moves[0]
    elements, zeros = moves
    behind = problem.sizes[-1] * problem.target.element.itemsize

    def move(source: int, target: int) -> None:
        elements(source, target)
        zeros(_ZEROS.address, target + behind)

    return move
