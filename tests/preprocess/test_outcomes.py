"""What steps make of pictures of many kinds, in bits or in words, as `outcomes.txt` lists it.

Other tests say why each result is right; the listing holds what they do not reach: every kind of picture meets every
kind of step. Where one is changed on purpose, `PYTHONPATH=tests python -m preprocess.test_outcomes` writes it anew.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import stridedgpu as sg

LISTING = Path(__file__).with_name("outcomes.txt")


def pixels(*sizes: int, dtype: str = "uint8") -> np.ndarray:
    values = np.random.default_rng(sizes).integers(0, 256, sizes)
    return (values / 255 if dtype.startswith("float") else values).astype(dtype)


WIDE = pixels(9, 24, 3)

PICTURES: dict[str, Any] = {
    "colour": pixels(7, 9, 3),
    "tall": pixels(12, 5, 3),
    "alpha": pixels(7, 9, 4),
    "grey": pixels(7, 9, 1),
    "no channel axis": pixels(7, 9),
    "grey and alpha": pixels(7, 9, 2),
    "five channels": pixels(7, 9, 5),
    "one pixel": pixels(1, 1, 3),
    "one row": pixels(1, 9, 3),
    "small": pixels(4, 5, 3),
    "no row": pixels(0, 9, 3),
    "planes": pixels(3, 7, 9),
    "every second column": WIDE[:, ::2],
    "mirrored": WIDE[:, ::-1],
    "turned": WIDE.transpose(1, 0, 2),
    "one colour": np.broadcast_to(np.uint8(77), (7, 9, 3)),
    "uint16": pixels(7, 9, 3, dtype="uint16"),
    "big-endian": pixels(7, 9, 3, dtype=">u2"),
    "float32": pixels(7, 9, 3, dtype="float32"),
    "float64": pixels(7, 9, 3, dtype="float64"),
    "int64": pixels(7, 9, 3, dtype="int64"),
    "bool": pixels(7, 9, 3) > 127,
    "complex": pixels(7, 9, 3).astype("complex64"),
    "labelled": sg.asarray(pixels(3, 7, 9), dims="CHW"),
    "a video": pixels(2, 7, 9, 3),
    "text": "picture.png",
    "None": None,
}

STEPS: tuple[dict[str, Any], ...] = (
    {},
    {"crop": 4},
    {"crop": (5, 8), "center": "floor", "layout": "NHWC", "dtype": "uint8"},
    {"crop": 4, "random_crop": True, "seed": 3, "dtype": "float16"},
    {"pad": (1, 2), "fill": 9, "crop": 6, "dtype": "uint8"},
    {"resize": (5, 6), "dtype": "uint8"},
    {"resize": 6, "crop": 5, "interpolation": "pillow-bicubic", "normalize": "imagenet"},
    {"resize": (5, 6), "pad": 1, "fill": (1, 2, 3), "dtype": "uint8"},
    {"resize": (5, 6), "interpolation": "opencv-area", "mode": "rgb"},
    {"letterbox": (6, 8)},
    {"letterbox": 6, "dtype": "uint8", "layout": "NHWC", "interpolation": "pillow-lanczos"},
    {"random_resized_crop": True, "crop": 6, "seed": 5, "flip": True},
    {"flip": 1.0, "seed": 1, "mode": "gray"},
    {"mode": "rgb", "crop": 3},
    {"dims": "NHW", "layout": "NHW"},
    {"channels": (2, 1, 0), "crop": 3, "normalize": "0..1"},
    {"matrix": [[0.25, 0.5, 0.25]], "crop": 3},
    {"mean": (0.1, 0.2, 0.3), "std": (0.5, 0.25, 1), "arithmetic": "divide"},
    {"gain": (0.5, 1.5), "offset": (-0.1, 0.1), "seed": 7, "crop": 3},
    {"gain": (0.5, 1.5), "offset": (-0.1, 0.1), "flip": 0.5, "seed": 7},
    {"scale": 2, "bias": (1, 2, 3), "clip": (5, 200), "dtype": "int16"},
    {"output": "tensor", "row_pitch_bytes": 256, "crop": 3},
    {"errors": "skip", "crop": 3},
)


def outcome(step: sg.Preprocess[Any], batch: Any) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = step(batch)
    except sg.StridedGpuError as error:
        return f"{type(error).__name__}: {error}"
    if isinstance(result, list):
        return ", ".join(described(each) for each in result) or "nothing"
    return described(result)


def described(result: Any) -> str:
    strides = f" {result.strides}" if isinstance(result, sg.StridedTensor) else ""
    array = np.asarray(result)
    bits = zlib.crc32(np.ascontiguousarray(array).view(np.uint8)) if array.size else 0
    return f"{array.dtype} {array.shape}{strides} {bits:08x}"


def listed() -> Iterator[str]:
    """A line for each step, and below it one for each outcome of one picture; of two, where it is not that of each."""
    for declared in STEPS:
        step = sg.Preprocess(device="cpu", **declared)
        yield ", ".join(f"{name}={value!r}" for name, value in declared.items()) or "nothing declared"
        by_text: dict[str, list[str]] = {}
        first = outcome(step, [PICTURES["colour"]])
        for name, picture in PICTURES.items():
            alone, both = outcome(step, [picture]), outcome(step, [PICTURES["colour"], picture])
            by_text.setdefault(alone, []).append(name)
            if both not in (f"{first}, {alone}", alone.replace("row 0", "row 1")):
                by_text.setdefault(both, []).append(f"colour and {name}")
        for text, which in by_text.items():
            yield f"  {', '.join(which)}: {text}"


def test_outcomes_are_those_of_the_listing():
    assert [*listed()] == LISTING.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    LISTING.write_text("\n".join([*listed(), ""]), encoding="utf-8")
