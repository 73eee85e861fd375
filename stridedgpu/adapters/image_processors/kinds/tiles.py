"""Models of language that read an image in several windows: tiles, crops and splits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stridedgpu.adapters.image_processors import windows

from .kind import BILINEAR, CLIP, HALF, Kind, kind, shortest, square

KINDS: Final[Mapping[str, Kind]] = {
    "LlavaNextImageProcessor": kind(
        CLIP,
        shortest(224),
        crop_size=square(224),
        do_center_crop=True,
        do_convert_rgb=True,
        do_pad=True,
        image_grid_pinpoints=((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008)),
        form="tiles",
    ),
    "GotOcr2ImageProcessor": kind(
        CLIP,
        square(384),
        do_convert_rgb=True,
        crop_to_patches=False,
        min_patches=1,
        max_patches=12,
        form="grid",
        crops=False,
        pads=False,
    ),
    "Idefics2ImageProcessor": kind(
        HALF,
        {"shortest_edge": 378, "longest_edge": 980},
        resample=BILINEAR,
        do_convert_rgb=True,
        do_pad=True,
        do_image_splitting=False,
        resizes=windows.within,
        form="nested",
        crops=False,
    ),
    "Gemma3ImageProcessor": kind(
        HALF,
        square(224),
        resample=BILINEAR,
        do_convert_rgb=True,
        do_pan_and_scan=None,
        pan_and_scan_min_crop_size=None,
        pan_and_scan_max_num_crops=None,
        pan_and_scan_min_ratio_to_activate=None,
        form="crops",
        crops=False,
        pads=False,
    ),
}
