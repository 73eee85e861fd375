"""Launches of compiled kernels with the arguments of their problems, and the checks of indices."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.numpy_loops.gather import check_indices
from stridedgpu.devices.cuda.crops import crop_records
from stridedgpu.devices.cuda.frames import PLACES, FrameChoice, FramePixelsChoice, sample_addresses, window_place
from stridedgpu.devices.cuda.gather import REPORT, check_launch, distinct_launch, distinct_report_bytes, wrong_index
from stridedgpu.devices.cuda.gpu import KernelLaunch
from stridedgpu.devices.cuda.plan import CudaPlan, windows_plan
from stridedgpu.devices.cuda.resize import ResizeSample, resize_records, resize_samples
from stridedgpu.devices.interface import (
    CropsLaunch,
    FrameLaunch,
    GatherLaunch,
    Launch,
    Located,
    ResizeLaunch,
    ResizeSource,
    SamplesLaunch,
    addresses_of,
)
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.verbose import is_verbose, told
from stridedgpu.planning.channel_matrix_problem import ChannelMatrixProblem
from stridedgpu.planning.crop_windows import CropProblem, Crops
from stridedgpu.planning.frame_problem import FrameProblem, SamplesProblem
from stridedgpu.planning.gather_problem import GatherProblem
from stridedgpu.planning.index_rule import IndexRule
from stridedgpu.planning.pitched_copy import Runs
from stridedgpu.planning.raw_problem import RawProblem
from stridedgpu.planning.relayout_problem import RelayoutProblem
from stridedgpu.planning.resize_problem import ResizeProblem, ResizeWindow

from .index_errors import DeferredIndexErrors, IndexReport, ThreadReport, described
from .kernels import PreparedKernel
from .streams import check_not_capturing, stream_handle
from .transfer import Records

__all__ = ["IndexChecks", "checks_indices", "launches_of"]

_INDICES: Final = struct.Struct("<QQI")
"""The parameters after the source and target addresses: the addresses of indices and report, and a number."""

_ALIGNMENT: Final = 256

_CHECKED: Final = 'a gather with mode="raise"'


class _Gpu(Protocol):
    """The part of `CudaDevice` that launches use."""

    @property
    def index_errors(self) -> DeferredIndexErrors: ...
    def compiled(self, launch: KernelLaunch) -> tuple[KernelLaunch, Any, int, tuple[Buffer, ...]]: ...
    def kernel(self, launch: KernelLaunch) -> PreparedKernel: ...
    @property
    def checks(self) -> IndexChecks: ...
    @property
    def records(self) -> Records: ...
    def allocate(self, nbytes: int, alignment: int, stream: object = None) -> Buffer: ...
    def copy(
        self, source: Buffer, source_start: int, target: Buffer, target_start: int, runs: Runs, stream: object
    ) -> None: ...


def launches_of(plan: CudaPlan, gpu: _Gpu) -> Launch:
    """A plan's kernel, compiled, as a launch with the arguments of its problem's type."""
    return _LAUNCHES[type(plan.problem)](plan, gpu)


def checks_indices(problem: object) -> bool:
    """True if a launch checks its indices, even if it moves nothing."""
    return (
        isinstance(problem, GatherProblem)
        and problem.mode == "raise"
        and not problem.scatters
        and problem.index.layout.span != 0
    )


def _compiled(plan: CudaPlan, gpu: _Gpu) -> tuple[KernelLaunch, Any, int, tuple[Buffer, ...]]:
    """The parts of the prepared kernel of a plan with one launch."""
    assert plan.launch is not None, "there is something to move"
    return gpu.compiled(plan.launch)


def _relayout(plan: CudaPlan, gpu: _Gpu) -> Launch:
    """A launch with source and target: the prepared kernel itself."""
    return PreparedKernel(*_compiled(plan, gpu))


def _gather(plan: CudaPlan, gpu: _Gpu) -> GatherLaunch:
    """A launch with both sides and the indices; a wrong index is reported (mode "deferred") or raised ("raise")."""
    problem = plan.problem
    prepared = None if plan.launch is None else _PreparedGather(*_compiled(plan, gpu))
    rule = problem.rule
    if checks_indices(problem):
        return gpu.checks.gather(rule, prepared)
    assert prepared is not None, "there is something to move"
    defers, scatters = problem.mode == "deferred", problem.scatters

    def launch(
        dense: Buffer,
        dense_start: int,
        indexed: Buffer,
        indexed_start: int,
        indices: Buffer,
        indices_start: int,
        stream: object,
    ) -> None:
        errors = gpu.index_errors if defers else None
        report, number = (errors.address, errors.launched(rule)) if errors is not None else (0, 0)
        prepared.with_indices(indices.address + indices_start, report, number)
        if scatters:
            prepared(dense, dense_start, indexed, indexed_start, stream)
        else:
            prepared(indexed, indexed_start, dense, dense_start, stream)

    return launch


def _crops(plan: CudaPlan, gpu: _Gpu) -> CropsLaunch:
    """A launch that uploads the samples' records and writes all windows with one kernel."""
    prepared, problem = PreparedKernel(*_compiled(plan, gpu)), plan.problem
    itemsize = problem.conversion.source.itemsize
    _, _, *size = problem.target.layout.sizes
    window = (size[0], size[1])

    def launch(crops: Crops, sources: Sequence[Located], target: Located, stream: object) -> None:
        records = crop_records(crops, addresses_of(sources), window, itemsize)
        prepared(gpu.records.sent(records, stream), 0, *target, stream)

    return launch


def _frames(plan: CudaPlan, gpu: _Gpu) -> FrameLaunch:
    """A launch that writes one window from the planes of a frame."""
    prepared, choice = _PreparedFrames(*_compiled(plan, gpu)), plan.choice
    assert isinstance(choice, (FrameChoice, FramePixelsChoice)), "the choice of a frame's problem"

    def launch(planes: Sequence[Operand], origin: tuple[int, int], target: Operand, stream: object) -> None:
        luma, place = window_place(choice, [plane.address for plane in planes], origin)
        prepared.with_place(place)
        buffer = planes[0].buffer
        prepared(buffer, luma - buffer.address, target.buffer, target.start_bytes, stream)

    return launch


def _samples(plan: CudaPlan, gpu: _Gpu) -> SamplesLaunch:
    """A launch that writes the planes of a frame from its colours."""
    prepared, problem = _PreparedFrames(*_compiled(plan, gpu)), plan.problem

    def launch(colours: Sequence[Operand], planes: Sequence[Operand], stream: object) -> None:
        luma, *chroma = sample_addresses(problem, [plane.address for plane in planes])
        red, *others = (colour.address for colour in colours)
        prepared.with_place(PLACES.pack(*others, *chroma))
        source, target = colours[0].buffer, planes[0].buffer
        prepared(source, red - source.address, target, luma - target.address, stream)

    return launch


def _resize(plan: CudaPlan, gpu: _Gpu) -> ResizeLaunch:
    """A launch that uploads records and taps, and runs one kernel for all windows of one arithmetic.

    Where windows come with every call, each of its kernels has a plan, and tells a verbose line of its own.
    """
    problem = plan.problem
    itemsize = problem.conversion.source.itemsize

    def run(planned: CudaPlan, samples: Sequence[ResizeSample], target: Located, stream: object) -> None:
        assert planned.launch is not None, "plans of windows are complete"
        kernel = gpu.kernel(planned.launch)
        records = resize_records(samples, itemsize)
        kernel(gpu.records.sent(np.frombuffer(records, np.uint8), stream), 0, *target, stream)

    def launch(
        windows: Sequence[ResizeWindow], sources: Sequence[ResizeSource], target: Located, stream: object
    ) -> None:
        for samples in resize_samples(problem, windows, sources):
            planned = windows_plan(plan, [sample.taps for sample in samples])
            tells = is_verbose() and not plan.is_complete
            running = told(planned, run, partial(_itself, planned)) if tells else run
            running(planned, samples, target, stream)

    return launch


def _itself(plan: CudaPlan) -> tuple[str, CudaPlan]:
    """What runs of a plan with one kernel, for the verbose line."""
    return plan.kernel, plan


_LAUNCHES: Final[Mapping[type, Callable[[CudaPlan, _Gpu], Launch]]] = MappingProxyType(
    {
        RelayoutProblem: _relayout,
        ChannelMatrixProblem: _relayout,
        RawProblem: _relayout,
        GatherProblem: _gather,
        CropProblem: _crops,
        FrameProblem: _frames,
        SamplesProblem: _samples,
        ResizeProblem: _resize,
    }
)
"""The launch of a compiled kernel, by the type of the problem."""


class IndexChecks:
    """Checks indices on one GPU before anything is written; the host waits for the result.

    Each host thread has its own report, which is all zero between calls. A call waits before it returns, so the kernels
    of the next call come after it on any stream.
    """

    def __init__(self, gpu: _Gpu, number: int) -> None:
        """Store the device; nothing is compiled or allocated yet."""
        self._gpu = gpu
        self._number = number
        self._threads = threading.local()
        self._in_range = lru_cache(maxsize=1024)(self._make_in_range)
        self._distinct = lru_cache(maxsize=1024)(self._make_distinct)

    def gather(self, rule: IndexRule, gather: _PreparedGather | None) -> GatherLaunch:
        """A gather that checks its indices, or only the check if there is nothing to move.

        The check reports the first wrong index. The gather stores nothing if there is a report. The host waits once,
        for the copy of the report.
        """
        check = self._in_range(rule)

        def launch(
            dense: Buffer,
            dense_start: int,
            indexed: Buffer,
            indexed_start: int,
            indices: Buffer,
            indices_start: int,
            stream: object,
        ) -> None:
            handle = stream_handle(stream, self._number)
            check_not_capturing(handle, _CHECKED)
            report = self._report()
            with report:
                check(indices, indices_start, report.memory, 0, handle)
                if gather is not None:
                    gather.with_indices(indices.address + indices_start, report.memory.address, 0)
                    gather(indexed, indexed_start, dense, dense_start, handle)
                found = report.found(handle)
            if found is not None:
                raise IndexError(described(rule, found))

        return launch

    def check(self, rule: IndexRule, indices: Located, stream: object) -> None:
        """Raise `IndexError` for the first index that breaks the rule."""
        self.gather(rule, None)(*indices, *indices, *indices, stream)
        if rule.axis_pitches and self._has_doubles(rule, indices, stream):
            self._raise_for_doubles(rule, indices, stream)

    def _report(self) -> ThreadReport:
        """This thread's report, or a new one after a failure."""
        report: ThreadReport | None = getattr(self._threads, "report", None)
        if report is None or report.is_unknown:
            memory = self._gpu.allocate(REPORT.size, _ALIGNMENT)
            report = self._threads.report = ThreadReport(memory, self._number)
        return report

    def _has_doubles(self, rule: IndexRule, indices: Located, stream: object) -> bool:
        """True if two indices select one element; the bits that they set follow the report."""
        memory = self._gpu.allocate(distinct_report_bytes(rule), _ALIGNMENT, stream)
        report = IndexReport(memory, self._number)
        report.clear(stream)
        self._distinct(rule)(*indices, memory, 0, stream)
        return wrong_index(report.read(stream)) is not None

    def _raise_for_doubles(self, rule: IndexRule, indices: Located, stream: object) -> None:
        """Find the two indices that select one element on the host, as on the CPU, and raise `IndexError`."""
        nbytes = rule.index.layout.span * rule.index.element.itemsize
        held = Buffer.of(np.empty(nbytes, np.uint8))
        self._gpu.copy(*indices, held, 0, Runs(nbytes), stream)
        check_indices(rule, held.bytes)

    def _make_in_range(self, rule: IndexRule) -> PreparedKernel:
        return PreparedKernel(*self._gpu.compiled(check_launch(rule)))

    def _make_distinct(self, rule: IndexRule) -> PreparedKernel:
        return PreparedKernel(*self._gpu.compiled(distinct_launch(rule)))


class _PreparedGather(PreparedKernel):
    """A prepared kernel with the addresses of indices and report besides those of source and target."""

    def with_indices(self, address: int, report: int, number: int) -> None:
        """Set the addresses of the indices and the report for this thread's next launch."""
        try:
            block, _, _ = self._threads.block
        except AttributeError:
            block, _, _ = self._block_of_thread()
        _INDICES.pack_into(block, 16, address, report, number)


class _PreparedFrames(PreparedKernel):
    """A prepared kernel with the addresses of other planes besides those of source and target."""

    def with_place(self, place: bytes) -> None:
        """Set what follows the addresses of source and target, for this thread's next launch."""
        try:
            block, _, _ = self._threads.block
        except AttributeError:
            block, _, _ = self._block_of_thread()
        block[16 : 16 + len(place)] = place
