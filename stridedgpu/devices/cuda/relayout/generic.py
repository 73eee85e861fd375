"""Any strides, in the target's order (`generic.cu`): the vectors of a thread, and the launch."""

from __future__ import annotations

from math import prod

from stridedgpu.devices.cuda.gpu import THREADS, GpuProperties, KernelLaunch
from stridedgpu.devices.cuda.parameters import ParameterBlock, conversion_argument, index_argument, instantiation
from stridedgpu.devices.cuda.policy import policy

from .choice import RelayoutChoice, itemsizes_of


def generic_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a plan with any strides."""
    problem, bits, conversion = plan.problem, plan.index_bits, plan.problem.conversion
    sizes, channel_axis = list(problem.sizes), problem.channel_axis
    source_strides, target_strides = list(problem.source_strides), list(problem.target_strides)
    inner = len(sizes) - 1
    itemsizes = itemsizes_of(problem)
    # The innermost axis is cut into stores; into single elements if adjacent ones have different channels.
    store_bytes = itemsizes[1] if channel_axis == inner else plan.store.nbytes
    length = store_bytes // itemsizes[1]
    vectors = -(-problem.written_sizes[inner] // length)
    limits = policy().generic
    most = min(limits.most_items, limits.most_elements // length, limits.most_bytes // (length * max(itemsizes)))
    items = _items(vectors, prod(sizes[:inner]), max(most, 1), gpu)

    block = ParameterBlock(bits)
    affines = block.add_affines(conversion)
    order = block.add_order(conversion, 0 if channel_axis is None else source_strides[channel_axis])
    if channel_axis is not None and conversion.channels is not None:
        source_strides[channel_axis] = 0  # the offsets come from the table
    source_step, target_step = source_strides[inner], target_strides[inner]
    sizes[inner] = -(-vectors // items)
    source_strides[inner] *= length
    target_strides[inner] *= length
    rank = block.add_axes(sizes, source_strides, target_strides)
    threads, distance = prod(sizes), sizes[inner] * length
    counts = (problem.sizes[inner], problem.written_sizes[inner])
    block.add_indices(problem.source_offset, source_step, target_step, threads, distance, *counts)
    block.add_int32(-1 if channel_axis is None else rank - len(sizes) + channel_axis)
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
    tile = _innermost_box(problem.sizes, THREADS * length)
    return block.launch("generic.cu", name, -(-threads // THREADS), tile=tile)


def _items(vectors: int, runs: int, most: int, gpu: GpuProperties) -> int:
    """Vectors of a run for one thread: as many as leave few of them empty, and all multiprocessors busy."""
    items, well_filled = most, policy().generic.well_filled
    while items > 1:
        threads = -(-vectors // items)
        if vectors >= well_filled * threads * items and runs * threads >= gpu.multiprocessors * THREADS:
            return items
        items //= 2
    return 1


def _innermost_box(sizes: tuple[int, ...], most: int) -> tuple[int, ...]:
    """A box of at most `most` elements that fills the inner loops first."""
    extents: list[int] = []
    for size in reversed(sizes):
        extents.insert(0, max(1, min(size, most)))
        most //= max(1, size)
    return tuple(extents)
