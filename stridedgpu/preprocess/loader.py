"""`load`: samples decoded and preprocessed by threads into batches, in order, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, cast

import numpy as np

from stridedgpu.devices.cpu.thread_count import usable_cores
from stridedgpu.typing import DeviceLike
from stridedgpu.values.errors import LayoutError, StridedGpuError
from stridedgpu.values.strides import integer

from .batches import BatchMaker
from .decoding import Decoder
from .prefetch import prefetch
from .samples import source_of
from .step import Preprocess

Progress = bool | Callable[[int, int], object]


def load(
    source: Any,
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
      tuple with one in the step's `column` (a tuple's first part otherwise). The image is a path, encoded bytes, an
      image of Pillow, or an array with the step's axes. Files of 16 bits a sample keep them on the CPU, and are refused
      where a GPU gets 8-bit windows. Samples are fetched by several threads at once.
    - `step`: a `Preprocess`. Its chance depends on a column `key` if it names one, otherwise on the name of a folder's
      file, as for the command line, or on the sample's number in the source. The first pass over the loader is the
      step's epoch, and each complete pass leads to the next.
    - `batch`: samples in a batch; `drop_last` leaves out the last one if it has fewer.
    - `threads`: the number of decoding threads; by default one for each core that this process may use.
    - `shuffle`: another order in each epoch, which depends on the step's seed (0 if it has none) and the epoch.
    - `device`: in place of the step's. On a GPU batches are tensors: the threads write 8-bit windows into pinned
      memory, and upload and conversion run on a stream of their own, ahead of the caller.
    - `decoder`: "pillow"; "simplejpeg" for JPEG by libjpeg-turbo, where installed; "pillow-draft" for JPEG decoded at
      1/2, 1/4 or 1/8 where that is no smaller than the step's `resize`. The pixels of the last differ.
    - `progress`: True for a bar of tqdm, or a function that is called with the samples done and their number.

    A batch has the form of its samples: images alone, a dict, or a tuple; the other columns become arrays if they are
    numbers, else lists. The step's `mask`, `boxes` and `points` move with their images: masks, which may be files too,
    become one array (N, H, W), boxes and points a list of arrays. A folder gives images alone, or with the step's
    `column` a dict with their "name" too.
    Unusable samples are handled as `Preprocess(errors=)` says: raised with their number, or left out and counted; a
    batch without usable samples is not returned.

    Raises `LayoutError` for an argument that breaks a rule, and `ImageError` for a folder without images.

    >>> images = [np.full((6, 8, 3), number, np.uint8) for number in range(5)]
    >>> loader = load([(image, 10 * row) for row, image in enumerate(images)], Preprocess(crop=4), batch=2)
    >>> [(pixels.shape, labels.tolist()) for pixels, labels in loader]
    [((2, 3, 4, 4), [0, 10]), ((2, 3, 4, 4), [20, 30]), ((1, 3, 4, 4), [40])]
    """
    if not isinstance(step, Preprocess):
        raise LayoutError(f"step={step!r} must be a Preprocess.")
    if device is not None:
        step = replace(step, device=device, output=step.output if device == "cpu" else "tensor")
    count = usable_cores() if threads is None else integer("threads", threads, least=1)
    sizes = integer("batch", batch, least=1), integer("ahead", ahead, least=1)
    if not (isinstance(progress, bool) or callable(progress)):
        raise LayoutError(f"progress={progress!r} must be True, False, or a function of two numbers.")
    return Loader(source, step, Decoder.of(decoder, step, deep=True), *sizes, count, drop_last, shuffle, progress)


class Loader:
    """The batches of `load`: iterated once an epoch, and resumed from a position."""

    def __init__(
        self,
        source: Any,
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
        self._drop_last, self._shuffle, self._progress = bool(drop_last), bool(shuffle), progress
        self._maker: BatchMaker | None = None
        self._start = self._position = 0
        self._epoch = step.epoch

    def __len__(self) -> int:
        """The number of batches of an epoch."""
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
            batches = cast("Generator[tuple[int, Any]]", prefetch(batches, device=device, depth=self._ahead))
        return self._counted(batches, start)

    def _counted(self, batches: Generator[tuple[int, Any]], start: int) -> Iterator[Any]:
        """The batches, with the position after each."""
        with closing(batches), self._shown() as show:
            self._position = start
            for count, batch in batches:
                self._position += count
                show(self._position, len(self._source))
                if batch is not None:
                    yield batch
        self._position = 0
        self._epoch += 1

    def _batches(self, maker: BatchMaker, start: int) -> Generator[tuple[int, Any]]:
        """Each batch, and the number of samples that it covers."""
        end = len(self) * self._batch if self._drop_last else len(self._source)
        numbers = self._order()[start:end]
        with closing(maker.batches(numbers, self._batch, self._threads, self._ahead, self._epoch)) as batches:
            for count, images, rows in batches:
                yield count, self._source.form.batch(self._step._exported(images), rows) if rows else None

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
