"""Epochs of a step: part of the draw, shared with copies in other processes, and a warning where nobody begins one."""

from __future__ import annotations

import copy
import pickle
import sys
import warnings
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import stridedgpu as sg


def pictures(count=8, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 30, 34, 3), dtype=np.uint8)


def random_step(**changes):
    return sg.Preprocess(**{"crop": 20, "flip": True, "seed": 3, "dtype": "uint8", "device": "cpu", **changes})


def test_an_epoch_is_part_of_the_draw():
    step, keys = random_step(), list(range(8))
    first, second = (step(pictures(), keys, epoch=epoch) for epoch in (0, 1))
    assert not np.array_equal(first, second)
    step.set_epoch(1)
    np.testing.assert_array_equal(step(pictures(), keys), second)
    np.testing.assert_array_equal(step(pictures(), keys, epoch=0), first)
    assert step.epoch == 1
    halves = [step(pictures()[part], keys[part]) for part in (slice(4, 8), slice(0, 4))]
    np.testing.assert_array_equal(np.concatenate(halves[::-1]), second)


def test_every_epoch_differs():
    step = random_step()
    placed = [tuple(step.placements([(300, 300)] * 4, range(4), epoch=epoch)) for epoch in range(50)]
    assert len(set(placed)) == 50


def test_the_same_samples_twice_without_an_epoch_are_said_once():
    step, keys = random_step(), list(range(8))
    step(pictures()[:4], keys[:4])
    step(pictures()[4:], keys[4:])
    with pytest.warns(UserWarning, match=r"drawn a second time in epoch 0.*set_epoch"):
        step(pictures()[4:], [5, 6, 0, 7])
    step(pictures(), keys)


@pytest.mark.parametrize("how", ["set", "given", "begun", "no seed"])
def test_nothing_is_said_where_the_epoch_is_stated(how):
    step = random_step(seed=None, flip=None) if how == "no seed" else random_step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if how == "set":
            step.set_epoch(0)
        for _ in range(3):
            if how == "begun":
                step.begin_epoch()
            step(pictures(), range(8), epoch=0 if how == "given" else None)


def test_passes_over_a_loader_are_epochs():
    step, keys = random_step(), list(range(8))
    loader = step.advancing([pictures()[:4], pictures()[4:]])
    assert len(loader) == 2
    seen = [np.concatenate([step(batch, keys[:4]) for batch in loader]) for _ in range(3)]
    assert step.epoch == 2
    np.testing.assert_array_equal(seen[1][:4], step(pictures()[:4], keys[:4], epoch=1))
    step.set_epoch(7)
    for expected in (7, 8):
        iter(loader)
        assert step.epoch == expected


def test_copies_begin_at_the_epoch_and_other_declarations_at_none():
    step = random_step()
    step.set_epoch(5)
    copies = [pickle.loads(pickle.dumps(step)), copy.copy(step), copy.deepcopy(step)]
    other = replace(step, seed=4)
    step.set_epoch(6)
    assert [each.epoch for each in copies] == [5, 5, 5]
    assert other.epoch == 0
    assert all(each == step and hash(each) == hash(step) for each in copies)


def test_equal_steps_have_equal_pickles():
    """Hugging Face datasets knows a step by its pickle: another would be another result to it."""
    first, second = random_step(), random_step()
    assert pickle.dumps(first) == pickle.dumps(second)
    second.set_epoch(1)
    assert pickle.dumps(first) != pickle.dumps(second)


def test_a_step_from_elsewhere_goes_on_with_the_epoch_that_was_pickled():
    step = random_step()
    step.set_epoch(4)
    pickled = pickle.dumps(step)
    step.set_epoch(7)
    near = pickle.loads(pickled)
    near.set_epoch(9)
    assert (pickle.loads(pickled).epoch, near.epoch, step.epoch) == (4, 9, 7)


@pytest.mark.skipif(sys.platform != "linux", reason="counts open descriptors in /proc")
def test_steps_that_are_gone_leave_no_descriptor():
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(50):
        pickle.loads(pickle.dumps(random_step(seed=number)))
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2


def _answer(step, orders, answers):
    for keys in iter(orders.get, None):
        answers.put(step(pictures(), keys))


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_running_process_follows_the_epoch(start):
    context, step = get_context(start), random_step()
    orders, answers = context.SimpleQueue(), context.SimpleQueue()
    worker = context.Process(target=_answer, args=(step, orders, answers))
    worker.start()
    keys = list(range(8))
    try:
        for epoch in (0, 1, 2):
            step.set_epoch(epoch)
            orders.put(keys)
            np.testing.assert_array_equal(answers.get(), step(pictures(), keys, epoch=epoch))
    finally:
        orders.put(None)
        worker.join()


@pytest.mark.parametrize("epoch", [-1, 1.5, "one", 2**63])
def test_an_epoch_is_an_integer_from_zero(epoch):
    with pytest.raises(sg.LayoutError, match="epoch"):
        random_step().set_epoch(epoch)
    with pytest.raises(sg.LayoutError, match="epoch"):
        random_step()(pictures(), range(8), epoch=epoch)


def test_true_with_a_seed_mirrors_one_in_two():
    step = sg.Preprocess(flip=True, seed=1, dtype="uint8", layout="NHWC")
    given = np.broadcast_to(np.arange(9, dtype=np.uint8)[:, None], (2000, 3, 9, 1))
    mirrored = step(given, range(2000))[:, 0, 0, 0] == 8
    assert 900 < mirrored.sum() < 1100
    assert step == sg.Preprocess(flip=0.5, seed=1, dtype="uint8", layout="NHWC")
    always = sg.Preprocess(flip=1.0, seed=1, dtype="uint8", layout="NHWC")
    assert always != step
    assert (always(given[:20], range(20))[:, 0, 0, 0] == 8).all()
    assert (sg.Preprocess(flip=True, dtype="uint8", layout="NHWC")(given[:20])[:, 0, 0, 0] == 8).all()


def test_the_window_stays_in_the_middle_where_it_is_said():
    given, keys = pictures(), range(8)
    made = sg.Preprocess(crop=20, flip=True, random_crop=False, seed=1, dtype="uint8", layout="NHWC")(given, keys)
    middle = given[:, 5:25, 7:27]
    mirrored = [not np.array_equal(row, pixels) for row, pixels in zip(made, middle, strict=True)]
    assert True in mirrored
    assert False in mirrored
    for row, pixels, flipped in zip(made, middle, mirrored, strict=True):
        np.testing.assert_array_equal(row, pixels[:, ::-1] if flipped else pixels)


def test_a_key_reads_a_bounded_part_of_the_image():
    """Pixels between the sampled rows and columns change no key: a large image costs what a small one does."""
    large = np.random.default_rng(1).integers(0, 256, (1000, 1600, 3), dtype=np.uint8)
    changed = large.copy()
    changed[1::32, 1::50] ^= 255
    step = sg.Preprocess(crop=100, seed=1, dtype="uint8", layout="NHWC", device="cpu")
    first, second = (step([image], epoch=0)[0] for image in (large, changed))
    same = first == second
    assert same.mean() > 0.99
    moved = large.copy()
    moved[::32, ::50] ^= 255
    assert not np.array_equal(step([moved], epoch=0)[0], first)
