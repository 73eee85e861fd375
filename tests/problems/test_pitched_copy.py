"""Pitched copies: what `runs_of` names is the relayout, run by run, and what a copy engine cannot do is left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from harness.guarded_memory import bits_of, seeds
from harness.strategies import element_types, layouts_of, tensor_sizes
from hypothesis import given, strategies as st

from stridedgpu.problems.pitched_copy import runs_of
from stridedgpu.problems.relayout_problem import relayout_problem
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec


def problem_of(source, target, element, filler=0):
    made = conversion(element, element)
    specs = [TensorSpec.of(layout, element, base_alignment=1) for layout in (source, target)]
    return replace(relayout_problem(*specs, made, None), filler=filler)


@given(tensor_sizes(0, 4, least=1), st.data(), element_types(), seeds)
def test_the_runs_carry_out_the_relayout(sizes, data, element, seed):
    layouts = [data.draw(layouts_of(sizes, broadcast=broadcast)) for broadcast in (True, False)]
    source, target = (layout.shifted(-layout.first_offset) for layout in layouts)
    problem = problem_of(source, target, element)
    runs = runs_of(problem)
    assert runs is not None
    itemsize = element.itemsize
    read = np.random.default_rng(seed).integers(0, 256, source.span * itemsize, np.uint8)
    expected = np.zeros(target.span * itemsize, np.uint8)
    bits_of(target, itemsize, expected)[...] = bits_of(source, itemsize, read)
    written = np.zeros_like(expected)
    for reads, writes in runs.places:
        for row in range(runs.height):
            at, into = reads + row * runs.source_pitch, writes + row * runs.target_pitch
            written[into : into + runs.width] = read[at : at + runs.width]
    assert written.tobytes() == expected.tobytes()
    # A copy engine takes no pitch below the width.
    assert runs.height == 1 or runs.width <= min(runs.source_pitch, runs.target_pitch)


def test_rows_that_overlap_are_no_pitched_copy():
    runs = runs_of(problem_of(Layout((4, 90), (30, 1)), Layout((4, 90)), element_type("uint8")))
    assert (runs.height, runs.outer) == (1, ((4, 30, 90),))


def test_a_relayout_that_writes_zeros_is_no_copy():
    packed = Layout((4, 90))
    assert runs_of(problem_of(packed, Layout((4, 90), (96, 1)), element_type("uint8"), filler=6)) is None


def test_a_copy_engine_takes_up_to_64_copies_of_long_runs():
    def runs(copies, nbytes):
        source, target = Layout((copies, 2, nbytes), (9000, 0, 1)), Layout((copies, 2, nbytes))
        return runs_of(problem_of(source, target, element_type("uint8")))

    assert runs(32, 4096).is_worthwhile
    assert runs(32, 4096).copies == 64
    assert not runs(33, 4096).is_worthwhile
    assert not runs(32, 3).is_worthwhile
