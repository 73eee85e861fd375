"""Problems of every operation, drawn from a seed on any device, with the public plan and the call that runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from harness.frame_cases import DEEP, YUV, surface
from harness.gather_cases import random_layout

import stridedgpu as sg
from stridedgpu.problems.device_plan import DevicePlan
from stridedgpu.values.interpolation import INTERPOLATIONS

__all__ = ["OPERATIONS", "Drawn"]

Rng = np.random.Generator

_TYPES = ("uint8", "int16", "float32", "float64")
_NUMBERS = ("int32", "int64")


@dataclass(frozen=True)
class Drawn:
    """One problem: its name in a verbose line, its public plan, and the public call that has to run that plan."""

    operation: str
    plan: DevicePlan
    run: Callable[[], object]


def one_of(rng: Rng, choices: Sequence[str]) -> str:
    """One of them."""
    return choices[int(rng.integers(len(choices)))]


def sizes_of(rng: Rng, least_rank: int, most_rank: int, most: int, elements: int = 300) -> tuple[int, ...]:
    """Sizes whose product stays small."""
    sizes: list[int] = []
    for _ in range(int(rng.integers(least_rank, most_rank, endpoint=True))):
        sizes.append(int(rng.integers(1, max(min(most, elements // prod(sizes)), 1), endpoint=True)))
    return tuple(sizes)


def tensor(rng: Rng, sizes: tuple[int, ...], dtype: str, device: str, *, written: bool = False) -> Any:
    """A tensor of any layout over memory of its own; one that is written has no repeated elements."""
    layout = random_layout(rng, sizes, output=written)
    memory = sg.zeros((max(layout.span, 1),), dtype, device=device)
    return sg.StridedTensor(memory.buffer, layout, dtype)


def indices(rng: Rng, values: np.ndarray[Any, Any], device: str) -> Any:
    """Indices of any layout with these values."""
    made = tensor(rng, values.shape, one_of(rng, _NUMBERS), device, written=True)
    made[...] = values.astype(made.dtype)
    return made


def relayout(rng: Rng, device: str) -> Drawn:
    sizes = sizes_of(rng, 1, 5, 40, 4000)
    source = tensor(rng, sizes, one_of(rng, _TYPES), device)
    target = tensor(rng, sizes, one_of(rng, _TYPES), device, written=True)
    return Drawn(
        "relayout",
        sg.plan_relayout(source, target).plan,
        lambda: sg.relayout(source, out=target),
    )


def gather(rng: Rng, device: str) -> Drawn:
    sizes, dtype = sizes_of(rng, 1, 4, 9), one_of(rng, _TYPES)
    axis, count = int(rng.integers(len(sizes))), sizes_of(rng, 0, 2, 5)
    table = tensor(rng, sizes, dtype, device)
    chosen = indices(rng, np.arange(prod(count)).reshape(count) % sizes[axis], device)
    out = tensor(rng, (*sizes[:axis], *count, *sizes[axis + 1 :]), dtype, device, written=True)
    return Drawn(
        "gather",
        sg.plan_gather(table, chosen, axis, out=out).plan,
        lambda: sg.gather(table, chosen, axis, out=out),
    )


def gather_elements(rng: Rng, device: str) -> Drawn:
    sizes, dtype = sizes_of(rng, 1, 4, 9), one_of(rng, _TYPES)
    axis = int(rng.integers(len(sizes)))
    table = tensor(rng, sizes, dtype, device)
    chosen = indices(rng, np.arange(prod(sizes)).reshape(sizes) % sizes[axis], device)
    out = tensor(rng, sizes, dtype, device, written=True)
    return Drawn(
        "gather",
        sg.plan_gather_elements(table, chosen, axis, out=out).plan,
        lambda: sg.gather_elements(table, chosen, axis, out=out),
    )


def _tuples(rng: Rng, sizes: tuple[int, ...], device: str) -> Any:
    """Different tuples of coordinates along the first axes of `sizes`."""
    length = int(rng.integers(1, len(sizes), endpoint=True))
    count = int(rng.integers(1, prod(sizes[:length]), endpoint=True))
    return indices(rng, np.stack(np.unravel_index(np.arange(count), sizes[:length]), -1), device)


def gather_nd(rng: Rng, device: str) -> Drawn:
    sizes, dtype = sizes_of(rng, 1, 4, 9), one_of(rng, _TYPES)
    table, chosen = tensor(rng, sizes, dtype, device), _tuples(rng, sizes, device)
    out = tensor(rng, (*chosen.sizes[:-1], *sizes[chosen.sizes[-1] :]), dtype, device, written=True)
    return Drawn(
        "gather",
        sg.plan_gather_nd(table, chosen, out=out).plan,
        lambda: sg.gather_nd(table, chosen, out=out),
    )


def scatter_elements(rng: Rng, device: str) -> Drawn:
    sizes, dtype = sizes_of(rng, 1, 4, 9), one_of(rng, _TYPES)
    axis = int(rng.integers(len(sizes)))
    line = np.arange(sizes[axis]).reshape(-1, *(1,) * (len(sizes) - axis - 1))
    table, updates = tensor(rng, sizes, dtype, device), tensor(rng, sizes, dtype, device)
    chosen = indices(rng, np.broadcast_to(line, sizes), device)
    out = tensor(rng, sizes, dtype, device, written=True)
    return Drawn(
        "scatter",
        sg.plan_scatter_elements(table, chosen, updates, axis, unique=True, out=out).plan,
        lambda: sg.scatter_elements(table, chosen, updates, axis, unique=True, out=out),
    )


def scatter_nd(rng: Rng, device: str) -> Drawn:
    sizes, dtype = sizes_of(rng, 1, 4, 9), one_of(rng, _TYPES)
    table, chosen = tensor(rng, sizes, dtype, device), _tuples(rng, sizes, device)
    updates = tensor(rng, (*chosen.sizes[:-1], *sizes[chosen.sizes[-1] :]), dtype, device)
    out = tensor(rng, sizes, dtype, device, written=True)
    return Drawn(
        "scatter",
        sg.plan_scatter_nd(table, chosen, updates, unique=True, out=out).plan,
        lambda: sg.scatter_nd(table, chosen, updates, unique=True, out=out),
    )


def _images(rng: Rng, device: str) -> Any:
    """A batch (N, C, H, W) in an order of its own."""
    sizes = tuple(int(rng.integers(1, most, endpoint=True)) for most in (3, 4, 12, 12))
    order = one_of(rng, ("NCHW", "NHWC"))
    return sg.zeros(sizes, one_of(rng, ("uint8", "float32")), layout=order, device=device)


def crops(rng: Rng, device: str) -> Drawn:
    images = _images(rng, device)
    size = tuple(int(rng.integers(1, extent, endpoint=True)) for extent in images.sizes[2:])
    order = one_of(rng, ("NCHW", "NHWC"))
    out = sg.empty((*images.sizes[:2], *size), one_of(rng, _TYPES), layout=order, device=device)
    return Drawn(
        "crops",
        sg.plan_gather_crops(images, size, out=out).plan,
        lambda: sg.gather_crops(images, [(0, 0)] * images.sizes[0], size, out=out),
    )


def resize(rng: Rng, device: str) -> Drawn:
    images = _images(rng, device)
    size = tuple(int(rng.integers(1, 12, endpoint=True)) for _ in range(2))
    order = one_of(rng, ("NCHW", "NHWC"))
    name = one_of(
        rng, tuple(INTERPOLATIONS) if images.dtype == "uint8" else ("pillow-nearest", "pillow-bicubic", "opencv-area")
    )
    out = sg.empty((*images.sizes[:2], *size), one_of(rng, _TYPES), layout=order, device=device)
    return Drawn(
        "resize",
        sg.plan_resize(images, out, interpolation=name).plan,
        lambda: sg.resize(images, size, interpolation=name, out=out),
    )


def frame(rng: Rng, device: str) -> Drawn:
    sizes = tuple(2 * int(rng.integers(1, 20, endpoint=True)) for _ in range(2))
    name = one_of(rng, (*YUV, *DEEP))
    source = surface(name, sizes, 1, 2 * int(rng.integers(5))).frame().to_device(device)
    order = one_of(rng, ("CHW", "HWC"))
    out = sg.empty((3, *sizes), one_of(rng, ("uint8", "float32")), layout=order, device=device)
    plan = sg.plan_relayout(source, out).plan
    return Drawn(
        "frame",
        plan,
        lambda: sg.relayout(source, out=out),
    )


OPERATIONS: Mapping[str, Callable[[Rng, str], Drawn]] = {
    draw.__name__: draw
    for draw in (
        relayout,
        gather,
        gather_elements,
        gather_nd,
        scatter_elements,
        scatter_nd,
        crops,
        resize,
        frame,
    )
}
"""Each operation, by its name."""
