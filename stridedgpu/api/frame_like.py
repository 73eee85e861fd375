"""What a frame is known by: operations ask every argument, and load what moves frames only for frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from stridedgpu.values.errors import LayoutError

if TYPE_CHECKING:
    from .frames import Frame

__all__ = ["FrameBase", "FrameLike", "is_frames"]

FrameLike: TypeAlias = "Frame | Sequence[Frame]"
"""A frame, or a batch of frames."""


class FrameBase:
    """The base of `Frame`, which loads nothing."""


def is_frames(thing: object) -> TypeGuard[FrameLike]:
    """True for a frame, or a list of frames. Raises `LayoutError` for a list of frames and other things."""
    if isinstance(thing, FrameBase):
        return True
    if not isinstance(thing, (list, tuple)):
        return False
    kinds = set(map(type, thing))
    for kind in kinds:
        if issubclass(kind, FrameBase):
            break
    else:
        return False
    if len(kinds) > 1:
        others = ", ".join(sorted(kind.__name__ for kind in kinds if not issubclass(kind, FrameBase)))
        raise LayoutError(
            f"The list has Frames and other pictures ({others}): make tensors of the frames with frame.relayout(), or "
            "give both to Preprocess."
        )
    return True
