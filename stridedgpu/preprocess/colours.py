"""Random colour: a gain and an offset for each channel of each image, in the pass that normalises.

A result is `((gain * x + offset) - mean) / std` in units of 0..1, as one factor and one addend a channel. These differ
from image to image, so the windows are written in the images' type first, and the whole batch is converted after: as
one tensor with the channels of all images if these are evenly spaced in memory, else image by image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stridedgpu.operations.move import move_elements
from stridedgpu.values.conversion import conversion
from stridedgpu.values.layout import Layout

from .normalisation import scale_and_bias, unit_range

if TYPE_CHECKING:
    from stridedgpu.devices.operand import Operand
    from stridedgpu.values.dtypes import ElementType

    from .declaration import Declaration
    from .sample_keys import Chance

__all__ = ["drawn_colours", "write_coloured"]

Colour = tuple[tuple[float, ...], tuple[float, ...]]
"""The factors and the addends of an image's output channels."""


def drawn_colours(
    step: Declaration, chances: Sequence[Chance], element: ElementType, source_channels: int
) -> list[Colour]:
    """The colour of each image of a type with so many channels."""
    scale, bias, _ = scale_and_bias(step, element, source_channels)
    channels = step.output_channels(source_channels)
    scales, biases = (
        (default,) * channels if values is None else values * (channels // len(values))
        for values, default in ((scale, 1.0), (bias, 0.0))
    )
    low, high = unit_range(step, element)
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


def write_coloured(windows: Operand, colours: Sequence[Colour], target: Operand) -> None:
    """Convert windows with axes N, C, H, W into `target`, each by its own factors and addends."""
    count, channels, height, width = target.layout.sizes
    planes = [_planes(operand.layout, (1, count * channels, height, width)) for operand in (windows, target)]
    if all(layout is not None for layout in planes):
        joined = tuple(tuple(number for colour in colours for number in colour[part]) for part in range(2))
        sources = [windows.with_layout(planes[0])]  # type: ignore[arg-type]
        _convert(sources, [target.with_layout(planes[1])], [joined])  # type: ignore[arg-type,list-item]
        return
    single = [
        [operand.with_layout(operand.layout.sliced(slice(row, row + 1))) for row in range(count)]
        for operand in (windows, target)
    ]
    _convert(single[0], single[1], colours)


def _convert(sources: Sequence[Operand], targets: Sequence[Operand], colours: Sequence[Colour]) -> None:
    """Each source into its target, by its colour."""
    for source, target, (scale, bias) in zip(sources, targets, colours, strict=True):
        made = conversion(
            source.element, target.element, scale=scale, bias=bias, source_channels=source.layout.sizes[1]
        )
        move_elements(source, target, made, 1)


def _planes(layout: Layout, sizes: tuple[int, ...]) -> Layout | None:
    """A layout with axes N, C, H, W as one image with the channels of all; None if these are not evenly apart."""
    count, channels, _, _ = layout.sizes
    strides = layout.strides
    if count > 1 and channels > 1 and strides[0] != channels * strides[1]:
        return None
    step = strides[1] if channels > 1 else strides[0]
    return Layout(sizes, (0, step, *strides[2:]), layout.offset)


def _between(bounds: tuple[float, float], share: float) -> float:
    """The number at a share of the way between two bounds."""
    return bounds[0] + (bounds[1] - bounds[0]) * share
