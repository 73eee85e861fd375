"""Relayouts for the kernels that move tiles: drawn at random, and what their machine code has to be."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from harness.kernel_names import policy_of
from hypothesis import strategies as st

from .cases import LARGE, SMALL, WIDE, case, flipped, in_order, ramp
from .launched import unspilled
from .planned import Case


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


def check_machine_code(cases: Iterable[Case], architecture: str) -> None:
    """Compile what the cases ask for on an architecture: the plans' widths, nothing in local memory, no flushing.

    What bulk copies bring, no thread loads.
    """
    capability = int(architecture.removeprefix("sm_"))
    found: dict[str, Case] = {}
    for one in cases:
        there = dataclasses.replace(one, gpu=dataclasses.replace(one.gpu, compute_capability=capability))
        found.setdefault(there.launch.name, there)
    for name, kernel in unspilled([one.launch for one in found.values()], architecture).items():
        plan = found[name].plan
        if policy_of(name).get("stages", "0") == "0":
            assert kernel.loads[8 * plan.load.nbytes], (name, kernel.loads)
        else:
            assert (kernel.bulk_copies > 0, kernel.load_bits) == (True, []), (name, kernel.loads)
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
