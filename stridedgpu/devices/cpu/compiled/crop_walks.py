"""Windows matched to kernels: a band of a rectangle, and the windows at one place of all images of a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.planning.crop_windows import Crop, CropProblem, Rectangle, covered
from stridedgpu.planning.relayout_problem import RelayoutProblem, relayout_problem
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .bordered_rows import BorderedRows
from .ir import LINE_BYTES
from .kernel_call import KernelCall, LoopAxis, kernel_call, power_of_two
from .relayout import plan_relayout
from .work_grid import Constants, Elements

__all__ = ["BandWalk", "band_of", "band_rows", "bordered_walk", "inside_walk"]


def band_rows(problem: CropProblem) -> int:
    """Rows of one band."""
    return max(1, policy().crops.band_bytes // (len(problem.fill) * problem.target.layout.sizes[3]))


@dataclass(frozen=True, slots=True)
class BandWalk:
    """A band of a rectangle as a relayout: its walk, and both layouts from the lowest element on."""

    problem: RelayoutProblem
    source: Layout
    target: Layout
    walk: KernelCall


def band_of(problem: CropProblem, crop: Crop, part: Rectangle, height: int) -> BandWalk:
    """The first `height` rows of a rectangle."""
    conversion, whole = problem.conversion, slice(None)
    window = problem.target.layout.sliced(0)
    if crop.flip:
        window = window.sliced((whole, whole, slice(None, None, -1)))
    target = window.sliced((whole, slice(0, height), part.columns))
    sizes = (crop.layout.sizes[0], *target.sizes[1:])
    source = Layout(sizes, (1, 0, 0) if part.source is None else crop.layout.strides)
    read = TensorSpec(source.shifted(-source.first_offset), conversion.source, 1)
    written = TensorSpec(target.shifted(-target.first_offset), conversion.target, 1)
    rows = relayout_problem(read, written, conversion, 0)
    walk = plan_relayout(rows)
    assert walk is not None, "the conversion can be compiled, and no rectangle is empty"
    return BandWalk(rows, source, target, walk)


def inside_walk(problem: CropProblem, image: Layout, step: int) -> KernelCall:
    """The kernel and loops of windows inside their images, which lie `step` bytes apart: a relayout.

    They begin at the image's pixel at a window's origin, and at the batch's lowest element.
    """
    made, target = problem.conversion, problem.target.layout
    count, _, height, width = target.sizes
    strides = (step // made.source.itemsize, *image.strides)
    source = Layout((count, image.sizes[0], height, width), strides)
    lowest, first = source.first_offset, target.first_offset
    read = TensorSpec(source.shifted(-lowest), made.source, 1)
    written = TensorSpec(target.shifted(-first), made.target, 1)
    walk = plan_relayout(relayout_problem(read, written, made, 1))
    assert walk is not None, "the conversion can be compiled, and the windows are not empty"
    return replace(
        walk,
        source_offset=walk.source_offset + lowest * made.source.itemsize,
        target_offset=walk.target_offset + first * made.target.itemsize,
    )


def bordered_walk(problem: CropProblem, crop: Crop, count: int = 1, step: int = 0) -> tuple[KernelCall, Buffer] | None:
    """The kernel and loops of `count` windows, whose sources lie `step` bytes apart, and the memory of their fill.

    They begin at the source's pixel at a window's origin, and at the batch's lowest element. None for windows whose
    values are converted, that are mirrored or nowhere inside, or whose rows do not lie as they do in the source.
    """
    made, (_, _, height, width) = problem.conversion, problem.target.layout.sizes
    if not made.is_bitwise_copy or made.channels is not None or crop.flip:
        return None
    element, (channels, source_height, source_width) = made.source.itemsize, crop.layout.sizes
    across, down, right = (stride * element for stride in crop.layout.strides)
    samples, target_across, target_down, target_right = (stride * element for stride in problem.target.layout.strides)
    fills = [problem.fill[start : start + element] for start in range(0, len(problem.fill), element)]
    outer = [LoopAxis(count, step, samples)]
    if right == target_right == element:
        outer, unit = [*outer, LoopAxis(channels, across, target_across, constants=1)], element
    elif across == target_across == element and right == target_right == channels * element and len(set(fills)) == 1:
        fills, unit = fills[:1], channels * element
    else:
        return None
    if LINE_BYTES % element:  # larger ones, and odd ones without a type
        return None
    rows, columns = covered(crop.origin[0], height, source_height), covered(crop.origin[1], width, source_width)
    if rows.start == rows.stop or columns.start == columns.stop:
        return None
    before, length, behind = (unit * n for n in (columns.start, columns.stop - columns.start, width - columns.stop))
    a, b = LoopAxis(height, down, target_down), LoopAxis(length, 1, 1)
    limits, nbytes = policy().relayout, problem.bytes_moved
    apart = abs(down) > length and nbytes >= policy().target.l2_bytes
    ahead = max(limits.rows_ahead, policy().crops.row_ahead_bytes // length) if apart else 0
    lanes, fill_lanes = (power_of_two(min(size, LINE_BYTES)) for size in (length, unit * width))
    elements = Elements(made, Constants.ITEM, finite=True, itemsize=1)
    dense = target_down == unit * width
    merges = dense and unit * width in policy().crops.merged_bytes and _masks_bytes()
    merged = 1 << (unit * width - 1).bit_length() if merges else 0
    kernel = BorderedRows(elements, len(outer), lanes, fill_lanes, ahead, dense, merged)
    extents = max(1, limits.bytes_of_item(nbytes) // (2 * unit * width)), length
    offsets = before, problem.target.layout.offset * element + before
    walk = kernel_call(kernel, made, offsets, tuple(outer), ((a, 1), (b, lanes)), extents)
    memory = Buffer.of(b"".join(fill * (LINE_BYTES // element) for fill in fills))
    return replace(walk, more=(rows.start, rows.stop, before, behind, memory.address)), memory


def _masks_bytes() -> bool:
    """Whether one instruction loads bytes of a vector of any length by a mask."""
    return {"avx512bw", "avx512vl"} <= policy().target.features
