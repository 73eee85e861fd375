"""Drawn resizes beside Pillow and OpenCV, by NumPy and by native loops: no byte differs.

A thousand in all, and 20,000 with `-m sweep`; the default run of the other tests draws hundreds.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from harness.cpu_paths import picking_by
from harness.resize_cases import PILLOW_FILTERS, Resize, cv2_resize, pillow_passes, pillow_resize

import stridedgpu as sg
from stridedgpu.devices.cpu.policy import policy

pytestmark = pytest.mark.slow

BLOCK = 100
"""Draws whose expected pixels are kept at a time."""


def drawn(rng: np.random.Generator, *, whole: bool) -> Resize:
    """Sizes from 1 to 600, each order of magnitude alike, up and down; a box in one of three."""
    height, width, rows, columns = (int(size) for size in np.exp(rng.uniform(0, np.log(600), 4)))
    box = None
    if rng.random() < 1 / 3:
        edges = [np.sort(rng.uniform(0, size, 2)) for size in (height, width)]
        if whole:
            edges = [np.round(pair) for pair in edges]
        (top, bottom), (left, right) = (tuple(float(np.float32(edge)) for edge in pair) for pair in edges)
        if top + 0.01 < bottom <= height and left + 0.01 < right <= width:
            box = (top, left, bottom, right)
    channels = int(rng.integers(1, 13))
    return Resize((height, width), (rows, columns), box, channels, int(rng.integers(2**32)))


@pytest.mark.parametrize("draws", [100, pytest.param(2000, marks=pytest.mark.sweep)])
@pytest.mark.parametrize(
    "interpolation",
    [f"pillow-{name}" for name in PILLOW_FILTERS]
    + [f"opencv-{name}" for name in ("linear", "linear-exact", "nearest", "area")],
)
def test_no_byte_differs(interpolation: str, draws: int) -> None:
    """Each interpolation, as many drawn resizes."""
    library, name = interpolation.split("-", 1)
    rng = np.random.default_rng(sum(interpolation.encode()))
    has_order = library == "pillow" and name != "nearest"
    paths = ["NumPy"] if policy().why_numpy else ["NumPy", "native, 1 thread"]
    for _ in range(draws // BLOCK):
        cases = [drawn(rng, whole=library == "opencv") for _ in range(BLOCK)]
        if name == "area":
            cases = [replace(case, channels=min(case.channels, 4)) for case in cases]
        expected = [
            (pillow_resize if library == "pillow" else cv2_resize)(case.picture(), case, name) for case in cases
        ]
        for path in paths:
            with picking_by(path):
                for case, pixels in zip(cases, expected, strict=True):
                    made = sg.resize(
                        case.picture(),
                        case.target,
                        dims="HWC",
                        interpolation=interpolation,
                        box=case.box,
                        passes=pillow_passes(case) if has_order else "horizontal",
                    )
                    assert np.array_equal(np.moveaxis(made.numpy(), 0, -1), pixels), (path, case)
