"""Plans that are made once and run many times, and what they refuse to run on."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from harness.guarded_memory import bits_of, guarded, seeds
from harness.native_loops import needs_library
from harness.strategies import element_types, layouts_of, tensor_sizes
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu import BindingError, BufferTensorDesc, DeviceError, Layout, LayoutError, StridedTensor
from stridedgpu.api.arguments import plan_operand
from stridedgpu.operations.plans import PlanOperand
from stridedgpu.operations.relayout import RelayoutPlan
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.tensor_spec import TensorSpec

FRAMES = (1, 3, 16, 32)


def memory_at(alignment, nbytes, past=0):
    """Bytes that start `past` after a multiple of `alignment`."""
    memory = np.zeros(nbytes + 2 * alignment, np.uint8)
    start = -memory.ctypes.data % alignment + past
    return memory[start : start + nbytes]


def frames(seed=0):
    numbers = np.random.default_rng(seed).integers(0, 256, FRAMES, np.uint8)
    tensor = sg.empty(FRAMES, "uint8", layout="NHWC", alignment=64, device="cpu")
    tensor[...] = numbers
    return tensor


def planes(dtype="float32"):
    return sg.zeros(FRAMES, dtype, alignment=64, device="cpu")


# Running


@given(st.data(), element_types(), seeds)
def test_a_plan_does_what_relayout_does(data, element, seed):
    sizes = data.draw(tensor_sizes(0, 6, least=0))
    source, source_memory = guarded(data.draw(layouts_of(sizes)), element, seed)
    out, memory = guarded(data.draw(layouts_of(sizes, broadcast=False)), element, seed + 1)
    expected = memory.copy()
    bits_of(out.layout, out.itemsize, expected)[...] = bits_of(source.layout, source.itemsize, source_memory)
    sg.plan_relayout(source, out)(source, out)
    assert memory.tobytes() == expected.tobytes()


def test_a_plan_runs_again_on_other_tensors_of_the_same_layout():
    arguments = {"scale": (1.0, 2.0, 3.0), "bias": 0.5, "channels": (2, 1, 0)}
    plan = sg.plan_relayout(frames(), planes(), **arguments)
    for seed in range(3):
        source, out = frames(seed), planes()
        plan(source, out)
        assert np.array_equal(out.numpy(), source.relayout(dtype="float32", **arguments).numpy())


def test_a_plan_runs_at_other_offsets_that_keep_its_alignment():
    batch = sg.zeros((4, *FRAMES[1:]), "uint8", layout="NHWC", alignment=64, device="cpu")
    out = sg.zeros((4, *FRAMES[1:]), "uint8", alignment=64, device="cpu")
    batch[...] = np.random.default_rng(1).integers(0, 256, batch.sizes, np.uint8)
    # The last one promises least: that nothing follows it in its buffer.
    plan = sg.plan_relayout(batch[3:], out[3:])
    for place in range(4):
        plan(batch[place : place + 1], out[place : place + 1])
    assert np.array_equal(out.numpy(), batch.numpy())


def test_a_plan_from_descriptors_is_bound_later():
    source, out = frames(), planes("uint8")
    plan = sg.plan_relayout(source.desc, out.desc)
    plan(source, out)
    assert np.array_equal(out.numpy(), source.numpy())


@given(st.data(), element_types(), seeds)
def test_on_the_cpu_a_plan_for_tensors_runs_on_others_that_lie_anywhere(data, element, seed):
    """Planned for tensors that own their padding at the best of addresses, run on borrowed memory at the worst."""
    sizes = data.draw(tensor_sizes(0, 5, least=0))
    pitch = data.draw(st.integers(0, 3)) * element.itemsize
    whole = [sg.empty(sizes, element, alignment=256, device="cpu") for _ in range(2)]
    if len(sizes) > 1:
        row = max(sizes[-1], 1) * element.itemsize
        whole[1] = sg.empty(sizes, element, row_pitch_bytes=row + pitch, alignment=256, device="cpu")
    plan = sg.plan_relayout(*whole)
    (source, source_memory), (out, memory) = (
        guarded(tensor.layout.shifted(data.draw(st.integers(0, 5))), element, seed + place)
        for place, tensor in enumerate(whole)
    )
    expected = memory.copy()
    bits_of(out.layout, out.itemsize, expected)[...] = bits_of(source.layout, source.itemsize, source_memory)
    for _ in range(data.draw(st.sampled_from([1, 20]))):  # the last ones by native loops
        plan(source, out)
    assert memory.tobytes() == expected.tobytes()


def test_a_plan_is_a_value_of_its_layouts():
    assert sg.plan_relayout(frames(1), planes()).plan is sg.plan_relayout(frames(2), planes()).plan
    assert sg.plan_relayout(frames(1), planes()).plan != sg.plan_relayout(frames(1), planes(), scale=2.0).plan


# Reading


@needs_library
def test_facts():
    plan = sg.plan_relayout(frames(), planes(), scale=2.0)
    assert plan.bytes_moved == 3 * 16 * 32 * (1 + 4)
    assert plan.index_bits == 64, "the CPU's loops have no narrower arithmetic"
    assert plan.vector_bytes == min(plan.load_bytes, plan.store_bytes)
    assert plan.kernel.startswith("channels_uint8x")
    assert plan.kernel in plan.explain()
    assert str(plan.bytes_moved) in plan.explain()
    assert "uint8 -> float32, scale" in plan.explain()


def test_a_plan_trusts_what_a_descriptor_guarantees_and_no_more():
    sizes = (1, 1, 1, 256)
    widths = {}
    for guaranteed in (0, 4, 16, 64):
        desc = BufferTensorDesc("uint8", sizes, guaranteed_base_offset_alignment=guaranteed)
        widths[guaranteed] = sg.plan_relayout(desc, desc, device="cuda").load_bytes
    assert widths == {0: 16, 4: 16, 16: 16, 64: 16}, "DirectML binds at multiples of 16 in any case"
    misaligned = sg.asarray(memory_at(64, 256, past=4))
    plan = sg.plan_relayout(misaligned, sg.empty((256,), "uint8", device="cpu"), device="cuda")
    assert plan.load_bytes == 4


def test_padding_that_is_ours_is_said_to_be():
    out = sg.empty(FRAMES, "uint8", row_pitch_bytes=64, device="cpu")
    assert "the target owns its padding" in sg.plan_relayout(frames(), out).explain()
    assert "nothing between the target's elements" in sg.plan_relayout(frames(), out[:]).explain()


# Refusals


def assert_refused(plan, source, out, fragment):
    before = out.buffer.bytes.copy()
    with pytest.raises(BindingError) as caught:
        plan(source, out)
    assert fragment in str(caught.value)
    assert out.buffer.bytes.tobytes() == before.tobytes()


def borrowed(nbytes, past=0, alignment=64):
    """A packed target over borrowed memory."""
    return StridedTensor(memory_at(alignment, nbytes, past), Layout(FRAMES), "uint8")


BINDINGS = {
    "source of other sizes": (lambda: (frames()[..., 1:], planes("uint8")), "src has sizes (1, 3, 16, 31)"),
    "source of other strides": (lambda: (planes("uint8"), planes("uint8")), "src has sizes (1, 3, 16, 32) and strides"),
    "out of other strides": (lambda: (frames(), frames()), "out has sizes (1, 3, 16, 32) and strides (1536, 1, 96, 3)"),
    "source of another type": (lambda: (frames().reinterpret("int8"), planes("uint8")), "src holds int8; the plan is"),
    "out of another type": (lambda: (frames(), planes("int8")), "out holds int8; the plan is for uint8"),
}


@pytest.mark.parametrize("make, fragment", BINDINGS.values(), ids=BINDINGS.keys())
def test_tensors_that_do_not_fit_the_plan(make, fragment):
    assert_refused(sg.plan_relayout(frames(), planes("uint8")), *make(), fragment)


def test_a_read_only_target():
    target = StridedTensor(memory_at(64, 1536), Layout(FRAMES), "uint8")
    locked = memory_at(64, 1536)
    locked.flags.writeable = False
    plan = sg.plan_relayout(frames(), target)
    assert_refused(plan, frames(), StridedTensor(locked, Layout(FRAMES), "uint8"), "out is read-only")


@pytest.mark.parametrize("owned", [False, True])
def test_only_what_a_gpu_writes_has_to_own_its_padding(owned):
    given = PlanOperand(TensorSpec(Layout((3, 5), (8, 1)), element_type("uint8"), 16, 0, owned))
    assert given.required("cuda:0", is_written=True).spec.owns_padding is owned
    assert not given.required("cuda:0").spec.owns_padding
    assert not given.required("cpu", is_written=True).spec.owns_padding


def test_addresses_off_the_alignment_that_a_descriptor_promised():
    described = [
        BufferTensorDesc("uint8", FRAMES, strides, guaranteed_base_offset_alignment=32)
        for strides in (frames().strides, None)
    ]
    plan = sg.plan_relayout(*described)
    assert_refused(plan, frames(), borrowed(1536, past=4), "which is not a multiple of the 32 bytes")
    source = StridedTensor(memory_at(64, 1536, past=8), frames().layout, "uint8")
    assert_refused(plan, source, borrowed(1536), "src starts at address 0x")


def test_a_buffer_that_ends_too_early():
    described = BufferTensorDesc("uint8", FRAMES, total_tensor_size_in_bytes=1536 + 32)
    plan = sg.plan_relayout(described, planes("uint8"))
    assert_refused(
        plan, borrowed(1536 + 3), planes("uint8"), "src's buffer ends 3 bytes after it; the plan may touch 32"
    )


def test_every_window_of_a_batch():
    source, batch = frames(), sg.empty((3, *FRAMES[1:]), "uint8", device="cpu")
    plan = sg.plan_relayout(source[:1], batch[:1])
    for place in range(3):
        plan(source[:1], batch[place : place + 1])
        assert np.array_equal(batch[place].numpy(), source[0].numpy())


def test_padding_that_is_not_what_a_descriptor_promised():
    padded = sg.empty(FRAMES, "uint8", row_pitch_bytes=64, alignment=64, device="cpu")
    plan = sg.plan_relayout(frames(), padded.desc)
    plan(frames(), padded)
    assert_refused(plan, frames(), padded[:], "out does not own its padding")


def test_memory_that_is_shared():
    whole = StridedTensor(memory_at(64, 4 * 1536), Layout((4, *FRAMES[1:])), "uint8")
    plan = sg.plan_relayout(whole[:1], whole[1:2])
    plan(whole[:1], whole[2:3])
    assert_refused(plan, whole[1:2], whole[1:2], "out shares memory with src")
    flipped = sg.plan_relayout(whole[0], whole[1, :, ::-1])
    assert_refused(flipped, whole[2], whole[2, :, ::-1], "out shares memory with src")


def test_a_stream_has_no_meaning_on_the_cpu():
    out = planes("uint8")
    plan = sg.plan_relayout(frames(), out)
    with pytest.raises(DeviceError, match="stream=1 has no meaning on the CPU"):
        plan(frames(), out, stream=1)
    assert not out.numpy().any()


PLANNING = {
    "an array": (lambda: sg.plan_relayout(np.zeros(3), planes()), "src must be a StridedTensor or a BufferTensorDesc"),
    "an array as target": (lambda: sg.plan_relayout(frames(), None), "dst must be a StridedTensor or a BufferTensor"),
    "other sizes": (
        lambda: sg.plan_relayout(frames(), planes()[:, :2]),
        "dst has sizes (1, 2, 16, 32); this relayout makes sizes (1, 3, 16, 32)",
    ),
    "other channels": (
        lambda: sg.plan_relayout(frames(), planes(), channels=(0, 1)),
        "dst has sizes (1, 3, 16, 32); this relayout makes sizes (1, 2, 16, 32)",
    ),
    "a broadcast target": (
        lambda: sg.plan_relayout(frames(), BufferTensorDesc("uint8", FRAMES, (0, 0, 0, 1))),
        "dst repeats or overlaps its own elements",
    ),
    "channels of a plain tensor": (
        lambda: sg.plan_relayout(frames()[0, 0], planes()[0, 0], channels=(0,)),
        "channels=(0,) needs a channel axis",
    ),
}


@pytest.mark.parametrize("call, fragment", PLANNING.values(), ids=PLANNING.keys())
def test_what_cannot_be_planned(call, fragment):
    with pytest.raises(LayoutError) as caught:
        call()
    assert fragment in str(caught.value)


def test_nothing_keeps_a_plan_for_a_gpu_that_nobody_has_any_more():
    sizes = (1, 1, 7, 12347)
    described = BufferTensorDesc("uint8", sizes)
    assert sg.plan_relayout(described, described, device="cuda").kernel
    gc.collect()
    plans = [entry for entry in gc.get_objects() if isinstance(entry, RelayoutPlan)]
    assert not any(plan.sides[0].spec.layout.sizes == sizes for plan in plans)


def test_a_plan_owns_the_gaps_of_the_descriptor_that_it_writes_alone():
    rows = sg.BufferTensorDesc("uint8", (1, 3, 4, 10), (192, 64, 16, 1))
    read, written = plan_operand("src", rows), plan_operand("dst", rows, is_written=True)
    assert (read.spec.owns_padding, written.spec.owns_padding) == (False, True)
    assert sg.plan_relayout(rows, rows).plan.problem.source.owns_padding is False
