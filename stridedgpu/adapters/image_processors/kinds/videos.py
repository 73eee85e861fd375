"""Video processors: windows of frames, and patches of stacks of frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stridedgpu.adapters.image_processors import sampling, windows

from .kind import BILINEAR, CLIP, HALF, IMAGENET, Kind, kind, of_patches, shortest, square

_SAMPLING: Final = {
    "do_sample_frames": False,
    "num_frames": None,
    "fps": None,
    "video_metadata": None,
    "return_metadata": False,
}
"""The options by which a video's frames are chosen."""


def _of_windows(figures: Mapping[str, Any], size: dict[str, int] | None, **options: Any) -> Kind:
    """A kind that gives a window of each frame."""
    return kind(
        figures,
        size,
        pads=False,
        backends=("torchvision",),
        **{"form": "videos", "do_convert_rgb": True, "sampling": sampling.uniformly, **_SAMPLING, **options},
    )


def _cropped(figures: Mapping[str, Any], **options: Any) -> Kind:
    """A kind that gives the middle of each frame, 224 pixels high and wide."""
    return _of_windows(figures, **{"size": shortest(224), "crop_size": square(224), "do_center_crop": True, **options})


def _of_stacks(figures: Mapping[str, Any], least: int, most: int, resizes: windows.SizeRule, **options: Any) -> Kind:
    """A kind that gives the patches of stacks of frames."""
    return of_patches(figures, least, most, resizes, "clips", **{**_SAMPLING, **options})


KINDS: Final[Mapping[str, Kind]] = {
    "LlavaNextVideoVideoProcessor": _cropped(CLIP),
    "VideoLlavaVideoProcessor": _cropped(CLIP),
    "TimesformerVideoProcessor": _cropped(IMAGENET, resample=BILINEAR, key="pixel_values"),
    "VideoMAEVideoProcessor": _cropped(HALF, resample=BILINEAR, key="pixel_values"),
    "VivitVideoProcessor": _cropped(
        HALF, size=shortest(256), resample=BILINEAR, rescale_factor=1 / 127.5, key="pixel_values", offsets=True
    ),
    "VJEPA2VideoProcessor": _cropped(
        IMAGENET,
        size=shortest(256 * 256 // 224),
        crop_size=square(256),
        default_to_square=True,
        resample=BILINEAR,
        do_convert_rgb=None,
        do_sample_frames=None,
    ),
    "LlavaOnevisionVideoProcessor": _of_windows(CLIP, square(384), default_to_square=False),
    "InternVLVideoProcessor": _of_windows(CLIP, square(384), sampling=sampling.from_the_middle, initial_shift=True),
    "InstructBlipVideoVideoProcessor": _of_windows(CLIP, square(384), key="pixel_values"),
    "PerceptionLMVideoProcessor": _of_windows(HALF, square(448), do_center_crop=False, do_sample_frames=None),
    "VideomtVideoProcessor": _of_windows(IMAGENET, square(640), resample=BILINEAR, do_center_crop=False),
    "Sam2VideoVideoProcessor": _of_windows(
        IMAGENET, square(1024), resample=BILINEAR, do_sample_frames=None, form="videos_with_sizes"
    ),
    "Qwen2VLVideoProcessor": _of_stacks(
        CLIP,
        128 * 28 * 28,
        28 * 28 * 768,
        windows.pixels,
        sampling=sampling.in_whole_stacks,
        patch_size=14,
        min_pixels=None,
        max_pixels=None,
        min_frames=4,
        max_frames=768,
        cap_pixels_per_frame=None,
        max_video_tokens=128000,
        own=("max_video_tokens",),
    ),
    "Qwen3VLVideoProcessor": _of_stacks(
        HALF,
        128 * 32 * 32,
        32 * 32 * 768,
        windows.volume,
        sampling=sampling.evenly,
        patch_size=16,
        do_sample_frames=True,
        fps=2,
        min_frames=4,
        max_frames=768,
        cap_pixels_per_frame=None,
        max_video_tokens=768,
        own=("max_video_tokens",),
    ),
}
