"""Wrappers for loaders: an iterable whose passes are epochs, and a data set whose samples have their indices."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stridedgpu.devices.cpu.thread_count import suggest_num_threads
from stridedgpu.values.errors import LayoutError

if TYPE_CHECKING:
    from .step import Preprocess

__all__ = ["Advancing", "IndexedDataset", "IndexedSample", "in_torch_worker", "indexed", "share_cores"]


@dataclass(frozen=True, slots=True)
class Advancing:
    """The batches of a loader, each pass in the next epoch of a step; see `Preprocess.advancing`."""

    step: Preprocess[Any]
    batches: Iterable[Any]

    def __iter__(self) -> Iterator[Any]:
        """A pass: the epoch begins here, before the loader tells its workers to go on."""
        self.step.begin_epoch()
        return iter(self.batches)

    def __len__(self) -> int:
        """The batches of a pass."""
        return len(self.batches)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class IndexedSample:
    """A sample with its index in the data set, for `Preprocess.collate`, whose key it is.

    It is not a tuple: another collate function would take a tuple's index for data, but rejects this type.
    """

    index: int
    sample: Any


@dataclass(frozen=True, slots=True)
class IndexedDataset:
    """A data set of PyTorch's map style whose samples are `IndexedSample`s; see `Preprocess.dataset`."""

    source: Any

    def __len__(self) -> int:
        """The samples of the source."""
        return len(self.source)

    def __getitem__(self, index: int) -> IndexedSample:
        """A sample of the source, with its index."""
        return IndexedSample(index, self.source[index])

    def __getitems__(self, indices: Sequence[int]) -> list[IndexedSample]:
        """Several samples, by the source's own `__getitems__` if it has one: PyTorch's protocol."""
        several = getattr(self.source, "__getitems__", None)
        samples = [self.source[index] for index in indices] if several is None else several(list(indices))
        return [IndexedSample(index, sample) for index, sample in zip(indices, samples, strict=True)]


def indexed(dataset: Any) -> IndexedDataset:
    """A data set whose samples have their indices. Raises `LayoutError` for one without indices."""
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise LayoutError(
            f"a {type(dataset).__name__} has no indices to hand on: dataset() takes a data set with a length; without "
            "one, name a column with key=, or let the pixels be the key."
        )
    return IndexedDataset(dataset)


def in_torch_worker() -> bool:
    """True in a worker process of PyTorch's DataLoader; PyTorch is not imported."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def share_cores() -> None:
    """Use one thread in a worker process of PyTorch's, unless a number was set: its siblings use the other cores."""
    if in_torch_worker():
        suggest_num_threads(1)
