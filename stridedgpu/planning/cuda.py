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
    cuda_pixels,
    cuda_rows,
    cuda_shifted_channels,
    cuda_shifted_rows,
    cuda_transpose,
)
from .families import Family
from .gpu import GpuProperties, KernelLaunch
from .plan import Plan
from .problem import WIDEST_ACCESS

__all__ = ["cuda_launch"]

_Launches = Mapping[Family, Callable[[Plan, GpuProperties], KernelLaunch]]

_LAUNCHES: Final[_Launches] = MappingProxyType(
    {
        Family.FLAT: cuda_flat.launch,
        Family.ROWS: cuda_rows.launch,
        Family.TRANSPOSE: cuda_transpose.launch,
        Family.CHANNELS: cuda_channels.launch,
        Family.PIXELS: cuda_pixels.launch,
        Family.PACKED_TILE: cuda_packed_tile.launch,
        Family.GENERIC: cuda_generic.launch,
    }
)

_SHIFTED: Final[_Launches] = MappingProxyType(
    {
        Family.FLAT: cuda_shifted_rows.launch,
        Family.ROWS: cuda_shifted_rows.launch,
        Family.CHANNELS: cuda_shifted_channels.launch,
        Family.PIXELS: cuda_shifted_channels.launch,
    }
)
"""Where vectors are put together from words."""


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
    return (_SHIFTED if plan.shifts else _LAUNCHES)[plan.family](plan, gpu)
