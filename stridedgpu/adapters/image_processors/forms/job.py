"""`Job`: one call of a processor, and what the forms of results share: batches, lists, extents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stridedgpu.adapters.image_processors.declaration import Declared
from stridedgpu.adapters.image_processors.normalising import Backend
from stridedgpu.adapters.image_processors.rendering import Renderer, resize_rule
from stridedgpu.adapters.image_processors.sizes import Size
from stridedgpu.adapters.image_processors.windows import (
    convnext,
    convnext_window,
    dpt,
    height_and_width,
    middle_window,
    new_size,
    placed,
)
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.operand import Operand
from stridedgpu.preprocess.geometry import Placement
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout


class Listed(NamedTuple):
    """A batch that is a list of its images, or lists of lists, where no tensors are asked for."""

    batch: StridedTensor | NDArray[np.int32]
    depth: int = 1


class Joined(NamedTuple):
    """A batch that is a list of parts, of so many images each, where no tensors are asked for."""

    batch: StridedTensor
    counts: Sequence[int]


class Moved(NamedTuple):
    """Numbers that belong on the device of the pixels."""

    array: NDArray[np.int64] | NDArray[np.bool_] | NDArray[np.float32]
    is_listed: bool = False


class Stated(NamedTuple):
    """What is returned as it is: a list stays one, whatever tensors are asked for."""

    value: Any


class Filled(NamedTuple):
    """Videos that are filled up to the longest with frames of zeros where tensors are asked for, else a list."""

    videos: list[StridedTensor]


class OfTensors(NamedTuple):
    """What is a result only where tensors are asked for."""

    array: NDArray[np.bool_]


class Patching(NamedTuple):
    """Patches: the order of their axes (`Kind.axes`), the pixels of a side, and how many patches and frames are one."""

    axes: str
    patch: int
    merge: int
    times: int

    @property
    def merged(self) -> int:
        """The pixels of a side of merged patches."""
        return self.patch * self.merge

    def lengths(self, channels: int) -> dict[str, int]:
        """How long each axis is that is the same in all images."""
        merge, patch = self.merge, self.patch
        return {"h": merge, "w": merge, "c": channels, "t": self.times, "y": patch, "x": patch}

    def sizes(self, channels: int) -> tuple[int, ...]:
        """The sizes of one patch: the axes of each word of `axes` behind the first are one axis of it."""
        return _patch_sizes(self, channels)


@lru_cache(maxsize=64)
def _patch_sizes(patching: Patching, channels: int) -> tuple[int, ...]:
    lengths = patching.lengths(channels)
    return tuple(prod(lengths[axis] for axis in word) for word in patching.axes.split()[1:])


Images = list[list[Operand]]
Results = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One call: what is declared, what renders it, and the processor's `own` options, without those of the call."""

    declared: Declared
    backend: Backend
    renderer: Renderer
    own: Mapping[str, Any]

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """The options; those that a call does not change are the processor's own."""
        return {**self.declared.values_of(self.backend), **{name: self.own[name] for name in self.declared.kind.own}}

    @cached_property
    def resizing(self) -> Job:
        """The same call with the declared resize, also where `do_resize` leaves out another one."""
        rule = resize_rule(self.values["resample"], self.backend)
        return replace(self, renderer=replace(self.renderer, rule=rule))

    def resized(self, size: Size) -> Size:
        """The new size of an image."""
        if not self.values["do_resize"]:
            return size
        return new_size(self.declared.kind.resizes, self.values, size, is_cut=self.window is not None)

    @cached_property
    def window(self) -> Size | None:
        """The middle window of the resized image that is kept; None keeps all of it."""
        kind, values = self.declared.kind, self.values
        crops = kind.crops and not (kind.resizes is dpt and self.backend == "pil")
        middle = middle_window(values, kind.defaults["crop_size"]) if crops else None
        if kind.resizes is not convnext or not values["do_resize"] or convnext_window(values) is None:
            return middle
        if middle is not None:
            raise LayoutError("do_center_crop=True cuts what ConvNext's resize has cut already: leave it out.")
        return convnext_window(values)

    @cached_property
    def patching(self) -> Patching:
        """The patches of a class that returns patches."""
        axes, values = self.declared.kind.axes, self.values
        return Patching(
            axes,
            values.get("patch_size") or values["encoder_patch_size"],
            values.get("merge_size", values.get("pooling_kernel_size")) if "h" in axes else 1,
            values.get("temporal_patch_size", 1) if "t" in axes else 1,
        )

    @cached_property
    def placed(self) -> Callable[[Size], Placement]:
        """Where a whole image of a size goes; the sizes of a data set recur."""
        return lru_cache(maxsize=256)(self._placed)

    def _placed(self, size: Size) -> Placement:
        placement, canvas = placed(size, self.resized(size), self.window, self.backend), self.declared.kind.canvas
        return placement if canvas is None else canvas(self.values, placement)


def sizes_of(images: Sequence[Operand]) -> list[Size]:
    """Height and width of each image."""
    return [(image.layout.sizes[1], image.layout.sizes[2]) for image in images]


def flattened(images: Images) -> list[Operand]:
    """All images of a call one behind the other."""
    return [image for group in images for image in group]


def all_placed(job: Job, images: Images) -> tuple[list[Operand], list[Placement], list[Size]]:
    """All images of a call one behind the other, where each goes as a whole, and the sizes of their windows."""
    flat = flattened(images)
    placements = [job.placed(size) for size in sizes_of(flat)]
    return flat, placements, [placement.size for placement in placements]


def largest(windows: Sequence[Size]) -> Size:
    """The largest of each side."""
    return max(height for height, _ in windows), max(width for _, width in windows)


def batched(
    job: Job,
    images: Sequence[Operand],
    placements: Sequence[Placement],
    finished: Callable[[StridedTensor], StridedTensor] = lambda batch: batch,
) -> StridedTensor | list[StridedTensor]:
    """A batch of windows of one size, else a list of the windows, of which those of one size are one batch.

    `finished` makes of each batch what is returned of it.
    """
    windows = [placement.size for placement in placements]
    if len(set(windows)) == 1:
        return finished(job.renderer.batch(images, placements, windows[0]))
    by_row: dict[int, StridedTensor] = {}
    for window in dict.fromkeys(windows):
        rows = [row for row, size in enumerate(windows) if size == window]
        batch = finished(job.renderer.batch([images[row] for row in rows], [placements[row] for row in rows], window))
        by_row.update((row, batch[place]) for place, row in enumerate(rows))
    return [by_row[row] for row in range(len(images))]


def listed(batch: StridedTensor | list[StridedTensor]) -> Listed | list[StridedTensor]:
    """What `batched` returned, as the list of its images where no tensors are asked for."""
    return Listed(batch) if isinstance(batch, StridedTensor) else batch


def padded_size(job: Job, windows: Sequence[Size]) -> Size:
    """The size that smaller windows are filled up to: `pad_size`, or the largest of each side."""
    return filled_size(windows, job.values["pad_size"])


def filled_size(windows: Sequence[Size], stated: Any) -> Size:
    """A stated size, which no window exceeds, or the largest of each side."""
    if stated is None:
        return largest(windows)
    wanted = height_and_width("pad_size", stated)
    for height, width in windows:
        if height > wanted[0] or width > wanted[1]:
            raise LayoutError(
                f"pad_size={stated!r} is smaller than an image of {height} x {width} pixels, as it is resized."
            )
    return wanted


@lru_cache(maxsize=256)
def in_groups(layout: Layout, inner: int) -> Layout:
    """A batch's layout with its first axis as groups of `inner`."""
    count, *rest = layout.sizes
    step, *steps = layout.strides
    return Layout((count // inner, inner, *rest), (step * inner, step, *steps), layout.offset)
