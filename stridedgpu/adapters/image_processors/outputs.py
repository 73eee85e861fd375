"""What processors return, by their keys: a function of `forms/` for each form.

Source: transformers, models/*/image_processing_*.py and video_processing_*.py (`_preprocess`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .forms import batches, clips, documents, pairs, patches, sampled, slices, squares, tiles
from .forms.job import Images, Job, Results
from .videos import Clip

_FORMS: Final[Mapping[str, Callable[[Job, Any], Results]]] = {
    "images": batches.windowed,
    "older_key": batches.under_an_older_key,
    "text_sizes": batches.with_text_sizes,
    "text_lines": batches.text_lines,
    "surrounded": batches.surrounded,
    "mirrored": batches.mirrored,
    "cropped_first": batches.cropped_first,
    "masked": batches.masked,
    "masks_first": batches.masks_first,
    "task": batches.with_task,
    "strips": batches.strips,
    "frames": batches.frames,
    "pairs": pairs.pairs,
    "documents": documents.documents,
    "originals": batches.with_originals,
    "detection": batches.detection,
    "segmentation": batches.segmentation,
    "squared": squares.squared,
    "resized_in_squares": squares.resized_in_squares,
    "two_squares": squares.two_squares,
    "sizes": batches.with_sizes,
    "original_sizes": batches.with_sizes,
    "patches": patches.patches,
    "patches_and_merges": patches.patches_and_merges,
    "grid_patches": patches.grid_patches,
    "float_patches": patches.float_patches,
    "surrounded_patches": squares.surrounded_patches,
    "packed_patches": patches.packed_patches,
    "positioned_patches": patches.positioned_patches,
    "screens": squares.screens,
    "slices_side_by_side": slices.slices_side_by_side,
    "tiles_of_patches": slices.tiles_of_patches,
    "tiles": tiles.tiles,
    "tiles_or_squares": tiles.tiles_or_squares,
    "grid": tiles.grid,
    "whole_and_grid": tiles.whole_and_grid,
    "splits": tiles.splits,
    "mosaics": tiles.mosaics,
    "canvases": tiles.canvases,
    "pages": tiles.pages,
    "corners": tiles.corners,
    "thumbs": tiles.thumbs,
    "views": tiles.views,
    "views_and_grids": tiles.views_and_grids,
    "slides": tiles.slides,
    "tiles_and_samples": sampled.tiles_and_samples,
    "crops": tiles.crops,
    "nested": tiles.nested,
    "clips": clips.clips,
    "paired_clips": clips.paired,
    "chunked_clips": clips.chunked,
    "segmented_clips": clips.segmented,
    "compressed_clips": clips.compressed,
    "positioned_clips": clips.positioned,
    "sliced_clips": clips.sliced,
    "squares": clips.squares,
    "tubelets": clips.tubelets,
    "videos": clips.windowed,
    "padded_videos": clips.padded,
    "videos_with_sizes": clips.with_sizes,
}


def results(job: Job, images: Images | list[Clip]) -> Results:
    """The results of a call by their keys, for its images or its videos."""
    return _FORMS[job.declared.kind.form](job, images)
