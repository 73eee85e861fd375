"""Samples of a PyTorch data set as a batch, for `Preprocess.collate`. PyTorch is imported when it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .errors import LayoutError
from .preprocess_worker import Worker
from .tensor import StridedTensor

if TYPE_CHECKING:
    from .preprocess import Preprocess

__all__ = ["collated"]


def collated(step: Preprocess, worker: Worker, samples: Sequence[Any]) -> Any:
    """What `Preprocess.collate` does: column by column, the pictures by the worker, the rest by PyTorch."""
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
    keys = None if step.key is None else [sample[step.key] for sample in samples]
    made = worker.images(list(samples) if bare else [sample[place] for sample in samples], keys, stacked=True)
    assert isinstance(made.pictures, StridedTensor)
    pictures = torch.utils.dlpack.from_dlpack(made.pictures)
    if bare:
        return pictures
    kept = [samples[row] for row in made.rows]
    parts = [pictures if name == place else default_collate([sample[name] for sample in kept]) for name in names]
    return dict(zip(names, parts, strict=True)) if isinstance(first, Mapping) else tuple(parts)
