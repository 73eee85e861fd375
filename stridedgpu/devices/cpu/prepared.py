"""From a plan to its launch on this CPU: the loops that run now, with the arguments of the device's protocol."""

from __future__ import annotations

from typing import Any

from stridedgpu.devices.interface import DirectCrops, DirectLaunch, Launch
from stridedgpu.problems.device_plan import Problem
from stridedgpu.values.errors import DeviceError

from .compiled.jit import LoopError
from .plan import CpuPlan
from .promotion import Promotion

__all__ = ["check_stream", "prepared"]


def check_stream(stream: object) -> None:
    """Raise `DeviceError` for anything but None: the CPU has no streams."""
    if stream is not None:
        raise DeviceError(f"stream={stream!r} has no meaning on the CPU, where calls return when they are done.")


def prepared(plan: CpuPlan[Problem]) -> tuple[Launch, Promotion]:
    """The plan's launch, and the promotion that says which loops run."""
    operation, problem = plan.operation, plan.problem
    numpy_loops = operation.numpy_loops()
    moves = Promotion(plan.compiled_from, lambda: numpy_loops(problem), lambda: operation.compiled_loops(plan))
    return (_launch_by_address if operation.by_address else _launch)(moves), moves


def _launch(moves: Promotion) -> Launch:
    """The launch of loops that take the same operands, compiled or not."""

    def launch(*arguments: object) -> DirectCrops | None:
        *operands, stream = arguments
        check_stream(stream)
        direct: DirectCrops | None
        try:
            direct = (moves.work if moves.at is None else moves.chosen())(*operands)
        except LoopError:
            direct = moves.left_to_numpy()(*operands)
        return direct

    return launch


def _launch_by_address(moves: Promotion) -> Launch:
    """The launch of loops that take buffers, each with its start; compiled ones take addresses."""
    plain = moves.work

    def launch(*arguments: Any) -> DirectLaunch | None:
        *operands, stream = arguments
        check_stream(stream)
        if moves.at is not None:
            moves.chosen()
        loops = moves.loops
        if loops is None:
            plain(*operands)
            return None
        loops(*[buffer.address + start for buffer, start in zip(operands[::2], operands[1::2], strict=True)])
        return loops

    return launch
