"""Crops on the CPU: each window is a relayout from its source straight into its place in the batch."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.device import CpuBackend
from stridedgpu.devices.cuda.planning.relayout import plan_relayout
from stridedgpu.devices.gather_interface import Located
from stridedgpu.planning.crop_windows import Crop, CropPlan, Rectangle, rectangles
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

__all__ = ["run_crops"]

_CPU = CpuBackend()


def run_crops(
    plan: CropPlan,
    crops: Sequence[Crop],
    sources: Sequence[Located],
    target: Located,
) -> None:
    """Write every window; plans are cached, so that windows of one kind cost one look-up each."""
    fill = Buffer.of(plan.fill)
    batch = plan.target.layout
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
                _move(plan, (fill, 0, color), (*target, place))
            else:
                _move(plan, (buffer, start, _covered(crop.layout, part)), (*target, place))


def _covered(layout: Layout, part: Rectangle) -> Layout:
    """The part of a source that a rectangle shows."""
    assert part.source is not None
    (y, x), rows, columns = part.source, part.rows, part.columns
    return layout.sliced(
        (slice(None), slice(y, y + rows.stop - rows.start), slice(x, x + columns.stop - columns.start))
    )


def _move(plan: CropPlan, source: tuple[Buffer, int, Layout], target: tuple[Buffer, int, Layout]) -> None:
    """Relayout one rectangle. Layouts count from the byte that stands before them."""
    sides, places = [], []
    for (buffer, start, layout), element in zip(
        (source, target), (plan.conversion.source, plan.conversion.target), strict=True
    ):
        lowest = layout.first_offset
        first = start + lowest * element.itemsize
        # Windows begin anywhere: no more than an element's alignment is made use of, and one plan serves them all.
        alignment = gcd(buffer.address + first, element.itemsize)
        sides.append(TensorSpec(layout.shifted(-lowest), element, alignment))
        places.append((buffer, first))
    made = plan_relayout(*sides, plan.conversion, 0, "cpu", _CPU.widest_access)
    _CPU.prepare(made)(*places[0], *places[1], None)
