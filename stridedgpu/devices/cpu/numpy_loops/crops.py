"""Crops on the CPU: each window is a relayout from its source directly into the batch."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import gcd

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.plan import CpuKernel, cpu_plan, numpy_kernel, prepared
from stridedgpu.devices.interface import Launch, Located
from stridedgpu.devices.launch_cache import cached_launches, settings
from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem, moving_problem
from stridedgpu.problems.crop_windows import CropProblem, Crops, Rectangle, rectangles
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec


def numpy_crops_kernel(problem: CropProblem) -> CpuKernel:
    """The relayouts that write windows."""
    conversion = problem.conversion
    return numpy_kernel(
        f"numpy_crops_{conversion.source}_{conversion.target}",
        "a relayout for each rectangle of a window, by NumPy until it is repeated",
        conversion.source.itemsize,
        conversion.target.itemsize,
    )


@cached_launches
def _quiet_launch(problem: RelayoutProblem | ChannelMatrixProblem, *_settings: Hashable) -> Launch:
    """The launch of one rectangle; `CpuDevice.prepare` would print a verbose line for each."""
    return prepared(cpu_plan(problem))


def run_crops(problem: CropProblem, crops: Crops, sources: Sequence[Located], target: Located) -> None:
    """Write every window."""
    fill = Buffer.of(problem.fill)
    batch = problem.target.layout
    _, _, height, width = batch.sizes
    for number, (crop, (buffer, start)) in enumerate(zip(crops, sources, strict=True)):
        window = batch.sliced(number)
        if crop.flip:
            window = window.sliced((slice(None), slice(None), slice(None, None, -1)))
        for part in rectangles(crop, (height, width)):
            place = window.sliced((slice(None), part.rows, part.columns))
            if part.source is None:
                channels = crop.layout.sizes[0]
                color = Layout((channels, *place.sizes[1:]), (1, 0, 0))
                _move(problem, (fill, 0, color), (*target, place))
            else:
                _move(problem, (buffer, start, _covered(crop.layout, part)), (*target, place))


def _covered(layout: Layout, part: Rectangle) -> Layout:
    assert part.source is not None
    (y, x), rows, columns = part.source, part.rows, part.columns
    return layout.sliced(
        (slice(None), slice(y, y + rows.stop - rows.start), slice(x, x + columns.stop - columns.start))
    )


def _move(problem: CropProblem, source: tuple[Buffer, int, Layout], target: tuple[Buffer, int, Layout]) -> None:
    """Relayout one rectangle; each integer is the byte offset that its layout is relative to."""
    specs: list[TensorSpec] = []
    places: list[Located] = []
    for (buffer, start, layout), element in zip(
        (source, target), (problem.conversion.source, problem.conversion.target), strict=True
    ):
        lowest = layout.first_offset
        first = start + lowest * element.itemsize
        # Windows begin anywhere: plans assume the alignment of one element only, so that one plan serves all windows.
        alignment = gcd(buffer.address + first, element.itemsize)
        specs.append(TensorSpec(layout.shifted(-lowest), element, alignment))
        places.append((buffer, first))
    part = moving_problem(specs[0], specs[1], problem.conversion, 0)
    _quiet_launch(part, settings())(*places[0], *places[1], None)
