"""`MemoryOptions`: where an operation's result lies: layout, pitch, alignment and device; and new memory for it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stridedgpu.devices.buffer import checked_alignment
from stridedgpu.devices.operand import AllocationSpec, Memory, Operand
from stridedgpu.devices.selection import device_named
from stridedgpu.values.axis_labels import Labels
from stridedgpu.values.conversion import AS_IT_IS, ConversionOptions, conversion_options, refuse_unknown
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import integer

from .channel_blocks import ordered_layouts

if TYPE_CHECKING:
    from stridedgpu.typing import ResultKeywords


def truth(name: str, value: object) -> bool:
    """`value` as a bool; NumPy's are too. Raises `LayoutError` for anything else, where a word would be true."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise LayoutError(f"{name}={value!r} must be True or False.")


class MemoryOptions(NamedTuple):
    """A memory order or an exact layout, pitch and alignment in bytes, and a device; None for a default."""

    layout: str | Layout | None = None
    row_pitch_bytes: int | None = None
    alignment: int | None = None
    device: str | None = None

    def check_beside_out(self) -> None:
        """Raise `LayoutError` for any option beside `out`, which determines them all."""
        layout, row_pitch_bytes, alignment, device = self
        if layout is None and row_pitch_bytes is None and alignment is None and device is None:
            return
        stated = [name for name, value in zip(self._fields, self, strict=True) if value is not None]
        raise LayoutError(f"out= says where and how to write: leave out {', '.join(stated)}.")

    def layouts(self, sizes: tuple[int, ...], labels: Labels, element: ElementType) -> tuple[Layout, Layout]:
        """The layout of a tensor, and the layout of its memory, which is larger if channels are filled up.

        Raises `LayoutError` for a layout, order or pitch that does not fit the sizes and labels.
        """
        layout = self.checked().layout
        if isinstance(layout, Layout):
            if layout.sizes != sizes or self.row_pitch_bytes is not None:
                raise LayoutError(f"layout={layout} must have the sizes {sizes}, and takes no row_pitch_bytes.")
            return layout, layout
        return ordered_layouts(sizes, layout, labels, element.itemsize, self.row_pitch_bytes)

    def allocation(self, sizes: tuple[int, ...], labels: Labels, element: ElementType) -> AllocationSpec:
        """What to allocate for a new tensor. Also raises for a layout whose elements share places."""
        return _allocation(self.checked()[:3], sizes, labels, element)

    def checked(self) -> MemoryOptions:
        """These options with each type checked. Raises `LayoutError` for a wrong one."""
        layout, row_pitch_bytes, alignment, _ = self
        if layout is not None and not isinstance(layout, (str, Layout)):
            raise LayoutError(f"layout={layout!r} is neither an axis order such as 'NHWC' nor a Layout.")
        if row_pitch_bytes is not None and type(row_pitch_bytes) is not int:
            return self._replace(row_pitch_bytes=integer("row_pitch_bytes", row_pitch_bytes)).checked()
        if alignment is not None and type(alignment) is not int:
            return self._replace(alignment=checked_alignment(alignment))
        return self


@lru_cache(maxsize=4096)
def _allocation(
    options: tuple[str | Layout | None, int | None, int | None],
    sizes: tuple[int, ...],
    labels: Labels,
    element: ElementType,
) -> AllocationSpec:
    """What to allocate for a layout or order, a row pitch and an alignment; cached."""
    memory = MemoryOptions(*options)
    wanted, stored = memory.layouts(sizes, labels, element)
    if wanted.has_overlap:
        raise LayoutError(f"layout={wanted} repeats or overlaps elements; make it packed, then broadcast_to.")
    if wanted is stored and wanted.first_offset < 0:
        wanted = stored = wanted.shifted(-wanted.first_offset)
    alignment = DEFAULT_ALIGNMENT if memory.alignment is None else memory.alignment
    return AllocationSpec.of(wanted, element, alignment, stored)


NO_MEMORY_OPTIONS: Final = MemoryOptions()
"""The options of most calls, which need no check."""


def result_options(
    function: str, keywords: ResultKeywords, device: str | None = None
) -> tuple[ConversionOptions, MemoryOptions]:
    """The keyword arguments of a function of this name, which are taken out: the conversion, and where the result lies.

    Raises what `ConversionOptions.of` and `MemoryOptions.checked` raise.
    """
    if not keywords:
        return AS_IT_IS, NO_MEMORY_OPTIONS if device is None else MemoryOptions(device=device)
    layout = keywords.pop("layout", None)
    row_pitch_bytes, alignment = keywords.pop("row_pitch_bytes", None), keywords.pop("alignment", None)
    try:
        options = conversion_options(**keywords) if keywords else AS_IT_IS  # type: ignore[misc]
    except TypeError:
        refuse_unknown(function, keywords, ConversionOptions._fields[:-1])
        raise
    if layout is None and row_pitch_bytes is None and alignment is None and device is None:
        return options, NO_MEMORY_OPTIONS
    memory = MemoryOptions(layout, row_pitch_bytes, alignment, device)
    return options, memory if type(layout) is str and row_pitch_bytes is alignment is None else memory.checked()


DEFAULT_ALIGNMENT: Final = 32
"""Bytes: DirectML's recommendation, and one full access on GPUs with 256-bit loads."""


def allocate_operand(
    layout: Layout,
    element: ElementType,
    alignment: int,
    device: str,
    memory: Memory | None = None,
    stream: object = None,
) -> Operand:
    """Allocate memory for `layout`, for first use on `stream`, on a device or from `memory`.

    Raises `LayoutError` for an alignment that is no power of two or below an element, and `DeviceError` for an
    unavailable device or too little memory.
    """
    return AllocationSpec.of(layout, element, alignment).allocate(memory or device_named(device), stream)
