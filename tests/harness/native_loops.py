"""Native kernels under test: why there are none, and a plan's kernel run item by item."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from harness.plans import chosen_relayout

from stridedgpu.devices.cpu.native.relayout import plan_relayout
from stridedgpu.devices.cpu.numpy_loops.conversion import storage_dtype
from stridedgpu.devices.cpu.policy import Policy, policy, using
from stridedgpu.devices.cpu.target import Target
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

needs_library = pytest.mark.skipif(policy().why_numpy is not None, reason=str(policy().why_numpy))

CLASSES: Mapping[str, Target] = MappingProxyType(
    {
        "no AVX2": Target.stated("x86-64-v2"),
        "AVX2": Target.stated("x86-64-v3"),
        "AVX-512F alone": Target.stated("x86-64-v3", ["avx512f", "avx512cd"]),
        "AVX-512": Target.stated("x86-64-v4"),
        "AVX-512 VBMI": Target.stated(
            "x86-64-v4", ["avx512bitalg", "avx512vbmi", "avx512vbmi2", "avx512vnni", "avx512vpopcntdq", "gfni"]
        ),
        "AArch64": Target.stated("aarch64"),
    }
)
"""Processors by the instruction sets that kernels are chosen by, with two cores and caches as stated: Knights Landing
has AVX-512F alone, Skylake's servers have no VBMI, and of those without AVX2 NumPy does all work."""

each_class = pytest.mark.parametrize(
    "processor",
    [
        pytest.param(
            target,
            marks=pytest.mark.skipif(
                target.native_level is None,
                reason=f"no loops for {name} here",
            ),
            id=name,
        )
        for name, target in CLASSES.items()
        if target.lacks is None
    ],
)
"""Each class whose loops can run, as `processor`: here, or skipped."""


def can_run_here() -> bool:
    """Whether native loops for the policy's target run on this processor."""
    return policy().why_numpy is None


def ordinary_policy() -> AbstractContextManager[None]:
    """The thresholds of a processor with this one's instruction sets, and with two cores and caches as stated."""
    here = Target.here()
    return using(Policy.of(Target(here.architecture, here.features)))


@contextmanager
def policy_for(features: Collection[str]) -> Iterator[None]:
    """The thresholds and loops of a processor with those of this one's instruction sets that are named."""
    current = policy()
    with using(current._replace(target=current.target._replace(features=current.target.features & {*features}))):
        yield


def policy_with(**sections: dict[str, Any]) -> AbstractContextManager[None]:
    """The CPU's policy with some thresholds replaced: `policy_with(relayout={"streamed_bytes": 0})`."""
    current = policy()
    return using(current._replace(**{name: getattr(current, name)._replace(**new) for name, new in sections.items()}))


def native_kernel(plan):
    """The walk of a plan and its loop with parameters; None where the plan is left to NumPy."""
    walk = plan_relayout(plan.problem)
    return None if walk is None else (walk, walk.loop())


def run_items(plan, source_address, target_address, order=1):
    """Run a plan's kernel one item after another, forwards or backwards (-1); False where it is left to NumPy.

    The addresses are those of each side's lowest element.
    """
    made = native_kernel(plan)
    if made is None:
        return False
    walk, call = made
    reads, writes = source_address + walk.source_offset, target_address + walk.target_offset
    for item in range(walk.items)[::order]:
        call.loop.alone(reads, writes, call.parameters, item, item + 1)
    return True


def converted_words(words, made):
    """The elements of `words` as a native kernel converts them, in words of the target."""
    layout = Layout((len(words),))
    sides = (TensorSpec.of(layout, element, base_alignment=1) for element in (made.source, made.target))
    plan = chosen_relayout(*sides, made)
    got = np.zeros(len(words), storage_dtype(made.target, opaque=True))
    assert run_items(plan, words.ctypes.data, got.ctypes.data)
    return got
