"""A few relayouts that stand for all instantiations that the planner can ask for.

    cases = covering(varied([(source, target), ...]), features)

All instantiations of a kernel are too many to compile: the planner can combine any conversion with any widths, ranks,
kinds of channels and directions, for any architecture. What spills, splits an access or moves a wrong byte shows in a
pair of these already; what has to be there besides pairs, `features` says.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from harness.kernel_names import conversion_of, policy_of, types_of

from stridedgpu.devices.cuda.gpu import GpuProperties
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.layout import Layout

from .cases import LARGE, WORDS, case, flipped, ramp
from .exact_conversion import COMPONENTS, REALS
from .machine_code import ARCHITECTURES
from .planned import Case

_ROUNDS = 3
_MOST_CHANNELS = 300
_WIDTHS = (1, 2, 4, 8, 16, 32)
_COMPLEX = (*itertools.product(REALS, COMPONENTS), *itertools.permutations(COMPONENTS, 2))

Feature = tuple[Any, ...]


def covering(cases: Iterable[Case], features_of: Callable[[Case], set[Feature]]) -> list[Case]:
    """Few of the cases, all of one kernel, that have every feature that any of them has: the greedy choice."""
    candidates = {(one.launch.name, architecture_of(one)): one for one in cases}.values()
    missing = [(one, features_of(one)) for one in candidates]
    queue = [(-len(lacked), place) for place, (_, lacked) in enumerate(missing)]
    heapq.heapify(queue)
    found = []
    seen: set[Feature] = set()
    while queue:
        gain, place = heapq.heappop(queue)
        one, lacked = missing[place]
        lacked -= seen
        if len(lacked) == -gain > 0:
            found.append(one)
            seen |= lacked
        elif lacked:
            heapq.heappush(queue, (-len(lacked), place))
    return found


def features(one: Case, *, crowded: bool = False) -> set[Feature]:
    """What is to be compiled in some case: any two template arguments together, and each with each architecture.

    Of a conversion, the arguments are the sizes of its types, and what it does. Besides pairs: each type on either
    side, and what `widths` says. `crowded` is where registers may run out: any other argument then goes with each pair
    of sizes, and each pair of types is scaled or biased in some case.
    """
    source, target, *arithmetic = conversion_of(one.launch.name)
    moved, sizes, made = _arguments(one)
    alone: set[Feature] = {("source", source), ("target", target), *widths(one)}
    if crowded:
        sizes = [("sizes", *sizes)]
        alone |= {("scaled", source, target)} if "true" in arithmetic else set()
    return alone | set(itertools.combinations((*moved, *sizes, *made, ("architecture", architecture_of(one))), 2))


def executed_features(one: Case, *, threes: bool = False) -> set[Feature]:
    """What is to run in some case: any two template arguments that say how elements move.

    The emulator has no architectures. What a conversion does is paired with the sizes of its types alone: it is a
    function of its own, which `test_conversion_kernels.py` compares for every pair of types. Loads know the source's
    size and stores the target's; with `threes`, any other argument goes with each pair of sizes.
    """
    source, target, *_ = conversion_of(one.launch.name)
    moved, sizes, made = _arguments(one)
    if threes:
        sizes = [("sizes", *sizes)]
    alone: set[Feature] = {("source", source), ("target", target), *widths(one)}
    return alone | {*itertools.combinations([*moved, *sizes], 2), *itertools.product(sizes, made)}


def _arguments(one: Case) -> tuple[list[Feature], list[Feature], list[Feature]]:
    """The template arguments that say how elements move, the sizes of both types, and what the conversion does."""
    source, target, *arithmetic = conversion_of(one.launch.name)
    sizes = [("source size", _itemsize(source)), ("target size", _itemsize(target))]
    return [*constants(one)], [*sizes], [(f"made {i}", value) for i, value in enumerate(arithmetic)]


def constants(one: Case) -> list[tuple[str, str]]:
    """The index type and each constant of the kernel's policy, by name."""
    name = one.launch.name
    return [("index", types_of(name)[1]), *policy_of(name).items()]


def widths(one: Case) -> set[Feature]:
    """Element size, vector width and index width, on either side; both sides' widths where elements move as bits."""
    plan = one.plan
    source, target = plan.problem.source.element.itemsize, plan.problem.target.element.itemsize
    found: set[Feature] = {
        ("load", source, plan.load.nbytes, plan.index_bits),
        ("store", target, plan.store.nbytes, plan.index_bits),
    }
    if plan.problem.conversion.is_bitwise_copy:
        found.add(("moves", source, plan.load.nbytes, plan.store.nbytes))
    return found


def architecture_of(one: Case) -> str:
    """The architecture that a case is planned for."""
    return f"sm_{one.gpu.compute_capability}"


def varied(layouts: Sequence[tuple[Layout, Layout]], seed: int = 0) -> Iterator[Case]:
    """Pairs of layouts with all that can go with them, drawn at random: the same ones for the same seed.

    Every pair of element types is cast and scaled in each round, at the widest accesses in the first; elements of
    every size move as bits with every pair of widths.
    """
    drawn = random.Random(seed)
    kinds = [(f"{one}>{other}", arithmetic) for one in REALS for other in REALS for arithmetic in (True, False)]
    kinds += [(f"{one}>{other}", False) for one, other in _COMPLEX]
    for number, (types, arithmetic) in itertools.product(range(_ROUNDS), kinds):
        aligned = (32, 32) if number == 0 else (drawn.choice(_WIDTHS), drawn.choice(_WIDTHS))
        yield _one(drawn, layouts, types, aligned, arithmetic=arithmetic)
    for (itemsize, name), *aligned in itertools.product(WORDS.items(), _WIDTHS, _WIDTHS):
        if min(aligned) >= itemsize:
            for _ in range(_ROUNDS):
                yield _one(drawn, layouts, name, tuple(aligned), arithmetic=False)


def _one(
    drawn: random.Random,
    layouts: Sequence[tuple[Layout, Layout]],
    types: str,
    aligned: tuple[int, int],
    *,
    arithmetic: bool,
) -> Case:
    source, target = drawn.choice(layouts)
    capability = int(drawn.choice(ARCHITECTURES).removeprefix("sm_"))
    axis = drawn.choice((None, *(axis for axis, size in enumerate(source.sizes) if size <= _MOST_CHANNELS)))
    made = case(
        flipped(source, *(axis for axis in range(source.ndim) if drawn.random() < 0.15)),
        target,
        types,
        aligned,
        slack=(32, 32),
        owned=drawn.random() < 0.5,
        gpu=GpuProperties(
            f"sm_{capability}", capability, drawn.choice((1, 132)), LARGE.shared_bytes, LARGE.bytes_in_flight
        ),
        bits=drawn.choice((None, 64)),
        axis=axis,
        **_options(drawn, None if axis is None else source.sizes[axis], arithmetic),
    )
    return dataclasses.replace(made, filler=drawn.choice((0, _room(target, axis))))


def _room(target: Layout, axis: int | None) -> int:
    """How many zeros fill up each run of channels."""
    if axis is None or target.strides[axis] != 1:
        return 0
    return min((stride for stride in target.strides if stride > 1), default=target.sizes[axis]) - target.sizes[axis]


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


def _itemsize(name: str) -> int:
    """The bytes of an element type or a word in C++."""
    name = name.removeprefix("sg::")
    if name in ELEMENT_TYPES:
        return ELEMENT_TYPES[name].itemsize
    return 1 if name == "boolean" else int(re.sub(r"\D", "", name)) // 8
