"""The CUDA kernel of raw samples: executed under sanitizers beside the CPU, compiled, inspected."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from harness.emulator.launched import check_launches, check_widths
from harness.emulator.marks import DEFAULT_ARCHITECTURE, emulated, every_architecture, inspected
from harness.emulator.runner import Buffer, Job, Pointer, Record

import stridedgpu as sg
from stridedgpu.devices.buffer import Buffer as Memory
from stridedgpu.devices.cpu.numpy_loops.raw import unpack_samples
from stridedgpu.devices.cuda.choice import NamedChoice
from stridedgpu.devices.cuda.plan import GpuPlanner
from stridedgpu.devices.cuda.raw import choose_raw, raw_launch
from stridedgpu.problems.raw_problem import RawProblem
from stridedgpu.values.raw_formats import RAW_FORMATS


@dataclasses.dataclass(eq=False)
class Case:
    """Packed rows, the target's memory, and the launch."""

    format: str
    sizes: tuple[int, int] = (6, 72)
    gap: int = 0
    pitch: int = 0
    mirrored: bool = False
    index_bits: int | None = None

    @functools.cached_property
    def packed(self) -> np.ndarray:
        samples, (height, width) = RAW_FORMATS[self.format], self.sizes
        row = width // samples.count * samples.nbytes
        return np.random.default_rng(1).integers(0, 256, (height - 1) * (row + self.gap) + row, np.uint8)

    @functools.cached_property
    def target(self) -> sg.StridedTensor:
        layout = sg.Layout.padded(self.sizes, "HW", 2, row_pitch_bytes=2 * (self.sizes[1] + self.pitch))
        if self.mirrored:
            layout = layout.sliced((slice(None), slice(None, None, -1)))
        return sg.StridedTensor(np.full(2 * layout.span, 99, np.uint8), layout, "uint16")

    @functools.cached_property
    def problem(self) -> RawProblem:
        samples = RAW_FORMATS[self.format]
        pitch = self.sizes[1] // samples.count * samples.nbytes + self.gap
        return RawProblem(samples, pitch, 1, dataclasses.replace(self.target.operand.spec, alignment=16))

    @functools.cached_property
    def choice(self) -> NamedChoice:
        choice = choose_raw(self.problem)
        return choice if self.index_bits is None else dataclasses.replace(choice, index_bits=self.index_bits)

    @functools.cached_property
    def launch(self):
        return raw_launch(self.choice)

    @property
    def expected(self) -> bytes:
        target = self.target.operand
        written = sg.StridedTensor(target.buffer.bytes.copy(), target.layout, "uint16").operand
        unpack_samples(self.problem, Memory.of(self.packed.tobytes()), 0, written.buffer, written.start_bytes)
        return written.buffer.bytes.tobytes()

    def job(self, order: str) -> Job:
        source, target = Buffer(self.packed.copy(), 1), Buffer(self.target.operand.buffer.bytes.copy(), 16)
        arguments = (Record(bytes(self.launch.parameters), ((0, Pointer(source)), (8, Pointer(target)))),)
        launch = self.launch
        return Job(launch.name, launch.grid, launch.block, arguments, 0, order, 1, label=repr(self))


FEW = [Case("mipi-raw10", gap=3), Case("mono12p", pitch=1)]
CASES = [
    *FEW,
    Case("mipi-raw12"),
    Case("mono10p", mirrored=True),
    Case("mono12packed", (3, 700), gap=1),
    Case("mipi-raw10", (1, 4), index_bits=64),
]


@emulated
def test_a_few_samples_under_sanitizers_are_those_of_the_cpu():
    check_launches(FEW)


@pytest.mark.slow
@emulated
def test_samples_of_every_format_under_sanitizers_are_those_of_the_cpu():
    check_launches(CASES)


@inspected
@every_architecture
def test_the_kernels_compile_without_spills_and_with_the_planned_widths(architecture):
    cases = FEW[:1] if architecture == DEFAULT_ARCHITECTURE else CASES
    check_widths(cases, architecture)


def test_a_plan_for_a_gpu_says_how_samples_are_unpacked():
    plan = GpuPlanner("cuda:0").plan(FEW[0].problem)
    assert (plan.kernel, plan.store.nbytes) == ("raw_mipi-raw10_uint16x8B", 8)
    assert "a thread unpacks one group: 4 samples in 5 bytes" in plan.explain()
    assert Case("mono12p", pitch=1).choice.store.nbytes == 2, "rows 146 bytes apart hold no words of 4"
    odd = dataclasses.replace(FEW[0].problem, target=dataclasses.replace(FEW[0].problem.target, alignment=1))
    with pytest.raises(sg.LayoutError, match="The target's uint16 elements lie at multiples of 1 bytes only"):
        choose_raw(odd)
