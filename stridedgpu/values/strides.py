"""Sizes, strides and axis orders as plain integers: DirectML's helper functions, exact at any size.

Sizes and strides are in elements. Nothing here imports an array library.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from math import prod
from operator import index
from typing import Any, Final, cast

from .dtypes import DataType
from .errors import LayoutError

AXIS_LETTERS: Final = "NCDHW"
"""The axis letters in canonical order: batch, channel, depth, height, width."""

_PLACES: Final = str.maketrans("ZYX", "DHW")

MAX_RANK: Final = 8
"""The highest rank of a DirectML buffer tensor (`DML_TENSOR_DIMENSION_COUNT_MAX1`)."""

MOST_AXES: Final = 64
"""The highest rank of a layout: that of arrays in NumPy and CuPy."""


def integer(name: str, value: object, *, least: int | None = None) -> int:
    """`value` as an exact Python integer. Raises `LayoutError` naming `name` for another type, or below `least`."""
    try:
        # A bool is an integer to Python, but an axis of True is a mistake. `index` refuses arrays of several integers.
        number = None if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None:
        raise LayoutError(f"{name}={value!r} is not an integer.")
    if least is not None and number < least:
        raise LayoutError(f"{name}={number} must be at least {least}.")
    return number


def listed(values: object) -> list[Any] | None:
    """The entries of an iterable; None for text and for what has none, as an array of rank 0, which NumPy calls one.

    >>> listed((1, 2)), listed("12"), listed(12)
    ([1, 2], None, None)
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        return None
    try:
        return list(values)
    except (TypeError, MemoryError):
        return None


def is_one_of(value: object, names: Collection[str]) -> bool:
    """Whether a value is one of some names; an array, which compares its elements, is none."""
    return isinstance(value, str) and value in names


def integers(name: str, values: Iterable[object], *, least: int | None = None) -> tuple[int, ...]:
    """`values` as exact Python integers; `name` is in the message if one is not an integer or below `least`."""
    if type(values) is not tuple:
        entries = listed(values)
        if entries is None:
            raise LayoutError(f"{name}={values!r} is not a sequence of integers, such as (2, 3).")
        values = tuple(entries)
    for value in values:  # a generator would take twice as long, and most are what they should be
        if type(value) is not int or (least is not None and value < least):
            break
    else:
        return cast("tuple[int, ...]", values)
    try:
        # A bool is an integer to Python, but a size of True is a mistake.
        numbers = tuple(index(value) for value in values if not isinstance(value, bool))  # type: ignore[arg-type]
    except TypeError:
        numbers = ()
    if len(numbers) != len(values):
        raise LayoutError(f"{name}={values!r} must be integers.")
    if least is not None and any(number < least for number in numbers):
        raise LayoutError(f"{name}={numbers} must each be at least {least}.")
    return numbers


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that is not below `value`."""
    return -(-value // multiple) * multiple


def power_of_two(most: int) -> int:
    """The largest power of two up to `most`."""
    return 1 << (most.bit_length() - 1)


def byte_strides(strides: Iterable[int], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes, for libraries that keep them in 64 bits.

    Within a buffer, only an axis that is never stepped along can have a stride beyond 64 bits. It becomes 0.

    >>> byte_strides((6, 2**62), 4)
    (24, 0)
    """
    return tuple(step if -(2**63) <= (step := stride * itemsize) < 2**63 else 0 for stride in strides)


def element_strides(sizes: Sequence[int], steps: Sequence[int], itemsize: int) -> tuple[int, ...] | None:
    """Strides in elements of memory that states them in bytes; None if these are no whole number of elements.

    As in NumPy and DLPack, an axis that is never stepped along may have any stride.

    >>> element_strides((3, 1), (8, 3), 4), element_strides((3, 2), (8, 3), 4)
    ((2, 0), None)
    """
    if 0 not in sizes and any(step % itemsize for size, step in zip(sizes, steps, strict=True) if size > 1):
        return None
    return tuple(step // itemsize for step in steps)


def calc_buffer_tensor_size(data_type: object, sizes: Sequence[int], strides: Sequence[int] | None = None) -> int:
    """The fewest bytes that hold a buffer tensor: DirectML's `DMLCalcBufferTensorSize`, exact at any size.

    The offset of the last element plus one, times the element's bytes, rounded up to 4. Without `strides`
    the tensor is packed. `sizes` and `strides` are in elements; 4-bit types count bits first.

    Raises `LayoutError` for an unknown type, a rank outside 1 to 8, a size below 1, a negative stride, or
    strides of another length than sizes.

    >>> calc_buffer_tensor_size("float16", (1, 1, 3, 5), (15, 15, 5, 1))
    32
    >>> calc_buffer_tensor_size("float32", (2, 3), (5, 1))  # a row of 3, padded to 5
    32

    Source: DirectML helper functions, https://learn.microsoft.com/windows/ai/directml/dml-helper-functions.
    The C++ function counts in 32 bits in places and wraps; this one does not.
    """
    type_ = DataType.of(data_type)
    if type_ is DataType.UNKNOWN:
        raise LayoutError("data_type is UNKNOWN; a tensor's size needs a known element type.")
    sizes = directml_sizes(sizes)
    if strides is None:
        elements = prod(sizes)
    else:
        strides = integers("strides", strides, least=0)
        check_same_length(sizes, strides)
        elements = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    return round_up(-(-elements * type_.bits // 8), 4)


def directml_sizes(sizes: Iterable[object]) -> tuple[int, ...]:
    """`sizes` checked by DirectML's rules: rank 1 to 8, every size at least 1."""
    checked = integers("sizes", sizes)
    if not 1 <= len(checked) <= MAX_RANK:
        advice = "a scalar is described as (1,)" if not checked else "merge axes first"
        raise LayoutError(f"sizes={checked} has rank {len(checked)}; DirectML takes rank 1 to {MAX_RANK}: {advice}.")
    if any(size < 1 for size in checked):
        raise LayoutError(f"sizes={checked} holds a size below 1, which DirectML refuses in every dimension.")
    return checked


def check_same_length(sizes: Sequence[int], strides: Sequence[int]) -> None:
    """Raise `LayoutError` unless there is one stride for each size."""
    if len(sizes) != len(strides):
        raise LayoutError(
            f"strides={tuple(strides)} has {len(strides)} entries for {len(sizes)} sizes {tuple(sizes)}; "
            "there must be one stride for each size."
        )


def axis_letters(order: str) -> str:
    """An axis order with the letters of volumes, films and scenes as those of images.

    Z, Y and X are D, H and W. B is the batch N beside C, else the bands, C. T, the time, is N, or D beside an N.

    >>> [axis_letters(order) for order in ("ZYX", "BCHW", "BYX", "TBYX", "BTCHW", "TCZYX")]
    ['DHW', 'NCHW', 'CHW', 'NCHW', 'NDCHW', 'NCDHW']
    """
    letters = order.translate(_PLACES)
    letters = letters.replace("B", "N" if "C" in letters else "C")
    return letters.replace("T", "D" if "N" in letters else "N")


@lru_cache(maxsize=256)
def canonical_axes(order: str, name: str = "layout") -> str:
    """The letters of `order` in canonical order: `canonical_axes("NHWC") == "NCHW"`.

    The letters T, Z, Y, X and B count as `axis_letters` says. Raises `LayoutError` for a letter that is unknown or
    repeated; `name` is the argument in its message.
    """
    if not (order and isinstance(order, str)):
        raise LayoutError(f"{name}={order!r} is not an axis order; give one such as 'NCHW' or 'NHWC'.")
    letters = axis_letters(order)
    for letter in letters:
        if letter not in AXIS_LETTERS:
            known = ", ".join(AXIS_LETTERS)
            advice = ", in capitals" if axis_letters(letter.upper()) in AXIS_LETTERS else ""
            raise LayoutError(
                f"{name}={order!r} holds {letter!r}; the letters of an axis order are {known}, or T, Z, Y, X and B for "
                f"time, depth, rows, columns and bands{advice}."
            )
        if letters.count(letter) > 1:
            meant = "" if letters == order else f": it means {letters!r}"
            raise LayoutError(f"{name}={order!r} names the axis {letter!r} twice{meant}.")
    return "".join(sorted(letters, key=AXIS_LETTERS.index))


def memory_order(order: str | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """The axes of a tensor from outermost to innermost in memory.

    `order` is an axis order string over canonical sizes, a permutation of the axes, or None for row-major.

    >>> memory_order("NHWC", 4)
    (0, 2, 3, 1)
    """
    if order is None:
        return tuple(range(rank))
    if isinstance(order, str):
        canonical = canonical_axes(order)
        if len(canonical) != rank:
            raise LayoutError(f"layout={order!r} names {len(canonical)} axes for a tensor of rank {rank}.")
        return tuple(canonical.index(letter) for letter in axis_letters(order))
    axes = integers("order", order)
    if sorted(axes) != list(range(rank)):
        raise LayoutError(f"order={axes} is not a permutation of the axes 0 to {rank - 1}.")
    return axes


def packed_strides(sizes: Sequence[int], order: str | Sequence[int] | None = None) -> tuple[int, ...]:
    """The strides of a tensor with no padding: each axis steps over the product of those inside it.

    `order` names the axes from outermost to innermost in memory, as an order string over canonical sizes
    ("NHWC") or as axis numbers; None is row-major. A size of 0 counts as 1, as in NumPy.

    >>> packed_strides((2, 2, 3))
    (6, 3, 1)
    >>> packed_strides((1, 3, 4, 5), "NHWC")
    (60, 1, 15, 3)
    """
    sizes = integers("sizes", sizes, least=0)
    return _strides_in_order(sizes, memory_order(order, len(sizes)))


def calculate_strides(layout: str, sizes: Sequence[int], broadcast: Sequence[bool] | None = None) -> tuple[int, ...]:
    """The strides, in elements, of a tensor stored in `layout` order: DirectML's `CalculateStrides`, generalised.

    `layout` is an order string over the letters N, C, D, H, W, outermost axis first; `sizes`, `broadcast` and the
    result are in canonical order (those letters in that order, without the absent ones). A broadcast axis gets
    stride 0 and counts as 1 in the other strides.

    Raises `LayoutError` for an unknown or repeated letter and for lengths that differ.

    >>> calculate_strides("NHWC", (1, 3, 4, 5))
    (60, 1, 15, 3)
    >>> calculate_strides("NCHW", (8, 3, 4, 5), broadcast=(True, False, True, True))
    (0, 1, 0, 0)

    Source: DirectML helper functions, https://learn.microsoft.com/windows/ai/directml/dml-helper-functions.
    """
    sizes = integers("sizes", sizes, least=0)
    axes = memory_order(layout, len(sizes))
    if broadcast is None:
        return _strides_in_order(sizes, axes)
    repeated = tuple(listed(broadcast) or ())
    if len(repeated) != len(sizes) or not all(isinstance(flag, bool) for flag in repeated):
        raise LayoutError(f"broadcast={broadcast!r} must hold one bool for each of the {len(sizes)} sizes {sizes}.")
    stored = tuple(1 if flag else size for size, flag in zip(sizes, repeated, strict=True))
    strides = _strides_in_order(stored, axes)
    return tuple(0 if flag else stride for stride, flag in zip(strides, repeated, strict=True))


def padded_strides(
    sizes: Sequence[int],
    order: str | Sequence[int] | None,
    itemsize: int,
    row_pitch_bytes: int,
    *,
    height_axis: int | None = None,
) -> tuple[int, ...]:
    """The strides of a tensor whose rows start `row_pitch_bytes` apart.

    A row is everything inside the height axis: W elements in NCHW, W*C in NHWC. In an order with no H, or with H
    innermost, the innermost axis is the row. `height_axis` is the axis of H for an `order` without letters.

    Raises `LayoutError` if the pitch is no multiple of `itemsize`, if it is smaller than a row, or if the order has no
    axis outside the rows.
    """
    sizes, itemsize = integers("sizes", sizes, least=0), integer("itemsize", itemsize, least=1)
    row_pitch_bytes = integer("row_pitch_bytes", row_pitch_bytes)
    axes = memory_order(order, len(sizes))
    if len(axes) < 2:
        raise LayoutError(f"row_pitch_bytes={row_pitch_bytes} needs at least two axes; sizes={sizes} has {len(axes)}.")
    if isinstance(order, str) and "H" in axis_letters(order):
        height_axis = axes[axis_letters(order).index("H")]
    place = len(axes) - 2 if height_axis is None or height_axis == axes[-1] else axes.index(height_axis)
    row = prod(max(sizes[axis], 1) for axis in axes[place + 1 :])
    if row_pitch_bytes % itemsize:
        raise LayoutError(
            f"row_pitch_bytes={row_pitch_bytes} is not a multiple of the {itemsize}-byte element; "
            f"the next that is: {round_up(row_pitch_bytes, itemsize)}."
        )
    if row_pitch_bytes < row * itemsize:
        raise LayoutError(
            f"row_pitch_bytes={row_pitch_bytes} is smaller than a row: {row} elements of {itemsize} bytes "
            f"take {row * itemsize} bytes."
        )
    return _strides_in_order(sizes, axes, pitch_place=place, pitch=row_pitch_bytes // itemsize)


def _strides_in_order(
    sizes: Sequence[int], axes: Sequence[int], pitch_place: int | None = None, pitch: int = 0
) -> tuple[int, ...]:
    """Strides of `sizes` with `axes` from outermost to innermost; the axis at `pitch_place` steps by `pitch`."""
    strides = [0] * len(sizes)
    step = 1
    for place in range(len(axes) - 1, -1, -1):
        if place == pitch_place:
            step = pitch
        strides[axes[place]] = step
        step *= max(sizes[axes[place]], 1)
    return tuple(strides)


def reshaped_strides(sizes: Sequence[int], strides: Sequence[int], wanted: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides for `wanted` sizes of as many elements, in the same row-major order; None if that needs a copy.

    >>> reshaped_strides((4, 6), (6, 1), (2, 2, 6)), reshaped_strides((4, 6), (8, 1), (24,))
    ((12, 6, 1), None)
    """
    result = [1] * len(wanted)
    place = len(wanted) - 1
    for run, run_stride in reversed(_merged_runs(sizes, strides)):
        left, step = run, run_stride
        while place >= 0 and (left > 1 or wanted[place] == 1):
            if left % wanted[place]:
                return None
            result[place] = step
            step *= wanted[place]
            left //= wanted[place]
            place -= 1
    return tuple(result)


def repeated_strides(sizes: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...] | None:
    """Strides for elements broadcast to `wanted` sizes, with axes added in front; None if NumPy refuses it too.

    >>> repeated_strides((3, 1), (1, 1), (2, 3, 4)), repeated_strides((3,), (1,), (4,))
    ((0, 1, 0), None)
    """
    added = len(wanted) - len(sizes)
    if added < 0:
        return None
    result = [0] * added
    for size, stride, target in zip(sizes, strides, wanted[added:], strict=True):
        if size not in (1, target):
            return None
        result.append(stride if size == target else 0)
    return tuple(result)


def _merged_runs(sizes: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Sizes and strides, with neighbours merged if the outer stride is exactly the inner size times stride."""
    runs: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return runs or [(1, 1)]
