"""`RelayoutChoice`: the family of CUDA kernels of a relayout, and its access widths."""

from __future__ import annotations

from dataclasses import dataclass

from stridedgpu.planning.device_plan import Width, in_words, index_bits
from stridedgpu.planning.relayout_problem import Problem

from .families import Family, choose_family, unit_axis
from .packed_tiles import packed_tiles
from .pixels import pixels_of
from .widths import shifted_widths, width_of

__all__ = ["RelayoutChoice", "choose_relayout"]


@dataclass(frozen=True, slots=True)
class RelayoutChoice:
    """The loops, the family of kernels that walks them, and the access widths.

    `load` and `store` are the widths of one access on each side, in bytes, with their limits. `index_bits` is 32 or 64.
    With `shifts`, rows may begin inside a word, and words are funnel-shifted into place.
    """

    problem: Problem
    family: Family
    load: Width
    store: Width
    index_bits: int
    shifts: bool = False

    @property
    def kernel(self) -> str:
        """The kernel's name: family, then type and bytes of a load and of a store."""
        source, target = self.problem.source.element, self.problem.target.element
        return f"{self.family}_{source}x{self.load.nbytes}B_{target}x{self.store.nbytes}B"

    def in_words(self) -> list[str]:
        """The kernel in lines, as plans explain it: family, access widths and their limits."""
        return [
            self.family.description,
            *self.problem.in_words(),
            in_words("loads", self.load) + "; " + in_words("stores", self.store),
            *(["rows begin anywhere in their vectors: words are shifted into place"] if self.shifts else []),
            f"{self.index_bits}-bit indices",
        ]


def choose_relayout(problem: Problem, widest: int = 16) -> RelayoutChoice:
    """The kernel for a problem; `widest` is the largest access of the device, in bytes."""
    family = _kernel_family(problem, choose_family(problem))
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
    """The largest distance, in elements, from the element visited first."""
    return sum((size - 1) * abs(stride) for size, stride in zip(sizes, strides, strict=True) if size)


def _kernel_family(problem: Problem, family: Family) -> Family:
    """The family whose kernel runs a problem of `family`.

    Packed tiles move pixels that exceed a thread's registers, and a transpose with a channel table along the source's
    run. The generic kernel moves problems whose channel table does not fit a tile.
    """
    if family is Family.CHANNELS:
        pixels = pixels_of(problem)
        if pixels is not None and pixels.fit_registers:
            return Family.CHANNELS
        family = Family.PACKED_TILE
    if family is Family.TRANSPOSE and problem.conversion.channels is not None:
        family = Family.PACKED_TILE if problem.channel_axis == unit_axis(problem.source_strides) else family
    if family is Family.PACKED_TILE and next(packed_tiles(problem), None) is None:
        return Family.GENERIC
    return family
