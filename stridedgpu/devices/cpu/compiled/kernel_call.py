"""`KernelCall`: a kernel with its parameters, built from loops that were matched to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stridedgpu.devices.cpu.numpy_loops.conversion import Array, constants
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.thread_count import get_num_threads
from stridedgpu.planning.device_plan import Width
from stridedgpu.planning.relayout_problem import RelayoutProblem
from stridedgpu.values.conversion import Conversion

from .blocks import Blocks
from .bordered_rows import BorderedRows
from .channels import Channels
from .ir import LINE_BYTES
from .rows import Rows, Step
from .transpose import Transpose
from .work_grid import Constants, Elements

if TYPE_CHECKING:
    from stridedgpu.planning.crop_windows import CropProblem

__all__ = [
    "ONCE",
    "Kernel",
    "KernelCall",
    "LoopAxis",
    "LoopMatch",
    "Parameters",
    "elements_of",
    "kernel_call",
    "next_inner",
    "power_of_two",
    "reads_rows_apart",
    "writes_past_caches",
]

Kernel = Rows | BorderedRows | Channels | Transpose | Blocks


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


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A kernel and its loops: items 0 to `items`, beginning at `source_offset` and `target_offset` bytes.

    `inner` are the loops `a` and `b`, `blocks` their extents in an item, `outer` the loops around them, outermost
    first. `small` is the loop that the kernel unrolls, `unrolled` are those of blocks. `constants_of` gives the number
    and the stride of scales and biases. `more` are a kernel's own parameters, behind those of all loops.
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
    unrolled: tuple[LoopAxis, ...] = ()
    more: tuple[int, ...] = ()

    def packed(self) -> Parameters:
        """Pack the parameters as the kernel reads them."""
        count, turn = self.constants_of
        kept = [
            # A reversed loop reads them from the other end.
            np.zeros(0)
            if values is None
            else np.resize(constants(values, self.conversion.compute), count)[::turn].copy()
            for values in (self.conversion.scale, self.conversion.bias)
        ]
        fields = [values.ctypes.data for values in kept]
        for loop, block in zip(self.inner, self.blocks, strict=True):
            fields += [loop.size, loop.source, loop.target, block, -(-loop.size // block)]
        fields += [0, 0] if self.small is None else [self.small.source, self.small.target]
        for loop in reversed(self.outer):
            table = 0
            if loop.channels is not None:
                kept.append(np.array(loop.channels, np.int64) * loop.source)
                table = kept[-1].ctypes.data
            fields += [loop.size, loop.source, loop.target, loop.constants, table]
        for loop in self.unrolled:
            fields += [loop.size, loop.source, loop.target, 0, 0]
        fields += self.more
        return Parameters(np.array(fields, np.int64), tuple(kept))

    @property
    def words(self) -> str:
        """The kernel in plain words."""
        kernel, streams = self.kernel, ", past the caches" if self.kernel.streaming else ""
        if isinstance(kernel, Transpose):
            return f"transpose: tiles of {kernel.rows} target by {kernel.columns} source elements{streams}"
        if isinstance(kernel, Channels):
            ways = ("pixels", "planes")
            ends = f"{ways[kernel.planar]} to {ways[not kernel.target_pixel]}"
            return f"channels: {ends}, {kernel.pixels} pixels of {len(kernel.order)} elements a step{streams}"
        if isinstance(kernel, Blocks):
            return f"blocks of {prod(digit.size for digit in kernel.digits)} words, permuted in registers"
        if isinstance(kernel, BorderedRows):
            return f"rows of {self.inner[1].size} B with a border"
        return f"rows: {kernel.lanes} elements a step, read {kernel.source_step}, written {kernel.target_step}{streams}"

    @property
    def accesses(self) -> tuple[Width, Width]:
        """The widths of a load and of a store, and the reason they are not wider."""
        kernel, (_, b) = self.kernel, self.inner
        elements = kernel.elements
        if isinstance(kernel, Rows):
            lanes, limit = kernel.lanes, f"rows have {b.size} elements"
            return (
                _row_width(kernel.source_step, elements.source_bytes, lanes, b.size, limit),
                _row_width(kernel.target_step, elements.target_bytes, lanes, b.size, limit),
            )
        if isinstance(kernel, BorderedRows):
            limit = f"rows are {b.size} B of a source"
            return Width(kernel.lanes, limit), Width(kernel.lanes, limit)
        if isinstance(kernel, Channels):
            limit = f"a step takes {kernel.pixels} pixels of {b.size} in a row"
            repeats = not kernel.source_pixel
            read = Width(elements.source_bytes, "one pixel is repeated") if repeats else None
            loads = read or Width(kernel.pixels * elements.source_bytes, limit)
            return loads, Width(kernel.pixels * elements.target_bytes, limit)
        if isinstance(kernel, Blocks):
            widths = [Width(nbytes, f"a block's runs have {run} bytes") for nbytes, run in kernel.widths]
            return widths[0], widths[1]
        across = f"tiles are {kernel.columns} elements of a source line wide"
        return Width(kernel.columns * elements.source_bytes, across), Width(
            kernel.rows * elements.target_bytes, f"tiles are {kernel.rows} elements of a target line wide"
        )

    def tile(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The box of one step along the problem's loops; unrolled loops count whole."""
        kernel, (a, b) = self.kernel, self.inner
        if isinstance(kernel, Transpose):
            steps = kernel.columns, kernel.rows
        elif isinstance(kernel, Blocks):
            steps = kernel.digits[0].size, kernel.digits[1].size
        elif isinstance(kernel, BorderedRows):
            steps = 1, b.size
        else:
            steps = 1, kernel.pixels if isinstance(kernel, Channels) else kernel.lanes
        walked = {loop.axis: 1 for loop in self.outer}
        walked |= {loop.axis: step for loop, step in zip((a, b), steps, strict=True) if loop.axis >= 0}
        return tuple(min(size, walked.get(axis, size)) for axis, size in enumerate(sizes))


def _row_width(step: Step, nbytes: int, lanes: int, size: int, limit: str) -> Width:
    """The width of one side's accesses along a row."""
    if step is Step.STRIDED:
        return Width(nbytes, "the row's elements lie apart")
    if step is Step.REPEATED:
        return Width(nbytes, "one element is repeated along each row")
    return Width(lanes * nbytes, limit if 2 * lanes > size else "a step takes as many elements on both sides")


class Parameters(NamedTuple):
    """A kernel's parameters with the arrays that they point to; the caller of the kernel keeps both alive."""

    fields: Array
    kept: tuple[Array, ...]

    @property
    def address(self) -> int:
        """The address of the parameters."""
        return self.fields.ctypes.data


@dataclass(frozen=True, slots=True)
class LoopMatch:
    """Loops being matched to a kernel, with the element size of each side in bytes."""

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
        return cls(tuple(loops), source.itemsize, target.itemsize, problem.source_offset * source.itemsize)

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


def next_inner(draft: LoopMatch, *taken: LoopAxis) -> tuple[LoopAxis, tuple[LoopAxis, ...]]:
    """The innermost loop not taken, and the loops outside it."""
    rest = draft.besides(*taken)
    inner = next((loop for loop in reversed(rest) if loop.channels is None), ONCE)
    return inner, tuple(loop for loop in rest if loop is not inner)


def elements_of(
    problem: RelayoutProblem, draft: LoopMatch, a: LoopAxis, b: LoopAxis, small: LoopAxis | None = None
) -> Elements:
    """The conversion of the elements, and the loop that the constants follow."""
    conversion = problem.conversion
    finite = all(
        values is None or np.isfinite(constants(values, conversion.compute)).all()
        for values in (conversion.scale, conversion.bias)
    )
    places = ((a, Constants.A), (b, Constants.B), (small, Constants.SMALL))
    return Elements(
        replace(conversion, scale=conversion.scale and (0.0,), bias=conversion.bias and (0.0,), channels=None),
        next((place for loop, place in places if loop is not None and loop.constants), Constants.ITEM),
        bool(finite),
        draft.source_bytes if conversion.is_bitwise_copy else 0,
    )


def writes_past_caches(
    problem: RelayoutProblem, outer: Sequence[LoopAxis], row: LoopAxis, step: int, spread: float = 1
) -> bool:
    """Whether non-temporal stores pay off for rows of the target written `step` elements at a time.

    `spread`: the bytes of source rows for each that is read, 1 where their elements have no gaps.
    """
    in_lines = row.size % step == 0 and all(loop.size == 1 or loop.target % LINE_BYTES == 0 for loop in outer)
    limits = policy().relayout
    is_long, written = row.size * row.target >= limits.long_row_bytes, problem.written_bytes
    cached = written + int((problem.bytes_moved - written) * spread)
    return (in_lines or is_long) and limits.streams(cached, written, shared=get_num_threads() > 1)


def reads_rows_apart(row: LoopAxis, rows: LoopAxis) -> bool:
    """Whether the source's rows lie apart, so that hardware prefetchers miss the next row."""
    return abs(rows.source) > row.size * abs(row.source)


def kernel_call(
    problem: RelayoutProblem | CropProblem,
    kernel: Kernel,
    draft: LoopMatch,
    outer: tuple[LoopAxis, ...],
    a: tuple[LoopAxis, int],
    b: tuple[LoopAxis, int],
    small: LoopAxis | None = None,
    extents: tuple[int, int] | None = None,
) -> KernelCall:
    """Build the walk of loops `a` and `b`, each with its elements a step; `extents` are those of an item."""
    if extents is None:
        each = (draft.source_bytes + draft.target_bytes) * (1 if small is None else small.size)
        wanted = policy().relayout.bytes_of_item(problem.bytes_moved) // each
        b_block = _block(b, wanted)
        extents = wanted // b_block, b_block
    blocks = _block(a, extents[0]), _block(b, extents[1])
    inner = a[0], b[0]
    counts = [-(-loop.size // block) for loop, block in zip(inner, blocks, strict=True)]
    return KernelCall(
        kernel,
        prod(loop.size for loop in outer) * prod(counts),
        draft.source_offset,
        draft.target_offset,
        problem.conversion,
        next(((loop.size, loop.constants) for loop in draft.loops if loop.constants), (1, 1)),
        inner,
        blocks,
        outer,
        small,
    )


def _block(inner: tuple[LoopAxis, int], wanted: int) -> int:
    """Elements of a block: the whole loop, or about `wanted` elements in whole steps."""
    loop, step = inner
    return max(loop.size, step) if loop.size <= wanted else max(step, wanted // step * step)


def power_of_two(most: int) -> int:
    """The largest power of two up to `most`."""
    return 1 << (most.bit_length() - 1)
