"""What a device does besides relayout: look at indices, and gather, scatter and crop as plans say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from stridedgpu.buffer import Buffer
from stridedgpu.planning.crops import Crop, CropPlan
from stridedgpu.planning.gather import GatherPlan, Mode
from stridedgpu.planning.index_rule import IndexRule

__all__ = ["CropsMove", "GatherBackend", "GatherLaunch", "GatherMove", "IndicesWithin"]

GatherLaunch = Callable[[Buffer, int, Buffer, int, Buffer, int, object], None]
"""A plan made ready by a device: `launch(plain, plain_start, picked, picked_start, index, index_start, stream)`.

The starts are the bytes before the lowest element of each operand.
"""


GatherMove = Callable[[Buffer, int, Buffer, int, Buffer, int], None]
"""The same on a device without streams."""

IndicesWithin = Callable[[Buffer, int], bool]
"""Whether all indices that begin at a byte of a buffer are known to lie within their axes."""


CropsMove = Callable[[Sequence[Crop], Sequence[tuple[Buffer, int]], Buffer, int], None]
"""A plan for crops made ready: `move(crops, sources, target, target_start)`."""


class GatherBackend(Protocol):
    """A device that picks elements by index."""

    @property
    def widest_access(self) -> int:
        """Bytes of the widest single load or store that plans for this device may use."""

    def check_indices(self, rule: IndexRule, index: Buffer, start: int, mode: Mode, stream: object) -> None:
        """Raise `IndexError` for the first index that the rule and the mode refuse; nothing is written."""

    def prepare_gather(self, plan: GatherPlan) -> GatherLaunch:
        """A plan made ready, so that running it is only the launch. Its indices have been checked."""

    def run_crops(
        self,
        plan: CropPlan,
        crops: Sequence[Crop],
        sources: Sequence[tuple[Buffer, int]],
        target: Buffer,
        target_start: int,
        stream: object,
    ) -> None:
        """Write every window of a batch; for each sample its source, and the bytes there before its lowest element."""
