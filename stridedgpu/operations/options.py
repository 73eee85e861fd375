"""Options of an operation's result: dtype, scale, bias, channels, rounding; layout, pitch, alignment, device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from stridedgpu.devices.buffer import checked_alignment
from stridedgpu.devices.operand import AllocationSpec
from stridedgpu.values.axis_labels import Labels
from stridedgpu.values.channel_matrix import matrix_rows
from stridedgpu.values.conversion import Conversion, checked_arithmetic, conversion, normalisation
from stridedgpu.values.doubles import Doubles, PerChannel
from stridedgpu.values.dtypes import ElementType, element_type
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import integer

from .allocation import DEFAULT_ALIGNMENT
from .channel_blocks import ordered_layouts

__all__ = ["NO_MEMORY_OPTIONS", "MemoryOptions", "ValueOptions"]


class ValueOptions(NamedTuple):
    """An element type, and `x * scale + bias` of selected or mixed channels, rounded; None for a default."""

    dtype: object = None
    scale: PerChannel | Doubles | None = None
    bias: PerChannel | Doubles | None = None
    channels: Sequence[int] | None = None
    rounding: object = "nearest"
    matrix: object = None
    unit: int | None = None

    def normalised(
        self, source: ElementType, mean: PerChannel | None, std: PerChannel | None, arithmetic: object = "multiply"
    ) -> ValueOptions:
        """These options with the scale and bias of `mean` and `std`, in units of 0..1 of a source of integers.

        Raises `LayoutError` beside a scale or a bias, and for a division of what is not normalised.
        """
        if mean is None and std is None:
            if checked_arithmetic(arithmetic) == "divide":
                raise LayoutError("arithmetic='divide' is how mean and std are computed: give mean=, std= or both.")
            return self
        if self.scale is not None or self.bias is not None:
            raise LayoutError("mean and std say the same as scale and bias in other units; give one pair of them.")
        return self._replace(**normalisation(source, mean, std, arithmetic)._asdict())

    def conversion(self, source: ElementType, source_channels: int | None, otherwise: ElementType) -> Conversion:
        """These options as a checked conversion from a source with this many channels (None: no channel axis).

        `otherwise` is the type for a `dtype` of None. Raises what `stridedgpu.values.conversion.conversion` raises.
        """
        dtype, scale, bias, channels, rounding, matrix, unit = self
        target = otherwise if dtype is None else element_type(dtype)
        changes = scale is not None or bias is not None or channels is not None or matrix is not None
        if not changes and isinstance(rounding, str) and rounding == "nearest":
            return _cast(source, target)
        return conversion(
            source,
            target,
            scale=scale,
            bias=bias,
            channels=channels,
            source_channels=source_channels,
            rounding=rounding,
            matrix=None if matrix is None else matrix_rows(matrix),
            unit=unit,
        )


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
        given = [name for name, value in zip(self._fields, self, strict=True) if value is not None]
        raise LayoutError(f"out= says where and how to write: leave out {', '.join(given)}.")

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


_cast: Final = lru_cache(maxsize=1024)(conversion)
"""A cast alone, the most common conversion, cached."""


NO_MEMORY_OPTIONS: Final = MemoryOptions()
"""The options of most calls, which need no check."""
