"""One draw, every execution: NumPy, native loops and emulated kernels, beside Pillow and OpenCV. No byte differs.

CI has a block of 60 draws for each interpolation, of which the emulator runs 6. `-m sweep` has 31 blocks more, whose
draws are of sixteen kinds for each interpolation: a kernel takes seconds to build for the emulator, and a draw less
than a tenth of one.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
from harness.cpu_paths import picking_by
from harness.emulator.cases import collected
from harness.emulator.marks import emulated
from harness.resize_cases import (
    Array,
    Resize,
    cv2_resize,
    pictures,
    pillow_passes,
    pillow_resize,
    resizes,
    torch_resize,
)
from harness.resize_launches import LaunchedResize, check_resizes, program_each
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import stridedgpu as sg
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cuda.gpu import REFERENCE_GPU
from stridedgpu.devices.cuda.resize import choose_resize, window_launch
from stridedgpu.problems.crop_windows import source_steps
from stridedgpu.problems.resize_problem import ResizeProblem, ResizeRule, ResizeWindow
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.interpolation import INTERPOLATIONS, interpolation_named
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

PATHS = ("native, 1 thread", "native, 2 threads") if policy().why_numpy is None else ()

BORDER = 114


@dataclasses.dataclass(eq=False)
class Draw(LaunchedResize):
    """One call of `resize`, `gather_crops` or `letterbox`, and the images that it is given.

    `flips` mirror images of `gather_crops`; `layouts` number what `pictures` makes of each.
    """

    way: str
    rule: ResizeRule
    source: str
    values: dict[str, Any]
    order: str
    row_pitch_bytes: int | None
    cases: list[Resize]
    layouts: list[int]
    flips: list[bool]
    gpu = REFERENCE_GPU

    @functools.cached_property
    def seed(self) -> int:
        """Of the memory beforehand, and of the order of threads."""
        return self.cases[0].seed

    @functools.cached_property
    def photos(self) -> list[tuple[Array, str]]:
        """The images as the call is given them, with the labels of their axes."""
        made = []
        for case, number in zip(self.cases, self.layouts, strict=True):
            picture = case.picture(self.source)
            if self.source == "float32" and case.seed % 4 == 0:
                places = np.random.default_rng(case.seed).integers(0, picture.size, 5)
                picture.reshape(-1)[places] = np.nan, np.inf, -np.inf, -0.0, 1e-42
            made.append(pictures(picture)[number])
        return made

    def call(self) -> sg.StridedTensor:
        """The call, on the CPU."""
        options = {
            **self.values,
            "interpolation": str(self.rule.interpolation),
            "passes": self.rule.passes,
            "layout": self.order,
            "row_pitch_bytes": self.row_pitch_bytes,
        }
        size = self.cases[0].target
        if self.way == "resize":
            (photo, dims), case = self.photos[0], self.cases[0]
            return sg.resize(photo[None], size, dims="N" + dims, box=case.box, **options)
        tensors = [sg.asarray(photo, dims=dims) for photo, dims in self.photos]
        if self.way == "letterbox":
            return sg.letterbox(tensors, size, value=BORDER, **options)
        return sg.gather_crops(tensors, size=size, boxes=self.boxes, flip=self.flips, **options)

    @functools.cached_property
    def boxes(self) -> list[tuple[float, ...]]:
        """The box of each image."""
        return [case.box or (0.0, 0.0, *map(float, case.source)) for case in self.cases]

    @functools.cached_property
    def by_numpy(self) -> sg.StridedTensor:
        """The batch."""
        with picking_by("NumPy"):
            return self.call()

    @functools.cached_property
    def windows(self) -> list[ResizeWindow]:
        """The images in memory, from the lowest element on, and their places."""
        height, width = self.cases[0].target
        places = [(0, 0, height, width)] * len(self.cases)
        if self.way == "letterbox":
            sizes = [case.source for case in self.cases]
            places = [tuple(place) for place in sg.letterbox_placements(sizes, (height, width)).tolist()]
        made = []
        for (photo, dims), box, place, flip in zip(self.photos, self.boxes, places, self.flips, strict=True):
            planes = photo.transpose([dims.index(axis) for axis in "CHW"])
            layout = Layout(planes.shape, [step // planes.itemsize for step in planes.strides])
            made.append(ResizeWindow(layout.shifted(-layout.first_offset), box, place, flip))
        return made

    @functools.cached_property
    def problem(self) -> ResizeProblem:
        """What is planned for the GPU, into memory that lies as the CPU's result does."""
        channels = self.cases[0].channels
        element = element_type(self.source)
        values = dict(self.values)
        made = conversion(element, element_type(values.pop("dtype") or self.source), source_channels=channels, **values)
        shared = self.windows[0] if all(window == self.windows[0] for window in self.windows) else None
        steps = source_steps([window.layout for window in self.windows])
        fill = np.full(channels, BORDER if self.way == "letterbox" else 0, self.source).tobytes()
        target = TensorSpec(self.by_numpy.layout, made.target, 16)
        return ResizeProblem(target, made, self.rule, channels, steps, fill, shared)

    @functools.cached_property
    def memories(self) -> tuple[list[Any], Any]:
        """Bytes of each image, and of the batch beforehand."""
        sources = []
        for (photo, _), window in zip(self.photos, self.windows, strict=True):
            lowest = photo[tuple(slice(None, None, -1 if step < 0 else 1) for step in photo.strides)]
            sources.append(as_strided(lowest, (window.layout.span,), (photo.itemsize,)).copy().view(np.uint8))
        layout, element = self.problem.target.layout, self.problem.target.element
        return sources, np.random.default_rng(self.seed).integers(0, 256, layout.span * element.itemsize, np.uint8)

    @functools.cached_property
    def resized(self) -> Any:
        """The batch's bytes as NumPy makes them."""
        written = self.memories[1].copy()
        inside = self._batch(written)
        inside[...] = np.ascontiguousarray(self.by_numpy.numpy()).view(inside.dtype)
        return written

    def check_compiled(self) -> None:
        """The same by native loops."""
        for path in PATHS:
            with picking_by(path):
                assert self.call().numpy().tobytes() == self.by_numpy.numpy().tobytes(), (path, self)

    @property
    def is_the_librarys(self) -> bool:
        """Whether the library of the rule makes these pixels: its types and boxes, and nothing converts them."""
        library, name = self.rule.interpolation.name.split("-", 1)
        if self.source not in ("uint8", "uint16") or self.values["dtype"] is not None:
            return False
        if library == "pillow":
            orders = {pillow_passes(case) for case in self.cases}
            there = dataclasses.replace(self.problem, rule=dataclasses.replace(self.rule, passes=orders.pop()))
            return not orders and all(
                there.taps(window).columns_first == self.problem.taps(window).columns_first for window in self.windows
            )
        # INTER_CUBIC's result depends on the processor, and INTER_AREA takes up to 4 channels.
        whole = all(edge == int(edge) for box in self.boxes for edge in box)
        return whole and name != "cubic" and (name != "area" or self.cases[0].channels <= 4)

    def check_library(self) -> None:
        """The same by the library of the rule."""
        library, name = self.rule.interpolation.name.split("-", 1)
        oracle = {"pillow": pillow_resize, "opencv": cv2_resize, "torch": torch_resize}[library]
        channels = list(self.values["channels"] or range(self.cases[0].channels))
        for case, window, made in zip(self.cases, self.windows, self.by_numpy.numpy(), strict=True):
            top, left, height, width = window.place
            resized = oracle(case.picture(self.source), dataclasses.replace(case, target=(height, width)), name)
            expected = np.full((*case.target, case.channels), BORDER, self.source)
            expected[top : top + height, left : left + width] = resized[:, ::-1] if window.flip else resized
            np.testing.assert_array_equal(made, np.moveaxis(expected, -1, 0)[channels], err_msg=repr(self))


CONVERSIONS = ("none",) * 5 + ("float16", "float32", "bfloat16", "int16")


@dataclasses.dataclass(frozen=True)
class Kind:
    """What draws of one kernel have in common: all but the sizes of images, their boxes and their layouts."""

    rule: ResizeRule
    source: str
    channels: int
    values: dict[str, Any]
    order: str
    is_padded: bool

    @property
    def written(self) -> int:
        """Channels of the result."""
        return self.channels if self.values["channels"] is None else len(self.values["channels"])

    def row_pitch_bytes(self, width: int) -> int | None:
        """Bytes from one row of the result to the next: cache lines, if rows are padded."""
        row = element_type(self.values["dtype"] or self.source).itemsize * width
        return (row * (self.written if self.order == "NHWC" else 1) // 64 + 1) * 64 if self.is_padded else None


@st.composite
def kinds(draw: st.DrawFn, interpolation: str) -> Kind:
    """Types, conversion, channels, memory order and first pass."""
    named = interpolation_named(interpolation)
    types = ["uint8", "uint8", *(named.arithmetic_of or ("uint8", "uint16", "float32", "int64", "float64"))]
    source = draw(st.sampled_from(types))
    passes = ["horizontal", "vertical", "pillow-13", "pillow-13"] if named.is_pillow else ["horizontal"]
    channels = draw(st.integers(1, 12))
    chosen = draw(st.none() | st.lists(st.integers(0, channels - 1), min_size=1, max_size=channels, unique=True))
    values: dict[str, Any] = {"dtype": None, "channels": None if chosen is None else tuple(chosen)}
    into, made = draw(st.sampled_from(CONVERSIONS)), channels if chosen is None else len(chosen)
    if into != "none":
        scale = draw(st.sampled_from([None, 1 / 255, 0.37]))
        bias = draw(st.sampled_from([None, -0.5, tuple(0.25 * number - 2.1 for number in range(made))]))
        values |= {"dtype": into, "scale": scale, "bias": bias}
    rule, order = ResizeRule(named, draw(st.sampled_from(passes))), draw(st.sampled_from(["NCHW", "NHWC"]))
    return Kind(rule, source, channels, values, order, draw(st.sampled_from([False, False, True])))


@st.composite
def draws(draw: st.DrawFn, kind: Kind, largest: int, most: int, widths: st.SearchStrategy[int]) -> Draw:
    """Calls of a kind with up to `most` images of up to `largest` pixels along an axis."""
    way = draw(st.sampled_from(["resize", "gather_crops", "gather_crops", "letterbox"]))
    boxes = "fractions" if kind.rule.interpolation.is_pillow else draw(st.sampled_from(["fractions", "whole"]))
    boxes = "none" if way == "letterbox" else boxes
    target = draw(st.integers(1, largest)), draw(widths)
    count = 1 if way == "resize" else draw(st.integers(1, most))
    cases = [
        dataclasses.replace(draw(resizes(largest, boxes=boxes, target=target)), channels=kind.channels)
        for _ in range(count)
    ]
    return Draw(
        way,
        kind.rule,
        kind.source,
        kind.values,
        kind.order,
        kind.row_pitch_bytes(target[1]),
        cases,
        [draw(st.integers(0, 3)) for _ in cases],
        [way == "gather_crops" and draw(st.booleans()) for _ in cases],
    )


def check_compiled(found: list[Draw]) -> None:
    """Native loops have NumPy's bytes."""
    for draw in found:
        draw.check_compiled()


def check_library(found: list[Draw], least: int) -> None:
    """NumPy's bytes are the library's, in at least so many of the draws that it can make."""
    compared = [draw for draw in found if draw.is_the_librarys]
    for draw in compared:
        draw.check_library()
    assert len(compared) >= least, f"only {len(compared)} of {len(found)} draws are what the library makes"


def any_kind(interpolation: str, largest: int, most: int) -> st.SearchStrategy[Draw]:
    """Draws each of a kind of its own."""
    return kinds(interpolation).flatmap(lambda kind: draws(kind, largest, most, st.integers(1, largest)))


def a_few() -> list[Draw]:
    """Small images by any interpolation."""
    return collected(st.sampled_from(sorted(INTERPOLATIONS)).flatmap(lambda name: any_kind(name, 24, 3)), 6, 15)


LARGEST, MOST, BLOCK = 80, 4, 60
"""Pixels along an axis of a picture, pictures of a draw, and draws of a block."""

ODD = st.integers(0, LARGEST // 2 - 1).map(lambda half: 2 * half + 1)
"""Widths whose rows are stored element by element where they are packed: one width of a store for each kind."""


def first_block(interpolation: str) -> list[Draw]:
    """Draws of as many kinds."""
    return collected(any_kind(interpolation, LARGEST, MOST), BLOCK, len(interpolation))


def of_few_kinds(interpolation: str, block: int) -> list[Draw]:
    """Draws of eight kinds of an interpolation, which sixteen blocks share."""
    name = sum(interpolation.encode())
    found = collected(kinds(interpolation), 8, name + block // 16)
    seed = name + 100 * block
    return collected(st.sampled_from(found).flatmap(lambda kind: draws(kind, LARGEST, MOST, ODD)), BLOCK, seed)


EMULATED_IN_CI = 6
"""Draws of the first block that the emulator runs as well; it runs all of the sweep's."""

by_interpolation = pytest.mark.parametrize("interpolation", INTERPOLATIONS)
by_the_library = pytest.mark.parametrize("interpolation", sorted(set(INTERPOLATIONS) - {"opencv-cubic"}))
further_blocks = pytest.mark.parametrize("block", range(1, 32))
"""Blocks of draws, each with a seed of its own."""


@emulated
def test_a_few_draws_have_one_result():
    found = a_few()
    check_compiled(found)
    check_resizes(found, orders=("random",))


@emulated
@pytest.mark.slow
@by_interpolation
def test_draws_have_one_result(interpolation):
    found = first_block(interpolation)
    check_compiled(found)
    check_resizes(found[:EMULATED_IN_CI], orders=("random",))


@pytest.mark.slow
@by_the_library
def test_the_same_draws_have_the_result_of_the_library(interpolation):
    check_library(first_block(interpolation), least=8)


@emulated
@pytest.mark.slow
@pytest.mark.sweep
@further_blocks
@by_interpolation
def test_further_draws_have_one_result(interpolation, block):
    found = of_few_kinds(interpolation, block)
    check_compiled(found)
    check_resizes(found, orders=("random",), programs=program_each)


@pytest.mark.slow
@pytest.mark.sweep
@further_blocks
@by_the_library
def test_the_same_further_draws_have_the_result_of_the_library(interpolation, block):
    check_library(of_few_kinds(interpolation, block), least=1)


def test_an_empty_fill_is_one_of_zeros():
    element = element_type("uint16")
    window = ResizeWindow(Layout((3, 50, 60), (1, 180, 3)), (0.0, 0.0, 50.0, 60.0), (2, 3, 20, 30))
    target, rule = TensorSpec(Layout((1, 3, 30, 40)), element, 64), ResizeRule(interpolation_named("pillow-bilinear"))
    zeros = ResizeProblem(target, conversion(element, element), rule, 3, (1, 3), bytes(6), window)
    launches = []
    for fill in (bytes(6), b""):
        launch = window_launch(choose_resize(dataclasses.replace(zeros, fill=fill), REFERENCE_GPU))
        assert launch is not None
        launches.append((launch.parameters, [bytes(table) for _, table in launch.tables]))
    assert launches[0] == launches[1]
