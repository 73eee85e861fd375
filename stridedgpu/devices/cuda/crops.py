"""Windows of a batch: the choice of a kernel, its access widths, its launch, and the records of the samples.

The kernels are `crops.cu`, `crops_planes.cu` and `crops_pixels.cu`. Their parameters begin with two addresses: that of
the records (`crop_records`), and that of the batch's lowest element. The device fills in both; here they are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.problems.crop_windows import CropProblem, Crops, distinct_layouts
from stridedgpu.problems.device_plan import Width, describe_access, index_bits
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import power_of_two
from stridedgpu.values.tensor_spec import TensorSpec

from .choice import Bound, CudaPlan, KernelFamily, backwards_bound, check_windows, row_width
from .gpu import THREADS, GpuProperties, KernelLaunch
from .parameters import ParameterBlock, conversion_argument, index_argument, instantiation, places_argument
from .policy import policy

_WORD: Final = 4
"""Bytes of the loads of an unaligned source run."""


class CropFamily(KernelFamily):
    """Kinds of crops, by the contiguity of both sides."""

    PLANES = "planes", "planes: a store takes neighbouring columns of one channel"
    RUNS = "runs", "runs: a store takes neighbouring elements of pixels with all their channels"
    SPLIT = "split", "split: pixels are read whole, once, and stored as neighbouring columns of each channel"
    PIXELS = "pixels", "pixels: pixels are read whole, once, and stored whole"


_ELEMENT_BY_ELEMENT: Final = {CropFamily.SPLIT: CropFamily.PLANES, CropFamily.PIXELS: CropFamily.RUNS}
"""The replacement of families whose vectors of pixels are not whole words."""


@dataclass(frozen=True, slots=True)
class CropChoice(CudaPlan[CropProblem]):
    """The kernel that writes a problem's windows, and its access widths.

    `load` is the width of an aligned load. The columns of a window start anywhere, so each row checks its alignment
    and otherwise loads words of 4 bytes, which are funnel-shifted. With `reads_runs`, the elements of a store
    are consecutive in the sources, too.
    """

    family: CropFamily
    reads_runs: bool

    @property
    def kernel(self) -> str:
        """The kernel's name: family, then type and bytes of a load and of a store."""
        source, target = self.problem.conversion.source, self.problem.conversion.target
        return f"crops_{self.family}_{source}x{self.load.nbytes}B_{target}x{self.store.nbytes}B"

    @property
    def accesses(self) -> list[str]:
        """The lines about widths and their limits."""
        return [describe_access("loads", self.load), describe_access("stores", self.store)]


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
    return CropChoice(problem, load, store, index_bits(layout.span), family, reads_runs)


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
    run = (channels if pixels_run else 1) * width * itemsize
    limits = policy().crops
    longest = limits.pixels_bytes if family in (CropFamily.SPLIT, CropFamily.PIXELS) else limits.run_bytes
    most = power_of_two(longest // pixel_bytes)
    bounds = [Bound(most * itemsize, f"a thread holds up to {longest} B of a source"), *backwards_bound(target)]
    if run < policy().family.peeled_run_bytes and not target.owns_padding:
        bounds.append(
            Bound(run & -run, f"a run of the target is {run} B long, and the target does not own what follows")
        )
    return row_width(target, (0, 2) if pixels_run else (0, 1, 2), bounds, widest)


def crops_launch(plan: CropChoice, gpu: GpuProperties) -> KernelLaunch:
    """The kernel, grid and parameters of `plan` on `gpu`.

    Raises `LayoutError` for a plan without elements, which has no launch.
    """
    check_windows(plan.problem.target.layout)
    by_elements = plan.family is CropFamily.RUNS or (plan.family is CropFamily.PLANES and not plan.reads_runs)
    return _any(plan) if by_elements else _in_rows(plan, gpu)


def _any(plan: CropChoice) -> KernelLaunch:
    """One thread for each vector of the target."""
    layout = plan.problem.target.layout
    _, channels, _, width = layout.sizes
    pixels_run = plan.family is CropFamily.RUNS
    planes = 1 if pixels_run else channels
    block, affines, blocks = _common(plan, width * channels if pixels_run else width, planes, 1)
    order = block.add_order(plan.problem.conversion, 1)
    block.add_divisors(planes)
    # The next vector starts `length` columns further, or as many elements of interleaved pixels.
    block.add_indices(layout.strides[1], 1 if _length(plan) > 1 or pixels_run else layout.strides[3])
    block.add_divisors(channels, bits=32)
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
    return block.launch("crops.cu", name, blocks)


def _in_rows(plan: CropChoice, gpu: GpuProperties) -> KernelLaunch:
    """One thread for as many pixels as a vector has elements, in each of a few rows.

    Its stores are whole pixels, or a vector of each plane; of one plane if the source is planar, too.
    """
    problem, layout = plan.problem, plan.problem.target.layout
    _, channels, _, width = layout.sizes
    pitch, planes = (1, channels) if plan.family is CropFamily.PLANES else (problem.source_steps[1], 1)
    rows, turns = _rows(plan, pitch, planes, gpu)
    block, affines, blocks = _common(plan, width, planes, rows * turns)
    constants: dict[str, bool | int | str] = {
        "load_bytes": plan.load.nbytes,
        "store_bytes": plan.store.nbytes,
        "rows": rows,
        "turns": turns,
        "exact": width % _length(plan) == 0,
        "affines": affines,
    }
    if plan.family is CropFamily.PIXELS:
        places = places_argument(problem.conversion.channels or range(channels))
        constants = {"pitch": pitch, "count": channels, "places": places, **constants}
        return block.launch(
            "crops_pixels.cu", instantiation("crops_pixels", _types(plan), "CropsPixelsPolicy", **constants), blocks
        )
    splits = plan.family is CropFamily.SPLIT
    order = block.add_order(_places(plan, pitch) if splits else problem.conversion, 1)
    block.add_divisors(planes)
    block.add_indices(layout.strides[1])
    constants = {"pitch": pitch, **constants, "order": order}
    name = instantiation("crops_planes", _types(plan), "CropsPlanesPolicy", **constants)
    return block.launch("crops_planes.cu", name, blocks)


def _places(plan: CropChoice, pitch: int) -> Conversion:
    """The conversion with the plane number of each channel of a source pixel; -1 for unused channels."""
    count = plan.problem.target.layout.sizes[1]
    chosen = plan.problem.conversion.channels or range(count)
    planes = tuple(chosen.index(place) if place in chosen else -1 for place in range(pitch))
    return replace(plan.problem.conversion, channels=None if planes == tuple(range(count)) else planes)


def _length(plan: CropChoice) -> int:
    return plan.store.nbytes // plan.problem.target.element.itemsize


def _rows(plan: CropChoice, pitch: int, planes: int, gpu: GpuProperties) -> tuple[int, int]:
    """Rows of a thread in flight, and how often it has so many: both few enough to leave work for every multiprocessor.

    More rows are in flight of narrower pixels. Further turns share the wait for the sample's record; bytes that stay
    bytes have one, since they take all registers.
    """
    samples, _, height, width = plan.problem.target.layout.sizes
    limits, length = policy().crops, _length(plan)
    run = length * pitch * plan.problem.conversion.source.itemsize
    vectors = samples * planes * height * -(-width // length)
    enough = vectors // (gpu.multiprocessors * THREADS)
    most = min(limits.most_rows, limits.in_flight_bytes // run, enough, height)
    rows = power_of_two(max(most, 1))
    turns = min(limits.most_turns, enough // (rows * limits.waves), -(-height // rows))
    return rows, 1 if plan.problem.conversion.target.itemsize == 1 else max(turns, 1)


def _common(plan: CropChoice, run: int, planes: int, rows: int) -> tuple[ParameterBlock, str, int]:
    """`sg::CropsParameters` for rows of `run` elements, the template argument of its affines, and the blocks."""
    layout = plan.problem.target.layout
    samples, _, height, width = layout.sizes
    vectors, groups = -(-run // _length(plan)), -(-height // rows)
    items = samples * planes * groups * vectors
    block = ParameterBlock(plan.index_bits)
    block.add_table(plan.problem.fill)
    affines = block.add_affines(plan.problem.conversion)
    block.add_divisors(vectors, groups)
    block.add_indices(layout.strides[0], layout.strides[2], layout.offset, items)
    block.add_indices(height, width, bits=32)
    block.add(b"", 8)
    return block, affines, -(-items // THREADS)


def _types(plan: CropChoice) -> tuple[str, str]:
    return conversion_argument(plan.problem.conversion), index_argument(plan.index_bits)


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
"""`sg::CropSample`, aligned to 16 bytes; it begins with three addresses in the source.

Addresses wrap around at 64 bits, and so do sums on the device.
"""

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
