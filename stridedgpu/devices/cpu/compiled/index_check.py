"""Check indices by compiled loops, on as many threads as the work pays for."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from math import prod

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.index_rule import IndexRule
from stridedgpu.planning.loop_nest import simplify
from stridedgpu.values.tensor_spec import TensorSpec

from .gather_indices import IndexKind, lanes_of
from .index_check_loop import IndexCheck
from .jit import compiled, moving_function
from .worker_pool import run_shared

__all__ = ["IndicesWithin", "compiled_index_check"]

IndicesWithin = Callable[[Buffer, int], bool]
"""`within(indices, start)` is True if all indices are known to be inside their axes."""


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
    return checks[0] if len(checks) == 1 else lambda *indices: all(check(*indices) for check in checks)


def _of_axis(side: TensorSpec, size: int) -> IndicesWithin | None:
    """The check of indices into one axis of the given size."""
    nbytes = side.element.itemsize
    nest = simplify([side.layout])
    # A broadcast index is checked once.
    loops = [(count, step * nbytes) for count, step in zip(nest.sizes, nest.strides[0], strict=True) if step]
    b = loops.pop() if loops else (1, 0)
    kind = IndexKind(nbytes, side.element.kind == "i", b[1] == nbytes, "raise")
    loop = compiled(IndexCheck(kind, len(loops), lanes_of(b[0])).text)
    if loop is None:
        return None
    block = min(b[0], policy().index_check.item_indices)
    blocks = -(-b[0] // block)
    fields = [size, *b, block, blocks, *(field for entry in reversed(loops) for field in entry)]
    parameters = (ctypes.c_int64 * len(fields))(*fields)
    offset = nest.offsets[0] * nbytes
    items = prod(count for count, _ in loops) * blocks
    looked_at = nbytes * prod(count for count, _ in (*loops, b))
    is_shared = looked_at >= policy().index_check.shared_bytes
    place = ctypes.addressof(parameters)
    brief = looked_at < policy().sharing.brief_bytes
    alone = moving_function(loop.address, place, items, (offset, 0), keeps_lock=brief)
    unused: list[tuple[ctypes.Array[ctypes.c_int64], int]] = []

    def within(indices: Buffer, start: int, _held: ctypes.Array[ctypes.c_int64] = parameters) -> bool:
        try:
            wrong, status = unused.pop()
        except IndexError:  # calls at the same time have a status each, which is read after the lock may have changed
            wrong = (ctypes.c_int64 * 1)()
            status = ctypes.addressof(wrong)
        if is_shared:
            run_shared(loop, indices.address + (start + offset), status, place, items, nbytes=looked_at)
        else:
            alone(indices.address, start, status, 0)
        if wrong[0]:
            return False
        unused.append((wrong, status))
        return True

    return within
