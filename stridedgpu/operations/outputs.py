"""What may be written: the checks that `out=` has to pass before anything is."""

from __future__ import annotations

from collections.abc import Mapping

from stridedgpu.devices.operand import Operand, share_memory
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, LayoutError
from stridedgpu.values.layout import Layout

__all__ = ["check_output", "check_output_layout"]


def check_output_layout(layout: Layout, element: ElementType, sizes: tuple[int, ...], wanted: ElementType) -> None:
    """Raise `LayoutError` unless an `out` of this layout and type can hold a result of `sizes` and `wanted`."""
    if layout.sizes != sizes:
        raise LayoutError(f"out has sizes {layout.sizes}; the result has sizes {sizes}.")
    if element != wanted:
        raise LayoutError(f"out holds {element}; the result is {wanted}.")
    if layout.has_overlap:
        raise LayoutError(f"out repeats or overlaps its own elements: {layout}; write into a packed tensor.")


def check_output(
    out: Operand, sizes: tuple[int, ...], element: ElementType, device: str, inputs: Mapping[str, Operand]
) -> None:
    """Raise unless `out` can take a result of these sizes and elements without touching any of the inputs."""
    check_output_layout(out.layout, out.element, sizes, element)
    if out.buffer.device != device:
        raise BindingError(f"out is on {out.buffer.device} and the data on {device}; both must be on one device.")
    if out.buffer.readonly:
        raise BindingError("out is read-only.")
    for name, operand in inputs.items():
        if share_memory(operand, out):
            raise BindingError(f"out shares memory with {name}; write into another tensor, or copy {name} first.")
