"""Frames of real encodes: their planes, colours, fields and rotation, as FFmpeg's own decoders state them."""

from __future__ import annotations

import numpy as np
import pytest

import stridedgpu as sg

av = pytest.importorskip("av", reason="PyAV, which encodes and decodes, is not installed")

LOSSLESS = {"x264-params": "qp=0", "preset": "ultrafast"}


def drawn(size, seed=3):
    """An image (H, W, 3) whose colours change slowly."""
    coarse = np.random.default_rng(seed).integers(40, 216, (4, 4, 3)).astype(np.float32)
    return np.ascontiguousarray(
        sg.resize(coarse, size, dims="HWC", dtype="uint8", layout="HWC").numpy().transpose(1, 2, 0)
    )


def decoded(path, frames, codec, form, options=None, *, prepare=None, **context):
    """The frames of a file that frames of any format are encoded into."""
    with av.open(path, "w") as container:
        stream = container.add_stream(codec, rate=25, options=options or {})
        stream.width, stream.height, stream.pix_fmt = frames[0].width, frames[0].height, form
        for name, value in context.items():
            setattr(stream.codec_context, name, value)
        if prepare is not None:
            prepare(stream)
        for number, frame in enumerate(frames):
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with av.open(path) as container:
        return list(container.decode(video=0))


def frame_of(image):
    return av.VideoFrame.from_ndarray(image, format="rgb24")


def pixels_of(frame):
    """The 8-bit colours of a frame, (H, W, C)."""
    pixels = sg.relayout(frame).numpy().transpose(1, 2, 0)
    return pixels if pixels.dtype == np.uint8 else (pixels >> 8).astype(np.uint8)


ENCODES = {
    "h264": ("libx264", "yuv420p", {"preset": "ultrafast"}, {}),
    "h264 full range": ("libx264", "yuvj420p", {"preset": "ultrafast"}, {"color_range": 2}),
    "h264 10 bits": ("libx264", "yuv420p10le", {"preset": "ultrafast"}, {}),
    "h264 bt709": ("libx264", "yuv420p", {"preset": "ultrafast"}, {"colorspace": 1, "color_range": 1}),
    "ffv1 gray": ("ffv1", "gray", {}, {}),
    "hevc": ("libx265", "yuv420p", {"preset": "ultrafast", "x265-params": "log-level=none"}, {}),
    "hevc 10 bits bt2020": (
        "libx265",
        "yuv420p10le",
        {"preset": "ultrafast", "x265-params": "log-level=none:colormatrix=bt2020nc"},
        {},
    ),
    "h264 4:4:4": ("libx264", "yuv444p", {"preset": "ultrafast"}, {}),
    "ffv1": ("ffv1", "yuv420p", {}, {}),
    "ffv1 4:2:2": ("ffv1", "yuv422p", {}, {}),
    "mpeg2": ("mpeg2video", "yuv420p", {}, {}),
    "vp8": ("libvpx", "yuv420p", {"deadline": "realtime"}, {}),
}


@pytest.mark.parametrize("name", ENCODES)
@pytest.mark.parametrize("size", [(64, 96), (50, 102)], ids=["whole blocks", "cropped"])
def test_planes_are_those_of_the_decoder(tmp_path, name, size):
    """The shown size of a video is no multiple of its codec's blocks: what decoders store beside it is not seen."""
    codec, form, options, context = ENCODES[name]
    image = drawn(size)
    theirs = decoded(tmp_path / "film.mkv", [frame_of(image)] * 3, codec, form, options, **context)[-1]
    frame = sg.Frame.of(theirs)
    assert frame.sizes == size
    assert frame.full_range == ("full range" in name)
    assert frame.matrix == next((one for one in ("bt709", "bt2020") if one in name), "bt601")
    planes = [plane.numpy().reshape(len(plane.numpy()), -1) for plane in frame.planes]
    stored = theirs.to_ndarray().reshape(-1)
    assert np.array_equal(np.concatenate([plane.reshape(-1) for plane in planes]), stored)
    assert [plane.operand.address for plane in frame.planes] == [plane.buffer_ptr for plane in theirs.planes]
    expected = theirs.to_ndarray(format="rgb24").astype(int)
    assert np.abs(pixels_of(frame) - expected).max() <= (0 if form == "gray" else 14)


def test_1080_rows_are_shown_of_1088(tmp_path):
    image = drawn((1080, 1920))
    theirs = decoded(tmp_path / "film.mp4", [frame_of(image)] * 2, "libx264", "yuv420p", {"preset": "ultrafast"})[0]
    frame = sg.Frame.of(theirs)
    assert frame.sizes == (1080, 1920)
    luma = frame.planes[0].numpy()
    assert np.array_equal(luma, theirs.to_ndarray()[:1080])
    small = sg.resize(theirs, (108, 192)).numpy().transpose(1, 2, 0).astype(int)
    assert np.abs(small - sg.resize(image, (108, 192), dims="HWC").numpy().transpose(1, 2, 0)).mean() < 4


INTERLACED = {
    "h264": ("libx264", {**LOSSLESS, "x264-params": "qp=0:tff=1"}, 0),
    "mpeg2": ("mpeg2video", {"flags": "+ildct+ilme", "qmin": "1", "qmax": "2"}, 16),
}


@pytest.mark.parametrize("name", INTERLACED)
def test_fields_of_an_interlaced_video(tmp_path, name):
    """Two images, a 50th of a second apart, each in every other row of luma and of chroma."""
    codec, options, most = INTERLACED[name]
    size = (64, 96)
    fields = [frame_of(drawn((32, 96), seed)).reformat(format="yuv420p").to_ndarray() for seed in (1, 2)]
    woven = av.VideoFrame(size[1], size[0], "yuv420p")
    starts = (0, 32, 40, 48)
    for plane, first, end in zip(woven.planes, starts, starts[1:], strict=False):
        width = plane.width
        rows = np.zeros((plane.height, plane.line_size), np.uint8)
        for number, field in enumerate(fields):
            rows[number::2, :width] = field[first:end].reshape(-1, width)
        plane.update(rows)
    theirs = decoded(tmp_path / "film.mkv", [woven] * 3, codec, "yuv420p", options)[0]
    assert theirs.interlaced_frame
    for field, samples in zip(sg.Frame.of(theirs).fields, fields, strict=True):
        expected = pixels_of(sg.Frame.over("yuv420p", samples, (32, 96)))
        assert np.abs(pixels_of(field).astype(int) - expected).max() <= most
    whole = pixels_of(sg.Frame.of(theirs))
    assert np.abs(pixels_of(sg.Frame.of(theirs).fields[0]).astype(int) - whole[::2]).max() > 40  # chroma of both fields


@pytest.mark.parametrize("degrees", [0, 90, -90, 180])
def test_a_phones_video_is_upright_by_the_rotation_that_it_states(tmp_path, degrees):
    """The camera's rows are stored as they come, and the file says by how much they are to be rotated."""
    upright = drawn((96, 64) if degrees % 180 else (64, 96))
    stored = np.ascontiguousarray(np.rot90(upright, -degrees // 90))
    theirs = decoded(
        tmp_path / "film.mp4",
        [frame_of(stored)] * 2,
        "libx264",
        "yuv420p",
        LOSSLESS,
        prepare=lambda stream: stream.set_display_rotation(degrees),
    )[0]
    assert theirs.rotation % 360 == degrees % 360
    frame = sg.Frame.of(theirs)
    assert frame.sizes == (theirs.height, theirs.width) == (64, 96)  # as stored, as PyAV's arrays are
    assert np.abs(pixels_of(theirs).astype(int) - theirs.to_ndarray(format="rgb24")).max() <= 12
    turned = frame.rotated(theirs.rotation)
    assert turned.sizes == upright.shape[:2]
    assert np.abs(pixels_of(turned).astype(int) - upright).max() <= 24
    step = sg.Preprocess(resize=(32, 32), device="cpu")
    assert np.array_equal(step(turned), step(np.ascontiguousarray(np.rot90(pixels_of(frame), degrees // 90))))


@pytest.mark.parametrize("form", ["yuv420p", "nv12"])
def test_rows_upside_down_can_be_rotated_and_have_fields(form):
    """Negative line sizes, as filters of FFmpeg make them."""
    graph = av.filter.Graph()
    source = graph.add("buffer", video_size="96x64", pix_fmt=form, time_base="1/25")
    flip, sink = graph.add("vflip"), graph.add("buffersink")
    source.link_to(flip)
    flip.link_to(sink)
    graph.configure()
    theirs = frame_of(drawn((64, 96))).reformat(format=form)
    expected = pixels_of(theirs)[::-1]
    theirs.pts = 0
    source.push(theirs)
    frame = sg.Frame.of(sink.pull())
    assert frame.planes[0].strides[0] < 0
    assert np.array_equal(pixels_of(frame.rotated(90)), np.rot90(expected))
    assert np.array_equal(pixels_of(frame.fields[1].mirrored()), pixels_of(frame.mirrored().fields[1]))


def torchcodec_decoders():
    """TorchCodec's module, or the test is skipped: its libraries look for PyTorch's for CUDA, and for FFmpeg's."""
    pytest.importorskip("torch", reason="PyTorch, which TorchCodec's frames are tensors of, is not installed")
    try:
        return __import__("torchcodec.decoders").decoders
    except (ImportError, OSError, RuntimeError) as missing:
        pytest.skip(f"TorchCodec cannot be loaded: {str(missing).splitlines()[0]}")


@pytest.mark.interop
@pytest.mark.parametrize("name", ENCODES)
def test_torchcodecs_raw_frames_are_those_of_pyav(tmp_path, name):
    decoders = torchcodec_decoders()
    codec, form, options, context = ENCODES[name]
    path = tmp_path / "film.mkv"
    theirs = decoded(path, [frame_of(drawn((50, 102), seed)) for seed in (1, 2)], codec, form, options, **context)
    demuxer = decoders.Demuxer(str(path))
    decoder = demuxer.streams[0].make_decoder()
    raw = [frame for packet in demuxer for frame in decoder.decode(packet)] + decoder.drain()
    assert len(raw) == len(theirs)
    for one, other in zip(raw, theirs, strict=True):
        assert repr(sg.Frame.of(one)) == repr(sg.Frame.of(other))
        assert np.array_equal(pixels_of(one), pixels_of(other))
    images = decoders.VideoDecoder(str(path)).get_frames_in_range(0, 2)
    assert np.array_equal(sg.resize(images, (20, 30)).numpy(), sg.resize(images.data, (20, 30), dims="NCHW").numpy())
    single = decoders.VideoDecoder(str(path), dimension_order="NHWC").get_frame_at(1)
    step = sg.Preprocess(resize=(20, 30), device="cpu")
    assert np.array_equal(step(single), step(images)[1])
