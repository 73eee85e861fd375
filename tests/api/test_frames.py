"""`Frame`: what it is over memory that it does not copy, and what it refuses."""

from __future__ import annotations

import copy
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from harness.frame_cases import surface

import stridedgpu as sg
from stridedgpu import BindingError, ElementTypeError, Layout, LayoutError
from stridedgpu.values.pixel_formats import FFMPEG_NAMES, PIXEL_FORMATS, PLANE_NAMES

SIZES = (4, 6)


def test_a_frame_shares_the_memory_that_it_is_over():
    memory = bytearray(4 * 6 * 3 // 2)
    frame = sg.Frame.over("nv12", memory, SIZES)
    before = sg.relayout(frame).numpy().copy()
    memory[:24] = bytes([235]) * 24
    memory[24:] = bytes([128]) * 12
    assert not np.array_equal(sg.relayout(frame).numpy(), before)
    assert sg.relayout(frame).numpy().min() == 255


def test_planes_come_as_decoders_have_them():
    luma, chroma = np.arange(24, dtype=np.uint8).reshape(4, 6), np.arange(12, dtype=np.uint8).reshape(2, 6)
    frames = [
        sg.Frame("nv12", [luma, chroma], sizes=SIZES),
        sg.Frame("nv12", [luma, chroma.reshape(2, 3, 2)], sizes=SIZES),
        sg.Frame.over("nv12", np.concatenate([luma, chroma]), SIZES),
        sg.Frame.over("nv12", np.concatenate([luma, chroma]).tobytes(), SIZES),
        sg.Frame.over("nv12", np.pad(np.concatenate([luma, chroma]), ((0, 0), (0, 3)))[:, :6], SIZES),
        sg.Frame.over("nv12", np.pad(np.concatenate([luma, chroma]), ((0, 0), (0, 3))), SIZES),
    ]
    pictures = [sg.relayout(frame).numpy() for frame in frames]
    assert all(np.array_equal(picture, pictures[0]) for picture in pictures)
    assert frames[-1].planes[1].strides == (9, 2, 1)


def test_chroma_planes_of_half_the_width_have_half_the_pitch():
    frame = sg.Frame.over("i420", bytes(16 * 4 + 2 * 8 * 2), SIZES, row_pitch_bytes=16)
    assert [plane.strides for plane in frame.planes] == [(16, 1), (8, 1), (8, 1)]
    frame = sg.Frame.over("i420", bytes(200), SIZES, row_pitch_bytes=(16, 3, 5), plane_offsets_bytes=(2, 100, 150))
    assert [(plane.layout.offset, plane.strides[0]) for plane in frame.planes] == [(2, 16), (100, 3), (150, 5)]


def test_pixels_of_video_capture_are_yuyv():
    pixels = np.zeros((4, 6, 2), np.uint8)
    assert sg.Frame("yuyv", [pixels], sizes=SIZES).planes[0].strides == (12, 4, 1)
    assert sg.Frame.over("yuyv", pixels, SIZES).planes[0].strides == (12, 4, 1)


class PackedPlane(bytearray):
    """A plane of PyAV whose samples are packed: it has bytes and a pitch, and exports no capsule."""

    line_size = 16

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **request):
        raise NotImplementedError("mixed component step is not supported for DLPack export")


def test_a_plane_of_packed_samples_that_exports_no_capsule_is_taken_by_its_bytes():
    plane = PackedPlane(range(64))
    frame = sg.Frame("yuyv", [plane], sizes=SIZES)
    assert (frame.planes[0].sizes, frame.planes[0].strides) == ((4, 3, 4), (16, 4, 1))
    assert frame.planes[0].numpy()[2].tolist() == [[32, 33, 34, 35], [36, 37, 38, 39], [40, 41, 42, 43]]
    with pytest.raises(BindingError, match="bytes"):
        sg.Frame("yuyv", [PackedPlane(range(32))], sizes=SIZES)
    with pytest.raises(LayoutError, match=r"planes\[0\] has sizes \(64,\)"):
        sg.Frame("yuyv", [bytes(plane)], sizes=SIZES)


@pytest.mark.interop
def test_planes_of_pytorch_are_shared():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    luma, chroma = torch.full((4, 6), 235, dtype=torch.uint8), torch.full((2, 3, 2), 128, dtype=torch.uint8)
    frame = sg.Frame("nv12", [luma, chroma], sizes=SIZES)
    assert frame.planes[0].buffer.address == luma.data_ptr()
    assert sg.relayout(frame).numpy().min() == 255


def test_a_list_of_frames_is_a_batch_of_any_formats():
    made = [surface(name, (8, 10), seed=n).frame() for n, name in enumerate(("nv12", "yuyv", "bgra", "gray"))]
    batch = sg.relayout(made, dtype="float16", scale=1 / 255, layout="NHWC")
    assert (batch.sizes, batch.dims, batch.strides) == ((4, 3, 8, 10), "NCHW", (240, 1, 30, 3))
    for number, frame in enumerate(made):
        assert np.array_equal(batch.numpy()[number], frame.relayout(dtype="float16", scale=1 / 255).numpy())


def test_a_frame_travels_with_its_planes():
    frame = surface("nv12", (8, 10), seed=1, gap=3).frame(matrix="bt709", full_range=True)
    for arrived in (pickle.loads(pickle.dumps(frame)), copy.deepcopy(frame)):
        assert repr(arrived) == repr(frame)
        assert np.array_equal(sg.relayout(arrived).numpy(), sg.relayout(frame).numpy())
        assert arrived.planes[0].buffer.address != frame.planes[0].buffer.address


def test_a_frame_says_what_it_is():
    frame = sg.Frame.over("p010", bytes(8 * 8 * 3), (8, 8), matrix="bt2020", full_range=True)
    assert repr(frame) == "<Frame p010, 8 x 8, bt2020 full range, on cpu>"
    assert (frame.format, frame.sizes, frame.device, len(frame.planes)) == ("p010", (8, 8), "cpu", 2)
    assert frame.to_device("cpu") is frame
    with pytest.raises(AttributeError):
        frame.matrix = "bt709"


def rows_of(name, sizes):
    """An array (rows, elements) of a surface without gaps, with the row of the first plane."""
    samples = PIXEL_FORMATS[name]
    planes = [Layout(plane.sizes(sizes)).element_count for plane in samples.planes]
    row = samples.planes[0].row_elements(sizes[1])
    return np.zeros((sum(planes) // row, row), samples.element.name)


@pytest.mark.parametrize("name", PIXEL_FORMATS)
def test_memory_of_another_element_type_is_no_surface(name):
    rows = rows_of(name, SIZES)
    assert sg.Frame.over(name, rows, SIZES).sizes == SIZES
    bytes_of_rows = rows.view(np.uint8)
    for memory in (bytes_of_rows, bytes_of_rows.ravel(), bytes_of_rows.tobytes()):
        assert sg.Frame.over(name, memory, SIZES).sizes == SIZES
    for other in ("int8", "bool", "uint16", "int16", "float16", "float32", "float64"):
        if rows.dtype == other:
            continue
        for memory in (rows.astype(other), np.zeros(1000, other), np.zeros((1000, 100), other)):
            with pytest.raises(ElementTypeError, match=rf"memory holds {other}; .*{name} .*{rows.dtype}"):
                sg.Frame.over(name, memory, SIZES)
            with pytest.raises(ElementTypeError, match=rf"memory holds {other}"):
                sg.Frame.over(name, memory, SIZES, row_pitch_bytes=64, plane_offsets_bytes=[0, 0, 0])
        planes = [np.zeros(plane.sizes(SIZES), other) for plane in PIXEL_FORMATS[name].planes]
        with pytest.raises(ElementTypeError, match=rf"planes\[0\] holds {other}; .*{rows.dtype}"):
            sg.Frame(name, planes, sizes=SIZES)


ODD_SIZES = {
    "i420": [(5, 7), (3, 4), (3, 4)],
    "nv12": [(5, 7), (3, 4, 2)],
    "i422": [(5, 7), (5, 4), (5, 4)],
    "nv16": [(5, 7), (5, 4, 2)],
    "yuyv": [(5, 4, 4)],
    "i444": [(5, 7)] * 3,
    "nv24": [(5, 7), (5, 7, 2)],
    "p012": [(5, 7), (3, 4, 2)],
    "i209": [(5, 7), (5, 4), (5, 4)],
    "gbrp14": [(5, 7)] * 3,
}
"""The planes of 5 x 7 pixels, as FFmpeg's `av_image_fill_plane_sizes` has them."""


@pytest.mark.parametrize("name", ODD_SIZES)
def test_chroma_of_odd_sizes_is_rounded_up(name):
    sizes, dtype = ODD_SIZES[name], PIXEL_FORMATS[name].element.name
    rng = np.random.default_rng(1)
    planes = [rng.integers(0, 256, one).astype(dtype) for one in sizes]
    frame = sg.Frame(name, planes, sizes=(5, 7))
    assert [plane.sizes for plane in frame.planes] == sizes
    packed = sg.Frame.over(name, b"".join(plane.tobytes() for plane in planes), (5, 7))
    padded = np.concatenate([np.pad(plane.reshape(len(plane), -1), ((0, 0), (0, 30)))[:, :30] for plane in planes])
    pitches = [30 * padded.itemsize] * len(planes)
    apart = sg.Frame.over(name, padded.tobytes(), (5, 7), row_pitch_bytes=pitches)
    for same in (packed, apart):
        assert [plane.sizes for plane in same.planes] == sizes
        assert np.array_equal(same.relayout().numpy(), frame.relayout().numpy())


def test_an_array_of_an_odd_width_has_room_for_its_chroma():
    rows = np.zeros((5 + 3, 8), np.uint8)
    assert [plane.strides for plane in sg.Frame.over("nv12", rows, (5, 7)).planes] == [(8, 1), (8, 2, 1)]
    with pytest.raises(LayoutError, match="is 7 for plane 1, whose rows of 7 pixels take 8 bytes"):
        sg.Frame.over("nv12", rows[:, :7].copy(), (5, 7))
    with pytest.raises(LayoutError, match="has 59 bytes"):
        sg.Frame.over("i420", rows[:, :7].copy(), (5, 7))
    assert [plane.strides[0] for plane in sg.Frame.over("i420", bytes(59), (5, 7)).planes] == [7, 4, 4]


@pytest.mark.parametrize("name", PIXEL_FORMATS)
def test_memory_with_other_rows_than_the_surface_is_refused(name):
    rows = rows_of(name, SIZES)
    count, row = rows.shape
    offsets = [0] * len(PIXEL_FORMATS[name].planes)
    for other in {5, 6, 7, 8, 12, 20, 1088} - {count}:
        memory = np.zeros((other, row), rows.dtype)
        with pytest.raises(LayoutError, match=rf"sizes \({other}, {row}\).* {count} rows"):
            sg.Frame.over(name, memory, SIZES)
        if other * row >= 4 * max(plane.row_elements(SIZES[1]) for plane in PIXEL_FORMATS[name].planes):
            assert sg.Frame.over(name, memory, SIZES, plane_offsets_bytes=offsets).sizes == SIZES
    with pytest.raises(LayoutError, match=r"has sizes"):
        sg.Frame.over(name, np.zeros((3, *rows.shape), rows.dtype), SIZES)
    padded = np.zeros((count, row + 8), rows.dtype)
    assert sg.Frame.over(name, padded, SIZES).planes[0].strides[0] == row + 8
    if len(offsets) < 3:  # the gap behind the last row is no part of the view, and planes of half a pitch end there
        assert sg.Frame.over(name, padded[:, :row], SIZES).planes[0].strides[0] == row + 8


WRONG_SHAPES = {
    "yuv422p as i420": ("i420", (2 * 48, 64)),
    "yuv444p as i420": ("i420", (3, 48, 64)),
    "yuv444p in rows as nv12": ("nv12", (3 * 48, 64)),
    "yuv420p as gray": ("gray", (72, 64)),
    "yuyv422 as gray": ("gray", (48, 64, 2)),
    "rgb24 as gray": ("gray", (48, 64, 3)),
    "rgb24 as nv12": ("nv12", (48, 64, 3)),
    "rgba as yuyv": ("yuyv", (48, 64, 4)),
    "a coded height of 64 rows": ("nv12", (96, 64)),
    "a batch of one": ("nv12", (1, 72, 64)),
}


@pytest.mark.parametrize("name, shape", WRONG_SHAPES.values(), ids=WRONG_SHAPES)
def test_an_array_of_another_format_is_refused(name, shape):
    with pytest.raises(LayoutError, match=r"memory has sizes \("):
        sg.Frame.over(name, np.zeros(shape, np.uint8), (48, 64))


def test_memory_with_rows_is_bytes_where_the_pitch_is_another():
    pages = np.zeros((3, 4096), np.uint8)
    frame = sg.Frame.over("nv12", pages, (64, 64), row_pitch_bytes=128)
    assert [plane.strides[0] for plane in frame.planes] == [128, 128]
    together = np.zeros((8, 8), np.uint8)  # chroma in rows of the luma's pitch
    frame = sg.Frame.over("i420", together, (4, 8), row_pitch_bytes=(8, 8, 8))
    assert [plane.layout.offset for plane in frame.planes] == [0, 32, 48]
    with pytest.raises(LayoutError, match="8 rows"):
        sg.Frame.over("i420", together[:7], (4, 8), row_pitch_bytes=(8, 8, 8))


def test_one_row_has_any_stride():
    row = np.arange(8, dtype=np.uint16)
    frame = sg.Frame.over("gray16", row[None], (1, 8))
    assert (row[None].strides[0], sg.relayout(frame).numpy()[0, 0].tolist()) == (0, row.tolist())
    with pytest.raises(LayoutError, match="has 2 rows"):
        sg.Frame.over("gray16", row[None], (2, 4))


def test_a_plane_of_packed_samples_has_the_rows_of_the_image():
    with pytest.raises(LayoutError, match=r"planes\[0\] has 8 rows of 16 bytes; .* 4 rows"):
        sg.Frame("gray", [PackedPlane(range(128))], sizes=SIZES)


class NumberedPlane(PackedPlane):
    """A plane that knows its address, which is that of its first row."""

    def __init__(self, content, line_size, skip=0):
        super().__init__(content)
        self.line_size = line_size
        self.buffer_ptr = np.frombuffer(self, np.uint8).ctypes.data + skip


class VideoFrame:
    """What is read of a frame of PyAV."""

    colorspace, color_range = 2, 0

    def __init__(self, form, planes, size=SIZES, components=(), **stated):
        flags = SimpleNamespace(is_rgb=False, has_palette=False, is_bayer=False)
        self.format = SimpleNamespace(name=form, components=components, **vars(flags))
        self.planes, (self.height, self.width) = planes, size
        self.__dict__.update(stated)


@pytest.fixture
def pyav(monkeypatch):
    """A stand-in for PyAV, whose frames are `VideoFrame`s."""
    monkeypatch.setitem(sys.modules, "av", SimpleNamespace(VideoFrame=VideoFrame))


def yuv420p(**stated):
    """A frame of rows of 16 bytes, 8 of chroma."""
    planes = [NumberedPlane(range(64), 16), NumberedPlane(range(64, 80), 8), NumberedPlane(range(80, 96), 8)]
    return VideoFrame(stated.pop("form", "yuv420p"), planes, **stated)


def test_a_frame_of_pyav_is_a_frame(pyav):
    theirs = yuv420p()
    frame = sg.Frame.of(theirs)
    assert repr(frame) == "<Frame i420, 4 x 6, bt601, on cpu>"
    assert [plane.operand.address for plane in frame.planes] == [plane.buffer_ptr for plane in theirs.planes]
    assert [plane.strides for plane in frame.planes] == [(16, 1), (8, 1), (8, 1)]
    assert np.array_equal(sg.relayout(theirs).numpy(), frame.relayout().numpy())
    assert sg.resize([theirs, frame], (2, 3)).sizes == (2, 3, 2, 3)


@pytest.mark.parametrize(
    "stated, words",
    [
        ({"colorspace": 1}, "bt709"),
        ({"colorspace": 9, "color_range": 2}, "bt2020 full range"),
        ({"form": "yuvj420p"}, "bt601 full range"),
        ({"form": "yuvj420p", "color_range": 1}, "bt601 full range"),
        ({"colorspace": 6, "color_range": 1}, "bt601"),
    ],
)
def test_a_frame_of_pyav_states_its_colours(pyav, stated, words):
    assert repr(sg.Frame.of(yuv420p(**stated))) == f"<Frame i420, 4 x 6, {words}, on cpu>"
    said = sg.Frame.of(yuv420p(**stated), matrix="bt601", full_range=False, chroma="linear")
    assert (said.matrix, said.full_range, said.chroma) == ("bt601", False, "linear")


def test_a_negative_line_size_begins_at_the_last_row(pyav):
    plane = NumberedPlane(range(64), -16, skip=48)
    frame = sg.Frame.of(VideoFrame("gray", [plane]))
    assert frame.planes[0].strides == (-16, 1)
    assert frame.planes[0].numpy()[:, 0].tolist() == [48, 32, 16, 0]
    with pytest.raises(BindingError, match=r"rows -16 bytes apart, which are not in its buffer of 64 bytes"):
        sg.Frame.of(VideoFrame("gray", [NumberedPlane(range(64), -16)]))


COMPONENT = {"bits": 8, "plane": 0, "is_luma": True, "is_alpha": False, "height": 4, "width": 6}
OF_440 = [SimpleNamespace(**{**COMPONENT, "plane": n, "is_luma": not n, "height": 2 if n else 4}) for n in range(3)]

REFUSED_FRAMES = {
    "another format": (
        lambda: VideoFrame("yuv440p", [], components=OF_440),
        LayoutError,
        "yuv440p, YUV of 8 bits with 2 x 6 samples of chroma in 3 planes",
    ),
    "no memory": (lambda: VideoFrame("nv12", [], (0, 0)), LayoutError, "VideoFrame of nv12 has 0 planes; nv12 has 2"),
    "a decoder's memory": (lambda: VideoFrame("vaapi", []), LayoutError, "reformat(format='nv12')"),
    "another matrix": (lambda: yuv420p(colorspace=10), LayoutError, "colorspace 10"),
    "too few bytes": (lambda: yuv420p(size=(8, 6)), BindingError, "planes[0] has 64 bytes, fewer than 8 rows"),
    "too many rows": (lambda: yuv420p(size=(2, 6)), LayoutError, "planes[0] has 4 rows of 16 bytes"),
    "cut rows": (lambda: yuv420p(size=(4, 18)), LayoutError, "take 18 bytes"),
}


@pytest.mark.parametrize("what", REFUSED_FRAMES)
def test_what_no_frame_of_pyav_can_be_is_refused_in_words(pyav, what):
    made, error, words = REFUSED_FRAMES[what]
    for taken in (sg.Frame.of, sg.relayout, sg.Preprocess(device="cpu")):
        with pytest.raises((error, LayoutError)) as refused:  # a step's refusals of a row are of one class
            taken(made())
        assert words in str(refused.value)


NAMED = {
    "nv12": {"y": (4, 6), "uv": (2, 3, 2)},
    "nv21": {"vu": (2, 6), "y": (4, 6)},
    "i420": {"y": (4, 6), "v": (2, 3), "u": (2, 3)},
    "i422": {"y": (4, 6), "u": (4, 3), "v": (4, 3)},
    "i444": {"y": (4, 6), "u": (4, 6), "v": (4, 6)},
    "nv61": {"y": (4, 6), "vu": (4, 6)},
    "nv24": {"y": (4, 6), "uv": (4, 6, 2)},
    "gbrp": {"r": (4, 6), "g": (4, 6), "b": (4, 6)},
    "yuyv": {"yuyv": (4, 6, 2)},
    "uyvy": {"uyvy": (4, 3, 4)},
    "argb": {"argb": (4, 6, 4)},
    "gray": {"gray": (4, 6)},
}


@pytest.mark.parametrize("name", NAMED)
def test_planes_by_their_names_are_a_frame(name):
    rng = np.random.default_rng(5)
    planes = {plane: rng.integers(0, 256, sizes, np.uint8) for plane, sizes in NAMED[name].items()}
    frame = sg.Frame.of(planes, matrix="bt709")
    assert (frame.format, frame.sizes, frame.matrix, frame.full_range) == (name, SIZES, "bt709", False)
    ordered = [planes[plane] for plane in PLANE_NAMES[name]]
    expected = sg.Frame(name, ordered, sizes=SIZES, matrix="bt709").relayout().numpy()
    assert np.array_equal(frame.relayout().numpy(), expected)


def test_names_and_planes_that_make_no_frame_are_refused():
    with pytest.raises(LayoutError, match="planes named 'y', 'a'; the names of a format are: 'y', 'uv'; "):
        sg.Frame.of({"y": LUMA, "a": CHROMA})
    with pytest.raises(ElementTypeError, match="y holds uint16; planes of nv12 hold uint8"):
        sg.Frame.of({"y": LUMA.astype("u2"), "uv": CHROMA.astype("u2")})
    with pytest.raises(ElementTypeError, match="uv holds int8; planes of nv12"):
        sg.Frame.of({"y": LUMA, "uv": CHROMA.astype("i1")})
    with pytest.raises(LayoutError, match=r"uv has sizes .*; that plane of a nv12 frame of 4 x 6 pixels"):
        sg.Frame.of({"y": LUMA, "uv": CHROMA[:, :1]})
    with pytest.raises(sg.BindingError, match="uv is on cuda-emulated and y on cpu"):
        sg.Frame.of({"y": LUMA, "uv": sg.asarray(CHROMA).to_device("cuda-emulated")})
    with pytest.raises(LayoutError, match=r"y has sizes \(0, 6\), and no samples"):
        sg.Frame.of({"y": LUMA[:0], "uv": CHROMA})
    with pytest.raises(LayoutError, match="y has sizes \\(24,\\)"):
        sg.Frame.of({"y": LUMA.ravel(), "uv": CHROMA})
    with pytest.raises(LayoutError, match="frame is of type ndarray; "):
        sg.Frame.of(LUMA)


@pytest.mark.parametrize("name", FFMPEG_NAMES)
def test_a_name_of_ffmpeg_is_a_name_of_a_format(name):
    frame = sg.Frame.over(name, BYTES, SIZES)
    assert (frame.format, frame.full_range) == (FFMPEG_NAMES[name], name.startswith("yuvj"))
    same = sg.Frame(name, frame.planes, sizes=SIZES)
    assert (same.format, same.full_range) == (frame.format, frame.full_range)


BYTES = bytes(10_000)
LUMA, CHROMA = np.zeros((4, 6), np.uint8), np.zeros((2, 3, 2), np.uint8)

REFUSED = {
    "an unknown format": (lambda: sg.Frame.over("nv13", BYTES, SIZES), LayoutError, "format='nv13' is unknown"),
    "no height": (lambda: sg.Frame.over("nv12", BYTES, (0, 6)), LayoutError, "sizes"),
    "too little memory": (
        lambda: sg.Frame.over("nv12", bytes(35), SIZES),
        BindingError,
        "plane 1 of nv12 lies from byte 24 to 36",
    ),
    "a pitch of half an element": (
        lambda: sg.Frame.over("p010", BYTES, SIZES, row_pitch_bytes=13),
        LayoutError,
        "whole elements of 2",
    ),
    "a pitch beside another": (
        lambda: sg.Frame.over("nv12", np.zeros((6, 8), np.uint8)[:, :6], SIZES, row_pitch_bytes=6),
        LayoutError,
        "rows of memory are 8 bytes apart",
    ),
    "pitches of one plane": (
        lambda: sg.Frame.over("i420", BYTES, SIZES, row_pitch_bytes=(6,)),
        LayoutError,
        "has 3 planes; give one for each",
    ),
    "offsets of one plane": (
        lambda: sg.Frame.over("i420", BYTES, SIZES, plane_offsets_bytes=(6,)),
        LayoutError,
        "has 3 planes; give one for each",
    ),
    "half an element of offset": (
        lambda: sg.Frame.over("p010", BYTES, SIZES, plane_offsets_bytes=(0, 101)),
        BindingError,
        "plane_offsets_bytes=(0, 101): plane 1 begins 101 bytes into its buffer, inside of an element; a plane of p010",
    ),
    "bytes apart": (lambda: sg.Frame.over("nv12", np.zeros(100, np.uint8)[::2], SIZES), LayoutError, "follow each"),
    "memory backwards": (lambda: sg.Frame.over("nv12", np.zeros((6, 6), np.uint8)[::-1], SIZES), LayoutError, "backw"),
    "memory that cannot be shared": (
        lambda: sg.Frame.over("nv12", [1, 2, 3], SIZES),
        LayoutError,
        "cannot be shared",
    ),
    "a plane too few": (lambda: sg.Frame("nv12", [LUMA], sizes=SIZES), LayoutError, "nv12 has 2, and 1 came"),
    "a plane too small": (lambda: sg.Frame("nv12", [LUMA, CHROMA[:1]], sizes=SIZES), LayoutError, "sizes (2, 3, 2)"),
    "a plane of floats": (
        lambda: sg.Frame("nv12", [LUMA.astype("f4"), CHROMA], sizes=SIZES),
        ElementTypeError,
        "planes[0] holds float32",
    ),
    "planes of one number": (lambda: sg.Frame("nv12", 3, sizes=SIZES), LayoutError, "planes=3 is not a sequence"),
    "chroma of an array": (lambda: sg.Frame.over("nv12", BYTES, SIZES, chroma=np.zeros(2)), LayoutError, "is unknown"),
    "a range that is both": (
        lambda: sg.Frame.over("nv12", BYTES, SIZES, full_range=np.array([True, False])),
        LayoutError,
        "must be True or False",
    ),
    "unknown chroma": (lambda: sg.Frame.over("nv12", BYTES, SIZES, chroma="cubic"), LayoutError, "chroma='cubic'"),
    "two sizes in a batch": (
        lambda: sg.relayout([sg.Frame.over("nv12", BYTES, SIZES), sg.Frame.over("nv12", BYTES, (4, 8))]),
        LayoutError,
        "frames[1] is 4 x 8",
    ),
    "two depths in a batch": (
        lambda: sg.relayout([sg.Frame.over("nv12", BYTES, SIZES), sg.Frame.over("p010", BYTES, SIZES)]),
        ElementTypeError,
        "convert them apart",
    ),
    "a fourth channel": (
        lambda: sg.relayout(sg.Frame.over("rgba", BYTES, SIZES), channels=(3,)),
        LayoutError,
        "the source has 3",
    ),
    "an output that is the frame": (
        lambda: sg.relayout(
            frame := sg.Frame.over("nv12", bytearray(100), SIZES),
            out=sg.StridedTensor(frame.planes[0].buffer, sg.Layout((3, 4, 6)), "uint8"),
        ),
        BindingError,
        "shares memory with frames[0].planes[0]",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_frame_can_be_is_refused_in_words(what):
    attempt, error, words = REFUSED[what]
    with pytest.raises(error) as raised:
        attempt()
    assert words in str(raised.value)


def test_a_stream_on_the_cpu_is_refused():
    with pytest.raises(sg.DeviceError, match="stream"):
        sg.relayout(sg.Frame.over("nv12", BYTES, SIZES), stream=1)


@pytest.mark.parametrize("order", [None, "NHWC"])
def test_images_of_frames_have_the_labels_of_their_axes(order):
    frame = sg.Frame.over("nv12", BYTES, SIZES)
    alone = None if order is None else order.replace("N", "")
    assert frame.relayout(layout=alone).dims == sg.relayout(frame, layout=alone).dims == "CHW"
    assert sg.relayout([frame, frame], layout=order).dims == "NCHW"


@pytest.mark.parametrize(
    "options", [{"layout": "HWC"}, {"row_pitch_bytes": 64}, {"layout": "HWC8"}, {"layout": "CHW4"}], ids=str
)
def test_a_frame_on_another_device_has_the_layout_that_was_chosen(options):
    frame = sg.Frame.over("nv12", bytes(range(96)), (8, 8))
    here, there = (sg.relayout(frame, device=name, **options) for name in ("cpu", "cuda-emulated"))
    assert (there.device, there.layout, there.dims) == ("cuda-emulated", here.layout, here.dims)
    assert np.array_equal(here.numpy(), there.numpy())
