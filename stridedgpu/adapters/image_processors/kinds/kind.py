"""`Kind`: a class of image or video processors, as a value; the rows of the other modules are made with `kind`.

Source: transformers 5.24, models/*/image_processing_*.py and video_processing_*.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from stridedgpu.adapters.image_processors import windows
from stridedgpu.adapters.image_processors.normalising import Backend
from stridedgpu.adapters.image_processors.sampling import Sampling

BACKENDS: Final[tuple[Backend, ...]] = ("torchvision", "pil")

IMAGENET: Final = {"image_mean": (0.485, 0.456, 0.406), "image_std": (0.229, 0.224, 0.225)}
HALF: Final = {"image_mean": (0.5, 0.5, 0.5), "image_std": (0.5, 0.5, 0.5)}
CLIP: Final = {"image_mean": (0.48145466, 0.4578275, 0.40821073), "image_std": (0.26862954, 0.26130258, 0.27577711)}
LANCZOS, BILINEAR, BICUBIC = 1, 2, 3

_EVERY: Final[dict[str, Any]] = {
    "do_resize": True,
    "size": None,
    "default_to_square": True,
    "resample": BICUBIC,
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
    """A class of image or video processors: its defaults, its rules, what it returns, and the steps that it takes.

    `resizes` computes the size that an image is resized to, and `sampling` the frames that are taken of a video.
    `forms/` has a function for each `form` of what is returned. `grids` computes the tiles that an image is cut into.
    `canvas` puts a resized image into a larger window, whose other pixels are zeros before the arithmetic.
    `axes` is the order of the axes of patches: rows and columns of merged windows (H, W), those inside a window (h, w),
    channels, time, rows and columns of a patch (c, t, y, x). Axes that are written as one word are one of the result.
    `crops`, `pads` and `normalises` are whether `do_center_crop`, `do_pad` and `do_normalize` have an effect.
    `overrides` are the options that have one value with a backend, whatever is declared. `counts` are the least and the
    most of options that others bound otherwise. `floats` are the backends whose results are floats even where nothing
    is computed. `alone`: the images of a call without lists are lists of one image each. `rescales_first`: bytes become
    floats before they are resized; with `resizes_floats` they keep their values. `halves`: arithmetic in bfloat16.
    `flips`: the three channels are reversed, and `converts` is whether `do_convert_rgb` has an effect, on arrays where
    it also `converts_arrays`. `broadcasts`: by torchvision, three means make three channels of a grey image. `only` has
    the one value of an option that is reproduced, and why. `called` are options that a call alone states. `backends`
    are those that the class has; of those that have one, "pil" is that of classes without backends, which use Pillow.

    `own` are options that a call does not change, though it has them. Of videos `key` names the pixels, which with
    `is_last` come behind the metadata. `offsets`: 1 is subtracted from what is rescaled.
    """

    defaults: Mapping[str, Any]
    resizes: windows.SizeRule = windows.by_size
    canvas: windows.Canvas | None = None
    form: str = "images"
    axes: str = "HWhw ctyx"
    grids: windows.GridRule = windows.nearest_grid
    sampling: Sampling | None = None
    crops: bool = True
    pads: bool = True
    normalises: bool = True
    overrides: Mapping[Backend, Mapping[str, Any]] = field(default_factory=dict)
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    floats: tuple[Backend, ...] = ()
    alone: bool = False
    rescales_first: bool = False
    flips: bool = False
    converts: bool = True
    converts_arrays: bool = True
    broadcasts: bool = False
    only: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    resizes_floats: bool = False
    halves: bool = False
    called: tuple[str, ...] = ()
    backends: tuple[Backend, ...] = BACKENDS
    key: str = "pixel_values_videos"
    is_last: bool = False
    own: tuple[str, ...] = ()
    offsets: bool = False

    @property
    def is_video(self) -> bool:
        """Whether it processes videos, of which frames can be sampled."""
        return self.sampling is not None


def kind(figures: Mapping[str, Any], size: dict[str, int] | None, **options: Any) -> Kind:
    """A kind from its mean and std, its size, its own options, and fields of `Kind`.

    One number as a size is a square, or the shorter side where the default has one.
    """
    options.setdefault("default_to_square", size is None or "shortest_edge" not in size)
    fields = {name: options.pop(name) for name in list(options) if name in Kind.__slots__}
    return Kind({**_EVERY, **figures, "size": size, **options}, **fields)


def square(side: int) -> dict[str, int]:
    """The size of a square."""
    return {"height": side, "width": side}


def shortest(side: int) -> dict[str, int]:
    """The size whose shorter side is stated."""
    return {"shortest_edge": side}


def of_patches(
    figures: Mapping[str, Any], least: int, most: int, resizes: windows.SizeRule, form: str = "patches", **options: Any
) -> Kind:
    """A kind whose frames become patches, from its mean and std and the least and the most pixels."""
    return kind(
        figures,
        {"shortest_edge": least, "longest_edge": most},
        default_to_square=form == "clips",
        do_convert_rgb=True,
        resizes=resizes,
        form=form,
        crops=False,
        pads=False,
        **{
            "temporal_patch_size": 2,
            "merge_size": 2,
            "floats": ("pil",),
            "backends": ("torchvision",) if form == "clips" else BACKENDS,
            **options,
        },
    )
