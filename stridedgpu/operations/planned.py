"""`Planned`: the facts that every plan in the public API reports, and the check that it can run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

from stridedgpu.devices.operand import Operand
from stridedgpu.planning.device_plan import DevicePlan
from stridedgpu.values.errors import DeviceError, ElementTypeError

__all__ = ["HasOperand", "Planned", "no_tensor", "steps_in_words"]


class HasOperand(Protocol):
    """Anything with an operand: a tensor."""

    @property
    def operand(self) -> Operand:
        """The buffer, layout and element type."""


def no_tensor(**arguments: object) -> ElementTypeError:
    """The error of a plan for an argument that is not a tensor."""
    name, value = next(
        (name, value) for name, value in arguments.items() if not isinstance(getattr(value, "operand", None), Operand)
    )
    return ElementTypeError(
        f"{name} is of type {type(value).__name__}; a plan runs on tensors, and asarray() makes one of any array."
    )


def steps_in_words(steps: Sequence[DevicePlan]) -> list[str]:
    """A line for steps of which the second reads what the first has written."""
    return [f"{len(steps)} steps, the first into new memory"] if len(steps) > 1 else []


class Planned:
    """A plan in the public API. If its device is unavailable, as `missing` tells, it can only be read.

    A plan is immutable, so that its copy is the plan itself. A pickle holds the problem and the device's name;
    unpickling plans and prepares again, for the device of that name on the receiving machine.
    """

    __slots__ = ()

    plan: DevicePlan
    missing: str | None

    @property
    def steps(self) -> tuple[DevicePlan, ...]:
        """What runs, in order: one plan, or two where a matrix mixes what the first has written."""
        return (self.plan,)

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
        return sum(plan.bytes_moved for plan in self.steps)

    @property
    def heading(self) -> list[str]:
        """The lines of `explain()` before those of the steps."""
        return steps_in_words(self.steps)

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

    def __repr__(self) -> str:
        """The plan in one line; `explain` tells everything."""
        can_run = "" if self.missing is None else ", to be read only"
        return f"<{type(self).__name__} {self.kernel} on {self.device}, {self.bytes_moved:,} bytes{can_run}>"

    def _repr_html_(self) -> str:
        """What notebooks show: a relayout drawn from source to target, any other plan and several in words."""
        from stridedgpu.picture.page import fragment, words
        from stridedgpu.picture.subject import plan_of

        if len(self.steps) > 1 or plan_of(self) is None:
            return words(self.explain())
        return fragment(self)

    def __copy__(self) -> Self:
        """The plan itself."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """The plan itself."""
        return self
