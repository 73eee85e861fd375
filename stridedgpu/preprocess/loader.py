"""`load`: samples decoded and preprocessed by threads into batches, in order, in bounded memory.

Batches are made in parts: each thread decodes some samples and writes their windows into their slots of the batch. On
the CPU a window goes from the decoded image into the batch at once. For a GPU the threads cut, resize and mirror in
8 bits, into pinned memory, and the GPU converts and lays out. That sends a quarter of float32's bytes. The pixels are
the same, since a resized pixel is rounded to the image's type before it is converted. If the declaration leaves the
size or the channels of the result open, a batch is computed from its decoded images once the last of them is decoded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numpy as np

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.cpu.thread_count import limit_this_thread, usable_cores
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import remote_device_named
from stridedgpu.operations.options import MemoryOptions, truth
from stridedgpu.operations.relayout import assign_operand
from stridedgpu.typing import DeviceLike
from stridedgpu.values.conversion import ConversionOptions
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import LayoutError, StridedGpuError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import integer, packed_strides

from .annotations import moved_annotations
from .declaration import Declaration, UserData, border_of, border_values
from .decoding import Decoder, opened_image
from .prefetch import prefetch
from .samples import Sample, Source, source_of
from .step import Preprocess
from .torch_loader import torch_tensors
from .windows import CHANNELS_LAST
from .worker import BatchResult, Call, Refuse, Worker

PART_SAMPLES: Final = 8
"""Samples that a thread decodes before it makes their windows in one call.

The smallest number that keeps the call's own cost (some 100 us) below a tenth of the time of eight images: each thread
keeps the decoded images of its part in memory. Measured on images of 500x375: 0.65 ms an image for one at a time,
0.41 for eight, 0.41 for 64 (resize 256, crop 224, float32, one thread of an AMD EPYC).
"""

_ENCODED_CHANNELS: Final = 3

_CONVERSION: Final = {*ConversionOptions._fields, *MemoryOptions._fields} & Declaration.__dataclass_fields__.keys()
"""The fields of a step that a GPU carries out after windows are cut."""

Item = TypeVar("Item")
Result = TypeVar("Result")

Progress = bool | Callable[[int, int], object]


def load(
    source: object,
    step: Preprocess[Any],
    *,
    batch: int = 64,
    threads: int | None = None,
    drop_last: bool = False,
    shuffle: bool = False,
    device: DeviceLike | None = None,
    decoder: str = "pillow",
    ahead: int = 2,
    progress: Progress = False,
) -> Loader:
    """Batches of a folder's images, of files or of a data set: decoded and preprocessed by threads of this process.

    Nothing is copied between processes: a thread decodes some samples and writes their windows into their slots of the
    batch. Batches come in order; up to `ahead` of them are begun before the caller requests them, which bounds the
    memory. The pixels are those of `step` called in a loop, whatever the number of threads and the size of the batches.

    - `source`: a folder, whose image files are read in order of names, subfolders included; or an object with a length
      and numbered samples, such as a list of files or a data set of torchvision. A sample is an image, or a dict or
      tuple with one in the step's `column` (a tuple's first part otherwise). The image is a path, encoded (bytes, a
      bytearray or a memoryview of JPEG, PNG, WebP and others), an image of Pillow, a frame, or an array with the step's
      axes. Files of 16 bits a sample keep them on the CPU, and are refused where a GPU gets 8-bit windows. Samples are
      fetched by several threads at once.
    - `step`: a `Preprocess`. Its chance depends on a column `key` if it names one, otherwise on the name of a folder's
      file, as for the command line, or on the sample's number in the source. The first pass over the loader is the
      step's epoch, and each complete pass leads to the next.
    - `batch`: samples in a batch; `drop_last` leaves out the last one if it has fewer.
    - `threads`: the number of decoding threads; by default one for each core that this process may use.
    - `shuffle`: another order in each epoch, which depends on the step's seed (0 if it has none) and the epoch.
    - `device`: in place of the step's. On a GPU batches are tensors, PyTorch's if the step has output="torch": the
      threads write 8-bit windows into pinned memory, and upload and conversion run on a stream of their own, ahead of
      the caller.
    - `decoder`: "pillow"; "simplejpeg" for JPEG by libjpeg-turbo, where installed; "pillow-draft" for JPEG decoded at
      1/2, 1/4 or 1/8 where that is no smaller than the step's `resize`. The pixels of the last differ.
    - `progress`: True for a bar of tqdm, or a function that is called with the samples done and their number.

    A batch has the form of its samples: images alone, a dict, or a tuple; the other columns become arrays if they are
    numbers, else lists. The step's `mask`, `boxes` and `points` move with their images: masks, which may be files too,
    become one array (N, H, W), boxes and points a list of arrays. A folder gives images alone, or with the step's
    `column` a dict with their "name" too. If the step has output="torch", all arrays are PyTorch's tensors over the
    same memory. Unusable samples are handled as `Preprocess(errors=)` says: raised with their number, or left out and
    counted; a batch without usable samples is not returned.

    Raises `LayoutError` for an argument that breaks a rule, and for a folder without images.

    >>> images = [np.full((6, 8, 3), number, np.uint8) for number in range(5)]
    >>> loader = load([(image, 10 * row) for row, image in enumerate(images)], Preprocess(crop=4), batch=2)
    >>> [(pixels.shape, labels.tolist()) for pixels, labels in loader]
    [((2, 3, 4, 4), [0, 10]), ((2, 3, 4, 4), [20, 30]), ((1, 3, 4, 4), [40])]
    """
    if not isinstance(step, Preprocess):
        raise LayoutError(f"step={step!r} must be a Preprocess.")
    if device is not None:
        output = "tensor" if device != "cpu" and step.output == "numpy" else step.output
        step = replace(step, device=device, output=output)
    count = usable_cores() if threads is None else integer("threads", threads, least=1)
    sizes = integer("batch", batch, least=1), integer("ahead", ahead, least=1)
    if not (isinstance(progress, bool) or callable(progress)):
        raise LayoutError(f"progress={progress!r} must be True, False, or a function of two numbers.")
    return Loader(source, step, Decoder.of(decoder, step, deep=True), *sizes, count, drop_last, shuffle, progress)


class Loader:
    """The batches of `load`: iterated once an epoch, and resumed from a position."""

    def __init__(
        self,
        source: object,
        step: Preprocess[Any],
        decoder: Decoder,
        batch: int,
        ahead: int,
        threads: int,
        drop_last: bool,
        shuffle: bool,
        progress: Progress,
    ) -> None:
        self._source, self._step, self._decoder = source_of(source, step), step, decoder
        self._batch, self._ahead, self._threads = batch, ahead, threads
        self._drop_last, self._shuffle = truth("drop_last", drop_last), truth("shuffle", shuffle)
        self._progress = progress
        self._maker: BatchMaker | None = None
        self._start = self._position = 0
        self._epoch = step.epoch

    def __len__(self) -> int:
        count = len(self._source)
        return count // self._batch if self._drop_last else -(-count // self._batch)

    @property
    def skipped(self) -> int:
        """The number of samples left out so far, with errors="skip"."""
        return self._step.skipped

    def set_epoch(self, epoch: int) -> None:
        """The number of the next epoch, on which shuffling and the step's chance depend."""
        self._epoch = integer("epoch", epoch, least=0)

    def state_dict(self) -> dict[str, int]:
        """The position in the epoch: its number, and the samples returned so far."""
        return {"epoch": self._epoch, "position": self._position}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Begin the next iteration at the position of `state_dict`. Raises `LayoutError` behind the last sample."""
        position, count = integer("position", state["position"], least=0), len(self._source)
        if position > count:
            raise LayoutError(f"position={position} is behind the last of {count} samples: the state is of others.")
        self.set_epoch(state["epoch"])
        self._start = self._position = position

    def __iter__(self) -> Iterator[Any]:
        """The batches of an epoch, or the remaining ones after `load_state_dict`."""
        if self._maker is None:
            self._maker = BatchMaker(self._step, self._source, self._decoder)
        start, self._start = self._start, 0
        batches = self._batches(self._maker, start)
        device = self._step._worker.device
        if device != "cpu":
            batches = cast("Generator[tuple[int, UserData]]", prefetch(batches, device=device, depth=self._ahead))
        return self._counted(batches, start)

    def _counted(self, batches: Generator[tuple[int, UserData]], start: int) -> Iterator[UserData]:
        with closing(batches), self._shown() as show:
            self._position = start
            for count, batch in batches:
                self._position += count
                show(self._position, len(self._source))
                if batch is not None:
                    yield torch_tensors(batch) if self._step.output == "torch" else batch
        self._position = 0
        self._epoch += 1

    def _batches(self, maker: BatchMaker, start: int) -> Generator[tuple[int, UserData]]:
        """Each batch, and the number of samples that it covers."""
        end = len(self) * self._batch if self._drop_last else len(self._source)
        numbers = self._order()[start:end]
        with closing(maker.batches(numbers, self._batch, self._threads, self._ahead, self._epoch)) as batches:
            for count, images, rows in batches:
                exported = images if self._step.output == "torch" else self._step._exported(images)
                yield count, self._source.form.batch(exported, rows) if rows else None

    def _order(self) -> Sequence[int]:
        """The samples' numbers in the order of this epoch."""
        count = len(self._source)
        if not self._shuffle:
            return range(count)
        # A bit generator's stream is the same in all versions of NumPy (NEP 19); `permutation` need not be.
        words = np.random.PCG64([(self._step.seed or 0) % 2**64, self._epoch]).random_raw(count)
        order: list[int] = np.argsort(words, kind="stable").tolist()
        return order

    @contextmanager
    def _shown(self) -> Iterator[Callable[[int, int], object]]:
        """The progress function, called with the samples done and their number."""
        if callable(self._progress):
            yield self._progress
        elif not self._progress:
            yield lambda _done, _total: None
        else:
            try:
                from tqdm import tqdm
            except ModuleNotFoundError:
                raise StridedGpuError(
                    "progress=True needs tqdm, which is not installed: pip install tqdm, or give a function."
                ) from None
            with tqdm(total=len(self._source), initial=self._position, unit="image") as bar:
                yield lambda done, _total: bar.update(done - bar.n)


@dataclass
class _Part:
    """Consecutive samples of a batch, later its usable rows, and their pixels unless the batch has their windows.

    `count` is the number of the batch's samples; `memory` has their slots, or is None without slots.
    """

    count: int
    memory: Operand | None
    first: int
    numbers: Sequence[int]
    epoch: int
    rows: list[Sample] = field(default_factory=list)
    pixels: list[UserData] = field(default_factory=list)


class BatchMaker:
    """Runs a step over a source, batch by batch; unusable samples go to `refuse`, by default to the worker's rule."""

    def __init__(self, step: Preprocess[Any], source: Source, decoder: Decoder, refuse: Refuse | None = None) -> None:
        self._step, self._source = step, source
        self._worker = self._near = step._worker
        self._refuse = refuse or self._worker.refuse
        self._far: Worker | None = None
        is_encoded = source.is_encoded
        if is_encoded and step.image_axes != "HWC":
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
    ) -> Generator[tuple[int, StridedTensor, list[Sample]]]:
        """The samples of an epoch in batches of so many, in order: their number, the images, and these images' rows.

        Up to `ahead` batches are begun before the caller requests them.
        """
        in_flight = threads + ahead * -(-size // PART_SAMPLES)
        parts: list[_Part] = []
        with closing(in_order(self._make, self._parts(numbers, size, epoch), threads, in_flight)) as results:
            for part in results:
                parts.append(part)
                if part.first + len(part.numbers) == part.count:
                    images, rows = self._batch(parts)
                    parts = []
                    yield part.count, images, rows

    def _make(self, part: _Part) -> _Part:
        """Decode a part's samples, and write their windows into their slots. Called by several threads at once.

        An unusable sample is raised with its number, or left out and counted, as the step declares.
        """
        for number in part.numbers:
            key: object = None
            try:
                sample = self._source[number]
                key = sample.key
                part.pixels.append(sample.pixels(self._decoder))
            except StridedGpuError as problem:
                self._refuse(number, key, problem)
            else:
                part.rows.append(replace(sample, image=None))
        if part.memory is not None:
            slots = _rows(part.memory, part.first, part.first + len(part.pixels))
            result = self._near.images(part.pixels, self._call(part.rows, part.epoch, slots), stacked=True)
            part.rows, part.pixels = self._moved(self._near, result, part.rows), []
        return part

    def _batch(self, parts: Sequence[_Part]) -> tuple[StridedTensor, list[Sample]]:
        """A batch with all parts complete, and its rows."""
        rows = [row for part in parts for row in part.rows]
        memory = parts[0].memory
        if memory is None:
            pixels = [image for part in parts for image in part.pixels]
            whole = self._worker.images(pixels, self._call(rows, parts[0].epoch), stacked=True)
            assert isinstance(whole.images, StridedTensor), "they are stacked"
            return whole.images, self._moved(self._worker, whole, rows)
        if len(rows) < parts[0].count:
            memory = self._closed_up(memory, parts, len(rows))
        near = StridedTensor.over(memory, "NCHW")
        if self._far is None:
            return near, rows
        far = self._far.batch(near.permute("NHWC"), Call()).images
        assert isinstance(far, StridedTensor), "it is one batch"
        return far, rows

    def _call(self, rows: Sequence[Sample], epoch: int, out: Operand | None = None) -> Call:
        return Call([row.key for row in rows], epoch, out, numbers=[row.number for row in rows], refuse=self._refuse)

    def _moved(self, worker: Worker, result: BatchResult, rows: Sequence[Sample]) -> list[Sample]:
        """The rows of a result, with the annotations among their columns moved as their images were."""
        kept = [rows[row] for row in result.rows]
        if not self._step.annotations:
            return kept
        columns = {row.number: dict(zip(self._source.form.beside, row.columns, strict=True)) for row in kept}

        def column_of(name: str | int) -> dict[int, UserData]:
            read = _mask if name == self._step.mask else lambda value: value
            return {number: read(values[name]) for number, values in columns.items()}

        moved = moved_annotations(self._step, worker, replace(result, rows=list(columns)), column_of)
        for name, results in moved.items():
            if isinstance(results, StridedTensor):
                arrays: Iterable[UserData] = results.numpy()
            else:
                arrays = [one.numpy() if isinstance(one, StridedTensor) else one for one in results]
            for values, array in zip(columns.values(), arrays, strict=True):
                values[name] = array
        return [replace(row, columns=tuple(columns[row.number].values())) for row in kept]

    def _parts(self, numbers: Sequence[int], size: int, epoch: int) -> Iterator[_Part]:
        """The samples of an epoch as parts of consecutive batches."""
        for start in range(0, len(numbers), size):
            count = min(size, len(numbers) - start)
            memory = self._allocated(count) if self._has_slots else None
            for first in range(0, count, PART_SAMPLES):
                end = min(first + PART_SAMPLES, count)
                yield _Part(count, memory, first, numbers[start + first : start + end], epoch)

    def _allocated(self, count: int) -> Operand:
        """Memory of a batch: the result's, or pinned memory of windows in 8 bits."""
        window, channels = self._step.window, self._channels
        assert window is not None, "there are slots"
        assert channels is not None, "there are slots"
        if self._far is None:
            return self._worker.batch_of(count, channels, window)
        sizes = (count, channels, *window)
        layout = Layout(sizes, packed_strides(sizes, CHANNELS_LAST))
        staging = remote_device_named(self._worker.device).allocate_staging(layout.element_count)
        return Operand(staging, layout, element_type("uint8"))

    def _closed_up(self, memory: Operand, parts: Sequence[_Part], count: int) -> Operand:
        """A batch without the slots of samples that were left out."""
        closed, place = self._allocated(count), 0
        for part in parts:
            kept = len(part.rows)
            assign_operand(_rows(memory, part.first, part.first + kept), _rows(closed, place, place + kept))
            place += kept
        return closed


def in_order(work: Callable[[Item], Result], items: Iterable[Item], threads: int, ahead: int) -> Generator[Result]:
    """`work` of each item, in the order of the items, by so many threads.

    At most `ahead` items are begun and not yet handed out. Items are taken from their iterable on the caller's thread.
    Each of the threads runs its calls of this library alone: together they occupy the cores. What `work` raises is
    raised in its item's place. Closing the iterator waits for the items that a thread is working on, and for no others.

    >>> list(in_order(lambda number: number * number, range(5), threads=2, ahead=3))
    [0, 1, 4, 9, 16]
    """
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(threads, "stridedgpu load", limit_this_thread, (1,))
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _rows(batch: Operand, first: int, end: int) -> Operand:
    return batch.with_layout(batch.layout.sliced(slice(first, end)))


def _mask(value: object) -> UserData:
    """A mask, opened if it is a path."""
    return opened_image(Path(value), str(value)) if isinstance(value, (str, Path)) else value


def _geometry_alone(step: Preprocess[Any]) -> Preprocess[Any]:
    """The step's windows in 8 bits on the CPU."""
    usual: dict[str, Any] = {one.name: one.default for one in fields(step) if one.name in _CONVERSION}
    fill: Any = border_of(step)  # or a number, which maximum= may scale
    if fill is None and step.surrounds:
        fill = border_values(step, element_type("uint8"))
    usual |= {"layout": "NHWC", "dtype": "uint8", "device": "cpu", "output": "tensor", "fill": fill}
    return replace(step, **usual)


def _conversion_alone(step: Preprocess[Any]) -> Preprocess[Any]:
    """The step's conversion and layout of whole batches, on its device."""
    values: dict[str, Any] = {name: getattr(step, name) for name in _CONVERSION}
    return Preprocess(**values, output="tensor")
