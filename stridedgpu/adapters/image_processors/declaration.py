"""What an image processor of transformers declares: read from the object, its dict, or a `preprocessor_config.json`.

`KINDS` has the defaults of each class; a dict leaves out what is one. Transformers itself is not imported.
Source: transformers 5.24, models/*/image_processing_*.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import inf, isfinite
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final, Literal

from stridedgpu.values.errors import LayoutError

from .normalising import Backend

__all__ = ["BACKENDS", "KINDS", "Declared", "Kind", "declared_by", "is_count"]

BACKENDS: Final[tuple[Backend, ...]] = ("torchvision", "pil")

Form = Literal[
    "images", "detection", "segmentation", "sizes", "patches", "packed_patches", "tiles", "grid", "crops", "nested"
]
"""What a processor returns; `outputs.py` has a function for each."""

Resizes = Literal[
    "size",
    "crop_pct",
    "convnext",
    "levit",
    "dpt",
    "detection",
    "longest_edge",
    "tokens",
    "pixels",
    "volume",
    "patches",
    "within",
]
"""The rule of the new size; `windows.py` computes each."""

_IMAGENET: Final = {"image_mean": (0.485, 0.456, 0.406), "image_std": (0.229, 0.224, 0.225)}
_HALF: Final = {"image_mean": (0.5, 0.5, 0.5), "image_std": (0.5, 0.5, 0.5)}
_CLIP: Final = {
    "image_mean": (0.48145466, 0.4578275, 0.40821073),
    "image_std": (0.26862954, 0.26130258, 0.27577711),
}
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
    """A class of image processors: its defaults, its rule of sizes, what it returns, and the steps that it takes.

    `crops`, `pads` and `normalises` are whether `do_center_crop`, `do_pad` and `do_normalize` have an effect.
    """

    defaults: Mapping[str, Any]
    resizes: Resizes = "size"
    form: Form = "images"
    crops: bool = True
    pads: bool = True
    normalises: bool = True


def _kind(figures: Mapping[str, Any], size: dict[str, int] | None, **options: Any) -> Kind:
    """A kind from its mean and std, its size, its own options, and fields of `Kind`."""
    fields = {name: options.pop(name) for name in list(options) if name in Kind.__slots__}
    return Kind({**_EVERY, **figures, "size": size, **options}, **fields)


def _square(side: int) -> dict[str, int]:
    return {"height": side, "width": side}


def _shortest(side: int) -> dict[str, int]:
    return {"shortest_edge": side}


_CLIP_LIKE: Final = _kind(
    _CLIP, _shortest(224), default_to_square=False, crop_size=_square(224), do_center_crop=True, do_convert_rgb=True
)
_DETECTION: Final = _kind(
    _IMAGENET,
    {"shortest_edge": 800, "longest_edge": 1333},
    default_to_square=False,
    resample=_BILINEAR,
    do_pad=True,
    resizes="detection",
    form="detection",
    crops=False,
)
_SEGMENTATION: Final = _kind(
    _IMAGENET,
    {"shortest_edge": 800, "longest_edge": 1333},
    default_to_square=False,
    resample=_BILINEAR,
    size_divisor=32,
    resizes="detection",
    form="segmentation",
    crops=False,
)

_VOLUME: Final = _kind(
    _CLIP,
    {"shortest_edge": 112 * 112, "longest_edge": 28 * 28 * 15000},
    default_to_square=False,
    do_convert_rgb=True,
    patch_size=14,
    temporal_patch_size=2,
    merge_size=2,
    resizes="volume",
    form="patches",
    crops=False,
    pads=False,
)

KINDS: Final[Mapping[str, Kind]] = {
    "CLIPImageProcessor": _CLIP_LIKE,
    "ChineseCLIPImageProcessor": _CLIP_LIKE,
    "BitImageProcessor": _CLIP_LIKE,
    "SiglipImageProcessor": _kind(_HALF, _square(224), default_to_square=False, do_convert_rgb=True),
    "ViTImageProcessor": _kind(_HALF, _square(224), resample=_BILINEAR),
    "PvtImageProcessor": _kind(_IMAGENET, _square(224)),
    "DeiTImageProcessor": _kind(_HALF, _square(256), crop_size=_square(224), do_center_crop=True),
    "MobileNetV1ImageProcessor": _kind(
        _HALF,
        _shortest(256),
        default_to_square=False,
        crop_size=_square(224),
        resample=_BILINEAR,
        do_center_crop=True,
    ),
    "ConvNextImageProcessor": _kind(
        _HALF, _shortest(384), default_to_square=False, crop_pct=224 / 256, resizes="convnext", pads=False
    ),
    "BlipImageProcessor": _kind(_CLIP, _square(384), do_convert_rgb=True),
    "OwlViTImageProcessor": _kind(
        _CLIP, _square(768), crop_size=_square(768), do_center_crop=False, do_convert_rgb=True
    ),
    "ChameleonImageProcessor": _kind(
        {"image_mean": (1.0, 1.0, 1.0), "image_std": (1.0, 1.0, 1.0)},
        _shortest(512),
        default_to_square=False,
        crop_size=_square(512),
        do_center_crop=True,
        do_convert_rgb=True,
        resample=_LANCZOS,
        rescale_factor=0.0078,
    ),
    "PoolFormerImageProcessor": _kind(
        _IMAGENET,
        _shortest(224),
        default_to_square=False,
        crop_size=_square(224),
        do_center_crop=True,
        crop_pct=0.9,
        resizes="crop_pct",
    ),
    "LevitImageProcessor": _kind(
        _IMAGENET,
        _shortest(224),
        default_to_square=False,
        crop_size=_square(224),
        do_center_crop=True,
        resizes="levit",
    ),
    "MobileViTImageProcessor": _kind(
        _HALF,
        _shortest(224),
        default_to_square=False,
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
        resizes="dpt",
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
        resizes="detection",
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
        resizes="longest_edge",
        form="sizes",
    ),
    "PixtralImageProcessor": _kind(
        _CLIP,
        {"longest_edge": 1024},
        do_convert_rgb=True,
        do_pad=True,
        patch_size=_square(16),
        resizes="tokens",
        form="sizes",
    ),
    "Qwen2VLImageProcessor": _kind(
        _CLIP,
        {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280},
        default_to_square=False,
        do_convert_rgb=True,
        patch_size=14,
        temporal_patch_size=2,
        merge_size=2,
        min_pixels=None,
        max_pixels=None,
        resizes="pixels",
        form="patches",
        crops=False,
        pads=False,
    ),
    "Glm4vImageProcessor": _VOLUME,
    "Siglip2ImageProcessor": _kind(
        _HALF,
        None,
        resample=_BILINEAR,
        patch_size=16,
        max_num_patches=256,
        resizes="patches",
        form="packed_patches",
        crops=False,
        pads=False,
    ),
    "LlavaNextImageProcessor": _kind(
        _CLIP,
        _shortest(224),
        default_to_square=False,
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
        default_to_square=False,
        resample=_BILINEAR,
        do_convert_rgb=True,
        do_pad=True,
        do_image_splitting=False,
        resizes="within",
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
    "DINOv3ViTImageProcessor": "it resizes floats, whose bits depend on the processor that torch runs on: resize bytes "
    "first, or use transformers' own",
    "Owlv2ImageProcessor": "it blurs and resizes floats, whose bits depend on the processor that torch runs on: use "
    "transformers' own",
}
"""Processors whose bits cannot be given, and why."""

_CONFIG: Final = "preprocessor_config.json"
_COMBINED: Final = "processor_config.json"


_COUNTS: Final[Mapping[str, tuple[int, int]]] = {
    **dict.fromkeys(("patch_size", "merge_size", "temporal_patch_size", "max_num_patches"), (1, 1 << 20)),
    **dict.fromkeys(("min_pixels", "max_pixels"), (1, 1 << 40)),
    **dict.fromkeys(("ensure_multiple_of", "pan_and_scan_min_crop_size"), (1, 1 << 16)),
    **dict.fromkeys(("min_patches", "max_patches", "pan_and_scan_max_num_crops"), (1, 1 << 12)),
    "size_divisor": (0, 1 << 16),
}
"""The least and the most of options that count."""

_FIGURES: Final[Mapping[str, float]] = {
    "image_mean": -inf,
    "image_std": -inf,
    "rescale_factor": -inf,
    "crop_pct": 0.0,
    "pan_and_scan_min_ratio_to_activate": 0.0,
}
"""What numbers have to be above."""


def _is_finite(figure: Any) -> bool:
    """Whether it is a number of Python's or NumPy's that is finite as a float."""
    try:
        return type(figure) is not bool and isinstance(figure, Real) and isfinite(figure)
    except OverflowError:
        return False


def is_count(value: Any, least: int = 1) -> bool:
    """Whether it is a whole number of Python's or NumPy's from `least` on."""
    return type(value) is not bool and isinstance(value, Integral) and int(value) >= least


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
        """Raise `LayoutError` for numbers that are none; sizes are checked where they are used."""
        for name, (least, most) in _COUNTS.items():
            value = self.values.get(name)
            if value is None or (isinstance(value, Mapping) and name == "patch_size"):
                continue
            if not (is_count(value, least) and value <= most):
                raise LayoutError(f"{name}={value!r} must be a whole number from {least} to {most}.")
        for name, bound in _FIGURES.items():
            stated = self.values.get(name)
            if stated is None:
                continue
            figures = stated if isinstance(stated, (list, tuple)) and stated else [stated]
            if not all(_is_finite(figure) and figure > bound for figure in figures):
                above = "" if bound == -inf else f" above {bound:g}"
                raise LayoutError(f"{name}={stated!r} must be finite numbers{above}.")
        points = self.values.get("image_grid_pinpoints")
        if points is not None and not _are_sizes(points):
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
    found = _loaded(path)
    nested = found.get("image_processor")
    return nested if isinstance(nested, Mapping) else found


def _loaded(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise LayoutError(f"source={str(path)!r} is not JSON: {problem}.") from None
    if not isinstance(found, Mapping):
        raise LayoutError(f"source={str(path)!r} holds a {type(found).__name__}; a {_CONFIG} is an object.")
    return found


def _of_mapping(values: Mapping[str, Any], backend: Backend | None = None, *, nulls: bool = False) -> Declared:
    """The declaration of a dict; None stands for the default of the class, unless it may be an option (`nulls`)."""
    stated = values.get("image_processor_type") or values.get("feature_extractor_type")
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
    if kind.resizes == "detection" and isinstance(taken["size"], int):
        most = values.get("max_size", 1333 if kind is _DETECTION else None)
        taken["size"] = {"shortest_edge": taken["size"], **({} if most is None else {"longest_edge": most})}
    if kind.form == "detection" and "do_pad" not in values and "pad_and_return_pixel_mask" in values:
        taken["do_pad"] = values["pad_and_return_pixel_mask"]
    if name == "OwlViTImageProcessor" and "rescale" in values:
        taken["do_rescale"] = values["rescale"]
    if name == "CLIPImageProcessor" and values.get("use_square_size"):
        taken["size"] = _square(kind.defaults["size"]["shortest_edge"])
    return taken
