"""What processors return, by their keys: a function of `forms/` for each form.

Source: transformers, models/*/image_processing_*.py (`_preprocess`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from .forms import batches, clips, documents, pairs, patches, tiles
from .forms.job import Images, Job, Results

_FORMS: Final[Mapping[str, Callable[[Job, Images], Results]]] = {
    "images": batches.windowed,
    "surrounded": batches.surrounded,
    "mirrored": batches.mirrored,
    "cropped_first": batches.cropped_first,
    "masked": batches.masked,
    "masks_first": batches.masks_first,
    "task": batches.with_task,
    "splits": batches.splits,
    "frames": batches.frames,
    "pairs": pairs.pairs,
    "documents": documents.documents,
    "originals": batches.with_originals,
    "detection": batches.detection,
    "segmentation": batches.segmentation,
    "sizes": batches.with_sizes,
    "original_sizes": batches.with_sizes,
    "patches": patches.patches,
    "clips": clips.clips,
    "packed_patches": patches.packed_patches,
    "tiles": tiles.tiles,
    "grid": tiles.grid,
    "crops": tiles.crops,
    "nested": tiles.nested,
}


def results(job: Job, images: Images) -> Results:
    """The results of a call by their keys."""
    return _FORMS[job.declared.kind.form](job, images)
