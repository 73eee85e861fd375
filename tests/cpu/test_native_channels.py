"""Channels on the native library: rows of several tiles, on each level, and which moves they are."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from harness.native_loops import each_class, needs_library, ordinary_policy, policy_for, policy_with
from harness.plans import chosen_relayout
from harness.relayout_moves import moved_kernel

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.devices.cpu.native.channel_moves import chain_of, permutation, sides_of
from stridedgpu.devices.cpu.native.channels import Channels
from stridedgpu.devices.cpu.native.relayout import plan_relayout
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.tensor_spec import TensorSpec

pytestmark = needs_library


@pytest.fixture(scope="module", autouse=True)
def measured_thresholds():
    with ordinary_policy():
        yield


def sides(kind, sizes, gap=0):
    """The layouts of both sides, for rows of pixels with a `gap` behind each."""
    height, width, channels = sizes
    pixels = Layout(sizes, ((width + gap) * channels, channels, 1))
    planes = Layout(sizes, (width + gap, 1, height * (width + gap)))
    dense = Layout(sizes)
    if kind == "some to planes":
        wider = Layout(sizes, ((width + gap) * (channels + 1), channels + 1, 1))
        return wider, planes
    return {
        "to planes": (pixels, planes),
        "to pixels": (planes, dense),
        "in order": (pixels, dense),
        "mirrored": (pixels.sliced((slice(None), slice(None, None, -1))), dense),
        "mirrored to planes": (pixels.sliced((slice(None), slice(None, None, -1))), planes),
        "reversed": (pixels.sliced((slice(None), slice(None), slice(None, None, -1))), dense),
        "fewer": (Layout(sizes, ((width + gap) * (channels + 1), channels + 1, 1)), dense),
        "filled": (pixels, Layout(sizes, (width * (channels + 1), channels + 1, 1))),
        "planes filled": (planes, Layout(sizes, (width * (channels + 1), channels + 1, 1))),
        "every other plane element": (Layout(sizes, (2 * width, 2, 2 * height * width)), dense),
    }[kind]


KINDS = (
    "to planes", "some to planes", "to pixels", "in order", "mirrored", "mirrored to planes", "reversed", "fewer",
    "filled", "planes filled", "every other plane element",
)  # fmt: skip

PAIRS = (
    ("uint8", "uint8"), ("uint8", "float32"), ("uint8", "float16"), ("float32", "uint8"), ("float16", "uint8"),
    ("float32", "float32"), ("int16", "bfloat16"), ("int64", "uint16"), ("bool", "float64"),
)  # fmt: skip


@each_class
@pytest.mark.parametrize("streams", [False, True], ids=["cached", "past the caches"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pair", PAIRS, ids=" to ".join)
def test_rows_of_several_tiles(processor, streams, kind, pair):
    """Constants of each channel, of one, and none; rows that are longer than a tile, that fill one, and short ones."""
    source, target = (ELEMENT_TYPES[name] for name in pair)
    limits = {"streamed_bytes": 0, "long_row_bytes": 0} if streams else {}
    moved = 0
    with policy_for(processor.features), policy_with(relayout=limits):
        for seed, sizes in enumerate([(2, 9000, 3), (1, 4099, 4), (37, 70, 3), (11, 40, 2), (2, 3000, 5)], 2):
            channels = sizes[2]
            filler = int(kind.endswith("filled"))
            values = [0.25 * (channel + 1) for channel in range(channels)]
            for scale, bias in ((None, None), ([0.5], None), (values, [-value for value in values])):
                made = conversion(source, target, scale=scale, bias=bias, source_channels=channels)
                layouts = sides(kind, sizes, gap=(seed % 2) * 3)
                moved += isinstance(moved_kernel(*layouts, made, 2, seed, filler=filler), Channels)
    assert moved or target.itemsize == 8, "pixels of 24 bytes are rows"


@each_class
def test_the_arithmetic_of_torchvision(processor):
    with policy_for(processor.features):
        images = np.random.default_rng(7).integers(0, 256, (2, 90, 81, 3), dtype=np.uint8)
        options = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225), "dtype": "float32"}
        got = sg.relayout(images, dims="NHWC", layout="NCHW", arithmetic="divide", **options).numpy()
    numbers = images.astype(np.float32) / np.float32(255)
    mean, std = (np.array(options[name], np.float32) for name in ("mean", "std"))
    assert np.array_equal(got, ((numbers - mean) / std).transpose(0, 3, 1, 2))


def planned(kind, sizes, source="uint8", target="float32", filler=0, gap=0, **options):
    made = conversion(ELEMENT_TYPES[source], ELEMENT_TYPES[target], source_channels=sizes[2], **options)
    specs = (
        TensorSpec.of(layout, element, base_alignment=1)
        for layout, element in zip(sides(kind, sizes, gap), (made.source, made.target), strict=True)
    )
    return plan_relayout(chosen_relayout(*specs, made, 2, filler=filler).problem)


@pytest.mark.parametrize(
    "kind, options, moves",
    [
        ("to planes", {}, ["to planes"]),
        ("to planes", {"target": "int32"}, [None, "convert"]),
        ("to planes", {"source": "int64", "target": "uint8"}, ["convert", None]),
        ("to planes", {"target": "uint8"}, [None]),
        ("to pixels", {"source": "float32", "target": "uint8"}, ["to pixels"]),
        ("to pixels", {"source": "uint16", "target": "int16"}, ["convert", None]),
        ("to pixels", {"source": "uint16", "target": "int32"}, [None, "convert"]),
        ("in order", {"scale": [1.0, 2.0, 3.0]}, ["convert"]),
        ("mirrored to planes", {}, [None, "to planes"]),
        ("every other plane element", {"target": "uint8"}, ["copy", None]),
        ("filled", {"filler": 1}, ["convert", None]),
    ],
)
def test_chains(kind, options, moves):
    call = planned(kind, (9, 640, 3), **options)
    assert [step.move and step.move.family for step in chain_of(call).steps] == moves


def test_rows_shorter_than_a_step_go_through_tiles():
    for size, options, moves in (
        (64, {}, ["to planes"]),
        (63, {}, ["pixel rows", "to planes", "copy"]),
        (16, {"source": "float32", "target": "uint8"}, ["to planes"]),
        (15, {"source": "float32", "target": "uint8"}, ["pixel rows", "to planes", "copy"]),
    ):
        call = planned("to planes", (9, size, 3), gap=3, **options)
        assert [step.move.family for step in chain_of(call).steps] == moves


@each_class
@pytest.mark.parametrize("channels", [1, 3, 5, 9, 16])
@pytest.mark.parametrize("pair", PAIRS, ids=" to ".join)
def test_what_lies_between_pixels_is_not_written(processor, channels, pair):
    source, target = (ELEMENT_TYPES[name] for name in pair)
    with policy_for(processor.features):
        for seed, (height, width, gap) in enumerate([(3, 100, 1), (2, 67, 3), (5, 9, 2), (1, 2000, 1)], 1):
            sizes, pixel = (height, width, channels), channels + gap
            written = Layout(sizes, ((width + 2) * pixel, pixel, 1))
            for kind in ("to planes", "to pixels"):
                made = conversion(source, target, scale=[0.5], source_channels=channels)
                kernel = moved_kernel(sides(kind, sizes, gap=3)[0], written, made, 2, seed)
                assert kernel is not None


@each_class
@pytest.mark.parametrize("streams", [False, True], ids=["cached", "past the caches"])
@pytest.mark.parametrize("pair", [*PAIRS, ("uint16", "uint16")], ids=" to ".join)
def test_pixels_of_many_elements(processor, streams, pair):
    source, target = (ELEMENT_TYPES[name] for name in pair)
    limits = {"streamed_bytes": 0, "long_row_bytes": 0} if streams else {}
    with policy_for(processor.features), policy_with(relayout=limits):
        for seed, (channels, kind) in enumerate(product(range(8, 17), ("to planes", "some to planes", "to pixels")), 1):
            for height, width in ((2, 300), (9, 30), (1, 65)):
                values = [0.25 * (channel + 1) for channel in range(channels)]
                made = conversion(source, target, scale=values, source_channels=channels)
                moved_kernel(*sides(kind, (height, width, channels), gap=(seed % 2) * 3), made, 2, seed)


@pytest.mark.parametrize("word", [16, 64])
@pytest.mark.parametrize("kind, filler", [("to planes", 0), ("to pixels", 0), ("mirrored", 0), ("filled", 1)])
@pytest.mark.parametrize("element", ["uint8", "uint16", "float32"])
def test_a_permutation_loads_nothing_outside_of_its_pixels(word, kind, filler, element):
    call = planned(kind, (1, 640, 3), element, element, filler)
    source, target = sides_of(call)
    tables, puts, loads, header = permutation(source, target, word)
    pixels, put_count, load_count = header[:3]
    assert pixels * source.itemsize == word
    assert (len(puts), len(loads)) == (put_count, put_count * load_count)
    if kind == "to pixels":
        channels = np.array(source.channels)
        assert {*loads} <= {*channels}
    else:
        ends = sorted((0, source.pixel * (pixels - 1)))
        assert ends[0] <= loads.min()
        assert loads.max() + word <= ends[1] + max(source.channels) + source.itemsize
    assert len(tables) % word == 0
