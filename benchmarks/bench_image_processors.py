"""Image processors beside transformers' own, both backends, in turns.

    python benchmarks/bench_image_processors.py [--batches 1 8 64] [--threads 1 2] [--busy 0] [--json results.jsonl]

A batch is photographs of 0.3 to 12 megapixels and of several shapes, loaded as images of Pillow; results are tensors of
PyTorch. The ways take turns, so that a busy machine slows both. Before each call the photographs are read once: they
are in the caches as far as they fit, as decoding leaves them, whichever way was called before. The table has medians,
how many times as long transformers takes, and the range of that over the rounds. The results are compared first: they
have to be equal. `--busy` starts as many processes that compute beside the calls, as a server has them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import stridedgpu as sg
from stridedgpu.adapters.image_processors.declaration import KINDS

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from harness.transformers_processors import differences, original

NAMES = ("CLIP", "Siglip", "Qwen2VL", "Detr")
"""The defaults; every class that `sg.image_processor` knows may be named."""

_LINE = (
    "{processor:14}{backend:12}{stridedgpu_ms:10.2f} ms {transformers_ms:10.2f} ms {times:6.1f} times "
    "({least_times:.1f} to {most_times:.1f})"
)

_BUSY = "import numpy as np\na = np.ones(1 << 22, np.float32)\nwhile True: a *= 1.0001"


def photographs(count: int, least: float, most: float) -> list[Any]:
    """Images of Pillow with edges and flat parts; the logarithms of their megapixels are uniform."""
    from PIL import Image

    draw = np.random.default_rng(count)
    images = []
    for _ in range(count):
        pixels, ratio = 1e6 * np.exp(draw.uniform(np.log(least), np.log(most))), draw.uniform(0.6, 1.7)
        height, width = round((pixels / ratio) ** 0.5), round((pixels * ratio) ** 0.5)
        small = draw.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8)
        images.append(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))
    return images


def timed(way: Any, images: list[Any], tensors: str = "pt") -> float:
    """Milliseconds of one call, whose images have just been read."""
    for image in images:
        image.tobytes()
    start = time.perf_counter()
    way(images, return_tensors=tensors)
    return (time.perf_counter() - start) * 1e3


def measure(name: str, backend: str, images: list[Any], rounds: int) -> dict[str, Any]:
    """Medians of both, and quotients of each round."""
    theirs = original(f"{name}ImageProcessor", backend)
    mine = sg.image_processor(theirs)
    found = differences(mine(images, return_tensors="pt"), theirs(images, return_tensors="pt"))
    if found:
        sys.exit(f"{name}, {backend}: {found[0]}")
    times = [(timed(mine, images), timed(theirs, images)) for _ in range(rounds)]
    quotients = [their / our for our, their in times]
    ours_ms, theirs_ms = map(statistics.median, zip(*times, strict=True))
    return {
        "processor": name,
        "backend": backend,
        "stridedgpu_ms": round(ours_ms, 3),
        "transformers_ms": round(theirs_ms, 3),
        "times": round(theirs_ms / ours_ms, 2),
        "least_times": round(min(quotients), 2),
        "most_times": round(max(quotients), 2),
    }


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that compute."""
    processes = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> None:
    """Measure, and print a line for each processor, backend, batch and number of threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--megapixels", type=float, nargs=2, default=[0.3, 12], metavar=("LEAST", "MOST"))
    parser.add_argument("--rounds", type=int, default=9, help="of one image; larger batches have fewer, at least 3")
    parser.add_argument("--only", default=",".join(NAMES), help="classes without their ImageProcessor, by commas")
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--json", type=Path, help="a file that gets a line for each figure, as soon as it is known")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    import torch

    with busy(arguments.busy):
        for batch in arguments.batches:
            images = photographs(batch, *arguments.megapixels)
            for threads in arguments.threads:
                torch.set_num_threads(threads)
                sg.set_num_threads(threads)
                settings = {
                    "batch": batch,
                    "megapixels": round(sum(image.width * image.height for image in images) / 1e6, 1),
                    "threads": threads,
                    "busy": arguments.busy,
                }
                print(", ".join(f"{name}: {value}" for name, value in settings.items()))
                for name in arguments.only.split(","):
                    for backend in KINDS[f"{name}ImageProcessor"].backends:
                        figures = measure(name, backend, images, max(3, arguments.rounds - batch.bit_length()))
                        print(_LINE.format(**figures), flush=True)
                        if arguments.json:
                            with arguments.json.open("a") as file:
                                file.write(json.dumps(settings | figures) + "\n")


if __name__ == "__main__":
    main()
