"""Relayouts for the kernels that move tiles: written out, drawn at random, and what their machine code has to be."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st

from stridedgpu.convert import conversion
from stridedgpu.dtypes import ELEMENT_TYPES, ElementType
from stridedgpu.kernel_sources import joined_source
from stridedgpu.layout import Layout
from stridedgpu.planning.families import Family
from stridedgpu.planning.gpu import GpuProperties
from stridedgpu.planning.problem import Side

from . import machine_code
from .planned import Case

# One multiprocessor: tiles are then as large as they ever are.
SMALL = GpuProperties("a small GPU", 90, 1, 227 * 1024, 48 * 1024)
LARGE = dataclasses.replace(SMALL, name="a large GPU", multiprocessors=132)
WIDE = dataclasses.replace(SMALL, name="a small GPU with 256-bit accesses", compute_capability=100)

WORDS = {1: "uint8", 2: "float16", 4: "float32", 8: "int64", 16: "complex128"}


def side(layout: Layout, element: ElementType, alignment: int, slack: int, owned: bool) -> Side:
    """A side whose lowest element is at a multiple of `alignment`."""
    return Side(layout.shifted(-layout.first_offset), element, max(alignment, element.itemsize), slack, owned)


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
    made = conversion(*elements, source_channels=channels, **options)
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


@st.composite
def relayouts(draw: st.DrawFn) -> Case:
    """Two orders of the same axes, with paddings and flips, and all that can go with them."""
    sizes = draw(st.lists(st.sampled_from((2, 3, 4, 5, 8, 12, 17, 20, 33, 64)), min_size=2, max_size=4))
    while sum(size > 12 for size in sizes) > 2:
        sizes[next(place for place, size in enumerate(sizes) if size > 12)] = 2
    layouts = []
    for _ in range(2):
        order = draw(st.permutations(range(len(sizes))))
        step, pitches = 1, {}
        for axis in reversed(order):
            step += draw(st.sampled_from((0, 0, 0, 0, 1, 5))) if step > 1 else 0
            step = -(-step // 16) * 16 if step > 16 and draw(st.booleans()) else step
            pitches[axis] = step
            step *= sizes[axis]
        layouts.append(in_order(sizes, order, pitches))
    source = flipped(layouts[0], *draw(st.sets(st.integers(0, len(sizes) - 1), max_size=2)))
    axis = draw(st.none() | st.integers(0, len(sizes) - 1))
    types = draw(st.sampled_from(("uint8", "float32", "uint8>float16", "float32>uint8")))
    options: dict[str, Any] = {}
    if axis is not None:
        count = sizes[axis]
        if draw(st.booleans()):
            options["channels"] = draw(st.lists(st.integers(0, count - 1), min_size=count, max_size=count))
        if types != "float32":
            options["scale"] = ramp(count)
    return case(
        source,
        layouts[1],
        types,
        aligned=draw(st.sampled_from(((16, 16), (32, 32), (4, 16), (16, 2)))),
        slack=draw(st.sampled_from(((0, 0), (32, 32), (3, 7)))),
        owned=draw(st.booleans()),
        gpu=draw(st.sampled_from((SMALL, LARGE, WIDE))),
        bits=draw(st.sampled_from((None, None, 64))),
        axis=axis,
        **options,
    )


def drawn(family: Family, count: int, number: int) -> list[Case]:
    """Cases of one family, out of `count` drawn ones. All are drawn before the first is run: they share programs."""
    found: list[Case] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(relayouts())
    def collect(one: Case) -> None:
        found.append(one)

    collect()
    print("families drawn:", dict(Counter(str(one.plan.family) for one in found).most_common()))
    return [one for one in found if one.plan.family is family]


def check_machine_code(cases: Iterable[Case], architecture: str) -> None:
    """Compile what the cases ask for on an architecture: the plans' widths, nothing in local memory, no flushing."""
    capability = int(architecture.removeprefix("sm_"))
    found: dict[tuple[str, ...], dict[str, Case]] = {}
    for one in cases:
        there = dataclasses.replace(one, gpu=dataclasses.replace(one.gpu, compute_capability=capability))
        found.setdefault(there.launch.sources, {}).setdefault(there.launch.name, there)
    for sources, by_name in found.items():
        code = machine_code.compile_kernels(joined_source(*sources), list(by_name), architecture)
        for name, one in by_name.items():
            kernel, plan = code[name], one.plan
            assert (kernel.local_accesses, kernel.stack_bytes, kernel.flushing) == (0, 0, []), name
            assert kernel.loads[8 * plan.load.nbytes], (name, kernel.loads)
            assert kernel.stores[8 * plan.store.nbytes], (name, kernel.stores)


def wavefronts(addresses: Sequence[int], nbytes: int) -> int:
    """The most often that a warp's access has to touch one bank of shared memory, per round of 128 bytes.

    `addresses` are the lanes' byte addresses. Accesses of 8 and 16 bytes are done in rounds of 16 and 8 lanes; lanes
    that touch the same word share it (CUDA C++ Programming Guide, "Shared Memory").
    """
    lanes = min(32, 128 // nbytes)
    worst = 0
    for first in range(0, len(addresses), lanes):
        words = {
            (at + byte) // 4 for at in addresses[first : first + lanes] for byte in range(0, nbytes, min(nbytes, 4))
        }
        worst = max(worst, *Counter(word % 32 for word in words).values())
    return worst
