"""What tensors must be: those that a plan is run on, and any `out=` before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stridedgpu.devices.operand import Operand, share_memory
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

__all__ = ["Given", "Requirement", "check_output", "check_output_layout"]


@dataclass(frozen=True, slots=True)
class Given:
    """One operand as it is planned for: what is known of it, and whether a descriptor promised that."""

    spec: TensorSpec
    promised: bool = False

    def within(self, widest: int) -> Given:
        """The same with no more alignment than the widest access can make use of."""
        return replace(self, spec=replace(self.spec, alignment=min(self.spec.alignment, widest)))

    def required(self, device: str, *, is_written: bool = False) -> Requirement:
        """What is asked of each tensor in this one's place.

        All that the plan relies on where a GPU's kernel does, or where a descriptor promised it. The processor's loops
        go by the addresses that they meet and leave gaps alone: there, in the place of a tensor, any of its layout and
        type will do.
        """
        spec = replace(self.spec, owns_padding=is_written and self.spec.owns_padding)
        if device == "cpu" and not self.promised:
            alignment = min(spec.alignment, spec.element.itemsize)
            spec = replace(spec, alignment=alignment, slack_bytes=0, owns_padding=False)
        return Requirement(spec, device)


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a tensor must be for a plan to run on it: of a layout, type, alignment and slack, on a device."""

    spec: TensorSpec
    device: str

    def check(self, name: str, operand: Operand) -> None:
        """Raise `BindingError` unless the operand, which is the argument `name`, is what is required."""
        if operand.fitted is self:
            return
        spec, layout = self.spec, operand.layout
        if operand.buffer.device != self.device:
            raise BindingError(f"{name} is on {operand.buffer.device}; the plan is for {self.device}.")
        if layout.sizes != spec.layout.sizes or not _steps_alike(layout, spec.layout):
            raise BindingError(
                f"{name} has sizes {layout.sizes} and strides {layout.strides}; "
                f"the plan is for {spec.layout.sizes} and {spec.layout.strides}."
            )
        if operand.element != spec.element:
            raise BindingError(f"{name} holds {operand.element}; the plan is for {spec.element}.")
        address, end = operand.reach
        if address % spec.alignment:
            raise BindingError(
                f"{name} starts at address {address:#x}, which is not a multiple of the {spec.alignment} bytes that "
                "the plan was promised."
            )
        left = operand.buffer.address + operand.buffer.nbytes - end
        if left < spec.slack_bytes:
            raise BindingError(f"{name}'s buffer ends {left} bytes after it; the plan may touch {spec.slack_bytes}.")
        if spec.owns_padding and not operand.owns_padding:
            raise BindingError(
                f"{name} does not own its padding, which this plan may write; plan for this tensor instead."
            )
        operand.fitted = self


def _steps_alike(layout: Layout, planned: Layout) -> bool:
    """Whether two layouts of equal sizes have the same strides; along an axis of size 1 any stride will do."""
    return layout.strides == planned.strides or all(
        size == 1 or own == wanted
        for size, own, wanted in zip(layout.sizes, layout.strides, planned.strides, strict=True)
    )


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
