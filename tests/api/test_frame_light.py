"""Frames of high dynamic range: light and SDR colours beside the formulas of BT.2100, BT.2390 and sRGB in float64."""

from __future__ import annotations

import hashlib
import io
import math
import pickle

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths
from harness.frame_cases import COLOURS, DEEP, SCALED, converting_by, surface, surfaces
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.operations import frame_colours
from stridedgpu.problems.transfer_functions import light_of_codes

A = 0.17883277
M1, M2, C1, C2, C3 = 0.1593017578125, 78.84375, 0.8359375, 18.8515625, 18.6875
"""The constants of BT.2100, tables 4 and 5, as decimal numbers."""

BOTH = pytest.mark.parametrize("transfer", ["pq", "hlg"])


def pq(code):
    """Light of 0 to 1, of 10,000 cd/m2."""
    power = code ** (1 / M2)
    return (max(power - C1, 0) / (C2 - C3 * power)) ** (1 / M1)


def code_of(luminance):
    """PQ's code of a luminance in cd/m2."""
    power = (luminance / 10000) ** M1
    return ((C1 + C2 * power) / (1 + C3 * power)) ** M2


def hlg(code):
    """Light of 0 to 1 of the scene."""
    if code <= 0.5:
        return code * code / 3
    return (math.exp((code - (0.5 - A * math.log(4 * A))) / A) + 1 - 4 * A) / 12


def shown(transfer, code):
    """The luminance of a code on a display of 1000 cd/m2, as one of 203 shows it, by BT.2390; 1.0 is 203."""
    luminance = 10000 * pq(code) if transfer == "pq" else 1000 * hlg(code) ** 1.2
    e, most = min(code_of(luminance) / code_of(1000), 1), code_of(203) / code_of(1000)
    knee = 1.5 * most - 0.5
    if e > knee:
        t = (e - knee) / (1 - knee)
        e = (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee) + (-2 * t**3 + 3 * t**2) * most
    return 10000 * pq(e * code_of(1000)) / 203


def light(transfer, codes):
    """The light of codes, an array of integers from 0 to their type's largest."""
    curve = {"pq": pq, "hlg": hlg}[transfer]
    seen = {code: curve(code / np.iinfo(codes.dtype).max) for code in np.unique(codes).tolist()}
    return np.vectorize(seen.__getitem__, [np.float64])(codes)


def sdr(transfer, codes):
    """Colours of 0 to 255, not rounded, of codes (H, W, 3)."""
    seen = {code: shown(transfer, code / np.iinfo(codes.dtype).max) for code in np.unique(codes).tolist()}
    mixed = np.clip(np.vectorize(seen.__getitem__, [np.float64])(codes) @ bt709_of_bt2020().T, 0, 1)
    return 255 * np.where(mixed <= 0.0031308, 12.92 * mixed, 1.055 * mixed ** (1 / 2.4) - 0.055)


def bt709_of_bt2020():
    """The matrix between the primaries of both, whose white is D65."""
    white = np.array([0.3127 / 0.3290, 1, (1 - 0.3127 - 0.3290) / 0.3290])

    def to_xyz(*primaries):
        columns = np.array([[x / y, 1, (1 - x - y) / y] for x, y in primaries]).T
        return columns * np.linalg.solve(columns, white)

    wide = to_xyz((0.708, 0.292), (0.170, 0.797), (0.131, 0.046))
    return np.linalg.solve(to_xyz((0.640, 0.330), (0.300, 0.600), (0.150, 0.060)), wide)


def pixels(frame, **options):
    return sg.relayout(frame, layout="HWC", **options).permute("HWC").numpy()


def ramp(transfer, seen, columns=65536, **options):
    """A gray frame of so many codes, from the first to the last."""
    codes = np.linspace(0, 65535, columns).round().astype(np.uint16)[None]
    return sg.Frame.over("gray16", codes, codes.shape, transfer=transfer, light=seen, **options), codes


TABLES = {
    ("pq", "linear"): "4defbe7b5586538e",
    ("pq", "sdr"): "233bb406a9ba0dc6",
    ("hlg", "linear"): "86257626d8ff9cad",
    ("hlg", "sdr"): "a56c1188ba76d3cd",
}
"""The beginning of each table's SHA-256, whose entries 40 digits have shown to be exact values, rounded."""


@pytest.mark.parametrize("names", TABLES, ids="-".join)
def test_tables_are_the_same_on_every_machine(names):
    table = light_of_codes(*names, 65535)
    assert hashlib.sha256(table.astype("<f4").tobytes()).hexdigest().startswith(TABLES[names])


@BOTH
def test_every_code_has_the_light_of_its_formula_rounded_once(transfer):
    frame, codes = ramp(transfer, "linear")
    assert np.array_equal(pixels(frame), np.repeat(light(transfer, codes)[..., None], 3, 2).astype(np.float32))


@pytest.mark.parametrize(
    "transfer, code, value, source",
    [
        ("pq", 0.5081, 0.01, "100 cd/m2"),
        ("pq", 0.5807, 0.0203, "203 cd/m2: BT.2408, table 1"),
        ("pq", 0.7518, 0.1, "1000 cd/m2"),
        ("pq", 1.0, 1.0, "10,000 cd/m2"),
        ("hlg", 0.5, 1 / 12, "BT.2100, table 5"),
        ("hlg", 0.75, 0.265, "BT.2408, table 1"),
        ("hlg", 1.0, 1.0, "the peak"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_light_has_the_values_that_the_standards_print(transfer, code, value, source):
    (made,) = {
        *pixels(
            sg.Frame.over(
                "gray16", np.full((1, 1), round(65535 * code), np.uint16), (1, 1), transfer=transfer, light="linear"
            )
        ).ravel()
    }
    assert made == pytest.approx(value, rel=2e-3), source


@BOTH
def test_gray_of_every_code_is_the_formulas_of_sdr(transfer):
    frame, codes = ramp(transfer, "sdr")
    made = pixels(frame)
    assert made.dtype == np.uint8
    assert (np.diff(made[0, :, 0].astype(int)) >= 0).all()
    assert (made[0, 0, 0], made[0, -1, 0]) == (0, 255)
    assert np.abs(made - sdr(transfer, np.repeat(codes[..., None], 3, 2))).max() < 0.53


def test_white_of_graphics_is_below_that_of_sdr_and_leaves_room_for_highlights():
    levels = [round(65535 * code_of(luminance)) for luminance in (0.01, 1, 10, 88, 203, 500, 1000, 4000)]
    frame = sg.Frame.over("gray16", np.array([levels], np.uint16), (1, len(levels)), transfer="pq", light="sdr")
    assert pixels(frame)[0, :, 0].tolist() == [0, 15, 63, 176, 229, 253, 255, 255]


@cpu_paths
@settings(max_examples=25)
@given(
    made=surfaces((*DEEP, *SCALED, "nv12", "i422"), most=40),
    transfer=st.sampled_from(["pq", "hlg"]),
    full_range=st.booleans(),
    rows=st.integers(1, 5),
)
def test_drawn_frames_are_the_light_of_their_colours(path, made, transfer, full_range, rows):
    plain, options = made.frame(matrix="bt2020", full_range=full_range), {"matrix": "bt2020", "full_range": full_range}
    with converting_by(path), pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame_colours, "_BAND_COLOURS", rows * 3 * made.sizes[1])
        codes = pixels(plain)
        linear = pixels(made.frame(**options, transfer=transfer, light="linear"))
        colours = pixels(made.frame(**options, transfer=transfer, light="sdr"))
    assert np.array_equal(linear, light(transfer, codes).astype(np.float32))
    assert np.abs(colours - sdr(transfer, codes)).max() < 0.53


@pytest.mark.parametrize("name", COLOURS)
def test_packed_colours_have_light_too(name):
    made = surface(name, (5, 7), seed=2)
    codes = pixels(made.frame())
    assert np.array_equal(pixels(made.frame(transfer="pq", light="linear")), light("pq", codes).astype(np.float32))


def hdr(seen, size=(32, 48), seed=5, **options):
    return surface("p010", size, seed=seed).frame(matrix="bt2020", transfer="pq", light=seen, **options)


@pytest.mark.parametrize("seen", ["linear", "sdr"])
@pytest.mark.parametrize(
    "work",
    [
        lambda image: sg.relayout(
            image, dtype="float32", scale=2.0, bias=(0.5, 1, 2), layout="HWC", channels=(2, 1, 0)
        ),
        lambda image: sg.resize(image, (9, 17), dtype="float32"),
        lambda image: sg.resize(image, (40, 60), interpolation="opencv-linear"),
        lambda image: sg.letterbox(image, (20, 20), value=7),
        lambda image: sg.gather_crops([image, image], [(1, 2), (-3, 40)], (11, 13), flip=[False, True]),
        lambda image: sg.gather_crops([image], size=(8, 8), boxes=[(1.5, 2.5, 20, 30)], interpolation="torch-bilinear"),
        lambda image: sg.Preprocess("x", resize=(16, 16), dtype="float32", dims="CHW")({"x": [image]})["x"],
    ],
    ids=["relayout", "resize", "opencv-linear", "letterbox", "crops", "boxes", "Preprocess"],
)
def test_operations_see_the_image_of_the_frame(seen, work):
    frame = hdr(seen)
    image = sg.relayout(frame, layout="HWC")
    assert image.dtype == ("float32" if seen == "linear" else "uint8")
    assert np.array_equal(np.asarray(work(frame)), np.asarray(work(image)))


def test_processors_take_sdr_and_refuse_light():
    source = {"image_processor_type": "CLIPImageProcessor"}
    frame, processor = hdr("sdr"), sg.image_processor(source)
    image = np.ascontiguousarray(pixels(frame))
    made = [processor([one], return_tensors="np")["pixel_values"] for one in (frame, image)]
    assert np.array_equal(*made)
    with pytest.raises(TypeError, match=r"holds float32; the bits of image processors are those of bytes"):
        processor([hdr("linear")])
    with pytest.raises(TypeError, match="is a frame of p010"):
        sg.video_processor({"video_processor_type": "VideoMAEVideoProcessor"})([[hdr(None)] * 16])


def test_a_film_of_sdr_is_read_frame_by_frame():
    processor = sg.video_processor({"video_processor_type": "Qwen2VLVideoProcessor"})
    frames = [hdr("sdr", (56, 56), seed) for seed in range(4)]
    known = {"total_num_frames": 4}
    made = [
        processor(film, video_metadata=known, do_sample_frames=False, return_tensors="np")["pixel_values_videos"]
        for film in (iter(frames), [np.ascontiguousarray(pixels(frame)) for frame in frames])
    ]
    assert np.array_equal(*made)


@pytest.mark.parametrize("seen", [None, "linear", "sdr"])
def test_views_copies_and_pickles_keep_what_operations_see(seen):
    frame = surface("p210", (32, 48), seed=5).frame(transfer="pq", light=seen)
    image = pixels(frame)
    for other in (pickle.loads(pickle.dumps(frame)), frame.to_device("cuda-emulated")):
        assert (other.transfer, other.light) == ("pq", seen)
        assert np.array_equal(sg.relayout(other, device="cpu", layout="HWC").permute("HWC").numpy(), image)
    top, bottom = frame.fields
    assert np.array_equal(pixels(top), image[::2])
    assert np.array_equal(pixels(bottom), image[1::2])
    assert np.array_equal(pixels(frame.rotated(180)), image[::-1, ::-1])
    assert np.array_equal(pixels(frame.mirrored()), image[:, ::-1])


def test_a_frame_says_what_its_codes_mean_and_what_is_seen():
    assert [repr(hdr(seen)) for seen in (None, "linear", "sdr")] == [
        "<Frame p010, 32 x 48, bt2020, pq, on cpu>",
        "<Frame p010, 32 x 48, bt2020, pq as linear light, on cpu>",
        "<Frame p010, 32 x 48, bt2020, pq as SDR, on cpu>",
    ]


def test_without_light_the_codes_stay_as_they_are():
    made = surface("p010", (8, 10), seed=1)
    assert np.array_equal(pixels(made.frame(transfer="hlg")), pixels(made.frame()))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"transfer": "st2084"}, r"transfer='st2084' is unknown; it is one of 'pq', 'hlg', or None\."),
        ({"transfer": 16}, r"transfer=16 is unknown"),
        ({"transfer": "pq", "light": "hdr"}, r"light='hdr' is unknown; it is one of 'linear', 'sdr', or None\."),
        ({"transfer": "pq", "light": True}, r"light=True is unknown"),
        ({"light": "sdr"}, r"light='sdr' follows from a transfer function, .*say transfer='pq' or 'hlg'"),
    ],
    ids=lambda value: " ".join(f"{key}={entry}" for key, entry in value.items()) if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("way", ["Frame", "over", "of planes"])
def test_names_are_checked(way, options, message):
    luma, chroma = np.zeros((4, 4), np.uint8), np.zeros((2, 4), np.uint8)
    make = {
        "Frame": lambda: sg.Frame("nv12", [luma, chroma], sizes=(4, 4), **options),
        "over": lambda: sg.Frame.over("nv12", bytes(24), (4, 4), **options),
        "of planes": lambda: sg.Frame.of({"y": luma, "uv": chroma}, **options),
    }
    with pytest.raises(sg.LayoutError, match=message):
        make[way]()


@pytest.mark.parametrize(
    "plan",
    [
        lambda frame: sg.plan_relayout(frame, sg.empty((3, 32, 48), "float32")),
        lambda frame: sg.plan_relayout([frame], sg.empty((1, 3, 32, 48), "float32")),
        lambda frame: sg.plan_resize(frame, sg.empty((3, 8, 8), "float32")),
        lambda frame: sg.plan_gather_crops([frame], (8, 8)),
    ],
    ids=["relayout", "list", "resize", "crops"],
)
def test_plans_refuse_what_becomes_an_image_before(plan):
    with pytest.raises(sg.LayoutError, match=r"pq as SDR, on cpu> becomes an image before other work.*relayout\(\)"):
        plan(hdr("sdr"))


def test_a_plan_for_codes_refuses_light():
    out = sg.empty((3, 32, 48), "uint16", device="cpu")
    plan = sg.plan_relayout(hdr(None), out)
    with pytest.raises(sg.BindingError, match="is not a frame like the one that was planned for"):
        plan(hdr("linear"), out)


def test_nothing_is_written_into_a_frame_with_light():
    frame = sg.Frame.over("p010", np.zeros(32 * 48 * 3 // 2, np.uint16), (32, 48), transfer="pq", light="linear")
    with pytest.raises(sg.LayoutError, match="out has light='linear', by which a frame is read alone"):
        sg.relayout(np.full((3, 32, 48), 9, np.uint16), dims="CHW", out=frame)
    assert not frame.planes[0].numpy().any()


def test_a_list_has_colours_of_one_type():
    with pytest.raises(
        TypeError, match=r"frames\[1\] \(linear light\) has colours of float32 and frames\[0\] \(p010\)"
    ):
        sg.relayout([hdr(None), hdr("linear")])


@pytest.mark.parametrize("codec", ["ffv1", "libx265", "libsvtav1"])
@pytest.mark.parametrize("number, transfer", [(16, "pq"), (18, "hlg"), (1, None), (2, None)])
def test_a_real_encode_states_its_transfer_function(codec, number, transfer):
    av = pytest.importorskip("av", reason="PyAV, which makes the frames, is not installed")
    if codec not in av.codecs_available:
        pytest.skip(f"this PyAV has no {codec}")
    memory = io.BytesIO()
    with av.open(memory, "w", format="matroska") as film:
        stream = film.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p10le"
        stream.codec_context.color_trc, stream.codec_context.colorspace = number, 9
        picture = av.VideoFrame.from_ndarray(np.full((64, 64, 3), 180, np.uint8), format="rgb24")
        picture = picture.reformat(format="yuv420p10le")
        picture.color_trc, picture.colorspace = number, 9
        film.mux(stream.encode(picture))
        film.mux(stream.encode())
    memory.seek(0)
    with av.open(memory) as film:
        (decoded,) = film.decode(video=0)
    frame = sg.Frame.of(decoded)
    assert (frame.transfer, frame.light, frame.matrix) == (transfer, None, "bt2020")
    assert sg.Frame.of(decoded, transfer="hlg", light="linear").transfer == "hlg"
    if transfer is None:
        with pytest.raises(sg.LayoutError, match="light='sdr' follows from a transfer function"):
            sg.Frame.of(decoded, light="sdr")
    else:
        codes = pixels(frame)
        assert np.abs(pixels(sg.Frame.of(decoded, light="sdr")) - sdr(transfer, codes)).max() < 0.53


@pytest.mark.parametrize("number, last", [(16, 520), (18, 630)], ids=["pq", "hlg"])
def test_grays_below_white_are_those_of_ffmpeg_8(number, last):
    av = pytest.importorskip("av", "18", reason="PyAV 18, whose swscale converts HDR, is not installed")
    levels = np.arange(64, last, dtype=np.uint16)[None]
    frame = av.VideoFrame(levels.size, 1, "yuv444p10le")
    for plane, samples in zip(
        frame.planes, (levels, np.full_like(levels, 512), np.full_like(levels, 512)), strict=True
    ):
        row = np.zeros((1, plane.line_size // 2), np.uint16)
        row[:, : levels.size] = samples
        plane.update(row)
    frame.color_trc, frame.colorspace, frame.color_range, frame.color_primaries = number, 9, 1, 9
    theirs = frame.reformat(format="rgb24", dst_colorspace=1, dst_color_trc=13, dst_color_primaries=1).to_ndarray()
    assert np.abs(pixels(sg.Frame.of(frame, light="sdr")).astype(int) - theirs).max() <= 1
