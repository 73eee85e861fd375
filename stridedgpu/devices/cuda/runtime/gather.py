"""Gather, scatter and crops on a CUDA device."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.numpy_loops.gather import check_indices
from stridedgpu.devices.cuda.launches.crops import crops_launch, sample_record
from stridedgpu.devices.cuda.launches.gather import gather_launch
from stridedgpu.devices.cuda.launches.index_checks import (
    REPORT,
    WrongIndex,
    check_launch,
    distinct_launch,
    distinct_report_bytes,
    wrong_index,
)
from stridedgpu.devices.cuda.planning.gather import GatherFamily, GatherPlan, Mode
from stridedgpu.devices.cuda.planning.gpu import KernelLaunch
from stridedgpu.devices.gather_interface import CropsLaunch, GatherLaunch, Located
from stridedgpu.planning.crop_windows import Crop, CropPlan
from stridedgpu.planning.index_rule import IndexRule
from stridedgpu.planning.pitched_copy import Runs

from .compile import compiled_kernel
from .device import CudaBackend
from .index_errors import IndexReport, described
from .launch import PreparedKernel
from .streams import check_not_capturing, stream_handle

__all__ = ["CudaGather"]

_INDICES: Final = struct.Struct("<QQI")
"""What follows the two addresses that every launch has: those of the indices and of the report, and a number."""

_ALIGNMENT: Final = 256


class CudaGather:
    """One NVIDIA GPU, picking elements by index."""

    def __init__(self, backend: CudaBackend, number: int) -> None:
        """Nothing is compiled or allocated yet."""
        self._backend = backend
        self._number = number
        self._gathers = lru_cache(maxsize=1024)(self._make_gather)
        self._checks = lru_cache(maxsize=1024)(self._make_check)
        self._distinct = lru_cache(maxsize=1024)(self._make_distinct)
        self._crops = lru_cache(maxsize=1024)(self._make_crops)

    @property
    def widest_access(self) -> int:
        """Bytes of the widest single load or store."""
        return self._backend.widest_access

    def check_indices(self, rule: IndexRule, indices: Located, mode: Mode, stream: object) -> None:
        """In mode "raise", look at every index before anything is written, and wait for the answer.

        Where indices have to be distinct, each marks a bit of its element. Raises `DeviceError` while the stream
        records a CUDA graph, where nothing can be waited for.
        """
        if rule.index.layout.span == 0 or mode != "raise":
            return
        check_not_capturing(stream_handle(stream, self._number), 'a gather with mode="raise"')
        found = self._reported(self._checks(rule), REPORT.size, indices, stream)
        if found is not None:
            raise IndexError(described(rule, found))
        if rule.axis_pitches and self._reported(self._distinct(rule), distinct_report_bytes(rule), indices, stream):
            self._raise_for_doubles(rule, indices, stream)

    def prepare_gather(self, plan: GatherPlan) -> GatherLaunch:
        """A plan with its kernel compiled and its parameters packed."""
        return self._gathers(plan)

    def prepare_crops(self, plan: CropPlan) -> CropsLaunch:
        """A plan with its kernel compiled, that sends the samples' records and writes every window in one launch."""
        return self._crops(plan)

    def _reported(self, check: PreparedKernel, nbytes: int, indices: Located, stream: object) -> WrongIndex | None:
        """What a check puts into a report of so many bytes; the host waits for it."""
        memory = self._backend.allocate(nbytes, _ALIGNMENT, stream)
        report = IndexReport(memory, self._number)
        report.clear(stream)
        check(*indices, memory, 0, stream)
        return wrong_index(report.read(stream))

    def _raise_for_doubles(self, rule: IndexRule, indices: Located, stream: object) -> None:
        """Raise `IndexError` for the two indices that the host finds to name one element, as on the CPU."""
        nbytes = rule.index.layout.span * rule.index.element.itemsize
        held = Buffer.of(np.empty(nbytes, np.uint8))
        self._backend.copy(*indices, held, 0, Runs(nbytes), stream)
        check_indices(rule, held.bytes, in_range=True, mode="raise")

    def _make_gather(self, plan: GatherPlan) -> GatherLaunch:
        """Compile and pack."""
        if plan.family is GatherFamily.EMPTY:
            return self._run_nothing
        prepared = _PreparedGather(*self._compiled(gather_launch(plan, self._backend.properties)))
        problem = plan.problem
        axes = tuple((entry.axis, entry.size) for entry in problem.indexed)
        rule = IndexRule(problem.index, axes, has_tuples=len(axes) > 1)
        defers = plan.mode == "deferred"

        def launch(plain: Located, picked: Located, indices: Located, stream: object) -> None:
            errors = self._backend.index_errors if defers else None
            report, number = (errors.address, errors.launched(rule)) if errors is not None else (0, 0)
            buffer, start = indices
            prepared.with_indices(buffer.address + start, report, number)
            read, written = (plain, picked) if problem.scatters else (picked, plain)
            prepared(*read, *written, stream)

        return launch

    def _make_check(self, rule: IndexRule) -> PreparedKernel:
        return PreparedKernel(*self._compiled(check_launch(rule)))

    def _make_distinct(self, rule: IndexRule) -> PreparedKernel:
        return PreparedKernel(*self._compiled(distinct_launch(rule)))

    def _make_crops(self, plan: CropPlan) -> CropsLaunch:
        """Compile and pack."""
        if plan.target.layout.element_count == 0:
            return self._run_nothing
        prepared = PreparedKernel(*self._compiled(crops_launch(plan, self._backend.properties)))
        itemsize = plan.conversion.source.itemsize
        _, _, *size = plan.target.layout.sizes
        window = (size[0], size[1])

        def launch(crops: Sequence[Crop], sources: Sequence[Located], target: Located, stream: object) -> None:
            records = b"".join(
                sample_record(crop, buffer.address + start, window, itemsize)
                for crop, (buffer, start) in zip(crops, sources, strict=True)
            )
            there = self._backend.allocate(len(records), _ALIGNMENT, stream)
            self._backend.copy(Buffer.of(records), 0, there, 0, Runs(len(records)), stream)
            prepared(there, 0, *target, stream)

        return launch

    def _compiled(self, launch: KernelLaunch) -> tuple[KernelLaunch, Any, int, tuple[Buffer, ...]]:
        """What a prepared kernel is made of."""
        function = compiled_kernel(launch.sources, launch.name, self._number, launch.shared_bytes)
        return launch, function, self._number, tuple(self._backend.uploaded(held) for _, held in launch.tables)

    def _run_nothing(self, *arguments: object) -> None:
        """A plan without elements: only the stream is checked."""
        stream_handle(arguments[-1], self._number)


class _PreparedGather(PreparedKernel):
    """A launch that has the indices' address besides those of source and target."""

    def with_indices(self, address: int, report: int, number: int) -> None:
        """Say where the indices and the report are, for this thread's next launch."""
        try:
            block, _, _ = self._threads.block
        except AttributeError:
            block, _, _ = self._block_of_thread()
        _INDICES.pack_into(block, 16, address, report, number)
