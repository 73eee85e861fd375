"""Views of a frame: fields, rotations and mirrors have the pixels of NumPy's views, and share the planes."""

from __future__ import annotations

import numpy as np
import pytest
from harness.frame_cases import COLOURS, DEEP, SCALED, YUV, converting_by, surface, surfaces
from hypothesis import given, strategies as st

import stridedgpu as sg

FORMATS = (*YUV, *DEEP, *COLOURS, *SCALED, "gray")

ANGLES = (-270, -180, -90.0, 0, 90, 180, 270, 360, 810)


def pixels_of(frame):
    """Red, green and blue, (H, W, C)."""
    return sg.relayout(frame).numpy().transpose(1, 2, 0)


def shares(view, frame):
    """Whether every element of a view's planes is one of the frame's."""
    return all(
        np.shares_memory(one.numpy(), other.numpy()) for one, other in zip(view.planes, frame.planes, strict=True)
    )


@given(surfaces(FORMATS, most=24))
def test_fields_are_every_other_row_of_luma_and_of_chroma(made):
    frame = made.frame()
    multiple = 2 * frame.operand.samples.chroma_step[0]
    if made.sizes[0] % multiple:
        with pytest.raises(sg.LayoutError, match=f"has {made.sizes[0]} rows; one of two fields has a multiple"):
            _ = frame.fields
        return
    for first, field in enumerate(frame.fields):
        assert field.sizes == (made.sizes[0] // 2, made.sizes[1])
        assert shares(field, frame)
        rows = [np.ascontiguousarray(plane.numpy()[first::2]) for plane in frame.planes]
        assert np.array_equal(pixels_of(field), pixels_of(sg.Frame(made.format, rows, sizes=field.sizes)))


def can_be_turned(made, *, swapped=False, backwards=()):
    """Whether chroma is shared by the same pixels when height and width are swapped and axes run backwards."""
    down, right = made.frame().operand.samples.chroma_step
    whole = all(made.sizes[axis] % (down, right)[axis] == 0 for axis in backwards)
    return made.format not in PACKED and whole and not (swapped and down != right)


PACKED = ("yuyv", "uyvy", "y210", "y212", "y216")
"""The formats with two samples of luma in each place."""


@given(surfaces(FORMATS, most=24), st.sampled_from(ANGLES))
def test_a_rotated_frame_has_the_pixels_of_rot90(made, degrees):
    frame, quarters = made.frame(matrix="bt709"), int(degrees // 90) % 4
    if not can_be_turned(made, swapped=quarters % 2, backwards=((), (1,), (0, 1), (0,))[quarters]) and quarters:
        with pytest.raises(sg.LayoutError, match=f"A frame of {made.format} cannot be turned as it is: "):
            frame.rotated(degrees)
        return
    turned = frame.rotated(degrees)
    expected = np.rot90(pixels_of(frame), degrees // 90)
    assert turned.sizes == expected.shape[:2]
    assert (turned.matrix, turned.full_range, turned.chroma) == ("bt709", False, "repeated")
    assert shares(turned, frame)
    assert np.array_equal(pixels_of(turned), expected)


@given(surfaces(FORMATS, most=24))
def test_a_mirrored_frame_has_its_columns_from_right_to_left(made):
    frame = made.frame()
    if not can_be_turned(made, backwards=(1,)):
        with pytest.raises(sg.LayoutError, match=f"A frame of {made.format} cannot be turned as it is: "):
            frame.mirrored()
        return
    assert shares(frame.mirrored(), frame)
    assert np.array_equal(pixels_of(frame.mirrored()), pixels_of(frame)[:, ::-1])
    if can_be_turned(made, backwards=(0, 1)):
        assert np.array_equal(pixels_of(frame.mirrored().rotated(180)), pixels_of(frame)[::-1])


@pytest.mark.parametrize("path", ["NumPy", "native 1", "native 2"])
@pytest.mark.parametrize("name", ["i420", "nv12", "p010", "i444", "gbrp", "rgba", "gray"])
def test_operations_on_views_have_the_bits_of_those_on_the_pixels(name, path):
    frame = surface(name, (64, 96), seed=3, gap=5).frame()
    pixels = pixels_of(frame)
    with converting_by(path):
        for view, wanted in (
            (frame.rotated(90), np.rot90(pixels)),
            (frame.rotated(180), np.rot90(pixels, 2)),
            (frame.mirrored(), pixels[:, ::-1]),
        ):
            whole = np.ascontiguousarray(wanted)
            step = sg.Preprocess(resize=(20, 30), normalize="0..1", device="cpu")
            assert np.array_equal(sg.resize(view, (20, 30)).numpy(), sg.resize(whole, (20, 30), dims="HWC").numpy())
            cut = sg.gather_crops([view], [[3, 5]], (20, 30)).numpy()
            assert np.array_equal(cut[0], whole[3:23, 5:35].transpose(2, 0, 1))
            assert np.array_equal(step(view), step(whole))


def test_a_plan_for_a_view_runs_on_views():
    first, second = (surface("nv12", (8, 12), seed=seed).frame() for seed in (1, 2))
    out = sg.empty((3, 12, 8), "uint8", device="cpu")
    plan = sg.plan_relayout(first.rotated(90), out)
    plan(second.rotated(90), out)
    assert np.array_equal(out.numpy().transpose(1, 2, 0), np.rot90(pixels_of(second)))


def test_a_view_is_written_into():
    memory = np.zeros((4, 6), np.uint8)
    image = np.arange(24, dtype=np.uint8).reshape(6, 4)
    view = sg.Frame("gray", [memory], sizes=(4, 6)).rotated(90)
    sg.relayout(np.stack([image] * 3), dims="CHW", out=view)
    written = np.rot90(memory)
    assert np.abs(written.astype(int) - image).max() <= 1
    assert len(np.unique(written)) > 20


@pytest.mark.parametrize("turn", [lambda one: one.rotated(90), lambda one: one.mirrored(), lambda one: one.fields[1]])
@pytest.mark.parametrize("name", ["i420", "nv12", "p010", "rgba"])
def test_views_go_to_a_device_and_into_a_pickle(name, turn):
    import pickle

    view = turn(surface(name, (16, 24), seed=7, gap=3).frame())
    assert np.array_equal(pixels_of(view.to_device("cuda-emulated")), pixels_of(view))
    assert np.array_equal(
        pixels_of(turn(surface(name, (16, 24), seed=7).frame().to_device("cuda-emulated"))), pixels_of(view)
    )
    assert np.array_equal(pixels_of(pickle.loads(pickle.dumps(view))), pixels_of(view))


@pytest.mark.parametrize(
    "turn", [lambda one: one.rotated(90), lambda one: one.rotated(180), lambda one: one.mirrored()]
)
def test_frames_whose_chroma_would_lie_otherwise_are_refused(turn):
    for name in PACKED[:3]:
        with pytest.raises(sg.LayoutError, match=rf"frame of {name} cannot be turned as it is: .*sg\.relayout"):
            turn(surface(name, (8, 8), seed=1).frame())
    with pytest.raises(sg.LayoutError, match=r"chroma='linear' is for samples that lie left"):
        turn(surface("nv12", (8, 8), seed=1).frame(chroma="linear"))
    assert turn(surface("rgba", (7, 5), seed=1).frame(chroma="linear")).chroma == "linear"


@pytest.mark.parametrize("degrees", [45, 1, float("nan"), float("inf"), "90", None, np.array([90, 90])], ids=repr)
def test_other_angles_are_refused(degrees):
    with pytest.raises(sg.LayoutError, match=r"degrees=.* must be a multiple of 90"):
        surface("nv12", (8, 8), seed=1).frame().rotated(degrees)


def test_planes_of_tensors_are_merged_pitched_and_strided():
    """Planes as decoders and cameras have them, in tensors of PyTorch: nothing is copied."""
    torch = pytest.importorskip("torch", reason="PyTorch, whose tensors are planes, is not installed")
    made = surface("i420", (16, 24), seed=5)
    expected = pixels_of(made.frame())
    luma, blue, red = (plane.numpy() for plane in made.frame().planes)
    surfaces_of = {
        "packed": [torch.from_numpy(plane.copy()) for plane in (luma, blue, red)],
        "pitched": [torch.zeros(len(plane), 40, dtype=torch.uint8)[:, : plane.shape[1]] for plane in (luma, blue, red)],
        "columns apart": [torch.zeros(*plane.shape, 2, dtype=torch.uint8)[..., 1] for plane in (luma, blue, red)],
    }
    for name, planes in surfaces_of.items():
        for tensor, plane in zip(planes, (luma, blue, red), strict=True):
            tensor.copy_(torch.from_numpy(plane.copy()))
        frame = sg.Frame("yuv420p", planes, sizes=(16, 24))
        assert [plane.operand.address for plane in frame.planes] == [plane.data_ptr() for plane in planes], name
        assert np.array_equal(pixels_of(frame), expected), name
    pairs = np.stack([blue, red], -1)
    for chroma in (pairs, pairs.reshape(8, 24)):  # (H/2, W/2, 2), and merged
        frame = sg.Frame("nv12", [torch.from_numpy(luma.copy()), torch.from_numpy(chroma.copy())], sizes=(16, 24))
        assert np.array_equal(pixels_of(frame), expected)
    deep = [torch.from_numpy(plane.astype(np.uint16) << 8) for plane in (luma, pairs)]
    assert sg.Frame("p016", deep, sizes=(16, 24)).planes[1].sizes == (8, 12, 2)


def test_a_plane_that_repeats_its_elements_is_read_as_it_is():
    """Copies of it would take a terabyte."""
    luma = np.broadcast_to(np.uint8(90), (2**20, 2**20))
    cut = sg.gather_crops([sg.Frame("gray", [luma], sizes=luma.shape)], [[2**19, 2**18]], (4, 8))
    assert np.unique(cut.numpy()).tolist() == [90]
