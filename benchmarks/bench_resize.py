"""Resizes on the CPU beside Pillow, OpenCV, PyTorch, torchvision and kornia-rs, in turns in one run.

    python benchmarks/bench_resize.py          one thread, by processor time: for a machine that has other work, too
    python benchmarks/bench_resize.py 2        two threads, by the wall clock
    pytest benchmarks --benchmark-disable      once each in small sizes, as tests

`pillow` is `Image.resize`; it has one thread. `opencv` is `cv2.resize` without a flag. `torch` is what torchvision's
`Resize(antialias=True)` calls for uint8 tensors: `torch.nn.functional.interpolate`, whose bits differ from Pillow's.
`kornia-rs` is its `resize`, with bits of its own: bicubic with antialias beside Pillow's, and bilinear beside OpenCV's,
since it reads four pixels with antialias or without. The last case is a batch of photographs cropped, resized,
mirrored, normalised and laid out as planes of float16; there `torchvision` is its transforms v2 on PIL images, and
`pillow` the same with NumPy's arithmetic. Every call returns new memory, as users write it. A peer that is not
installed is named and left out. Ratios are of the least times of all turns.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from time import perf_counter, process_time

import numpy as np
import pytest

import stridedgpu as sg

TURNS = 40
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SCALE, BIAS = [1 / (255 * std) for std in STD], [-mean / std for mean, std in zip(MEAN, STD, strict=True)]
PILLOW_FILTERS = {"pillow-bilinear": 2, "pillow-bicubic": 3}
Calls = dict[str, Callable[[], object]]


def installed(name):
    """A module, or None; what is missing is said."""
    try:
        return import_module(name)
    except (ImportError, RuntimeError) as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return None


PIL, cv2, torch = installed("PIL.Image"), installed("cv2"), installed("torch")
kornia_rs, transforms = installed("kornia_rs"), installed("torchvision.transforms.v2.functional")


@dataclass(frozen=True)
class Case:
    """Pictures of one size, what becomes of them, and how."""

    goal: str
    source: tuple[int, int]
    target: tuple[int, int]
    interpolation: str
    count: int = 1

    def __str__(self):
        return f"{self.goal}: {self.interpolation}"

    def small(self):
        """The same with few pixels."""
        return replace(self, source=(48, 64), target=(24, 32), count=min(self.count, 2))

    @property
    def pictures(self):
        """Random pixels."""
        rng = np.random.default_rng(0)
        return [rng.integers(0, 256, (*self.source, 3), np.uint8) for _ in range(self.count)]


SIZES = {
    "500x375 to 256": ((375, 500), (256, 341)),
    "1080p to 640": ((1080, 1920), (360, 640)),
    "4K to 224": ((2160, 3840), (224, 224)),
    "224 to 448": ((224, 224), (448, 448)),
}
CASES = [
    *(
        Case(goal, *sizes, interpolation)
        for goal, sizes in SIZES.items()
        for interpolation in ("pillow-bilinear", "pillow-bicubic", "opencv-linear")
    ),
    Case("1080p letterbox", (1080, 1920), (640, 640), "pillow-bilinear"),
    Case("1080p letterbox", (1080, 1920), (640, 640), "opencv-linear"),
    *(
        Case("64 boxes to 224", (375, 500), (224, 224), interpolation, 64)
        for interpolation in ("pillow-bilinear", "pillow-bicubic", "opencv-linear")
    ),
    Case("64 boxes, mirrored, float16", (375, 500), (224, 224), "pillow-bilinear", 64),
]


def boxes_of(case):
    """A box of each picture: its top, left, bottom and right."""
    rng = np.random.default_rng(1)
    height, width = case.source
    corners = np.stack([rng.integers(0, height // 3, case.count), rng.integers(0, width // 3, case.count)], axis=1)
    sizes = np.stack([rng.integers(height // 3, height // 2, case.count) for _ in range(2)], axis=1)
    return np.concatenate([corners, corners + sizes], axis=1)


def single(case):
    """One image to another size."""
    (picture,) = case.pictures
    (height, width), name = case.target, case.interpolation
    calls: Calls = {"stridedgpu": lambda: sg.resize(picture, case.target, dims="HWC", layout="HWC", interpolation=name)}
    if name == "opencv-linear":
        if cv2:
            calls["opencv"] = lambda: cv2.resize(picture, (width, height))
        if kornia_rs:
            calls["kornia-rs"] = lambda: kornia_rs.imgproc.resize(picture, case.target, "bilinear", antialias=False)
        return calls
    if PIL:
        image = PIL.fromarray(picture)
        calls["pillow"] = lambda: image.resize((width, height), PILLOW_FILTERS[name])
    if torch:
        tensor = torch.from_numpy(picture).permute(2, 0, 1)[None]
        mode = name.removeprefix("pillow-")
        calls["torch"] = lambda: torch.nn.functional.interpolate(tensor, case.target, mode=mode, antialias=True)
    if kornia_rs and name == "pillow-bicubic":
        calls["kornia-rs"] = lambda: kornia_rs.imgproc.resize(picture, case.target, "bicubic", antialias=True)
    return calls


def letterboxed(case):
    """A whole image in a frame with borders."""
    (picture,) = case.pictures
    (top, left, rows, columns), (height, width) = sg.letterbox_placements([case.source], case.target)[0], case.target
    below, right = height - top - rows, width - left - columns
    calls: Calls = {
        "stridedgpu": lambda: sg.letterbox(
            picture, case.target, dims="HWC", layout="HWC", interpolation=case.interpolation
        )
    }
    if cv2 and case.interpolation == "opencv-linear":
        calls["opencv"] = lambda: cv2.copyMakeBorder(
            cv2.resize(picture, (columns, rows)), top, below, left, right, cv2.BORDER_CONSTANT, value=(114, 114, 114)
        )
    if PIL and case.interpolation != "opencv-linear":
        image = PIL.fromarray(picture)

        def pasted():
            frame = PIL.new("RGB", (width, height), (114, 114, 114))
            frame.paste(image.resize((columns, rows), PILLOW_FILTERS[case.interpolation]), (left, top))
            return frame

        calls["pillow"] = pasted
    return calls


def boxes_alone(case):
    """A box of each image to one size."""
    pictures, boxes, (height, width) = case.pictures, boxes_of(case), case.target
    listed, name = boxes.tolist(), case.interpolation
    calls: Calls = {
        "stridedgpu": lambda: sg.gather_crops(
            pictures, size=case.target, boxes=boxes, dims="HWC", layout="NHWC", interpolation=name
        )
    }
    if cv2 and name == "opencv-linear":
        calls["opencv"] = lambda: [
            cv2.resize(picture[top:bottom, left:right], (width, height))
            for picture, (top, left, bottom, right) in zip(pictures, listed, strict=True)
        ]
    if PIL and name != "opencv-linear":
        images = [PIL.fromarray(picture) for picture in pictures]
        calls["pillow"] = lambda: [
            image.resize((width, height), PILLOW_FILTERS[name], box=(left, top, right, bottom))
            for image, (top, left, bottom, right) in zip(images, listed, strict=True)
        ]
    return calls


def whole_step(case):
    """Crop, resize, mirror, normalise, planes of float16: one batch."""
    pictures, boxes, (height, width) = case.pictures, boxes_of(case), case.target
    listed = boxes.tolist()
    calls: Calls = {
        "stridedgpu": lambda: sg.gather_crops(
            pictures, size=case.target, boxes=boxes, dims="HWC", flip=True, dtype="float16", scale=SCALE, bias=BIAS
        )
    }
    if not PIL:
        return calls
    images = [PIL.fromarray(picture) for picture in pictures]
    factors, offsets = np.float32(SCALE)[:, None, None], np.float32(BIAS)[:, None, None]

    def by_numpy(image, top, left, bottom, right):
        image = image.crop((left, top, right, bottom)).resize((width, height), 2).transpose(0)
        return (np.asarray(image).transpose(2, 0, 1) * factors + offsets).astype(np.float16)

    calls["pillow"] = lambda: np.stack([by_numpy(*pair) for pair in sized()])

    def sized():
        return [(image, *box) for image, box in zip(images, listed, strict=True)]

    if transforms:

        def by_torchvision(image, top, left, bottom, right):
            image = transforms.resized_crop(image, top, left, bottom - top, right - left, [height, width])
            tensor = transforms.pil_to_tensor(transforms.horizontal_flip(image))
            return transforms.normalize(transforms.to_dtype(tensor, torch.float32, scale=True), MEAN, STD).half()

        calls["torchvision"] = lambda: torch.stack([by_torchvision(*pair) for pair in sized()])
    return calls


def calls_of(case):
    """Each contender's call."""
    if "letterbox" in case.goal:
        return letterboxed(case)
    if "float16" in case.goal:
        return whole_step(case)
    return boxes_alone(case) if "boxes" in case.goal else single(case)


def least(calls, clock):
    """The least milliseconds of each call, in turns."""
    found = dict.fromkeys(calls, float("inf"))
    for turn in range(TURNS + 2):
        for name, call in calls.items():
            start = clock()
            call()
            if turn >= 2:
                found[name] = min(found[name], (clock() - start) * 1e3)
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_resizes(benchmark, case):
    calls = calls_of(case.small() if benchmark.disabled else case)
    for call in calls.values():
        call()
    benchmark(calls["stridedgpu"])


def main(threads):
    """Print the table."""
    sg.set_num_threads(threads)
    if cv2:
        cv2.setNumThreads(threads)
    if torch:
        torch.set_num_threads(threads)
    clock = process_time if threads == 1 else perf_counter
    print(f"{threads} thread(s), {'processor time' if threads == 1 else 'wall clock'}, load {os.getloadavg()[0]:.1f}")
    for case in CASES:
        found = least(calls_of(case), clock)
        own = found.pop("stridedgpu")
        others = "  ".join(f"{name} {each:9.3f} ms = {each / own:5.2f} x" for name, each in found.items())
        print(f"{case!s:48}{own:9.3f} ms   {others}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
