"""Plans of resizes on CUDA: which family, how wide, which tile, and what they say of themselves."""

from __future__ import annotations

import pytest
from harness.resize_launches import ResizeCase as Case
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu.devices.cuda.policy import ResizePolicy
from stridedgpu.devices.cuda.resize import ResizeFamily, TileUse, choose_resize, resize_tiles
from stridedgpu.problems.resize_taps import window_taps
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.interpolation import INTERPOLATIONS, ResizeSums

FAMILIES = {
    "pixels": (Case("pillow-box"), ResizeFamily.PIXELS, 3),
    "pixels of four channels": (Case("pillow-box", channel_count=4), ResizeFamily.PIXELS, 4),
    "pixels of five channels": (Case("pillow-box", channel_count=5), ResizeFamily.ELEMENTS, 4),
    "planes": (Case("pillow-box", source_order="CHW"), ResizeFamily.PLANES, 1),
    "one channel": (Case("pillow-box", channel_count=1), ResizeFamily.PLANES, 1),
    "planes to pixels": (Case("pillow-box", source_order="CHW", order="NHWC"), ResizeFamily.ELEMENTS, 3),
    "planes of columns": (Case("pillow-box", source_order="CWH"), ResizeFamily.ELEMENTS, 3),
    "nearest": (Case("opencv-nearest"), ResizeFamily.NEAREST, 1),
    "two taps": (Case("opencv-linear"), ResizeFamily.PAIRS, 3),
    "two taps of five channels": (Case("opencv-linear-exact", channel_count=5), ResizeFamily.PAIRS, 4),
    "two taps of planes": (Case("opencv-linear", source_order="CHW", channel_count=2), ResizeFamily.PAIRS, 2),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_family_follows_from_what_lies_side_by_side(name):
    case, family, count = FAMILIES[name]
    assert (case.choice.family, case.choice.count) == (family, count)


@pytest.mark.parametrize("arithmetic", ResizeSums)
def test_a_weight_is_a_word_but_in_float64(arithmetic):
    assert TileUse(arithmetic, True, 2, 3, 4).weight_bytes == (8 if arithmetic is ResizeSums.PILLOW_DOUBLE else 4)


STORES = {
    "planes": (Case("pillow-box", target="float16", size=(224, 224)), 16),
    "odd planes": (Case("pillow-box", target="float16", size=(3, 225)), 2),
    "pixels": (Case("pillow-box", order="NHWC", size=(224, 224)), 16),
    "wider pixels of the source": (Case("pillow-box", "float32", "float16", size=(224, 224)), 8),
}


@pytest.mark.parametrize("name", STORES)
def test_stores_are_as_wide_as_rows_allow(name):
    case, nbytes = STORES[name]
    assert case.choice.store.nbytes == nbytes
    assert bool(case.choice.store.limit) == (nbytes < 16)


def test_a_plan_says_its_tile_and_its_memory():
    source = sg.empty((4, 3, 375, 500), "uint8", layout="NHWC", device="cpu")
    target = sg.empty((4, 3, 224, 224), "float16", device="cpu")
    words = sg.plan_resize(source, target, interpolation="opencv-cubic", device="cuda").explain()
    assert "resize_pixels_uint8x16B_float16x16B on cuda" in words
    assert "a block of 256 threads makes 16 x 56 pixels of 3 channels, of up to " in words
    assert "tensor cores" not in words
    assert "B of shared memory" in words


def test_a_plan_by_products_says_so():
    source = sg.empty((4, 3, 375, 500), "uint8", layout="NHWC", device="cpu")
    target = sg.empty((4, 3, 224, 224), "float32", device="cpu")
    words = sg.plan_resize(source, target, interpolation="pillow-bicubic", device="cuda").explain()
    assert "resize_pixels_products_uint8x16B_float32x16B on cuda" in words
    assert "a block of 128 threads makes 32 x 32 pixels of 3 channels, of up to " in words
    assert "both passes are products of matrices on tensor cores" in words
    assert "B of shared memory" in words


def test_a_plan_of_any_windows_says_what_a_block_may_make():
    words = "\n".join(Case("pillow-bicubic").choice.describe())
    assert "a block of 256 threads makes up to 32 x 64 pixels of 3 channels" in words


def test_alpha_in_planes_is_refused_in_words():
    case = Case("pillow-bicubic", source_order="CHW", channel_count=4, premultiplies=True)
    with pytest.raises(sg.DeviceError, match="relayout to NHWC first"):
        choose_resize(case.problem, case.gpu)


@given(
    source=st.tuples(st.integers(1, 900), st.integers(1, 900)),
    target=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    interpolation=st.sampled_from([rule for rule in INTERPOLATIONS.values() if not rule.is_nearest]),
    columns_first=st.booleans(),
    count=st.integers(1, 4),
    length=st.sampled_from((1, 4, 8, 16)),
    kibibytes=st.sampled_from((48, 64, 227)),
)
def test_tiles_hold_what_they_reach_and_fit(source, target, interpolation, columns_first, count, length, kibibytes):
    box = (0.0, 0.0, *map(float, source))
    taps = window_taps(interpolation, "horizontal", element_type("uint8"), count, source, box, target)
    use = TileUse(taps.arithmetic, columns_first, 1, count, length)
    tiles = resize_tiles(use, [taps], target, kibibytes << 10, ResizePolicy())
    assert tiles is not None
    assert tiles.shared_bytes <= kibibytes << 10
    assert tiles.width % tiles.length == 0
    assert tiles.width <= 64
    for axis, size, reach in ((taps.rows, tiles.height, tiles.reach[0]), (taps.columns, tiles.width, tiles.reach[1])):
        for first in range(0, axis.count, size):
            part = slice(first, first + size)
            assert (axis.starts[part] + axis.counts[part]).max() - axis.starts[part].min() <= reach
    assert 1 <= tiles.chunk_rows <= tiles.reach[0]
    assert list(tiles.memory[:8]) == sorted(tiles.memory[:8])
    assert all(place % 16 == 0 for place in tiles.memory[:8])
