"""Encoders of one window of each image: classifiers, and towers of models that read images and text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stridedgpu.adapters.image_processors import windows

from .kind import BILINEAR, CLIP, HALF, IMAGENET, Kind, kind, shortest, square

_CLIP_LIKE: Final = kind(CLIP, shortest(224), crop_size=square(224), do_center_crop=True, do_convert_rgb=True)
KINDS: Final[Mapping[str, Kind]] = {
    "CLIPImageProcessor": _CLIP_LIKE,
    "ChineseCLIPImageProcessor": _CLIP_LIKE,
    "BitImageProcessor": _CLIP_LIKE,
    "SiglipImageProcessor": kind(HALF, square(224), default_to_square=False, do_convert_rgb=True),
    "ViTImageProcessor": kind(HALF, square(224), resample=BILINEAR),
    "PvtImageProcessor": kind(IMAGENET, square(224)),
    "DINOv3ViTImageProcessor": kind(
        IMAGENET, square(224), resample=BILINEAR, rescales_first=True, pads=False, backends=("torchvision",)
    ),
    "DeiTImageProcessor": kind(HALF, square(256), crop_size=square(224), do_center_crop=True),
    "MobileNetV1ImageProcessor": kind(
        HALF, shortest(256), crop_size=square(224), resample=BILINEAR, do_center_crop=True
    ),
    "ConvNextImageProcessor": kind(HALF, shortest(384), crop_pct=224 / 256, resizes=windows.convnext, pads=False),
    "BlipImageProcessor": kind(CLIP, square(384), do_convert_rgb=True),
    "PoolFormerImageProcessor": kind(
        IMAGENET, shortest(224), crop_size=square(224), do_center_crop=True, crop_pct=0.9, resizes=windows.crop_pct
    ),
    "LevitImageProcessor": kind(
        IMAGENET, shortest(224), crop_size=square(224), do_center_crop=True, resizes=windows.levit
    ),
    "MobileViTImageProcessor": kind(
        HALF,
        shortest(224),
        crop_size=square(256),
        do_center_crop=True,
        do_normalize=None,
        do_flip_channel_order=True,
        normalises=False,
        pads=False,
    ),
    "EfficientNetImageProcessor": kind(
        HALF,
        square(346),
        crop_size=square(289),
        do_center_crop=False,
        rescale_offset=False,
        include_top=True,
        pads=False,
    ),
    "BeitImageProcessor": kind(HALF, square(224), crop_size=square(224), do_center_crop=False, pads=False),
}
