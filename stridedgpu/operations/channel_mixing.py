"""Resizes and crops with a matrix, in two steps: pixels of the sources' type in new memory, and these mixed.

The kernels of a device that does not mix windows make each output channel of one source channel. With a matrix they
write a batch with the sources' type and channels, channels last, and a relayout with the matrix writes the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stridedgpu.devices.interface import Launch
from stridedgpu.devices.operand import AllocationSpec, Operand
from stridedgpu.devices.selection import device_named, planner_named
from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem, moving_problem
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.values.conversion import Conversion, conversion as conversion_of
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .move import move_elements
from .options import MemoryOptions

__all__ = ["run_steps", "unmixed_step", "write_mixed"]

_CHANNELS = 1
"""The axis of channels in a batch, N, C, H, W."""


def write_mixed(
    write: Callable[[Conversion, Operand], None], conversion: Conversion, target: Operand, stream: object
) -> None:
    """Let `write` fill new memory, by a conversion that changes nothing, and mix its channels into `target`.

    `target` has the axes N, C, H, W.
    """
    unmixed = _unmixed(target.layout, conversion).allocate(device_named(target.buffer.device), stream)
    write(conversion_of(conversion.source, conversion.source), unmixed)
    move_elements(unmixed, target, conversion, _CHANNELS, stream)


def unmixed_step(
    target: TensorSpec, conversion: Conversion, device: str
) -> tuple[AllocationSpec | None, TensorSpec, Conversion, tuple[RelayoutProblem | ChannelMatrixProblem, ...]]:
    """What a plan's first step writes and how, and the problem of the second step, if a device needs one.

    The first value is the memory between the steps. `target` has the axes N, C, H, W.
    """
    if conversion.matrix is None or planner_named(device)[0].mixes_windows:
        return None, target, conversion, ()
    room = _unmixed(target.layout, conversion)
    mixing = moving_problem(room.spec, target, conversion, _CHANNELS)
    return room, room.spec, conversion_of(conversion.source, conversion.source), (mixing,)


def run_steps(
    launches: Sequence[Launch],
    room: AllocationSpec | None,
    arguments: tuple[object, ...],
    target: Operand,
    stream: object,
) -> object:
    """Launch a plan's one or two steps into `target`; returns what the first launch gives of one step."""
    if room is None:
        return launches[0](*arguments, (target.buffer, target.start_bytes), stream)
    unmixed = room.allocate(device_named(target.buffer.device), stream)
    launches[0](*arguments, (unmixed.buffer, unmixed.start_bytes), stream)
    launches[1](unmixed, target, stream)
    return None


def _unmixed(mixed: Layout, conversion: Conversion) -> AllocationSpec:
    """What the first step writes: a batch of the mixed one's height and width, of the sources' type and channels."""
    assert conversion.matrix is not None, "what is mixed has a matrix"
    count, _, height, width = mixed.sizes
    return MemoryOptions("NHWC").allocation(
        (count, len(conversion.matrix[0]), height, width), ("N", "C", "H", "W"), conversion.source
    )
