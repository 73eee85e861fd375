"""Models of language that read images: one window of each image, or its patches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stridedgpu.adapters.image_processors import windows

from .kind import BILINEAR, CLIP, HALF, LANCZOS, Kind, kind, of_patches, shortest, square

KINDS: Final[Mapping[str, Kind]] = {
    "ChameleonImageProcessor": kind(
        {"image_mean": (1.0, 1.0, 1.0), "image_std": (1.0, 1.0, 1.0)},
        shortest(512),
        crop_size=square(512),
        do_center_crop=True,
        do_convert_rgb=True,
        resample=LANCZOS,
        rescale_factor=0.0078,
    ),
    "PixtralImageProcessor": kind(
        CLIP,
        {"longest_edge": 1024},
        do_convert_rgb=True,
        do_pad=True,
        patch_size=square(16),
        resizes=windows.tokens,
        form="sizes",
    ),
    "Qwen2VLImageProcessor": of_patches(
        CLIP, 56 * 56, 28 * 28 * 1280, windows.pixels, patch_size=14, min_pixels=None, max_pixels=None
    ),
    "Glm4vImageProcessor": of_patches(CLIP, 112 * 112, 28 * 28 * 15000, windows.volume, patch_size=14),
    "Siglip2ImageProcessor": kind(
        HALF,
        None,
        resample=BILINEAR,
        patch_size=16,
        max_num_patches=256,
        resizes=windows.patches,
        form="packed_patches",
        crops=False,
        pads=False,
    ),
}
