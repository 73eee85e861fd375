"""Plans of samples of image sensors for a GPU, as values: how wide a group's store may be."""

from __future__ import annotations

import pytest

from stridedgpu.devices.cuda.raw import choose_raw
from stridedgpu.problems.raw_problem import RawProblem
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.layout import Layout
from stridedgpu.values.raw_formats import RAW_FORMATS
from stridedgpu.values.tensor_spec import TensorSpec


@pytest.mark.parametrize("height, pitch, nbytes", [(1, 9, 8), (2, 9, 2), (3, 9, 2), (2, 10, 2), (2, 12, 8), (3, 12, 8)])
def test_a_store_is_no_wider_than_what_divides_the_distance_of_rows(height, pitch, nbytes):
    target = TensorSpec(Layout((height, 8), (pitch, 1)), element_type("uint16"), 16)
    assert choose_raw(RawProblem(RAW_FORMATS["mipi-raw10"], 10, 16, target)).store.nbytes == nbytes
