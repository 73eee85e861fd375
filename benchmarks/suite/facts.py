"""Facts of a workload that depend on no machine: what the planner decides for a GPU, and each kernel's launch.

Nothing is allocated: the sizes are those of a GPU's memory. A change that makes a fast path slow shows here, without a
timer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from stridedgpu.devices.cuda.choice import CudaPlan
from stridedgpu.devices.cuda.gather import check_launch
from stridedgpu.devices.cuda.gpu import REFERENCE_GPU, GpuProperties, KernelLaunch
from stridedgpu.devices.cuda.plan import GpuPlanner
from stridedgpu.operations.channel_blocks import ordered_layouts, parse_order, parts
from stridedgpu.operations.options import DEFAULT_ALIGNMENT
from stridedgpu.problems.crop_windows import CropProblem
from stridedgpu.problems.gather_problem import GatherProblem, gather_problem
from stridedgpu.problems.index_rule import IndexRule
from stridedgpu.problems.relayout_problem import RelayoutProblem, relayout_problem
from stridedgpu.values.axis_labels import inferred_labels
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .workloads import UNWAITED_MODES, Crops, Embed, Relayout, Workload

__all__ = ["Step", "facts_of", "gathers_of", "steps_of"]

_DEVICE: Final = "cuda:0"


@dataclass(frozen=True, slots=True)
class Step:
    """One launch of a workload: the plan that it carries out, in words, and the kernel."""

    kernel: str
    bytes_moved: int
    load_bytes: int
    store_bytes: int
    index_bits: int
    launch: KernelLaunch

    @classmethod
    def of(cls, plan: CudaPlan[Any]) -> Step:
        """A plan's step, as the plan says it."""
        launch = plan.launch
        assert launch is not None, "no workload is empty"
        return cls(plan.kernel, plan.bytes_moved, plan.load.nbytes, plan.store.nbytes, plan.index_bits, launch)

    @property
    def facts(self) -> dict[str, Any]:
        """Family, bytes, widths, index width, kernel and grid, as JSON has them."""
        return {
            "plan": self.kernel,
            "bytes_moved": self.bytes_moved,
            "load_bytes": self.load_bytes,
            "store_bytes": self.store_bytes,
            "index_bits": self.index_bits,
            "kernel": self.launch.name,
            "grid": list(self.launch.grid),
            "block": list(self.launch.block),
            "shared_bytes": self.launch.shared_bytes,
        }


def facts_of(workload: Workload) -> dict[str, Any]:
    """The facts of each launch."""
    return {"launches": [step.facts for step in steps_of(workload)]}


def steps_of(workload: Workload, gpu: GpuProperties = REFERENCE_GPU) -> Iterator[Step]:
    """Every launch of one call on a GPU, in order."""
    planner = GpuPlanner(_DEVICE, gpu)
    if isinstance(workload, Embed):
        yield from _picks(workload, planner)
    elif isinstance(workload, Crops):
        yield Step.of(planner.plan(_crops(workload)))
    else:
        for problem in _moves(workload):
            yield Step.of(planner.plan(problem))


def _moves(workload: Relayout) -> Iterator[RelayoutProblem]:
    sizes = workload.sizes["gpu"]
    source_type, target_type = element_type(workload.source_type), element_type(workload.target_type)
    letters = parse_order(workload.target_order).letters
    labels = inferred_labels(None, len(sizes), letters)
    channel_axis = labels.index("C") if "C" in labels else None
    pitch = None
    if workload.extra_row_bytes:
        row = sizes[-1] * (sizes[1] if workload.source_order.endswith("C") else 1) * source_type.itemsize
        pitch = row + workload.extra_row_bytes
    stored = (1, sizes[1], 1, 1) if workload.broadcast else sizes
    visible, held = ordered_layouts(stored, workload.source_order, labels, source_type.itemsize, pitch)
    source_bytes = held.span * source_type.itemsize
    layout = visible.sliced((..., *workload.window)) if workload.window else visible
    layout = layout.broadcast_to(sizes) if workload.broadcast else layout
    target, allocated = ordered_layouts(layout.sizes, workload.target_order, labels, target_type.itemsize, None)
    made = conversion(
        source_type,
        target_type,
        scale=workload.scale,
        bias=workload.bias,
        source_channels=None if channel_axis is None else layout.sizes[channel_axis],
    )
    order = parse_order(workload.target_order)
    owned = not workload.window and not workload.broadcast
    source = TensorSpec.of(
        layout, source_type, base_alignment=DEFAULT_ALIGNMENT, buffer_bytes=source_bytes, owns_padding=owned
    )
    target_bytes = allocated.span * target_type.itemsize
    if order.multiple == 1 or channel_axis is None:
        into = TensorSpec.of(
            target, target_type, base_alignment=DEFAULT_ALIGNMENT, buffer_bytes=target_bytes, owns_padding=True
        )
        yield relayout_problem(source, into, made, channel_axis)
        return
    for part in parts(layout, target, made, channel_axis, order):
        read = TensorSpec.of(part.source, source_type, base_alignment=DEFAULT_ALIGNMENT, buffer_bytes=source_bytes)
        into = TensorSpec.of(part.target, target_type, base_alignment=DEFAULT_ALIGNMENT, buffer_bytes=target_bytes)
        yield relayout_problem(read, into, part.conversion, part.channel_axis, part.filler)


def _picks(workload: Embed, planner: GpuPlanner) -> Iterator[Step]:
    """The look at the indices, then the gather."""
    problem = _gather(workload)
    index = problem.index
    check = check_launch(IndexRule(index, ((0, workload.sizes["gpu"][0]),)))
    nbytes = index.layout.span * index.element.itemsize
    yield Step("check_indices", nbytes, index.element.itemsize, 0, 32, check)
    yield Step.of(planner.plan(problem))


def gathers_of(workload: Embed, gpu: GpuProperties = REFERENCE_GPU) -> dict[str, Step]:
    """The launch of each mode that waits for no check, by what follows the workload's name in `kernels_alone.py`."""
    planner, problem = GpuPlanner(_DEVICE, gpu), _gather(workload)
    return {f", {mode}": Step.of(planner.plan(replace(problem, mode=mode))) for mode in UNWAITED_MODES}


def _gather(workload: Embed) -> GatherProblem:
    rows, width = workload.sizes["gpu"]
    data, index = _packed(Layout((rows, width // 4)), "float32"), _packed(Layout((rows,)), workload.index_type)
    return gather_problem(data, index, data, 0)


def _crops(workload: Crops) -> CropProblem:
    *frames, count, side = workload.sizes["gpu"]
    channels = frames[1]
    made = conversion(
        element_type("uint8"),
        element_type(workload.target_type),
        scale=workload.scale,
        bias=workload.bias,
        source_channels=channels,
    )
    target = _packed(Layout((count, channels, side, side)), workload.target_type)
    return CropProblem(target, (1, channels), made, bytes(channels))


def _packed(layout: Layout, dtype: str) -> TensorSpec:
    """A side in memory of its own."""
    element = element_type(dtype)
    nbytes = layout.span * np.dtype(dtype).itemsize
    return TensorSpec.of(layout, element, base_alignment=DEFAULT_ALIGNMENT, buffer_bytes=nbytes, owns_padding=True)
