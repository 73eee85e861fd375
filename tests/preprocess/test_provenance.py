"""`which`: pixels whose pipeline is known are traced back to it, and others to the nearest one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.__main__ import main
from stridedgpu.preprocess.provenance import Difference, Pipeline
from stridedgpu.values.arithmetic import NORMALISATIONS
from stridedgpu.values.interpolation import INTERPOLATIONS

HEIGHT, WIDTH = 60, 83


def photograph(seed: int = 0) -> np.ndarray:
    """Smooth pixels with noise, whose channels differ: shapes can be recognised, and filters differ."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:HEIGHT, :WIDTH, :3][:2]
    channel = np.arange(3)
    waves = 120 + 60 * np.sin(y / (7 + channel) + channel) + 50 * np.cos(x / (5 + 2 * channel))
    return np.clip(waves + rng.normal(0, 12, waves.shape), 0, 255).astype(np.uint8)


def resized(pixels, size, **options):
    return sg.resize(pixels, size, dims="HWC", device="cpu", **options)


@pytest.mark.parametrize("name", INTERPOLATIONS)
def test_every_interpolation_is_recognised(name):
    passes = "horizontal" if name.startswith("pillow") else None
    answer = sg.which(photograph(), resized(photograph(), (31, 45), interpolation=name, passes=passes))
    assert answer.is_exact
    assert name in answer.stage("interpolation")
    assert answer.stage("geometry") == ("31 x 45 from all of it",)
    assert answer.stage("conversion") == ("none",)


@pytest.mark.parametrize("passes", ["horizontal", "vertical"])
def test_the_order_of_passes_is_recognised(passes):
    after = resized(photograph(), (31, 45), interpolation="pillow-lanczos", passes=passes)
    assert sg.which(photograph(), after).stage("passes") == (passes,)


def test_one_pass_has_no_order():
    after = resized(photograph(), (HEIGHT, 45), interpolation="pillow-lanczos", passes="vertical")
    answer = sg.which(photograph(), after)
    assert answer.is_exact
    assert answer.stage("passes") == ("one order",)


GEOMETRIES = {
    "shorter side, crop": {"resize": 46, "crop": (40, 40)},
    "shorter side, floored crop": {"resize": 45, "crop": (40, 40), "center": "floor"},
    "both sides": {"resize": (40, 40)},
    "letterbox": {"letterbox": (64, 64)},
    "crop alone": {"crop": (40, 41)},
    "mirrored crop": {"resize": 46, "crop": (40, 40), "flip": True},
    "mirrored letterbox": {"letterbox": (64, 48), "flip": True},
}


@pytest.mark.parametrize("options", GEOMETRIES.values(), ids=GEOMETRIES)
@pytest.mark.parametrize("channels", [(0, 1, 2), (2, 1, 0)], ids=["RGB", "BGR"])
def test_the_declaration_of_a_step_is_found(options, channels):
    step = sg.Preprocess(dims="HWC", normalize="imagenet", channels=channels, device="cpu", **options)
    after = np.asarray(step(photograph()[None]))[0]
    answer = sg.which(photograph(), after)
    assert answer.is_exact
    assert answer.stage("channels") == ("BGR" if channels[0] else "RGB",)
    found = eval(answer.declaration, {"sg": sg})
    np.testing.assert_array_equal(np.asarray(found(photograph()[None]))[0], after)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", sorted({figures: name for name, figures in NORMALISATIONS.items()}.values()))
@pytest.mark.parametrize("arithmetic", ["multiply", "divide"])
def test_every_normalisation_is_recognised(dtype, name, arithmetic):
    after = resized(photograph(), (40, 50), dtype=dtype, normalize=name, arithmetic=arithmetic)
    answer = sg.which(photograph(), after)
    same = {figures: alias for alias, figures in reversed(NORMALISATIONS.items())}[NORMALISATIONS[name]]
    assert f"normalize={same!r}, arithmetic={arithmetic!r}" in answer.stage("conversion")


@given(
    mean=st.lists(st.integers(0, 99), min_size=3, max_size=3), std=st.lists(st.integers(5, 99), min_size=3, max_size=3)
)
@settings(max_examples=20)
def test_mean_and_std_of_few_decimals_are_found(mean, std):
    mean, std = [number / 100 for number in mean], [number / 100 for number in std]
    after = resized(photograph(), (40, 50), dtype="float32", mean=mean, std=std)
    answer = sg.which(photograph(), after)
    found = eval(answer.declaration, {"sg": sg})
    np.testing.assert_array_equal(np.asarray(found(photograph()[None]))[0], after.numpy())


def test_means_in_the_order_rgb_of_a_bgr_image_are_recognised():
    after = resized(photograph()[..., ::-1], (40, 50), dtype="float32", normalize="imagenet")
    answer = sg.which(photograph(), after)
    assert answer.stage("channels") == ("BGR",)
    assert answer.declaration is None
    assert answer.stage("conversion")[0] == "normalize='imagenet', arithmetic='multiply', in the order BGR"


def test_a_conversion_that_is_not_known_leaves_the_resize_recognised():
    after = resized(photograph(), (40, 50), interpolation="opencv-area").permute("HWC").numpy()
    answer = sg.which(photograph(), np.sqrt(after.astype(np.float32)))
    assert answer.stage("interpolation") == ("opencv-area",)
    assert answer.declaration is None
    assert answer.stage("conversion")[0].startswith("unknown, near x * ")


def test_few_pixels_prove_no_unknown_conversion():
    answer = sg.which(photograph(), np.random.default_rng(0).random((4, 5, 3)), dims="HWC")
    assert not answer.is_exact


def test_a_resize_of_float_pixels_is_the_nearest_one():
    pixels = photograph().astype(np.float32) / 255
    answer = sg.which(photograph(), resized(pixels, (31, 45), interpolation="pillow-bicubic", passes="horizontal"))
    assert not answer.is_exact
    assert answer.nearest.interpolation == "pillow-bicubic of float32 pixels"
    assert answer.difference.share == 0
    assert answer.difference.levels < 0.01
    assert "no value is off by more than" in str(answer)


def test_one_changed_value_is_told_by_its_share_and_its_levels():
    after = resized(photograph(), (31, 45), interpolation="opencv-linear").permute("HWC").numpy().copy()
    after[3, 4, 1] ^= 16
    answer = sg.which(photograph(), after)
    assert answer.nearest == Pipeline("none", "RGB", "31 x 45 from all of it", "opencv-linear", "one order", "unknown")
    assert 15 < answer.difference.levels < 17


def test_equal_results_are_several_pipelines():
    flat = np.full((HEIGHT, WIDTH, 3), 50, np.uint8)
    answer = sg.which(flat, np.full((30, 40, 3), 50, np.uint8))
    assert len(answer.pipelines) > 10
    assert f"that of {len(answer.pipelines)} pipelines" in str(answer)


def test_two_pipelines_part_at_their_first_stage_that_differs():
    area, linear = (resized(photograph(), (40, 40), interpolation=f"opencv-{name}") for name in ("area", "linear"))
    one, other = sg.which(photograph(), area), sg.which(photograph(), linear)
    parting = one.parting(other)
    assert parting.stage == "interpolation"
    assert parting.one == ("opencv-area",)
    assert parting.other == ("opencv-linear",)
    distances = np.abs(area.numpy().astype(int) - linear.numpy())
    assert parting.difference == Difference((distances > 0).mean(), distances.max())
    assert one.parting(sg.which(photograph(), area)) is None
    smaller = sg.which(photograph(), resized(photograph(), (20, 20)))
    assert one.parting(smaller).difference is None
    assert "the sizes differ" in str(one.parting(smaller))


def test_gray_is_weighted_before_the_resize():
    Image = pytest.importorskip("PIL.Image")
    gray = Image.fromarray(photograph()).convert("L").resize((45, 31), Image.BICUBIC)
    answer = sg.which(photograph(), np.asarray(gray))
    assert answer.is_exact
    assert "gray by Pillow" in answer.stage("channels")
    assert answer.stage("interpolation") == ("pillow-bicubic",)


def saved(folder: Path, name: str, **options: object) -> Path:
    Image = pytest.importorskip("PIL.Image")
    Image.fromarray(photograph()).save(folder / name, **options)
    return folder / name


def test_the_decoder_of_a_file_is_named(tmp_path):
    path = saved(tmp_path, "before.png")
    answer = sg.which(path, resized(photograph(), (40, 50)))
    assert answer.is_exact
    assert answer.stage("decoder")[0].split(" or ")[0] == "pillow"
    assert "ignored" not in str(answer)


def test_an_ignored_orientation_is_named(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    exif = Image.Exif()
    exif[0x0112] = 6
    path = saved(tmp_path, "before.png", exif=exif)
    turned = sg.which(path, resized(np.rot90(photograph(), -1), (50, 40)))
    stored = sg.which(path, resized(photograph(), (50, 40)))
    assert turned.is_exact
    assert "ignored" not in str(turned)
    assert stored.is_exact
    assert "pillow, orientation ignored" in stored.stage("decoder")[0]
    assert turned.parting(stored).stage == "decoder"


def test_the_command_prints_what_the_function_says(tmp_path, capsys):
    path = saved(tmp_path, "before.png")
    for name in ("area", "linear"):
        np.save(tmp_path / f"{name}.npy", resized(photograph(), (40, 40), interpolation=f"opencv-{name}").numpy())
    after, other = tmp_path / "area.npy", tmp_path / "linear.npy"
    assert main(["which", str(path), str(after), str(other)]) == 0
    text = capsys.readouterr().out
    one, two = sg.which(path, after), sg.which(path, other)
    sets = [f"in the conformance set: resize.opencv-{name}.*" for name in ("area", "linear")]
    assert text == f"{after}: {one}\n{sets[0]}\n{other}: {two}\n{sets[1]}\n{one.parting(two)}\n"
    assert main(["which", str(path), str(after), str(after)]) == 0
    assert capsys.readouterr().out.endswith("\none pipeline may have made both\n")


REFUSED = {
    "two images": (photograph(), np.zeros((2, 8, 8, 3), np.uint8), {}, "one image is compared"),
    "unnamed axes": (photograph(), np.zeros((3, 8, 3), np.uint8), {}, "name its axes"),
    "wrong axes": (photograph(), np.zeros((8, 8, 3), np.uint8), {"dims": "HW"}, "must name the axes"),
    "two channels": (photograph(), np.zeros((8, 8, 2), np.uint8), {"dims": "HWC"}, "an image of 1 or 3 channels"),
    "complex pixels": (photograph(), np.zeros((8, 8, 3), complex), {}, "pixels are integers or floats"),
    "no pixels": (photograph(), np.zeros((0, 8, 3), np.uint8), {}, "an image of 1 or 3 channels"),
    "an empty source": (np.zeros((0, 8, 3), np.uint8), np.zeros((8, 8, 3), np.uint8), {}, "there are no pixels"),
    "floats before": (photograph() / 255, np.zeros((8, 8, 3), np.uint8), {}, "it is an image of uint8"),
    "no whole number": (photograph(), np.zeros((8, 8, 3), np.uint8), {"resize": 2.5}, "a whole number from 1 to"),
    "nothing": (photograph(), np.zeros((8, 8, 3), np.uint8), {"resize": 0}, "a whole number from 1 to"),
}


@pytest.mark.parametrize("before, after, options, words", REFUSED.values(), ids=REFUSED)
def test_other_arguments_are_refused(before, after, options, words):
    with pytest.raises(sg.LayoutError, match=words):
        sg.which(before, after, **options)


def test_a_file_that_is_no_image_is_refused(tmp_path):
    (tmp_path / "notes.png").write_bytes(b"no image")
    with pytest.raises(sg.StridedGpuError, match="not an image in a format that Pillow reads"):
        sg.which(tmp_path / "notes.png", photograph())
    with pytest.raises(sg.StridedGpuError, match=r"missing\.npy"):
        sg.which(photograph(), tmp_path / "missing.npy")


@given(
    seed=st.integers(0, 99),
    rule=st.sampled_from(sorted(INTERPOLATIONS)),
    rows=st.integers(16, 90),
    columns=st.integers(16, 90),
)
@example(seed=0, rule="pillow-box", rows=HEIGHT, columns=WIDTH)
@settings(max_examples=25)
def test_what_is_named_has_every_bit(seed, rule, rows, columns):
    """Each pipeline of an answer gives the pixels."""
    source = photograph(seed)
    after = resized(source, (rows, columns), interpolation=rule, passes="vertical" if "pillow" in rule else None)
    answer = sg.which(source, after, dims="CHW")
    assert answer.is_exact
    found = eval(answer.declaration, {"sg": sg})
    np.testing.assert_array_equal(np.asarray(found(source[None]))[0], after.numpy())
