"""Frames on a GPU: one launch a picture over the planes where they lie, and the pixels of the CPU."""

from __future__ import annotations

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


def test_samples_of_colours_are_the_cpus(converting):
    frame = surface("nv12", (12, 20), seed=1).frame().to_device("cuda:1")
    picture = sg.zeros((3, 12, 20), "uint8", device="cuda:1")
    with pytest.raises(sg.DeviceError, match="cuda:1 has no kernel that makes nv12 frames of 12 x 20 of colours"):
        sg.relayout(picture, out=frame)


def test_linear_chroma_is_the_cpus(converting):
    frame = surface("nv12", (12, 20), seed=1).frame(chroma="linear").to_device("cuda:1")
    with pytest.raises(sg.DeviceError, match="computed on the CPU alone"):
        sg.relayout(frame)
