"""The checks of a declaration: each raises `LayoutError` for fields that no image could satisfy together."""

from __future__ import annotations

from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING, Final

from stridedgpu.operations.pillow_passes import DEFAULT_PASSES, warn_of_other_passes
from stridedgpu.values.conversion import checked_arithmetic
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.interpolation import PASSES, interpolation_named
from stridedgpu.values.strides import canonical_axes, is_one_of

from .modes import MODES
from .normalisation import NORMALISATIONS, mean_and_std

if TYPE_CHECKING:
    from .declaration import Declaration

__all__ = ["SEEDS", "check_axes", "check_chance", "check_choices", "check_numbers", "check_resize", "check_samples"]

SEEDS: Final = range(-(2**63), 2**63)
"""The range of valid seeds."""

BOX_FORMATS: Final = ("xyxy", "xywh", "cxcywh", "tlbr")

_CHOICES: Final = {
    "errors": ("raise", "skip"),
    "output": ("numpy", "tensor"),
    "box_format": BOX_FORMATS,
    "mode": (*MODES, None),
    "normalize": (*NORMALISATIONS, None),
    "center": ("round", "floor"),
    "random_crop": (True, False, None),
    "exif": (True, False),
}
"""The values of each field that chooses among a few."""


def check_choices(step: Declaration) -> None:
    """Raise unless columns have names or places, and each choice is a valid one."""
    columns = ("column", "key", "mask", "boxes", "points")
    for name in columns:
        value = getattr(step, name)
        if value is not None and (not isinstance(value, (str, int)) or isinstance(value, bool)):
            raise LayoutError(f"{name}={value!r} must be one column's name, or its place in a tuple.")
    chosen = [getattr(step, name) for name in ("column", "mask", "boxes", "points")]
    given = [column for column in chosen if column is not None]
    if len(set(given)) < len(given):
        raise LayoutError(f"column, mask, boxes and points are columns of their own, and {given} repeats one.")
    for name, known in _CHOICES.items():
        value = getattr(step, name)
        if not any(type(value) is type(entry) and value == entry for entry in known):
            words = [repr(entry) for entry in known if entry is not None]
            raise LayoutError(f"{name}={value!r} is unknown; it is {', '.join(words[:-1])} or {words[-1]}.")


def check_axes(step: Declaration) -> None:
    """Raise unless `dims` and `layout` order the same axes, rows included, and all that the rest needs."""
    if not isinstance(step.layout, str):
        raise LayoutError(f"layout={step.layout!r} is not an axis order such as 'NCHW'.")
    wanted = canonical_axes(step.layout)
    if sorted(str(step.dims)) != sorted(wanted):
        raise LayoutError(
            f"dims={step.dims!r} and layout={step.layout!r} must order the same axes, N among them, such as 'NHWC'."
        )
    if step.moves_windows and wanted != "NCHW":
        raise LayoutError(f"resize, pad, crop and flip are for the axes N, C, H and W, not dims={step.dims!r}.")
    if (step.colours or step.annotations) and wanted != "NCHW":
        raise LayoutError(
            f"gain, offset, mask, boxes and points are for the axes N, C, H and W, not dims={step.dims!r}."
        )
    if step.mode is not None and wanted != ("NCHW" if step.mode == "rgb" else "NCHW" if "C" in wanted else "NHW"):
        raise LayoutError(f"mode={step.mode!r} is for images with height and width, not dims={step.dims!r}.")
    for name in ("crop", "letterbox"):
        window = getattr(step, name)
        if window is not None and (len(window) != 2 or min(window) < 1):
            raise LayoutError(f"{name}={window} must be height and width, in pixels, at least 1 each.")


def check_resize(step: Declaration) -> None:
    """Raise unless at most one option resizes images, and all results have one size."""
    given = [name for name in ("resize", "random_resized_crop", "letterbox") if getattr(step, name) is not None]
    if len(given) > 1 or (step.letterbox is not None and step.crop is not None):
        both = " and ".join([*given, *(["crop"] if len(given) == 1 else [])])
        advice = " The result of random_resized_crop= has the size of crop=." if "random_resized_crop" in given else ""
        raise LayoutError(f"{both} cannot be declared together: each says how large the result is.{advice}")
    if step.random_resized_crop is not None and step.crop is None:
        raise LayoutError("random_resized_crop= needs crop=, the height and width of the result.")
    if step.pad is not None and given and given[0] != "resize":
        raise LayoutError(f"pad= beside {given[0]}= would surround nothing: the box or the borders fill the result.")
    if step.resize is not None and (len(step.resize) > 2 or min(step.resize) < 1):
        raise LayoutError(
            f"resize={step.resize} must be height and width in pixels, or one for the shorter side, at least 1 each."
        )
    if step.resize is not None and len(step.resize) == 1 and step.crop is None:
        raise LayoutError(f"resize={step.resize[0]} is the shorter side alone: add crop=, or give height and width.")
    if step.center != "round" and (step.crop is None or step.random_resized_crop is not None):
        raise LayoutError(f"center={step.center!r} says where the middle window of crop= lies: give crop= alone.")
    if step.interpolation is not None:
        interpolation_named(step.interpolation)
        if not given:
            raise LayoutError(f"interpolation={step.interpolation!r} is for resize=, random_resized_crop=, letterbox=.")
    if step.passes is not None and not is_one_of(step.passes, PASSES):
        raise LayoutError(f"passes={step.passes!r} is unknown; there are {', '.join(PASSES)}.")
    if step.chosen_passes != DEFAULT_PASSES and not (
        given and interpolation_named(step.chosen_interpolation).is_pillow
    ):
        raise LayoutError(
            f"passes={step.passes!r} is the order of Pillow's filters: add resize= or random_resized_crop=."
        )
    if given and step.passes is None:
        warn_of_other_passes(interpolation_named(step.chosen_interpolation))
    if step.fill is not None and step.pad is None and step.letterbox is None:
        raise LayoutError(f"fill={step.fill} is what surrounds an image, for pad= and letterbox=.")


def check_numbers(step: Declaration) -> None:
    """Raise for two normalisations, or for numbers that no channels could have."""
    normal, direct = {"mean": step.mean, "std": step.std}, {"scale": step.scale, "bias": step.bias}
    is_normal = any(values is not None for values in normal.values())
    is_direct = any(values is not None for values in direct.values())
    if is_normal and is_direct:
        raise LayoutError("mean and std say the same as scale and bias in other units; give one pair of them.")
    if step.normalize is not None and (is_normal or is_direct):
        raise LayoutError(f"normalize={step.normalize!r} names mean and std: leave mean, std, scale and bias out.")
    given = {name: values for name, values in {**normal, **direct}.items() if values is not None}
    for name, values in given.items():
        if not all(map(isfinite, values)):
            raise LayoutError(f"{name}={values} must be finite.")
    if step.std is not None and min(step.std) <= 0:
        raise LayoutError(f"std={step.std} must be above 0.")
    if step.channels is not None and min(step.channels) < 0:
        raise LayoutError(f"channels={step.channels} must be channels of the picture, counted from 0.")
    if step.matrix is not None:
        _check_matrix(step)
    numbers = (*mean_and_std(step), step.scale, step.bias)
    counts = {len(values) for values in numbers if values is not None} - {1}
    counts |= {step.output_channels(0)} if step.chooses_channels and counts else set()
    counts |= {1} if step.mode == "gray" and counts and not step.chooses_channels else set()
    if len(counts) > 1:
        raise LayoutError(f"{step} has values for {' and for '.join(map(str, sorted(counts)))} channels.")


def _check_matrix(step: Declaration) -> None:
    """Raise for a matrix beside what chooses or changes single channels, and for numbers that are none."""
    if not all(isfinite(number) for row in step.matrix for number in row):
        raise LayoutError(f"matrix={step.matrix} must be finite.")
    if step.channels is not None:
        raise LayoutError(
            f"channels={step.channels} and matrix= both choose channels: leave channels out, and order the matrix's "
            "columns and rows."
        )
    if step.arithmetic == "divide":
        raise LayoutError("arithmetic='divide' is for a picture's own channels; leave matrix= out, or relayout twice.")
    for name in ("gain", "offset"):
        if getattr(step, name) is not None:
            raise LayoutError(
                f"{name}={getattr(step, name)} is drawn for each channel of an image, which matrix= mixes; leave one "
                "out, or mix the result: sg.relayout(result, matrix=...)."
            )


def check_samples(step: Declaration) -> None:
    """Raise for a largest value or a window of values that no samples could have."""
    if step.maximum is not None:
        if not isinstance(step.maximum, Real) or isinstance(step.maximum, bool) or not 0 < step.maximum < float("inf"):
            raise LayoutError(
                f"maximum={step.maximum!r} must be the largest value of a sample, such as 4095 of 12 bits."
            )
        if step.clip is not None:
            raise LayoutError("maximum= and clip= both say which value becomes 1; give one of them.")
        if mean_and_std(step) == (None, None):
            raise LayoutError("maximum= is the unit of mean and std: give these, or normalize='0..1'.")
    if checked_arithmetic(step.arithmetic) == "divide":
        _check_divided(step)


def _check_divided(step: Declaration) -> None:
    """Raise for a division beside what is computed with a scale and a bias."""
    if mean_and_std(step) == (None, None):
        raise LayoutError("arithmetic='divide' is how mean and std are computed: give these, or normalize='0..1'.")
    for name in ("clip", "gain", "offset"):
        if getattr(step, name) is not None:
            raise LayoutError(
                f"{name}={getattr(step, name)} is one factor and one addend: leave arithmetic='divide' out."
            )


def check_chance(step: Declaration) -> None:
    """Raise unless the seed is valid, and there is one where something is random."""
    if step.seed is not None and step.seed not in SEEDS:
        raise LayoutError(f"seed={step.seed} must be from {SEEDS.start} to {SEEDS.stop - 1}.")
    for name in ("gain", "offset", "random_crop"):
        if step.seed is None and getattr(step, name):
            raise LayoutError(f"{name}={getattr(step, name)} is drawn by chance, which needs seed= to be decided by.")
    if step.random_crop is not None and (step.crop is None or step.random_resized_crop is not None):
        raise LayoutError(f"random_crop={step.random_crop} says where the window of crop= lies: give crop= alone.")
