"""Calls whose loops need no more than addresses: from the first one on that finds these loops ready."""

from __future__ import annotations

import numpy as np
import pytest
from harness.native_loops import needs_library

import stridedgpu as sg

pytestmark = needs_library

DATA = np.arange(12, dtype=np.float32).reshape(3, 4)
NUMBERS = np.array([2, 0])


def gather_into(data, numbers, out, stream=None):
    return sg.gather(data, numbers, out=out, stream=stream)


def relayout_into(data, out, stream=None):
    return sg.relayout(data, dtype="int32", out=out, stream=stream)


TUPLES, UPDATES = NUMBERS[:, None], -DATA[:2]
SCATTERED = np.array([UPDATES[1], DATA[1], UPDATES[0]])


def scatter_into(data, indices, updates, out, stream=None):
    return sg.scatter_nd(data, indices, updates, unique=True, out=out, stream=stream)


CALLS = {
    "planned relayout": (lambda: sg.plan_relayout(sg.asarray(DATA), sg.empty((3, 4), "int32")), (DATA,), DATA),
    "planned gather": (
        lambda: sg.plan_gather(DATA, NUMBERS, out=sg.empty((2, 4), "float32")),
        (DATA, NUMBERS),
        DATA[NUMBERS],
    ),
    "planned scatter": (
        lambda: sg.plan_scatter_nd(DATA, TUPLES, UPDATES, unique=True, out=sg.empty((3, 4), "float32")),
        (DATA, TUPLES, UPDATES),
        SCATTERED,
    ),
    "relayout": (lambda: relayout_into, (DATA,), DATA),
    "gather": (lambda: gather_into, (DATA, NUMBERS), DATA[NUMBERS]),
    "scatter": (lambda: scatter_into, (DATA, TUPLES, UPDATES), SCATTERED),
}
calls = pytest.mark.parametrize("call", list(CALLS))


@calls
def test_every_call_has_the_same_result(call):
    """Before the loops are ready, with the launch that finds them, and without it, each time in other memory."""
    make, inputs, wanted = CALLS[call]
    run = make()
    for _ in range(3):
        out = sg.zeros(wanted.shape, "int32" if "relayout" in call else "float32")
        run(*map(sg.asarray, inputs), out)
        assert np.array_equal(out.numpy(), wanted)
    for plan in [run] if "planned" in call else []:
        assert plan.direct is not None
        assert plan == make()


@calls
def test_a_stream_is_refused_then_too(call):
    make, inputs, wanted = CALLS[call]
    run = make()
    for stream in (None, 3):
        out = sg.zeros(wanted.shape, "int32" if "relayout" in call else "float32")
        if stream is None:
            run(*map(sg.asarray, inputs), out)
            continue
        with pytest.raises(sg.DeviceError, match="stream=3 has no meaning on the CPU"):
            run(*map(sg.asarray, inputs), out, stream)
        assert not out.numpy().any()


@pytest.mark.parametrize("wrong", [3, -4])
def test_a_wrong_index_is_named_then_too(wrong):
    plan = sg.plan_gather(DATA, NUMBERS, out=sg.empty((2, 4), "float32"))
    data, out = sg.asarray(DATA), sg.zeros((2, 4), "float32")
    plan(data, sg.asarray(NUMBERS), sg.empty((2, 4), "float32"))
    assert plan.direct is not None
    with pytest.raises(IndexError, match=rf"indices\[1\] = {wrong} is out of range for axis 0 of size 3"):
        plan(data, sg.asarray(np.array([0, wrong])), out)
    assert not out.numpy().any()


def test_a_planned_out_is_refused_if_it_is_read_only_however_often():
    plan = sg.plan_relayout(sg.asarray(DATA), sg.empty((3, 4), "float32"))
    locked = np.zeros((3, 4), np.float32)
    locked.flags.writeable = False
    for _ in range(2):
        with pytest.raises(sg.BindingError, match="out is read-only"):
            plan(sg.asarray(DATA), sg.asarray(locked))


SCATTERS = {
    "by tuples": lambda data, numbers, updates, **more: sg.scatter_nd(data, numbers, updates, unique=True, **more),
    "by elements": lambda data, numbers, updates, **more: sg.scatter_elements(
        data, sg.asarray(numbers).broadcast_to((2, 4)), updates, 0, unique=True, **more
    ),
}
scatters = pytest.mark.parametrize("scatter", list(SCATTERS))


@scatters
def test_data_is_replaced_in_place_time_and_again(scatter):
    for count in range(3):
        data = sg.asarray(DATA.copy())
        assert SCATTERS[scatter](data, TUPLES, UPDATES * count, out=data) is data
        assert np.array_equal(data.numpy()[[0, 2]], UPDATES[::-1] * count)
        assert np.array_equal(data.numpy()[1], DATA[1])


@scatters
def test_the_same_layouts_at_other_places_are_copied_and_checked(scatter):
    """What a call in place has prepared is that of one into another tensor, or beside its data."""
    run = SCATTERS[scatter]
    memory = sg.asarray(np.concatenate([DATA, DATA]))
    before = memory.numpy().copy()
    data, other, beside = memory[:3], sg.zeros((3, 4), "float32"), memory[1:4]
    locked = np.zeros((3, 4), np.float32)
    locked.flags.writeable = False
    for _ in range(2):
        with pytest.raises(sg.BindingError, match="out shares memory with data"):
            run(data, TUPLES, UPDATES, out=beside)
        with pytest.raises(sg.BindingError, match="out shares memory with updates"):
            run(data, TUPLES, data[:2], out=data)
        with pytest.raises(sg.BindingError, match="out is read-only"):
            run(data, TUPLES, UPDATES, out=sg.asarray(locked))
        assert np.array_equal(memory.numpy(), before)
        assert np.array_equal(run(data, TUPLES, UPDATES, out=other).numpy(), SCATTERED)
        assert np.array_equal(run(data, TUPLES, UPDATES).numpy(), SCATTERED)
        run(data, TUPLES, DATA[[2, 0]], out=data)  # as it was
    assert np.array_equal(memory.numpy(), before)


def planned_in_place():
    plan = sg.plan_scatter_nd(DATA, TUPLES, UPDATES, unique=True, out=sg.empty((3, 4), "float32"))
    return lambda data, indices, updates, _out: plan(data, indices, updates, data)


IN_PLACE = {
    "in place": lambda: lambda data, indices, updates, _out: scatter_into(data, indices, updates, data),
    "planned in place": planned_in_place,
}


def test_a_plan_replaces_elements_in_place_and_copies_into_others():
    plan = sg.plan_scatter_nd(DATA, TUPLES, UPDATES, unique=True, out=sg.empty((3, 4), "float32"))
    tuples, other = sg.asarray(TUPLES), sg.zeros((3, 4), "float32")
    memory = sg.asarray(np.concatenate([DATA, DATA]))
    data, beside = memory[:3], memory[1:4]
    for count in range(3):
        updates = sg.asarray(UPDATES * count)
        plan(data, tuples, updates, data)
        assert np.array_equal(memory.numpy(), np.concatenate([UPDATES[1:] * count, DATA[1:2], updates[:1], DATA]))
        plan(sg.asarray(DATA), tuples, sg.asarray(UPDATES), other)
        assert np.array_equal(other.numpy(), SCATTERED)
        with pytest.raises(sg.BindingError, match="out shares memory with data"):
            plan(data, tuples, updates, beside)
    assert plan.direct is not None


def test_a_plan_into_another_order_does_not_run_in_place():
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    plan = sg.plan_scatter_nd(square, TUPLES, square[:2], out=sg.asarray(square.T.copy().T))
    by_row, by_column = sg.asarray(square.copy()), sg.asarray(square.T.copy().T)
    tuples, updates = sg.asarray(TUPLES), sg.asarray(-square[:2])
    plan(by_row, tuples, updates, by_column)
    for data, out, message in (
        (by_row, by_row, "out has sizes .* the plan is for"),
        (by_column, by_column, "data has sizes .* the plan is for"),
        (by_row, by_row[:].permute((1, 0)), "out shares memory with data"),
    ):
        before = data.numpy().copy()
        for _ in range(2):
            with pytest.raises(sg.BindingError, match=message):
                plan(data, tuples, updates, out)
        assert np.array_equal(data.numpy(), before)


WRONG = {
    "out of range": ([2, 3], r"= 3 is out of range for axis 0 of size 3"),
    "below": ([-4, 0], r"= -4 is out of range for axis 0 of size 3"),
    "twice": ([2, -1], r"name the same element of the result"),
}


@pytest.mark.parametrize("wrong", list(WRONG))
@pytest.mark.parametrize("call", ["planned scatter", "scatter", "in place", "planned in place"])
def test_wrong_indices_of_a_scatter_are_named_then_too(call, wrong):
    numbers, message = WRONG[wrong]
    run = (IN_PLACE[call] if call in IN_PLACE else CALLS[call][0])()
    data, updates, out = sg.asarray(DATA.copy()), sg.asarray(UPDATES), sg.zeros((3, 4), "float32")
    tuples = TUPLES.copy()
    indices = sg.asarray(tuples)
    for _ in range(2):
        run(data, indices, updates, out)
    held, written = data.numpy().copy(), out.numpy().copy()
    tuples[:, 0] = numbers
    for _ in range(2):
        with pytest.raises(IndexError, match=message):
            run(data, indices, updates, out)
    assert np.array_equal(data.numpy(), held)
    assert np.array_equal(out.numpy(), written)


@pytest.mark.parametrize("name", ["data", "indices", "updates"])
def test_a_planned_scatter_is_refused_beside_its_operands_however_often(name):
    run = CALLS["planned scatter"][0]()
    for _ in range(2):
        memory = sg.zeros((16,), "float32")
        out = memory[:12].reinterpret(sizes=(3, 4))
        given = {"data": sg.asarray(DATA), "indices": sg.asarray(TUPLES), "updates": sg.asarray(UPDATES)}
        run(*given.values(), sg.empty((3, 4), "float32"))
        given[name] = {
            "data": memory[4:].reinterpret(sizes=(3, 4)),
            "indices": memory[10:14].reinterpret(dtype="int64").reinterpret(sizes=(2, 1)),
            "updates": memory[8:].reinterpret(sizes=(2, 4)),
        }[name]
        with pytest.raises(sg.BindingError, match=f"out shares memory with {name}"):
            run(*given.values(), out)
        assert not memory.numpy().any()
