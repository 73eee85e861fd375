"""The ways of `serving.py`, a few requests each: they give one network's input, and every request is answered."""

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
    side = 224 if name.startswith("clip") else 640
    same, _ = WAYS[f"{name.split()[0]} stridedgpu"]
    for photo in photographs(2):
        result = np.asarray(way(photo))
        assert (result.shape, result.dtype) == ((3, side, side), np.float32)
        assert np.abs(result - same(1)(photo)).mean() < 0.1


def test_every_request_is_timed():
    asked = []
    found = measure(asked.append, threads=3, requests=20)
    assert len(asked) == 20 + len(photographs())
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    assert found["requests_per_s"] > 0
