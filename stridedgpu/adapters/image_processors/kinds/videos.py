"""Video processors: windows of frames, and patches of stacks of frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stridedgpu.adapters.image_processors import sampling, windows

from .kind import BICUBIC, BILINEAR, CLIP, HALF, IMAGENET, LANCZOS, Kind, kind, shortest, square

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
    """A kind that gives the patches of stacks of frames, by `size` or the least and most pixels."""
    size = {"shortest_edge": least, "longest_edge": most}
    return kind(
        figures,
        resizes=resizes,
        crops=False,
        pads=False,
        backends=("torchvision",),
        **{
            "size": size,
            "form": "clips",
            "default_to_square": True,
            "do_convert_rgb": True,
            "temporal_patch_size": 2,
            "merge_size": 2,
            **_SAMPLING,
            **options,
        },
    )


def _of_glm(rule: sampling.Sampling, most: int = 28 * 28 * 2 * 30000, **options: Any) -> Kind:
    """A kind of GLM's, by its sampling and the most pixels of all frames."""
    return _of_stacks(
        CLIP,
        **{
            "least": 112 * 112,
            "most": most,
            "resizes": windows.volume,
            "sampling": rule,
            "patch_size": 14,
            "do_sample_frames": True,
            "num_frames": 16,
            "fps": 2,
            **options,
        },
    )


_QWEN3_VL: Final = _of_stacks(
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
)


def _of_gemma(axes: str = "HW yxc", **options: Any) -> Kind:
    """A kind of Gemma's, by the axes of its patches."""
    return kind(
        {"image_mean": (0.0, 0.0, 0.0), "image_std": (1.0, 1.0, 1.0)},
        None,
        resizes=windows.soft_tokens,
        form="positioned_clips",
        axes=axes,
        crops=False,
        pads=False,
        backends=("torchvision",),
        **{
            "do_convert_rgb": True,
            "patch_size": 16,
            "max_soft_tokens": 70,
            "pooling_kernel_size": 3,
            "sampling": sampling.uniformly,
            **_SAMPLING,
            "do_sample_frames": True,
            **options,
        },
    )


def _of_slices(mode: str) -> Kind:
    """A kind of MiniCPM's, by how far its model merges patches."""
    return kind(
        HALF,
        None,
        resizes=windows.whole_of_slices,
        form="sliced_clips",
        sampling=sampling.by_tenths,
        crops=False,
        pads=False,
        floats=("torchvision",),
        backends=("torchvision",),
        counts={"max_num_frames": (1, 1 << 20), "stack_frames": (1, 1 << 10)},
        do_convert_rgb=True,
        max_slice_nums=9,
        scale_resolution=448,
        patch_size=14,
        slice_mode=True,
        downsample_mode=mode,
        use_image_id=True,
        max_num_frames=128,
        stack_frames=1,
        **{**_SAMPLING, "do_sample_frames": True},
    )


KINDS: Final[Mapping[str, Kind]] = {
    "LlavaNextVideoVideoProcessor": _cropped(CLIP),
    "VideoLlavaVideoProcessor": _cropped(CLIP),
    "TimesformerVideoProcessor": _cropped(IMAGENET, resample=BILINEAR, key="pixel_values", is_last=True),
    "VideoMAEVideoProcessor": _cropped(HALF, resample=BILINEAR, key="pixel_values", is_last=True),
    "VivitVideoProcessor": _cropped(
        HALF,
        size=shortest(256),
        resample=BILINEAR,
        rescale_factor=1 / 127.5,
        key="pixel_values",
        is_last=True,
        offsets=True,
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
    "SmolVLMVideoProcessor": _of_windows(
        HALF,
        {"longest_edge": 4 * 364},
        resizes=windows.even_frames,
        form="squares",
        sampling=sampling.inside_of_the_ends,
        resample=LANCZOS,
        do_pad=True,
        max_image_size={"longest_edge": 364},
        own=("max_image_size",),
        crops=False,
        key="pixel_values",
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
    "Qwen3VLVideoProcessor": _QWEN3_VL,
    "CohereCompassVideoProcessor": _QWEN3_VL,
    "Ernie4_5_VLMoeVideoProcessor": _of_stacks(
        CLIP,
        299 * 28 * 28,
        1196 * 28 * 28,
        windows.pixels,
        form="paired_clips",
        axes="HWhw cyx",
        sampling=sampling.by_fractions,
        patch_size=14,
        counts={"temporal_patch_size": (2, 2)},
        converts=False,
        do_sample_frames=True,
        min_frames=16,
        max_frames=180,
        draw_on_frames=True,
        font="Roboto-Regular.ttf",
    ),
    "Cosmos3EdgeVideoProcessor": _of_stacks(
        HALF,
        64 * 64,
        24 * 1024 * 1024,
        windows.volume,
        axes="HWhw yxct",
        sampling=sampling.evenly,
        patch_size=16,
        temporal_patch_size=1,
        counts={"temporal_patch_size": (1, 1)},
        do_sample_frames=True,
        fps=2,
        min_frames=4,
        max_frames=768,
    ),
    "VideoLlama3VideoProcessor": _of_stacks(
        HALF,
        128 * 28 * 28,
        28 * 28 * 768,
        windows.pixels_of_frames,
        form="compressed_clips",
        sampling=sampling.in_whole_stacks,
        patch_size=14,
        temporal_patch_size=1,
        min_pixels=None,
        max_pixels=None,
        min_frames=4,
        max_frames=180,
        use_token_compression=True,
        return_metadata=True,
    ),
    "Glm4vVideoProcessor": _of_glm(sampling.by_seconds, max_duration=300),
    "Glm46VVideoProcessor": _of_glm(sampling.by_duration, max_duration=300),
    "GlmgaVideoProcessor": _of_glm(
        sampling.by_clock_to_the_end, 28 * 28 * 2 * 55790, max_duration=300, max_frames=640, patch_expand_factor=1
    ),
    "Glm5NextVideoProcessor": _of_glm(
        sampling.by_clock,
        size={"longest_edge": 1},
        resizes=windows.shown_tokens,
        canvas=windows.token_canvas,
        max_duration=0,
        max_frames=2048,
        patch_expand_factor=1,
        min_image_tokens=16,
        max_image_tokens=240000,
    ),
    "HYV4VLVideoProcessor": _of_stacks(
        HALF,
        4096,
        33554432,
        windows.separated_rows,
        axes="HhWw ctyx",
        sampling=sampling.evenly,
        patch_size=16,
        temporal_patch_size=1,
        fps=2,
        min_frames=2,
        max_frames=1024,
        max_image_size={"longest_edge": 1024 * 1024},
    ),
    "MiniMaxM3VLVideoProcessor": _of_stacks(
        CLIP,
        1,
        1,
        windows.stated_pixels,
        size=square(672),
        default_to_square=False,
        form="segmented_clips",
        sampling=sampling.uniformly,
        patch_size=14,
        min_pixels=4 * 28 * 28,
        max_pixels=768 * 28 * 28,
        fps=1.0,
        min_frames=4,
        max_frames=768,
        vision_segment_max_frames=4,
        counts={"vision_segment_max_frames": (1, 1 << 20)},
    ),
    "MuseGlimmerVideoProcessor": _of_stacks(
        HALF,
        1,
        1,
        windows.frame_tokens_near,
        size=None,
        resample=LANCZOS,
        axes="HW tcyx",
        sampling=sampling.by_single_steps,
        patch_size=14,
        max_video_frame_tokens=144,
        counts={"max_video_frame_tokens": (1, 1 << 20)},
        do_sample_frames=True,
        num_frames=96,
        fps=2.0,
    ),
    "Kimi_K25VideoProcessor": _of_stacks(
        HALF,
        1,
        1,
        windows.patches_of_a_side,
        size={"max_height": 512, "max_width": 512},
        canvas=windows.merged_canvas,
        axes="HW c y x",
        form="chunked_clips",
        sampling=sampling.uniformly,
        patch_size=14,
        temporal_patch_size=4,
        max_patches=4096,
        counts={"max_patches": (1, 1 << 20)},
        do_sample_frames=True,
        fps=2,
    ),
    "NemotronH_Omni_Reasoning_V3VideoProcessor": _of_windows(
        {},
        None,
        form="tubelets",
        resizes=windows.patches_near,
        resizes_floats=True,
        overrides={"torchvision": {"do_resize": True, "resample": BICUBIC}},
        do_resize=None,
        resample=None,
        do_rescale=None,
        do_normalize=None,
        do_convert_rgb=None,
        do_sample_frames=None,
        norm_mean=None,
        norm_std=None,
        patch_size=16,
        downsample_ratio=0.5,
        video_target_num_patches=1024,
        video_maintain_aspect_ratio=True,
        temporal_patch_size=2,
        own=(
            *("norm_mean", "norm_std", "patch_size", "downsample_ratio"),
            *("video_target_num_patches", "video_maintain_aspect_ratio"),
        ),
        crops=False,
        counts={"video_target_num_patches": (1, 1 << 20)},
    ),
    "PeVideoVideoProcessor": _of_windows(
        {},
        None,
        form="padded_videos",
        sampling=sampling.ends_included,
        resample=BILINEAR,
        do_resize=None,
        do_rescale=None,
        do_normalize=None,
        do_convert_rgb=None,
        do_sample_frames=None,
    ),
    "Gemma4VideoProcessor": _of_gemma(num_frames=32),
    "Gemma4UnifiedVideoProcessor": _of_gemma("HW hywxc", num_frames=32),
    "EmbeddingGemma2VideoProcessor": _of_gemma(
        sampling=sampling.within_budget, fps=1, max_frames=32, overflow_strategy="uniform", add_timestamps=False
    ),
    "MiniCPMV4_6VideoProcessor": _of_slices("16x"),
    "MiniCPMOcrVideoProcessor": _of_slices("4x"),
}
