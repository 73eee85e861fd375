"""`FrameRequirement`: what a frame must be for a plan to run on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.operand import Operand, share_memory
from stridedgpu.planning.frame_problem import FrameSurface
from stridedgpu.values.errors import BindingError, LayoutError

from .requirements import Given, Requirement

__all__ = ["FrameRequirement", "check_apart", "frames_like"]


@dataclass(frozen=True, slots=True)
class FrameRequirement:
    """The format, sizes, plane strides, matrix, chroma and device of a frame; `pixels` is that of RGB and gray pixels.

    `pixels` is None for a frame of luma and chroma, whose kernels go by the actual addresses.
    """

    surface: FrameSurface
    device: str
    pixels: Requirement | None = None

    @classmethod
    def of(cls, frame: FrameOperand, device: str) -> FrameRequirement:
        """What every frame like this one is, on a device."""
        colours = frame.colours
        return cls(frame.surface, device, None if colours is None else Given(colours.spec).required(device))

    def check(self, name: str, frame: object) -> FrameOperand:
        """The operand of a frame. Raises `BindingError` unless it meets the requirement."""
        operand: object = getattr(frame, "operand", None)
        if not isinstance(operand, FrameOperand) or operand.surface != self.surface:
            planned = self.surface
            raise BindingError(
                f"{name}={frame!r} is not a frame like the one that was planned for: {planned.samples.name} frames of "
                f"{planned.sizes[0]} x {planned.sizes[1]} with plane strides {planned.plane_strides}, chroma "
                f"{planned.chroma}, and one matrix and range."
            )
        if operand.device != self.device:
            raise BindingError(f"{name} is on {operand.device}; the plan is for {self.device}.")
        colours = operand.colours
        if self.pixels is not None and colours is not None:
            self.pixels.check(name, colours)
        return operand


def frames_like(required: Sequence[FrameRequirement], frames: object, *, is_batch: bool) -> list[FrameOperand]:
    """The operands of a frame, or of a list of frames, each like the planned one.

    Raises `LayoutError` for another number of frames, and `BindingError` for others.
    """
    if not is_batch:
        return [required[0].check("frame", frames)]
    if not isinstance(frames, Sequence) or len(frames) != len(required):
        given = f"{len(frames)} frames" if isinstance(frames, Sequence) else f"a {type(frames).__name__}"
        raise LayoutError(f"frames are {given}; the plan is for a list of {len(required)}.")
    pairs = enumerate(zip(required, frames, strict=True))
    return [kind.check(f"frames[{number}]", frame) for number, (kind, frame) in pairs]


def check_apart(frames: Sequence[FrameOperand], target: Operand) -> None:
    """Raise `BindingError` if a planned target shares memory with a frame."""
    for number, frame in enumerate(frames):
        if any(share_memory(plane, target) for plane in frame.planes):
            raise BindingError(f"out shares memory with {'the frame' if len(frames) == 1 else f'frames[{number}]'}.")
