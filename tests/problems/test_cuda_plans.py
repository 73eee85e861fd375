"""Launches as values: which kernel, which grid and what in its parameters, for plans of every family and size."""

from __future__ import annotations

import dataclasses
import struct
from math import inf, prod

import pytest
from harness.kernel_names import policy_of, types_of
from harness.plans import chosen_relayout

from stridedgpu.devices.cuda.gpu import REFERENCE_GPU, GpuProperties, KernelLaunch, grid_of
from stridedgpu.devices.cuda.parameters import ParameterBlock, conversion_argument
from stridedgpu.devices.cuda.relayout.choice import Family, RelayoutChoice
from stridedgpu.devices.cuda.relayout.families import relayout_launch as cuda_launch
from stridedgpu.devices.cuda.relayout.rows import RunSteps
from stridedgpu.values.conversion import Conversion, conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import round_up
from stridedgpu.values.tensor_spec import TensorSpec

B200 = GpuProperties("NVIDIA B200", 100, 148, 227 * 1024, 64 * 1024)


def planned(
    source: Layout, target: Layout, types: str = "uint8", gpu: GpuProperties = REFERENCE_GPU, axis=None, **options
) -> RelayoutChoice:
    names = types.split(">")
    elements = [ELEMENT_TYPES[name] for name in (names[0], names[-1])]
    made = conversion(*elements, source_channels=None if axis is None else source.sizes[axis], **options)
    sides = [
        TensorSpec.of(layout, element, base_alignment=32, buffer_bytes=2**62)
        for layout, element in zip((source, target), elements, strict=True)
    ]
    return chosen_relayout(*sides, made, axis, gpu.widest_access)


def launched(*layouts: Layout, gpu: GpuProperties = REFERENCE_GPU, **options) -> KernelLaunch:
    return cuda_launch(planned(*layouts, gpu=gpu, **options), gpu)


@pytest.mark.parametrize(
    "blocks", [1, 2, 65535, 65536, 2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**40 + 7, (2**31 - 1) * 65535]
)
def test_a_grid_has_every_block_and_few_more(blocks):
    x, y, z = grid_of(blocks)
    assert 1 <= x < 2**31
    assert 1 <= y <= 65535
    assert z == 1
    assert blocks <= x * y < blocks + y
    assert (y == 1) == (blocks < 2**31)


FLAT = {
    "1 byte": ("uint8", 16, 16, 4),
    "2 bytes": ("float16", 16, 16, 4),
    "16 bytes": ("complex128", 16, 16, 4),
    "twice as wide": ("uint8>float16", 16, 16, 4),
    "four times as wide": ("uint8>float32", 16, 16, 4),
    "a quarter as wide": ("float32>uint8", 16, 16, 1),
    "an eighth as wide": ("float64>int8", 16, 16, 1),
}


def test_one_element_that_is_repeated_along_rows_is_rows():
    assert planned(Layout((64, 64), (1, 0)), Layout((64, 64))).family is Family.ROWS
    assert planned(Layout((64, 64), (3, 0)), Layout((64, 64))).family is Family.ROWS
    assert planned(Layout((64, 64), (3, 0)), Layout((64, 64), (1, 64))).family is not Family.ROWS


@pytest.mark.parametrize("name", FLAT)
def test_flat_launches_have_64_bytes_under_way(name):
    types, load, store, steps = FLAT[name]
    layout = Layout((1 << 26,))
    launch = launched(layout, layout, types=types)
    assert launch.sources == ("flat.cu",)
    assert types_of(launch.name)[1] == "sg::uint32"
    assert policy_of(launch.name) == {"load_bytes": str(load), "store_bytes": str(store), "steps": str(steps)}
    source, target = (ELEMENT_TYPES[name].itemsize for name in (types.split(">")[0], types.split(">")[-1]))
    length = max(load // source, store // target)
    assert length * source * steps >= 64
    assert prod(launch.grid) * 256 * length * steps == 1 << 26


def test_wide_accesses_on_gpus_that_have_them():
    layout = Layout((1 << 26,))
    name = launched(layout, layout, gpu=B200).name
    assert policy_of(name) == {"load_bytes": "32", "store_bytes": "32", "steps": "2"}


def test_a_small_copy_is_spread_over_more_blocks():
    layout = Layout((1 << 16,))
    launch = launched(layout, layout)
    assert policy_of(launch.name)["steps"] == "1"
    assert launch.grid == (16, 1, 1)


ROWS = {
    # row of elements, rows: steps, chunks of a thread, lanes of a group
    "one vector": (16, 1 << 20, (1, 4, 1)),
    "3 vectors": (48, 1 << 20, (1, 4, 4)),
    "8 vectors": (128, 1 << 20, (1, 4, 8)),
    "9 vectors": (144, 1 << 20, (3, 1, 4)),
    "16 vectors": (256, 1 << 20, (2, 2, 8)),
    "20 vectors": (320, 1 << 20, (3, 1, 8)),
    "30 vectors": (480, 1 << 20, (4, 1, 8)),
    "33 vectors": (528, 1 << 20, (3, 1, 4)),
    "a chunk": (2048, 1 << 19, (4, 1, 32)),
    "a chunk and a half": (3000, 1 << 19, (3, 1, 32)),
    "a chunk and a bit": (2100, 1 << 19, (4, 1, 8)),
    "many chunks": (100_000, 1 << 12, (4, 1, 32)),
    "few rows": (2048, 10, (1, 1, 32)),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_share_warps_by_their_length(name):
    count, rows, (steps, items, lanes) = ROWS[name]
    pitch = round_up(count, 16)
    launch = launched(Layout((rows, count), (pitch + 16, 1)), Layout((rows, count), (pitch + 32, 1)))
    policy = policy_of(launch.name)
    assert (int(policy["steps"]), int(policy["items"])) == (steps, items)
    assert struct.unpack_from("<i", launch.parameters, 88) == (lanes.bit_length() - 1,)
    chunks = rows * -(-count // (16 * lanes * steps))
    assert launch.grid[0] == -(-chunks // (256 // lanes * items))


def test_rows_read_from_one_place_follow_each_other():
    source = Layout((1, 500, 4096), (0, 4096 + 16, 1)).broadcast_to((8, 500, 4096))
    plan = planned(source, Layout((8, 500, 4096)))
    assert plan.family is Family.ROWS
    assert plan.problem.source_strides == (0, 4112, 1)
    launch = cuda_launch(plan, REFERENCE_GPU)
    assert policy_of(launch.name)["rank"] == "4"
    divisors = struct.unpack("<12I", launch.parameters[28:76])[::3]
    assert divisors == (1, 500, 2, 8)  # filling, rows, chunks, and innermost the 8 that read the same


@pytest.mark.parametrize(
    "types, source, target",
    [
        ("uint8", Layout((2**32 + 5,)), Layout((2**32 + 5,))),
        ("uint8", Layout((2**31, 3), (5, 1)), Layout((2**31, 3), (4, 1))),
        ("uint8", Layout((70000, 2**17), (2**17 + 32, 1)), Layout((70000, 2**17), (2**17 + 64, 1))),
        ("float64", Layout((2**33,), (2,)), Layout((2**33,))),
        ("uint8>float64", Layout((2**34,), (0,)), Layout((2**34,))),
    ],
    ids=["flat", "tiny rows", "rows", "generic", "repeated"],
)
def test_more_than_2_to_the_32_elements_have_64_bit_indices_and_a_legal_grid(types, source, target):
    plan = planned(source, target, types)
    assert plan.index_bits == 64
    launch = cuda_launch(plan, REFERENCE_GPU)
    x, y, z = launch.grid
    assert x < 2**31
    assert y <= 65535
    assert z == 1
    assert "sg::uint64" in launch.name


def test_a_plan_without_elements_has_no_launch():
    with pytest.raises(LayoutError, match=r"sizes \(0,\) has no elements"):
        cuda_launch(planned(Layout((0,)), Layout((0,))), REFERENCE_GPU)


def test_a_packed_tile_writes_no_byte_past_its_run():
    source, packed = Layout((5, 2, 3), (3, 15, 1)), Layout((5, 2, 3))
    plan = planned(source, packed, "float16")
    assert (plan.family, plan.load.nbytes) == (Family.PACKED_TILE, 16)
    assert (plan.store.nbytes, 5 * 2 * 3 * 2 % 16) == (4, 12), "vectors of 16 B would end 4 B past the last element"
    assert plan.store.limit.startswith("a run of the target is 60 B long, and the target does not own what follows")
    longer = planned(Layout((8, 2, 3), (3, 24, 1)), Layout((8, 2, 3)), "float16")
    assert (longer.family, longer.store.nbytes) == (Family.PACKED_TILE, 16)


WHOLE_PIXELS = {
    # pixels, channel axis: family
    "pixels enough for a vector": (16, None, Family.PIXELS),
    "channels inside a pixel": (16, 2, Family.PIXELS),
    "pixels too few for a vector": (15, None, Family.PACKED_TILE),
    "a channel for each pixel": (16, 1, Family.PACKED_TILE),
}


@pytest.mark.parametrize("count, axis, family", WHOLE_PIXELS.values(), ids=WHOLE_PIXELS)
def test_whole_pixels_are_many_and_of_one_channel_order(count, axis, family):
    source, target = Layout((5, count, 3), (3 * count + 7, 3, 1)), Layout((5, count, 3), (4 * count, 4, 1))
    channels = None if axis is None else (*range(1, source.sizes[axis]), 0)
    assert planned(source, target, axis=axis, channels=channels).family is family


def test_every_family_has_a_launch():
    layouts = {
        Family.FLAT: (Layout((4096,)), Layout((4096,))),
        Family.ROWS: (Layout((64, 64), (128, 1)), Layout((64, 64))),
        Family.TRANSPOSE: (Layout((64, 64), (1, 64)), Layout((64, 64))),
        Family.CHANNELS: (Layout((3, 4096), (1, 3)), Layout((3, 4096))),
        Family.PIXELS: (Layout((4096, 3)), Layout((4096, 3), (4, 1))),
        Family.TURNED_PIXELS: (Layout((64, 32, 3), (3, 192, 1)), Layout((64, 32, 3))),
        Family.PACKED_TILE: (Layout((64, 8, 3), (3, 192, 1)), Layout((64, 8, 3))),
        Family.GENERIC: (Layout((64, 64), (256, 2)), Layout((64, 64))),
    }
    for family, (source, target) in layouts.items():
        plan = planned(source, target)
        assert plan.family is family
        launch = cuda_launch(plan, REFERENCE_GPU)
        assert launch.sources
        assert launch.parameters[:16] == bytes(16)
        assert len(launch.parameters) % 8 == 0
        assert len(launch.parameters) <= 4096
    assert set(layouts) == set(Family) - {Family.EMPTY}


def made(types: str, source_channels: int | None = None, **options) -> Conversion:
    names = types.split(">")
    elements = [ELEMENT_TYPES[name] for name in (names[0], names[-1])]
    return conversion(*elements, source_channels=source_channels, **options)


@pytest.mark.parametrize(
    "made, expected",
    [
        (made("float16"), "sg::Conversion<sg::uint16, sg::uint16>"),
        (made("complex128"), "sg::Conversion<sg::word128, sg::word128>"),
        (made("bool"), "sg::Conversion<sg::uint8, sg::uint8>"),
        (made("bool>float32"), "sg::Conversion<sg::boolean, sg::float32, false, false, sg::Rounding::nearest>"),
        (
            made("float32>uint8", rounding="truncate"),
            "sg::Conversion<sg::float32, sg::uint8, false, false, sg::Rounding::truncate>",
        ),
        # Nothing is rounded to an integer here.
        (
            made("float32>float16", bias=1, rounding="truncate"),
            "sg::Conversion<sg::float32, sg::float16, false, true, sg::Rounding::nearest>",
        ),
        (
            made("int32>uint8", rounding="truncate"),
            "sg::Conversion<sg::int32, sg::uint8, false, false, sg::Rounding::nearest>",
        ),
        # Nothing is looked for where no NaN can come of it.
        (
            made("uint8>float16", scale=1e38, bias=-1e38),
            "sg::Conversion<sg::uint8, sg::float16, true, true, sg::Rounding::nearest, sg::Nan::ignore>",
        ),
        (
            made("uint8>float16", scale=1e39),
            "sg::Conversion<sg::uint8, sg::float16, true, false, sg::Rounding::nearest>",
        ),
        (
            made("uint8>float64", scale=1e39),
            "sg::Conversion<sg::uint8, sg::float64, true, false, sg::Rounding::nearest, sg::Nan::ignore>",
        ),
        (
            made("float16>float32", scale=2.0),
            "sg::Conversion<sg::float16, sg::float32, true, false, sg::Rounding::nearest>",
        ),
        (
            made("uint8", scale=2.0),
            (
                "sg::Conversion<sg::uint8, sg::uint8, true, false, sg::Rounding::nearest, sg::Nan::keep, "
                "sg::Arithmetic::fused>"
            ),
        ),
        (made("int8", scale=2.0), "sg::Conversion<sg::int8, sg::int8, true, false, sg::Rounding::nearest>"),
    ],
)
def test_conversions_as_template_arguments(made, expected):
    assert conversion_argument(made) == expected


@pytest.mark.parametrize(
    "options, kind, expected",
    [
        ({}, "alike", struct.pack("<2f", 0, 0)),
        ({"scale": 2.0}, "alike", struct.pack("<2f", 2, 0)),
        ({"bias": [1e300] * 3}, "alike", struct.pack("<2f", 0, inf)),
        ({"scale": [1, 2, 3], "bias": -1}, "few", struct.pack("<6f", 1, -1, 2, -1, 3, -1) + bytes(13 * 8)),
    ],
)
def test_scale_and_bias_in_a_parameter_block(options, kind, expected):
    block = ParameterBlock(32)
    assert block.add_affines(made("uint8>float16", 3, **options)) == f"sg::Channels::{kind}"
    assert block.parameters == bytes(16) + expected
    assert block.tables == []


def test_many_channels_lie_in_tables():
    block = ParameterBlock(32)
    many = made("uint8>float64", 17, scale=range(17), channels=[*range(15), 16, 3])
    assert block.add_affines(many) == "sg::Channels::many"
    assert block.add_order(many, -5) == "sg::Channels::many"
    assert block.parameters == bytes(32)
    (at, affines), (after, offsets) = block.tables
    assert (at, after) == (16, 24)
    assert struct.unpack("<34d", affines)[2:6] == (1.0, 0.0, 2.0, 0.0)
    assert struct.unpack("<17i", offsets)[-2:] == (-80, -15)


def test_members_of_a_parameter_block_are_aligned_as_in_c():
    block = ParameterBlock(32)
    block.add_int32(-1)
    block.add_indices(-2, bits=64)
    block.add_indices(3)
    assert block.parameters == bytes(16) + struct.pack("<iIqII", -1, 0, -2, 3, 0)


@pytest.mark.parametrize(
    "lengths, count, read_on, write_on, expected",
    [
        ((16, 16), 100, False, False, (96, 96)),
        ((16, 16), 100, True, False, (112, 96)),
        ((16, 16), 100, True, True, (112, 112)),
        ((16, 16), 100, False, True, (96, 96)),
        ((16, 4), 100, True, False, (112, 100)),
        ((4, 16), 100, False, True, (100, 112)),
        ((4, 16), 99, False, False, (96, 96)),
        ((16, 16), 7, False, False, (0, 0)),
        ((1, 1), 7, False, False, (7, 7)),
    ],
)
def test_whole_vectors_of_a_run(lengths, count, read_on, write_on, expected):
    steps = RunSteps(*lengths, 1, 1)
    assert steps.whole_counts(count, count, may_read_on=read_on, may_write_on=write_on) == expected


def test_a_plan_for_another_gpu_is_another_launch():
    layout = Layout((1 << 20,))
    plan = planned(layout, layout)
    names = {
        cuda_launch(plan, dataclasses.replace(REFERENCE_GPU, multiprocessors=count)).name for count in (1, 132, 1000)
    }
    assert len(names) == 2
