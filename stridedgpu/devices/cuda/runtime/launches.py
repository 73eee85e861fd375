"""Launches of native kernels with the arguments of their problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cuda.choice import CudaPlan
from stridedgpu.devices.cuda.crops import RECORD_BYTES, crop_records
from stridedgpu.devices.cuda.frames import PLACES, FrameChoice, FramePixelsChoice, sample_addresses, window_place
from stridedgpu.devices.cuda.plan import windows_plan
from stridedgpu.devices.cuda.resize import SAMPLE_BYTES, ResizeSample, resize_records, resize_samples
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
from stridedgpu.devices.verbose import is_verbose, with_verbose_line
from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem
from stridedgpu.problems.crop_windows import CropProblem, Crops
from stridedgpu.problems.device_plan import Problem
from stridedgpu.problems.frame_problem import FrameProblem, SamplesProblem
from stridedgpu.problems.gather_problem import GatherProblem
from stridedgpu.problems.raw_problem import RawProblem
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.problems.resize_problem import ResizeProblem, ResizeWindow

from .index_checks import INDICES
from .kernels import PreparedKernel

if TYPE_CHECKING:
    from .device import CudaDevice


def launches_of(plan: CudaPlan[Problem], gpu: CudaDevice) -> Launch:
    """A plan's kernel, compiled, as a launch with the arguments of its problem's type."""
    return _LAUNCHES[type(plan.problem)](plan, plan.problem, gpu)


def checks_indices(problem: object) -> bool:
    """True if a launch checks its indices, even if it moves nothing."""
    if not isinstance(problem, GatherProblem) or problem.scatters:
        return False
    return problem.mode == "raise" and problem.index.layout.span != 0


def _kernel(plan: CudaPlan[Problem], gpu: CudaDevice) -> PreparedKernel:
    assert plan.launch is not None, "there is something to move"
    return gpu.kernel(plan.launch)


def _relayout(plan: CudaPlan[Problem], problem: object, gpu: CudaDevice) -> Launch:  # noqa: ARG001 - as the others
    """A launch with source and target: the prepared kernel itself."""
    return _kernel(plan, gpu)


def _gather(plan: CudaPlan[Problem], problem: GatherProblem, gpu: CudaDevice) -> GatherLaunch:
    """A launch with both sides and the indices; a wrong index is reported (mode "deferred") or raised ("raise")."""
    rule = problem.rule
    if checks_indices(problem):
        return gpu.checks.gather(rule, None if plan.launch is None else gpu.kernel(plan.launch))
    kernel = _kernel(plan, gpu)
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
        kernel.set_parameters(INDICES.pack(indices.address + indices_start, report, number))
        if scatters:
            kernel(dense, dense_start, indexed, indexed_start, stream)
        else:
            kernel(indexed, indexed_start, dense, dense_start, stream)

    return launch


def _crops(plan: CudaPlan[Problem], problem: CropProblem, gpu: CudaDevice) -> CropsLaunch:
    """A launch that uploads the samples' records and writes all windows with one kernel."""
    kernel, itemsize = _kernel(plan, gpu), problem.conversion.source.itemsize
    _, _, height, width = problem.target.layout.sizes

    def launch(crops: Crops, sources: Sequence[Located], target: Located, stream: object) -> None:
        records = crop_records(crops, addresses_of(sources), (height, width), itemsize)
        gpu.records.launch(kernel, records, RECORD_BYTES, target, stream)

    return launch


def _frames(plan: CudaPlan[Problem], problem: FrameProblem, gpu: CudaDevice) -> FrameLaunch:  # noqa: ARG001 - as the others
    """A launch that writes one window from the planes of a frame."""
    kernel = _kernel(plan, gpu)
    assert isinstance(plan, (FrameChoice, FramePixelsChoice)), "the plan of a frame's problem"

    def launch(planes: Sequence[Operand], origin: tuple[int, int], target: Operand, stream: object) -> None:
        luma, place = window_place(plan, [plane.address for plane in planes], origin)
        kernel.set_parameters(place)
        buffer = planes[0].buffer
        kernel(buffer, luma - buffer.address, target.buffer, target.start_bytes, stream)

    return launch


def _samples(plan: CudaPlan[Problem], problem: SamplesProblem, gpu: CudaDevice) -> SamplesLaunch:
    """A launch that writes the planes of a frame from its colours."""
    kernel = _kernel(plan, gpu)

    def launch(colours: Sequence[Operand], planes: Sequence[Operand], stream: object) -> None:
        luma, *chroma = sample_addresses(problem, [plane.address for plane in planes])
        red, *others = (colour.address for colour in colours)
        kernel.set_parameters(PLACES.pack(*others, *chroma))
        source, target = colours[0].buffer, planes[0].buffer
        kernel(source, red - source.address, target, luma - target.address, stream)

    return launch


def _resize(plan: CudaPlan[Problem], problem: ResizeProblem, gpu: CudaDevice) -> ResizeLaunch:
    """A launch that uploads records and taps, and runs one kernel for all windows of one arithmetic.

    Where windows come with every call, each of its kernels has a plan, and tells a verbose line of its own.
    """
    itemsize = problem.conversion.source.itemsize

    def run(planned: CudaPlan[Problem], samples: Sequence[ResizeSample], target: Located, stream: object) -> None:
        records = resize_records(samples, itemsize)
        gpu.records.launch(_kernel(planned, gpu), np.frombuffer(records, np.uint8), SAMPLE_BYTES, target, stream)

    def launch(
        windows: Sequence[ResizeWindow], sources: Sequence[ResizeSource], target: Located, stream: object
    ) -> None:
        for samples in resize_samples(problem, windows, sources):
            planned = windows_plan(plan, [sample.taps for sample in samples])
            running: Callable[..., None] = run
            if is_verbose() and not plan.is_complete:
                running = with_verbose_line(planned, run, partial(lambda one: (one.kernel, one), planned))
            running(planned, samples, target, stream)

    return launch


_LAUNCHES: Final[Mapping[type, Callable[[CudaPlan[Problem], Any, CudaDevice], Launch]]] = MappingProxyType(
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
