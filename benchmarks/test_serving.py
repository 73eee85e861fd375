"""The ways of `serving.py`, a few requests each: they give one network's input or answer; every request is answered."""

from __future__ import annotations

import numpy as np
import pytest
from serving import WAYS, is_here, measure, photographs


@pytest.mark.parametrize("name", WAYS)
def test_a_way_gives_the_input_of_its_network(name):
    make, library = WAYS[name]
    if not is_here(name):
        pytest.skip(f"{library} is not installed")
    way = make(1)
    network = name.split()[0]
    sizes = {"clip": (3, 224, 224), "yolo": (3, 640, 640), "vit": (1, 192)}[network]
    same, _ = WAYS[f"{network} stridedgpu"]
    for photo in photographs(2):
        result = np.asarray(way(photo))
        assert (result.shape, result.dtype) == (sizes, np.float32)
        assert np.abs(result - np.asarray(same(1)(photo))).mean() < 0.1


def test_every_request_is_timed():
    asked = []
    found = measure(asked.append, threads=3, requests=20)
    assert len(asked) == 20 + len(photographs())
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    assert found["requests_per_s"] > 0
