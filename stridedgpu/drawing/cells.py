"""The contents of a picture: the visible elements of the logical grid, and the memory under them.

A tensor of any size becomes at most some hundred cells. Long axes are folded to their first and last indices. A place
is one element of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice, product
from math import gcd, prod
from typing import Final, Literal

from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout

Coordinates = tuple[int, ...]

LabelKind = Literal["letters", "coordinates", "offsets"]

Letters = Callable[[int], str]
"""The letter of an offset."""

_MOST_UNFOLDED: Final = 240
"""Elements up to which a tensor is drawn whole, unless one axis alone is too long for a line."""

_LIMITS_WHOLE: Final = (16, 24, 32)
_LIMITS_FOLDED: Final = (4, 6, 8)
"""Planes, rows and columns of a folded tensor."""

_MOST_BETWEEN: Final = 6
"""Gaps of at most so many places between visible ones are drawn."""

_MOST_AFTER: Final = 64
"""At most so many places after the last element are drawn."""

_MOST_STEPS: Final = 2000
"""Search steps for one place, after which counting its elements stops."""

MANY: Final = 999
"""The largest count of elements in one place; more are "999 or more"."""

_MOST_LETTERS: Final = 26 + 26 * 26


@dataclass(frozen=True, slots=True)
class Grid:
    """The visible part of a tensor: its last two axes are rows and columns, the others are planes.

    None stands for omitted indices.
    """

    planes: tuple[Coordinates | None, ...]
    rows: tuple[int | None, ...]
    columns: tuple[int | None, ...]
    ndim: int

    @property
    def is_folded(self) -> bool:
        """True if any element is omitted."""
        return None in (*self.planes, *self.rows, *self.columns)

    def table(self, plane: Coordinates) -> list[list[Coordinates | None] | None]:
        """The coordinates of a plane's elements, row by row; a tensor of fewer than two axes is one row."""
        first = max(0, 2 - self.ndim)
        return [
            None if row is None else [None if at is None else (*plane, row, at)[first:] for at in self.columns]
            for row in self.rows
        ]

    def elements(self) -> Iterator[Coordinates]:
        """The coordinates of every visible element, in row-major order."""
        rows = chain.from_iterable(self.table(plane) for plane in self.planes if plane is not None)
        return (at for row in rows if row is not None for at in row if at is not None)


@dataclass(frozen=True, slots=True)
class Place:
    """One element of memory: the first coordinates stored there (None: padding), and the number of elements."""

    offset: int
    coordinates: Coordinates | None
    sharers: int

    @property
    def sharing(self) -> str:
        """The number of elements that share the place, as text; "" for one."""
        return f"\N{MULTIPLICATION SIGN}{self.sharers}{'+' * (self.sharers >= MANY)}" if self.sharers > 1 else ""


@dataclass(frozen=True, slots=True)
class Gap:
    """Memory omitted from the picture: `count` elements from `offset` on."""

    offset: int
    count: int


def grid_of(layout: Layout) -> Grid:
    """The visible elements of a layout."""
    planes, rows, columns = _LIMITS_WHOLE if layout.element_count <= _MOST_UNFOLDED else _LIMITS_FOLDED
    *outer, height, width = (1, 1, *layout.sizes)[-max(layout.ndim, 2) :]
    return Grid(_planes(outer, planes), _folded(height, rows), _folded(width, columns), layout.ndim)


def _folded(size: int, most: int) -> tuple[int | None, ...]:
    """The visible indices of an axis: all, or the first ones, None, and the last ones."""
    if size <= most:
        return tuple(range(size))
    last = min(2, most // 3)
    return (*range(most - 1 - last), None, *range(size - last, size))


def _planes(sizes: Sequence[int], most: int) -> tuple[Coordinates | None, ...]:
    """The visible planes: whole inner axes first, as long as there is room."""
    shown: list[tuple[int | None, ...]] = []
    for size in reversed(sizes):
        room = max(1, most // prod(sum(index is not None for index in axis) for axis in shown))
        shown.insert(0, _folded(size, room) if size <= room or room > 2 else (0, None))
    wholes = (None if None in plane else plane for plane in product(*shown))
    planes: list[Coordinates | None] = []
    for left_out, group in groupby(wholes, key=lambda plane: plane is None):
        planes += [None] if left_out else [tuple(index or 0 for index in plane or ()) for plane in group]
    return tuple(planes)


def memory_of(layout: Layout, grid: Grid, stop: int) -> tuple[Place | Gap, ...]:
    """The memory up to `stop` under the visible elements: places by ascending offset, with gaps between them."""
    first = layout.first_offset
    if stop - first <= _MOST_UNFOLDED and not grid.is_folded:
        offsets: list[int] = list(range(first, stop))
    else:
        offsets = []
        for offset in sorted({layout.offset_of(at) for at in grid.elements()}):
            if offsets and offset - offsets[-1] <= _MOST_BETWEEN + 1:
                offsets += range(offsets[-1] + 1, offset)
            offsets.append(offset)
        after = first + layout.span
        if offsets and offsets[-1] == after - 1 and stop - after <= _MOST_AFTER:
            offsets += range(after, stop)
    return tuple(_with_gaps(layout, offsets, first, stop))


def _with_gaps(layout: Layout, offsets: Sequence[int], first: int, stop: int) -> Iterator[Place | Gap]:
    """The places at ascending offsets, and the padding or gaps before, between and after them."""
    reached = first
    for offset in offsets:
        if offset > reached:
            yield Gap(reached, offset - reached)
        yield place_at(layout, offset)
        reached = offset + 1
    if stop > reached:
        yield Gap(reached, stop - reached)


def joined(numbers: Sequence[int]) -> str:
    """Coordinates or sizes as text."""
    return ",".join(map(str, numbers))


def natural_run(layout: Layout, most: int) -> int:
    """The number of places in a line of memory, at most `most`: whole rows of the layout if they fit.

    Pixels of a few channels do not count as rows: the number is then a multiple of 8, so that no vector is split.
    """
    steps = [abs(stride) for size, stride in zip(layout.sizes, layout.strides, strict=True) if size > 1]
    unit = max((step for step in steps if 5 <= step <= most), default=min(8, most))
    return most // unit * unit


def place_at(layout: Layout, offset: int) -> Place:
    """The elements at an offset: the first of them, and their number (999 stands for that many or more).

    >>> place_at(Layout((2, 3), (0, 1)), 2)
    Place(offset=2, coordinates=(0, 2), sharers=2)
    >>> place_at(Layout((2, 3), (5, 1)), 4).coordinates is None
    True
    """
    if 0 in layout.sizes:
        return Place(offset, None, 0)
    axes = [axis for axis in range(layout.ndim) if layout.strides[axis] and layout.sizes[axis] > 1]
    axes.sort(key=lambda axis: -abs(layout.strides[axis]))
    terms = [(abs(layout.strides[axis]), layout.sizes[axis] - 1) for axis in axes]
    solutions: list[Coordinates] = []
    for steps in islice(_solutions(offset - layout.first_offset, terms, iter(range(_MOST_STEPS))), MANY):
        if steps is None:
            return Place(offset, min(solutions, default=None), MANY)
        at = [0] * layout.ndim
        for axis, step in zip(axes, steps, strict=True):
            at[axis] = step if layout.strides[axis] > 0 else layout.sizes[axis] - 1 - step
        solutions.append(tuple(at))
    repeats = prod(n for n, s in zip(layout.sizes, layout.strides, strict=True) if s == 0)
    return Place(offset, min(solutions, default=None), min(MANY, len(solutions) * repeats))


def _solutions(target: int, terms: Sequence[tuple[int, int]], steps: Iterator[int]) -> Iterator[tuple[int, ...] | None]:
    """All x with sum(coefficient * x) = `target` and 0 <= x <= most; None comes last where the steps are used up."""
    if next(steps, None) is None:
        yield None
    elif not terms:
        if target == 0:
            yield ()
    elif target % gcd(*(coefficient for coefficient, _ in terms)) == 0:
        (coefficient, most), *inner = terms
        reach = sum(other * last for other, last in inner)
        least = max(0, -(-(target - reach) // coefficient))
        for x in range(least, min(most, target // coefficient) + 1):
            for others in _solutions(target - coefficient * x, inner, steps):
                yield None if others is None else (x, *others)


class Labeller:
    """The labels of an element's cell and of its place in memory.

    Letters name places in the order of the grid, so elements that share a place share a letter. A folded grid, or one
    with more elements than two letters can name, has offsets on its cells and coordinates on its places. `carried`
    returns the letter of an offset in a plan's target: that of the source's element.
    """

    def __init__(
        self, layout: Layout, grid: Grid, kind: LabelKind | None = None, carried: Letters | None = None
    ) -> None:
        """Name every visible element. Raises `LayoutError` if `kind` is letters and there are too few."""
        few = layout.element_count <= _MOST_LETTERS
        if kind is None:
            kind = "letters" if few and not grid.is_folded else "offsets"
        if kind not in ("letters", "coordinates", "offsets"):
            raise LayoutError(f"labels={kind!r} is unknown; cells are labelled by letters, coordinates or offsets.")
        if kind == "letters" and not few:
            raise LayoutError(f"labels='letters' can name {_MOST_LETTERS} elements, not {layout.element_count}.")
        self.kind: LabelKind = kind
        self._letters: dict[int, str] = {}
        if kind == "letters":
            for at in product(*map(range, layout.sizes)):
                offset = layout.offset_of(at)
                self._letters.setdefault(offset, carried(offset) if carried else _letters(len(self._letters)))

    def letter(self, offset: int) -> str:
        """The letter of a place, or ""."""
        return self._letters.get(offset, "")

    def element(self, coordinates: Coordinates, offset: int) -> str:
        """The label of an element of the grid."""
        return {"letters": self.letter(offset), "coordinates": joined(coordinates), "offsets": str(offset)}[self.kind]

    def place(self, place: Place) -> str:
        """The label of a place in memory; a dot for padding."""
        if place.coordinates is None:
            return "·"
        if self.kind == "letters":
            return self._letters[place.offset]
        return joined(place.coordinates)


def _letters(number: int) -> str:
    """A, B … Z, AA, AB … as a spreadsheet names its columns."""
    first, last = divmod(number, 26)
    return (chr(64 + first) if first else "") + chr(65 + last)
