"""The matrix of the relayout kernels: whatever two template arguments the planner combines, compiled and run.

For every architecture: no spills and nothing in local memory, no subnormals lost, and the loads and stores that the
plan names. In the emulator, under sanitizers: the bits that NumPy gives, and not a byte beside them.
"""

from __future__ import annotations

import functools

import pytest
from cuda_emulation import machine_code
from cuda_emulation.covering import covering, varied
from cuda_emulation.marks import emulated, inspected
from cuda_emulation.planned import Case, check_cases
from cuda_emulation.tiled_cases import check_machine_code, in_order

from stridedgpu.layout import Layout

pytestmark = pytest.mark.slow

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
    deep = (2, 3, 2, 3, 96)
    return [*found, (in_order(deep, (0, 1, 2, 4, 3), {2: 320}), in_order(deep, (2, 0, 1, 3, 4), {0: 320}))]


def short_runs() -> Layouts:
    """Pixels turned, padded and unpadded, of more channels than a thread holds; small matrices; many axes."""
    pixels, wide, many = (2, 9, 33, 3), (2, 5, 40, 12), (4, 16, 16, 16)
    small, deep = (50, 8, 7), (2, 2, 2, 2, 5, 3, 4)
    plain = in_order(pixels, range(4))
    return [
        (plain, in_order(pixels, (0, 2, 1, 3))),
        *both_ways(
            (plain, in_order(pixels, range(4), {2: 4})),
            (in_order(wide, (0, 3, 1, 2)), in_order(wide, range(4), {2: 16})),
            (in_order(many, (0, 3, 1, 2)), in_order(many, range(4))),
        ),
        (in_order(small, range(3), {0: 64}), in_order(small, (0, 2, 1))),
        (in_order(small, range(3), {0: 64}), in_order(small, (2, 1, 0))),
        (in_order(deep, range(7)), in_order(deep, (3, 2, 1, 0, 4, 6, 5))),
    ]


def matrices() -> Layouts:
    """Whole tiles and parts of tiles, small tiles and large ones, few axes and many."""
    found = [(in_order(sizes, range(3)), in_order(sizes, (0, 2, 1))) for sizes in ((1, 256, 256), (3, 160, 160))]
    four, deep = (2, 3, 64, 64), (2, 2, 2, 2, 2, 33, 40)
    found.append((in_order(four, range(4)), in_order(four, (1, 0, 3, 2))))
    return [*found, (in_order(deep, range(7)), in_order(deep, (4, 3, 2, 1, 0, 6, 5)))]


def runs() -> Layouts:
    """One run, of whole vectors and not."""
    return [(Layout((count,)), Layout((count,))) for count in (1 << 14, 5001)]


def rows() -> Layouts:
    """Short rows and long ones with gaps, of which some are repeated, and elements that are."""
    found = []
    for sizes, pitch in (((40, 24), 32), ((3, 7, 200), 256), ((2, 9000), 9024), ((2, 3, 2, 5, 96), 128)):
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


LAYOUTS = {
    "flat": runs,
    "rows": rows,
    "shifted_rows": rows,
    "generic": single_elements,
    "channels": pixels_and_planes,
    "packed_tile": short_runs,
    "transpose": matrices,
}


# Where threads hold most, and registers may run out: each pair of types is scaled.
CROWDED = ("channels", "rows")


@functools.cache
def matrix(kernel: str, architecture: str) -> tuple[Case, ...]:
    cases = varied(LAYOUTS[kernel](), architecture)
    mine = (one for one in cases if one.launch.sources == (f"{kernel}.cu",))
    return tuple(covering(mine, pairs_of_types=kernel in CROWDED))


@pytest.mark.parametrize("kernel", LAYOUTS)
@pytest.mark.parametrize("architecture", machine_code.ARCHITECTURES)
@inspected
def test_machine_code_has_the_widths_of_the_plan_and_no_spills(kernel, architecture):
    check_machine_code(matrix(kernel, architecture), architecture)


def wide_accesses(one: Case) -> bool:
    return 32 in (one.plan.load.nbytes, one.plan.store.nbytes)


# Architectures before sm_100 share their instantiations; those after it have as many again with 32 bytes at once.
@pytest.mark.parametrize("kernel", LAYOUTS)
@pytest.mark.parametrize("architecture", ["sm_90", "sm_100"])
@emulated
def test_every_byte_is_right(kernel, architecture):
    cases = matrix(kernel, architecture)
    check_cases(cases if architecture == "sm_90" else filter(wide_accesses, cases))
