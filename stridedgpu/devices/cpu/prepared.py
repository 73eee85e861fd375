"""From a problem to its plan and its launch on this CPU.

An operation's module is imported with its first problem: what moves tensors loads nothing of resizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.interface import DirectCrops, DirectLaunch, GatherLaunch, Launch, RelayoutLaunch

from .compiled.jit import LoopError
from .plan import CpuOperation, CpuPlan, cpu_plan
from .promotion import Promotion
from .stream import check_stream

__all__ = ["operation_of", "planned", "prepared"]

_OPERATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "RelayoutProblem": "relayout.OPERATION",
        "ChannelMatrixProblem": "pixels.CHANNEL_MATRIX",
        "CropProblem": "crops.OPERATION",
        "FrameProblem": "pixels.FRAMES",
        "GatherProblem": "gather.OPERATION",
        "RawProblem": "pixels.RAW",
        "ResizeProblem": "pixels.RESIZE",
        "SamplesProblem": "pixels.SAMPLES",
    }
)
"""Names in the modules of `operations`, by the name of the problem's type."""


@cache
def operation_of(kind: str) -> CpuOperation:
    """The operation for problems of a type, by its name."""
    module, name = _OPERATIONS[kind].split(".")
    operation: CpuOperation = getattr(import_module(f"{__package__}.operations.{module}"), name)
    return operation


def planned(problem: Any) -> CpuPlan:
    """The plan of a problem: NumPy's loops, the compiled kernel if there is one, and when it takes over."""
    return cpu_plan(problem, operation_of(type(problem).__name__))


def prepared(plan: CpuPlan) -> tuple[Launch, Promotion]:
    """The plan's launch, and the promotion that says which loops run."""
    operation = plan.operation
    moves = Promotion(
        plan.compiled_from, lambda: operation.run_numpy(plan.problem), lambda: operation.run_compiled(plan)
    )
    if operation.by_address:
        return (_launch_of_three if operation.arguments == 6 else _launch_of_two)(moves), moves

    # One function for each argument count: packing and unpacking *args would cost more than all else here.
    def launch_of_two(first: Any, second: Any, stream: object) -> None:
        if stream is not None:
            check_stream(stream)
        try:
            (moves.work if moves.at is None else moves.chosen())(first, second)
        except LoopError:
            moves.left_to_numpy()(first, second)

    def launch_of_three(first: Any, second: Any, third: Any, stream: object) -> DirectCrops | None:
        if stream is not None:
            check_stream(stream)
        direct: DirectCrops | None
        try:
            direct = (moves.work if moves.at is None else moves.chosen())(first, second, third)
        except LoopError:
            direct = moves.left_to_numpy()(first, second, third)
        return direct

    def launch_of_four(first: Any, second: Any, third: Any, fourth: Any, stream: object) -> None:
        if stream is not None:
            check_stream(stream)
        try:
            (moves.work if moves.at is None else moves.chosen())(first, second, third, fourth)
        except LoopError:
            moves.left_to_numpy()(first, second, third, fourth)

    launches: dict[int, Launch] = {2: launch_of_two, 3: launch_of_three, 4: launch_of_four}
    return launches[operation.arguments], moves


def _launch_of_two(moves: Promotion) -> RelayoutLaunch:
    """The launch of loops that take a source and a target: compiled ones by their addresses."""
    plain = moves.work

    def launch(
        source: Buffer, source_start: int, target: Buffer, target_start: int, stream: object
    ) -> DirectLaunch | None:
        if stream is not None:
            check_stream(stream)
        if moves.at is not None:
            moves.chosen()
        loops = moves.loops
        if loops is None:
            plain(source, source_start, target, target_start)
            return None
        loops(source.address + source_start, target.address + target_start)
        return loops

    return launch


def _launch_of_three(moves: Promotion) -> GatherLaunch:
    """The same with indices."""
    plain = moves.work

    def launch(
        dense: Buffer,
        dense_start: int,
        indexed: Buffer,
        indexed_start: int,
        indices: Buffer,
        indices_start: int,
        stream: object,
    ) -> DirectLaunch | None:
        if stream is not None:
            check_stream(stream)
        if moves.at is not None:
            moves.chosen()
        loops = moves.loops
        if loops is None:
            plain(dense, dense_start, indexed, indexed_start, indices, indices_start)
            return None
        loops(dense.address + dense_start, indexed.address + indexed_start, indices.address + indices_start)
        return loops

    return launch
