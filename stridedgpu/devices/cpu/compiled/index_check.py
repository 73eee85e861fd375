"""Check indices by compiled loops, on as many threads as the work pays for."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from stridedgpu.devices.buffer import address_of
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.gather_problem import GatherProblem
from stridedgpu.planning.index_rule import IndexRule
from stridedgpu.planning.loop_nest import simplify
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.tensor_spec import TensorSpec

from .gather_indices import IndexKind, lanes_of
from .index_check_loop import NARROWED_BYTES, IndexCheck, IndexNarrowing
from .ir import LINE_BYTES
from .jit import compiled, moving_function
from .worker_pool import run_shared

__all__ = ["IndicesWithin", "Positions", "compiled_index_check", "compiled_narrowing", "narrowed"]

IndicesWithin = Callable[[int], bool]
"""`within(indices)` is True if all indices, the lowest of which is at an address, are known to be inside their axes."""

Positions = Callable[[int], tuple[bool, int, object]]
"""`positions(indices)`: whether all indices at an address are known to be inside their axis, the address of their
positions, and the memory that these are in; those of wrong indices are undefined."""


def compiled_index_check(rule: IndexRule) -> IndicesWithin | None:
    """Compile the check of a rule; None where the compiler is unavailable."""
    layout = rule.index.layout
    if rule.has_tuples:
        whole = slice(None)
        parts = [
            (replace(rule.index, layout=layout.sliced((*(whole,) * (layout.ndim - 1), place))), size)
            for place, (_, size) in enumerate(rule.axes)
        ]
    else:
        parts = [(rule.index, rule.axes[0][1])]
    checks = [check for part in parts if (check := _of_axis(*part)) is not None]
    if len(checks) < len(parts):
        return None
    return checks[0] if len(checks) == 1 else lambda indices: all(check(indices) for check in checks)


def _of_axis(side: TensorSpec, size: int) -> IndicesWithin | None:
    """The check of indices into one axis of the given size."""
    nbytes = side.element.itemsize
    nest = simplify([side.layout])
    # A broadcast index is checked once.
    loops = [(count, step * nbytes) for count, step in zip(nest.sizes, nest.strides[0], strict=True) if step]
    b = loops.pop() if loops else (1, 0)
    kind = IndexKind(nbytes, side.element.kind == "i", b[1] == nbytes, "raise")
    loop = compiled(IndexCheck(kind, len(loops), lanes_of(b[0])).text)
    indices = prod(count for count, _ in (*loops, b))
    looked_at = nbytes * indices
    block = min(b[0], policy().index_check.indices_of_item(indices, looked_at))
    blocks = -(-b[0] // block)
    fields = [size, *b, block, blocks, *(field for entry in reversed(loops) for field in entry)]
    parameters = (ctypes.c_int64 * len(fields))(*fields)
    offset = nest.offsets[0] * nbytes
    items = prod(count for count, _ in loops) * blocks
    is_shared = looked_at >= policy().index_check.shared_bytes
    place = ctypes.addressof(parameters)
    brief = looked_at < policy().sharing.brief_bytes
    alone = moving_function(loop, place, items, (offset, 0), held=parameters, keeps_lock=brief)
    unused: list[tuple[ctypes.Array[ctypes.c_int64], int]] = []

    def within(indices: int) -> bool:
        try:
            wrong, status = unused.pop()
        except IndexError:  # calls at the same time have a status each, which is read after the lock may have changed
            wrong = (ctypes.c_int64 * 1)()
            status = ctypes.addressof(wrong)
        if is_shared:
            run_shared(loop, indices + offset, status, place, items, nbytes=looked_at)
        else:
            alone(indices, status)
        if wrong[0]:
            return False
        unused.append((wrong, status))
        return True

    return within


def narrowed(problem: GatherProblem) -> GatherProblem | None:
    """The problem with the positions that its check writes in place of its indices.

    None where the gather reads the indices themselves: where they are not checked or not contiguous, and where that
    takes no longer.
    """
    index = problem.index
    if not problem.refuses_indices or problem.has_tuples or not index.layout.is_packed:
        return None
    (entry,) = problem.indexed_axes
    nbytes = next((nbytes for nbytes in (1, 2) if entry.size <= 1 << 8 * nbytes), None)
    if nbytes is None or not _pays(problem, index.layout.element_count, nbytes):
        return None
    return replace(problem, index=replace(index, element=element_type(f"uint{8 * nbytes}")))


def _pays(problem: GatherProblem, count: int, nbytes: int) -> bool:
    """Whether writing so many positions of `nbytes` each and reading them takes less time than reading indices twice.

    Few indices are in the near caches, and long runs hide them.
    """
    limits = policy().index_check
    if count * problem.index.element.itemsize < max(limits.narrowed_bytes, NARROWED_BYTES):
        return False
    run = problem.element_count * problem.dense.element.itemsize // count
    return run <= limits.narrowed_run and count * nbytes <= limits.most_position_bytes


def compiled_narrowing(problem: GatherProblem, nbytes: int) -> Positions | None:
    """Compile the check of a problem's contiguous indices, which writes positions of `nbytes` each.

    None where the compiler is unavailable.
    """
    index, (entry,) = problem.index, problem.indexed_axes
    kind = IndexKind(index.element.itemsize, index.element.kind == "i", packed=True, mode="raise")
    loop = compiled(IndexNarrowing(kind, nbytes).text)
    count = index.layout.element_count
    block = min(count, policy().index_check.indices_of_item(count, count * kind.nbytes))
    items = -(-count // block)
    fields = [entry.size, count, block, items]
    parameters = (ctypes.c_int64 * len(fields))(*fields)
    place, moved = ctypes.addressof(parameters), count * (kind.nbytes + nbytes)

    def positions(indices: int, _held: ctypes.Array[ctypes.c_int64] = parameters) -> tuple[bool, int, object]:
        try:
            memory = np.empty(LINE_BYTES + count * nbytes, np.uint8)
        except MemoryError as error:
            raise DeviceError(f"The CPU has no {count * nbytes} bytes of memory left to check indices.") from error
        target = address_of(memory)
        wrong = ctypes.c_int64.from_address(target)
        wrong.value = 0
        run_shared(loop, indices, target, place, items, nbytes=moved)
        return not wrong.value, target + LINE_BYTES, memory

    return positions
