"""`IndexRule`: which indices an operation accepts, and the messages for those that it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import ClassVar, Literal

from stridedgpu.values.tensor_spec import TensorSpec

Mode = Literal["raise", "clip", "wrap", "deferred"]
"""The rule for an index out of range."""


@dataclass(frozen=True, slots=True)
class IndexRule:
    """The indices of one operation: their layout, and the axes that they must stay within.

    `axes` holds the number and size of each indexed axis. With `has_tuples` the last axis of the indices runs over
    these axes; otherwise there is one.

    `own_pitches` and `axis_pitches` serve `unique=True`: they are strides that give each target element a linear id.
    The id is sum(index coordinate * own pitch) + sum(index value * axis pitch), without the tuples' axis in the first
    sum. Two equal ids are a duplicate.
    """

    operand_count: ClassVar[int] = 1
    """The operands that `launch_for` gives its launch."""

    index: TensorSpec
    axes: tuple[tuple[int, int], ...]
    has_tuples: bool = False
    own_pitches: tuple[int, ...] = ()
    axis_pitches: tuple[int, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Hash once: every call looks its check up by the rule."""
        object.__setattr__(self, "_hash", hash((self.index, self.axes, self.has_tuples, self.axis_pitches)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_signed(self) -> bool:
        """Whether indices may be negative, counting from the end."""
        return self.index.element.kind == "i"

    @property
    def name_pitches(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """`own_pitches` and `axis_pitches` divided by their common factor: a slice named as a whole has one id."""
        unit = gcd(*self.own_pitches, *self.axis_pitches)
        own, axis = (tuple(pitch // unit for pitch in pitches) for pitches in (self.own_pitches, self.axis_pitches))
        return own, axis

    @property
    def name_count(self) -> int:
        """The number of different ids that `name_pitches` can give."""
        own, named = self.name_pitches
        sizes = (*self.index.layout.sizes[: len(own)], *(size for _, size in self.axes))
        return 1 + sum((size - 1) * pitch for size, pitch in zip(sizes, (*own, *named), strict=True))

    def out_of_range(self, position: Sequence[int], value: int) -> str:
        """The message for `value` at `position` in the indices, which is out of range.

        >>> from stridedgpu.values.dtypes import element_type
        >>> from stridedgpu.values.layout import Layout
        >>> rule = IndexRule(TensorSpec(Layout((4,)), element_type("int64"), 8), ((1, 10),))
        >>> rule.out_of_range((2,), 12)
        'indices[2] = 12 is out of range for axis 1 of size 10: valid are -10 to 9.'
        """
        axis, size = self.axes[position[-1] if self.has_tuples else 0]
        valid = f"valid are {-size if self.is_signed else 0} to {size - 1}" if size else "no index is valid"
        return f"indices{_subscript(position)} = {value} is out of range for axis {axis} of size {size}: {valid}."

    @staticmethod
    def named_twice(first: Sequence[int], second: Sequence[int], values: Sequence[object]) -> str:
        """The message for two indices that name the same element."""
        one, other = (f"indices{_subscript(place)}" for place in (first, second))
        return (
            f"{one} = {values[0]} and {other} = {values[1]} name the same element of the result; "
            "unique=True takes each once."
        )


def _subscript(position: Sequence[int]) -> str:
    """`[1, 2]`, or an empty text for a scalar."""
    return f"[{', '.join(map(str, position))}]" if position else ""
