"""Resizes timed beside Pillow and OpenCV, in turns in one run and on one thread each.

    python benchmarks/bench_resize.py

Prints milliseconds, the least of the turns, and how many times as long the other library takes. Pictures are random.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import stridedgpu as sg

TURNS = 40

SIZES = {
    "500x375 -> 256": ((375, 500), (256, 341)),
    "1080p -> 640": ((1080, 1920), (360, 640)),
    "4K -> 224": ((2160, 3840), (224, 224)),
    "224 -> 448": ((224, 224), (448, 448)),
}

NORMAL = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


def least(*works: Callable[[], object]) -> list[float]:
    """The least milliseconds of each, called in turns."""
    found = [float("inf")] * len(works)
    for turn in range(TURNS + 3):
        for place, work in enumerate(works):
            start = time.perf_counter()
            work()
            if turn >= 3:
                found[place] = min(found[place], (time.perf_counter() - start) * 1e3)
    return found


def line(name: str, other: float, own: float) -> None:
    """One line of the table."""
    print(f"{name:44} {other:9.3f} ms {own:9.3f} ms  {other / own:6.2f} x")


def beside_libraries() -> None:
    """Bilinear, bicubic and lanczos beside Pillow, linear and area beside OpenCV; then letterbox."""
    import cv2
    from PIL import Image

    cv2.setNumThreads(1)
    for name, (source, target) in SIZES.items():
        picture = np.random.default_rng(0).integers(0, 256, (*source, 3), np.uint8)
        image = Image.fromarray(picture)
        for number, filtered in ((2, "bilinear"), (3, "bicubic"), (1, "lanczos")):
            times = least(
                lambda image=image, target=target, number=number: image.resize(target[::-1], number),
                lambda picture=picture, target=target, filtered=filtered: sg.resize(
                    picture, target, dims="HWC", layout="HWC", interpolation=f"pillow-{filtered}"
                ),
            )
            line(f"{name} pillow-{filtered}", *times)
        times = least(
            lambda picture=picture, target=target: cv2.resize(picture, target[::-1]),
            lambda picture=picture, target=target: sg.resize(
                picture, target, dims="HWC", layout="HWC", interpolation="opencv-linear"
            ),
        )
        line(f"{name} opencv-linear", *times)
    frame = np.random.default_rng(0).integers(0, 256, (1080, 1920, 3), np.uint8)

    def letterboxed() -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        inner = cv2.resize(frame, (640, 360))
        return cv2.copyMakeBorder(inner, 140, 140, 0, 0, cv2.BORDER_CONSTANT, value=(114, 114, 114))

    line(
        "1080p -> 640 letterbox", *least(letterboxed, lambda: sg.letterbox(frame, (640, 640), dims="HWC", layout="HWC"))
    )


def beside_transforms() -> None:
    """64 boxes of photographs resized, mirrored, normalised, CHW float16, beside the same on PIL images and NumPy."""
    from PIL import Image

    rng = np.random.default_rng(0)
    photos = [rng.integers(0, 256, (375, 500, 3), np.uint8) for _ in range(64)]
    images = [Image.fromarray(photo) for photo in photos]

    def drawn_boxes() -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        corners = rng.integers(0, 100, (64, 2))
        return np.concatenate([corners, corners + rng.integers(150, 270, (64, 2))], axis=1)

    scale = [1 / (255 * deviation) for deviation in NORMAL["std"]]
    bias = [-mean / deviation for mean, deviation in zip(NORMAL["mean"], NORMAL["std"], strict=True)]
    factors, offsets = np.float32(scale)[:, None, None], np.float32(bias)[:, None, None]

    def transforms() -> np.ndarray[tuple[int, ...], np.dtype[np.float16]]:
        made = []
        for image, (top, left, bottom, right) in zip(images, drawn_boxes().tolist(), strict=True):
            crop = (
                image.crop((left, top, right, bottom)).resize((224, 224), 2).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            )
            made.append((np.asarray(crop).transpose(2, 0, 1) * factors + offsets).astype(np.float16))
        return np.stack(made)

    def crops() -> sg.StridedTensor:
        return sg.gather_crops(
            photos, size=(224, 224), boxes=drawn_boxes(), dims="HWC", flip=True, dtype="float16", scale=scale, bias=bias
        )

    line("64 boxes -> 224, flip, normalise, CHW float16", *least(transforms, crops))


if __name__ == "__main__":
    sg.set_num_threads(1)
    beside_libraries()
    beside_transforms()
