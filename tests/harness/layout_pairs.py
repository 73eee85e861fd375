"""Relayouts as programs ask for them, drawn to be planned: sizes are as large as they come, and nothing is moved."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from harness.emulator.cases import LARGE, case, in_order
from harness.emulator.machine_code import ARCHITECTURES
from harness.emulator.planned import Case

from stridedgpu.devices.cuda.gpu import GpuProperties
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.layout import Layout

__all__ = ["layout_pairs"]

_BATCHES, _DEPTHS = (1, 1, 2, 8), (1, 3, 16)
_CHANNELS = (1, 2, 3, 3, 4, 5, 8, 12, 16, 17, 32, 64, 256)
_PLANES = ((5, 7), (7, 7), (14, 14), (20, 30), (24, 32), (224, 224), (480, 641), (1080, 1920))
_OTHERS = ((101,), (1 << 33,), (64, 64), (1000, 3), (37, 5000), (12, 197, 768), (1000, 3, 5), (2, 3, 4, 5, 6, 7, 8))
_REALS = [name for name, element in ELEMENT_TYPES.items() if element.kind in "buif"]
_ALIGNMENTS = (1, 2, 4, 8, 16, 16, 32, 32, 32)

_GPUS = [
    GpuProperties(architecture, int(architecture.removeprefix("sm_")), count, LARGE.shared_bytes, LARGE.bytes_in_flight)
    for architecture in ARCHITECTURES
    for count in (1, 132)
]


def layout_pairs(count: int, seed: int) -> Iterator[Case]:
    """So many relayouts, the same ones for the same seed."""
    drawn = random.Random(seed)
    for _ in range(count):
        sizes, axis = _shape(drawn)
        chosen, options = _conversion(drawn, None if axis is None else sizes[axis])
        target_sizes = list(sizes)
        if axis is not None and chosen is not None:
            target_sizes[axis] = len(chosen)
        yield case(
            _layout(drawn, sizes, may_repeat=True),
            _layout(drawn, target_sizes, may_repeat=False),
            aligned=(drawn.choice(_ALIGNMENTS), drawn.choice(_ALIGNMENTS)),
            slack=drawn.choice(((0, 0), (32, 32))),
            owned=drawn.random() < 0.5,
            gpu=drawn.choice(_GPUS),
            axis=axis,
            channels=chosen,
            **options,
        )


def _shape(drawn: random.Random) -> tuple[tuple[int, ...], int | None]:
    """Sizes and the axis of the channels: images, volumes, and what has neither."""
    kind = drawn.choice(("image", "image", "image", "volume", "other"))
    if kind == "other":
        return drawn.choice(_OTHERS), None
    depth = (drawn.choice(_DEPTHS),) if kind == "volume" else ()
    return (drawn.choice(_BATCHES), drawn.choice(_CHANNELS), *depth, *drawn.choice(_PLANES)), 1


def _layout(drawn: random.Random, sizes: Sequence[int], *, may_repeat: bool) -> Layout:
    """Channels first or last or any order of axes, with and without gaps, flipped, repeated, or with elements apart."""
    axes = list(range(len(sizes)))
    last = [*axes[:1], *axes[2:], *axes[1:2]]
    order = drawn.choice((axes, axes, last, last, drawn.sample(axes, len(axes))))
    step, pitches = 1, {}
    for axis in reversed(order):
        if step > 1 and drawn.random() < 0.3:
            # A gap behind each pixel, row or whatever is as large.
            step += drawn.choice((1, 5, -step % 16, -step % 32))
        pitches[axis] = step
        step *= sizes[axis]
    layout = in_order(sizes, order, pitches)
    axis = drawn.choice(axes)
    match drawn.choice(("", "", "", "", "", "", "flipped", "flipped", "repeated", "apart")):
        case "flipped":
            return layout.sliced(tuple(slice(None, None, -1 if at == axis else None) for at in axes))
        case "apart":
            return Layout(sizes, [stride * 2 for stride in layout.strides])
        case "repeated" if may_repeat:
            return Layout(sizes, [0 if at == axis else stride for at, stride in enumerate(layout.strides)])
    return layout


def _conversion(drawn: random.Random, channels: int | None) -> tuple[tuple[int, ...] | None, dict[str, Any]]:
    """The channels that are taken, and the types and the arithmetic."""
    chosen = None
    if channels is not None:
        every = tuple(range(channels))
        chosen = drawn.choice((None, None, None, every[::-1], every[:3][::-1], tuple(drawn.sample(every, channels))))
    if drawn.random() < 0.6:
        return chosen, {"types": drawn.choice(list(ELEMENT_TYPES))}
    count = len(chosen) if chosen is not None else channels or 1
    scale = drawn.choice((None, 0.5, [1.0 + n for n in range(count)] if channels is not None else 0.5))
    return chosen, {"types": f"{drawn.choice(_REALS)}>{drawn.choice(_REALS)}", "scale": scale}
