"""A row of the table of rules is a new interpolation: NumPy and native loops take it as it stands."""

from __future__ import annotations

import numpy as np
import pytest
from harness.cpu_paths import picking_by

import stridedgpu as sg
from stridedgpu.values import interpolation as rules


def mitchell(x, maths):
    """The cubic of Mitchell and Netravali, B = C = 1/3."""
    x = maths.absolute(x)
    near = (x * 7.0 - 12.0) * x * x + 16.0 / 3.0
    far = ((x * (-7.0 / 3.0) + 12.0) * x - 20.0) * x + 32.0 / 3.0
    return maths.select(x < 1.0, near, maths.select(x < 2.0, far, 0.0))


@pytest.fixture
def row(monkeypatch):
    name = "pillow-mitchell"
    bicubic = rules.INTERPOLATIONS["pillow-bicubic"]
    rule = rules.Interpolation(name, "filter", bicubic.arithmetic_of, mitchell, 2.0)
    monkeypatch.setattr(rules, "INTERPOLATIONS", {**rules.INTERPOLATIONS, name: rule})
    return name


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("size", [(23, 31), (150, 170)])
def test_every_execution_has_the_same_bits(row, dtype, size):
    picture = np.random.default_rng(1).integers(0, 256, (90, 120, 3)).astype(dtype)
    resized = []
    for path in ("NumPy", "native, 1 thread"):
        with picking_by(path):
            resized.append(sg.resize(picture, size, dims="HWC", interpolation=row, passes="horizontal").numpy())
    np.testing.assert_array_equal(*resized)
    assert abs(resized[0].mean() - picture.mean()) < 2
