"""Windows of volumes to the bit against NumPy's padding and slicing, on all executions of the CPU and emulated CUDA."""

from __future__ import annotations

import numpy as np
import pytest
from harness.cpu_paths import cpu_paths, picking_by
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu import LayoutError

AXES = "NCDHW"
REACH = 9
"""Slices, rows and columns around a volume, which every drawn window stays within."""


def windows(volumes, origins, size, flips, fill):
    """The windows of padded volumes (C, D, H, W)."""
    made = []
    for volume, origin, flip in zip(volumes, origins, flips, strict=True):
        padded = np.pad(volume, ((0, 0), *((REACH, REACH),) * 3), constant_values=fill)
        first = [start + REACH for start in origin]
        window = padded[:, *(slice(start, start + extent) for start, extent in zip(first, size, strict=True))]
        made.append(window[..., ::-1] if flip else window)
    return np.stack(made)


@st.composite
def cases(draw):
    count, channels = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    one = tuple(draw(st.integers(1, 5)) for _ in range(3))
    is_batch = draw(st.booleans())
    sizes = [one if is_batch else tuple(draw(st.integers(1, 5)) for _ in range(3)) for _ in range(count)]
    dtype = draw(st.sampled_from((np.uint8, np.int16, np.float32)))
    volumes = [random.integers(0, 100, (channels, *size)).astype(dtype) for size in sizes]
    origins = [[draw(st.integers(-4, 5)) for _ in range(3)] for _ in range(count)]
    size = tuple(draw(st.integers(0, 4)) for _ in range(3))
    flips = [draw(st.booleans()) for _ in range(count)]
    return volumes, is_batch, origins, size, flips


def laid_out(array, dims):
    """An array with canonical axes as somebody else holds it, its memory in the order of `dims`."""
    canonical = AXES[-array.ndim :] if array.ndim != 4 else "CDHW"
    return np.ascontiguousarray(array.transpose([canonical.index(letter) for letter in dims]))


@cpu_paths
@given(cases(), st.permutations("CDHW"), st.sampled_from(("NCDHW", "NDHWC", "NDCHW", "DNCHW", "NCDHW4")), st.booleans())
def test_windows_are_numpys_in_any_order_of_axes(path, case, dims, layout, scales):
    volumes, is_batch, origins, size, flips = case
    dims = "".join(dims)
    if is_batch:
        dims = "N" + dims
        sources = laid_out(np.stack(volumes), dims)
    else:
        sources = [laid_out(volume, dims) for volume in volumes]
    expected = windows(volumes, origins, size, flips, 7)
    options = {"dtype": "float32", "scale": 0.5, "bias": -1.0} if scales else {}
    if scales:
        expected = expected.astype(np.float32) * np.float32(0.5) - np.float32(1)
    with picking_by(path):
        made = sg.gather_crops(sources, origins, size, dims=dims, flip=flips, fill=7, layout=layout, **options)
    if layout.endswith("4"):
        filled = made.numpy().reshape(len(volumes), 4, *size)
        channels = expected.shape[1]
        assert np.array_equal(filled[:, :channels], expected)
        assert not filled[:, channels:].any()
    else:
        assert made.dims == AXES
        assert np.array_equal(made.numpy(), expected)


SCAN = np.random.default_rng(0).integers(0, 1000, (2, 3, 6, 7, 8), np.int16)
ORIGINS = [[1, 2, 3], [-2, 5, -1]]


@pytest.mark.parametrize("order", ["NCDHW", "NDHWC"], ids=str)
def test_a_batch_is_written_into_a_window_of_a_larger_one(order):
    room = sg.full((4, 3, 4, 3, 10), -1, "int16", layout=order, device="cpu")
    sg.gather_crops(SCAN, ORIGINS, (4, 3, 5), out=room[1:3, :, :, :, 2:7])
    kept = np.full(room.sizes, -1, np.int16)
    kept[1:3, ..., 2:7] = windows(SCAN, ORIGINS, (4, 3, 5), (False, False), 0)
    assert np.array_equal(room.numpy(), kept)


def test_as_many_windows_as_a_window_has_planes_are_no_planes_at_even_steps():
    origins = [[0, 1, 2], [1, 0, 3], [-1, 2, 0], [4, 4, 4]]
    scans = [scan[:2] for scan in (*SCAN, *SCAN[::-1])]
    expected = windows(scans, origins, (2, 3, 4), (False, True, False, False), 0)
    made = sg.gather_crops(scans, origins, (2, 3, 4), dims="CDHW", layout="NCDHW", flip=[False, True, False, False])
    assert np.array_equal(made.numpy(), expected)


@pytest.mark.parametrize(
    "dims, layout",
    [("CDHW", "NCDHW"), ("CZYX", "NCZYX"), ("BZYX", "NBZYX")],
    ids=str,
)
def test_letters_of_volumes(dims, layout):
    made = sg.gather_crops(list(SCAN), ORIGINS, 2, dims=dims, layout=layout)
    assert np.array_equal(made.numpy(), windows(SCAN, ORIGINS, (2, 2, 2), (False, False), 0))


def test_three_numbers_name_volumes_and_so_does_a_batch_of_rank_5():
    expected = windows(SCAN, ORIGINS, (2, 3, 4), (True, False), 0)
    assert np.array_equal(sg.gather_crops(list(SCAN), ORIGINS, (2, 3, 4), flip=[True, False]).numpy(), expected)
    tensors = [sg.asarray(scan, dims="CDHW") for scan in SCAN]
    assert np.array_equal(sg.gather_crops(tensors, ORIGINS, [2, 3, 4], flip=[True, False]).numpy(), expected)


def test_mixed_channels_and_chosen_ones():
    plain = windows(SCAN, ORIGINS, (3, 2, 2), (False, False), 0)
    made = sg.gather_crops(SCAN, ORIGINS, (3, 2, 2), channels=(2, 0))
    assert np.array_equal(made.numpy(), plain[:, (2, 0)])
    mixed = sg.gather_crops(SCAN, ORIGINS, (3, 2, 2), dtype="float32", matrix=[[1, 1, 0], [0, 0, 2]])
    assert np.array_equal(mixed.numpy(), np.stack([plain[:, 0] + plain[:, 1], 2 * plain[:, 2]], 1).astype(np.float32))


def test_empty_batches_windows_and_volumes():
    none = sg.zeros((0, 3, 6, 7, 8), "uint8", device="cpu")
    assert sg.gather_crops(none, [], (2, 2, 2)).sizes == (0, 3, 2, 2, 2)
    assert sg.gather_crops(SCAN, ORIGINS, (0, 2, 2)).sizes == (2, 3, 0, 2, 2)
    assert (sg.gather_crops(SCAN[:, :, :0], ORIGINS, (2, 2, 2), fill=5).numpy() == 5).all()
    assert (sg.gather_crops(SCAN, [[2**62, 0, 0], [-(2**63), 0, 0]], (2, 2, 2), fill=5).numpy() == 5).all()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: sg.gather_crops(SCAN, [[0, 0]] * 2, (2, 2, 2)), "origins have sizes (2, 2); 2 sources need (2, 3)"),
        (lambda: sg.gather_crops(SCAN, ORIGINS, (2, 2)), "it must have the axes N, C, H, W"),
        (lambda: sg.gather_crops(list(SCAN), ORIGINS, (2, 2), dims="CDHW"), "size=(2, 2) must be depth, height and"),
        (lambda: sg.gather_crops(list(SCAN[0]), ORIGINS, (2, 2, 2)), "must have the axes C, D, H, W"),
        (lambda: sg.gather_crops(SCAN, size=(2, 2, 2), boxes=[[0, 0, 1, 1]] * 2), "boxes= are resized in images"),
        (lambda: sg.gather_crops([SCAN[0], SCAN[1, :1]], ORIGINS, (2, 2, 2)), "sources[1] has 1 channels"),
        (lambda: sg.gather_crops(list(SCAN), ORIGINS, 2, dims="NTHW"), "dims='NDHW'"),
        (lambda: sg.plan_gather_crops(SCAN, (2, 2, 2)), "volumes, whose windows have no plan"),
        (lambda: sg.plan_gather_crops(list(SCAN), (2, 2), dims="CZYX"), "volumes, whose windows have no plan"),
    ],
    ids=["origins", "size of images", "size of two", "images", "boxes", "channels", "dims", "plan", "plan by dims"],
)
def test_what_is_refused(call, message):
    with pytest.raises(LayoutError) as raised:
        call()
    assert message in str(raised.value)
