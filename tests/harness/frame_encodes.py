"""An image into a frame as the CUDA kernel is launched for it, with memory for the emulator."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from harness.emulator.runner import Buffer, Job, Pointer, Record
from harness.frame_cases import surface

from stridedgpu.api.creation import asarray
from stridedgpu.devices.cpu.numpy_loops.frames import write_samples
from stridedgpu.devices.cuda.choice import NamedChoice
from stridedgpu.devices.cuda.frames import choose_frame_encode, frame_encode_launch, sample_addresses
from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.operand import Operand
from stridedgpu.problems.frame_problem import SamplesProblem
from stridedgpu.values.colour_matrix import luma_matrix

__all__ = ["FrameEncodeCase"]


@dataclasses.dataclass(eq=False)
class FrameEncodeCase:
    """One image, a frame whose memory is random, and the launch."""

    format: str
    order: str = "HWC"
    size: tuple[int, int] = (4, 14)
    matrix: str = "bt709"
    full_range: bool = False
    gap: int = 3
    index_bits: int | None = None

    @functools.cached_property
    def frame(self) -> FrameOperand:
        made = surface(self.format, self.size, 1, self.gap)
        return made.frame(matrix=self.matrix, full_range=self.full_range).operand

    @functools.cached_property
    def colours(self) -> list[Operand]:
        sizes = {"HWC": (*self.size, 3), "CHW": (3, *self.size)}[self.order]
        element = self.frame.element.name
        picture = np.random.default_rng(3).integers(0, np.iinfo(element).max + 1, sizes).astype(element)
        image = asarray(picture, dims=self.order).operand
        return [image.with_layout(image.layout.sliced(channel)) for channel in range(3)]

    @functools.cached_property
    def problem(self) -> SamplesProblem:
        frame = self.frame
        matrix = luma_matrix(frame.matrix, frame.samples, full_range=frame.full_range)
        strides = tuple(plane.layout.strides for plane in frame.planes)
        colours = tuple(colour.layout for colour in self.colours)
        return SamplesProblem(frame.samples, frame.sizes, strides, matrix, colours)

    @functools.cached_property
    def choice(self) -> NamedChoice:
        choice = choose_frame_encode(self.problem)
        return choice if self.index_bits is None else dataclasses.replace(choice, index_bits=self.index_bits)

    @functools.cached_property
    def launch(self):
        return frame_encode_launch(self.choice)

    @property
    def expected(self) -> bytes:
        memory = self.frame.planes[0].buffer.bytes
        before = memory.copy()
        write_samples(self.problem, self.colours, self.frame.planes)
        written = memory.tobytes()
        memory[:] = before
        return written

    def job(self, order: Any) -> Job:
        itemsize, image = self.problem.samples.element.itemsize, self.colours[0].buffer
        memory = Buffer(self.frame.planes[0].buffer.bytes.copy(), itemsize)
        picture = Buffer(np.array(image.bytes), itemsize)
        base = self.frame.planes[0].buffer.address
        red, *others = (colour.address - image.address for colour in self.colours)
        luma, *chroma = sample_addresses(self.problem, [plane.address - base for plane in self.frame.planes])
        pointers = [(0, Pointer(picture, red)), (8, Pointer(memory, luma))]
        pointers += [(16 + 8 * n, Pointer(picture, at)) for n, at in enumerate(others)]
        pointers += [(32 + 8 * n, Pointer(memory, at)) for n, at in enumerate(chroma)]
        launch = self.launch
        argument = Record(launch.parameters, tuple(pointers))
        return Job(launch.name, launch.grid, launch.block, (argument,), 0, order, 1, label=repr(self))
