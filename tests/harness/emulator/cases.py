"""Relayouts for the tests of kernels, written out in a line each or drawn at random."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st

from stridedgpu.devices.cuda.gpu import GpuProperties
from stridedgpu.devices.cuda.relayout.choice import Family
from stridedgpu.values.conversion import conversion_options
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .planned import Case

# One multiprocessor: little data is then enough for large tiles, and for several steps or rows under way.
SMALL = GpuProperties("a small GPU", 90, 1, 227 * 1024, 48 * 1024)
LARGE = dataclasses.replace(SMALL, name="a large GPU", multiprocessors=132)
WIDE = dataclasses.replace(SMALL, name="a small GPU with 256-bit accesses", compute_capability=100)

Drawn = TypeVar("Drawn")

WORDS = {1: "uint8", 2: "float16", 4: "float32", 8: "int64", 16: "complex128"}


def side(layout: Layout, element: ElementType, alignment: int, slack: int, owned: bool) -> TensorSpec:
    """A side whose lowest element is at a multiple of `alignment`."""
    return TensorSpec(layout.shifted(-layout.first_offset), element, max(alignment, element.itemsize), slack, owned)


def case(
    source: Layout,
    target: Layout,
    types: str = "uint8",
    aligned: tuple[int, int] = (16, 16),
    slack: tuple[int, int] = (0, 0),
    owned: bool = False,
    gpu: GpuProperties = SMALL,
    bits: int | None = None,
    axis: int | None = None,
    **options: Any,
) -> Case:
    """A case between two layouts; `types` is one element type or "from>to", `options` are those of a conversion."""
    names = types.split(">")
    elements = [ELEMENT_TYPES[name] for name in (names[0], names[-1])]
    channels = None if axis is None else source.sizes[axis]
    made = conversion_options(**options).conversion(elements[0], channels, elements[1])
    sides = [
        side(source, elements[0], aligned[0], slack[0], False),
        side(target, elements[1], aligned[1], slack[1], owned),
    ]
    return Case(*sides, made, axis, gpu, index_bits=bits)


def in_order(sizes: Sequence[int], order: Sequence[int], pitches: dict[int, int] | None = None) -> Layout:
    """Axes from the outermost to the innermost in memory; `pitches` are strides in elements, by axis."""
    strides = [0] * len(sizes)
    step = 1
    for axis in reversed(order):
        strides[axis] = step = max(step, (pitches or {}).get(axis, step))
        step *= sizes[axis]
    return Layout(tuple(sizes), tuple(strides))


def ramp(count: int) -> list[float]:
    """Different values, some of which leave the range of small types."""
    return [0.25 + 7.5 * value for value in range(count)]


def flipped(layout: Layout, *axes: int) -> Layout:
    """The same memory, seen backwards along some axes."""
    return layout.sliced(tuple(slice(None, None, -1 if axis in axes else None) for axis in range(layout.ndim)))


def collected(strategy: st.SearchStrategy[Drawn], count: int, number: int) -> list[Drawn]:
    """Up to `count` drawn values. All are drawn before the first is run: they share programs."""
    found: list[Drawn] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(one: Drawn) -> None:
        found.append(one)

    collect()
    return found


def drawn(strategy: st.SearchStrategy[Case], families: set[Family], count: int, number: int) -> list[Case]:
    """Cases of some families, out of `count` drawn ones."""
    found = collected(strategy, count, number)
    print("families drawn:", dict(Counter(str(one.plan.family) for one in found).most_common()))
    return [one for one in found if one.plan.family in families]
