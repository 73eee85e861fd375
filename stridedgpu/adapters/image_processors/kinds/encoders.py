"""Encoders of one window of each image: classifiers, and towers of models that read images and text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stridedgpu.adapters.image_processors import windows

from .kind import BILINEAR, CLIP, HALF, IMAGENET, Kind, kind, shortest, square

_CLIP_LIKE: Final = kind(CLIP, shortest(224), crop_size=square(224), do_center_crop=True, do_convert_rgb=True)
_TIPS: Final = kind(
    {}, square(448), resample=BILINEAR, do_normalize=False, do_convert_rgb=True, backends=("torchvision",)
)
_PAGES: Final[dict[str, Any]] = {
    "resample": BILINEAR,
    "do_pad": True,
    "do_thumbnail": True,
    "do_align_long_axis": False,
    "resizes": windows.page,
    "form": "documents",
    "crops": False,
}
_READS: Final = (False, "Tesseract reads the words, in transformers")
_BYTES: Final = (None, "this processor returns bytes")
KINDS: Final[Mapping[str, Kind]] = {
    "CLIPImageProcessor": _CLIP_LIKE,
    "ChineseCLIPImageProcessor": _CLIP_LIKE,
    "BitImageProcessor": _CLIP_LIKE,
    "VideoLlavaImageProcessor": kind(
        CLIP,
        shortest(224),
        crop_size=square(224),
        do_center_crop=True,
        do_convert_rgb=True,
        return_legacy_image_output=True,
        form="older_key",
        converts_arrays=False,
        pads=False,
        called=("return_legacy_image_output",),
        backends=("pil",),
    ),
    "SiglipImageProcessor": kind(HALF, square(224), default_to_square=False, do_convert_rgb=True),
    "ViTImageProcessor": kind(HALF, square(224), resample=BILINEAR),
    "PvtImageProcessor": kind(IMAGENET, square(224)),
    "DINOv3ViTImageProcessor": kind(
        IMAGENET,
        square(224),
        resample=BILINEAR,
        rescales_first=True,
        broadcasts=True,
        pads=False,
        backends=("torchvision",),
    ),
    "DeiTImageProcessor": kind(HALF, square(256), crop_size=square(224), do_center_crop=True),
    "MobileNetV1ImageProcessor": kind(
        HALF, shortest(256), crop_size=square(224), resample=BILINEAR, do_center_crop=True
    ),
    "MobileNetV2ImageProcessor": kind(
        HALF, shortest(256), crop_size=square(224), resample=BILINEAR, do_center_crop=True, pads=False
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
        broadcasts=True,
        pads=False,
    ),
    "BeitImageProcessor": kind(HALF, square(224), crop_size=square(224), do_center_crop=False, pads=False),
    "PPLCNetImageProcessor": kind(
        {"image_mean": (0.406, 0.456, 0.485), "image_std": (0.225, 0.224, 0.229)},
        square(256),
        crop_size=square(224),
        do_center_crop=True,
        resample=BILINEAR,
        resize_short=256,
        size_divisor=1,
        resizes=windows.lcnet,
        flips=True,
        pads=False,
        backends=("torchvision",),
    ),
    "PerceiverImageProcessor": kind(
        IMAGENET, square(224), crop_size=square(256), do_center_crop=True, form="cropped_first", pads=False, crops=False
    ),
    "PPChart2TableImageProcessor": kind(CLIP, square(1024)),
    "Tipsv2ImageProcessor": _TIPS,
    "Tipsv2DptImageProcessor": _TIPS,
    "FlavaImageProcessor": kind(
        CLIP,
        square(224),
        crop_size=square(224),
        do_center_crop=True,
        return_image_mask=False,
        return_codebook_pixels=False,
        only={
            "return_image_mask": (False, "its masks are random"),
            "return_codebook_pixels": (False, "these images have an arithmetic of their own"),
        },
        pads=False,
    ),
    "ViltImageProcessor": kind(
        HALF, shortest(384), size_divisor=32, do_pad=True, resizes=windows.vilt, form="masked", crops=False
    ),
    "BridgeTowerImageProcessor": kind(
        CLIP,
        shortest(288),
        crop_size=shortest(288),
        do_center_crop=True,
        size_divisor=32,
        do_pad=True,
        resizes=windows.vilt,
        form="masks_first",
    ),
    "LayoutLMv2ImageProcessor": kind(
        {},
        square(224),
        resample=BILINEAR,
        rescale_factor=None,
        do_rescale=None,
        do_normalize=None,
        apply_ocr=True,
        only={"apply_ocr": _READS, "do_rescale": _BYTES},
        flips=True,
        crops=False,
        normalises=False,
        pads=False,
    ),
    "LayoutLMv3ImageProcessor": kind(
        HALF, square(224), resample=BILINEAR, apply_ocr=True, only={"apply_ocr": _READS}, pads=False
    ),
    "ImageGPTImageProcessor": kind(
        HALF,
        square(256),
        resample=BILINEAR,
        do_color_quantize=True,
        only={"do_color_quantize": (False, "which cluster is nearest depends on the processor's matrix product")},
        pads=False,
    ),
    "DonutImageProcessor": kind(
        HALF, {"height": 2560, "width": 1920}, **_PAGES, only={"do_center_crop": (None, "pages are whole")}
    ),
    "NougatImageProcessor": kind(IMAGENET, {"height": 896, "width": 672}, **_PAGES, do_crop_margin=True),
    "PPFormulaNetImageProcessor": kind(
        {"image_mean": (0.7931,) * 3, "image_std": (0.1738,) * 3},
        square(768),
        **_PAGES,
        do_crop_margin=True,
        backends=("torchvision",),
    ),
    "VideoMAEImageProcessor": kind(
        HALF, shortest(224), crop_size=square(224), resample=BILINEAR, do_center_crop=True, form="frames", pads=False
    ),
    "VivitImageProcessor": kind(
        HALF,
        shortest(256),
        crop_size=square(224),
        resample=BILINEAR,
        do_center_crop=True,
        rescale_factor=1 / 127.5,
        offset=True,
        form="frames",
        pads=False,
        backends=("pil",),
    ),
    "TvpImageProcessor": kind(
        HALF,
        {"longest_edge": 448},
        crop_size=square(448),
        resample=BILINEAR,
        do_center_crop=True,
        default_to_square=False,
        do_pad=True,
        pad_size=square(448),
        pad_mode="constant",
        constant_values=0,
        do_flip_channel_order=True,
        only={"pad_mode": ("constant", "pads are zeros"), "constant_values": (0, "pads are zeros")},
        resizes=windows.tvp,
        form="frames",
    ),
}
