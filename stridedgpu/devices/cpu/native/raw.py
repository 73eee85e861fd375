"""Raw samples on the native library: where a format's bits lie, as the numbers that one loop of all formats takes.

A sample's two bytes are a word, the one with its higher bits behind. Each of its fields goes to the top of 16 bits by a
product with a power of two. A work item is one row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.device_plan import Width

from .calls import NativeFunction
from .pool import LoopCall

if TYPE_CHECKING:
    from stridedgpu.devices.interface import DirectLaunch
    from stridedgpu.problems.raw_problem import RawProblem
    from stridedgpu.values.raw_formats import RawFormat

_STEP: Final = 32
"""Samples of a step: 64 bytes."""


def raw_kernel(problem: RawProblem) -> CpuKernel | str:
    """The native loop of a problem, or why it is left to NumPy."""
    samples, groups = problem.samples, _STEP // problem.samples.count
    if problem.target.layout.strides[1] != 1:
        return f"targets with steps of {problem.target.layout.strides} elements along H, W are left to NumPy"
    if problem.is_empty or problem.groups < groups:
        return f"rows of less than {_STEP} samples are left to NumPy"
    return CpuKernel(
        f"raw_{samples.name}x{_STEP}",
        f"rows in steps of {_STEP} samples, shifted and joined in registers",
        Width(groups * samples.nbytes),
        Width(2 * _STEP),
        items=problem.target.layout.sizes[0],
        shared_bytes=policy().pixels.shared_bytes,
    )


def raw_move(plan: CpuPlan[RawProblem]) -> DirectLaunch:
    """The native loop of a plan's samples."""
    problem, shared_bytes = plan.problem, policy().pixels.shared_bytes
    layout, samples = problem.target.layout, problem.samples
    groups = _STEP // samples.count
    fields = [problem.pitch, 2 * layout.strides[0], problem.groups]
    fields += [groups, groups * samples.nbytes, samples.count, 16 - samples.bits]
    fields += np.frombuffer(_tables(samples), np.int64).tolist()
    call = LoopCall.of(NativeFunction.of("raw"), fields, layout.sizes[0], (0, 2 * layout.offset))
    return call.launch(plan.bytes_moved, shared_bytes)


def _tables(samples: RawFormat) -> bytes:
    """The members of `Raw` from `bytes` on."""
    top, places = 16 - samples.bits, list[int]()
    words: list[tuple[int, int, int]] = []
    for number in range(_STEP):
        group, place = divmod(number, samples.count)
        low, high = sorted(samples.samples[place], key=lambda field: field.left)
        places += [group * samples.nbytes + field.byte for field in (low, high)]
        higher, lower = high.left + top - high.right - 8, low.left + top - low.right
        words.append((1 << higher, 1 << lower, high.mask << (high.left + top)))
    return np.array(places, np.uint8).tobytes() + np.array(words, np.uint16).T.tobytes()
