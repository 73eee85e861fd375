"""`Footprint`: the elements that one tile of a plan reads and writes, for pictures of plans."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

from stridedgpu.planning.device_plan import DevicePlan
from stridedgpu.planning.relayout_problem import RelayoutProblem
from stridedgpu.values.layout import Layout

from .cells import LabelKind, Labeller, Letters, grid_of, place_at
from .subject import Subject

__all__ = ["Footprint", "PlanMap", "footprint_of"]


@dataclass(frozen=True)
class Footprint:
    """A box of a plan's loops from their start: the extent along each loop, and in words who moves it."""

    extents: tuple[int, ...]
    words: str


class PlanMap:
    """The source element of each target element, as offsets from the lowest element of either side."""

    def __init__(self, plan: DevicePlan) -> None:
        """The map of one plan."""
        self._problem: RelayoutProblem = plan.problem
        self._target = Layout(plan.problem.sizes, plan.problem.target_strides)
        self._footprint = footprint_of(plan)

    def source_of(self, target_offset: int) -> int | None:
        """The offset in the source of the element at an offset of the target; None for padding."""
        at = place_at(self._target, target_offset).coordinates
        return None if at is None else self._source_offset(at)

    def letters(self, source: Subject, kind: LabelKind | None) -> Letters | None:
        """The source's letter of each target offset, or None if the source has no letters."""
        labeller = Labeller(source.layout, grid_of(source.layout), kind)
        if labeller.kind != "letters":
            return None

        def carried(offset: int) -> str:
            origin = self.source_of(offset)
            return "" if origin is None else labeller.letter(origin)

        return carried

    def is_written(self, target_offset: int) -> bool:
        """True if the footprint writes this place."""
        at = place_at(self._target, target_offset).coordinates
        return at is not None and all(x < n for x, n in zip(at, self._footprint.extents, strict=True))

    @cached_property
    def read(self) -> frozenset[int]:
        """The offsets that the footprint reads."""
        return frozenset(self._source_offset(at) for at in product(*map(range, self._footprint.extents)))

    def _source_offset(self, at: tuple[int, ...]) -> int:
        problem = self._problem
        channels = problem.conversion.channels
        steps = list(at)
        if problem.channel_axis is not None and channels is not None:
            steps[problem.channel_axis] = channels[at[problem.channel_axis]]
        return problem.source_offset + sum(x * s for x, s in zip(steps, problem.source_strides, strict=True))


def footprint_of(plan: DevicePlan) -> Footprint:
    """The tile of a plan, from the plan itself.

    >>> from stridedgpu.api.relayout_plans import plan_relayout
    >>> from stridedgpu.values.descriptor import BufferTensorDesc
    >>> pixels = BufferTensorDesc("uint8", (1, 3, 64, 64), (12288, 1, 192, 3))
    >>> plan = plan_relayout(pixels, BufferTensorDesc("uint8", (1, 3, 64, 64)), device="cuda").plan
    >>> footprint_of(plan).extents == plan.tile
    True
    """
    if plan.problem.is_empty:
        return Footprint(plan.problem.sizes, "nothing is moved")
    accesses = f"loads of {plan.load.nbytes} B and stores of {plan.store.nbytes} B"
    box = " x ".join(map(str, plan.tile)) or "1"
    return Footprint(plan.tile, f"one tile of {box} elements, in {accesses}; {plan.shape}")
