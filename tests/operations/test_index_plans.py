"""Plans of gathers, scatters and crops: what they tell, that they run as the calls do, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu import BindingError, BufferTensorDesc, DeviceError, ElementTypeError, Layout, LayoutError, StridedTensor

DATA = np.arange(48, dtype=np.float32).reshape(8, 6)
ROWS, ELEMENTS, TUPLES = np.array([3, 0, -1]), np.array([[1, 0, 2, 5, 4, 3], [7] * 6]), np.array([[1, 2], [7, -6]])


def desc(array):
    return BufferTensorDesc(array.dtype, array.shape)


def updates(sizes):
    return np.arange(int(np.prod(sizes)), dtype=np.float32).reshape(sizes) - 100


PLANS = {
    "gather": (sg.plan_gather, sg.gather, ROWS, None, "gather_rows_float32x8B_int64"),
    "gather_elements": (
        sg.plan_gather_elements,
        sg.gather_elements,
        ELEMENTS,
        None,
        "gather_elements_float32x8B_int64",
    ),
    "gather_nd": (sg.plan_gather_nd, sg.gather_nd, TUPLES, None, "gather_nd_float32x8B_int64"),
    "scatter_elements": (
        sg.plan_scatter_elements,
        sg.scatter_elements,
        ELEMENTS,
        updates((2, 6)),
        "scatter_elements_float32x8B_int64",
    ),
    "scatter_nd": (sg.plan_scatter_nd, sg.scatter_nd, ROWS[:, None], updates((3, 6)), "scatter_rows_float32x8B_int64"),
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("of", [desc, sg.asarray], ids=["descriptors", "tensors"])
def test_a_plan_for_a_gpu_is_made_without_one_and_cannot_run(name, of):
    make, _, indices, given, kernel = PLANS[name]
    operands = [of(array) for array in (DATA, indices, given) if array is not None]
    plan = make(*operands, device="cuda")
    assert (plan.device, plan.kernel, plan.index_bits) == ("cuda:0", kernel, 32)
    assert plan.vector_bytes == min(plan.load_bytes, plan.store_bytes)
    text = plan.explain()
    for part in (kernel, "reference GPU, NVIDIA H200", "axis 0 of size 8", f"loads {plan.load_bytes} B"):
        assert part in text
    out = sg.empty((2,), "float32", device="cpu")
    with pytest.raises(DeviceError, match="This plan can be read and not run"):
        plan(*(sg.asarray(array) for array in (DATA, indices, given) if array is not None), out)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("of", [desc, sg.asarray], ids=["descriptors", "tensors"])
def test_a_plan_runs_as_the_call_does(name, of):
    make, run, indices, given, _ = PLANS[name]
    arrays = [array for array in (DATA, indices, given) if array is not None]
    expected = run(*arrays)
    plan = make(*map(of, arrays))
    for shift in (0, 1):  # other numbers of the same layouts
        others = [DATA + shift, np.roll(indices, shift, 0), *([] if given is None else [given])]
        out = sg.empty(expected.sizes, "float32", device="cpu")
        plan(*map(sg.asarray, others), out)
        assert out.numpy().tobytes() == run(*others).numpy().tobytes()


@given(data=st.data())
def test_padded_results_and_their_gaps(data):
    name = data.draw(st.sampled_from(sorted(PLANS)))
    pitch, flipped = data.draw(st.integers(6, 9)), data.draw(st.booleans())
    make, run, indices, given, _ = PLANS[name]
    arrays = [array for array in (DATA, indices, given) if array is not None]
    sizes = run(*arrays).sizes
    strides = (pitch, 1)[-len(sizes) :]
    layout = Layout(sizes, strides)
    if flipped:
        layout = layout.sliced((slice(None, None, -1),))
    memory = np.full((layout.span + layout.first_offset + 5) * 4, 0xC3, np.uint8)
    out = StridedTensor(memory, layout, "float32")
    before = memory.copy()
    operands = list(map(sg.asarray, arrays))
    make(*operands, out=out)(*operands, out)
    assert out.numpy().tobytes() == run(*arrays).numpy().tobytes()
    out[...] = 0
    places = np.zeros(memory.size, bool)
    whole = StridedTensor(
        places.view(np.uint8), Layout((*sizes, 4), (*(4 * s for s in layout.strides), 1), 4 * layout.offset), "uint8"
    )
    whole[...] = 1
    assert (memory[~places] == before[~places]).all()


def test_a_plan_is_one_line_in_a_session():
    plan = sg.plan_gather(desc(DATA), desc(ROWS))
    assert repr(plan) == f"<PlannedGather {plan.kernel} on cpu, 168 bytes>"
    there = repr(sg.plan_relayout(desc(DATA), desc(DATA), device="cuda"))
    assert there == "<RelayoutPlan flat_float32x16B_float32x16B on cuda:0, 384 bytes, to be read only>"


@pytest.mark.parametrize("name", PLANS)
def test_indices_are_looked_at_every_time(name):
    make, run, indices, given, _ = PLANS[name]
    arrays = [array for array in (DATA, indices, given) if array is not None]
    plan = make(*map(sg.asarray, arrays))
    out = sg.full(run(*arrays).sizes, 7, "float32", device="cpu")
    wrong = indices.copy()
    wrong.reshape(-1)[0] = 8
    with pytest.raises(IndexError, match="= 8 is out of range for axis 0 of size 8"):
        plan(*map(sg.asarray, [DATA, wrong, *arrays[2:]]), out)
    assert (out.numpy() == 7).all()


def test_modes_are_part_of_a_plan():
    data, wrong = sg.asarray(DATA), sg.asarray(np.array([-9, 9, 2]))
    out = sg.empty((3, 6), "float32", device="cpu")
    for mode in ("clip", "wrap"):
        plan = sg.plan_gather(data, wrong, mode=mode)
        plan(data, wrong, out)
        assert out.numpy().tolist() == DATA.take([-9, 9, 2], 0, mode=mode).tolist()


def test_a_scatter_tells_of_its_copy():
    plan = sg.plan_scatter_nd(desc(DATA), [[1]], desc(updates((1, 6))), unique=True)
    assert plan.bytes_moved == 2 * DATA.nbytes + 2 * 24 + 8
    assert f"the data first:\n{plan.copy.kernel} on cpu" in plan.explain()
    assert f"then the updates over it:\n{plan.kernel} on cpu" in plan.explain()
    rows = sg.asarray(np.array([[1], [1]]))
    plan = sg.plan_scatter_nd(sg.asarray(DATA), rows, desc(updates((2, 6))), unique=True)
    with pytest.raises(IndexError, match="name the same element"):
        plan(sg.asarray(DATA), rows, sg.asarray(updates((2, 6))), sg.empty((8, 6), "float32", device="cpu"))


def run_planned(**changes):
    """A planned gather on operands, some of them others than planned."""
    operands = {"data": sg.asarray(DATA), "indices": sg.asarray(ROWS), "out": sg.empty((3, 6), "float32", device="cpu")}
    plan = sg.plan_gather(operands["data"], operands["indices"])
    plan(**{**operands, **changes})


def locked(sizes, dtype="float32"):
    memory = sg.empty(sizes, dtype, device="cpu").numpy()
    memory.flags.writeable = False
    return sg.asarray(memory)


REFUSED = {
    "other sizes": (lambda: run_planned(data=sg.asarray(DATA[:7])), BindingError, "data has sizes (7, 6)"),
    "other strides": (lambda: run_planned(data=sg.asarray(DATA.T.copy().T)), BindingError, "strides (1, 8)"),
    "another type": (lambda: run_planned(data=sg.asarray(DATA.astype("f8"))), BindingError, "data holds float64"),
    "other indices": (lambda: run_planned(indices=sg.asarray(ROWS[:2])), BindingError, "indices has sizes (2,)"),
    "another type of indices": (
        lambda: run_planned(indices=sg.asarray(ROWS.astype(np.int32))),
        BindingError,
        "indices holds int32",
    ),
    "another out": (lambda: run_planned(out=sg.asarray(DATA)), BindingError, "out has sizes (8, 6)"),
    "read-only": (lambda: run_planned(out=locked((3, 6))), BindingError, "out is read-only"),
    "an out that overlaps": (
        lambda: sg.plan_gather(desc(DATA), desc(ROWS), out=BufferTensorDesc("float32", (3, 6), (0, 1))),
        LayoutError,
        "out repeats or overlaps",
    ),
    "an out of other sizes": (
        lambda: sg.plan_gather(desc(DATA), desc(ROWS), out=desc(DATA)),
        LayoutError,
        "out has sizes (8, 6); the result has sizes (3, 6)",
    ),
    "an out of another type": (
        lambda: sg.plan_gather_nd(desc(DATA), desc(TUPLES), out=BufferTensorDesc("int32", (2,))),
        LayoutError,
        "out holds int32; the result is float32",
    ),
    "no tensor for out": (
        lambda: sg.plan_gather(desc(DATA), desc(ROWS), out=np.zeros((3, 6))),
        LayoutError,
        "out must be a StridedTensor or a BufferTensorDesc, not ndarray",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    call, error, fragment = REFUSED[case]
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert fragment in str(caught.value)


def test_an_out_that_shares_memory_is_refused():
    memory = np.zeros(128, np.float32)
    data, out = sg.asarray(memory[:48].reshape(8, 6)), sg.asarray(memory[20:38].reshape(3, 6))
    plan = sg.plan_gather(data, sg.asarray(ROWS), out=out)
    with pytest.raises(BindingError, match="out shares memory with data"):
        plan(data, sg.asarray(ROWS), out)


# Crops


def test_an_out_that_shares_memory_with_its_indices_is_refused_before_anything_is_written():
    """Down to one byte; ranges that only touch do not share any."""
    memory = np.zeros(256, np.uint8)
    whole = sg.asarray(memory)
    indices, data = whole[64:96].reinterpret("int64"), sg.asarray(np.arange(40, dtype=np.uint8))
    plan = sg.plan_gather(data, indices, out=whole[:4])
    for start in (60, 96, 0, 252):
        plan(data, indices, whole[start : start + 4])
        assert memory[start : start + 4].tolist() == [0] * 4
    memory[:] = 0
    for start in (61, 64, 80, 95):
        with pytest.raises(BindingError, match="out shares memory with indices"):
            plan(data, indices, whole[start : start + 4])
    assert not memory.any()


def photos(count, rng=None):
    rng = rng or np.random.default_rng(count)
    return [rng.integers(0, 256, (9 + n, 12 - n, 3), np.uint8) for n in range(count)]


NORMALISED = {"dtype": "float32", "scale": (0.5, 0.25, 2.0), "bias": -1.0, "fill": 3}


@pytest.mark.parametrize(
    "keywords",
    [NORMALISED, {"layout": "NHWC"}, {"channels": (2, 1, 0), **NORMALISED}, {"row_pitch_bytes": 64}],
    ids=["normalised", "pixels", "blue first", "pitched"],
)
def test_crops_run_as_the_call_does(keywords):
    first, others = photos(3), photos(3, np.random.default_rng(99))
    plan = sg.plan_gather_crops(first, (4, 5), dims="HWC", **keywords)
    origins, flip = [[0, 0], [-2, 3], [6, 9]], [True, False, True]
    expected = sg.gather_crops(others, origins, (4, 5), dims="HWC", flip=flip, **keywords)
    out = sg.gather_crops(first, origins, (4, 5), dims="HWC", **keywords)
    plan([sg.asarray(photo, dims="HWC") for photo in others], origins, out, flip)
    assert out.numpy().tobytes() == expected.numpy().tobytes()
    assert plan.bytes_moved == 3 * 3 * 20 * (1 + out.itemsize)
    assert plan.kernel in plan.explain()


def test_crops_of_a_batch_and_of_descriptors_for_a_gpu():
    batch = sg.asarray(np.zeros((4, 9, 8, 3), np.uint8), dims="NHWC")
    described = BufferTensorDesc("uint8", (4, 3, 9, 8), (216, 1, 24, 3))
    one = BufferTensorDesc("uint8", (3, 9, 8), (1, 24, 3))
    kernels = {
        sg.plan_gather_crops(sources, (4, 8), dtype="float32", device="cuda").kernel
        for sources in (batch, described, [one] * 4)
    }
    assert kernels == {"crops_split_uint8x4B_float32x16B"}
    plan = sg.plan_gather_crops(described, (4, 8), device="cuda")
    assert "split: pixels are read whole" in plan.explain()
    with pytest.raises(DeviceError, match="can be read and not run"):
        plan(batch, [[0, 0]] * 4, sg.empty((4, 3, 4, 8), "uint8", device="cpu"))
    here = sg.plan_gather_crops(described, (4, 8))
    out = sg.full((4, 3, 4, 8), 9, "uint8", device="cpu")
    here(batch, [[0, 0]] * 4, out)
    assert not out.numpy().any()


def crop(sources=None, origins=((0, 0), (1, 1)), out=None, **keywords):
    made = [sg.asarray(photo, dims="HWC") for photo in (photos(2) if sources is None else sources)]
    plan = sg.plan_gather_crops(photos(2), (4, 8), dims="HWC")
    plan(made, origins, sg.empty((2, 3, 4, 8), "uint8", device="cpu") if out is None else out, **keywords)


CROPS_REFUSED = {
    "another number": (lambda: crop(photos(3)), LayoutError, "sources are 3 images; the plan is for 2"),
    "another type": (
        lambda: crop([photo.astype(np.float32) for photo in photos(2)]),
        ElementTypeError,
        "sources[0] holds float32 and the plan uint8",
    ),
    "planes": (
        lambda: crop([photo.transpose(2, 0, 1).copy().transpose(1, 2, 0) for photo in photos(2)]),
        BindingError,
        "the plan is for (1, 3)",
    ),
    "origins of another number": (lambda: crop(origins=[(0, 0)]), LayoutError, "2 sources need (2, 2)"),
    "flips of another number": (lambda: crop(flip=[True]), LayoutError, "flip has 1 entries"),
    "another out": (lambda: crop(out=sg.zeros((2, 3, 4, 6), "uint8", device="cpu")), BindingError, "out has sizes"),
    "read-only": (
        lambda: crop(out=locked((2, 3, 4, 8), "uint8")),
        BindingError,
        "out is read-only",
    ),
    "blocks of channels": (
        lambda: sg.plan_gather_crops(photos(2), (4, 5), dims="HWC", layout="NCHW4"),
        LayoutError,
        "layout='NCHW4' fills channels up",
    ),
    "no images": (lambda: sg.plan_gather_crops([], (4, 5)), LayoutError, "sources is empty"),
    "an out and a layout": (
        lambda: sg.plan_gather_crops(photos(2), (4, 5), dims="HWC", layout="NHWC", out=desc(np.zeros((2, 3, 4, 5)))),
        LayoutError,
        "leave out layout",
    ),
    "a descriptor of other axes": (
        lambda: sg.plan_gather_crops(BufferTensorDesc("uint8", (3, 9, 8)), (4, 5)),
        LayoutError,
        "sources describes sizes (3, 9, 8); it must have the axes N, C, H, W",
    ),
}


@pytest.mark.parametrize("case", CROPS_REFUSED)
def test_refusals_of_crops(case):
    call, error, fragment = CROPS_REFUSED[case]
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert fragment in str(caught.value)
