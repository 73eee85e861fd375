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
from .kinds import detectors, encoders, language_models, tiles, videos
from .kinds.kind import BACKENDS, Kind, shortest, square
from .normalising import Backend
from .sampling import MOST_FRAMES
from .sizes import is_count, is_finite

KINDS: Final[Mapping[str, Kind]] = {
    **encoders.KINDS,
    **detectors.KINDS,
    **language_models.KINDS,
    **tiles.KINDS,
    **videos.KINDS,
}
"""The processors that are reproduced, by the name of transformers' class for torchvision."""

_UNFILTERED: Final = "it resizes floats from two pixels each, without a filter: use transformers' own"
_SUMMED: Final = (
    "it divides by a mean and a std of each image, sums whose order torch and NumPy choose: use transformers' own"
)

_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("RfDetrImageProcessor", "DepthProImageProcessor", "ZoeDepthImageProcessor", "UVDocImageProcessor"), _UNFILTERED
    ),
    **dict.fromkeys(("Pix2StructImageProcessor", "Kosmos2_5ImageProcessor"), _SUMMED),
    "VitMatteImageProcessor": "it takes a trimap beside each image: use transformers' own",
    "Owlv2ImageProcessor": "it blurs and resizes floats, whose bits depend on the processor that torch runs on: use "
    "transformers' own",
    "IdeficsImageProcessor": "it returns an array in place of a dict: 'BlipImageProcessor' with its size, mean and std "
    "has its pixels",
    **dict.fromkeys(
        (
            *("Molmo2ImageProcessor", "Molmo2VideoProcessor", "PPOCRV6SmallRecImageProcessor"),
            *(f"PPDocLayout{version}ImageProcessor" for version in ("V2", "V3", "V4")),
        ),
        "it resizes floats without antialias, by loops of torch that are not here: use transformers' own",
    ),
    "SLANeXtImageProcessor": "it resizes by a fixed-point arithmetic of its own: use transformers' own",
    "VitPoseImageProcessor": "it cuts boxes of people out of images by SciPy: use transformers' own",
    "TimmWrapperImageProcessor": "timm makes its transforms: use transformers' own",
    "Inkling2ImageProcessor": "it lays transparent images over a chequered ground: use transformers' own",
}
"""Processors whose bits cannot be given, and why."""

_NAMED: Final = ("image_processor_type", "feature_extractor_type", "video_processor_type")
"""Where a dict has the name of the class."""

_UNLISTED: Final = ("return_row_col_info", "font")
"""Options of an object that its dict leaves out, or has without their folder."""

_CONFIG: Final = "preprocessor_config.json"
_VIDEO_CONFIG: Final = "video_preprocessor_config.json"
_COMBINED: Final = "processor_config.json"

_COUNTS: Final[Mapping[str, tuple[int, int]]] = {
    **dict.fromkeys(("patch_size", "merge_size", "temporal_patch_size", "max_num_patches"), (1, 1 << 20)),
    **dict.fromkeys(("patch_expand_factor", "min_image_tokens", "max_image_tokens", "max_side"), (1, 1 << 20)),
    **dict.fromkeys(("min_size", "spatial_factor", "max_soft_tokens", "pooling_kernel_size"), (1, 1 << 16)),
    **dict.fromkeys(("scale_resolution", "encoder_patch_size", "downsample_factor"), (1, 1 << 16)),
    **dict.fromkeys(("max_slice_nums", "min_tiles", "max_tiles"), (1, 1 << 10)),
    "max_video_tokens": (1, 1 << 40),
    "resize_short": (1, 1 << 20),
    **dict.fromkeys(("num_frames", "min_frames", "max_frames"), (1, 1 << 20)),
    **dict.fromkeys(("min_pixels", "max_pixels"), (1, 1 << 40)),
    **dict.fromkeys(("ensure_multiple_of", "pan_and_scan_min_crop_size"), (1, 1 << 16)),
    **dict.fromkeys(("min_patches", "max_patches", "pan_and_scan_max_num_crops"), (1, 1 << 12)),
    **dict.fromkeys(("min_num_patches", "max_model_len"), (1, 1 << 20)),
    **dict.fromkeys(("max_image_tiles", "max_num_tiles", "dynamic_hd"), (1, 1 << 12)),
    **dict.fromkeys(("tile_size", "min_image_size", "max_image_size", "maximum_pad_value"), (1, 1 << 16)),
    "dense_max_patches": (0, 1 << 12),
    "size_divisor": (0, 1 << 16),
    "max_duration": (0, MOST_FRAMES),
}
"""The least and the most of options that count."""

_NEEDED: Final = (
    *("min_frames", "max_frames", "max_duration", "max_num_frames", "stack_frames"),
    *("max_video_frame_tokens", "max_patches", "video_target_num_patches", "max_image_width"),
    *("patch_size", "merge_size", "temporal_patch_size", "max_num_patches", "ensure_multiple_of"),
    *("min_patches", "max_patches", "patch_expand_factor", "max_image_tokens", "min_image_tokens"),
    *("min_size", "spatial_factor", "max_soft_tokens", "pooling_kernel_size"),
    *("scale_resolution", "encoder_patch_size", "downsample_factor", "max_slice_nums", "min_tiles", "max_tiles"),
    *("min_num_patches", "max_model_len"),
    *("max_image_tiles", "max_num_tiles", "tile_size", "maximum_pad_value", "dense_max_patches"),
    *("min_image_size", "max_image_size", "dynamic_hd"),
)
"""Counts that None does not leave out, where a class has them."""

_LARGEST: Final = 2.0**128
"""Above every float32."""

_FIGURES: Final[Mapping[str, tuple[float, float]]] = {
    **dict.fromkeys(("image_mean", "image_std", "rescale_factor"), (-_LARGEST, _LARGEST)),
    **dict.fromkeys(("high_res_image_mean", "high_res_image_std", "norm_mean", "norm_std"), (-_LARGEST, _LARGEST)),
    "crop_pct": (2.0**-32, _LARGEST),
    "max_pixels_tolerance": (0.0, _LARGEST),
    "downsample_ratio": (2.0**-16, 2.0),
    "rescale_image_frac": (0.0, 2.0**16),
    "fps": (0.0, MOST_FRAMES),
    "pan_and_scan_min_ratio_to_activate": (0.0, _LARGEST),
    **dict.fromkeys(("dense_max_scale", "dense_min_aspect", "dense_max_aspect"), (-1.0, _LARGEST)),
}
"""What numbers have to be above, and below."""

_OF_CHANNELS: Final = (
    *("image_mean", "image_std", "high_res_image_mean", "high_res_image_std"),
    *("norm_mean", "norm_std"),
)
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
        for name, (least, most) in {**_COUNTS, **self.kind.counts}.items():
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
            if name == "initial_shift":  # True, or a number
                continue
            is_switch = type(default) is bool or name.startswith("do_") or name == "cap_pixels_per_frame"
            if is_switch and self.values[name] is not None:
                truth(name, self.values[name])
        for name in ("image_grid_pinpoints", "split_resolutions"):
            points = self.values.get(name, ())
            if not _are_sizes(points):
                raise LayoutError(f"{name}={points!r} must be pairs of a height and a width, each from 1 on.")

    @property
    def kind(self) -> Kind:
        """The processor's class."""
        return KINDS[self.name]

    def values_of(self, backend: Backend) -> Mapping[str, Any]:
        """The options as a backend takes them."""
        return {**self.values, **self.kind.overrides.get(backend, {})}


def declared_by(source: object, *, is_video: bool = False) -> Declared:
    """The declaration of an image processor of transformers, of its dict, or of a file or its folder.

    With `is_video` it is that of a video processor. Raises `LayoutError` for what is none, and for a class that is not
    reproduced.
    """
    what, config = ("video", _VIDEO_CONFIG) if is_video else ("image", _CONFIG)
    if isinstance(source, Mapping):
        return _of_mapping(source, is_video=is_video)
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        content = _read(path, f"{what}_processor", config)
        font = content.get("font")
        if isinstance(font, str):  # the name of a file beside this one
            beside = (path if path.is_dir() else path.parent) / font
            content = {**content, "font": str(beside) if beside.is_file() else font}
        return _of_mapping(content, is_video=is_video)
    to_dict = getattr(source, "to_dict", None)
    if isinstance(source, type) or not callable(to_dict):
        raise LayoutError(
            f"source={source!r} is no {what} processor of transformers, no dict of one, and no path of a {config}."
        )
    backend = getattr(source, "backend", None)
    unlisted = {name: getattr(source, name) for name in _UNLISTED if hasattr(source, name)}
    return _of_mapping(
        {**to_dict(), **unlisted}, backend if backend in BACKENDS else None, nulls=True, is_video=is_video
    )


def _read(path: Path, key: str, config: str) -> Mapping[str, Any]:
    """The dict in a file, or in the file of a folder; `key` is where a combined file has it."""
    if path.is_dir():
        combined = path / _COMBINED
        if combined.is_file():
            nested = _loaded(combined).get(key)
            if isinstance(nested, Mapping):
                return nested
        folder = path
        path = folder / config
        if not path.is_file() and (folder / _CONFIG).is_file():
            path = folder / _CONFIG
    if not path.is_file():
        raise LayoutError(
            f"source={str(path)!r} is no file: give a {config}, or the folder of a model that has one on this machine."
        )
    content = _loaded(path)
    nested = content.get(key)
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


def _of_mapping(
    values: Mapping[str, Any], backend: Backend | None = None, *, nulls: bool = False, is_video: bool = False
) -> Declared:
    """The declaration of a dict; None stands for the default of the class, unless it may be an option (`nulls`)."""
    stated = next((values[key] for key in (_NAMED[::-1] if is_video else _NAMED) if values.get(key)), None)
    if not isinstance(stated, str):
        named, example = ("video_processor_type", "Qwen2VL") if is_video else ("image_processor_type", "CLIP")
        what = "VideoProcessor" if is_video else "ImageProcessor"
        raise LayoutError(f"source has no {named!r}, the name of the processor's class, such as '{example}{what}'.")
    name = stated.replace("FeatureExtractor", "ImageProcessor")
    for ending in ("Fast", "Pil"):
        name = name.removesuffix(ending)
    if is_video:  # as in transformers, where older models have one file for both
        name = name.replace("ImageProcessor", "VideoProcessor")
    if name in _REFUSED:
        raise LayoutError(f"{name} is not reproduced: {_REFUSED[name]}.")
    known = [one for one in KINDS if KINDS[one].is_video or not is_video]
    if name not in known:
        if stated in KINDS:
            raise LayoutError(f"{stated} is an image processor: sg.image_processor(source) takes it.")
        from difflib import get_close_matches

        near = get_close_matches(name, known, 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise LayoutError(f"{name} is not reproduced; there are {', '.join(sorted(known))}.{meant}")
    kind = KINDS[name]
    stated_options = {key: value for key, value in values.items() if key in kind.defaults and key not in kind.called}
    taken = {**kind.defaults, **stated_options}
    if not nulls:
        taken = {key: kind.defaults[key] if value is None else value for key, value in taken.items()}
        if name == "VJEPA2VideoProcessor":  # its class computes the size, whatever is declared
            crop = windows.size_named("crop_size", taken["crop_size"])
            taken["size"] = shortest(int(crop.get("height", 0) * 256 / 224))
        sampling = values.get("video_sampling")
        if name == "SmolVLMVideoProcessor" and isinstance(sampling, Mapping):  # where older files have three options
            taken |= {"num_frames": sampling.get("max_frames"), "fps": sampling.get("fps")}
            taken["size"] = values.get("size") or sampling.get("video_size") or taken["size"]
    return Declared(name, _adapted(name, taken, values), backend)


def _adapted(name: str, taken: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The options under their present names, where older files have others."""
    kind = KINDS[name]
    if kind.resizes is windows.detection and isinstance(taken["size"], int):
        most = values.get("max_size", 1333 if kind is detectors.DETECTION else None)
        taken["size"] = {"shortest_edge": taken["size"], **({} if most is None else {"longest_edge": most})}
    if kind.form == "detection" and "do_pad" not in values and "pad_and_return_pixel_mask" in values:
        taken["do_pad"] = values["pad_and_return_pixel_mask"]
    if name == "OwlViTImageProcessor" and "rescale" in values:
        taken["do_rescale"] = values["rescale"]
    if name == "MiniMaxM3VLImageProcessor" and taken["size"] == [672, 672]:
        taken["size"] = kind.defaults["size"]
    if name == "NemotronH_Omni_Reasoning_V3ImageProcessor":
        taken |= {
            f"image_{figure}": values[f"norm_{figure}"]
            for figure in ("mean", "std")
            if values.get(f"norm_{figure}") is not None and values.get(f"image_{figure}") is None
        }
    if name == "CLIPImageProcessor" and values.get("use_square_size"):
        taken["size"] = square(kind.defaults["size"]["shortest_edge"])
    return taken
