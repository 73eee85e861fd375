"""Kernels' policies: launches give every member of a kernel's policy, in its order, and no two kernels share one."""

from __future__ import annotations

import functools
import re

import pytest
from harness.frame_encodes import FrameEncodeCase
from harness.frame_launches import FrameCase
from harness.kernel_names import conversion_of, kernel_of, policy_name_of, policy_of, types_of
from harness.layout_pairs import layout_pairs
from harness.resize_launches import ResizeCase

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.devices.cuda.gather import check_launch, distinct_launch, take_launch
from stridedgpu.devices.cuda.gpu import KNOWN_GPUS, KernelLaunch
from stridedgpu.devices.cuda.parameters import instantiation
from stridedgpu.devices.cuda.raw import choose_raw, raw_launch
from stridedgpu.devices.cuda.sources import joined_source, source_names
from stridedgpu.problems.index_rule import IndexRule
from stridedgpu.problems.raw_problem import RawProblem
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.raw_formats import RAW_FORMATS
from stridedgpu.values.tensor_spec import TensorSpec

_STRUCTURE = re.compile(r"struct (\w+Policy) \{\n(.*?)\n\};", re.DOTALL)
_MEMBERS = re.compile(r"^\s*[\w:]+ ([\w, ]+);", re.MULTILINE)


def policies(*sources: str) -> dict[str, list[str]]:
    """The policies that sources define, each with its members."""
    found = _STRUCTURE.findall(joined_source(*sources))
    return {name: [member for names in _MEMBERS.findall(body) for member in names.split(", ")] for name, body in found}


@functools.cache
def launches() -> dict[str, KernelLaunch]:
    """One launch of every kernel, by its source."""
    found = [one.launch for one in layout_pairs(250, seed=2) if 0 not in one.plan.problem.sizes]
    sizes = (1, 3, 64, 64)
    image, turned = (
        sg.BufferTensorDesc("uint8", sizes, sg.packed_strides(sizes, order)) for order in ((0, 2, 3, 1), (0, 3, 2, 1))
    )
    found.append(sg.plan_relayout(image, turned, device="cuda").plan.launch)

    ids = sg.BufferTensorDesc("int64", (9,))
    for table, indices in (
        (sg.BufferTensorDesc("float32", (50, 64)), ids),
        (sg.BufferTensorDesc("uint8", (50, 65)), ids),
        (sg.BufferTensorDesc("uint8", (50, 3)), ids),
    ):
        found.append(sg.plan_gather(table, indices, device="cuda").plan.launch)
    scores, ranks = sg.BufferTensorDesc("float32", (64, 50)), sg.BufferTensorDesc("int64", (64, 9))
    found.append(sg.plan_gather_elements(scores, ranks, 1, device="cuda").plan.launch)
    found.append(sg.plan_gather(scores, ids, 1, device="cuda").plan.launch)

    for channels, layout in ((3, "NCHW"), (3, "NHWC"), (9, "NHWC")):
        sizes = (channels, 480, 640)
        image = sg.BufferTensorDesc("uint8", sizes, sg.packed_strides(sizes, (1, 2, 0)))
        crops = sg.plan_gather_crops([image] * 4, (224, 224), layout=layout, device="cuda")
        found.append(crops.plan.launch)

    for interpolation in ("pillow-bilinear", "opencv-linear", "opencv-nearest"):
        for gpu in ("t4", "h200"):  # without products of matrices, and with them
            found += ResizeCase(interpolation, gpu=KNOWN_GPUS[gpu]).launches

    photo, grey = sg.BufferTensorDesc("uint8", (1, 3, 48, 64)), sg.BufferTensorDesc("float16", (1, 1, 48, 64))
    found.append(sg.plan_relayout(photo, grey, matrix=((0.299, 0.587, 0.114),), device="cuda").plan.launch)

    samples, rows = RAW_FORMATS["mono12p"], TensorSpec(Layout((6, 72)), element_type("uint16"), 16)
    raw = RawProblem(samples, 72 // samples.count * samples.nbytes, 1, rows)
    found.append(raw_launch(choose_raw(raw)))

    found += [FrameCase("nv12", "float16", "CHW", apart=apart).launch for apart in (1, 2)]
    found.append(FrameEncodeCase("nv12").launch)

    rule = IndexRule(TensorSpec(Layout((9,)), element_type("int64"), 8), ((0, 50),), False, (0,), (1,))
    found += [check_launch(rule), distinct_launch(rule), take_launch()]
    return {launch.sources[0]: launch for launch in found}


KERNELS = [name for name in source_names() if name.endswith(".cu")]
CHOOSING = [name for name in KERNELS if (name,) != take_launch().sources]
"""All but the kernel that has nothing to choose at compile time."""


def test_there_is_a_launch_of_every_kernel():
    assert {launch.sources for launch in launches().values()} == {(name,) for name in KERNELS}


@pytest.mark.parametrize("kernel", CHOOSING)
def test_a_launch_gives_every_member_of_the_policy(kernel):
    launch = launches()[kernel]
    assert list(policy_of(launch.name)) == policies(kernel)[policy_name_of(launch.name)]


def test_every_kernel_has_a_policy_of_its_own():
    assert len({policy_name_of(launches()[kernel].name) for kernel in CHOOSING}) == len(CHOOSING)


def test_a_name_says_all_that_is_compiled():
    name = instantiation(
        "copy_rows",
        ("sg::Conversion<sg::uint8, sg::float16, true, false, sg::Rounding::nearest>", "sg::uint32"),
        "RowsPolicy",
        load_bytes=16,
        fills=False,
        run="sg::Run::forward",
    )
    assert name == (
        "sg::copy_rows<sg::Conversion<sg::uint8, sg::float16, true, false, sg::Rounding::nearest>, sg::uint32, "
        "sg::RowsPolicy{.load_bytes = 16, .fills = false, .run = sg::Run::forward}>"
    )
    assert (kernel_of(name), policy_name_of(name)) == ("copy_rows", "RowsPolicy")
    assert conversion_of(name) == ["sg::uint8", "sg::float16", "true", "false", "sg::Rounding::nearest"]
    assert types_of(name)[1] == "sg::uint32"
    assert policy_of(name) == {"load_bytes": "16", "fills": "false", "run": "sg::Run::forward"}
