"""Plans: the loops mean what a relayout means, and the family, widths and index bits follow from the design's rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import pytest
from harness.plans import chosen_relayout
from harness.profiles import examples
from harness.strategies import coordinates_of, element_types, layouts_of, tensor_sizes
from hypothesis import given, settings, strategies as st

from stridedgpu.api import arguments
from stridedgpu.devices.cuda.relayout.choice import Family, RelayoutChoice
from stridedgpu.problems.relayout_problem import RelayoutProblem, relayout_problem
from stridedgpu.values.conversion import Conversion, conversion
from stridedgpu.values.descriptor import BufferTensorDesc
from stridedgpu.values.dtypes import ELEMENT_TYPES, element_type
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import calculate_strides
from stridedgpu.values.tensor_spec import TensorSpec

Move = tuple[int, int, float | None, float | None]
"""Source offset and target offset, each from its side's lowest element, and the scale and bias in between."""


def nth(values: tuple[float, ...] | None, channel: int) -> float | None:
    """The value for one output channel."""
    return None if values is None else values[channel if len(values) > 1 else 0]


def defined_moves(source: Layout, target: Layout, made: Conversion, axis: int | None) -> Counter[Move]:
    """What a relayout is: each target coordinate gets the source element of the same coordinate and its channel."""
    moves: Counter[Move] = Counter()
    for at in coordinates_of(target.sizes):
        channel = 0 if axis is None else at[axis]
        taken = list(at)
        if axis is not None and made.channels is not None:
            taken[axis] = made.channels[channel]
        moves[
            source.offset_of(taken) - source.first_offset,
            target.offset_of(at) - target.first_offset,
            nth(made.scale, channel),
            nth(made.bias, channel),
        ] += 1
    return moves


def walked_moves(problem: RelayoutProblem) -> Counter[Move]:
    """What the loops of a problem do."""
    made, axis = problem.conversion, problem.channel_axis
    moves: Counter[Move] = Counter()
    for at in coordinates_of(problem.sizes):
        channel = 0 if axis is None else at[axis]
        taken = list(at)
        if axis is not None and made.channels is not None:
            taken[axis] = made.channels[channel]
        moves[
            problem.source_offset + sum(x * s for x, s in zip(taken, problem.source_strides, strict=True)),
            sum(x * s for x, s in zip(at, problem.target_strides, strict=True)),
            nth(made.scale, channel),
            nth(made.bias, channel),
        ] += 1
    return moves


@st.composite
def relayouts(draw: st.DrawFn) -> tuple[TensorSpec, TensorSpec, Conversion, int | None]:
    """Two tensors of any layout, and a conversion with all it may have."""
    sizes = draw(tensor_sizes(0, 5, least=draw(st.sampled_from((0, 1, 1, 1))), max_elements=150))
    axis = draw(st.none() | st.integers(0, len(sizes) - 1)) if sizes else None
    target_sizes, count = list(sizes), None if axis is None else sizes[axis]
    channels = None
    if axis is not None and count and draw(st.booleans()):
        channels = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=5))
        target_sizes[axis] = len(channels)
    outputs = 1 if axis is None else max(target_sizes[axis], 1)
    values = st.none() | st.just(2.5) | st.just([float(channel + 3) for channel in range(outputs)])
    element = draw(element_types("uif"))
    made = conversion(
        element,
        draw(element_types("uif")),
        scale=draw(values),
        bias=draw(values),
        channels=channels,
        source_channels=None if axis is None else max(count or 0, 1),
    )
    source = TensorSpec.of(draw(layouts_of(sizes)), made.source, base_alignment=draw(st.sampled_from((1, 4, 16, 64))))
    target = TensorSpec.of(
        draw(layouts_of(tuple(target_sizes), broadcast=False)),
        made.target,
        base_alignment=draw(st.sampled_from((1, 4, 16, 64))),
        owns_padding=draw(st.booleans()),
    )
    return source, target, made, axis


def check_moves(relayout: tuple[TensorSpec, TensorSpec, Conversion, int | None]) -> RelayoutProblem:
    source, target, made, axis = relayout
    problem = relayout_problem(source, target, made, axis)
    moves = walked_moves(problem)
    assert moves == defined_moves(source.layout, target.layout, made, axis)
    assert problem.element_count == sum(moves.values()) == target.layout.element_count
    read = {taken for taken, *_ in moves}
    assert problem.source_elements == len(read)
    assert problem.bytes_moved == len(read) * made.source.itemsize + sum(moves.values()) * made.target.itemsize
    assert (problem.channel_axis is None) or made.is_per_channel
    return problem


def check_widths(relayout: tuple[TensorSpec, TensorSpec, Conversion, int | None], widest: int) -> None:
    """The promises of a plan: aligned accesses, and none that writes where it may not.

    Rows that are shifted begin anywhere: their words are found, and their ends peeled, when they are moved.
    """
    source, target, made, axis = relayout
    plan = chosen_relayout(source, target, made, axis, widest)
    problem = plan.problem
    assert plan.index_bits == 32
    for side, width in ((source, plan.load), (target, plan.store)):
        itemsize = side.element.itemsize
        assert width.nbytes in {1, 2, 4, 8, 16, 32}
        assert min(itemsize, widest) <= width.nbytes <= max(itemsize, widest)
        assert width.nbytes >= widest or width.limit or plan.family is Family.EMPTY
        if width.nbytes > itemsize and not plan.shifts:
            assert side.alignment % width.nbytes == 0
    evenly = problem.channel_axis is None or problem.conversion.channels is None
    if plan.load.nbytes > made.source.itemsize and evenly and not plan.shifts:
        lowest = min(taken for taken, *_ in walked_moves(problem))
        assert lowest * made.source.itemsize % plan.load.nbytes == 0
    if plan.store.nbytes > made.target.itemsize and not target.owns_padding:
        assert target_runs_are_whole(plan)


def target_runs_are_whole(plan: RelayoutChoice) -> bool:
    """Whether vectors that start where runs start, and end where they end or are peeled, write nothing else's bytes."""
    itemsize, strides, sizes = plan.problem.target.element.itemsize, plan.problem.target_strides, plan.problem.sizes
    run = 1
    for size, stride in sorted(zip(sizes, strides, strict=True), key=lambda loop: loop[1]):
        if stride != run:
            break
        run *= size
    run_bytes = run * itemsize
    return (
        plan.shifts
        or run_bytes >= 128
        or run_bytes % plan.store.nbytes == 0
        or plan.family in {Family.FLAT, Family.TRANSPOSE}
    )


@given(relayouts())
@settings(max_examples=examples(300))
def test_loops_do_what_a_relayout_is_defined_to_do(relayout):
    check_moves(relayout)


@given(relayouts(), st.sampled_from((16, 32)))
@settings(max_examples=examples(200))
def test_widths_keep_their_promises(relayout, widest):
    check_widths(relayout, widest)


@pytest.mark.long
@pytest.mark.slow
@given(relayouts(), st.sampled_from((16, 32)))
@settings(max_examples=2000)
def test_loops_and_widths_many_times(relayout, widest):
    check_moves(relayout)
    check_widths(relayout, widest)


def test_a_table_over_channels_that_run_backwards_is_turned_round():
    u8 = ELEMENT_TYPES["uint8"]
    source = TensorSpec.of(
        Layout((4, 6), (-1, 6), offset=5), u8, base_alignment=16
    )  # channel 0 is the highest in memory
    made = conversion(u8, u8, channels=(0, 3, 1), source_channels=4)
    problem = relayout_problem(source, TensorSpec.of(Layout((3, 6)), u8, base_alignment=16), made, 0)
    assert problem.source_strides[problem.channel_axis] == 1
    assert problem.conversion.channels == (3, 0, 2)
    assert problem.source_alignment == 2  # the lowest channel lies 2 bytes into the buffer


def test_a_single_channel_is_repeated_whatever_its_stride():
    made = conversion(ELEMENT_TYPES["uint8"], ELEMENT_TYPES["int16"], channels=(0, 0, 0), source_channels=1)
    source = TensorSpec.of(Layout((1, 5), (2**62, 1)), made.source, base_alignment=16)
    plan = chosen_relayout(source, TensorSpec.of(Layout((3, 5)), made.target, base_alignment=16), made, 0)
    assert plan.problem.source_strides == (0, 1)
    assert plan.index_bits == 32


# Sides


@pytest.mark.parametrize(
    "layout, name, base, expected",
    [
        pytest.param(Layout((4, 8)), "float32", 16, 16, id="at the base"),
        pytest.param(Layout((4, 8), offset=1), "float32", 64, 4, id="one element in"),
        pytest.param(Layout((4, 8), offset=4), "float32", 64, 16, id="16 bytes in"),
        pytest.param(Layout((4, 8), offset=64), "float32", 4096, 32, id="no more than the widest access"),
        pytest.param(Layout((8,), (-1,), offset=7), "uint8", 16, 16, id="flipped, lowest at the base"),
        pytest.param(Layout((8,), (-1,), offset=10), "uint8", 16, 1, id="flipped, lowest at 3"),
    ],
)
def test_a_side_knows_the_alignment_of_its_lowest_element(layout, name, base, expected):
    side = TensorSpec.of(layout, element_type(name), base_alignment=base)
    assert side.alignment == expected
    assert side.layout.first_offset == 0
    assert side.layout.strides == layout.strides


@pytest.mark.parametrize(
    "buffer_bytes, slack",
    [(None, 0), (40, 0), (41, 1), (56, 16), (72, 32), (4096, 32)],
    ids=["unknown", "exact", "a byte", "a vector", "two vectors", "a page"],
)
def test_slack_is_what_follows_the_last_element_up_to_the_widest_access(buffer_bytes, slack):
    side = TensorSpec.of(Layout((5,), offset=5), ELEMENT_TYPES["float32"], base_alignment=16, buffer_bytes=buffer_bytes)
    assert side.slack_bytes == slack


def test_equal_windows_share_a_plan():
    def crop(x: int) -> TensorSpec:
        frame = Layout((480, 640, 3)).sliced((slice(100, 324), slice(x, x + 224)))
        return TensorSpec.of(frame, ELEMENT_TYPES["uint8"], base_alignment=64, buffer_bytes=480 * 640 * 3)

    target = TensorSpec.of(Layout((224, 224, 3)), ELEMENT_TYPES["uint8"], base_alignment=64, owns_padding=True)
    made = conversion(ELEMENT_TYPES["uint8"], ELEMENT_TYPES["uint8"])
    plans = [chosen_relayout(crop(x), target, made, None) for x in (0, 32, 33)]
    assert plans[0] == plans[1]
    assert hash(plans[0].problem) == hash(plans[1].problem)
    assert plans[0] != plans[2]


def test_a_bias_of_minus_zero_has_a_plan_of_its_own():
    side = TensorSpec.of(Layout((8,)), ELEMENT_TYPES["float32"], base_alignment=16)
    plans = [
        chosen_relayout(side, side, conversion(side.element, side.element, bias=bias), None) for bias in (0.0, -0.0)
    ]
    assert [repr(plan.problem.conversion.bias) for plan in plans] == ["(0.0,)", "(-0.0,)"]


# The table. N=2, H=24 and W=32 where nothing else is said: 768 pixels, so that every plane and image is a multiple of
# 16 bytes in every type, and only channels, pitches and offsets can narrow an access.


@dataclass(frozen=True)
class Case:
    """A relayout and the plan that the design's rules give it."""

    source: Layout
    target: Layout
    family: str
    load: int
    store: int
    bits: int = 32
    source_type: str = "uint8"
    target_type: str | None = None
    base: int = 16
    widest: int = 16
    owned: bool = True
    channels: tuple[int, ...] | None = None
    scale: Sequence[float] | None = None

    def plan(self) -> RelayoutChoice:
        source, target = element_type(self.source_type), element_type(self.target_type or self.source_type)
        axis = 1 if self.source.ndim >= 4 else None
        made = conversion(
            source,
            target,
            scale=self.scale,
            channels=self.channels,
            source_channels=None if axis is None else self.source.sizes[axis],
        )
        return chosen_relayout(
            TensorSpec.of(self.source, source, base_alignment=self.base),
            TensorSpec.of(self.target, target, base_alignment=self.base, owns_padding=self.owned),
            made,
            axis,
            self.widest,
        )


TYPE_OF_SIZE = {1: "uint8", 2: "float16", 4: "float32", 8: "float64", 16: "complex128"}


def nchw(*sizes: int) -> Layout:
    return Layout(sizes)


def nhwc(*sizes: int) -> Layout:
    """Sizes in NCHW order, as ever."""
    return Layout(sizes, calculate_strides("NHWC" if len(sizes) == 4 else "NDHWC", sizes))


def turned(batch: int, height: int, width: int, channels: int) -> Layout:
    """Sizes in NHWC order; memory is in NWHC order."""
    return Layout((batch, height, width, channels), (height * width * channels, channels, height * channels, 1))


# Channels -> (family, {element bytes: narrower access on the NHWC side}). One channel is the same memory on both
# sides. Up to 16 channels are shuffled in registers, more go through tiles. Pixels are read across: of 3 doubles, three
# vectors are two pixels.
INTERLEAVES: dict[int, tuple[str, dict[int, int]]] = {
    1: ("flat", {1: 16, 2: 16, 4: 16, 8: 16, 16: 16}),
    3: ("channels", {1: 16, 2: 16, 4: 16, 8: 16, 16: 16}),
    4: ("channels", {1: 16, 2: 16, 4: 16, 8: 16, 16: 16}),
    8: ("channels", {1: 16, 2: 16, 4: 16, 8: 16, 16: 16}),
    64: ("transpose", {1: 16, 2: 16, 4: 16, 8: 16, 16: 16}),
    256: ("transpose", {1: 16, 2: 16, 4: 16, 8: 16, 16: 16}),
}
CASES: dict[str, Case] = {}
for channel_count, (expected_family, pixel_widths) in INTERLEAVES.items():
    image = (2, channel_count, 24, 32)
    for nbytes, pixel_width in pixel_widths.items():
        of_type = TYPE_OF_SIZE[nbytes]
        CASES[f"NHWC to NCHW, C={channel_count}, {nbytes} B"] = Case(
            nhwc(*image), nchw(*image), expected_family, pixel_width, 16, source_type=of_type
        )
        CASES[f"NCHW to NHWC, C={channel_count}, {nbytes} B"] = Case(
            nchw(*image), nhwc(*image), expected_family, 16, pixel_width, source_type=of_type
        )


def frame(width: int, pitch: int, height: int = 20) -> Layout:
    """NHWC frames of uint8 RGB with a row pitch, in NCHW order."""
    return Layout.padded((1, 3, height, width), "NHWC", 1, row_pitch_bytes=pitch)


def rows(width: int, pitch: int, height: int = 20) -> Layout:
    """A uint8 plane with a row pitch."""
    return Layout.padded((height, width), None, 1, row_pitch_bytes=pitch)


BATCH = (2, 3, 24, 32)
PHOTO = Layout((1, 3, 480, 640), calculate_strides("NHWC", (1, 3, 480, 640)))
BILLIONS = (1, 3, 40000, 40000)


def crop(x: int) -> Layout:
    return PHOTO.sliced((..., slice(100, 324), slice(x, x + 224)))


CASES |= {
    # One run
    "flat": Case(nchw(*BATCH), nchw(*BATCH), "flat", 16, 16),
    "flat, both permuted alike": Case(nhwc(*BATCH), nhwc(*BATCH), "flat", 16, 16, source_type="bool"),
    "flat, both flipped alike": Case(Layout((100,), (-1,), 99), Layout((100,), (-1,), 99), "flat", 16, 16, owned=False),
    "flat, cast": Case(nchw(*BATCH), nchw(*BATCH), "flat", 16, 16, target_type="float32"),
    "flat, one scale": Case(nchw(*BATCH), nchw(*BATCH), "flat", 16, 16, target_type="float16", scale=[0.5]),
    "flat, an odd count": Case(Layout((101,)), Layout((101,)), "flat", 16, 16, owned=False),
    "a scalar": Case(Layout(()), Layout(()), "flat", 4, 4, source_type="float32"),
    "nothing": Case(nchw(0, 3, 4, 5), nhwc(0, 3, 4, 5), "empty", 2, 2, source_type="float16"),
    # What is guaranteed of the address
    "guarantee 16 where 32 can be used": Case(nchw(*BATCH), nchw(*BATCH), "flat", 16, 16, base=16, widest=32),
    "guarantee 32 where 32 can be used": Case(nchw(*BATCH), nchw(*BATCH), "flat", 32, 32, base=32, widest=32),
    "guarantee 32 where 16 can be used": Case(nchw(*BATCH), nchw(*BATCH), "flat", 16, 16, base=32, widest=16),
    "guarantee 4096": Case(nchw(*BATCH), nchw(*BATCH), "flat", 32, 32, base=4096, widest=32),
    "guarantee 4": Case(nchw(*BATCH), nchw(*BATCH), "flat", 4, 4, base=4),
    "guarantee 1": Case(nchw(*BATCH), nchw(*BATCH), "flat", 4, 16, base=1),
    "guarantee 32, RGBA": Case(nhwc(2, 4, 24, 32), nchw(2, 4, 24, 32), "channels", 16, 16, base=32, widest=32),
    "guarantee 32, transpose": Case(
        nhwc(2, 64, 24, 32), nchw(2, 64, 24, 32), "transpose", 16, 16, base=32, widest=32, source_type="float16"
    ),
    "offset of one float": Case(Layout((64,), offset=1), Layout((64,)), "flat", 4, 16, source_type="float32"),
    "offset of two floats": Case(Layout((64,), offset=2), Layout((64,)), "flat", 8, 16, source_type="float32"),
    "offset of four floats": Case(Layout((64,), offset=4), Layout((64,)), "flat", 16, 16, source_type="float32"),
    "offset of the target": Case(Layout((64,)), Layout((64,), offset=6), "flat", 4, 16, owned=False),
    "crop at byte 192600, a multiple of 8": Case(crop(200), nchw(1, 3, 224, 224), "channels", 8, 16),
    "crop at byte 192624, a multiple of 16": Case(crop(208), nchw(1, 3, 224, 224), "channels", 16, 16),
    "crop at byte 192603": Case(crop(201), nchw(1, 3, 224, 224), "channels", 16, 16),
    "crop and cast": Case(crop(200), nchw(1, 3, 224, 224), "channels", 8, 16, target_type="float32"),
    # Row pitch
    "pitch 112 of 96, interleaved": Case(frame(32, 112), nchw(1, 3, 20, 32), "channels", 16, 16),
    "pitch 100 of 96, interleaved": Case(frame(32, 100), nchw(1, 3, 20, 32), "channels", 4, 16),
    "pitch 97 of 96, interleaved": Case(frame(32, 97), nchw(1, 3, 20, 32), "channels", 1, 16),
    "rows of 30 to a packed plane": Case(frame(30, 96), nchw(1, 3, 20, 30), "channels", 16, 2),
    "rows of 100, packed to pitch 112": Case(rows(100, 100), rows(100, 112), "rows", 4, 16),
    "rows of 100, packed to pitch 104": Case(rows(100, 100), rows(100, 104), "rows", 4, 8),
    "rows of 100, packed to pitch 102": Case(rows(100, 100), rows(100, 102), "rows", 4, 16),
    "rows of 100, pitch 112 to packed": Case(rows(100, 112), rows(100, 100), "rows", 16, 4),
    "rows of 100, pitch 128 to 112": Case(rows(100, 128), rows(100, 112), "rows", 16, 16),
    "a pitched frame to packed": Case(frame(1920, 5888), nhwc(1, 3, 20, 1920), "rows", 16, 16),
    "a frame with an odd pitch to packed": Case(frame(1920, 5761), nhwc(1, 3, 20, 1920), "rows", 4, 16),
    # Gaps that belong to somebody else: a run is written whole, or, from 128 bytes on, up to its peeled end
    "rows of 100 into a window": Case(rows(100, 128), rows(100, 112), "rows", 16, 4, owned=False),
    "rows of 96 into a window": Case(rows(96, 128), rows(96, 112), "rows", 16, 16, owned=False),
    "rows of 130 into a window": Case(rows(130, 144), rows(130, 160), "rows", 16, 16, owned=False),
    "pixels into a window of a canvas": Case(nhwc(1, 3, 20, 20), frame(20, 336), "rows", 4, 4, owned=False),
    "pixels into a padded tensor": Case(nhwc(1, 3, 20, 20), frame(20, 336), "rows", 4, 16, owned=True),
    "RGB planes into the RGB of RGBA": Case(
        nchw(1, 3, 24, 32), nhwc(1, 4, 24, 32).sliced((slice(None), slice(0, 3))), "channels", 16, 1, owned=False
    ),
    "RGB planes into RGBX that is ours": Case(
        nchw(1, 3, 24, 32), nhwc(1, 4, 24, 32).sliced((slice(None), slice(0, 3))), "channels", 16, 16, owned=True
    ),
    "RGB pixels into the RGB of RGBA": Case(
        nhwc(1, 3, 24, 32), nhwc(1, 4, 24, 32).sliced((slice(None), slice(0, 3))), "pixels", 16, 1, owned=False
    ),
    # Flips: a vector is read forwards and turned round in registers, so only its lowest address counts
    "flip left to right": Case(
        nchw(*BATCH).sliced((..., slice(None, None, -1))), nchw(*BATCH), "rows", 16, 16, source_type="float32"
    ),
    "flip upside down": Case(
        nchw(*BATCH).sliced((..., slice(None, None, -1), slice(None))), nchw(*BATCH), "rows", 16, 16
    ),
    "flip left to right, interleaved": Case(
        nhwc(*BATCH).sliced((..., slice(None, None, -1))), nchw(*BATCH), "channels", 16, 16
    ),
    "flip of an odd width": Case(rows(101, 112).sliced((..., slice(None, None, -1))), rows(101, 112), "rows", 4, 16),
    "flip of one line": Case(Layout((100,), (-1,), 99), Layout((100,)), "rows", 4, 4, owned=False),
    # Channels
    "RGB to BGR planes": Case(nhwc(*BATCH), nchw(*BATCH), "channels", 16, 16, channels=(2, 1, 0)),
    "RGB to BGR pixels": Case(nhwc(*BATCH), nhwc(*BATCH), "pixels", 16, 16, channels=(2, 1, 0)),
    "RGB to BGR pixels of doubles": Case(
        nhwc(*BATCH), nhwc(*BATCH), "rows", 8, 8, channels=(2, 1, 0), source_type="float64"
    ),
    "RGBA to RGB planes": Case(nhwc(2, 4, 24, 32), nchw(*BATCH), "channels", 16, 16, channels=(0, 1, 2)),
    "RGBA to BGR planes": Case(nhwc(2, 4, 24, 32), nchw(*BATCH), "channels", 16, 16, channels=(2, 1, 0)),
    "RGBA to GBA planes": Case(nhwc(2, 4, 24, 32), nchw(*BATCH), "channels", 16, 16, channels=(1, 2, 3)),
    "the later planes of 6": Case(nchw(1, 6, 9, 10), nchw(1, 3, 9, 10), "flat", 4, 16, channels=(3, 4, 5), owned=False),
    "RGBA to RBG planes": Case(nhwc(2, 4, 24, 32), nchw(*BATCH), "channels", 16, 16, channels=(0, 2, 1)),
    "RGBA to A": Case(nhwc(2, 4, 24, 32), nchw(2, 1, 24, 32), "generic", 1, 4, channels=(3,)),
    "one scale a channel, planes": Case(
        nchw(*BATCH), nchw(*BATCH), "rows", 16, 16, target_type="float16", scale=[1, 2, 3]
    ),
    "one scale a channel, pixels to planes": Case(
        nhwc(*BATCH), nchw(*BATCH), "channels", 16, 16, target_type="float16", scale=[1, 2, 3]
    ),
    "one scale a channel, pixels": Case(
        nhwc(*BATCH), nhwc(*BATCH), "pixels", 16, 16, target_type="float32", scale=[1, 2, 3]
    ),
    # Repeats
    "one row repeated": Case(
        Layout((32,)).broadcast_to((2, 3, 24, 32)), nchw(*BATCH), "rows", 16, 16, source_type="float32"
    ),
    "one value repeated": Case(
        Layout((1,)).broadcast_to((2, 3, 24, 32)), nchw(*BATCH), "rows", 4, 16, source_type="float32"
    ),
    "one value a channel": Case(
        Layout((3, 1, 1)).broadcast_to((2, 3, 24, 32)), nchw(*BATCH), "rows", 4, 16, source_type="float32"
    ),
    # Five axes
    "NDHWC to NCDHW, C=4": Case(nhwc(2, 4, 3, 8, 10), nchw(2, 4, 3, 8, 10), "channels", 16, 16, source_type="float16"),
    "NCDHW to NDHWC, C=32": Case(
        nchw(2, 32, 3, 8, 10), nhwc(2, 32, 3, 8, 10), "transpose", 16, 16, source_type="float32"
    ),
    "NDHWC to NCDHW, planes of 105": Case(nhwc(2, 32, 3, 5, 7), nchw(2, 32, 3, 5, 7), "transpose", 16, 1),
    "crop in depth": Case(
        nchw(2, 4, 6, 8, 10).sliced((..., slice(1, 3), slice(None), slice(None))),
        nchw(2, 4, 2, 8, 10),
        "rows",
        16,
        16,
        source_type="float32",
    ),
    # Transposes
    "features of 7x7": Case(nhwc(8, 256, 7, 7), nchw(8, 256, 7, 7), "transpose", 16, 2, source_type="float16"),
    "matrix": Case(Layout((100, 200)), Layout((100, 200), (1, 100)), "transpose", 16, 16, source_type="float32"),
    "matrix of odd sizes": Case(Layout((101, 199)), Layout((101, 199), (1, 101)), "transpose", 1, 1),
    "matrix of odd sizes, floats": Case(
        Layout((101, 199)), Layout((101, 199), (1, 101)), "transpose", 4, 4, source_type="float32"
    ),
    "matrix of 17": Case(Layout((17, 17)), Layout((17, 17), (1, 17)), "transpose", 2, 2, source_type="float16"),
    # Runs that are short on both sides: from a vector's 16 bytes on, planes are written by themselves
    "small matrices of 3x5": Case(Layout((1000, 3, 5)), Layout((1000, 3, 5), (15, 1, 3)), "packed_tile", 16, 16),
    "small matrices of 3x15": Case(Layout((1000, 3, 15)), Layout((1000, 3, 15), (45, 1, 3)), "packed_tile", 16, 16),
    "small matrices of 3x16": Case(Layout((1000, 3, 16)), Layout((1000, 3, 16), (48, 1, 3)), "channels", 16, 16),
    "small matrices of 3x5 doubles": Case(
        Layout((1000, 3, 5)), Layout((1000, 3, 5), (15, 1, 3)), "channels", 8, 8, source_type="float64"
    ),
    # Pixels turned by a quarter: NHWC to NWHC, from 16 pixels on either side on, however the image is mirrored
    "pixels turned": Case(Layout((2, 96, 64, 3)), turned(2, 96, 64, 3), "turned_pixels", 16, 16),
    "pixels turned, rows of 3240 B": Case(Layout((1, 1080, 64, 3)), turned(1, 1080, 64, 3), "turned_pixels", 16, 8),
    "pixels turned, backwards": Case(
        Layout((2, 96, 64, 3)).sliced((slice(None), slice(None, None, -1), slice(None, None, -1))),
        turned(2, 96, 64, 3),
        "turned_pixels",
        16,
        16,
    ),
    "15 pixels turned": Case(Layout((2, 15, 64, 3)), turned(2, 15, 64, 3), "packed_tile", 16, 16),
    "pixels of 16 B turned": Case(Layout((2, 96, 64, 4)), turned(2, 96, 64, 4), "rows", 16, 16, source_type="float32"),
    # Channels in blocks: NC/4HW4 and NC/32HW32
    "to CHW4": Case(
        nchw(2, 8, 24, 32).split_axis(1, (2, 4)),
        Layout((2, 2, 4, 24, 32), (6144, 3072, 1, 128, 4)),
        "channels",
        16,
        16,
        source_type="float16",
    ),
    "to CHW32": Case(
        nchw(2, 64, 24, 32).split_axis(1, (2, 32)),
        Layout((2, 2, 32, 24, 32), (49152, 24576, 1, 1024, 32)),
        "transpose",
        16,
        16,
        source_type="int8",
    ),
    # No contiguous run
    "every other element": Case(Layout((50,), (2,)), Layout((50,)), "generic", 4, 16, source_type="float32"),
    "into every other element": Case(Layout((50,)), Layout((50,), (2,)), "generic", 4, 4, source_type="float32"),
    # Indices
    "2^31-1 elements": Case(Layout((2**31 - 1,)), Layout((2**31 - 1,)), "flat", 16, 16),
    "2^31 elements": Case(Layout((2**31,)), Layout((2**31,)), "flat", 16, 16, bits=64),
    "4.8 billion elements": Case(nhwc(*BILLIONS), nchw(*BILLIONS), "channels", 16, 16, bits=64),
    "2^32 elements transposed": Case(
        Layout((4096, 2**20)), Layout((4096, 2**20), (1, 4096)), "transpose", 16, 16, bits=64, source_type="float16"
    ),
    "two rows 2^31 apart": Case(Layout((2, 64), (2**31, 1)), Layout((2, 64)), "rows", 16, 16, bits=64),
    "two rows 2^31 apart, from the last": Case(
        Layout((2, 64), (-(2**31), 1), 2**31), Layout((2, 64)), "rows", 16, 16, bits=64
    ),
    "into two rows 2^31 apart": Case(Layout((2, 64)), Layout((2, 64), (2**31, 1)), "rows", 16, 16, bits=64),
    "a table that reaches 3.3 billion elements": Case(
        nchw(1, 200, 4096, 4096), nchw(1, 3, 4096, 4096), "rows", 16, 16, bits=64, channels=(0, 199, 100)
    ),
    "a table that stays near": Case(
        nchw(1, 200, 4096, 4096), nchw(1, 3, 4096, 4096), "rows", 16, 16, bits=32, channels=(0, 2, 1)
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_family_widths_and_index_bits(case):
    plan = case.plan()
    assert (str(plan.family), plan.load.nbytes, plan.store.nbytes, plan.index_bits) == (
        case.family,
        case.load,
        case.store,
        case.bits,
    )


@pytest.mark.parametrize(
    "guaranteed, widest, width", [(0, 16, 16), (0, 32, 16), (16, 16, 16), (16, 32, 16), (32, 16, 16), (32, 32, 32)]
)
def test_what_descriptors_guarantee(guaranteed, widest, width):
    """Without a guarantee it is DirectML's own: tensors are bound at multiples of 16 bytes."""
    desc = BufferTensorDesc("uint8", BATCH, guaranteed_base_offset_alignment=guaranteed)
    source, target = arguments.plan_operand("src", desc), arguments.plan_operand("out", desc, is_written=True)
    plan = chosen_relayout(source.spec, target.spec, conversion(*[ELEMENT_TYPES["uint8"]] * 2), None, widest)
    assert (plan.family, plan.load.nbytes, plan.store.nbytes) == (Family.FLAT, width, width)


def test_the_table_is_long_and_has_every_family():
    assert len(CASES) > 120
    assert {case.family for case in CASES.values()} == {str(family) for family in Family}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_explain_says_what_is_in_the_plan(case):
    plan = case.plan()
    text = "\n".join(plan.describe())
    assert plan.kernel.startswith(case.family)
    assert Family(case.family).description in text
    assert f"loads {case.load} B" in text
    assert f"stores {case.store} B" in text
    assert f"{case.bits}-bit indices" in text
    assert f"{plan.problem.bytes_moved} bytes must move" in text
    for width in (plan.load, plan.store):
        assert width.limit in text
        assert width.limit or width.nbytes == case.widest or case.family == "empty"
    # Without gaps there is nothing to own.
    owned = case.owned and case.target.span > case.target.element_count
    assert ("the target owns its padding" in text) == owned
    assert ("nothing between the target's elements is written" in text) == (not owned)


EXPLANATIONS = {
    "rows of 100, packed to pitch 104": [
        "loops (20, 100)",
        "writes uint8 in steps of (104, 1) elements",
        "reads uint8 in steps of (100, 1) elements",
        "uint8: bits move unchanged",
        "loads 4 B (the source's runs start 100 B apart, a multiple of 4 only; pad that to 112 for 16)",
        "stores 8 B (the target's runs start 104 B apart, a multiple of 8 only; pad that to 112 for 16)",
        "4000 bytes must move: 2000 read, 2000 written",
    ],
    "offset of one float": ["loads 4 B (the source's first element is known to lie at a multiple of 4 B, a multiple"],
    "rows of 100 into a window": ["stores 4 B (a run of the target is 100 B long, and the target does not own what"],
    "one value a channel": [
        "loads 4 B (one element of the source is repeated along each run)",
        "12 read, 18432 written",
    ],
    "every other element": ["loads 4 B (the source has no contiguous run that the kernel could walk)"],
    "one scale a channel, planes": ["uint8 -> float16, scale\n", "4608 read, 9216 written"],
    "RGBA to RBG planes": ["uint8, channels (0, 2, 1): bits move unchanged", "4608 read, 4608 written"],
    "nothing": ["0 bytes must move: 0 read, 0 written"],
}


@pytest.mark.parametrize("name", EXPLANATIONS)
def test_explain_gives_the_reason(name):
    text = "\n".join(CASES[name].plan().describe())
    for fragment in EXPLANATIONS[name]:
        assert fragment in text


def test_a_width_divides_everything_that_it_must():
    # The same rule once more, for every pitch: the address, the step between runs, and the run where it must end whole.
    for pitch in range(100, 140):
        for offset in (0, 1, 2, 4, 8, 16):
            window = rows(100, pitch).shifted(offset)
            plan = Case(rows(100, 112), window, "rows", 0, 0, owned=False).plan()
            width = gcd(16, offset, pitch, 100)
            # Below a word, words are shifted into whole vectors.
            assert (plan.store.nbytes, plan.shifts) == ((width, False) if width >= 4 else (16, True))
