"""Options beside the defaults with which tests compare each image processor: one table for each module of `kinds`."""

from __future__ import annotations

from typing import Any

__all__ = ["COUNTS", "LEAST", "NEEDED", "OPTIONS"]

ENCODERS: dict[str, list[dict[str, Any]]] = {
    "CLIPImageProcessor": [
        {"size": {"shortest_edge": 97}, "crop_size": {"height": 90, "width": 131}},
        {"do_resize": False, "crop_size": 150},
        {"do_center_crop": False, "size": {"shortest_edge": 60, "longest_edge": 100}},
        {"do_normalize": False, "size": {"max_height": 70, "max_width": 80}},
        {"do_rescale": False},
        {"do_rescale": False, "do_normalize": False},
        {"rescale_factor": 1 / 127.5, "image_mean": [1.0, 0.5, 0.25]},
        {"do_pad": True, "do_center_crop": False, "size": {"shortest_edge": 50}},
        {"do_pad": True, "pad_size": {"height": 240, "width": 250}},
        {"resample": 2},
    ],
    "SiglipImageProcessor": [{"size": {"height": 31, "width": 77}}, {"size": 64}, {"do_pad": True}],
    "ViTImageProcessor": [{"size": 33}, {"do_resize": False, "do_normalize": False}],
    "DINOv3ViTImageProcessor": [
        {"resample": 3, "size": {"height": 97, "width": 131}},
        {"do_resize": False},
        {"do_normalize": False, "size": {"shortest_edge": 60}},
        {"do_center_crop": True, "crop_size": {"height": 90, "width": 131}, "size": {"height": 100, "width": 120}},
        {"do_rescale": False, "do_normalize": False},
        {"rescale_factor": 1 / 127.5, "image_mean": [1.0, 0.5, 0.25]},
    ],
    "DeiTImageProcessor": [{"crop_size": {"height": 255, "width": 90}}],
    "ConvNextImageProcessor": [{"size": 224}, {"size": {"shortest_edge": 100}, "crop_pct": 0.8}],
    "PoolFormerImageProcessor": [{"crop_pct": 0.5}, {"size": {"height": 60, "width": 80}, "crop_size": 70}],
    "LevitImageProcessor": [{"size": {"height": 60, "width": 80}, "crop_size": 70}],
    "MobileViTImageProcessor": [{"do_flip_channel_order": False}, {"do_rescale": False}],
    "EfficientNetImageProcessor": [
        {"include_top": False},
        {"rescale_offset": True, "rescale_factor": 1 / 127.5},
        {"do_center_crop": True, "image_std": [0.47853944, 0.4732864, 0.47434163]},
    ],
    "BeitImageProcessor": [{"do_center_crop": True, "size": 256}],
    "MobileNetV2ImageProcessor": [
        {"size": {"height": 60, "width": 80}, "crop_size": {"height": 50, "width": 90}},
        {"do_center_crop": False, "do_normalize": False},
    ],
    "PPLCNetImageProcessor": [
        {"resize_short": 97, "size_divisor": 32, "crop_size": 90},
        {"do_center_crop": False, "resize_short": 60, "do_normalize": False},
    ],
    "PerceiverImageProcessor": [
        {"size": {"height": 30, "width": 50}, "crop_size": {"height": 31, "width": 77}},
        {"do_resize": False, "size": {"height": 30, "width": 50}, "crop_size": {"height": 31, "width": 77}},
        {"do_center_crop": False, "size": 90, "do_rescale": False},
    ],
    "PPChart2TableImageProcessor": [
        {"size": 60, "do_normalize": False},
        {"do_pad": True, "size": {"shortest_edge": 50}},
    ],
    "Tipsv2ImageProcessor": [{"size": 60}, {"do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.25] * 3}],
    "FlavaImageProcessor": [
        {"size": {"height": 60, "width": 80}, "crop_size": 70},
        {"do_center_crop": False, "resample": 2},
    ],
    "ViltImageProcessor": [
        {"size": {"shortest_edge": 97}, "size_divisor": 7},
        {"do_pad": False, "size": {"shortest_edge": 80}, "do_normalize": False},
    ],
    "BridgeTowerImageProcessor": [
        {"size": {"shortest_edge": 97}, "size_divisor": 5, "crop_size": {"shortest_edge": 90}},
        {"do_center_crop": False, "size": {"shortest_edge": 80}},
        {"do_pad": False},
    ],
    "LayoutLMv2ImageProcessor": [{"size": {"height": 60, "width": 80}, "resample": 3}, {"do_resize": False}],
    "LayoutLMv3ImageProcessor": [{"size": {"height": 60, "width": 80}}, {"do_normalize": False, "resample": 3}],
    "ImageGPTImageProcessor": [{"size": 32}, {"do_normalize": False}],
    "DonutImageProcessor": [
        {"size": {"height": 128, "width": 96}},
        {"size": {"height": 96, "width": 128}, "do_align_long_axis": True, "do_pad": False},
        {"size": {"height": 300, "width": 200}, "do_resize": False},
        {"size": {"height": 60, "width": 80}, "do_thumbnail": False, "do_pad": False},
    ],
    "NougatImageProcessor": [
        {"size": {"height": 128, "width": 96}},
        {"size": {"height": 300, "width": 200}, "do_crop_margin": False, "resample": 3},
    ],
    "VideoMAEImageProcessor": [
        {"size": {"shortest_edge": 97}, "crop_size": 90},
        {"do_center_crop": False, "size": {"height": 60, "width": 80}, "do_rescale": False},
        {"do_center_crop": False, "size": {"shortest_edge": 60}},
    ],
    "TvpImageProcessor": [
        {"size": {"longest_edge": 97}, "do_center_crop": False, "pad_size": {"height": 100, "width": 120}},
        {"size": {"height": 60, "width": 80}, "do_pad": False, "do_flip_channel_order": False, "crop_size": 70},
        {"do_pad": False, "do_center_crop": False, "size": {"longest_edge": 80}},
    ],
}

DETECTORS: dict[str, list[dict[str, Any]]] = {
    "SegformerImageProcessor": [{"size": {"height": 40, "width": 50}, "do_normalize": False}],
    "DPTImageProcessor": [
        {"ensure_multiple_of": 32, "keep_aspect_ratio": True},
        {"ensure_multiple_of": 14, "size": {"height": 70, "width": 140}, "do_pad": True, "size_divisor": 14},
        {"size": {"height": 65, "width": 90}, "do_pad": True, "size_divisor": 14},
    ],
    "PromptDepthAnythingImageProcessor": [
        {"ensure_multiple_of": 14, "keep_aspect_ratio": True, "size": {"height": 70, "width": 140}},
        {"size": {"height": 65, "width": 91}, "do_pad": True, "size_divisor": 14},
    ],
    "CHMv2ImageProcessor": [
        {"do_resize": True, "size": 100},
        {"do_resize": True, "size": {"height": 65, "width": 91}, "keep_aspect_ratio": False, "ensure_multiple_of": 5},
        {"do_pad": False, "do_center_crop": True, "crop_size": 90},
    ],
    "GLPNImageProcessor": [
        {"size_divisor": 7},
        {"do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.25] * 3},
    ],
    "TextNetImageProcessor": [
        {"size": {"shortest_edge": 97}, "size_divisor": 7},
        {"do_center_crop": True, "size": {"shortest_edge": 200}},
    ],
    "SuperPointImageProcessor": [{"size": {"height": 60, "width": 80}}, {"size": 70, "do_rescale": False}],
    "SuperGlueImageProcessor": [
        {"size": {"height": 60, "width": 80}, "rescale_factor": 0.01},
        {"do_grayscale": False, "size": {"height": 60, "width": 80}},
    ],
    "LightGlueImageProcessor": [{"size": {"height": 60, "width": 80}}],
    "SegGptImageProcessor": [{"size": {"height": 60, "width": 80}}, {"do_rescale": False, "size": 70}],
    "Sapiens2ImageProcessor": [{"size": {"height": 60, "width": 80}}, {"do_center_crop": True, "size": 100}],
    "Swin2SRImageProcessor": [{"size_divisor": 32}, {"do_pad": False}, {"do_rescale": False}],
    "YolosImageProcessor": [
        {"size": {"shortest_edge": 80, "longest_edge": 133}},
        {"size": {"height": 60, "width": 70}, "do_pad": False},
        {"size": {"max_height": 60, "max_width": 50}, "pad_size": {"height": 60, "width": 90}},
    ],
    "OneFormerImageProcessor": [
        {"size": {"shortest_edge": 80, "longest_edge": 133}},
        {"size": {"height": 60, "width": 70}, "do_normalize": False},
    ],
    "EomtImageProcessor": [
        {"size": {"shortest_edge": 80, "longest_edge": 133}, "do_pad": True},
        {"size": {"shortest_edge": 80, "longest_edge": 300}, "do_split_image": True},
        {"size": {"shortest_edge": 80}, "do_split_image": True, "do_pad": True},
        {"size": {"height": 60, "width": 70}, "do_rescale": False},
    ],
    "Sam2ImageProcessor": [
        {"size": {"height": 60, "width": 70}},
        {"do_pad": True, "size": {"shortest_edge": 50}, "do_normalize": False},
        {"do_center_crop": True, "crop_size": 90, "size": 80},
    ],
    "Sam3ImageProcessor": [{"size": 70, "resample": 3}],
    "DetrImageProcessor": [
        {"size": {"shortest_edge": 80, "longest_edge": 133}},
        {"pad_size": {"height": 1400, "width": 1350}},
        {"size": {"height": 60, "width": 70}, "do_pad": False},
        {"size": {"max_height": 60, "max_width": 50}, "do_rescale": False, "do_normalize": False},
    ],
    "RTDetrImageProcessor": [
        {"do_pad": True, "size": {"shortest_edge": 60, "longest_edge": 90}},
        {"do_normalize": True},
    ],
    "Mask2FormerImageProcessor": [
        {"size": {"shortest_edge": 70, "longest_edge": 130}, "size_divisor": 0},
        {"size": {"height": 64, "width": 100}, "pad_size": {"height": 160, "width": 128}},
    ],
    "SamImageProcessor": [{"size": {"longest_edge": 77}, "pad_size": {"height": 80, "width": 90}}, {"do_pad": False}],
}

LANGUAGE_MODELS: dict[str, list[dict[str, Any]]] = {
    "PixtralImageProcessor": [
        {"size": {"longest_edge": 100}, "patch_size": {"height": 14, "width": 20}},
        {"size": {"height": 90, "width": 300}, "do_pad": False},
    ],
    "Qwen2VLImageProcessor": [
        {"size": {"shortest_edge": 28 * 28 * 4, "longest_edge": 28 * 28 * 30}},
        {"patch_size": 16, "merge_size": 1, "temporal_patch_size": 1},
        {"min_pixels": 400_000, "max_pixels": 500_000},
        {"do_normalize": False},
        {"do_normalize": False, "do_rescale": False},
        {"rescale_factor": 0.0078, "image_mean": [0.1, 0.2, 0.3]},
    ],
    "Siglip2ImageProcessor": [
        {"rescale_factor": 0.0078, "max_num_patches": 300},
        {"max_num_patches": 64},
        {"patch_size": 14, "max_num_patches": 729, "do_normalize": False},
    ],
    "Glm4vImageProcessor": [
        {"size": {"shortest_edge": 28 * 28 * 400, "longest_edge": 28 * 28 * 500}},
        {"size": {"shortest_edge": 28 * 28 * 4, "longest_edge": 28 * 28 * 60}, "temporal_patch_size": 3},
        {"patch_size": 32},
    ],
    "ChameleonImageProcessor": [{"resample": 3, "size": {"shortest_edge": 100}, "crop_size": 128}],
}

TILES: dict[str, list[dict[str, Any]]] = {
    "GotOcr2ImageProcessor": [
        {"crop_to_patches": True, "size": {"height": 60, "width": 80}},
        {"crop_to_patches": True, "size": 90, "min_patches": 3, "max_patches": 6},
        {"do_resize": False},
    ],
    "LlavaNextImageProcessor": [
        {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}},
        {"size": {"height": 60, "width": 60}, "crop_size": 60, "image_grid_pinpoints": [[60, 120], [150, 60]]},
        {"do_pad": False},
        {"do_resize": False, "do_center_crop": True, "crop_size": 100, "size": 100},
    ],
    "Idefics2ImageProcessor": [
        {"do_image_splitting": True, "size": {"shortest_edge": 50, "longest_edge": 90}},
        {"size": {"height": 40, "width": 44}, "do_pad": False},
    ],
    "Gemma3ImageProcessor": [
        {
            "do_pan_and_scan": True,
            "pan_and_scan_min_crop_size": 30,
            "pan_and_scan_max_num_crops": 4,
            "pan_and_scan_min_ratio_to_activate": 1.2,
        }
    ],
}

NEEDED: dict[str, dict[str, Any]] = {
    "LayoutLMv2ImageProcessor": {"apply_ocr": False},
    "LayoutLMv3ImageProcessor": {"apply_ocr": False},
    "ImageGPTImageProcessor": {"do_color_quantize": False},
}
"""Options without which a processor is not reproduced."""

COUNTS = {"pairs": (2,)}
"""How many images a call has, for each form with another number than one or three."""

LEAST = {"NougatImageProcessor": 150}
"""The shortest sides of images that are not too long for a processor."""

OPTIONS = ENCODERS | DETECTORS | LANGUAGE_MODELS | TILES
