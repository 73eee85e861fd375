"""The CPU device: aligned memory, and plans run by compiled loops or by NumPy."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from stridedgpu.devices.buffer import Buffer, address_of
from stridedgpu.devices.cpu.compiled.jit import why_unavailable
from stridedgpu.devices.cpu.numpy_loops.relayout import NumpyRelayout
from stridedgpu.devices.cuda.planning.relayout import Plan
from stridedgpu.devices.interface import DeviceInfo, Launch, Move
from stridedgpu.values.errors import DeviceError

from .promotion import Promotion
from .thread_count import usable_cores

__all__ = ["CpuBackend"]

_LEAST_ALIGNMENT: Final = 64
"""Memory of our own begins with a cache line, which compiled loops can write past the caches."""


class CpuBackend:
    """The processor that this program runs on."""

    name = "cpu"
    widest_access = 16

    def allocate(self, nbytes: int, alignment: int, stream: object = None) -> Buffer:  # noqa: ARG002 - it has none
        """New bytes at a multiple of `alignment`; raises `DeviceError` when there are not so many."""
        step = max(alignment, _LEAST_ALIGNMENT)
        try:
            memory = np.empty(nbytes + step, np.uint8)
        except (MemoryError, ValueError) as error:
            raise DeviceError(f"The CPU has no {nbytes} bytes of memory left to allocate.") from error
        base = address_of(memory)
        return Buffer(base + -base % step, nbytes, owner=memory, alignment=alignment, owned=True)

    def prepare(self, plan: Plan) -> Launch:
        """A plan with its loops chosen."""
        return _prepared(plan)

    def synchronize(self) -> None:
        """Nothing to wait for: every call returns when its work is done."""

    @staticmethod
    def describe() -> DeviceInfo:
        """What this processor is."""
        missing = why_unavailable()
        loops = "compiled loops" if missing is None else f"NumPy {np.__version__}"
        return DeviceInfo("cpu", available=True, description=f"{usable_cores()} cores, {loops}", reason=missing)


@lru_cache(maxsize=1024)
def _prepared(plan: Plan) -> Launch:
    """The plan's loops, kept for the next call with the same plan."""
    compiles = why_unavailable() is None
    moves: Promotion[Move] = Promotion(
        plan.bytes_moved, lambda: _numpy_move(plan), (lambda: _compiled_move(plan)) if compiles else None
    )

    def launch(source: Buffer, source_start: int, target: Buffer, target_start: int, stream: object) -> None:
        if stream is not None:
            raise DeviceError(f"stream={stream!r} has no meaning on the CPU, where calls return when they are done.")
        move = moves.work if moves.settled else moves.chosen()
        move(source, source_start, target, target_start)

    return launch


def _compiled_move(plan: Plan) -> Move | None:
    """The plan's loops compiled, if they can be; only programs that come here load what compiles."""
    from stridedgpu.devices.cpu.compiled.relayout_move import compiled_move

    return compiled_move(plan)


def _numpy_move(plan: Plan) -> Move:
    """The plan's loops on NumPy."""
    loops = NumpyRelayout(plan)

    def move(source: Buffer, source_start: int, target: Buffer, target_start: int) -> None:
        loops(source.bytes[source_start:], target.bytes[target_start:])

    return move
