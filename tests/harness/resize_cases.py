"""Resizes drawn by Hypothesis, and the libraries whose bits they must have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

__all__ = [
    "PILLOW_FILTERS",
    "Resize",
    "cv2_resize",
    "pictures",
    "pillow_passes",
    "pillow_resize",
    "resizes",
    "torch_resize",
]

Array = NDArray[Any]

PILLOW_FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}


@dataclass(frozen=True)
class Resize:
    """One resize: the sizes of source and result, and top, left, bottom, right of the box or None."""

    source: tuple[int, int]
    target: tuple[int, int]
    box: tuple[float, float, float, float] | None
    channels: int
    seed: int

    def picture(self, dtype: str = "uint8") -> Array:
        """A random image, (height, width, channels)."""
        rng = np.random.default_rng(self.seed)
        shape = (*self.source, self.channels)
        if dtype.startswith("float"):
            return rng.normal(0, 100, shape).astype(dtype)
        return rng.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)


@st.composite
def resizes(
    draw: st.DrawFn, largest: int = 150, *, boxes: str = "fractions", target: tuple[int, int] | None = None
) -> Resize:
    """Sizes up and down, equal and whole multiples; boxes of `fractions` of pixels or `whole` ones, or none."""
    if target is None:
        target = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    source = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    kind = draw(st.sampled_from(["any", "any", "same height", "same width", "multiples"]))
    if kind == "same height":
        source = target[0], source[1]
    elif kind == "same width":
        source = source[0], target[1]
    elif kind == "multiples":
        source = target[0] * draw(st.integers(1, 4)), target[1] * draw(st.integers(1, 4))
    box = None
    if boxes != "none" and kind != "multiples" and draw(st.booleans()):
        edges = [sorted(draw(st.tuples(*(_edge(size, boxes),) * 2))) for size in source]
        if all(low + 0.01 < high for low, high in edges):
            (top, bottom), (left, right) = edges
            box = (top, left, bottom, right)
    return Resize(source, target, box, draw(st.integers(1, 12)), draw(st.integers(0, 2**32 - 1)))


def _edge(size: int, boxes: str) -> st.SearchStrategy[float]:
    """Edges of boxes within an axis."""
    return st.integers(0, size).map(float) if boxes == "whole" else st.floats(0, size, width=32)


def pillow_passes(case: Resize) -> str:
    """The order of passes of the Pillow that is installed; 12.2 and 12.3 take the rows of very tall images first."""
    pillow = pytest.importorskip("PIL", reason="the oracle is Pillow")
    version = tuple(map(int, pillow.__version__.split(".")[:2]))
    if version >= (13, 0):
        return "pillow-13"
    height, width = case.source
    return "vertical" if version >= (12, 2) and height > 100 * width and case.target[0] < height else "horizontal"


def pillow_resize(picture: Array, case: Resize, name: str) -> Array:
    """Pillow's result, channel by channel, as images of 1 channel resize alike."""
    image = pytest.importorskip("PIL.Image", reason="the oracle is Pillow")
    height, width = case.target
    box = None if case.box is None else (case.box[1], case.box[0], case.box[3], case.box[2])
    return np.stack(
        [
            np.asarray(image.fromarray(plane).resize((width, height), PILLOW_FILTERS[name], box=box))
            for plane in np.ascontiguousarray(np.moveaxis(picture, -1, 0))
        ],
        axis=-1,
    )


def cv2_resize(picture: Array, case: Resize, name: str) -> Array:
    """OpenCV's result of the box's pixels without Intel's IPP, which `test_whose_pixels.py` leaves on."""
    cv2 = pytest.importorskip("cv2", reason="the oracle is OpenCV")
    cv2.ipp.setUseIPP(False)
    filters = {
        "linear": cv2.INTER_LINEAR,
        "linear-exact": cv2.INTER_LINEAR_EXACT,
        "nearest": cv2.INTER_NEAREST,
        "area": cv2.INTER_AREA,
        "cubic": cv2.INTER_CUBIC,
    }
    if case.box is not None:
        top, left, bottom, right = (int(edge) for edge in case.box)
        picture = picture[top:bottom, left:right]
    height, width = case.target
    return cv2.resize(picture, (width, height), interpolation=filters[name]).reshape(height, width, -1)


def torch_resize(picture: Array, case: Resize, name: str) -> Array:
    """torch's result of the box's pixels, antialiased unless it copies the nearest, four channels at a time.

    More than four channels that become one column come out of torch otherwise.
    """
    torch = pytest.importorskip("torch", reason="the oracle is torch")
    if case.box is not None:
        top, left, bottom, right = (int(edge) for edge in case.box)
        picture = picture[top:bottom, left:right]
    tensor = torch.from_numpy(np.ascontiguousarray(np.moveaxis(picture, -1, 0)))[None]
    try:
        parts = [
            torch.nn.functional.interpolate(part, case.target, mode=name, antialias=name != "nearest")[0].numpy()
            for part in tensor.split(4, 1)
        ]
    except (NotImplementedError, ValueError) as error:
        pytest.skip(f"this torch has no such filter: {error}")
    return np.moveaxis(np.concatenate(parts), 0, -1)


def pictures(picture: Array) -> list[tuple[Array, str]]:
    """One image in several layouts of memory, with the labels of its axes."""
    planar = np.ascontiguousarray(np.moveaxis(picture, -1, 0))
    height, width, channels = picture.shape
    pitched = np.zeros((height, width + 3, channels + 1), picture.dtype)[:, :width, :channels]
    pitched[...] = picture
    flipped = np.ascontiguousarray(picture[::-1, ::-1])[::-1, ::-1]
    return [(picture, "HWC"), (planar, "CHW"), (pitched, "HWC"), (flipped, "HWC")]
