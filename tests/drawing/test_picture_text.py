"""Pictures in characters: the examples of DirectML's page on strides as they stand there, and layouts of any size.

https://learn.microsoft.com/windows/ai/directml/dml-strides
"""

# ruff: noqa: RUF001 - the multiplication sign is what the pictures show

from __future__ import annotations

import re
from itertools import product
from textwrap import dedent

import numpy as np
import pytest
from harness.steps import steps_within
from harness.strategies import layouts, offsets_of
from hypothesis import given

import stridedgpu as sg
from stridedgpu import picture
from stridedgpu.drawing.cells import MANY, Gap, grid_of, memory_of, place_at
from stridedgpu.drawing.subject import subject_of
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout

STEPS = 5_000_000
"""Of folding a layout: the most is 3 million, of five axes that are tangled."""

PAGE = {
    "row-major": (
        Layout((2, 3), (3, 1)),
        {"dims": "HW"},
        """
        sizes   H=2 W=3
        strides H=3 W=1
        packed: 6 elements in a span of 6

        A B C
        D E F

        offset 0 1 2 3 4 5
        value  A B C D E F
        """,
    ),
    "column-major": (
        Layout((2, 3), sg.calculate_strides("WH", (2, 3))),
        {"dims": "HW"},
        """
        sizes   H=2 W=3
        strides H=1 W=2
        packed: 6 elements in a span of 6

        A B C
        D E F

        offset 0 1 2 3 4 5
        value  A D B E C F
        """,
    ),
    "DHW": (
        Layout((2, 2, 3)),
        {"dims": "DHW"},
        """
        sizes   D=2 H=2 W=3
        strides D=6 H=3 W=1
        packed: 12 elements in a span of 12

        D=0      D=1
        A B C    G H I
        D E F    J K L

        offset 0 1 2 3 4 5 6 7 8 9 10 11
        value  A B C D E F G H I J  K  L
        """,
    ),
    "broadcast": (
        Layout((2, 3), (0, 1)),
        {"dims": "HW"},
        """
        sizes   H=2 W=3
        strides H=0 W=1
        broadcast: 6 elements share 3 places

        A B C
        A B C

        offset  0  1  2
        value   A  B  C
        shared ×2 ×2 ×2
        """,
    ),
    "broadcast channel": (
        Layout((1, 2, 2, 2), (4, 0, 2, 1)),
        {"dtype": "float16"},
        """
        sizes   N=1 C=2 H=2 W=2
        strides N=4 C=0 H=2 W=1
        broadcast: 8 elements share 4 places, float16 of 2 B

        N=0 C=0    N=0 C=1
        A B        A B
        C D        C D

        offset  0  1  2  3
        value   A  B  C  D
        shared ×2 ×2 ×2 ×2
        """,
    ),
    "padded": (
        Layout((2, 3), (5, 1)),
        {"dims": "HW", "buffer_elements": 10},
        """
        sizes   H=2 W=3
        strides H=5 W=1
        padded: 6 elements within a span of 8

        A B C
        D E F

        offset 0 1 2 3 4 5 6 7 8 9
        value  A B C · · D E F · ·
        """,
    ),
    "1 x 1 x 3 x 5 packed NCHW": (
        sg.BufferTensorDesc("float32", (1, 1, 3, 5)),
        {},
        """
        sizes   N=1 C=1 H=3 W=5
        strides N=15 C=15 H=5 W=1
        packed: 15 elements in a span of 15, float32 of 4 B

        N=0 C=0
        A B C D E
        F G H I J
        K L M N O

        offset 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14
        value  A B C D E F G H I J  K  L  M  N  O
        """,
    ),
    "1 x 1 x 3 x 5 packed NHWC": (
        Layout((1, 1, 3, 5), sg.calculate_strides("NHWC", (1, 1, 3, 5))),
        {},
        """
        sizes   N=1 C=1 H=3 W=5
        strides N=15 C=1 H=5 W=1
        packed: 15 elements in a span of 15

        N=0 C=0
        A B C D E
        F G H I J
        K L M N O

        offset 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14
        value  A B C D E F G H I J  K  L  M  N  O
        """,
    ),
}


def golden(text: str) -> str:
    return dedent(text).strip("\n")


@pytest.mark.parametrize("name", PAGE)
def test_the_examples_of_the_page(name):
    thing, options, expected = PAGE[name]
    assert picture.text(thing, **options) == golden(expected)


def test_the_pages_tables_letter_for_letter():
    tables = {"row-major": "A B C D E F", "column-major": "A D B E C F", "padded": "A B C · · D E F · ·"}
    for name, letters in tables.items():
        thing, options, _ = PAGE[name]
        assert picture.text(thing, **options).splitlines()[-1] == f"value  {letters}"


def test_planes_of_pixels_break_memory_at_rows():
    tensor = sg.empty((1, 3, 2, 4), "uint8", layout="NHWC", row_pitch_bytes=14, device="cpu")
    assert picture.text(tensor, width=64) == golden(
        """
        sizes   N=1 C=3 H=2 W=4
        strides N=28 C=1 H=14 W=3
        padded: 24 elements within a span of 26, uint8 of 1 B

        N=0 C=0    N=0 C=1    N=0 C=2
        A B C D    I J K L    Q R S T
        E F G H    M N O P    U V W X

        offset  0  1  2  3  4  5  6  7  8  9 10 11 12 13
        value   A  I  Q  B  J  R  C  K  S  D  L  T  ·  ·

        offset 14 15 16 17 18 19 20 21 22 23 24 25 26 27
        value   E  M  U  F  N  V  G  O  W  H  P  X  ·  ·
        """
    )


def test_flipped_and_stepped_with_plain_axes():
    view = Layout((4, 5)).sliced((slice(None, None, -1), slice(0, 5, 2)))
    assert picture.text(view) == golden(
        """
        sizes   (4, 3)
        strides (-5, 2)
        offset  15
        padded: 12 elements within a span of 20

        A B C
        D E F
        G H I
        J K L

        offset 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
        value  J · K · L G · H · I  D  ·  E  ·  F  A  ·  B  ·  C
        """
    )


def test_labels_may_be_coordinates_or_offsets():
    layout = Layout((2, 2), (1, 3))
    expected = """
        0,0 0,1
        1,0 1,1

        offset   0   1 2   3   4
        value  0,0 1,0 · 0,1 1,1
        """
    assert picture.text(layout, labels="coordinates").endswith("\n\n" + golden(expected))
    assert picture.text(layout, labels="offsets").splitlines()[4:6] == ["0 3", "1 4"]
    with pytest.raises(LayoutError, match="labels='numbers' is unknown"):
        picture.text(layout, labels="numbers")
    with pytest.raises(LayoutError, match="can name 702 elements, not 1000"):
        picture.text(Layout((1000,)), labels="letters")


@pytest.mark.parametrize(
    "layout",
    [
        Layout((1, 3, 32768, 65536)),
        Layout((32, 3, 32768, 65536), (0, 1, 4 * 65536, 4)),
        Layout((1000, 1000, 1000), (1, 1, 1)),
        Layout((2**40,)),
        Layout((4096,) * 8),
        Layout((64, 64, 64, 64, 64), (7, 11, 13, 17, 19)),
    ],
    ids=["NCHW", "broadcast pixels", "overlapping", "one axis", "rank 8", "tangled"],
)
def test_a_tensor_of_billions_is_folded_at_once(layout):
    with steps_within(STEPS):
        drawn = picture.text(layout)
    assert len(drawn) < 6000
    assert "…" in drawn
    assert max(map(len, drawn.splitlines()[3:])) <= 100
    last = layout.offset_of([size - 1 for size in layout.sizes])
    assert str(last) in drawn or layout.ndim > 4


def test_axes_have_the_letters_that_a_tensor_gives_them():
    def sizes(tensor, **options):
        return picture.text(tensor, **options).splitlines()[0]

    labelled = sg.zeros((3, 2), "uint8", dims="CW", device="cpu")
    assert sizes(labelled) == "sizes   C=3 W=2"
    assert sizes(labelled, dims="") == "sizes   (3, 2)"
    assert sizes(sg.zeros((1, 3, 2, 2), "uint8", device="cpu")) == "sizes   N=1 C=3 H=2 W=2"
    blocks = sg.zeros((1, 8, 2, 2), "uint8", layout="NCHW4", device="cpu")
    assert sizes(blocks) == "sizes   (1, 2, 4, 2, 2)"


def test_empty_and_scalar():
    assert picture.text(Layout((0, 4))) == "sizes   (0, 4)\nstrides (4, 1)\nempty: no elements"
    assert picture.text(Layout(())).splitlines()[-2:] == ["offset 0", "value  A"]


def test_a_plan_draws_both_sides_and_explains_itself():
    source = sg.empty((1, 3, 2, 2), "uint8", layout="NHWC", device="cpu")
    target = sg.empty((1, 3, 2, 2), "float32", device="cpu")
    plan = sg.plan_relayout(source, target, scale=0.5)
    drawn = picture.text(plan)
    assert drawn.startswith("source\nsizes   N=1 C=3 H=2 W=2\nstrides N=12 C=1 H=6 W=3\n")
    assert "\ntarget\nsizes   N=1 C=3 H=2 W=2\nstrides N=12 C=4 H=2 W=1\n" in drawn
    assert drawn.endswith(plan.explain())


def test_what_has_no_layout_is_refused():
    with pytest.raises(LayoutError, match="list has no layout to draw"):
        picture.text([1, 2])


@given(layouts())
def test_every_place_says_which_elements_lie_there(layout):
    at = list(product(*map(range, layout.sizes)))
    offsets = offsets_of(layout)
    for offset in range(layout.first_offset - 1, layout.first_offset + layout.span + 1):
        here = [where for where, lies in zip(at, offsets, strict=True) if lies == offset]
        place = place_at(layout, offset)
        assert place.sharers == min(MANY, len(here))
        assert place.coordinates in (here or [None])


@given(layouts())
def test_memory_is_whole_and_holds_every_shown_element(layout):
    subject, grid = subject_of(layout), grid_of(layout)
    memory = memory_of(layout, grid, subject.stop)
    reached = layout.first_offset
    for part in memory:
        assert part.offset == reached
        reached += part.count if isinstance(part, Gap) else 1
    assert reached == layout.first_offset + layout.span
    places = {part.offset for part in memory if not isinstance(part, Gap)}
    assert {layout.offset_of(where) for where in grid.elements()} <= places


def test_the_target_of_a_plan_has_the_letters_of_its_source():
    pixels = sg.asarray(np.zeros((1, 2, 2, 3), np.uint8), dims="NHWC")
    planes = sg.empty((1, 3, 2, 2), "uint8", device="cpu")
    drawn = picture.text(sg.plan_relayout(pixels, planes, channels=(2, 1, 0)))
    source, target = (re.findall(r"^value +(.*)$", part, re.MULTILINE)[0].split() for part in drawn.split("target\n"))
    assert sorted(source) == sorted(target)
    letters = dict(zip(source, np.arange(12), strict=True))
    moved = np.array([letters[letter] for letter in target]).reshape(3, 2, 2)
    assert np.array_equal(moved, np.arange(12).reshape(2, 2, 3)[..., ::-1].transpose(2, 0, 1))


def test_plans_show_themselves_in_notebooks():
    pixels = sg.asarray(np.zeros((1, 2, 2, 3), np.uint8), dims="NHWC")
    plan = sg.plan_relayout(pixels, sg.empty((1, 3, 2, 2), "uint8", device="cpu"))
    assert plan._repr_html_().count('class="sg-side"') == 2
    gathers = sg.plan_gather(sg.zeros((4, 3), "uint8", device="cpu"), np.zeros(2, np.int64))
    assert gathers._repr_html_().startswith(f"<pre>{gathers.kernel}")
