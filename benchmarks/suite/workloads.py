"""The named workloads: what is moved, from which memory into which, and how large it is on each kind of machine.

Sizes are logical, in canonical order (N, C, D, H, W), and for one array of elements; everything else that a peer has to
know is said in layout orders, element types and pitches, so that a workload can be carried out by any library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isqrt
from types import MappingProxyType
from typing import Final, Literal

import numpy as np

from stridedgpu.problems.index_rule import Mode
from stridedgpu.values.arithmetic import NORMALISATIONS

__all__ = [
    "CURVES",
    "CURVE_BYTES",
    "UNWAITED_MODES",
    "WORKLOADS",
    "Crops",
    "Embed",
    "Relayout",
    "Scale",
    "Workload",
    "curve_of",
    "workloads_named",
]

Scale = Literal["gpu", "cpu", "quick", "test"]
"""How large: for a GPU's memory, for a processor's, for a look of two minutes, and for a test."""

Sizes = Mapping[Scale, tuple[int, ...]]

_UNIT: Final = ((0.0,), (1.0,))


class _Normalising:
    """Mean and deviation in units of 0..1, as factor and term for values of 0..255."""

    __slots__ = ()

    normalised: tuple[tuple[float, ...], tuple[float, ...]] | None

    @property
    def scale(self) -> tuple[float, ...] | None:
        """What a value of 0..255 is multiplied by."""
        return None if self.normalised is None else tuple(1 / (255 * deviation) for deviation in self.normalised[1])

    @property
    def bias(self) -> tuple[float, ...] | None:
        """What is added then."""
        if self.normalised is None or self.normalised[0] == (0.0,):
            return None
        return tuple(-mean / deviation for mean, deviation in zip(*self.normalised, strict=True))


@dataclass(frozen=True, slots=True)
class Relayout(_Normalising):
    """Elements into another layout.

    `extra_row_bytes` pads the source's rows; `window` takes a view of the source, along its last axes; `broadcast`
    stores one element a channel and repeats it to the sizes. `normalised` is mean and deviation, one or one a channel,
    in units of 0..1. `call` says whether the result goes into memory that exists, is allocated by each call, or goes
    into memory that exists through a plan made before. `measures` is "call" where the cost of a call is the question,
    and not the memory's speed.
    """

    name: str
    what: str
    sizes: Sizes
    source_order: str
    target_order: str
    source_type: str
    target_type: str
    normalised: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    extra_row_bytes: int = 0
    window: tuple[slice, ...] = ()
    broadcast: bool = False
    call: Literal["out", "allocating", "plan"] = "out"
    measures: Literal["speed", "call"] = "speed"


@dataclass(frozen=True, slots=True)
class Embed:
    """Whole rows of a table by indices in random order, each row once; sizes are rows and bytes of a row."""

    name: str
    what: str
    sizes: Sizes
    index_type: str
    measures: Literal["speed", "call"] = field(default="speed", init=False)


@dataclass(frozen=True, slots=True)
class Crops(_Normalising):
    """Windows of frames, every other one mirrored, normalised into a batch.

    Sizes are those of the frames (N, C, H, W), then the number of windows and their side, in pixels.
    """

    name: str
    what: str
    sizes: Sizes
    target_type: str
    normalised: tuple[tuple[float, ...], tuple[float, ...]] | None = NORMALISATIONS["imagenet"]
    measures: Literal["speed", "call"] = field(default="speed", init=False)


Workload = Relayout | Embed | Crops

UNWAITED_MODES: Final[tuple[Mode, ...]] = ("clip", "deferred")
"""The modes of a gather that wait for no check of the indices: what a kernel is timed in alone."""


def _sizes(
    gpu: tuple[int, ...], cpu: tuple[int, ...], quick: tuple[int, ...], test: tuple[int, ...]
) -> Mapping[Scale, tuple[int, ...]]:
    return MappingProxyType({"gpu": gpu, "cpu": cpu, "quick": quick, "test": test})


_PHOTOS = _sizes((256, 3, 224, 224), (64, 3, 224, 224), (32, 3, 224, 224), (2, 3, 20, 24))
_FRAMES = _sizes((32, 3, 1080, 1920), (8, 3, 1080, 1920), (4, 3, 1080, 1920), (1, 3, 20, 64))
_FEATURES = _sizes((32, 256, 56, 56), (32, 256, 56, 56), (8, 256, 56, 56), (1, 32, 7, 7))
_VOLUMES = _sizes((16, 64, 16, 56, 56), (4, 64, 16, 56, 56), (1, 64, 16, 56, 56), (1, 20, 2, 5, 5))
_PIXELS = _sizes((128, 3, 512, 512), (16, 3, 512, 512), (8, 3, 512, 512), (1, 3, 16, 16))
_SQUARE = _sizes((8192, 8192), (2048, 2048), (2048, 2048), (40, 48))
_MAPS = _sizes((64, 256, 112, 112), (16, 64, 112, 112), (8, 64, 112, 112), (2, 8, 7, 8))
_ODD = _sizes((256, 3, 223, 317), (32, 3, 223, 317), (16, 3, 223, 317), (2, 3, 13, 17))
_LINE = _sizes((1 << 28,), (1 << 24,), (1 << 22,), (1000,))
_SMALL = _sizes((1, 3, 32, 32), (1, 3, 32, 32), (1, 3, 32, 32), (1, 3, 8, 8))


def _transposes() -> tuple[Relayout, ...]:
    types = {1: "uint8", 2: "float16", 4: "float32", 8: "float64"}
    return tuple(
        Relayout(f"transpose-{itemsize}B", f"matrix of {itemsize}-byte elements", _SQUARE, "WH", "HW", name, name)
        for itemsize, name in types.items()
    )


def _embeds() -> tuple[Embed, ...]:
    processor = {64: (1 << 18, 1 << 16), 512: (1 << 17, 1 << 15), 4096: (1 << 14, 1 << 12)}
    return tuple(
        Embed(
            f"embed-{width}B-{index_type}",
            f"rows of {width} B by {index_type} indices",
            _sizes((1 << 18, width), (processor[width][0], width), (processor[width][1], width), (50, width)),
            index_type,
        )
        for width in processor
        for index_type in ("int32", "int64")
    )


WORKLOADS: Final[tuple[Workload, ...]] = (
    Relayout("copy", "one packed array", _LINE, "W", "W", "float32", "float32"),
    Relayout("cast", "one packed array, cast and scaled", _LINE, "W", "W", "uint8", "float32", _UNIT),
    Relayout(
        "train", "photographs, normalised", _PHOTOS, "NHWC", "NCHW", "uint8", "float16", NORMALISATIONS["imagenet"]
    ),
    Relayout("video", "pitched frames, scaled", _FRAMES, "NHWC", "NCHW", "uint8", "float32", _UNIT, 384),
    Relayout("planes", "frames into planes", _FRAMES, "NHWC", "NCHW", "uint8", "uint8"),
    Relayout("pixels", "planes into frames", _FRAMES, "NCHW", "NHWC", "uint8", "uint8"),
    Relayout("features-to-NCHW", "feature maps", _FEATURES, "NHWC", "NCHW", "float16", "float16"),
    Relayout("features-to-NHWC", "feature maps", _FEATURES, "NCHW", "NHWC", "float16", "float16"),
    Relayout("volume-to-NCDHW", "volumes", _VOLUMES, "NDHWC", "NCDHW", "float32", "float32"),
    Relayout("volume-to-NDHWC", "volumes", _VOLUMES, "NCDHW", "NDHWC", "float32", "float32"),
    Relayout("pad-to-4", "RGB to 4 channels", _PIXELS, "NHWC", "NHWC4", "uint8", "uint8", call="allocating"),
    Relayout("pad-to-8", "RGB to 8 channels", _PIXELS, "NHWC", "NHWC8", "uint8", "float16", _UNIT, call="allocating"),
    *_transposes(),
    Relayout("broadcast", "one value a channel", _MAPS, "NCHW", "NCHW", "float32", "float32", broadcast=True),
    Relayout("odd-widths", "frames of odd sizes", _ODD, "NHWC", "NCHW", "uint8", "uint8"),
    Relayout("odd-pitches", "rows at an odd pitch", _ODD, "NCHW", "NCHW", "float32", "float32", None, 20),
    Relayout(
        "window",
        "a window of each frame",
        _FRAMES,
        "NHWC",
        "NHWC",
        "uint8",
        "uint8",
        window=(slice(4, -4), slice(7, -7)),
    ),
    Relayout("rotate", "frames turned by 90 degrees", _FRAMES, "NHWC", "NWHC", "uint8", "uint8"),
    Relayout(
        "subsample",
        "every other pixel",
        _FRAMES,
        "NCHW",
        "NCHW",
        "uint8",
        "uint8",
        window=(slice(None, None, 2), slice(None, None, 2)),
    ),
    *_embeds(),
    Crops(
        "crops",
        "crops of frames, mirrored and normalised",
        _sizes(
            (16, 3, 1080, 1920, 256, 224),
            (16, 3, 1080, 1920, 256, 224),
            (8, 3, 1080, 1920, 64, 224),
            (2, 3, 30, 40, 4, 8),
        ),
        "float16",
    ),
    Relayout(
        "tiny-call",
        "a small image: relayout()",
        _SMALL,
        "NHWC",
        "NCHW",
        "float32",
        "float32",
        call="allocating",
        measures="call",
    ),
    Relayout(
        "tiny-out", "a small image: relayout(out=)", _SMALL, "NHWC", "NCHW", "float32", "float32", measures="call"
    ),
    Relayout(
        "tiny-plan",
        "a small image: plan(src, out)",
        _SMALL,
        "NHWC",
        "NCHW",
        "float32",
        "float32",
        call="plan",
        measures="call",
    ),
)

CURVES: Final = ("copy", "train", "features-to-NCHW", "transpose-4B", "embed-512B-int64")
"""The workloads that are also timed over sizes."""

CURVE_BYTES: Final[Mapping[Scale, tuple[int, ...]]] = MappingProxyType(
    {
        "gpu": tuple(1 << power for power in range(12, 33, 2)),
        "cpu": tuple(1 << power for power in range(12, 29, 2)),
        "quick": tuple(1 << power for power in range(12, 27, 2)),
        "test": (4096,),
    }
)
"""Bytes moved, roughly: from 4 KB up to 4 GB, 256 MB and 64 MB."""


def workloads_named(names: tuple[str, ...]) -> tuple[Workload, ...]:
    """The workloads of these names, in their own order; all when there are no names. Raises `KeyError` for another."""
    known = {workload.name: workload for workload in WORKLOADS}
    for name in names:
        known[name]
    return tuple(workload for workload in WORKLOADS if not names or workload.name in names)


def curve_of(workload: Workload, nbytes: int) -> Workload:
    """The workload in sizes that move about `nbytes`, whatever the scale."""
    sizes = _resized(workload, nbytes)
    return replace(workload, sizes=_sizes(sizes, sizes, sizes, sizes))


def _resized(workload: Workload, nbytes: int) -> tuple[int, ...]:
    model = workload.sizes["gpu"]
    if isinstance(workload, Embed):
        return (max(1, nbytes // (2 * model[1] + np.dtype(workload.index_type).itemsize)), model[1])
    assert isinstance(workload, Relayout), f"{workload.name} has no curve"
    count = nbytes // (np.dtype(workload.source_type).itemsize + np.dtype(workload.target_type).itemsize)
    if len(model) == 1:
        return (count,)
    if len(model) == 2:
        return (isqrt(count),) * 2
    _, channels, height, width = model
    items = count // (channels * height * width)
    if items:
        return (items, channels, height, width)
    side = max(2, isqrt(count // channels)) if channels <= 4 else max(2, isqrt(count // 64))
    return (1, min(channels, 64), side, side)
