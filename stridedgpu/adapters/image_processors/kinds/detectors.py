"""Detection, segmentation and depth: images as large as fits, often with zeros to the largest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stridedgpu.adapters.image_processors import windows

from .kind import BILINEAR, CLIP, HALF, IMAGENET, Kind, kind, shortest, square

DETECTION: Final = kind(
    IMAGENET,
    {"shortest_edge": 800, "longest_edge": 1333},
    resample=BILINEAR,
    do_pad=True,
    resizes=windows.detection,
    form="detection",
    crops=False,
)
_SEGMENTATION: Final = kind(
    IMAGENET,
    {"shortest_edge": 800, "longest_edge": 1333},
    resample=BILINEAR,
    size_divisor=32,
    resizes=windows.detection,
    form="segmentation",
    crops=False,
)
_DPT: Final = {"do_pad": False, "ensure_multiple_of": 1, "keep_aspect_ratio": False, "size_divisor": None}

_KEYPOINTS: Final[dict[str, Any]] = {
    "default_to_square": False,
    "resample": BILINEAR,
    "do_normalize": None,
    "crops": False,
    "pads": False,
    "normalises": False,
}
_MATCHING: Final = kind({}, {"height": 480, "width": 640}, **_KEYPOINTS, do_grayscale=True, form="pairs")


def _sam(figures: Mapping[str, Any], side: int) -> Kind:
    """SAM 2 or 3."""
    return kind(
        figures, square(side), resample=BILINEAR, do_convert_rgb=True, form="originals", backends=("torchvision",)
    )


KINDS: Final[Mapping[str, Kind]] = {
    "OwlViTImageProcessor": kind(CLIP, square(768), crop_size=square(768), do_center_crop=False, do_convert_rgb=True),
    "SegformerImageProcessor": kind(IMAGENET, square(512), resample=BILINEAR, crops=False, pads=False),
    "DPTImageProcessor": kind(HALF, square(384), **_DPT, resizes=windows.dpt, form="surrounded"),
    "PromptDepthAnythingImageProcessor": kind(
        HALF, square(384), **_DPT, resizes=windows.dpt, form="surrounded", crops=False, converts=False
    ),
    "CHMv2ImageProcessor": kind(
        {"image_mean": (0.42, 0.411, 0.296), "image_std": (0.213, 0.156, 0.143)},
        square(384),
        do_resize=False,
        do_pad=True,
        ensure_multiple_of=16,
        keep_aspect_ratio=True,
        size_divisor=16,
        resizes=windows.dpt,
        form="surrounded",
        backends=("torchvision",),
    ),
    "GLPNImageProcessor": kind(
        {}, None, resample=BILINEAR, do_normalize=None, size_divisor=32, resizes=windows.glpn, crops=False, pads=False
    ),
    "TextNetImageProcessor": kind(
        IMAGENET,
        shortest(640),
        crop_size=square(224),
        do_center_crop=False,
        do_convert_rgb=True,
        resample=BILINEAR,
        size_divisor=32,
        resizes=windows.textnet,
        pads=False,
    ),
    "SuperPointImageProcessor": kind(
        {},
        {"height": 480, "width": 640},
        **_KEYPOINTS,
        do_grayscale=False,
        only={"do_grayscale": (False, "it is of bytes before the resize, or of floats behind it")},
    ),
    "SuperGlueImageProcessor": _MATCHING,
    "LightGlueImageProcessor": _MATCHING,
    "EfficientLoFTRImageProcessor": _MATCHING,
    "SegGptImageProcessor": kind(IMAGENET, square(448), do_convert_rgb=True, converts=False, crops=False, pads=False),
    "Sapiens2ImageProcessor": kind(
        IMAGENET,
        {"height": 1024, "width": 768},
        crop_size=square(224),
        do_center_crop=False,
        resample=BILINEAR,
        do_pad=False,
        only={"do_pad": (False, "it resizes and cuts otherwise")},
        backends=("torchvision",),
    ),
    "PPOCRV5ServerDetImageProcessor": kind(
        {"image_mean": (0.406, 0.456, 0.485), "image_std": (0.225, 0.224, 0.229)},
        square(960),
        resample=BILINEAR,
        limit_side_len=960,
        limit_type="max",
        max_side_limit=4000,
        only={"do_resize": (True, "text is found in whole squares of 32 pixels")},
        counts=dict.fromkeys(("limit_side_len", "max_side_limit"), (1, 1 << 20)),
        resizes=windows.text_squares,
        resizes_floats=True,
        form="text_sizes",
        flips=True,
        broadcasts=True,
        crops=False,
        pads=False,
        backends=("torchvision",),
    ),
    "PPOCRV5ServerRecImageProcessor": kind(
        HALF,
        {"height": 48, "width": 320},
        resample=BILINEAR,
        do_convert_rgb=True,
        do_pad=True,
        pad_size={"height": 48, "width": 320},
        max_image_width=3200,
        only={"do_resize": (True, "lines have one height"), "do_center_crop": (None, "lines are whole")},
        counts={"max_image_width": (1, 1 << 20)},
        own=("size", "max_image_width"),
        resizes=windows.text_line,
        resizes_floats=True,
        form="text_lines",
        crops=False,
        backends=("torchvision",),
    ),
    "Swin2SRImageProcessor": kind(
        {},
        None,
        resample=None,
        do_resize=None,
        do_normalize=None,
        do_pad=True,
        size_divisor=8,
        only={"do_resize": (None, "this processor keeps sizes")},
        form="mirrored",
        crops=False,
        normalises=False,
    ),
    "DetrImageProcessor": DETECTION,
    "ConditionalDetrImageProcessor": DETECTION,
    "DeformableDetrImageProcessor": DETECTION,
    "GroundingDinoImageProcessor": DETECTION,
    "RTDetrImageProcessor": kind(
        IMAGENET,
        square(640),
        default_to_square=False,
        resample=BILINEAR,
        do_normalize=False,
        do_pad=False,
        resizes=windows.detection,
        form="detection",
        crops=False,
    ),
    "YolosImageProcessor": kind(
        IMAGENET,
        {"shortest_edge": 800, "longest_edge": 1333},
        resample=BILINEAR,
        do_pad=True,
        resizes=windows.mod_sixteen,
        form="detection",
        crops=False,
    ),
    "MaskFormerImageProcessor": _SEGMENTATION,
    "Mask2FormerImageProcessor": _SEGMENTATION,
    "OneFormerImageProcessor": kind(
        IMAGENET,
        {"shortest_edge": 800, "longest_edge": 1333},
        resample=BILINEAR,
        do_convert_rgb=True,
        task_inputs=None,
        form="task",
        crops=False,
    ),
    "EomtImageProcessor": kind(
        IMAGENET,
        {"shortest_edge": 640, "longest_edge": 640},
        resample=BILINEAR,
        do_split_image=False,
        do_pad=False,
        form="strips",
        crops=False,
    ),
    "Sam2ImageProcessor": _sam(IMAGENET, 1024),
    "Sam3ImageProcessor": _sam(HALF, 1008),
    "SamImageProcessor": kind(
        IMAGENET,
        {"longest_edge": 1024},
        resample=BILINEAR,
        do_convert_rgb=True,
        do_pad=True,
        pad_size=square(1024),
        resizes=windows.longest_edge,
        form="original_sizes",
    ),
}
