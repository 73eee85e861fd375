"""What turns compiled kernels into launches with their problems' arguments, and the checks of indices."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.numpy_loops.gather import check_indices
from stridedgpu.devices.cuda.launches.crops import sample_record
from stridedgpu.devices.cuda.launches.frames import PLACE, window_place
from stridedgpu.devices.cuda.launches.index_checks import (
    REPORT,
    WrongIndex,
    check_launch,
    distinct_launch,
    distinct_report_bytes,
    wrong_index,
)
from stridedgpu.devices.cuda.launches.resize import resize_launch, resize_records, resize_samples
from stridedgpu.devices.cuda.plan import CudaPlan
from stridedgpu.devices.cuda.planning.gpu import KernelLaunch
from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.interface import (
    CropsLaunch,
    FrameLaunch,
    GatherLaunch,
    Launch,
    Located,
    ResizeLaunch,
    ResizeSource,
)
from stridedgpu.devices.operand import Operand
from stridedgpu.planning.channel_matrix_problem import ChannelMatrixProblem
from stridedgpu.planning.crop_windows import Crop, CropProblem
from stridedgpu.planning.frame_problem import FrameProblem
from stridedgpu.planning.gather_problem import GatherProblem
from stridedgpu.planning.index_rule import IndexRule
from stridedgpu.planning.pitched_copy import Runs
from stridedgpu.planning.raw_problem import RawProblem
from stridedgpu.planning.relayout_problem import Problem
from stridedgpu.planning.resize_problem import ResizeProblem, ResizeWindow

from .index_errors import DeferredIndexErrors, IndexReport, described
from .launch import PreparedKernel
from .streams import check_not_capturing, stream_handle

__all__ = ["IndexChecks", "launches_of"]

_INDICES: Final = struct.Struct("<QQI")
"""What follows the two addresses that every launch has: those of the indices and of the report, and a number."""

_ALIGNMENT: Final = 256


class _Gpu(Protocol):
    """What launches need of their device."""

    @property
    def index_errors(self) -> DeferredIndexErrors: ...
    def compiled(self, launch: KernelLaunch) -> tuple[KernelLaunch, Any, int, tuple[Buffer, ...]]: ...
    def kernel(self, launch: KernelLaunch) -> PreparedKernel: ...
    def allocate(self, nbytes: int, alignment: int, stream: object = None) -> Buffer: ...
    def copy(
        self, source: Buffer, source_start: int, target: Buffer, target_start: int, runs: Runs, stream: object
    ) -> None: ...


def launches_of(plan: CudaPlan, gpu: _Gpu) -> Launch:
    """A plan's kernel, compiled, as a launch with the arguments of its problem's type."""
    return _LAUNCHES[type(plan.problem)](plan, gpu)


def _compiled(plan: CudaPlan, gpu: _Gpu) -> tuple[KernelLaunch, Any, int, tuple[Buffer, ...]]:
    """What the prepared kernel of a plan with one launch is made of."""
    assert plan.launch is not None, "there is something to move"
    return gpu.compiled(plan.launch)


def _relayout(plan: CudaPlan, gpu: _Gpu) -> Launch:
    """Source and target, as a prepared kernel takes them."""
    return PreparedKernel(*_compiled(plan, gpu))


def _gather(plan: CudaPlan, gpu: _Gpu) -> GatherLaunch:
    """Both sides and the indices; a wrong index of mode "deferred" is reported."""
    prepared, problem = _PreparedGather(*_compiled(plan, gpu)), plan.problem
    axes = tuple((entry.axis, entry.size) for entry in problem.indexed_axes)
    rule = IndexRule(problem.index, axes, has_tuples=problem.has_tuples)
    defers, scatters = problem.mode == "deferred", problem.scatters

    def launch(dense: Located, indexed: Located, indices: Located, stream: object) -> None:
        errors = gpu.index_errors if defers else None
        report, number = (errors.address, errors.launched(rule)) if errors is not None else (0, 0)
        buffer, start = indices
        prepared.with_indices(buffer.address + start, report, number)
        read, written = (dense, indexed) if scatters else (indexed, dense)
        prepared(*read, *written, stream)

    return launch


def _crops(plan: CudaPlan, gpu: _Gpu) -> CropsLaunch:
    """Sends the samples' records, and writes every window in one launch."""
    prepared, problem = PreparedKernel(*_compiled(plan, gpu)), plan.problem
    itemsize = problem.conversion.source.itemsize
    _, _, *size = problem.target.layout.sizes
    window = (size[0], size[1])

    def launch(crops: Sequence[Crop], sources: Sequence[Located], target: Located, stream: object) -> None:
        records = b"".join(
            sample_record(crop, buffer.address + start, window, itemsize)
            for crop, (buffer, start) in zip(crops, sources, strict=True)
        )
        there = gpu.allocate(len(records), _ALIGNMENT, stream)
        gpu.copy(Buffer.of(records), 0, there, 0, Runs(len(records)), stream)
        prepared(there, 0, *target, stream)

    return launch


def _frames(plan: CudaPlan, gpu: _Gpu) -> FrameLaunch:
    """A window is one launch over the planes where they lie."""
    prepared, problem = _PreparedFrames(*_compiled(plan, gpu)), plan.problem

    def launch(planes: Sequence[Operand], origin: tuple[int, int], target: Operand, stream: object) -> None:
        luma, place = window_place(problem, [plane.address for plane in planes], origin)
        prepared.with_place(place)
        buffer = planes[0].buffer
        prepared(buffer, luma - buffer.address, target.buffer, target.start_bytes, stream)

    return launch


def _resize(plan: CudaPlan, gpu: _Gpu) -> ResizeLaunch:
    """Sends the samples' records and taps, and writes all windows that are summed alike in one launch."""
    choice: Any = plan.choice
    problem, known = plan.problem, plan.launch
    itemsize = problem.conversion.source.itemsize

    def launch(
        windows: Sequence[ResizeWindow], sources: Sequence[ResizeSource], target: Located, stream: object
    ) -> None:
        # Frames have become images in memory, as `CudaDevice.resizes_frames` says.
        located = [source for source in sources if not isinstance(source, FrameOperand)]
        for samples in resize_samples(problem, windows, located):
            kernel = gpu.kernel(known or resize_launch(choice, [sample.taps for sample in samples]))
            records = resize_records(samples, itemsize)
            there = gpu.allocate(len(records), _ALIGNMENT, stream)
            gpu.copy(Buffer.of(records), 0, there, 0, Runs(len(records)), stream)
            kernel(there, 0, *target, stream)

    return launch


_LAUNCHES: Final[Mapping[type, Callable[[CudaPlan, _Gpu], Launch]]] = MappingProxyType(
    {
        Problem: _relayout,
        ChannelMatrixProblem: _relayout,
        RawProblem: _relayout,
        GatherProblem: _gather,
        CropProblem: _crops,
        FrameProblem: _frames,
        ResizeProblem: _resize,
    }
)
"""How a compiled kernel is launched, by the type of the problem."""


class IndexChecks:
    """Looks at the indices of one GPU before anything is written; the host waits for the answer."""

    def __init__(self, gpu: _Gpu, number: int) -> None:
        """Nothing is compiled or allocated yet."""
        self._gpu = gpu
        self._number = number
        self._in_range = lru_cache(maxsize=1024)(self._make_in_range)
        self._distinct = lru_cache(maxsize=1024)(self._make_distinct)

    def check(self, rule: IndexRule, indices: Located, stream: object) -> None:
        """Raise `IndexError` for the first index that the rule refuses."""
        check_not_capturing(stream_handle(stream, self._number), 'a gather with mode="raise"')
        found = self._reported(self._in_range(rule), REPORT.size, indices, stream)
        if found is not None:
            raise IndexError(described(rule, found))
        if rule.axis_pitches and self._reported(self._distinct(rule), distinct_report_bytes(rule), indices, stream):
            self._raise_for_doubles(rule, indices, stream)

    def _reported(self, check: PreparedKernel, nbytes: int, indices: Located, stream: object) -> WrongIndex | None:
        """What a check puts into a report of so many bytes."""
        memory = self._gpu.allocate(nbytes, _ALIGNMENT, stream)
        report = IndexReport(memory, self._number)
        report.clear(stream)
        check(*indices, memory, 0, stream)
        return wrong_index(report.read(stream))

    def _raise_for_doubles(self, rule: IndexRule, indices: Located, stream: object) -> None:
        """Raise `IndexError` for the two indices that the host finds to name one element, as on the CPU."""
        nbytes = rule.index.layout.span * rule.index.element.itemsize
        held = Buffer.of(np.empty(nbytes, np.uint8))
        self._gpu.copy(*indices, held, 0, Runs(nbytes), stream)
        check_indices(rule, held.bytes, in_range=True, mode="raise")

    def _make_in_range(self, rule: IndexRule) -> PreparedKernel:
        return PreparedKernel(*self._gpu.compiled(check_launch(rule)))

    def _make_distinct(self, rule: IndexRule) -> PreparedKernel:
        return PreparedKernel(*self._gpu.compiled(distinct_launch(rule)))


class _PreparedGather(PreparedKernel):
    """A launch that has the indices' address besides those of source and target."""

    def with_indices(self, address: int, report: int, number: int) -> None:
        """Say where the indices and the report are, for this thread's next launch."""
        try:
            block, _, _ = self._threads.block
        except AttributeError:
            block, _, _ = self._block_of_thread()
        _INDICES.pack_into(block, 16, address, report, number)


class _PreparedFrames(PreparedKernel):
    """A launch that has the addresses of chroma besides those of luma and target."""

    def with_place(self, place: bytes) -> None:
        """Say where chroma is, and where in it the window begins, for this thread's next launch."""
        try:
            block, _, _ = self._threads.block
        except AttributeError:
            block, _, _ = self._block_of_thread()
        block[16 : 16 + PLACE.size] = place
