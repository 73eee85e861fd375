"""Resizes of the native library have the bits of NumPy's, on one thread and on several."""

from __future__ import annotations

import ctypes
import threading
import weakref
from contextvars import copy_context
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from harness.cpu_paths import picking_by
from harness.fenced_memory import Fenced
from harness.native_loops import each_class, needs_library, policy_for
from harness.profiles import examples
from harness.resize_cases import Array, Resize, pictures, resizes
from hypothesis import example, given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.devices.cpu.native import resize as native_resize
from stridedgpu.devices.cpu.native.resize_kernels import BAND_ROWS, ENTRY_FIELDS, ROWS
from stridedgpu.devices.cpu.policy import policy, using
from stridedgpu.devices.cpu.target import Target
from stridedgpu.devices.interface import EvenlyLocated
from stridedgpu.devices.selection import device_named
from stridedgpu.problems.resize_problem import ResizeProblem, ResizeRule, ResizeWindow
from stridedgpu.values.bounded_cache import GENERATION
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.interpolation import INTERPOLATIONS as RULES, interpolation_named
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

pytestmark = needs_library

PILLOW = ("pillow-box", "pillow-bilinear", "pillow-hamming", "pillow-bicubic", "pillow-lanczos")

INTERPOLATIONS = (
    *PILLOW,
    "pillow-nearest",
    "opencv-linear",
    "opencv-area",
    "opencv-linear-exact",
    "opencv-cubic",
    "opencv-nearest",
    "torch-bilinear",
    "torch-bicubic",
    "torch-lanczos",
)


def resizes_type(interpolation: str, element: str) -> bool:
    """Whether the rule's library resizes this type."""
    rule = interpolation_named(interpolation)
    return rule.is_nearest or element in rule.arithmetic_of


def on(path: str, case: Resize, source: Array, **arguments: Any) -> Array:
    """A resize on one of the CPU's paths; bfloat16, which NumPy has from ml_dtypes alone, as its bits."""
    with picking_by(path):
        made = sg.resize(source, case.target, box=case.box, **arguments)
    return (made.reinterpret(dtype="uint16") if arguments.get("dtype") == "bfloat16" else made).numpy()


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@settings(max_examples=examples(100))
@given(
    case=resizes(200),
    dtype=st.sampled_from([None, "float32", "float16", "bfloat16"]),
    layout=st.sampled_from(["CHW", "HWC"]),
    swaps=st.booleans(),
)
def test_every_execution_has_the_same_bits(
    interpolation: str, case: Resize, dtype: str | None, layout: str, swaps: bool
) -> None:
    """NumPy, one thread and two, from every layout of memory."""
    channels = tuple(range(case.channels))[::-1] if swaps else None
    arguments = {"interpolation": interpolation, "dtype": dtype, "layout": layout, "channels": channels}
    if dtype is not None:
        arguments |= {"scale": 1 / 255, "bias": -0.5}
    picture = case.picture()
    expected = on("NumPy", case, picture, dims="HWC", **arguments)
    for number, (source, dims) in enumerate(pictures(picture)):
        path = "native, 1 thread" if number % 2 else "native, 2 threads"
        np.testing.assert_array_equal(on(path, case, source, dims=dims, **arguments), expected)


@pytest.mark.parametrize("interpolation", ["opencv-linear", "opencv-area"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("factor", [2, 3, 4])
def test_means_of_blocks_of_uint16(interpolation: str, channels: int, factor: int) -> None:
    """OpenCV sums them as integers, and rounds those of 2 x 2 otherwise."""
    pixels = np.random.default_rng(factor).integers(0, 1 << 16, (4 * factor, 24 * factor, channels), np.uint16)
    pixels[: 2 * factor] |= 0xFFF8
    made = []
    for path in ("NumPy", "native, 1 thread"):
        with picking_by(path):
            made.append(sg.resize(pixels, (4, 24), dims="HWC", interpolation=interpolation).numpy())
    np.testing.assert_array_equal(*made)


@pytest.mark.parametrize("interpolation", [name for name in INTERPOLATIONS if name != "opencv-linear-exact"])
@settings(max_examples=examples(40))
@given(case=resizes(120), element=st.sampled_from(["uint16", "float32"]), cast=st.booleans())
def test_other_elements(interpolation: str, case: Resize, element: str, cast: bool) -> None:
    """uint16 and float32 in float arithmetic, infinities and NaN among the floats."""
    element = element if resizes_type(interpolation, element) else "float32"
    picture = case.picture(element)
    if element == "float32":
        picture.reshape(-1)[:: max(7, picture.size // 5)] = [np.nan, np.inf, -0.0][case.seed % 3]
    arguments: dict[str, Any] = {"interpolation": interpolation, "dtype": "float16" if cast else None}
    expected = on("NumPy", case, picture, dims="HWC", **arguments)
    for number, (source, dims) in enumerate(pictures(picture)):
        path = "native, 1 thread" if number % 2 else "native, 2 threads"
        made = on(path, case, source, dims=dims, **arguments)
        np.testing.assert_array_equal(made.view(f"u{made.itemsize}"), expected.view(f"u{made.itemsize}"))


@pytest.mark.parametrize("interpolation", PILLOW)
@settings(max_examples=examples(40))
@given(
    case=resizes(150),
    passes=st.sampled_from(["vertical", "pillow-13"]),
    element=st.sampled_from(["uint8", "uint8", "uint16", "float32"]),
    premultiply=st.booleans(),
)
def test_passes_and_alpha(interpolation: str, case: Resize, passes: str, element: str, premultiply: bool) -> None:
    """Rows first, and colours weighted by alpha, of pixels and of planes."""
    premultiply = premultiply and element == "uint8"
    if premultiply:
        case = replace(case, channels=2 + case.channels % 2 * 2)
    picture = case.picture(element)
    if premultiply:
        picture[..., -1].reshape(-1)[::3] = [0, 255, 1][case.seed % 3]
    arguments: dict[str, Any] = {"interpolation": interpolation, "passes": passes, "premultiply": premultiply}
    expected = on("NumPy", case, picture, dims="HWC", **arguments)
    for number, (source, dims) in enumerate(pictures(picture)):
        path = "native, 1 thread" if number % 2 else "native, 2 threads"
        np.testing.assert_array_equal(on(path, case, source, dims=dims, **arguments), expected)


@pytest.mark.parametrize("dtype", ["int8", "bool", "float16", "int32", "float64", "int64", "complex64"])
@pytest.mark.parametrize("interpolation", ["pillow-nearest", "opencv-nearest"])
@settings(max_examples=examples(10))
@given(case=resizes(80))
def test_nearest_moves_elements_of_every_type(interpolation: str, dtype: str, case: Resize) -> None:
    """Bits are copied, those of NaN too."""
    rng = np.random.default_rng(case.seed)
    shape = (*case.source, case.channels, np.dtype(dtype).itemsize)
    bits = rng.integers(0, 2 if dtype == "bool" else 256, shape, np.uint8)
    picture = bits.view(dtype)[..., 0]
    expected = on("NumPy", case, picture, dims="HWC", interpolation=interpolation)
    for source, dims in pictures(picture):
        made = on("native, 2 threads", case, source, dims=dims, interpolation=interpolation)
        assert made.tobytes() == expected.tobytes()


@pytest.mark.parametrize("interpolation", ["opencv-linear", "opencv-area"])
@settings(max_examples=examples(30))
@given(
    size=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    beside=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    channels=st.integers(1, 5),
    flip=st.booleans(),
    seed=st.integers(0, 99),
)
@example(size=(5, 41), beside=(1, 2), channels=3, flip=False, seed=1)
def test_halves(
    interpolation: str, size: tuple[int, int], beside: tuple[int, int], channels: int, flip: bool, seed: int
) -> None:
    """Boxes of exactly twice the size, somewhere in an image, mirrored or not, into a part of a tensor."""
    (height, width), (top, left) = size, beside
    box = (top, left, top + 2 * height, left + 2 * width)
    picture = Resize((box[2] + top, box[3] + left), size, box, channels, seed).picture()
    for source, dims in pictures(picture):
        made = []
        for path in ("NumPy", "native, 1 thread"):
            for order in ("NCHW", "NHWC"):
                sizes = (1, channels, height + 2, width + 2)
                around = sg.full(sizes, 77, "uint8", dims="NCHW", layout=order)
                with picking_by(path):
                    sg.gather_crops(
                        [source],
                        size=size,
                        boxes=[box],
                        dims=dims,
                        interpolation=interpolation,
                        flip=[flip],
                        out=around[:, :, 1:-1, 1:-1],
                    )
                made.append(around.numpy())
        for crops in made:
            np.testing.assert_array_equal(crops, made[0])
        made[0][:, :, 1:-1, 1:-1] = 77
        assert (made[0] == 77).all()


@pytest.mark.parametrize("joined_rows", [0.0, float("inf")], ids=["joined", "apart"])
@settings(max_examples=examples(40))
@given(case=resizes(400), channels=st.sampled_from([1, 1, 2, 3, 4]), layout=st.sampled_from(["CHW", "HWC"]))
def test_passes_joined_and_apart_have_the_same_bits(
    joined_rows: float, case: Resize, channels: int, layout: str
) -> None:
    """At every scale, also where policy takes the other way."""
    case = replace(case, channels=channels)
    arguments = {"interpolation": "opencv-linear", "layout": layout}
    expected = on("NumPy", case, case.picture(), dims="HWC", **arguments)
    with using(policy()._replace(resize=policy().resize._replace(joined_rows=joined_rows))):
        for source, dims in pictures(case.picture()):
            made = on("native, 1 thread", case, source, dims=dims, **arguments)
            np.testing.assert_array_equal(made, expected)


@each_class
@settings(max_examples=examples(20))
@given(case=resizes(120))
def test_each_class_of_processors_has_the_same_bits(processor: Target, case: Resize) -> None:
    """The loops of each level of the library."""
    case = replace(case, channels=3)
    half = replace(case, source=(2 * case.target[0], 2 * case.target[1]), box=None)
    for resized, rule in (
        (case, "opencv-linear"),
        (half, "opencv-linear"),
        (case, "pillow-bicubic"),
        (case, "opencv-cubic"),
    ):
        arguments = {"dims": "HWC", "layout": "HWC", "interpolation": rule}
        expected = on("NumPy", resized, resized.picture(), **arguments)
        with policy_for(processor.features):
            made = on("native, 1 thread", resized, resized.picture(), **arguments)
        np.testing.assert_array_equal(made, expected)


def test_every_rule_has_loops() -> None:
    """Plans of ordinary photographs, of every rule and type."""
    for interpolation in INTERPOLATIONS:
        for element in ("uint8", "uint16", "float32"):
            for passes in ("horizontal", "vertical") if interpolation in PILLOW else ("horizontal",):
                if not resizes_type(interpolation, element):
                    continue
                photo = sg.BufferTensorDesc(element, (3, 480, 640), (1, 1920, 3))
                plan = sg.plan_resize(
                    photo, sg.BufferTensorDesc(element, (3, 224, 224)), interpolation=interpolation, passes=passes
                )
                assert plan.kernel.startswith("resize_native"), plan.explain()
                by_rows = element == "uint8" and interpolation in ("opencv-linear", "opencv-area")
                assert ("source rows one by one" in plan.explain()) == by_rows


@settings(max_examples=examples(40))
@given(cases=st.lists(resizes(120), min_size=1, max_size=6), frame=st.tuples(*(st.integers(1, 90),) * 2))
def test_ragged_batches(cases: list[Resize], frame: tuple[int, int]) -> None:
    """Boxes of images of many sizes, some of which are too small for native loops, mirrored or not."""
    photos = [replace(case, channels=3).picture() for case in cases]
    boxes = [case.box or (0, 0, *case.source) for case in cases]
    flips = [case.seed % 2 == 1 for case in cases]
    made = []
    for path in ("NumPy", "native, 1 thread", "native, 2 threads"):
        with picking_by(path):
            crops = sg.gather_crops(photos, size=frame, boxes=boxes, dims="HWC", flip=flips, dtype="float16", scale=0.1)
            letters = sg.letterbox(photos, frame, dims="HWC", layout="NHWC")
            made.append((crops.numpy(), letters.numpy()))
    for crops, letters in made[1:]:
        np.testing.assert_array_equal(crops, made[0][0])
        np.testing.assert_array_equal(letters, made[0][1])


def test_what_lies_around_a_target_stays() -> None:
    """Rows and pixels beside the target are not written, whatever the vectors' width."""
    picture = Resize((40, 50), (33, 29), None, 3, 5).picture()
    around = np.full((3, 40, 40), 77, np.uint8)
    with picking_by("native, 2 threads"):
        sg.resize(picture, (33, 29), dims="HWC", out=sg.asarray(around)[:, 3:36, 5:34])
    inside = around[:, 3:36, 5:34].copy()
    around[:, 3:36, 5:34] = 77
    assert (around == 77).all()
    np.testing.assert_array_equal(inside, sg.resize(picture, (33, 29), dims="HWC").numpy())


@pytest.mark.parametrize("channels", [8, 12])
def test_planes_narrower_than_a_vector(channels: int) -> None:
    """Two rows of six columns, whose planes are relaid as pixels with gaps: LLVM once compiled that loop for ever."""
    case = Resize((4, 76), (2, 6), None, channels, 7)
    expected = on("NumPy", case, case.picture(), dims="HWC", interpolation="opencv-linear")
    made = on("native, 1 thread", case, case.picture(), dims="HWC", interpolation="opencv-linear")
    np.testing.assert_array_equal(made, expected)


def check_fenced(
    width: int, columns: int, channels: int, step: int, *, at_end: bool, interpolation: str = "opencv-linear"
) -> None:
    """Five rows between pages that may not be touched, resized to three, mirrored or not."""
    fenced = Fenced((5 * width - 1) * step + channels, np.random.default_rng(width), at_end=at_end)
    rows = np.lib.stride_tricks.as_strided(fenced.bytes, (5, width, channels), (width * step, step, 1), writeable=False)
    for flip in (False, True):
        made = []
        for path in ("NumPy", "native, 1 thread"):
            with picking_by(path):
                crops = sg.gather_crops(
                    [rows],
                    size=(3, columns),
                    boxes=[(0, 0, 5, width)],
                    dims="HWC",
                    interpolation=interpolation,
                    flip=[flip],
                )
                made.append(crops.numpy())
        np.testing.assert_array_equal(made[1], made[0])


def test_no_byte_beside_padded_pixels_is_read() -> None:
    """A row of 127 bytes, one less than a window has, in front of it and behind it memory that ends the test."""
    check_fenced(32, 21, 3, 4, at_end=False)
    check_fenced(32, 64, 3, 4, at_end=True)


@pytest.mark.slow
@pytest.mark.parametrize("at_end", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("channels, step", [(1, 1), (2, 2), (3, 3), (3, 4), (4, 4), (1, 3), (3, 5), (2, 9)])
def test_no_byte_beside_rows_of_any_width_is_read(channels: int, step: int, at_end: bool) -> None:
    """Rows about as long as a window of 128 bytes, and much longer ones, enlarged, shrunk and halved."""
    for width in (*range(126 // step, 131 // step + 2), 256 // step, 700 // step):
        for columns in (width * 2, width * 2 // 3, width // 2, width // 5, width // 9):
            check_fenced(width, columns, channels, step, at_end=at_end)


@pytest.mark.parametrize("at_end", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("channels, step", [(1, 1), (1, 2), (2, 2), (3, 3), (3, 4), (4, 4), (3, 5), (4, 8), (2, 9)])
def test_no_byte_beside_rows_of_any_width_is_read_by_filters(channels: int, step: int, at_end: bool) -> None:
    """Rows whose last pixels fill no vector of whole pairs, of even and odd widths; steps above 8 are gathered."""
    for width in range(-(-(16 - channels) // step) + 1, 16 // step + 9):
        for interpolation in ("torch-bicubic", "pillow-bilinear", "opencv-linear"):
            check_fenced(width, max(1, width * 2 // 5), channels, step, at_end=at_end, interpolation=interpolation)


@pytest.mark.parametrize("interpolation", ["torch-bilinear", "opencv-cubic"])
def test_the_rows_behind_the_last_group_are_listed_and_prefetched(interpolation: str) -> None:
    element = ELEMENT_TYPES["uint8"]
    window = ResizeWindow(Layout((3, 50, 60), (1, 180, 3)), (0.0, 0.0, 50.0, 60.0), (0, 0, 20, 30))
    target, rule = TensorSpec(Layout((1, 3, 20, 30)), element, 64), ResizeRule(interpolation_named(interpolation))
    problem = ResizeProblem(target, conversion(element, element), rule, 3, (1, 3), bytes(3), window)
    recipe = native_resize.Recipes(problem).of(window)
    assert recipe is not None
    assert recipe.sources is not None
    assert (recipe.sources[-2 * ROWS :] == recipe.sources.max()).all()


def test_no_byte_beside_the_picture_is_read() -> None:
    """The last pixel of a buffer is the last that is read: an image at its very end has the same result."""
    picture = Resize((37, 41), (20, 23), None, 3, 6).picture()
    memory = np.zeros(picture.size + 5, np.uint8)
    memory[5:] = picture.reshape(-1)
    with picking_by("native, 1 thread"):
        for interpolation in ("opencv-linear", "pillow-bicubic"):
            made = sg.resize(memory[5:].reshape(picture.shape), (20, 23), dims="HWC", interpolation=interpolation)
            expected = sg.resize(picture, (20, 23), dims="HWC", interpolation=interpolation)
            np.testing.assert_array_equal(made.numpy(), expected.numpy())


def test_boxes_of_any_geometry_have_loops_from_the_first_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random boxes never recur."""
    picture = np.zeros((40, 50, 3), np.uint8)
    boxes = [[number, number + 1, 32 + number / 3, 41 + number / 2] for number in range(6)]
    monkeypatch.setattr(native_resize, "resize_located", None)
    for interpolation in RULES:
        sg.gather_crops(picture[None], size=(9, 11), boxes=boxes, dims="NHWC", interpolation=interpolation)


def test_a_geometry_outlives_its_eviction_while_the_loops_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of five boxes none stays in the cache, and other threads forget as well."""
    tables: list[weakref.ref[object]] = []
    alive: list[bool] = []
    made_by, run = native_resize.Recipes.prepared, native_resize._Entries.run

    def made(*arguments: Any) -> Any:
        recipe = made_by(*arguments)
        tables.append(weakref.ref(recipe.packed))
        return recipe

    def running(*arguments: Any) -> None:
        alive.extend(table() is not None for table in tables)
        run(*arguments)

    monkeypatch.setattr(native_resize.Recipes, "prepared", made)
    monkeypatch.setattr(native_resize._Entries, "run", running)
    image = np.random.default_rng(3).integers(0, 256, (61, 67, 3), dtype=np.uint8)
    boxes = [(0, 0, 40 + number, 50 + number) for number in range(5)]
    monkeypatch.setattr(GENERATION, "most_bytes", 1)
    with picking_by("native, 1 thread"):
        cut = sg.gather_crops([image] * 5, None, (19, 23), dims="HWC", boxes=boxes, interpolation="pillow-bilinear")
    assert alive == [True] * 5
    with picking_by("NumPy"):
        expected = [sg.resize(image, (19, 23), dims="HWC", box=box).numpy() for box in boxes]
    np.testing.assert_array_equal(cut.numpy(), np.stack(expected))


def test_a_call_without_memory_is_the_only_one_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads, one of whose scratch memory cannot be had."""
    picture = Resize((61, 67), (19, 23), None, 3, 6).picture()
    tensor = sg.asarray(picture, dims="HWC")
    nothing = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(lambda _: None)
    _, free = native_resize.memory_functions()
    found: dict[str, list[object]] = {"fails": [], "runs": []}

    def run(name: str, target: sg.StridedTensor, start: threading.Barrier) -> None:
        plan = sg.plan_resize(tensor, target)
        for _ in range(20):
            start.wait()
            try:
                plan(tensor, target)
                found[name].append(None)
            except sg.DeviceError as error:
                found[name].append(str(error))

    with picking_by("native, 1 thread"):
        fails, runs = sg.empty((3, 19, 23), "uint8"), sg.empty((3, 20, 24), "uint8")
        sg.plan_resize(tensor, runs)(tensor, runs)
        with monkeypatch.context() as patched:
            address = ctypes.cast(nothing, ctypes.c_void_p).value
            patched.setattr(native_resize, "memory_functions", lambda: (address, free))
            with pytest.raises(sg.DeviceError, match="no memory left"):
                sg.plan_resize(tensor, fails)(tensor, fails)
        start = threading.Barrier(2)
        threads = [
            threading.Thread(target=copy_context().run, args=(run, name, target, start))
            for name, target in (("fails", fails), ("runs", runs))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found["runs"] == [None] * 20
    assert all("no memory left" in str(error) for error in found["fails"])
    assert len(found["fails"]) == 20


def test_images_at_another_step_are_read_there() -> None:
    """The same windows over all images of a batch, and over every other one."""
    images = np.random.default_rng(0).integers(0, 256, (3, 20, 30, 3), np.uint8)
    source, out = sg.asarray(images, dims="NHWC"), sg.empty((2, 3, 9, 11), "uint8", device="cpu")
    rule: dict[str, Any] = {"interpolation": "pillow-bilinear", "passes": "horizontal"}
    expected = {every: sg.resize(source[::every][:2], (9, 11), **rule).numpy() for every in (1, 2)}
    problem: Any = sg.plan_resize(source[:2], out, **rule).plan.problem
    buffer, target, nbytes = source.buffer, out.operand, images[0].nbytes
    with picking_by("native, 1 thread"):
        launch = device_named("cpu").launch_for(problem)
        windows = (problem.window,) * 2
        for every in (1, 2, 1):
            located = EvenlyLocated(buffer, source.operand.start_bytes, every * nbytes, 2)
            launch(windows, located, (target.buffer, target.start_bytes), None)
            np.testing.assert_array_equal(out.numpy(), expected[every])


@pytest.mark.parametrize("pieces", [1, 2, 3, 4, 7, 64])
@pytest.mark.parametrize("height", [1, 16, 17, 224, 384, 1000])
def test_pieces_of_a_window_have_as_many_bands_one_more_or_less(height: int, pieces: int) -> None:
    recipe: Any = SimpleNamespace(place=(0, 0, height, 9), fields=0)
    fields = native_resize._entries(0, 0, recipe, pieces)
    firsts, lasts = fields[3::ENTRY_FIELDS], fields[4::ENTRY_FIELDS]
    assert [0, *lasts] == [*firsts, height]
    assert all(first % BAND_ROWS == 0 for first in firsts)
    bands = [-(-(last - first) // BAND_ROWS) for first, last in zip(firsts, lasts, strict=True)]
    assert len(bands) == min(pieces, -(-height // BAND_ROWS))
    assert max(bands) - min(bands) <= 1, bands


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_pictures_without_channels_are_resized_to_none(interpolation: str, dtype: str) -> None:
    """Bands of no pixels have no loop."""
    if not resizes_type(interpolation, dtype):
        pytest.skip("OpenCV resizes uint8 by this rule alone")
    with picking_by("native, 2 threads"):
        for shape in ((20, 30, 0), (2, 20, 30, 0)):
            dims, picture = "NHWC"[-len(shape) :], np.zeros(shape, dtype)
            resized = sg.resize(picture, (9, 11), dims=dims, interpolation=interpolation, layout=dims)
            assert resized.sizes == (*shape[:-3], 0, 9, 11)


def planned(interpolation: str, element: str, *, pixels: bool = True, planar: bool = True, **arguments: Any) -> Any:
    """The plan of an ordinary photograph, of pixels or planes to either."""
    photo = sg.BufferTensorDesc(element, (3, 480, 640), (1, 1920, 3) if pixels else (307200, 640, 1))
    target = sg.BufferTensorDesc("float32", (3, 224, 220), (49280, 220, 1) if planar else (1, 660, 3))
    return sg.plan_resize(photo, target, interpolation=interpolation, **arguments)


@pytest.mark.parametrize("interpolation", tuple(RULES))
def test_photographs_are_resized_natively(interpolation: str) -> None:
    """Bytes and floats, with constants and an order of channels, from the first call on."""
    rule = interpolation_named(interpolation)
    constants = {"scale": [0.5, 0.25, 2.0], "bias": [1.0, 0.0, -1.0], "channels": (2, 1, 0)}
    for element in ("uint8", "uint16", "float32"):
        if rule.is_nearest or element in rule.arithmetic_of:
            for planar in (True, False):
                plan = planned(interpolation, element, planar=planar, **constants).plan
                assert plan.native is not None, plan.explain()


@pytest.mark.parametrize("interpolation", tuple(RULES))
@pytest.mark.parametrize("strides", [(1, 9000, 9), (1, 16000, 16), (1, 5000, 5), (300000, 500, 1)])
def test_pixels_at_any_step_and_mixed_channels_are_resized_natively(
    interpolation: str, strides: tuple[int, int, int]
) -> None:
    """Also into pixels with gaps, and into columns of pixels."""
    photo = sg.BufferTensorDesc("uint8", (3, 400, 500), strides)
    mixed = {"interpolation": interpolation, "matrix": [[0.25, 0.5, 0.25]]}
    assert sg.plan_resize(photo, sg.BufferTensorDesc("float32", (1, 60, 70)), **mixed).plan.native is not None
    for into in ((1, 280, 4), (4200, 1, 60)):
        target = sg.BufferTensorDesc("float32", (3, 60, 70), into)
        assert sg.plan_resize(photo, target, interpolation=interpolation).plan.native is not None


@pytest.mark.parametrize("passes", ["horizontal", "vertical"])
def test_alpha_is_weighted_natively(passes: str) -> None:
    photo = sg.BufferTensorDesc("uint8", (4, 480, 640), (1, 2560, 4))
    arguments = {"interpolation": "pillow-bicubic", "premultiply": True, "passes": passes}
    assert sg.plan_resize(photo, sg.BufferTensorDesc("uint8", (4, 60, 70)), **arguments).plan.native is not None
    planes = sg.BufferTensorDesc("uint8", (4, 480, 640))
    assert sg.plan_resize(planes, sg.BufferTensorDesc("uint8", (4, 60, 70)), **arguments).plan.native is None


@pytest.mark.parametrize("at_end", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize(
    "interpolation, element, channels",
    [
        *(("opencv-linear", "uint8", channels) for channels in (1, 2, 3, 4)),
        ("opencv-cubic", "uint8", 3),
        ("pillow-nearest", "uint8", 3),
        ("pillow-bicubic", "uint16", 3),
        ("torch-bilinear", "float32", 1),
        ("alpha", "uint8", 2),
        ("alpha", "uint8", 4),
    ],
)
def test_no_byte_beside_the_rows_is_read(interpolation: str, element: str, channels: int, at_end: bool) -> None:
    """Six rows between pages that may not be touched are halved, shrunk and enlarged."""
    weighs = {"interpolation": "pillow-bilinear", "premultiply": True}
    arguments = weighs if interpolation == "alpha" else {"interpolation": interpolation}
    itemsize = np.dtype(element).itemsize
    for width in (*range(16, 36), *range(60, 72, 2), 130):
        fenced = Fenced(6 * width * channels * itemsize, np.random.default_rng(width), at_end=at_end)
        numbers = fenced.bytes.view(element)
        if element == "float32":
            numbers[:] = np.arange(numbers.size)
        rows = numbers.reshape(6, width, channels)
        for columns in (width // 2, width // 3, width * 2):
            made = []
            for path in ("NumPy", "native, 1 thread"):
                with picking_by(path):
                    made.append(sg.resize(rows, (3, columns), dims="HWC", **arguments).numpy())
            np.testing.assert_array_equal(*made)
