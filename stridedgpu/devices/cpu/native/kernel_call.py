"""`KernelCall`, a kernel with its loops and parameters, and `LoopMatch`, the loops that kernels are matched to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.cpu.numpy_loops.conversion import constants
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.thread_count import get_num_threads
from stridedgpu.problems.device_plan import Width
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.values.conversion import Conversion

from .elements import Constants, Elements
from .exact_products import are_exact
from .pool import LoopCall
from .registers import LINE_BYTES


@dataclass(frozen=True, slots=True)
class LoopAxis:
    """One loop: its strides in bytes and in the constants, its channel numbers if they are uneven, its problem axis."""

    size: int
    source: int
    target: int
    constants: int = 0
    channels: tuple[int, ...] | None = None
    axis: int = -1


ONCE: Final = LoopAxis(1, 0, 0)
"""The placeholder for an absent loop."""


class KernelFacts(NamedTuple):
    """What `explain` says of a kernel. `step` is the elements of the loops `a` and `b` in one step."""

    words: str
    load: Width
    store: Width
    step: tuple[int, int]


class Kernel(Protocol):
    """Loops of one shape as a value that describes itself. `row` is the loop `b` of a call."""

    family: ClassVar[str]

    @property
    def elements(self) -> Elements:
        """The conversion of an element."""

    @property
    def streaming(self) -> bool:
        """Whether stores are non-temporal."""

    def facts(self, row: LoopAxis) -> KernelFacts:
        """What `explain` says of the kernel on such rows."""

    def loop(self, call: KernelCall, owner: object) -> LoopCall:
        """The loop of a call of this kernel, which keeps an `owner` of more memory alive."""


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A kernel and its loops: items 0 to `items`, beginning at `source_offset` and `target_offset` bytes.

    `inner` are the loops `a` and `b`, `blocks` their extents in an item, `outer` the loops around them, outermost
    first. `small` is the loop that the kernel unrolls. `constants_of` gives the number and the stride of scales and
    biases. `more` are a kernel's own parameters, behind those of all loops, and `constants_order` the numbers of scales
    and biases in an order of its own.
    """

    kernel: Kernel
    items: int
    source_offset: int
    target_offset: int
    conversion: Conversion
    constants_of: tuple[int, int]
    inner: tuple[LoopAxis, LoopAxis]
    blocks: tuple[int, int]
    outer: tuple[LoopAxis, ...]
    small: LoopAxis | None
    more: tuple[int, ...] = ()
    constants_order: tuple[int, ...] = ()

    def loop(self, owner: object = None) -> LoopCall:
        """The loop with its parameters; it keeps an `owner` of further memory alive."""
        return self.kernel.loop(self, owner)

    def grid(self) -> tuple[list[int], list[int], list[NDArray[np.int64]]]:
        """The fields of the inner loops and of the outer ones, and the tables that these point to."""
        inner: list[int] = []
        for loop, block in zip(self.inner, self.blocks, strict=True):
            inner += [loop.size, loop.source, loop.target, block, -(-loop.size // block)]
        inner += [0, 0] if self.small is None else [self.small.source, self.small.target]
        outer: list[int] = []
        tables: list[NDArray[np.int64]] = []
        for loop in reversed(self.outer):
            table = 0
            if loop.channels is not None:
                tables.append(np.array(loop.channels, np.int64) * loop.source)
                table = tables[-1].ctypes.data
            outer += [loop.size, loop.source, loop.target, loop.constants, table]
        return inner, outer, tables

    @property
    def facts(self) -> KernelFacts:
        """What `explain` says of the kernel."""
        facts = self.kernel.facts(self.inner[1])
        return facts._replace(words=facts.words + (", past the caches" if self.kernel.streaming else ""))

    def tile(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The box of one step along the problem's loops; unrolled loops count whole."""
        steps = zip(self.inner, self.facts.step, strict=True)
        walked = {loop.axis: 1 for loop in self.outer} | {loop.axis: step for loop, step in steps if loop.axis >= 0}
        return tuple(min(size, walked.get(axis, size)) for axis, size in enumerate(sizes))


def kernel_call(
    kernel: Kernel,
    conversion: Conversion,
    offsets: tuple[int, int],
    outer: tuple[LoopAxis, ...],
    inner: tuple[tuple[LoopAxis, int], tuple[LoopAxis, int]],
    extents: tuple[int, int],
    *,
    small: LoopAxis | None = None,
    constants_of: tuple[int, int] = (1, 1),
) -> KernelCall:
    """The call for the loops `a` and `b`, each with its elements a step; `extents` are about those of an item."""
    blocks = [
        # The whole loop, or whole steps.
        max(loop.size, step) if loop.size <= extent else max(step, extent // step * step)
        for (loop, step), extent in zip(inner, extents, strict=True)
    ]
    (a, _), (b, _) = inner
    items = prod(loop.size for loop in outer) * -(-a.size // blocks[0]) * -(-b.size // blocks[1])
    return KernelCall(kernel, items, *offsets, conversion, constants_of, (a, b), (blocks[0], blocks[1]), outer, small)


@dataclass(frozen=True, slots=True)
class LoopMatch:
    """A relayout's loops while they are matched to a kernel, with the bytes of an element of each side."""

    problem: RelayoutProblem
    loops: tuple[LoopAxis, ...]
    source_bytes: int
    target_bytes: int
    source_offset: int
    target_offset: int = 0

    @classmethod
    def of(cls, problem: RelayoutProblem) -> LoopMatch:
        """The problem's loops in bytes."""
        source, target, conversion = problem.source.element, problem.target.element, problem.conversion
        per_channel = any(values is not None and len(values) > 1 for values in (conversion.scale, conversion.bias))
        loops = [
            LoopAxis(
                size,
                source_stride * source.itemsize,
                target_stride * target.itemsize,
                int(axis == problem.channel_axis and per_channel),
                conversion.channels if axis == problem.channel_axis else None,
                axis,
            )
            for axis, (size, target_stride, source_stride) in enumerate(
                zip(problem.sizes, problem.target_strides, problem.source_strides, strict=True)
            )
        ]
        return cls(problem, tuple(loops), source.itemsize, target.itemsize, problem.source_offset * source.itemsize)

    @property
    def target_loop(self) -> LoopAxis | None:
        """The loop along which the target is contiguous."""
        return next((loop for loop in self.loops if loop.target == self.target_bytes and not loop.channels), None)

    @property
    def source_loop(self) -> LoopAxis | None:
        """The loop along which the source is contiguous, forwards or backwards."""
        return next((loop for loop in self.loops if abs(loop.source) == self.source_bytes and not loop.channels), None)

    def besides(self, *taken: LoopAxis) -> tuple[LoopAxis, ...]:
        """All loops except those taken."""
        return tuple(loop for loop in self.loops if not any(loop is other for other in taken))

    def next_inner(self, *taken: LoopAxis) -> tuple[LoopAxis, tuple[LoopAxis, ...]]:
        """The innermost loop not taken, and the loops outside it."""
        rest = self.besides(*taken)
        inner = next((loop for loop in reversed(rest) if loop.channels is None), ONCE)
        return inner, tuple(loop for loop in rest if loop is not inner)

    def flipped(self, loop: LoopAxis) -> tuple[LoopMatch, LoopAxis]:
        """The same work with one loop reversed."""
        reversed_loop = replace(loop, source=-loop.source, target=-loop.target, constants=-loop.constants)
        last = loop.size - 1
        return replace(
            self,
            loops=tuple(reversed_loop if other is loop else other for other in self.loops),
            source_offset=self.source_offset + last * loop.source,
            target_offset=self.target_offset + last * loop.target,
        ), reversed_loop

    def elements(self, a: LoopAxis, b: LoopAxis, small: LoopAxis | None = None) -> Elements:
        """The conversion of the elements, and the loop that the constants follow."""
        conversion = self.problem.conversion
        finite = all(
            values is None or np.isfinite(constants(values, conversion.compute)).all()
            for values in (conversion.scale, conversion.bias)
        )
        places = ((a, Constants.A), (b, Constants.B), (small, Constants.SMALL))
        return Elements(
            replace(conversion, scale=conversion.scale and (0.0,), bias=conversion.bias and (0.0,), channels=None),
            next((place for loop, place in places if loop is not None and loop.constants), Constants.ITEM),
            bool(finite),
            self.source_bytes if conversion.is_bitwise_copy else 0,
            are_exact(conversion),
        )

    def streams(self, rows: Sequence[LoopAxis], row: LoopAxis, step: int, spread: float = 1) -> bool:
        """Whether non-temporal stores pay off for rows of the target that are written `step` elements at a time.

        `spread`: row extent / bytes read; 1 if the source's elements are contiguous.
        """
        in_lines = row.size % step == 0 and all(loop.size == 1 or loop.target % LINE_BYTES == 0 for loop in rows)
        limits, written = policy().relayout, self.problem.written_bytes
        cached = written + int((self.problem.bytes_moved - written) * spread)
        is_long = row.size * row.target >= limits.long_row_bytes
        return (in_lines or is_long) and cached >= limits.streamed_bytes * min(get_num_threads(), 2)

    def call(
        self,
        kernel: Kernel,
        outer: tuple[LoopAxis, ...],
        a: tuple[LoopAxis, int],
        b: tuple[LoopAxis, int],
        small: LoopAxis | None = None,
        extents: tuple[int, int] | None = None,
    ) -> KernelCall:
        """The kernel's call for loops `a` and `b`, each with its elements a step; by default in items of usual size."""
        if extents is None:
            each = (self.source_bytes + self.target_bytes) * (1 if small is None else small.size)
            (row, step), wanted = b, policy().relayout.bytes_of_item(self.problem.bytes_moved) // each
            along = max(row.size, step) if row.size <= wanted else max(step, wanted // step * step)
            extents = wanted // along, along
        constants_of = next(((loop.size, loop.constants) for loop in self.loops if loop.constants), (1, 1))
        offsets, conversion = (self.source_offset, self.target_offset), self.problem.conversion
        return kernel_call(kernel, conversion, offsets, outer, (a, b), extents, small=small, constants_of=constants_of)
