"""Requirements on tensors: on the arguments of a plan, and on any `out=` before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stridedgpu.devices.operand import Operand, share_memory
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

__all__ = ["Given", "Requirement", "check_output", "check_output_layout", "check_output_memory", "steps_alike"]


@dataclass(frozen=True, slots=True)
class Given:
    """The spec of one operand to plan for, and whether a descriptor promised it."""

    spec: TensorSpec
    promised: bool = False

    def within(self, widest: int) -> Given:
        """The same with its alignment limited to what the widest access can use."""
        return replace(self, spec=replace(self.spec, alignment=min(self.spec.alignment, widest)))

    def required(self, device: str, *, is_written: bool = False) -> Requirement:
        """The requirement on each tensor in this one's place.

        It contains all that the plan relies on, if a GPU's kernel relies on it or a descriptor promised it. The CPU's
        loops go by the actual addresses and leave gaps unchanged: on the CPU, in place of a tensor, any tensor of its
        layout and type will do.
        """
        spec = replace(self.spec, owns_padding=is_written and self.spec.owns_padding)
        if device == "cpu" and not self.promised:
            alignment = min(spec.alignment, spec.element.itemsize)
            spec = replace(spec, alignment=alignment, slack_bytes=0, owns_padding=False)
        return Requirement(spec, device, is_written)


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a tensor must be for a plan to run on it: its layout, type, alignment, slack and device, and writable."""

    spec: TensorSpec
    device: str
    is_written: bool = False

    def fits(self, operand: Operand) -> bool:
        """Whether an operand that is read meets the requirement."""
        try:
            self.check("", operand)
        except BindingError:
            return False
        return True

    def check(self, name: str, operand: Operand) -> None:
        """Raise `BindingError` unless the operand, which is the argument `name`, meets the requirement."""
        if operand.fitted is self:
            return
        if not isinstance(operand, Operand):
            raise BindingError(f"{name} is a frame; the plan is for a tensor.")
        spec, layout = self.spec, operand.layout
        if operand.buffer.device != self.device:
            raise BindingError(f"{name} is on {operand.buffer.device}; the plan is for {self.device}.")
        if layout.sizes != spec.layout.sizes or not steps_alike(layout, spec.layout):
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
        if self.is_written and operand.buffer.readonly:
            raise BindingError(f"{name} is read-only.")
        operand.fitted = self


def steps_alike(layout: Layout, planned: Layout) -> bool:
    """True if layouts of equal sizes have the same strides; the stride of an axis of size 1 does not count."""
    return layout.strides == planned.strides or all(
        size == 1 or own == wanted
        for size, own, wanted in zip(layout.sizes, layout.strides, planned.strides, strict=True)
    )


def check_output_layout(layout: Layout, element: ElementType, sizes: tuple[int, ...], wanted: ElementType) -> None:
    """Raise `LayoutError` unless an `out` of this layout and type can store a result of `sizes` and `wanted`."""
    if layout.sizes != sizes:
        raise LayoutError(f"out has sizes {layout.sizes}; the result has sizes {sizes}.")
    if element != wanted:
        raise LayoutError(f"out holds {element}; the result is {wanted}.")
    if layout.has_overlap:
        raise LayoutError(f"out repeats or overlaps its own elements: {layout}; write into a packed tensor.")


def check_output(
    out: Operand, sizes: tuple[int, ...], element: ElementType, device: str, inputs: Mapping[str, Operand]
) -> None:
    """Raise unless `out` can store a result of these sizes and elements without overlapping any input."""
    check_output_layout(out.layout, out.element, sizes, element)
    check_output_memory(out, device, **inputs)


def check_output_memory(out: Operand, device: str, **inputs: Operand) -> None:
    """Raise `BindingError` unless `out` is on the device, may be written, and shares no memory with the inputs."""
    if out.buffer.device != device:
        raise BindingError(f"out is on {out.buffer.device} and the data on {device}; both must be on one device.")
    if out.buffer.readonly:
        raise BindingError("out is read-only.")
    start, end = out.reach
    for name, operand in inputs.items():
        if operand.reach[0] < end and start < operand.reach[1] and share_memory(operand, out):
            raise BindingError(f"out shares memory with {name}; write into another tensor, or copy {name} first.")
