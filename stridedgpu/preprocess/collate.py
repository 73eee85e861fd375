"""Samples of a PyTorch data set as a batch, for `Preprocess.collate`. The first call imports PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.buffer import Buffer
from stridedgpu.values.errors import LayoutError

from .annotations import moved_annotations
from .declaration import Declaration
from .loaders import IndexedSample, in_torch_worker
from .worker import Worker

if TYPE_CHECKING:
    import torch

__all__ = ["collated"]


def collated(step: Declaration, worker: Worker, samples: Sequence[Any]) -> Any:
    """`Preprocess.collate`: column by column, the images by the worker, all others by PyTorch."""
    import torch
    from torch.utils.data import default_collate

    if not samples:
        raise LayoutError("There are no samples to collate.")
    keys: list[Any] | None = None
    if isinstance(samples[0], IndexedSample):
        keys = [sample.index for sample in samples]
        samples = [sample.sample for sample in samples]
    first = samples[0]
    bare = not isinstance(first, (Mapping, tuple, list))
    names: list[Any] = [] if bare else list(first if isinstance(first, Mapping) else range(len(first)))
    place = 0 if step.column is None else step.column
    for field, name in (("column", None if bare else place), ("key", step.key), *_annotated(step)):
        if name is not None and name not in names:
            raise LayoutError(
                f"{field}={name!r} is not in the samples, which have {', '.join(map(repr, names)) or 'no parts'}."
            )
    columns = {name: _column(samples, name) for name in names}
    keys = keys if step.key is None else columns[step.key]
    shared = _SharedMemory() if in_torch_worker() and worker.device == "cpu" else None
    made = worker.images(list(samples) if bare else columns[place], keys, stacked=True, memory=shared)
    assert isinstance(made.images, StridedTensor)
    images = torch.utils.dlpack.from_dlpack(made.images) if shared is None else shared.tensor(made.images)
    if bare:
        return images
    moved = moved_annotations(step, worker, made, columns.__getitem__)
    parts = {}
    for name, values in columns.items():
        if name == place:
            parts[name] = images
        elif name in moved:
            parts[name] = _tensors(moved[name])
        elif made.rows:
            parts[name] = default_collate([values[row] for row in made.rows])
        else:
            parts[name] = _without_rows(values[0], default_collate(values))
    return parts if isinstance(first, Mapping) else tuple(parts.values())


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
        """The batch that was written into this memory."""
        import torch

        assert self._storage is not None, "the batch was allocated here"
        operand, layout = images.operand, images.layout
        empty = torch.empty(0, dtype=getattr(torch, operand.element.name))
        return empty.set_(self._storage, layout.offset, layout.sizes, layout.strides)


def _annotated(step: Declaration) -> list[tuple[str, Any]]:
    """The fields that name columns which move with the images."""
    return [(field, getattr(step, field)) for field in ("mask", "boxes", "points")]


def _tensors(moved: Any) -> Any:
    """Masks as one tensor; boxes and points, of which images have different numbers, as a list of tensors."""
    import torch

    if isinstance(moved, StridedTensor):
        return torch.utils.dlpack.from_dlpack(moved)
    return [torch.from_numpy(values) for values in moved]


def _column(samples: Sequence[Any], name: Any) -> list[Any]:
    """One part of every sample. Raises `LayoutError` for a sample without it."""
    values = []
    for row, sample in enumerate(samples):
        try:
            values.append(sample[name])
        except (LookupError, TypeError):
            raise LayoutError(f"sample {row} of the batch has no {name!r}, which the first has.") from None
    return values


def _without_rows(value: Any, collated: Any) -> Any:
    """The empty batch of samples such as `value`, whose batch is `collated`: PyTorch does not collate zero samples."""
    if isinstance(value, Mapping):
        return {name: _without_rows(part, collated[name]) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [_without_rows(part, made) for part, made in zip(value, collated, strict=True)]
    return collated[:0]
