"""Channel matrices: beside NumPy's float arithmetic in a stated order, to the bit, from any layout to any other."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.fenced_memory import Fenced
from harness.frame_cases import YUV, converting_by, surfaces
from harness.native_loops import needs_library, policy_with
from harness.profiles import examples
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

import stridedgpu as sg
from stridedgpu.devices.cpu.native.matrix import mixing_kernel

GREY = [[0.299, 0.587, 0.114]]
SEPIA = [[0.393, 0.769, 0.189], [0.349, 0.686, 0.168], [0.272, 0.534, 0.131]]
YCBCR = [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]]
NUMBERS = st.floats(-3, 3, width=32) | st.sampled_from((0.0, -0.0, 1.0, 1e39, float("inf"), float("nan")))


def by_hand(pixels, matrix, dtype, *, scale=None, bias=None, rounding="nearest"):
    """The rule of `stridedgpu.values.conversion`, channel by channel; `pixels` have their channels first."""
    wide = {"float64", "int32", "uint32", "int64", "uint64"} & {pixels.dtype.name, dtype}
    compute = np.float64 if wide else np.float32
    with np.errstate(all="ignore"):
        weights = np.array(matrix, np.float64).astype(compute)
        numbers = pixels.astype(compute)
        made = []
        for row in weights:
            total = numbers[0] * row[0]
            for channel, weight in zip(numbers[1:], row[1:], strict=True):
                total = total + channel * weight
            made.append(np.where(np.isnan(total), compute(np.nan), total))
    mixed = np.stack(made)
    assert mixed.dtype == compute
    # The rest is a conversion like others, of numbers in the type of the arithmetic.
    return sg.relayout(mixed, dims="CHW", dtype=dtype, scale=scale, bias=bias, rounding=rounding, device="cpu")


def same_bits(left, right):
    bits = f"uint{8 * left.itemsize}"
    return np.array_equal(left.reinterpret(bits).numpy(), right.reinterpret(bits).numpy())


def into(path, source, target, **options):
    """`target`, written by a plan on one of the CPU's ways."""
    with picking_by(path), policy_with(pixels={"shared_bytes": 0, "item_pixels": 40}):
        plan = sg.plan_relayout(source, target, **options)
        plan(source, target)
    return plan


TYPES = (
    *(("uint8", wanted) for wanted in ("uint8", "float16", "float32")),
    ("float16", "bfloat16"),
    ("float32", "int8"),
    ("float32", "float64"),
    ("int16", "uint16"),
    ("int32", "float32"),
)


@cpu_paths
@settings(max_examples=examples(60))
@given(data=st.data())
def test_every_layout_type_and_matrix_has_the_bits_of_arithmetic_in_order(path, data):
    dtype, wanted = data.draw(st.sampled_from(TYPES))
    rows, columns = data.draw(st.sampled_from(((1, 3), (3, 3), (4, 4), (3, 1), (5, 2))))
    height, width = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 70))
    pixels = np.random.default_rng(data.draw(st.integers(0, 2**32))).integers(0, 255, (columns, height, width))
    pixels = pixels.astype(dtype)
    if pixels.dtype.kind == "f":
        pixels[0, 0, 0] = data.draw(st.sampled_from((1.5, np.nan, np.inf, -0.0)))
    matrix = [[data.draw(NUMBERS) for _ in range(columns)] for _ in range(rows)]
    options = {
        "scale": data.draw(st.sampled_from((None, 0.25, 1e39))),
        "bias": data.draw(st.sampled_from((None, -3.5, [float(n) for n in range(rows)]))),
        "rounding": data.draw(st.sampled_from(("nearest", "truncate"))),
    }
    order, orders = data.draw(st.sampled_from(("CHW", "HWC"))), data.draw(st.sampled_from(("CHW", "HWC", "HCW")))
    gap, flips = data.draw(st.integers(0, 3)), data.draw(st.booleans())
    held = sg.empty((columns, height, width + gap), dtype, dims="CHW", layout=order, device="cpu")[..., :width]
    source = held[:, ::-1, ::-1] if flips else held
    source[...] = pixels
    target = sg.empty((rows, height, width + gap), wanted, dims="CHW", layout=orders, device="cpu")
    target.reinterpret(f"uint{8 * target.itemsize}")[...] = 7
    view = target[..., :width]
    into(path, source, view, matrix=matrix, **options)
    assert same_bits(view, by_hand(pixels, matrix, wanted, **options))
    bits = target.reinterpret(f"uint{8 * target.itemsize}").numpy()
    assert (bits[..., width:] == 7).all(), "padding of a view is not written"


@given(arrays(np.uint8, (5, 7, 3)), st.sampled_from((GREY, SEPIA, YCBCR)))
def test_relayout_mixes_channels_in_one_pass(photo, matrix):
    made = sg.relayout(photo, dims="HWC", matrix=matrix, bias=0.5, dtype="float32")
    assert (made.sizes, made.dims) == ((len(matrix), 5, 7), "CHW")
    assert same_bits(made, by_hand(photo.transpose(2, 0, 1), matrix, "float32", bias=0.5))
    assert same_bits(made, sg.asarray(photo, dims="HWC").relayout(matrix=np.array(matrix), bias=0.5, dtype="float32"))


def test_grey_is_within_a_level_of_opencv():
    cv2 = pytest.importorskip("cv2", reason="OpenCV, which is compared, is not installed")
    photo = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    grey = sg.relayout(photo, dims="HWC", matrix=GREY).numpy()[0].astype(int)
    assert np.abs(grey - cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY)).max() <= 1


@cpu_paths
@given(made=surfaces((*YUV, "p010", "rgbx"), most=100), matrix=st.sampled_from((GREY, SEPIA)), data=st.data())
def test_a_frame_is_mixed_as_its_picture(path, made, matrix, data):
    options = {
        "matrix": matrix,
        "dtype": data.draw(st.sampled_from(("uint8", "float16", "float32"))),
        "layout": data.draw(st.sampled_from(("CHW", "HWC"))),
        **data.draw(st.sampled_from(({}, {"scale": 1 / 255}, {"bias": -0.5}))),
    }
    wanted = sg.relayout(sg.relayout(made.frame()), **options)
    with converting_by(path):
        assert same_bits(sg.relayout(made.frame(), **options), wanted)


@cpu_paths
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_each_row_over_a_frame_has_its_scale_and_bias(path, rows):
    frame = sg.Frame.over("nv12", bytes(range(36)), (4, 6))
    options = {"matrix": (SEPIA * 2)[:rows], "dtype": "float32", "scale": range(1, rows + 1), "bias": range(rows)}
    wanted = sg.relayout(sg.relayout(frame), **options)
    with converting_by(path):
        assert same_bits(sg.relayout(frame, **options), wanted)


@cpu_paths
@pytest.mark.parametrize("sizes", [(0, 190), (190, 0)], ids=["no rows", "no columns"])
def test_no_pixels_are_mixed_into_a_target_of_any_strides(path, sizes):
    memory = np.zeros(400, np.float32)
    target = np.lib.stride_tricks.as_strided(memory[200:], (1, *sizes), (832, 768, -4))
    into(path, sg.zeros((3, *sizes), "uint8", dims="CHW", device="cpu"), sg.asarray(target), matrix=GREY)
    assert not memory.any()


@pytest.mark.parametrize(
    "matrix, options, words",
    [
        ([[1, 2]], {}, r"matrix has 1 rows of 2 numbers; the source has 3 channels"),
        ([1, 2, 3], {}, r"matrix=\[1, 2, 3\] must be rows of numbers"),
        ([[1, 2, 3], [1, 2]], {}, r"matrix has rows of \[3, 2\] numbers"),
        ([["a", 2, 3]], {}, r"matrix\[0\]=\['a', 2, 3\] must be a number"),
        (GREY, {"channels": (0,)}, r"channels=\(0,\) and matrix= both choose channels"),
        (GREY, {"layout": "HWC4"}, r"layout='HWC4' fills channels up"),
        (SEPIA, {"bias": [1.0, 2.0]}, r"bias has 2 values for 3 output channels"),
    ],
)
def test_a_matrix_that_does_not_fit_is_refused(matrix, options, words):
    with pytest.raises(sg.LayoutError, match=words):
        sg.relayout(np.zeros((2, 2, 3), np.uint8), dims="HWC", matrix=matrix, **options)


def test_a_matrix_needs_channels_and_real_numbers():
    with pytest.raises(sg.LayoutError, match="matrix= needs a channel axis"):
        sg.relayout(np.zeros((2, 2, 3), np.uint8), matrix=GREY)
    with pytest.raises(sg.StridedGpuError, match="matrix are for real elements"):
        sg.relayout(np.zeros((2, 2, 3), np.complex64), dims="HWC", matrix=GREY)


@needs_library
@pytest.mark.skipif(sys.platform != "linux", reason="pages are fenced off by mprotect")
@pytest.mark.parametrize("missing", [0, 1])
def test_whole_pixels_are_loaded_where_the_last_one_is_whole(missing):
    """Pixels of four bytes, of which three are mixed: behind the last one's three there need not be a fourth."""
    memory = Fenced(4 * 64 - missing, np.random.default_rng(0), at_end=True)
    pixels = np.lib.stride_tricks.as_strided(memory.bytes, (3, 1, 64), (1, 256, 4))
    source = sg.StridedTensor(memory.bytes, sg.Layout((3, 1, 64), (1, 256, 4)), "uint8", dims="CHW")
    target = sg.empty((1, 1, 64), "float32", dims="CHW", device="cpu")
    problem = replace(sg.plan_relayout(source, target, matrix=GREY).plan.problem, source=source.operand.spec)
    assert isinstance(mixing_kernel(problem), str) == bool(missing)
    with picking_by("native, 1 thread"), policy_with(pixels={"shared_bytes": 0, "item_pixels": 40}):
        sg.relayout(source, out=target, matrix=GREY)
    assert same_bits(target, by_hand(pixels, GREY, "float32"))


@needs_library
def test_a_plan_says_what_mixes_the_channels():
    source = sg.empty((3, 64, 64), "uint8", layout="HWC", device="cpu")
    plan = into("native, 1 thread", source, sg.empty((1, 64, 64), "float16", device="cpu"), matrix=GREY)
    assert plan.kernel == "channel_matrix_1x3_uint8x3_float16_planes"
    assert "products and sums in float32, from the first channel to the last" in plan.explain()
    assert plan.bytes_moved == 64 * 64 * 5
    narrow = into("native, 1 thread", source[:, :1, :3], sg.empty((1, 1, 3), "uint8", device="cpu"), matrix=GREY)
    assert narrow.kernel == "numpy_channel_matrix"
    assert "rows of less than 4 pixels are left to NumPy" in narrow.explain()
