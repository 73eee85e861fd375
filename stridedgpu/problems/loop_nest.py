"""`LoopNest`: the loops that walk several layouts together, simplified as far as their strides allow.

Relayout and gather plan from this: the fewer and longer the loops, the faster the kernel that fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stridedgpu.values.layout import Layout


@dataclass(frozen=True, slots=True)
class LoopNest:
    """Common loops over operands, outermost first; strides and offsets are in elements of each operand.

    `kept` is the position of the `keep` axis after simplification, or None if its size was 1.
    """

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    kept: int | None = None


def innermost_box(sizes: tuple[int, ...], elements: int) -> tuple[int, ...]:
    """A box of up to `elements` that fills the inner loops first: all of some, part of one, 1 along the outer loops.

    >>> innermost_box((8, 100, 3), 30)
    (1, 10, 3)
    """
    extents: list[int] = []
    for size in reversed(sizes):
        extents.append(max(1, min(size, elements)))
        elements //= extents[-1]
    return tuple(reversed(extents))


def simplify(layouts: Sequence[Layout], keep: int | None = None, *, in_order: bool = False) -> LoopNest:
    """The simplest loops that visit corresponding elements of `layouts`, which have equal sizes.

    The first layout, the destination, leads. Axes of size 1 are dropped. An axis along which the leader runs backwards
    is flipped for all layouts. Axes are ordered by the leader's stride, then by the other layouts'. Neighbours are
    merged if, for **every** operand, the outer stride is the inner size times the inner stride (0 and 0 included);
    sizes alone never justify a merge. The axis numbered `keep` is not merged. With `in_order` the loops keep the order
    and the direction of the coordinates.

    >>> nchw, nhwc = Layout((2, 3, 4, 5)), Layout((2, 3, 4, 5), (60, 1, 15, 3))
    >>> simplify([nhwc, nchw])
    LoopNest(sizes=(2, 20, 3), strides=((60, 3, 1), (60, 1, 20)), offsets=(0, 0), kept=None)
    """
    leader = layouts[0]
    offsets = [layout.offset for layout in layouts]
    axes: list[tuple[int, tuple[int, ...], bool]] = []
    for axis, size in enumerate(leader.sizes):
        if size == 1:
            continue
        steps = tuple(layout.strides[axis] for layout in layouts)
        backwards = next((step < 0 for step in steps if step != 0), False)
        if backwards and size > 0 and not in_order:
            offsets = [offset + (size - 1) * step for offset, step in zip(offsets, steps, strict=True)]
            steps = tuple(-step for step in steps)
        axes.append((size, steps, axis == keep))
    if not in_order:
        axes.sort(key=lambda entry: tuple(abs(step) for step in entry[1]), reverse=True)

    merged: list[tuple[int, tuple[int, ...], bool]] = []
    for size, steps, kept in axes:
        if merged:
            outer_size, outer_steps, outer_kept = merged[-1]
            nested = all(outer == size * inner for outer, inner in zip(outer_steps, steps, strict=True))
            if nested and not kept and not outer_kept:
                merged[-1] = (outer_size * size, steps, False)
                continue
        merged.append((size, steps, kept))
    return LoopNest(
        tuple(size for size, _, _ in merged),
        tuple(tuple(steps[operand] for _, steps, _ in merged) for operand in range(len(layouts))),
        tuple(offsets),
        next((place for place, entry in enumerate(merged) if entry[2]), None),
    )
