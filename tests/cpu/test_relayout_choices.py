"""Which kernel moves what, planned for a stated processor; its bits are compared where it can run."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import product
from math import prod

import numpy as np
import pytest
from harness.native_loops import CLASSES, policy_with
from harness.plans import chosen_relayout
from harness.relayout_moves import moved_kernel

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.devices.cpu.native import relayout
from stridedgpu.devices.cpu.native.blocks import Blocks
from stridedgpu.devices.cpu.native.channels import Channels
from stridedgpu.devices.cpu.native.elements import can_convert
from stridedgpu.devices.cpu.native.relayout import plan_relayout, relayout_kernel
from stridedgpu.devices.cpu.native.rows import Rows
from stridedgpu.devices.cpu.native.transpose import Transpose
from stridedgpu.devices.cpu.policy import Policy, using
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES, element_type
from stridedgpu.values.tensor_spec import TensorSpec

LIMITS = {
    "streamed_bytes": 1 << 24,
    "cached_bytes": 1 << 62,
    "long_row_bytes": 1 << 13,
    "short_side": 32,
}
"""The thresholds of these tests, whatever the policy's are."""


@pytest.fixture(scope="module", autouse=True)
def a_stated_processor():
    with using(Policy.of(CLASSES["AVX-512 VBMI"])), policy_with(relayout=LIMITS):
        yield


PATCHES = {
    "planes to pixels, 2 by 2": ((2, 3, 8, 2, 16, 2), (0, 2, 4, 3, 5, 1)),
    "planes to planes, 4 by 4": ((2, 5, 8, 4, 8, 4), (0, 2, 4, 1, 3, 5)),
    "pixels, 2 by 2": ((1, 8, 2, 16, 2, 3), (0, 1, 3, 2, 4, 5)),
    "pixel shuffle": ((2, 4, 2, 2, 9, 11), (0, 1, 4, 2, 5, 3)),
    "eight channels": ((2, 8, 7, 7), (0, 2, 3, 1)),
    "axes of 2": ((2,) * 10, (9, 0, 5, 2, 7, 4, 1, 8, 3, 6)),
}


@pytest.mark.parametrize("width, lanes", [(8, 8), (14, 8), (17, 16), (64, 32), (65, 32)])
def test_steps_along_short_rows_are_shorter(width, lanes):
    made = conversion(element_type("uint8"), element_type("float32"), scale=0.5, bias=1.0)
    source, target = Layout((3, 5, width), (7 * width, width + 3, 1)), Layout((3, 5, width))
    kernel = moved_kernel(source, target, made, None, seed=width)
    assert isinstance(kernel, Rows)
    assert kernel.lanes == lanes


@pytest.mark.parametrize("element", ["uint8", "float32"])
@pytest.mark.parametrize("sizes, axes", PATCHES.values(), ids=PATCHES)
def test_short_runs_on_both_sides_move_in_blocks(sizes, axes, element):
    source = np.arange(prod(sizes)).reshape(sizes).transpose(axes)
    target = Layout(source.shape, [stride // 8 for stride in np.empty(source.shape, np.int64).strides])
    made = conversion(element_type(element), element_type(element))
    kernel = moved_kernel(Layout(source.shape, [stride // 8 for stride in source.strides]), target, made, None, seed=1)
    assert type(kernel) is Blocks


@pytest.mark.parametrize("element", ["uint8", "uint16"])
def test_a_picture_that_is_turned_either_way_moves_in_the_same_blocks(element):
    """Clockwise, the other way, along either diagonal: columns that are read backward continue a source run."""
    made, picture = conversion(element_type(element), element_type(element)), np.zeros((40, 50, 3), np.int64)
    kernels = set()
    for rows, columns in ((1, 1), (-1, 1), (1, -1), (-1, -1)):
        turned = picture[::rows, ::columns].transpose(1, 0, 2)
        offset = (39 * 50 * 3 if rows < 0 else 0) + (49 * 3 if columns < 0 else 0)
        source = Layout(turned.shape, [stride // 8 for stride in turned.strides], offset)
        kernels.add(moved_kernel(source, Layout(turned.shape), made, None, seed=1))
    (kernel,) = kernels
    assert type(kernel) is Blocks


@pytest.mark.parametrize("name", ["AVX2", "AVX-512 VBMI"])
@pytest.mark.parametrize("element", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize("sizes", [(16, 16), (16, 17), (17, 16), (33, 50), (5, 70), (70, 5)])
def test_pixels_of_three_elements_are_transposed(sizes, element, name):
    made, (height, width) = conversion(element_type(element), element_type(element)), sizes
    source, target = Layout((width, height, 3), (3, 3 * width, 1)), Layout((width, height, 3))
    with using(Policy.of(CLASSES[name])):
        assert type(moved_kernel(source, target, made, None, seed=1)) is Blocks


@pytest.mark.parametrize("name", ["AVX2", "AVX-512 VBMI"])
@pytest.mark.parametrize("nbytes", [3, 5, 6, 7, 12, 17, 21, 24, 33, 48, 63])
def test_runs_of_both_sides_are_copied(nbytes, name):
    made = conversion(element_type("uint8"), element_type("uint8"))
    for rows, columns in ((7, 9), (30, 50)):
        strides = (columns * nbytes, nbytes, 1)
        source = Layout((columns, rows, nbytes), (strides[1], strides[0], 1))
        with using(Policy.of(CLASSES[name])):
            assert type(moved_kernel(source, Layout((columns, rows, nbytes)), made, None, seed=1)) is Blocks


@pytest.mark.parametrize("name", ["AVX2", "AVX-512 VBMI"])
@pytest.mark.parametrize("size", range(9, 16))
def test_results_of_many_source_runs(size, name):
    """With 16-byte vectors, they are merged in two rounds."""
    made = conversion(element_type("uint8"), element_type("uint8"))
    for length in (40, 100, 257):
        sizes, ahead, behind = (size, 5, length), (5 * length, length, 1), (1, size, 5 * size)
        for source, target in ((behind, ahead), (ahead, behind)):
            with using(Policy.of(CLASSES[name])):
                assert type(moved_kernel(Layout(sizes, source), Layout(sizes, target), made, None, seed=1)) is Blocks


@pytest.mark.parametrize("name", ["AVX2", "AVX-512 VBMI"])
@pytest.mark.parametrize("target", ["bfloat16", "float16", "float32", "float64", "int64"])
def test_items_of_less_than_a_step_write_nothing_before_the_target(target, name):
    made = conversion(element_type("uint8"), element_type(target))
    for seed, (rows, columns) in enumerate(((40, 70), (64, 64), (33, 200), (200, 33))):
        layouts = Layout((rows, columns), (1, rows)), Layout((rows, columns))
        with using(Policy.of(CLASSES[name])), policy_with(relayout={"item_bytes": range(1024, 1025)}):
            assert type(moved_kernel(*layouts, made, None, seed=seed)) is Transpose


def test_blocks_are_named_and_described():
    source = sg.empty((2, 3, 32, 2, 32, 2), "float32").permute((0, 2, 4, 3, 5, 1))
    plan = relayout_kernel(sg.plan_relayout(source, sg.empty(source.sizes, "float32")).plan.problem)
    assert plan.name.startswith("blocks_float32x")
    assert "words, permuted in registers" in plan.words


def test_the_library_converts_all_numbers_but_complex_ones():
    numbers = [element for element in ELEMENT_TYPES.values() if element.kind in "buif"]
    assert all(can_convert(conversion(*pair)) for pair in product(numbers, repeat=2))
    assert not can_convert(conversion(ELEMENT_TYPES["complex64"], ELEMENT_TYPES["complex128"]))


def kernel_of(
    sizes, source_strides, target_strides, element="uint8", target=None, channel_axis=None, filler=0, **options
):
    made = conversion(element_type(element), element_type(target or element), **options)
    wanted = Layout(sizes, target_strides)
    return moved_kernel(Layout(sizes, source_strides), wanted, made, channel_axis, seed=3, filler=filler)


def test_kernels_follow_the_strides():
    nchw, nhwc = (2352, 784, 28, 1), (2352, 1, 84, 3)
    sizes = (2, 3, 28, 28)
    assert type(kernel_of(sizes, nchw, nchw)) is Rows
    assert type(kernel_of(sizes, nhwc, nchw)) is Channels
    assert type(kernel_of(sizes, nchw, nhwc)) is Channels
    assert type(kernel_of(sizes, (2352, 784, 28, -1), nhwc)) is Channels
    assert type(kernel_of((2, 28, 28, 3), (3136, 112, 4, 1), (2352, 84, 3, 1))) is Channels  # BGRX to BGR
    assert type(kernel_of((40, 50), (1, 40), (50, 1), "float32")) is Transpose
    assert type(kernel_of((40, 50), (-1, 40), (50, 1), "float32", "uint8")) is Transpose
    assert type(kernel_of((40, 50), (1, 400), (100, 20))) is Rows
    assert type(kernel_of((40, 4), (4, -1), (4, 1), "float32")) is Channels  # RGBA to ABGR
    assert type(kernel_of((40, 16), (16, -1), (16, 1), "float32")) is Rows
    assert type(kernel_of((40, 4), (5, 1), (4, 1), "uint8", "float32")) is Rows
    assert type(kernel_of((40, 8), (9, 1), (8, 1), "uint8", "float32")) is Rows
    # Four bytes that stay together are one element of four bytes.
    assert type(kernel_of((40, 50, 4), (4, 160, 1), (200, 4, 1))) is Transpose


@contextmanager
def no_blocks():
    """Kernels that blocks would take the place of."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relayout, "suits_blocks", lambda *arguments: False)
        yield


def transposed(height, width):
    return (height, width), (width, 1), (1, height)


PATCHES_OF_2 = (9, 8, 8, 2, 2, 3), (768, 32, 2, 16, 1, 256), (768, 96, 12, 6, 3, 1)
NARROW = {
    "rows of half a line": (((64, 14, 2, 32), (896, 32, 448, 1), (896, 64, 32, 1)), "uint8", Rows, True),
    "rows of a line": (((64, 14, 2, 64), (1792, 64, 896, 1), (1792, 128, 64, 1)), "uint8", Rows, False),
    "eight channels": (((8, 5000), (1, 8), (5000, 1)), "uint8", Channels, True),
    "nine channels": (((9, 5000), (1, 9), (5000, 1)), "uint8", Channels, False),
    "single elements": (PATCHES_OF_2, "uint8", Rows, True),
    "8 pixels": (((900, 3, 8), (24, 8, 1), (24, 1, 3)), "uint8", Channels, True),
    "64 pixels": (((900, 3, 64), (192, 64, 1), (192, 1, 3)), "uint8", Channels, False),
    "strips of 31 bytes": (transposed(900, 31), "uint8", Transpose, True),
    "strips of 32 bytes": (transposed(900, 32), "uint8", Transpose, False),
    "strips of 12 words": (transposed(12, 900), "float32", Transpose, True),
    "15 planes of words": (transposed(15, 900), "float32", Channels, False),
    "strips of 31 words": (transposed(31, 900), "float16", Transpose, True),
}


@pytest.mark.parametrize("moved, element, other, is_blocks", NARROW.values(), ids=NARROW)
def test_blocks_take_the_place_of_narrow_accesses(moved, element, other, is_blocks):
    assert type(kernel_of(*moved, element)) is (Blocks if is_blocks else other)
    with no_blocks():
        assert type(kernel_of(*moved, element)) is other


def test_some_blocks_stay_in_the_caches():
    moved = (900, 3, 32), (96, 32, 1), (96, 1, 3)
    nbytes = 2 * prod(moved[0])
    for limit, kernel in ((nbytes + 1, Blocks), (nbytes, Channels)):
        with policy_with(relayout={"cached_bytes": limit}):
            assert type(kernel_of(*moved)) is kernel


def test_transposes_of_pixels_are_blocks():
    for nbytes in (3, 6, 9, 12, 15, 16):
        assert type(kernel_of((40, 50, nbytes), (nbytes, 40 * nbytes, 1), (50 * nbytes, nbytes, 1))) is Blocks


def test_blocks_are_not_written_past_the_caches():
    moved = (8, 4992), (1, 8), (4992, 1)
    assert type(kernel_of(*moved)) is Blocks
    with policy_with(relayout={"streamed_bytes": 0}):
        assert type(kernel_of(*moved)) is Channels


def test_repeated_rows_are_read_once():
    sizes, source = (20, 9, 100), (100, 0, 1)
    with policy_with(relayout={"cached_bytes": 0}):
        made = conversion(ELEMENT_TYPES["uint8"], ELEMENT_TYPES["uint8"])
        sides = [
            TensorSpec.of(Layout(sizes, strides), ELEMENT_TYPES["uint8"], base_alignment=1)
            for strides in (source, (900, 100, 1))
        ]
        rows, _ = plan_relayout(chosen_relayout(*sides, made).problem).inner
    assert (rows.size, rows.source) == (9, 0)


@pytest.mark.parametrize(
    "heads, length, cached_bytes, source_order",
    [
        (8, 100, 0, True),
        (8, 100, 1 << 62, False),
        (16, 100, 1 << 62, True),
        (16, 128, 1 << 62, False),
        (7, 100, 0, False),
    ],
    ids=["beyond the cache", "within it", "rows 4 KB apart", "rows 4 KB apart on both sides", "few rows"],
)
def test_rows_are_moved_in_the_order_of_the_source(heads, length, cached_bytes, source_order):
    row = 64
    image = heads * length * row
    source = Layout((2, length, heads, row), (image, heads * row, row, 1))
    target = Layout((2, length, heads, row), (image, row, length * row, 1))
    with policy_with(relayout={"cached_bytes": cached_bytes}):
        sides = [TensorSpec.of(layout, ELEMENT_TYPES["float32"], base_alignment=64) for layout in (source, target)]
        made = conversion(ELEMENT_TYPES["float32"], ELEMENT_TYPES["float32"])
        rows, _ = plan_relayout(chosen_relayout(*sides, made).problem).inner
        for streams in ({}, {"streamed_bytes": 0}):
            for to in ("float32", "float16"):
                with policy_with(relayout=streams):
                    moved_kernel(source, target, conversion(ELEMENT_TYPES["float32"], ELEMENT_TYPES[to]), None, seed=3)
    assert rows.size == (heads if source_order else length)


@pytest.mark.parametrize(
    "height, target",
    [(400, "float32"), (401, "float32"), (401, "int32")],
    ids=["aligned", "unaligned", "unaligned and converted"],
)
def test_transposes_of_aligned_lines_are_written_past_the_caches(height, target):
    with policy_with(relayout={"streamed_bytes": 0}):
        chosen = kernel_of((height, 400), (400, 1), (1, height), "float32", target)
    assert type(chosen) is Transpose
    assert chosen.streaming == (height == 400)


@pytest.mark.parametrize("target", ["float32", "uint16"])
@pytest.mark.parametrize("axis", [0, 1])
def test_constants_of_either_axis_in_tiles(target, axis):
    sizes = (90, 70)
    constants = [0.5 * number for number in range(sizes[axis])]
    options = {"channel_axis": axis, "scale": constants, "bias": constants, "source_channels": sizes[axis]}
    with no_blocks():
        kernel = kernel_of(sizes, (1, 90), (70, 1), "uint8", target, **options)
    assert type(kernel) is Transpose


@pytest.mark.parametrize(
    "source_strides, target_strides, types, elements",
    [
        ((300, 1), (300, 1), ("uint8", "float32"), lambda kernel: (kernel.lanes, kernel.lanes)),
        ((300, 0), (300, 1), ("uint8", "float32"), lambda kernel: (1, kernel.lanes)),
        ((3000, 11), (300, 1), ("uint8", "float32"), lambda kernel: (1, kernel.lanes)),
        ((3000, 1), (6000, 9), ("float32", "uint8"), lambda kernel: (kernel.lanes, 1)),
        ((1, 400), (300, 1), ("float32", "uint8"), lambda kernel: (kernel.columns, kernel.rows)),
        ((1, 400), (300, 1), ("uint8", "float32"), lambda kernel: (kernel.columns, kernel.rows)),
    ],
    ids=["rows", "repeated", "read apart", "written apart", "narrower tiles", "wider tiles"],
)
def test_accesses_are_as_wide_as_a_step(source_strides, target_strides, types, elements):
    made = conversion(*map(element_type, types))
    layouts = Layout((40, 300), source_strides), Layout((40, 300), target_strides)
    sides = [
        TensorSpec.of(layout, element, base_alignment=element.itemsize)
        for layout, element in zip(layouts, (made.source, made.target), strict=True)
    ]
    walk = plan_relayout(chosen_relayout(*sides, made).problem)
    read, written = walk.facts.load.nbytes, walk.facts.store.nbytes
    assert (read // made.source.itemsize, written // made.target.itemsize) == elements(walk.kernel)


@pytest.mark.parametrize("step", [2, 3, -2, 8])
def test_every_other_element_is_shuffled_out_of_whole_vectors(step):
    kernel = kernel_of((5, 100), (1000, step), (100, 1))
    assert (type(kernel), kernel.order, kernel.source_pixel) == (Channels, (0,), abs(step))
    kernel = kernel_of((5, 100), (100, 1), (1000, abs(step)))
    assert (type(kernel), kernel.order, kernel.target_pixel) == (Channels, (0,), abs(step))
    assert type(kernel_of((5, 100), (2000, 9), (100, 1))) is Rows
    # The same from planes into pixels.
    kernel = kernel_of((5, 100, 3), (1000, step, 6000), (300, 3, 1))
    assert (type(kernel), kernel.planar, kernel.source_pixel) == (Channels, True, abs(step))


@pytest.mark.parametrize(
    "sizes, source, target",
    [((600, 10, 300), (3, 2000, 20016), (3000, 300, 1)), ((600, 4, 200), (1, 600, 2400), (1801, 2, 9))],
    ids=["the nearest rows", "short runs"],
)
def test_rows_whose_elements_lie_apart(sizes, source, target):
    element = element_type("float32")
    sides = (TensorSpec.of(Layout(sizes, strides), element, base_alignment=64) for strides in (source, target))
    walk = plan_relayout(chosen_relayout(*sides, conversion(element, element), None).problem)
    assert isinstance(walk.kernel, Rows)
    assert walk.inner[0].source == 4 * min(source), "the rows beside each other in the source"


def test_one_pixel_repeated_and_long_pixels_of_planes_with_steps():
    repeated = kernel_of((5, 100, 3), (3, 0, 1), (300, 3, 1))
    assert (type(repeated), repeated.source_pixel, repeated.target_pixel) == (Channels, 0, 3)
    # Sixteen planes are transposed, unless their elements lie apart.
    with no_blocks():
        assert type(kernel_of((5, 100, 16), (100, 1, 500), (1600, 16, 1))) is Transpose
    stepped = kernel_of((5, 100, 16), (300, 3, 1500), (1600, 16, 1))
    assert (type(stepped), stepped.planar, stepped.source_pixel) == (Channels, True, 3)


def test_pixels_are_filled_up_on_the_way_and_gaps_are_left():
    sizes, packed, wider = (2, 40, 3), (120, 3, 1), (160, 4, 1)
    filled = kernel_of(sizes, packed, wider, channel_axis=2, filler=1)
    assert (filled.target_pixel, filled.fills) == (4, True)
    left = kernel_of(sizes, packed, wider)
    assert (left.target_pixel, left.fills) == (4, False)
    # More than a pixel in registers holds takes two moves.
    assert kernel_of(sizes, packed, (1280, 32, 1), channel_axis=2, filler=29) is None


@pytest.mark.parametrize(
    "sizes, pitch, streams",
    [
        ((4, 256), 256, True),
        ((4, 8200), 8201, True),
        ((4, 640), 641, False),
        ((4, 640), 704, True),
        ((4, 650), 704, False),
    ],
    ids=[
        "lines",
        "long rows",
        "short rows that begin anywhere",
        "short rows of lines",
        "short rows that end anywhere",
    ],
)
def test_what_is_written_past_the_caches(sizes, pitch, streams):
    with policy_with(relayout={"streamed_bytes": 0}):
        assert kernel_of(sizes, (sizes[1] + 3, 1), (pitch, 1)).streaming == streams
        assert kernel_of(sizes, (sizes[1] + 3, -1), (pitch, 1)).streaming == streams, "read backward"
        assert kernel_of((4, 64), (64, 1), (128, 1)).streaming, "rows that follow one another"
        assert kernel_of(sizes, (1, 0), (pitch, 1)).streaming == streams, "one element a row"
        assert not kernel_of(sizes, (100 * sizes[1], 100), (pitch, 1)).streaming, "elements that lie apart"
        assert kernel_of((4, 2100), (2103, 1), (2101, 1), "float32").streaming, "long rows of fewer elements"


def test_rows_that_lie_apart_are_prefetched_where_they_are_written_past_the_caches():
    packed, window = (2560, 1), (4000, 1)
    assert not kernel_of((4, 2560), window, packed).reads_ahead
    with policy_with(relayout={"streamed_bytes": 0}):
        assert kernel_of((4, 2560), window, packed).reads_ahead
        assert not kernel_of((4, 2560), (1, 0), packed).reads_ahead, "one element a row"
        assert not kernel_of((4, 2560), packed, packed).reads_ahead


@pytest.mark.parametrize(
    "source, target, size, lanes",
    [
        ("float32", "float32", 1000, 32),
        ("float32", "float32", 20, 16),
        ("uint8", "float32", 1000, 32),
        ("float64", "uint8", 1000, 16),
    ],
)
def test_a_step_along_a_row_is_two_lines_of_the_wider_side(source, target, size, lanes):
    kernel = kernel_of((5, size), (size + 3, 1), (size, 1), source, target)
    assert (type(kernel), kernel.lanes) == (Rows, lanes)
