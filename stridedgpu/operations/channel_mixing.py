"""Resizes and crops with a matrix, in two steps: pixels of the sources' type in new memory, and these mixed.

The kernels of a device that does not mix windows make each output channel of one source channel. With a matrix they
write a batch with the sources' type and channels, channels last, and a relayout with the matrix writes the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stridedgpu.devices.interface import Located, MoveLaunch
from stridedgpu.devices.operand import AllocationSpec, Operand
from stridedgpu.devices.selection import device_named, planner_named
from stridedgpu.planning.channel_matrix_problem import ChannelMatrixProblem, moving_problem
from stridedgpu.planning.device_plan import DevicePlan
from stridedgpu.planning.relayout_problem import RelayoutProblem
from stridedgpu.values.conversion import Conversion, conversion
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .move import move_elements
from .options import MemoryOptions

__all__ = ["ChannelMixing", "write_mixed"]

_CHANNELS = 1
"""The axis of channels in a batch, N, C, H, W."""


def write_mixed(
    write: Callable[[Conversion, Operand], None], made: Conversion, target: Operand, stream: object
) -> None:
    """Let `write` fill new memory, by a conversion that changes nothing, and mix its channels into `target`.

    `target` has the axes N, C, H, W.
    """
    unmixed = _unmixed(target.layout, made).allocate(device_named(target.buffer.device), stream)
    write(conversion(made.source, made.source), unmixed)
    move_elements(unmixed, target, made, _CHANNELS, stream)


@dataclass(frozen=True, slots=True)
class ChannelMixing:
    """The second step of a plan: what the first step writes, and the plan that mixes its channels."""

    room: AllocationSpec
    plan: DevicePlan

    @classmethod
    def into(cls, target: TensorSpec, made: Conversion, device: str) -> ChannelMixing:
        """The step into a target with the axes N, C, H, W."""
        room = _unmixed(target.layout, made)
        return cls.of(room, moving_problem(room.spec, target, made, _CHANNELS), device)

    @classmethod
    def of(cls, room: AllocationSpec, problem: RelayoutProblem | ChannelMatrixProblem, device: str) -> ChannelMixing:
        """Plan for a device."""
        return cls(room, planner_named(device)[0].plan(problem))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what is written first, the problem and the device's name."""
        return ChannelMixing.of, (self.room, self.plan.problem, self.plan.device)

    def run(self, write: Callable[[Located], object], target: Operand, stream: object) -> None:
        """Let the first step write into new memory, and mix that into `target`."""
        device = device_named(self.plan.device)
        unmixed = self.room.allocate(device, stream)
        write((unmixed.buffer, unmixed.start_bytes))
        launch: MoveLaunch = device.launch_for(self.plan.problem)
        launch(unmixed, target, stream)


def _unmixed(mixed: Layout, made: Conversion) -> AllocationSpec:
    """What the first step writes: a batch of the mixed one's height and width, of the sources' type and channels."""
    assert made.matrix is not None, "what is mixed has a matrix"
    count, _, height, width = mixed.sizes
    return MemoryOptions("NHWC").allocation(
        (count, len(made.matrix[0]), height, width), ("N", "C", "H", "W"), made.source
    )
