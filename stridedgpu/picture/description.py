"""The description of a tensor's memory, in lines for people."""

from __future__ import annotations

from stridedgpu.devices.operand import Operand
from stridedgpu.values.descriptor import BufferTensorDesc

from .subject import subject_of

__all__ = ["description"]


def description(operand: Operand, directml: BufferTensorDesc | Exception) -> list[str]:
    r"""Span, padding, DirectML's descriptor or why there is none, the kind of layout, and alignment.

    >>> from stridedgpu.api.creation import empty
    >>> tensor = empty((2, 3), "float16", row_pitch_bytes=8, device="cpu")
    >>> print("\n".join(description(tensor.operand, tensor.desc)))
    offset 0, span 7 elements, 14 bytes of a buffer of 16
    elements take 12 bytes; padding between them 2 bytes (14.3%), ours to overwrite
    DirectML can describe it: 16 bytes at least
    descriptor: FLOAT16, sizes (2, 3), strides (4, 1), 16 bytes in all, 32 bytes of alignment guaranteed
    not packed, padded, not broadcast, no overlap
    the first element's address is a multiple of 32 bytes
    """
    layout, itemsize = operand.layout, operand.element.itemsize
    held = layout.span * itemsize
    distinct = subject_of(operand).distinct
    if distinct is None:
        taken = "elements overlap: how much of the span is padding is not counted"
    else:
        padding = held - distinct * itemsize
        owner = "ours to overwrite" if operand.owns_padding else "somebody else's"
        taken = (
            f"elements take {distinct * itemsize} bytes; padding between them {padding} bytes "
            f"({padding / max(held, 1):.1%})" + (f", {owner}" if padding else "")
        )
    kinds = (
        ("packed", "not packed", layout.is_packed),
        ("padded", "not padded", layout.is_padded),
        ("broadcast", "not broadcast", layout.is_broadcast),
        ("elements overlap", "no overlap", layout.has_overlap),
    )
    return [
        f"offset {layout.offset}, span {layout.span} elements, {held} bytes of a buffer of {operand.buffer.nbytes}",
        taken,
        *_directml_lines(directml),
        ", ".join(yes if holds else no for yes, no, holds in kinds),
        f"the first element's address is a multiple of {operand.alignment} bytes",
    ]


def _directml_lines(directml: BufferTensorDesc | Exception) -> list[str]:
    if isinstance(directml, Exception):
        return [f"DirectML cannot describe it: {directml}"]
    guaranteed = directml.guaranteed_base_offset_alignment
    return [
        f"DirectML can describe it: {directml.minimum_implied_size_in_bytes} bytes at least",
        f"descriptor: {directml.data_type.name}, sizes {directml.sizes}, strides {directml.strides}, "
        f"{directml.total_tensor_size_in_bytes} bytes in all, "
        + (f"{guaranteed} bytes of alignment guaranteed" if guaranteed else "no alignment guaranteed"),
    ]
