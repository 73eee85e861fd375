"""Draws the pictures of docs/resize.md: the same photograph by two libraries' rules, and how they differ.

    python docs/resize_pictures.py        writes docs/resize/*.png; needs the sample photographs (stridedgpu[demo])

Each picture has three panels, their pixels ten times enlarged: one rule, another, and their difference. There grey is
none. The rows and columns are those that differ most.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

import stridedgpu as sg
from stridedgpu.commands.job_images import sample_images
from stridedgpu.preprocess.decoding import Decoder

FOLDER = Path(__file__).with_name("resize")
ENLARGED = 10
SHOWN = (24, 32)
BORDER = 10

Array = NDArray[Any]


@dataclass(frozen=True)
class Figure:
    """A photograph, its new height, and the two rules that are compared."""

    photograph: str
    height: int
    rules: tuple[str, str]

    def results(self) -> tuple[Array, Array]:
        """The whole photograph, (height, width, 3), by each rule."""
        path = next(image.path for image in sample_images() if image.name == self.photograph)
        photo = Decoder().frame(path, path.name)
        size = self.height, round(photo.shape[1] * self.height / photo.shape[0])
        one, other = (
            np.asarray(
                sg.resize(photo, size, dims="HWC", layout="HWC", interpolation=rule, device="cpu").permute("HWC")
            )
            for rule in self.rules
        )
        return one, other

    def panels(self) -> Array:
        """The picture as pixels."""
        one, other = self.results()
        levels = other.astype(int) - one
        differs = np.abs(levels).sum(axis=2)
        totals = sliding_window_view(differs, SHOWN).sum(axis=(2, 3))
        top, left = np.unravel_index(totals.argmax(), totals.shape)
        part = slice(top, top + SHOWN[0]), slice(left, left + SHOWN[1])
        grey = np.clip(128 + levels, 0, 255).astype(np.uint8)
        shown = [np.kron(image[part], np.ones((ENLARGED, ENLARGED, 1), np.uint8)) for image in (one, other, grey)]
        between = np.full((shown[0].shape[0], BORDER, 3), 255, np.uint8)
        return np.concatenate([shown[0], between, shown[1], between, shown[2]], axis=1)


FIGURES = {
    "shrunk.png": Figure("coffee.png", 100, ("pillow-bilinear", "opencv-linear")),
    "cubic.png": Figure("coffee.png", 600, ("pillow-bicubic", "opencv-cubic")),
}


def main() -> None:
    """Write every picture."""
    from PIL import Image

    FOLDER.mkdir(exist_ok=True)
    for name, figure in FIGURES.items():
        Image.fromarray(figure.panels()).save(FOLDER / name, optimize=True)


if __name__ == "__main__":
    main()
