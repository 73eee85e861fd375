"""Frames on a GPU: one launch an image over the planes where they lie, and the pixels of the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from harness.fake_gpus import gpus  # noqa: F401 - a fixture that `device` wants
from harness.frame_cases import surface

import stridedgpu as sg

OPTIONS = {"dtype": "float16", "scale": 1 / 255, "bias": (-0.5, 0, 0.5)}


@pytest.mark.parametrize("name", ["nv12", "yv12", "uyvy", "p010", "bgra"])
def test_a_picture_has_the_pixels_of_the_cpu(converting, name):
    frame = surface(name, (12, 20), seed=3, gap=4).frame()
    there = frame.to_device("cuda:1")
    assert (there.device, there.planes[0].device) == ("cuda:1", "cuda:1")
    before = len(converting.launched)
    made = sg.relayout(there, **OPTIONS)
    assert (made.device, len(converting.launched)) == ("cuda:1", before + 1)
    assert made.numpy().tobytes() == frame.relayout(**OPTIONS).numpy().tobytes()


def test_windows_begin_anywhere_and_are_filled_beside_the_picture(converting):
    frames = [surface(name, (12, 20), seed=n).frame() for n, name in enumerate(("nv12", "i420", "yuyv"))]
    windows = ([[3, 5], [-2, 7], [4, -1]], (7, 9))
    options = {"flip": [False, True, False], "fill": 9, **OPTIONS}
    made = sg.gather_crops([frame.to_device("cuda:0") for frame in frames], *windows, **options)
    assert made.device == "cuda:0"
    assert made.numpy().tobytes() == sg.gather_crops(frames, *windows, **options).numpy().tobytes()


class PlaneView:
    """A plane as PyNvVideoCodec's decoded frames hand it out: the CUDA Array Interface, with axes H, W, samples."""

    def __init__(self, plane):
        """Keep the plane, and add a last axis to one without."""
        self._plane = plane if plane.ndim == 3 else plane.unsqueeze(2)

    @property
    def __cuda_array_interface__(self):
        return self._plane.__cuda_array_interface__


def test_planes_of_a_decoder_are_read_where_they_lie(converting):
    frame = surface("nv12", (12, 20), seed=4, gap=12).frame()
    planes = [plane.to_device("cuda:1") for plane in frame.planes]
    decoded = [PlaneView(plane) for plane in planes]
    there = sg.Frame("nv12", decoded, sizes=(12, 20))
    assert [plane.buffer.address for plane in there.planes] == [plane.buffer.address for plane in planes]
    assert sg.relayout(there, **OPTIONS).numpy().tobytes() == frame.relayout(**OPTIONS).numpy().tobytes()


def test_a_second_picture_compiles_nothing(converting):
    for seed in (1, 2):
        sg.relayout(surface("nv12", (12, 20), seed).frame().to_device("cuda:1"))
        compiled = compiled if seed == 2 else len(converting.compiled)  # noqa: F821
    assert len(converting.compiled) == compiled


@pytest.mark.parametrize("name", ["nv12", "yv12", "uyvy", "p010", "gray"])
def test_pictures_are_written_into_frames_as_on_the_cpu(converting, name):
    far = surface(name, (12, 20), seed=1, gap=4).frame(matrix="bt709").to_device("cuda:1")
    near, element = surface(name, (12, 20), seed=2).frame(matrix="bt709"), far.planes[0].dtype
    picture = np.random.default_rng(0).integers(0, np.iinfo(element).max, (12, 20, 3)).astype(element)
    sg.relayout(picture, dims="HWC", channels=(2, 1, 0), out=near)
    source, before = sg.asarray(picture, dims="HWC", device="cuda:1"), len(converting.launched)
    assert sg.relayout(source, channels=(2, 1, 0), out=far) is far
    assert len(converting.launched) == before + 1
    for one, other in zip(far.planes, near.planes, strict=True):
        assert np.array_equal(one.to_device("cpu").numpy(), other.numpy())


@pytest.mark.parametrize("options", [{}, {"matrix": [[0.2, 0.7, 0.1]]}], ids=["colours", "mixed"])
@pytest.mark.parametrize("chroma", ["repeated", "linear"])
@pytest.mark.parametrize("name", ["nv12", "uyvy", "i010"])
def test_linear_chroma_and_mixed_colours_are_those_of_the_cpu(converting, name, chroma, options):
    frame = surface(name, (12, 20), seed=1, gap=4).frame(chroma=chroma)
    far, before = frame.to_device("cuda:1"), len(converting.launched)
    made = sg.relayout(far, dtype="float32", **options)
    assert len(converting.launched) == before + 1
    assert made.numpy().tobytes() == sg.relayout(frame, dtype="float32", **options).numpy().tobytes()


@pytest.mark.parametrize("interpolation", ["pillow-bilinear", "opencv-linear", "opencv-nearest"])
def test_frames_of_any_sizes_and_formats_are_resized_by_one_launch(resizing, interpolation):
    kinds = (("nv12", (12, 20), "linear"), ("i420", (16, 8), "repeated"), ("uyvy", (9, 24), "linear"))
    frames = [surface(name, size, seed=5, gap=4).frame(chroma=chroma) for name, size, chroma in kinds]
    frames += [surface("bgra", (11, 13), seed=5).frame(), surface("gray", (7, 5), seed=5).frame()]
    options = {"interpolation": interpolation, "channels": (2, 1, 0), **OPTIONS}
    far = [frame.to_device("cuda:1") for frame in frames]
    before = len(resizing.launched)
    made = sg.letterbox(far, (13, 17), **options)
    assert len(resizing.launched) == before + 1
    assert made.numpy().tobytes() == sg.letterbox(frames, (13, 17), **options).numpy().tobytes()


def test_boxes_of_a_deep_frame_are_one_launch(resizing):
    frame = surface("p010", (12, 20), seed=5, gap=4).frame(matrix="bt2020")
    options = {"boxes": [(0, 0, 12, 20), (1.5, 2, 9, 19.5), (3, 3, 4, 4)], "flip": [True, False, False]}
    far, before = frame.to_device("cuda:1"), len(resizing.launched)
    made = sg.gather_crops(far, size=(6, 8), **options)
    assert len(resizing.launched) == before + 1
    assert made.numpy().tobytes() == sg.gather_crops(frame, size=(6, 8), **options).numpy().tobytes()


def test_the_verbose_line_names_the_kernel_that_converts_as_it_resizes(resizing, capfd):
    frame = surface("nv12", (12, 20), seed=5).frame().to_device("cuda:1")
    sg.set_verbose()
    try:
        sg.resize([frame, frame], (6, 8))
    finally:
        sg.set_verbose(False)
    assert "resize_frames_uint8x8B_uint8x8B" in capfd.readouterr().err
