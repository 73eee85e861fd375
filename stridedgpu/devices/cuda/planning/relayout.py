"""`RelayoutChoice`: which family of CUDA kernels does a relayout, and how wide its accesses are."""

from __future__ import annotations

from dataclasses import dataclass

from stridedgpu.planning.device_plan import Width, in_words, index_bits
from stridedgpu.planning.relayout_problem import Problem

from .families import Family, choose_family
from .kernel_families import kernel_family
from .shifted_rows import shifted_widths
from .widths import width_of

__all__ = ["RelayoutChoice", "choose_relayout"]


@dataclass(frozen=True, slots=True)
class RelayoutChoice:
    """The loops, the family of kernels that walks them, and how wide.

    `load` and `store` are the widths of one access on each side, in bytes, with what limits them; `index_bits` is
    32 or 64. With `shifts`, rows begin anywhere in their words, and words are shifted into place.
    """

    problem: Problem
    family: Family
    load: Width
    store: Width
    index_bits: int
    shifts: bool = False

    @property
    def kernel(self) -> str:
        """The kernel's name: family, then what is read and what is written, with the bytes of an access."""
        source, target = self.problem.source.element, self.problem.target.element
        return f"{self.family}_{source}x{self.load.nbytes}B_{target}x{self.store.nbytes}B"

    def in_words(self) -> list[str]:
        """The kernel in lines, as plans explain it: which family, how wide and why not wider."""
        return [
            self.family.description,
            *self.problem.in_words(),
            in_words("loads", self.load) + "; " + in_words("stores", self.store),
            *(["rows begin anywhere in their vectors: words are shifted into place"] if self.shifts else []),
            f"{self.index_bits}-bit indices",
        ]


def choose_relayout(problem: Problem, widest: int = 16) -> RelayoutChoice:
    """The kernel for a problem; `widest` is the largest access of the device, in bytes."""
    family = kernel_family(problem, choose_family(problem))
    reach = max(
        problem.written_count,
        _reach(problem.written_sizes, problem.target_strides),
        _reach(problem.source_extents, problem.source_strides),
    )
    load, store = width_of(problem, family, "source", widest), width_of(problem, family, "target", widest)
    shifted = shifted_widths(problem, family, load, store, widest)
    return RelayoutChoice(
        problem,
        family,
        *(shifted or (load, store)),
        index_bits(reach),
        shifted is not None,
    )


def _reach(sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The largest distance, in elements, from the element that is visited first."""
    return sum((size - 1) * abs(stride) for size, stride in zip(sizes, strides, strict=True) if size)
