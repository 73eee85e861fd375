"""The worker of `Preprocess`: the selected device, and the batches computed on it.

A row's result depends on that row, its key, the epoch and the declaration, never on other rows or earlier calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Final, NamedTuple

import numpy as np

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.cpu.memory_left import LARGE_BYTES, check_memory_left
from stridedgpu.devices.cpu.recycled_memory import RecycledMemory
from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.operand import AllocationSpec, Memory, Operand
from stridedgpu.devices.selection import chosen_device, device_named
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.operations.channel_blocks import parse_order
from stridedgpu.operations.crops import fill_bytes, write_crops
from stridedgpu.operations.images import MOST_IMAGES, CropSources, FrameSources
from stridedgpu.operations.move import move_elements
from stridedgpu.operations.options import DEFAULT_ALIGNMENT, MemoryOptions, allocate_operand
from stridedgpu.operations.plans import check_output
from stridedgpu.operations.relayout import assign_operand, clear_buffer
from stridedgpu.operations.resize import check_axes
from stridedgpu.problems.resize_problem import ResizeRule
from stridedgpu.typing import TensorLike
from stridedgpu.values.axis_labels import labels_of, memory_axes
from stridedgpu.values.conversion import Conversion, conversion
from stridedgpu.values.dtypes import ElementType, element_type
from stridedgpu.values.errors import DeviceError, ElementTypeError, LayoutError, StridedGpuError
from stridedgpu.values.interpolation import arithmetic_of, interpolation_named
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import canonical_axes

from .declaration import Declaration, border_of, border_values, step_conversion
from .decoding import Decoder
from .epochs import Chance, EpochCounter, pixel_key
from .geometry import Placement, fits_crop, padded_sizes, placement_of
from .images import Image, Pixels, batch_operand, image_operand, memory_of, pixels_in, sources_of
from .windows import drawn_colours, write_coloured, write_placed

_USUAL_CHANNELS: Final = 3
"""The channels of a batch without usable rows, if none are declared."""

Keys = Sequence[object] | None
Refuse = Callable[[int, object, StridedGpuError], None]


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One batch, or a list of images of different sizes, and the rows that it was computed from.

    `placements` says where the pixels of each row went, or is None if nothing moves.
    """

    images: StridedTensor | list[StridedTensor]
    rows: list[int]
    placements: Sequence[Placement] | None = None


class Call(NamedTuple):
    """The arguments of a call besides the images: a key for each row, an epoch (None: the shared one).

    The result goes into `out`, axes N, C, H, W, or into memory of `memory`. `out` has a row for each image; its first
    rows are written if some are left out. `numbers` are the rows' numbers in messages, if the images are a part of a
    batch. `refuse` takes the number and key of an unusable image, and the problem; by default the worker does.
    """

    keys: Keys = None
    epoch: int | None = None
    out: Operand | None = None
    memory: Memory | None = None
    numbers: Sequence[int] | None = None
    refuse: Refuse | None = None


class Worker:
    """The state of one process for a declared step: created at the first batch, and never pickled.

    `epochs` is the shared epoch of a step with a seed.
    """

    def __init__(self, step: Declaration, epochs: EpochCounter | None = None) -> None:
        self.process = os.getpid()
        self._step = step
        self._epochs = epochs
        self.device = chosen_device(step.device)
        self._memory = RecycledMemory()
        self._decoder = Decoder.of("pillow", step, deep=True)
        self._element = element_type(step.dtype)
        self._moves_windows = step.moves_windows or step.colours or bool(step.annotations)
        rule = ResizeRule(interpolation_named(step.chosen_interpolation), step.chosen_passes)
        self._rule = rule if step.resizes else None
        self.conversion_and_fill = lru_cache(maxsize=256)(self._conversion_and_fill)
        self._still = lru_cache(maxsize=256)(self._checked_placement)
        self._allocation = lru_cache(maxsize=256)(self._result_allocation)
        self._counting = Lock()
        self.skipped = 0

    def batch(self, array: TensorLike, call: Call) -> BatchResult:
        """Images of one size in one array: one operand, whose rows are checked once."""
        step = self._step
        batch = batch_operand(step, array)
        count, *sizes = batch.layout.sizes
        _check_keys(call.keys, count)
        if not self._moves_windows:
            return BatchResult(self._whole(batch, canonical_axes(step.dims), step.layout, call), list(range(count)))
        if count > MOST_IMAGES:
            raise LayoutError(f"The batch has {count} images, more than there is memory to list them.")
        channels, height, width = sizes
        rows = list(range(count))
        still: list[Placement] = []
        window = step.window or (0, 0)
        try:
            if count:
                still = [self._still(batch.element, (channels, height, width))] * count
            window = step.window or padded_sizes(step, (height, width))
        except StridedGpuError as problem:
            for row in rows:
                self.refuse(row, None if call.keys is None else call.keys[row], problem)
            rows = []
        target = self.batch_of(len(rows), channels, window, call, [batch])
        placements: Sequence[Placement] = ()
        if rows:
            sources = CropSources.of_batch(batch)
            placements, chances = self._drawn(still, sources.images, rows, call)
            self._write(sources, placements, chances, target)
        return BatchResult(StridedTensor.over(target, "NCHW"), rows, placements)

    def images(self, inputs: Sequence[TensorLike], call: Call, *, stacked: bool = False) -> BatchResult:
        """Images as separate objects, of any sizes: one batch with a window or `stacked`, which needs one size."""
        step, out = self._step, call.out
        _check_keys(call.keys, len(inputs))
        stacked = stacked or step.window is not None
        window = step.window
        channels = step.channel_count if out is None or step.chooses_channels else out.layout.sizes[1]
        images: list[Image] = []
        still: list[Placement] = []
        rows: list[int] = []
        for row, one in enumerate(inputs):
            try:
                image = image_operand(step, one, self.device, self._decoder)
                sizes = image.layout.sizes
                if len(sizes) < 2:
                    raise LayoutError(
                        f"it has the one axis {step.image_axes}; an image of a list has two or more. "
                        "Pass such rows as one array, as np.stack makes it."
                    )
                placed = self._still(image.element, sizes)
                size = padded_sizes(step, (sizes[-2], sizes[-1]))
                if stacked and step.window is None and size != (window or size):
                    raise LayoutError(
                        f"it is {_by(size)} (height x width) and others {window}; crop= makes them alike."
                    )
                if stacked and not step.chooses_channels and sizes[0] != (channels or sizes[0]):
                    raise LayoutError(f"it has {sizes[0]} channels and others {channels}; channels= picks from each.")
            except StridedGpuError as problem:
                number = row if call.numbers is None else call.numbers[row]
                (call.refuse or self.refuse)(number, None if call.keys is None else call.keys[row], problem)
                continue
            window, channels = window or size, channels or sizes[0]
            images.append(image)
            still.append(placed)
            rows.append(row)
        if out is not None and not stacked:
            raise LayoutError("out= holds results of one size: declare crop=, letterbox= or resize= to both sides.")
        if not stacked and not self._moves_windows:
            dims, order = canonical_axes(step.image_axes), step.layout.replace("N", "")
            return BatchResult([self._whole(image, dims, order, call) for image in images], rows)
        placements, chances = self._drawn(still, lambda: pixels_in(images), rows, call)
        if stacked:
            if out is not None and len(rows) < len(inputs):
                call = call._replace(out=out.with_layout(out.layout.sliced(slice(len(rows)))))
            target = self.batch_of(len(images), channels or _USUAL_CHANNELS, window or (0, 0), call, images)
            self._write_images(images, placements, chances, target)
            return BatchResult(StridedTensor.over(target, "NCHW"), rows, placements)
        single = []
        for row, (image, placed) in enumerate(zip(images, placements, strict=True)):
            target = self.batch_of(1, image.layout.sizes[0], placed.size, call, [image])
            chance = None if chances is None else chances[row : row + 1]
            self._write(sources_of([image]), [placed], chance, target)
            single.append(StridedTensor.over(target.with_layout(target.layout.sliced(0)), "CHW"))
        return BatchResult(single, rows, placements)

    def refuse(self, row: int, key: object, problem: StridedGpuError) -> None:
        """Raise the problem with the number of its row, or count the row as left out, as the step declares."""
        column = "" if self._step.column is None else f" of column {self._step.column!r}"
        named = f"row {row}{column}" + ("" if key is None else f" (key {key!r})")
        if self._step.errors == "raise":
            kind = type(problem) if isinstance(problem, (DeviceError, ElementTypeError)) else LayoutError
            raise kind(f"{named}: {problem}") from problem
        with self._counting:
            self.skipped += 1
        import logging

        logging.getLogger("stridedgpu").warning("skipped %s: %s", named, problem)

    def _checked_placement(self, element: ElementType, sizes: tuple[int, ...]) -> Placement:
        """Where an image goes without chance. Raises unless the step can process its type and sizes."""
        step = self._step
        converted, _ = self.conversion_and_fill(element, sizes[0] if "C" in step.dims else None)
        if self._rule is not None:
            if 0 in sizes:
                raise LayoutError(f"it is {_by(sizes)} (height x width); there is nothing to resize.")
            arithmetic_of(self._rule.interpolation, element)
        if border_of(step) is not None and 0 in sizes[-2:]:
            raise LayoutError(f"it is {_by(sizes)} (height x width); there is nothing for fill={step.fill!r}.")
        if not fits_crop(step, (sizes[-2], sizes[-1])):
            height, width = padded_sizes(step, (sizes[-2], sizes[-1]))
            how = " and ".join(word for word, option in (("resized", step.resize), ("padded", step.pad)) if option)
            after = f", {height} x {width} when {how}," if how else ","
            raise LayoutError(f"it is {_by(sizes)} (height x width){after} smaller than crop={step.crop}.")
        placed = placement_of(step, (sizes[-2], sizes[-1]), None)
        if self._rule is not None:
            check_axes(placed.source, placed.place[2:])
        if step.window is None and self.device == "cpu":  # the size of the result is this image's
            channels = step.output_channels(sizes[0]) if "C" in step.dims else 1
            nbytes = channels * placed.size[0] * placed.size[1] * converted.target.itemsize
            if nbytes >= LARGE_BYTES:
                check_memory_left("The CPU", nbytes)
        return placed

    def _conversion_and_fill(self, element: ElementType, source_channels: int | None) -> tuple[Conversion, bytes]:
        """The conversion of images of a type, and one pixel of what surrounds them.

        Raises if the step does not fit the type or the number of channels.
        """
        step = self._step
        converted = step_conversion(step, element, source_channels)
        if not step.surrounds:
            return converted, bytes(element.itemsize * (source_channels or 1))
        return converted, fill_bytes(border_values(step, element), element, source_channels or 1)

    def _drawn(
        self, still: list[Placement], images: Callable[[], Sequence[Operand]], rows: Sequence[int], call: Call
    ) -> tuple[list[Placement], list[Chance] | None]:
        """Where each image goes, and its chance: by its key, or without keys by a hash of some pixels; None, no seed.

        `images` makes the operands, which only a hash needs.
        """
        step, shared = self._step, self._epochs
        if step.seed is None:
            return still, None
        if call.keys is None:
            keys: list[object] = [pixel_key(image, step.image_axes) for image in images()]
        else:
            keys = [call.keys[row] for row in rows]
        epoch = call.epoch if call.epoch is not None else 0 if shared is None else shared.epoch
        chances = [Chance.of(step.seed, epoch, key) for key in keys]
        if call.epoch is None and shared is not None:
            shared.watch([chance.row for chance in chances])
        places = zip(still, chances, strict=True)
        return [placement_of(step, one.source, chance) for one, chance in places], chances

    def _write_images(
        self, images: list[Image], placements: Sequence[Placement], chances: list[Chance] | None, batch: Operand
    ) -> None:
        """Each image into its row of a batch; images of several kinds, types or channel counts go one by one."""
        alike = len({(type(image), image.element, image.layout.sizes[0]) for image in images}) == 1
        groups = [slice(None)] if alike else [slice(row, row + 1) for row in range(len(images))]
        for group in groups:
            target = batch if alike else batch.with_layout(batch.layout.sliced(group))
            drawn = None if chances is None else chances[group]
            self._write(sources_of(images[group]), placements[group], drawn, target)

    def _write(
        self, sources: CropSources, placements: Sequence[Placement], chances: list[Chance] | None, target: Operand
    ) -> None:
        """Images of one type and channel count into a batch with axes N, C, H, W: moved, coloured and converted."""
        step, element, channels = self._step, sources.element, sources.channels
        converted, fill = self.conversion_and_fill(element, channels)
        if not step.colours:
            write_placed(sources, placements, self._rule, converted, fill, target, border_of(step))
            return
        assert chances is not None, "gain and offset need a seed"
        spec = MemoryOptions(step.order).allocation(target.layout.sizes, ("N", "C", "H", "W"), element)
        moved = spec.allocate(self._own_memory)
        unchanged = conversion(element, element, channels=step.channels, source_channels=channels)
        write_placed(sources, placements, self._rule, unchanged, fill, moved, border_of(step))
        write_coloured(moved, drawn_colours(step, chances, converted, channels), target)

    def _whole(self, source: Image, dims: str, layout: str, call: Call) -> StridedTensor:
        """Every pixel of a batch or of an image; those of a frame are converted as they are read."""
        sizes, axis = list(source.layout.sizes), dims.find("C") if "C" in dims else None
        converted, _ = self.conversion_and_fill(source.element, None if axis is None else sizes[axis])
        if axis is not None:
            sizes[axis] = self._step.output_channels(sizes[axis])
        target = self._empty(tuple(sizes), layout, call, [source])
        if isinstance(source, FrameOperand):
            batch = target.with_layout(target.layout.unsqueezed(0))
            frames = FrameSources.of_frames([source])
            write_crops(frames, np.zeros((1, 2), np.int64), [False], converted, b"", batch, None)
        else:
            move_elements(source, target, converted, axis)
        return StridedTensor.over(target, dims)

    def batch_of(
        self,
        count: int,
        source_channels: int,
        window: tuple[int, int],
        call: Call = Call(),  # noqa: B008 - a value
        images: Sequence[Image] = (),
    ) -> Operand:
        """Memory for `count` windows of images with so many channels, which it does not share."""
        sizes = (count, self._step.output_channels(source_channels), *window)
        return self._empty(sizes, self._step.layout, call, images)

    def _empty(self, sizes: tuple[int, ...], layout: str, call: Call, images: Sequence[Image]) -> Operand:
        """Memory for a result: the call's, else on the CPU recycled from a released result, or the device's pool."""
        if call.out is not None:
            check_output(call.out, sizes, self._element, self.device, memory_of(images))
            return call.out
        spec = self._allocation(sizes, layout)
        made = spec.allocate(call.memory or self._own_memory)
        if not spec.owns_padding:  # "NHWC8": zeros lie behind the channels
            clear_buffer(made.buffer)
        return made

    def _result_allocation(self, sizes: tuple[int, ...], layout: str) -> AllocationSpec:
        memory = MemoryOptions(layout, self._step.row_pitch_bytes, self._step.alignment)
        labels = labels_of(canonical_axes(parse_order(layout).letters), len(sizes))
        return memory.allocation(sizes, labels, self._element)

    @property
    def _own_memory(self) -> Memory:
        return self._memory if self.device == "cpu" else device_named(self.device)

    def array(self, images: StridedTensor) -> Pixels:
        """A result as a NumPy array with its axes in the declared order, copied to the CPU if necessary."""
        operand = images.operand
        layout = _in_order(operand.layout, images.dims or "", self._step.order)
        turned = Operand(operand.buffer, layout, operand.element)
        if turned.buffer.device != "cpu":
            sizes, near = Layout(layout.sizes), self._memory
            host = allocate_operand(sizes, operand.element, DEFAULT_ALIGNMENT, "cpu", memory=near)
            assign_operand(turned, host)
            turned = host
        return array_of_operand(turned)


@lru_cache(maxsize=256)
def _in_order(layout: Layout, dims: str, order: str) -> Layout:
    """A layout with its labelled axes in another order, of which it may have some alone."""
    present = "".join(letter for letter in order if letter in dims)
    return layout.permuted(memory_axes(present, labels_of(dims, layout.ndim)))


def is_sequence(values: object) -> bool:
    """Whether entries can be counted and taken; not those of a class, nor of an array of rank 0."""
    is_number = isinstance(values, np.ndarray) and values.ndim == 0
    return isinstance(values, Sized) and hasattr(type(values), "__getitem__") and not is_number


def _check_keys(keys: Keys, count: int) -> None:
    """Raise `LayoutError` unless there is one key a row, or none at all."""
    if keys is not None and not is_sequence(keys):
        raise LayoutError(f"keys={keys!r} must be a sequence with a key for each row, such as list(keys).")
    if keys is not None and len(keys) != count:
        raise LayoutError(f"There are {len(keys)} keys for {count} rows; give one for each.")


def _by(sizes: tuple[int, ...]) -> str:
    return f"{sizes[-2]} x {sizes[-1]}"
