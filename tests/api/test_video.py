"""A real video file, made and decoded by PyAV, to batches."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest

import stridedgpu as sg

av = pytest.importorskip("av", reason="PyAV, which makes the video, is not installed")

PIXELS = (96, 128)


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    """A film of 2,000 pictures, each a little brighter than the last, 50 times over."""
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
    """Each picture of the file as a frame over FFmpeg's own planes."""
    with av.open(path) as container:
        for picture in container.decode(video=0):
            planes = [np.frombuffer(p, np.uint8).reshape(p.height, p.line_size)[:, : p.width] for p in picture.planes]
            yield sg.Frame("i420", planes, sizes=(picture.height, picture.width))


@pytest.mark.slow
def test_a_film_becomes_batches_and_memory_stays_flat(video):
    batch = sg.empty((8, 3, *PIXELS), "float16", device="cpu")
    brightness, held = [], []
    tracemalloc.start()
    try:
        for number, frame in enumerate(frames_of(video)):
            sg.relayout(frame, out=batch[number % 8], scale=1 / 255)
            brightness.append(float(batch[number % 8].numpy()[:, 40, 40].astype(np.float32).mean()))
            if number in (500, 1999):
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert len(brightness) == 2000
    assert held[1] - held[0] < 1024 * 1024, "1,500 pictures have 27 MB"
    wanted = [(5 * (number % 40) + 20) / 255 for number in range(2000)]
    assert np.abs(np.array(brightness) - wanted).max() < 0.06
