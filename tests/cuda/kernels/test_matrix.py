"""The matrix of the relayout kernels: whatever the planner combines, compiled, inspected and run.

What the planner can ask for is any product of conversions, widths, ranks, kinds of channels and architectures:
millions of instantiations. Compiled are, for each kernel, any two template arguments together and each of them with
each architecture; elements of each size with each vector width of loads and of stores and each index width; every type
on either side. Where threads hold most, both sizes and any other argument are together, and every pair of types is
scaled. Run are any two arguments that say how elements move, and the same widths and types. Conversions themselves are
compared, every pair, by `test_conversion_kernels.py`. That no width and no template argument is missing which plans ask
for, a generation of its own says: `layout_pairs.py`.

Compiled: no spills and nothing in local memory, no subnormals lost, and the loads and stores that the plan names. In
the emulator, under sanitizers: the bits that NumPy gives, and not a byte beside them.

The tests marked `sweep` take far longer, and CI leaves them out: each kernel on every architecture, both sizes and any
other argument wherever elements move, and other draws of layouts.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable

import pytest
from harness.emulator.cases import in_order
from harness.emulator.covering import (
    Feature,
    architecture_of,
    constants,
    covering,
    executed_features,
    features,
    varied,
    widths,
)
from harness.emulator.machine_code import ARCHITECTURES
from harness.emulator.marks import emulated, inspected
from harness.emulator.planned import Case, check_cases
from harness.emulator.tiled_cases import check_machine_code
from harness.kernel_names import conversion_of
from harness.layout_pairs import layout_pairs

from stridedgpu.values.layout import Layout

slow, sweep = pytest.mark.slow, pytest.mark.sweep

Layouts = list[tuple[Layout, Layout]]


def both_ways(*pairs: tuple[Layout, Layout]) -> Layouts:
    return [sides for one, other in pairs for sides in ((one, other), (other, one))]


def pixels_and_planes() -> Layouts:
    """Every number of channels up to 8, with and without gaps between pixels, in few rows and in many."""
    found = []
    for channels, pixel in ((2, 2), (2, 4), (3, 3), (3, 4), (3, 8), (4, 4), (5, 5), (5, 8), (6, 6), (7, 7), (8, 8)):
        for batch, height in ((1, 1), (2, 5)):
            sizes = (batch, channels, height, 96)
            pixels = in_order(sizes, (0, 2, 3, 1), {3: pixel, 2: 96 * pixel + 32})
            found += both_ways((pixels, in_order(sizes, (0, 1, 2, 3), {2: 128})))
        sizes = (2, channels, 3, 131)
        found += both_ways((in_order(sizes, (0, 2, 3, 1), {3: pixel}), in_order(sizes, range(4))))
    deep = (2, 3, 2, 3, 96)
    return [*found, (in_order(deep, (0, 1, 2, 4, 3), {2: 320}), in_order(deep, (2, 0, 1, 3, 4), {0: 320}))]


def whole_pixels() -> Layouts:
    """Pixels of either pitch on both sides, in rows that follow each other and in rows that do not."""
    found = []
    for channels, source, target in (
        (3, 3, 3),
        (3, 3, 4),
        (3, 4, 3),
        (4, 4, 4),
        (2, 4, 8),
        (3, 5, 6),
        (7, 7, 8),
        (3, 3, 32),
    ):
        for batch, gap in ((1, 0), (3, 32), (3, 1)):
            sizes = (batch, 3, 96, channels)
            sides = (in_order(sizes, range(4), {2: pitch, 1: 96 * pitch + gap}) for pitch in (source, target))
            found.append(tuple(sides))
    deep = (2, 3, 2, 3, 96, 3)
    return [*found, (in_order(deep, range(6), {3: 320}), in_order(deep, (2, 0, 1, 3, 4, 5), {4: 4}))]


def short_runs() -> Layouts:
    """Pixels turned, padded and unpadded, and of more channels than a thread holds; small matrices; many axes."""
    pixels, wide, many = (2, 9, 33, 3), (2, 5, 40, 12), (4, 16, 16, 16)
    small, deep = (50, 8, 7), (2, 2, 2, 2, 5, 3, 4)
    plain = in_order(pixels, range(4))
    return [
        (plain, in_order(pixels, (0, 2, 1, 3))),
        *both_ways(
            (plain, in_order(pixels, (0, 2, 1, 3), {1: 4})),
            (in_order(wide, (0, 3, 1, 2)), in_order(wide, range(4), {2: 16})),
            (in_order(many, (0, 3, 1, 2)), in_order(many, range(4))),
        ),
        (in_order(small, range(3), {0: 64}), in_order(small, (0, 2, 1))),
        (in_order(small, range(3), {0: 64}), in_order(small, (2, 1, 0))),
        (in_order(deep, range(7)), in_order(deep, (3, 2, 1, 0, 4, 6, 5))),
    ]


def turned_pixels() -> Layouts:
    """Pixels of every number of elements along two axes, in few images and in many; tiles with and without edges."""
    found = []
    for channels in (2, 3, 4, 5, 6, 7, 9, 13):
        for sizes in ((1, 32, 64, channels), (3, 20, 37, channels)):
            found += both_ways((in_order(sizes, range(4)), in_order(sizes, (0, 2, 1, 3))))
    deep = (2, 3, 2, 17, 48, 3)
    return [*found, (in_order(deep, range(6), {3: 160}), in_order(deep, (2, 0, 1, 4, 3, 5), {4: 64}))]


def matrices() -> Layouts:
    """Whole tiles and parts of tiles, small tiles and large ones, few axes and many."""
    found = [(in_order(sizes, range(3)), in_order(sizes, (0, 2, 1))) for sizes in ((1, 256, 256), (3, 160, 160))]
    four, deep = (2, 3, 64, 64), (2, 2, 2, 2, 2, 33, 40)
    found.append((in_order(four, range(4)), in_order(four, (1, 0, 3, 2))))
    return [*found, (in_order(deep, range(7)), in_order(deep, (4, 3, 2, 1, 0, 6, 5)))]


def orders_of_many_channels() -> Layouts:
    """Matrices of more channels than a tile has, which are small nevertheless: tiles of one element."""
    found = [(in_order(sizes, range(3)), in_order(sizes, (0, 2, 1))) for sizes in ((1, 40, 256), (2, 24, 256))]
    four = (2, 3, 9, 256)
    return [*found, (in_order(four, range(4)), in_order(four, (1, 0, 3, 2)))]


def runs() -> Layouts:
    """One run, of whole vectors and not, and one so short that words are not shifted into place."""
    return [(Layout((count,)), Layout((count,))) for count in (1 << 14, 5001, 101)]


def rows() -> Layouts:
    """Short rows and long ones with gaps, of which some are repeated, and elements that are."""
    found = []
    for sizes, pitch in (
        ((40, 24), 32),
        ((3, 7, 200), 256),
        ((5, 3500), 3520),
        ((2, 9000), 9024),
        ((2, 3, 2, 5, 96), 128),
    ):
        inner = len(sizes) - 1
        padded = in_order(sizes, range(len(sizes)), {inner - 1: pitch})
        order = (*reversed(range(inner)), inner)
        found += both_ways((padded, in_order(sizes, order)))
        found.append((Layout(sizes, (0, *padded.strides[1:])), in_order(sizes, order)))
        found.append((Layout(sizes, (*padded.strides[:-1], 0)), padded))
    return found


def single_elements() -> Layouts:
    """Elements with gaps between them on either side, or on both."""
    found = []
    for sizes in ((500,), (7, 64), (3, 2, 2, 3, 2, 40)):
        packed, strided = in_order(sizes, range(len(sizes))), in_order(sizes, range(len(sizes)), {len(sizes) - 1: 2})
        found += both_ways((packed, strided))
        found.append((strided, in_order(sizes, range(len(sizes)), {len(sizes) - 2: 64}) if len(sizes) > 1 else strided))
    return found


LAYOUTS = (
    runs,
    rows,
    single_elements,
    pixels_and_planes,
    whole_pixels,
    short_runs,
    turned_pixels,
    matrices,
)


# Where threads hold most, and registers may run out.
CROWDED = ("channels.cu", "pixels.cu", "rows.cu")

MOST_ELEMENTS = 1 << 16

FEW_THREADS, MOST_THREADS = 1 << 17, 1 << 22
"""Threads of a launch that the emulator runs in a moment, and in some seconds: where a block has one element."""

PARTS = 4
"""Tests that share out what is run of a kernel, so that no worker has it all."""

KERNELS = (
    "channels.cu",
    "flat.cu",
    "generic.cu",
    "packed_tile.cu",
    "pixels.cu",
    "rows.cu",
    "shifted_channels.cu",
    "shifted_rows.cu",
    "transpose.cu",
    "turned_pixels.cu",
)


def cases_by_kernel(seed: int = 0) -> dict[str, list[Case]]:
    """Cases of all the layouts, and of what programs ask for, by the source of the kernel that carries them out."""
    found = defaultdict(list)
    drawn = [varied(layouts(), seed) for layouts in LAYOUTS]
    # Orders of many channels are one draw in twenty.
    drawn += [varied(orders_of_many_channels(), 100 * again + seed) for again in range(2)]
    for one in itertools.chain(*drawn, layout_pairs(6000, seed)):
        [source] = one.launch.sources
        found[source].append(one)
    return found


@functools.cache
def every_case() -> dict[str, list[Case]]:
    return cases_by_kernel()


def threads(one: Case) -> int:
    """The threads of a case's launch."""
    return math.prod((*one.launch.grid, *one.launch.block))


def small(cases: Iterable[Case], fewest: int = 0, most: int = FEW_THREADS) -> list[Case]:
    """Those of little memory, and of more than `fewest` threads but no more than `most`: those with few come first."""
    found = (one for one in cases if one.target.layout.element_count <= MOST_ELEMENTS >= one.source.layout.span)
    return sorted((one for one in found if fewest < threads(one) <= most), key=threads)


@functools.cache
def compiled(kernel: str) -> list[Case]:
    """The cases that stand for all of a kernel's instantiations."""
    return covering(every_case()[kernel], functools.partial(features, crowded=kernel in CROWDED))


@functools.cache
def executed(kernel: str) -> list[Case]:
    """The cases, of small layouts, that stand for all ways in which a kernel moves elements.

    Launches of many threads, which the emulator runs one after another, are there for what no other case has.
    """
    cases = every_case()[kernel]
    found = covering(small(cases), executed_features)
    seen = set().union(*map(executed_features, found))
    many = small(cases, FEW_THREADS, MOST_THREADS)
    return [*found, *covering(many, lambda one: executed_features(one) - seen)]


@slow
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@inspected
def test_machine_code_has_the_widths_of_the_plan_and_no_spills(kernel, architecture):
    check_machine_code([one for one in compiled(kernel) if architecture_of(one) == architecture], architecture)


@slow
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("part", range(PARTS))
@emulated
def test_every_byte_is_right(kernel, part):
    check_cases(executed(kernel)[part::PARTS])


def asked_for(one: Case) -> set[Feature]:
    """The kernel of a plan, its widths, and each template argument by itself."""
    made = conversion_of(one.launch.name)
    return widths(one) | {("argument", *each) for each in constants(one)} | {("made", each) for each in made}


@slow
def test_whatever_plans_ask_for_is_in_the_matrix():
    asked = defaultdict(Counter)
    for one in layout_pairs(3000, seed=1):
        asked[one.launch.sources[0]].update(asked_for(one))
    assert every_case().keys() == set(KERNELS) >= asked.keys()
    for kernel, counted in asked.items():
        # What one in thousands asks for may be missing: the length of a run can be any number of steps.
        often = {feature for feature, count in counted.items() if count > 1}
        for cases, kinds in ((compiled, ("load", "store", "argument", "made")), (executed, ("load", "store"))):
            there = {feature for one in cases(kernel) for feature in asked_for(one)}
            assert not {feature for feature in often - there if feature[0] in kinds}, (cases.__name__, kernel)


@sweep
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@inspected
def test_machine_code_of_every_kernel_on_every_architecture(kernel, architecture):
    check_machine_code(compiled(kernel), architecture)


@sweep
@pytest.mark.parametrize("kernel", KERNELS)
@emulated
def test_every_byte_of_three_arguments_together_is_right(kernel):
    cases = small(every_case()[kernel], most=MOST_THREADS)
    check_cases(covering(cases, functools.partial(executed_features, threes=True)))


@sweep
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", range(1, 4))
@emulated
def test_every_byte_of_other_draws_is_right(kernel, seed):
    cases = small(cases_by_kernel(seed)[kernel])
    check_cases(random.Random(seed).sample(cases, min(len(cases), 500)))
