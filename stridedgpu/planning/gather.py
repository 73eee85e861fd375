"""`GatherPlan`: how elements are picked out of a tensor by indices, or written into one, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import gcd
from typing import Final, Literal

from .gather_problem import GatherProblem
from .widths import PEELED_RUN_BYTES, Bound, Width, alignment_bound, bounded_width, stride_bound

__all__ = ["GatherFamily", "GatherPlan", "Mode", "plan_gather"]

Mode = Literal["raise", "clip", "wrap", "deferred"]
"""What happens to an index out of range."""

_LARGEST_32_BIT_OFFSET: Final = 2**31 - 1


class GatherFamily(StrEnum):
    """Kinds of picking, after what an index stands for in memory."""

    EMPTY = "empty"
    ROWS = "rows"
    INNER = "inner"
    ELEMENTS = "elements"
    ND = "nd"

    @property
    def description(self) -> str:
        """The family in plain words."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS: Final = {
    GatherFamily.EMPTY: "nothing to move: there are no elements",
    GatherFamily.ROWS: "rows: each index stands for a run that is contiguous on both sides",
    GatherFamily.INNER: "inner axis: one index serves the same place of every outer row",
    GatherFamily.ELEMENTS: "elements: each has an index of its own",
    GatherFamily.ND: "elements: each has a tuple of indices of its own",
}


@dataclass(frozen=True, slots=True)
class GatherPlan:
    """A gather or scatter, planned: the loops, the family of kernels that walks them, and how wide.

    `access` is the width of a load and of the store that follows it, in bytes, with what limits it; `index_bits` is
    the arithmetic that offsets are worked out in, 32 or 64, whatever the type of the indices.
    """

    problem: GatherProblem
    device: str
    mode: Mode
    family: GatherFamily
    access: Width
    index_bits: int

    @property
    def kernel(self) -> str:
        """The kernel's name: what it does, the element and the bytes of an access, and the indices' type."""
        problem = self.problem
        verb = "scatter" if problem.scatters else "gather"
        return f"{verb}_{self.family}_{problem.plain.element}x{self.access.nbytes}B_{problem.index.element}"

    @property
    def load_bytes(self) -> int:
        """Bytes of one load."""
        return self.access.nbytes

    @property
    def store_bytes(self) -> int:
        """Bytes of one store."""
        return self.access.nbytes

    @property
    def vector_bytes(self) -> int:
        """The smaller of the two: the same, as elements keep their bits."""
        return self.access.nbytes

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written."""
        return self.problem.bytes_moved

    def explain(self) -> str:
        """The plan in plain words: which family, how wide and why not wider, which indices are valid, bytes."""
        problem = self.problem
        plain, picked = ("reads", "writes") if problem.scatters else ("writes", "reads")
        ranges = ", ".join(f"axis {entry.axis} of size {entry.size}" for entry in problem.indexed)
        limit = f" ({self.access.limit})" if self.access.limit else ""
        lines = [
            f"{self.kernel} on {self.device}",
            f"  {self.family.description}",
            f"  loops {problem.sizes}, the {problem.row_axes} innermost within one index",
            f"  {plain} in steps of {problem.plain_strides} elements",
            f"  {picked} in steps of {problem.picked_strides} elements, and where the indices say",
            f"  indices for {ranges}; out of range: {_MODES[self.mode]}",
            f"  loads and stores {self.access.nbytes} B{limit}; bits move unchanged",
            f"  {self.index_bits}-bit offsets",
            f"  {self.bytes_moved} bytes must move",
        ]
        return "\n".join(lines)


_MODES: Final = {
    "raise": "refused before anything is written",
    "clip": "the nearest valid one; negative ones are 0",
    "wrap": "counted round the axis",
    "deferred": "clamped, and raised at the next synchronisation",
}


@lru_cache(maxsize=1024)
def plan_gather(problem: GatherProblem, mode: Mode, device: str, widest: int = 16) -> GatherPlan:
    """The plan of a problem; `widest` is the largest access of the device, in bytes."""
    family = _family(problem)
    reach = max(
        problem.element_count,
        problem.plain.layout.span,
        problem.picked.layout.span,
        problem.index.layout.span,
    )
    bits = 32 if reach <= _LARGEST_32_BIT_OFFSET else 64
    return GatherPlan(problem, device, mode, family, _width(problem, family, widest), bits)


def _family(problem: GatherProblem) -> GatherFamily:
    """The family of a problem, from its sizes and strides alone."""
    if 0 in problem.sizes:
        return GatherFamily.EMPTY
    inner = -1
    if problem.sizes and problem.index_strides[inner] == 0:
        if problem.plain_strides[inner] == problem.picked_strides[inner] == 1:
            return GatherFamily.ROWS
    elif len(problem.indexed) == 1 and len(problem.sizes) > 1 and not any(problem.index_strides[:inner]):
        return GatherFamily.INNER
    return GatherFamily.ELEMENTS if len(problem.indexed) == 1 else GatherFamily.ND


def _width(problem: GatherProblem, family: GatherFamily, widest: int) -> Width:
    """How wide a row may be moved: its run, its steps on both sides and both alignments must be whole vectors."""
    itemsize = problem.plain.element.itemsize
    if family is not GatherFamily.ROWS:
        reason = "" if itemsize >= widest or family is GatherFamily.EMPTY else "an index stands for one element"
        return Width(min(itemsize, widest), reason)
    plain, picked = ("source", "target") if problem.scatters else ("target", "source")
    # Any address of a row is its side's lowest, plus the offset that the loops start at, plus whole steps.
    bounds = [
        alignment_bound(plain, gcd(problem.plain.alignment, problem.plain_offset * itemsize)),
        alignment_bound(picked, gcd(problem.picked.alignment, problem.picked_offset * itemsize)),
        *(stride_bound(plain, abs(stride) * itemsize, widest) for stride in problem.plain_strides[:-1] if stride),
        *(stride_bound(picked, abs(stride) * itemsize, widest) for stride in problem.picked_strides[:-1] if stride),
        *(stride_bound(picked, abs(entry.stride) * itemsize, widest) for entry in problem.indexed if entry.size > 1),
    ]
    run = problem.sizes[-1] * itemsize
    if run < PEELED_RUN_BYTES:
        bounds.append(Bound(run, f"an index stands for a run of {run} B, and what follows is not ours"))
    return bounded_width(bounds, itemsize, widest)
