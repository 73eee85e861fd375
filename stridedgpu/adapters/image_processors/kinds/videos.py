"""Video processors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stridedgpu.adapters.image_processors import windows
from stridedgpu.adapters.image_processors.sampling import evenly, in_whole_stacks

from .kind import CLIP, HALF, Kind, of_patches

_SAMPLING: Final = {"fps": None, "num_frames": None, "min_frames": 4, "max_frames": 768, "video_metadata": None}
"""The options by which a video's frames are chosen."""

KINDS: Final[Mapping[str, Kind]] = {
    "Qwen2VLVideoProcessor": of_patches(
        CLIP,
        128 * 28 * 28,
        28 * 28 * 768,
        windows.pixels,
        "clips",
        sampling=in_whole_stacks,
        patch_size=14,
        min_pixels=None,
        max_pixels=None,
        cap_pixels_per_frame=None,
        max_video_tokens=128000,
        do_sample_frames=False,
        **_SAMPLING,
    ),
    "Qwen3VLVideoProcessor": of_patches(
        HALF,
        128 * 32 * 32,
        32 * 32 * 768,
        windows.volume,
        "clips",
        sampling=evenly,
        patch_size=16,
        cap_pixels_per_frame=None,
        max_video_tokens=768,
        do_sample_frames=True,
        **{**_SAMPLING, "fps": 2},
    ),
}
