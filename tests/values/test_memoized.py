"""`memoized`: answers once for equal arguments, and in the function's own words for those that cannot be kept."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.devices.buffer import address_of
from stridedgpu.values.memoized import memoized


def test_equal_arguments_are_answered_once_and_types_told_apart():
    asked = []

    @memoized
    def doubled(value):
        """Twice as much."""
        asked.append(value)
        return value * 2

    assert [doubled(2), doubled(2), doubled(2.0), doubled(True)] == [4, 4, 4.0, 2]
    assert [type(value) for value in asked] == [int, float, bool]
    assert doubled([1]) == [1, 1]
    assert doubled.__doc__ == "Twice as much."


def test_errors_are_raised_each_time():
    calls = []

    @memoized
    def refuses(value):
        calls.append(value)
        raise TypeError(f"{value} is refused")

    for value in (1, 1, [1]):
        with pytest.raises(TypeError, match="is refused"):
            refuses(value)
    assert len(calls) >= 3


@pytest.mark.parametrize("argument", [{"row_pitch_bytes": [64]}, {"alignment": [64]}, {"layout": ["NHWC"]}])
def test_what_cannot_be_looked_up_is_refused_as_before(argument):
    tensor = sg.zeros((1, 3, 4, 5), "uint8", device="cpu")
    for call in (tensor.relayout, lambda **options: sg.empty((1, 3, 4, 5), "uint8", device="cpu", **options)):
        with pytest.raises(sg.LayoutError, match=next(iter(argument))):
            call(**argument)


def test_a_result_is_the_same_for_every_source_that_is_alike():
    expected = None
    for number in range(3):
        frame = np.full((1, 4, 5, 3), number, np.uint8)
        made = sg.relayout(sg.asarray(frame, dims="NHWC"), layout="NCHW", dtype="float32", scale=0.5, bias=-0.0)
        assert (made.numpy() == number * 0.5).all()
        facts = made.strides, made.dims, made.alignment, made.buffer.nbytes, made.operand.owns_padding
        assert facts == (expected or facts)
        expected = facts
    negative = sg.relayout(sg.zeros((3,), "float32", device="cpu"), bias=-0.0, scale=-1.0)
    positive = sg.relayout(sg.zeros((3,), "float32", device="cpu"), bias=0.0, scale=-1.0)
    assert np.signbit(negative.numpy()).all()
    assert not np.signbit(positive.numpy()).any()


ARRAYS = {
    "packed": np.zeros((2, 3)),
    "strided": np.zeros((4, 6))[::2, 1:],
    "flipped": np.zeros((4, 6))[::-1],
    "read-only": np.frombuffer(b"abcd", np.uint8),
    "empty": np.zeros((0, 3)),
    "broadcast": np.broadcast_to(np.zeros(3), (4, 3)),
    "fields": np.zeros(3, [("a", "u1"), ("b", "<i4")])["b"],
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_the_address_of_an_array(array):
    assert address_of(array) == array.ctypes.data


def test_many_threads_relayout_at_once():
    frames = [np.full((1, 8, 8, 3), number, np.uint8) for number in range(8)]
    gate, wrong = threading.Barrier(len(frames)), []

    def work(frame):
        gate.wait()
        for _ in range(50):
            made = sg.relayout(sg.asarray(frame, dims="NHWC"), layout="NCHW")
            if not (made.numpy() == frame[0, 0, 0, 0]).all():
                wrong.append(made)

    threads = [threading.Thread(target=work, args=(frame,)) for frame in frames]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
