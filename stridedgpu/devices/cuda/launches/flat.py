"""Launches of family A, flat: one run, contiguous on both sides (`kernels/relayout/flat.cu`)."""

from __future__ import annotations

from stridedgpu.devices.cuda.planning.gpu import THREADS, GpuProperties, KernelLaunch, grid_of
from stridedgpu.devices.cuda.planning.relayout import RelayoutChoice

from .instantiation import instantiation
from .parameters import ParameterBlock, conversion_argument, index_argument
from .run_steps import RunSteps
from .tiles import tile_box

__all__ = ["launch"]


def launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The launch of a flat plan: one element, or one run of them."""
    problem, bits = plan.problem, plan.index_bits
    source_itemsize, target_itemsize = problem.source.element.itemsize, problem.target.element.itemsize
    vectors = RunSteps(
        plan.load.nbytes // source_itemsize, plan.store.nbytes // target_itemsize, source_itemsize, target_itemsize
    )
    count = problem.element_count
    steps = vectors.under_way(gpu)
    # A small copy is spread over more blocks, with fewer loads in flight each.
    if count < gpu.multiprocessors * THREADS * vectors.length * steps:
        steps = 1
    loaded_past, stored_past = vectors.bytes_past_end(count, count)
    load_count, store_count = vectors.whole_counts(
        count,
        count,
        may_read_on=loaded_past <= problem.source.slack_bytes,
        may_write_on=problem.target.owns_padding and stored_past <= problem.target.slack_bytes,
    )
    block = ParameterBlock()
    block.add_affines(problem.conversion)
    for value in (problem.source_offset, count, load_count, store_count):
        block.add_index(value, bits)
    name = instantiation(
        "copy_flat",
        (conversion_argument(problem.conversion), index_argument(bits)),
        "FlatPolicy",
        load_bytes=plan.load.nbytes,
        store_bytes=plan.store.nbytes,
        steps=steps,
    )
    return KernelLaunch(
        sources=("flat.cu",),
        name=name,
        grid=grid_of(-(-count // (THREADS * vectors.length * steps))),
        block=(THREADS, 1, 1),
        shared_bytes=0,
        parameters=block.parameters,
        tables=block.tables,
        tile=tile_box(problem, dict.fromkeys(range(len(problem.sizes)), THREADS * vectors.length * steps)),
    )
