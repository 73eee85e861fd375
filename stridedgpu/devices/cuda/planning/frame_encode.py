"""`FrameEncodeChoice`: the CUDA kernel from RGB to the samples of frames, a pair of pixels a thread."""

from __future__ import annotations

from dataclasses import dataclass

from stridedgpu.planning.device_plan import Width, in_words, index_bits
from stridedgpu.planning.frame_problem import SamplesProblem

from .frame_pixels import sample_strides

__all__ = ["FrameEncodeChoice", "choose_frame_encode"]


@dataclass(frozen=True, slots=True)
class FrameEncodeChoice:
    """The kernel of a problem, with scalar loads and stores."""

    problem: SamplesProblem
    load: Width
    store: Width
    index_bits: int

    @property
    def family(self) -> str:
        """The only family: each thread makes the samples of a pair of pixels."""
        return "pairs"

    @property
    def kernel(self) -> str:
        """The kernel's name: the format and its element type."""
        return f"frame_encode_{self.problem.samples.name}_{self.problem.samples.element}"

    def in_words(self) -> list[str]:
        """The kernel in lines, as plans explain it."""
        accesses = in_words("loads", self.load) + "; " + in_words("stores", self.store)
        return ["a thread makes a pair of pixels", *self.problem.in_words(), accesses, f"{self.index_bits}-bit offsets"]


def choose_frame_encode(problem: SamplesProblem, widest: int = 16) -> FrameEncodeChoice:  # noqa: ARG001
    """The kernel on any GPU. Raises `DeviceError` for packed planes whose samples have no common step."""
    sample_strides(problem.samples, problem.plane_strides)
    height, width = problem.sizes
    access = Width(problem.samples.element.itemsize, "a thread has a pair of pixels")
    return FrameEncodeChoice(problem, access, access, index_bits(height * width))
