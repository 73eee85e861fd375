"""Resize by compiled loops has the bits of NumPy's, on one thread and on several."""

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
from harness.compiled_loops import each_class, needs_compiler, policy_for
from harness.cpu_paths import picking_by
from harness.fenced_memory import Fenced
from harness.profiles import examples
from harness.resize_cases import Array, Resize, pictures, resizes
from hypothesis import HealthCheck, example, given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.devices.cpu.compiled import resize as compiled_resize, resize_recipes
from stridedgpu.devices.cpu.compiled.compiler import LoopError
from stridedgpu.devices.cpu.compiled.resize_kernel import BAND_ROWS, ENTRY_FIELDS, ROWS, ResizeKernel
from stridedgpu.devices.cpu.compiled.resize_passes import passes_of
from stridedgpu.devices.cpu.policy import policy, using
from stridedgpu.devices.cpu.target import Target
from stridedgpu.devices.interface import EvenlyLocated
from stridedgpu.devices.selection import device_named
from stridedgpu.problems.resize_problem import ResizeProblem, ResizeRule, ResizeWindow
from stridedgpu.values.bounded_cache import GENERATION
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.interpolation import ResizeSums, interpolation_named
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

pytestmark = needs_compiler

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
        path = "compiled, 1 thread" if number % 2 else "compiled, 2 threads"
        np.testing.assert_array_equal(on(path, case, source, dims=dims, **arguments), expected)


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
        path = "compiled, 1 thread" if number % 2 else "compiled, 2 threads"
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
        path = "compiled, 1 thread" if number % 2 else "compiled, 2 threads"
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
        made = on("compiled, 2 threads", case, source, dims=dims, interpolation=interpolation)
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
        for path in ("NumPy", "compiled, 1 thread"):
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
            made = on("compiled, 1 thread", case, source, dims=dims, **arguments)
            np.testing.assert_array_equal(made, expected)


@each_class
@settings(max_examples=examples(20))
@given(case=resizes(120))
def test_each_class_of_processors_has_the_same_bits(processor: Target, case: Resize) -> None:
    """Loops with pairs of 16 bits and products of twice as many, or none of these."""
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
            made = on("compiled, 1 thread", resized, resized.picture(), **arguments)
        np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize("pairs", [True, False], ids=["pairs of 16 bits", "no pairs"])
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=resizes(120))
def test_passes_of_other_architectures_have_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, pairs: bool, case: Resize
) -> None:
    """Loops that are chosen without AVX-512 and without AVX2, in the machine code of this processor."""
    if pairs and "avx2" not in Target.here().features:
        pytest.skip("pairs are multiplied by an instruction of x86-64")
    case = replace(case, channels=3)
    monkeypatch.setattr(resize_recipes, "adds_products", lambda: pairs)
    for rule in ("opencv-linear", "pillow-bicubic", "opencv-cubic"):
        arguments = {"dims": "HWC", "layout": "HWC", "interpolation": rule}
        expected = on("NumPy", case, case.picture(), **arguments)
        np.testing.assert_array_equal(on("compiled, 1 thread", case, case.picture(), **arguments), expected)


def test_every_rule_is_compiled() -> None:
    """Plans of ordinary photographs, of every rule and type, run compiled loops."""
    for interpolation in INTERPOLATIONS:
        for element in ("uint8", "uint16", "float32"):
            for passes in ("horizontal", "vertical") if interpolation in PILLOW else ("horizontal",):
                if not resizes_type(interpolation, element):
                    continue
                photo = sg.BufferTensorDesc(element, (3, 480, 640), (1, 1920, 3))
                plan = sg.plan_resize(
                    photo, sg.BufferTensorDesc(element, (3, 224, 224)), interpolation=interpolation, passes=passes
                )
                assert plan.kernel.startswith("resize_compiled"), plan.explain()
                by_rows = element == "uint8" and interpolation in ("opencv-linear", "opencv-area")
                assert ("source rows one by one" in plan.explain()) == by_rows


@settings(max_examples=examples(40))
@given(cases=st.lists(resizes(120), min_size=1, max_size=6), frame=st.tuples(*(st.integers(1, 90),) * 2))
def test_ragged_batches(cases: list[Resize], frame: tuple[int, int]) -> None:
    """Boxes of images of many sizes, some of which are too small for compiled loops, mirrored or not."""
    photos = [replace(case, channels=3).picture() for case in cases]
    boxes = [case.box or (0, 0, *case.source) for case in cases]
    flips = [case.seed % 2 == 1 for case in cases]
    made = []
    for path in ("NumPy", "compiled, 1 thread", "compiled, 2 threads"):
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
    with picking_by("compiled, 2 threads"):
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
    made = on("compiled, 1 thread", case, case.picture(), dims="HWC", interpolation="opencv-linear")
    np.testing.assert_array_equal(made, expected)


def check_fenced(
    width: int, columns: int, channels: int, step: int, *, at_end: bool, interpolation: str = "opencv-linear"
) -> None:
    """Five rows between pages that may not be touched, resized to three, mirrored or not."""
    fenced = Fenced((5 * width - 1) * step + channels, np.random.default_rng(width), at_end=at_end)
    rows = np.lib.stride_tricks.as_strided(fenced.bytes, (5, width, channels), (width * step, step, 1), writeable=False)
    for flip in (False, True):
        made = []
        for path in ("NumPy", "compiled, 1 thread"):
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
@pytest.mark.parametrize("channels, step", [(1, 1), (2, 2), (3, 3), (3, 4), (4, 4)])
def test_no_byte_beside_rows_of_any_width_is_read(channels: int, step: int, at_end: bool) -> None:
    """Rows about as long as a window of 128 bytes, and much longer ones, enlarged, shrunk and halved."""
    for width in (*range(126 // step, 131 // step + 2), 256 // step, 700 // step):
        for columns in (width * 2, width * 2 // 3, width // 2, width // 5, width // 9):
            check_fenced(width, columns, channels, step, at_end=at_end)


@pytest.mark.parametrize("at_end", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("channels, step", [(1, 1), (1, 2), (2, 2), (3, 3), (3, 4), (4, 4), (3, 5), (4, 8), (2, 9)])
def test_no_byte_beside_rows_of_any_width_is_read_by_filters(channels: int, step: int, at_end: bool) -> None:
    """Rows whose last pixels fill no vector of whole pairs, of even and odd widths; steps above 8 have no pairs."""
    for width in range(-(-(16 - channels) // step) + 1, 16 // step + 9):
        for interpolation in ("torch-bicubic", "pillow-bilinear"):
            check_fenced(width, max(1, width * 2 // 5), channels, step, at_end=at_end, interpolation=interpolation)


@pytest.mark.parametrize("interpolation", ["torch-bilinear", "opencv-cubic"])
def test_the_rows_behind_the_last_group_are_listed_and_prefetched(interpolation: str) -> None:
    element = ELEMENT_TYPES["uint8"]
    window = ResizeWindow(Layout((3, 50, 60), (1, 180, 3)), (0.0, 0.0, 50.0, 60.0), (0, 0, 20, 30))
    target, rule = TensorSpec(Layout((1, 3, 20, 30)), element, 64), ResizeRule(interpolation_named(interpolation))
    problem = ResizeProblem(target, conversion(element, element), rule, 3, (1, 3), bytes(3), window)
    recipe = resize_recipes.Recipes(problem).of(window)
    assert recipe is not None
    assert recipe.sources is not None
    assert (recipe.sources[-2 * ROWS :] == recipe.sources.max()).all()
    passes = passes_of(ResizeSums.FIXED_POINT, element, (False, False), pairs=True)
    assert "prefetch" in ResizeKernel(*passes, 3, 3).text("kernel")
    for other in (replace(ResizeKernel(*passes, 3, 3), **{name: value}) for name, value in _READ_OTHERWISE):
        assert "prefetch" not in other.text("kernel")


_READ_OTHERWISE: list[tuple[str, Any]] = [("columns_first", False), ("converts_rows", True)]
"""Kernels that do not read the rows of an image along x."""


def test_no_byte_beside_the_picture_is_read() -> None:
    """The last pixel of a buffer is the last that is read: an image at its very end has the same result."""
    picture = Resize((37, 41), (20, 23), None, 3, 6).picture()
    memory = np.zeros(picture.size + 5, np.uint8)
    memory[5:] = picture.reshape(-1)
    with picking_by("compiled, 1 thread"):
        for interpolation in ("opencv-linear", "pillow-bicubic"):
            made = sg.resize(memory[5:].reshape(picture.shape), (20, 23), dims="HWC", interpolation=interpolation)
            expected = sg.resize(picture, (20, 23), dims="HWC", interpolation=interpolation)
            np.testing.assert_array_equal(made.numpy(), expected.numpy())


@pytest.mark.parametrize(
    "interpolation, dtype",
    [*((rule, "uint8") for rule in INTERPOLATIONS), ("pillow-bicubic", "uint16"), ("opencv-area", "float32")],
)
def test_boxes_of_any_geometry_run_the_kernels_that_are_there(
    interpolation: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel's text takes longer to write than an image to resize: random boxes have it from the first one."""
    written: list[str] = []
    text = resize_recipes.ResizeKernel.text
    monkeypatch.setattr(
        resize_recipes.ResizeKernel, "text", lambda kernel, name: (written.append(name), text(kernel, name))[1]
    )
    picture = np.zeros((40, 50, 3), dtype)

    def resized(boxes: list[list[float]]) -> None:
        with picking_by("compiled, 1 thread"):
            sg.gather_crops(picture[None], size=(9, 11), boxes=boxes, dims="NHWC", interpolation=interpolation)

    resized([[0, 0, 31, 40]])
    written.clear()
    resized([[number, number + 1, 32 + number / 3, 41 + number / 2] for number in range(6)])
    assert not written


def test_a_geometry_outlives_its_eviction_while_the_loops_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of five boxes none stays in the cache, and other threads forget as well."""
    tables: list[weakref.ref[object]] = []
    alive: list[bool] = []
    made_by, run = resize_recipes.Recipes.prepared, compiled_resize._Entries.run

    def made(*arguments: Any) -> Any:
        recipe = made_by(*arguments)
        tables.append(weakref.ref(recipe.packed))
        return recipe

    def running(*arguments: Any) -> None:
        alive.extend(table() is not None for table in tables)
        run(*arguments)

    monkeypatch.setattr(resize_recipes.Recipes, "prepared", made)
    monkeypatch.setattr(compiled_resize._Entries, "run", running)
    image = np.random.default_rng(3).integers(0, 256, (61, 67, 3), dtype=np.uint8)
    boxes = [(0, 0, 40 + number, 50 + number) for number in range(5)]
    monkeypatch.setattr(GENERATION, "most_bytes", 1)
    with picking_by("compiled, 1 thread"):
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
    _, free = resize_recipes.memory_functions()
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

    with picking_by("compiled, 1 thread"):
        fails, runs = sg.empty((3, 19, 23), "uint8"), sg.empty((3, 20, 24), "uint8")
        sg.plan_resize(tensor, runs)(tensor, runs)
        with monkeypatch.context() as patched:
            address = ctypes.cast(nothing, ctypes.c_void_p).value
            patched.setattr(resize_recipes, "memory_functions", lambda: (address, free))
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
    with picking_by("compiled, 1 thread"):
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
    fields = compiled_resize._entries(0, 0, recipe, pieces)
    firsts, lasts = fields[3::ENTRY_FIELDS], fields[4::ENTRY_FIELDS]
    assert [0, *lasts] == [*firsts, height]
    assert all(first % BAND_ROWS == 0 for first in firsts)
    bands = [-(-(last - first) // BAND_ROWS) for first, last in zip(firsts, lasts, strict=True)]
    assert len(bands) == min(pieces, -(-height // BAND_ROWS))
    assert max(bands) - min(bands) <= 1, bands


def test_windows_whose_loop_cannot_be_compiled_are_resized_by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the compiler's process has no memory."""
    picture = np.random.default_rng(0).integers(0, 256, (3, 20, 30), np.uint8)

    def fails(kernel: object) -> None:
        raise LoopError("no memory")

    with picking_by("NumPy"):
        expected = sg.resize(picture, (9, 11), dims="CHW", interpolation="opencv-linear").numpy()
    with picking_by("compiled, 1 thread"):
        monkeypatch.setattr(resize_recipes, "loop_of", fails)
        resized = sg.resize(picture, (9, 11), dims="CHW", interpolation="opencv-linear").numpy()
    np.testing.assert_array_equal(resized, expected)


def test_sums_of_fused_products_are_numpys_where_no_instruction_fuses_them() -> None:
    """Bytes are still resized by compiled loops there."""
    with_it = policy().target._replace(architecture="x86_64", features=policy().target.features | {"fma"})
    without = with_it._replace(features=with_it.features - {"fma"})
    found = []
    for target in (with_it, without):
        for element in ("uint8", "float32"):
            with using(policy()._replace(target=target)), picking_by("compiled, 1 thread"):
                sides = sg.BufferTensorDesc(element, (3, 40, 60)), sg.BufferTensorDesc(element, (3, 9, 11))
                found.append(sg.plan_resize(*sides, interpolation="torch-bilinear").kernel)
    assert [kernel.startswith("numpy") for kernel in found] == [False, False, False, True], found


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_pictures_without_channels_are_resized_to_none(interpolation: str, dtype: str) -> None:
    """Bands of no pixels have no loop."""
    if not resizes_type(interpolation, dtype):
        pytest.skip("OpenCV resizes uint8 by this rule alone")
    with picking_by("compiled, 2 threads"):
        for shape in ((20, 30, 0), (2, 20, 30, 0)):
            dims, picture = "NHWC"[-len(shape) :], np.zeros(shape, dtype)
            resized = sg.resize(picture, (9, 11), dims=dims, interpolation=interpolation, layout=dims)
            assert resized.sizes == (*shape[:-3], 0, 9, 11)
