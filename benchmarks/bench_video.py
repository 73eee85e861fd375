"""A video file to a model's input beside the usual chains: frames a second of one core, and the most memory.

    python benchmarks/bench_video.py [--threads 1] [--frames 64] [--rounds 5] [--json results.jsonl]
    pytest benchmarks/bench_video.py                   each way once with few frames, as a test

The file is h264 of 1080p, encoded here from an image that moves, with noise. A way has a process of its own: PyAV
decodes on THREADS threads in each, and what follows has as many. Seconds are the processor's, of all threads, so that
other work lengthens them little. They include decoding, which the first row has alone. Memory is the peak of the
process above what it has after a file of two frames, on Linux.

- batch: float32 (N, 3, 224, 224), bilinear by OpenCV's rule, normalised. `to_ndarray` is `frame.to_ndarray` (swscale's
  RGB), `cv2.resize` and NumPy's arithmetic; `reformat` is swscale's resize and the same arithmetic.
- qwen3-vl: `pixel_values_videos` of all frames, by `sg.video_processor`, and by transformers' own class from RGB.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stridedgpu as sg

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

av = pytest.importorskip("av", reason="PyAV, which decodes, is not installed")

MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
SIZE = (224, 224)
QWEN = {"video_processor_type": "Qwen3VLVideoProcessor", "do_sample_frames": False}


def encode(path: Path, frames: int, size: tuple[int, int]) -> None:
    """A film of `frames` frames: an image that moves by four pixels a frame, with noise."""
    height, width = size
    draw = np.random.default_rng(0)
    coarse = draw.integers(0, 256, (height // 16 + 40, width // 16 + 40, 3), np.uint8)
    image = sg.resize(coarse, (height + 512, width + 512), dims="HWC", layout="HWC").numpy().transpose(1, 2, 0)
    image = np.clip(image.astype(np.int16) + draw.integers(-6, 7, image.shape), 0, 255).astype(np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(frames):
            first = 4 * number % 512
            shown = np.ascontiguousarray(image[first : first + height, first : first + width])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(shown, format="rgb24")))
        container.mux(stream.encode())


def decoded(path: str, threads: int) -> Iterator[Any]:
    """The frames of a file."""
    with av.open(path) as container:
        container.streams.video[0].codec_context.thread_count = threads
        yield from container.decode(video=0)


def alone(path: str, _: int, threads: int) -> int:
    """Decode, and do nothing."""
    return sum(frame.height > 0 for frame in decoded(path, threads))


def batch(path: str, frames: int, threads: int) -> Any:
    """Each frame into its place of the batch."""
    out = sg.empty((frames, 3, *SIZE), "float32", device="cpu")
    for number, frame in enumerate(decoded(path, threads)):
        sg.resize([frame], SIZE, interpolation="opencv-linear", normalize="imagenet", out=out[number : number + 1])
    return out.numpy()


def normalised(out: Any, pixels: Any) -> None:
    """An image (H, W, 3) of bytes into its place of a batch."""
    out[...] = ((pixels.astype(np.float32) / 255 - MEAN) / STD).transpose(2, 0, 1)


def batch_by_opencv(path: str, frames: int, threads: int) -> Any:
    """RGB by swscale, then OpenCV and NumPy."""
    import cv2

    out = np.empty((frames, 3, *SIZE), np.float32)
    for number, frame in enumerate(decoded(path, threads)):
        normalised(out[number], cv2.resize(frame.to_ndarray(format="rgb24"), SIZE[::-1]))
    return out


def batch_by_swscale(path: str, frames: int, threads: int) -> Any:
    """RGB of the batch's size by swscale, then NumPy."""
    out = np.empty((frames, 3, *SIZE), np.float32)
    for number, frame in enumerate(decoded(path, threads)):
        normalised(out[number], frame.reformat(SIZE[1], SIZE[0], "rgb24").to_ndarray())
    return out


def qwen(path: str, frames: int, threads: int) -> Any:
    """The frames of the decoder's loop, one after another."""
    processor = sg.video_processor(QWEN)
    known = {"total_num_frames": frames, "fps": 25.0}
    return processor(decoded(path, threads), video_metadata=known, return_tensors="np")["pixel_values_videos"]


def qwen_by_transformers(path: str, _: int, threads: int) -> Any:
    """RGB of all frames, then the class of transformers."""
    from harness.transformers_processors import original

    processor = original("Qwen3VLVideoProcessor", "torchvision", do_sample_frames=False)
    pixels = np.stack([frame.to_ndarray(format="rgb24") for frame in decoded(path, threads)])
    return np.asarray(processor(videos=[pixels], return_tensors="np")["pixel_values_videos"])


Way = Callable[[str, int, int], Any]

WAYS: dict[tuple[str, str], Way] = {
    ("decoding", "PyAV"): alone,
    ("batch", "stridedgpu"): batch,
    ("batch", "to_ndarray, OpenCV"): batch_by_opencv,
    ("batch", "reformat"): batch_by_swscale,
    ("qwen3-vl", "stridedgpu"): qwen,
    ("qwen3-vl", "to_ndarray, transformers"): qwen_by_transformers,
}


def limit(threads: int) -> None:
    """Have the libraries use so many threads."""
    sg.set_num_threads(threads)
    for module, name in (("cv2", "setNumThreads"), ("torch", "set_num_threads")):
        try:
            getattr(__import__(module), name)(threads)
        except ImportError:
            continue


def resident(field: str) -> int:
    """VmRSS, the process's memory now, or VmHWM, its peak, in kB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def measured(way: tuple[str, str], short: str, path: str, frames: int, threads: int, rounds: int) -> dict[str, Any]:
    """The seconds of one way, and its memory, in this process."""
    limit(threads)
    run = WAYS[way]
    run(short, 2, threads)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    before = resident("VmRSS")
    run(path, frames, threads)
    peak = (resident("VmHWM") - before) / 1024
    seconds = []
    for _ in range(rounds):
        began = time.process_time()
        run(path, frames, threads)
        seconds.append(time.process_time() - began)
    middle = statistics.median(seconds)
    return {"work": way[0], "way": way[1], "seconds": middle, "frames_a_second": frames / middle, "peak_mib": peak}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--frames", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        short, path = Path(folder, "short.mp4"), Path(folder, "film.mp4")
        encode(short, 2, (1080, 1920))
        encode(path, options.frames, (1080, 1920))
        print(f"{options.frames} frames of 1080p, {path.stat().st_size >> 10} kB, threads: {options.threads}")
        for way in WAYS:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                facts = (way, str(short), str(path), options.frames, options.threads, options.rounds)
                row = pool.apply(measured, facts)
            print("{work:10}{way:28}{seconds:8.2f} s{frames_a_second:9.1f} frames/s{peak_mib:9.0f} MiB".format(**row))
            if options.json:
                with options.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row | {"threads": options.threads, "frames": options.frames}) + "\n")


@pytest.mark.parametrize("way", WAYS, ids=" by ".join)
def test_every_way_makes_what_the_first_one_makes(way, tmp_path):
    for module, part in (("cv2", "OpenCV"), ("transformers", "transformers")):
        if part in way[1]:
            pytest.importorskip(module)
    path = tmp_path / "film.mp4"
    encode(path, 4, (120, 160))
    made, wanted = (WAYS[one](str(path), 4, 1) for one in (way, next(one for one in WAYS if one[0] == way[0])))
    assert np.asarray(made).shape == np.asarray(wanted).shape
    assert np.abs(np.asarray(made, np.float32) - wanted).mean() < 0.1


if __name__ == "__main__":
    main()
