"""Gather, scatter and crops on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from stridedgpu.buffer import Buffer
from stridedgpu.errors import DeviceError
from stridedgpu.planning.crops import Crop, CropPlan
from stridedgpu.planning.gather import GatherPlan, Mode
from stridedgpu.planning.index_rule import IndexRule

from .cpu_crops import run_crops
from .gather_interface import GatherLaunch
from .numpy_gather import NumpyGather, check_indices

__all__ = ["CpuGather"]


class CpuGather:
    """The processor that this program runs on, picking elements by index."""

    widest_access = 16

    def check_indices(self, rule: IndexRule, index: Buffer, start: int, mode: Mode, stream: object) -> None:
        """Look at the indices where they are; "deferred" is checked at once, as nothing runs later here."""
        _check_stream(stream)
        check_indices(rule, index.bytes[start:], in_range=mode in ("raise", "deferred"), mode=mode)

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
        """Relayout one window after another."""
        _check_stream(stream)
        run_crops(plan, crops, sources, target, target_start)


def _check_stream(stream: object) -> None:
    """Raise `DeviceError` for any stream."""
    if stream is not None:
        raise DeviceError(f"stream={stream!r} has no meaning on the CPU, where calls return when they are done.")


@lru_cache(maxsize=1024)
def _prepared(plan: GatherPlan) -> GatherLaunch:
    """The plan's blocks, kept for the next call with the same plan."""
    move = NumpyGather(plan)

    def launch(
        plain: Buffer, plain_start: int, picked: Buffer, picked_start: int, index: Buffer, index_start: int, _: object
    ) -> None:
        move(plain.bytes[plain_start:], picked.bytes[picked_start:], index.bytes[index_start:])

    return launch
