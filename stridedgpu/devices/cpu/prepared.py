"""From a problem to its plan and its launch on this CPU, both cached.

An operation's module is imported with its first problem: what moves tensors loads nothing of resizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from stridedgpu.devices.interface import Launch

from .plan import CpuOperation, CpuPlan, cpu_plan
from .promotion import Promotion
from .stream import check_stream

__all__ = ["operation_of", "planned", "prepared"]

_OPERATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Problem": "relayout",
        "ChannelMatrixProblem": "channel_matrix",
        "CropProblem": "crops",
        "FrameProblem": "frames",
        "GatherProblem": "gather",
        "RawProblem": "raw",
        "ResizeProblem": "resize",
        "SamplesProblem": "frame_samples",
    }
)
"""The modules of `operations`, by the name of the problem's type."""


@cache
def operation_of(kind: str) -> CpuOperation:
    """The operation for problems of a type, by its name."""
    operation: CpuOperation = import_module(f"{__package__}.operations.{_OPERATIONS[kind]}").OPERATION
    return operation


def planned(problem: Any) -> CpuPlan:
    """The plan of a problem: NumPy's loops, the compiled kernel if there is one, and when it takes over."""
    return cpu_plan(problem, operation_of(type(problem).__name__))


@lru_cache(maxsize=1024)
def prepared(plan: CpuPlan) -> tuple[Launch, Promotion]:
    """The plan's launch, and the promotion that says which loops run."""
    operation = plan.operation
    moves = Promotion(
        plan.compiled_from, lambda: operation.run_numpy(plan.problem), lambda: operation.run_compiled(plan)
    )

    if operation.takes_stream and moves.at is None and moves.is_compiled:
        return moves.work, moves  # each function on the way costs a call 0.8 us where the caches hold other data

    # One function for each argument count: packing and unpacking *args would cost more than all else here.
    def launch_of_two(first: Any, second: Any, stream: object) -> Launch | None:
        if stream is not None:
            check_stream(stream)
        (moves.work if moves.at is None else moves.chosen())(first, second)
        return moves.work if operation.takes_stream and moves.is_compiled else None

    def launch_of_three(first: Any, second: Any, third: Any, stream: object) -> Launch | None:
        if stream is not None:
            check_stream(stream)
        (moves.work if moves.at is None else moves.chosen())(first, second, third)
        return moves.work if operation.takes_stream and moves.is_compiled else None

    def launch_of_four(first: Any, second: Any, third: Any, fourth: Any, stream: object) -> Launch | None:
        if stream is not None:
            check_stream(stream)
        (moves.work if moves.at is None else moves.chosen())(first, second, third, fourth)
        return moves.work if operation.takes_stream and moves.is_compiled else None

    def launch_of_six(
        first: Any, second: Any, third: Any, fourth: Any, fifth: Any, sixth: Any, stream: object
    ) -> Launch | None:
        if stream is not None:
            check_stream(stream)
        (moves.work if moves.at is None else moves.chosen())(first, second, third, fourth, fifth, sixth)
        return moves.work if operation.takes_stream and moves.is_compiled else None

    launches: dict[int, Launch] = {2: launch_of_two, 3: launch_of_three, 4: launch_of_four, 6: launch_of_six}
    return launches[operation.arguments], moves
