"""The loop of a service: threads that each take a photograph and make a network's input, by several libraries.

The input is CLIP's or YOLO's. Of `vit` a request also runs a small vision transformer in PyTorch.

    python benchmarks/serving.py [--threads 1 8] [--requests 400] [--inside 1] [--rounds 3] [--only stridedgpu,cv2]

Every way has a process of its own, which calls it a few times before the clock starts. A request is one photograph of
0.3 to 2 MP, decoded, as an array. `--inside` is the number of threads that a library may use within a call: a service
whose requests keep all cores busy gains nothing from more than one.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import stridedgpu as sg

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from harness.transformers_processors import transformers_library

CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)

Way = Callable[[np.ndarray], Any]


def clip_stridedgpu(inside: int) -> Way:
    """The pixels of transformers' PIL backend with Pillow up to 12."""
    sg.set_num_threads(inside)
    step = sg.Preprocess(
        resize=224, crop=224, interpolation="pillow-bicubic", passes="horizontal", normalize="clip", device="cpu"
    )
    sg.warmup(step)
    return lambda photo: step([photo])[0]


def clip_stridedgpu_processor(inside: int) -> Way:
    """The pixels of transformers' default backend."""
    sg.set_num_threads(inside)
    sizes = {"size": {"shortest_edge": 224}, "crop_size": {"height": 224, "width": 224}}
    processor = sg.image_processor({"image_processor_type": "CLIPImageProcessor", **sizes}, device="cpu")
    sg.warmup(processor.step)
    return lambda photo: processor(photo, return_tensors="np")["pixel_values"][0]


def clip_cv2(inside: int) -> Way:
    """What programs write that have OpenCV: other pixels, without antialiasing."""
    import cv2

    cv2.setNumThreads(inside)
    mean, std = (np.array(values, np.float32) * 255 for values in (CLIP_MEAN, CLIP_STD))

    def request(photo: np.ndarray) -> np.ndarray:
        height, width = photo.shape[:2]
        factor = 224 / min(height, width)
        small = cv2.resize(photo, (round(width * factor), round(height * factor)), interpolation=cv2.INTER_CUBIC)
        top, left = (small.shape[0] - 224) // 2, (small.shape[1] - 224) // 2
        window = (small[top : top + 224, left : left + 224].astype(np.float32) - mean) / std
        return np.ascontiguousarray(window.transpose(2, 0, 1))

    return request


def clip_transformers(inside: int) -> Way:
    """transformers' default backend, torchvision's."""
    return _processor("CLIPImageProcessor", inside)


def clip_transformers_pil(inside: int) -> Way:
    """transformers' other backend."""
    return _processor("CLIPImageProcessorPil", inside)


def _processor(name: str, inside: int) -> Way:
    """An image processor of transformers, with its defaults."""
    import torch

    torch.set_num_threads(inside)
    processor = getattr(transformers_library(), name)()
    return lambda photo: processor(photo, return_tensors="np", input_data_format="channels_last").pixel_values[0]


def vit_stridedgpu(inside: int) -> Way:
    """A network behind transformers' processor of it, computed here."""
    sg.set_num_threads(inside)
    return _served(sg.image_processor(transformers_library().ViTImageProcessor()), inside)


def vit_transformers(inside: int) -> Way:
    """The same network behind the processor of transformers' default backend."""
    return _served(transformers_library().ViTImageProcessor(), inside)


def _served(processor: Any, inside: int) -> Way:
    """A vision transformer of the size of DeiT-Tiny, with random weights, that takes what a processor makes."""
    import torch

    torch.set_num_threads(inside)
    torch.manual_seed(0)
    library = transformers_library()
    network = library.ViTModel(library.ViTConfig(hidden_size=192, num_attention_heads=3, intermediate_size=768)).eval()

    def request(photo: np.ndarray) -> Any:
        pixels = processor(photo, return_tensors="pt", input_data_format="channels_last")
        with torch.inference_mode():
            return network(pixel_values=pixels["pixel_values"]).pooler_output

    return request


def yolo_stridedgpu(inside: int) -> Way:
    """Ultralytics' letterbox, OpenCV's pixels."""
    sg.set_num_threads(inside)
    step = sg.Preprocess(letterbox=640, normalize="0..1", device="cpu")
    sg.warmup(step)
    return lambda photo: step([photo])[0]


def yolo_cv2(inside: int) -> Way:
    """Ultralytics' letterbox as its users write it."""
    import cv2

    cv2.setNumThreads(inside)

    def request(photo: np.ndarray) -> np.ndarray:
        height, width = photo.shape[:2]
        factor = min(640 / height, 640 / width)
        rows, columns = round(height * factor), round(width * factor)
        small = cv2.resize(photo, (columns, rows), interpolation=cv2.INTER_LINEAR)
        down, across = (640 - rows) / 2, (640 - columns) / 2
        boxed = cv2.copyMakeBorder(
            small, round(down - 0.1), round(down + 0.1), round(across - 0.1), round(across + 0.1),
            cv2.BORDER_CONSTANT, value=(114, 114, 114),
        )  # fmt: skip
        return np.ascontiguousarray(boxed.transpose(2, 0, 1)).astype(np.float32) / 255

    return request


WAYS: dict[str, tuple[Callable[[int], Way], str | None]] = {
    # how a way is made, and the library that it needs
    "clip stridedgpu": (clip_stridedgpu, None),
    "clip stridedgpu-processor": (clip_stridedgpu_processor, None),
    "clip cv2": (clip_cv2, "cv2"),
    "clip transformers": (clip_transformers, "transformers"),
    "clip transformers-pil": (clip_transformers_pil, "transformers"),
    "vit stridedgpu": (vit_stridedgpu, "transformers"),
    "vit transformers": (vit_transformers, "transformers"),
    "yolo stridedgpu": (yolo_stridedgpu, None),
    "yolo cv2": (yolo_cv2, "cv2"),
}


def is_here(name: str) -> bool:
    """Whether the library of a way is installed."""
    library = WAYS[name][1]
    return library is None or importlib.util.find_spec(library) is not None


def photographs(count: int = 16) -> list[np.ndarray]:
    """Arrays of 0.3 to 2 MP, of several shapes: waves, and a little noise."""
    rng = np.random.default_rng(0)
    photos = []
    for _ in range(count):
        pixels, ratio = rng.uniform(0.3e6, 2e6), rng.uniform(0.6, 1.7)
        rows, columns = (np.arange(round((pixels * factor) ** 0.5), dtype=np.float32) for factor in (1 / ratio, ratio))
        waves = np.sin(rows / rng.uniform(20, 60))[:, None] * np.cos(columns / rng.uniform(20, 60))
        photo = (120 + 90 * waves)[..., None] + rng.integers(-8, 9, (*waves.shape, 3))
        photos.append(photo.astype(np.uint8))
    return photos


def measure(way: Way, threads: int, requests: int) -> dict[str, float]:
    """Milliseconds of the requests that `threads` take one after another, requests a second, and growth of memory."""
    photos = photographs()
    for photo in photos:
        way(photo)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    numbers, taken = itertools.count(), [0.0] * requests

    def work() -> None:
        while (number := next(numbers)) < requests:
            start = time.perf_counter()
            way(photos[number % len(photos)])
            taken[number] = time.perf_counter() - start

    workers = [threading.Thread(target=work) for _ in range(threads)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    whole = time.perf_counter() - start
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    p50, p99 = np.percentile(taken, (50, 99)) * 1e3
    return {"p50_ms": p50, "p99_ms": p99, "requests_per_s": requests / whole, "growth_mb": growth / 1024}


def main() -> None:
    """Measure every way in a process of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--inside", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=3, help="in each, every way has its turn; medians are printed")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        make, _ = WAYS[arguments.way]
        print(json.dumps(measure(make(arguments.inside), arguments.threads[0], arguments.requests)))
        return
    names = [name for name in WAYS if not arguments.only or name.split()[1] in arguments.only.split(",")]
    for name in [name for name in names if not is_here(name)]:
        names.remove(name)
        print(f"{name}: {WAYS[name][1]} is not installed")
    contenders = [(name, threads) for name in names for threads in arguments.threads]
    found: dict[tuple[str, int], list[dict[str, float]]] = {contender: [] for contender in contenders}
    for contender in contenders * arguments.rounds:
        name, threads = contender
        options = ["--threads", str(threads), "--requests", str(arguments.requests), "--inside", str(arguments.inside)]
        command = [sys.executable, __file__, "--way", name, *options]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found[contender].append(json.loads(printed.splitlines()[-1]))
    print("| way | threads | p50, ms | p99, ms | requests/s | memory |\n|---|---|---|---|---|---|")
    for (name, threads), rounds in found.items():
        middle = {key: float(np.median([one[key] for one in rounds])) for key in rounds[0]}
        print(
            f"| {name} | {threads} | {middle['p50_ms']:.2f} | {middle['p99_ms']:.1f} | "
            f"{middle['requests_per_s']:.0f} | {middle['growth_mb']:+.0f} MB |"
        )


if __name__ == "__main__":
    main()
