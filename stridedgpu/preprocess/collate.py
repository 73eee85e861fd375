"""Samples of a PyTorch data set as a batch, for `Preprocess.collate`. The first call imports PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.values.errors import LayoutError

from .declaration import Declaration
from .worker import Worker

__all__ = ["collated"]


def collated(step: Declaration, worker: Worker, samples: Sequence[Any]) -> Any:
    """`Preprocess.collate`: column by column, the images by the worker, all others by PyTorch."""
    import torch
    from torch.utils.data import default_collate

    if not samples:
        raise LayoutError("There are no samples to collate.")
    first = samples[0]
    bare = not isinstance(first, (Mapping, tuple, list))
    names: list[Any] = [] if bare else list(first if isinstance(first, Mapping) else range(len(first)))
    place = 0 if step.column is None else step.column
    if not bare and place not in names:
        raise LayoutError(f"column={step.column!r} is not in the samples, which have {', '.join(map(repr, names))}.")
    if step.key is not None and step.key not in names:
        raise LayoutError(
            f"key={step.key!r} is not in the samples, which have {', '.join(map(repr, names)) or 'no parts'}."
        )
    columns = {name: _column(samples, name) for name in names}
    keys = None if step.key is None else columns[step.key]
    made = worker.images(list(samples) if bare else columns[place], keys, stacked=True)
    assert isinstance(made.pictures, StridedTensor)
    pictures = torch.utils.dlpack.from_dlpack(made.pictures)
    if bare:
        return pictures
    parts = {}
    for name, values in columns.items():
        if name == place:
            parts[name] = pictures
        elif made.rows:
            parts[name] = default_collate([values[row] for row in made.rows])
        else:
            parts[name] = _without_rows(values[0], default_collate(values))
    return parts if isinstance(first, Mapping) else tuple(parts.values())


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
