"""Pictures into frames: the samples of OpenCV, of float64 within a level, and nothing beside the planes."""

from __future__ import annotations

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.frame_cases import DEEP, SHARES, depth_of, opencv, surface
from harness.frame_encodes import FrameEncodeCase
from harness.native_loops import needs_library
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu import BindingError, ElementTypeError, LayoutError
from stridedgpu.devices.cpu.native.frames import samples_kernel
from stridedgpu.devices.cpu.plan import CpuKernel


@st.composite
def pictures(draw):
    """Red, green and blue (H, W, 3) of even sizes."""
    sizes = tuple(2 * draw(st.integers(1, 40)) for _ in range(2))
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1))).integers(0, 256, (*sizes, 3), np.uint8)


def blank(name, sizes, gap=0, **options):
    """A frame whose memory is all 99, and that memory."""
    made = surface(name, sizes, seed=1, gap=gap)
    made.memory[:] = 99
    return made.frame(**options), made.memory


@cpu_paths
@given(pictures(), st.sampled_from(("nv12", "nv21", "i420", "yv12")), st.integers(0, 5))
def test_samples_of_limited_bt601_are_those_of_opencv(path, picture, name, gap):
    cv2 = opencv()
    height, width, _ = picture.shape
    frame, memory = blank(name, (height, width), gap)
    with picking_by(path):
        assert sg.relayout(sg.asarray(picture, dims="HWC"), out=frame) is frame
    wanted = cv2.cvtColor(picture, cv2.COLOR_RGB2YUV_I420).reshape(-1)
    luma = wanted[: height * width].reshape(height, width)
    blue, red = wanted[height * width :].reshape(2, height // 2, width // 2)
    planes = {
        "nv12": (luma, np.stack([blue, red], -1)),
        "nv21": (luma, np.stack([red, blue], -1)),
        "i420": (luma, blue, red),
        "yv12": (luma, red, blue),
    }[name]
    assert all(np.array_equal(*pair) for pair in zip((plane.numpy() for plane in frame.planes), planes, strict=True))
    expected = np.full_like(memory, 99)
    other = sg.Frame.over(
        name,
        expected,
        (height, width),
        row_pitch_bytes=[plane.strides[0] for plane in frame.planes],
        plane_offsets_bytes=[plane.layout.offset for plane in frame.planes],
    )
    for plane, samples in zip(other.planes, planes, strict=True):
        plane[...] = samples
    assert np.array_equal(memory, expected)


ENCODED = {
    "8 bits": ("nv12", "yv12", "uyvy", "gray", "nv61", "i422", "nv24", "i444", "gbrp"),
    "deep": (*DEEP, "gbrp10", "gray12"),
}


@pytest.mark.parametrize("names", ENCODED.values(), ids=ENCODED)
@given(data=st.data())
def test_native_samples_are_those_of_numpy(names, data):
    name, order = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(("HWC", "CHW")))
    height, width = (data.draw(st.integers(1, most)) for most in (8, 160))
    sizes = (height, width, 3) if order == "HWC" else (3, height, width)
    gap, element = data.draw(st.integers(0, 5)), np.uint8 if depth_of(name)[0] == 8 else np.uint16
    rng, memories = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1))), []
    picture = rng.integers(0, np.iinfo(element).max, sizes, element, endpoint=True)
    for path in ("NumPy", "native, 1 thread"):
        frame, memory = blank(name, (height, width), gap, matrix="bt709")
        with picking_by(path):
            sg.relayout(picture, dims=order, channels=(2, 1, 0), out=frame)
        memories.append(memory)
    assert np.array_equal(*memories)


@cpu_paths
@given(pictures())
def test_gray_is_that_of_opencv(path, picture):
    cv2 = opencv()
    frame, _ = blank("gray", picture.shape[:2])
    with picking_by(path):
        sg.relayout(sg.asarray(picture, dims="HWC"), out=frame)
    assert np.array_equal(frame.planes[0].numpy(), cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY))


@given(pictures(), st.sampled_from(("rgbx", "bgra", "argb")))
def test_pixels_of_four_bytes_keep_their_fourth(picture, name):
    frame, _ = blank(name, picture.shape[:2])
    sg.relayout(sg.asarray(picture, dims="HWC"), out=frame, channels=(2, 1, 0))
    assert np.array_equal(sg.relayout(frame).permute("HWC").numpy(), picture[..., ::-1])
    fourth = next(place for place, letter in enumerate(name) if letter not in "rgb")
    assert (frame.planes[0].numpy()[..., fourth] == 99).all()


@cpu_paths
@given(pictures(), st.sampled_from(("yuyv", "uyvy")), st.integers(0, 5))
def test_packed_samples_of_limited_bt601_are_those_of_opencv(path, picture, name, gap):
    cv2 = opencv()
    frame, memory = blank(name, picture.shape[:2], gap)
    with picking_by(path):
        sg.relayout(sg.asarray(picture, dims="HWC"), out=frame)
    wanted = cv2.cvtColor(picture, cv2.COLOR_RGB2YUV_YUY2 if name == "yuyv" else cv2.COLOR_RGB2YUV_UYVY)
    written = frame.planes[0].numpy()
    assert np.array_equal(written.reshape(wanted.shape), wanted)
    written[...] = 99
    assert (memory == 99).all()


@pytest.mark.parametrize("full_range", [False, True], ids=["limited", "full"])
@pytest.mark.parametrize("matrix", ["bt601", "bt709", "bt2020"])
@pytest.mark.parametrize("name", [*DEEP, "yuyv", "i422", "nv24"])
def test_samples_of_other_formats_are_within_a_level_of_float64(name, matrix, full_range):
    (bits, top), sizes = depth_of(name), (31, 47)
    white, dtype = (255, np.uint8) if bits == 8 else (65535, np.uint16)
    picture = np.random.default_rng(2).integers(0, white + 1, (*sizes, 3)).astype(dtype)
    frame, _ = blank(name, sizes, matrix=matrix, full_range=full_range)
    sg.relayout(sg.asarray(picture, dims="HWC"), out=frame)
    kr, kb = SHARES[matrix]
    red, green, blue = (picture[..., c] / white for c in range(3))
    y = kr * red + (1 - kr - kb) * green + kb * blue
    u, v = ((colour - y) / (2 - 2 * share) for colour, share in ((blue, kb), (red, kr)))
    u, v = (fewer(c, *frame.operand.samples.chroma_step) for c in (u, v))
    one = 2 ** (bits - 8)
    ranges = (2**bits - 1, 2**bits - 1, 0) if full_range else (219 * one, 224 * one, 16 * one)
    wanted = [y * ranges[0] + ranges[2], *(c * ranges[1] + 128 * one for c in (u, v))]
    planes = [plane.numpy() for plane in frame.planes]
    if len(planes) == 1:
        made = [planes[0][..., ::2].reshape(31, 48)[:, :47], planes[0][..., 1], planes[0][..., 3]]
    else:
        made = planes if len(planes) == 3 else [planes[0], planes[1][..., 0], planes[1][..., 1]]
    most = 1.6 if (bits, matrix, full_range) == (8, "bt601", False) else 0.6  # OpenCV's constants
    for plane, samples in zip(made, wanted, strict=True):
        assert not (plane & (2**top - 1)).any()
        assert np.abs((plane >> top) - np.clip(samples, 0, 2**bits - 1)).max() < most


def fewer(plane, down, across):
    """Chroma of every pixel at the size that a format has: the upper left one of four, or the mean of two."""
    if across == 1:
        return plane
    if down == 2:
        return plane[::2, ::2]
    plane = np.concatenate([plane, plane[:, -1:]], 1)[:, : 2 * ((plane.shape[1] + 1) // 2)]
    return (plane[:, ::2] + plane[:, 1::2]) / 2


@cpu_paths
@pytest.mark.parametrize("name", ["gbrp", "gbrp9", "gbrp16", "gray", "gray14"])
def test_planes_of_colours_come_back_as_they_were(path, name):
    made = surface(name, (5, 39), seed=4)
    frame, _ = blank(name, (5, 39))
    with picking_by(path):
        sg.relayout(made.frame().relayout(layout="HWC"), out=frame)
    for plane, given_plane in zip(frame.planes, made.frame().planes, strict=True):
        assert np.array_equal(plane.numpy(), given_plane.numpy())


def test_the_second_luma_of_a_pair_that_the_image_cuts_is_the_first():
    frame = sg.Frame("yuyv", [np.full((1, 2, 4), 99, np.uint8)], sizes=(1, 3))
    sg.relayout(np.full((1, 3, 3), 255, np.uint8), dims="HWC", out=frame)
    assert frame.planes[0].numpy().tolist() == [[[235, 128, 235, 128], [235, 128, 235, 128]]]


@pytest.mark.parametrize("full_range", [False, True], ids=["limited", "full"])
@pytest.mark.parametrize("matrix", ["bt601", "bt709", "bt2020"])
def test_samples_of_every_matrix_are_within_a_level_of_float64(matrix, full_range):
    picture = np.random.default_rng(2).integers(0, 256, (64, 96, 3), np.uint8)
    frame, _ = blank("i420", (64, 96), matrix=matrix, full_range=full_range)
    sg.relayout(sg.asarray(picture, dims="HWC"), out=frame)
    kr, kb = SHARES[matrix]
    red, green, blue = (picture[..., c] / 255 for c in range(3))
    y = kr * red + (1 - kr - kb) * green + kb * blue
    u, v = ((colour - y)[::2, ::2] / (2 - 2 * share) for colour, share in ((blue, kb), (red, kr)))
    ranges = (255, 255, 0) if full_range else (219, 224, 16)
    wanted = (y * ranges[0] + ranges[2], u * ranges[1] + 128, v * ranges[1] + 128)
    for plane, samples in zip(frame.planes, wanted, strict=True):
        assert np.abs(plane.numpy() - np.clip(samples, 0, 255)).max() < 1


@pytest.mark.parametrize("matrix", ["bt601", "bt709", "bt2020"])
def test_gray_pictures_have_no_colour_and_come_back_as_they_were(matrix):
    picture = np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, -1)
    frame, _ = blank("nv12", (16, 16), matrix=matrix, full_range=True)
    sg.relayout(sg.asarray(picture, dims="HWC"), out=frame)
    assert (frame.planes[1].numpy() == 128).all()
    assert np.array_equal(sg.relayout(frame).permute("HWC").numpy(), picture)


PICTURE = np.zeros((3, 4, 6), np.uint8)

REFUSED = {
    "a deep frame": (PICTURE, "p010", {}, ElementTypeError, "a frame of p010 takes uint16"),
    "another size": (PICTURE[:, :2], "nv12", {}, LayoutError, "of 4 x 6 pixels"),
    "one channel": (PICTURE[:1], "nv12", {}, LayoutError, "takes 3 channels"),
    "floats": (PICTURE.astype("f4"), "nv12", {}, ElementTypeError, "takes uint8"),
    "a scale": (PICTURE, "nv12", {"scale": 0.5}, LayoutError, "convert the image before"),
    "a layout": (PICTURE, "nv12", {"layout": "CHW"}, LayoutError, "leave out layout"),
    "a batch": (PICTURE[None], "nv12", {}, LayoutError, "takes axes C, H, W"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_frame_can_take_is_refused_before_anything_is_written(what):
    picture, name, options, error, words = REFUSED[what]
    frame, memory = blank(name, (4, 6))
    with pytest.raises(error) as raised:
        sg.relayout(picture, out=frame, **options)
    assert words in str(raised.value)
    assert (memory == 99).all()


def test_planes_that_cannot_be_written_are_refused():
    with pytest.raises(BindingError, match="read-only"):
        sg.relayout(PICTURE, out=sg.Frame.over("nv12", bytes(36), (4, 6)))
    memory = np.zeros(200, np.uint8)
    with pytest.raises(BindingError, match="shares memory"):
        sg.relayout(memory[:72].reshape(3, 4, 6), out=sg.Frame.over("nv12", memory, (4, 6)))
    with pytest.raises(LayoutError, match="src and out are frames"):
        frame = sg.Frame.over("nv12", memory, (4, 6))
        sg.relayout(frame, out=frame)


@pytest.mark.parametrize(
    "name, offsets", [("nv12", (0, 0)), ("nv12", (0, 23)), ("i420", (0, 24, 29)), ("yv12", (5, 30, 0))], ids=str
)
def test_planes_that_overlap_are_read_and_not_written(name, offsets):
    memory = bytearray(range(48))
    frame = sg.Frame.over(name, memory, (4, 6), plane_offsets_bytes=offsets)
    assert sg.relayout(frame).sizes == (3, 4, 6)
    with pytest.raises(BindingError, match=r"out.planes\[\d\] shares memory with out.planes\[\d\]"):
        sg.relayout(np.zeros((4, 6, 3), np.uint8), dims="HWC", out=frame)
    assert memory == bytearray(range(48))


def test_planes_between_the_rows_of_each_other_are_written():
    memory = bytearray(48)
    frame = sg.Frame.over("nv12", memory, (4, 6), row_pitch_bytes=12, plane_offsets_bytes=(0, 6))
    picture = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    apart = sg.Frame.over("nv12", bytearray(36), (4, 6))
    for out in (frame, apart):
        sg.relayout(picture, dims="HWC", out=out)
    for plane, other in zip(frame.planes, apart.planes, strict=True):
        assert np.array_equal(plane.numpy(), other.numpy())


@pytest.mark.parametrize("name, nbytes", [("nv12", 1), ("p010", 2)])
def test_a_problem_counts_the_bytes_of_colours_and_of_samples(name, nbytes):
    problem = FrameEncodeCase(name, size=(4, 14)).problem
    assert problem.bytes_moved == 4 * 14 * (3 + 1.5) * nbytes


@needs_library
@pytest.mark.parametrize("columns, is_native", [(2, False), (4, True), (64, True)])
def test_pictures_of_four_columns_or_more_are_native(columns, is_native):
    kernel = samples_kernel(FrameEncodeCase("nv12", size=(4, columns)).problem)
    assert isinstance(kernel, CpuKernel) == is_native
    assert not is_native or kernel.name.startswith("frame_encode_nv12_")
    assert is_native or kernel == "images narrower than 4 pixels are left to NumPy"
