"""Frames with `arithmetic="swscale"`: the pixels of FFmpeg's swscale, as PyAV makes them, to the bit."""

from __future__ import annotations

import io
import pickle
import platform

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths
from harness.frame_cases import converting_by, surface, surfaces
from hypothesis import given, strategies as st

import stridedgpu as sg

FFMPEG = {"i420": "yuv420p", "i422": "yuv422p", "i444": "yuv444p"}
"""The formats that PyAV has, too."""

COLORSPACES = {"bt601": 5, "bt709": 1, "bt2020": 9}


@pytest.fixture(scope="module")
def av():
    """PyAV, whose swscale has vectors of x86 alone that were compared: those of ARM may be others."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        pytest.skip(f"swscale on {platform.machine()} has vectors of its own")
    return pytest.importorskip("av", "17", reason="PyAV 17, whose swscale's pixels are compared, is not installed")


def swscale(av, name, planes, matrix, *, full_range):
    """Red, green and blue (H, W, 3) of planes as swscale has them."""
    height, width = planes[0].shape
    frame = av.VideoFrame(width, height, FFMPEG[name])
    frame.colorspace, frame.color_range = COLORSPACES[matrix], 2 if full_range else 1
    for plane, samples in zip(frame.planes, planes, strict=True):
        rows = np.zeros((plane.height, plane.line_size), np.uint8)
        rows[:, : samples.shape[1]] = samples
        plane.update(rows)
    return frame.to_ndarray(format="rgb24")


def pixels(frame):
    return sg.relayout(frame, layout="HWC").permute("HWC").numpy()


@cpu_paths
@given(data=st.data(), matrix=st.sampled_from(list(COLORSPACES)), full_range=st.booleans())
def test_drawn_frames_have_the_pixels_of_swscale(av, path, data, matrix, full_range):
    made = data.draw(surfaces(tuple(FFMPEG), most=70).filter(lambda one: one.format == "i444" or one.sizes[0] % 2 == 0))
    with converting_by(path):
        made_here = pixels(made.frame("swscale", matrix=matrix, full_range=full_range))
    planes = made.luma, made.blue, made.red
    assert np.array_equal(made_here, swscale(av, made.format, planes, matrix, full_range=full_range))


def cube(name, step):
    """Planes with all samples that are multiples of a step, and the largest: luma of each block goes round."""
    values = np.union1d(np.arange(0, 256, step), [255]).astype(np.uint8)
    count, side = len(values), 1 if name == "i444" else 2
    blocks = -(-count // side**2)
    blue, red = (np.tile(plane, (blocks, 1)) for plane in np.meshgrid(values, values))
    luma = np.broadcast_to(np.resize(values, (blocks, 1, side, 1, side)), (blocks, count, side, count, side))
    return [np.ascontiguousarray(plane) for plane in (luma.reshape(-1, count * side), blue, red)]


@pytest.mark.parametrize("step", [15, pytest.param(1, marks=pytest.mark.slow)], ids=["every 15th", "all 2^24"])
@pytest.mark.parametrize("full_range", [False, True], ids=["limited", "full"])
@pytest.mark.parametrize("matrix", COLORSPACES)
@pytest.mark.parametrize("name", ["i420", "i444"])
def test_samples_have_the_colours_of_swscale(av, name, matrix, full_range, step):
    planes = cube(name, step)
    colours = {"matrix": matrix, "full_range": full_range}
    frame = sg.Frame(name, planes, sizes=planes[0].shape, arithmetic="swscale", **colours)
    assert np.array_equal(pixels(frame), swscale(av, name, planes, **colours))


def encoded(av, codec, form, size=(50, 90), **stated):
    """The frames of a moving picture, encoded and decoded."""
    memory = io.BytesIO()
    with av.open(memory, "w", format="matroska") as container:
        stream = container.add_stream(codec, rate=25)
        (stream.height, stream.width), stream.pix_fmt = size, form
        for name, value in stated.items():
            setattr(stream.codec_context, name, value)
        rng = np.random.default_rng(5)
        for number in range(3):
            picture = sg.resize(rng.integers(0, 256, (5, 9, 3), np.uint8), size, dims="HWC", layout="HWC")
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture.permute("HWC").numpy()), format="rgb24")
            frame = frame.reformat(format=form)
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    memory.seek(0)
    with av.open(memory) as container:
        return list(container.decode(video=0))


ENCODES = {
    "h264": ("libx264", "yuv420p", {}),
    "h264 of BT.709": ("libx264", "yuv420p", {"colorspace": 1, "color_range": 1}),
    "h264 of full range": ("libx264", "yuvj420p", {}),
    "h264 of 4:2:2": ("libx264", "yuv422p", {}),
    "hevc of 4:4:4": ("libx265", "yuv444p", {}),
    "ffv1": ("ffv1", "yuv420p", {"colorspace": 9}),
    "mpeg4": ("mpeg4", "yuv420p", {}),
}


@pytest.mark.parametrize("kind", ENCODES)
def test_frames_of_a_decoder_have_the_pixels_of_to_ndarray(av, kind):
    codec, form, colours = ENCODES[kind]
    if codec not in av.codecs_available:
        pytest.skip(f"this PyAV has no {codec}")
    frames = encoded(av, codec, form, **colours)
    assert len(frames) == 3
    for frame in frames:
        expected = frame.to_ndarray(format="rgb24")
        mine = sg.Frame.of(frame, arithmetic="swscale")
        assert np.array_equal(pixels(mine), expected)
        resized = sg.resize(mine, (20, 30)).numpy()
        assert np.array_equal(resized, sg.resize(expected, (20, 30), dims="HWC").numpy())
        (crop,) = sg.gather_crops([mine], [(3, 5)], (20, 31)).numpy()
        assert np.array_equal(crop.transpose(1, 2, 0), expected[3:23, 5:36])


@pytest.mark.parametrize("form", ["yuv420p", "yuv422p"])
def test_an_interlaced_frame_has_the_pixels_of_its_fields(av, form):
    (frame, *_) = encoded(av, "mpeg2video", form, size=(52, 90), options={"flags": "+ilme+ildct"})
    assert frame.interlaced_frame
    expected = frame.to_ndarray(format="rgb24")
    mine = sg.Frame.of(frame, arithmetic="swscale")
    for first, field in enumerate(mine.fields):
        assert np.array_equal(pixels(field), expected[first::2])
    assert np.array_equal(pixels(mine), expected) == (form == "yuv422p")


REFUSED = {
    "chroma in pairs": ("nv12", (4, 6), {}, "for i420, i422, i444, yv12, and this frame is nv12"),
    "packed pixels": ("yuyv", (4, 6), {}, "this frame is yuyv"),
    "deep samples": ("i010", (4, 6), {}, "this frame is i010"),
    "deep gray": ("gray10", (4, 6), {}, "this frame is gray10"),
    "an odd height": ("i420", (5, 6), {}, "this i420 frame has 5 rows"),
    "an odd height of 4:2:2": ("i422", (5, 6), {}, "this i422 frame has 5 rows"),
    "linear chroma": ("i420", (4, 6), {"chroma": "linear"}, "chroma='linear' does not"),
    "another name": ("i420", (4, 6), {"arithmetic": "opencv"}, "it is one of 'rounded', 'swscale'"),
    "no name": ("i420", (4, 6), {"arithmetic": None}, "arithmetic=None is unknown"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_swscale_has_no_known_rule_for_is_refused_in_words(what):
    name, sizes, options, words = REFUSED[what]
    with pytest.raises(sg.LayoutError, match=words):
        surface(name, sizes, 1).frame(**{"arithmetic": "swscale", **options})


def test_any_height_of_4_4_4_and_colours_as_they_are_are_taken():
    assert surface("i444", (5, 7), 1).frame("swscale").arithmetic == "swscale"
    made = surface("rgba", (5, 7), 1)
    assert np.array_equal(pixels(made.frame("swscale")), made.colours)


def test_a_frame_by_swscale_is_read_and_not_written():
    made = surface("i420", (4, 6), 1)
    with pytest.raises(sg.LayoutError, match=r"out has arithmetic='swscale'"):
        sg.relayout(np.zeros((3, 4, 6), np.uint8), dims="CHW", out=made.frame("swscale"))


def test_the_arithmetic_stays_with_a_frame():
    made = surface("i422", (4, 16), 3)
    frame = made.frame("swscale", matrix="bt709", full_range=True)
    assert repr(frame) == "<Frame i422, 4 x 16, bt709 full range by swscale, on cpu>"
    expected = pixels(frame)
    assert not np.array_equal(expected, pixels(made.frame(matrix="bt709", full_range=True)))
    for other in (pickle.loads(pickle.dumps(frame)), frame.to_device("cuda-emulated")):
        assert other.arithmetic == "swscale"
        assert np.array_equal(pixels(other.to_device("cpu")), expected)


def test_a_plan_is_for_frames_of_its_arithmetic():
    made = surface("i420", (4, 16), 3)
    target = sg.empty((3, 4, 16), "uint8")
    plan = sg.plan_relayout(made.frame("swscale"), target)
    assert "rounded down" in plan.explain()
    plan(made.frame("swscale"), target)
    assert np.array_equal(target.numpy().transpose(1, 2, 0), pixels(made.frame("swscale")))
    with pytest.raises(sg.BindingError):
        plan(made.frame(), target)
