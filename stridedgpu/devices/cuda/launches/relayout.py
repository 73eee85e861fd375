"""From a relayout plan to the launch of its kernel, for every family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from stridedgpu.devices.cuda.launches import (
    channels as cuda_channels,
    flat as cuda_flat,
    generic as cuda_generic,
    packed_tile as cuda_packed_tile,
    pixels as cuda_pixels,
    rows as cuda_rows,
    shifted_channels as cuda_shifted_channels,
    shifted_rows as cuda_shifted_rows,
    transpose as cuda_transpose,
    turned_pixels as cuda_turned_pixels,
)
from stridedgpu.devices.cuda.planning.families import Family
from stridedgpu.devices.cuda.planning.gpu import GpuProperties, KernelLaunch
from stridedgpu.devices.cuda.planning.relayout import RelayoutChoice
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.tensor_spec import WIDEST_ACCESS

__all__ = ["cuda_launch"]

_Launches = Mapping[Family, Callable[[RelayoutChoice, GpuProperties], KernelLaunch]]

_LAUNCHES: Final[_Launches] = MappingProxyType(
    {
        Family.FLAT: cuda_flat.launch,
        Family.ROWS: cuda_rows.launch,
        Family.TRANSPOSE: cuda_transpose.launch,
        Family.CHANNELS: cuda_channels.launch,
        Family.PIXELS: cuda_pixels.launch,
        Family.TURNED_PIXELS: cuda_turned_pixels.launch,
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
"""The launches of funnel-shifted plans."""


def cuda_launch(plan: RelayoutChoice, gpu: GpuProperties) -> KernelLaunch:
    """The kernel, grid and parameters of `plan` on `gpu`.

    Raises `LayoutError` for a plan without elements, which has no launch, and for a side whose elements are not at
    multiples of their own size, which a GPU cannot address.
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
