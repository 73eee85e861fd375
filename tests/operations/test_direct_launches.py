"""Calls whose loops need no more than addresses: from the first one on that finds these loops ready."""

from __future__ import annotations

import numpy as np
import pytest
from harness.compiled_loops import needs_compiler, policy_with, wait_for_loops

import stridedgpu as sg
from stridedgpu.devices.cpu.policy import policy

pytestmark = needs_compiler

DATA = np.arange(12, dtype=np.float32).reshape(3, 4)
NUMBERS = np.array([2, 0])


def gather_into(data, numbers, out, stream=None):
    return sg.gather(data, numbers, out=out, stream=stream)


def relayout_into(data, out, stream=None):
    return sg.relayout(data, dtype="int32", out=out, stream=stream)


CALLS = {
    "planned relayout": (lambda: sg.plan_relayout(sg.asarray(DATA), sg.empty((3, 4), "int32")), (DATA,), DATA),
    "planned gather": (
        lambda: sg.plan_gather(DATA, NUMBERS, out=sg.empty((2, 4), "float32")),
        (DATA, NUMBERS),
        DATA[NUMBERS],
    ),
    "relayout": (lambda: relayout_into, (DATA,), DATA),
    "gather": (lambda: gather_into, (DATA, NUMBERS), DATA[NUMBERS]),
}
calls = pytest.mark.parametrize("call", list(CALLS))


@calls
@pytest.mark.parametrize("at_once", [True, False], ids=["from the first call on", "later"])
def test_every_call_has_the_same_result(call, at_once):
    """Before the loops are ready, with the launch that finds them, and without it, each time in other memory."""
    make, inputs, wanted = CALLS[call]
    with policy_with(promotion={"at_once_bytes": 0} if at_once else {}):
        run = make()
        for _ in range(policy().promotion.calls + 2):
            out = sg.zeros(wanted.shape, "int32" if "relayout" in call else "float32")
            run(*map(sg.asarray, inputs), out)
            assert np.array_equal(out.numpy(), wanted)
            wait_for_loops()
        for plan in [run] if "planned" in call else []:
            assert plan.direct is not None
            assert plan == make()


@calls
def test_a_stream_is_refused_then_too(call):
    make, inputs, wanted = CALLS[call]
    with policy_with(promotion={"at_once_bytes": 0}):
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
    with policy_with(promotion={"at_once_bytes": 0}):
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
