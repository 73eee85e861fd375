"""Resizes of the native library have the bits of compiled loops, and are chosen from the first call on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness.compiled_loops import needs_compiler, needs_library
from harness.cpu_paths import forget, picking_by
from harness.fenced_memory import Fenced
from harness.profiles import examples
from harness.resize_cases import Resize, pictures, resizes
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.devices.cpu.policy import policy, using
from stridedgpu.values.interpolation import INTERPOLATIONS, interpolation_named

pytestmark = needs_library

RULES = tuple(INTERPOLATIONS)


def planned(interpolation: str, element: str, *, pixels: bool = True, planar: bool = True, **arguments: Any) -> Any:
    """The plan of an ordinary photograph, of pixels or planes to either."""
    photo = sg.BufferTensorDesc(element, (3, 480, 640), (1, 1920, 3) if pixels else (307200, 640, 1))
    target = sg.BufferTensorDesc("float32", (3, 224, 220), (49280, 220, 1) if planar else (1, 660, 3))
    return sg.plan_resize(photo, target, interpolation=interpolation, **arguments)


@pytest.mark.parametrize("interpolation", RULES)
def test_photographs_are_resized_natively(interpolation: str) -> None:
    """Bytes and floats, with constants and an order of channels, from the first call on."""
    rule = interpolation_named(interpolation)
    constants = {"scale": [0.5, 0.25, 2.0], "bias": [1.0, 0.0, -1.0], "channels": (2, 1, 0)}
    for element in ("uint8", "uint16", "float32"):
        if rule.is_nearest or element in rule.arithmetic_of:
            for planar in (True, False):
                plan = planned(interpolation, element, planar=planar, **constants).plan
                assert plan.compiled_from == 1, plan.explain()
                assert plan.compiled.is_native


@needs_compiler
def test_without_the_library_a_resize_is_compiled() -> None:
    with using(policy()._replace(native=False)):
        assert not planned("pillow-bicubic", "uint8").plan.compiled.is_native


def test_alpha_is_weighted_natively() -> None:
    photo = sg.BufferTensorDesc("uint8", (4, 480, 640), (1, 2560, 4))
    arguments = {"interpolation": "pillow-bicubic", "premultiply": True}
    assert sg.plan_resize(photo, sg.BufferTensorDesc("uint8", (4, 60, 70)), **arguments).plan.compiled.is_native
    planes = sg.BufferTensorDesc("uint8", (4, 480, 640))
    assert sg.plan_resize(planes, sg.BufferTensorDesc("uint8", (4, 60, 70)), **arguments).plan.compiled is None


def bits(case: Resize, source: Any, *, native: bool, **arguments: Any) -> Any:
    """A resize by either engine, as bytes."""
    promotion = policy().promotion._replace(at_once_bytes=0, resize_bytes=0)
    with using(policy()._replace(native=native, promotion=promotion)):
        forget()
        made = sg.resize(source, case.target, box=case.box, **arguments)
        return (made.reinterpret(dtype="uint16") if arguments.get("dtype") == "bfloat16" else made).numpy().tobytes()


@needs_compiler
@pytest.mark.parametrize("interpolation", RULES)
@settings(max_examples=examples(40))
@given(
    case=resizes(200),
    element=st.sampled_from(["uint8", "uint8", "uint16", "float32"]),
    dtype=st.sampled_from([None, "float32", "float16", "bfloat16"]),
    layout=st.sampled_from(["CHW", "HWC"]),
    data=st.data(),
)
def test_both_engines_have_the_same_bits(
    interpolation: str, case: Resize, element: str, dtype: str | None, layout: str, data: st.DataObject
) -> None:
    """Some channels in any order, with constants of their own."""
    rule = interpolation_named(interpolation)
    element = element if rule.is_nearest or element in rule.arithmetic_of else "uint8"
    channels = tuple(data.draw(st.permutations(range(case.channels))))[: data.draw(st.integers(1, case.channels))]
    arguments: dict[str, Any] = {"interpolation": interpolation, "dtype": dtype, "layout": layout, "channels": channels}
    if dtype is not None:
        arguments |= {"scale": [1 / (2 + c) for c in range(len(channels))], "bias": [c - 0.5 for c in channels]}
    if rule.is_pillow and rule.filter is not None:
        arguments["passes"] = data.draw(st.sampled_from(["horizontal", "vertical"]))
    for source, dims in pictures(case.picture(element)):
        made, expected = (bits(case, source, native=native, dims=dims, **arguments) for native in (True, False))
        assert made == expected


@needs_compiler
@settings(max_examples=examples(60))
@given(
    case=resizes(150),
    channels=st.sampled_from([2, 4]),
    chosen=st.sampled_from([None, "reversed", "first"]),
    layout=st.sampled_from(["CHW", "HWC"]),
    interpolation=st.sampled_from(["pillow-bilinear", "pillow-lanczos"]),
)
def test_alpha(case: Resize, channels: int, chosen: str | None, layout: str, interpolation: str) -> None:
    """Wherever alpha lies in the result, or is not in it."""
    case = Resize(case.source, case.target, case.box, channels, case.seed)
    order = {None: None, "reversed": tuple(range(channels))[::-1], "first": (0,)}[chosen]
    arguments: dict[str, Any] = {"interpolation": interpolation, "premultiply": True, "layout": layout}
    picture = case.picture()
    picture[..., -1].reshape(-1)[::3] = [0, 255, 1][case.seed % 3]
    made, expected = (
        bits(case, picture, native=native, dims="HWC", channels=order, **arguments) for native in (True, False)
    )
    assert made == expected


def test_windows_at_any_place_are_resized_natively() -> None:
    """Boxes of a batch, whose geometries come with each call, and those that leave an axis as it is."""
    pictures = np.random.default_rng(1).integers(0, 256, (3, 61, 67, 3), np.uint8)
    boxes = [[0, 0, 40.5, 50], [3, 4, 12, 13], [1, 1, 60, 66]]
    made = []
    for native in (True, False):
        with using(policy()._replace(native=native)):
            forget()
            arguments = {"boxes": boxes, "size": (9, 11), "interpolation": "pillow-bilinear"}
            made.append(sg.gather_crops(pictures, dims="NHWC", **arguments).numpy())
    np.testing.assert_array_equal(*made)


@pytest.mark.parametrize("interpolation", ["pillow-lanczos", "torch-bilinear"])
def test_an_axis_that_stays_is_a_pass_of_copies(interpolation: str) -> None:
    picture = np.random.default_rng(1).integers(0, 256, (61, 67, 3), np.uint8)
    for size in ((61, 30), (20, 67)):
        made = []
        for native in (True, False):
            with using(policy()._replace(native=native)):
                forget()
                made.append(sg.resize(picture, size, dims="HWC", interpolation=interpolation).numpy())
        np.testing.assert_array_equal(*made)


@pytest.mark.parametrize("at_end", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize(
    "interpolation, element, channels",
    [
        *(("opencv-linear", "uint8", channels) for channels in (1, 2, 3, 4)),
        ("opencv-cubic", "uint8", 3),
        ("pillow-nearest", "uint8", 3),
        ("pillow-bicubic", "uint16", 3),
        ("torch-bilinear", "float32", 1),
        ("alpha", "uint8", 2),
        ("alpha", "uint8", 4),
    ],
)
def test_no_byte_beside_the_rows_is_read(interpolation: str, element: str, channels: int, at_end: bool) -> None:
    """Six rows between pages that may not be touched are halved, shrunk and enlarged."""
    weighs = {"interpolation": "pillow-bilinear", "premultiply": True}
    arguments = weighs if interpolation == "alpha" else {"interpolation": interpolation}
    itemsize = np.dtype(element).itemsize
    for width in (*range(16, 36), *range(60, 72, 2), 130):
        fenced = Fenced(6 * width * channels * itemsize, np.random.default_rng(width), at_end=at_end)
        numbers = fenced.bytes.view(element)
        if element == "float32":
            numbers[:] = np.arange(numbers.size)
        rows = numbers.reshape(6, width, channels)
        for columns in (width // 2, width // 3, width * 2):
            made = []
            for path in ("NumPy", "compiled, 1 thread"):
                with picking_by(path):
                    made.append(sg.resize(rows, (3, columns), dims="HWC", **arguments).numpy())
            np.testing.assert_array_equal(*made)
