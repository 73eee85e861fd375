"""Batched crops on the CPU, to the bit, against a loop over pixels; and their plans."""

from __future__ import annotations

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.guarded_memory import assert_written, bits_of, guarded, seeds
from harness.native_loops import needs_library
from harness.plans import chosen_crops
from harness.strategies import layouts_of
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu import BindingError, LayoutError
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.tensor_spec import TensorSpec

PAIRS = (
    ("uint8", "uint8"),
    ("uint8", "float32"),
    ("uint8", "float16"),
    ("uint8", "bfloat16"),
    ("float32", "float32"),
    ("float32", "uint8"),
    ("uint16", "int8"),
    ("complex64", "complex64"),
    ("float8_e4m3fn", "float8_e4m3fn"),
)


def cropped(images, origins, size, flips, fill, channels):
    """Every pixel of every window, one after another, as bits."""
    height, width = size
    count = len(images[0]) if channels is None else len(channels)
    batch = np.empty((len(images), count, height, width), images[0].dtype)
    for n, c, i, j in np.ndindex(batch.shape):
        image, (y, x) = images[n], origins[n]
        row, column = y + i, x + (width - 1 - j if flips[n] else j)
        channel = c if channels is None else channels[c]
        inside = 0 <= row < image.shape[1] and 0 <= column < image.shape[2]
        batch[n, c, i, j] = image[channel, row, column] if inside else fill[channel]
    return batch


@st.composite
def crops(draw):
    source, target = draw(st.sampled_from(PAIRS))
    count, channel_count = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    as_batch = draw(st.booleans())
    common = (draw(st.integers(1, 6)), draw(st.integers(1, 6)))
    if as_batch:
        data, memory = guarded(draw(layouts_of((count, channel_count, *common))), source, draw(seeds))
        sources, images = data, list(bits_of(data.layout, data.itemsize, memory))
    else:
        pairs = [
            guarded(
                draw(layouts_of((channel_count, draw(st.integers(1, 6)), draw(st.integers(1, 6))))),
                source,
                draw(seeds),
            )
            for _ in range(count)
        ]
        sources = [tensor for tensor, _ in pairs]
        images = [bits_of(tensor.layout, tensor.itemsize, memory) for tensor, memory in pairs]
    size = (draw(st.integers(0, 7)), draw(st.integers(0, 7)))
    origins = [(draw(st.integers(-8, 8)), draw(st.integers(-8, 8))) for _ in range(count)]
    flips = [draw(st.booleans()) for _ in range(count)]
    channels = draw(st.none() | st.lists(st.integers(0, channel_count - 1), min_size=1, max_size=5))
    outputs = channel_count if channels is None else len(channels)
    arithmetic = {}
    if target in ("float32", "float16", "bfloat16", "int8", "uint8") and source != "complex64":
        if draw(st.booleans()):
            arithmetic["scale"] = draw(st.sampled_from((1 / 255, [0.5 + c for c in range(outputs)])))
        if draw(st.booleans()):
            arithmetic["bias"] = draw(st.sampled_from((-0.25, [-1.0 * c for c in range(outputs)])))
    fill = 0 if source.startswith("float8") else draw(st.sampled_from((0, 7, list(range(1, channel_count + 1)))))
    return sources, images, source, target, origins, size, flips, channels, fill, arithmetic, outputs


def expected_of(images, source, target, origins, size, flips, channels, fill, arithmetic):
    """The windows by the plain loop, converted by relayout, whose every bit has tests of its own."""
    count = images[0].shape[0]
    values = fill if isinstance(fill, list) else [fill] * count
    colors = sg.zeros((count,), source, device="cpu")
    for c, value in enumerate(values):
        if value:
            colors[c] = value
    words = bits_of(colors.layout, colors.itemsize, colors.buffer.bytes)
    plain = cropped(images, origins, size, flips, words, channels)
    tensor = sg.StridedTensor(plain.copy(), sg.Layout(plain.shape), source, dims="NCHW")
    return sg.relayout(tensor, dtype=target, **arithmetic)


@cpu_paths
@given(case=crops(), data=st.data())
def test_crops_are_the_plain_loop_in_bits_for_every_layout(path, case, data):
    sources, images, source, target, origins, size, flips, channels, fill, arithmetic, outputs = case
    expected = expected_of(images, source, target, origins, size, flips, channels, fill, arithmetic)
    words = bits_of(expected.layout, expected.itemsize, expected.buffer.bytes)
    keywords = {"flip": flips, "channels": channels, "fill": fill, **arithmetic}
    out, memory = guarded(data.draw(layouts_of(expected.sizes, broadcast=False)), target, data.draw(seeds))
    before = memory.copy()
    with picking_by(path):
        assert sg.gather_crops(sources, origins, size, out=out, **keywords) is out
    assert_written(out, memory, before, words, expected.itemsize)
    layout = data.draw(st.sampled_from((None, "NHWC", "NCHW", "CHWN", "NHWC8")))
    with picking_by(path):
        made = sg.gather_crops(sources, np.array(origins), size, dtype=target, layout=layout, **keywords)
    assert (made.sizes, made.dims) == ((len(images), outputs, *size), "NCHW")
    assert np.array_equal(bits_of(made.layout, made.itemsize, made.buffer.bytes), words)


@needs_library
@pytest.mark.parametrize("sources", ["a batch", "a list"])
@pytest.mark.parametrize("size", [(5, 4), (9, 3), (3, 11)])
@given(seed=seeds)
def test_a_batch_of_windows_all_around_its_images_is_the_one_that_numpy_makes(sources, size, seed):
    """Windows of every kind: inside, over each edge and corner, as large as an image and larger, and far away."""
    chance = np.random.default_rng(seed)
    images = chance.integers(0, 256, (40, 7, 8, 3), np.uint8)
    origins = chance.integers(-12, 12, (40, 2))
    origins[:3] = (-(2**63), 0), (2**63 - 1, -(2**63)), (0, 2**62)
    flips = chance.choice((False, False, True), 40).tolist() if seed % 3 else None
    given = images if sources == "a batch" else list(images)
    rows, columns = size
    padded = np.pad(images, ((0, 0), (20, 40), (20, 40), (0, 0)), constant_values=9)
    with picking_by("native, 2 threads"):
        windows = sg.gather_crops(
            given, origins, size, dims="HWC" if sources == "a list" else "NHWC", flip=flips, fill=9
        )
    for number, (y, x) in enumerate(np.clip(origins, -12, 20).tolist()):
        window = padded[number, y + 20 : y + 20 + rows, x + 20 : x + 20 + columns]
        window = window[:, ::-1] if flips and flips[number] else window
        assert np.array_equal(windows.numpy()[number], window.transpose(2, 0, 1)), number


@given(crops(), st.sampled_from((2, 3, 4)))
def test_channel_blocked_crops_are_those_of_relayout(case, multiple):
    sources, _, _, target, origins, size, flips, channels, fill, arithmetic, _ = case
    keywords = {"dtype": target, "flip": flips, "channels": channels, "fill": fill, **arithmetic}
    plain = sg.gather_crops(sources, origins, size, **keywords)
    for order in (f"NCHW{multiple}", f"NHWC{multiple}"):
        wanted = plain.relayout(layout=order)
        made = sg.gather_crops(sources, origins, size, layout=order, **keywords)
        assert (made.sizes, made.strides) == (wanted.sizes, wanted.strides)
        stored = wanted.layout
        if order.startswith("NHWC"):  # the fillers behind each pixel's channels, too
            filled = -(-wanted.sizes[1] // multiple) * multiple
            stored = sg.Layout((wanted.sizes[0], filled, *size), wanted.strides)
        bits = [bits_of(stored, made.itemsize, tensor.buffer.bytes) for tensor in (made, wanted)]
        assert np.array_equal(*bits)


def test_photographs_with_pitched_rows_and_a_normalised_black_border():
    rng = np.random.default_rng(4)
    photos = [rng.integers(0, 256, (h, w + 5, 3), np.uint8)[:, :w] for h, w in ((40, 60), (33, 47))]
    mean, std = np.float32(0.5), np.float32(0.25)
    batch = sg.gather_crops(
        photos, [[30, 50], [-1, 0]], (12, 16), dims="HWC", dtype="float32", scale=1 / (255 * 0.25), bias=-2.0
    )
    assert batch.numpy()[0, 0, 11, 15] == -mean / std
    expected = photos[1][5, 7].astype(np.float32) * np.float32(1 / (255 * 0.25)) + np.float32(-2)
    assert np.array_equal(batch.numpy()[1, :, 6, 7], expected)


@cpu_paths
@pytest.mark.parametrize("dtype", ["uint8", "float16"])
def test_windows_over_both_edges_with_parts_equally_wide_and_mirrored_ones_in_one_batch(path, dtype):
    photo = np.random.default_rng(5).integers(0, 256, (3, 20, 30), np.uint8)
    origins = [(4, -3), (4, 25), (4, -3), (4, 25), (4, 5), (4, 5)]  # 5 columns inside on the left, and on the right
    flips = [False, False, True, True, True, False]
    padded = np.pad(photo, ((0, 0), (8, 8), (8, 8)))
    with picking_by(path):
        batch = sg.gather_crops([photo] * 6, origins, (6, 8), dims="CHW", flip=flips, dtype=dtype)
    for window, (top, left), flip in zip(batch.numpy(), origins, flips, strict=True):
        expected = padded[:, top + 8 : top + 14, left + 8 : left + 16].astype(dtype)
        assert np.array_equal(window, expected[..., ::-1] if flip else expected)


def test_an_empty_batch_and_empty_windows():
    none = sg.zeros((0, 3, 5, 5), "uint8", device="cpu")
    assert sg.gather_crops(none, [], (2, 2)).sizes == (0, 3, 2, 2)
    assert sg.gather_crops(none, np.zeros((0, 2), np.int32), (2, 2), dtype="float16").dtype == np.float16
    assert sg.gather_crops(np.zeros((1, 3, 0, 4), np.uint8), [[0, 0]], (1, 2), fill=9).numpy().tolist() == [
        [[[9, 9]]] * 3
    ]


def test_origins_of_every_integer_type_and_enormous_ones():
    image = np.arange(12, dtype=np.uint8).reshape(1, 1, 3, 4)
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        origins = np.array([[1, 9, 2]], dtype)[:, ::2]
        assert sg.gather_crops(image, origins, (1, 2)).numpy().tolist() == [[[[6, 7]]]]
    for far in (2**63 - 1, -(2**63)):
        assert sg.gather_crops(image, [[far, 0]], (2, 1), fill=5).numpy().tolist() == [[[[5], [5]]]]
    assert sg.gather_crops(image, np.array([[0, 2**64 - 1]], np.uint64), (1, 1), fill=5).numpy().tolist() == [[[[5]]]]


@pytest.mark.parametrize("begin", [0, 1, 191, 192, 383, 384, 575])
def test_an_out_within_any_of_the_listed_images_is_refused(begin):
    """Three images of one layout behind each other; `out` lies where one of them, and no other, has its bytes."""
    memory = np.zeros(576 + 24, np.uint8)
    images = [memory[192 * number : 192 * (number + 1)].reshape(8, 8, 3) for number in range(3)]
    out = sg.frombuffer(memory[begin : begin + 18], (3, 3, 1, 2), "uint8")
    with pytest.raises(BindingError, match=rf"out shares memory with sources\[{begin // 192}\]"):
        sg.gather_crops(images, [(0, 0)] * 3, (1, 2), dims="HWC", out=out)
    sg.gather_crops(images, [(0, 0)] * 3, (1, 2), dims="HWC", out=sg.frombuffer(memory[576:594], (3, 3, 1, 2), "uint8"))


# Plans


def crop_plan(layout, source_steps, source="uint8", target="uint8", alignment=32, **arithmetic):
    made = conversion(element_type(source), element_type(target), source_channels=layout.sizes[1], **arithmetic)
    return chosen_crops(TensorSpec(layout, made.target, alignment), source_steps, made, bytes(8))


@pytest.mark.parametrize(
    "order, size, source_steps, types, widths",
    [
        ("NCHW", (224, 224), (1, 3), ("uint8", "float32"), (1, 16)),
        ("NCHW", (224, 224), (50176, 1), ("uint8", "float32"), (4, 16)),
        ("NCHW", (224, 224), (50176, 1), ("float32", "float32"), (16, 16)),
        ("NCHW", (224, 224), (50176, 1), ("float32", "float16"), (16, 16)),
        ("NHWC", (224, 224), (1, 3), ("uint8", "uint8"), (16, 16)),
        ("NHWC", (224, 224), (0, 0), ("uint8", "uint8"), (1, 16)),
        ("NCHW", (224, 225), (1, 3), ("uint8", "float16"), (1, 2)),
        ("NCHW", (5, 6), (1, 3), ("uint8", "float32"), (1, 8)),
        ("CHWN", (8, 8), (1, 3), ("uint8", "float32"), (1, 4)),
    ],
)
def test_widths_of_plans(order, size, source_steps, types, widths):
    sizes = (4, 3, *size)
    plan = crop_plan(sg.Layout(sizes, sg.packed_strides(sizes, order)), source_steps, *types)
    assert (plan.load.nbytes, plan.store.nbytes) == widths
    assert min(plan.load.nbytes, plan.store.nbytes) == min(widths)
    assert f"{plan.problem.bytes_moved} bytes must move" in " ".join(plan.describe())


def test_boxes_are_resized_by_pillows_bilinear_filter_unless_another_is_named():
    image, boxes = np.random.default_rng(0).integers(0, 256, (12, 14, 3), np.uint8), [(1, 2, 10, 11)]

    def resized(**options):
        return sg.gather_crops([image], size=(4, 5), boxes=boxes, dims="HWC", **options).numpy().tolist()

    named = {name: resized(interpolation=name) for name in ("pillow-bilinear", "opencv-linear", "pillow-nearest")}
    assert resized() == resized(interpolation=None) == named["pillow-bilinear"]
    assert len(set(map(str, named.values()))) == 3


@needs_library
def test_a_plan_that_ran_before_refuses_a_tensor_without_axes():
    batch, out = sg.zeros((2, 3, 8, 8), "uint8", device="cpu"), sg.zeros((2, 3, 4, 4), "uint8", device="cpu")
    plan, origins = sg.plan_gather_crops(batch, (4, 4), out=out), np.zeros((2, 2), np.int64)
    sg.warmup(plan, batch, origins, out)
    plan(batch, origins, out)
    assert plan.direct is not None
    with pytest.raises(LayoutError, match="a batch has the axes N, C, H, W"):
        plan(sg.zeros((), "uint8", device="cpu"), origins, out)


@pytest.mark.parametrize("fill", [114, 114.0, np.float32(114), np.uint8(114), np.int64(114), [114.0, 114, 114]])
def test_a_fill_of_integers_is_a_whole_number_of_any_type(fill):
    window = sg.gather_crops([np.zeros((2, 2, 3), np.uint8)], [[0, 0]], (4, 4), dims="HWC", fill=fill).numpy()
    assert (window[0, :, 2:] == 114).all()


@pytest.mark.parametrize("fill", [114.5, np.float32(0.25), [1, 2.5, 3], float("inf")])
def test_a_fill_of_integers_that_is_none_is_refused(fill):
    with pytest.raises(sg.StridedGpuError, match="fill="):
        sg.gather_crops([np.zeros((2, 2, 3), np.uint8)], [[0, 0]], (4, 4), dims="HWC", fill=fill)
