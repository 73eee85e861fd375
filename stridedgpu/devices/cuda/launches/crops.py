"""Launches of batched crops (`crops.cu`, `crops_planes.cu`, `crops_pixels.cu`).

A kernel's parameters begin with two addresses: the samples' records, made by `crop_records`, and the batch's lowest
element. The device fills in both at launch; here they are 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from stridedgpu.devices.cuda.planning.crops import CropChoice, CropFamily
from stridedgpu.devices.cuda.planning.gpu import (
    LONGEST_ROW,
    THREADS,
    GpuProperties,
    KernelLaunch,
    divisor_words,
    grid_of,
)
from stridedgpu.devices.cuda.planning.policy import policy
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.errors import LayoutError

from .instantiation import instantiation
from .parameters import ParameterBlock, conversion_argument, index_argument

__all__ = ["crops_launch"]

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
