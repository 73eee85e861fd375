"""`GatherChoice`: the CUDA kernel of a gather or scatter, and its access widths."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import gcd
from typing import Final

from stridedgpu.planning.device_plan import Width, in_words, index_bits
from stridedgpu.planning.gather_problem import GatherProblem
from stridedgpu.planning.index_rule import Mode

from .policy import policy
from .widths import Bound, alignment_bound, bounded_width, stride_bound

__all__ = ["SHORT_ROWS_TOGETHER", "WIDEST_INDICES", "GatherChoice", "GatherFamily", "choose_gather"]

SHORT_ROWS_TOGETHER: Final = 4
"""Adjacent target rows made by one thread, if rows are short."""

_WORD_BYTES: Final = 4
"""Bytes of the loads of an unaligned row."""

_SHIFTED_BYTES: Final = 16
"""Bytes of the stores of an unaligned row."""

WIDEST_INDICES: Final = 16
"""Bytes of the widest load of indices."""


class GatherFamily(StrEnum):
    """Kinds of gather and scatter, by the memory that an index selects."""

    EMPTY = "empty"
    ROWS = "rows"
    SHIFTED_ROWS = "shifted_rows"
    SHORT_ROWS = "short_rows"
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
    GatherFamily.SHIFTED_ROWS: "shifted rows: each index stands for a run that begins anywhere, shifted into place",
    GatherFamily.SHORT_ROWS: "short rows: each index stands for a few bytes, and those of four make whole words",
    GatherFamily.INNER: "inner axis: one index serves the same place of every outer row",
    GatherFamily.ELEMENTS: "elements: each has an index of its own",
    GatherFamily.ND: "elements: each has a tuple of indices of its own",
}


@dataclass(frozen=True, slots=True)
class GatherChoice:
    """The family of kernels of a gather or scatter, and its access widths.

    `dense` and `indexed` are the widths of one access on either side, in bytes, with their limits; `index` is that of a
    load of indices. `index_bits` is the width of offset arithmetic, 32 or 64, independent of the indices' type.
    """

    problem: GatherProblem
    family: GatherFamily
    dense: Width
    indexed: Width
    index: Width
    index_bits: int

    @property
    def mode(self) -> Mode:
        """The treatment of an index out of range."""
        return self.problem.mode

    @property
    def kernel(self) -> str:
        """The kernel's name: operation, element and bytes of a vector, and the indices' type."""
        problem = self.problem
        verb = "scatter" if problem.scatters else "gather"
        return f"{verb}_{self.family}_{problem.dense.element}x{self.dense.nbytes}B_{problem.index.element}"

    @property
    def load(self) -> Width:
        """The width of one load."""
        return self.dense if self.problem.scatters else self.indexed

    @property
    def store(self) -> Width:
        """The width of one store."""
        return self.indexed if self.problem.scatters else self.dense

    def in_words(self) -> list[str]:
        """The lines that `explain` prints: family, widths and their limits."""
        accesses = (in_words("loads", self.load), in_words("stores", self.store), in_words("indices", self.index))
        return [
            self.family.description,
            *self.problem.in_words(),
            "; ".join(accesses),
            f"{self.index_bits}-bit offsets",
        ]


def choose_gather(problem: GatherProblem, widest: int = 16) -> GatherChoice:
    """The kernel for a problem; `widest` is the largest access of the device, in bytes."""
    family = _family(problem)
    reach = max(
        problem.element_count,
        problem.dense.layout.span,
        problem.indexed.layout.span,
        problem.index.layout.span,
    )
    bits = index_bits(reach)
    dense, indexed = _widths(problem, family, widest)
    index = _index_width(problem, family, dense.nbytes // problem.dense.element.itemsize)
    if family is GatherFamily.ROWS and _are_short(problem, indexed):
        family = GatherFamily.SHORT_ROWS
        dense = _four_rows_width(problem, widest)
        index = _index_width(problem, family, SHORT_ROWS_TOGETHER)
    elif family is GatherFamily.ROWS and widest >= _SHIFTED_BYTES and _begin_anywhere(problem, indexed):
        family = GatherFamily.SHIFTED_ROWS
        load, store = _shifted_widths(indexed)
        dense, indexed = (load, store) if problem.scatters else (store, load)
    return GatherChoice(problem, family, dense, indexed, index, bits)


def _family(problem: GatherProblem) -> GatherFamily:
    """The family of a problem, from its sizes and strides alone."""
    if 0 in problem.sizes:
        return GatherFamily.EMPTY
    inner = -1
    if problem.sizes and problem.index_strides[inner] == 0:
        if problem.dense_strides[inner] == problem.indexed_strides[inner] == 1:
            return GatherFamily.ROWS
    elif len(problem.indexed_axes) == 1 and len(problem.sizes) > 1 and not any(problem.index_strides[:inner]):
        return GatherFamily.ELEMENTS if problem.scatters else GatherFamily.INNER
    return GatherFamily.ELEMENTS if len(problem.indexed_axes) == 1 else GatherFamily.ND


def _widths(problem: GatherProblem, family: GatherFamily, widest: int) -> tuple[Width, Width]:
    """The access widths of the dense and the indexed side."""
    if family is GatherFamily.ROWS:
        run = problem.sizes[-1] * problem.dense.element.itemsize
        bounds = [*_dense_bounds(problem, widest), *_indexed_bounds(problem, widest)]
        if run < policy().family.peeled_run_bytes:
            bounds.append(Bound(run, f"an index stands for a run of {run} B, and what follows is not ours"))
            cap = policy().gather.short_rows_widest_bytes
            bounds.append(Bound(cap, f"vectors above {cap} B leave too few lanes for a run of {run} B", is_cap=True))
        width = bounded_width(bounds, problem.dense.element.itemsize, widest)
        return width, width
    itemsize = problem.dense.element.itemsize
    alone = Width(min(itemsize, widest), "an index stands for one element" if itemsize < widest else "")
    if family is GatherFamily.EMPTY:
        return Width(alone.nbytes), Width(alone.nbytes)
    return _vector_width(problem, alone, widest), alone


def _vector_width(problem: GatherProblem, alone: Width, widest: int) -> Width:
    """The width of the dense side if each element has an index: adjacent elements form a vector."""
    itemsize, count = problem.dense.element.itemsize, problem.sizes[-1] if problem.sizes else 1
    if count == 1 or problem.dense_strides[-1] != 1:
        return alone
    tuples = len(problem.indexed_axes)
    most = policy().gather.most_indices
    length = max(1, most // tuples)
    bounds = [
        *_dense_bounds(problem, widest),
        Bound(_power_of_two(length) * itemsize, f"a thread holds up to {most} numbers for each vector"),
        Bound(_power_of_two(count) * itemsize, f"a row has {count} elements"),
    ]
    return bounded_width(bounds, itemsize, widest)


def _are_short(problem: GatherProblem, access: Width) -> bool:
    """True if rows are shorter than a vector, are not themselves a vector, and are adjacent on the written side."""
    run = problem.sizes[-1] * problem.dense.element.itemsize
    return (
        not problem.scatters
        and len(problem.indexed_axes) == 1
        and access.nbytes < run <= policy().gather.short_row_bytes
        and run % access.nbytes == 0
        and len(problem.sizes) > 1
        and problem.sizes[-2] >= SHORT_ROWS_TOGETHER
        and problem.index_strides[-2] != 0
        and problem.dense_strides[-2] == problem.sizes[-1]
    )


def _begin_anywhere(problem: GatherProblem, access: Width) -> bool:
    """True if rows are long and aligned to a word at most, so that funnel-shifted vectors pay off."""
    itemsize = problem.dense.element.itemsize
    run = problem.sizes[-1] * itemsize
    return itemsize <= _WORD_BYTES and access.nbytes <= _WORD_BYTES and run >= policy().gather.least_shifted_bytes


def _shifted_widths(access: Width) -> tuple[Width, Width]:
    """The load and store widths of unaligned rows; `access` is the width without funnel shifts."""
    words = Width(_WORD_BYTES, f"{access.limit}: words are loaded, and shifted into place")
    return words, Width(_SHIFTED_BYTES, "vectors are put together from words")


def _four_rows_width(problem: GatherProblem, widest: int) -> Width:
    """The store width of several short rows together."""
    itemsize = problem.dense.element.itemsize
    together = SHORT_ROWS_TOGETHER * problem.sizes[-1] * itemsize
    bounds = [
        alignment_bound("target", gcd(problem.dense.alignment, problem.dense_offset * itemsize)),
        *(stride_bound("target", abs(stride) * itemsize, widest) for stride in problem.dense_strides[:-2] if stride),
        Bound(together, f"{SHORT_ROWS_TOGETHER} rows are {together} B"),
    ]
    return bounded_width(bounds, itemsize, widest)


def _dense_bounds(problem: GatherProblem, widest: int) -> list[Bound]:
    """Divisors of every row address of the dense side: its alignment, the start offset of loops, and the strides."""
    itemsize, side = problem.dense.element.itemsize, "source" if problem.scatters else "target"
    return [
        alignment_bound(side, gcd(problem.dense.alignment, problem.dense_offset * itemsize)),
        *(stride_bound(side, abs(stride) * itemsize, widest) for stride in problem.dense_strides[:-1] if stride),
    ]


def _indexed_bounds(problem: GatherProblem, widest: int) -> list[Bound]:
    """Divisors of every row address of the indexed side, whatever the indices."""
    itemsize, side = problem.dense.element.itemsize, "target" if problem.scatters else "source"
    strides = [*problem.indexed_strides[:-1], *(entry.stride for entry in problem.indexed_axes if entry.size > 1)]
    return [
        alignment_bound(side, gcd(problem.indexed.alignment, problem.indexed_offset * itemsize)),
        *(stride_bound(side, abs(stride) * itemsize, widest) for stride in strides if stride),
    ]


def _index_width(problem: GatherProblem, family: GatherFamily, length: int) -> Width:
    """The load width of the indices of a vector's `length` places: several numbers if they are adjacent."""
    itemsize, count = problem.index.element.itemsize, len(problem.indexed_axes)
    if family is GatherFamily.ROWS:
        return Width(itemsize, "an index stands for a row")
    in_a_row = all(entry.component == place for place, entry in enumerate(problem.indexed_axes))
    along = len(problem.sizes) - (2 if family is GatherFamily.SHORT_ROWS else 1)
    if count * length == 1 or not in_a_row or (length > 1 and problem.index_strides[along] != count):
        return Width(itemsize)
    numbers = count * length * itemsize
    outer = problem.index_strides[:along] if length > 1 else problem.index_strides
    bounds = [
        alignment_bound("indices", gcd(problem.index.alignment, problem.index_offset * itemsize)),
        Bound(numbers, f"a vector has {numbers} B of indices"),
        *(stride_bound("indices", abs(stride) * itemsize, WIDEST_INDICES) for stride in outer if stride),
    ]
    return bounded_width(bounds, itemsize, WIDEST_INDICES)


def _power_of_two(count: int) -> int:
    """The largest power of two up to `count`."""
    return 1 << (count.bit_length() - 1)
