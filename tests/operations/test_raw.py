"""Packed raw samples: beside bit strings written out, from any pitch and address, on every way of the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from harness.fenced_memory import Fenced
from harness.native_loops import needs_library, policy_with
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu.devices.selection import device_named
from stridedgpu.problems.raw_problem import RawProblem
from stridedgpu.values.raw_formats import RAW_FORMATS

FORMATS = ("mipi-raw10", "mipi-raw12", "mono10p", "mono12p", "mono12packed")


def packed(name, samples):
    """The bytes of one row, group by group, as the standards draw them."""
    made = []
    bits, count = (10, 4) if "10" in name else (12, 2)
    for group in np.asarray(samples).reshape(-1, count).tolist():
        if name == "mono12packed":
            first, second = group
            made += [first >> 4, first & 15 | (second & 15) << 4, second >> 4]
        elif name.startswith("mono"):
            joined = sum(sample << bits * place for place, sample in enumerate(group))
            made += joined.to_bytes(bits * count // 8, "little")
        else:
            low = bits - 8
            rest = sum((sample & 2**low - 1) << low * place for place, sample in enumerate(group))
            made += [*(sample >> low for sample in group), rest]
    return bytes(made)


@pytest.mark.parametrize("name", FORMATS)
@cpu_paths
@given(data=st.data())
def test_samples_are_unpacked_from_any_pitch_and_address(path, name, data):
    bits, count = (10, 4) if "10" in name else (12, 2)
    height, width = data.draw(st.integers(1, 5)), count * data.draw(st.integers(1, 40))
    samples = np.random.default_rng(data.draw(st.integers(0, 2**32))).integers(0, 2**bits, (height, width))
    rows = [packed(name, row) for row in samples]
    gap, lead = data.draw(st.integers(0, 7)), data.draw(st.integers(0, 3))
    held = Fenced(lead + (height - 1) * (len(rows[0]) + gap) + len(rows[0]), np.random.default_rng(0), at_end=True)
    for number, row in enumerate(rows):
        at = lead + number * (len(row) + gap)
        held.bytes[at : at + len(row)] = np.frombuffer(row, np.uint8)
    target = sg.empty((height, width + 3), "uint16", device="cpu")
    target[...] = 7
    view = target[:, :width]
    if data.draw(st.booleans()):
        view = view[:, ::-1]
    with picking_by(path), policy_with(pixels={"shared_bytes": 0}):
        sg.unpack_raw(held.bytes[lead:], name, (height, width), row_pitch_bytes=len(rows[0]) + gap, out=view)
    assert np.array_equal(view.numpy(), samples)
    assert (target.numpy()[:, width:] == 7).all()


def test_rows_of_an_array_have_its_pitch():
    samples = np.arange(48).reshape(3, 16) * 21
    memory = np.zeros((3, 32), np.uint8)
    memory[:, :20] = [list(packed("mipi-raw10", row)) for row in samples]
    made = sg.unpack_raw(memory, "mipi-raw10", (3, 16))
    assert (made.sizes, made.dims, made.dtype) == ((3, 16), "HW", "uint16")
    assert np.array_equal(made.numpy(), samples)
    assert np.array_equal(sg.unpack_raw(memory[:, :20], "mipi-raw10", (3, 16)).numpy(), samples)
    assert sg.unpack_raw(b"", "mono12p", (0, 4)).sizes == (0, 4)


def test_a_bayer_mosaic_is_four_planes_as_a_view():
    samples = np.arange(48).reshape(4, 12)
    mosaic = sg.unpack_raw(b"".join(packed("mono12p", row) for row in samples), "mono12p", samples.shape)
    planes = sg.view(mosaic, "(h y) (w x) -> y x h w", y=2, x=2)
    assert planes.sizes == (2, 2, 2, 6)
    for y, x in np.ndindex(2, 2):
        assert np.array_equal(planes[y, x].numpy(), samples[y::2, x::2])


@pytest.mark.parametrize(
    "memory, name, sizes, options, error, words",
    [
        (
            bytes(20),
            "raw10",
            (2, 8),
            {},
            sg.LayoutError,
            "format='raw10' is unknown; the packed formats are mipi-raw10",
        ),
        (bytes(20), "mipi-raw10", (2, 7), {}, sg.LayoutError, r"packs 4 samples in 5 bytes"),
        (bytes(19), "mipi-raw10", (2, 8), {}, sg.BindingError, r"memory has 19 bytes; 2 rows of 8 samples"),
        (
            bytes(20),
            "mono12p",
            (2, 4),
            {"row_pitch_bytes": 5},
            sg.LayoutError,
            "rows of 6 bytes are cut by a pitch of 5",
        ),
        (np.zeros(9, np.uint16), "mono12p", (1, 4), {}, sg.ElementTypeError, "memory holds uint16; packed samples are"),
        (np.zeros((2, 6, 1), np.uint8), "mono12p", (2, 4), {}, sg.LayoutError, "must be bytes, or rows"),
        (np.zeros((2, 8), np.uint8)[:, ::2], "mono12p", (1, 2), {}, sg.LayoutError, "bytes of a row must follow"),
        (bytes(20), "mono12p", (2, 3, 4), {}, sg.LayoutError, "must be the height and the width"),
    ],
)
def test_what_does_not_fit_is_refused(memory, name, sizes, options, error, words):
    with pytest.raises(error, match=words):
        sg.unpack_raw(memory, name, sizes, **options)


@needs_library
def test_a_plan_says_how_samples_are_unpacked():
    target = sg.empty((8, 64), "uint16", device="cpu").operand.spec
    plan = device_named("cpu").plan(RawProblem(RAW_FORMATS["mipi-raw10"], 96, 1, target))
    assert plan.kernel == "raw_mipi-raw10x32"
    assert "mipi-raw10 images of 8 x 64 samples, rows 96 bytes apart" in plan.explain()
    assert plan.bytes_moved == 8 * 64 * (10 + 16) // 8
