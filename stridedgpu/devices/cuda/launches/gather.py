"""Launches of gather and scatter: rows, elements and tuples, the inner axis.

A kernel's parameters begin with four addresses (source, target, indices, report of wrong indices). The launch number
for reports follows at `LAUNCH_NUMBER_AT`. The device fills these in at launch; here they are 0. Each address is that of
an operand's lowest element.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from stridedgpu.devices.cuda.planning.gather import SHORT_ROWS_TOGETHER, GatherChoice, GatherFamily
from stridedgpu.devices.cuda.planning.gpu import (
    THREADS,
    WARP,
    GpuProperties,
    KernelLaunch,
    divisor_words,
    grid_of,
    rank_of,
)
from stridedgpu.devices.cuda.planning.policy import policy
from stridedgpu.planning.gather_problem import GatherProblem
from stridedgpu.values.errors import LayoutError

from .instantiation import instantiation
from .parameters import ParameterBlock, index_argument, word_argument

__all__ = ["LAUNCH_NUMBER_AT", "gather_launch"]

LAUNCH_NUMBER_AT: Final = 32
"""The offset of the 32-bit launch number in a gather's parameters."""

_LANES: Final = (32, 16, 8, 4, 2, 1)
"""Lanes of a group, the most first: of shapes that cost the same, the first is taken."""

_STEPS: Final = (4, 2, 1)
"""Vectors of a lane in a chunk."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """One loop: its size; its strides on the dense side, on the indexed side, in the indices and in their numbering."""

    size: int
    dense: int = 0
    indexed: int = 0
    index: int = 0
    position: int = 0


def gather_launch(plan: GatherChoice, gpu: GpuProperties) -> KernelLaunch:
    """The kernel, grid and parameters of `plan` on `gpu`.

    Raises `LayoutError` for a plan without elements, which has no launch.
    """
    if plan.family is GatherFamily.EMPTY:
        raise LayoutError(f"A plan over sizes {plan.problem.sizes} has no elements; there is nothing to launch.")
    if plan.family is GatherFamily.ROWS:
        return _rows(plan, gpu)
    if plan.family is GatherFamily.SHIFTED_ROWS:
        return _shifted_rows(plan, gpu)
    if plan.family is GatherFamily.SHORT_ROWS:
        return _short_rows(plan)
    if plan.family is GatherFamily.INNER:
        return _inner(plan, gpu)
    return _elements(plan, gpu)


def _loops(problem: GatherProblem) -> list[_Loop]:
    return [
        _Loop(*loop)
        for loop in zip(
            problem.sizes,
            problem.dense_strides,
            problem.indexed_strides,
            problem.index_strides,
            problem.position_strides,
            strict=True,
        )
    ]


def _filled(loops: Sequence[_Loop]) -> list[_Loop]:
    """Pad the loops with outer ones of size 1, up to a rank that is instantiated."""
    rank = rank_of(len(loops))
    return [_Loop(1)] * (rank - len(loops)) + list(loops)


def _common(plan: GatherChoice, loops: Sequence[_Loop], items: int) -> ParameterBlock:
    """`sg::GatherParameters` with addresses and launch number 0."""
    problem, bits = plan.problem, plan.index_bits
    block = ParameterBlock()
    block.add(bytes(16), 8)
    block.add_int32(0)
    for entry in problem.indexed_axes:
        block.add(struct.pack("<Q", entry.size), 8)
        block.add_index(entry.stride if entry.size > 1 else 0, bits)
        block.add_index(entry.component, bits)
    words = [word for loop in loops for word in divisor_words(loop.size, bits)]
    for steps in zip(*((loop.dense, loop.indexed, loop.index, loop.position) for loop in loops), strict=True):
        words += steps
    for word in (
        *words,
        problem.dense_offset,
        problem.indexed_offset,
        problem.index_offset,
        problem.position_offset,
        items,
    ):
        block.add_index(word, bits)
    block.add(b"", 8)
    return block


def _launch(source: str, name: str, blocks: int, block: ParameterBlock, threads: int = THREADS) -> KernelLaunch:
    return KernelLaunch(
        sources=(source,),
        name=name,
        grid=grid_of(blocks),
        block=(threads, 1, 1),
        shared_bytes=0,
        parameters=block.parameters,
    )


def _types(plan: GatherChoice) -> tuple[str, str, str]:
    """The C++ types of the elements, of the indices and of offsets."""
    problem = plan.problem
    return word_argument(problem.dense.element), f"sg::{problem.index.element}", index_argument(plan.index_bits)


def _mode(plan: GatherChoice) -> str:
    """The `sg::OutOfRange` of the mode; checked indices are clamped."""
    return f"sg::OutOfRange::{'clamp' if plan.mode == 'raise' else plan.mode}"


def _rows(plan: GatherChoice, gpu: GpuProperties) -> KernelLaunch:
    """Groups of lanes sized to the run; long runs are cut into chunks."""
    problem = plan.problem
    *outer, run = _loops(problem)
    length = plan.dense.nbytes // problem.dense.element.itemsize
    steps, items, lanes = _shape(-(-run.size // length), prod(loop.size for loop in outer), plan, gpu)
    chunk = steps * lanes * length
    chunks = -(-run.size // chunk)
    loops = _filled([*outer, _Loop(chunks, chunk, chunk)])
    count = prod(loop.size for loop in loops)
    block = _common(plan, loops, count)
    block.add_index(run.size, plan.index_bits)
    block.add_index(run.size // length * length, plan.index_bits)
    name = instantiation(
        "gather_rows",
        _types(plan),
        "GatherRowsPolicy",
        bytes=plan.dense.nbytes,
        mode=_mode(plan),
        scatters=problem.scatters,
        lanes=lanes,
        steps=steps,
        items=items,
        rank=len(loops),
        components=len(problem.indexed_axes),
        exact=run.size == chunks * chunk,
    )
    return _launch("gather_rows.cu", name, -(-count // (THREADS // lanes * items)), block)


def _shifted_rows(plan: GatherChoice, gpu: GpuProperties) -> KernelLaunch:
    """The same for unaligned runs."""
    problem = plan.problem
    *outer, run = _loops(problem)
    length = plan.store.nbytes // problem.dense.element.itemsize
    places = run.size + length - 1
    steps, items, lanes = _shifted_shape(-(-places // length), prod(loop.size for loop in outer), plan.index_bits, gpu)
    chunk = steps * lanes * length
    loops = _filled([*outer, _Loop(-(-places // chunk), chunk, chunk)])
    count = prod(loop.size for loop in loops)
    block = _common(plan, loops, count)
    block.add_index(run.size, plan.index_bits)
    source = problem.dense if problem.scatters else problem.indexed
    block.add_index(source.layout.span * source.element.itemsize + source.slack_bytes, 64)
    name = instantiation(
        "gather_shifted_rows",
        _types(plan),
        "GatherShiftedRowsPolicy",
        mode=_mode(plan),
        scatters=problem.scatters,
        lanes=lanes,
        steps=steps,
        items=items,
        rank=len(loops),
        components=len(problem.indexed_axes),
    )
    return _launch("gather_shifted_rows.cu", name, -(-count // (THREADS // lanes * items)), block)


def _shape(vectors: int, rows: int, plan: GatherChoice, gpu: GpuProperties) -> tuple[int, int, int]:
    """Steps of a chunk, chunks of a thread, and lanes of a group for runs of `vectors` vectors.

    The lanes of a group load a cache line or more at a time. An index costs as many instructions as some vectors, so
    that a thread has few chunks of many steps, if enough of them remain for all multiprocessors.
    """
    limits, nbytes, bits = policy().gather, plan.dense.nbytes, plan.index_bits
    most = min(limits.in_flight, max(1, limits.in_flight_bytes // nbytes))
    fewest = min(limits.group_bytes // nbytes, WARP, 1 << (vectors - 1).bit_length())
    shapes = [(steps, lanes) for lanes in _LANES if lanes >= fewest for steps in _STEPS if steps <= most]

    def threads(shape: tuple[int, int]) -> int:
        steps, lanes = shape
        return rows * -(-vectors // (steps * lanes)) * lanes

    def work(shape: tuple[int, int]) -> int:
        return threads(shape) * (limits.vectors_for_index + shape[0])

    enough = [shape for shape in shapes if shape[0] == 1 or threads(shape) >= gpu.multiprocessors * THREADS]
    steps, lanes = min(enough, key=work)
    return steps, _items(steps, threads((steps, lanes)), bits, gpu, most), lanes


def _items(steps: int, threads: int, bits: int, gpu: GpuProperties, most: int) -> int:
    """Chunks of `steps` that a thread has in flight, of `most` vectors, if enough remain for all multiprocessors.

    A launch of few waves with 32-bit offsets has half as many: its last wave is fuller.
    """
    blocks = threads // (gpu.multiprocessors * THREADS)
    is_short = bits == 32 and blocks < most * policy().gather.many_blocks
    together = most // 2 if is_short else most
    return max(1, together // steps) if blocks >= together else 1


def _shifted_shape(vectors: int, rows: int, bits: int, gpu: GpuProperties) -> tuple[int, int, int]:
    """The same for unaligned runs, whose ends take a thread more work than a vector: few lanes, several steps each."""
    limits = policy().gather

    def work(shape: tuple[int, int]) -> int:
        steps, lanes = shape
        return -(-vectors // (steps * lanes)) * lanes * (limits.vectors_for_ends + steps)

    shapes = ((steps, lanes) for lanes in _LANES if lanes >= limits.fewest_lanes for steps in _STEPS)
    steps, lanes = min(shapes, key=work)
    return steps, _items(steps, rows * -(-vectors // (steps * lanes)) * lanes, bits, gpu, limits.in_flight), lanes


def _elements(plan: GatherChoice, gpu: GpuProperties) -> KernelLaunch:
    """One thread for several vectors of adjacent elements, each element with its own index or tuple of indices."""
    problem, bits = plan.problem, plan.index_bits
    length = plan.dense.nbytes // problem.dense.element.itemsize
    *outer, row = _loops(problem) or [_Loop(1)]
    vectors = -(-row.size // length)
    steps = (row.dense, row.indexed, row.index, row.position)
    loops = _filled([*outer, _Loop(vectors, *(length * step for step in steps))])
    count = prod(loop.size for loop in loops)
    most = max(
        1, min(policy().gather.in_flight, policy().gather.elements_in_flight // (length * len(problem.indexed_axes)))
    )
    items = most if count >= gpu.multiprocessors * THREADS * most else 1
    block = _common(plan, loops, count)
    for value in (row.size, row.indexed, row.index, row.position):
        block.add_index(value, bits)
    name = instantiation(
        "gather_elements",
        _types(plan),
        "GatherElementsPolicy",
        length=length,
        index_bytes=plan.index.nbytes,
        mode=_mode(plan),
        scatters=problem.scatters,
        items=items,
        rank=len(loops),
        components=len(problem.indexed_axes),
    )
    return _launch("gather_elements.cu", name, -(-count // (THREADS * items)), block)


def _short_rows(plan: GatherChoice) -> KernelLaunch:
    """One thread for several adjacent rows of the target."""
    problem, bits, together = plan.problem, plan.index_bits, SHORT_ROWS_TOGETHER
    *outer, rows, run = _loops(problem)
    steps = (rows.dense, rows.indexed, rows.index, rows.position)
    loops = _filled([*outer, _Loop(-(-rows.size // together), *(together * step for step in steps))])
    count = prod(loop.size for loop in loops)
    block = _common(plan, loops, count)
    for value in (rows.size, rows.indexed, rows.index, rows.position):
        block.add_index(value, bits)
    name = instantiation(
        "gather_short_rows",
        _types(plan),
        "GatherShortRowsPolicy",
        piece_bytes=plan.indexed.nbytes,
        count=run.size * problem.dense.element.itemsize // plan.indexed.nbytes,
        store_bytes=plan.dense.nbytes,
        index_bytes=plan.index.nbytes,
        mode=_mode(plan),
        rank=len(loops),
    )
    return _launch("gather_short_rows.cu", name, -(-count // THREADS), block)


def _inner(plan: GatherChoice, gpu: GpuProperties) -> KernelLaunch:
    """One thread for a vector of adjacent indices, applied to a few rows."""
    problem, bits = plan.problem, plan.index_bits
    length = plan.dense.nbytes // problem.dense.element.itemsize
    *outer, inner = _loops(problem)
    loops = _filled(outer)
    rows = prod(loop.size for loop in outer)
    together = min(policy().gather.inner_rows, policy().gather.inner_elements // length)
    groups, vectors = -(-rows // together), -(-inner.size // length)
    enough = groups * vectors >= gpu.multiprocessors * policy().gather.long_row_threads
    threads = policy().gather.long_row_threads if vectors > THREADS and enough else THREADS
    block = _common(plan, loops, rows)
    for value in (inner.size, inner.dense, inner.index, inner.position, groups, *divisor_words(vectors, bits)):
        block.add_index(value, bits)
    name = instantiation(
        "gather_inner",
        _types(plan),
        "GatherInnerPolicy",
        length=length,
        index_bytes=plan.index.nbytes,
        mode=_mode(plan),
        rows=together,
        threads=threads,
        rank=len(loops),
    )
    return _launch("gather_inner.cu", name, -(-groups * vectors // threads), block, threads)
