"""Launches of rows that begin anywhere in their words, on either side (`kernels/shifted_rows.cu`)."""

from __future__ import annotations

from math import prod
from typing import Final

from .cuda_rows import chunk_shape, row_axes
from .gpu import GpuProperties, KernelLaunch, axes_words, grid_of
from .kernel_parameters import ParameterBlock, conversion_argument, index_argument
from .plan import Plan
from .run_steps import THREADS, WARP, RunSteps

__all__ = ["launch"]

_WELL_FILLED: Final = 0.8
"""The share of lanes with work from which on more steps are taken."""


def launch(plan: Plan, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan whose words are shifted into place."""
    problem, bits, conversion = plan.problem, plan.index_bits, plan.problem.conversion
    source, target = problem.source, problem.target
    inner = len(problem.sizes) - 1
    count = problem.sizes[inner]
    vectors = RunSteps(
        plan.load.nbytes // source.element.itemsize,
        plan.store.nbytes // target.element.itemsize,
        source.element.itemsize,
        target.element.itemsize,
    )
    # A row begins anywhere in its first vector.
    places = count + vectors.store_length - 1
    steps, items, lanes, whole_warps = _shape(vectors, places, prod(problem.sizes[:inner]), gpu)
    axes = row_axes(problem, places, steps * vectors.length * lanes, forwards_or_back=True)
    roles = [axis.role for axis in axes]
    block = ParameterBlock()
    affines = block.add_affines(conversion)
    channel_stride = 0 if problem.channel_axis is None else problem.source_strides[problem.channel_axis]
    order = block.add_order(conversion, channel_stride, bits)
    sizes, source_steps, target_steps = zip(
        *((axis.size, axis.source_stride, axis.target_stride) for axis in axes), strict=True
    )
    block.add_axes(axes_words(sizes, source_steps, target_steps, bits), bits)
    chunks = prod(sizes)
    for value in (problem.source_offset, chunks, count):
        block.add_index(value, bits)
    block.add_index(source.layout.span * source.element.itemsize + source.slack_bytes, 64)
    for value in (
        roles.index("channels") if "channels" in roles else -1,
        roles.index("chunks"),
        lanes.bit_length() - 1,
    ):
        block.add_int32(value)
    arguments = (
        conversion_argument(conversion),
        index_argument(bits),
        plan.store.nbytes,
        steps,
        items,
        str(whole_warps).lower(),
        str(problem.source_strides[inner] < 0).lower(),
        len(axes),
        affines,
        order,
    )
    return KernelLaunch(
        sources=("shifted_rows.cu",),
        name=f"sg::copy_shifted_rows<{', '.join(map(str, arguments))}>",
        grid=grid_of(-(-chunks // (THREADS // lanes * items))),
        block=(THREADS, 1, 1),
        shared_bytes=0,
        parameters=block.parameters,
        tables=block.tables,
    )


def _shape(vectors: RunSteps, places: int, rows: int, gpu: GpuProperties) -> tuple[int, int, int, bool]:
    """Steps of a chunk, chunks of a thread, lanes of a group, and whether groups are whole warps throughout.

    Finding a row's ends takes more instructions than moving a vector: a whole warp walks a row with as many steps as
    leave few lanes idle, and only rows of less than half a warp's vectors share one.
    """
    lane_steps = -(-places // vectors.length)
    if 2 * lane_steps <= WARP:
        return chunk_shape(vectors, places, rows, gpu)
    filled = {}
    for steps in range(1, vectors.under_way(gpu) + 1):
        chunks = -(-lane_steps // (WARP * steps))
        if steps == 1 or rows * chunks * WARP >= gpu.multiprocessors * THREADS:
            filled[steps] = lane_steps / (chunks * WARP * steps)
    well = [steps for steps, share in filled.items() if share >= _WELL_FILLED]
    return max(well) if well else max(filled, key=filled.__getitem__), 1, WARP, True
