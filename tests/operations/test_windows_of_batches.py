"""Windows of batches: borders of every kind at one place of all images, and plans that run by addresses alone."""

from __future__ import annotations

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.guarded_memory import assert_written, bits_of, guarded, seeds
from harness.native_loops import needs_library, policy_with
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu.devices.cpu.native.crops import BorderedRows, plan_bordered
from stridedgpu.problems.crop_windows import Crop

ORDERS = {"NCHW": (0, 1, 2, 3), "NHWC": (0, 3, 1, 2)}
"""The axis of memory of each of N, C, H, W."""


def laid_out(sizes, order, gaps, turned=()):
    """A layout of N, C, H, W, in an order of memory, with some elements left out after rows, images and all else.

    The axes that are `turned` run backward.
    """
    places = ORDERS[order]
    memory = [size for _, size in sorted(zip(places, sizes, strict=True))]
    steps, step = [], 1
    for size, gap in zip(reversed(memory), (0, *gaps), strict=True):
        step += gap
        steps.insert(0, step)
        step *= size
    whole = tuple(slice(None, None, -1 if axis in turned else None) for axis in range(4))
    return sg.Layout(sizes, tuple(steps[place] for place in places)).sliced(whole)


@st.composite
def batches(draw):
    sizes = tuple(draw(st.integers(1, most)) for most in (3, 4, 12, 70))
    borders = [draw(st.sampled_from((-3, 0, 1, 2, 5, 9))) for _ in range(2)]
    borders += [draw(st.sampled_from((-9, 0, 1, 3, 17, 40, 80))) for _ in range(2)]
    size = max(1, sizes[2] + borders[0] + borders[1]), max(1, sizes[3] + borders[2] + borders[3])
    gaps = st.tuples(*[st.sampled_from((0, 0, 0, 1, 5))] * 3)
    turns = st.sampled_from(((), (), (0,), (1,), (2,), (0, 2)))
    order = draw(st.sampled_from(("NCHW", "NHWC")))
    out_order = draw(st.sampled_from((order, order, "NCHW", "NHWC")))
    source = laid_out(sizes, order, draw(gaps), draw(turns))
    out = laid_out((*sizes[:2], *size), out_order, draw(gaps), draw(turns))
    fill = draw(st.sampled_from((0, 7, list(range(1, sizes[1] + 1)))))
    return source, out, (-borders[0], -borders[2]), fill, draw(st.sampled_from((False, False, False, True)))


def expected_of(words, origin, size, fill, flip):
    """The windows of images of words: the fill, and the part of an image over it."""
    padded = np.empty((*words.shape[:2], words.shape[2] + 60, words.shape[3] + 400), words.dtype)
    padded[...] = fill[None, :, None, None]
    padded[:, :, 20 : 20 + words.shape[2], 100 : 100 + words.shape[3]] = words
    window = padded[:, :, origin[0] + 20 :, origin[1] + 100 :][:, :, : size[0], : size[1]]
    return window[..., ::-1] if flip else window


@cpu_paths
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "complex128"])
@pytest.mark.parametrize("merged", [range(9, 65), range(0)], ids=["short rows as vectors", "all rows alike"])
@given(case=batches(), seed=seeds)
def test_a_batch_with_a_border_is_numpys_in_bits(path, dtype, merged, case, seed):
    layout, out_layout, origin, fill, flip = case
    tensor, memory = guarded(layout, dtype, seed)
    out, written = guarded(out_layout, dtype, seed + 1)
    before = written.copy()
    colours = np.zeros(layout.sizes[1], dtype)
    colours[:] = fill
    words = bits_of(sg.Layout(colours.shape), colours.itemsize, colours.view(np.uint8))
    size = out_layout.sizes[2:]
    wanted = expected_of(bits_of(layout, colours.itemsize, memory), origin, size, words, flip)
    origins = np.full((len(wanted), 2), origin)
    with policy_with(crops={"merged_bytes": merged}), picking_by(path):
        sg.gather_crops(tensor, origins, size, flip=flip, fill=fill, out=out)
        assert_written(out, written, before, wanted, colours.itemsize)
        written[:] = before
        plan = sg.plan_gather_crops(tensor, size, fill=fill, out=out)
        for _ in range(2):
            plan(tensor, origins, out, flip)
            assert_written(out, written, before, wanted, colours.itemsize)
            written[:] = before


@needs_library
@pytest.mark.parametrize(
    "order, fill, flip, has_a_kernel",
    [
        ("NCHW", 0, False, True),
        ("NCHW", [1, 2, 3], False, True),
        ("NHWC", 7, False, True),
        ("NHWC", [1, 2, 3], False, False),
        ("NCHW", 0, True, False),
    ],
    ids=["planes", "planes of various fills", "pixels", "pixels of various fills", "mirrored"],
)
def test_which_borders_are_written_in_one_pass(order, fill, flip, has_a_kernel):
    layout = laid_out((2, 3, 8, 9), order, (0, 0, 0))
    plan = sg.plan_gather_crops(
        sg.StridedTensor(np.zeros(432, np.uint8), layout, "uint8"), (10, 20), layout=order, fill=fill, device="cpu"
    )
    image = layout.sliced(0)
    made = plan_bordered(plan.plan.problem, Crop(image, (-1, -5), flip), 2, 216)
    assert (made is not None) == has_a_kernel
    assert made is None or isinstance(made[0].kernel, BorderedRows)
    assert plan_bordered(plan.plan.problem, Crop(image, (-30, 0), flip), 2, 216) is None  # nowhere inside


IMAGES = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
PADDED = np.pad(IMAGES, ((0, 0), (0, 0), (1, 1), (1, 1)))
ORIGINS = np.full((2, 2), -1)


@pytest.fixture
def padding():
    """A plan that has run often enough to keep its move, and its target."""
    out = sg.zeros((2, 3, 6, 7), "float32", device="cpu")
    plan = sg.plan_gather_crops(sg.asarray(IMAGES), (6, 7), out=out)
    plan(sg.asarray(IMAGES), ORIGINS, out)
    assert plan.direct is not None
    return plan


@needs_library
def test_every_call_has_the_same_result():
    plan = sg.plan_gather_crops(sg.asarray(IMAGES), (6, 7), layout="NCHW")
    for number in range(3):
        out = sg.zeros((2, 3, 6, 7), "float32", device="cpu")
        plan(sg.asarray(IMAGES + number), ORIGINS, out)
        assert np.array_equal(out.numpy()[:, :, 1:-1, 1:-1], IMAGES + number)
        assert not out.numpy()[:, :, 0].any()
    assert plan.direct is not None


@needs_library
@pytest.mark.parametrize(
    "sources, origins, flip, wanted",
    [
        (IMAGES[::-1], ORIGINS, None, PADDED[::-1]),
        (list(IMAGES), ORIGINS, None, PADDED),
        (IMAGES, [[-1, -1], [0, 0]], None, np.stack([PADDED[0], np.pad(IMAGES[1], ((0, 0), (0, 2), (0, 2)))])),
        (IMAGES, ORIGINS + 1, None, np.pad(IMAGES, ((0, 0), (0, 0), (0, 2), (0, 2)))),
        (IMAGES, ORIGINS.astype(np.int8), None, PADDED),
        (IMAGES, ORIGINS, True, PADDED[..., ::-1]),
        (IMAGES, ORIGINS, [False, True], np.stack([PADDED[0], PADDED[1, ..., ::-1]])),
        (np.pad(IMAGES, ((0, 0), (0, 0), (0, 0), (0, 4)))[..., :5], ORIGINS, None, PADDED),
        (np.pad(IMAGES, ((0, 0), (0, 0), (0, 3), (0, 0)))[:, :, :3], ORIGINS, None, None),
    ],
    ids=[
        "backward",
        "a list",
        "various origins",
        "another origin",
        "short origins",
        "mirrored",
        "one mirrored",
        "another pitch",
        "less high",
    ],
)
def test_other_arguments_are_not_those_of_the_move_that_is_kept(padding, sources, origins, flip, wanted):
    out = sg.zeros((2, 3, 6, 7), "float32", device="cpu")
    tensors = list(map(sg.asarray, sources)) if isinstance(sources, list) else sg.asarray(sources)
    if wanted is None:
        wanted = np.pad(sources, ((0, 0), (0, 0), (1, 2), (1, 1)))
    for _ in range(2):
        padding(tensors, origins, out, flip)
        assert np.array_equal(out.numpy(), wanted)
    padding(sg.asarray(IMAGES), ORIGINS, out)
    assert np.array_equal(out.numpy(), PADDED)


@cpu_paths
@pytest.mark.parametrize("edge", [(-1, 2), (5, 2), (2, -1), (2, 5), (2, 2**62), (-(2**63), 2), (2, 2)], ids=str)
@pytest.mark.parametrize("number", [0, 3], ids=["the first", "the last"])
def test_one_window_over_an_edge_among_windows_inside(path, edge, number):
    images = np.arange(4 * 8 * 8 * 3, dtype=np.uint16).reshape(4, 8, 8, 3)
    origins = np.array([[0, 0], [4, 4], [4, 0], [1, 3]])
    origins[number] = edge
    padded = np.pad(images, ((0, 0), (4, 4), (4, 4), (0, 0)))
    wanted = np.stack(
        [
            padded[n, y + 4 : y + 8, x + 4 : x + 8]
            if min(y, x) >= -4 and max(y, x) <= 8
            else np.zeros((4, 4, 3), np.uint16)
            for n, (y, x) in enumerate(origins.tolist())
        ]
    )
    with picking_by(path):
        out = sg.empty((4, 3, 4, 4), "uint16", dims="NCHW", layout="NHWC", device="cpu")
        plan = sg.plan_gather_crops(sg.asarray(images, dims="NHWC"), 4, out=out)
        for _ in range(2):
            for places, expected in ((origins, wanted), (np.ones_like(origins), images[:, 1:5, 1:5])):
                plan(sg.asarray(images, dims="NHWC"), places, out)
                assert np.array_equal(out.numpy().transpose(0, 2, 3, 1), expected)


@needs_library
def test_a_move_that_mirrors_is_not_kept_for_calls_that_do_not():
    out = sg.zeros((2, 3, 2, 3), "float32", device="cpu")
    plan = sg.plan_gather_crops(sg.asarray(IMAGES), (2, 3), out=out)
    for flip in (True, None):
        plan(sg.asarray(IMAGES), np.ones((2, 2), int), out, flip)
    assert np.array_equal(out.numpy(), IMAGES[:, :, 1:3, 1:4])


@needs_library
def test_wrong_arguments_are_refused_then_too(padding):
    out, images = sg.zeros((2, 3, 6, 7), "float32", device="cpu"), sg.asarray(IMAGES)
    locked = np.zeros((2, 3, 6, 7), np.float32)
    locked.flags.writeable = False
    memory = np.zeros(2 * 3 * 6 * 7, np.float32)
    inside, shared = memory[: IMAGES.size].reshape(IMAGES.shape), memory.reshape(2, 3, 6, 7)
    calls = {
        "out is read-only": (images, ORIGINS, sg.asarray(locked)),
        "out shares memory with sources": (sg.asarray(inside), ORIGINS, sg.asarray(shared)),
        "out has sizes": (images, ORIGINS, sg.zeros((2, 3, 6, 8), "float32", device="cpu")),
        "float64": (sg.asarray(IMAGES.astype(np.float64)), ORIGINS, out),
        "origins have sizes": (images, ORIGINS[:1], out),
        r"origins have sizes \(4,\)": (images, ORIGINS.ravel(), out),
        "is of type ndarray; a plan runs on tensors": (images, ORIGINS, np.zeros((2, 3, 6, 7), np.float32)),
        "sources is of type ndarray": (IMAGES, ORIGINS, out),
        "stream=3": (images, ORIGINS, out, None, 3),
    }
    for message, arguments in calls.items():
        with pytest.raises(sg.StridedGpuError, match=message):
            padding(*arguments)
    assert not out.numpy().any()
    assert not memory.any()


@cpu_paths
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("fill", [0, (7, 7, 7), (1, 2, 250)], ids=["zeros", "one number", "a number each"])
@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "float32", "scale": 1 / 255},
        {"dtype": "float16", "bias": (1, 2, 3)},
        {"dtype": "float64", "channels": (2, 1)},
        {"channels": (2, 0, 1, 1)},
    ],
    ids=["scaled", "biases", "two channels", "four channels"],
)
def test_a_border_is_converted_as_pixels_are(path, layout, fill, options):
    images = np.arange(5 * 6 * 7 * 3, dtype=np.uint8).reshape(5, 6, 7, 3)
    wide = np.empty((5, 26, 27, 3), np.uint8)
    wide[...] = fill
    wide[:, 10:16, 10:17] = images
    origins = np.array([[-1, -2], [-1, -2], [3, 4], [-2, 1], [-9, 0]])
    for places, flips in (
        (origins[:1].repeat(5, 0), None),
        (origins, None),
        (origins, [True, False, True, True, False]),
    ):
        wanted = sg.gather_crops(
            sg.asarray(wide, dims="NHWC"), places + 10, (8, 9), flip=flips, layout=layout, **options
        )
        with picking_by(path):
            out = sg.empty(wanted.sizes, wanted.dtype, layout=layout, device="cpu")
            given = {name: value for name, value in options.items() if name != "dtype"}
            plan = sg.plan_gather_crops(sg.asarray(images, dims="NHWC"), (8, 9), fill=fill, out=out, **given)
            for _ in range(2):
                out[...] = 99
                plan(sg.asarray(images, dims="NHWC"), places, out, flips)
                assert np.array_equal(out.numpy(), wanted.numpy())
