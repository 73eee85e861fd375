"""What a device does besides relayout: look at indices, and gather, scatter and crop as plans say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from stridedgpu.devices.cuda.planning.gather import GatherPlan, Mode
from stridedgpu.planning.crop_windows import Crop, CropPlan
from stridedgpu.planning.index_rule import IndexRule

from .buffer import Buffer

__all__ = [
    "CropsLaunch",
    "CropsMove",
    "GatherBackend",
    "GatherLaunch",
    "GatherMove",
    "IndicesWithin",
    "Located",
]

Located = tuple[Buffer, int]
"""Where an operand lies: its buffer, and the bytes there before its lowest element."""

GatherLaunch = Callable[[Located, Located, Located, object], None]
"""A plan made ready by a device: `launch(plain, picked, indices, stream)`."""

GatherMove = Callable[[Located, Located, Located], None]
"""The same on a device without streams."""

IndicesWithin = Callable[[Located], bool]
"""Whether all indices are known to lie within their axes."""

CropsLaunch = Callable[[Sequence[Crop], Sequence[Located], Located, object], None]
"""A plan for crops made ready by a device: `launch(crops, sources, target, stream)`, a source for each window."""

CropsMove = Callable[[Sequence[Crop], Sequence[Located], Located], None]
"""The same on a device without streams."""


class GatherBackend(Protocol):
    """A device that picks elements by index."""

    @property
    def widest_access(self) -> int:
        """Bytes of the widest single load or store that plans for this device may use."""

    def check_indices(self, rule: IndexRule, indices: Located, mode: Mode, stream: object) -> None:
        """Raise `IndexError` for the first index that the rule and the mode refuse; nothing is written."""

    def prepare_gather(self, plan: GatherPlan) -> GatherLaunch:
        """A plan made ready, so that running it is only the launch. Its indices have been checked."""

    def prepare_crops(self, plan: CropPlan) -> CropsLaunch:
        """A plan made ready to write every window of a batch."""
