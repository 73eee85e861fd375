"""Memory that a producer describes wrongly is refused wherever an argument is array-like, and ends no process.

What is believed would be read, so each argument is given in a process of its own.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from harness.lying_producers import array_interface, in_a_process_of_its_own

import stridedgpu as sg

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each argument is given in a forked process")

BYTES = np.zeros(8)
IMAGE = np.zeros((8, 8, 3), np.uint8)
STEP = sg.Preprocess("image", resize=(4, 4), boxes="boxes", points="points", mask="mask", device="cpu")


def far(sizes, typestr):
    """A producer whose elements lie 2**62 bytes apart."""
    told = {"shape": sizes, "typestr": typestr, "strides": (2**62,) * len(sizes)}
    return array_interface("__array_interface__", {**told, "data": (BYTES.ctypes.data, False), "version": 3}, BYTES)


def objects():
    """A producer of addresses of Python's objects, which are none."""
    told = {"shape": (4,), "typestr": "|O8", "data": (BYTES.ctypes.data, False), "version": 3}
    return array_interface("__array_interface__", told, BYTES)


def stepped(**columns):
    sample = {"image": [IMAGE], "boxes": [[[0, 0, 1, 1]]], "points": [[[0, 0]]], "mask": [IMAGE[..., 0]]}
    return STEP(sample | columns)


def assigned(value):
    sg.zeros((2,), "float32", device="cpu")[...] = value


class Rows:
    """A sequence that is no list."""

    def __init__(self, *rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, number):
        return self.rows[number]


CALLS = {
    "asarray of two elements": lambda: sg.asarray(far((2,), "<f4")).copy(),
    "asarray of a list": lambda: sg.asarray([far((8,), "|u1")]),
    "asarray of a list of lists": lambda: sg.asarray([[1, 2], [[3], (far((2,), "|u1"),)]]),
    "asarray of a sequence": lambda: sg.asarray(Rows(far((8,), "|u1"), far((8,), "|u1"))),
    "asarray of objects in a list": lambda: sg.asarray([objects()]),
    "full": lambda: sg.full((2,), far((2,), "<f4"), "float32"),
    "full of a list": lambda: sg.full((2,), [far((2,), "<f4")], "float32"),
    "full of objects": lambda: sg.full((2,), objects(), "float32"),
    "assignment": lambda: assigned([far((2,), "<f4")]),
    "letterbox_placements": lambda: sg.letterbox_placements(far((5, 2), "<i8"), (8, 8)),
    "letterbox_placements of a list": lambda: sg.letterbox_placements([far((2,), "<i8")], (8, 8)),
    "letterbox": lambda: sg.letterbox([[far((8, 3), "|u1")]], (8, 8), dims="HWC"),
    "resize": lambda: sg.resize([[far((3,), "|u1")]], (8, 8), dims="HWC"),
    "gather_crops": lambda: sg.gather_crops([[far((8, 3), "|u1")]], [[0, 0]], (2, 2), dims="HWC"),
    "origins": lambda: sg.gather_crops([IMAGE], [far((2,), "<i8")], (2, 2), dims="HWC"),
    "boxes": lambda: sg.gather_crops([IMAGE], None, (2, 2), boxes=[far((4,), "<f8")], dims="HWC"),
    "indices": lambda: sg.gather(IMAGE, [far((2,), "<i8")]),
    "updates": lambda: sg.scatter_elements(IMAGE[0], np.zeros((1, 2), np.int64), [far((2,), "|u1")]),
    "view": lambda: sg.view([far((8,), "|u1")], "a b -> b a"),
    "boxes of a step": lambda: stepped(boxes=[far((5, 4), "<f8")]),
    "boxes of a step in a list": lambda: stepped(boxes=[[far((4,), "<f8")]]),
    "boxes of a step that are objects": lambda: stepped(boxes=[objects()]),
    "points of a step": lambda: stepped(points=[far((5, 2), "<f8")]),
    "labels of samples": lambda: list(
        sg.load([(IMAGE, far((2,), "<i8"))], sg.Preprocess(0, crop=4, device="cpu"), threads=1)
    ),
    "mask of a step": lambda: stepped(mask=[[far((8,), "|u1")] * 8]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_argument_whose_memory_cannot_be_there_is_refused(call):
    def refused():
        with pytest.raises(sg.StridedGpuError):
            call()

    in_a_process_of_its_own(refused)


def test_a_list_of_arrays_is_read_as_numpy_reads_it():
    rows = [np.arange(3), Rows(3, 4, 5), (6, np.int8(7), 8), bytearray(b"abc"), memoryview(b"def")]
    made = sg.asarray(rows).numpy()
    assert np.array_equal(made, np.asarray(rows))
    assert made.dtype == np.asarray(rows).dtype


def test_a_list_in_itself_is_refused():
    rows = []
    rows.append(rows)
    with pytest.raises(sg.StridedGpuError, match="This list is not array-like"):
        sg.asarray(rows)
    assert sg.asarray([[], []]).sizes == (2, 0)
