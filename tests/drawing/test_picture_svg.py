"""SVG and HTML pictures: parsed, and every cell, place, rule and vector is where the strides say."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import product
from xml.etree import ElementTree as ET

import pytest
from harness.profiles import examples
from harness.steps import steps_within
from harness.strategies import layouts, offsets_of
from hypothesis import given, settings

import stridedgpu as sg
from stridedgpu import picture
from stridedgpu.drawing.cells import grid_of
from stridedgpu.drawing.page import fragment
from stridedgpu.drawing.subject import PlanMap, tile_words
from stridedgpu.operations.relayout import RelayoutPlan
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout

SVG = "{http://www.w3.org/2000/svg}"


def parsed(markup: str) -> ET.Element:
    return ET.fromstring(markup)


def marked(root: ET.Element, kind: str) -> list[ET.Element]:
    return [node for node in root.iter() if kind in node.get("class", "").split()]


def label(node: ET.Element) -> str:
    return next(text.text for text in node.iter(f"{SVG}text") if text.get("class") != "sg-small")


def box(node: ET.Element) -> tuple[float, float, float, float]:
    rect = next(node.iter(f"{SVG}rect"))
    return tuple(float(rect.get(name)) for name in ("x", "y", "width", "height"))


def coordinates(node: ET.Element) -> tuple[int, ...]:
    return tuple(map(int, filter(None, node.get("data-at").split(","))))


def pitched() -> sg.StridedTensor:
    return sg.empty((1, 3, 4, 5), "uint8", layout="NHWC", row_pitch_bytes=16, device="cpu")


def small_plan(**options: object) -> RelayoutPlan:
    source = sg.empty((1, 3, 2, 16), "uint8", layout="NHWC", device="cpu")
    return sg.plan_relayout(source, sg.empty((1, 3, 2, 16), "float16", device="cpu"), device="cuda", **options)


def test_every_element_and_every_place_of_a_pitched_tensor():
    tensor = pitched()
    root = parsed(picture.svg(tensor))
    cells, places = marked(root, "sg-cell"), marked(root, "sg-place")
    assert [coordinates(cell) for cell in cells] == list(product(range(1), range(3), range(4), range(5)))
    for node in (*cells, *places):
        assert int(node.get("data-offset")) == tensor.layout.offset_of(coordinates(node))
    assert len(places) == 60
    assert [int(node.get("data-offset")) for node in marked(root, "sg-padding")] == [15, 31, 47, 63]
    assert {label(cell): cell.get("data-offset") for cell in cells} == {
        label(place): place.get("data-offset") for place in places
    }


def test_padding_is_hatched_and_colours_follow_channels():
    root = parsed(picture.svg(pitched()))
    assert {next(node.iter(f"{SVG}rect")).get("fill") for node in marked(root, "sg-padding")} == {"url(#sg-hatch)"}
    fills = {}
    for node in (*marked(root, "sg-cell"), *marked(root, "sg-place")):
        fills.setdefault(coordinates(node)[1], set()).add(next(node.iter(f"{SVG}rect")).get("fill"))
    assert [len(fill) for fill in fills.values()] == [1, 1, 1]
    assert len(set.union(*fills.values())) == 3


def test_rules_stand_at_every_16_bytes():
    root = parsed(picture.svg(pitched()))
    assert [int(rule.get("data-offset")) for rule in marked(root, "sg-ruler")] == [0, 16, 32, 48]
    root = parsed(picture.svg(sg.empty((3, 5), "float32", row_pitch_bytes=24, device="cpu")))
    assert [int(rule.get("data-offset")) for rule in marked(root, "sg-ruler")] == [0, 4, 8, 12, 16]
    places = {node.get("data-offset"): box(node)[0] for node in marked(root, "sg-place")}
    rules = {
        rule.get("data-offset"): float(re.match(r"M([\d.]+) ", rule.get("d"))[1]) for rule in marked(root, "sg-ruler")
    }
    assert all(places[offset] == x for offset, x in rules.items() if offset in places)


def test_cells_do_not_cover_each_other():
    root = parsed(picture.svg(Layout((2, 3, 2, 4))))
    boxes = [box(node) for kind in ("sg-cell", "sg-place") for node in marked(root, kind)]
    for number, (x, y, wide, high) in enumerate(boxes):
        for left, top, width, height in boxes[:number]:
            assert x >= left + width or left >= x + wide or y >= top + height or top >= y + high


def test_planes_of_a_batch_are_stacked_and_channels_stand_side_by_side():
    root = parsed(picture.svg(Layout((2, 3, 2, 4))))
    corners = {coordinates(cell)[:2]: box(cell)[:2] for cell in reversed(marked(root, "sg-cell"))}
    for image in range(2):
        row = [corners[image, channel] for channel in range(3)]
        assert len({y for _, y in row}) == 1
        assert [x for x, _ in row] == sorted({x for x, _ in row})
    assert corners[1, 0][1] > corners[0, 0][1]


def test_shared_places_say_how_many_share_them():
    root = parsed(picture.svg(Layout((2, 3), (0, 1))))
    assert [place.get("data-sharers") for place in marked(root, "sg-place")] == ["2", "2", "2"]
    assert picture.svg(Layout((2, 3), (0, 1))).count("\N{MULTIPLICATION SIGN}2") == 3
    assert [label(cell) for cell in marked(root, "sg-cell")] == list("ABCABC")


def test_a_plan_outlines_its_vectors_on_both_sides():
    plan = small_plan()
    assert (plan.load_bytes, plan.store_bytes) == (16, 16)
    root = parsed(picture.svg(plan))
    vectors = [int(vector.get("data-offset")) for vector in marked(root, "sg-vector")]
    source, target = list(range(0, 96, 16)), list(range(0, 96, 8))
    assert vectors == source + target


def test_a_tensor_beside_its_plan_is_outlined_too():
    source = sg.empty((1, 3, 2, 16), "uint8", layout="NHWC", device="cpu")
    target = sg.empty((1, 3, 2, 16), "float16", device="cpu")
    plan = sg.plan_relayout(source, target, device="cuda")
    assert len(marked(parsed(picture.svg(source, plan=plan)), "sg-vector")) == 6
    assert len(marked(parsed(picture.svg(target, plan=plan)), "sg-vector")) == 12
    assert marked(parsed(picture.svg(target)), "sg-vector") == []
    with pytest.raises(LayoutError, match="is neither the source nor the target of channels_uint8x16B"):
        picture.svg(Layout((2, 3)), plan=plan)


@pytest.mark.parametrize(
    "sizes, layout, dtype, options",
    [
        ((2, 3, 4, 6), "NHWC", "float16", {"channels": (2, 1, 0)}),
        ((2, 3, 4, 6), "NHWC", "uint8", {"channels": (1, 1, 0)}),
        ((1, 40, 5, 7), "NHWC", "float32", {"scale": 2.0}),
        ((1, 2, 3, 4), "CHWN", "uint8", {}),
    ],
    ids=["BGR", "picked", "transpose", "CHWN"],
)
def test_a_plan_knows_where_each_element_comes_from(sizes, layout, dtype, options):
    source, target = sg.empty(sizes, "uint8", layout=layout, device="cpu"), sg.empty(sizes, dtype, device="cpu")
    moved = PlanMap(sg.plan_relayout(source, target, **options).plan)
    order = options.get("channels", range(sizes[1]))
    for n, c, h, w in product(*map(range, sizes)):
        assert moved.source_of(target.layout.offset_of((n, c, h, w))) == source.layout.offset_of((n, order[c], h, w))


def test_the_tile_of_a_warp_and_of_a_tile():
    pixels = small_plan(channels=(2, 1, 0))
    assert PlanMap(pixels.plan).tile == pixels.plan.tile
    assert PlanMap(pixels.plan).read == frozenset(range(96))
    source = sg.empty((1, 512, 16, 64), "uint8", layout="NHWC", device="cpu")
    tile = sg.plan_relayout(source, sg.empty((1, 512, 16, 64), "uint8", device="cpu"), device="cuda").plan
    assert tile.family == "transpose"
    across, along = re.search(r"source_extent = (\d+), .target_extent = (\d+)", tile.launch.name).groups()
    assert sorted(tile.tile) == sorted((int(across), int(along)))
    assert tile_words(tile).startswith(f"one tile of {tile.tile[0]} x {tile.tile[1]} elements")


STEPS = 200_000
HUGE = Layout((32, 3, 32768, 65536), (0, 1, 4 * 65536, 4))


@pytest.mark.parametrize("draw", [picture.svg, picture.html], ids=["svg", "html"])
@pytest.mark.parametrize("layout", [HUGE, Layout((1, 3, 40000, 40000)), Layout((4096,) * 8)], ids=["NHWC", "NCHW", "8"])
def test_billions_of_elements_come_back_at_once_and_small(draw, layout):
    with steps_within(STEPS):
        markup = draw(layout, dtype="uint8")
    assert len(markup) < 100_000
    assert "…" in markup


@given(layouts())
@settings(max_examples=examples(50))
def test_any_layout_is_drawn_with_every_shown_element(layout):
    root = parsed(picture.svg(layout))
    if not layout.element_count:
        assert marked(root, "sg-cell") == []
        return
    shown = [coordinates(cell) for cell in marked(root, "sg-cell")]
    assert shown == list(grid_of(layout).elements())
    assert {int(place.get("data-offset")) for place in marked(root, "sg-place")} <= set(offsets_of(layout))


@pytest.mark.parametrize("draw", [picture.text, picture.svg, picture.html], ids=["text", "svg", "html"])
def test_nothing_and_one_element_are_drawn_too(draw):
    one = sg.plan_relayout(sg.zeros((), "uint8", device="cpu"), sg.zeros((), "float32", device="cpu"))
    none = sg.plan_relayout(sg.zeros((0, 3), "uint8", device="cpu"), sg.zeros((0, 3), "uint8", device="cpu"))
    for thing in (one, none, Layout(()), Layout((0, 3))):
        assert draw(thing)


class Cells(HTMLParser):
    """The facts of every cell and place, and what a page would load."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.cells: list[dict[str, str]] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(markup)

    def handle_starttag(self, tag, attrs):
        facts = dict(attrs)
        self.tags.append(tag)
        self.links += [facts[name] for name in ("src", "href") if name in facts]
        if facts.get("role") == "gridcell":
            self.cells.append({"tag": tag, **facts})


def test_html_has_every_element_and_loads_nothing():
    tensor = pitched()
    page = Cells(picture.html(tensor))
    assert page.links == ["data:,"]
    elements = [cell for cell in page.cells if cell["class"] == "sg-cell"]
    assert [cell["data-at"] for cell in elements[:2]] == ["0,0,0,0", "0,0,0,1"]
    for cell in page.cells:
        if "data-at" in cell:
            assert int(cell["data-offset"]) == tensor.layout.offset_of(tuple(map(int, cell["data-at"].split(","))))
        else:
            assert cell["class"] == "sg-padding"
    assert len(elements) == 60
    assert len(page.cells) == 60 + 64


def test_what_a_user_wrote_is_escaped():
    page = picture.html(Layout((2,)), title="</title><script>alert(1)</script>")
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert(1)") == 2


def test_notebooks_get_svg_and_html():
    tensor = pitched()
    assert tensor._repr_svg_() == picture.svg(tensor)
    for value in (tensor.layout, tensor.desc):
        assert value._repr_html_() == fragment(value)
    assert tensor._repr_html_() == fragment(tensor)
    assert "<html" not in tensor._repr_html_()
    assert len(marked(parsed(tensor[0, :, 1:3]._repr_svg_()), "sg-cell")) == 30
