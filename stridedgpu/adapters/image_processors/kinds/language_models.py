"""Models of language that read images: one window of each image, or its patches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stridedgpu.adapters.image_processors import windows
from stridedgpu.adapters.image_processors.normalising import Backend

from .kind import BACKENDS, BICUBIC, BILINEAR, CLIP, HALF, LANCZOS, Kind, kind, of_patches, shortest, square

_HUNYUAN: Final = of_patches(
    CLIP,
    512 * 512,
    2048 * 2048,
    windows.pixels,
    axes="HhWw ctyx",
    patch_size=16,
    temporal_patch_size=1,
    min_pixels=None,
    max_pixels=None,
    overrides={backend: {"resample": BICUBIC} for backend in BACKENDS},
)
_GLM4V: Final = of_patches(CLIP, 112 * 112, 28 * 28 * 15000, windows.volume, patch_size=14)
_ERNIE: Final = of_patches(CLIP, 56 * 56, 28 * 28 * 6177, windows.pixels, patch_size=14, temporal_patch_size=1)
_QWEN2_VL: Final = of_patches(
    CLIP, 56 * 56, 28 * 28 * 1280, windows.pixels, patch_size=14, min_pixels=None, max_pixels=None
)

_JANUS: Final = kind(
    CLIP,
    square(384),
    do_pad=True,
    min_size=14,
    resizes=windows.longest_of_a_square,
    canvas=windows.square_canvas,
    form="resized_in_squares",
    crops=False,
    pads=False,
)


def _gemma4(axes: str, **options: Any) -> Kind:
    return kind(
        {"image_mean": (0.0, 0.0, 0.0), "image_std": (1.0, 1.0, 1.0)},
        None,
        do_convert_rgb=True,
        do_normalize=False,
        patch_size=16,
        max_soft_tokens=280,
        pooling_kernel_size=3,
        resizes=windows.soft_tokens,
        form="positioned_patches",
        axes=axes,
        crops=False,
        pads=False,
        **options,
    )


_UNEXPANDED: Final[Mapping[Backend, Mapping[str, Any]]] = {"pil": {"patch_expand_factor": 1}}
"""transformers' PIL backend has the option and leaves it out."""

KINDS: Final[Mapping[str, Kind]] = {
    "PI0ImageProcessor": kind(
        HALF,
        {"max_height": 224, "max_width": 224},
        default_to_square=False,
        do_convert_rgb=True,
        do_pad=True,
        pad_size=square(224),
        backends=("torchvision",),
    ),
    "ChameleonImageProcessor": kind(
        {"image_mean": (1.0, 1.0, 1.0), "image_std": (1.0, 1.0, 1.0)},
        shortest(512),
        crop_size=square(512),
        do_center_crop=True,
        do_convert_rgb=True,
        resample=LANCZOS,
        rescale_factor=0.0078,
    ),
    "LlavaImageProcessor": kind(
        CLIP,
        shortest(224),
        crop_size=square(224),
        do_center_crop=True,
        do_convert_rgb=True,
        do_pad=False,
        form="squared",
        pads=False,
    ),
    "JanusImageProcessor": _JANUS,
    "DeepseekVLImageProcessor": _JANUS,
    "DeepseekVLHybridImageProcessor": kind(
        CLIP,
        square(384),
        do_pad=True,
        min_size=14,
        high_res_size=square(1024),
        high_res_resample=BICUBIC,
        high_res_image_mean=CLIP["image_mean"],
        high_res_image_std=CLIP["image_std"],
        resizes=windows.longest_of_a_square,
        canvas=windows.square_canvas,
        form="two_squares",
        crops=False,
        pads=False,
    ),
    "Apertus1p5ImageProcessor": kind(
        HALF,
        {"min_pixels": 128 * 128, "max_pixels": 1400 * 1400},
        do_convert_rgb=True,
        do_pad=True,
        spatial_factor=16,
        resizes=windows.factors,
        form="sizes",
        crops=False,
        backends=("torchvision",),
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
    "Qwen2VLImageProcessor": _QWEN2_VL,
    "CohereCompassImageProcessor": _QWEN2_VL,
    "MiniMaxM3VLImageProcessor": of_patches(
        CLIP,
        4 * 28 * 28,
        451584,
        windows.pixels,
        patch_size=14,
        min_pixels=None,
        max_pixels=None,
        backends=("torchvision",),
    ),
    "Ernie4_5_VLMoeImageProcessor": _ERNIE,
    "Ernie4_5_VL_MoeImageProcessor": _ERNIE,
    "HunYuanVLImageProcessor": _HUNYUAN,
    "HYV4VLImageProcessor": _HUNYUAN,
    "PaddleOCRVLImageProcessor": of_patches(
        CLIP,
        384 * 384,
        1536 * 1536,
        windows.pixels_of_a_factor,
        axes="HW ct y x",
        patch_size=14,
        temporal_patch_size=1,
        min_pixels=None,
        max_pixels=None,
    ),
    "VideoLlama3ImageProcessor": of_patches(
        HALF,
        56 * 56,
        28 * 28 * 1280,
        windows.pixels,
        "patches_and_merges",
        patch_size=14,
        temporal_patch_size=1,
        merge_size=1,
        min_pixels=None,
        max_pixels=None,
    ),
    "GlmImageImageProcessor": of_patches(
        CLIP, 56 * 56, 28 * 28 * 1280, windows.half_pixels, patch_size=14, min_pixels=None, max_pixels=None
    ),
    "Glm4vImageProcessor": _GLM4V,
    "Glm46VImageProcessor": _GLM4V,
    "GlmgaImageProcessor": of_patches(
        CLIP,
        112 * 112,
        28 * 28 * 15000,
        windows.volume,
        patch_size=14,
        patch_expand_factor=1,
        overrides=_UNEXPANDED,
    ),
    "Glm5NextImageProcessor": kind(
        CLIP,
        {"longest_edge": 1},
        default_to_square=False,
        do_convert_rgb=True,
        patch_size=14,
        temporal_patch_size=2,
        merge_size=2,
        patch_expand_factor=1,
        min_image_tokens=16,
        max_image_tokens=8000,
        resizes=windows.shown_tokens,
        canvas=windows.token_canvas,
        overrides=_UNEXPANDED,
        form="patches",
        crops=False,
        pads=False,
        floats=("pil",),
    ),
    "Cosmos3EdgeImageProcessor": of_patches(
        HALF, 256 * 256, 4096 * 4096, windows.volume, axes="HWhw yxct", patch_size=16, temporal_patch_size=1
    ),
    "MuseGlimmerImageProcessor": kind(
        HALF,
        None,
        default_to_square=False,
        do_convert_rgb=True,
        resample=LANCZOS,
        patch_size=14,
        temporal_patch_size=2,
        merge_size=2,
        max_image_tokens=4096,
        resizes=windows.tokens_near,
        form="patches",
        axes="HW tcyx",
        crops=False,
        pads=False,
        backends=("torchvision",),
    ),
    "Kimi_K25ImageProcessor": kind(
        HALF,
        {"max_height": 512, "max_width": 512},
        do_convert_rgb=True,
        patch_size=14,
        merge_size=2,
        max_patches=16384,
        counts={"max_patches": (1, 1 << 20)},
        resizes=windows.patches_of_a_side,
        canvas=windows.merged_canvas,
        form="patches",
        axes="HW c y x",
        crops=False,
        pads=False,
        backends=("torchvision",),
    ),
    "NeoMMEImageProcessor": kind(
        HALF,
        None,
        do_convert_rgb=True,
        resample=BILINEAR,
        patch_size=32,
        max_side=None,
        resizes=windows.budget,
        canvas=windows.patch_canvas,
        form="grid_patches",
        axes="HW yxc",
        crops=False,
        pads=False,
        backends=("torchvision",),
    ),
    "Gemma4ImageProcessor": _gemma4("HW yxc"),
    "Gemma4UnifiedImageProcessor": _gemma4("HW hywxc", backends=("torchvision",)),
    "Siglip2ImageProcessor": kind(
        HALF,
        None,
        resample=BILINEAR,
        patch_size=16,
        max_num_patches=256,
        resizes=windows.patches,
        form="packed_patches",
        axes="HW yxc",
        crops=False,
        pads=False,
    ),
}
