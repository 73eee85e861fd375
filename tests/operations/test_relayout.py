"""Relayout on the CPU: equal to NumPy's own assignment, and to exact arithmetic, in every bit of the memory."""

from __future__ import annotations

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.emulator.exact_conversion import INTEGERS, REALS, converted, edge_elements
from harness.guarded_memory import bits_of, guarded, seeds
from harness.profiles import examples
from harness.strategies import element_types, layouts_of, tensor_sizes
from hypothesis import example, given, settings, strategies as st

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.values.dtypes import ELEMENT_TYPES

EDGES = {name: edge_elements(name) for name in REALS}


def word_view(tensor):
    """A tensor's elements as words of their bits."""
    return bits_of(tensor.layout, tensor.itemsize, tensor.buffer.bytes)


# Bits


@st.composite
def pairs_of_layouts(draw, min_rank=0, max_rank=8):
    sizes = draw(tensor_sizes(min_rank, max_rank, least=draw(st.sampled_from((0, 1, 1, 1)))))
    return draw(layouts_of(sizes)), draw(layouts_of(sizes, broadcast=False))


@settings(max_examples=examples(400))
@given(pairs_of_layouts(), element_types(), seeds)
@example((Layout(()), Layout(())), ELEMENT_TYPES["float32"], 0)
@example((Layout((0, 3)), Layout((0, 3))), ELEMENT_TYPES["uint8"], 0)
def test_moves_bits_as_numpy_does_and_writes_nothing_else(layouts, element, seed):
    source, source_memory = guarded(layouts[0], element, seed)
    out, memory = guarded(layouts[1], element, seed + 1)
    before, expected = source_memory.copy(), memory.copy()
    bits_of(out.layout, out.itemsize, expected)[...] = bits_of(source.layout, source.itemsize, source_memory)
    assert sg.relayout(source, out=out) is out
    assert memory.tobytes() == expected.tobytes()
    assert source_memory.tobytes() == before.tobytes()


@given(pairs_of_layouts(), element_types(), seeds)
def test_new_memory_is_packed_or_as_asked(layouts, element, seed):
    source, _ = guarded(layouts[0], element, seed)
    packed = source.relayout()
    assert (packed.sizes, packed.strides) == (source.sizes, sg.packed_strides(source.sizes))
    placed = source.relayout(layout=layouts[1])
    assert placed.layout == layouts[1]
    for result in (packed, placed):
        assert result.element == element
        assert word_view(result).tobytes() == word_view(source).tobytes()
        assert result.operand.owns_padding


def test_an_exact_layout_that_runs_backwards_from_0_has_its_memory_before_it():
    source = sg.asarray(np.arange(3, dtype=np.int32))
    placed = source.relayout(layout=Layout((3,), (-1,)))
    assert placed.layout == Layout((3,), (-1,), 2)
    assert placed.numpy().tolist() == [0, 1, 2]


@given(pairs_of_layouts(1, 4), st.sampled_from(["uint8", "float32"]), st.data())
def test_subviews_of_one_memory_do_not_disturb_each_other(layouts, name, data):
    """Every other element of an axis is written from the elements between them."""
    whole, memory = guarded(layouts[1], name, data.draw(seeds))
    axis = data.draw(st.integers(0, whole.ndim - 1))
    count = whole.sizes[axis] // 2
    front = (slice(None),) * axis
    even, odd = whole[(*front, slice(0, 2 * count, 2))], whole[(*front, slice(1, 2 * count, 2))]
    expected = memory.copy()
    words = bits_of(whole.layout, whole.itemsize, expected)
    words[(*front, slice(0, 2 * count, 2))] = words[(*front, slice(1, 2 * count, 2))]
    sg.relayout(odd, out=even)
    assert memory.tobytes() == expected.tobytes()


@pytest.mark.parametrize("order", ["NCHW", "NHWC", "CHWN", "HWCN", "WHCN", "NHCW"])
@pytest.mark.parametrize("given_order", ["NCHW", "NHWC", "CHWN"])
def test_orders_by_letters(given_order, order):
    frames = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 5), np.uint8)
    tensor = sg.asarray(frames, dims=given_order)
    made = tensor.relayout(layout=order)
    assert (made.sizes, made.dims) == (tensor.sizes, "NCHW")
    assert made.strides == sg.calculate_strides(order, tensor.sizes)
    in_memory = made.permute(order).numpy()
    assert in_memory.flags.c_contiguous
    assert np.array_equal(in_memory, frames.transpose([given_order.index(letter) for letter in order]))


def test_row_pitch_and_alignment():
    frame = np.arange(2 * 3 * 5 * 7, dtype=np.uint16).reshape(2, 3, 5, 7)
    made = sg.asarray(frame, dims="NCHW").relayout(layout="NHWC", row_pitch_bytes=64, alignment=256)
    assert made.strides == (5 * 32, 1, 32, 3)
    assert made.alignment == 256
    assert made.buffer.address % 256 == 0
    assert np.array_equal(made.numpy(), frame)
    assert made.relayout(row_pitch_bytes=16).strides == (3 * 5 * 8, 5 * 8, 8, 1)


# Numbers


def converted_tensor(source, target, channel_axis, channels, scale, bias, rounding):
    """The words that a conversion makes of a tensor, channel by channel with exact arithmetic."""
    words = word_view(source)
    if channel_axis is None:
        made = converted(source.element.name, target, words.reshape(-1), scale, bias, rounding)
        return made.reshape(words.shape)
    count = words.shape[channel_axis]
    parts = []
    for place, channel in enumerate(range(count) if channels is None else channels):
        part = np.take(words, channel, axis=channel_axis)
        constants = [v if v is None or isinstance(v, float) else v[place] for v in (scale, bias)]
        made = converted(source.element.name, target, part.reshape(-1), *constants, rounding)
        parts.append(made.reshape(part.shape))
    return np.stack(parts, axis=channel_axis)


def constants_of(count):
    """No scale (or bias), one, or one for each channel."""
    number = st.sampled_from([1.0, -1.0, 0.0, -0.0, 1 / 255, 0.5, 255.0, 2.0**-130, 3e38, float("inf"), float("nan")])
    if count == 0:
        return st.none() | number
    return st.none() | number | st.lists(number, min_size=count, max_size=count)


@st.composite
def channel_tables(draw, count):
    """No table, and tables that are affine, permuted, repeated, and subsets of the channels."""
    if count == 0 or draw(st.booleans()):
        return None
    if draw(st.booleans()):
        step = draw(st.sampled_from((-3, -2, -1, 1, 2)))
        return tuple(range(count))[::step]
    return tuple(draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=count + 3)))


@st.composite
def conversions(draw):
    """Source and target layouts with a channel axis anywhere in memory, and what happens to the channels."""
    sizes = list(draw(tensor_sizes(3, 3, least=draw(st.sampled_from((0, 1, 1, 1, 1))), max_elements=40)))
    sizes[0] = draw(st.integers(1, 4) | st.integers(15, 20))
    channels = draw(channel_tables(sizes[0]))
    out_count = sizes[0] if channels is None else len(channels)
    if draw(st.booleans()):  # a batch axis in front
        sizes.insert(0, draw(st.integers(1, 2)))
    axis = len(sizes) - 3
    wanted = (*sizes[:axis], out_count, *sizes[axis + 1 :])
    return (
        draw(layouts_of(tuple(sizes))),
        draw(layouts_of(wanted, broadcast=False)),
        channels,
        draw(constants_of(out_count)),
        draw(constants_of(out_count)),
    )


@settings(max_examples=examples(500))
@given(conversions(), st.sampled_from(REALS), st.sampled_from(REALS), st.sampled_from(["nearest", "truncate"]), seeds)
def test_conversions_are_exact_for_any_layouts_and_channels(case, source_type, target_type, rounding, seed):
    source_layout, out_layout, channels, scale, bias = case
    source, _ = guarded(source_layout, source_type, seed, EDGES[source_type])
    out, memory = guarded(out_layout, target_type, seed + 1)
    dims = "NCHW"[4 - source.ndim :]
    source = sg.StridedTensor(source.buffer, source.layout, source_type, dims=dims)
    expected = memory.copy()
    axis = source.ndim - 3
    made = converted_tensor(source, target_type, axis, channels, scale, bias, rounding)
    bits_of(out.layout, out.itemsize, expected)[...] = made
    sg.relayout(source, scale=scale, bias=bias, channels=channels, rounding=rounding, out=out)
    assert memory.tobytes() == expected.tobytes()


@given(pairs_of_layouts(), st.sampled_from(REALS), st.sampled_from(REALS), constants_of(0), constants_of(0), seeds)
@example((Layout(()), Layout(())), "float32", "uint8", 2.0, None, 0)
@example((Layout((1, 1)), Layout((1, 1))), "float64", "bfloat16", None, 0.5, 0)
def test_conversions_of_plain_axes_of_any_rank(layouts, source_type, target_type, scale, bias, seed):
    source, _ = guarded(layouts[0], source_type, seed, EDGES[source_type])
    made = source.relayout(layout=layouts[1], dtype=target_type, scale=scale, bias=bias)
    expected = converted_tensor(source, target_type, None, None, scale, bias, "nearest")
    assert word_view(made).tobytes() == expected.tobytes()


@pytest.mark.parametrize("target_type", [*REALS, "complex64"])
@pytest.mark.parametrize("source_type", REALS)
def test_every_pair_of_types_through_a_transpose(source_type, target_type):
    words = EDGES[source_type]
    words = words[: len(words) // 4 * 4].reshape(-1, 4)
    source = sg.StridedTensor(words, Layout(words.shape), source_type).permute((1, 0))
    made = source.relayout(dtype=target_type)
    if target_type == "complex64":
        expected = converted(source_type, "float32", words.T.reshape(-1))
        assert made.numpy().real.tobytes() == expected.tobytes()
        assert not made.numpy().imag.any()
    else:
        assert word_view(made).tobytes() == converted(source_type, target_type, words.T.reshape(-1)).tobytes()


@pytest.mark.parametrize("channel_axis", ["innermost", "outermost", "between"])
@pytest.mark.parametrize("flipped", ["neither flipped", "source flipped", "out flipped", "both flipped"])
@pytest.mark.parametrize("count", [1, 3, 16, 17, 40])
@pytest.mark.parametrize("table", ["all", "reversed", "every other", "shuffled", "repeated", "one"])
def test_channels_wherever_their_axis_lies(channel_axis, flipped, count, table):
    channels = {
        "all": None,
        "reversed": range(count)[::-1],
        "every other": range(0, count, 2),
        "shuffled": np.random.default_rng(1).permutation(count).tolist(),
        "repeated": [0, count - 1, count - 1, count // 2, 0],
        "one": [count - 1],
    }[table]
    out_count = count if channels is None else len(channels)
    order = {"innermost": "HWC", "outermost": "CHW", "between": "HCW"}[channel_axis]
    rng = np.random.default_rng(2)
    numbers = rng.integers(0, 256, (count, 4, 5), np.uint8)
    source = sg.asarray(np.ascontiguousarray(numbers.transpose(["CHW".index(x) for x in order])), dims=order)
    out = sg.empty((out_count, 4, 5), "float32", layout=order, dims="CHW")
    if flipped in ("source flipped", "both flipped"):
        source, numbers = source[::-1], numbers[::-1]
    if flipped in ("out flipped", "both flipped"):
        out = out[::-1]
    scale, bias = rng.normal(size=(2, out_count)).astype(np.float32)
    sg.relayout(source, channels=channels, scale=scale.tolist(), bias=bias.tolist(), out=out)
    picked = numbers[slice(None) if channels is None else list(channels)].astype(np.float32)
    expected = picked * scale[:, None, None] + bias[:, None, None]
    assert out.numpy().tobytes() == expected.tobytes()


def test_a_single_channel_is_repeated_whatever_its_stride():
    source = sg.StridedTensor(bytes([7]), Layout((1,), (2**62,)), "uint8", dims="C")
    assert source.relayout(channels=(0, 0, 0), dtype="int16").numpy().tolist() == [7, 7, 7]


@pytest.mark.parametrize("orders", [("HWC", "HWC"), ("HWC", "CHW"), ("CHW", "HWC"), ("CHW", "CHW")], ids="-".join)
@pytest.mark.parametrize("count", [3, 16, 17, 40])
def test_channels_in_another_order_move_as_bits(orders, count):
    numbers = np.random.default_rng(3).integers(0, 2**16, (count, 4, 5), np.uint16)
    source = sg.asarray(numbers).relayout(layout=orders[0])
    order = np.random.default_rng(4).permutation(count)
    made = source.relayout(layout=orders[1], channels=order.tolist())
    assert made.strides == sg.calculate_strides(orders[1], made.sizes)
    assert np.array_equal(made.numpy(), numbers[order])


@given(
    st.sampled_from([name for name in REALS if name not in ("bool", "bfloat16")]),
    st.sampled_from([name for name in REALS if name not in ("bool", "bfloat16")]),
    pairs_of_layouts(),
    seeds,
)
def test_agrees_with_astype_on_small_whole_numbers(source_type, target_type, layouts, seed):
    source, memory = guarded(layouts[0], source_type, seed)
    count = memory.size // source.itemsize
    memory[:] = np.random.default_rng(seed).integers(0, 128, count).astype(source_type).view(np.uint8)
    made = source.relayout(layout=layouts[1], dtype=target_type)
    assert made.numpy().tobytes() == source.numpy().astype(target_type).tobytes()


@pytest.mark.parametrize("value", [0.5, 1.5, 2.5, -0.5, -1.5, 1e30, -1e30, float("nan"), float("inf"), 254.5, 255.5])
@pytest.mark.parametrize("target", INTEGERS)
def test_rounding_half_to_even_and_saturating(target, value):
    limits = np.iinfo(target)
    exact = 0 if np.isnan(value) else min(max(value, limits.min), limits.max)
    tensor = sg.asarray(np.float64(value))
    assert int(tensor.relayout(dtype=target).numpy()) == round(exact)
    assert int(tensor.relayout(dtype=target, rounding="truncate").numpy()) == int(exact)


NANS = {"float32": (0x7F800001, 0xFF800001, 0x7FC00000, 0xFFFFFFFF), "float64": (0x7FF << 52 | 1, 0xFFF << 52 | 1)}
"""Signalling and quiet, of both signs, as bits."""


@cpu_paths
@pytest.mark.parametrize("rounding", ["nearest", "truncate"])
@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", NANS)
def test_every_nan_becomes_0(source, target, rounding, path):
    """AArch64 has an instruction whose larger of a number and a NaN is the number, unless the NaN is signalling."""
    words = np.resize(np.array(NANS[source], f"uint{8 * ELEMENT_TYPES[source].itemsize}"), 37)
    with picking_by(path):
        assert not sg.relayout(sg.asarray(words.view(source)), dtype=target, rounding=rounding).numpy().any()


def test_product_and_sum_are_rounded_separately():
    x, scale, bias = np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(-1)
    fused = np.float32(np.float64(x) * np.float64(scale) + np.float64(bias))
    made = sg.asarray(x).relayout(scale=scale, bias=bias).numpy()
    assert made == x * scale + bias
    assert made != fused


def test_constants_beyond_float32_are_infinite_there():
    small, wide = (sg.asarray(np.array([0, 1], dtype)) for dtype in ("uint8", "int32"))
    scaled = small.relayout(dtype="float32", scale=1e300).numpy().view(np.uint32)
    assert [hex(bits) for bits in scaled] == ["0x7fc00000", "0x7f800000"]  # 0 * infinity is the positive quiet NaN
    assert small.relayout(dtype="float32", bias=-1e300).numpy().tolist() == [-np.inf, -np.inf]
    assert wide.relayout(dtype="float64", scale=1e300).numpy().tolist() == [0, 1e300]


def test_constants_may_be_arrays():
    frames = sg.asarray(np.arange(24, dtype=np.uint8).reshape(1, 2, 4, 3), dims="NHWC")
    scale, channels = np.array([0.5, 0.25, 2.0]), np.array([2, 1, 0])
    made = frames.relayout(dtype="float32", scale=scale, bias=np.float32(1), channels=channels)
    again = frames.relayout(dtype="float32", scale=scale.tolist(), bias=1, channels=(2, 1, 0))
    assert made.numpy().tobytes() == again.numpy().tobytes()


def test_wide_integers_are_scaled_in_double():
    made = sg.asarray(np.int32(2**24 + 1)).relayout(scale=2.0, dtype="int64")
    assert int(made.numpy()) == 2 * (2**24 + 1)


@pytest.mark.parametrize("target", ["uint8", "float16", "int64", "complex64"])
def test_bool_becomes_zero_and_one(target):
    tensor = sg.StridedTensor(bytes([0, 1, 2, 0x80]), Layout((4,)), "bool")
    assert tensor.relayout(dtype=target).numpy().tolist() == [0, 1, 1, 1]


# Assignment


@given(pairs_of_layouts(), element_types("buif"), element_types("buif"), seeds)
def test_assignment_writes_the_elements_and_nothing_else(layouts, source_type, target_type, seed):
    words = EDGES.get(source_type.name)
    source, _ = guarded(layouts[0], source_type, seed, words)
    out, memory = guarded(layouts[1], target_type, seed + 1)
    expected = memory.copy()
    made = converted_tensor(source, target_type.name, None, None, None, None, "nearest")
    bits_of(out.layout, out.itemsize, expected)[...] = made
    out[...] = source
    assert memory.tobytes() == expected.tobytes()


def test_assignment_broadcasts_and_converts():
    tensor = sg.zeros((2, 3, 4), "float32")
    expected = np.zeros((2, 3, 4), np.float32)
    for index, value in [
        ((0,), 7),
        ((slice(None), 1), np.arange(4, dtype=np.uint8)),
        ((1, slice(None, None, -2), slice(1, 3)), [[1.5], [2.5]]),
        ((Ellipsis, -1), True),
        ((), 0.25),
        ((1, 2, 3), np.int64(9)),
    ]:
        tensor[index] = value
        expected[index] = value
        assert np.array_equal(tensor.numpy(), expected)


def test_assigning_a_float_to_integers_rounds_and_saturates():
    tensor = sg.zeros((3,), "uint8")
    tensor[:] = [0.5, 1.5, 300.0]
    assert tensor.numpy().tolist() == [0, 2, 255]
    tensor[0] = -5.0
    assert tensor.numpy().tolist() == [0, 2, 255]


# Labels


def test_a_tensor_keeps_its_labels_and_gains_those_of_the_order():
    plain = sg.zeros((2, 3, 4), "uint8")
    assert plain.dims is None
    assert plain.relayout().dims is None
    assert plain.relayout(layout="HWC").dims == "CHW"
    assert sg.asarray(np.zeros((4, 5, 3), np.uint8), dims="HWC").relayout().dims == "CHW"


def test_results_can_be_chained():
    frames = np.random.default_rng(3).integers(0, 256, (2, 6, 7, 3), np.uint8)
    tensor = sg.asarray(frames, dims="NHWC")
    there = tensor.relayout(layout="CHWN", dtype="float16", channels=(2, 1, 0), row_pitch_bytes=64)
    back = there[..., ::-1].relayout(layout="NHWC", dtype="uint8", channels=(2, 1, 0))
    assert np.array_equal(back.permute("NHWC").numpy(), frames[:, :, ::-1])


def test_a_source_may_be_anything_array_like():
    assert sg.relayout([[1, 2], [3, 4]], dtype="uint8").numpy().tolist() == [[1, 2], [3, 4]]
    assert sg.relayout(np.eye(3)[:, ::-1]).strides == (3, 1)


@pytest.mark.parametrize("layout", ["CHW", "HWC"])
def test_an_order_beside_an_array_without_names_is_refused(layout):
    frame = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    with pytest.raises(sg.LayoutError, match=rf"layout='{layout}' orders axes.*\(4, 5, 3\) are: give dims= too.*'HWC'"):
        sg.relayout(frame, layout=layout)
    planes = sg.relayout(frame, dims="HWC", layout="CHW")
    assert planes.dims == "CHW"
    assert np.array_equal(planes.numpy(), frame.transpose(2, 0, 1))
    assert sg.relayout(frame).sizes == frame.shape  # without an order nothing is said of axes
