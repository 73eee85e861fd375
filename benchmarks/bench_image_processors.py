"""Image processors beside transformers' own, both backends, in turns.

    python benchmarks/bench_image_processors.py [--threads 1] [--rounds 15] [--batch 4] [--pixels 0.7] [--only CLIP]

Each way takes the same photographs, loaded as images of Pillow, and returns tensors of PyTorch. The ways take turns, so
that a busy machine slows all of them. Shown are medians, and how many times as long transformers takes, by medians and
by the best of each. Before that, the results are compared: they have to be equal.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import stridedgpu as sg

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from harness.transformers_processors import differences, original

NAMES = ("CLIP", "Siglip", "Qwen2VL", "Siglip2", "Detr", "Sam", "LlavaNext", "EfficientNet")


def photographs(count, pixels):
    """Images of Pillow of about so many megapixels, of several shapes, with edges and flat parts."""
    from PIL import Image

    draw = np.random.default_rng(0)
    found = []
    for number in range(count):
        shape = (3 / 4, 4 / 3, 16 / 9, 2 / 3)[number % 4]
        height = round((pixels * 1e6 / shape) ** 0.5 * draw.uniform(0.9, 1.1))
        small = Image.fromarray(draw.integers(0, 256, (height // 8, round(height * shape) // 8, 3), dtype=np.uint8))
        found.append(small.resize((round(height * shape), height), Image.Resampling.BICUBIC))
    return found


def timed(way, images, tensors="pt"):
    """Milliseconds of one call."""
    start = time.perf_counter()
    way(images, return_tensors=tensors)
    return (time.perf_counter() - start) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--pixels", type=float, default=0.7, help="megapixels of an image")
    parser.add_argument("--only", default=",".join(NAMES))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(arguments.threads)
    sg.set_num_threads(arguments.threads)
    images = photographs(arguments.batch, arguments.pixels)
    print(f"{arguments.batch} images of some {arguments.pixels} MP, {arguments.threads} threads: medians of a call")
    for name in arguments.only.split(","):
        for backend in ("torchvision", "pil"):
            theirs = original(f"{name}ImageProcessor", backend)
            ours = sg.image_processor(theirs)
            found = differences(ours(images, return_tensors="pt"), theirs(images, return_tensors="pt"))
            if found:
                sys.exit(f"{name}, {backend}: {found[0]}")
            rounds = [(timed(ours, images), timed(theirs, images)) for _ in range(arguments.rounds)]
            columns = list(zip(*rounds, strict=True))
            (mine, others), (best, other) = (list(map(kind, columns)) for kind in (statistics.median, min))
            ratios = f"{others / mine:6.1f} times, {other / best:5.1f} by the best"
            print(f"{name:14}{backend:12}{mine:9.2f} ms {others:9.2f} ms {ratios}")


if __name__ == "__main__":
    main()
