"""Windows of images into a batch on any device; windows from the CPU go to a GPU in one copy."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import numpy as np

from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import remote_device_named
from stridedgpu.operations.allocation import DEFAULT_ALIGNMENT
from stridedgpu.operations.crop_sources import CropSources
from stridedgpu.operations.crops import write_crops
from stridedgpu.operations.frame_sources import FrameSources
from stridedgpu.operations.frames import write_frame_crops
from stridedgpu.operations.options import MemoryOptions
from stridedgpu.operations.relayout import relayout_operand
from stridedgpu.operations.resize import write_resized
from stridedgpu.planning.pitched_copy import Runs
from stridedgpu.planning.resize_problem import ResizeRule
from stridedgpu.values.conversion import AS_IT_IS, Conversion, conversion
from stridedgpu.values.errors import BindingError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import packed_strides

from .placement import Placement

__all__ = ["write_placed", "write_windows"]

_CHANNELS_LAST = (0, 2, 3, 1)


_FLIP: Final = attrgetter("flip")


def write_placed(
    sources: CropSources,
    placements: Sequence[Placement],
    rule: ResizeRule | None,
    made: Conversion,
    fill: bytes,
    batch: Operand,
) -> None:
    """Write each image where its placement says, on any device, into a new `batch` with axes N, C, H, W.

    The images have one type and channel count; `made` is the conversion. `rule` is that of the resize, or None where
    every pixel keeps its size. `fill` is one source element for each source channel, as bytes.
    """
    elsewhere = [image for image in sources.operands if image.buffer.device != batch.buffer.device]
    if elsewhere and batch.buffer.device == "cpu":
        raise BindingError(
            f"An image is on {elsewhere[0].buffer.device}, and the step on the CPU: copy it there first."
        )
    if rule is None:
        # The row and column of the image where each result begins.
        origins = [
            (-top, left + width - size[1] if flip else -left) for _, _, (top, left, _, width), size, flip in placements
        ]
        flips = list(map(_FLIP, placements))
        write_windows(sources, origins, flips, made, batch, fill)
        return
    device = batch.buffer.device
    if device != "cpu" and not isinstance(sources, FrameSources):
        sources = CropSources.of_images([_moved(image, "HWC", device) for image in sources.images()])
    windows = [placed.window(layout) for placed, layout in zip(placements, sources.layouts, strict=True)]
    write_resized(sources, windows, rule, made, fill, batch, None)


def write_windows(
    sources: CropSources,
    origins: Sequence[tuple[int, int]],
    flips: Sequence[bool],
    made: Conversion,
    batch: Operand,
    fill: bytes | None = None,
) -> None:
    """Write one window of each image, on any device, into a new `batch` with axes N, C, H, W.

    The images have one type and channel count. `flips` says which windows are mirrored; `made` is the conversion.
    Outside an image a window has `fill`, by default zeros.
    """
    fill = fill or bytes(made.source.itemsize * sources.layouts[0].sizes[0])
    if isinstance(sources, FrameSources):
        starts = np.array(origins, np.int64).reshape(-1, 2)
        write_frame_crops(sources.frames, starts, flips, made, fill, batch, None)
        return
    if batch.buffer.device != "cpu":
        sources, origins = _sent(sources, origins, batch, fill)
    starts = np.array(origins, np.int64).reshape(-1, 2)
    write_crops(sources, starts, flips, made, fill, batch, None)


def _sent(
    sources: CropSources, origins: Sequence[tuple[int, int]], batch: Operand, fill: bytes
) -> tuple[CropSources, list[tuple[int, int]]]:
    """The images on the batch's device, and the windows' origins there.

    Of images on the CPU only the windows are sent, packed into pinned memory, many in one copy. One copy for each image
    would cost more than its bytes, and most of a photograph is outside its window.
    """
    images = sources.images()
    near = [place for place, image in enumerate(images) if image.buffer.device == "cpu"]
    sent = [image if image.buffer.device == "cpu" else _moved(image, "CHW", batch.buffer.device) for image in images]
    starts = list(origins)
    if near:
        windows = _uploaded([images[place] for place in near], [origins[place] for place in near], batch, fill)
        for place, window in zip(near, windows, strict=True):
            sent[place], starts[place] = window, (0, 0)
    return CropSources.of_images(sent), starts


def _uploaded(images: list[Operand], origins: list[tuple[int, int]], batch: Operand, fill: bytes) -> Sequence[Operand]:
    """One window of each image on the device, with the channel order in memory of the first image."""
    first, device = images[0], batch.buffer.device
    sizes = (len(images), first.layout.sizes[0], *batch.layout.sizes[2:])
    is_interleaved = 0 < first.layout.strides[0] < first.layout.strides[2]
    packed = Layout(sizes, packed_strides(sizes, _CHANNELS_LAST if is_interleaved else None))
    bus = remote_device_named(device)
    step = packed.strides[0] * first.element.itemsize
    far = bus.allocate(step * len(images), DEFAULT_ALIGNMENT)
    count = max(1, bus.upload_bytes // max(1, step))
    unchanged = conversion(first.element, first.element)
    for start in range(0, len(images), count):
        part = slice(start, start + count)
        sent = images[part]
        with bus.staging(step * len(sent)) as memory:
            staged = Operand(memory, packed.sliced(slice(0, len(sent))), first.element)
            write_windows(CropSources.of_images(sent), origins[part], [False] * len(sent), unchanged, staged, fill)
            bus.copy(memory, 0, far, start * step, Runs(step * len(sent)), None)
    return CropSources.of_batch(Operand(far, packed, first.element)).images()


def _moved(operand: Operand, layout: str, device: str) -> Operand:
    """Images on a device, packed in an order of their axes; unchanged if they are there already."""
    if operand.buffer.device == device:
        return operand
    labels = "NCHW" if operand.layout.ndim == len("NCHW") else "CHW"
    moved, _ = relayout_operand(operand, labels, AS_IT_IS, MemoryOptions(layout, device=device), None, None)
    return moved
