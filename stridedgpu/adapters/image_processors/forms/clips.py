"""Videos.

Source: transformers, models/*/video_processing_*.py (`_preprocess`).
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from stridedgpu.adapters.image_processors.sampling import sampled_frames
from stridedgpu.adapters.image_processors.windows import new_size, placed
from stridedgpu.devices.operand import Operand
from stridedgpu.preprocess.geometry import Placement
from stridedgpu.values.errors import LayoutError

from .job import Images, Job, Results, sizes_of
from .patches import stacks


def clips(job: Job, images: Images) -> Results:
    """Qwen2-VL's videos: their patches in one array. The last frame of a video is repeated to a whole stack."""
    # transformers takes this number from the processor, whatever a call says.
    values = {**job.values, "max_video_tokens": job.own["max_video_tokens"]}
    times = values["temporal_patch_size"]
    if values["do_sample_frames"]:
        rule = job.declared.kind.sampling
        assert rule is not None, "the class has the option"
        numbers = sampled_frames(rule, job.own, values, [len(clip) for clip in images])
        images = [[clip[place] for place in places] for clip, places in zip(images, numbers, strict=True)]
    frames: list[Operand] = []
    placements: list[Placement] = []
    lengths = []
    for number, clip in enumerate(images):
        clip_sizes = sorted(set(sizes_of(clip)))
        if len(clip_sizes) != 1:
            raise LayoutError(f"videos[{number}] has frames of the sizes {clip_sizes}; a video has frames of one size.")
        (size,) = clip_sizes
        whole = {**values, "frames": len(clip)}
        resized = new_size(job.declared.kind.resizes, whole, size) if values["do_resize"] else size
        stacked = [*clip, *clip[-1:] * (-len(clip) % times)]
        frames += stacked
        placements += [placed(size, resized, None, job.backend)] * len(stacked)
        lengths.append(len(stacked) // times)
    patches, grids = stacks(job, frames, placements, range(0, len(frames), times), are_stills=False)
    firsts = accumulate(lengths[:-1], initial=0)
    counted = [(length, *grids[first]) for length, first in zip(lengths, firsts, strict=True)]
    return {"pixel_values_videos": patches, "video_grid_thw": np.array(counted, np.int64)}
