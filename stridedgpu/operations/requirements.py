"""What a plan asks of the tensors that it is run on, by what it was planned for: a tensor, or a descriptor."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stridedgpu.devices.operand import Operand
from stridedgpu.values.errors import BindingError
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

__all__ = ["Given", "Requirement"]


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
        side = replace(self.spec, owns_padding=is_written and self.spec.owns_padding)
        if device == "cpu" and not self.promised:
            alignment = min(side.alignment, side.element.itemsize)
            side = replace(side, alignment=alignment, slack_bytes=0, owns_padding=False)
        return Requirement(side, device)


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a tensor must be for a plan to run on it: of a layout, type, alignment and slack, on a device."""

    spec: TensorSpec
    device: str

    def check(self, name: str, operand: Operand) -> None:
        """Raise `BindingError` unless the operand, which is the argument `name`, is what is required."""
        if operand.fitted is self:
            return
        side, layout = self.spec, operand.layout
        if operand.buffer.device != self.device:
            raise BindingError(f"{name} is on {operand.buffer.device}; the plan is for {self.device}.")
        if layout.sizes != side.layout.sizes or not _steps_alike(layout, side.layout):
            raise BindingError(
                f"{name} has sizes {layout.sizes} and strides {layout.strides}; "
                f"the plan is for {side.layout.sizes} and {side.layout.strides}."
            )
        if operand.element != side.element:
            raise BindingError(f"{name} holds {operand.element}; the plan is for {side.element}.")
        address, end = operand.reach
        if address % side.alignment:
            raise BindingError(
                f"{name} starts at address {address:#x}, which is not a multiple of the {side.alignment} bytes that "
                "the plan was promised."
            )
        left = operand.buffer.address + operand.buffer.nbytes - end
        if left < side.slack_bytes:
            raise BindingError(f"{name}'s buffer ends {left} bytes after it; the plan may touch {side.slack_bytes}.")
        if side.owns_padding and not operand.owns_padding:
            raise BindingError(
                f"{name} does not own its padding, which this plan may write; plan for this tensor instead."
            )
        operand.remember_fit(self)


def _steps_alike(layout: Layout, planned: Layout) -> bool:
    """Whether two layouts of equal sizes have the same strides; along an axis of size 1 any stride will do."""
    return layout.strides == planned.strides or all(
        size == 1 or own == wanted
        for size, own, wanted in zip(layout.sizes, layout.strides, planned.strides, strict=True)
    )
