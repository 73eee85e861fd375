"""`RowBuffer`: an image whose rows lie apart in memory. Native resizes read them there, all else joins them first."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.layout import Layout

from .buffer import Buffer, address_of
from .operand import Operand


class RowBuffer(Buffer):
    """Read-only bytes of the CPU that begin with one row and go on with the next, wherever it lies.

    `rows` are the addresses of the rows, of `row_bytes` each. The rows are joined in new memory when `address` or
    `bytes` is read for the first time: what knows nothing of rows has a buffer like others. `owner` keeps the rows
    alive.
    """

    __slots__ = ("row_bytes", "rows")

    def __init__(self, rows: NDArray[np.int64], row_bytes: int, owner: object) -> None:
        """Describe existing rows; nothing is read. `address` has no value until it is asked for."""
        self.rows = rows
        self.row_bytes = row_bytes
        self.nbytes = len(rows) * row_bytes
        self.owner = owner
        self.device = "cpu"
        self.alignment = 1
        self.readonly = True
        self.owned = self.is_lent = False
        self._bytes = None

    def __getattr__(self, name: str) -> int:
        """The address of the joined rows; called where the attribute has no value yet."""
        if name != "address":
            raise AttributeError(name)
        joined = np.empty(self.nbytes, np.uint8)
        start = address_of(joined)
        for number, row in enumerate(self.rows.tolist()):
            ctypes.memmove(start + number * self.row_bytes, row, self.row_bytes)
        self.owner = self.owner, joined
        self.address = start
        return start


class RowOperand(Operand):
    """An operand over a row buffer. Its `reach` is that of the joined rows, and computed when it is read."""

    __slots__ = ()

    def __init__(self, buffer: RowBuffer, layout: Layout, element: ElementType) -> None:
        self.buffer = buffer
        self.layout = layout
        self.element = element
        self.owns_padding = False
        self.start_bytes = layout.first_offset * element.itemsize
        self.fitted = None
        self._spec = None

    def with_layout(self, layout: Layout, *, owns_padding: bool = False) -> Operand:
        """Another layout over the same rows, of the same elements or of some of them."""
        del owns_padding  # the rows are read-only
        assert isinstance(self.buffer, RowBuffer)
        return RowOperand(self.buffer, layout, self.element)

    def __getattr__(self, name: str) -> tuple[int, int]:
        """The addresses that are reached; called where the attribute has no value yet."""
        if name != "reach":
            raise AttributeError(name)
        start = self.buffer.address + self.start_bytes
        self.reach = start, start + self.layout.span * self.element.itemsize
        return self.reach
