"""Checks of memory that another library describes: in exact integers, then an operand over it.

A producer's description is not trusted. A wrong rank, size, stride or address is refused here, before any of the memory
is read. Whether the memory exists cannot be checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

from stridedgpu.devices.buffer import Buffer, check_range
from stridedgpu.devices.operand import Operand
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, LayoutError
from stridedgpu.values.layout import Layout

LARGEST_RANK: Final = 64
"""NumPy's own limit, and the most axes that a `Layout` has."""


def foreign_memory(
    producer: str,
    address: int,
    sizes: tuple[int, ...],
    strides: tuple[int, ...] | None,
    element: ElementType,
    *,
    owner: object,
    device: str = "cpu",
    readonly: bool = False,
) -> Operand:
    """An operand over memory with another owner.

    `producer` names the library that describes the memory, for messages. `address` is the address, in bytes, of the
    element at coordinates 0. `strides` are in elements; None is packed row-major order. `owner` keeps the memory alive.

    Raises `LayoutError` for a negative size. Raises `BindingError` for a null address of a tensor with elements, and
    for elements outside the address space.

    >>> memory = bytearray(24)
    >>> from stridedgpu.values.dtypes import element_type
    >>> start = Buffer.of(memory).address
    >>> operand = foreign_memory("camera", start, (2, 3), (4, 1), element_type("uint8"), owner=memory)
    >>> operand.buffer.nbytes, operand.layout.strides
    (7, (4, 1))
    """
    layout, lowest = _from_lowest(producer, sizes, strides)
    nbytes = layout.span * element.itemsize
    start = address + lowest * element.itemsize
    check_range(producer, address, start, nbytes)
    return Operand(Buffer(start, nbytes, owner=owner, device=device, readonly=readonly), layout, element)


def check_steps(producer: str, address: int, sizes: Sequence[int], steps: Sequence[int], itemsize: int) -> None:
    """Raise `BindingError` if elements that lie `steps` bytes apart, the first at `address`, cannot be memory.

    NumPy believes an array interface and a buffer: it makes an array of any address.
    """
    if 0 not in sizes:
        reaches = [(size - 1) * step for size, step in zip(sizes, steps, strict=True)]
        start = address + sum(reach for reach in reaches if reach < 0)
        check_range(producer, address, start, sum(map(abs, reaches)) + itemsize)


def check_bytes(producer: str, array: NDArray[Any]) -> None:
    """Raise `BindingError` for an array that NumPy made of a buffer with fewer bytes: it does not compare the two.

    Pillow's images are such arrays: of bytes, and of a shape that Pillow reads afterwards.
    """
    if not array.size:
        return
    whole: Any = array.base
    try:
        whole = whole if isinstance(whole, np.ndarray) else np.asarray(memoryview(whole))
    except (TypeError, ValueError):  # memory of its own, or at an address
        return
    (low, high), (first, last) = byte_bounds(array), byte_bounds(whole) if whole.size else (0, 0)
    if low < first or high > last:
        raise BindingError(
            f"{producer} describes an array of {high - low} bytes in a buffer of {last - first}, beyond its ends."
        )


@lru_cache(maxsize=1024)
def _from_lowest(producer: str, sizes: tuple[int, ...], strides: tuple[int, ...] | None) -> tuple[Layout, int]:
    """A layout whose first element is its lowest, and the distance from there to coordinates 0, in elements."""
    if min(sizes, default=0) < 0:
        raise LayoutError(f"{producer} describes sizes {sizes}; no size is negative.")
    layout = Layout(sizes, strides)
    return layout.shifted(-layout.first_offset), layout.first_offset
