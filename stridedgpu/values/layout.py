"""`Layout`: sizes, strides and an offset as one immutable value, and every view that needs no copy.

A layout has no memory and no element type. It maps coordinates to offsets, in elements from some origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from math import prod
from typing import Any, Final, NoReturn

from .errors import LayoutError
from .indexing import Index, windowed
from .overlap import leaves_gaps, self_overlaps
from .strides import (
    MOST_AXES,
    check_same_length,
    integer,
    integers,
    packed_strides,
    padded_strides,
    repeated_strides,
    reshaped_strides,
)

_PICTURES: Final = "stridedgpu.drawing.page"
"""The module that draws. It is of a higher layer, and loaded when a notebook shows a value."""


class Drawn:
    """A layout or descriptor that draws itself in notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The picture: the elements, and the memory under them."""
        page: Any = import_module(_PICTURES)
        markup: str = page.fragment(self)
        return markup


class Layout(Drawn):
    """Where the elements of a tensor lie: sizes, strides and offset, all in **elements**.

    Without `strides` the layout is packed, row-major. Strides may be 0 (broadcast) or negative (flipped), sizes
    may be 0, and rank 0 is a scalar. Equal layouts are equal values with equal hashes.

    Raises `LayoutError` when sizes are negative, entries are not integers, lengths differ, or there are more than 64.

    >>> layout = Layout((2, 2, 3))
    >>> layout.strides, layout.offset_of((1, 0, 1))
    ((6, 3, 1), 7)
    >>> Layout((2, 3), (5, 1)).is_padded, Layout((2, 3), (0, 1)).is_broadcast
    (True, True)

    Source: DirectML, using strides to express padding and memory layout,
    https://learn.microsoft.com/windows/ai/directml/dml-strides.
    """

    __slots__ = ("extent", "offset", "sizes", "strides")

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    extent: tuple[int, int]
    """The lowest offset counted from `offset` (0 or negative), and the span."""

    def __init__(self, sizes: Sequence[int], strides: Sequence[int] | None = None, offset: int = 0) -> None:
        sizes = integers("sizes", sizes, least=0)
        strides = packed_strides(sizes) if strides is None else integers("strides", strides)
        check_same_length(sizes, strides)
        _check_rank(len(sizes))
        offset = integer("offset", offset)
        _fill(self, sizes, strides, offset, _extent(sizes, strides))

    def __reduce__(self) -> tuple[type[Layout], tuple[tuple[int, ...], tuple[int, ...], int]]:
        """Pickle the three values, so that unpickling checks them like any caller's values."""
        return Layout, (self.sizes, self.strides, self.offset)

    @classmethod
    def trusted(
        cls, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int, extent: tuple[int, int] | None = None
    ) -> Layout:
        """A layout from values that another layout computed: they need no checks. The extent may be known, too."""
        return _fill(_new(Layout), sizes, strides, offset, extent or _extent(sizes, strides))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Raise: a layout is a key in caches."""
        raise AttributeError(f"A Layout never changes, and {name!r} cannot be set; make another one.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layout):
            return NotImplemented
        return self.sizes == other.sizes and self.strides == other.strides and self.offset == other.offset

    def __hash__(self) -> int:
        return hash((self.sizes, self.strides, self.offset))

    @classmethod
    def padded(
        cls,
        sizes: Sequence[int],
        order: str | Sequence[int] | None = None,
        itemsize: int | None = None,
        *,
        row_pitch_bytes: int | None = None,
    ) -> Layout:
        """A layout in the given memory order whose rows start `row_pitch_bytes` apart.

        `order` is an order string over canonical sizes ("NHWC"), axis numbers from outermost to innermost, or
        None for row-major. A row is what lies inside the height axis. `itemsize` is in bytes, and a pitch needs it.
        Without a pitch the layout is packed. Raises `LayoutError` when the pitch is not a multiple of `itemsize`, below
        a row, or without `itemsize`.

        >>> Layout.padded((1, 3, 4, 5), "NHWC", itemsize=1, row_pitch_bytes=16).strides
        (64, 1, 16, 3)
        """
        if row_pitch_bytes is None:
            return cls(sizes, packed_strides(sizes, order))
        if itemsize is None:
            raise LayoutError(
                f"row_pitch_bytes={row_pitch_bytes} needs itemsize=, the bytes of an element, such as 2 for uint16."
            )
        return cls(sizes, padded_strides(sizes, order, itemsize, row_pitch_bytes))

    # What the layout says of itself

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.sizes)

    @property
    def element_count(self) -> int:
        """The number of coordinates: the product of the sizes."""
        return prod(self.sizes)

    @property
    def first_offset(self) -> int:
        """The lowest offset of any element; `offset` itself when there is none."""
        return self.offset + self.extent[0]

    @property
    def span(self) -> int:
        """Elements from the first to one past the last: the memory that the layout touches, gaps included."""
        return self.extent[1]

    @property
    def is_packed(self) -> bool:
        """True if the span has every element exactly once and nothing else, in any order."""
        return self.span == self.element_count and not self.has_overlap

    @property
    def is_padded(self) -> bool:
        """True if the span has gaps: places that no element takes."""
        return leaves_gaps(self.sizes, self.strides)

    @property
    def is_broadcast(self) -> bool:
        """True if an axis repeats its elements: stride 0 and a size above 1."""
        return any(s == 0 and n > 1 for n, s in zip(self.sizes, self.strides, strict=True)) and 0 not in self.sizes

    @property
    def has_overlap(self) -> bool:
        """True if two coordinates share an offset, by broadcasting or otherwise."""
        return _overlaps_itself(self.sizes, self.strides)

    def offset_of(self, coordinates: Sequence[int]) -> int:
        """The offset of one element, in elements: `offset + dot(coordinates, strides)`.

        Raises `IndexError` outside the sizes, and `LayoutError` for a wrong number of coordinates.
        """
        coordinates = integers("coordinates", coordinates)
        if len(coordinates) != self.ndim:
            raise LayoutError(f"coordinates={coordinates} has {len(coordinates)} entries for sizes {self.sizes}.")
        if any(not 0 <= x < n for x, n in zip(coordinates, self.sizes, strict=True)):
            raise IndexError(f"coordinates={coordinates} lie outside sizes {self.sizes}.")
        return self.offset + sum(x * s for x, s in zip(coordinates, self.strides, strict=True))

    # Views

    def permuted(self, axes: Sequence[int]) -> Layout:
        """The same elements with the axes in another order, as `numpy.transpose`.

        >>> Layout((2, 3, 4)).permuted((2, 0, 1)).sizes
        (4, 2, 3)
        """
        numbers, ndim = integers("axes", axes), self.ndim
        places = [axis + ndim if axis < 0 else axis for axis in numbers]
        if sorted(places) != list(range(ndim)):
            raise LayoutError(f"axes={numbers} is not a permutation of the {ndim} axes of sizes {self.sizes}.")
        sizes, strides = [self.sizes[axis] for axis in places], [self.strides[axis] for axis in places]
        return Layout.trusted(tuple(sizes), tuple(strides), self.offset, self.extent)

    def sliced(self, index: Index | tuple[Index, ...]) -> Layout:
        """A window: integers, slices with any step but 0, `...` and None, with NumPy's meaning.

        Raises `IndexError` for an integer out of range or too many entries, `LayoutError` for anything else.

        >>> Layout((4, 6)).sliced((slice(None), slice(None, None, -2)))
        Layout((4, 3), strides=(6, -2), offset=5)
        """
        return self.window(index)[0]

    def window(self, index: Index | tuple[Index, ...]) -> _Window:
        """As `sliced`; also returns the source axis of each axis of the window, None for a new one.

        None in place of all of them says that every axis stayed where it was.
        """
        sizes, strides = self.sizes, self.strides
        exact: object
        try:
            if type(index) is int:
                exact = index
            elif type(index) is slice:
                exact = index.indices(sizes[0])
            elif type(index) is tuple and type(index[0]) is slice and len(index) <= len(sizes):
                exact = tuple(map(slice.indices, index, sizes))  # type: ignore[arg-type]
            else:
                return self._window(index)
        except (IndexError, TypeError, ValueError):  # other entries among slices, and what is refused
            return self._window(index)
        key = (sizes, strides, self.offset, exact)
        window = _windows.get(key)
        if window is None:
            window = self._window(index)
            if len(_windows) >= _MOST_WINDOWS:
                _windows.clear()
            _windows[key] = window
        return window

    def _window(self, index: Index | tuple[Index, ...]) -> _Window:
        """A window, worked out."""
        sizes, strides, offset, extent, axes = windowed(index, self.sizes, self.strides, self.offset, self.extent)
        return _fill(_new(Layout), sizes, strides, offset, extent), axes

    def broadcast_to(self, sizes: Sequence[int]) -> Layout:
        """The layout repeated to `sizes` with strides of 0; leading axes are added as NumPy does.

        >>> Layout((3, 1)).broadcast_to((2, 3, 4)).strides
        (0, 1, 0)
        """
        sizes = integers("sizes", sizes, least=0)
        strides = repeated_strides(self.sizes, self.strides, sizes)
        if strides is None:
            raise LayoutError(
                f"sizes {self.sizes} cannot broadcast to {sizes}: from the last axis on, each size must be 1 or equal."
            )
        return Layout.trusted(sizes, strides, self.offset)

    def squeezed(self, axis: int | Sequence[int] | None = None) -> Layout:
        """Without the axes of size 1, or without the given ones, which must have size 1."""
        if axis is None:
            gone = {place for place, size in enumerate(self.sizes) if size == 1}
        else:
            axes = axis if isinstance(axis, Sequence) and not isinstance(axis, str) else (axis,)
            gone = {self.axis_of(entry) for entry in axes}
            for place in sorted(gone):
                if self.sizes[place] != 1:
                    raise LayoutError(f"axis {place} of sizes {self.sizes} has size {self.sizes[place]}, not 1.")
        kept = [place for place in range(self.ndim) if place not in gone]
        return Layout.trusted(
            tuple(self.sizes[place] for place in kept), tuple(self.strides[place] for place in kept), self.offset
        )

    def unsqueezed(self, axis: int) -> Layout:
        """With a new axis of size 1 at `axis`, counted in the result.

        >>> Layout((2, 3)).unsqueezed(-1).sizes
        (2, 3, 1)
        """
        rank, axis = self.ndim + 1, integer("axis", axis)
        if not -rank <= axis < rank:
            raise LayoutError(f"axis={axis} is out of range for a result of rank {rank}.")
        place = axis % rank
        # The packed stride, which keeps the axes mergeable and reads as in DirectML's documentation.
        stride = self.sizes[place] * self.strides[place] if place < self.ndim else 1
        return Layout.trusted(
            (*self.sizes[:place], 1, *self.sizes[place:]),
            (*self.strides[:place], stride, *self.strides[place:]),
            self.offset,
        )

    def aligned_to_rank(self, rank: int) -> Layout:
        """With leading axes of size 1 added, or taken away, until there are `rank` axes.

        >>> Layout((3, 5)).aligned_to_rank(4)
        Layout((1, 1, 3, 5), strides=(15, 15, 5, 1), offset=0)

        Source: DirectML's rule that an HW tensor is described as {1, 1, H, W}.
        """
        rank = integer("rank", rank, least=0)
        _check_rank(rank)
        layout = self
        while layout.ndim > rank and layout.sizes[0] == 1:
            layout = layout.squeezed(0)
        if layout.ndim > rank:
            raise LayoutError(f"sizes {self.sizes} do not fit rank {rank}: only leading axes of size 1 can go.")
        while layout.ndim < rank:
            layout = layout.unsqueezed(0)
        return layout

    def split_axis(self, axis: int, sizes: Sequence[int]) -> Layout:
        """Split one axis into several, outermost first, whose sizes multiply to its size.

        >>> Layout((1, 8, 4)).split_axis(1, (2, 4)).strides
        (32, 16, 4, 1)
        """
        place = self.axis_of(axis)
        sizes = integers("sizes", sizes, least=0)
        if prod(sizes) != self.sizes[place]:
            raise LayoutError(f"sizes={sizes} multiply to {prod(sizes)}, but axis {place} has {self.sizes[place]}.")
        strides = tuple(self.strides[place] * step for step in packed_strides(sizes))
        return Layout.trusted(
            (*self.sizes[:place], *sizes, *self.sizes[place + 1 :]),
            (*self.strides[:place], *strides, *self.strides[place + 1 :]),
            self.offset,
        )

    def merged_axes(self, first: int, last: int) -> Layout:
        """Merge the axes `first` to `last`; the stride of each must be the size times the stride of the next.

        >>> Layout((2, 3, 4)).merged_axes(1, 2)
        Layout((2, 12), strides=(12, 1), offset=0)
        """
        start, stop = self.axis_of(first), self.axis_of(last) + 1
        if start >= stop:
            raise LayoutError(f"first={first} comes after last={last}.")
        return self.reshaped((*self.sizes[:start], prod(self.sizes[start:stop]), *self.sizes[stop:]))

    def flattened(self) -> Layout:
        """All axes merged, in row-major order of the coordinates. Raises `LayoutError` if that needs a copy."""
        return self.reshaped((self.element_count,))

    def reshaped(self, sizes: Sequence[int]) -> Layout:
        """Other sizes over the same elements in the same row-major order of coordinates, without a copy.

        Raises `LayoutError` when the counts differ, or if no strides express the result without a copy.
        """
        sizes = integers("sizes", sizes, least=0)
        if prod(sizes) != self.element_count:
            raise LayoutError(
                f"sizes={sizes} hold {prod(sizes)} elements, but sizes {self.sizes} hold {self.element_count}."
            )
        if self.element_count == 0:
            return Layout.trusted(sizes, packed_strides(sizes), self.offset)
        strides = reshaped_strides(self.sizes, self.strides, sizes)
        if strides is None:
            raise LayoutError(
                f"sizes {self.sizes} with strides {self.strides} cannot be seen as sizes {sizes} "
                "without a copy; relayout first."
            )
        return Layout.trusted(sizes, strides, self.offset)

    def reinterpreted(self, itemsize: int, wanted: int) -> Layout:
        """The layout over the same bytes with elements of `wanted` bytes (`ndarray.view(dtype)`).

        The size of the last axis changes. Raises `LayoutError` where that axis is not contiguous, or bytes do not make
        whole elements.

        >>> Layout((2, 6)).reinterpreted(2, 4)
        Layout((2, 3), strides=(3, 1), offset=0)
        """
        itemsize, wanted = integer("itemsize", itemsize, least=1), integer("wanted", wanted, least=1)
        if itemsize == wanted:
            return self
        if not self.sizes or (self.strides[-1] != 1 and self.sizes[-1] > 1 and self.span):
            raise LayoutError(
                f"{self} cannot be seen in elements of {wanted} bytes: its last axis is not contiguous. "
                "Give sizes and strides, or relayout first."
            )
        small, large = sorted((itemsize, wanted))
        if large % small:
            raise LayoutError(f"Elements of {itemsize} bytes cannot be seen in elements of {wanted} bytes.")
        factor = large // small
        if wanted < itemsize:
            strides = (*(stride * factor for stride in self.strides[:-1]), 1)
            return Layout((*self.sizes[:-1], self.sizes[-1] * factor), strides, self.offset * factor)
        # The stride of an axis of size 1 may be anything.
        steps = [stride for size, stride in zip(self.sizes[:-1], self.strides[:-1], strict=True) if size > 1]
        distances = [self.offset, *steps] if self.span else []
        if any(distance % factor for distance in (self.sizes[-1], *distances)):
            raise LayoutError(
                f"{self} cannot be seen in elements of {wanted} bytes: its last size, its offset and its other strides "
                f"must be multiples of {factor}."
            )
        strides = (*(stride // factor for stride in self.strides[:-1]), 1)
        return Layout((*self.sizes[:-1], self.sizes[-1] // factor), strides, self.offset // factor)

    def shifted(self, distance: int) -> Layout:
        """The same layout, with `distance` elements added to its offset."""
        distance = integer("distance", distance)
        return self if distance == 0 else Layout.trusted(self.sizes, self.strides, self.offset + distance, self.extent)

    def axis_of(self, axis: int) -> int:
        """`axis` counted from 0; a negative one counts from the end. Raises `LayoutError` for an invalid axis."""
        axis = integer("axis", axis)
        if not -self.ndim <= axis < self.ndim:
            raise LayoutError(f"axis={axis} is out of range for sizes {self.sizes} of rank {self.ndim}.")
        return axis % self.ndim

    def __repr__(self) -> str:
        return f"Layout({self.sizes}, strides={self.strides}, offset={self.offset})"


_Window = tuple[Layout, tuple[int | None, ...] | None]

_windows: Final[dict[tuple[object, ...], _Window]] = {}
"""Windows by sizes, strides, offset, and the integers of an index, which slices are turned into."""

_MOST_WINDOWS: Final = 4096


def _check_rank(rank: int) -> None:
    """Raise `LayoutError` for more axes than NumPy and CuPy have."""
    if rank > MOST_AXES:
        raise LayoutError(f"rank {rank} is too high: layouts have up to {MOST_AXES} axes, as arrays in NumPy and CuPy.")


_overlaps_itself: Final = lru_cache(maxsize=4096)(self_overlaps)
"""Views are made anew in each call, and most have the sizes and strides of an earlier one."""

_new: Final = object.__new__
_set_sizes, _set_strides, _set_offset, _set_extent = (
    getattr(Layout, name).__set__ for name in ("sizes", "strides", "offset", "extent")
)


def _extent(sizes: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """The lowest offset counted from the first element (0 or negative), and the span."""
    below, span = 0, 1
    for size, stride in zip(sizes, strides, strict=True):
        reach = (size - 1) * stride
        if reach < 0:
            below += reach
            span -= reach
        else:
            span += reach
    return (0, 0) if 0 in sizes else (below, span)


def _fill(
    layout: Layout, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int, extent: tuple[int, int]
) -> Layout:
    """Set the fields of a new layout, which is immutable from then on."""
    _set_sizes(layout, sizes)
    _set_strides(layout, strides)
    _set_offset(layout, offset)
    _set_extent(layout, extent)
    return layout
