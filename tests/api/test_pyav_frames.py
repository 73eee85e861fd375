"""PyAV's frames as they are: `Frame.of`, and operations that are given a `VideoFrame`."""

from __future__ import annotations

import numpy as np
import pytest

import stridedgpu as sg

av = pytest.importorskip("av", reason="PyAV, which makes the frames, is not installed")

DEPTHS = (9, 10, 12, 14, 16)
FORMATS = {
    **{name: name for name in ("nv12", "nv21", "nv16", "nv24", "nv42", "gbrp", "gray")},
    **{f"yuv{full}{ratio}p": f"i{ratio}" for ratio in ("420", "422", "444") for full in ("", "j")},
    **{f"yuv42{n}p{bits}le": f"i{n}{bits:02}" for n in (0, 2) for bits in DEPTHS},
    **{f"yuv444p{bits}le": f"i4{bits:02}" for bits in DEPTHS},
    **{f"p{n}{bits}le": f"p{n}{bits}" for n in (0, 2, 4) for bits in (10, 12, 16)},
    **{f"{kind}{bits}le": f"{kind}{bits}" for kind in ("gbrp", "gray") for bits in DEPTHS},
    **{f"y2{bits}le": f"y2{bits}" for bits in (10, 12, 16)},
    "yuyv422": "yuyv",
    "uyvy422": "uyvy",
    "rgb0": "rgbx",
    "bgr0": "bgrx",
    "0rgb": "argb",
    "0bgr": "abgr",
    **{name: name for name in ("rgba", "bgra", "argb", "abgr")},
}
"""FFmpeg's names, and those of `Frame`."""

SIZE = (48, 50)


def picture(size=SIZE, seed=3):
    """Colours that change slowly, so that shared chroma is near each pixel's own."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(40, 216, (4, 4, 3)).astype(np.float32)
    return sg.resize(coarse, size, dims="HWC", dtype="uint8", layout="HWC").numpy().transpose(1, 2, 0)


def video_frame(form, size=SIZE):
    """A frame of FFmpeg's format with the colours of `picture`."""
    return av.VideoFrame.from_ndarray(np.ascontiguousarray(picture(size)), format="rgb24").reformat(format=form)


def turned(frame):
    """The frame upside down, by negative line sizes over its own memory."""
    graph = av.filter.Graph()
    size = f"{frame.width}x{frame.height}"
    source = graph.add("buffer", video_size=size, pix_fmt=frame.format.name, time_base="1/25")
    flip, sink = graph.add("vflip"), graph.add("buffersink")
    source.link_to(flip)
    flip.link_to(sink)
    graph.configure()
    frame.pts = 0
    source.push(frame)
    return sink.pull()


def rgb_of(frame):
    """The 8-bit colours of a frame, (H, W, C)."""
    pixels = sg.relayout(frame).numpy().transpose(1, 2, 0)
    return pixels if pixels.dtype == np.uint8 else (pixels >> 8).astype(np.uint8)


@pytest.mark.parametrize("form", FORMATS)
def test_a_frame_of_every_format_shares_its_planes(form):
    theirs = video_frame(form)
    frame = sg.Frame.of(theirs)
    assert (frame.format, frame.sizes, frame.device) == (FORMATS[form], SIZE, "cpu")
    assert [plane.operand.address for plane in frame.planes] == [plane.buffer_ptr for plane in theirs.planes]
    itemsize = frame.operand.element.itemsize
    assert [plane.strides[0] * itemsize for plane in frame.planes] == [plane.line_size for plane in theirs.planes]
    expected = theirs.to_ndarray(format="rgb24").astype(int)
    assert np.abs(rgb_of(frame) - expected).max() <= (10 if frame.operand.samples.kind == "yuv" else 1)
    assert np.abs(rgb_of(theirs).astype(int) - rgb_of(frame)).max() == 0


@pytest.mark.parametrize("form", FORMATS)
def test_ffmpegs_name_is_a_name_of_the_format(form):
    theirs = video_frame(form)
    planes = theirs.planes
    named = sg.Frame(form, planes, sizes=SIZE) if len(planes) > 1 or "422" in form else sg.Frame.of(theirs)
    assert named.format == FORMATS[form]
    assert named.full_range == form.startswith("yuvj")
    assert np.array_equal(rgb_of(named), rgb_of(theirs))


@pytest.mark.parametrize("form", ["yuv420p", "nv12", "yuyv422", "p010le", "yuv444p", "gbrp", "rgba", "gray"])
def test_rows_from_the_last_one_upwards(form):
    theirs = video_frame(form)
    expected = rgb_of(theirs)[::-1]
    flipped = turned(theirs)
    assert all(plane.line_size < 0 for plane in flipped.planes)
    frame = sg.Frame.of(flipped)
    assert frame.planes[0].operand.address == flipped.planes[0].buffer_ptr
    assert frame.planes[0].strides[0] < 0
    assert np.array_equal(rgb_of(frame), expected)
    resized = sg.resize(flipped, (20, 30)).numpy()
    assert np.array_equal(resized, sg.resize(np.ascontiguousarray(expected), (20, 30), dims="HWC").numpy()) or (
        frame.operand.element.itemsize == 2
    )


MATRICES = {None: "bt601", 0: "bt601", 1: "bt709", 2: "bt601", 5: "bt601", 6: "bt601", 9: "bt2020"}


@pytest.mark.parametrize("form", ["yuv420p", "yuvj420p", "nv12"])
@pytest.mark.parametrize("color_range", [None, 0, 1, 2])
@pytest.mark.parametrize("colorspace", MATRICES)
def test_matrix_and_range_are_those_that_swscale_takes(form, colorspace, color_range):
    """Of one colour, so that swscale's pixels and these differ by their rounding alone."""
    theirs = av.VideoFrame(64, 48, form)
    for plane, value in zip(theirs.planes, (120, 90, 200), strict=False):
        samples = np.full(plane.buffer_size, value, np.uint8)
        if form == "nv12" and value == 90:
            samples[1::2] = 200
        plane.update(samples)
    if colorspace is not None:
        theirs.colorspace = colorspace
    if color_range is not None:
        theirs.color_range = color_range
    frame = sg.Frame.of(theirs)
    assert (frame.matrix, frame.full_range) == (MATRICES[colorspace], form == "yuvj420p" or color_range == 2)
    assert np.abs(rgb_of(frame)[8, 8].astype(int) - theirs.to_ndarray(format="rgb24")[8, 8]).max() <= 3
    said = sg.Frame.of(theirs, matrix="bt709", full_range=False, chroma="linear")
    assert (said.matrix, said.full_range, said.chroma) == ("bt709", False, "linear")


@pytest.mark.parametrize("colorspace", [4, 7])
def test_a_matrix_that_no_frame_has_is_refused_and_can_be_said(colorspace):
    theirs = video_frame("yuv420p")
    theirs.colorspace = colorspace
    with pytest.raises(sg.LayoutError, match=rf"colorspace {colorspace}, .*matrix="):
        sg.Frame.of(theirs)
    assert sg.Frame.of(theirs, matrix="bt601").matrix == "bt601"


NEAREST = {
    "yuv440p": "yuv444p",
    "yuvj440p": "yuv444p",
    "yuv411p": "yuv422p",
    "yuv410p": "yuv420p",
    "yvyu422": "yuv422p",
    "nv20le": "yuv422p10le",
    "yuva420p": "yuv420p",
    "yuva444p12le": "yuv444p12le",
    "yuv420p10be": "yuv420p10le",
    "p012be": "yuv420p12le",
    "xv36le": "yuv444p12le",
    "gbrap": "rgba",
    "gbrap10le": "gbrp10le",
    "gbrpf32le": "gbrp16le",
    "rgb48le": "gbrp16le",
    "rgb565le": "rgba",
    "pal8": "rgba",
    "ya8": "gray",
    "ya16le": "gray16le",
    "gray12be": "gray12le",
    "monow": "gray",
}


@pytest.mark.parametrize("form", NEAREST)
def test_a_format_that_no_frame_has_is_refused_by_name_with_what_helps(form):
    theirs = av.VideoFrame(64, 48, form)
    for taken in (sg.Frame.of, sg.relayout, lambda frame: sg.resize([frame], 8)):
        with pytest.raises(sg.LayoutError, match=rf"VideoFrame of {form}, .*reformat\(format='{NEAREST[form]}'\)"):
            taken(theirs)


@pytest.mark.parametrize("form", ["yuv440p", "yuv411p", "yuva420p", "gbrap", "rgb48le", "yuv420p10be", "nv20le"])
def test_what_the_refusal_advises_has_the_pixels(form):
    theirs = video_frame(form)
    frame = sg.Frame.of(theirs.reformat(format=NEAREST[form]))
    assert np.abs(rgb_of(frame).astype(int) - theirs.to_ndarray(format="rgb24")).max() <= 16


@pytest.mark.parametrize("form", ["rgb24", "bgr24"])
def test_an_image_in_one_plane_is_an_array(form):
    theirs = video_frame(form)
    with pytest.raises(sg.LayoutError, match=rf"VideoFrame of {form} is an image .*planes\[0\].*dims='HWC'"):
        sg.Frame.of(theirs)
    channels = (2, 1, 0) if form == "bgr24" else None
    shared = sg.relayout(theirs.planes[0], dims="HWC", channels=channels)
    assert np.array_equal(shared.numpy().transpose(1, 2, 0), picture())


@pytest.mark.parametrize("form", FORMATS)
def test_an_odd_size_has_chroma_rounded_up(form):
    theirs = video_frame(form, (49, 51))
    frame = sg.Frame.of(theirs)
    samples = frame.operand.samples
    for plane, (own, format_plane) in zip(theirs.planes, zip(frame.planes, samples.planes, strict=True), strict=True):
        if len(samples.planes) == len(samples.channels):
            assert own.sizes == (plane.height, plane.width)
        assert own.sizes == format_plane.sizes((49, 51))
        assert own.strides[0] * own.itemsize == plane.line_size
    expected = theirs.to_ndarray(format="rgb24").astype(int)
    assert np.abs(rgb_of(frame) - expected).mean() < (3.5 if samples.kind == "yuv" else 0.5)
    cut = sg.gather_crops([theirs], [[40, 41]], (9, 10)).numpy()[0]
    assert np.array_equal(cut, sg.relayout(theirs).numpy()[:, 40:, 41:])


def test_what_was_silently_wrong_is_refused():
    frame = video_frame("yuv420p10le")
    deep = frame.to_ndarray()
    with pytest.raises(sg.ElementTypeError, match=r"memory holds uint16; a surface of i420 holds uint8.*i010"):
        sg.Frame.over("i420", deep, SIZE)
    with pytest.raises(sg.ElementTypeError, match="memory holds float32"):
        sg.Frame.over("i420", video_frame("yuv420p").to_ndarray().astype(np.float32), SIZE)
    with pytest.raises(sg.LayoutError, match=r"memory has sizes \(96, 50\); a surface of i420, 48 x 50, has 72 rows"):
        sg.Frame.over("i420", video_frame("yuv422p").to_ndarray(), SIZE)
    assert np.array_equal(rgb_of(sg.Frame.over("i010", deep, SIZE)), rgb_of(frame))


OPERATIONS = {
    "relayout": lambda one: sg.relayout(one, dtype="float16", scale=1 / 255),
    "a batch": lambda one: sg.relayout([one, one], layout="NHWC"),
    "resize": lambda one: sg.resize(one, (20, 30)),
    "resize of a list": lambda one: sg.resize([one, one], (20, 30)),
    "letterbox": lambda one: sg.letterbox([one], (64, 64)),
    "gather_crops": lambda one: sg.gather_crops([one], [[2, 3]], (20, 30)),
    "gather_crops with boxes": lambda one: sg.gather_crops([one], boxes=[[2, 3, 20, 30]], size=(8, 8)),
    "Preprocess": lambda one: sg.Preprocess(resize=(20, 30), normalize="0..1", dtype="float32", device="cpu")([one])[0],
    "Preprocess of one": sg.Preprocess(resize=(20, 30), normalize="0..1", device="cpu"),
    "load": lambda one: next(iter(sg.load([one, one], sg.Preprocess(resize=(20, 30), device="cpu"), batch=2))),
}


def pixels_of(result):
    """A result of NumPy's, a tensor's, or of a batch."""
    return result.numpy() if hasattr(result, "numpy") else np.asarray(result)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("form", ["yuv420p", "nv12", "rgba"])
def test_operations_take_a_frame_of_pyav_as_it_is(form, operation):
    theirs = video_frame(form)
    theirs.colorspace = 1
    assert np.array_equal(pixels_of(operation(theirs)), pixels_of(operation(sg.Frame.of(theirs))))


def test_frames_of_both_kinds_are_one_batch():
    theirs = video_frame("yuv420p")
    batch = sg.relayout([theirs, sg.Frame.of(theirs)]).numpy()
    assert np.array_equal(batch[0], batch[1])
    with pytest.raises(sg.LayoutError, match=r"Frames and other images \(ndarray\)"):
        sg.relayout([theirs, picture()])
    with pytest.raises(sg.LayoutError, match=r"frames\[1\]: A VideoFrame of yuv440p"):
        sg.relayout([theirs, video_frame("yuv440p")])


def test_plans_run_on_frames_of_pyav():
    theirs = video_frame("yuv420p")
    out = sg.empty((3, *SIZE), "uint8", device="cpu")
    sg.plan_relayout(theirs, out)(theirs, out)
    assert np.array_equal(out.numpy(), sg.relayout(theirs).numpy())
    small = sg.empty((1, 3, 20, 30), "uint8", device="cpu")
    sg.plan_resize([theirs], small)([theirs], small)
    assert np.array_equal(small.numpy(), sg.resize([theirs], (20, 30)).numpy())
    cut = sg.empty((1, 3, 20, 30), "uint8", device="cpu")
    sg.plan_gather_crops([theirs], (20, 30), out=cut)([theirs], [[2, 3]], cut)
    assert np.array_equal(cut.numpy(), sg.gather_crops([theirs], [[2, 3]], (20, 30)).numpy())
    with pytest.raises(sg.BindingError, match="not a frame like the one"):
        sg.plan_relayout(theirs, out)(video_frame("nv12"), out)


def test_an_image_processor_takes_frames_of_pyav():
    source = {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}}
    processor = sg.image_processor(source, backend="pil")
    theirs = video_frame("yuv420p")
    pixels = sg.relayout(theirs).numpy().transpose(1, 2, 0)
    taken = processor([theirs, sg.Frame.of(theirs)])["pixel_values"]
    expected = processor([pixels, pixels])["pixel_values"]
    assert np.array_equal(np.asarray(taken), np.asarray(expected))


def test_a_video_processor_takes_frames_of_pyav():
    processor = sg.image_processor({"video_processor_type": "Qwen2VLVideoProcessor"})
    clip = [video_frame("yuv420p", (96, 128)) for _ in range(4)]
    pixels = [sg.relayout(frame).numpy().transpose(1, 2, 0) for frame in clip]
    taken, expected = processor([clip]), processor([pixels])
    for key in expected:
        assert np.array_equal(np.asarray(taken[key]), np.asarray(expected[key])), key


def test_a_frame_keeps_its_memory():
    frame = sg.Frame.of(video_frame("yuv420p"))
    before = rgb_of(frame)
    others = [video_frame("yuv420p") for _ in range(20)]
    assert np.array_equal(rgb_of(frame), before)
    assert len(others) == 20


ENCODES = (
    ("mpeg4", "yuv420p", (48, 64)),
    ("libx264", "yuv444p", (49, 51)),
    ("libx264", "yuv422p10le", (48, 64)),
    ("libx265", "yuv420p12le", (48, 64)),
    ("libx265", "gbrp", (49, 51)),
    ("mjpeg", "yuvj420p", (48, 64)),
    ("mjpeg", "yuvj422p", (49, 51)),
    ("prores_ks", "yuv422p10le", (49, 51)),
    ("ffv1", "yuv420p", (49, 51)),
    ("ffv1", "yuv420p9le", (49, 51)),
    ("ffv1", "yuv420p10le", (48, 64)),
    ("ffv1", "yuv422p14le", (49, 51)),
    ("ffv1", "yuv444p16le", (49, 51)),
    ("ffv1", "gbrp12le", (49, 51)),
    ("ffv1", "gray12le", (49, 51)),
)


@pytest.mark.parametrize("codec, form, size", ENCODES, ids=[f"{row[0]} {row[1]} {row[2][0]}" for row in ENCODES])
def test_frames_of_a_real_encode(tmp_path, codec, form, size):
    if codec not in av.codecs_available:
        pytest.skip(f"PyAV has no encoder {codec}")
    path = tmp_path / "film.mkv"
    source = video_frame(form, size)
    with av.open(path, "w") as container:
        stream = container.add_stream(codec, rate=25)
        (stream.height, stream.width), stream.pix_fmt = size, form
        if codec == "mjpeg":
            stream.codec_context.color_range = 2
        container.mux([*stream.encode(source), *stream.encode()])
    with av.open(path) as container:
        theirs = next(container.decode(video=0))
    assert theirs.format.name == form
    frame = sg.Frame.of(theirs)
    assert frame.sizes == size
    assert frame.full_range == form.startswith("yuvj")
    assert np.abs(rgb_of(frame).astype(int) - theirs.to_ndarray(format="rgb24")).mean() < 3.5
    if codec == "ffv1":  # without loss
        assert np.array_equal(sg.relayout(theirs).numpy(), sg.relayout(source).numpy())
    elif not form.startswith("gray"):
        assert np.abs(rgb_of(frame).astype(int) - picture(size)).mean() < 6
