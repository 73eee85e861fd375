"""The verbose line of what ran says what the plan says, on NumPy, compiled, and on the stand-in's GPUs."""

from __future__ import annotations

import re

import numpy as np
import pytest
from harness.drawn_problems import OPERATIONS, one_of
from harness.fake_frames import converting  # noqa: F401 - a fixture
from harness.fake_gathers import device  # noqa: F401 - a fixture
from harness.fake_relayouts import relaying  # noqa: F401 - a fixture
from harness.fake_resizes import resizing  # noqa: F401 - a fixture
from harness.frame_cases import surface
from harness.kernel_names import policy_of
from harness.native_loops import needs_library
from harness.profiles import examples
from harness.strategies import layouts
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.devices import verbose
from stridedgpu.devices.cpu.policy import policy, using
from stridedgpu.drawing.subject import PlanMap


@pytest.fixture
def telling():
    sg.set_verbose()
    yield
    sg.set_verbose(False)


def facts(line):
    """What a line says of the kernel."""
    fields = line.split(",")
    return fields[1], fields[2], fields[3], [field for field in fields[4:] if field.startswith(("loads", "stores"))]


some_or_all = pytest.mark.parametrize(
    "seeds", [range(14), pytest.param(range(14, 60), marks=pytest.mark.slow)], ids=["some", "the rest"]
)
"""Of each of nine operations 60 problems, some of them in the default run."""


def line_of(drawn, capsys):
    """The line of a problem's call; a scatter's comes behind that of the copy it writes over."""
    capsys.readouterr()
    drawn.run()
    # The stand-in's kernels are the CPU's loops, which tell too.
    written = capsys.readouterr().err.splitlines()
    lines = [line for line in written if line.startswith(f"stridedgpu,{drawn.plan.device},")]
    assert len(lines) == (2 if drawn.operation == "scatter" else 1)
    return lines[-1]


def checked(line, plan, kernel, operation):
    """The line is of this plan and kernel."""
    where, what, name, widths = facts(line)
    assert (where, what, name) == (plan.device, operation, kernel.name if hasattr(kernel, "name") else plan.kernel)
    assert widths == [f"loads {kernel.load.nbytes} B", f"stores {kernel.store.nbytes} B"]
    tile = "x".join(map(str, kernel.tile))
    assert re.findall(",tile ([^,]*),", line) == ([tile] if tile else [])


@some_or_all
@pytest.mark.parametrize("path", ["NumPy", pytest.param("native", marks=needs_library)])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_line_on_the_cpu_says_what_was_planned(operation, path, seeds, telling, capsys):
    with using(policy()._replace(native=path == "native")):
        for seed in seeds:
            drawn = OPERATIONS[operation](np.random.default_rng(seed), "cpu")
            line = line_of(drawn, capsys)
            checked(line, drawn.plan, drawn.plan.loops, drawn.operation)
            assert drawn.plan.loops.name.startswith("numpy_") == (drawn.plan.native is None)
            assert path == "native" or drawn.plan.native is None


@some_or_all
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_line_on_a_gpu_says_what_was_planned_and_launched(
    converting,  # noqa: F811 - the fixture
    resizing,  # noqa: F811 - the fixture
    relaying,  # noqa: F811 - the fixture
    operation,
    seeds,
    telling,
    capsys,
):
    for seed in seeds:
        drawn = OPERATIONS[operation](np.random.default_rng(seed), "cuda:0")
        launch = drawn.plan.launch
        before = len(relaying.launched)
        line = line_of(drawn, capsys)
        checked(line, drawn.plan, drawn.plan, drawn.operation)
        if launch is not None:
            assert relaying.launched[-1]["name"] == launch.name, "the last of the call, behind checks and a copy"
            assert drawn.plan.tile == launch.tile
            widths = policy_of(launch.name)
            for member, width in (("load_bytes", drawn.plan.load), ("store_bytes", drawn.plan.store)):
                assert widths.get(member, "0") in (str(width.nbytes), "0"), "0: element by element"
        assert len(relaying.launched) > before


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 60), marks=pytest.mark.slow)], ids=["some", "rest"])
@pytest.mark.parametrize("interpolation", ["pillow-bicubic", "opencv-area", "opencv-nearest"])
def test_each_launch_of_boxes_that_come_with_a_call_tells_its_tile(resizing, interpolation, seeds, telling, capsys):  # noqa: F811
    for seed in seeds:
        rng = np.random.default_rng(seed)
        count, size = int(rng.integers(1, 5)), tuple(int(extent) for extent in rng.integers(1, 90, 2))
        photos = [rng.integers(0, 256, (*extents, 3), np.uint8) for extents in rng.integers(3, 60, (count, 2))]
        there = [sg.asarray(photo, dims="HWC", device="cuda:0") for photo in photos]
        boxes = [(1, 0.5 * (interpolation[0] == "p"), *photo.shape[:2]) for photo in photos]
        options = {"boxes": boxes, "interpolation": interpolation}
        if interpolation == "pillow-bicubic":
            options["passes"] = "pillow-13"
        options = {**options, "layout": one_of(rng, ("NCHW", "NHWC")), "dtype": one_of(rng, ("uint8", "float16"))}
        before = len(resizing.launched)
        capsys.readouterr()
        sg.gather_crops(there, size=size, **options)
        written = capsys.readouterr().err.splitlines()
        told = [line for line in written if line.startswith("stridedgpu,cuda:0,resize,")]
        launched = resizing.launched[before:]
        assert len(told) == len(launched) > 0
        samples = 0
        for line, launch in zip(told, launched, strict=True):
            name, widths = facts(line)[2:]
            stored = int(policy_of(launch["name"]).get("store_bytes", np.dtype(options["dtype"]).itemsize))
            assert widths[1] == f"stores {stored} B"
            assert name.endswith(f"x{stored}B")
            for tile in re.findall(r",tile (\d+)x(\d+),", line):
                blocks = [-(-extent // int(side)) for extent, side in zip(size, tile, strict=True)]
                groups = 3 if name.startswith("resize_planes") else 1
                samples += launch["grid"][0] // (blocks[0] * blocks[1] * groups)
        fetched = [launch for launch in launched if re.search("resize_(pairs|nearest)", launch["name"])]
        assert 0 <= samples <= count
        assert (samples == count) == (not fetched)


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


@settings(max_examples=examples(500))
@given(st.data())
def test_pictures_draw_the_tile_that_is_launched(data):
    source, target = drawn_move(data)
    try:
        plan = sg.plan_relayout(source, target, device="cuda").plan
    except sg.LayoutError:
        return  # float32 that lies anywhere, which no GPU addresses
    assert PlanMap(plan).tile == plan.launch.tile == plan.tile
    found = re.search(r"source_extent = (\d+), .target_extent = (\d+)", plan.launch.name)
    if found is not None:
        steps = plan.problem.source_strides, plan.problem.target_strides
        for strides, extent in zip(steps, found.groups(), strict=True):
            axis = next(place for place, step in enumerate(strides) if abs(step) == 1)
            assert plan.tile[axis] == min(int(extent), plan.problem.sizes[axis])


@pytest.mark.parametrize(
    "width, kernel",
    [(2, "numpy_sample_bands"), pytest.param(64, "frame_encode_nv12_planesx64", marks=needs_library)],
)
def test_samples_of_colours_are_told_on_the_cpu(telling, capsys, width, kernel):
    frame = surface("nv12", (16, width), seed=1).frame()
    capsys.readouterr()
    sg.relayout(sg.zeros((3, 16, width), "uint8", device="cpu"), out=frame)
    assert any(f",samples,{kernel}," in line for line in capsys.readouterr().err.splitlines())


def test_nothing_is_told_where_nobody_asked(capsys):
    assert not verbose.is_verbose()
    sg.zeros((3, 4), "uint8", device="cpu").relayout(dtype="float32")
    assert capsys.readouterr().err == ""


PIXELS = np.zeros((2, 8, 8, 3), np.uint8)
ROWS = np.array([1, 0])
OUT = sg.empty((2, 3, 8, 8), "float32", dims="NCHW", device="cpu")
STEP = sg.Preprocess(crop=4, device="cpu")
REPEATED = {
    "relayout": lambda: sg.relayout(PIXELS, dims="NHWC", layout="NCHW"),
    "relayout into out": lambda: sg.relayout(PIXELS, dims="NHWC", out=OUT),
    "matrix": lambda: sg.relayout(PIXELS, dims="NHWC", matrix=[[1, 0, 0]]),
    "copy": lambda: sg.asarray(PIXELS).copy(),
    "assignment": lambda: OUT.__setitem__(..., PIXELS.transpose(0, 3, 1, 2)),
    "gather": lambda: sg.gather(PIXELS, ROWS),
    "gather_elements": lambda: sg.gather_elements(PIXELS[0, 0], np.zeros((1, 3), np.int64)),
    "gather_nd": lambda: sg.gather_nd(PIXELS, ROWS[:, None]),
    "scatter_elements": lambda: sg.scatter_elements(PIXELS[0, 0], np.zeros((1, 3), np.int64), PIXELS[0, 0, :1]),
    "scatter_nd": lambda: sg.scatter_nd(PIXELS, ROWS[:, None], PIXELS),
    "crops": lambda: sg.gather_crops(PIXELS, [(0, 0), (1, 1)], (4, 4), dims="NHWC"),
    "boxes": lambda: sg.gather_crops(PIXELS, size=(4, 4), boxes=[(0, 0, 5, 5)] * 2, dims="NHWC"),
    "resize": lambda: sg.resize(PIXELS, (4, 4), dims="NHWC"),
    "letterbox": lambda: sg.letterbox(PIXELS, (4, 4), dims="NHWC"),
    "frame": lambda: sg.relayout(sg.Frame.over("nv12", bytes(96), (8, 8))),
    "samples": lambda: sg.relayout(PIXELS[0], dims="HWC", out=sg.Frame.over("nv12", bytearray(96), (8, 8))),
    "raw": lambda: sg.unpack_raw(bytes(40), "mipi-raw10", (4, 8)),
    "step": lambda: STEP(PIXELS),
}


@pytest.mark.parametrize("call", REPEATED.values(), ids=REPEATED)
def test_a_call_that_ran_before_is_told_as_well(call, capsys):
    for _ in range(3):
        call()
    sg.set_verbose()
    try:
        capsys.readouterr()
        call()
        first = capsys.readouterr().err.splitlines()
        call()
    finally:
        sg.set_verbose(False)
    again = capsys.readouterr().err.splitlines()
    assert [facts(line)[1] for line in again] == [facts(line)[1] for line in first] != []
    call()
    assert capsys.readouterr().err == ""
