"""Which kernels carry out what programs ask for: none moves element by element what could move in vectors."""

from __future__ import annotations

import itertools
from collections import Counter

from harness.emulator.planned import Case
from harness.layout_pairs import layout_pairs

from stridedgpu.values.layout import Layout

COUNT = 3000


def has_neighbours(layout: Layout) -> bool:
    """Whether elements lie side by side."""
    return any(size > 1 and abs(stride) == 1 for size, stride in zip(layout.sizes, layout.strides, strict=True))


def repeats_along_runs(source: Layout, target: Layout) -> bool:
    """Whether one element of the source fills a run of the target."""
    loops = zip(target.sizes, source.strides, target.strides, strict=True)
    return any(size > 1 and theirs == 0 and abs(ours) == 1 for size, theirs, ours in loops)


def picks_from_many(one: Case) -> bool:
    """Whether channels are taken in no even order from pixels of so many that tiles have no room for them."""
    chosen, axis, layout = one.conversion.channels, one.channel_axis, one.source.layout
    if axis is None or chosen is None or abs(layout.strides[axis]) != 1:
        return False
    steps = {after - before for before, after in itertools.pairwise(chosen)}
    return len(steps) > 1 and layout.sizes[axis] > 16


def has_no_runs(one: Case) -> bool:
    """Whether there is nothing for any family but the last to take hold of: one side's elements lie apart."""
    source, target = one.source.layout, one.target.layout
    if target.element_count == 1:
        return False
    return not has_neighbours(target) or not (has_neighbours(source) or repeats_along_runs(source, target))


def test_only_what_has_no_runs_moves_element_by_element():
    """The rule of the last family, from the layouts as they are given; the planner goes by loops that it has merged."""
    kernels, families = Counter(), Counter()
    for one in layout_pairs(COUNT, seed=0):
        [source] = one.launch.sources
        kernels[source.removesuffix(".cu")] += 1
        families[str(one.plan.family)] += 1
        by_elements = source == "generic.cu"
        assert by_elements == has_no_runs(one) or (by_elements and picks_from_many(one)), " ".join(one.plan.describe())
    for name, counted in (("families", families), ("kernels", kernels)):
        shares = ", ".join(f"{what} {count / COUNT:.1%}" for what, count in counted.most_common())
        print(f"{name} of {COUNT} relayouts: {shares}")
    assert len(families) > 5
