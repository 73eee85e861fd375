"""The options of `stridedgpu preprocess` that declare its step, a `Preprocess`: windows, pixels, values, chance."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import Any, Final, get_args

from stridedgpu.exchange.exports import numpy_dtype
from stridedgpu.operations.borders import BORDERS
from stridedgpu.operations.options import DEFAULT_ALIGNMENT
from stridedgpu.preprocess.declaration import MODES, Center
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.typing import Interpolation
from stridedgpu.values.arithmetic import ARITHMETIC_RULES, NORMALISATIONS
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import StridedGpuError
from stridedgpu.values.interpolation import PASSES

from .console import argument, digits, figures

_INTEGERS: Final = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_DTYPES: Final = ("float16", "bfloat16", "float32", "float64", *_INTEGERS)
_DEFAULT_SEED: Final = 0

_FIELDS: Final = (
    *("layout", "dtype", "normalize", "mean", "std", "maximum", "arithmetic", "clip", "gain", "offset"),
    *("pad", "interpolation", "passes", "center", "fill"),
)
"""Options that are fields of the step as they are."""

_EIGHT_BITS: Final = 255
_SIXTEEN_BITS: Final = 65535
"""The largest values of a sample, without and with --deep."""

_SHORT: Final = ("uint8", "int8")
"""The element types that hold no sample of 16 bits."""


def add_step_options(parser: argparse.ArgumentParser) -> None:
    """The options that are fields of `Preprocess`."""
    _add_windows(parser)
    _add_pixels(parser)
    _add_values(parser)


def _add_windows(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "windows",
        "Random choices depend on --seed, --epoch and an image's name alone, and are the same in any batch and any "
        "shard. The name is the path inside the folder IMAGE, or the name of the file IMAGE. Two files with equal "
        "names have different choices.",
    )
    add = group.add_argument
    add("--size", metavar="N|HxW", type=_size, default=(224, 224), help="size of the window, in pixels (default: 224)")
    add("--resize", metavar="N", type=_positive, help="first scale the shorter side to N pixels (default: no resize)")
    add(
        "--interpolation",
        metavar="NAME",
        choices=get_args(Interpolation),
        help=f"rule of the resize: {', '.join(get_args(Interpolation))} (default: pillow-bilinear; "
        "opencv-linear with --letterbox)",
    )
    add(
        "--passes",
        choices=PASSES,
        help="order of the passes of Pillow's filters: pillow-13 (default, with a warning where an older Pillow is "
        "installed), horizontal (Pillow up to 12), or vertical",
    )
    add(
        "--pad",
        metavar="N[,N..]",
        type=_pixels,
        help="pixels to add around each image: one number, rows and columns, or top,left,bottom,right",
    )
    add("--random-crop", action="store_true", help="a random window (default: the middle)")
    add(
        "--center",
        choices=get_args(Center),
        default="round",
        help="rounding of half a pixel beside the middle window: round (default, torchvision) or floor (transformers)",
    )
    add(
        "--random-resized-crop",
        action="store_true",
        help="a random box of 8 to 100 %% of the area and 3:4 to 4:3, resized to --size, as torchvision's",
    )
    add("--letterbox", action="store_true", help="the whole image inside --size, with borders, as YOLO's")
    add(
        "--fill",
        metavar="V[,V,V]",
        type=_fill,
        help="pixel value of borders and pads, 0 to 255; 255 is the value that becomes 1, also with --deep, --maximum "
        "and --clip (default: 114; 0 for --pad); or reflect, symmetric or edge, by which the image goes on",
    )
    add("--flip", action="store_true", help="mirror left and right, one image in two at random")
    add("--seed", metavar="N", type=int, help=f"seed of random choices (default: {_DEFAULT_SEED})")
    add("--epoch", metavar="N", type=_count, default=0, help="epoch of random choices (default: 0)")


def _add_pixels(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("pixels").add_argument
    add("--mode", choices=MODES, default="rgb", help="rgb (default), or gray: one channel, Pillow's luma")
    add(
        "--deep",
        action="store_true",
        help="take images of 16 bits a sample alone: grey PNG and TIFF, .npy of uint16; Pillow reads colours of 16 "
        "bits as 8",
    )
    add("--no-exif", action="store_true", help="keep the orientation of the file (default: upright, by EXIF)")
    add(
        "--layout",
        metavar="ORDER",
        type=str.upper,
        default="NCHW",
        help="order of the axes in memory, outermost first: NCHW (default), NHWC, CHWN or any other",
    )
    add(
        "--dtype",
        metavar="NAME",
        choices=_DTYPES,
        default="float32",
        help=f"element type: {', '.join(_DTYPES)} (default: float32); arrays of bfloat16 are read "
        "as .view(ml_dtypes.bfloat16)",
    )
    add("--channels", choices=("rgb", "bgr"), default="rgb", help="order of the channels (default: rgb)")
    add(
        "--alignment",
        metavar="BYTES",
        type=_positive,
        help=f"alignment of the batch's first byte, a power of two (default: {DEFAULT_ALIGNMENT})",
    )
    add("--row-pitch", metavar="BYTES", type=_positive, help="bytes from one row to the next (default: no padding)")


def _add_values(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("normalisation").add_argument
    add(
        "--normalize",
        choices=NORMALISATIONS,
        help="(pixel/255 - mean)/std, with mean and std of these networks; 0..1 and unit: pixel/255",
    )
    add(
        "--mean",
        metavar="M[,M,M]",
        type=figures,
        help="mean in units of 0..1: one number, or one for each channel in the order of --channels (write --mean=-1 "
        "for a negative one; default: 0)",
    )
    add("--std", metavar="S[,S,S]", type=figures, help="standard deviation, in the same form (default: 1)")
    add(
        "--maximum",
        metavar="N",
        type=_positive,
        help="the value that becomes 1 in place of 255 or 65535: 1023, 4095, 16383 for samples of 10, 12, 14 bits",
    )
    add(
        "--clip",
        metavar="LOW,HIGH",
        type=figures,
        help="clamp samples to this range, which becomes 0..1 for --normalize or --mean and --std",
    )
    add(
        "--arithmetic",
        choices=tuple(ARITHMETIC_RULES),
        default="multiply",
        help="multiply (default): one factor and one addend; divide: the steps and the bits of torchvision's ToTensor "
        "and Normalize; torchvision-v2: those of v2's ToDtype(scale=True) and Normalize; transformers, "
        "transformers-pil: those of transformers' image processors with torchvision or with Pillow",
    )
    add("--gain", metavar="LOW,HIGH", type=figures, help="multiply each channel by a random number of this range")
    add(
        "--offset",
        metavar="LOW,HIGH",
        type=figures,
        help="add a random number of this range, in units of 0..1, to each channel",
    )


_positive = argument(digits, "is not a positive integer", lambda number: number > 0)
_count = argument(digits, "is not an integer from 0")
_pixels = argument(lambda text: tuple(map(digits, text.split(","))), "is not pixels with commas between")
_values = argument(
    lambda text: tuple(map(digits, text.split(","))),
    f"is not one value of 0 to 255, or three, red, green and blue, and none of {', '.join(BORDERS)}",
    lambda values: len(values) in (1, 3) and max(values) <= _EIGHT_BITS,
)


def _fill(text: str) -> str | tuple[int, ...]:
    return text if text in BORDERS else _values(text)


def _size(text: str) -> tuple[int, int]:
    height, _, width = text.lower().partition("x")
    try:
        return _positive(height), _positive(width or height)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a size: give pixels as N or HEIGHTxWIDTH, such as 224 or 480x640"
        ) from None


def _refusals(chosen: argparse.Namespace) -> Iterator[str]:
    """What is wrong with options that the step has not, or not in this form."""
    if chosen.mode == "gray" and chosen.channels != "rgb":
        yield f"--channels {chosen.channels} orders colours, and --mode gray has one channel: leave it out"
    if chosen.mode == "gray" and isinstance(chosen.fill, tuple) and len(chosen.fill) > 1:
        yield "argument --fill: three values are of red, green and blue, and --mode gray has one channel"
    for name, default in (("seed", None), ("epoch", 0)):
        if getattr(chosen, name) != default and not _is_random(chosen):
            yield (
                f"--{name} decides --random-crop, --random-resized-crop, --flip, --gain and --offset: "
                f"give one of them too, or no --{name}"
            )
    if any(map(str.isdigit, chosen.layout)):
        yield f"--layout {chosen.layout}: files have no zeros behind pixels: give an order of axes, such as NHWC"
    most = _SIXTEEN_BITS if chosen.deep else _EIGHT_BITS
    if chosen.maximum is not None and chosen.maximum > most:
        advice = "" if chosen.deep else ": give --deep for images of 16"
        yield f"--maximum {chosen.maximum}: samples of {most.bit_length()} bits go to {most}{advice}"
    is_normalised = any(value is not None for value in (chosen.normalize, chosen.mean, chosen.std))
    if chosen.deep and chosen.dtype in _SHORT and not is_normalised:
        yield f"--dtype {chosen.dtype} would cut samples of 16 bits off: give --dtype uint16, or --normalize"
    if chosen.deep and chosen.device not in (None, "cpu"):
        yield f"--device {chosen.device}: images of 16 bits are made on the CPU; give --device cpu"


def _is_random(chosen: argparse.Namespace) -> bool:
    return bool(chosen.random_crop or chosen.random_resized_crop or chosen.flip or chosen.gain or chosen.offset)


_FLAGS: Final = ("letterbox", "random_resized_crop", "random_crop", "flip")
"""Fields that the command has without a value."""

_OPTIONS: Final = {
    **{name: f"--{name.replace('_', '-')}" for name in (*_FIELDS, *_FLAGS, "resize", "seed", "device", "alignment")},
    "crop": "--size",
    "row_pitch_bytes": "--row-pitch",
}
"""The options that set fields of the step."""

_FIELD: Final = re.compile(rf"\b({'|'.join(_OPTIONS)})=(\([^()]*\)|'[^']*'|[\w+-]*(?:\.\w+)*)")
"""A field of the step in a sentence, with its value or without one."""


def in_options(problem: StridedGpuError) -> str:
    """What the step says, with the command's options in place of its fields.

    >>> in_options(StridedGpuError("gain=(1.0, 2.0) is one factor: leave arithmetic='divide' out, or give crop=."))
    '--gain 1.0,2.0 is one factor: leave --arithmetic divide out, or give --size.'
    """

    def option(field: re.Match[str]) -> str:
        name, value = field.groups()
        value = value.strip("()',").replace(", ", "x" if name == "crop" else ",")
        return _OPTIONS[name] if name in _FLAGS or not value else f"{_OPTIONS[name]} {value}"

    return _FIELD.sub(option, re.sub(r"^Preprocess\(.*\) has", "the step has", str(problem)))


def declared_step(chosen: argparse.Namespace) -> Preprocess[Any]:
    """What happens to an image, in one batch and in shards alike.

    Raises `StridedGpuError`, in the command's words, for options that do not go together.
    """
    for refusal in _refusals(chosen):
        chosen.refuse(refusal)
    seed = _DEFAULT_SEED if chosen.seed is None and _is_random(chosen) else chosen.seed
    fills = chosen.letterbox or chosen.random_resized_crop
    is_gray = chosen.mode == "gray"
    try:
        step: Preprocess[Any] = Preprocess(
            "image",
            **{name: getattr(chosen, name) for name in _FIELDS},
            mode="gray" if is_gray else None,
            exif=not chosen.no_exif,
            channels=None if is_gray else (2, 1, 0) if chosen.channels == "bgr" else (0, 1, 2),
            resize=None if chosen.resize is None else (chosen.resize,),
            crop=None if chosen.letterbox else chosen.size,
            letterbox=chosen.size if chosen.letterbox else None,
            random_crop=chosen.random_crop or (None if seed is None or fills else False),
            random_resized_crop=chosen.random_resized_crop or None,
            flip=chosen.flip or None,
            seed=seed,
            row_pitch_bytes=chosen.row_pitch,
            alignment=chosen.alignment or DEFAULT_ALIGNMENT,
            output="numpy" if chosen.shards is not None else "tensor",
            device="cpu" if chosen.deep else chosen.device or "auto",
        )
    except StridedGpuError as problem:
        raise StridedGpuError(in_options(problem)) from None
    numpy_dtype(element_type(step.dtype))  # before anything is written: bfloat16 is that of ml_dtypes
    step.set_epoch(chosen.epoch)
    return step
