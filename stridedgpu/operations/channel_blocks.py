"""Channel-padded and channel-blocked memory orders: TensorRT's HWC8 and CHW4, oneDNN's nChw8c.

An order that ends in a number pads the channels to a multiple of it. After C ("NHWC8") each pixel has its channels and
then zeros up to the multiple. After another letter ("NCHW4") the channel axis is split: blocks of 4 channels take the
place of C, the 4 channels of a block are innermost, and the last block is filled up with zeros.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from stridedgpu.values.axis_labels import Labels, memory_axes
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.memoized import memoized
from stridedgpu.values.strides import axis_letters, packed_strides, padded_strides, round_up

_PATTERN: Final = re.compile(r"([A-Za-z]+?)(\d+)")


@dataclass(frozen=True, slots=True)
class ChannelOrder:
    """A memory order with padded channels: its letters, the multiple, and whether C is split in blocks."""

    letters: str
    multiple: int = 1

    @property
    def is_blocked(self) -> bool:
        """True if the channel axis is split, with the channels of a block innermost."""
        return self.multiple > 1 and not self.letters.endswith("C")


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a relayout: a source window, a target window, their conversion, and the zeros that follow.

    `filler` is the number of zeros after the channels of the target's window, along `channel_axis`.
    """

    source: Layout
    target: Layout
    conversion: Conversion
    channel_axis: int | None
    filler: int = 0

    @property
    def zeros(self) -> Layout:
        """The target window of the zeros."""
        assert self.channel_axis is not None
        axis, window = self.channel_axis, self.target
        sizes = (*window.sizes[:axis], self.filler, *window.sizes[axis + 1 :])
        return Layout(sizes, window.strides, window.offset + window.sizes[axis] * window.strides[axis])


@lru_cache(maxsize=256)
def parse_order(order: str) -> ChannelOrder:
    """An order string such as "NHWC", "NHWC8" or "NCHW4".

    >>> parse_order("NHWC8"), parse_order("NCHW32").is_blocked
    (ChannelOrder(letters='NHWC', multiple=8), True)
    """
    match = _PATTERN.fullmatch(order)
    if match is None:
        return ChannelOrder(axis_letters(order))
    letters, multiple = axis_letters(match[1]), int(match[2])
    if multiple < 2 or "C" not in letters:
        raise LayoutError(
            f"layout={order!r}: the number gives channels in multiples of 2 or more, as in 'NHWC8' or 'NCHW4'."
        )
    return ChannelOrder(letters, multiple)


def order_of_blocks(sizes: tuple[int, ...], channel_axis: int | None, blocked: tuple[int, ...]) -> ChannelOrder | None:
    """The order of a target of sizes `blocked`, if these are a result's `sizes` with the channels in blocks; else None.

    >>> order_of_blocks((1, 3, 4, 5), 1, (1, 2, 2, 4, 5)).multiple, order_of_blocks((1, 3, 4, 5), 1, (1, 3, 2, 4, 5))
    (2, None)
    """
    if channel_axis is None or len(blocked) != len(sizes) + 1:
        return None
    multiple = blocked[channel_axis + 1]
    count, others = sizes[channel_axis], (sizes[:channel_axis], sizes[channel_axis + 1 :])
    if multiple < 2 or blocked != (*others[0], -(-count // multiple), multiple, *others[1]):
        return None
    return ChannelOrder("NCHW", multiple)


@memoized
def ordered_layouts(
    sizes: tuple[int, ...], order: str | None, labels: Labels, itemsize: int, row_pitch_bytes: int | None
) -> tuple[Layout, Layout]:
    """The layout of a tensor in a memory order (None: its axes' own order), and the layout of its memory.

    Packed, or with rows `row_pitch_bytes` apart. The two differ if channels are filled up. A blocked order splits the
    channel axis in two: blocks, then the channels of a block, fillers included.

    >>> visible, stored = ordered_layouts((1, 3, 4, 5), "NHWC4", ("N", "C", "H", "W"), 1, None)
    >>> visible.strides == stored.strides, visible.sizes, stored.sizes
    (True, (1, 3, 4, 5), (1, 4, 4, 5))
    """
    if order is not None and not isinstance(order, str):
        raise LayoutError(f"layout={order!r} is not an axis order, such as 'NCHW', 'NHWC' or 'NHWC8', nor a Layout.")
    parsed = None if order is None else parse_order(order)
    stored = list(sizes)
    axes = list(range(len(sizes))) if parsed is None else list(memory_axes(parsed.letters, labels))
    height = labels.index("H") if "H" in labels else None
    if parsed is not None and parsed.multiple > 1:
        channel = labels.index("C")
        stored[channel] = round_up(sizes[channel], parsed.multiple)
        if parsed.is_blocked:
            stored[channel : channel + 1] = [stored[channel] // parsed.multiple, parsed.multiple]
            axes = [axis + (axis > channel) for axis in axes] + [channel + 1]
            height = None if height is None else height + (height > channel)
            sizes = tuple(stored)
    if row_pitch_bytes is None:
        strides = packed_strides(stored, axes)
    else:
        strides = padded_strides(stored, axes, itemsize, row_pitch_bytes, height_axis=height)
    visible = Layout(sizes, strides)
    return visible, visible if tuple(stored) == visible.sizes else Layout(stored, strides)


def parts(
    source: Layout, target: Layout, conversion: Conversion, channel_axis: int, order: ChannelOrder
) -> Iterator[Part]:
    """The relayouts that fill a channel-padded or channel-blocked target, zeros included.

    All whole blocks are one relayout, and the last block with its zeros another. If the conversion depends on the
    channel, each block is one.
    """
    count = len(conversion.channels) if conversion.channels is not None else source.sizes[channel_axis]
    filler = round_up(count, order.multiple) - count
    if not order.is_blocked:
        yield Part(source, target, conversion, channel_axis, filler)
        return
    whole = count // order.multiple
    if conversion.is_per_channel:
        for block in range(target.sizes[channel_axis]):
            first, last = block * order.multiple, min((block + 1) * order.multiple, count)
            chosen = _of_channels(conversion, first, last)
            window = source if chosen.channels is not None else _along(source, channel_axis, slice(first, last))
            into = _along(_along(target, channel_axis + 1, slice(0, last - first)), channel_axis, block)
            yield Part(window, into, chosen, channel_axis, filler if last == count else 0)
    else:
        split = _along(source, channel_axis, slice(0, whole * order.multiple))
        if whole:
            blocked = split.split_axis(channel_axis, (whole, order.multiple))
            yield Part(blocked, _along(target, channel_axis, slice(0, whole)), conversion, None)
        if count % order.multiple:
            rest = _along(source, channel_axis, slice(whole * order.multiple, count))
            into = _along(_along(target, channel_axis + 1, slice(0, count % order.multiple)), channel_axis, whole)
            yield Part(rest, into, conversion, channel_axis, filler)


def _along(layout: Layout, axis: int, entry: int | slice) -> Layout:
    return layout.sliced((*(slice(None),) * axis, entry))


def _of_channels(conversion: Conversion, first: int, last: int) -> Conversion:
    """The conversion of the output channels from `first` up to, not including, `last`."""
    scale, bias = (
        values[first:last] if values is not None and len(values) > 1 else values
        for values in (conversion.scale, conversion.bias)
    )
    channels = None if conversion.channels is None else conversion.channels[first:last]
    return replace(conversion, scale=scale, bias=bias, channels=channels)
