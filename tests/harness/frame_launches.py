"""One window of a surface as the CUDA kernel of frames is launched for it, with memory for the emulator."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from harness.emulator.runner import Buffer, Job, Pointer, Record
from harness.frame_cases import surface

import stridedgpu as sg
from stridedgpu.devices.cpu.numpy_loops.frames import frame_loops
from stridedgpu.devices.cuda.frames import (
    PLACE,
    FrameChoice,
    FramePixelsChoice,
    choose_frame,
    frames_launch,
    window_place,
)
from stridedgpu.devices.operand import Operand
from stridedgpu.problems.frame_problem import FrameProblem
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import element_type

__all__ = ["FrameCase"]


@dataclasses.dataclass(eq=False)
class FrameCase:
    """One window of a surface, its target's memory, and the launch.

    The frame ends with the window, or `beyond` it by some rows and columns. It is `turned` by so many degrees.
    """

    format: str
    target: str
    order: str
    arithmetic: dict[str, Any] = dataclasses.field(default_factory=dict)
    channels: tuple[int, ...] | None = None
    origin: tuple[int, int] = (0, 0)
    size: tuple[int, int] = (6, 22)
    gap: int = 0
    pitch: int = 0
    mirrored: bool = False
    index_bits: int | None = None
    seed: int = 1
    chroma: str = "repeated"
    apart: int = 1
    beyond: tuple[int, int] = (0, 0)
    turned: int = 0

    @functools.cached_property
    def frame(self) -> sg.Frame:
        ends = (sum(parts) for parts in zip(self.origin, self.size, self.beyond, strict=True))
        height, width = (max(1, end) for end in ends)
        if self.turned:
            stored = (width, height) if self.turned % 180 else (height, width)
            return surface(self.format, stored, self.seed, self.gap).frame(matrix="bt709").rotated(self.turned)
        made = surface(self.format, (height, width), self.seed, self.gap).frame(matrix="bt709", chroma=self.chroma)
        if self.apart == 1:
            return made
        planes = []
        for plane in made.planes:  # every row's places stand some elements further apart
            array = plane.numpy()
            wide = np.zeros((*array.shape[:2], self.apart, *array.shape[2:]), array.dtype)
            wide[:, :, 0] = array
            planes.append(wide[:, :, 0])
        options = {"matrix": "bt709", "chroma": made.chroma, "arithmetic": made.arithmetic}
        return sg.Frame(self.format, planes, sizes=(height, width), **options)

    @functools.cached_property
    def sides(self) -> tuple[np.ndarray[Any, Any], Operand]:
        """The target's memory, whose bytes are random, and its operand."""
        count = len(self.arithmetic.get("matrix") or self.channels or range(3))
        element = element_type(self.target)
        row = self.size[1] * (count if self.order == "HWC" else 1) * element.itemsize
        layout = sg.Layout.padded(
            (count, *self.size), self.order, element.itemsize, row_pitch_bytes=row + self.pitch * element.itemsize
        )
        if self.mirrored:
            layout = layout.sliced((slice(None), slice(None), slice(None, None, -1)))
        memory = np.random.default_rng(self.seed).integers(0, 256, layout.span * element.itemsize, np.uint8)
        return memory, sg.StridedTensor(memory, layout, element).operand

    @functools.cached_property
    def problem(self) -> FrameProblem:
        frame, (_, target) = self.frame.operand, self.sides
        made = conversion(frame.element, target.element, channels=self.channels, source_channels=3, **self.arithmetic)
        strides = tuple(plane.layout.strides for plane in frame.planes)
        spec = dataclasses.replace(target.spec, alignment=16)
        return FrameProblem(frame.samples, frame.sizes, strides, frame.constants, frame.chroma, spec, made)

    @functools.cached_property
    def choice(self) -> FrameChoice | FramePixelsChoice:
        choice = choose_frame(self.problem, 16)
        return choice if self.index_bits is None else dataclasses.replace(choice, index_bits=self.index_bits)

    @functools.cached_property
    def launch(self):
        return frames_launch(self.choice)

    @property
    def expected(self) -> bytes:
        memory, target = self.sides
        written = memory.copy()
        into = sg.StridedTensor(written, target.layout, target.element).operand
        frame_loops(self.problem, self.frame.operand.planes, self.origin, into)
        return written.tobytes()

    def job(self, order: str) -> Job:
        memory, _ = self.sides
        planes = self.frame.operand.planes
        itemsize = self.problem.samples.element.itemsize
        # Each plane is memory of its own, with poison around it.
        buffers, addresses = [], []
        for plane in planes:
            first, span = plane.layout.first_offset * itemsize, plane.layout.span * itemsize
            buffers.append(Buffer(plane.buffer.bytes[first : first + span].copy(), itemsize if self.gap else 16))
            addresses.append(plane.layout.offset * itemsize - first)
        luma, place = window_place(self.choice, addresses, self.origin)
        offsets = [luma, *PLACE.unpack(place)[:2]]
        parameters = bytearray(self.launch.parameters)
        parameters[16 : 16 + len(place)] = bytes(16) + place[16:]
        if isinstance(self.choice, FramePixelsChoice):  # both kinds of chroma have an address, whatever plane has them
            read = ([buffers[kind.plane] for kind in self.problem.samples.channels] * 3)[:3]
        else:
            read = buffers
        pointers = [(0, Pointer(read[0], offsets[0])), (8, Pointer(Buffer(memory, 16)))]
        pointers += [(16 + 8 * n, Pointer(buffer, offsets[1 + n])) for n, buffer in enumerate(read[1:])]
        pointers += [(at, Pointer(Buffer(held))) for at, held in self.launch.tables]
        arguments = (Record(bytes(parameters), tuple(pointers)),)
        launch = self.launch
        return Job(launch.name, launch.grid, launch.block, arguments, 0, order, self.seed, label=repr(self))
