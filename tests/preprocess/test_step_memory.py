"""Memory stays where it is, however many images go through."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.values.bounded_cache import GENERATION

pytest.importorskip("resource", reason="a process's peak is told by POSIX's resource")

STREAM = """
import resource
import numpy as np, stridedgpu as sg

step = sg.Preprocess("image", crop=224, flip=0.5, seed=1, key="name", mean=0.5, std=0.25, device="cpu")
random = np.random.default_rng(0)
noise = [random.integers(0, 256, (*sizes, 3), np.uint8) for sizes in ((256, 341), (256, 256), (300, 400), (384, 256))]

def batches():
    for first in range(0, 10_000, 50):
        yield {"image": [noise[row % 4].copy() for row in range(50)], "name": range(first, first + 50)}

done = 0
for batch in sg.prefetch(map(step, batches())):
    done += len(batch["image"])
    if done in (1_000, 10_000):
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_ten_thousand_pictures_need_no_more_than_one_thousand():
    environment = os.environ | {"PYTHONPATH": str(Path(sg.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", STREAM], env=environment, capture_output=True, text=True, timeout=600, check=True
    )
    early, late = (int(line) for line in done.stdout.split())
    assert late - early < 16 << 10, f"peaks of {early} and {late} KiB"


@pytest.mark.slow
def test_random_boxes_which_never_recur_are_kept_within_the_bytes_of_two_generations(monkeypatch):
    monkeypatch.setattr(GENERATION, "most_bytes", 1 << 20)
    step = sg.Preprocess(crop=96, random_resized_crop=True, seed=1, dtype="float16", device="cpu")
    image = np.zeros((1, 200, 300, 3), np.uint8)

    def held_after(keys):
        for key in keys:
            step(image, keys=[key])
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        full = held_after(range(300))
        assert held_after(range(300, 600)) - full < 2 << 20, "each box has 20 KB"
    finally:
        tracemalloc.stop()
