"""Windows of a batch: the choice of a kernel, its access widths, its launch, and the records of the samples.

The kernels are `crops.cu`, `crops_planes.cu` and `crops_pixels.cu`. Their parameters begin with two addresses: that of
the records (`crop_records`), and that of the batch's lowest element. The device fills in both; here they are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.planning.crop_windows import CropProblem, Crops, distinct_layouts
from stridedgpu.planning.device_plan import Width, in_words, index_bits
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .gpu import LONGEST_ROW, THREADS, GpuProperties, KernelLaunch, divisor_words, grid_of
from .parameters import ParameterBlock, conversion_argument, index_argument, instantiation
from .policy import policy
from .widths import Bound, alignment_bound, bounded_width, stride_bound

_WORD: Final = 4
"""Bytes of the loads of an unaligned source run."""


class CropFamily(StrEnum):
    """Kinds of crops, by the contiguity of both sides."""

    PLANES = "planes"
    RUNS = "runs"
    SPLIT = "split"
    PIXELS = "pixels"

    @property
    def description(self) -> str:
        """The family in plain words."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS: Final = {
    CropFamily.PLANES: "planes: a store takes neighbouring columns of one channel",
    CropFamily.RUNS: "runs: a store takes neighbouring elements of pixels with all their channels",
    CropFamily.SPLIT: "split: pixels are read whole, once, and stored as neighbouring columns of each channel",
    CropFamily.PIXELS: "pixels: pixels are read whole, once, and stored whole",
}

_ELEMENT_BY_ELEMENT: Final = {CropFamily.SPLIT: CropFamily.PLANES, CropFamily.PIXELS: CropFamily.RUNS}
"""The replacement of families whose vectors of pixels are not whole words."""


@dataclass(frozen=True, slots=True)
class CropChoice:
    """The kernel that writes a problem's windows, and its access widths.

    `load` is the width of an aligned load. The columns of a window start anywhere, so each row checks its alignment
    and otherwise loads words of 4 bytes, which are funnel-shifted. With `reads_runs`, the elements of a store
    are consecutive in the sources, too.
    """

    problem: CropProblem
    family: CropFamily
    load: Width
    store: Width
    reads_runs: bool
    index_bits: int

    @property
    def kernel(self) -> str:
        """The kernel's name: family, then type and bytes of a load and of a store."""
        made = self.problem.conversion
        return f"crops_{self.family}_{made.source}x{self.load.nbytes}B_{made.target}x{self.store.nbytes}B"

    def in_words(self) -> list[str]:
        """The kernel in lines, as plans explain it."""
        accesses = [in_words("loads", self.load), in_words("stores", self.store)]
        return [self.family.description, *self.problem.in_words(), *accesses, f"{self.index_bits}-bit offsets"]


def choose_crops(problem: CropProblem, widest: int = 16) -> CropChoice:
    """The kernel for a problem; `widest` is the largest access of the device, in bytes."""
    target, conversion, source_steps = problem.target, problem.conversion, problem.source_steps
    layout, itemsize = target.layout, conversion.source.itemsize
    family = _family(layout, source_steps, conversion, problem.source_channels)
    whole = family in (CropFamily.SPLIT, CropFamily.PIXELS)
    pixel_bytes = itemsize * source_steps[1] if whole else itemsize
    store = _store_width(target, family, pixel_bytes, widest)
    length = store.nbytes // conversion.target.itemsize
    run = length * pixel_bytes
    follows = _follows(family, layout, source_steps, conversion)
    reads_runs = follows and run % max(itemsize, _WORD) == 0
    if reads_runs:
        width = min(run & -run, widest)
        load = Width(width, "" if width == widest else f"what one store takes are {run} B of a source")
    else:
        short = f"what one store takes are {run} B of a source, less than a word"
        reason = short if follows else "the sources' elements do not lie in the target's order"
        load = Width(min(itemsize, widest), reason)
        family = _ELEMENT_BY_ELEMENT.get(family, family)
    bits = index_bits(layout.span)
    return CropChoice(problem, family, load, store, reads_runs, bits)


def _family(target: Layout, source_steps: tuple[int, int], conversion: Conversion, source_channels: int) -> CropFamily:
    """The family of crops, by the contiguity of both sides."""
    _, count, _, width = target.sizes
    channel, pitch = source_steps
    chosen = tuple(conversion.channels or range(source_channels))
    most = policy().crops.most_pitch
    whole = channel == 1 and max(source_channels, 2) <= pitch <= most
    if target.strides[3] == count > 1 and target.strides[1] == 1:
        return CropFamily.PIXELS if whole and count <= most else CropFamily.RUNS
    splits = whole and len(set(chosen)) == len(chosen) and (target.strides[3] == 1 or width == 1)
    return CropFamily.SPLIT if splits else CropFamily.PLANES


def _follows(family: CropFamily, target: Layout, source_steps: tuple[int, int], conversion: Conversion) -> bool:
    """True if the elements of a target vector are consecutive in the sources."""
    if family is CropFamily.RUNS:
        return source_steps == (1, target.sizes[1]) and conversion.channels is None
    if family is CropFamily.PLANES:
        return source_steps[1] == 1 and (target.strides[3] == 1 or target.sizes[3] == 1)
    return True


def _store_width(target: TensorSpec, family: CropFamily, pixel_bytes: int, widest: int) -> Width:
    """The widest store to a row of the target: its run, strides and alignment must be whole vectors.

    `pixel_bytes` is the number of source bytes read for one element of an interleaved store.
    """
    layout, itemsize = target.layout, target.element.itemsize
    channels, _, width = layout.sizes[1:]
    pixels_run = family in (CropFamily.RUNS, CropFamily.PIXELS)
    if not pixels_run and layout.strides[3] != 1 and width != 1:
        return Width(min(itemsize, widest), "the target's columns do not lie side by side")
    outer = (0, 2) if pixels_run else (0, 1, 2)
    run = (channels if pixels_run else 1) * width * itemsize
    lowest = layout.offset
    limits = policy().crops
    longest = limits.pixels_bytes if family in (CropFamily.SPLIT, CropFamily.PIXELS) else limits.run_bytes
    most = longest // pixel_bytes
    bounds = [
        alignment_bound("target", target.alignment),
        *(
            stride_bound("target", abs(layout.strides[axis]) * itemsize, widest)
            for axis in outer
            if layout.sizes[axis] > 1
        ),
        Bound((1 << most.bit_length() - 1) * itemsize, f"a thread holds up to {longest} B of a source"),
    ]
    if lowest:
        bounds.append(Bound(lowest * itemsize & -(lowest * itemsize), "the target runs backwards"))
    if run < policy().family.peeled_run_bytes and not target.owns_padding:
        bounds.append(Bound(run & -run, f"a run of the target is {run} B long and what follows is not ours"))
    return bounded_width(bounds, itemsize, widest)


_FILL_AT: Final = 16
"""The offset of the fill elements' address."""


def crops_launch(plan: CropChoice, gpu: GpuProperties) -> KernelLaunch:
    """The kernel, grid and parameters of `plan` on `gpu`.

    Raises `LayoutError` for a plan without elements, which has no launch.
    """
    layout = plan.problem.target.layout
    if layout.element_count == 0:
        raise LayoutError(f"Windows of sizes {layout.sizes} have no elements; there is nothing to launch.")
    _, channels, height, width = layout.sizes
    if max(width * channels, height) > LONGEST_ROW:
        raise LayoutError(f"Windows of sizes {layout.sizes}: a GPU takes rows of up to {LONGEST_ROW} elements.")
    if plan.family is CropFamily.PIXELS:
        return _pixels(plan, gpu)
    if plan.family is CropFamily.SPLIT or (plan.family is CropFamily.PLANES and plan.reads_runs):
        return _planes(plan, gpu)
    return _any(plan)


def _any(plan: CropChoice) -> KernelLaunch:
    """One thread for each vector of the target."""
    layout, bits = plan.problem.target.layout, plan.index_bits
    _, channels, _, width = layout.sizes
    pixels_run = plan.family is CropFamily.RUNS
    length = _length(plan)
    planes = 1 if pixels_run else channels
    block, affines, items = _common(plan, width * channels if pixels_run else width, planes, 1)
    order = block.add_order(plan.problem.conversion, 1, bits)
    _add_divisor(block, planes, bits)
    block.add_index(layout.strides[1], bits)
    # The next vector starts `length` columns further, or as many elements of interleaved pixels.
    block.add_index(1 if length > 1 or pixels_run else layout.strides[3], bits)
    _add_divisor(block, channels, 32)
    name = instantiation(
        "crops",
        _types(plan),
        "CropsPolicy",
        load_bytes=plan.load.nbytes if plan.reads_runs else 0,
        store_bytes=plan.store.nbytes,
        of_pixels=pixels_run,
        affines=affines,
        order=order,
    )
    return _launch("crops.cu", name, plan, items, block)


def _planes(plan: CropChoice, gpu: GpuProperties) -> KernelLaunch:
    """One thread for a vector of each plane (of one plane if the source is planar, too), in each of a few rows."""
    layout, bits = plan.problem.target.layout, plan.index_bits
    _, channels, _, width = layout.sizes
    splits = plan.family is CropFamily.SPLIT
    pitch, planes = (plan.problem.source_steps[1], 1) if splits else (1, channels)
    rows, turns = _rows(plan, pitch, planes, gpu)
    block, affines, items = _common(plan, width, planes, rows * turns)
    order = block.add_order(_places(plan, pitch) if splits else plan.problem.conversion, 1, bits)
    _add_divisor(block, planes, bits)
    block.add_index(layout.strides[1], bits)
    name = instantiation(
        "crops_planes",
        _types(plan),
        "CropsPlanesPolicy",
        pitch=pitch,
        load_bytes=plan.load.nbytes,
        store_bytes=plan.store.nbytes,
        rows=rows,
        turns=turns,
        exact=width % _length(plan) == 0,
        affines=affines,
        order=order,
    )
    return _launch("crops_planes.cu", name, plan, items, block)


def _places(plan: CropChoice, pitch: int) -> Conversion:
    """The conversion with the plane number of each channel of a source pixel; -1 for unused channels."""
    count = plan.problem.target.layout.sizes[1]
    chosen = plan.problem.conversion.channels or range(count)
    planes = tuple(chosen.index(place) if place in chosen else -1 for place in range(pitch))
    return replace(plan.problem.conversion, channels=None if planes == tuple(range(count)) else planes)


def _pixels(plan: CropChoice, gpu: GpuProperties) -> KernelLaunch:
    """One thread for as many pixels as a vector has elements, in each of a few rows."""
    _, channels, _, width = plan.problem.target.layout.sizes
    pitch = plan.problem.source_steps[1]
    rows, turns = _rows(plan, pitch, 1, gpu)
    block, affines, items = _common(plan, width, 1, rows * turns)
    chosen = plan.problem.conversion.channels or range(channels)
    places = sum(place << 4 * channel for channel, place in enumerate(chosen))
    name = instantiation(
        "crops_pixels",
        _types(plan),
        "CropsPixelsPolicy",
        pitch=pitch,
        count=channels,
        places=f"{places:#x}",
        load_bytes=plan.load.nbytes,
        store_bytes=plan.store.nbytes,
        rows=rows,
        turns=turns,
        exact=width % _length(plan) == 0,
        affines=affines,
    )
    return _launch("crops_pixels.cu", name, plan, items, block)


def _length(plan: CropChoice) -> int:
    """Elements of one store."""
    return plan.store.nbytes // plan.problem.target.element.itemsize


def _rows(plan: CropChoice, pitch: int, planes: int, gpu: GpuProperties) -> tuple[int, int]:
    """Rows of a thread in flight, and how often it has so many: both few enough to leave work for every multiprocessor.

    More rows are in flight of narrower pixels. Further turns share the wait for the sample's record; bytes that stay
    bytes have one, since they take all registers.
    """
    samples, _, height, width = plan.problem.target.layout.sizes
    length = _length(plan)
    run = length * pitch * plan.problem.conversion.source.itemsize
    vectors = samples * planes * height * -(-width // length)
    enough = vectors // (gpu.multiprocessors * THREADS)
    most = min(policy().crops.most_rows, policy().crops.in_flight_bytes // run, enough, height)
    rows = 1 << max(most, 1).bit_length() - 1
    waves = policy().crops.waves
    turns = min(policy().crops.most_turns, enough // (rows * waves), -(-height // rows))
    return rows, 1 if plan.problem.conversion.target.itemsize == 1 else max(turns, 1)


def _common(plan: CropChoice, run: int, planes: int, rows: int) -> tuple[ParameterBlock, str, int]:
    """`sg::CropsParameters` for rows of `run` elements, the template argument of its affines, and the thread count."""
    layout, bits = plan.problem.target.layout, plan.index_bits
    samples, _, height, width = layout.sizes
    vectors, groups = -(-run // _length(plan)), -(-height // rows)
    items = samples * planes * groups * vectors
    block = ParameterBlock()
    block.add(bytes(8), 8)
    affines = block.add_affines(plan.problem.conversion)
    _add_divisor(block, vectors, bits)
    _add_divisor(block, groups, bits)
    for value in (layout.strides[0], layout.strides[2], layout.offset, items):
        block.add_index(value, bits)
    block.add_index(height, 32)
    block.add_index(width, 32)
    block.add(b"", 8)
    return block, affines, items


def _add_divisor(block: ParameterBlock, divisor: int, bits: int) -> None:
    """Append an `sg::Divisor`."""
    for word in divisor_words(divisor, bits):
        block.add_index(word, bits)


def _types(plan: CropChoice) -> tuple[str, str]:
    """The C++ types of the conversion and of offsets."""
    return conversion_argument(plan.problem.conversion), index_argument(plan.index_bits)


def _launch(source: str, name: str, plan: CropChoice, items: int, block: ParameterBlock) -> KernelLaunch:
    """One thread for each item."""
    return KernelLaunch(
        sources=(source,),
        name=name,
        grid=grid_of(-(-items // THREADS)),
        block=(THREADS, 1, 1),
        shared_bytes=0,
        parameters=block.parameters,
        tables=(*block.tables, (_FILL_AT, plan.problem.fill)),
    )


_RECORD: Final = np.dtype(
    [
        ("pixel", "<i8"),
        ("first", "<i8"),
        ("end", "<i8"),
        ("strides", "<i8", (3,)),
        ("edges", "<i4", (4,)),
        ("flip", "<u8"),
        ("padding", "V8"),
    ]
)
"""`sg::CropSample`, aligned to 16 bytes. Addresses wrap around at 64 bits, and so do sums on the device."""

RECORD_BYTES: Final = _RECORD.itemsize


def crop_records(crops: Crops, addresses: NDArray[np.int64], size: tuple[int, int], itemsize: int) -> NDArray[np.uint8]:
    """The records of the samples, as bytes; `size` is a window's, in pixels.

    `addresses` are those of each source's lowest element, as two's complement of 64 bits.
    """
    # One row for each fact, so that NumPy's inner loops run along the samples.
    facts = _facts_of(crops.layouts)
    strides, extents, offsets, spans = facts[:3], facts[3:5], facts[5], facts[6]
    origins, window = crops.origins.T.copy(), np.array(size)[:, None]
    starts = np.minimum(np.maximum(-origins, 0), window)
    stops = np.minimum(np.maximum(extents - origins, 0), window)
    is_over = starts < stops
    records = np.zeros(len(addresses), _RECORD)
    if not is_over.all():
        # If the window is outside the source, its distance does not matter.
        origins *= is_over.all(0)
        starts *= is_over
        stops *= is_over
    pixels = offsets + origins[0] * strides[1] + origins[1] * strides[2]
    records["pixel"] = addresses + pixels * itemsize
    records["first"] = addresses
    records["end"] = addresses + spans * itemsize
    records["strides"] = strides.T
    edges = records["edges"]
    edges[:, ::2], edges[:, 1::2] = starts.T, stops.T
    records["flip"] = np.frombuffer(bytes(crops.flips), np.uint8)  # a third of the time of a list of bools
    return records.view(np.uint8)


def _facts_of(layouts: Sequence[Layout]) -> NDArray[np.int64]:
    """Rows of strides, height, width, offset and span; one column where all are one layout."""
    distinct = distinct_layouts(layouts)
    table = np.array(
        [(*layout.strides, *layout.sizes[1:], layout.offset, layout.span) for layout in distinct.values()], np.int64
    )
    table = table.reshape(-1, 7).T.copy()
    if len(distinct) <= 1:
        return table
    columns = {known: place for place, known in enumerate(distinct)}
    return table[:, list(map(columns.__getitem__, map(id, layouts)))]
