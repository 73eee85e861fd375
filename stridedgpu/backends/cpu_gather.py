"""Gather, scatter and crops on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from stridedgpu.buffer import Buffer
from stridedgpu.errors import DeviceError
from stridedgpu.planning.crops import Crop, CropPlan
from stridedgpu.planning.gather import GatherPlan, Mode
from stridedgpu.planning.index_rule import IndexRule

from .cpu_crops import run_crops
from .gather_interface import CropsMove, GatherLaunch, GatherMove, IndicesWithin
from .machine_code import why_unavailable
from .numpy_gather import NumpyGather, check_indices
from .promotion import Promotion

__all__ = ["CpuGather"]


class CpuGather:
    """The processor that this program runs on, picking elements by index."""

    widest_access = 16

    def check_indices(self, rule: IndexRule, index: Buffer, start: int, mode: Mode, stream: object) -> None:
        """Look at the indices where they are; "deferred" is checked at once, as nothing runs later here."""
        _check_stream(stream)
        in_range = mode in ("raise", "deferred")
        if not rule.axis_pitches and (not in_range or _look(rule).chosen()(index, start)):
            return
        check_indices(rule, index.bytes[start:], in_range=in_range, mode=mode)

    def prepare_gather(self, plan: GatherPlan) -> GatherLaunch:
        """A plan with its blocks chosen."""
        return _prepared(plan)

    def run_crops(
        self,
        plan: CropPlan,
        crops: Sequence[Crop],
        sources: Sequence[tuple[Buffer, int]],
        target: Buffer,
        target_start: int,
        stream: object,
    ) -> None:
        """Relayout all windows together, or one after another."""
        _check_stream(stream)
        _crops(plan).chosen()(crops, sources, target, target_start)


def _check_stream(stream: object) -> None:
    """Raise `DeviceError` for any stream."""
    if stream is not None:
        raise DeviceError(f"stream={stream!r} has no meaning on the CPU, where calls return when they are done.")


@lru_cache(maxsize=1024)
def _look(rule: IndexRule) -> Promotion[IndicesWithin]:
    """A quick look at the indices, kept for the next call with the same rule; NumPy finds the one that is wrong."""

    def compiled() -> IndicesWithin | None:
        from .compiled_index_check import compiled_index_check

        return compiled_index_check(rule)

    layout = rule.index.layout
    nbytes = layout.element_count * rule.index.element.itemsize
    return Promotion(nbytes, lambda: _unseen, compiled if why_unavailable() is None and nbytes else None)


def _unseen(index: Buffer, start: int) -> bool:  # noqa: ARG001 - as every look is called
    """Nothing is known of the indices: NumPy looks at them all."""
    return False


@lru_cache(maxsize=1024)
def _prepared(plan: GatherPlan) -> GatherLaunch:
    """The plan's loops, kept for the next call with the same plan."""

    def compiled() -> GatherMove | None:
        from .compiled_gather import compiled_gather

        return compiled_gather(plan)

    moves: Promotion[GatherMove] = Promotion(
        plan.bytes_moved, lambda: _numpy_move(plan), compiled if why_unavailable() is None else None
    )

    def launch(
        plain: Buffer, plain_start: int, picked: Buffer, picked_start: int, index: Buffer, index_start: int, _: object
    ) -> None:
        moves.chosen()(plain, plain_start, picked, picked_start, index, index_start)

    return launch


def _numpy_move(plan: GatherPlan) -> GatherMove:
    """The plan's blocks on NumPy."""
    blocks = NumpyGather(plan)

    def move(
        plain: Buffer, plain_start: int, picked: Buffer, picked_start: int, index: Buffer, index_start: int
    ) -> None:
        blocks(plain.bytes[plain_start:], picked.bytes[picked_start:], index.bytes[index_start:])

    return move


@lru_cache(maxsize=256)
def _crops(plan: CropPlan) -> Promotion[CropsMove]:
    """What writes the plan's windows, kept for the next batch with the same plan."""

    def compiled() -> CropsMove | None:
        from .compiled_crops import compiled_crops

        return compiled_crops(plan)

    return Promotion(
        plan.bytes_moved, lambda: partial(run_crops, plan), compiled if why_unavailable() is None else None
    )
