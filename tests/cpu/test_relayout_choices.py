"""Which compiled kernel moves what, planned for a stated processor; its bits are compared where it can run."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from harness.compiled_loops import CLASSES, policy_with
from harness.plans import chosen_relayout
from harness.relayout_moves import moved_kernel

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.devices.cpu.compiled.blocks import Blocks
from stridedgpu.devices.cpu.compiled.channels import Channels
from stridedgpu.devices.cpu.compiled.conversion import can_compile
from stridedgpu.devices.cpu.compiled.relayout import relayout_kernel, walk_of
from stridedgpu.devices.cpu.compiled.rows import Rows
from stridedgpu.devices.cpu.compiled.transpose import Transpose
from stridedgpu.devices.cpu.compiled.transpose_strips import TransposeStrips
from stridedgpu.devices.cpu.compiled.unrolled_rows import UnrolledRows
from stridedgpu.devices.cpu.policy import Policy, using
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES, element_type
from stridedgpu.values.tensor_spec import TensorSpec

KB, MB, NEVER = 1 << 10, 1 << 20, 1 << 62

LIMITS = {
    "blocks_bytes": 8 * MB,
    "byte_squares": True,
    "cached_blocks_bytes": 8 * MB,
    "long_backward_row_bytes": 8 * KB,
    "long_pixels_bytes": 8 * MB,
    "ordered_bytes": NEVER,
    "ordered_ways_bytes": NEVER,
    "paired_row_bytes": 0,
    "prefetched_targets_bytes": MB,
    "short_rows_bytes": 16 * MB,
    "small_matrix_bytes": 2 * MB,
    "squares_bytes": 32 * MB,
    "step_bytes": 128,
    "streamed_bytes": 24 * MB,
    "streamed_crowds_bytes": 8 * MB,
    "streamed_short_row_bytes": 256,
    "streamed_tiles_bytes": 8 * MB,
    "streamed_written": 0,
    "streamed_shared_written": 0,
    "strips": False,
}
"""The thresholds of these tests, whatever the policy's are."""


@pytest.fixture(scope="module", autouse=True)
def a_stated_processor():
    with using(Policy.of(CLASSES["AVX-512 VBMI"])), policy_with(relayout=LIMITS):
        yield


WITHOUT_BLOCKS = dict.fromkeys(("blocks_bytes", "cached_blocks_bytes", "short_rows_bytes", "long_pixels_bytes"), 0)


PATCHES = {
    "planes to pixels, 2 by 2": ((2, 3, 8, 2, 16, 2), (0, 2, 4, 3, 5, 1)),
    "planes to planes, 4 by 4": ((2, 5, 8, 4, 8, 4), (0, 2, 4, 1, 3, 5)),
    "pixels, 2 by 2": ((1, 8, 2, 16, 2, 3), (0, 1, 3, 2, 4, 5)),
    "pixel shuffle": ((2, 4, 2, 2, 9, 11), (0, 1, 4, 2, 5, 3)),
    "nine channels": ((2, 9, 7, 7), (0, 2, 3, 1)),
    "axes of 2": ((2,) * 10, (9, 0, 5, 2, 7, 4, 1, 8, 3, 6)),
}


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


def test_blocks_are_named_and_described():
    source = sg.empty((2, 3, 32, 2, 32, 2), "float32").permute((0, 2, 4, 3, 5, 1))
    plan = relayout_kernel(sg.plan_relayout(source, sg.empty(source.sizes, "float32")).plan.problem)
    assert plan.name.startswith("blocks_float32x")
    assert "words, permuted in registers" in plan.words


def test_what_is_compiled_is_what_the_docstring_says():
    numbers = [element for element in ELEMENT_TYPES.values() if element.kind in "buif"]
    assert all(can_compile(conversion(*pair)) for pair in product(numbers, repeat=2))
    assert not can_compile(conversion(ELEMENT_TYPES["complex64"], ELEMENT_TYPES["complex128"]))


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
    assert type(kernel_of((40, 50), (1, 40), (50, 1))) is Transpose
    assert type(kernel_of((40, 50), (-1, 40), (50, 1), "float32", "uint8")) is Transpose
    assert type(kernel_of((40, 50), (1, 400), (100, 20))) is Rows
    assert type(kernel_of((40, 4), (4, -1), (4, 1), "float32")) is Channels  # RGBA to ABGR
    assert type(kernel_of((40, 16), (16, -1), (16, 1), "float32")) is Rows
    assert type(kernel_of((40, 4), (5, 1), (4, 1), "uint8", "float32")) is Channels
    assert type(kernel_of((40, 8), (9, 1), (8, 1), "uint8", "float32")) is Rows
    # Four bytes that stay together are one element of four bytes.
    assert type(kernel_of((40, 50, 4), (4, 160, 1), (200, 4, 1))) is Transpose


def no_blocks():
    """Kernels as for moves beyond the cache, where short runs are left to the other families."""
    return policy_with(relayout=WITHOUT_BLOCKS)


def transposed(height, width):
    return (height, width), (width, 1), (1, height)


PATCHES_OF_2 = (9, 8, 8, 2, 2, 3), (768, 32, 2, 16, 1, 256), (768, 96, 12, 6, 3, 1)
TILES = {"squares_bytes": 0, "small_matrix_bytes": 0}

LIMITS_OF_BLOCKS = {
    "short rows": ("short_rows_bytes", ((64, 14, 2, 32), (896, 32, 448, 1), (896, 64, 32, 1)), "uint8", Rows, {}),
    "many channels": ("cached_blocks_bytes", ((9, 5000), (1, 9), (5000, 1)), "uint8", Channels, {}),
    "many channels past the caches": (
        "long_pixels_bytes",
        ((9, 4992), (1, 9), (4992, 1)),
        "uint8",
        Channels,
        {"streamed_bytes": 0, "long_row_bytes": 0},
    ),
    "single elements": ("cached_blocks_bytes", PATCHES_OF_2, "uint8", Rows, {}),
    "4 pixels": ("cached_blocks_bytes", ((900, 3, 4), (12, 4, 1), (12, 1, 3)), "uint8", Channels, {}),
    "8 pixels": ("blocks_bytes", ((900, 3, 8), (24, 8, 1), (24, 1, 3)), "uint8", Channels, {}),
    "a side of 128 bytes": ("cached_blocks_bytes", transposed(900, 64), "float16", Transpose, TILES),
    "a side of 130 bytes": ("blocks_bytes", transposed(900, 65), "float16", Transpose, TILES),
    "a side of 65 bytes": ("blocks_bytes", transposed(900, 65), "uint8", Transpose, TILES),
    "strips of 15": ("cached_blocks_bytes", transposed(900, 15), "float16", TransposeStrips, {"strips": True}),
    "strips of 16": ("blocks_bytes", transposed(900, 16), "float16", TransposeStrips, {"strips": True}),
    "strips of 17": (
        "blocks_bytes",
        transposed(900, 17),
        "float16",
        TransposeStrips,
        {"strips": True, "wide_strip": 18},
    ),
    "strips of 17 bytes": ("cached_blocks_bytes", transposed(900, 17), "uint8", TransposeStrips, {"strips": True}),
}


def test_wide_strips_are_never_blocks():
    with policy_with(relayout={"strips": True}):
        for height, width, element in ((900, 17, "float16"), (912, 16, "float32"), (912, 16, "float64")):
            assert type(kernel_of(*transposed(height, width), element)) is TransposeStrips
        for height, width, element in ((896, 16, "float16"), (900, 16, "float32"), (912, 15, "float32")):
            assert type(kernel_of(*transposed(height, width), element)) is Blocks


@pytest.mark.parametrize("case", LIMITS_OF_BLOCKS)
def test_blocks_take_the_place_of_each_kernel_below_a_limit(case):
    field, moved, element, other, changes = LIMITS_OF_BLOCKS[case]
    nbytes = 2 * prod(moved[0]) * ELEMENT_TYPES[element].itemsize
    for limit, kernel in ((nbytes + 1, Blocks), (nbytes, other)):
        with policy_with(relayout=changes | WITHOUT_BLOCKS | {field: limit}):
            assert type(kernel_of(*moved, element)) is kernel


@pytest.mark.parametrize("row", [64, 100, 512, 600])
@pytest.mark.parametrize("heads", [8, 9, 12])
@pytest.mark.parametrize("order", ["heads inside", "heads outside"])
def test_rows_beside_one_another_are_moved_in_pairs(row, heads, order):
    sizes, length = (3, 20, heads, row), 20
    image = length * heads * row
    inside, outside = (image, heads * row, row, 1), (image, row, length * row, 1)
    strides = (inside, outside) if order == "heads inside" else (outside, inside)
    with policy_with(relayout={"paired_row_bytes": 512}):
        kernel = kernel_of(sizes, *strides)
    follows = heads if order == "heads inside" else length
    assert type(kernel) is UnrolledRows
    assert kernel.beside == (2 if row <= 512 and follows % 2 == 0 else 1)


def test_repeated_rows_are_read_once():
    sizes, source = (20, 9, 100), (100, 0, 1)
    with policy_with(relayout={"ordered_bytes": 0, "ordered_ways_bytes": 0}):
        made = conversion(ELEMENT_TYPES["uint8"], ELEMENT_TYPES["uint8"])
        sides = [
            TensorSpec.of(Layout(sizes, strides), ELEMENT_TYPES["uint8"], base_alignment=1)
            for strides in (source, (900, 100, 1))
        ]
        rows, _ = walk_of(chosen_relayout(*sides, made).problem).inner
    assert (rows.size, rows.source) == (9, 0)


@pytest.mark.parametrize(
    "heads, length, limits, source_order",
    [
        (8, 100, {"ordered_bytes": 0}, True),
        (8, 100, {"ordered_bytes": 1 << 62, "ordered_ways_bytes": 0}, False),
        (16, 100, {"ordered_bytes": 1 << 62, "ordered_ways_bytes": 0}, True),
        (16, 128, {"ordered_bytes": 1 << 62, "ordered_ways_bytes": 0}, False),
        (7, 100, {"ordered_bytes": 0}, False),
    ],
    ids=["beyond the cache", "within it", "rows 4 KB apart", "rows 4 KB apart on both sides", "few rows"],
)
def test_rows_are_moved_in_the_order_of_the_source(heads, length, limits, source_order):
    row, image = 64, heads * length * 64
    source = Layout((2, length, heads, row), (image, heads * row, row, 1))
    target = Layout((2, length, heads, row), (image, row, length * row, 1))
    with policy_with(relayout=limits | {"least_rows": 8}):
        sides = [TensorSpec.of(layout, ELEMENT_TYPES["float32"], base_alignment=64) for layout in (source, target)]
        made = conversion(ELEMENT_TYPES["float32"], ELEMENT_TYPES["float32"])
        rows, _ = walk_of(chosen_relayout(*sides, made).problem).inner
        for streams in ({}, {"streamed_bytes": 0, "streamed_short_row_bytes": 64}):
            for to in ("float32", "float16"):
                with policy_with(relayout=streams):
                    moved_kernel(source, target, conversion(ELEMENT_TYPES["float32"], ELEMENT_TYPES[to]), None, seed=3)
    assert rows.size == (heads if source_order else length)


@pytest.mark.parametrize(
    "size, rows", [(17, 16), (33, 16), (64, 64), (72, 16), (100, 16), (128, 128), (150, 32), (300, 64), (600, 128)]
)
def test_tiles_overlap_little(size, rows):
    with policy_with(relayout={"squares_bytes": 0, "small_matrix_bytes": 0, **WITHOUT_BLOCKS}):
        kernel = kernel_of((2, size, 40), (size * 40, 40, 1), (size * 41 + 1, 1, size), "float32")
    assert (type(kernel), kernel.rows) == (Transpose, rows)


@pytest.mark.parametrize("element", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("height, width", [(16, 16), (17, 40), (300, 21)])
def test_small_transposes_are_squares_in_registers(element, height, width):
    with no_blocks():
        kernel = kernel_of((height, width), (width, 1), (1, height), element)
    assert kernel.in_registers
    assert kernel.rows == kernel.columns


@pytest.mark.parametrize(
    "height, width, source, target",
    [
        (27, 400, "float32", "float32"),
        (31, 400, "float16", "float16"),
        (63, 400, "uint8", "uint8"),
        (401, 16, "float32", "float32"),
        (400, 400, "float32", "float64"),
    ],
)
def test_short_lines_and_conversions_are_no_strips(height, width, source, target):
    with policy_with(relayout={"strips": True}):
        kernel = kernel_of((height, width), (width, 1), (1, height), source, target)
    assert type(kernel) is not TransposeStrips


@pytest.mark.parametrize(
    "height, element, columns", [(65, "float32", 128), (64, "float32", 1000), (65, "uint16", 1000)], ids=str
)
def test_strips_go_on_soon_where_they_share_cache_lines(height, element, columns):
    number, sizes = element_type(element), (height, 1000)
    sides = (TensorSpec.of(Layout(sizes, strides), number, base_alignment=4) for strides in ((1000, 1), (1, height)))
    problem = chosen_relayout(*sides, conversion(number, number), None).problem
    with policy_with(relayout={"strips": True, "item_bytes": range(1 << 20, 2 << 20), "shared_items": 1}):
        assert walk_of(problem).blocks == (columns, height)
        with policy_with(relayout={"short_strips_bytes": problem.bytes_moved}):
            assert walk_of(problem).blocks == (1000, height)


@pytest.mark.parametrize("height, kernel", [(400, Transpose), (401, TransposeStrips)], ids=["aligned", "unaligned"])
def test_strips_take_large_moves_where_lines_are_not_aligned(height, kernel):
    with policy_with(relayout={"strips": True, **TILES, "streamed_tiles_bytes": 0, **WITHOUT_BLOCKS}):
        assert type(kernel_of((height, 400), (400, 1), (1, height), "float32")) is kernel


@pytest.mark.parametrize(
    "element, pitch, kernel",
    [
        ("uint8", 2048, Transpose),
        ("uint8", 4096, Transpose),
        ("uint8", 1024, TransposeStrips),
        ("uint8", 2112, TransposeStrips),
        ("uint16", 2048, Transpose),
        ("uint16", 1024, TransposeStrips),
        ("float32", 1024, TransposeStrips),
    ],
)
def test_strips_leave_large_moves_whose_lines_exclude_each_other(element, pitch, kernel):
    """Source lines of 2 KB of bytes, or of 4 KB of 2 bytes: powers of two."""
    limits = {"strips": True, "streamed_tiles_bytes": 1 << 40, "streamed_crowds_bytes": 0, **WITHOUT_BLOCKS}
    with policy_with(relayout=limits):
        assert type(kernel_of((128, 192), (pitch, 1), (1, 128), element)) is kernel


@pytest.mark.parametrize("target, in_registers", [("float32", True), ("uint16", False)])
@pytest.mark.parametrize("axis", [0, 1])
def test_constants_of_either_axis_in_tiles(target, in_registers, axis):
    sizes = (90, 70)
    constants = [0.5 * number for number in range(sizes[axis])]
    options = {"channel_axis": axis, "scale": constants, "bias": constants, "source_channels": sizes[axis]}
    with no_blocks():
        kernel = kernel_of(sizes, (1, 90), (70, 1), "uint8", target, **options)
    assert (type(kernel), kernel.in_registers) == (Transpose, in_registers)


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
    walk = walk_of(chosen_relayout(*sides, made).problem)
    read, written = (width.nbytes for width in walk.accesses)
    assert (read // made.source.itemsize, written // made.target.itemsize) == elements(walk.kernel)


@pytest.mark.parametrize("element, nbytes", [("uint8", 3), ("float16", 6), ("float32", 12)])
def test_pixels_of_odd_sizes_are_transposed_whole(element, nbytes):
    with no_blocks():
        kernel = kernel_of((40, 50, 3), (3, 120, 1), (150, 3, 1), element)
        few = kernel_of((40, 1, 3), (3, 120, 1), (150, 3, 1), element)
    assert type(kernel) is Transpose
    assert kernel.elements.itemsize == nbytes
    assert type(few) is not Transpose, "too few of them for a tile move as rows"


@pytest.mark.parametrize("nbytes", [9, 11, 13, 15])
@pytest.mark.parametrize("narrow", [4, 7])
def test_few_long_pixels_are_transposed_in_vectors_narrower_than_they(nbytes, narrow):
    strides = (nbytes, 40 * nbytes, 1), (narrow * nbytes, nbytes, 1)
    with no_blocks():
        assert type(kernel_of((40, narrow, nbytes), *strides)) is Transpose


@pytest.mark.parametrize("step", [2, 3, -2, 8])
def test_every_other_element_is_shuffled_out_of_whole_vectors(step):
    kernel = kernel_of((5, 100), (1000, step), (100, 1))
    assert (type(kernel), kernel.order, kernel.source_pixel) == (Channels, (0,), abs(step))
    kernel = kernel_of((5, 100), (100, 1), (1000, abs(step)))
    assert (type(kernel), kernel.order, kernel.target_pixel) == (Channels, (0,), abs(step))
    assert type(kernel_of((5, 100), (2000, 9), (100, 1))) is Rows
    # The same from planes into pixels.
    kernel = kernel_of((5, 100, 3), (1000, step, 6000), (300, 3, 1))
    assert type(kernel) is (Channels if abs(step) <= 4 else Rows)
    assert abs(step) > 4 or (kernel.planar and kernel.source_pixel == abs(step))


@pytest.mark.parametrize(
    "sizes, source, target, block",
    [
        ((600, 10, 300), (3, 2000, 20016), (3000, 300, 1), (256, 512)),
        ((600, 64), (2, 1024), (64, 1), (256, 8)),
        ((600, 64), (2, 256), (64, 1), (256, 32)),
        ((600, 4, 200), (1, 600, 2400), (1801, 2, 9), (256, 256)),
    ],
    ids=["the nearest rows", "a page apart", "a quarter of a page apart", "short runs"],
)
def test_tiles_of_rows_whose_elements_lie_apart(sizes, source, target, block):
    element = element_type("float32")
    sides = (TensorSpec.of(Layout(sizes, strides), element, base_alignment=64) for strides in (source, target))
    walk = walk_of(chosen_relayout(*sides, conversion(element, element), None).problem)
    assert isinstance(walk.kernel, Rows)
    a, b = walk.inner
    assert a.source == 4 * min(source), "the rows beside each other in the source"
    assert walk.blocks == (min(block[0], a.size), min(block[1], b.size))


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
        ((4, 192), 192, False),
        ((4, 8200), 8201, True),
        ((4, 640), 641, False),
        ((4, 640), 704, True),
        ((4, 650), 704, False),
    ],
    ids=[
        "lines",
        "too few lines",
        "long rows",
        "short rows that begin anywhere",
        "short rows of lines",
        "short rows that end anywhere",
    ],
)
def test_what_is_written_past_the_caches(sizes, pitch, streams):
    with policy_with(relayout={"streamed_bytes": 0}):
        assert kernel_of(sizes, (sizes[1] + 3, 1), (pitch, 1)).streaming == streams
        assert not kernel_of(sizes, (1, 0), (pitch, 1)).streaming, "one element a row: nothing is read"
        assert kernel_of((4, 2100), (2103, 1), (2101, 1), "float32").streaming, "long rows of fewer elements"


def test_rows_are_prefetched_where_they_lie_far_apart_or_are_written_soon():
    def ahead(sizes, source, target, conversion="uint8"):
        kernel = kernel_of(sizes, source, target, conversion)
        return kernel.reads_ahead, kernel.writes_ahead

    sizes, window, packed = (4, 2560), (4000, 1), (2560, 1)
    assert ahead(sizes, window, packed) == (False, False), "so few bytes are in a core's cache"
    with policy_with(relayout={"prefetched_bytes": 0, "prefetched_targets_bytes": 0}):
        assert ahead(sizes, window, packed) == (False, True)
        assert ahead(sizes, (8000, 2), packed) == (False, True), "every other element"
        assert ahead(sizes, window, (4000, 1)) == (False, False), "the lines behind a row are not written"
    with policy_with(relayout={"prefetched_bytes": 0, "prefetched_targets_bytes": 0, "streamed_bytes": 0}):
        assert ahead(sizes, window, packed) == (True, False)
        assert ahead(sizes, (2700, 1), packed) == (False, False), "the gap is short"


@pytest.mark.parametrize("nbytes", [63, 64, 65, 127, 128, 1000, 2048, 2049])
@pytest.mark.parametrize("element", ["uint8", "float32", "complex128"])
def test_rows_of_some_lines_are_unrolled(nbytes, element):
    itemsize = np.dtype(element).itemsize
    size = -(-nbytes // itemsize)
    kernel = kernel_of((5, size), (size + 3, 1), (size, 1), element)
    lines = -(-size * itemsize // 64)
    if 64 <= size * itemsize <= 2048:
        assert (type(kernel).__name__, kernel.lines) == ("UnrolledRows", lines)
    else:
        assert type(kernel).__name__ != "UnrolledRows"


@pytest.mark.parametrize("item_bytes, items", [(1, 10), (600, 5), (2000, 2)])
def test_items_of_unrolled_rows_have_whole_rows(item_bytes, items):
    sizes, source, target = (2, 5, 150), (800, 160, 1), (750, 150, 1)
    with policy_with(relayout={"item_bytes": range(item_bytes, item_bytes + 1)}):
        assert type(kernel_of(sizes, source, target)).__name__ == "UnrolledRows"
        byte = element_type("uint8")
        specs = [TensorSpec.of(Layout(sizes, strides), byte, base_alignment=1) for strides in (source, target)]
        assert walk_of(chosen_relayout(*specs, conversion(byte, byte), None).problem).items == items


@pytest.mark.parametrize(
    "sizes, rows",
    [((30, 14, 2, 128), 14), ((30, 4, 2, 128), 2), ((30, 5, 2, 128), 5), ((30, 16, 7, 128), 16), ((30, 40, 8, 128), 8)],
    ids=str,
)
def test_an_item_has_rows_of_a_loop_that_is_not_short(sizes, rows):
    """The innermost loop but the row, or the next one if that is much longer."""
    _, across, down, row = sizes
    strides = (across * down * row, row, across * row, 1)
    byte = element_type("uint8")
    specs = [TensorSpec.of(Layout(sizes, steps), byte, base_alignment=1) for steps in (strides, None)]
    walk = walk_of(chosen_relayout(*specs, conversion(byte, byte), None).problem)
    assert [loop.size for loop in walk.inner] == [rows, row]


@pytest.mark.parametrize("follow, least", [(True, 128), (False, 256)], ids=["one after another", "apart"])
def test_rows_that_follow_one_another_are_streamed_when_shorter(follow, least):
    limits = {"streamed_bytes": 0, "streamed_short_row_bytes": 128, "streamed_row_bytes": 256}
    for row in (64, 128, 192, 256):
        with policy_with(relayout=WITHOUT_BLOCKS | limits):
            kernel = kernel_of((32, row), (row if follow else 3 * row, 1), (2 * row, 1))
        assert kernel.streaming == (row >= least)


@pytest.mark.parametrize("small_bytes, in_registers", [(2 * 49 * 64 * 4 + 1, True), (2 * 49 * 64 * 4, False)])
def test_many_small_matrices_are_transposed_in_registers(small_bytes, in_registers):
    sizes, rows, columns = (70, 49, 64), (49 * 64, 64, 1), (49 * 64, 1, 49)
    with policy_with(relayout={"squares_bytes": 0, **WITHOUT_BLOCKS, "small_matrix_bytes": small_bytes}):
        assert kernel_of(sizes, rows, columns, "float32").in_registers == in_registers
