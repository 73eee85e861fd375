"""One declared step in a training loop, with batches made ahead."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import stridedgpu as sg

step = sg.Preprocess("image", crop=8, dtype="float16", mean=0.5, std=(0.5, 0.5, 0.5), device="cpu")


def loaded() -> Iterator[dict[str, NDArray[Any]]]:
    for number in range(3):
        yield {"image": np.full((2, 12, 16, 3), number, np.uint8), "label": np.arange(2)}


for batch in sg.prefetch(map(step, loaded())):
    assert batch["image"].shape == (2, 3, 8, 8)

small = step(np.zeros((2, 12, 16, 3), np.uint8))
assert small.shape == (2, 3, 8, 8)
several: list[object] = step([np.zeros((12, 16, 3), np.uint8), np.zeros((9, 9, 3), np.uint8)])
assert len(several) == 2
columns: dict[str, object] = step({"image": np.zeros((2, 12, 16, 3), np.uint8), "label": np.arange(2)})
assert sorted(columns) == ["image", "label"]
