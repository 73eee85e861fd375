"""Arguments that several functions take."""

from __future__ import annotations

from stridedgpu.errors import LayoutError
from stridedgpu.operand import Operand
from stridedgpu.tensor import StridedTensor

__all__ = ["output_operand"]


def output_operand(out: object) -> Operand | None:
    """The operand of `out`, where there is one. Raises `LayoutError` for anything but a tensor."""
    if out is None or isinstance(out, StridedTensor):
        return None if out is None else out.operand
    raise LayoutError(f"out must be a StridedTensor, not {type(out).__name__}; wrap it with asarray.")
