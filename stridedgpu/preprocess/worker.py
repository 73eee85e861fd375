"""The worker of `Preprocess`: the selected device, and the batches computed on it.

A row's result depends on that row, its key and the declaration, never on other rows or earlier calls.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import Lock
from typing import Any, Final

from numpy.typing import NDArray

from stridedgpu.api.frames import Frame
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.cpu.recycled_memory import RecycledMemory
from stridedgpu.devices.operand import AllocationSpec, Operand
from stridedgpu.devices.selection import chosen_device, device_named
from stridedgpu.exchange.array_like import operand_of, with_canonical_axes
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.operations.allocation import DEFAULT_ALIGNMENT, allocate_operand
from stridedgpu.operations.crops import CropSources
from stridedgpu.operations.options import MemoryOptions, ValueOptions
from stridedgpu.operations.relayout import assign_operand
from stridedgpu.operations.transfer import move_elements
from stridedgpu.planning.resize_arithmetic import arithmetic_of, interpolation_named
from stridedgpu.planning.resize_problem import ResizeRule
from stridedgpu.typing import TensorLike
from stridedgpu.values.axis_labels import labels_of, memory_axes
from stridedgpu.values.conversion import Conversion, normalisation
from stridedgpu.values.dtypes import ElementType, element_type
from stridedgpu.values.errors import ElementTypeError, LayoutError, StridedGpuError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import canonical_axes

from .declaration import Declaration
from .geometry import middle, resized_sizes, window_of
from .sample_keys import draw, pixel_key
from .windows import write_resized_windows, write_windows

__all__ = ["Made", "Worker"]

_log = logging.getLogger("stridedgpu")

_USUAL_CHANNELS: Final = 3
"""The channels of a batch without usable rows, if none are declared."""

Keys = Sequence[object] | None


@dataclass(frozen=True, slots=True)
class Made:
    """A result: one batch, or a list of images of different sizes; and the rows that it was computed from."""

    pictures: StridedTensor | list[StridedTensor]
    rows: list[int]


class Worker:
    """The state of one process for a declared step: created at the first batch, and never pickled."""

    def __init__(self, step: Declaration) -> None:
        self._step = step
        self.device = chosen_device(step.device)
        self._memory = RecycledMemory()
        self._element = element_type(step.dtype)
        self._batch_dims = canonical_axes(step.dims)
        self._moves_windows = step.moves_windows
        self._rule = ResizeRule(interpolation_named(step.chosen_interpolation))
        self._image_axes = step.dims.replace("N", "")
        self._conversion = lru_cache(maxsize=256)(self._checked_conversion)
        self._allocation = lru_cache(maxsize=256)(self._result_allocation)
        self._counting = Lock()
        self.skipped = 0

    def batch(self, given: TensorLike, keys: Keys) -> Made:
        """Images of one size in one array: one operand, whose rows are checked once."""
        step = self._step
        shape = getattr(given, "shape", None)
        if shape is not None:  # in the order of the given axes
            _check_rank(shape, step.dims)
        batch, _ = operand_of(given, step.dims)
        if shape is None:
            _check_rank(batch.layout.sizes, step.dims)
        count, *sizes = batch.layout.sizes
        _check_keys(keys, count)
        if not self._moves_windows:
            return Made(self._whole(batch, self._batch_dims, step.layout), list(range(count)))
        channels, height, width = sizes
        rows = self._alike_rows(count, keys, batch.element, (channels, height, width))
        window = step.window or (height, width)
        target = self.batch_of(len(rows), channels, window)
        if rows and step.resizes:
            sources = CropSources.of_batch(batch)
            chosen = [sources.layouts[row] for row in rows], [sources.places[row] for row in rows]
            sources = replace(sources, layouts=chosen[0], places=chosen[1])
            self._resized(sources, sources.images, rows, keys, self._conversion(batch.element, channels), target)
        elif rows:
            sources = CropSources.of_batch(batch)
            if step.seed is None:
                place = middle((height, width), window)
                origins, flips = [place] * count, [bool(step.flip)] * count
            else:
                origins, flips = self._drawn(sources.images, rows, keys, window)
            write_windows(sources, origins, flips, self._conversion(batch.element, channels), target)
        return Made(StridedTensor.over(target, "NCHW"), rows)

    def images(
        self,
        given: Sequence[TensorLike],
        keys: Keys,
        *,
        stacked: bool = False,
        out: Operand | None = None,
        numbers: Sequence[int] | None = None,
    ) -> Made:
        """Images as separate objects, of any sizes: one batch with a crop or `stacked`, which needs one size.

        The batch is written into the first rows of `out` if that is given: it has axes N, C, H, W, a row for each image
        and the step's type. `numbers` are the rows' numbers in messages, if these images are a part of a batch.
        """
        step = self._step
        _check_keys(keys, len(given))
        stacked = stacked or step.window is not None
        window, channel_count = step.window, step.channel_count
        if out is not None:
            channel_count = out.layout.sizes[1] if step.channels is None else channel_count
        found: dict[int, Operand] = {}

        def check(row: int) -> None:
            nonlocal window, channel_count
            image = self._image(given[row])
            sizes = image.layout.sizes
            self._check(image.element, sizes)
            size, count = (sizes[-2], sizes[-1]), sizes[0]
            if stacked and step.window is None and size != (window or size):
                raise LayoutError(f"it is {_by(size)} (height x width) and others {window}; crop= makes them alike.")
            if stacked and step.channels is None and count != (channel_count or count):
                raise LayoutError(f"it has {count} channels and others {channel_count}; channels= picks from each.")
            window, channel_count, found[row] = window or size, channel_count or count, image

        rows = self._good_rows(len(given), keys, check, numbers)
        images = [found[row] for row in rows]
        if stacked:
            size, channels = window or (0, 0), channel_count or _USUAL_CHANNELS
            whole = self.batch_of(len(images), channels, size) if out is None else out
            batch = whole.with_layout(whole.layout.sliced(slice(len(images))))
            self._crops(images, rows, keys, size, batch)
            return Made(StridedTensor.over(batch, "NCHW"), rows)
        return Made([self._alone(image, row, keys) for image, row in zip(images, rows, strict=True)], rows)

    def _image(self, given: TensorLike | Frame) -> Operand:
        """One image of a list, with its axes in canonical order. Raises `LayoutError` for anything else."""
        if isinstance(given, (list, tuple, str, bytes, dict, type(None), int, float)):
            raise LayoutError(
                f"it is a {type(given).__name__}, which has no element type; pictures are arrays, as "
                "with_format('numpy') makes them."
            )
        if isinstance(given, Frame):
            return given.relayout(layout="HWC").operand
        image, _ = operand_of(given)
        if image.layout.ndim != len(self._image_axes):
            raise LayoutError(f"it has sizes {image.layout.sizes}; a picture here has the axes {self._image_axes}.")
        return with_canonical_axes(image, self._image_axes)[0]

    def _check(self, element: ElementType, sizes: tuple[int, ...]) -> None:
        """Raise unless the step can process an image of this type and these sizes."""
        step = self._step
        self._conversion(element, sizes[0] if "C" in self._image_axes else None)
        if step.resizes:
            if 0 in sizes:
                raise LayoutError(f"it is {_by(sizes)} (height x width); there is nothing to resize.")
            arithmetic_of(self._rule.interpolation, element)
        if step.crop is not None and step.random_resized_crop is None:
            height, width = resized_sizes(step, (sizes[-2], sizes[-1]))
            if height < step.crop[0] or width < step.crop[1]:
                after = f", {height} x {width} when resized," if step.resize else ","
                raise LayoutError(f"it is {_by(sizes)} (height x width){after} smaller than crop={step.crop}.")

    def _alike_rows(self, count: int, keys: Keys, element: ElementType, sizes: tuple[int, ...]) -> list[int]:
        """The rows of a batch: all if its images are usable, otherwise none."""
        try:
            if count:
                self._check(element, sizes)
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

    def _crops(
        self, images: list[Operand], rows: list[int], keys: Keys, window: tuple[int, int], batch: Operand
    ) -> None:
        """One window of each image, in a batch; images of several types or channel counts are processed one by one."""
        resizes = self._step.resizes
        origins, flips = ([], []) if resizes else self._drawn(lambda: images, rows, keys, window)
        alike = len({(image.element, image.layout.sizes[0]) for image in images}) == 1
        groups = [slice(None)] if alike else [slice(row, row + 1) for row in range(len(images))]
        for group in groups:
            first = images[group][0]
            made = self._conversion(first.element, first.layout.sizes[0])
            target = batch if alike else batch.with_layout(batch.layout.sliced(group))
            sources = CropSources.of_images(images[group])
            if resizes:
                self._resized(sources, sources.images, rows[group], keys, made, target)
            else:
                write_windows(sources, origins[group], flips[group], made, target)

    def _resized(
        self,
        sources: CropSources,
        images: Callable[[], Sequence[Operand]],
        rows: Sequence[int],
        keys: Keys,
        made: Conversion,
        batch: Operand,
    ) -> None:
        """A resized box of each image, with borders if the step letterboxes; `images` makes the operands."""
        step = self._step
        if step.seed is None:
            windows = [window_of(step, layout, None, None) for layout in sources.layouts]
        else:
            chosen = [self._key(image, row, keys) for image, row in zip(images(), rows, strict=True)]
            windows = [
                window_of(step, layout, draw(step.seed, key), key)
                for layout, key in zip(sources.layouts, chosen, strict=True)
            ]
        write_resized_windows(sources, windows, self._rule, made, batch)

    def _key(self, image: Operand, row: int, keys: Keys) -> object:
        """The key of the random choices: a row's key, or its pixels."""
        return pixel_key(StridedTensor.over(image, "CHW"), self._image_axes) if keys is None else keys[row]

    def _alone(self, image: Operand, row: int, keys: Keys) -> StridedTensor:
        """One image at its own size."""
        if self._moves_windows:
            channels, height, width = image.layout.sizes
            batch = self.batch_of(1, channels, (height, width))
            self._crops([image], [row], keys, (height, width), batch)
            return StridedTensor.over(batch.with_layout(batch.layout.sliced(0)), "CHW")
        return self._whole(image, canonical_axes(self._image_axes), self._step.layout.replace("N", ""))

    def _whole(self, source: Operand, dims: str, layout: str) -> StridedTensor:
        """Every pixel of a batch or of an image."""
        step = self._step
        sizes, channel_axis = list(source.layout.sizes), dims.find("C")
        made = self._conversion(source.element, sizes[channel_axis] if channel_axis >= 0 else None)
        if step.channels is not None:
            sizes[channel_axis] = len(step.channels)
        target = self._empty(tuple(sizes), layout)
        move_elements(source, target, made, channel_axis if channel_axis >= 0 else None)
        return StridedTensor.over(target, dims)

    def batch_of(self, count: int, source_channels: int, window: tuple[int, int]) -> Operand:
        """Memory for `count` windows of images with so many channels."""
        channels = self._step.channels
        channel_count = source_channels if channels is None else len(channels)
        return self._empty((count, channel_count, *window), self._step.layout)

    def _empty(self, sizes: tuple[int, ...], layout: str) -> Operand:
        """Memory for a result: on the CPU recycled from a released result, elsewhere from the device's own pool."""
        spec = self._allocation(sizes, layout)
        return spec.allocate(self._memory if self.device == "cpu" else device_named(self.device))

    def _result_allocation(self, sizes: tuple[int, ...], layout: str) -> AllocationSpec:
        """What to allocate for a result."""
        memory = MemoryOptions(layout, self._step.row_pitch_bytes, self._step.alignment)
        return memory.allocation(sizes, labels_of(canonical_axes(layout), len(sizes)), self._element)

    def array(self, pictures: StridedTensor) -> NDArray[Any]:
        """A result as a NumPy array with its axes in the declared order, copied to the CPU if necessary."""
        made, order = pictures.operand, self._step.layout
        if len(made.layout.sizes) < len(order):
            order = order.replace("N", "")
        turned = Operand(made.buffer, _in_order(made.layout, pictures.dims or "", order), made.element)
        if turned.buffer.device == "cpu":
            return array_of_operand(turned)
        host = allocate_operand(
            Layout(turned.layout.sizes), turned.element, DEFAULT_ALIGNMENT, "cpu", memory=self._memory
        )
        assign_operand(turned, host)
        return array_of_operand(host)

    def _drawn(
        self, images: Callable[[], Sequence[Operand]], rows: list[int], keys: Keys, window: tuple[int, int]
    ) -> tuple[list[tuple[int, int]], list[bool]]:
        """The origin of each window and whether it is mirrored: random if there is a seed."""
        step = self._step
        origins: list[tuple[int, int]] = []
        flips: list[bool] = []
        for image, row in zip(images(), rows, strict=True):
            sizes = image.layout.sizes[-2], image.layout.sizes[-1]
            if step.seed is None:
                origins.append(middle(sizes, window))
                flips.append(bool(step.flip))
                continue
            drawn = draw(step.seed, self._key(image, row, keys))
            origins.append(drawn.origin(sizes, window))
            flips.append(drawn.flips(float(step.flip or 0)))
        return origins, flips

    def _checked_conversion(self, element: ElementType, source_channels: int | None) -> Conversion:
        """The conversion of images of a type. Raises if the step does not fit the type or the number of channels."""
        step = self._step
        scale, bias = step.scale, step.bias
        if step.mean is not None or step.std is not None:
            scale, bias = normalisation(element, step.mean, step.std)
            outputs = source_channels if step.channels is None else len(step.channels)
            if outputs is not None and len(scale) not in (1, outputs):
                raise LayoutError(f"mean and std are for {len(scale)} channels, and a picture here gives {outputs}.")
        options = ValueOptions(self._element, scale, bias, step.channels)
        return options.conversion(element, source_channels, self._element)


@lru_cache(maxsize=256)
def _in_order(layout: Layout, dims: str, order: str) -> Layout:
    """A layout with its labelled axes in another order."""
    return layout.permuted(memory_axes(order, labels_of(dims, layout.ndim)))


def _check_rank(sizes: Sequence[int], dims: str) -> None:
    """Raise `LayoutError` unless a batch has as many axes as `dims`."""
    if len(sizes) != len(dims):
        raise LayoutError(f"The batch has sizes {tuple(sizes)}; dims={dims!r} means {len(dims)} axes.")


def _check_keys(keys: Keys, count: int) -> None:
    """Raise `LayoutError` unless there is one key a row, or none at all."""
    if keys is not None and not (hasattr(keys, "__len__") and hasattr(keys, "__getitem__")):
        raise LayoutError(f"keys={keys!r} must be a sequence with a key for each row, such as list(keys).")
    if keys is not None and len(keys) != count:
        raise LayoutError(f"There are {len(keys)} keys for {count} rows; give one for each.")


def _by(sizes: tuple[int, ...]) -> str:
    """Height and width for a message."""
    return f"{sizes[-2]} x {sizes[-1]}"
