"""Detection, segmentation and depth: images as large as fits, often with zeros to the largest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stridedgpu.adapters.image_processors import windows

from .kind import BILINEAR, CLIP, HALF, IMAGENET, Kind, kind, square

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


KINDS: Final[Mapping[str, Kind]] = {
    "OwlViTImageProcessor": kind(CLIP, square(768), crop_size=square(768), do_center_crop=False, do_convert_rgb=True),
    "SegformerImageProcessor": kind(IMAGENET, square(512), resample=BILINEAR, crops=False, pads=False),
    "DPTImageProcessor": kind(
        HALF,
        square(384),
        do_pad=False,
        ensure_multiple_of=1,
        keep_aspect_ratio=False,
        size_divisor=None,
        resizes=windows.dpt,
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
    "MaskFormerImageProcessor": _SEGMENTATION,
    "Mask2FormerImageProcessor": _SEGMENTATION,
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
