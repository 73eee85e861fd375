"""`FrameChoice`: the CUDA kernel from frames to RGB: pixels of a thread, and access widths."""

from __future__ import annotations

from dataclasses import dataclass

from stridedgpu.planning.device_plan import Width, in_words, index_bits
from stridedgpu.planning.frame_problem import FrameProblem
from stridedgpu.values.errors import DeviceError

from .frame_pixels import FramePixelsChoice, choose_frame_pixels
from .policy import policy
from .widths import Bound, alignment_bound, bounded_width, stride_bound

__all__ = ["FrameChoice", "choose_frame"]


@dataclass(frozen=True, slots=True)
class FrameChoice:
    """The kernel of a problem: `length` pixels a thread, stored as vectors of planes, as whole pixels, or singly."""

    problem: FrameProblem
    load: Width
    store: Width
    length: int
    of_pixels: bool
    of_vectors: bool
    index_bits: int

    @property
    def family(self) -> str:
        """What a thread stores: whole "pixels", or columns of "planes"."""
        return "pixels" if self.of_pixels else "planes"

    @property
    def kernel(self) -> str:
        """The kernel's name: family, format, linear chroma, matrix; then type and bytes of a load and of a store."""
        made, frames = self.problem.conversion, self.problem.samples.name
        linear = "_linear" if self.problem.chroma == "linear" else ""
        mixed = "" if made.matrix is None else f"_matrix{len(made.matrix)}x3"
        reads = f"{frames}{linear}{mixed}_{made.source}x{self.load.nbytes}B"
        return f"frames_{self.family}_{reads}_{made.target}x{self.store.nbytes}B"

    def in_words(self) -> list[str]:
        """The kernel in lines, as plans explain it."""
        accesses = in_words("loads", self.load) + "; " + in_words("stores", self.store)
        together = f"{self.family}: a thread makes {self.length} neighbouring pixels of a row"
        return [together, *self.problem.in_words(), accesses, f"{self.index_bits}-bit offsets"]


def choose_frame(problem: FrameProblem, widest: int = 16) -> FrameChoice | FramePixelsChoice:
    """The kernel on a GPU with accesses of up to `widest` bytes.

    Raises `DeviceError` for a matrix with too many rows, and for packed planes whose samples have no common step.
    Samples that do not follow each other are for the kernel of single pixels.
    """
    made, target, limits = problem.conversion, problem.target, policy().frames
    rows, most = len(made.matrix or ()), policy().channel_matrix.most_channels
    if rows > most:
        raise DeviceError(
            f"matrix= has {rows} rows: a GPU mixes the colours of a frame into up to {most} channels; bring the frame "
            "to the CPU with to_device('cpu')."
        )
    follow = all(
        strides[1:] == ((plane.samples, 1) if plane.samples > 1 else (1,))
        for plane, strides in zip(problem.samples.planes, problem.plane_strides, strict=True)
    )
    if not follow:
        return choose_frame_pixels(problem)
    layout, itemsize = target.layout, target.element.itemsize
    pixel_bytes = problem.samples.channels[0].step * problem.samples.element.itemsize
    pixels = min(_most_pixels(problem), limits.luma_bytes // pixel_bytes)
    count, height, width = layout.sizes
    across, down, right = layout.strides
    joins = across == 1 and right == count and 2 <= count <= limits.most_joined and itemsize <= 4
    splits = right == 1 or width == 1
    store = Width(itemsize, "the target's columns do not lie side by side")
    if joins or splits:
        outer = [(down, height)] if joins else [(down, height), (across, count)]
        bounds = [
            alignment_bound("target", target.alignment),
            *(stride_bound("target", abs(step) * itemsize, widest) for step, size in outer if size > 1),
            Bound(pixels * itemsize, f"a thread makes up to {pixels} pixels"),
        ]
        if made.matrix is not None:
            sums = limits.sums_bytes // made.compute.itemsize
            bounds.append(Bound(sums * itemsize, f"a thread has {sums} sums of {made.compute} in registers"))
        if layout.offset:
            lowest = layout.offset * itemsize
            bounds.append(Bound(lowest & -lowest, "the target runs backwards"))
        store = bounded_width(bounds, itemsize, widest)
    length = store.nbytes // itemsize
    vectors = length >= 2
    if not vectors:
        length = limits.single_pixels
    load = length * pixel_bytes
    return FrameChoice(
        problem,
        Width(load, "what one thread's pixels take" if load < widest else ""),
        store,
        length,
        joins and vectors,
        splits and vectors,
        index_bits(max(layout.span, height * -(-width // length))),
    )


def _most_pixels(problem: FrameProblem) -> int:
    """Pixels of a thread that its registers hold, and that rows of the planes have as aligned vectors."""
    limits, itemsize = policy().frames, problem.samples.element.itemsize
    are_aligned = all(strides[0] * itemsize % limits.luma_bytes == 0 for strides in problem.plane_strides)
    if problem.target.element.itemsize == 1 and problem.chroma == "repeated" and are_aligned:
        return limits.byte_pixels
    return limits.most_pixels
