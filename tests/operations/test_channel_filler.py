"""Channels filled up with zeros ("NHWC8", "NCHW4"): one pass that writes them with their pixels, on every device."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from harness.emulator.cases import SMALL, drawn
from harness.emulator.chosen import few
from harness.emulator.launched import unspilled
from harness.emulator.marks import emulated, every_architecture, inspected
from harness.emulator.planned import Case, check_cases
from harness.native_loops import needs_library
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.device import CpuDevice
from stridedgpu.devices.cpu.native.relayout import relayout_move
from stridedgpu.devices.cpu.plan import cpu_plan
from stridedgpu.devices.cuda.gpu import REFERENCE_GPU
from stridedgpu.devices.cuda.relayout.choice import Family
from stridedgpu.devices.operand import Operand
from stridedgpu.operations.channel_blocks import ordered_layouts, parse_order, parts
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.strides import round_up
from stridedgpu.values.tensor_spec import TensorSpec


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """The first part of a relayout to a channel-padded or channel-blocked order that has zeros to write."""
    multiple = draw(st.sampled_from((2, 4, 8, 16, 32, 128)))
    channels = draw(st.integers(1, 40).filter(lambda count: count % multiple))
    sizes = (draw(st.integers(1, 3)), channels, draw(st.integers(1, 12)), draw(st.integers(1, 70)))
    order = parse_order(draw(st.sampled_from(("NHWC", "NCHW", "CHWN"))) + str(multiple))
    names = draw(
        st.sampled_from((("uint8", "uint8"), ("uint8", "float16"), ("float32", "float16"), ("int64", "int64")))
    )
    elements = [ELEMENT_TYPES[name] for name in names]
    options = {}
    if names[0] != names[1]:
        options["scale"] = draw(st.sampled_from((2.0, [0.5 + place for place in range(channels)])))
        options["bias"] = 1.5
    if draw(st.booleans()):
        options["channels"] = draw(st.permutations(range(channels)))
    made = conversion(*elements, source_channels=channels, **options)
    source = Layout.padded(sizes, draw(st.sampled_from(("NCHW", "NHWC", "CHWN"))), 1)
    if draw(st.booleans()):
        source = Layout(sizes, [stride * draw(st.integers(1, 2)) for stride in source.strides])
    if draw(st.booleans()):
        source = source.sliced((..., slice(None, None, -1), slice(None)))
    itemsize = elements[1].itemsize
    pitch = None
    if draw(st.booleans()) and order.letters == "NHWC":
        pitch = sizes[3] * round_up(channels, multiple) * itemsize + draw(st.sampled_from((0, 16, 24)))
    target, _ = ordered_layouts(sizes, f"{order.letters}{multiple}", tuple("NCHW"), itemsize, pitch)
    part = next(part for part in parts(source, target, made, 1, order) if part.filler)
    sides = [
        TensorSpec.of(layout, element, base_alignment=draw(st.sampled_from((8, 16, 32))), owns_padding=False)
        for layout, element in zip((part.source, part.target), elements, strict=True)
    ]
    return Case(
        *sides,
        part.conversion,
        part.channel_axis,
        draw(st.sampled_from((SMALL, REFERENCE_GPU))),
        filler=part.filler,
        index_bits=draw(st.sampled_from((None, None, None, 64))),
    )


@emulated
def test_kernels_write_elements_and_zeros():
    check_cases(few(drawn(cases(), {*Family}, 60, 1), 1), orders=("forward", "random"))


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("number", [2, pytest.param(3, marks=pytest.mark.sweep)])
def test_kernels_write_elements_and_zeros_of_many_layouts(number):
    check_cases(drawn(cases(), {*Family}, 300, number))


@settings(max_examples=examples(60))
@given(cases())
def test_a_problem_is_its_elements_and_its_zeros(one):
    problem = one.plan.problem
    alone, zeros = problem.without_filler(), problem.filler_alone()
    assert alone.written_count == problem.element_count
    assert alone.written_count + zeros.written_count == problem.written_count
    assert zeros.source_elements == 1
    behind = problem.sizes[-1] * problem.target.element.itemsize
    assert [problem.target.alignment % zeros.target.alignment, behind % zeros.target.alignment] == [0, 0]
    assert f"zeros behind each run of {problem.sizes[-1]}: {one.filler}" in one.plan.problem.describe()


@needs_library
@settings(max_examples=examples(40))
@given(cases())
def test_native_loops_write_elements_and_zeros(one):
    source, target = Buffer.of(one.source_bytes), Buffer.of(one.pattern.copy())
    plan = cpu_plan(one.plan.problem)
    relayout_move(plan)(source.address, target.address)
    assert target.bytes.tobytes() == one.expected.tobytes(), plan.explain()


@settings(max_examples=examples(60))
@given(st.data())
def test_tensors_are_filled_up_with_zeros(data):
    multiple = data.draw(st.integers(2, 9))
    sizes = tuple(data.draw(st.integers(0 if axis == 0 else 1, 12)) for axis in range(4))
    array = np.arange(np.prod(sizes), dtype=np.uint8).reshape(sizes) + np.uint8(1)
    bias = data.draw(st.sampled_from((1.0, list(range(1, sizes[1] + 1)))))
    expected = array.astype(np.float32) + np.reshape(np.float32(bias), (-1, 1, 1))
    stored = np.pad(expected, [(0, 0), (0, -sizes[1] % multiple), (0, 0), (0, 0)])
    source = sg.asarray(array, dims="NCHW")
    pixels = source.relayout(layout=f"NHWC{multiple}", dtype="float32", bias=bias)
    assert np.array_equal(pixels.numpy(), expected)
    assert pixels.buffer.bytes[: stored.nbytes].tobytes() == stored.transpose(0, 2, 3, 1).tobytes()
    blocks = source.relayout(layout=f"NCHW{multiple}", dtype="float32", bias=bias)
    split = stored.reshape(sizes[0], stored.shape[1] // multiple, multiple, *sizes[2:])
    assert np.array_equal(blocks.numpy(), split)


# What the GPU does: one launch, whole vectors

UNIT = {"scale": 1 / 255}


@dataclasses.dataclass(frozen=True)
class Pass:
    """Pixels of 3 channels in one order to another that fills them up: the family, and the bytes of a store."""

    orders: tuple[str, str]
    types: tuple[str, str]
    family: Family
    store: int
    channels: int = 3

    def case(self, architecture: str = "sm_90") -> Case:
        elements = [ELEMENT_TYPES[name] for name in self.types]
        sizes, order = (8, self.channels, 256, 512), parse_order(self.orders[1])
        options = UNIT if self.types[0] != self.types[1] else {}
        made = conversion(*elements, source_channels=self.channels, **options)
        source = Layout.padded(sizes, self.orders[0])
        target, _ = ordered_layouts(sizes, self.orders[1], tuple("NCHW"), elements[1].itemsize, None)
        (part,) = parts(source, target, made, 1, order)
        sides = [
            TensorSpec.of(layout, element, base_alignment=32)
            for layout, element in zip((source, part.target), elements, strict=True)
        ]
        gpu = dataclasses.replace(REFERENCE_GPU, compute_capability=int(architecture[3:]))
        return Case(*sides, part.conversion, part.channel_axis, gpu, filler=part.filler)


PASSES = {
    "RGB pixels to 4": Pass(("NHWC", "NHWC4"), ("uint8", "uint8"), Family.PIXELS, 16),
    "RGB pixels to 8 halves": Pass(("NHWC", "NHWC8"), ("uint8", "float16"), Family.PIXELS, 16),
    "RGB planes to 4": Pass(("NCHW", "NHWC4"), ("uint8", "uint8"), Family.CHANNELS, 16),
    "RGB planes to 8 halves": Pass(("NCHW", "NHWC8"), ("uint8", "float16"), Family.CHANNELS, 16),
    "RGB planes to a block of 4": Pass(("NCHW", "NCHW4"), ("uint8", "uint8"), Family.CHANNELS, 16),
    "RGB planes to a block of 32": Pass(("NCHW", "NCHW32"), ("uint8", "uint8"), Family.CHANNELS, 16),
    "one plane to 4": Pass(("NCHW", "NHWC4"), ("uint8", "float16"), Family.CHANNELS, 16, channels=1),
    "20 channels of pixels to 32": Pass(("NHWC", "NHWC32"), ("float16", "float16"), Family.ROWS, 16, channels=20),
    "20 planes to 32": Pass(("NCHW", "NHWC32"), ("float16", "float16"), Family.TRANSPOSE, 16, channels=20),
}


@pytest.mark.parametrize("name", PASSES)
def test_one_launch_moves_elements_and_zeros(name):
    wanted = PASSES[name]
    plan = wanted.case().plan
    assert (plan.family, plan.store.nbytes) == (wanted.family, wanted.store)
    assert plan.index_bits == 32


@pytest.mark.slow
@inspected
@every_architecture
def test_machine_code_stores_whole_vectors(architecture):
    for name, code in unspilled([one.case(architecture).launch for one in PASSES.values()], architecture).items():
        assert max(code.stores) >= 128, (name, code.stores)


@pytest.mark.parametrize("order", ["NHWC4", "NCHW4", "NCHW2"])
def test_elements_that_cross_to_a_device_get_their_zeros_there(order):
    pixels = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)
    here, there = (sg.relayout(pixels, dims="NCHW", layout=order, device=name) for name in ("cpu", "cuda-emulated"))
    assert (there.device, there.layout) == ("cuda-emulated", here.layout)
    assert there.numpy().tobytes() == here.numpy().tobytes()


@pytest.mark.parametrize("order", ["NHWC4", "NHWC8", "NCHW4"])
def test_resized_pixels_that_cross_to_a_device_get_their_zeros_there(order):
    pixels = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(1, 4, 5, 3)
    here, there = (
        sg.resize(pixels, (2, 3), dims="NHWC", layout=order, device=name, interpolation="opencv-linear")
        for name in ("cpu", "cuda-emulated")
    )
    nbytes = here.operand.buffer.nbytes
    stored = [Operand(one.operand.buffer, Layout((nbytes,)), ELEMENT_TYPES["uint8"]) for one in (here, there)]
    first, second = (sg.StridedTensor.over(one, None).numpy() for one in stored)
    assert np.array_equal(first, second)


# What is written with `out=` into memory of an order that fills channels up

SIZES = (2, 3, 4, 6)
PLANES = sg.asarray(np.arange(1, 145, dtype=np.uint8).reshape(2, 4, 6, 3), dims="NHWC")
FRAME = sg.Frame.over("gray", np.arange(1, 25, dtype=np.uint8).reshape(4, 6), (4, 6))
PLANNED = sg.zeros(SIZES, "uint8", layout="NHWC8", device="cpu")
ORIGINS = [[0, 0], [0, 0]]


def assigned(out):
    for place in range(2):
        out[place] = PLANES[place]


WRITERS = {
    "relayout": lambda out: sg.relayout(PLANES, out=out),
    "relayout of each image": lambda out: [sg.relayout(PLANES[place], out=out[place]) for place in range(2)],
    "tensor.relayout": lambda out: PLANES.relayout(out=out),
    "plan_relayout": lambda out: sg.plan_relayout(PLANES, PLANNED)(PLANES, out),
    "frames": lambda out: sg.relayout([FRAME, FRAME], out=out),
    "frames plan": lambda out: sg.plan_relayout([FRAME, FRAME], PLANNED)([FRAME, FRAME], out),
    "resize": lambda out: sg.resize(PLANES, (4, 6), out=out),
    "plan_resize": lambda out: sg.plan_resize(PLANES, PLANNED)(PLANES, out),
    "letterbox": lambda out: sg.letterbox(PLANES, (4, 6), out=out),
    "plan_letterbox": lambda out: sg.plan_letterbox(PLANES, PLANNED)(PLANES, out),
    "gather_crops": lambda out: sg.gather_crops(list(PLANES), ORIGINS, (4, 6), out=out),
    "plan_gather_crops": lambda out: sg.plan_gather_crops(list(PLANES), (4, 6), out=PLANNED)(
        list(PLANES), ORIGINS, out
    ),
    "gather": lambda out: sg.gather(PLANES, [0, 1], out=out),
    "plan_gather": lambda out: sg.plan_gather(PLANES, [0, 1], out=PLANNED)(PLANES, sg.asarray([0, 1]), out),
    "scatter_nd": lambda out: sg.scatter_nd(PLANES, [[0]], PLANES[:1], out=out),
    "t[...] =": lambda out: out.__setitem__(..., PLANES),
    "t[i] =": assigned,
    "t[...] = number": lambda out: out.__setitem__(..., 7),
}


def over_used_memory():
    memory = np.full((2, 4, 6, 8), 0xAB, np.uint8)
    return sg.from_pointer(memory.ctypes.data, SIZES, "uint8", layout="NHWC8", owner=memory)


ORIGINS_OF_OUT = {
    "empty": lambda: sg.empty(SIZES, "uint8", layout="NHWC8", device="cpu"),
    "full": lambda: sg.full(SIZES, 9, "uint8", layout="NHWC8", device="cpu"),
    "from_pointer": over_used_memory,
}


@pytest.mark.parametrize("make", ORIGINS_OF_OUT.values(), ids=ORIGINS_OF_OUT.keys())
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
def test_pixels_written_over_used_memory_have_zeros_behind_them(write, make, monkeypatch):
    monkeypatch.setattr(CpuDevice, "_new_bytes", staticmethod(lambda count, dtype: np.full(count, 0xAB, dtype)))
    out = make()
    write(out)
    assert out.numpy().all()
    assert not out.as_strided((2, 8, 4, 6), out.strides)[:, 3:].numpy().any()


@pytest.mark.parametrize("device", ["cpu", "cuda-emulated"])
@pytest.mark.parametrize("make", [sg.empty, lambda *given, **named: sg.full(*given[:1], 7, *given[1:], **named)])
def test_new_memory_has_zeros_where_channels_are_added(make, device, monkeypatch):
    monkeypatch.setattr(CpuDevice, "_new_bytes", staticmethod(lambda count, dtype: np.full(count, 0xAB, dtype)))
    made = make(SIZES, "float16", layout="NHWC8", device=device)
    assert not made.as_strided((2, 8, 4, 6), made.strides)[:, 3:].numpy().any()


def test_memory_at_an_address_that_is_only_read_is_left_as_it_is():
    memory = np.full((2, 4, 6, 4), 0xAB, np.uint8)
    tensor = sg.from_pointer(memory.ctypes.data, SIZES, "uint8", layout="NHWC4", owner=memory)
    assert (tensor.relayout(dtype="float32").numpy() == 0xAB).all()
    with pytest.raises(sg.LayoutError):
        sg.relayout(PLANES[:1], out=tensor)
    assert (memory == 0xAB).all()


FIVE = sg.asarray(np.arange(1, 241, dtype=np.uint8).reshape(2, 4, 6, 5), dims="NHWC")
BLOCKED = {
    "relayout": lambda **where: sg.relayout(FIVE, **where),
    "conversion": lambda **where: sg.relayout(
        FIVE, dtype="float32", scale=[1, 2, 3], bias=1, channels=(4, 0, 2), **where
    ),
    "frames": lambda **where: sg.relayout([FRAME, FRAME], **where),
    "resize": lambda **where: sg.resize(FIVE, (3, 5), interpolation="opencv-linear", **where),
    "letterbox": lambda **where: sg.letterbox(FIVE, (5, 5), **where),
    "gather_crops": lambda **where: sg.gather_crops(list(FIVE), ORIGINS, (2, 3), **where),
    "boxes": lambda **where: sg.gather_crops(list(FIVE), size=(2, 3), boxes=[[0, 0, 4, 6]] * 2, **where),
}


@pytest.mark.parametrize("order", ["NCHW4", "NCHW2", "CHWN4"])
@pytest.mark.parametrize("call", BLOCKED.values(), ids=BLOCKED.keys())
def test_an_output_in_blocks_of_channels_is_filled(call, order):
    expected = call(layout=order)
    memory = np.full(expected.layout.span, 99, expected.dtype)
    sizes = (*expected.sizes[:1], expected.sizes[1] * expected.sizes[2], *expected.sizes[3:])
    out = sg.from_pointer(memory.ctypes.data, sizes, expected.dtype, layout=order, owner=memory)
    assert out.layout == expected.layout
    assert call(out=out) is out
    assert np.array_equal(out.numpy(), expected.numpy())
    assert memory.tobytes() == expected.buffer.bytes[: memory.nbytes].tobytes()


@pytest.mark.parametrize("multiple", [2, 3, 5, 8])
def test_an_output_of_any_strides_has_blocks_of_any_size(multiple):
    out = sg.full((-(-5 // multiple), multiple, 4, 6), 99, "uint8", device="cpu")
    sg.relayout(FIVE[1], out=out)
    stored = np.zeros((out.sizes[0] * multiple, 4, 6), np.uint8)
    stored[:5] = FIVE[1].numpy()
    assert np.array_equal(out.numpy().reshape(stored.shape), stored)


@pytest.mark.parametrize("sizes", [(2, 3, 4, 4, 6), (2, 5, 1, 4, 6), (2, 1, 4, 4, 6)])
def test_an_output_of_one_axis_more_that_has_no_such_blocks_is_refused(sizes):
    out = sg.zeros(sizes, "uint8", device="cpu")
    for call in (BLOCKED["relayout"], lambda out: sg.letterbox(FIVE, (4, 6), out=out)):
        with pytest.raises(sg.LayoutError, match=r"out has sizes"):
            call(out=out)


def test_a_matrix_does_not_fill_an_output_in_blocks():
    out = sg.full((2, 1, 4, 4, 6), 99, "uint8", device="cpu")
    with pytest.raises(sg.LayoutError, match="matrix= does not fill channels up"):
        sg.relayout(FIVE, matrix=[[1, 0, 0, 0, 0]], out=out)
    assert (out.numpy() == 99).all()
