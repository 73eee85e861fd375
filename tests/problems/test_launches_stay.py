"""Launches of drawn plans stay as they were: kernels, grids, parameters and tables, as one digest for each operation.

A change of a kernel or of a choice changes the digest of its operation, which the failing test prints; the others show
that nothing else changed.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from harness.frame_cases import DEEP, YUV
from harness.frame_encodes import FrameEncodeCase
from harness.frame_launches import FrameCase
from harness.gather_cases import MODES, NUMBERS, Case as GatherCase
from harness.layout_pairs import layout_pairs
from harness.resize_launches import ResizeCase

import stridedgpu as sg
from stridedgpu.devices.cuda.gpu import KNOWN_GPUS, KernelLaunch
from stridedgpu.devices.cuda.plan import cuda_plan
from stridedgpu.values.pixel_formats import PIXEL_FORMATS

GPUS = [KNOWN_GPUS[name] for name in ("t4", "h200", "b200")]


def relayouts() -> Iterator[KernelLaunch]:
    for case in layout_pairs(600, seed=11):
        if 0 not in case.plan.problem.sizes:
            yield case.launch


def gathers() -> Iterator[KernelLaunch]:
    drawn = random.Random(12)
    for number in range(120):
        sizes = tuple(drawn.randint(1, 60) for _ in range(drawn.randint(1, 3)))
        axis, scatters, elements = drawn.randrange(len(sizes)), drawn.random() < 0.3, drawn.random() < 0.5
        operation = "scatter_elements" if scatters else "gather_elements" if elements else "gather"
        indices = (drawn.randint(1, 90),) if operation == "gather" else sizes
        mode = "raise" if scatters else drawn.choice(MODES)
        itemsize, index = drawn.choice((1, 2, 4, 8, 16)), drawn.choice(NUMBERS)
        packed = drawn.random() < 0.7
        case = GatherCase(operation, sizes, indices, axis, itemsize, index, mode, number, packed=packed)
        for gpu in GPUS:
            yield cuda_plan(case.plan.problem, "cuda:0", gpu).launch


def crops() -> Iterator[KernelLaunch]:
    for channels in (1, 3, 4, 9):
        for order in ((0, 1, 2), (1, 2, 0)):
            sizes = (channels, 480, 640)
            image = sg.BufferTensorDesc("uint8", sizes, sg.packed_strides(sizes, order))
            for layout in ("NCHW", "NHWC"):
                for dtype in ("uint8", "float32"):
                    plan = sg.plan_gather_crops([image] * 4, (224, 220), layout=layout, dtype=dtype, device="cuda")
                    for gpu in GPUS:
                        yield cuda_plan(plan.plan.problem, "cuda:0", gpu).launch


def resizes() -> Iterator[KernelLaunch]:
    for number, name in enumerate(
        ("pillow-bilinear", "pillow-lanczos", "opencv-area", "opencv-cubic", "opencv-nearest")
    ):
        for source_order in ("HWC", "CHW"):
            for order in ("NCHW", "NHWC"):
                for gpu in ("t4", "h200"):  # without products of matrices, and with them
                    case = ResizeCase(name, order=order, source_order=source_order, seed=number, largest=300)
                    yield from replace(case, gpu=KNOWN_GPUS[gpu]).launches


def frames() -> Iterator[KernelLaunch]:
    for name in (*YUV, *DEEP):
        for dtype in ("uint8", "float32"):
            for order in ("CHW", "HWC"):
                for apart in (1,) if len(PIXEL_FORMATS[name].planes) == 1 else (1, 2):
                    yield FrameCase(name, dtype, order, apart=apart).launch
    for name in YUV:
        yield FrameEncodeCase(name).launch


DIGESTS = {
    relayouts: "004a5580d66dacd8",
    gathers: "ae534ed7a2c35362",
    crops: "f044f103efd38696",
    resizes: "16e32f7a0d5e4b8f",
    frames: "5ca0e2937ae97466",
}


@pytest.mark.parametrize("operation", DIGESTS, ids=lambda operation: operation.__name__)
def test_launches_stay(operation):
    digest = hashlib.sha256()
    for launch in operation():
        where = (launch.sources, launch.name, launch.grid, launch.block, launch.shared_bytes, launch.tile)
        digest.update(repr((where, launch.parameters, sorted(launch.tables))).encode())
    assert digest.hexdigest()[:16] == DIGESTS[operation]
