"""`Plan`: an operation planned once and run many times; and what it requires of the tensors that it runs on.

Every plan is one value: device plans in the order of their launches, a requirement for each side, and what else the
operation was asked for. A call with `out=` and a call that allocates take the same launches from the device's cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol, Self, TypeGuard

from stridedgpu.devices.interface import Launch
from stridedgpu.devices.operand import Operand, share_memory
from stridedgpu.devices.selection import device_named, planner_named
from stridedgpu.problems.device_plan import DevicePlan
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, DeviceError, ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .move import clear_fillers


class HasOperand(Protocol):
    """Anything with an operand: a tensor."""

    @property
    def operand(self) -> Operand:
        """The buffer, layout and element type."""


def has_operand(value: object) -> TypeGuard[HasOperand]:
    """Whether a value is a tensor or a frame; their classes have the attribute, too, and no operand in it."""
    return hasattr(getattr(value, "operand", None), "fitted")


def no_tensor(**arguments: object) -> ElementTypeError:
    """The error of a plan for an argument that is not a tensor."""
    name, value = next(
        (name, value) for name, value in arguments.items() if not isinstance(getattr(value, "operand", None), Operand)
    )
    return ElementTypeError(
        f"{name} is of type {type(value).__name__}; a plan runs on tensors, and asarray() makes one of any array."
    )


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """A plan in the public API. If its device is unavailable, as `missing` tells, it can only be read.

    `plans` are those of its launches, in order; `sides` are the requirements on the arguments of a call, `options` what
    else a call needs. A plan is immutable, so that its copy is the plan itself. A pickle holds the problems and the
    device's name; unpickling plans and prepares again, for the device of that name on the receiving machine.
    """

    plans: tuple[DevicePlan, ...]
    sides: tuple[Any, ...]
    options: tuple[Any, ...] = ()
    missing: str | None = None
    launches: tuple[Launch, ...] = field(default=(), compare=False)
    direct: Any = field(default=None, init=False, compare=False)

    @classmethod
    def of(cls, device: str, problems: Sequence[Any], sides: tuple[Any, ...], options: tuple[Any, ...] = ()) -> Self:
        """Plan problems for a device, and prepare their launches if it is available."""
        planner, missing = planner_named(device)
        plans = tuple(planner.plan(problem) for problem in problems)
        launches = tuple(map(device_named(device).launch_for, problems)) if missing is None else ()
        return cls(plans, sides, options, missing, launches)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the problems, the requirements and the options; prepared launches are not pickled."""
        problems = tuple(plan.problem for plan in self.plans)
        return type(self).of, (self.device, problems, self.sides, self.options)

    @property
    def plan(self) -> DevicePlan:
        """The first step, for a plan with one the whole."""
        return self.plans[0]

    @property
    def steps(self) -> tuple[DevicePlan, ...]:
        """What runs, in order: one plan, or two where a matrix mixes what the first has written."""
        return tuple(dict.fromkeys(self.plans))

    @property
    def device(self) -> str:
        """The device of the plan: "cpu" or "cuda:N"."""
        return self.plan.device

    @property
    def kernel(self) -> str:
        """The kernel's name: family and variant; of two steps both names."""
        return ", then ".join(plan.kernel for plan in self.steps)

    @property
    def load_bytes(self) -> int:
        """Bytes of one load, by the first step."""
        return self.plan.load.nbytes

    @property
    def store_bytes(self) -> int:
        """Bytes of one store, by the last step."""
        return self.steps[-1].store.nbytes

    @property
    def vector_bytes(self) -> int:
        """The smaller of `load_bytes` and `store_bytes`."""
        return min(self.load_bytes, self.store_bytes)

    @property
    def index_bits(self) -> int:
        """Bits of the arithmetic for offsets: 32 or 64."""
        return max(plan.index_bits for plan in self.steps)

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, each element once in each step."""
        return sum(plan.bytes_moved for plan in self.plans)

    @property
    def heading(self) -> list[str]:
        """The lines of `explain()` before those of the steps."""
        return [f"{len(self.steps)} steps, the first into new memory"] if len(self.steps) > 1 else []

    def explain(self) -> str:
        """The plan in words."""
        words = "\n".join([*self.heading, *(plan.explain() for plan in self.steps)])
        if self.missing is None:
            return words
        from stridedgpu.devices.cuda.gpu import REFERENCE_GPU

        return (
            f"{words}\n  planned for a reference GPU, {REFERENCE_GPU.name} (compute capability "
            f"{REFERENCE_GPU.compute_capability / 10}): {self.missing}"
        )

    def check_runnable(self) -> None:
        """Raise `DeviceError` if the plan's device is unavailable."""
        if self.missing is not None:
            raise DeviceError(f"This plan can be read and not run. {self.missing}")

    def refuse(self, **arguments: object) -> NoReturn:
        """Raise for a call on an unavailable device, or on arguments that are no tensors."""
        self.check_runnable()
        raise no_tensor(**arguments)

    def keep(self, direct: object) -> None:
        """Keep what later calls run by addresses alone."""
        object.__setattr__(self, "direct", direct)

    def __repr__(self) -> str:
        """The plan in one line; `explain` tells everything."""
        can_run = "" if self.missing is None else ", to be read only"
        return f"<{type(self).__name__} {self.kernel} on {self.device}, {self.bytes_moved:,} bytes{can_run}>"

    def _repr_html_(self) -> str:
        """What notebooks show: a relayout drawn from source to target, any other plan and several in words."""
        from stridedgpu.drawing.page import fragment, words
        from stridedgpu.drawing.subject import plan_of

        if len(self.steps) > 1 or plan_of(self) is None:
            return words(self.explain())
        return fragment(self)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


@dataclass(frozen=True, slots=True)
class PlanOperand:
    """The spec of one operand to plan for, and whether a descriptor promised it."""

    spec: TensorSpec
    promised: bool = False

    def within(self, widest: int) -> PlanOperand:
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
        if self.is_written and operand.buffer.fillers is not None:
            clear_fillers(operand.buffer)
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
    if out.buffer.fillers is not None:
        clear_fillers(out.buffer)
