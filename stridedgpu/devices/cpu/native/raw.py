"""Raw samples on the native library: where a format's bits lie, as the numbers that one loop of all formats takes.

A sample's two bytes are a word, the one with its higher bits behind. Each of its fields goes to the top of 16 bits by a
product with a power of two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stridedgpu.devices.cpu.policy import policy

from .calls import CompiledFunction
from .library import function
from .pool import LoopCall

if TYPE_CHECKING:
    from stridedgpu.devices.cpu.compiled.raw import RawKernel
    from stridedgpu.problems.raw_problem import RawProblem
    from stridedgpu.values.raw_formats import RawFormat

_STEP: Final = 32
"""Samples of a step: 64 bytes."""


def has_raw(kernel: RawKernel) -> bool:
    """Whether the library has the loop of a kernel."""
    return policy().native_level is not None and kernel.groups * kernel.samples.count == _STEP


def raw_loop(problem: RawProblem, kernel: RawKernel, level: str) -> LoopCall:
    """The loop of a problem, on a level of the library."""
    layout, samples = problem.target.layout, problem.samples
    fields = [problem.pitch, 2 * layout.strides[0], problem.groups]
    fields += [kernel.groups, kernel.groups * samples.nbytes, samples.count, 16 - samples.bits]
    fields += np.frombuffer(_tables(samples), np.int64).tolist()
    loop = CompiledFunction(function(level, "raw"))
    return LoopCall.of(loop, fields, layout.sizes[0], (0, 2 * layout.offset))


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
