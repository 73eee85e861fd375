"""Frames on the CPU, compiled and on NumPy: beside OpenCV to the bit, and beside float64 within a level."""

from __future__ import annotations

import dataclasses
from itertools import product

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.fenced_memory import Fenced
from harness.frame_cases import (
    DEEP,
    SCALED,
    YUV,
    converting_by,
    depth_of,
    float_colours,
    opencv_colours,
    surface,
    surfaces,
)
from harness.native_loops import needs_library
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu.devices.selection import device_named
from stridedgpu.values.conversion import conversion

MATRICES = ("bt601", "bt709", "bt2020")
CHROMA = ("repeated", "linear")


def as_pixels(tensor):
    return tensor.permute("HWC" if tensor.ndim == 3 else "NHWC").numpy()


@cpu_paths
@given(made=surfaces(YUV, most=150), layout=st.sampled_from(("HWC", "CHW")))
def test_limited_bt601_has_the_bits_of_opencv(path, made, layout):
    with converting_by(path):
        picture = sg.relayout(made.frame(), layout=layout)
    assert np.array_equal(as_pixels(picture), opencv_colours(made))


@cpu_paths
@given(made=surfaces(("gray", "rgbx", "bgrx", "rgba", "bgra", "argb", "abgr")), channels=st.permutations(range(3)))
def test_pixels_of_colours_are_their_channels(path, made, channels):
    with converting_by(path):
        picture = sg.relayout(made.frame(), channels=channels)
    assert np.array_equal(as_pixels(picture), made.colours[..., channels])


@cpu_paths
@pytest.mark.parametrize("full_range", [False, True], ids=["limited", "full"])
@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("name", ["nv12", "yuyv", "i422", "nv24", *DEEP])
def test_every_matrix_is_within_a_level_of_float64_and_nearly_always_the_nearest(path, name, matrix, full_range):
    made = surface(name, (63, 95), seed=5)
    if name in YUV and matrix == "bt601" and not full_range:
        pytest.skip("OpenCV's constants are those of three decimals, which are tested beside OpenCV")
    with converting_by(path):
        picture = as_pixels(sg.relayout(made.frame(matrix=matrix, full_range=full_range)))
    most = 65535 if name in DEEP else 255
    wanted = float_colours(made, matrix, full_range=full_range) * most
    assert np.abs(picture - wanted).max() < 1
    assert np.mean(picture != np.rint(wanted)) < (0.01 if name in DEEP else 0.001)


@cpu_paths
@pytest.mark.parametrize(
    "matrix, red", [("bt601", 179), ("bt709", 182), ("bt2020", 169)], ids=["OpenCV's rule", "BT.709", "BT.2020"]
)
def test_luma_below_black_is_black_by_opencv_alone(path, matrix, red):
    planes = [np.zeros((4, 64), np.uint8), np.tile(np.uint8([128, 240]), (2, 32)).reshape(2, 32, 2)]
    with converting_by(path):
        picture = sg.relayout(sg.Frame("nv12", planes, sizes=(4, 64), matrix=matrix))
    assert np.unique(picture.numpy()[0]).tolist() == [red]


@given(
    made=surfaces(("p010", "p012", "p210", "p212", "p410", "p412")),
    matrix=st.sampled_from(MATRICES),
    full_range=st.booleans(),
)
def test_samples_have_the_same_colours_at_either_end_of_sixteen_bits(made, matrix, full_range):
    shift = depth_of(made.format)[1]
    planes = [plane >> shift for plane in (made.luma, made.blue, made.red)]
    low = sg.Frame(made.format.replace("p", "i"), planes, sizes=made.sizes, matrix=matrix, full_range=full_range)
    high = made.frame(matrix=matrix, full_range=full_range)
    assert np.array_equal(sg.relayout(low).numpy(), sg.relayout(high).numpy())


@cpu_paths
@given(made=surfaces(SCALED, most=90), layout=st.sampled_from(("HWC", "CHW")), chroma=st.sampled_from(CHROMA))
def test_planes_of_colours_and_gray_are_the_nearest_colours_of_their_type(path, made, layout, chroma):
    bits, _ = depth_of(made.format)
    most = 255 if bits == 8 else 65535
    with converting_by(path):
        picture = as_pixels(sg.relayout(made.frame(chroma=chroma), layout=layout))
    assert np.abs(picture - made.colours * (most / (2**bits - 1))).max() < 0.54
    assert bits not in (8, 16) or np.array_equal(picture, made.colours)


@cpu_paths
@given(made=surfaces((*YUV, *DEEP, *SCALED), most=90), data=st.data())
def test_windows_conversions_and_layouts_are_those_of_the_picture(path, made, data):
    frame = made.frame(chroma=data.draw(st.sampled_from(("repeated", "linear"))))
    with converting_by("NumPy"):
        picture = sg.relayout(frame)
    size = [data.draw(st.integers(1, extent + 4)) for extent in made.sizes]
    keywords = {
        "channels": data.draw(st.sampled_from((None, (2, 1, 0), (1,), (0, 0, 2, 1), (2, 0, 1, 1, 0, 2)))),
        "dtype": data.draw(st.sampled_from(("uint8", "uint16", "float16", "bfloat16", "float32", "float64", "int8"))),
        "layout": data.draw(st.sampled_from((None, "NHWC", "NCHW", "CHWN", "NHWC8", "NCHW4"))),
        "flip": data.draw(st.booleans()),
        "fill": data.draw(st.sampled_from((0, 114, (1, 2, 3)))),
    }
    if data.draw(st.booleans()):
        keywords["scale"] = 1 / 255
    if data.draw(st.booleans()):
        keywords["bias"] = data.draw(st.sampled_from((0.5, 1e39)))
    origins = [[data.draw(st.integers(-3, extent)) for extent in made.sizes]]
    wanted = sg.gather_crops([picture], origins, size, **keywords)
    with converting_by(path):
        windows = sg.gather_crops([frame], origins, size, **keywords)
    assert (windows.sizes, windows.strides, windows.dtype) == (wanted.sizes, wanted.strides, wanted.dtype)
    bits = f"uint{8 * windows.itemsize}"
    assert np.array_equal(windows.reinterpret(bits).numpy(), wanted.reinterpret(bits).numpy())


@cpu_paths
@given(made=surfaces(YUV, most=150), data=st.data())
def test_nothing_is_written_beside_an_output_with_gaps(path, made, data):
    order = data.draw(st.sampled_from(("HWC", "CHW")))
    sizes = (3, *made.sizes)
    gaps = sg.Layout.padded(sizes, order, 1, row_pitch_bytes=(3 if order == "HWC" else 1) * sizes[2] + 5)
    memory = np.full(gaps.span + 7, 99, np.uint8)
    out = sg.StridedTensor(memory, gaps, "uint8", dims="CHW")
    with converting_by(path):
        sg.relayout(made.frame(), out=out)
    expected = np.full_like(memory, 99)
    sg.StridedTensor(expected, gaps, "uint8", dims="CHW")[...] = opencv_colours(made).transpose(2, 0, 1)
    assert np.array_equal(memory, expected)


def linear(plane, rows, columns, down):
    """Chroma at a row and a column by the rule that the docstring of `CHROMA` states, one by one."""
    made = np.empty((rows, columns), np.int64)
    height, width = plane.shape
    plane = plane.astype(np.int64)
    if width == columns > 1:
        return plane
    for i, j in np.ndindex(rows, columns):
        own, beside = i // down, min(max(i // down + (1 if i % 2 else -1), 0), height - 1)
        sums = 3 * plane[own] + plane[beside] if down == 2 else 4 * plane[own]
        near, far = sums[j // 2], sums[min(j // 2 + 1, width - 1)]
        made[i, j] = (near + far + 4) >> 3 if j % 2 else (near + 2) >> 2
    return made


@cpu_paths
@given(made=surfaces(("nv12", "i420", "uyvy", "nv16", "p010", "i209", "y210", "nv24", "i412"), most=24))
def test_linear_chroma_is_the_mean_of_its_neighbours_by_distance(path, made):
    down = 2 if made.format in ("nv12", "i420", "p010") else 1
    blue, red = (linear(plane, *made.sizes, down) for plane in (made.blue, made.red))
    with converting_by(path):
        picture = as_pixels(sg.relayout(made.frame(matrix="bt709", chroma="linear")))
    most = 255 if depth_of(made.format)[0] == 8 else 65535
    wanted = float_colours(made, "bt709", full_range=False, blue=blue, red=red) * most
    assert np.abs(picture - wanted).max() < 1


def planned(frame, target, made):
    """What the CPU does."""
    return device_named("cpu").plan(frame.window(target, made))


@needs_library
@pytest.mark.parametrize(
    "name, layout, kernel",
    [("nv12", "HWC", "frame_nv12_pixels3_uint8x64"), ("yuyv", "CHW", "frame_yuyv_planes_uint8x64")],
)
def test_a_plan_says_which_loops_run_and_why_no_others(name, layout, kernel):
    frame = surface(name, (64, 96), seed=1).frame()
    target = sg.empty((3, 64, 96), "uint8", layout=layout, device="cpu").operand.spec
    made = conversion(frame.operand.element, frame.operand.element)
    plan = planned(frame.operand, target, made)
    assert plan.kernel == kernel
    assert f"64 x 96 pixels of {name}" in plan.explain()
    linear = planned(surface(name, (64, 96), seed=1).frame(chroma="linear").operand, target, made)
    assert linear.kernel == kernel.replace(name, f"{name}_linear")
    narrow = surface(name, (64, 2), seed=1).frame()
    slow = planned(narrow.operand, sg.empty((3, 64, 2), "uint8", device="cpu").operand.spec, made)
    assert slow.kernel == "numpy_frame_bands"
    assert "narrower than" in slow.explain()


@cpu_paths
@pytest.mark.parametrize(
    "options",
    [
        {"channels": (0, 0, 2, 1)},
        {"channels": (1, 2, 0), "dtype": "float32"},
        {"matrix": [[0.5, 0.25, 1]]},
        {"channels": (2, 0, 1, 1, 0, 2, 2)},
        {"channels": (0, 1, 2, 0, 1), "dtype": "float16", "bias": (1, 2, 3, 4, 5), "layout": "NCHW"},
    ],
    ids=["channels", "converted", "mixed", "seven channels", "five planes"],
)
@pytest.mark.parametrize("flip", [False, True], ids=["forwards", "mirrored"])
@pytest.mark.parametrize("name", ["nv12", "yuyv", "i010", "i444", "p412", "gbrp10"])
def test_channels_in_any_order_begin_at_any_column(path, name, flip, options):
    frame = surface(name, (6, 170), seed=4).frame()
    picture = sg.relayout(frame)
    for column, width in ((1, 38), (3, 97), (8, 11), (5, 160)):
        with converting_by(path):
            window = sg.gather_crops([frame], [[1, column]], (4, width), flip=flip, **options)
        wanted = sg.gather_crops([picture], [[1, column]], (4, width), flip=flip, **options)
        assert np.array_equal(window.numpy(), wanted.numpy())


WINDOWS = (((8, 70), (0, 0)), ((9, 71), (1, 1)), ((4, 33), (3, 5)), ((2, 8), (6, 14)), ((3, 64), (1, 11)))
"""Sizes and origins, of whole steps and not, from even columns and odd ones, up to the frame's edge."""


@cpu_paths
@pytest.mark.parametrize("at_end", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("chroma", ["repeated", "linear"])
@pytest.mark.parametrize("cut", [0, 1], ids=["even", "odd"])
@pytest.mark.parametrize("name", [*YUV, *DEEP, *SCALED])
def test_no_byte_beside_a_surface_is_read(path, name, chroma, at_end, cut):
    for (rows, columns), origin in WINDOWS:
        width = 2 * ((origin[1] + columns + 1) // 2) - cut
        size = (rows - cut, min(columns, width - origin[1]))
        made = surface(name, (10 - cut, width), seed=3)
        fenced = Fenced(made.memory.nbytes, np.random.default_rng(0), at_end=at_end)
        fenced.bytes[:] = made.memory
        there = dataclasses.replace(made, memory=fenced.bytes).frame(chroma=chroma)
        with converting_by(path):
            window = sg.gather_crops([there], [origin], size, dtype="float32", scale=0.5)
            wanted = sg.gather_crops([made.frame(chroma=chroma)], [origin], size, dtype="float32", scale=0.5)
        assert np.array_equal(window.numpy(), wanted.numpy())


@cpu_paths
@pytest.mark.parametrize("chroma", CHROMA)
@pytest.mark.parametrize("name", ["nv12", "i422", "i444", "p410", "gbrp10"])
def test_no_byte_behind_a_plane_of_an_odd_size_is_read_or_written(path, name, chroma):
    given = surface(name, (5, 71), seed=3).frame(chroma=chroma)
    held, planes = [], []
    for plane in given.planes:
        array = plane.numpy()
        held.append(Fenced(array.nbytes, np.random.default_rng(0), at_end=True))
        planes.append(held[-1].bytes.view(array.dtype).reshape(array.shape))
        planes[-1][:] = array
    there = sg.Frame(name, planes, sizes=(5, 71), chroma=chroma)
    with converting_by(path):
        assert np.array_equal(sg.relayout(there, layout="HWC").numpy(), sg.relayout(given, layout="HWC").numpy())
        sg.relayout(sg.relayout(given, layout="HWC"), out=there)


@cpu_paths
@pytest.mark.parametrize("matrix", MATRICES)
def test_the_strongest_colours_of_full_range_do_not_wrap(path, matrix):
    """Half a level more than the largest sample, rounded up, is the largest."""
    corners = np.array(list(product((0, 255), repeat=3)), np.uint8).repeat(2, axis=0)
    picture, memory = np.broadcast_to(np.tile(corners, (4, 1)), (2, 64, 3)), np.zeros(2 * 64 * 3 // 2, np.uint8)
    with picking_by(path):
        sg.relayout(picture, dims="HWC", out=sg.Frame.over("nv12", memory, (2, 64), matrix=matrix, full_range=True))
    luma, chroma = memory[:128].reshape(2, 64), memory[128:].reshape(4, 8, 2)
    assert luma[0, [0, 14]].tolist() == [0, 255]
    assert (chroma == chroma[0]).all()
    assert (chroma[0, 1, 0], chroma[0, 4, 1]) == (255, 255)  # of blue, and of red
