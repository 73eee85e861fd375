"""`GatherProblem`: a gather or scatter, reduced to simplified loops.

Gather, gather_elements, gather_nd and their scatters share one form. The loops walk the dense side (`dense`) in order,
together with the indices: a gather's result, or a scatter's updates. The indexed side (`indexed`) is addressed through
the indices: a gather's data, or a scatter's result.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import ClassVar, Final

from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .index_rule import IndexRule, Mode
from .loop_nest import simplify


@dataclass(frozen=True, slots=True)
class IndexedAxis:
    """An axis of the indexed side whose coordinate is read from the indices.

    `axis` is its number in the tensor and `size` its length; `stride` is in elements of the indexed side. `component`
    is the distance in the indices, in elements, from the first number of a tuple to the number for this axis.
    """

    axis: int
    size: int
    stride: int
    component: int = 0


@dataclass(frozen=True, slots=True)
class GatherProblem:
    """Loops over the dense side, outermost first, with the strides of each operand.

    Strides and offsets are in elements of their operand, offsets from its lowest element. A loop whose `index_strides`
    entry is 0 runs within the slice of one index. `position_strides` number the indices, or tuples of indices, in
    row-major order, so that an error can name the position. A scatter keeps its loops in coordinate order: a device
    that runs them serially lets the last of several equal indices win. `mode` is the rule for an index out of range.
    With `has_tuples` the indices' last axis runs over coordinates.
    """

    operand_count: ClassVar[int] = 3
    """The operands that `launch_for` gives its launch."""

    sizes: tuple[int, ...]
    dense_strides: tuple[int, ...]
    indexed_strides: tuple[int, ...]
    index_strides: tuple[int, ...]
    position_strides: tuple[int, ...]
    dense_offset: int
    indexed_offset: int
    index_offset: int
    position_offset: int
    indexed_axes: tuple[IndexedAxis, ...]
    dense: TensorSpec
    indexed: TensorSpec
    index: TensorSpec
    scatters: bool
    mode: Mode = "raise"
    has_tuples: bool = False
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Hash the numbers, once: every call looks its launch up by the problem. Names hash otherwise elsewhere."""
        strides = self.dense_strides, self.indexed_strides, self.index_strides
        sides = self.dense, self.indexed, self.index
        object.__setattr__(self, "_hash", hash((self.scatters, self.sizes, *strides, *sides)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def element_count(self) -> int:
        """The number of elements moved."""
        return prod(self.sizes)

    @property
    def index_count(self) -> int:
        """The number of positions with an index, or a tuple of indices, of their own."""
        return prod(size for size, stride in zip(self.sizes, self.index_strides, strict=True) if stride)

    @property
    def row_axes(self) -> int:
        """The number of innermost loops that run within the slice of one index.

        A loop along which a scatter writes one element repeatedly does not count, since there the order matters.
        """
        count = 0
        for index_stride, indexed_stride in zip(
            reversed(self.index_strides), reversed(self.indexed_strides), strict=True
        ):
            if index_stride or (self.scatters and not indexed_stride):
                break
            count += 1
        return count

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written: every element twice, every index once."""
        return (
            2 * self.element_count * self.dense.element.itemsize
            + self.index_count * len(self.indexed_axes) * self.index.element.itemsize
        )

    @property
    def rule(self) -> IndexRule:
        """What the indices must keep to, apart from `unique=True`."""
        axes = tuple((entry.axis, entry.size) for entry in self.indexed_axes)
        return IndexRule(self.index, axes, has_tuples=self.has_tuples)

    @property
    def refuses_indices(self) -> bool:
        """Whether an index out of range is an error; scatters are given indices that were checked."""
        return not self.scatters and self.mode in ("raise", "deferred")

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to move."""
        return 0 in self.sizes

    def describe(self) -> list[str]:
        """The lines that `explain()` prints for the problem."""
        dense, indexed = ("reads", "writes") if self.scatters else ("writes", "reads")
        ranges = ", ".join(f"axis {entry.axis} of size {entry.size}" for entry in self.indexed_axes)
        return [
            f"loops {self.sizes}, the {self.row_axes} innermost within one index",
            f"{dense} in steps of {self.dense_strides} elements",
            f"{indexed} in steps of {self.indexed_strides} elements, and where the indices say",
            f"indices for {ranges}; out of range: {_MODES[self.mode]}; bits move unchanged",
            f"{self.bytes_moved} bytes must move",
        ]


_MODES: Final = {
    "raise": "refused before anything is written",
    "clip": "the nearest valid one; negative ones are 0",
    "wrap": "counted round the axis",
    "deferred": "clamped, and raised at the next synchronisation",
}


def gather_problem(data: TensorSpec, index: TensorSpec, target: TensorSpec, axis: int) -> GatherProblem:
    """`target[..., i, ...] = data[..., indices[i], ...]` along one axis, which the axes of the indices replace."""
    source, rank = data.layout, index.layout.ndim
    return _problem(
        target,
        (data, (*source.strides[:axis], *(0,) * rank, *source.strides[axis + 1 :])),
        (index, (*(0,) * axis, *index.layout.strides, *(0,) * (source.ndim - axis - 1))),
        range(axis, axis + rank),
        (IndexedAxis(axis, source.sizes[axis], source.strides[axis]),),
        scatters=False,
    )


def elements_problem(
    indexed: TensorSpec, index: TensorSpec, dense: TensorSpec, axis: int, *, scatters: bool
) -> GatherProblem:
    """Each index is the coordinate along one axis; its other coordinates are its own position in the indices."""
    strides = indexed.layout.strides
    return _problem(
        dense,
        (indexed, (*strides[:axis], 0, *strides[axis + 1 :])),
        (index, index.layout.strides),
        range(len(strides)),
        (IndexedAxis(axis, indexed.layout.sizes[axis], strides[axis]),),
        scatters=scatters,
    )


def tuples_problem(
    indexed: TensorSpec, index: TensorSpec, dense: TensorSpec, batch_dims: int, *, scatters: bool
) -> GatherProblem:
    """The last axis of the indices holds coordinates of the axes that follow the first `batch_dims`, shared ones."""
    layout, indices = indexed.layout, index.layout
    length = indices.sizes[-1]
    rest = layout.strides[batch_dims + length :]
    between = indices.ndim - 1 - batch_dims
    axes = range(batch_dims, batch_dims + length)
    problem = _problem(
        dense,
        (indexed, (*layout.strides[:batch_dims], *(0,) * between, *rest)),
        (index, (*indices.strides[:-1], *(0,) * len(rest))),
        range(indices.ndim - 1),
        tuple(
            IndexedAxis(axis, layout.sizes[axis], layout.strides[axis], place * indices.strides[-1])
            for place, axis in enumerate(axes)
        ),
        scatters=scatters,
    )
    return replace(problem, has_tuples=True)


def _problem(
    dense: TensorSpec,
    indexed: tuple[TensorSpec, tuple[int, ...]],
    index: tuple[TensorSpec, tuple[int, ...]],
    index_axes: range,
    indexed_axes: tuple[IndexedAxis, ...],
    *,
    scatters: bool,
) -> GatherProblem:
    """The loops over the dense side's coordinates, simplified."""
    sizes = dense.layout.sizes
    layouts = [
        dense.layout,
        *(Layout(sizes, strides, side.layout.offset) for side, strides in (indexed, index)),
        Layout(sizes, _positions(sizes, index[1], index_axes)),
    ]
    nest = simplify(layouts, in_order=scatters)
    dense_strides, indexed_strides, index_strides, position_strides = nest.strides
    start, indexed_start, index_start, position_start = nest.offsets
    return GatherProblem(
        nest.sizes,
        dense_strides,
        indexed_strides,
        index_strides,
        position_strides,
        start,
        indexed_start,
        index_start,
        position_start,
        indexed_axes,
        dense,
        indexed[0],
        index[0],
        scatters,
    )


def _positions(sizes: tuple[int, ...], index_strides: tuple[int, ...], axes: range) -> tuple[int, ...]:
    """Strides that number the indices in row-major order over `axes`; a repeated index has its first position."""
    strides = [0] * len(sizes)
    pitch = 1
    for axis in reversed(axes):
        strides[axis] = pitch if index_strides[axis] else 0
        pitch *= sizes[axis]
    return tuple(strides)
