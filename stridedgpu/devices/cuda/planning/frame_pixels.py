"""`FramePixelsChoice`: the CUDA kernel of frames whose samples lie apart, two pixels a thread."""

from __future__ import annotations

from dataclasses import dataclass

from stridedgpu.planning.device_plan import Width, in_words, index_bits
from stridedgpu.planning.frame_problem import FrameProblem
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.pixel_formats import PixelFormat

__all__ = ["FramePixelsChoice", "SampleStrides", "choose_frame_pixels", "sample_strides"]


@dataclass(frozen=True, slots=True)
class SampleStrides:
    """Where the samples of one kind lie: the plane, its first sample, and the steps between rows and columns.

    `first`, `row` and `column` are in elements; rows and columns are those of the samples.
    """

    plane: int
    first: int
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class FramePixelsChoice:
    """The kernel of a problem, with scalar loads and stores."""

    problem: FrameProblem
    load: Width
    store: Width
    index_bits: int

    @property
    def family(self) -> str:
        """The only family: each pixel is stored by itself."""
        return "single"

    @property
    def kernel(self) -> str:
        """The kernel's name: format and chroma, the rows of the matrix if there is one, source type and target type."""
        problem, made = self.problem, self.problem.conversion
        mixed = "" if made.matrix is None else f"_matrix{len(made.matrix)}x3"
        return f"frames_single_{problem.samples.name}_{problem.chroma}{mixed}_{made.source}_{made.target}"

    def in_words(self) -> list[str]:
        """The kernel in lines, as plans explain it."""
        accesses = in_words("loads", self.load) + "; " + in_words("stores", self.store)
        pixels = "a thread makes the two pixels of a chroma sample, one by one"
        return [pixels, *self.problem.in_words(), accesses, f"{self.index_bits}-bit offsets"]


def choose_frame_pixels(problem: FrameProblem) -> FramePixelsChoice:
    """The kernel on any GPU. Raises `DeviceError` for packed planes whose samples have no common step."""
    sample_strides(problem.samples, problem.plane_strides)
    layout, why = problem.target.layout, "a thread has the samples of two pixels, wherever they are"
    _, height, width = layout.sizes
    return FramePixelsChoice(
        problem,
        Width(problem.samples.element.itemsize, why),
        Width(problem.target.element.itemsize, why),
        index_bits(max(layout.span, height * (width // 2 + 1))),
    )


def sample_strides(samples: PixelFormat, plane_strides: tuple[tuple[int, ...], ...]) -> tuple[SampleStrides, ...]:
    """Where luma and both kinds of chroma lie. Raises `DeviceError` for packed pixels with gaps between the samples."""
    found = []
    for kind in samples.channels:
        plane, (row, *steps) = samples.planes[kind.plane], plane_strides[kind.plane]
        across, inner = steps[0], steps[-1]
        if kind.step != plane.samples and across != plane.samples * inner:
            raise DeviceError(
                f"A plane of {samples.name} has strides {(row, *steps)}; a GPU takes pixels whose samples follow each "
                "other: relayout the plane before."
            )
        column = across if kind.step == plane.samples else kind.step * inner
        found.append(SampleStrides(kind.plane, kind.first * inner, row, column))
    return tuple(found)
