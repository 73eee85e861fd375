"""Which loops each class of processors gets, with small and large caches and on one core to many: nothing runs.

Kernels of relayouts and gathers have tests of their own in `test_relayout_choices` and `test_gather_choices`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from harness.native_loops import CLASSES, policy_with

import stridedgpu as sg
from stridedgpu.devices.cpu import thread_count
from stridedgpu.devices.cpu.native.gather import gather_kernel
from stridedgpu.devices.cpu.native.relayout import relayout_kernel
from stridedgpu.devices.cpu.plan import cpu_plan
from stridedgpu.devices.cpu.policy import Policy, policy, using
from stridedgpu.problems.gather_problem import GatherProblem
from stridedgpu.problems.relayout_problem import RelayoutProblem

MB = 1 << 20

CACHES = (8 * MB, 32 * MB, 256 * MB)
CORES = (1, 2, 64)

LIMITS = {
    "relayout": {"cached_bytes": 16 * MB, "long_channels": 8},
    "gather": {"load_cost": 2, "row_registers": 16},
}
"""The thresholds of these tests that decide beside the processor, whatever the policy's are."""


@pytest.fixture(params=CORES, ids=lambda cores: f"{cores} cores")
def cores(request, monkeypatch):
    monkeypatch.setattr(thread_count, "_chosen", request.param)
    return request.param


@pytest.fixture(params=CACHES, ids=lambda nbytes: f"{nbytes // MB} MB")
def planning_for(request, cores):
    """The policy of a class of processors, with these cores and this cache."""

    def entered(name):
        return using(Policy.of(CLASSES[name]._replace(cores=cores, last_level_bytes=request.param)))

    return entered


def tensor(sizes, element, layout=None):
    return sg.empty(sizes, element, layout=layout, device="cpu")


def images(channels):
    return tensor((2, channels, 64, 96), "uint8", "NHWC")


def rows(element, count, width):
    return sg.plan_gather_elements(tensor((count, width), element), np.zeros((count, width), np.int64), 1, mode="clip")


@dataclass(frozen=True)
class Case:
    """A plan, and how the words about its kernel begin for processors whose vectors permute less, and more."""

    plan: Any
    words: dict[str, str]


EACH = [name for name, target in CLASSES.items() if target.lacks is None]
PERMUTED = "native 64 elements of 1 B permuted from {} registers"
CASES = {
    "pixels to planes": Case(
        lambda: sg.plan_relayout(images(3), tensor((2, 3, 64, 96), "float32")),
        dict.fromkeys(EACH, "native channels: pixels to planes, 64 pixels of 3"),
    ),
    "pixels of five channels": Case(
        lambda: sg.plan_relayout(tensor((500, 5), "int16")[:, ::-1], tensor((500, 5), "int16")),
        dict.fromkeys(EACH, "native channels: pixels to pixels, 32 pixels of 5"),
    ),
    "pixels of four bytes": Case(
        lambda: sg.plan_relayout(tensor((500, 3), "float32")[:, ::-1], tensor((500, 3), "float32")),
        dict.fromkeys(EACH, "native channels: pixels to pixels, 16 pixels of 3"),
    ),
    "nine channels": Case(
        lambda: sg.plan_relayout(images(9), tensor((2, 9, 64, 96), "uint8")),
        dict.fromkeys(EACH, "native channels: pixels to planes, 64 pixels of 9"),
    ),
    "rows of bytes by indices": Case(
        lambda: rows("uint8", 600, 10),
        {
            "AVX2": "native 16 elements of 1 B loaded one by one",
            "AVX-512F alone": "native 16 elements of 1 B loaded one by one",
            "AVX-512": "native 16 elements of 1 B loaded one by one",
            "AVX-512 VBMI": PERMUTED.format(2),
            "AArch64": "native 16 elements of 1 B loaded one by one",
        },
    ),
    "rows of two bytes by indices": Case(
        lambda: rows("int16", 60, 100),
        {
            "AVX2": "native 16 elements of 2 B loaded one by one",
            "AVX-512F alone": "native 16 elements of 2 B loaded one by one",
            "AVX-512": "native 16 elements of 2 B loaded one by one",
            "AVX-512 VBMI": "native 32 elements of 2 B permuted from 4 registers",
            "AArch64": "native 16 elements of 2 B loaded one by one",
        },
    ),
    "rows of four bytes by indices": Case(
        lambda: rows("float32", 60, 100),
        {
            "AVX2": "native 16 elements of 4 B loaded one by one",
            "AVX-512F alone": "native 16 elements of 4 B loaded one by one",
            "AVX-512": "native 16 elements of 4 B loaded one by one",
            "AVX-512 VBMI": "native 16 elements of 4 B permuted from 7 registers",
            "AArch64": "native 16 elements of 4 B loaded one by one",
        },
    ),
}


KERNEL_OF = {RelayoutProblem: relayout_kernel, GatherProblem: gather_kernel}
"""What chooses the loops of a problem, also where the system refuses memory for them."""


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_loops_follow_the_instruction_sets_alone(planning_for, case):
    """Vectors are as wide as one instruction permutes them at an element's size, and a step as the registers hold."""
    plan = case.plan().plan
    for name, words in case.words.items():
        with planning_for(name), policy_with(**LIMITS):
            planned = KERNEL_OF[type(plan.problem)](plan.problem).words
        assert planned.startswith(words), name


def test_without_avx2_numpy_does_the_work(planning_for):
    plan = CASES["pixels to planes"].plan().plan
    with planning_for("no AVX2"):
        assert "AVX2" in policy().target.lacks
        again = cpu_plan(plan.problem)
        assert again.native is None
        assert again.kernel.startswith("numpy_")


SIZES = tuple(1 << power for power in range(18, 30))


def streaming(element, target):
    """The sizes of moves of rows that are written past the caches."""
    made = []
    for size in SIZES:
        problem = sg.plan_relayout(
            sg.BufferTensorDesc(element, (1, 1, 1, size)), sg.BufferTensorDesc(target, (1, 1, 1, size)), device="cpu"
        ).plan.problem
        kernel = relayout_kernel(problem).calls[0].kernel
        made.append(kernel.streaming)
    return made


@pytest.mark.parametrize("name", EACH)
def test_what_leaves_the_caches_follows_the_last_level_cache_alone(name, cores):
    """Sizes from one on, and from an earlier one where the cache is smaller than that of the measurements."""
    found = []
    for cache in CACHES:
        with using(Policy.of(CLASSES[name]._replace(cores=cores, last_level_bytes=cache))):
            found.append(streaming("uint8", "float32"))
            assert found[-1] == sorted(found[-1])
            assert policy().target.last_level_bytes == cache
    small, measured, large = (made.index(True) for made in found)
    assert small == measured - 2
    assert large == measured
