"""What may be written: the checks that `out=` has to pass before anything is."""

from __future__ import annotations

from collections.abc import Mapping

from stridedgpu.dtypes import ElementType
from stridedgpu.errors import BindingError, LayoutError
from stridedgpu.operand import Operand, share_memory

__all__ = ["check_output"]


def check_output(
    out: Operand, sizes: tuple[int, ...], element: ElementType, device: str, inputs: Mapping[str, Operand]
) -> None:
    """Raise unless `out` can take a result of these sizes and elements without touching any of the inputs."""
    if out.layout.sizes != sizes:
        raise LayoutError(f"out has sizes {out.layout.sizes}; the result has sizes {sizes}.")
    if out.element != element:
        raise LayoutError(f"out holds {out.element}; the result is {element}.")
    if out.buffer.device != device:
        raise BindingError(f"out is on {out.buffer.device} and the data on {device}; both must be on one device.")
    if out.buffer.readonly:
        raise BindingError("out is read-only.")
    if out.layout.has_overlap:
        raise LayoutError(f"out repeats or overlaps its own elements: {out.layout}; write into a packed tensor.")
    for name, operand in inputs.items():
        if share_memory(operand, out):
            raise BindingError(f"out shares memory with {name}; write into another tensor, or copy {name} first.")
