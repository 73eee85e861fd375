"""`Frame`: what it is over memory that it does not copy, and what it refuses."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from harness.frame_cases import surface

import stridedgpu as sg
from stridedgpu import BindingError, ElementTypeError, LayoutError

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


BYTES = bytes(10_000)
LUMA, CHROMA = np.zeros((4, 6), np.uint8), np.zeros((2, 3, 2), np.uint8)

REFUSED = {
    "an unknown format": (lambda: sg.Frame.over("nv13", BYTES, SIZES), LayoutError, "format='nv13' is unknown"),
    "an odd height": (
        lambda: sg.Frame.over("nv12", BYTES, (5, 6)),
        LayoutError,
        "the height 5 is odd; describe a surface of 6 rows",
    ),
    "an odd width": (lambda: sg.Frame.over("yuyv", BYTES, (5, 7)), LayoutError, "the width 7 is odd"),
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
        "no whole uint16",
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
        "is neither true nor false",
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
