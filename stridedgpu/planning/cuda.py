"""From a plan to the launch of a CUDA kernel, whichever family it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from stridedgpu.errors import LayoutError

from . import (
    cuda_channels,
    cuda_flat,
    cuda_generic,
    cuda_packed_tile,
    cuda_rows,
    cuda_shifted_rows,
    cuda_transpose,
)
from .families import Family
from .gpu import GpuProperties, KernelLaunch
from .kernel_families import kernel_family
from .plan import Plan
from .problem import WIDEST_ACCESS

__all__ = ["cuda_launch"]

_LAUNCHES: Final[Mapping[Family, Callable[[Plan, GpuProperties], KernelLaunch]]] = MappingProxyType(
    {
        Family.FLAT: cuda_flat.launch,
        Family.ROWS: cuda_rows.launch,
        Family.TRANSPOSE: cuda_transpose.launch,
        Family.CHANNELS: cuda_channels.launch,
        Family.PACKED_TILE: cuda_packed_tile.launch,
        Family.GENERIC: cuda_generic.launch,
    }
)


def cuda_launch(plan: Plan, gpu: GpuProperties) -> KernelLaunch:
    """The kernel, grid and parameters that carry out `plan` on `gpu`.

    Raises `LayoutError` for a plan without elements: there is nothing to launch; and for a side whose elements do not
    lie at multiples of their own size, which a GPU cannot address.
    """
    if plan.family is Family.EMPTY:
        raise LayoutError(f"A plan over sizes {plan.problem.sizes} has no elements; there is nothing to launch.")
    for name, alignment, element in (
        ("source", plan.problem.source_alignment, plan.problem.source.element),
        ("target", plan.problem.target.alignment, plan.problem.target.element),
    ):
        if alignment < min(element.itemsize, WIDEST_ACCESS):
            raise LayoutError(
                f"The {name}'s {element} elements lie at multiples of {alignment} bytes only; a GPU addresses them at "
                f"multiples of {element.itemsize}. See the bytes as uint8 and relayout them into an aligned tensor."
            )
    if plan.shifts:
        return cuda_shifted_rows.launch(plan, gpu)
    return _LAUNCHES[kernel_family(plan.problem, plan.family)](plan, gpu)
