"""The fields through which a resize's machine code is told of its work: those of an entry, and of a geometry."""

from __future__ import annotations

from typing import Final

__all__ = ["ENTRY_FIELDS", "GEOMETRY"]

ENTRY_FIELDS: Final = 5
"""Fields of an entry: the bytes from a call's source to the lowest row, and from its target to the first pixel; the
address of the geometry; the first row of the result and the row after the last.

The word before the entries is 0, and 1 after a thread failed to allocate its scratch memory."""

GEOMETRY: Final = (
    "allocate",
    "free",
    "scratch_bytes",
    "sources",
    "row_stride",
    "planes",
    "plane_stride",
    "elements",
    "columns",
    "column_groups",
    "column_counts",
    "column_indices",
    "column_weights",
    "row_groups",
    "row_counts",
    "row_indices",
    "row_weights",
    "row_firsts",
    "row_ends",
    "ring_mask",
    "ring_pitch",
    "unit",
    "outputs_at",
    "ring_at",
    "band_at",
    "target_row",
    "whole_kernel",
    "whole_parameters",
    "whole_items",
    "whole_source",
    "whole_target",
    "rest_kernel",
    "rest_parameters",
    "rest_items",
    "rest_source",
    "rest_target",
    "band_pitch",
    "factor",
    "rows_kernel",
    "rows_at",
    "rows_pitch",
)
"""64-bit fields that all windows of one geometry share, in memory order.

Offsets `_at`, the strides of the source and the ring's pitch are in bytes, `unit` and the band's pitch in elements.
Offsets count from the start of the scratch memory, which begins with the transposed columns. `factor` is that of a
mean, in bits of float32.
"""
