"""The operands that plans are made for: tensors, and descriptors of tensors that will be bound later."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

from stridedgpu.operations.plans import PlanOperand
from stridedgpu.values.descriptor import BufferTensorDesc
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.tensor_spec import TensorSpec

from .tensor import StridedTensor

__all__ = ["given"]

_DIRECTML_ALIGNMENT: Final = 16
"""Bytes that every bound buffer offset is a multiple of, even if a descriptor guarantees more."""


def given(name: str, operand: object, *, is_written: bool = False) -> PlanOperand:
    """The spec of a tensor, or of a descriptor of one that will be bound later.

    Raises `LayoutError` for anything else.
    """
    if isinstance(operand, StridedTensor):
        return _given_alike(operand.operand.spec)
    if not isinstance(operand, BufferTensorDesc):
        raise LayoutError(
            f"{name} must be a StridedTensor or a BufferTensorDesc, not {type(operand).__name__}; "
            "asarray() makes a tensor of any array."
        )
    side = TensorSpec.of(
        operand.layout,
        element_type(operand.data_type),
        base_alignment=max(operand.guaranteed_base_offset_alignment, _DIRECTML_ALIGNMENT),
        buffer_bytes=operand.total_tensor_size_in_bytes,
        owns_padding=is_written,
    )
    return PlanOperand(side, promised=True)


@lru_cache(maxsize=1024)
def _given_alike(spec: TensorSpec) -> PlanOperand:
    """What is known of every tensor like one: what follows a window is there for that one only."""
    return PlanOperand(spec if spec.owns_padding else replace(spec, slack_bytes=0))
