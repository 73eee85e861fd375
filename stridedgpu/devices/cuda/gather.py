"""Gather, scatter, and the checks of indices: the choice of a kernel, its access widths, and its launch.

A gather's parameters begin with four addresses: source, target, indices, report of wrong indices. The launch number for
reports follows at `LAUNCH_NUMBER_AT`. Those of a check begin with two: the lowest index and a report. The device fills
them in at launch; here they are 0. Each address is that of an operand's lowest element.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Final

from stridedgpu.problems.device_plan import Width, describe_access, index_bits
from stridedgpu.problems.gather_problem import GatherProblem
from stridedgpu.problems.index_rule import IndexRule
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.strides import power_of_two
from stridedgpu.values.tensor_spec import TensorSpec

from .choice import Bound, CudaPlan, KernelFamily, alignment_bound, bounded_width, stride_bound
from .gpu import THREADS, WARP, GpuProperties, KernelLaunch
from .parameters import ParameterBlock, index_argument, instantiation, word_argument
from .policy import policy

SHORT_ROWS_TOGETHER: Final = 4
"""Adjacent target rows made by one thread, if rows are short."""

_WORD_BYTES: Final = 4
"""Bytes of the loads of an unaligned row."""

_SHIFTED_BYTES: Final = 16
"""Bytes of the stores of an unaligned row."""

WIDEST_INDICES: Final = 16
"""Bytes of the widest load of indices."""


class GatherFamily(KernelFamily):
    """Kinds of gather and scatter, by the memory that an index selects."""

    EMPTY = "empty", "nothing to move: there are no elements"
    ROWS = "rows", "rows: each index stands for a run that is contiguous on both sides"
    SHIFTED_ROWS = "shifted_rows", "shifted rows: each index stands for a run that begins anywhere, shifted into place"
    SHORT_ROWS = "short_rows", "short rows: each index stands for a few bytes, and those of four make whole words"
    INNER = "inner", "inner axis: one index serves the same place of every outer row"
    ELEMENTS = "elements", "elements: each has an index of its own"
    ND = "nd", "elements: each has a tuple of indices of its own"


@dataclass(frozen=True, slots=True)
class GatherChoice(CudaPlan[GatherProblem]):
    """The family of kernels of a gather or scatter, and its access widths.

    `index` is the width of a load of indices. `index_bits` is the width of offset arithmetic, independent of the
    indices' type.
    """

    family: GatherFamily
    index: Width

    @property
    def dense(self) -> Width:
        """The width of one access on the dense side."""
        return self.load if self.problem.scatters else self.store

    @property
    def indexed(self) -> Width:
        """The width of one access on the indexed side."""
        return self.store if self.problem.scatters else self.load

    @property
    def length(self) -> int:
        """Elements of one access on the dense side."""
        return self.dense.nbytes // self.problem.dense.element.itemsize

    @property
    def kernel(self) -> str:
        """The kernel's name: operation, element and bytes of a vector, and the indices' type."""
        problem = self.problem
        verb = "scatter" if problem.scatters else "gather"
        return f"{verb}_{self.family}_{problem.dense.element}x{self.dense.nbytes}B_{problem.index.element}"

    @property
    def accesses(self) -> list[str]:
        """The line about widths and their limits."""
        widths = {"loads": self.load, "stores": self.store, "indices": self.index}
        return ["; ".join(describe_access(verb, width) for verb, width in widths.items())]


def choose_gather(problem: GatherProblem, widest: int = 16) -> GatherChoice:
    """The kernel for a problem; `widest` is the largest access of the device, in bytes."""
    family = _family(problem)
    reach = max(
        problem.element_count, problem.dense.layout.span, problem.indexed.layout.span, problem.index.layout.span
    )
    dense, indexed = _widths(problem, family, widest)
    index = _index_width(problem, family, dense.nbytes // problem.dense.element.itemsize)
    if family is GatherFamily.ROWS and _are_short(problem, indexed):
        family = GatherFamily.SHORT_ROWS
        dense = _four_rows_width(problem, widest)
        index = _index_width(problem, family, SHORT_ROWS_TOGETHER)
    elif family is GatherFamily.ROWS and widest >= _SHIFTED_BYTES and _begin_anywhere(problem, indexed):
        family = GatherFamily.SHIFTED_ROWS
        load, store = _shifted_widths(indexed)
        dense, indexed = (load, store) if problem.scatters else (store, load)
    load, store = (dense, indexed) if problem.scatters else (indexed, dense)
    return GatherChoice(problem, load, store, index_bits(reach), family, index)


def _family(problem: GatherProblem) -> GatherFamily:
    """The family of a problem, from its sizes and strides alone."""
    if 0 in problem.sizes:
        return GatherFamily.EMPTY
    inner = -1
    if problem.sizes and problem.index_strides[inner] == 0:
        if problem.dense_strides[inner] == problem.indexed_strides[inner] == 1:
            return GatherFamily.ROWS
    elif len(problem.indexed_axes) == 1 and len(problem.sizes) > 1 and not any(problem.index_strides[:inner]):
        return GatherFamily.ELEMENTS if problem.scatters else GatherFamily.INNER
    return GatherFamily.ELEMENTS if len(problem.indexed_axes) == 1 else GatherFamily.ND


def _widths(problem: GatherProblem, family: GatherFamily, widest: int) -> tuple[Width, Width]:
    """The access widths of the dense and the indexed side."""
    if family is GatherFamily.ROWS:
        run = problem.sizes[-1] * problem.dense.element.itemsize
        bounds = [*_dense_bounds(problem, widest), *_indexed_bounds(problem, widest)]
        if run < policy().family.peeled_run_bytes:
            bounds.append(Bound(run, f"an index stands for a run of {run} B, and the target does not own what follows"))
            cap = policy().gather.short_rows_widest_bytes
            bounds.append(Bound(cap, f"vectors above {cap} B leave too few lanes for a run of {run} B", is_cap=True))
        width = bounded_width(bounds, problem.dense.element.itemsize, widest)
        return width, width
    itemsize = problem.dense.element.itemsize
    alone = Width(min(itemsize, widest), "an index stands for one element" if itemsize < widest else "")
    if family is GatherFamily.EMPTY:
        return Width(alone.nbytes), Width(alone.nbytes)
    return _vector_width(problem, alone, widest), alone


def _vector_width(problem: GatherProblem, alone: Width, widest: int) -> Width:
    """The width of the dense side if each element has an index: adjacent elements form a vector."""
    itemsize, count = problem.dense.element.itemsize, problem.sizes[-1] if problem.sizes else 1
    if count == 1 or problem.dense_strides[-1] != 1:
        return alone
    tuples = len(problem.indexed_axes)
    most = policy().gather.most_indices
    length = max(1, most // tuples)
    bounds = [
        *_dense_bounds(problem, widest),
        Bound(power_of_two(length) * itemsize, f"a thread holds up to {most} numbers for each vector"),
        Bound(power_of_two(count) * itemsize, f"a row has {count} elements"),
    ]
    return bounded_width(bounds, itemsize, widest)


def _are_short(problem: GatherProblem, access: Width) -> bool:
    """True if rows are shorter than a vector, are not themselves a vector, and are adjacent on the written side."""
    run = problem.sizes[-1] * problem.dense.element.itemsize
    return (
        not problem.scatters
        and len(problem.indexed_axes) == 1
        and access.nbytes < run <= policy().gather.short_row_bytes
        and run % access.nbytes == 0
        and len(problem.sizes) > 1
        and problem.sizes[-2] >= SHORT_ROWS_TOGETHER
        and problem.index_strides[-2] != 0
        and problem.dense_strides[-2] == problem.sizes[-1]
    )


def _begin_anywhere(problem: GatherProblem, access: Width) -> bool:
    """True if rows are long and aligned to a word at most, so that funnel-shifted vectors pay off."""
    itemsize = problem.dense.element.itemsize
    run = problem.sizes[-1] * itemsize
    return itemsize <= _WORD_BYTES and access.nbytes <= _WORD_BYTES and run >= policy().gather.least_shifted_bytes


def _shifted_widths(access: Width) -> tuple[Width, Width]:
    """The load and store widths of unaligned rows; `access` is the width without funnel shifts."""
    words = Width(_WORD_BYTES, f"{access.limit}: words are loaded, and shifted into place")
    return words, Width(_SHIFTED_BYTES, "vectors are put together from words")


def _four_rows_width(problem: GatherProblem, widest: int) -> Width:
    """The store width of several short rows together."""
    itemsize = problem.dense.element.itemsize
    together = SHORT_ROWS_TOGETHER * problem.sizes[-1] * itemsize
    bounds = _bounds("target", problem.dense, problem.dense_offset, problem.dense_strides[:-2], widest)
    return bounded_width([*bounds, Bound(together, f"{SHORT_ROWS_TOGETHER} rows are {together} B")], itemsize, widest)


def _dense_bounds(problem: GatherProblem, widest: int) -> list[Bound]:
    """Divisors of every row address of the dense side."""
    side = "source" if problem.scatters else "target"
    return _bounds(side, problem.dense, problem.dense_offset, problem.dense_strides[:-1], widest)


def _indexed_bounds(problem: GatherProblem, widest: int) -> list[Bound]:
    """Divisors of every row address of the indexed side, whatever the indices."""
    side = "target" if problem.scatters else "source"
    strides = [*problem.indexed_strides[:-1], *(entry.stride for entry in problem.indexed_axes if entry.size > 1)]
    return _bounds(side, problem.indexed, problem.indexed_offset, strides, widest)


def _bounds(name: str, side: TensorSpec, offset: int, strides: Iterable[int], widest: int) -> list[Bound]:
    """Divisors of every address: the alignment, the start offset of loops, and the strides."""
    itemsize = side.element.itemsize
    steps = (abs(stride) * itemsize for stride in strides if stride)
    aligned = alignment_bound(name, gcd(side.alignment, offset * itemsize))
    return [aligned, *(stride_bound(name, step, widest) for step in steps)]


def _index_width(problem: GatherProblem, family: GatherFamily, length: int) -> Width:
    """The load width of the indices of a vector's `length` places: several numbers if they are adjacent."""
    itemsize, count = problem.index.element.itemsize, len(problem.indexed_axes)
    if family is GatherFamily.ROWS:
        return Width(itemsize, "an index stands for a row")
    in_a_row = all(entry.component == place for place, entry in enumerate(problem.indexed_axes))
    along = len(problem.sizes) - (2 if family is GatherFamily.SHORT_ROWS else 1)
    if count * length == 1 or not in_a_row or (length > 1 and problem.index_strides[along] != count):
        return Width(itemsize)
    numbers = count * length * itemsize
    outer = problem.index_strides[:along] if length > 1 else problem.index_strides
    aligned, *strides = _bounds("indices", problem.index, problem.index_offset, outer, WIDEST_INDICES)
    bounds = [aligned, Bound(numbers, f"a vector has {numbers} B of indices"), *strides]
    return bounded_width(bounds, itemsize, WIDEST_INDICES)


LAUNCH_NUMBER_AT: Final = 32
"""The offset of the 32-bit launch number in a gather's parameters."""

_LANES: Final = (32, 16, 8, 4, 2, 1)
"""Lanes of a group, the most first: of shapes that cost the same, the first is taken."""

_STEPS: Final = (4, 2, 1)
"""Vectors of a lane in a chunk."""


@dataclass(frozen=True, slots=True)
class _LoopAxis:
    """One loop: its size; its strides on the dense side, on the indexed side, in the indices and in their numbering."""

    size: int
    dense: int = 0
    indexed: int = 0
    index: int = 0
    position: int = 0

    @property
    def strides(self) -> tuple[int, int, int, int]:
        return self.dense, self.indexed, self.index, self.position

    def cut(self, length: int) -> _LoopAxis:
        return _LoopAxis(-(-self.size // length), *(length * stride for stride in self.strides))


def gather_launch(plan: GatherChoice, gpu: GpuProperties) -> KernelLaunch:
    """The kernel, grid and parameters of `plan` on `gpu`.

    Raises `LayoutError` for a plan without elements, which has no launch.
    """
    if plan.family is GatherFamily.EMPTY:
        raise LayoutError(f"A plan over sizes {plan.problem.sizes} has no elements; there is nothing to launch.")
    lay_out = _LAUNCHES.get(plan.family, _elements)
    return lay_out(plan, gpu)


def _loops(problem: GatherProblem) -> list[_LoopAxis]:
    strides = (problem.dense_strides, problem.indexed_strides, problem.index_strides, problem.position_strides)
    return [_LoopAxis(*loop) for loop in zip(problem.sizes, *strides, strict=True)]


def _common(plan: GatherChoice, loops: Sequence[_LoopAxis]) -> tuple[ParameterBlock, int, int]:
    """`sg::GatherParameters` with addresses and launch number 0, their rank, and the places of the loops."""
    problem = plan.problem
    block = ParameterBlock(plan.index_bits)
    block.add(bytes(16), 8)
    block.add_int32(0)
    for entry in problem.indexed_axes:
        block.add_indices(entry.size, bits=64)
        block.add_indices(entry.stride if entry.size > 1 else 0, entry.component)
    columns = ([loop.strides[operand] for loop in loops] for operand in range(4))
    rank = block.add_axes([loop.size for loop in loops], *columns)
    count = prod(loop.size for loop in loops)
    offsets = (problem.dense_offset, problem.indexed_offset, problem.index_offset, problem.position_offset)
    block.add_indices(*offsets, count)
    block.add(b"", 8)
    return block, rank, count


def _types(plan: GatherChoice) -> tuple[str, str, str]:
    """The C++ types of the elements, of the indices and of offsets."""
    problem = plan.problem
    return word_argument(problem.dense.element), f"sg::{problem.index.element}", index_argument(plan.index_bits)


def _mode(plan: GatherChoice) -> str:
    """The `sg::OutOfRange` of the mode; checked indices are clamped."""
    return f"sg::OutOfRange::{'clamp' if plan.problem.mode == 'raise' else plan.problem.mode}"


def _rows(plan: GatherChoice, gpu: GpuProperties) -> KernelLaunch:
    """Groups of lanes sized to the run; long runs are cut into chunks. Unaligned runs begin anywhere in a vector."""
    problem, shifts = plan.problem, plan.family is GatherFamily.SHIFTED_ROWS
    *outer, run = _loops(problem)
    length = plan.store.nbytes // problem.dense.element.itemsize
    places = run.size + length - 1 if shifts else run.size
    steps, items, lanes = _shape(-(-places // length), prod(loop.size for loop in outer), plan, gpu)
    chunk = steps * lanes * length
    chunks = -(-places // chunk)
    block, rank, count = _common(plan, [*outer, _LoopAxis(chunks, chunk, chunk)])
    group: dict[str, bool | int | str] = {
        "mode": _mode(plan),
        "scatters": problem.scatters,
        "lanes": lanes,
        "steps": steps,
        "items": items,
        "rank": rank,
        "components": len(problem.indexed_axes),
    }
    block.add_indices(run.size)
    if shifts:
        source = problem.dense if problem.scatters else problem.indexed
        block.add_indices(source.layout.span * source.element.itemsize + source.slack_bytes, bits=64)
        kernel, constants = "gather_shifted_rows", group
        name = instantiation(kernel, _types(plan), "GatherShiftedRowsPolicy", **constants)
    else:
        block.add_indices(run.size // length * length)
        kernel, constants = "gather_rows", {"bytes": plan.dense.nbytes, **group, "exact": run.size == chunks * chunk}
        name = instantiation(kernel, _types(plan), "GatherRowsPolicy", **constants)
    return block.launch(f"{kernel}.cu", name, -(-count // (THREADS // lanes * items)))


def _shape(vectors: int, rows: int, plan: GatherChoice, gpu: GpuProperties) -> tuple[int, int, int]:
    """Steps of a chunk, chunks of a thread, and lanes of a group for runs of `vectors` vectors.

    The lanes of a group load a cache line or more at a time. An index, or the ends of an unaligned run, cost as many
    instructions as some vectors: a thread has few chunks of many steps. Of aligned runs, enough chunks must remain for
    all multiprocessors.
    """
    limits, nbytes, bits = policy().gather, plan.store.nbytes, plan.index_bits
    shifts = plan.family is GatherFamily.SHIFTED_ROWS
    besides = limits.vectors_for_ends if shifts else limits.vectors_for_index
    most = min(limits.in_flight, max(1, limits.in_flight_bytes // nbytes))
    fewest = min(limits.group_bytes // nbytes, WARP, 1 << (vectors - 1).bit_length())
    shapes = [(steps, lanes) for lanes in _LANES if lanes >= fewest for steps in _STEPS if steps <= most]

    def threads(shape: tuple[int, int]) -> int:
        steps, lanes = shape
        return rows * -(-vectors // (steps * lanes)) * lanes

    def work(shape: tuple[int, int]) -> int:
        return threads(shape) * (besides + shape[0])

    least = 0 if shifts else gpu.multiprocessors * THREADS
    enough = [shape for shape in shapes if shape[0] == 1 or threads(shape) >= least]
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


def _elements(plan: GatherChoice, gpu: GpuProperties) -> KernelLaunch:
    """One thread for several vectors of adjacent elements, each element with its own index or tuple of indices."""
    problem, limits = plan.problem, policy().gather
    *outer, row = _loops(problem) or [_LoopAxis(1)]
    block, rank, count = _common(plan, [*outer, row.cut(plan.length)])
    components = len(problem.indexed_axes)
    most = max(1, min(limits.in_flight, limits.elements_in_flight // (plan.length * components)))
    items = most if count >= gpu.multiprocessors * THREADS * most else 1
    block.add_indices(row.size, row.indexed, row.index, row.position)
    name = instantiation(
        "gather_elements",
        _types(plan),
        "GatherElementsPolicy",
        length=plan.length,
        index_bytes=plan.index.nbytes,
        mode=_mode(plan),
        scatters=problem.scatters,
        items=items,
        rank=rank,
        components=components,
    )
    return block.launch("gather_elements.cu", name, -(-count // (THREADS * items)))


def _short_rows(plan: GatherChoice, gpu: GpuProperties) -> KernelLaunch:  # noqa: ARG001 - as the others
    """One thread for several adjacent rows of the target."""
    problem = plan.problem
    *outer, rows, run = _loops(problem)
    block, rank, count = _common(plan, [*outer, rows.cut(SHORT_ROWS_TOGETHER)])
    block.add_indices(rows.size, rows.indexed, rows.index, rows.position)
    name = instantiation(
        "gather_short_rows",
        _types(plan),
        "GatherShortRowsPolicy",
        piece_bytes=plan.indexed.nbytes,
        count=run.size * problem.dense.element.itemsize // plan.indexed.nbytes,
        store_bytes=plan.dense.nbytes,
        index_bytes=plan.index.nbytes,
        mode=_mode(plan),
        rank=rank,
    )
    return block.launch("gather_short_rows.cu", name, -(-count // THREADS))


def _inner(plan: GatherChoice, gpu: GpuProperties) -> KernelLaunch:
    """One thread for a vector of adjacent indices, applied to a few rows."""
    limits = policy().gather
    *outer, inner = _loops(plan.problem)
    block, rank, count = _common(plan, outer)
    together = min(limits.inner_rows, limits.inner_elements // plan.length)
    groups, vectors = -(-count // together), -(-inner.size // plan.length)
    enough = groups * vectors >= gpu.multiprocessors * limits.long_row_threads
    threads = limits.long_row_threads if vectors > THREADS and enough else THREADS
    block.add_indices(inner.size, inner.dense, inner.index, inner.position, groups)
    block.add_divisors(vectors)
    name = instantiation(
        "gather_inner",
        _types(plan),
        "GatherInnerPolicy",
        length=plan.length,
        index_bytes=plan.index.nbytes,
        mode=_mode(plan),
        rows=together,
        threads=threads,
        rank=rank,
    )
    return block.launch("gather_inner.cu", name, -(-groups * vectors // threads), threads)


_LAUNCHES: Final = {
    GatherFamily.ROWS: _rows,
    GatherFamily.SHIFTED_ROWS: _rows,
    GatherFamily.SHORT_ROWS: _short_rows,
    GatherFamily.INNER: _inner,
}
"""By family; in the others each element has indices of its own."""

CHECK_REPORT_AT: Final = 8
"""The offset of the report's address in a check's parameters, after the address of the indices."""

REPORT: Final = struct.Struct("<10Q")
"""`sg::IndexReport`: words with a precedence and one byte each: 2 bytes of the rule, then 8 of the value. All zero
until the first wrong index."""

_RULE_BYTES: Final = 2

_NUMBER_BITS: Final = 40
"""Bits of a precedence for the number of an index in its launch; the higher bits count launches."""

RULES: Final = 1 << 8 * _RULE_BYTES
"""The number of rule numbers in a report; the launch count wraps at the same number."""

_MOST_COMPONENTS: Final = 64
"""The most components of a tuple in a check: `most_components` in check_indices.cu."""


@dataclass(frozen=True, slots=True)
class WrongIndex:
    """The first wrong index of a report: its row-major number, the number of its rule, and its value.

    `rule` and `value` are None if the report was read while a kernel was writing it, and only a part is consistent.
    """

    number: int
    rule: int | None
    value: int | None


def wrong_index(report: bytes, *, signed: bool = True) -> WrongIndex | None:
    """Decode a report; None if every index was right."""
    words = REPORT.unpack(report)
    first = max(word >> 8 for word in words)
    if not any(words):
        return None
    number = ~first & (1 << _NUMBER_BITS) - 1
    if any(word >> 8 != first for word in words):
        return WrongIndex(number, None, None)
    said = bytes(word & 0xFF for word in words)
    value = int.from_bytes(said[_RULE_BYTES:], "little", signed=signed)
    return WrongIndex(number, int.from_bytes(said[:_RULE_BYTES], "little"), value)


def launch_number(count: int, rule: int) -> int:
    """The value at `LAUNCH_NUMBER_AT`: the launch count and the number of the rule."""
    return count % RULES << 8 * _RULE_BYTES | rule


def take_launch() -> KernelLaunch:
    """The launch that moves a report to another place and clears it, atomically word by word.

    Its parameters are two addresses: the report's, and that of the copy.
    """
    return KernelLaunch(("take_report.cu",), "sg::take_report", (1, 1, 1), (32, 1, 1), 0, bytes(16))


def check_launch(rule: IndexRule) -> KernelLaunch:
    """The launch that checks every index of `rule` and reports the first one out of range."""
    layout = rule.index.layout
    bits = index_bits(max(layout.element_count, layout.span))
    block = ParameterBlock(bits)
    rank = block.add_axes(layout.sizes, layout.strides, (0,) * layout.ndim)
    block.add_indices(layout.offset, layout.element_count)
    block.add_int32(rank - 1 if rule.has_tuples else -1)
    _add_per_component(block, [size for _, size in rule.axes])
    items = policy().gather.checked_indices
    types = (f"sg::{rule.index.element}", index_argument(bits))
    name = instantiation("check_indices", types, "CheckPolicy", items=items, rank=rank)
    return block.launch("check_indices.cu", name, -(-layout.element_count // (THREADS * items)))


def distinct_report_bytes(rule: IndexRule) -> int:
    """The zeroed bytes that `distinct_launch` needs: a report, and one bit for each element that can be named."""
    return REPORT.size + -(-rule.name_count // 32) * 4


def distinct_launch(rule: IndexRule) -> KernelLaunch:
    """The launch that reports whether two indices of `rule` name one element; the bits follow the report."""
    layout = rule.index.layout
    tuples = layout.ndim - 1 if rule.has_tuples else layout.ndim
    count = layout.element_count // len(rule.axes) if rule.has_tuples else layout.element_count
    own, named = rule.name_pitches
    bits = index_bits(max(count, layout.span, rule.name_count))
    block = ParameterBlock(bits)
    rank = block.add_axes(layout.sizes[:tuples], layout.strides[:tuples], own or (0,) * tuples)
    block.add_indices(layout.offset, count, layout.strides[-1] if rule.has_tuples else 0)
    block.add_int32(len(rule.axes))
    _add_per_component(block, [size for _, size in rule.axes])
    _add_per_component(block, named)
    types = (f"sg::{rule.index.element}", index_argument(bits))
    name = instantiation("check_distinct", types, "DistinctPolicy", rank=rank)
    return block.launch("check_distinct.cu", name, -(-count // THREADS))


def _add_per_component(block: ParameterBlock, values: Sequence[int]) -> None:
    """Append one 64-bit value for each component of a tuple. Raises `LayoutError` for too many."""
    if len(values) > _MOST_COMPONENTS:
        raise LayoutError(f"indices hold tuples of {len(values)}; a GPU takes up to {_MOST_COMPONENTS}.")
    block.add_indices(*values, *(0,) * (_MOST_COMPONENTS - len(values)), bits=64)
