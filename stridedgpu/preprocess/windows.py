"""Windows of images into a batch on any device, with the colours that are drawn for each.

Windows from the CPU go to a GPU in one copy. With random colour a result is `((gain * x + offset) - mean) / std` in
units of 0..1, as one factor and one addend a channel. These differ from image to image, so the windows are written in
the images' type first, and the whole batch is converted after: as one tensor with the channels of all images if these
are evenly spaced in memory, else image by image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import remote_device_named
from stridedgpu.operations.borders import BorderPlace, write_with_borders
from stridedgpu.operations.crops import write_crops
from stridedgpu.operations.images import CropSources, FrameSources
from stridedgpu.operations.move import move_elements
from stridedgpu.operations.options import DEFAULT_ALIGNMENT, MemoryOptions
from stridedgpu.operations.relayout import relayout_operand
from stridedgpu.operations.resize import write_resized
from stridedgpu.problems.pitched_copy import Runs
from stridedgpu.problems.resize_problem import ResizeRule
from stridedgpu.typing import Border
from stridedgpu.values.conversion import AS_IT_IS, Conversion, conversion
from stridedgpu.values.errors import BindingError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import packed_strides

from .declaration import Declaration, unit_range
from .epochs import Chance
from .geometry import Placement

CHANNELS_LAST: Final = (0, 2, 3, 1)

Colour = tuple[tuple[float, ...], tuple[float, ...]]
"""The factors and the addends of an image's output channels."""


def write_placed(
    sources: CropSources,
    placements: Sequence[Placement],
    rule: ResizeRule | None,
    conversion: Conversion,
    fill: bytes,
    batch: Operand,
    border: Border | None = None,
) -> None:
    """Write each image where its placement says, on any device, into a new `batch` with axes N, C, H, W.

    The images have one type and channel count. `rule` is that of the resize, or None where every pixel keeps its size.
    Around an image is its `border`, or without one `fill`: one source element for each source channel, as bytes. An
    empty `fill` leaves what no image covers unwritten, or with zeros.

    A border is copied from the result. A window that lacks pixels of its border, as one beside the image does, is cut
    out of a larger window of its own.
    """
    if border is None:
        _write_filled(sources, placements, rule, conversion, fill, batch)
        return

    def write(row: int | None, places: Sequence[BorderPlace], target: Operand) -> None:
        some = placements if row is None else [placements[row]]
        height, width = target.layout.sizes[2:]
        moved = [one._replace(place=place, size=(height, width)) for one, place in zip(some, places, strict=True)]
        _write_filled(sources if row is None else sources.only(row), moved, rule, conversion, fill, target)

    write_with_borders(write, [placed.place for placed in placements], border, batch)


def _write_filled(
    sources: CropSources,
    placements: Sequence[Placement],
    rule: ResizeRule | None,
    conversion: Conversion,
    fill: bytes,
    batch: Operand,
) -> None:
    """Write each image where its placement says, and `fill` around it."""
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
        write_windows(sources, origins, [placed.flip for placed in placements], conversion, batch, fill)
        return
    device = batch.buffer.device
    if device != "cpu" and not isinstance(sources, FrameSources):
        sources = CropSources.of_images([_moved(image, "HWC", device) for image in sources.images()])
    windows = [placed.window(layout) for placed, layout in zip(placements, sources.layouts, strict=True)]
    write_resized(sources, windows, rule, conversion, fill, batch, None)


def write_windows(
    sources: CropSources,
    origins: Sequence[tuple[int, int]],
    flips: Sequence[bool],
    conversion: Conversion,
    batch: Operand,
    fill: bytes | None = None,
) -> None:
    """Write one window of each image, on any device, into a new `batch` with axes N, C, H, W.

    The images have one type and channel count. `flips` says which windows are mirrored. Outside an image a window has
    `fill`, by default zeros.
    """
    fill = fill or bytes(conversion.source.itemsize * sources.layouts[0].sizes[0])
    if not isinstance(sources, FrameSources) and batch.buffer.device != "cpu":
        sources, origins = _sent(sources, origins, batch, fill)
    starts = np.array(origins, np.int64).reshape(-1, 2)
    write_crops(sources, starts, flips, conversion, fill, batch, None)


def _sent(
    sources: CropSources, origins: Sequence[tuple[int, int]], batch: Operand, fill: bytes
) -> tuple[CropSources, list[tuple[int, int]]]:
    """The images on the batch's device, and the windows' origins there.

    Of images on the CPU only the windows are sent, packed into pinned memory, many in one copy. One copy for each image
    would cost more than its bytes, and most of an image is outside its window.
    """
    images, starts = list(sources.images()), list(origins)
    near = [place for place, image in enumerate(images) if image.buffer.device == "cpu"]
    if near:
        windows = _uploaded([images[place] for place in near], [starts[place] for place in near], batch, fill)
        for place, window in zip(near, windows, strict=True):
            images[place], starts[place] = window, (0, 0)
    return CropSources.of_images([_moved(image, "CHW", batch.buffer.device) for image in images]), starts


def _uploaded(images: list[Operand], origins: list[tuple[int, int]], batch: Operand, fill: bytes) -> Sequence[Operand]:
    """One window of each image on the device, with the channel order in memory of the first image."""
    first = images[0]
    sizes = (len(images), first.layout.sizes[0], *batch.layout.sizes[2:])
    is_interleaved = 0 < first.layout.strides[0] < first.layout.strides[2]
    packed = Layout(sizes, packed_strides(sizes, CHANNELS_LAST if is_interleaved else None))
    bus = remote_device_named(batch.buffer.device)
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
    """An image with axes C, H, W on a device, packed in an order of its axes; unchanged if it is there already."""
    if operand.buffer.device == device:
        return operand
    moved, _ = relayout_operand(operand, "CHW", AS_IT_IS, MemoryOptions(layout, device=device), None, None)
    return moved


# ---- colours


def drawn_colours(
    step: Declaration, chances: Sequence[Chance], conversion: Conversion, source_channels: int
) -> list[Colour]:
    """The colour of each image with so many channels, whose conversion has these constants."""
    channels = step.output_channels(source_channels)
    scales, biases = (
        (default,) * channels if values is None else values * (channels // len(values))
        for values, default in ((conversion.scale, 1.0), (conversion.bias, 0.0))
    )
    low, high = unit_range(step, conversion.source)
    unit = high - low
    colours = []
    for chance in chances:
        draws = iter(chance.uniforms(2 * channels, "colour"))
        gains = [_between(step.gain or (1.0, 1.0), next(draws)) for _ in range(channels)]
        offsets = [_between(step.offset or (0.0, 0.0), next(draws)) for _ in range(channels)]
        # gain * (x - low) + offset * unit + low, scaled: 0 of 0..1 stays where it is
        addends = [low + offset * unit - gain * low for gain, offset in zip(gains, offsets, strict=True)]
        colours.append(
            (
                tuple(gain * factor for gain, factor in zip(gains, scales, strict=True)),
                tuple(addend * factor + bias for addend, factor, bias in zip(addends, scales, biases, strict=True)),
            )
        )
    return colours


def _between(bounds: tuple[float, float], share: float) -> float:
    """The number at a share of the way between two bounds."""
    return bounds[0] + (bounds[1] - bounds[0]) * share


def write_coloured(windows: Operand, colours: Sequence[Colour], target: Operand) -> None:
    """Convert windows with axes N, C, H, W into `target`, each by its own factors and addends."""
    source_planes, target_planes = _planes(windows.layout), _planes(target.layout)
    if source_planes is not None and target_planes is not None:
        scale, bias = (tuple(number for colour in colours for number in colour[part]) for part in range(2))
        _convert(windows.with_layout(source_planes), target.with_layout(target_planes), (scale, bias))
        return
    for row, colour in enumerate(colours):
        source, image = (
            operand.with_layout(operand.layout.sliced(slice(row, row + 1))) for operand in (windows, target)
        )
        _convert(source, image, colour)


def _convert(source: Operand, target: Operand, colour: Colour) -> None:
    scale, bias = colour
    channels = source.layout.sizes[1]
    coloured = conversion(source.element, target.element, scale=scale, bias=bias, source_channels=channels)
    move_elements(source, target, coloured, 1)


def _planes(layout: Layout) -> Layout | None:
    """A layout with axes N, C, H, W as one image with the channels of all; None if these are not evenly spaced."""
    count, channels, height, width = layout.sizes
    strides = layout.strides
    if count > 1 and channels > 1 and strides[0] != channels * strides[1]:
        return None
    step = strides[1] if channels > 1 else strides[0]
    return Layout((1, count * channels, height, width), (0, step, *strides[2:]), layout.offset)
