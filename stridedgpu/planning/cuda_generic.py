"""Launches of family F, generic: any strides, in the target's order (`kernels/generic.cu`)."""

from __future__ import annotations

from math import prod

from .gpu import GpuProperties, KernelLaunch, axes_words, grid_of, rank_of
from .kernel_parameters import ParameterBlock, conversion_argument, index_argument
from .plan import Plan
from .run_steps import THREADS
from .widths import GENERIC_ELEMENTS

__all__ = ["launch"]


def launch(plan: Plan, gpu: GpuProperties) -> KernelLaunch:  # noqa: ARG001 - the same on every GPU
    """The launch of a plan with any strides."""
    problem, bits, conversion = plan.problem, plan.index_bits, plan.problem.conversion
    sizes, channel_axis = list(problem.sizes), problem.channel_axis
    source_strides, target_strides = list(problem.source_strides), list(problem.target_strides)
    inner = len(sizes) - 1
    count, written, source_step = sizes[inner], problem.written_sizes[inner], source_strides[inner]
    # The innermost axis is cut into stores; without vectors, and where neighbours have other channels, into elements.
    store_bytes = problem.target.element.itemsize if channel_axis == inner else plan.store.nbytes
    length = store_bytes // problem.target.element.itemsize
    sizes[inner] = -(-written // length)
    source_strides[inner] *= length
    target_strides[inner] *= length
    vectors = prod(sizes)

    block = ParameterBlock()
    affines = block.add_affines(conversion)
    order = block.add_order(conversion, 0 if channel_axis is None else source_strides[channel_axis], bits)
    if channel_axis is not None and conversion.channels is not None:
        source_strides[channel_axis] = 0  # the table has the offsets themselves
    rank = rank_of(len(sizes))
    added = rank - len(sizes)
    block.add_axes(
        axes_words([1] * added + sizes, [0] * added + source_strides, [0] * added + target_strides, bits), bits
    )
    for value in (problem.source_offset, source_step, vectors, count, written):
        block.add_index(value, bits)
    block.add_int32(-1 if channel_axis is None else added + channel_axis)
    arguments = (
        conversion_argument(conversion),
        index_argument(bits),
        store_bytes,
        str(problem.filler > 0).lower(),
        rank,
        affines,
        order,
    )
    return KernelLaunch(
        sources=("generic.cu",),
        name=f"sg::copy_generic<{', '.join(map(str, arguments))}>",
        grid=grid_of(-(-vectors // (THREADS * max(GENERIC_ELEMENTS // length, 1)))),
        block=(THREADS, 1, 1),
        shared_bytes=0,
        parameters=block.parameters,
        tables=block.tables,
    )
