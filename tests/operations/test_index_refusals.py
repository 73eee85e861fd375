"""Every refusal of gathers, scatters and crops: its type, the value in its message, and that nothing was written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu import BindingError, DeviceError, ElementTypeError, Layout, LayoutError, StridedTensor
from stridedgpu.problems.index_rule import IndexRule
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.tensor_spec import TensorSpec

DATA = np.arange(24, dtype=np.int32).reshape(4, 6)
HUGE = 2**62


def memory_of(sizes, dtype="int32"):
    return np.full(int(np.prod(sizes)) * np.dtype(dtype).itemsize + 64, 0xA5, np.uint8)


@pytest.fixture
def world():
    """Data, and everything that may be written, all over memory that the test can look at."""
    held = {"data": DATA.copy().view(np.uint8).reshape(-1), "out": memory_of((8, 8))}
    locked = held["out"].view()
    locked.flags.writeable = False

    def out(sizes, dtype="int32", strides=None, memory=held["out"]):
        return StridedTensor(memory, Layout(sizes, strides), dtype)

    return SimpleNamespace(
        held=held,
        data=StridedTensor(held["data"], Layout((4, 6)), "int32"),
        out=out,
        locked=lambda sizes: out(sizes, memory=locked),
        overlapping=lambda sizes: out(sizes, strides=(0, 1)),
        on_data=lambda sizes: StridedTensor(held["data"], Layout(sizes, (1, 2)), "int32"),
        photos=[np.zeros((5, 7, 3), np.uint8), np.ones((4, 4, 3), np.uint8)],
    )


def updates(sizes):
    return np.zeros(sizes, np.int32)


@dataclasses.dataclass(frozen=True)
class Operation:
    """How to call it on the world's data, indices that fit, and the sizes of the result."""

    call: Callable[..., StridedTensor]
    good: list[Any]
    made: tuple[int, ...]


OPERATIONS = {
    "gather": Operation(lambda w, i, **k: sg.gather(w.data, i, **k), [1, 2], (2, 6)),
    "gather_elements": Operation(lambda w, i, **k: sg.gather_elements(w.data, i, **k), [[1, 2]], (1, 2)),
    "gather_nd": Operation(lambda w, i, **k: sg.gather_nd(w.data, i, **k), [[1, 2], [3, 4]], (2,)),
    "scatter_elements": Operation(
        lambda w, i, **k: sg.scatter_elements(w.data, i, updates(getattr(i, "shape", (1, 2))), **k), [[1, 2]], (4, 6)
    ),
    "scatter_nd": Operation(lambda w, i, **k: sg.scatter_nd(w.data, i, updates((len(i), 6)), **k), [[1], [3]], (4, 6)),
}


def placed(operation, value, dtype="int64"):
    """Good indices with one of them replaced."""
    indices = np.array(operation.good, dtype)
    indices.reshape(-1)[0] = value
    return indices


def wrong_index(value, dtype="int64"):
    def call(w, operation):
        operation.call(w, placed(operation, value, dtype), out=w.out(operation.made))

    return call


REFUSALS = {
    "too large": (wrong_index(4), IndexError, "= 4 is out of range for axis 0 of size 4: valid are -4 to 3"),
    "too small": (wrong_index(-5), IndexError, "= -5 is out of range for axis 0 of size 4"),
    "enormous": (wrong_index(HUGE), IndexError, f"= {HUGE} is out of range"),
    "the least number": (wrong_index(-(2**63)), IndexError, f"= {-(2**63)} is out of range"),
    "enormous and unsigned": (wrong_index(2**64 - 1, "uint64"), IndexError, f"= {2**64 - 1} is out of range"),
    "floats": (lambda w, o: o.call(w, np.array(o.good, float)), ElementTypeError, "indices hold float64"),
    "small integers": (lambda w, o: o.call(w, np.array(o.good, np.int16)), ElementTypeError, "asarray(indices, dtype"),
    "booleans": (lambda w, o: o.call(w, np.array(o.good, bool)), ElementTypeError, "indices hold bool"),
    "words": (lambda w, o: o.call(w, ["one"]), ElementTypeError, "indices"),
    "uneven rows": (lambda w, o: o.call(w, [[1], [2, 3]]), ElementTypeError, "indices=[[1], [2, 3]]"),
    "another size of out": (
        lambda w, o: o.call(w, o.good, out=w.out((3, 3))),
        LayoutError,
        "out has sizes (3, 3); the result has sizes",
    ),
    "another type of out": (
        lambda w, o: o.call(w, o.good, out=w.out(o.made, "float32")),
        LayoutError,
        "out holds float32; the result is int32",
    ),
    "read-only": (lambda w, o: o.call(w, o.good, out=w.locked(o.made)), BindingError, "out is read-only"),
    "no tensor": (lambda w, o: o.call(w, o.good, out=[[0]]), LayoutError, "out is a list, whose memory"),
    "a stream on the CPU": (lambda w, o: o.call(w, o.good, stream=7), DeviceError, "stream=7 has no meaning"),
}

OF_GATHERS = {
    "deferred on the CPU": (
        lambda w, o: o.call(w, placed(o, 9), mode="deferred", out=w.out(o.made)),
        IndexError,
        "= 9 is out of range",
    ),
}

ALONE = {
    "gather: an axis of a scalar": (lambda w: sg.gather(np.int16(3), [0]), LayoutError, "axis=0 is out of range"),
    "gather: more than 64 bits": (
        lambda w: sg.gather(w.data, [2**70]),
        ElementTypeError,
        "integers of at most 64 bits",
    ),
    "gather: out on the indices": (
        lambda w: sg.gather(w.data, w.out((2,), "int64"), out=w.out((2, 6))),
        BindingError,
        "out shares memory with indices",
    ),
    "gather: an axis without elements": (
        lambda w: sg.gather(w.data[:0], [0], mode="clip"),
        IndexError,
        "axis 0 has no elements, so none of the 1 indices is valid in any mode",
    ),
    "gather: out overlaps itself": (
        lambda w: sg.gather(w.data, [0, 1], out=w.overlapping((2, 6))),
        LayoutError,
        "out repeats or overlaps its own elements",
    ),
    "gather: out on the data": (
        lambda w: sg.gather(w.data, [0, 1], out=w.on_data((2, 6))),
        BindingError,
        "out shares memory with data",
    ),
    "gather_elements: too large beside the axis": (
        lambda w: sg.gather_elements(w.data, np.zeros((1, 7), np.int64)),
        LayoutError,
        "indices have size 7 along axis 1, and data 6",
    ),
    "gather_nd: none": (lambda w: sg.gather_nd(w.data, np.zeros((2, 0), int)), LayoutError, "hold tuples of 0"),
    "gather_nd: batches apart": (
        lambda w: sg.gather_nd(w.data, np.zeros((3, 1), int), batch_dims=1),
        LayoutError,
        "the first batch_dims=1 sizes of data (4, 6) and indices (3, 1) must be equal",
    ),
    "scatter_elements: updates of another type": (
        lambda w: sg.scatter_elements(w.data, [[0]], np.zeros((1, 1))),
        ElementTypeError,
        "updates hold float64 and data int32",
    ),
    "scatter_elements: updates of other sizes": (
        lambda w: sg.scatter_elements(w.data, [[0]], updates((1, 2))),
        LayoutError,
        "updates have sizes (1, 2); these indices need sizes (1, 1)",
    ),
    "scatter_elements: one element twice": (
        lambda w: sg.scatter_elements(w.data, [[3], [-1]], updates((2, 1)), unique=True, out=w.out((4, 6))),
        IndexError,
        "indices[0, 0] = 3 and indices[1, 0] = -1 name the same element",
    ),
    "scatter_nd: one slice twice": (
        lambda w: sg.scatter_nd(w.data, [[1], [0], [1]], updates((3, 6)), unique=True, out=w.out((4, 6))),
        IndexError,
        "indices[0] = [1] and indices[2] = [1] name the same element",
    ),
    "scatter_nd: updates of other sizes": (
        lambda w: sg.scatter_nd(w.data, [[0]], updates((1, 5))),
        LayoutError,
        "updates have sizes (1, 5); these indices need sizes (1, 6)",
    ),
    "scatter: out on the data": (
        lambda w: sg.scatter_elements(w.data[:2], [[0]], updates((1, 1)), out=w.data[1:3]),
        BindingError,
        "out shares memory with data",
    ),
    "scatter: out on the indices": (
        lambda w: sg.scatter_nd(w.data, w.out((1, 1), "int64"), updates((1, 6)), out=w.out((4, 6))),
        BindingError,
        "out shares memory with indices",
    ),
    "scatter: out on the updates": (
        lambda w: sg.scatter_elements(w.data, [[0]], w.out((1, 1)), out=w.out((4, 6))),
        BindingError,
        "out shares memory with updates",
    ),
}


def crops(w, origins=((0, 0), (1, 1)), size=(2, 3), **keywords):
    return sg.gather_crops(keywords.pop("sources", w.photos), origins, size, **{"dims": "HWC", **keywords})


OF_CROPS = {
    "sources of two types": (
        lambda w: crops(w, sources=[w.photos[0], w.photos[1].astype(np.float32)]),
        ElementTypeError,
        "sources[1] holds float32 and sources[0] uint8",
    ),
    "sources of other channels": (
        lambda w: crops(w, sources=[w.photos[0], w.photos[1][:, :, :1]]),
        LayoutError,
        "sources[1] has 1 channels and sources[0] 3",
    ),
    "no sources": (lambda w: crops(w, sources=[]), LayoutError, "sources is empty"),
    "origins of one axis": (lambda w: crops(w, [0, 0]), LayoutError, "origins have sizes (2,)"),
    "a batch of one image": (
        lambda w: crops(w, sources=w.photos[0], dims=None),
        LayoutError,
        "sources has sizes (5, 7, 3)",
    ),
    "a batch in a list": (
        lambda w: crops(w, [(0, 0)], sources=[w.photos[0][None]], dims=None),
        LayoutError,
        "sources[0] has sizes (1, 5, 7, 3)",
    ),
    "a negative window": (lambda w: crops(w, size=(2, -1)), LayoutError, "-1"),
    "flips of numbers": (lambda w: crops(w, flip=[1, 0]), LayoutError, "flip=[1, 0]"),
    "a complex fill": (lambda w: crops(w, fill=1j), LayoutError, "fill=1j"),
    "two scales": (lambda w: crops(w, scale=(1, 2)), LayoutError, "scale has 2"),
    "another size of out": (lambda w: crops(w, out=w.out((2, 3), "uint8")), LayoutError, "out has sizes (2, 3)"),
    "another type of out": (
        lambda w: crops(w, dtype="int8", out=w.out((2, 3, 2, 3), "uint8")),
        LayoutError,
        "out holds uint8",
    ),
    "out overlaps itself": (
        lambda w: crops(w, out=w.out((2, 3, 2, 3), "uint8", (0, 6, 3, 1))),
        LayoutError,
        "out repeats or overlaps",
    ),
    "out on a source": (
        lambda w: crops(w, sources=w.out((2, 3, 3, 3), "uint8"), out=w.out((2, 3, 2, 3), "uint8"), dims=None),
        BindingError,
        "out shares memory with sources",
    ),
    "a stream on the CPU": (
        lambda w: crops(w, out=w.out((2, 3, 2, 3), "uint8"), stream=1),
        DeviceError,
        "stream=1 has no meaning",
    ),
    "read-only": (lambda w: crops(w, dtype="int32", out=w.locked((2, 3, 2, 3))), BindingError, "out is read-only"),
    "out and a layout": (
        lambda w: crops(w, dtype="int32", out=w.out((2, 3, 2, 3)), layout="NHWC"),
        LayoutError,
        "leave out layout",
    ),
    "a channel that is not there": (lambda w: crops(w, channels=(0, 3)), LayoutError, "3"),
}


def refused(world, call, error, fragment):
    before = {name: bytes_.copy() for name, bytes_ in world.held.items()}
    with pytest.raises(error) as caught:
        call(world)
    assert type(caught.value) is error
    assert fragment in str(caught.value)
    for name, bytes_ in world.held.items():
        assert bytes_.tobytes() == before[name].tobytes(), f"{name} was written"


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_of_every_operation(world, operation, case):
    call, error, fragment = REFUSALS[case]
    refused(world, lambda w: call(w, OPERATIONS[operation]), error, fragment)


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name.startswith("gather")])
@pytest.mark.parametrize("case", OF_GATHERS)
def test_refusals_of_gathers(world, operation, case):
    call, error, fragment = OF_GATHERS[case]
    refused(world, lambda w: call(w, OPERATIONS[operation]), error, fragment)


@pytest.mark.parametrize("case", ALONE)
def test_refusals_of_one_operation(world, case):
    refused(world, *ALONE[case])


@pytest.mark.parametrize("case", OF_CROPS)
def test_refusals_of_crops(world, case):
    refused(world, *OF_CROPS[case])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_indices_are_no_error(world, operation):
    good = np.array(OPERATIONS[operation].good)
    made = OPERATIONS[operation].call(world, good[:0])
    assert made.numpy().tolist() == (DATA.tolist() if operation.startswith("scatter") else [])


def test_a_wrong_tuple_names_the_axis_of_its_component():
    data = np.zeros((3, 4, 5), np.uint8)
    with pytest.raises(IndexError, match=r"indices\[1, 2\] = 9 is out of range for axis 2 of size 5"):
        sg.gather_nd(data, [[0, 0, 0], [0, 0, 9]])
    with pytest.raises(IndexError, match=r"indices\[2, 0\] = -4 is out of range for axis 0 of size 3"):
        sg.gather_nd(data, [[0, 0, 0], [0, 0, 0], [-4, 0, 0]])


def test_slices_that_are_named_whole_have_one_number_each():
    index = TensorSpec(Layout((4, 1)), element_type("int64"), 8)
    rule = IndexRule(index, ((0, 10),), has_tuples=True, own_pitches=(), axis_pitches=(60,))
    assert (rule.name_pitches, rule.name_count) == (((), (1,)), 10)
    rule = dataclasses.replace(rule, axes=((0, 10), (1, 6)), axis_pitches=(60, 10))
    assert (rule.name_pitches, rule.name_count) == (((), (6, 1)), 60)


MASKED = np.ma.masked_array([[0], [1]], [[False], [True]])
NAMED = {
    "gather": lambda indices: sg.gather(DATA, indices),
    "gather_elements": lambda indices: sg.gather_elements(DATA, indices),
    "gather_nd": lambda indices: sg.gather_nd(DATA, indices),
    "scatter_nd": lambda indices: sg.scatter_nd(DATA, indices, DATA[:2]),
    "plan_gather": lambda indices: sg.plan_gather(sg.asarray(DATA), indices),
    "origins": lambda origins: sg.gather_crops([np.zeros((8, 8, 3), np.uint8)], origins, (4, 4), dims="HWC"),
}


@pytest.mark.parametrize("call", NAMED.values(), ids=NAMED)
@pytest.mark.parametrize("given", [MASKED, [MASKED, MASKED]], ids=["an array", "a list of them"])
def test_indices_that_are_masked_are_refused_by_their_mask(call, given):
    with pytest.raises(sg.LayoutError, match=r"^(indices|origins): This masked array hides 1 of its 2 elements"):
        call(given)


@pytest.mark.parametrize("call", NAMED.values(), ids=NAMED)
@pytest.mark.parametrize("given", [[[2**64, 0]], [["a", 0]], [[1, 0], [1]], [[None, 0]]], ids=repr)
def test_what_is_no_array_of_64_bits_is_refused_with_the_name_of_the_argument(call, given):
    with pytest.raises(sg.ElementTypeError, match=r"^(indices|origins)=\[\[.* must be integers of at most 64 bits"):
        call(given)
