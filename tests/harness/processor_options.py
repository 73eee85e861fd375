"""Options beside the defaults with which tests compare each image processor: one table for each module of `kinds`."""

from __future__ import annotations

from typing import Any

__all__ = ["COUNTS", "LEAST", "NEEDED", "OPTIONS", "VIDEOS"]

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
    "VideoLlavaImageProcessor": [
        {"size": {"shortest_edge": 97}, "crop_size": {"height": 90, "width": 131}, "return_legacy_image_output": False},
        {"size": {"height": 60, "width": 80}, "do_center_crop": False, "do_normalize": False, "do_convert_rgb": False},
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
    "PPFormulaNetImageProcessor": [
        {"size": {"height": 96, "width": 128}},
        {"size": {"height": 300, "width": 200}, "do_crop_margin": False, "resample": 3},
        {"size": {"height": 60, "width": 80}, "do_thumbnail": False, "do_pad": False},
    ],
    "VideoMAEImageProcessor": [
        {"size": {"shortest_edge": 97}, "crop_size": 90},
        {"do_center_crop": False, "size": {"height": 60, "width": 80}, "do_rescale": False},
        {"do_center_crop": False, "size": {"shortest_edge": 60}},
    ],
    "VivitImageProcessor": [
        {"size": {"shortest_edge": 97}, "crop_size": 90, "offset": False},
        {"do_center_crop": False, "size": {"height": 60, "width": 80}, "do_rescale": False, "offset": False},
        {"do_center_crop": False, "size": {"shortest_edge": 60}, "rescale_factor": 1 / 255, "do_normalize": False},
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
    "PPOCRV5ServerDetImageProcessor": [
        {"limit_side_len": 100, "do_normalize": False},
        {"limit_type": "min", "limit_side_len": 200, "max_side_limit": 300, "resample": 3},
        {"limit_type": "resize_long", "limit_side_len": 77, "max_side_limit": None, "do_rescale": False},
        {"limit_side_len": 90, "do_rescale": False, "do_normalize": False},
    ],
    "PPOCRV5ServerRecImageProcessor": [
        {"size": {"height": 40, "width": 60}, "max_image_width": 70, "do_normalize": False},
        {"size": {"height": 60, "width": 80}, "pad_size": {"height": 64, "width": 900}, "resample": 3},
        {"do_pad": False, "do_rescale": False},
    ],
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
        {"size": {"shortest_edge": 36, "longest_edge": 48}, "do_split_image": True, "do_pad": True},
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
    "Emu3ImageProcessor": [
        {"min_pixels": 9_000, "max_pixels": 30_000, "spatial_factor": 14},
        {"min_pixels": 1, "max_pixels": 1 << 20, "do_normalize": False, "do_pad": False, "resample": 2},
        {"do_resize": False, "do_rescale": False, "do_convert_rgb": False},
    ],
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
    "PI0ImageProcessor": [{"size": {"max_height": 90, "max_width": 60}, "pad_size": {"height": 100, "width": 70}}],
    "FuyuImageProcessor": [
        {"size": {"height": 200, "width": 150}, "padding_value": 127.0, "image_mean": [0.1, 0.5, 0.9]},
        {"size": {"height": 90, "width": 300}, "do_normalize": False},
    ],
    "LlavaImageProcessor": [
        {"do_pad": True},
        {"do_pad": True, "image_mean": [0.1, 0.5, 0.9], "size": {"height": 60, "width": 90}, "crop_size": 80},
        {"do_pad": True, "do_resize": False, "do_normalize": False},
        {"do_center_crop": False, "do_rescale": False},
    ],
    "JanusImageProcessor": [
        {"size": {"height": 97, "width": 97}, "image_mean": [0.2, 0.5, 1.0], "min_size": 40},
        {"do_pad": False, "do_normalize": False},
        {"do_resize": False, "do_rescale": False, "do_normalize": False, "resample": 2},
    ],
    "DeepseekVLHybridImageProcessor": [
        {
            "high_res_size": {"height": 150, "width": 150},
            "high_res_image_mean": [0.1, 0.5, 0.9],
            "high_res_image_std": [0.5, 0.25, 0.75],
            "high_res_resample": 2,
            "size": {"height": 64, "width": 64},
        },
        {"do_normalize": False, "size": {"height": 50, "width": 50}, "high_res_size": {"height": 90, "width": 90}},
    ],
    "Apertus1p5ImageProcessor": [
        {"size": {"min_pixels": 9_000, "max_pixels": 30_000}, "spatial_factor": 14},
        {"do_pad": False, "do_normalize": False},
    ],
    "Gemma4ImageProcessor": [
        {"max_soft_tokens": 70, "do_normalize": True},
        {"patch_size": 14, "pooling_kernel_size": 2, "max_soft_tokens": 140, "resample": 2},
        {"do_rescale": False},
    ],
    "Gemma4UnifiedImageProcessor": [
        {"max_soft_tokens": 70, "image_mean": [0.1, 0.2, 0.3], "do_normalize": True},
        {"patch_size": 14, "pooling_kernel_size": 2, "max_soft_tokens": 140},
    ],
    "MiniCPMV4_6ImageProcessor": [
        {"scale_resolution": 100, "max_slice_nums": 6, "downsample_mode": "4x"},
        {"slice_mode": False, "patch_size": 16, "do_rescale": False, "do_normalize": False},
        {"scale_resolution": 60, "patch_size": 5, "do_normalize": False},
    ],
    "MiniCPMOcrImageProcessor": [{"scale_resolution": 100}, {"small_image_upsize": "never", "do_rescale": False}],
    "Lfm2VlImageProcessor": [
        {"tile_size": 64, "max_image_tokens": 20, "min_image_tokens": 4, "max_tiles": 6, "return_row_col_info": True},
        {"tile_size": 96, "max_image_tokens": 16, "min_tiles": 1, "max_pixels_tolerance": 0.5, "use_thumbnail": False},
        {"do_image_splitting": False, "encoder_patch_size": 14, "do_resize": False, "do_normalize": False},
        {"do_pad": False, "min_image_tokens": 64, "max_image_tokens": 64},
    ],
    "MiniMaxM3VLImageProcessor": [{"max_pixels": 90_000}, {"do_normalize": False}],
    "Ernie4_5_VLMoeImageProcessor": [{"size": {"shortest_edge": 40_000, "longest_edge": 50_000}, "merge_size": 1}],
    "HunYuanVLImageProcessor": [
        {"resample": 2, "size": {"shortest_edge": 60_000, "longest_edge": 90_000}, "merge_size": 3},
        {"min_pixels": 1, "max_pixels": 9_000, "temporal_patch_size": 2},
    ],
    "PaddleOCRVLImageProcessor": [
        {"size": {"shortest_edge": 100, "longest_edge": 60_000}, "temporal_patch_size": 2},
        {"do_rescale": False, "do_normalize": False},
    ],
    "VideoLlama3ImageProcessor": [{"merge_size": 2}, {"do_normalize": False}],
    "GlmImageImageProcessor": [{"size": {"shortest_edge": 90_000, "longest_edge": 200_000}}, {"patch_size": 5}],
    "GlmgaImageProcessor": [{"patch_expand_factor": 2}],
    "Glm5NextImageProcessor": [
        {"min_image_tokens": 100, "max_image_tokens": 120, "patch_expand_factor": 2},
        {"min_image_tokens": 3, "max_image_tokens": 30, "do_normalize": False},
    ],
    "Cosmos3EdgeImageProcessor": [{"temporal_patch_size": 2, "size": {"shortest_edge": 100, "longest_edge": 90_000}}],
    "MuseGlimmerImageProcessor": [{"max_image_tokens": 12}, {"resample": 3, "merge_size": 1, "temporal_patch_size": 1}],
    "InklingImageProcessor": [
        {"rescale_image_frac": 0.4, "size": {"height": 28, "width": 28}, "do_rescale": False},
        {"rescale_image_frac": 1.7, "rescale_image_max_upscaled_long_edge": 300, "do_normalize": False},
        {"rescale_image_frac": 0.5, "do_rescale": False, "do_normalize": False, "resample": 3},
    ],
    "Kimi_K25ImageProcessor": [
        {"max_patches": 60},
        {"size": {"max_height": 9, "max_width": 9}, "merge_size": 3, "do_normalize": False},
    ],
    "NeoMMEImageProcessor": [
        {"size": {"min_pixels": 40_000, "max_pixels": 60_000}},
        {"max_side": 100, "patch_size": 14},
        {"size": {"min_pixels": 60_000, "max_pixels": 60_001}, "max_side": 300, "do_normalize": False},
    ],
    "NemotronH_Omni_Reasoning_V3ImageProcessor": [
        {"min_num_patches": 40, "max_num_patches": 90, "resample": 2},
        {"patch_size": 10, "downsample_ratio": 0.25, "max_num_patches": 0, "max_model_len": 60, "do_normalize": False},
        {"min_num_patches": 300, "max_num_patches": 200, "do_rescale": False},
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
    "LlavaOnevisionImageProcessor": [
        {"size": {"height": 60, "width": 60}, "image_grid_pinpoints": [[60, 120], [150, 60]]},
        {
            "size": {"height": 64, "width": 64},
            "image_grid_pinpoints": [[64, 128], [128, 64]],
            "do_pad": False,
            "resample": 2,
        },
        {"size": {"shortest_edge": 70}, "do_center_crop": True, "crop_size": {"height": 70, "width": 70}},
    ],
    "Cohere2VisionImageProcessor": [
        {"size": {"height": 60, "width": 80}},
        {"size": 90, "max_patches": 5, "do_normalize": False},
        {"crop_to_patches": False},
    ],
    "Ovis2ImageProcessor": [
        {"crop_to_patches": True, "size": {"height": 60, "width": 80}},
        {"crop_to_patches": True, "size": 90, "min_patches": 3, "max_patches": 6, "use_covering_area_grid": False},
        {"do_center_crop": True, "crop_size": {"height": 400, "width": 90}},
    ],
    "GraniteDoclingImageProcessor": [
        {"size": {"height": 60, "width": 50}, "max_patches": 6, "fine_route": True},
        {"size": 40, "max_patches": 2, "dense_max_patches": 20, "dense_min_aspect": 1.1, "dense_max_scale": 0.4},
        {"size": 40, "dense_max_patches": 5, "dense_min_aspect": 0.5, "dense_max_aspect": 2.0},
        {"size": 100, "crop_to_patches": False, "do_rescale": False, "do_normalize": False},
    ],
    "PerceptionLMImageProcessor": [
        {"tile_size": 64, "max_num_tiles": 9},
        {"tile_size": 90, "vision_input_type": "vanilla"},
        {"do_resize": False},
    ],
    "MllamaImageProcessor": [
        {"size": 60, "max_image_tiles": 7},
        {"size": {"height": 90, "width": 90}, "do_normalize": False, "do_rescale": False},
    ],
    "Llama4ImageProcessor": [
        {"size": 60, "max_patches": 9},
        {"size": {"height": 64, "width": 64}, "resize_to_max_canvas": True, "image_mean": [0.48, 0.45, 0.4]},
        {"size": 90, "do_normalize": False},
    ],
    "Phi4MultimodalImageProcessor": [
        {"size": 60, "patch_size": 7, "dynamic_hd": 9},
        {"size": {"height": 50, "width": 50}, "image_mean": [0.48, 0.45, 0.4], "image_std": [0.26, 0.27, 0.3]},
        {"size": 90, "do_normalize": False, "patch_size": 13},
    ],
    "AriaImageProcessor": [
        {"max_image_size": 490, "min_image_size": 100},
        {"split_image": True, "max_image_size": 490, "split_resolutions": [[490, 980], [980, 490], [600, 600]]},
    ],
    "DeepseekOcr2ImageProcessor": [
        {"tile_size": 100, "size": {"height": 128, "width": 128}},
        {"tile_size": 60, "crop_to_patches": False, "background_color": [3, 200, 90]},
    ],
    "UnlimitedOcrImageProcessor": [
        {"tile_size": 100, "size": {"height": 96, "width": 128}},
        {"crop_to_patches": False, "size": 128},
        {"crop_to_patches": False, "size": 128, "maximum_pad_value": 100, "background_color": [3, 200, 90]},
    ],
    "Step3p7ImageProcessor": [
        {"size": {"height": 128, "width": 128}, "patch_size": 60, "max_image_size": 300},
        {"size": {"height": 600, "width": 600}, "patch_size": 90, "resample": 1},
    ],
    "Idefics3ImageProcessor": [
        {"size": {"longest_edge": 200}, "max_image_size": {"longest_edge": 60}, "return_row_col_info": True},
        {"do_image_splitting": False, "max_image_size": {"longest_edge": 90}, "resample": 2},
        {"do_resize": False, "max_image_size": {"longest_edge": 100}},
        {"size": {"height": 90, "width": 130}, "max_image_size": {"longest_edge": 64}, "do_pad": False},
    ],
    "UltraVBertImageProcessor": [
        {"size": {"longest_edge": 300}, "max_image_size": {"longest_edge": 60}, "return_row_col_info": True},
        {"size": {"longest_edge": 310}, "max_image_size": {"longest_edge": 50}, "max_image_tiles": 5},
        {"do_image_splitting": False, "max_image_size": {"longest_edge": 90}, "resample": 2},
        {"do_resize": False, "max_image_size": {"longest_edge": 100}, "do_pad": False},
    ],
    "SmolVLMImageProcessor": [{"size": {"longest_edge": 300}, "max_image_size": {"longest_edge": 512}}],
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
    "Ernie4_5_VLMoeVideoProcessor": {"draw_on_frames": False},
    "NemotronH_Omni_Reasoning_V3VideoProcessor": {"norm_mean": [0.48, 0.45, 0.4], "norm_std": [0.26, 0.27, 0.3]},
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

_SMALL = {"size": {"shortest_edge": 28 * 28 * 8, "longest_edge": 28 * 28 * 40}}
"""Frames of few patches."""

VIDEOS: dict[str, list[dict[str, Any]]] = {
    "LlavaNextVideoVideoProcessor": [
        {"size": {"shortest_edge": 50}, "crop_size": {"height": 60, "width": 40}},
        {"do_center_crop": False, "size": {"height": 40, "width": 50}, "do_normalize": False},
        {"do_resize": False, "do_center_crop": False, "do_rescale": False},
        {"do_rescale": False, "do_normalize": False, "size": {"shortest_edge": 40}, "crop_size": 40},
    ],
    "TimesformerVideoProcessor": [{"resample": 3, "size": {"shortest_edge": 30, "longest_edge": 40}, "crop_size": 32}],
    "VideoMAEVideoProcessor": [{"image_mean": [0.4, 0.5, 0.6], "rescale_factor": 1 / 127.5}],
    "VivitVideoProcessor": [{"do_normalize": False}, {"do_rescale": False}, {"rescale_factor": 1 / 255}],
    "VJEPA2VideoProcessor": [{"crop_size": {"height": 60, "width": 60}}, {"do_convert_rgb": True, "crop_size": 64}],
    "LlavaOnevisionVideoProcessor": [{"size": {"height": 31, "width": 77}}, {"do_resize": False}],
    "InternVLVideoProcessor": [{"size": {"max_height": 40, "max_width": 50}}, {"resample": 1}],
    "Sam2VideoVideoProcessor": [{"size": {"height": 64, "width": 60}}],
    "SmolVLMVideoProcessor": [
        {"size": {"longest_edge": 90}, "max_image_size": {"longest_edge": 40}},
        {"size": {"height": 50, "width": 60}, "max_image_size": {"longest_edge": 44}, "do_pad": False, "resample": 3},
    ],
    "NemotronH_Omni_Reasoning_V3VideoProcessor": [
        {"video_target_num_patches": 90, "norm_mean": [0.1, -0.2, 3.5]},
        {"video_target_num_patches": 40, "patch_size": 10, "downsample_ratio": 0.25, "temporal_patch_size": 3},
        {"video_maintain_aspect_ratio": False, "video_target_num_patches": 50, "downsample_ratio": 1.0},
    ],
    "PeVideoVideoProcessor": [
        {"do_resize": True, "size": {"height": 30, "width": 40}, "do_rescale": True},
        {"do_rescale": True, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3},
    ],
    "Qwen2VLVideoProcessor": [
        _SMALL,
        _SMALL | {"cap_pixels_per_frame": True, "max_video_tokens": 40},
        _SMALL | {"cap_pixels_per_frame": True, "max_video_tokens": 7},
        _SMALL | {"do_normalize": False},
        _SMALL | {"do_rescale": False, "do_normalize": False},
        {"min_pixels": 28 * 28 * 8, "max_pixels": 28 * 28 * 10},
    ],
    "Qwen3VLVideoProcessor": [
        _SMALL,
        _SMALL | {"cap_pixels_per_frame": True, "max_video_tokens": 7},
        _SMALL | {"patch_size": 10, "merge_size": 1, "temporal_patch_size": 3},
        _SMALL | {"rescale_factor": 0.0078, "image_mean": [0.1, 0.2, 0.3]},
    ],
    "Ernie4_5_VLMoeVideoProcessor": [
        _SMALL,
        _SMALL | {"patch_size": 10, "merge_size": 1, "image_mean": [0.1, 0.2, 0.3]},
        _SMALL | {"do_rescale": False, "do_normalize": False, "resample": 2},
    ],
    "Cosmos3EdgeVideoProcessor": [_SMALL],
    "VideoLlama3VideoProcessor": [
        _SMALL | {"use_token_compression": False, "return_metadata": False},
        _SMALL | {"temporal_patch_size": 2, "merge_size": 1},
    ],
    "Glm4vVideoProcessor": [_SMALL, {"do_resize": True, "patch_size": 16}],
    "GlmgaVideoProcessor": [_SMALL | {"patch_expand_factor": 2}],
    "Glm5NextVideoProcessor": [
        {"max_image_tokens": 20},
        {"min_image_tokens": 90, "max_image_tokens": 100},
        {"patch_expand_factor": 2, "temporal_patch_size": 4},
    ],
    "HYV4VLVideoProcessor": [
        {"max_image_size": {"longest_edge": 6000}, "merge_size": 1},
        {"size": {"longest_edge": 30000}, "temporal_patch_size": 2},
    ],
    "MiniMaxM3VLVideoProcessor": [
        {"min_pixels": 28 * 28 * 30, "max_pixels": 28 * 28 * 40},
        {"vision_segment_max_frames": 2, "temporal_patch_size": 1},
        {"vision_segment_max_frames": None},
    ],
    "MuseGlimmerVideoProcessor": [{"max_video_frame_tokens": 7}, {"resample": 2, "temporal_patch_size": 3}],
    "Kimi_K25VideoProcessor": [
        {"max_patches": 9, "temporal_patch_size": 2},
        {"size": {"max_height": 5, "max_width": 5}, "merge_size": 1},
    ],
    "Gemma4VideoProcessor": [{"max_soft_tokens": 140}, {"pooling_kernel_size": 2, "patch_size": 8}],
    "MiniCPMV4_6VideoProcessor": [
        {"scale_resolution": 60, "max_slice_nums": 4},
        {"slice_mode": False, "downsample_mode": "4x", "scale_resolution": 90},
    ],
    "Gemma4UnifiedVideoProcessor": [{"max_soft_tokens": 140, "do_rescale": False, "do_normalize": False}],
}
