"""Tensors of more than eight axes, which do not merge: planned for a GPU, emulated, moved on the CPU, gathered from.

A DirectML descriptor ends at 8 axes; tensors do not.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from harness.emulator.cases import SMALL, collected
from harness.emulator.chosen import few
from harness.emulator.launched import unspilled
from harness.emulator.marks import emulated, every_architecture, inspected
from harness.emulator.planned import Case, check_cases
from harness.native_loops import needs_library, run_items
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.devices.cuda.gpu import REFERENCE_GPU
from stridedgpu.devices.cuda.parameters import rank_of
from stridedgpu.devices.cuda.plan import cuda_plan
from stridedgpu.devices.cuda.relayout.choice import Family
from stridedgpu.drawing.subject import PlanMap
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.tensor_spec import TensorSpec

ranks = st.integers(9, 12)


@st.composite
def many_sizes(draw: st.DrawFn) -> tuple[int, ...]:
    """Two along every axis, but for one."""
    sizes = [2] * draw(ranks)
    sizes[draw(st.integers(0, len(sizes) - 1))] = draw(st.sampled_from((2, 3, 20)))
    return tuple(sizes)


@st.composite
def scattered(draw: st.DrawFn, sizes: tuple[int, ...], *, last: int = 1, repeats: bool = False) -> Layout:
    """A layout whose axes nest in any order, with gaps, so that few of two such layouts merge."""
    order = draw(st.permutations(range(len(sizes))))
    strides, step = [0] * len(sizes), last
    for axis in order:
        if repeats and draw(st.integers(0, 9)) == 0:
            continue
        strides[axis] = step * draw(st.sampled_from((1, 1, 1, -1)))
        step = step * sizes[axis] + draw(st.sampled_from((0, 0, 1, 3)))
    layout = Layout(sizes, strides)
    return layout.shifted(-layout.first_offset)


@st.composite
def relayouts(draw: st.DrawFn) -> Case:
    """A relayout of many axes, of any family."""
    sizes = draw(many_sizes())
    source = draw(scattered(sizes, last=draw(st.sampled_from((1, 2))), repeats=True))
    target = draw(scattered(sizes))
    if draw(st.booleans()):  # rows: innermost on both sides
        sizes = (*sizes, 24)
        source, target = (
            Layout(sizes, (*(32 * stride for stride in layout.strides), 1), 32 * layout.offset)
            for layout in (source, target)
        )
    names = draw(st.sampled_from((("uint8", "uint8"), ("float32", "float32"), ("uint8", "float16"))))
    elements = [ELEMENT_TYPES[name] for name in names]
    axis = draw(st.none() | st.integers(0, len(sizes) - 1))
    options = {}
    if axis is not None:
        options["channels"] = draw(st.lists(st.integers(0, sizes[axis] - 1), min_size=1, max_size=1)) * sizes[axis]
        options["channels"][-1] = 0
        options["scale"] = [0.5 + place for place in range(sizes[axis])] if names[1] == "float16" else None
    made = conversion(*elements, source_channels=None if axis is None else sizes[axis], **options)
    alignment = draw(st.sampled_from((4, 16)))
    sides = [TensorSpec(layout, element, alignment) for layout, element in zip((source, target), elements, strict=True)]
    return Case(*sides, made, axis, SMALL)


@settings(max_examples=examples(60))
@given(relayouts())
def test_every_plan_has_a_launch_and_a_picture(one):
    assert one.launch.name
    assert " ".join(one.plan.describe())
    assert PlanMap(cuda_plan(one.plan.problem, "cuda:0", REFERENCE_GPU)).read


@emulated
def test_kernels_move_every_axis():
    cases = collected(relayouts(), 40, 1)
    deep = {one.plan.family for one in cases if len(one.plan.problem.sizes) > 8}
    assert {Family.ROWS, Family.GENERIC, Family.PACKED_TILE} <= deep
    check_cases(few(cases, 4), orders=("forward",))


@emulated
@pytest.mark.slow
def test_every_kernel_moves_every_axis():
    check_cases(collected(relayouts(), 40, 1), orders=("forward",))


@needs_library
@settings(max_examples=examples(40))
@given(relayouts())
def test_native_loops_move_every_axis(one):
    target = one.pattern.copy()
    source = one.source_bytes
    assert run_items(one.plan, source.ctypes.data, target.ctypes.data)
    assert target.tobytes() == one.expected.tobytes(), " ".join(one.plan.describe())


@inspected
@every_architecture
def test_sixteen_axes_fit_into_registers(architecture):
    chosen = {}
    for one in collected(relayouts(), 40, 1):
        there = dataclasses.replace(one, gpu=dataclasses.replace(SMALL, compute_capability=int(architecture[3:])))
        if there.plan.family in (Family.ROWS, Family.GENERIC) and len(there.plan.problem.sizes) > 8:
            chosen.setdefault(there.launch.sources, there.launch)
    assert len(chosen) == 2
    unspilled(chosen.values(), architecture)


@settings(max_examples=examples(20))
@given(st.data())
def test_tensors_of_many_axes(data):
    sizes = data.draw(many_sizes())
    array = np.arange(np.prod(sizes), dtype=np.int32).reshape(sizes)
    array = array.transpose(data.draw(st.permutations(range(len(sizes)))))[::-1, ..., ::-1]
    tensor = sg.asarray(array)
    assert np.array_equal(tensor.relayout(dtype="float64", scale=0.5).numpy(), array * 0.5)
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    assert np.array_equal(sg.gather(tensor, [1, 0, 1], axis).numpy(), np.take(array, [1, 0, 1], axis))
    tuples = np.array([[1] * array.ndim, [0] * array.ndim])
    assert np.array_equal(sg.gather_nd(tensor, tuples).numpy(), array[tuple(tuples.T)])
    copied = sg.empty(array.shape, "int32")
    copied[...] = tensor
    assert np.array_equal(copied.numpy(), array)
    assert str(array.shape[0]) in tensor.describe()


@pytest.mark.parametrize("axes, rank", [(0, 1), (1, 1), (2, 2), (3, 4), (8, 8), (9, 16), (33, 64), (64, 64)])
def test_kernels_are_made_for_powers_of_two(axes, rank):
    assert rank_of(axes) == rank
