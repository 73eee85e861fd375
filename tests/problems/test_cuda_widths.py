"""What a plan says of its loads and stores is what its kernel is instantiated with, on every generation of GPUs."""

from __future__ import annotations

import dataclasses
import struct
from math import gcd

import pytest
from harness.emulator.cases import case
from harness.emulator.exact_conversion import REALS
from harness.emulator.planned import Case
from harness.emulator.tiled_cases import relayouts
from harness.kernel_names import kernel_of, policy_of
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

from stridedgpu.devices.cuda.gpu import GpuProperties, KernelLaunch
from stridedgpu.devices.cuda.relayout import families
from stridedgpu.devices.cuda.relayout.choice import pixel_axes, unit_axis
from stridedgpu.devices.cuda.relayout.transpose import turned_pixels_of
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.layout import Layout

GPUS = [
    GpuProperties(f"{count} multiprocessors of sm_{capability}", capability, count, 96 * 1024, 48 * 1024)
    for capability in (75, 80, 90, 100, 120)
    for count in (1, 40, 132)
]


def accesses(launch: KernelLaunch, source_itemsize: int) -> tuple[int, int]:
    """The bytes of the vectors that a kernel loads and stores."""
    policy = policy_of(launch.name)
    match kernel_of(launch.name):
        case "copy_generic":
            return source_itemsize, int(policy["store_bytes"])
        case "copy_shifted_rows":
            return 4, int(policy["store_bytes"])  # words, which it shifts into place
        case "shifted_channels":
            return 16, 16  # vectors that the kernel finds itself
        case "channels":
            pixel, planar = int(policy["pixel_bytes"]), int(policy["planar_bytes"])
            return (planar, pixel) if policy["direction"] == "sg::Direction::join" else (pixel, planar)
    return int(policy["load_bytes"]), int(policy["store_bytes"])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Relayouts with every type, alignment and GPU."""
    one = draw(relayouts())
    names = draw(st.sampled_from(REALS)), draw(st.sampled_from((*REALS, "complex128")))
    source, target = (ELEMENT_TYPES[name] for name in (names if draw(st.booleans()) else (names[1],) * 2))
    made = one.conversion
    aligned = st.sampled_from((1, 4, 8, 16, 16, 32, 32))
    sides = [
        dataclasses.replace(side, element=element, alignment=max(draw(aligned), element.itemsize))
        for side, element in ((one.source, source), (one.target, target))
    ]
    count = None if one.channel_axis is None else one.source.layout.sizes[one.channel_axis]
    scale = None if source == target or target.kind == "c" else made.scale
    chosen = conversion(source, target, scale=scale, channels=made.channels, source_channels=count)
    return dataclasses.replace(
        one, source=sides[0], target=sides[1], conversion=chosen, gpu=draw(st.sampled_from(GPUS))
    )


def steps(one: Case, kernel: str, side: str) -> list[int]:
    """Elements between the addresses at which one side's vectors start, but for those of one run."""
    problem = one.plan.problem
    strides = problem.target_strides if side == "target" else problem.source_strides
    if kernel == "packed_tile":
        # Of a tile, from the tables; from tile to tile, from the parameters behind five addresses.
        table = one.launch.tables[side == "target"][1]
        offsets = [entry[0] for entry in struct.iter_unpack("<i5I", table)]
        start, *partial = struct.unpack_from("<26i", one.launch.parameters, 40 + 4 * (side == "target"))
        walked = [partial[2 + 8 * loop + 2] for loop in range(3)]
        return [*offsets, start, *walked]
    inside = {unit_axis(strides)}
    if kernel == "pixels":
        inside = {len(strides) - 2, len(strides) - 1}
    if kernel == "turned_pixels":
        turned = turned_pixels_of(problem)
        inside = {len(strides) - 1, turned.target_axis if side == "target" else turned.source_axis}
    if kernel == "channels":
        small, pixels = pixel_axes(problem)
        inside = {small, pixels} if small in inside else {pixels}
    return [stride for axis, stride in enumerate(strides) if axis not in inside]


def check(one: Case) -> None:
    plan, kernel = one.plan, kernel_of(one.launch.name)
    source, target = plan.problem.source.element.itemsize, plan.problem.target.element.itemsize
    assert accesses(one.launch, source) == (plan.load.nbytes, plan.store.nbytes), " ".join(plan.describe())
    for side, width, itemsize, alignment in (
        ("source", plan.load.nbytes, source, plan.problem.source_alignment),
        ("target", plan.store.nbytes, target, plan.problem.target.alignment),
    ):
        assert width <= max(itemsize, one.gpu.widest_access)
        if plan.shifts:
            continue  # the kernel finds aligned words itself, wherever rows begin
        assert gcd(width, alignment) == width
        if width > itemsize and plan.index_bits == 32:
            assert [step for step in steps(one, kernel, side) if step * itemsize % width] == [], (side, plan)


@given(cases())
@settings(max_examples=examples(150))
def test_kernels_load_and_store_what_their_plans_say(one):
    check(one)


@pytest.mark.slow
@given(cases())
@settings(max_examples=1000)
def test_kernels_load_and_store_what_their_plans_say_many_times(one):
    check(one)


@pytest.mark.parametrize("nbytes, widest", [(1, 1), (2, 2), (3, 2), (12, 8), (16, 16), (31, 16)])
def test_a_vector_is_no_longer_than_its_run(nbytes, widest):
    bound = families._length_bound("source", nbytes)
    assert (bound.nbytes, bound.text) == (widest, f"a run of the source is {nbytes} B long")


def test_pixels_that_run_backwards_are_turned_in_whole_vectors_of_a_row():
    pixels = Layout((2, 500, 3)).sliced((slice(None), slice(None, None, -1)))
    problem = case(pixels, Layout((2, 500, 3), (1500, 1, 500)), "float32", axis=2).plan.problem
    assert problem.source_strides[pixel_axes(problem)[1]] < 0
    _, bounds = families._channels_run(problem, "target")
    assert bounds[-1].nbytes == 2000
    assert bounds[-1].text == "a row of the target's pixels is 2000 B long and runs backwards"


@pytest.mark.parametrize("types", ["uint8", "float16", "float32", "uint8>float32"])
@pytest.mark.parametrize(
    "channels, shifted",
    [(None, True), ((2, 1, 0), True), ((2, 0, 1), False)],
    ids=["all channels", "in the other order", "by a table"],
)
def test_pixels_off_their_vectors_are_shifted_unless_a_table_says_where_channels_lie(types, channels, shifted):
    source, target = Layout((2, 501, 3)), Layout((2, 501, 3), (1503, 1, 501))
    launch = case(source, target, types, aligned=(4, 4), axis=2, channels=channels).launch
    assert (kernel_of(launch.name) == "shifted_channels") is shifted
