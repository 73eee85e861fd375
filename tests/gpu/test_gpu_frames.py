"""On a GPU: frames of every format converted, mixed, cut, resized and written, with the CPU's bits."""

from __future__ import annotations

import numpy as np
import pytest
from harness.frame_cases import surface

import stridedgpu as sg
from stridedgpu.devices.cuda.status import cuda_status
from stridedgpu.operations import frame_colours

STATUS = cuda_status()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason))]

SIZES = (38, 54)
BYTES = ("nv12", "i420", "uyvy")
OPTIONS = {"dtype": "float16", "scale": 1 / 255, "channels": (2, 1, 0)}


def slow(*values):
    """Values of the longer run: over the stand-in, each kernel is compiled by g++."""
    return pytest.param(*values, marks=pytest.mark.slow)


def frames(names=BYTES, chroma="repeated"):
    """A frame of each format, on both devices."""
    near = [surface(name, SIZES, seed, gap=4).frame(matrix="bt709", chroma=chroma) for seed, name in enumerate(names)]
    return near, [frame.to_device("cuda") for frame in near]


MIXED = {"matrix": [[0.2, 0.7, 0.1]], "dtype": "float32"}


@pytest.mark.parametrize("names", [("nv12",), slow(("i420", "uyvy", "p010"))], ids=["nv12", "others"])
@pytest.mark.parametrize(
    "chroma, options",
    [("repeated", OPTIONS), ("linear", OPTIONS), slow("repeated", MIXED)],
    ids=["repeated", "linear", "mixed"],
)
def test_frames_become_the_cpus_pictures(names, chroma, options):
    for name in names:
        near, far = frames([name], chroma)
        assert sg.relayout(far, **options).numpy().tobytes() == sg.relayout(near, **options).numpy().tobytes()


@pytest.mark.slow
def test_windows_of_frames_are_the_cpus():
    near, far = frames()
    windows = ([[3, 5], [-2, 7], [4, -1]], (17, 24))
    made, wanted = (
        sg.gather_crops(side, *windows, flip=[True, False, True], fill=9, **OPTIONS) for side in (far, near)
    )
    assert made.numpy().tobytes() == wanted.numpy().tobytes()


@pytest.mark.parametrize(
    "interpolation", ["opencv-linear", *(slow(name) for name in ("pillow-bilinear", "opencv-nearest"))]
)
@pytest.mark.parametrize("names", [(*BYTES, "bgra"), slow(("p010", "i010"))], ids=["8 bits", "deep"])
def test_frames_are_letterboxed_as_on_the_cpu(names, interpolation):
    near, far = frames(names, chroma="linear")
    made, wanted = (sg.letterbox(side, (40, 48), interpolation=interpolation, dtype="float16") for side in (far, near))
    assert made.numpy().tobytes() == wanted.numpy().tobytes()


@pytest.mark.parametrize("name", ["nv12", *(slow(name) for name in ("yv12", "yuyv", "p010", "gray"))])
def test_pictures_are_written_into_frames_as_on_the_cpu(name):
    (near,), (far,) = frames([name])
    element = near.planes[0].dtype
    picture = np.random.default_rng(0).integers(0, np.iinfo(element).max, (*SIZES, 3), element, endpoint=True)
    sg.relayout(sg.asarray(picture, dims="HWC"), out=near)
    sg.relayout(sg.asarray(picture, dims="HWC", device="cuda"), out=far)
    for one, other in zip(far.planes, near.planes, strict=True):
        assert np.array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("transfer, seen", [("pq", "sdr"), slow("hlg", "linear")], ids=["sdr", "linear"])
def test_high_dynamic_range_is_seen_as_on_the_cpu_in_the_order_of_a_stream(transfer, seen, monkeypatch):
    cupy = pytest.importorskip("cupy")
    monkeypatch.setattr(frame_colours, "_BAND_COLOURS_ON_GPU", 7 * 3 * SIZES[1])
    near = surface("p010", SIZES, 6, gap=4).frame(matrix="bt2020", transfer=transfer, light=seen)
    far, stream = near.to_device("cuda"), cupy.cuda.Stream(non_blocking=True)
    sg.synchronize("cuda")  # the planes have arrived
    made = sg.relayout(far, dtype="float32", scale=2.0, stream=stream)
    stream.synchronize()
    assert made.numpy().tobytes() == sg.relayout(near, dtype="float32", scale=2.0).numpy().tobytes()
