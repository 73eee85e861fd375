"""Video processors beside transformers' own, in turns: times, and the memory that a call needs beside its frames.

    python benchmarks/bench_video_processors.py [--frames 64] [--threads 1 2] [--rounds 3] [--only Qwen2VL,Qwen3VL]

A video is frames of 1080p: bytes as one array, and where PyAV is installed an H.264 file that is decoded in the call,
as a loop of frames here and as the usual array of RGB frames there. Results are tensors of PyTorch, which have to be
equal for the array. Peaks are those of the resident memory above what it was before the call, as Linux counts them,
of a processor's first call: later ones use the memory of released results again.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import stridedgpu as sg

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from harness.transformers_processors import differences, original

NAMES = ("Qwen2VL", "Qwen3VL", "VideoMAE", "LlavaOnevision")
"""The defaults; every class that `sg.video_processor` knows may be named."""

HEIGHT, WIDTH, RATE = 1080, 1920, 30


def frames_of(count: int) -> np.ndarray:
    """Frames (T, H, W, C) with edges and flat parts, which move."""
    small = np.random.default_rng(count).integers(0, 256, ((HEIGHT + count) // 8 + 1, WIDTH // 8, 3), np.uint8)
    large = small.repeat(8, 0).repeat(8, 1)
    return np.stack([large[number : number + HEIGHT] for number in range(count)])


def encoded(frames: np.ndarray, path: Path) -> Path:
    """A file of H.264, 4:2:0."""
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    return path


def decoded(path: Path | None) -> Iterator[Any]:
    """The frames of a file, one after another."""
    import av

    with av.open(str(path)) as container:
        yield from container.decode(video=0)


def resident(key: str) -> float:
    """A figure of the process's memory, MiB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith(key)).split()[1]) / 1024


def measured(way: Callable[[], Any]) -> tuple[float, float]:
    """The milliseconds of a call, and its peak of memory in MiB."""
    gc.collect()
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    start = time.perf_counter()
    kept = way()
    elapsed = (time.perf_counter() - start) * 1e3
    del kept
    return elapsed, max(0.0, resident("VmHWM") - before)


Way = Callable[[Any], Any]
"""What calls a processor with a video."""


def report(name: str, source: str, theirs: Any, mine_way: Way, their_way: Way, rounds: int) -> None:
    """Call both in turns, and print a line."""
    mine = sg.video_processor(theirs)
    _, ours_mib = measured(lambda: mine_way(mine))
    _, theirs_mib = measured(lambda: their_way(theirs))
    turns = [(measured(lambda: mine_way(mine))[0], measured(lambda: their_way(theirs))[0]) for _ in range(rounds)]
    ours_ms, theirs_ms = map(statistics.median, zip(*turns, strict=True))
    print(
        f"{name:16}{source:7}{ours_ms:9.0f} ms {theirs_ms:9.0f} ms {theirs_ms / ours_ms:6.1f} times   "
        f"{ours_mib:7.0f} MiB {theirs_mib:7.0f} MiB",
        flush=True,
    )


def main() -> None:
    """Measure, and print a line for each processor, source and number of threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=64)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(NAMES), help="classes without their VideoProcessor, by commas")
    arguments = parser.parse_args()
    import torch

    count = arguments.frames
    frames = frames_of(count)
    with tempfile.TemporaryDirectory() as folder:
        path = encoded(frames, Path(folder) / "clip.mp4") if importlib.util.find_spec("av") else None

        def array(way: Any) -> Any:
            return way([frames], return_tensors="pt")

        def loop(way: Any) -> Any:
            known = {"total_num_frames": count, "fps": RATE}
            return way([decoded(path)], return_tensors="pt", video_metadata=known)

        def usual(way: Any) -> Any:
            rgb = np.stack([frame.to_ndarray(format="rgb24") for frame in decoded(path)])
            return way([rgb], return_tensors="pt")

        for threads in arguments.threads:
            torch.set_num_threads(threads)
            sg.set_num_threads(threads)
            print(f"{threads} threads, {count} frames: stridedgpu, transformers, quotient, peaks of memory")
            for name in arguments.only.split(","):
                theirs = original(f"{name}VideoProcessor", "torchvision", do_sample_frames=False)
                wanted = theirs([frames[:8]], return_tensors="pt")
                found = differences(sg.video_processor(theirs)([frames[:8]], return_tensors="pt"), wanted)
                if found:
                    sys.exit(f"{name}: {found[0]}")
                report(name, "array", theirs, array, array, arguments.rounds)
                if path is not None:
                    report(name, "file", theirs, loop, usual, arguments.rounds)


if __name__ == "__main__":
    main()
