"""Gathers on native loops: problems, the kernels that the policy chooses for them, and thresholds for each kernel."""

from __future__ import annotations

from contextlib import contextmanager

from harness.fenced_memory import lowest_at_zero
from harness.native_loops import policy_for, policy_with

from stridedgpu import Layout
from stridedgpu.devices.cpu.native.gather import plan_gather
from stridedgpu.devices.cpu.target import Target
from stridedgpu.problems.gather_problem import elements_problem
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.tensor_spec import TensorSpec

FEW = {"item_bytes": range(256, 257)}
VARIANTS = {
    "cached": {},
    "small items": {"item_bytes": range(64, 65)},
    "rows in registers": FEW | {"load_cost": 1e9},
    "single loads": FEW | {"row_registers": 0},
}


@contextmanager
def planned_as(variant):
    """Kernels as for small results, in many items and prefetched, or row by row.

    Or those of a processor with fewer instruction sets.
    """
    if isinstance(variant, Target):
        with policy_for(variant.features):
            yield
        return
    with policy_with(gather=VARIANTS[variant]):
        yield


def side_of(layout, element):
    return TensorSpec.of(lowest_at_zero(layout), element_type(element), base_alignment=element_type(element).itemsize)


def elements_of_rows(element, index_type, count, size, width, *, pitch=0, scatters=False):
    """`width` elements of each of so many rows of `size` elements, with so many between the rows."""
    data, dense = Layout((count, size), (size + pitch, 1)), Layout((count, width))
    return elements_problem(
        side_of(data, element), side_of(dense, index_type), side_of(dense, element), 1, scatters=scatters
    )


def kernel_of(problem, mode="raise"):
    return plan_gather(problem, mode).kernel


RUNS = (1, 2, 3, 4, 8, 12, 16, 31, 32, 63, 64, 65, 96, 128, 200, 256, 257, 1000, 4096, 70_000)
"""Bytes of runs: about each width of a vector, and longer ones."""
