"""PyTorch's tensors and loaders: results as tensors, samples as a batch, data sets whose samples have their indices.

PyTorch is imported by the first batch of samples, and by the first result as its tensor, alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.thread_count import suggest_one_thread
from stridedgpu.values.errors import DeviceError, ElementTypeError, LayoutError

from .annotations import moved_annotations
from .declaration import Declaration, UserData
from .samples import Form
from .worker import Call, Worker

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class IndexedSample:
    """A sample with its index in the data set, for `Preprocess.collate`, whose key it is.

    It is not a tuple: another collate function would take a tuple's index for data, but rejects this type.
    """

    index: int
    sample: UserData


@dataclass(frozen=True, slots=True)
class IndexedDataset:
    """A data set of PyTorch's map style whose samples are `IndexedSample`s; see `Preprocess.dataset`."""

    source: UserData

    def __post_init__(self) -> None:
        """Raise `LayoutError` for a data set without indices."""
        if not (hasattr(self.source, "__getitem__") and hasattr(self.source, "__len__")):
            raise LayoutError(
                f"a {type(self.source).__name__} has no indices to hand on: dataset() takes a data set with a length; "
                "without one, name a column with key=, or let the pixels be the key."
            )

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> IndexedSample:
        return IndexedSample(index, self.source[index])

    def __getitems__(self, indices: Sequence[int]) -> list[IndexedSample]:
        """Several samples, by the source's own `__getitems__` if it has one: PyTorch's protocol."""
        several = getattr(self.source, "__getitems__", None)
        samples = [self.source[index] for index in indices] if several is None else several(list(indices))
        return [IndexedSample(index, sample) for index, sample in zip(indices, samples, strict=True)]


def _in_torch_worker() -> bool:
    """True in a worker process of PyTorch's DataLoader; PyTorch is not imported."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def share_cores() -> None:
    """Use one thread in a worker process of PyTorch's, unless a number was set: its siblings use the other cores."""
    if _in_torch_worker():
        suggest_one_thread()


def collated(step: Declaration, worker: Worker, samples: Sequence[UserData]) -> UserData:
    """`Preprocess.collate`: column by column, the images by the worker, all others by PyTorch."""
    import torch
    from torch.utils.data import default_collate

    if not samples:
        raise LayoutError("There are no samples to collate.")
    keys: list[UserData] | None = None
    if isinstance(samples[0], IndexedSample):
        keys = [sample.index for sample in samples]
        samples = [sample.sample for sample in samples]
    first = samples[0]
    form = Form.of(first, step)
    columns = {name: _column(samples, name) for name in form.names}
    keys = keys if step.key is None else columns[step.key]
    shared = _SharedMemory() if _in_torch_worker() and worker.device == "cpu" else None
    call = Call(keys, memory=shared)
    result = worker.images(list(samples) if form.kind is None else columns[form.place], call, stacked=True)
    assert isinstance(result.images, StridedTensor)
    images = torch.utils.dlpack.from_dlpack(result.images) if shared is None else shared.tensor(result.images)
    if form.kind is None:
        return images
    moved = moved_annotations(step, worker, result, columns.__getitem__)
    parts = {}
    for name, values in columns.items():
        if name == form.place:
            parts[name] = images
        elif name in moved:
            parts[name] = torch_tensors(moved[name], f"column {name!r}")
        elif result.rows:
            parts[name] = default_collate([values[row] for row in result.rows])
        else:
            parts[name] = _without_rows(values[0], default_collate(values))
    return parts if form.kind is dict else tuple(parts.values())


def imported_torch(argument: str, instead: str) -> Any:
    """PyTorch, for an argument that asks for its tensors. Raises `DeviceError` where it is not installed."""
    try:
        import torch
    except ModuleNotFoundError:
        raise DeviceError(
            f"{argument} needs PyTorch, which is not installed: pip install torch, or {instead}."
        ) from None
    return torch


def torch_of_output() -> Any:
    """PyTorch, for a step with output="torch"."""
    return imported_torch("output='torch'", "output='numpy'")


def check_torch_types(values: object, subject: str, kinds: str = "biufc") -> None:
    """Raise `ElementTypeError` for arrays, alone or in a list, whose type of these kinds PyTorch does not have."""
    if isinstance(values, (list, tuple)):
        for value in values:
            check_torch_types(value, subject, kinds)
    elif isinstance(values, np.ndarray) and values.dtype.kind in kinds:
        dtype = values.dtype
        if not dtype.isnative or dtype.char in "gG":
            raise ElementTypeError(
                f"{subject} holds {dtype}, which PyTorch does not have: take "
                f"astype(np.{_NEAREST.get(dtype.char, dtype.name)}), or declare output='numpy'."
            )


_NEAREST: Final = {"g": "float64", "G": "complex128"}
"""The types of PyTorch next to long doubles."""


def torch_tensors(part: object, subject: str = "the batch") -> UserData:
    """A batch, or a part of one, with its tensors and arrays of numbers as PyTorch's tensors over the same memory.

    Raises `ElementTypeError` for numbers that PyTorch does not have; `subject` is what holds them.
    """
    if isinstance(part, Mapping):
        return {name: torch_tensors(value, f"column {name!r}") for name, value in part.items()}
    if isinstance(part, (list, tuple)):
        return type(part)(torch_tensors(value, subject) for value in part)
    if isinstance(part, StridedTensor):
        return torch_of_output().from_dlpack(part)
    if isinstance(part, np.ndarray) and part.dtype.kind in "biufc":
        check_torch_types(part, subject)
        return torch_of_output().from_numpy(part)
    return part


class _SharedMemory:
    """Memory that PyTorch's processes share, for one batch: a tensor over it is sent to the loader without a copy.

    `default_collate` allocates its batches in the same way (torch/utils/data/_utils/collate.py).
    """

    def __init__(self) -> None:
        self._storage: torch.UntypedStorage | None = None

    def allocate(self, nbytes: int, alignment: int, stream: object = None) -> Buffer:  # noqa: ARG002
        """Uninitialised bytes; shared memory begins at a page."""
        import torch

        new_shared: Callable[[int], torch.UntypedStorage] = torch.UntypedStorage._new_shared
        storage = new_shared(max(nbytes, 1))
        self._storage = storage
        return Buffer(storage.data_ptr(), nbytes, owner=storage, alignment=alignment, owned=True)

    def tensor(self, images: StridedTensor) -> torch.Tensor:
        import torch

        assert self._storage is not None, "the batch was allocated here"
        layout = images.layout
        empty = torch.empty(0, dtype=getattr(torch, images.operand.element.name))
        return empty.set_(self._storage, layout.offset, layout.sizes, layout.strides)


def _column(samples: Sequence[UserData], name: UserData) -> list[UserData]:
    """One part of every sample. Raises `LayoutError` for a sample without it."""
    values = []
    for row, sample in enumerate(samples):
        try:
            values.append(sample[name])
        except (LookupError, TypeError):
            raise LayoutError(f"sample {row} of the batch has no {name!r}, which the first has.") from None
    return values


def _without_rows(value: UserData, batch: UserData) -> UserData:
    """The empty batch of samples such as `value`, whose batch is `batch`: PyTorch does not collate zero samples."""
    if isinstance(value, Mapping):
        return {name: _without_rows(part, batch[name]) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [_without_rows(part, whole) for part, whole in zip(value, batch, strict=True)]
    return batch[:0]
