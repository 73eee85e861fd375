"""The verbose line of what ran says what the plan says, on NumPy, compiled, and on the stand-in's GPUs."""

from __future__ import annotations

import re

import numpy as np
import pytest
from harness.compiled_loops import needs_compiler, policy_with
from harness.fake_frames import converting  # noqa: F401 - a fixture
from harness.fake_gathers import device  # noqa: F401 - a fixture
from harness.frame_cases import surface
from harness.profiles import examples
from harness.strategies import layouts
from hypothesis import HealthCheck, given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.devices import verbose
from stridedgpu.devices.cpu import device as cpu, plan as cpu_plan
from stridedgpu.picture.footprint import footprint_of


@pytest.fixture
def telling():
    sg.set_verbose()
    yield
    sg.set_verbose(False)


def facts(line):
    """What a line says of the kernel."""
    fields = line.split(",")
    return fields[1], fields[2], fields[3], [field for field in fields[4:] if field.startswith(("loads", "stores"))]


def drawn_move(data):
    """A source of any layout, and a packed target of any order and maybe another type."""
    layout = data.draw(layouts().filter(lambda one: one.element_count))
    memory = sg.empty((max(layout.span, 1),), "uint8", device="cpu")
    memory[...] = 7
    source = sg.StridedTensor(memory.buffer, layout.shifted(-layout.first_offset), "uint8")
    order = data.draw(st.permutations(range(layout.ndim)))
    target = sg.empty(
        tuple(layout.sizes[axis] for axis in order), data.draw(st.sampled_from(("uint8", "float32"))), device="cpu"
    )
    return source, target.permute(tuple(np.argsort(order).tolist())) if layout.ndim else target


def checked(lines, plan, kernel, operation):
    """The last line is of this plan and kernel."""
    where, what, name, widths = facts(lines[-1])
    assert (where, what, name) == (plan.device, operation, kernel.name if hasattr(kernel, "name") else plan.kernel)
    assert widths == [f"loads {kernel.load.nbytes} B", f"stores {kernel.store.nbytes} B"]
    tile = "x".join(map(str, kernel.tile))
    assert not tile or f",tile {tile}," in lines[-1]


@pytest.mark.parametrize("path", ["NumPy", pytest.param("compiled", marks=needs_compiler)])
def test_a_relayout_on_the_cpu_is_told_as_it_was_planned(path, telling, capsys):
    @settings(max_examples=examples(500), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.data())
    def check(data):
        for cache in (cpu._prepared, cpu_plan._planned):
            cache.cache_clear()
        with policy_with(promotion={"at_once_bytes": 0 if path == "compiled" else 1 << 60, "calls": 1 << 60}):
            source, target = drawn_move(data)
            plan = sg.plan_relayout(source, target)
            capsys.readouterr()
            plan(source, target)
        lines = capsys.readouterr().err.splitlines()
        kernel = plan.plan.first
        assert len(lines) == 1
        checked(lines, plan.plan, kernel, "relayout")
        assert kernel.name.startswith("numpy_") == (path == "NumPy" or plan.plan.compiled is None)

    check()


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("sizes", [(2, 3, 40, 60), (1, 64, 32, 32), (4, 1, 8, 200)])
def test_a_relayout_on_a_gpu_is_told_as_it_was_planned(gpus, telling, capsys, sizes, order):
    source = sg.zeros(sizes, "uint8", layout="NHWC", device="cuda:0")
    target = sg.zeros(sizes, "float32", layout=order, device="cuda:0")
    plan = sg.plan_relayout(source, target)
    capsys.readouterr()
    plan(source, target)
    checked(capsys.readouterr().err.splitlines(), plan.plan, plan.plan, "relayout")


@settings(max_examples=examples(500))
@given(st.data())
def test_pictures_draw_the_tile_that_is_launched(data):
    source, target = drawn_move(data)
    try:
        plan = sg.plan_relayout(source, target, device="cuda").plan
    except sg.LayoutError:
        return  # float32 that lies anywhere, which no GPU addresses
    assert footprint_of(plan).extents == plan.launch.tile == plan.tile
    found = re.search(r"source_extent = (\d+), .target_extent = (\d+)", plan.launch.name)
    if found is not None:
        steps = plan.problem.source_strides, plan.problem.target_strides
        for strides, extent in zip(steps, found.groups(), strict=True):
            axis = next(place for place, step in enumerate(strides) if abs(step) == 1)
            assert plan.tile[axis] == min(int(extent), plan.problem.sizes[axis])


@pytest.mark.parametrize("where", ["cpu", "cuda:0"])
def test_gathers_scatters_and_crops_are_told_too(device, telling, capsys, where):  # noqa: F811 - the fixture
    table = sg.asarray(np.arange(64, dtype=np.float32).reshape(8, 8), device=where, copy=True)
    ids = sg.asarray(np.array([3, 1]), device=where, copy=True)
    capsys.readouterr()
    sg.gather(table, ids)
    lines = [line for line in capsys.readouterr().err.splitlines() if ",gather," in line]
    gather = sg.plan_gather(table, ids).plan
    checked(lines, gather, gather.first if where == "cpu" else gather, "gather")
    frames = sg.zeros((2, 3, 9, 9), "uint8", layout="NHWC", device=where)
    capsys.readouterr()
    sg.gather_crops(frames, [(0, 0), (1, 2)], (4, 5))
    assert any(line.startswith(f"stridedgpu,{where},crops,") for line in capsys.readouterr().err.splitlines())


@pytest.mark.parametrize("where", ["cpu", "cuda:0"])
def test_frames_are_told_too(converting, telling, capsys, where):  # noqa: F811 - the fixture
    frame = surface("nv12", (16, 64), seed=1).frame().to_device(where)
    out = sg.empty((3, 16, 64), "float16", device=where)
    plan = sg.plan_relayout(frame, out, scale=1 / 255)
    capsys.readouterr()
    plan(frame, out)
    (line,) = capsys.readouterr().err.splitlines()
    checked([line], plan.plan, plan.plan.first if where == "cpu" else plan.plan, "frame")
    assert ",target float16 (3, 16, 64)" in line


def test_samples_of_colours_are_told_on_the_cpu(telling, capsys):
    frame = surface("nv12", (16, 64), seed=1).frame()
    capsys.readouterr()
    sg.relayout(sg.zeros((3, 16, 64), "uint8", device="cpu"), out=frame)
    assert any(",samples,numpy_sample_bands," in line for line in capsys.readouterr().err.splitlines())


def test_a_switch_from_numpy_to_compiled_loops_is_told_when_it_comes(telling, capsys):
    source, target = sg.zeros((5, 7, 11), "uint8", device="cpu"), sg.empty((5, 7, 11), "float32", device="cpu")
    plan = sg.plan_relayout(source, target)
    capsys.readouterr()
    for _ in range(20):
        plan(source, target)
    names = [facts(line)[2] for line in capsys.readouterr().err.splitlines()]
    inner, call = plan.plan, plan.plan.compiled_from
    until = 20 if call is None else call - 1
    assert names == [inner.first.name] * until + [inner.settled.name] * (20 - until)


def test_nothing_is_told_where_nobody_asked(capsys):
    assert not verbose.is_verbose()
    sg.zeros((3, 4), "uint8", device="cpu").relayout(dtype="float32")
    assert capsys.readouterr().err == ""


def test_a_relayout_into_out_that_ran_before_is_told_as_well(capsys):
    source, out = sg.zeros((3, 4), "uint8", device="cpu"), sg.empty((3, 4), "float32", device="cpu")
    sg.relayout(source, out=out)
    sg.set_verbose()
    try:
        sg.relayout(source, out=out)
    finally:
        sg.set_verbose(False)
    assert [facts(line)[1] for line in capsys.readouterr().err.splitlines()] == ["relayout"]
