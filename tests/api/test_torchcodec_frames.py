"""TorchCodec's frames as they are: raw ones as frames, and images as the tensors that they hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from harness import torchcodec_frames
from harness.frame_cases import COLOURS, DEEP, SCALED, YUV, surfaces
from harness.torchcodec_frames import Frame, FrameBatch, RawFrame, raw_frame
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu.values.pixel_formats import FFMPEG_NAMES

FORMATS = tuple(name for name in (*YUV, *DEEP, *COLOURS, *SCALED, "gray") if name != "yv12")
"""Those that FFmpeg has."""

NAMED = {ours: theirs for theirs, ours in FFMPEG_NAMES.items() if not theirs.startswith("yuvj")}


@pytest.fixture(autouse=True)
def torchcodec(monkeypatch):
    torchcodec_frames.load(monkeypatch)


@pytest.fixture(scope="module")
def loaded():
    """TorchCodec for the examples of one test."""
    with pytest.MonkeyPatch.context() as patch:
        torchcodec_frames.load(patch)
        yield


@given(surfaces(FORMATS), st.sampled_from(["bt601", "bt709", "bt2020"]), st.booleans())
def test_a_raw_frame_is_the_frame_over_its_planes(loaded, made, matrix, is_full):
    ours = made.frame(matrix=matrix, full_range=is_full)
    space = {"bt601": "smpte170m", "bt709": "bt709", "bt2020": "bt2020nc"}[matrix]
    name = NAMED.get(made.format, made.format)
    theirs = raw_frame(name, ours, color_space=space, color_range="pc" if is_full else "tv")
    frame = sg.Frame.of(theirs)
    assert (frame.format, frame.sizes) == (ours.format, ours.sizes)
    assert [plane.operand.address for plane in frame.planes] == [plane.operand.address for plane in ours.planes]
    assert [plane.strides for plane in frame.planes] == [plane.strides for plane in ours.planes]
    if ours.operand.samples.kind == "yuv":
        assert (frame.matrix, frame.full_range) == (matrix, is_full)
    assert np.array_equal(sg.relayout(theirs).numpy(), sg.relayout(ours).numpy())


def nv12(**stated):
    luma, chroma = np.arange(6 * 8, dtype=np.uint8).reshape(6, 8), np.arange(3 * 4 * 2, dtype=np.uint8).reshape(3, 4, 2)
    return raw_frame("nv12", sg.Frame("nv12", [luma, chroma], sizes=(6, 8)), **stated)


def test_a_raw_frame_states_its_colours():
    for space in ("unknown", "unspecified", "bt470bg", "smpte170m", "gbr"):
        assert repr(sg.Frame.of(nv12(color_space=space))) == "<Frame nv12, 6 x 8, bt601, on cpu>"
    assert (
        repr(sg.Frame.of(nv12(color_space="bt709", color_range="pc")))
        == "<Frame nv12, 6 x 8, bt709 full range, on cpu>"
    )
    with pytest.raises(sg.LayoutError, match=r"colorspace smpte240m, .*matrix="):
        sg.Frame.of(nv12(color_space="smpte240m"))
    assert sg.Frame.of(nv12(color_space="smpte240m"), matrix="bt709").matrix == "bt709"


def test_a_raw_frame_of_a_gpu_stays_there():
    """NVDEC's surface, whose chroma comes as two tensors of every other element."""
    surface = sg.asarray(np.arange(9 * 16, dtype=np.uint8).reshape(9, 16))
    there = surface.to_device("cuda-emulated")
    chroma = there[6:, :8]
    theirs = RawFrame("nv12", 6, 8, (there[:6, :8], chroma[:, ::2], chroma[:, 1::2]), "bt709", "tv")
    frame = sg.Frame.of(theirs)
    assert (frame.device, [plane.strides for plane in frame.planes]) == ("cuda-emulated", [(16, 1), (16, 2, 1)])
    here = sg.Frame.over("nv12", surface, (6, 8), matrix="bt709")
    assert np.array_equal(sg.relayout(theirs).numpy(), sg.relayout(here).numpy())


def test_operations_take_a_raw_frame_as_it_is():
    theirs = nv12(color_space="bt709")
    ours = sg.Frame.of(theirs)
    step = sg.Preprocess(resize=(4, 4), device="cpu")
    assert np.array_equal(sg.resize([theirs, ours], (4, 4)).numpy()[0], sg.resize(ours, (4, 4)).numpy())
    assert np.array_equal(step([theirs])[0], step([ours])[0])
    assert np.array_equal(step(theirs), step(ours))
    processor = sg.image_processor({"image_processor_type": "ViTImageProcessor"})
    taken, expected = processor([theirs])["pixel_values"], processor([ours])["pixel_values"]
    assert np.array_equal(np.asarray(taken), np.asarray(expected))
    with pytest.raises(sg.ElementTypeError, match=r"A RawFrame is planes, not one array. sg.Frame.of"):
        sg.asarray(theirs)


def test_raw_frames_that_are_no_frame_are_refused():
    with pytest.raises(sg.LayoutError, match=r"RawFrame of rgb48le is none of the formats.*ColorConverter"):
        sg.relayout(RawFrame("rgb48le", 6, 8, ()))
    luma, blue, red = nv12().planes
    with pytest.raises(sg.LayoutError, match=r"has 2 planes, fewer"):
        sg.relayout(RawFrame("nv12", 6, 8, (luma, blue)))
    for planes in (
        (luma, red, blue),
        (luma, blue, red.copy()),
        (luma[:4], blue, red),
        (luma.astype(np.int8), blue, red),
        (luma, np.array(3, np.uint8), red),
    ):
        with pytest.raises(sg.BindingError, match=r"do not lie in one plane of uint8"):
            sg.relayout(RawFrame("nv12", 6, 8, planes))


MISSTATED = {
    "pixel_format": (["nv12"], r"pixel_format=\['nv12'\] of the RawFrame must be one of FFmpeg's names"),
    "color_space": (b"bt709", "color_space=b'bt709' of the RawFrame must be"),
    "color_range": (2, "color_range=2 of the RawFrame must be"),
    "height": ("6", r"height and width of the RawFrame=\('6', 8\) must be integers"),
    "width": (0, r"height and width of the RawFrame=\(6, 0\) must each be at least 1"),
    "planes": (3, "planes=3 of the RawFrame is not a sequence of planes"),
}


@pytest.mark.parametrize("name", MISSTATED)
def test_what_a_raw_frame_may_not_state_is_refused_by_its_name(name):
    value, words = MISSTATED[name]
    with pytest.raises(sg.LayoutError, match=words):
        sg.Frame.of(replace(nv12(), **{name: value}))


def test_sizes_of_a_raw_frame_may_be_numpys():
    assert sg.Frame.of(replace(nv12(), height=np.uint8(6), width=np.uint8(8))).sizes == (6, 8)


PIXELS = np.random.default_rng(5).integers(0, 256, (2, 12, 14, 3), np.uint8)
CHANNELS_FIRST = PIXELS.transpose(0, 3, 1, 2)
"""TorchCodec's default order, over memory of the other."""

OPERATIONS = {
    "relayout": lambda batch, **named: sg.relayout(batch, dtype="float32", layout="NCHW", **named),
    "resize": lambda batch, **named: sg.resize(batch, (5, 4), **named),
    "letterbox": lambda batch, **named: sg.letterbox(batch, (16, 16), **named),
    "gather_crops": lambda batch, **named: sg.gather_crops(batch, [[1, 2], [0, 3]], (5, 4), **named),
    "asarray": sg.asarray,
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_a_batch_of_frames_names_its_axes(operation, order):
    expected = operation(CHANNELS_FIRST, dims="NCHW")
    found = operation(FrameBatch(CHANNELS_FIRST if order == "NCHW" else PIXELS))
    assert found.dims == "NCHW"
    assert np.array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("order", ["CHW", "HWC"])
def test_one_frame_and_a_list_of_frames_name_their_axes(order):
    pixels = CHANNELS_FIRST if order == "CHW" else PIXELS
    expected = sg.letterbox(CHANNELS_FIRST, (5, 4), dims="NCHW").numpy()
    assert np.array_equal(sg.letterbox(Frame(pixels[0]), (5, 4)).numpy(), expected[0])
    assert np.array_equal(sg.letterbox(list(map(Frame, pixels)), (5, 4)).numpy(), expected)
    assert np.array_equal(sg.letterbox(list(FrameBatch(pixels)), (5, 4)).numpy(), expected)
    with pytest.raises(sg.LayoutError):
        sg.resize(Frame(pixels[0]), (5, 4), dims="NHWC")


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_steps_and_loaders_take_frames(order):
    pixels = CHANNELS_FIRST if order == "NCHW" else PIXELS
    step = sg.Preprocess(resize=(5, 4), normalize="imagenet", device="cpu")
    expected = step(PIXELS)
    assert np.array_equal(step(FrameBatch(pixels)), expected)
    assert np.array_equal(step(Frame(pixels[0])), expected[0])
    assert np.array_equal(np.stack(step(list(FrameBatch(pixels)))), expected)
    named = sg.Preprocess("video", resize=(5, 4), normalize="imagenet", device="cpu")
    assert np.array_equal(named({"video": FrameBatch(pixels)})["video"], expected)
    for source in (list(map(Frame, pixels)), FrameBatch(pixels)):
        assert np.array_equal(next(iter(sg.load(source, step, batch=2))), expected)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_processors_take_frames(order):
    pixels = CHANNELS_FIRST if order == "NCHW" else PIXELS
    processor = sg.image_processor({"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}})
    expected = np.asarray(processor(list(PIXELS))["pixel_values"])
    for images in (FrameBatch(pixels), list(map(Frame, pixels)), list(FrameBatch(pixels))):
        assert np.array_equal(np.asarray(processor(images)["pixel_values"]), expected)
    assert np.array_equal(np.asarray(processor(Frame(pixels[0]))["pixel_values"]), expected[:1])


def test_a_video_processor_takes_a_batch_of_frames():
    clip = np.random.default_rng(7).integers(0, 256, (4, 96, 128, 3), np.uint8)
    processor = sg.image_processor({"video_processor_type": "Qwen2VLVideoProcessor"})
    expected = processor([clip])
    for videos in ([FrameBatch(clip)], FrameBatch(clip.transpose(0, 3, 1, 2)), [list(FrameBatch(clip))]):
        found = processor(videos)
        assert all(np.array_equal(np.asarray(found[key]), np.asarray(expected[key])) for key in expected)


def test_clips_are_arrays_without_names():
    clips = sg.asarray(FrameBatch(CHANNELS_FIRST[None]))
    assert (clips.sizes, clips.dims) == ((1, 2, 3, 12, 14), None)
