"""A few relayouts in which every two template arguments meet that the planner combines, to compile them all.

    cases = covering(varied([(source, target), ...], "sm_90"), pairs_of_types=False)

All instantiations of a kernel are too many to compile: the planner can combine any conversion with any widths, ranks,
kinds of channels and directions. What spills or splits an access shows in a pair of these already, so that a few
hundred of them tell.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from stridedgpu.dtypes import ELEMENT_TYPES
from stridedgpu.layout import Layout
from stridedgpu.planning.gpu import GpuProperties, KernelLaunch

from .exact_conversion import COMPONENTS, REALS
from .planned import Case
from .tiled_cases import LARGE, WORDS, case, flipped, ramp

_ROUNDS = 6
_MOST_CHANNELS = 300
_WIDTHS = (1, 2, 4, 8, 16, 32)
_COMPLEX = (*itertools.product(REALS, COMPONENTS), *itertools.permutations(COMPONENTS, 2))

Feature = tuple[Any, ...]


def covering(cases: Iterable[Case], *, pairs_of_types: bool) -> list[Case]:
    """The first of the cases in which every two template arguments of all the cases' kernels meet.

    Of a conversion, these are the sizes of its types, and what it does. Each type is there as well, on either side;
    with `pairs_of_types` each pair of types, scaled or biased.
    """
    seen: set[Feature] = set()
    found = []
    for one in cases:
        features = _features(one.launch, pairs_of_types=pairs_of_types)
        if not features <= seen:
            seen |= features
            found.append(one)
    return found


def varied(layouts: Sequence[tuple[Layout, Layout]], architecture: str, rounds: int = _ROUNDS) -> Iterator[Case]:
    """Pairs of layouts with all that can go with them, drawn at random: the same ones whenever it is asked.

    Every pair of element types is cast and scaled in each round, at the widest accesses in the first.
    """
    drawn = random.Random(0)
    capability = int(architecture.removeprefix("sm_"))
    gpus = [
        GpuProperties(architecture, capability, count, LARGE.shared_bytes, LARGE.bytes_in_flight) for count in (1, 132)
    ]
    kinds = [(f"{one}>{other}", arithmetic) for one in REALS for other in REALS for arithmetic in (True, False)]
    kinds += [(f"{one}>{other}", False) for one, other in _COMPLEX]
    kinds += [(name, False) for name in WORDS.values()] * 10
    for number, (types, arithmetic) in itertools.product(range(rounds), kinds):
        source, target = drawn.choice(layouts)
        axis = drawn.choice((None, *(axis for axis, size in enumerate(source.sizes) if size <= _MOST_CHANNELS)))
        made = case(
            flipped(source, *(axis for axis in range(source.ndim) if drawn.random() < 0.15)),
            target,
            types,
            (32, 32) if number == 0 else (drawn.choice(_WIDTHS), drawn.choice(_WIDTHS)),
            slack=(32, 32),
            owned=drawn.random() < 0.5,
            gpu=drawn.choice(gpus),
            bits=drawn.choice((None, 64)),
            axis=axis,
            **_options(drawn, None if axis is None else source.sizes[axis], arithmetic),
        )
        yield dataclasses.replace(made, filler=drawn.choice((0, _room(target, axis))))


def _room(target: Layout, axis: int | None) -> int:
    """How many zeros fill up each run of channels."""
    if axis is None or target.strides[axis] != 1:
        return 0
    return min((stride for stride in target.strides if stride > 1), default=target.sizes[axis]) - target.sizes[axis]


def template_arguments(launch: KernelLaunch) -> tuple[list[str], list[str]]:
    """The conversion's template arguments, and the kernel's others."""
    inside = launch.name.partition("<sg::Conversion<")[2].removesuffix(">")
    made, _, rest = inside.partition(">, ")
    return made.split(", "), rest.split(", ")


def _options(drawn: random.Random, channels: int | None, arithmetic: bool) -> dict[str, Any]:
    """Scale and bias, for all channels alike or for each, and an uneven choice of channels."""
    options: dict[str, Any] = {"rounding": drawn.choice(("nearest", "nearest", "truncate"))}
    if arithmetic:
        alone = drawn.choice(("scale", "bias", None, None, None, None))
        for name in ("scale", "bias"):
            if alone in (name, None):
                each = channels is not None and drawn.random() < 0.7
                options[name] = ramp(channels) if each else 2.0
    if channels is not None and drawn.random() < 0.4:
        options["channels"] = [(value * value * 3 + 1) % channels for value in range(channels)]
    return options


def _features(launch: KernelLaunch, *, pairs_of_types: bool) -> set[Feature]:
    (source, target, *arithmetic), others = template_arguments(launch)
    sizes = tuple(_itemsize(name) for name in (source, target))
    arguments = [*enumerate(others), ("sizes", sizes), *((f"made {i}", value) for i, value in enumerate(arithmetic))]
    alone: set[Feature] = {("source", source), ("target", target)}
    if pairs_of_types and "true" in arithmetic:
        alone.add(("scaled", source, target))
    return alone | set(itertools.combinations(arguments, 2))


def _itemsize(name: str) -> int:
    """The bytes of an element type or a word in C++."""
    name = name.removeprefix("sg::")
    if name in ELEMENT_TYPES:
        return ELEMENT_TYPES[name].itemsize
    return 1 if name == "boolean" else int(re.sub(r"\D", "", name)) // 8
