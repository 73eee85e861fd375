"""The CUDA kernel of channel matrices: executed under sanitizers beside the CPU, compiled, inspected."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
from harness.emulator.launched import check_launches, check_widths
from harness.emulator.marks import DEFAULT_ARCHITECTURE, emulated, every_architecture, inspected
from harness.emulator.runner import Buffer, Job, Pointer, Record

import stridedgpu as sg
from stridedgpu.devices.cpu.numpy_loops.channel_matrix import mix_channels
from stridedgpu.devices.cuda.channel_matrix import channel_matrix_launch, choose_channel_matrix
from stridedgpu.devices.cuda.choice import NamedChoice
from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem, moving_problem
from stridedgpu.values.constants import matrix_rows
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import element_type

GREY = ((0.299, 0.587, 0.114),)
MIXED = ((0.5, -1.25, 3.0), (1e39, 0.0, -2.0), (0.1, 0.2, 0.3), (1.0, 1.0, 1.0))


@dataclasses.dataclass(eq=False)
class Case:
    """Pixels of one layout and type into another's memory, and the launch."""

    source: str
    target: str
    matrix: tuple[tuple[float, ...], ...] = GREY
    orders: tuple[str, str] = ("HWC", "CHW")
    sizes: tuple[int, int] = (5, 70)
    arithmetic: dict[str, Any] = dataclasses.field(default_factory=dict)
    pitches: tuple[int, int] = (0, 0)
    mirrored: bool = False
    index_bits: int | None = None

    @functools.cached_property
    def sides(self) -> tuple[sg.StridedTensor, sg.StridedTensor]:
        made = []
        counts = len(self.matrix[0]), len(self.matrix)
        for name, count, order, pitch in zip(
            (self.source, self.target), counts, self.orders, self.pitches, strict=True
        ):
            element = element_type(name)
            row = (self.sizes[1] * (count if order == "HWC" else 1) + pitch) * element.itemsize
            layout = sg.Layout.padded((count, *self.sizes), order, element.itemsize, row_pitch_bytes=row)
            if self.mirrored and not made:
                layout = layout.sliced((slice(None), slice(None, None, -1), slice(None, None, -1)))
            memory = np.random.default_rng(len(made)).integers(0, 256, layout.span * element.itemsize, np.uint8)
            made.append(sg.StridedTensor(memory, layout, element))
        return made[0], made[1]

    @functools.cached_property
    def problem(self) -> ChannelMatrixProblem:
        source, target = self.sides
        made = conversion(
            source.operand.element,
            target.operand.element,
            matrix=matrix_rows(self.matrix),
            source_channels=len(self.matrix[0]),
            **self.arithmetic,
        )
        specs = [dataclasses.replace(side.operand.spec, alignment=16) for side in (source, target)]
        problem = moving_problem(*specs, made, 0)
        assert isinstance(problem, ChannelMatrixProblem)
        return problem

    @functools.cached_property
    def choice(self) -> NamedChoice:
        choice = choose_channel_matrix(self.problem)
        return choice if self.index_bits is None else dataclasses.replace(choice, index_bits=self.index_bits)

    @functools.cached_property
    def launch(self):
        return channel_matrix_launch(self.choice)

    @property
    def expected(self) -> bytes:
        source, target = (side.operand for side in self.sides)
        written = sg.StridedTensor(target.buffer.bytes.copy(), target.layout, target.element).operand
        mix_channels(self.problem, source.buffer, source.start_bytes, written.buffer, written.start_bytes)
        return written.buffer.bytes.tobytes()

    def job(self, order: str) -> Job:
        source, target = (Buffer(side.operand.buffer.bytes.copy(), 16) for side in self.sides)
        pointers = [(0, Pointer(source)), (8, Pointer(target))]
        pointers += [(at, Pointer(Buffer(held))) for at, held in self.launch.tables]
        arguments = (Record(bytes(self.launch.parameters), tuple(pointers)),)
        launch = self.launch
        return Job(launch.name, launch.grid, launch.block, arguments, 0, order, 1, label=repr(self))


CASES = {
    "grey": [Case("uint8", "uint8"), Case("uint8", "uint8", pitches=(3, 5), mirrored=True)],
    "floats": [
        Case("float16", "float32", MIXED, ("CHW", "HWC"), arithmetic={"scale": 0.5, "bias": (1.0, 2.0, 3.0, -4.5)}),
        Case("float32", "float32", MIXED, index_bits=64),
        Case("float32", "bfloat16", GREY, ("CHW", "CHW"), (1, 300)),
    ],
    "wide": [Case("int32", "float64", MIXED), Case("float64", "int8", GREY, arithmetic={"rounding": "truncate"})],
    "one pixel": [Case("uint16", "float16", MIXED, sizes=(1, 1))],
}


@emulated
def test_grey_under_sanitizers_is_that_of_the_cpu():
    check_launches(CASES["grey"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
@emulated
def test_matrices_under_sanitizers_are_those_of_the_cpu(kind):
    check_launches(CASES[kind])


@inspected
@every_architecture
def test_the_kernels_compile_without_spills(architecture):
    cases = [case for kind in CASES for case in CASES[kind]]
    if architecture == DEFAULT_ARCHITECTURE:
        cases = CASES["grey"][:1]
    check_widths(cases, architecture)


def test_a_plan_for_a_gpu_says_what_mixes_the_channels():
    source = sg.empty((3, 64, 64), "uint8", layout="HWC", device="cpu")
    plan = sg.plan_relayout(source, sg.BufferTensorDesc("float16", (1, 64, 64)), matrix=GREY, device="cuda")
    assert plan.kernel == "channel_matrix_1x3_uint8_float16"
    assert "products and sums in float32, from the first channel to the last" in plan.explain()


def test_what_no_kernel_does_is_refused_in_words():
    wide = Case("uint8", "uint8", ((1.0,) * 9,))
    with pytest.raises(sg.DeviceError, match="A matrix of 1 x 9: a GPU mixes up to 8 channels"):
        choose_channel_matrix(wide.problem)
    odd = dataclasses.replace(CASES["floats"][0].problem)
    odd = dataclasses.replace(odd, source=dataclasses.replace(odd.source, alignment=1))
    with pytest.raises(sg.LayoutError, match="The source's float16 elements lie at multiples of 1 bytes only"):
        choose_channel_matrix(odd)
