"""What is kept of calls with sizes without end: it is counted, and its bytes are bounded."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from random import Random

import numpy as np
import pytest
from harness.native_loops import needs_library

import stridedgpu as sg
from stridedgpu.values.bounded_cache import GENERATION, count_bytes

PIXELS = np.random.default_rng(0).integers(0, 256, 130 * 130 * 3, dtype=np.uint8)


def image(draw: Random, least: int = 40, most: int = 130) -> np.ndarray:
    """An image of a drawn size."""
    height, width = draw.randint(least, most), draw.randint(least, most)
    return PIXELS[: height * width * 3].reshape(height, width, 3)


def resized(interpolation: str) -> Callable[[Random], object]:
    """A resize of a drawn size to another one."""
    return lambda draw: sg.resize(
        image(draw), (draw.randint(30, 130), draw.randint(30, 130)), dims="HWC", interpolation=interpolation
    )


def crops(draw: Random) -> object:
    """Windows that reach over the edges of an image."""
    return sg.gather_crops(
        image(draw)[None], [[-draw.randint(1, 9), 3]], (draw.randint(8, 64), 32), dims="NHWC", dtype="float32"
    )


def boxes(draw: Random) -> object:
    """Random boxes, resized to one size."""
    taken = [[draw.uniform(0, 15), draw.uniform(0, 15), draw.uniform(20, 40), draw.uniform(20, 40)] for _ in range(4)]
    return sg.gather_crops(image(draw)[None], boxes=taken, size=(64, 64), dims="NHWC", interpolation="pillow-bicubic")


def patches() -> Callable[[Random], object]:
    """The processor of Qwen2-VL, which patches images of their own sizes."""
    processor = sg.image_processor(
        {"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136, "max_pixels": 40000},
        backend="torchvision",
    )
    return lambda draw: processor(image(draw))


SERVICES: dict[str, Callable[[], Callable[[Random], object]]] = {
    "Qwen2-VL": patches,
    "Pillow's resize": lambda: resized("pillow-bicubic"),
    "OpenCV's resize": lambda: resized("opencv-linear"),
    "boxes": lambda: boxes,
    "crops": lambda: crops,
    "relayout": lambda: lambda draw: sg.relayout(image(draw), dims="HWC", layout="CHW", dtype="float32", scale=1 / 255),
}


def forgotten_bytes() -> int:
    """The bytes of what is kept of calls, by the allocators of Python and NumPy: all of it is forgotten."""
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(2):
        count_bytes(GENERATION.most_bytes)
    gc.collect()
    return before - tracemalloc.get_traced_memory()[0]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, int, int], tuple[int, int]]]:
    """Serves so many drawn sizes, with generations of so many bytes: the bytes that they keep, and that are counted."""

    def serve(name: str, number: int, most: int) -> tuple[int, int]:
        service, draw = SERVICES[name](), Random(1)
        service(draw)
        monkeypatch.setattr(GENERATION, "most_bytes", most)
        forgotten_bytes()
        GENERATION.nbytes = 0
        for _ in range(number):
            service(draw)
        counted = GENERATION.nbytes
        return forgotten_bytes(), counted

    tracemalloc.start()
    yield serve
    tracemalloc.stop()


@needs_library
@pytest.mark.parametrize("name", SERVICES)
def test_bytes_are_counted_within_a_factor_of_two(name, served):
    kept, counted = served(name, 8, 1 << 30)
    assert kept / 2 < counted < 2 * kept


@pytest.mark.parametrize("name", SERVICES)
def test_sizes_without_end_keep_two_generations(name, served):
    most = 1 << 18
    kept, _ = served(name, 30, most)
    assert kept < 3 * most
