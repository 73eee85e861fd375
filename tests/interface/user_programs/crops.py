"""Random crops of photographs of several sizes, in a data loader's worker."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import stridedgpu as sg


def batches(photos: list[NDArray[np.uint8]], count: int, size: tuple[int, int]) -> Iterator[sg.StridedTensor]:
    random = np.random.default_rng(0)
    for _ in range(count):
        room = [[photo.shape[0] - size[0], photo.shape[1] - size[1]] for photo in photos]
        yield sg.gather_crops(
            photos,
            random.integers(0, np.array(room, np.int64) + 1),
            size,
            dims="HWC",
            flip=[bool(side) for side in random.integers(0, 2, len(photos))],
            dtype=np.float16,
            scale=np.float32(1 / 255),
        )


made = list(batches([np.zeros((40, 50, 3), np.uint8), np.zeros((32, 32, 3), np.uint8)], 2, (32, 32)))
assert [batch.sizes for batch in made] == [(2, 3, 32, 32)] * 2
