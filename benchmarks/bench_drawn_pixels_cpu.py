"""Drawn cases of crops, resizes, frames, raw samples and channel matrices on the CPU, for `drawn_turns.py`.

    python benchmarks/drawn_turns.py /tmp/before --only padding,resize
    pytest benchmarks/bench_drawn_pixels_cpu.py              some cases once each, as a test

Each case is the library's call alone: the peers' are in `bench_drawn_more_cpu.py`, `bench_drawn_resize.py` and
`bench_frames.py`, and the tests compare the bits. Results lie in memory that exists. Sizes are those of data sets,
cameras and networks, results from 1 KB to 20 MB as likely in each decade.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import exp, log
from typing import Any, Final

import numpy as np
import pytest
from bench_drawn_cpu import Case, Maker, draw

import stridedgpu as sg

MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
SCALE, BIAS = (1 / (255 * STD)).tolist(), (-MEAN / STD).tolist()
FORMATS: Final = ("nv12", "nv12", "nv21", "i420", "yuyv", "uyvy", "p010")
INTERPOLATIONS: Final = {
    "resize by filters": ("pillow-bilinear", "pillow-bilinear", "pillow-bicubic", "pillow-lanczos", "pillow-box"),
    "resize linear": ("opencv-linear",),
    "resize otherwise": ("pillow-nearest", "opencv-linear-exact", "opencv-area", "opencv-cubic", "opencv-nearest"),
}


def pictures(chance: random.Random, channels: int, *, most: int = 1200) -> np.ndarray[Any, Any]:
    """An image of random bytes; sides from 24 to `most`, as likely in each octave."""
    height, width = (round(exp(chance.uniform(log(24), log(most)))) for _ in range(2))
    return np.random.default_rng(chance.randrange(1 << 30)).integers(0, 256, (height, width, channels), np.uint8)


def batch_of(chance: random.Random, each: int) -> int:
    """A number of results of so many bytes."""
    return max(1, round(exp(chance.uniform(log(1e3), log(2e7))) / each))


def single(family: str, text: str, call: Callable[[], Callable[[], object]]) -> Case:
    """A case of the library's call alone."""
    return Case(family, text, 0, lambda: {"stridedgpu": call()})


def windows(chance: random.Random) -> Case:
    """Windows of a list of images or of a batch, some over the edges or mirrored, as bytes or as normalised planes."""
    side, channels = chance.choice((8, 32, 64, 224)), chance.choice((1, 3, 3, 4))
    kind, is_scaled = chance.choice(("list", "list mirrored", "batch", "list over edges", "batch over edges")), False
    is_scaled = chance.random() < 0.5
    count = min(batch_of(chance, side * side * channels * (4 if is_scaled else 1)), 400)
    reach = side // 4 if "edges" in kind else 0
    seed = chance.randrange(1 << 30)

    def call() -> Callable[[], object]:
        rng = np.random.default_rng(seed)
        sizes = [(side + 40, side + 56)] * count if "batch" in kind else rng.integers(side, 2 * side, (count, 2))
        images = [rng.integers(0, 256, (height, width, channels), np.uint8) for height, width in sizes]
        origins = np.array(
            [[rng.integers(-reach, length - side + reach + 1) for length in image.shape[:2]] for image in images]
        )
        sources: Any = [sg.asarray(image, dims="HWC") for image in images]
        if "batch" in kind:
            sources = sg.asarray(np.stack(images), dims="NHWC")
        options = {"scale": 1 / 255} if is_scaled else {}
        layout = "NCHW" if is_scaled else "NHWC"
        out = sg.empty((count, channels, side, side), "float32" if is_scaled else "uint8", layout=layout)
        flip = (rng.random(count) < 0.5).tolist() if "mirrored" in kind else None
        plan = sg.plan_gather_crops(sources, side, out=out, fill=114, **options)
        return lambda: plan(sources, origins, out, flip)

    kind += ", planes of float32" if is_scaled else ""
    return single("windows", f"{kind} {count} x {side}x{side}x{channels}", call)


def padding(chance: random.Random) -> Case:
    """A batch with one border around all images: padded convolutions, and letters in their boxes."""
    height, width = chance.choice(((28, 28), (32, 32), (56, 56), (224, 224), (360, 640), (480, 640)))
    order, channels = chance.choice(("NHWC", "NCHW")), chance.choice((1, 3, 3, 4))
    rows, columns = chance.choice(((1, 1), (2, 2), (4, 4), (2, 2), (0, 12), (140, 0)))
    is_scaled, count = chance.random() < 0.3, min(batch_of(chance, height * width * channels), 2000)

    def call() -> Callable[[], object]:
        sizes = {"N": count, "C": channels, "H": height, "W": width}
        images = np.random.default_rng(1).integers(0, 256, [sizes[label] for label in order], np.uint8)
        source, options = sg.asarray(images, dims=order), {"scale": 1 / 255} if is_scaled else {}
        size = (height + 2 * rows, width + 2 * columns)
        out = sg.empty((count, channels, *size), "float32" if is_scaled else "uint8", layout=order)
        plan = sg.plan_gather_crops(source, size, out=out, **options)
        origins = np.full((count, 2), (-rows, -columns))
        return lambda: plan(source, origins, out)

    text = f"{order} {count} x {height}x{width}x{channels} by {rows}, {columns}" + (", float32" if is_scaled else "")
    return single("padding", text, call)


def resized(family: str) -> Maker:
    """A family of resizes: one image as users call it or by a plan, a batch, or random boxes of a list."""

    def draw_one(chance: random.Random) -> Case:
        interpolation, channels = chance.choice(INTERPOLATIONS[family]), chance.choice((1, 3, 3, 3, 4))
        kind, seed = chance.choice(("one", "batch", "boxes", "plan", "plan", "halved")), chance.randrange(1 << 30)
        side = chance.choice(((32, 32), (64, 64), (224, 224), (299, 299), (640, 480)))

        def call() -> Callable[[], object]:
            drawn = random.Random(seed)
            if kind == "boxes":
                images = [pictures(drawn, channels, most=600) for _ in range(8)]
                sources = [sg.asarray(image, dims="HWC") for image in images]
                out = sg.empty((len(images), channels, *side), "float32")
                boxes, steps = np.array([_box(drawn, image.shape) for image in images]), iter(range(1 << 60))

                def cropped() -> object:
                    # Random boxes never recur, and take as long each time.
                    moved = boxes * (1 - next(steps) % 4096 * 1e-6)
                    return sg.gather_crops(
                        sources, boxes=moved, size=side, interpolation=interpolation, out=out, scale=1 / 255
                    )

                return cropped
            image = pictures(drawn, channels, most=1200 if kind in ("one", "batch") else 2500)
            size = (max(1, image.shape[0] // 2), max(1, image.shape[1] // 2)) if kind == "halved" else side
            if kind == "batch":
                source = sg.asarray(np.stack([image] * 4), dims="NHWC")
                out = sg.empty((4, channels, *size), "float32")
                plan = sg.plan_resize(source, out, interpolation=interpolation, scale=1 / 255)
                return lambda: plan(source, out)
            out = sg.empty((channels, *size), "uint8", layout="HWC")
            if kind in ("plan", "halved"):
                pixels = sg.asarray(image, dims="HWC")
                planned = sg.plan_resize(pixels, out, interpolation=interpolation)
                return lambda: planned(pixels, out)
            return lambda: sg.resize(image, size, dims="HWC", interpolation=interpolation, out=out)

        return single(family, f"{interpolation} {kind} {seed % 1000} to {side} x{channels}", call)

    return draw_one


def _box(chance: random.Random, sizes: tuple[int, ...]) -> list[float]:
    """A box inside an image: its edges at the top, on the left, below and on the right."""
    edges = []
    for size in sizes[:2]:
        low, high = sorted((chance.uniform(0, size), chance.uniform(0, size)))
        edges.append((min(low, size - 1.0), max(high, min(low, size - 1.0) + 1)))
    (top, below), (left, right) = edges
    return [top, left, below, right]


def frames(chance: random.Random) -> Case:
    """Decoded frames to bytes, to normalised planes, or letterboxed; and bytes to frames."""
    name, (height, width) = chance.choice(FORMATS), chance.choice(((96, 128), (480, 640), (720, 1280), (1080, 1920)))
    goal = chance.choice(("bytes", "bytes", "planes", "float16 planes", "letterbox", "encoded", "linear"))
    name = "nv12" if goal == "linear" and name in ("yuyv", "uyvy") else name
    dtype = "uint16" if name == "p010" else "uint8"

    def call() -> Callable[[], object]:
        shape = (height, width, 2) if name in ("yuyv", "uyvy") else (height * 3 // 2, width)
        memory = np.random.default_rng(0).integers(0, 256, shape, np.uint8).astype(dtype)
        if goal == "encoded":
            rgb = sg.asarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8).astype(dtype))
            source, into = rgb.permute((2, 0, 1)), sg.Frame.over(name, memory, (height, width))
            return lambda: sg.relayout(source, out=into)
        frame = sg.Frame.over(name, memory, (height, width), chroma="linear" if goal == "linear" else "repeated")
        if goal == "letterbox":
            letters = sg.empty((1, 3, 320, 320), "float16")
            return lambda: sg.letterbox([frame], (320, 320), out=letters, scale=1 / 255)
        if goal in ("bytes", "linear"):
            rows = sg.empty((3, height, width), dtype, layout="HWC")
            return lambda: sg.relayout(frame, out=rows)
        planes = sg.empty((3, height, width), "float16" if "float16" in goal else "float32")
        return lambda: sg.relayout(frame, out=planes, scale=SCALE, bias=BIAS)

    return single("frames", f"{name} {height}x{width} {goal}", call)


def mixed(chance: random.Random) -> Case:
    """Packed raw samples, and channels mixed by a matrix."""
    height, width = chance.choice(((64, 96), (480, 640), (1080, 1920)))
    name = chance.choice(("mipi-raw10", "mipi-raw12", "mono12p", "gray", "gray", "3x3", "3x3"))
    layout = chance.choice(("HWC", "CHW"))

    def call() -> Callable[[], object]:
        rng = np.random.default_rng(0)
        if name in ("gray", "3x3"):
            image = sg.asarray(rng.integers(0, 256, (height, width, 3), np.uint8), dims="HWC")
            matrix = [[0.299, 0.587, 0.114]] if name == "gray" else rng.random((3, 3)).tolist()
            mixed = sg.empty((len(matrix), height, width), "uint8" if name == "gray" else "float32", layout=layout)
            return lambda: sg.relayout(image, out=mixed, matrix=matrix)
        memory = rng.integers(0, 256, height * width * (10 if "10" in name else 12) // 8, np.uint8)
        samples = sg.empty((height, width), "uint16")
        return lambda: sg.unpack_raw(memory, name, (height, width), out=samples)

    return single("mixed", f"{name} {height}x{width} {layout}", call)


FAMILIES: Final[list[tuple[Maker, int]]] = [
    (windows, 4), (padding, 3), *((resized(family), 3) for family in INTERPOLATIONS), (frames, 4), (mixed, 1),
]  # fmt: skip


@pytest.mark.parametrize("case", list(draw(0, 24, FAMILIES)), ids=lambda case: f"{case.family}: {case.text}")
def test_calls_run(case: Case) -> None:
    for call in case.make().values():
        call()
