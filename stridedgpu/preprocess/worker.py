"""The worker's side of `Preprocess`: the device that it found, and batches made there.

What a row becomes depends on that row, its key and the declaration, never on the rows beside it or the calls before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any, Final

from numpy.typing import NDArray

from stridedgpu.api.creation import asarray
from stridedgpu.api.frames import Frame
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.cpu.recycled_memory import RecycledMemory
from stridedgpu.devices.selection import default_device, device_name
from stridedgpu.operations.allocation import DEFAULT_ALIGNMENT, allocate_operand
from stridedgpu.operations.channel_blocks import ordered_layouts
from stridedgpu.typing import TensorLike
from stridedgpu.values.axis_labels import labels_of
from stridedgpu.values.conversion import conversion, normalisation
from stridedgpu.values.dtypes import ElementType, element_type
from stridedgpu.values.errors import ElementTypeError, LayoutError, StridedGpuError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import canonical_axes

from .declaration import Declaration
from .sample_keys import draw, pixel_key
from .windows import write_windows

__all__ = ["Made", "Worker"]

_log = logging.getLogger("stridedgpu")

_USUAL_CHANNELS: Final = 3
"""Of a batch in which no row is left to tell, and for which none was declared."""

Keys = Sequence[object] | None

Place = tuple[tuple[int, int], bool]


@dataclass(frozen=True, slots=True)
class Made:
    """What came out: one batch, or a list of pictures of different sizes; and the rows that it was made of."""

    pictures: StridedTensor | list[StridedTensor]
    rows: list[int]


class Worker:
    """What one process holds for a declared step: made at the first batch, and never pickled."""

    def __init__(self, step: Declaration) -> None:
        self._step = step
        self._device = default_device() if step.device == "auto" else device_name(step.device)
        self._memory = RecycledMemory()
        self._image_axes = step.dims.replace("N", "")
        self._arithmetic = lru_cache(maxsize=256)(self._checked_arithmetic)
        self._counting = Lock()
        self.skipped = 0

    def batch(self, given: TensorLike, keys: Keys) -> Made:
        """Pictures of one size that lie in one array."""
        step = self._step
        tensor = asarray(given)
        if tensor.ndim != len(step.dims):
            raise LayoutError(f"The batch has sizes {tensor.sizes}; dims={step.dims!r} means {len(step.dims)} axes.")
        tensor = asarray(tensor, dims=step.dims)
        _check_keys(keys, len(tensor))
        if step.moves_windows:
            rows = self._good_rows(len(tensor), keys, lambda row: self._check(tensor[row]))
            images = [tensor[row] for row in rows]
            window = step.crop or (tensor.sizes[-2], tensor.sizes[-1])
            places = self._places(images, rows, keys, window)
            return Made(self._crops(images, places, window, tensor.sizes[1]), rows)
        return Made(self._whole(tensor, step.layout), list(range(len(tensor))))

    def images(self, given: Sequence[TensorLike], keys: Keys, *, stacked: bool = False) -> Made:
        """Pictures that lie apart, each of its own size: one batch with a crop or `stacked`, which wants them alike."""
        step = self._step
        _check_keys(keys, len(given))
        stacked = stacked or step.crop is not None
        window, channel_count = step.crop, step.channel_count
        found: dict[int, StridedTensor] = {}

        def check(row: int) -> None:
            nonlocal window, channel_count
            image = self._image(given[row])
            self._check(image)
            size, count = (image.sizes[-2], image.sizes[-1]), image.sizes[0]
            if stacked and step.crop is None and size != (window or size):
                raise LayoutError(f"it is {_by(size)} (height x width) and others {window}; crop= makes them alike.")
            if stacked and step.channels is None and count != (channel_count or count):
                raise LayoutError(f"it has {count} channels and others {channel_count}; channels= picks from each.")
            window, channel_count, found[row] = window or size, channel_count or count, image

        rows = self._good_rows(len(given), keys, check)
        images = [found[row] for row in rows]
        if stacked:
            size = window or (0, 0)
            places = self._places(images, rows, keys, size)
            return Made(self._crops(images, places, size, channel_count or _USUAL_CHANNELS), rows)
        return Made([self._alone(image, row, keys) for image, row in zip(images, rows, strict=True)], rows)

    def _image(self, given: TensorLike | Frame) -> StridedTensor:
        """One picture of a list, with its axes in canonical order. Raises `LayoutError` for what is none."""
        if isinstance(given, (list, tuple, str, bytes, dict, type(None), int, float)):
            raise LayoutError(
                f"it is a {type(given).__name__}, which has no element type; pictures are arrays, as "
                "with_format('numpy') makes them."
            )
        if isinstance(given, Frame):
            return given.relayout(layout="HWC")
        tensor = asarray(given)
        if tensor.ndim != len(self._image_axes):
            raise LayoutError(f"it has sizes {tensor.sizes}; a picture here has the axes {self._image_axes}.")
        return asarray(tensor, dims=self._image_axes)

    def _check(self, image: StridedTensor) -> None:
        """Raise unless the step can be done with this picture."""
        step = self._step
        self._arithmetic(image.element, image.sizes[0] if "C" in self._image_axes else None)
        if step.crop is not None and (image.sizes[-2] < step.crop[0] or image.sizes[-1] < step.crop[1]):
            raise LayoutError(f"it is {_by(image.sizes)} (height x width), smaller than crop={step.crop}.")

    def _good_rows(self, count: int, keys: Keys, check: Callable[[int], None]) -> list[int]:
        """The rows that `check` lets pass; a bad one is raised with its number, or counted and left out."""
        rows = []
        for row in range(count):
            try:
                check(row)
            except StridedGpuError as problem:
                column = "" if self._step.column is None else f" of column {self._step.column!r}"
                named = f"row {row}{column}" + ("" if keys is None else f" (key {keys[row]!r})")
                if self._step.errors == "raise":
                    kind = type(problem) if isinstance(problem, (LayoutError, ElementTypeError)) else LayoutError
                    raise kind(f"{named}: {problem}") from problem
                with self._counting:
                    self.skipped += 1
                _log.warning("skipped %s: %s", named, problem)
            else:
                rows.append(row)
        return rows

    def _crops(
        self, images: list[StridedTensor], places: list[Place], window: tuple[int, int], channel_count: int
    ) -> StridedTensor:
        """One window of each picture as a batch; pictures of several types or channel counts go one by one."""
        channels = self._step.channels
        batch = self._empty(
            (len(images), channel_count if channels is None else len(channels), *window), self._step.layout
        )
        alike = len({(image.element, image.sizes[0]) for image in images}) == 1
        groups = [slice(None)] if alike else [slice(row, row + 1) for row in range(len(images))]
        for group in groups:
            scale, bias = self._arithmetic(images[group][0].element, images[group][0].sizes[0])
            write_windows(
                images[group],
                [origin for origin, _ in places[group]],
                batch if alike else batch[group],
                flip=[mirrored for _, mirrored in places[group]],
                scale=scale,
                bias=bias,
                channels=channels,
            )
        return batch

    def _alone(self, image: StridedTensor, row: int, keys: Keys) -> StridedTensor:
        """One picture at its own size."""
        if self._step.moves_windows:
            size = (image.sizes[-2], image.sizes[-1])
            return self._crops([image], self._places([image], [row], keys, size), size, image.sizes[0])[0]
        return self._whole(image, self._step.layout.replace("N", ""))

    def _whole(self, tensor: StridedTensor, layout: str) -> StridedTensor:
        """Every pixel of a batch or of a picture."""
        step = self._step
        axes = dict(zip(tensor.dims or "", tensor.sizes, strict=True))
        scale, bias = self._arithmetic(tensor.element, axes.get("C"))
        if tensor.device == self._device:
            if step.channels is not None:
                axes["C"] = len(step.channels)
            out = self._empty(tuple(axes.values()), layout)
            return tensor.relayout(scale=scale, bias=bias, channels=step.channels, out=out)
        return tensor.relayout(
            layout=layout,
            dtype=step.dtype,
            scale=scale,
            bias=bias,
            channels=step.channels,
            row_pitch_bytes=step.row_pitch_bytes,
            alignment=step.alignment,
            device=self._device,
        )

    def _empty(self, sizes: tuple[int, ...], layout: str) -> StridedTensor:
        """Room for a result: on the CPU in the memory of one that is gone, elsewhere from the device's own pool."""
        step, element, dims = self._step, element_type(self._step.dtype), canonical_axes(layout)
        wanted, stored = ordered_layouts(
            sizes, layout, labels_of(dims, len(sizes)), element.itemsize, step.row_pitch_bytes
        )
        memory = self._memory if self._device == "cpu" else None
        return StridedTensor.over(
            allocate_operand(wanted, element, step.alignment, self._device, stored, memory=memory), dims
        )

    def array(self, pictures: StridedTensor, order: str) -> NDArray[Any]:
        """A result as a NumPy array with its axes in that order, downloaded where it is not on the CPU."""
        turned = pictures.permute(order)
        if turned.device == "cpu":
            return turned.numpy()
        host = allocate_operand(Layout(turned.sizes), turned.element, DEFAULT_ALIGNMENT, "cpu", memory=self._memory)
        tensor = StridedTensor.over(host)
        tensor[...] = turned
        return tensor.numpy()

    def _places(self, images: list[StridedTensor], rows: list[int], keys: Keys, window: tuple[int, int]) -> list[Place]:
        """Where each window begins and whether it is mirrored."""
        return [self._place(image, row, keys, window) for image, row in zip(images, rows, strict=True)]

    def _place(self, image: StridedTensor, row: int, keys: Keys, window: tuple[int, int]) -> Place:
        """Where in a picture its window begins, and whether it is mirrored: by chance where there is a seed."""
        step = self._step
        sizes = (image.sizes[-2], image.sizes[-1])
        if step.seed is None:
            # As torchvision's CenterCrop rounds.
            middle = (round((sizes[0] - window[0]) / 2), round((sizes[1] - window[1]) / 2))
            return middle, bool(step.flip)
        drawn = draw(step.seed, pixel_key(image, self._image_axes) if keys is None else keys[row])
        return drawn.origin(sizes, window), drawn.flips(float(step.flip or 0))

    def _checked_arithmetic(
        self, element: ElementType, source_channels: int | None
    ) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
        """Scale and bias for pictures of a type. Raises where the step does not fit it, or so many channels."""
        step = self._step
        scale, bias = step.scale, step.bias
        if step.mean is not None or step.std is not None:
            scale, bias = normalisation(element, step.mean, step.std)
            outputs = source_channels if step.channels is None else len(step.channels)
            if outputs is not None and len(scale) not in (1, outputs):
                raise LayoutError(f"mean and std are for {len(scale)} channels, and a picture here gives {outputs}.")
        target = element_type(step.dtype)
        conversion(element, target, scale=scale, bias=bias, channels=step.channels, source_channels=source_channels)
        return scale, bias


def _check_keys(keys: Keys, count: int) -> None:
    """Raise `LayoutError` unless there is a key for each row, or none at all."""
    if keys is not None and not (hasattr(keys, "__len__") and hasattr(keys, "__getitem__")):
        raise LayoutError(f"keys={keys!r} must be a sequence with a key for each row, such as list(keys).")
    if keys is not None and len(keys) != count:
        raise LayoutError(f"There are {len(keys)} keys for {count} rows; give one for each.")


def _by(sizes: tuple[int, ...]) -> str:
    """Height and width for a message."""
    return f"{sizes[-2]} x {sizes[-1]}"
