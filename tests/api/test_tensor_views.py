"""Views of tensors: any chain of them is the same chain on a NumPy array, over the same memory."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from harness.guarded_memory import bits_of, guarded, seeds
from harness.profiles import examples
from harness.strategies import element_types, layouts, views
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu import BindingError, Layout, LayoutError, StridedTensor
from stridedgpu.values.dtypes import ELEMENT_TYPES

# A tensor's method for the layout's view of the strategies.
METHODS = {
    "permuted": StridedTensor.permute,
    "sliced": StridedTensor.__getitem__,
    "broadcast_to": StridedTensor.broadcast_to,
    "squeezed": StridedTensor.squeeze,
    "unsqueezed": StridedTensor.unsqueeze,
    "reshaped": lambda tensor, sizes: tensor.reinterpret(sizes=sizes),
    "aligned_to_rank": StridedTensor.ensure_rank,
}
WORDS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}


def assert_same_memory(tensor, array, memory):
    """The same elements at the same addresses, without a copy anywhere."""
    seen = bits_of(tensor.layout, tensor.itemsize, memory)
    assert tensor.sizes == array.shape
    assert tensor.itemsize == array.itemsize
    assert seen.tobytes() == array.tobytes()
    if array.size:
        assert tensor.operand.address == array.ctypes.data
        steps = [step for step, size in zip(array.strides, array.shape, strict=True) if size > 1]
        own = [step for step, size in zip(tensor.strides, tensor.sizes, strict=True) if size > 1]
        assert [step * tensor.itemsize for step in own] == steps


@settings(max_examples=examples(400))
@given(st.data(), layouts(0, 5, least=0), element_types(), seeds)
def test_chains_of_views(data, layout, element, seed):
    tensor, memory = guarded(layout, element, seed)
    array, buffer = bits_of(layout, element.itemsize, memory), tensor.buffer
    for _ in range(data.draw(st.integers(1, 5))):
        name = data.draw(st.sampled_from(["view", "view", "view", "reinterpret", "as_strided"]))
        step = {"view": viewed, "reinterpret": reinterpreted, "as_strided": restrided}[name]
        tensor, array = step(data, tensor, array, memory)
        assert_same_memory(tensor, array, memory)
        assert tensor.buffer is buffer


def viewed(data, tensor, array, memory):
    view = data.draw(views(tensor.sizes).filter(lambda view: view.name in METHODS))
    expected = view.of_array(array)
    if expected.size and not np.shares_memory(expected, array):  # NumPy had to copy
        with pytest.raises(LayoutError, match="without a copy"):
            METHODS[view.name](tensor, *view.arguments)
        return tensor, array
    return METHODS[view.name](tensor, *view.arguments), expected


def reinterpreted(data, tensor, array, memory):
    itemsize = data.draw(st.sampled_from(list(WORDS)))
    try:
        expected = array.view(f"V{itemsize}")
    except ValueError:
        with pytest.raises(LayoutError):
            tensor.reinterpret(WORDS[itemsize])
        return tensor, array
    try:
        return tensor.reinterpret(WORDS[itemsize]), expected
    except LayoutError:
        # NumPy also looks at elements that start between two whole ones; a layout in whole elements cannot.
        steps = [stride for size, stride in zip(tensor.sizes[:-1], tensor.strides, strict=False) if size > 1]
        assert array.size
        assert any(distance * tensor.itemsize % itemsize for distance in (tensor.layout.offset, *steps))
        return tensor, array


def restrided(data, tensor, array, memory):
    sizes = data.draw(st.lists(st.integers(0, 4), max_size=3))
    strides = data.draw(st.lists(st.integers(-4, 4), min_size=len(sizes), max_size=len(sizes)))
    layout = Layout(sizes, strides, tensor.layout.offset + data.draw(st.integers(-4, 4)))
    outside = layout.first_offset < 0 or (layout.first_offset + layout.span) * tensor.itemsize > memory.size
    if outside and layout.span:
        with pytest.raises(BindingError, match=f"outside its buffer of {memory.size} bytes"):
            tensor.as_strided(sizes, strides, layout.offset - tensor.layout.offset)
        return tensor, array
    made = tensor.as_strided(sizes, strides, layout.offset - tensor.layout.offset)
    return made, bits_of(layout, tensor.itemsize, memory)


@given(layouts(0, 4, least=0, broadcast=False), element_types("buif").filter(lambda e: e.name != "bfloat16"), seeds)
def test_numpy_is_the_memory_itself(layout, element, seed):
    tensor, memory = guarded(layout, element, seed)
    array = tensor.numpy()
    assert array.dtype == element.name
    assert_same_memory(tensor, array, memory)
    memory[:] = 0
    assert not array.any()
    array[...] = 1
    assert array.tobytes() == tensor.numpy().tobytes()
    assert memory.any() == bool(array.size)


# Labels


def test_labels_follow_the_axes():
    tensor = sg.empty((2, 3, 4, 5), "uint8", layout="NHWC", device="cpu")
    assert tensor.dims == "NCHW"
    assert tensor[0].dims == "CHW"
    assert tensor[:, 0].dims == "NHW"
    assert tensor[..., 2:4].dims == "NCHW"
    assert tensor.permute("NHWC").dims == "NHWC"
    assert tensor.permute((3, 2, 1, 0)).dims == "WHCN"
    assert tensor.unsqueeze(0).dims == "NCHW"
    assert tensor.unsqueeze(4).dims is None, "a plain axis behind labelled ones"
    assert tensor[0].broadcast_to((7, 3, 4, 5)).dims == "CHW"
    assert tensor[:1].squeeze().dims == "CHW"
    assert tensor[:1].squeeze(0).dims == "CHW"
    assert tensor[0].ensure_rank(4).dims == "NCHW"
    assert tensor[0, 0].ensure_rank(4).dims == "NCHW"
    assert tensor[:1].ensure_rank(3).dims == "CHW"
    assert tensor.reinterpret("int8").dims == "NCHW"
    assert tensor[0, 0, 0, 0].dims is None


def test_permute_by_letters():
    frames = np.arange(120, dtype=np.int32).reshape(2, 4, 5, 3)
    tensor = sg.asarray(frames, dims="NHWC")
    assert np.array_equal(tensor.permute("NHWC").numpy(), frames)
    plain = sg.asarray(frames.transpose(0, 3, 1, 2))
    assert np.array_equal(plain.permute("NHWC").numpy(), frames), "axes of rank 4 are NCHW where nothing is said"
    with_plain_axis = sg.asarray(frames, dims="HWC")
    assert with_plain_axis.sizes == (2, 3, 4, 5)
    assert with_plain_axis.permute("WHC").sizes == (2, 5, 4, 3), "plain axes stay in front"


# Reinterpretation


def test_axes_that_are_no_integers_are_refused_after_equal_ones_too():
    tensor = sg.asarray(np.zeros((2, 1, 4)))
    assert tensor.permute([1, 0, 2]).sizes == (1, 2, 4)
    assert tensor.squeeze((1,)).sizes == tensor.squeeze([1]).sizes == (2, 4)
    with pytest.raises(sg.LayoutError, match=r"axes=\(1\.0, 0, 2\) must be integers"):
        tensor.permute([1.0, 0, 2])
    with pytest.raises(sg.LayoutError, match=r"axis=\(True,\) must be integers"):
        tensor.squeeze((True,))


def test_reinterpret_counts_the_last_axis_as_numpy_does():
    array = np.arange(24, dtype=np.uint32).reshape(2, 3, 4)
    tensor = sg.asarray(array)
    for dtype in ("uint8", "uint16", "float32", "int64", "complex128"):
        seen = tensor.reinterpret(dtype)
        assert seen.sizes == array.view(dtype).shape
        assert seen.numpy().tobytes() == array.tobytes()
        assert seen.operand.address == array.ctypes.data


def test_reinterpret_with_sizes_and_strides():
    array = np.arange(12, dtype=np.int64) << 33
    tensor = sg.asarray(array)
    high = tensor[1:].reinterpret("uint32", (11,), (2,))
    assert high.numpy().tolist() == [0] * 11
    assert high.operand.address == array.ctypes.data + 8
    low = tensor.reinterpret("uint32", (3, 8))[:, 1::2]
    assert low.numpy().reshape(-1).tolist() == [2 * n for n in range(12)]


def test_an_axis_of_one_element_is_contiguous_whatever_its_stride():
    column = sg.asarray(np.arange(8, dtype=np.uint32).reshape(4, 2))[:, ::2]
    assert column.sizes == (4, 1)
    assert column.strides == (2, 2)
    assert np.array_equal(column.reinterpret("uint8").numpy(), column.numpy().view(np.uint8))


# What a view keeps of its tensor


def test_alignment_is_what_the_offset_leaves():
    tensor = sg.empty((4, 64), "float32", alignment=64, device="cpu")
    assert [tensor[:, start:].alignment for start in (0, 1, 2, 4, 8, 16, 24)] == [64, 4, 8, 16, 32, 64, 32]
    assert tensor[1].alignment == 64
    for start in range(20):
        view = tensor[:, start:]
        assert view.operand.address % view.alignment == 0


def test_only_views_of_all_elements_own_their_padding():
    tensor = sg.empty((1, 3, 4, 5), "uint8", layout="NHWC", row_pitch_bytes=32, device="cpu")
    assert tensor.operand.owns_padding
    whole = [tensor.permute("NHWC"), tensor.squeeze(), tensor.unsqueeze(0), tensor.ensure_rank(5)]
    assert all(view.operand.owns_padding for view in [*whole, tensor.reinterpret("int8")])
    parts = [tensor[...], tensor[0], tensor.broadcast_to((2, 3, 4, 5)), tensor.as_strided((3,), (1,))]
    assert not any(view.operand.owns_padding for view in parts)


def test_relayout_into_a_part_leaves_the_rest_of_an_owned_tensor():
    tensor = sg.full((4, 6), 9, "uint8", row_pitch_bytes=8, device="cpu")
    tensor.buffer.bytes[:] = 9
    tensor[1:3, 2:5] = 1
    expected = np.full((4, 8), 9, np.uint8)
    expected[1:3, 2:5] = 1
    assert np.array_equal(tensor.buffer.bytes[:30], expected.reshape(-1)[:30])


class Owner:
    """Memory that says when it is let go."""

    def __init__(self, nbytes):
        self.memory = np.zeros(nbytes, np.uint8)
        self.__array_interface__ = self.memory.__array_interface__


def test_views_and_arrays_keep_the_owner_of_their_memory_alive():
    owner = Owner(64)
    gone = weakref.ref(owner)
    tensor = sg.asarray(owner)
    holders = [
        lambda t: t[8:][::2],
        lambda t: t.reinterpret("uint32", (4, 4)).permute((1, 0)),
        lambda t: t.numpy(),
        lambda t: t.numpy()[3:],
        lambda t: t.buffer,
        lambda t: memoryview(t.numpy()),
    ]
    held = [make(tensor) for make in holders]
    del owner, tensor
    while held:
        gc.collect()
        assert gone() is not None, f"let go while {held[-1]!r} was in use"
        held.pop()
    gc.collect()
    assert gone() is None


def test_a_view_of_a_temporary_array_stays_readable():
    numbers = np.arange(100_000, dtype=np.int64)
    views_of_temporaries = [sg.asarray(numbers.copy())[5::7] for _ in range(5)]
    gc.collect()
    scribble = [np.full(100_000, -1, np.int64) for _ in range(5)]
    assert all(np.array_equal(view.numpy(), numbers[5::7]) for view in views_of_temporaries)
    del scribble


def test_borrowed_memory_cannot_be_resized_or_freed_under_a_tensor():
    memory = bytearray(32)
    tensor = StridedTensor(memory, Layout((32,)), "uint8")
    view = tensor[4:8]
    del tensor
    view[...] = 7
    assert memory[4:8] == bytes([7] * 4)
    with pytest.raises(BufferError):
        memory.extend(bytes(1 << 20))


def test_read_only_memory_stays_read_only():
    array = np.arange(12)
    array.flags.writeable = False
    sources = [array, bytes(16), memoryview(bytes(16)), np.broadcast_to(np.arange(4), (3, 4))]
    for source in sources:
        tensor = sg.asarray(source)
        for view in (tensor, tensor[1:], tensor.reinterpret("uint8") if tensor.strides[-1] == 1 else tensor):
            assert view.buffer.readonly
            assert not view.numpy().flags.writeable
            assert not np.asarray(view).flags.writeable
            with pytest.raises(BindingError, match="read-only"):
                view[...] = 0
    assert array.tolist() == list(range(12))


def test_a_broadcast_view_is_not_written_through_numpy():
    tensor = sg.zeros((3,), "uint8", device="cpu").broadcast_to((2, 3))
    assert not tensor.numpy().flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        tensor.numpy()[0, 0] = 1


def test_iteration_and_length():
    tensor = sg.asarray(np.arange(6).reshape(3, 2))
    assert len(tensor) == 3
    assert [row.numpy().tolist() for row in tensor] == [[0, 1], [2, 3], [4, 5]]
    assert all(row.buffer is tensor.buffer for row in tensor)


def test_every_type_can_be_viewed_without_the_library_that_names_it():
    for element in ELEMENT_TYPES.values():
        tensor = StridedTensor(bytearray(64), Layout((2, 2)), element)
        assert tensor[1, ::-1].reinterpret("uint8", (element.itemsize,), (1,)).sizes == (element.itemsize,)


@pytest.mark.parametrize("sizes", [(2**70,), (2**62, 2**62), (2**63 - 1, 2)], ids=str)
@pytest.mark.parametrize(
    "export", [StridedTensor.numpy, np.asarray, StridedTensor.__dlpack__], ids=lambda f: f.__name__
)
def test_a_broadcast_beyond_numpys_counting_is_refused_in_words(sizes, export):
    tensor = sg.zeros((1,) * len(sizes), "float32", device="cpu").broadcast_to(sizes)
    with pytest.raises(LayoutError, match=r"more than the 2\*\*63 bytes.*slice the tensor first"):
        export(tensor)


def test_a_view_of_other_elements_or_strides_owns_no_padding():
    tensor = sg.zeros((4, 8), "uint8", device="cpu")
    assert tensor.operand.owns_padding
    assert tensor.reinterpret("uint16").operand.owns_padding
    for view in (
        tensor.reinterpret("uint8", (4, 2), (8, 1)),
        tensor.as_strided((4, 2), (8, 1)),
        tensor.broadcast_to((2, 4, 8)),
        tensor[:, :2],
    ):
        assert not view.operand.owns_padding


@pytest.mark.parametrize("axis", range(-4, 4))
def test_a_new_axis_in_front_keeps_the_labels_and_one_between_has_none(axis):
    tensor = sg.asarray(np.zeros((3, 5, 7), np.uint8), dims="CHW").unsqueeze(axis)
    place = axis % 4
    assert tensor.sizes == tuple(np.insert((3, 5, 7), place, 1).tolist())
    assert tensor.dims == tensor.squeeze(place).dims == (None if place else "CHW")
