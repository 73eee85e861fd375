"""Gathers and scatters as loops: which of them run within the slice of one index."""

from __future__ import annotations

from stridedgpu.problems.gather_problem import elements_problem, tuples_problem
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec


def side(layout: Layout, name: str = "float32") -> TensorSpec:
    return TensorSpec.of(layout, element_type(name), base_alignment=16)


def test_the_slice_of_an_index_is_a_loop_of_its_own():
    data, updates = side(Layout((9, 40))), side(Layout((5, 40)))
    rows = side(Layout((5, 1)), "int64")
    for scatters in (False, True):
        assert tuples_problem(data, rows, updates, 0, scatters=scatters).row_axes == 1


def test_what_a_scatter_writes_repeatedly_is_no_slice_since_the_last_wins():
    data, updates = side(Layout((5, 8))), side(Layout((5, 40)))
    repeated = side(Layout((5, 40), (1, 0)), "int64")  # one index for each row: all updates of a row meet there
    assert elements_problem(data, repeated, updates, 1, scatters=True).row_axes == 0
    assert elements_problem(data, repeated, updates, 1, scatters=False).row_axes == 1
