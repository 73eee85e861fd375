"""Gather, scatter and crops on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.cpu.compiled.jit import why_unavailable
from stridedgpu.devices.cpu.numpy_loops.crops import run_crops
from stridedgpu.devices.cpu.numpy_loops.gather import NumpyGather, check_indices
from stridedgpu.devices.cuda.planning.gather import GatherPlan, Mode
from stridedgpu.devices.gather_interface import CropsLaunch, CropsMove, GatherLaunch, GatherMove, IndicesWithin, Located
from stridedgpu.planning.crop_windows import Crop, CropPlan
from stridedgpu.planning.index_rule import IndexRule
from stridedgpu.values.errors import DeviceError

from .promotion import Promotion

__all__ = ["CpuGather"]

Move = TypeVar("Move")


class CpuGather:
    """The processor that this program runs on, picking elements by index."""

    widest_access = 16

    def check_indices(self, rule: IndexRule, indices: Located, mode: Mode, stream: object) -> None:
        """Look at the indices where they are; "deferred" is checked at once, as nothing runs later here."""
        _check_stream(stream)
        in_range = mode in ("raise", "deferred")
        if not rule.axis_pitches and (not in_range or _look(rule).chosen()(indices)):
            return
        check_indices(rule, _bytes(indices), in_range=in_range, mode=mode)

    def prepare_gather(self, plan: GatherPlan) -> GatherLaunch:
        """A plan with its blocks chosen."""
        return _gather(plan)

    def prepare_crops(self, plan: CropPlan) -> CropsLaunch:
        """A plan that relayouts all windows together, or one after another."""
        return _crops(plan)


def _bytes(located: Located) -> NDArray[np.uint8]:
    """The memory from an operand's lowest element on."""
    buffer, start = located
    return buffer.bytes[start:]


def _check_stream(stream: object) -> None:
    """Raise `DeviceError` for any stream."""
    if stream is not None:
        raise DeviceError(f"stream={stream!r} has no meaning on the CPU, where calls return when they are done.")


@lru_cache(maxsize=1024)
def _look(rule: IndexRule) -> Promotion[IndicesWithin]:
    """A quick look at the indices, kept for the next call with the same rule; NumPy finds the one that is wrong."""

    def compiled() -> IndicesWithin | None:
        from stridedgpu.devices.cpu.compiled.index_check import compiled_index_check

        return compiled_index_check(rule)

    nbytes = rule.index.layout.element_count * rule.index.element.itemsize
    return _promoted(nbytes, lambda: _unseen, compiled) if nbytes else Promotion(0, lambda: _unseen)


def _unseen(indices: Located) -> bool:  # noqa: ARG001 - as every look is called
    """Nothing is known of the indices: NumPy looks at them all."""
    return False


@lru_cache(maxsize=1024)
def _gather(plan: GatherPlan) -> GatherLaunch:
    """The plan's loops, kept for the next call with the same plan."""

    def compiled() -> GatherMove | None:
        from stridedgpu.devices.cpu.compiled.gather import compiled_gather

        return compiled_gather(plan)

    moves = _promoted(plan.bytes_moved, lambda: _numpy_gather(plan), compiled)

    def launch(plain: Located, picked: Located, indices: Located, stream: object) -> None:
        _check_stream(stream)
        moves.chosen()(plain, picked, indices)

    return launch


def _numpy_gather(plan: GatherPlan) -> GatherMove:
    """The plan's blocks on NumPy."""
    blocks = NumpyGather(plan)
    return lambda plain, picked, indices: blocks(_bytes(plain), _bytes(picked), _bytes(indices))


@lru_cache(maxsize=256)
def _crops(plan: CropPlan) -> CropsLaunch:
    """What writes the plan's windows, kept for the next batch with the same plan."""

    def compiled() -> CropsMove | None:
        from stridedgpu.devices.cpu.compiled.crops import compiled_crops

        return compiled_crops(plan)

    moves: Promotion[CropsMove] = _promoted(plan.bytes_moved, lambda: partial(run_crops, plan), compiled)

    def launch(crops: Sequence[Crop], sources: Sequence[Located], target: Located, stream: object) -> None:
        _check_stream(stream)
        moves.chosen()(crops, sources, target)

    return launch


def _promoted(nbytes: int, plain: Callable[[], Move], compiled: Callable[[], Move | None]) -> Promotion[Move]:
    """Work done by NumPy, and by compiled loops as soon as these pay."""
    return Promotion(nbytes, plain, compiled if why_unavailable() is None else None)
