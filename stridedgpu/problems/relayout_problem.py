"""`RelayoutProblem`: a relayout, reduced to simplified loops.

Two tensor specs and a conversion become one loop nest over the destination's memory. Flips, order and merges are done
here, so that planners and kernels have few cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import gcd, prod
from typing import ClassVar

from stridedgpu.values.conversion import Conversion, conversion as conversion_of
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import WIDEST_ACCESS, TensorSpec

from .loop_nest import simplify


@dataclass(frozen=True, slots=True)
class RelayoutProblem:
    """Loops over a destination, outermost first, and the conversion of each element.

    Strides and offsets are in elements of their side, offsets from its lowest element; destination strides are positive
    and descend, and start at that element. `channel_axis` is the loop over output channels if `conversion` depends on
    the channel. There, with `conversion.channels`, output channel `c` reads at `channels[c] *
    source_strides[channel_axis]`.

    With `filler`, each run of the innermost loop, whose target stride is then 1, is followed by that many further
    elements of the target. They become zeros: the channels that fill up a pixel or a block.
    """

    operand_count: ClassVar[int] = 2
    """The operands that `launch_for` gives its launch."""

    sizes: tuple[int, ...]
    target_strides: tuple[int, ...]
    source_strides: tuple[int, ...]
    source_offset: int
    target: TensorSpec
    source: TensorSpec
    conversion: Conversion
    channel_axis: int | None
    filler: int = 0
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Hash the numbers, once: every call looks its launch up by the problem. Names hash otherwise elsewhere."""
        constants = self.conversion.scale or (), self.conversion.bias or ()
        loops = self.sizes, self.target_strides, self.source_strides, self.source_offset
        object.__setattr__(self, "_hash", hash((*loops, self.target, self.source, *constants)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def element_count(self) -> int:
        """The number of elements that come from the source."""
        return prod(self.sizes)

    @property
    def written_sizes(self) -> tuple[int, ...]:
        """The loops' sizes on the target's side: each innermost run with its filler."""
        return (*self.sizes[:-1], self.sizes[-1] + self.filler) if self.filler else self.sizes

    @property
    def written_count(self) -> int:
        """The number of elements and zeros written."""
        return prod(self.written_sizes)

    @property
    def source_extents(self) -> tuple[int, ...]:
        """The loops' sizes on the source's side: a table of channels extends to its highest channel."""
        sizes = list(self.sizes)
        if self.channel_axis is not None and self.conversion.channels is not None:
            sizes[self.channel_axis] = max(self.conversion.channels) + 1
        return tuple(sizes)

    @property
    def source_elements(self) -> int:
        """The number of different elements read: repeated (broadcast) ones count once."""
        if self.element_count == 0:
            return 0
        sizes = list(self.sizes)
        if self.channel_axis is not None and self.conversion.channels is not None:
            sizes[self.channel_axis] = len(set(self.conversion.channels))
        return prod(size for size, stride in zip(sizes, self.source_strides, strict=True) if stride != 0)

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, each element once."""
        return self.source_elements * self.source.element.itemsize + self.written_bytes

    @property
    def written_bytes(self) -> int:
        """The bytes that must be written."""
        return self.written_count * self.target.element.itemsize

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to move."""
        return 0 in self.sizes

    def describe(self) -> list[str]:
        """The lines that `explain()` prints for the problem."""
        owned, read = self.target.owns_padding, self.bytes_moved - self.written_bytes
        return [
            f"loops {self.sizes}",
            f"writes {self.target.element} in steps of {self.target_strides} elements",
            f"reads {self.source.element} in steps of {self.source_strides} elements",
            *([f"zeros behind each run of {self.sizes[-1]}: {self.filler}"] if self.filler else []),
            f"{self.conversion}" + (": bits move unchanged" if self.conversion.is_bitwise_copy else ""),
            "the target owns its padding; it may be overwritten"
            if owned
            else "nothing between the target's elements is written",
            f"{self.bytes_moved} bytes must move: {read} read, {self.written_bytes} written",
        ]

    @property
    def source_alignment(self) -> int:
        """A power of two, in bytes, known to divide the lowest address that is read."""
        lowest = Layout(self.sizes, self.source_strides, self.source_offset).first_offset
        return gcd(self.source.alignment, lowest * self.source.element.itemsize)

    def without_filler(self) -> RelayoutProblem:
        """The problem without its zeros."""
        if not self.filler or self.sizes[-1] > 1:
            return replace(self, filler=0)
        inner = len(self.sizes) - 1
        return replace(
            self,
            sizes=self.sizes[:inner],
            target_strides=self.target_strides[:inner],
            source_strides=self.source_strides[:inner],
            filler=0,
        )

    def filler_alone(self) -> RelayoutProblem:
        """The zeros of the problem as one repeated source element; the target starts at the first zero."""
        element = self.target.element
        layout = Layout((*self.sizes[:-1], self.filler), self.target_strides)
        zeros = TensorSpec(Layout(()).broadcast_to(layout.sizes), element, WIDEST_ACCESS)
        alignment = gcd(self.target.alignment, self.sizes[-1] * element.itemsize)
        return relayout_problem(zeros, TensorSpec(layout, element, alignment), conversion_of(element, element), None)


def relayout_problem(
    source: TensorSpec, target: TensorSpec, conversion: Conversion, channel_axis: int | None, filler: int = 0
) -> RelayoutProblem:
    """The loops that move `source` into `target`.

    `channel_axis` is the channel axis of both layouts, or None; with `conversion.channels` the sizes may differ along
    it, and along no other axis. With `filler`, the target's channels have stride 1, and room for that many zeros
    follows the last channel.
    """
    source_layout, target_layout = source.layout, target.layout
    keep = None
    if channel_axis is not None:
        source_layout, target_layout, conversion = _channels_forwards(
            source_layout, target_layout, conversion, channel_axis
        )
        keep = channel_axis if conversion.is_per_channel or filler else None
    read = Layout.trusted(target_layout.sizes, source_layout.strides, source_layout.offset)
    nest = simplify([target_layout, read], keep)
    sizes, (target_strides, source_strides) = nest.sizes, nest.strides
    if filler and nest.kept is None:
        # Channels are filled up even where there is only one.
        sizes, target_strides, source_strides = (*sizes, 1), (*target_strides, 1), (*source_strides, 0)
    return RelayoutProblem(
        sizes,
        target_strides,
        source_strides,
        nest.offsets[1],
        target,
        source,
        conversion,
        nest.kept if conversion.is_per_channel else None,
        filler,
    )


def _channels_forwards(
    source: Layout, target: Layout, conversion: Conversion, axis: int
) -> tuple[Layout, Layout, Conversion]:
    """The same relayout with the target's channels ascending in memory, and evenly stepped channels as a view.

    A swap of RGB and BGR is then a source with a negative stride, which costs nothing. Only an uneven choice of
    channels keeps its table.
    """
    channels: Sequence[int] = conversion.channels or range(target.sizes[axis])
    if source.sizes[axis] == 1:
        # The stride of a single channel means nothing, and a table may repeat that channel.
        strides = (*source.strides[:axis], 0, *source.strides[axis + 1 :])
        source = Layout.trusted(source.sizes, strides, source.offset)
    if conversion.channels is None and target.strides[axis] >= 0:
        return source, target, conversion
    if target.strides[axis] < 0:
        target = _along(target, axis, range(target.sizes[axis])[::-1])
        channels = channels[::-1]
        conversion = replace(
            conversion,
            scale=conversion.scale and conversion.scale[::-1],
            bias=conversion.bias and conversion.bias[::-1],
        )
    step = channels[1] - channels[0] if len(channels) > 1 else 1
    even = range(channels[0], channels[0] + step * len(channels), step) if step and len(channels) else ()
    if tuple(even) == tuple(channels):
        return _along(source, axis, even), target, replace(conversion, channels=None)
    if source.strides[axis] < 0:
        # Channel 0 is then the lowest in memory: the known alignment is counted from there.
        last = source.sizes[axis] - 1
        source, channels = _along(source, axis, range(last + 1)[::-1]), tuple(last - channel for channel in channels)
    return source, target, replace(conversion, channels=tuple(channels))


def _along(layout: Layout, axis: int, positions: range | tuple[()]) -> Layout:
    """`layout` with only the evenly stepped `positions` of one axis."""
    if not isinstance(positions, range):
        return layout
    stop: int | None = positions.stop if positions.stop >= 0 else None
    return layout.sliced((slice(None),) * axis + (slice(positions.start, stop, positions.step),))
