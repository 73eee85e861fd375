"""The worker of `Preprocess`: the selected device, and the batches computed on it.

A row's result depends on that row, its key, the epoch and the declaration, never on other rows or earlier calls.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.cpu.recycled_memory import RecycledMemory
from stridedgpu.devices.frame_operand import CHANNELS, FrameOperand
from stridedgpu.devices.operand import AllocationSpec, Memory, Operand
from stridedgpu.devices.selection import chosen_device, device_named
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.operations.allocation import DEFAULT_ALIGNMENT, allocate_operand
from stridedgpu.operations.crop_sources import MOST_IMAGES, CropSources
from stridedgpu.operations.crops import fill_bytes
from stridedgpu.operations.frames import write_frame_crops
from stridedgpu.operations.move import move_elements
from stridedgpu.operations.options import MemoryOptions
from stridedgpu.operations.relayout import assign_operand
from stridedgpu.operations.requirements import check_output
from stridedgpu.planning.resize_problem import ResizeRule
from stridedgpu.typing import TensorLike
from stridedgpu.values.axis_labels import labels_of, memory_axes
from stridedgpu.values.channel_matrix import matrix_rows
from stridedgpu.values.conversion import Conversion, conversion
from stridedgpu.values.dtypes import ElementType, element_type
from stridedgpu.values.errors import ElementTypeError, LayoutError, StridedGpuError
from stridedgpu.values.interpolation import arithmetic_of, interpolation_named
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import canonical_axes

from .colours import drawn_colours, write_coloured
from .declaration import Declaration
from .epochs import EpochCounter
from .geometry import padded_sizes, placement_of
from .normalisation import border_values, scale_and_bias
from .placement import Placement
from .sample_keys import Chance, pixel_key
from .sources import Image, batch_operand, image_operand, mask_operand, memory_of, pixels_in, sources_of
from .windows import write_placed

__all__ = ["Made", "Worker"]

_log = logging.getLogger("stridedgpu")

_USUAL_CHANNELS: Final = 3
"""The channels of a batch without usable rows, if none are declared."""

Keys = Sequence[object] | None


@dataclass(frozen=True, slots=True)
class Made:
    """A result: one batch, or a list of images of different sizes, and the rows that it was computed from.

    `placements` says where the pixels of each row went, or is None if nothing moves.
    """

    images: StridedTensor | list[StridedTensor]
    rows: list[int]
    placements: Sequence[Placement] | None = None


class _Call(NamedTuple):
    """The arguments of a call besides the images: keys, epoch (None: the shared one), and memory of the result."""

    keys: Keys
    epoch: int | None
    out: Operand | None
    memory: Memory | None


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
        self._element = element_type(step.dtype)
        self._batch_dims = canonical_axes(step.dims)
        self._moves_windows = step.moves_windows or step.colours or bool(step.annotations)
        self._rule = ResizeRule(interpolation_named(step.chosen_interpolation), step.chosen_passes)
        self._image_axes = step.dims.replace("N", "")
        self._conversion = lru_cache(maxsize=256)(self._checked_conversion)
        self._allocation = lru_cache(maxsize=256)(self._result_allocation)
        self._still = lru_cache(maxsize=256)(lambda sizes: placement_of(step, sizes, None))
        self._checked = lru_cache(maxsize=256)(self._check)
        self._fill = lru_cache(maxsize=256)(self._border)
        self._resizes, self._colours = step.resizes, step.colours
        self._counting = Lock()
        self.skipped = 0

    def batch(
        self,
        given: TensorLike,
        keys: Keys,
        *,
        epoch: int | None = None,
        out: Operand | None = None,
        memory: Memory | None = None,
    ) -> Made:
        """Images of one size in one array: one operand, whose rows are checked once.

        `epoch` is the shared one where it is None. The result goes into `out`, axes N, C, H, W, or into memory of
        `memory`.
        """
        step = self._step
        batch = batch_operand(step, given)
        count, *sizes = batch.layout.sizes
        if keys is not None:
            _check_keys(keys, count)
        call = _Call(keys, epoch, out, memory)
        if not self._moves_windows:
            return Made(self._whole(batch, self._batch_dims, step.layout, call), list(range(count)))
        channels, height, width = sizes
        rows = self._alike_rows(count, keys, batch.element, (channels, height, width))
        window = step.window or padded_sizes(step, (height, width))
        target = self._empty((len(rows), step.output_channels(channels), *window), step.layout, call, [batch])
        placements: Sequence[Placement] = ()
        if rows:
            sources = CropSources.of_batch(batch)
            chances = None if step.seed is None else self._chances(sources.images, rows, call)
            alike = [(height, width)] * count
            placements = list(map(self._still, alike)) if chances is None else self._placements(alike, chances)
            self._written(sources, placements, chances, target)
        return Made(StridedTensor.over(target, "NCHW"), rows, placements)

    def images(
        self,
        given: Sequence[TensorLike],
        keys: Keys,
        *,
        stacked: bool = False,
        epoch: int | None = None,
        out: Operand | None = None,
        memory: Memory | None = None,
        numbers: Sequence[int] | None = None,
    ) -> Made:
        """Images as separate objects, of any sizes: one batch with a window or `stacked`, which needs one size.

        The arguments are those of `batch`. `out` has a row for each image; its first rows are written if some are left
        out. `numbers` are the rows' numbers in messages, if these images are a part of a batch.
        """
        step = self._step
        _check_keys(keys, len(given))
        call = _Call(keys, epoch, out, memory)
        stacked = stacked or step.window is not None
        window, channel_count = step.window, step.channel_count
        if out is not None and not step.chooses_channels:
            channel_count = out.layout.sizes[1]
        found: dict[int, Image] = {}

        def check(row: int) -> None:
            nonlocal window, channel_count
            image = image_operand(step, given[row], self.device)
            sizes = image.layout.sizes
            self._check(image.element, sizes)
            size, count = padded_sizes(step, (sizes[-2], sizes[-1])), sizes[0]
            if stacked and step.window is None and size != (window or size):
                raise LayoutError(f"it is {_by(size)} (height x width) and others {window}; crop= makes them alike.")
            if stacked and not step.chooses_channels and count != (channel_count or count):
                raise LayoutError(f"it has {count} channels and others {channel_count}; channels= picks from each.")
            window, channel_count, found[row] = window or size, channel_count or count, image

        rows = self._good_rows(len(given), keys, check, numbers)
        images = [found[row] for row in rows]
        if out is not None and len(rows) < len(given):
            call = call._replace(out=out.with_layout(out.layout.sliced(slice(len(rows)))))
        if not stacked and out is not None:
            raise LayoutError("out= holds results of one size: declare crop=, letterbox= or resize= to both sides.")
        if not stacked and not self._moves_windows:
            image_dims, order = canonical_axes(self._image_axes), step.layout.replace("N", "")
            return Made([self._whole_image(image, image_dims, order, call) for image in images], rows)
        chances = self._chances(lambda: pixels_in(images), rows, call)
        placements = self._placements([(image.layout.sizes[-2], image.layout.sizes[-1]) for image in images], chances)
        if stacked:
            target = self.batch_of(len(images), channel_count or _USUAL_CHANNELS, window or (0, 0), call, images)
            self._crops(images, placements, chances, target)
            return Made(StridedTensor.over(target, "NCHW"), rows, placements)
        single = []
        for row, (image, placed) in enumerate(zip(images, placements, strict=True)):
            target = self.batch_of(1, image.layout.sizes[0], placed.size, call, [image])
            chance = None if chances is None else chances[row : row + 1]
            self._written(sources_of([image]), [placed], chance, target)
            single.append(StridedTensor.over(target.with_layout(target.layout.sliced(0)), "CHW"))
        return Made(single, rows, placements)

    def masks(self, given: Sequence[Any] | Mapping[int, Any], made: Made) -> StridedTensor | list[StridedTensor]:
        """The masks of a result's rows, moved as their images: nearest pixels, in the masks' own type."""
        step = self._step
        assert made.placements is not None, "a step with masks moves windows"
        named = "" if step.mask is None else f" of column {step.mask!r}"
        masks = []
        for row, placed in zip(made.rows, made.placements, strict=True):
            try:
                masks.append(mask_operand(given[row], placed.source, turns=step.exif))
            except StridedGpuError as problem:
                raise LayoutError(f"row {row}{named}: {problem}") from problem
        if len({mask.element for mask in masks}) > 1:
            raise LayoutError(f"the masks{named} are of several types; one batch has one.")
        if isinstance(made.images, StridedTensor):
            size = made.images.sizes[-2], made.images.sizes[-1]
            return StridedTensor.over(self._masks(masks, made.placements, size), "NHW")
        alone = [
            self._masks([mask], [placed], placed.size) for mask, placed in zip(masks, made.placements, strict=True)
        ]
        return [StridedTensor.over(mask.with_layout(mask.layout.sliced(0)), "HW") for mask in alone]

    def _masks(self, masks: list[Operand], placements: Sequence[Placement], size: tuple[int, int]) -> Operand:
        """Masks with axes C (1), H, W as a batch with axes N, H, W."""
        element = masks[0].element if masks else element_type("uint8")
        spec = MemoryOptions().allocation((len(masks), 1, *size), ("N", "C", "H", "W"), element)
        target = spec.allocate(device_named(self.device))
        if masks:
            nearest = "pillow-nearest" if self._rule.interpolation.is_pillow else "opencv-nearest"
            rule = ResizeRule(interpolation_named(nearest)) if self._step.resizes else None
            fill = fill_bytes(self._step.mask_fill, element, 1, "mask_fill")
            write_placed(CropSources.of_images(masks), placements, rule, conversion(element, element), fill, target)
        return target.with_layout(target.layout.squeezed(1))

    def _check(self, element: ElementType, sizes: tuple[int, ...]) -> None:
        """Raise unless the step can process an image of this type and these sizes."""
        step = self._step
        self._conversion(element, sizes[0] if "C" in self._image_axes else None)
        if step.pad is not None or step.letterbox is not None:
            self._fill(element, sizes[0])
        if step.resizes:
            if 0 in sizes:
                raise LayoutError(f"it is {_by(sizes)} (height x width); there is nothing to resize.")
            arithmetic_of(self._rule.interpolation, element)
        if step.crop is not None and step.random_resized_crop is None:
            height, width = padded_sizes(step, (sizes[-2], sizes[-1]))
            if height < step.crop[0] or width < step.crop[1]:
                how = " and ".join(word for word, given in (("resized", step.resize), ("padded", step.pad)) if given)
                after = f", {height} x {width} when {how}," if how else ","
                raise LayoutError(f"it is {_by(sizes)} (height x width){after} smaller than crop={step.crop}.")

    def _alike_rows(self, count: int, keys: Keys, element: ElementType, sizes: tuple[int, ...]) -> list[int]:
        """The rows of a batch: all if its images are usable, otherwise none."""
        if count > MOST_IMAGES:
            raise LayoutError(f"The batch has {count} pictures, more than there is memory to list them.")
        try:
            if count:
                self._checked(element, sizes)
        except StridedGpuError:
            return self._good_rows(count, keys, lambda _: self._check(element, sizes))
        return list(range(count))

    def _good_rows(
        self, count: int, keys: Keys, check: Callable[[int], None], numbers: Sequence[int] | None = None
    ) -> list[int]:
        """The rows that `check` accepts; a bad one is raised with its number, or counted and left out."""
        rows = []
        for row in range(count):
            try:
                check(row)
            except StridedGpuError as problem:
                self.refuse(row if numbers is None else numbers[row], None if keys is None else keys[row], problem)
            else:
                rows.append(row)
        return rows

    def refuse(self, row: int, key: object, problem: StridedGpuError) -> None:
        """Raise the problem with the number of its row, or count the row as left out, as the step declares."""
        column = "" if self._step.column is None else f" of column {self._step.column!r}"
        named = f"row {row}{column}" + ("" if key is None else f" (key {key!r})")
        if self._step.errors == "raise":
            kind = type(problem) if isinstance(problem, (LayoutError, ElementTypeError)) else LayoutError
            raise kind(f"{named}: {problem}") from problem
        with self._counting:
            self.skipped += 1
        _log.warning("skipped %s: %s", named, problem)

    def _chances(
        self, images: Callable[[], Sequence[Operand]], rows: Sequence[int], call: _Call
    ) -> list[Chance] | None:
        """The chance of each row: by its key, or without keys by a hash of some pixels; None without a seed.

        `images` makes the operands, which only a hash needs.
        """
        seed, shared = self._step.seed, self._epochs
        if seed is None:
            return None
        keys = [pixel_key(image, self._image_axes) for image in images()] if call.keys is None else None
        epoch = call.epoch if call.epoch is not None else 0 if shared is None else shared.epoch
        chosen = keys if keys is not None else [call.keys[row] for row in rows]  # type: ignore[index]
        chances = [Chance.of(seed, epoch, key) for key in chosen]
        if call.epoch is None and shared is not None:
            shared.watch([chance.drawn.row for chance in chances])
        return chances

    def _placements(self, sizes: Sequence[tuple[int, int]], chances: list[Chance] | None) -> list[Placement]:
        """Where each image of these sizes goes."""
        if chances is None:
            return list(map(self._still, sizes))
        return [placement_of(self._step, size, chance) for size, chance in zip(sizes, chances, strict=True)]

    def _crops(
        self, images: list[Image], placements: Sequence[Placement], chances: list[Chance] | None, batch: Operand
    ) -> None:
        """Each image into its row of a batch; images of several kinds, types or channel counts go one by one."""
        alike = len({(type(image), image.element, image.layout.sizes[0]) for image in images}) == 1
        groups = [slice(None)] if alike else [slice(row, row + 1) for row in range(len(images))]
        for group in groups:
            target = batch if alike else batch.with_layout(batch.layout.sliced(group))
            drawn = None if chances is None else chances[group]
            self._written(sources_of(images[group]), placements[group], drawn, target)

    def _written(
        self, sources: CropSources, placements: Sequence[Placement], chances: list[Chance] | None, target: Operand
    ) -> None:
        """Images of one type and channel count into a batch with axes N, C, H, W: moved, coloured and converted."""
        step, element, channels = self._step, sources.element, sources.channels
        made, rule = self._conversion(element, channels), self._rule if self._resizes else None
        fill = self._fill(element, channels)
        if not self._colours:
            write_placed(sources, placements, rule, made, fill, target)
            return
        assert chances is not None, "gain and offset need a seed"
        labels = ("N", "C", "H", "W")
        spec = MemoryOptions(step.layout).allocation(target.layout.sizes, labels, element)
        moved = spec.allocate(self._memory if self.device == "cpu" else device_named(self.device))
        unchanged = conversion(element, element, channels=step.channels, source_channels=channels)
        write_placed(sources, placements, rule, unchanged, fill, moved)
        write_coloured(moved, drawn_colours(step, chances, element, channels), target)

    def _whole(self, source: Operand, dims: str, layout: str, call: _Call) -> StridedTensor:
        """Every pixel of a batch or of an image."""
        step = self._step
        sizes, channel_axis = list(source.layout.sizes), dims.find("C")
        made = self._conversion(source.element, sizes[channel_axis] if channel_axis >= 0 else None)
        if channel_axis >= 0:
            sizes[channel_axis] = step.output_channels(sizes[channel_axis])
        target = self._empty(tuple(sizes), layout, call, [source])
        move_elements(source, target, made, channel_axis if channel_axis >= 0 else None)
        return StridedTensor.over(target, dims)

    def _whole_image(self, image: Image, dims: str, layout: str, call: _Call) -> StridedTensor:
        """Every pixel of an image; those of a frame are converted as they are read."""
        if not isinstance(image, FrameOperand):
            return self._whole(image, dims, layout, call)
        sizes = (self._step.output_channels(image.layout.sizes[0]), *image.sizes)
        target = self._empty(sizes, layout, call, [image])
        batch, made = target.with_layout(target.layout.unsqueezed(0)), self._conversion(image.element, CHANNELS)
        write_frame_crops([image], np.zeros((1, 2), np.int64), [False], made, b"", batch, None)
        return StridedTensor.over(target, dims)

    def batch_of(
        self,
        count: int,
        source_channels: int,
        window: tuple[int, int],
        call: _Call | None = None,
        images: Sequence[Image] = (),
    ) -> Operand:
        """Memory for `count` windows of images with so many channels, which it does not share."""
        sizes = (count, self._step.output_channels(source_channels), *window)
        return self._empty(sizes, self._step.layout, call, images)

    def _empty(self, sizes: tuple[int, ...], layout: str, call: _Call | None, images: Sequence[Image]) -> Operand:
        """Memory for a result: the call's, else on the CPU recycled from a released result, or the device's pool."""
        if call is not None and call.out is not None:
            check_output(call.out, sizes, self._element, self.device, memory_of(images))
            return call.out
        spec = self._allocation(sizes, layout)
        own = self._memory if self.device == "cpu" else device_named(self.device)
        return spec.allocate(own if call is None or call.memory is None else call.memory)

    def _result_allocation(self, sizes: tuple[int, ...], layout: str) -> AllocationSpec:
        """What to allocate for a result."""
        memory = MemoryOptions(layout, self._step.row_pitch_bytes, self._step.alignment)
        return memory.allocation(sizes, labels_of(canonical_axes(layout), len(sizes)), self._element)

    def array(self, images: StridedTensor) -> NDArray[Any]:
        """A result as a NumPy array with its axes in the declared order, copied to the CPU if necessary."""
        made, dims = images.operand, images.dims or ""
        turned = Operand(made.buffer, _in_order(made.layout, dims, self._step.layout), made.element)
        if turned.buffer.device == "cpu":
            return array_of_operand(turned)
        host = allocate_operand(
            Layout(turned.layout.sizes), turned.element, DEFAULT_ALIGNMENT, "cpu", memory=self._memory
        )
        assign_operand(turned, host)
        return array_of_operand(host)

    def _border(self, element: ElementType, channels: int) -> bytes:
        """One pixel around images of a type."""
        return fill_bytes(border_values(self._step, element), element, channels)

    def _checked_conversion(self, element: ElementType, source_channels: int | None) -> Conversion:
        """The conversion of images of a type. Raises if the step does not fit the type or the number of channels."""
        step = self._step
        scale, bias, unit = scale_and_bias(step, element, source_channels)
        outputs = step.output_channels(source_channels or 0)
        if (
            step.scale is None
            and step.bias is None
            and scale is not None
            and len(scale) not in (1, outputs or len(scale))
        ):
            raise LayoutError(f"mean and std are for {len(scale)} channels, and a picture here gives {outputs}.")
        return conversion(
            element,
            self._element,
            scale=scale,
            bias=bias,
            channels=step.channels,
            source_channels=source_channels,
            matrix=None if step.matrix is None else matrix_rows(step.matrix),
            unit=unit,
        )


@lru_cache(maxsize=256)
def _in_order(layout: Layout, dims: str, order: str) -> Layout:
    """A layout with its labelled axes in another order, of which it may have some alone."""
    present = "".join(letter for letter in order if letter in dims)
    return layout.permuted(memory_axes(present, labels_of(dims, layout.ndim)))


def _is_sequence(values: object) -> bool:
    """Whether entries can be counted and taken; not those of a class, nor of an array of rank 0."""
    return isinstance(values, Sized) and hasattr(type(values), "__getitem__") and getattr(values, "ndim", 1) != 0


def _check_keys(keys: Keys, count: int) -> None:
    """Raise `LayoutError` unless there is one key a row, or none at all."""
    if keys is not None and not _is_sequence(keys):
        raise LayoutError(f"keys={keys!r} must be a sequence with a key for each row, such as list(keys).")
    if keys is not None and len(keys) != count:
        raise LayoutError(f"There are {len(keys)} keys for {count} rows; give one for each.")


def _by(sizes: tuple[int, ...]) -> str:
    """Height and width for a message."""
    return f"{sizes[-2]} x {sizes[-1]}"
