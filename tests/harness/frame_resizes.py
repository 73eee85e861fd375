"""Resizes of frames of several formats in one launch, with memory for the emulator."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.numpy_loops.resize import resize_windows
from stridedgpu.devices.cuda.gpu import REFERENCE_GPU, GpuProperties
from stridedgpu.devices.cuda.resize import ResizeSample, resize_samples
from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.operand import Operand
from stridedgpu.operations.images import FrameSources
from stridedgpu.problems.resize_problem import ResizeProblem, ResizeRule, ResizeWindow
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.interpolation import interpolation_named
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import packed_strides, round_up
from stridedgpu.values.tensor_spec import TensorSpec

from .frame_cases import surface
from .resize_launches import LaunchedResize

__all__ = ["FrameResizeCase"]

Kind = tuple[str, tuple[int, int], str]


@dataclasses.dataclass(eq=False)
class FrameResizeCase(LaunchedResize):
    """Frames, each of a format, sizes and chroma, into windows of one size: whole, and in every other one a box.

    With a `source_alignment`, the frames, their planes and their rows begin at multiples of so many bytes; without, at
    those of an element, and rows have gaps between them.
    """

    kinds: tuple[Kind, ...]
    interpolation: str
    target: str = "uint8"
    order: str = "NCHW"
    size: tuple[int, int] = (11, 17)
    channels: tuple[int, ...] | None = None
    arithmetic: dict[str, Any] = dataclasses.field(default_factory=dict)
    seed: int = 0
    source_alignment: int = 0
    gpu: GpuProperties = REFERENCE_GPU

    @functools.cached_property
    def frames(self) -> list[FrameOperand]:
        """The frames, whose memory ends with the last sample."""
        made = []
        for number, (name, size, chroma) in enumerate(self.kinds):
            gap, alignment = 0 if self.source_alignment else 3 * number, self.source_alignment or 1
            there = surface(name, size, self.seed + number, gap=gap, alignment=alignment)
            made.append(there.frame(matrix="bt601", chroma=chroma).operand)
        return made

    @functools.cached_property
    def sources(self) -> FrameSources:
        """What a resize reads."""
        return FrameSources.of_frames(self.frames)

    @functools.cached_property
    def windows(self) -> list[ResizeWindow]:
        """The windows, each with its surface."""
        made = []
        for number, (layout, source) in enumerate(zip(self.sources.layouts, self.sources.resized, strict=True)):
            _, height, width = layout.sizes
            box = (1.5, 3.0, height - 0.5, width - 1.0) if number % 2 else (0.0, 0.0, height, width)
            place = (-2, 1, self.size[0] + 1, self.size[1] - 3) if number % 2 else (0, 0, *self.size)
            shape = source.surface if isinstance(source, FrameOperand) else None
            made.append(ResizeWindow(layout, box, place, bool(number % 2), shape))
        return made

    @functools.cached_property
    def problem(self) -> ResizeProblem:
        """What is planned."""
        source, target = self.sources.element, element_type(self.target)
        made = conversion(source, target, channels=self.channels, source_channels=3, **self.arithmetic)
        sizes = (len(self.kinds), 3 if self.channels is None else len(self.channels), *self.size)
        layout = Layout(sizes, packed_strides(sizes, self.order))
        fill = np.arange(3).astype(source.name).tobytes()
        rule = ResizeRule(interpolation_named(self.interpolation))
        return ResizeProblem(TensorSpec(layout, target, 16), made, rule, 3, (1, 3), fill, reads_frames=True)

    @functools.cached_property
    def memories(self) -> tuple[list[Any], Any]:
        """Bytes of each frame's memory, and of the batch beforehand."""
        layout, element = self.problem.target.layout, self.problem.target.element
        rng = np.random.default_rng(self.seed + 2)
        batch = rng.integers(0, 256, layout.span * element.itemsize, np.uint8)
        return [frame.planes[0].buffer.bytes for frame in self.frames], batch

    @functools.cached_property
    def resized(self) -> Any:
        """The batch's bytes as the CPU makes them."""
        written = self.memories[1].copy()
        read = [
            source if isinstance(source, FrameOperand) else source[0].bytes[source[1] :]
            for source in self.sources.resized
        ]
        resize_windows(self.problem, self.windows, read, written)
        return written

    @functools.cached_property
    def groups(self) -> list[list[ResizeSample]]:
        """The samples of each launch; addresses count from the first frame's memory."""
        moved, at = [], 0
        for source, memory in zip(self.sources.resized, self.memories[0], strict=True):
            if isinstance(source, FrameOperand):
                there = Buffer(at, memory.size, owner=None, alignment=1)
                planes = tuple(Operand(there, plane.layout, plane.element) for plane in source.planes)
                moved.append(dataclasses.replace(source, planes=planes))
            else:
                moved.append((Buffer(at, memory.size, owner=None, alignment=1), source[1]))
            at += round_up(memory.size, self.source_alignment or 1)
        return resize_samples(self.problem, self.windows, moved)
