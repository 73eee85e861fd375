"""Plans are copied, and pickled to processes in which they are made ready again."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu import BindingError, BufferTensorDesc, DeviceError
from stridedgpu.devices import selection
from stridedgpu.devices.cuda.status import CudaStatus

FRAMES = np.random.default_rng(0).integers(0, 256, (2, 16, 32, 3), np.uint8)
TABLE = np.arange(48, dtype=np.float32).reshape(8, 6)
ROWS, UPDATES = np.array([3, 0, 5]), -np.ones((3, 6), np.float32)


def frames():
    return sg.asarray(FRAMES, dims="NHWC")


PLANS = {
    "relayout": (
        lambda device=None: sg.plan_relayout(
            frames(),
            sg.empty((2, 3, 16, 32), "float32", layout="NCHW", device="cpu"),
            scale=(0.1, 0.2, 0.3),
            channels=(2, 1, 0),
            device=device,
        ),
        lambda: (frames(),),
        ((2, 3, 16, 32), "float32"),
    ),
    "gather": (
        lambda device=None: sg.plan_gather(sg.asarray(TABLE), sg.asarray(ROWS), mode="wrap", device=device),
        lambda: (sg.asarray(TABLE), sg.asarray(ROWS)),
        ((3, 6), "float32"),
    ),
    "scatter": (
        lambda device=None: sg.plan_scatter_nd(TABLE, ROWS[:, None], UPDATES, unique=True, device=device),
        lambda: (sg.asarray(TABLE), sg.asarray(ROWS[:, None]), sg.asarray(UPDATES)),
        ((8, 6), "float32"),
    ),
    "crops": (
        lambda device=None: sg.plan_gather_crops(
            frames(), (4, 5), layout="NHWC", dtype="float16", fill=(1, 2, 3), device=device
        ),
        lambda: (frames(), np.array([[-1, 2], [13, 30]])),
        ((2, 3, 4, 5), "float16", "NHWC"),
    ),
}


def result_of(plan, name):
    """The bytes that a plan makes, here."""
    _, inputs, (sizes, dtype, *order) = PLANS[name]
    out = sg.empty(sizes, dtype, layout=order[0] if order else None, device="cpu")
    plan(*inputs(), out)
    return out.numpy().tobytes()


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_plan_is_the_same_plan(name, protocol):
    plan = PLANS[name][0]()
    again = pickle.loads(pickle.dumps(plan, protocol))
    assert again == plan
    assert again.explain() == plan.explain()
    assert result_of(again, name) == result_of(plan, name)


@pytest.mark.parametrize("name", PLANS)
def test_a_copy_is_the_plan_itself(name):
    plan = PLANS[name][0]()
    assert copy.copy(plan) is plan
    assert copy.deepcopy([plan])[0] is plan


def test_plans_run_in_spawned_processes():
    plans = {name: make() for name, (make, _, _) in PLANS.items()}
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as workers:
        there = {name: workers.submit(result_of, plan, name) for name, plan in plans.items()}
        for name, plan in plans.items():
            assert there[name].result(timeout=600) == result_of(plan, name)


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_for_a_missing_gpu_stays_one_to_read(name):
    plan = PLANS[name][0]("cuda")
    again = pickle.loads(pickle.dumps(plan))
    assert (again.device, again.kernel, again.missing) == ("cuda:0", plan.kernel, plan.missing)
    with pytest.raises(DeviceError, match="can be read and not run"):
        result_of(again, name)


def test_a_plan_is_made_ready_for_the_device_where_it_arrives(gpus, monkeypatch):
    source = sg.empty((2, 3, 16, 32), "uint8", layout="NHWC", device="cuda:1")
    out = sg.empty((2, 3, 16, 32), "uint8", device="cuda:1")
    plan = sg.plan_relayout(source, out)
    pickled = pickle.dumps(plan)
    assert b"cupy" not in pickled
    again = pickle.loads(pickled)
    again(source, out)
    assert replace(again.plan, launch=None) == replace(plan.plan, launch=None)
    monkeypatch.setattr(selection, "_remote", {})
    monkeypatch.setattr(selection, "cuda_status", lambda: CudaStatus(1))
    with pytest.raises(DeviceError, match=r"can be read and not run.*CUDA devices end with cuda:0"):
        pickle.loads(pickled)(source, out)


def test_what_a_descriptor_promised_is_asked_for_after_the_journey():
    described = BufferTensorDesc("float32", (8, 6), guaranteed_base_offset_alignment=32)
    plan = pickle.loads(pickle.dumps(sg.plan_relayout(described, described)))
    memory = sg.empty((8, 6), "float32", device="cpu")
    room = sg.empty((49,), "float32", device="cpu")
    with pytest.raises(BindingError, match="not a multiple of the 32 bytes"):
        plan(room[1:].reinterpret(sizes=(8, 6)), memory)
