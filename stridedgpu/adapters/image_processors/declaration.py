"""What a processor of transformers declares: read from the object, its dict, or a `preprocessor_config.json`.

`KINDS` has the defaults of each class; a dict leaves out what is one. Transformers itself is not imported.
Source: transformers 5.24, models/*/image_processing_*.py and video_processing_*.py.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Final

from stridedgpu.operations.options import truth
from stridedgpu.values.errors import LayoutError

from . import windows
from .normalising import Backend
from .sampling import MOST_FRAMES, Sampling, evenly, in_whole_stacks
from .sizes import is_count, is_finite

BACKENDS: Final[tuple[Backend, ...]] = ("torchvision", "pil")

_IMAGENET: Final = {"image_mean": (0.485, 0.456, 0.406), "image_std": (0.229, 0.224, 0.225)}
_HALF: Final = {"image_mean": (0.5, 0.5, 0.5), "image_std": (0.5, 0.5, 0.5)}
_CLIP: Final = {"image_mean": (0.48145466, 0.4578275, 0.40821073), "image_std": (0.26862954, 0.26130258, 0.27577711)}
_LANCZOS, _BILINEAR, _BICUBIC = 1, 2, 3

_EVERY: Final[dict[str, Any]] = {
    "do_resize": True,
    "size": None,
    "default_to_square": True,
    "resample": _BICUBIC,
    "do_center_crop": None,
    "crop_size": None,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": None,
    "image_std": None,
    "do_convert_rgb": None,
    "do_pad": None,
    "pad_size": None,
    "input_data_format": None,
}
"""The options that every processor has."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A class of image processors: its defaults, its rules, what it returns, and the steps that it takes.

    `resizes` computes the size that an image is resized to, and `sampling` the frames that are taken of a video.
    `outputs.py` has a function for each `form` of what is returned.
    `crops`, `pads` and `normalises` are whether `do_center_crop`, `do_pad` and `do_normalize` have an effect.
    `rescales_first`: bytes become floats before they are resized. `backends` are those that the class has.
    """

    defaults: Mapping[str, Any]
    resizes: windows.SizeRule = windows.by_size
    form: str = "images"
    sampling: Sampling | None = None
    crops: bool = True
    pads: bool = True
    normalises: bool = True
    rescales_first: bool = False
    backends: tuple[Backend, ...] = BACKENDS


def _kind(figures: Mapping[str, Any], size: dict[str, int] | None, **options: Any) -> Kind:
    """A kind from its mean and std, its size, its own options, and fields of `Kind`.

    One number as a size is a square, or the shorter side where the default has one.
    """
    options.setdefault("default_to_square", size is None or "shortest_edge" not in size)
    fields = {name: options.pop(name) for name in list(options) if name in Kind.__slots__}
    return Kind({**_EVERY, **figures, "size": size, **options}, **fields)


def _square(side: int) -> dict[str, int]:
    return {"height": side, "width": side}


def _shortest(side: int) -> dict[str, int]:
    return {"shortest_edge": side}


_CLIP_LIKE: Final = _kind(_CLIP, _shortest(224), crop_size=_square(224), do_center_crop=True, do_convert_rgb=True)
_DETECTION: Final = _kind(
    _IMAGENET,
    {"shortest_edge": 800, "longest_edge": 1333},
    resample=_BILINEAR,
    do_pad=True,
    resizes=windows.detection,
    form="detection",
    crops=False,
)
_SEGMENTATION: Final = _kind(
    _IMAGENET,
    {"shortest_edge": 800, "longest_edge": 1333},
    resample=_BILINEAR,
    size_divisor=32,
    resizes=windows.detection,
    form="segmentation",
    crops=False,
)


def _patches(
    figures: Mapping[str, Any], least: int, most: int, resizes: windows.SizeRule, form: str = "patches", **options: Any
) -> Kind:
    """A kind whose frames become patches, from its mean and std and the least and the most pixels."""
    return _kind(
        figures,
        {"shortest_edge": least, "longest_edge": most},
        default_to_square=form == "clips",
        do_convert_rgb=True,
        temporal_patch_size=2,
        merge_size=2,
        resizes=resizes,
        form=form,
        crops=False,
        pads=False,
        backends=("torchvision",) if form == "clips" else BACKENDS,
        **options,
    )


_SAMPLING: Final = {"fps": None, "num_frames": None, "min_frames": 4, "max_frames": 768, "video_metadata": None}
"""The options by which a video's frames are chosen."""

KINDS: Final[Mapping[str, Kind]] = {
    "CLIPImageProcessor": _CLIP_LIKE,
    "ChineseCLIPImageProcessor": _CLIP_LIKE,
    "BitImageProcessor": _CLIP_LIKE,
    "SiglipImageProcessor": _kind(_HALF, _square(224), default_to_square=False, do_convert_rgb=True),
    "ViTImageProcessor": _kind(_HALF, _square(224), resample=_BILINEAR),
    "PvtImageProcessor": _kind(_IMAGENET, _square(224)),
    "DINOv3ViTImageProcessor": _kind(
        _IMAGENET, _square(224), resample=_BILINEAR, rescales_first=True, pads=False, backends=("torchvision",)
    ),
    "DeiTImageProcessor": _kind(_HALF, _square(256), crop_size=_square(224), do_center_crop=True),
    "MobileNetV1ImageProcessor": _kind(
        _HALF, _shortest(256), crop_size=_square(224), resample=_BILINEAR, do_center_crop=True
    ),
    "ConvNextImageProcessor": _kind(_HALF, _shortest(384), crop_pct=224 / 256, resizes=windows.convnext, pads=False),
    "BlipImageProcessor": _kind(_CLIP, _square(384), do_convert_rgb=True),
    "OwlViTImageProcessor": _kind(
        _CLIP, _square(768), crop_size=_square(768), do_center_crop=False, do_convert_rgb=True
    ),
    "ChameleonImageProcessor": _kind(
        {"image_mean": (1.0, 1.0, 1.0), "image_std": (1.0, 1.0, 1.0)},
        _shortest(512),
        crop_size=_square(512),
        do_center_crop=True,
        do_convert_rgb=True,
        resample=_LANCZOS,
        rescale_factor=0.0078,
    ),
    "PoolFormerImageProcessor": _kind(
        _IMAGENET, _shortest(224), crop_size=_square(224), do_center_crop=True, crop_pct=0.9, resizes=windows.crop_pct
    ),
    "LevitImageProcessor": _kind(
        _IMAGENET, _shortest(224), crop_size=_square(224), do_center_crop=True, resizes=windows.levit
    ),
    "MobileViTImageProcessor": _kind(
        _HALF,
        _shortest(224),
        crop_size=_square(256),
        do_center_crop=True,
        do_normalize=None,
        do_flip_channel_order=True,
        normalises=False,
        pads=False,
    ),
    "EfficientNetImageProcessor": _kind(
        _HALF,
        _square(346),
        crop_size=_square(289),
        do_center_crop=False,
        rescale_offset=False,
        include_top=True,
        pads=False,
    ),
    "BeitImageProcessor": _kind(_HALF, _square(224), crop_size=_square(224), do_center_crop=False, pads=False),
    "SegformerImageProcessor": _kind(_IMAGENET, _square(512), resample=_BILINEAR, crops=False, pads=False),
    "DPTImageProcessor": _kind(
        _HALF,
        _square(384),
        do_pad=False,
        ensure_multiple_of=1,
        keep_aspect_ratio=False,
        size_divisor=None,
        resizes=windows.dpt,
    ),
    "DetrImageProcessor": _DETECTION,
    "ConditionalDetrImageProcessor": _DETECTION,
    "DeformableDetrImageProcessor": _DETECTION,
    "GroundingDinoImageProcessor": _DETECTION,
    "RTDetrImageProcessor": _kind(
        _IMAGENET,
        _square(640),
        default_to_square=False,
        resample=_BILINEAR,
        do_normalize=False,
        do_pad=False,
        resizes=windows.detection,
        form="detection",
        crops=False,
    ),
    "MaskFormerImageProcessor": _SEGMENTATION,
    "Mask2FormerImageProcessor": _SEGMENTATION,
    "SamImageProcessor": _kind(
        _IMAGENET,
        {"longest_edge": 1024},
        resample=_BILINEAR,
        do_convert_rgb=True,
        do_pad=True,
        pad_size=_square(1024),
        resizes=windows.longest_edge,
        form="original_sizes",
    ),
    "PixtralImageProcessor": _kind(
        _CLIP,
        {"longest_edge": 1024},
        do_convert_rgb=True,
        do_pad=True,
        patch_size=_square(16),
        resizes=windows.tokens,
        form="sizes",
    ),
    "Qwen2VLImageProcessor": _patches(
        _CLIP, 56 * 56, 28 * 28 * 1280, windows.pixels, patch_size=14, min_pixels=None, max_pixels=None
    ),
    "Glm4vImageProcessor": _patches(_CLIP, 112 * 112, 28 * 28 * 15000, windows.volume, patch_size=14),
    "Qwen2VLVideoProcessor": _patches(
        _CLIP,
        128 * 28 * 28,
        28 * 28 * 768,
        windows.pixels,
        "clips",
        sampling=in_whole_stacks,
        patch_size=14,
        min_pixels=None,
        max_pixels=None,
        cap_pixels_per_frame=None,
        max_video_tokens=128000,
        do_sample_frames=False,
        **_SAMPLING,
    ),
    "Qwen3VLVideoProcessor": _patches(
        _HALF,
        128 * 32 * 32,
        32 * 32 * 768,
        windows.volume,
        "clips",
        sampling=evenly,
        patch_size=16,
        cap_pixels_per_frame=None,
        max_video_tokens=768,
        do_sample_frames=True,
        **{**_SAMPLING, "fps": 2},
    ),
    "Siglip2ImageProcessor": _kind(
        _HALF,
        None,
        resample=_BILINEAR,
        patch_size=16,
        max_num_patches=256,
        resizes=windows.patches,
        form="packed_patches",
        crops=False,
        pads=False,
    ),
    "LlavaNextImageProcessor": _kind(
        _CLIP,
        _shortest(224),
        crop_size=_square(224),
        do_center_crop=True,
        do_convert_rgb=True,
        do_pad=True,
        image_grid_pinpoints=((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008)),
        form="tiles",
    ),
    "GotOcr2ImageProcessor": _kind(
        _CLIP,
        _square(384),
        do_convert_rgb=True,
        crop_to_patches=False,
        min_patches=1,
        max_patches=12,
        form="grid",
        crops=False,
        pads=False,
    ),
    "Idefics2ImageProcessor": _kind(
        _HALF,
        {"shortest_edge": 378, "longest_edge": 980},
        resample=_BILINEAR,
        do_convert_rgb=True,
        do_pad=True,
        do_image_splitting=False,
        resizes=windows.within,
        form="nested",
        crops=False,
    ),
    "Gemma3ImageProcessor": _kind(
        _HALF,
        _square(224),
        resample=_BILINEAR,
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
"""The processors that are reproduced, by the name of transformers' class for torchvision."""

_REFUSED: Final[Mapping[str, str]] = {
    "Owlv2ImageProcessor": "it blurs and resizes floats, whose bits depend on the processor that torch runs on: use "
    "transformers' own"
}
"""Processors whose bits cannot be given, and why."""

_NAMED: Final = ("image_processor_type", "video_processor_type", "feature_extractor_type")
"""Where a dict has the name of the class."""

_CONFIG: Final = "preprocessor_config.json"
_COMBINED: Final = "processor_config.json"

_COUNTS: Final[Mapping[str, tuple[int, int]]] = {
    **dict.fromkeys(("patch_size", "merge_size", "temporal_patch_size", "max_num_patches"), (1, 1 << 20)),
    "max_video_tokens": (1, 1 << 40),
    **dict.fromkeys(("num_frames", "min_frames", "max_frames"), (1, 1 << 20)),
    **dict.fromkeys(("min_pixels", "max_pixels"), (1, 1 << 40)),
    **dict.fromkeys(("ensure_multiple_of", "pan_and_scan_min_crop_size"), (1, 1 << 16)),
    **dict.fromkeys(("min_patches", "max_patches", "pan_and_scan_max_num_crops"), (1, 1 << 12)),
    "size_divisor": (0, 1 << 16),
}
"""The least and the most of options that count."""

_NEEDED: Final = (
    *("patch_size", "merge_size", "temporal_patch_size", "max_num_patches", "ensure_multiple_of"),
    *("min_patches", "max_patches"),
)
"""Counts that None does not leave out, where a class has them."""

_LARGEST: Final = 2.0**128
"""Above every float32."""

_FIGURES: Final[Mapping[str, tuple[float, float]]] = {
    **dict.fromkeys(("image_mean", "image_std", "rescale_factor"), (-_LARGEST, _LARGEST)),
    "crop_pct": (2.0**-32, _LARGEST),
    "fps": (0.0, MOST_FRAMES),
    "pan_and_scan_min_ratio_to_activate": (0.0, _LARGEST),
}
"""What numbers have to be above, and below."""

_OF_CHANNELS: Final = ("image_mean", "image_std")
"""The options with a number for each channel, or with one."""


def _are_sizes(points: Any) -> bool:
    return isinstance(points, (list, tuple)) and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 and all(map(is_count, pair)) for pair in points
    )


@dataclass(frozen=True, slots=True)
class Declared:
    """The options of a processor and its class's name; `backend` is None where the source has none."""

    name: str
    values: Mapping[str, Any]
    backend: Backend | None = None

    def __post_init__(self) -> None:
        """Raise `LayoutError` for numbers and switches that are none; sizes are checked where they are used.

        Numbers of NumPy become Python's: products of narrow ones would wrap.
        """
        numbers: dict[str, Any] = {}
        for name, (least, most) in _COUNTS.items():
            value: Any = self.values.get(name)
            default = self.kind.defaults.get(name)
            is_left_out = value is None and (default is None or name not in _NEEDED)
            if is_left_out or isinstance(default, Mapping):
                continue
            if not (is_count(value, least) and value <= most):
                raise LayoutError(f"{name}={value!r} must be a whole number from {least} to {most}.")
            numbers[name] = int(value)
        for name, (low, high) in _FIGURES.items():
            stated = self.values.get(name)
            if stated is None:
                continue
            is_listed = name in _OF_CHANNELS and isinstance(stated, (list, tuple)) and stated
            figures = stated if is_listed else [stated]
            if not all(is_finite(figure) and low < float(figure) < high for figure in figures):
                raise LayoutError(f"{name}={stated!r} must be finite numbers above {low:g} and below {high:g}.")
            plain = [int(figure) if isinstance(figure, Integral) else float(figure) for figure in figures]
            numbers[name] = type(stated)(plain) if is_listed else plain[0]
        object.__setattr__(self, "values", {**self.values, **numbers})
        for name, default in self.kind.defaults.items():
            is_switch = type(default) is bool or name.startswith("do_") or name == "cap_pixels_per_frame"
            if is_switch and self.values[name] is not None:
                truth(name, self.values[name])
        points = self.values.get("image_grid_pinpoints", ())
        if not _are_sizes(points):
            raise LayoutError(f"image_grid_pinpoints={points!r} must be pairs of a height and a width, each from 1 on.")

    @property
    def kind(self) -> Kind:
        """The processor's class."""
        return KINDS[self.name]


def declared_by(source: object) -> Declared:
    """The declaration of an image processor of transformers, of its dict, or of a file or its folder.

    Raises `LayoutError` for what is none, and for a class that is not reproduced.
    """
    if isinstance(source, Mapping):
        return _of_mapping(source)
    if isinstance(source, (str, os.PathLike)):
        return _of_mapping(_read(Path(source)))
    to_dict = getattr(source, "to_dict", None)
    if isinstance(source, type) or not callable(to_dict):
        raise LayoutError(
            f"source={source!r} is no image processor of transformers, no dict of one, and no path of a {_CONFIG}."
        )
    backend = getattr(source, "backend", None)
    return _of_mapping(to_dict(), backend if backend in BACKENDS else None, nulls=True)


def _read(path: Path) -> Mapping[str, Any]:
    """The dict in a file, or in the file of a folder."""
    if path.is_dir():
        combined = path / _COMBINED
        if combined.is_file():
            nested = _loaded(combined).get("image_processor")
            if isinstance(nested, Mapping):
                return nested
        path /= _CONFIG
    if not path.is_file():
        raise LayoutError(
            f"source={str(path)!r} is no file: give a {_CONFIG}, or the folder of a model that has one on this machine."
        )
    content = _loaded(path)
    nested = content.get("image_processor")
    return nested if isinstance(nested, Mapping) else content


def _loaded(path: Path) -> Mapping[str, Any]:
    import json

    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise LayoutError(f"source={str(path)!r} is not JSON: {problem}.") from None
    if not isinstance(content, Mapping):
        raise LayoutError(f"source={str(path)!r} holds a {type(content).__name__}; a {_CONFIG} is an object.")
    return content


def _of_mapping(values: Mapping[str, Any], backend: Backend | None = None, *, nulls: bool = False) -> Declared:
    """The declaration of a dict; None stands for the default of the class, unless it may be an option (`nulls`)."""
    stated = next((values[key] for key in _NAMED if values.get(key)), None)
    if not isinstance(stated, str):
        raise LayoutError(
            "source has no 'image_processor_type', the name of the processor's class, such as 'CLIPImageProcessor'."
        )
    name = stated.replace("FeatureExtractor", "ImageProcessor")
    for ending in ("Fast", "Pil"):
        name = name.removesuffix(ending)
    if name in _REFUSED:
        raise LayoutError(f"{name} is not reproduced: {_REFUSED[name]}.")
    if name not in KINDS:
        from difflib import get_close_matches

        near = get_close_matches(name, KINDS, 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise LayoutError(f"{name} is not reproduced; there are {', '.join(sorted(KINDS))}.{meant}")
    kind = KINDS[name]
    taken = {**kind.defaults, **{key: value for key, value in values.items() if key in kind.defaults}}
    if not nulls:
        taken = {key: kind.defaults[key] if value is None else value for key, value in taken.items()}
    return Declared(name, _adapted(name, taken, values), backend)


def _adapted(name: str, taken: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The options under their present names, where older files have others."""
    kind = KINDS[name]
    if kind.resizes is windows.detection and isinstance(taken["size"], int):
        most = values.get("max_size", 1333 if kind is _DETECTION else None)
        taken["size"] = {"shortest_edge": taken["size"], **({} if most is None else {"longest_edge": most})}
    if kind.form == "detection" and "do_pad" not in values and "pad_and_return_pixel_mask" in values:
        taken["do_pad"] = values["pad_and_return_pixel_mask"]
    if name == "OwlViTImageProcessor" and "rescale" in values:
        taken["do_rescale"] = values["rescale"]
    if name == "CLIPImageProcessor" and values.get("use_square_size"):
        taken["size"] = _square(kind.defaults["size"]["shortest_edge"])
    return taken
