"""Pictures of frames: planes to scale, samples in the order of memory, and padding that is hatched."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

import stridedgpu as sg

NAMESPACE = "{http://www.w3.org/2000/svg}"


def drawn(frame):
    """The boxes of a frame's picture, as left, top, width, height and fill, and its words."""
    root = ET.fromstring(frame._repr_svg_())
    boxes = [
        (*(float(one.get(name)) for name in ("x", "y", "width", "height")), one.get("fill"))
        for one in root.findall(f"{NAMESPACE}rect")
    ]
    return boxes, [one.text for one in root.findall(f"{NAMESPACE}text")]


def test_planes_are_drawn_to_scale_with_their_padding():
    frame = sg.Frame.over("nv12", bytes(2048 * 1620), (1080, 1920), row_pitch_bytes=2048)
    (luma, gap, chroma, other_gap), words = drawn(frame)
    assert (luma[2], luma[3]) == pytest.approx((450, 1080 * 450 / 1920), rel=1e-4)
    assert (chroma[2], chroma[3]) == pytest.approx((450, 540 * 450 / 1920), rel=1e-4)
    assert gap[:3] == pytest.approx((luma[0] + 450, luma[1], 30))
    assert gap[4] == other_gap[4] == "url(#sg-hatch)"
    assert words[0] == "Frame nv12, 1080 x 1920, bt601, on cpu"
    assert "plane 1: U V, 540 x 960 x 2 uint8, rows 2048 B apart, 128 of them padding, from byte 2211840" in words


@pytest.mark.parametrize(
    "name, orders",
    [
        ("nv21", ["Y", "V U"]),
        ("yv12", ["Y", "V", "U"]),
        ("uyvy", ["U Y V Y"]),
        ("bgrx", ["B G R x"]),
        ("argb", ["x R G B"]),
        ("gray", ["Y"]),
    ],
)
def test_samples_are_named_in_the_order_of_memory(name, orders):
    _, *lines = sg.Frame.over(name, bytes(1000), (8, 8)).describe().splitlines()
    assert [line.split(": ")[1].split(",")[0] for line in lines] == orders


def test_a_packed_frame_has_no_padding():
    boxes, _ = drawn(sg.Frame.over("i420", bytes(96), (8, 8)))
    assert len(boxes) == 3
