"""Launches of family F, generic: any strides, in the target's order (`kernels/relayout/generic.cu`)."""

from __future__ import annotations

from math import prod
from typing import Final

from stridedgpu.devices.cuda.planning.gpu import GpuProperties, KernelLaunch, axes_words, grid_of, rank_of
from stridedgpu.devices.cuda.planning.relayout import Plan

from .instantiation import instantiation
from .parameters import ParameterBlock, conversion_argument, index_argument
from .run_steps import THREADS

__all__ = ["launch"]

_MOST_ITEMS: Final = 8
"""Vectors of a thread: all of them share the arithmetic of where a run lies."""

_MOST_ELEMENTS: Final = 16
_MOST_BYTES: Final = 128
"""What a thread holds in registers, of the wider side."""

_WELL_FILLED: Final = 0.8
"""The share of threads' vectors that are inside their run, from which on a thread takes more of them."""


def launch(plan: Plan, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan with any strides."""
    problem, bits, conversion = plan.problem, plan.index_bits, plan.problem.conversion
    sizes, channel_axis = list(problem.sizes), problem.channel_axis
    source_strides, target_strides = list(problem.source_strides), list(problem.target_strides)
    inner = len(sizes) - 1
    itemsizes = problem.source.element.itemsize, problem.target.element.itemsize
    # The innermost axis is cut into stores; without vectors, and where neighbours have other channels, into elements.
    store_bytes = itemsizes[1] if channel_axis == inner else plan.store.nbytes
    length = store_bytes // itemsizes[1]
    vectors = -(-problem.written_sizes[inner] // length)
    most = min(_MOST_ITEMS, _MOST_ELEMENTS // length, _MOST_BYTES // (length * max(itemsizes)))
    items = _items(vectors, prod(sizes[:inner]), max(most, 1), gpu)

    block = ParameterBlock()
    affines = block.add_affines(conversion)
    order = block.add_order(conversion, 0 if channel_axis is None else source_strides[channel_axis], bits)
    if channel_axis is not None and conversion.channels is not None:
        source_strides[channel_axis] = 0  # the table has the offsets themselves
    source_step, target_step = source_strides[inner], target_strides[inner]
    sizes[inner] = -(-vectors // items)
    source_strides[inner] *= length
    target_strides[inner] *= length
    rank = rank_of(len(sizes))
    added = rank - len(sizes)
    block.add_axes(
        axes_words([1] * added + sizes, [0] * added + source_strides, [0] * added + target_strides, bits), bits
    )
    threads, apart = prod(sizes), sizes[inner] * length
    counts = (problem.sizes[inner], problem.written_sizes[inner])
    for value in (problem.source_offset, source_step, target_step, threads, apart, *counts):
        block.add_index(value, bits)
    block.add_int32(-1 if channel_axis is None else added + channel_axis)
    name = instantiation(
        "copy_generic",
        (conversion_argument(conversion), index_argument(bits)),
        "GenericPolicy",
        store_bytes=store_bytes,
        items=items,
        fills=problem.filler > 0,
        rank=rank,
        affines=affines,
        order=order,
    )
    return KernelLaunch(
        sources=("generic.cu",),
        name=name,
        grid=grid_of(-(-threads // THREADS)),
        block=(THREADS, 1, 1),
        shared_bytes=0,
        parameters=block.parameters,
        tables=block.tables,
    )


def _items(vectors: int, runs: int, most: int, gpu: GpuProperties) -> int:
    """How many vectors of a run one thread moves: as many as leave few of them empty, and all multiprocessors busy."""
    items = most
    while items > 1:
        threads = -(-vectors // items)
        if vectors >= _WELL_FILLED * threads * items and runs * threads >= gpu.multiprocessors * THREADS:
            return items
        items //= 2
    return 1
