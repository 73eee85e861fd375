"""Relayouts between pixels and planes, for the tests of the kernels that split and join channels."""

from __future__ import annotations

from typing import Any

from stridedgpu.values.layout import Layout

from .cases import case, in_order
from .planned import Case


def nhwc(channels: int, width: int, pixel: int = 0, row: int = 0, sizes: tuple[int, int] = (2, 5)) -> Layout:
    """Pixels `pixel` elements apart in rows `row` elements apart, with sizes in the order N C H W."""
    return in_order((sizes[0], channels, sizes[1], width), (0, 2, 3, 1), {3: pixel, 2: row})


def nchw(channels: int, width: int, row: int = 0, sizes: tuple[int, int] = (2, 5)) -> Layout:
    """Planes with rows `row` elements apart."""
    return in_order((sizes[0], channels, sizes[1], width), (0, 1, 2, 3), {2: row})


def both_ways(pixels: Layout, planes: Layout, types: str = "uint8", **options: Any) -> list[Case]:
    """Pixels split, and planes joined: in gaps that are ours and in gaps that are not."""
    back = ">".join(reversed(types.split(">")))
    found = [case(pixels, planes, types, **options), case(planes, pixels, back, **options)]
    if pixels.is_padded:
        found.append(case(planes, pixels, back, owned=True, slack=(0, 32), **options))
    return found
