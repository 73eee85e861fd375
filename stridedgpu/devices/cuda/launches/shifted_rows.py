"""The launch of the kernel `kernels/relayout/shifted_rows.cu`: rows that begin anywhere in their words."""

from __future__ import annotations

from math import prod

from stridedgpu.devices.cuda.planning.gpu import THREADS, GpuProperties, KernelLaunch
from stridedgpu.devices.cuda.planning.relayout import RelayoutChoice

from .instantiation import instantiation
from .parameters import ParameterBlock, conversion_argument, index_argument
from .rows import add_chunks, chunk_shape, grid_of_chunks, row_axes
from .run_steps import RunSteps
from .tiles import tile_box

__all__ = ["launch"]


def launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a funnel-shifted plan over rows."""
    problem, conversion = plan.problem, plan.problem.conversion
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
    # One chunk a thread: of two, the registers of addresses and of rows' ends cost resident blocks.
    steps, _, lanes, whole_warps = chunk_shape(vectors, places, prod(problem.sizes[:inner]), gpu, most_chunks=1)
    axes = row_axes(problem, places, steps * vectors.length * lanes, forwards_or_back=True)
    block = ParameterBlock()
    affines, order = add_chunks(block, plan, axes, lanes)
    block.add_index(source.layout.span * source.element.itemsize + source.slack_bytes, 64)
    name = instantiation(
        "copy_shifted_rows",
        (conversion_argument(conversion), index_argument(plan.index_bits)),
        "ShiftedRowsPolicy",
        store_bytes=plan.store.nbytes,
        steps=steps,
        whole_warps=whole_warps,
        backwards=problem.source_strides[inner] < 0,
        rank=len(axes),
        affines=affines,
        order=order,
    )
    return KernelLaunch(
        sources=("shifted_rows.cu",),
        name=name,
        grid=grid_of_chunks(axes, lanes, 1),
        block=(THREADS, 1, 1),
        shared_bytes=0,
        parameters=block.parameters,
        tables=block.tables,
        tile=tile_box(problem, {inner: steps * vectors.length * lanes}),
    )
