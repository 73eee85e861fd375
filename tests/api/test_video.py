"""A real video file, made and decoded by PyAV, to batches."""

from __future__ import annotations

import gc
import re
import sys
import tracemalloc
from itertools import islice

import numpy as np
import pytest

import stridedgpu as sg

av = pytest.importorskip("av", reason="PyAV, which makes the video, is not installed")
resource = pytest.importorskip("resource", reason="this system does not count the memory of a process so")

PIXELS = (96, 128)


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    """A film of 2,000 images, each a little brighter than the last, 50 times over."""
    path = tmp_path_factory.mktemp("video") / "film.mp4"
    with av.open(path, "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.height, stream.width = PIXELS
        stream.pix_fmt = "yuv420p"
        for number in range(2000):
            picture = np.full((*PIXELS, 3), 5 * (number % 40) + 20, np.uint8)
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return path


def frames_of(path):
    """Each image of the file, as PyAV gives it."""
    with av.open(path) as container:
        yield from container.decode(video=0)


def one_batch_written_again(frames):
    """Batches of 8 in the memory of the first."""
    batch = sg.empty((8, 3, *PIXELS), "float16", device="cpu")
    for number, frame in enumerate(frames):
        sg.relayout(frame, out=batch[number % 8], scale=1 / 255)
        if number % 8 == 7:
            yield batch.numpy()


def letterboxed(frames):
    """Batches of 8 in new memory each."""
    for taken in iter(lambda: list(islice(frames, 8)), []):
        yield sg.letterbox(taken, (64, 64), dtype="float16", scale=1 / 255).numpy()


def stepped(frames):
    """Batches of 8 by a step, whose results are released before the next."""
    step = sg.Preprocess(dtype="float16", resize=(64, 64), normalize="0..1", device="cpu")
    for taken in iter(lambda: list(islice(frames, 8)), []):
        yield np.stack(step(taken))


def resident_bytes():
    """The most memory that the process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def test_what_the_refusal_of_a_frame_advises_has_its_pixels():
    picture = np.random.default_rng(2).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format="yuv420p")
    with pytest.raises(sg.ElementTypeError, match="VideoFrame is planes") as refused:
        sg.asarray(frame)
    advised = re.findall(r"sg\.\w[\w.]*\(frame\)", str(refused.value))
    taken, image = (eval(one, {"sg": sg, "frame": frame}) for one in advised)
    assert image.sizes == (3, 48, 64)
    assert taken.sizes == (48, 64)
    assert np.array_equal(np.concatenate([plane.numpy().ravel() for plane in taken.planes]), frame.to_ndarray().ravel())
    array = frame.to_ndarray(format="rgb24")
    assert sg.asarray(array, dims="HWC").sizes == (3, 48, 64)


@pytest.mark.slow
@pytest.mark.parametrize("batches", [one_batch_written_again, letterboxed, stepped], ids=lambda made: made.__name__)
def test_a_film_becomes_batches_and_memory_stays_flat(video, batches):
    brightness, traced, resident = [], [], []
    tracemalloc.start()
    try:
        for number, batch in enumerate(batches(frames_of(video))):
            middle = batch.shape[2] // 2
            brightness += batch[:, :, middle, middle].astype(np.float32).mean(1).tolist()
            if number in (62, 249):
                gc.collect()
                traced.append(tracemalloc.get_traced_memory()[0])
                resident.append(resident_bytes())
    finally:
        tracemalloc.stop()
    assert len(brightness) == 2000
    assert traced[1] - traced[0] < 2**20, "1,500 images have 27 MB"
    assert resident[1] - resident[0] < 12 * 2**20, (
        "neither Python's memory nor FFmpeg's nor the batches' grows with them"
    )
    wanted = [(5 * (number % 40) + 20) / 255 for number in range(2000)]
    assert np.abs(np.array(brightness) - wanted).max() < 0.06


@pytest.mark.parametrize("name, packed", [("yuyv", "yuyv422"), ("uyvy", "uyvy422")])
def test_planes_of_packed_samples_are_taken_with_their_pitch(name, packed):
    """PyAV exports no capsule of them; their bytes are shared, and `line_size` is the pitch."""
    width, height = 50, 48
    picture = np.random.default_rng(4).integers(0, 256, (height, width, 3), np.uint8)
    theirs = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format=packed)
    plane = theirs.planes[0]
    assert plane.line_size > 2 * width
    frame = sg.Frame(name, theirs.planes, sizes=(height, width))
    assert frame.planes[0].operand.address == plane.buffer_ptr
    rows = np.frombuffer(plane, np.uint8).reshape(height, plane.line_size)[:, : 2 * width]
    expected = sg.Frame(name, [rows.reshape(height, width // 2, 4)], sizes=(height, width))
    assert np.array_equal(sg.relayout(frame).numpy(), sg.relayout(expected).numpy())
    with pytest.raises(sg.BindingError, match="bytes"):
        sg.Frame(name, theirs.planes, sizes=(height + 200, width))
