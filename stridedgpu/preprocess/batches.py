"""Batches in parts: each thread decodes some samples and writes their windows into their slots of the batch.

On the CPU a window goes from the decoded image into the batch at once. For a GPU the threads cut, resize and mirror in
8 bits, into pinned memory, and the GPU converts and lays out. That sends a quarter of float32's bytes. The pixels are
the same, since a resized pixel is rounded to the image's type before it is converted. If the declaration leaves the
size or the channels of the result open, a batch is computed from its decoded images once the last of them is decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, Final

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import remote_device_named
from stridedgpu.operations.allocation import DEFAULT_ALIGNMENT
from stridedgpu.operations.relayout import assign_operand
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import LayoutError, StridedGpuError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import packed_strides

from .declaration import border_values
from .decoding import Decoder, opened_mask
from .ordered_pool import in_order
from .samples import Row, Source
from .step import Preprocess
from .worker import BatchResult, Call, Worker

__all__ = ["PART_SAMPLES", "BatchMaker"]

PART_SAMPLES: Final = 8
"""Samples that a thread decodes before it makes their windows in one call.

The smallest number that keeps the call's own cost (some 100 us) below a tenth of the time of eight images: each thread
keeps the decoded images of its part in memory. Measured on images of 500x375: 0.65 ms an image for one at a time,
0.41 for eight, 0.41 for 64 (resize 256, crop 224, float32, one thread of an AMD EPYC).
"""

_ENCODED_CHANNELS: Final = 3
_CHANNELS_LAST: Final = (0, 2, 3, 1)

Refuse = Callable[[int, object, StridedGpuError], None]
"""A function that takes the number and key of an unusable sample, and the problem."""


@dataclass(eq=False)
class _Batch:
    """The numbers of a batch's samples, the epoch of its chance, and its memory once a part needs it."""

    numbers: Sequence[int]
    epoch: int = 0
    memory: Operand | None = None
    lock: Lock = field(default_factory=Lock)


@dataclass(frozen=True)
class _Part:
    """Consecutive rows of a batch."""

    batch: _Batch
    first: int
    count: int

    @property
    def is_last(self) -> bool:
        """True for the part that completes its batch."""
        return self.first + self.count == len(self.batch.numbers)


@dataclass(frozen=True)
class _PartMade:
    """The usable rows of a part; and their pixels, if these are not in the part's slots already."""

    rows: list[Row]
    pixels: list[Any]


class BatchMaker:
    """Runs a step over a source, batch by batch; unusable samples go to `refuse`, by default to the worker's rule."""

    def __init__(self, step: Preprocess[Any], source: Source, decoder: Decoder, refuse: Refuse | None = None) -> None:
        self._step, self._source = step, source
        self._worker = self._near = step._worker
        self._refuse = refuse or self._worker.refuse
        self._far: Worker | None = None
        is_encoded = source.is_encoded
        if is_encoded and step.dims.replace("N", "") != "HWC":
            raise LayoutError(f"dims={step.dims!r}: decoded images have the axes HWC; declare dims='NHWC'.")
        decoded = 1 if step.mode == "gray" else _ENCODED_CHANNELS
        self._channels = decoded if is_encoded else step.channel_count
        self._has_slots = step.window is not None and self._channels is not None
        if self._worker.device != "cpu":
            self._has_slots = self._has_slots and is_encoded and not step.colours and step.clip is None
            if self._has_slots:
                self._near, self._far = _geometry_alone(step)._worker, _conversion_alone(step)._worker
        self._decoder = decoder if self._far is None else replace(decoder, deep=False)  # its windows have 8 bits

    def batches(
        self, numbers: Sequence[int], size: int, threads: int, ahead: int, epoch: int = 0
    ) -> Generator[tuple[int, StridedTensor, list[Row]]]:
        """The samples of an epoch in batches of so many, in order: their number, the images, and these images' rows.

        Up to `ahead` batches are begun before the caller requests them.
        """
        in_flight = threads + ahead * -(-size // PART_SAMPLES)
        made: list[tuple[_Part, _PartMade]] = []
        with closing(in_order(self._part, _parts(numbers, size, epoch), threads, in_flight)) as results:
            for part, result in results:
                made.append((part, result))
                if part.is_last:
                    images, rows = self._batch(part.batch, made)
                    made = []
                    yield len(part.batch.numbers), images, rows

    def _part(self, part: _Part) -> _PartMade:
        """Decode a part's samples, and write their windows into their slots. Called by several threads at once.

        An unusable sample is raised with its number, or left out and counted, as the step declares.
        """
        rows: list[Row] = []
        pixels: list[Any] = []
        for number in part.batch.numbers[part.first : part.first + part.count]:
            key: object = None
            try:
                sample = self._source[number]
                key = sample.row.key
                pixels.append(sample.pixels(self._decoder))
            except StridedGpuError as problem:
                self._refuse(number, key, problem)
            else:
                rows.append(sample.row)
        if not self._has_slots:
            return _PartMade(rows, pixels)
        slots, numbers, epoch = self._slots(part), _numbers(rows), part.batch.epoch
        slots = slots.with_layout(slots.layout.sliced(slice(len(pixels))))
        made = self._near.images(pixels, Call(_keys(rows), epoch, slots, numbers=numbers), stacked=True)
        return _PartMade(self._moved(self._near, made, rows), [])

    def _batch(self, batch: _Batch, made: Sequence[tuple[_Part, _PartMade]]) -> tuple[StridedTensor, list[Row]]:
        """A batch with all parts complete, and its rows."""
        rows = [row for _, part in made for row in part.rows]
        if not self._has_slots:
            pixels = [image for _, part in made for image in part.pixels]
            whole = self._worker.images(pixels, Call(_keys(rows), batch.epoch, numbers=_numbers(rows)), stacked=True)
            assert isinstance(whole.images, StridedTensor), "they are stacked"
            return whole.images, self._moved(self._worker, whole, rows)
        memory = self._memory(batch)
        if len(rows) < len(batch.numbers):
            memory = self._closed_up(memory, made, len(rows))
        near = StridedTensor.over(memory, "NCHW")
        if self._far is None:
            return near, rows
        far = self._far.batch(near.permute("NHWC"), Call()).images
        assert isinstance(far, StridedTensor), "it is one batch"
        return far, rows

    def _moved(self, worker: Worker, made: BatchResult, rows: Sequence[Row]) -> list[Row]:
        """The rows of a result, with the annotations among their columns moved as their images were."""
        kept = [rows[row] for row in made.rows]
        if not self._step.annotations:
            return kept
        names = self._source.form.beside
        columns = {row.number: dict(zip(names, row.columns, strict=True)) for row in kept}
        mask = self._step.mask
        for values in columns.values():
            if mask is not None:
                values[mask] = _mask(values[mask])
        numbered = replace(made, rows=list(columns))
        moved = worker.annotations(numbered, lambda name: {number: values[name] for number, values in columns.items()})
        for name, results in moved.items():
            arrays = results.numpy() if isinstance(results, StridedTensor) else results
            for values, result in zip(columns.values(), arrays, strict=True):
                values[name] = result
        return [replace(row, columns=tuple(columns[row.number].values())) for row in kept]

    def _slots(self, part: _Part) -> Operand:
        memory = self._memory(part.batch)
        return memory.with_layout(memory.layout.sliced(slice(part.first, part.first + part.count)))

    def _memory(self, batch: _Batch) -> Operand:
        """The memory of a batch: allocated once, by the part that comes first."""
        with batch.lock:
            if batch.memory is None:
                batch.memory = self._allocated(len(batch.numbers))
            return batch.memory

    def _allocated(self, count: int) -> Operand:
        window, channels = self._step.window, self._channels
        assert window is not None, "there are slots"
        assert channels is not None, "there are slots"
        if self._far is None:
            return self._worker.batch_of(count, channels, window)
        sizes = (count, channels, *window)
        layout = Layout(sizes, packed_strides(sizes, _CHANNELS_LAST))
        staging = remote_device_named(self._worker.device).allocate_staging(layout.element_count)
        return Operand(staging, layout, element_type("uint8"))

    def _closed_up(self, memory: Operand, made: Sequence[tuple[_Part, _PartMade]], count: int) -> Operand:
        """A batch without the slots of samples that were left out."""
        closed = self._allocated(count)
        place = 0
        for part, result in made:
            kept = len(result.rows)
            source = memory.with_layout(memory.layout.sliced(slice(part.first, part.first + kept)))
            assign_operand(source, closed.with_layout(closed.layout.sliced(slice(place, place + kept))))
            place += kept
        return closed


def _parts(numbers: Sequence[int], size: int, epoch: int) -> Iterator[_Part]:
    """The samples of an epoch as parts of consecutive batches."""
    for start in range(0, len(numbers), size):
        batch = _Batch(numbers[start : start + size], epoch)
        for first in range(0, len(batch.numbers), PART_SAMPLES):
            yield _Part(batch, first, min(PART_SAMPLES, len(batch.numbers) - first))


def _mask(value: Any) -> Any:
    """A mask, opened if it is a path or encoded bytes."""
    if isinstance(value, (str, Path)):
        return opened_mask(Path(value), str(value))
    return opened_mask(bytes(value), "the encoded mask") if isinstance(value, (bytes, bytearray)) else value


def _keys(rows: Sequence[Row]) -> list[object]:
    return [row.key for row in rows]


def _numbers(rows: Sequence[Row]) -> list[int]:
    return [row.number for row in rows]


def _geometry_alone(step: Preprocess[Any]) -> Preprocess[Any]:
    """The step's windows in 8 bits on the CPU."""
    has_border = step.pad is not None or step.letterbox is not None
    return replace(
        step,
        fill=border_values(step, element_type("uint8")) if has_border else None,  # maximum= may scale it
        layout="NHWC",
        dtype="uint8",
        normalize=None,
        maximum=None,
        arithmetic="multiply",
        mean=None,
        std=None,
        scale=None,
        bias=None,
        channels=None,
        matrix=None,
        row_pitch_bytes=None,
        alignment=DEFAULT_ALIGNMENT,
        device="cpu",
        output="tensor",
    )


def _conversion_alone(step: Preprocess[Any]) -> Preprocess[Any]:
    """The step's conversion and layout of whole batches, on its device."""
    return Preprocess(
        layout=step.layout,
        dtype=step.dtype,
        normalize=step.normalize,
        maximum=step.maximum,
        arithmetic=step.arithmetic,
        mean=step.mean,
        std=step.std,
        scale=step.scale,
        bias=step.bias,
        channels=step.channels,
        matrix=step.matrix,
        row_pitch_bytes=step.row_pitch_bytes,
        alignment=step.alignment,
        device=step.device,
        output="tensor",
    )
