"""The CPU device: aligned memory, and plans run by NumPy."""

from __future__ import annotations

import os
from functools import lru_cache

import numpy as np

from stridedgpu.buffer import Buffer
from stridedgpu.errors import DeviceError
from stridedgpu.planning.plan import Plan

from .interface import DeviceInfo, Launch
from .numpy_relayout import NumpyRelayout

__all__ = ["CpuBackend"]


class CpuBackend:
    """The processor that this program runs on."""

    name = "cpu"
    widest_access = 16

    def allocate(self, nbytes: int, alignment: int, stream: object = None) -> Buffer:  # noqa: ARG002 - it has none
        """New bytes at a multiple of `alignment`; raises `DeviceError` when there are not so many."""
        try:
            memory = np.empty(nbytes + alignment, np.uint8)
        except (MemoryError, ValueError) as error:
            raise DeviceError(f"The CPU has no {nbytes} bytes of memory left to allocate.") from error
        start = -memory.ctypes.data % alignment
        return Buffer(memory.ctypes.data + start, nbytes, owner=memory, alignment=alignment, owned=True)

    def prepare(self, plan: Plan) -> Launch:
        """A plan with its loops chosen."""
        return _prepared(plan)

    def synchronize(self) -> None:
        """Nothing to wait for: every call returns when its work is done."""

    @staticmethod
    def describe() -> DeviceInfo:
        """What this processor is."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return DeviceInfo("cpu", available=True, description=f"{cores} cores, NumPy {np.__version__}")


@lru_cache(maxsize=1024)
def _prepared(plan: Plan) -> Launch:
    """The plan's loops, kept for the next call with the same plan."""
    move = NumpyRelayout(plan)

    def launch(source: Buffer, source_start: int, target: Buffer, target_start: int, stream: object) -> None:
        if stream is not None:
            raise DeviceError(f"stream={stream!r} has no meaning on the CPU, where calls return when they are done.")
        move(source.bytes[source_start:], target.bytes[target_start:])

    return launch
