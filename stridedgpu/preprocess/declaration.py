"""The declaration of a `Preprocess` step: plain values, checked before any image arrives, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from math import isfinite
from numbers import Real
from operator import index
from typing import Any, Final, Literal, NoReturn, Self, TypeAlias

import numpy as np

from stridedgpu.devices.buffer import checked_alignment
from stridedgpu.devices.selection import device_name
from stridedgpu.exchange.array_like import plain
from stridedgpu.operations.borders import BORDERS
from stridedgpu.operations.channel_blocks import parse_order
from stridedgpu.operations.options import DEFAULT_ALIGNMENT
from stridedgpu.operations.resize import default_passes, warn_of_other_passes
from stridedgpu.typing import Border, DeviceLike, Interpolation, LayoutName
from stridedgpu.values.arithmetic import (
    ARITHMETIC_RULES,
    Arithmetic,
    Constants,
    Normalization,
    checked_arithmetic,
    named_figures,
)
from stridedgpu.values.constants import matrix_rows
from stridedgpu.values.conversion import Conversion, ConversionOptions, conversion_options
from stridedgpu.values.dtypes import ElementType, element_type
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.interpolation import PASSES, Passes, interpolation_named
from stridedgpu.values.strides import axis_letters, canonical_axes, is_one_of

Declared: TypeAlias = Any
"""A field that a user may declare in several forms, such as one number for a pair; it is kept in its canonical form."""

UserData: TypeAlias = Any
"""An image, a key, a column, a sample or a batch as its user has it, in any library's type; or one of a result."""

Numbers = tuple[float, ...]
Mode = Literal["rgb", "gray"]
Center = Literal["round", "floor"]
"""What becomes of half a pixel beside the middle window."""

MODES: Final[tuple[Mode, ...]] = ("rgb", "gray")

SEEDS: Final = range(-(2**63), 2**63)
"""The range of valid seeds."""

MOST_PIXELS: Final = 2**31 - 1
"""The most pixels along an axis of an image."""

LETTERBOX_BORDER: Final = 114
"""The byte of every channel around a letterboxed image, as in YOLO."""

_WHITE: Final = 255
"""The byte that is white."""

_EQUAL: Final = 1e-5
"""The relative difference of numbers that are meant to be one, such as 1 / 255 and 0.00392157."""

_CHOICES: Final = {
    "errors": ("raise", "skip"),
    "output": ("numpy", "tensor", "torch"),
    "box_format": ("xyxy", "xywh", "cxcywh", "tlbr"),
    "mode": (*MODES, None),
    "center": ("round", "floor"),
    "smaller": ("refuse", "pad"),
    "random_crop": (True, False, None),
    "exif": (True, False),
    "mask_interpolation": ("pillow-nearest", "opencv-nearest", "torch-nearest", None),
    "clamp_boxes": (True, False),
}
"""The values of each field that chooses among a few."""

_USUAL_RANGES: Final = ((0.08, 1.0), (3 / 4, 4 / 3))
"""The ranges of torchvision's RandomResizedCrop."""

_MEANT: Final = {
    "random_resized_crop=, flip=, gain= and offset=, with seed=": "augment",
    "batch= and threads= of sg.load": "batch batch_size num_workers threads workers",
    "crop=": "center_crop",
    "mode= or channels=": "color colour",
    "gain= and offset=, with seed=": "color_jitter",
    "layout= and dims=": "format",
    "mode=": "grayscale",
    "flip=, with seed=": "hflip horizontal_flip random_flip random_horizontal_flip",
    "max_size=, with resize=": "longest_edge longest_side",
    "mean=": "image_mean",
    "std=": "image_std",
    "crop=, resize= or letterbox=": "image_size shape size",
    "layout= or dims=": "order",
    "flip= and seed=": "p",
    "pad=": "padding",
    "interpolation=": "resample",
    "layout= and dtype=": "to_tensor",
    "the arguments of one declaration, such as crop=, flip= and mean=": "transforms",
    "fill=": "value",
}
"""Arguments, and the names that other libraries have for them."""

_TYPED: Final = 0.8
"""The least similarity, as difflib counts it, of a name that was typed wrong; less is another word."""


@dataclass(frozen=True, repr=False)
class Declaration:
    """The fields of `Preprocess`, whose docstring explains them."""

    column: str | int | None = None
    _: KW_ONLY
    dims: str = "NHWC"
    layout: LayoutName | str = "NCHW"
    dtype: Declared = "float32"
    mode: Mode | None = None
    exif: bool = True
    normalize: Normalization | None = None
    mean: Declared = None
    std: Declared = None
    maximum: float | None = None
    arithmetic: Arithmetic = "multiply"
    clip: Declared = None
    scale: Declared = None
    bias: Declared = None
    channels: Declared = None
    matrix: Declared = None
    resize: Declared = None
    max_size: int | None = None
    pad: Declared = None
    crop: Declared = None
    center: Center = "round"
    smaller: Literal["refuse", "pad"] = "refuse"
    random_crop: bool | None = None
    random_resized_crop: Declared = None
    letterbox: Declared = None
    interpolation: Interpolation | None = None
    passes: Passes | None = None
    fill: Declared = None
    flip: bool | float | None = None
    gain: Declared = None
    offset: Declared = None
    seed: int | None = None
    key: str | int | None = None
    mask: str | int | None = None
    boxes: str | int | None = None
    points: str | int | None = None
    box_format: Literal["xyxy", "xywh", "cxcywh", "tlbr"] = "xyxy"
    mask_fill: int = 0
    mask_interpolation: Literal["pillow-nearest", "opencv-nearest", "torch-nearest"] | None = None
    clamp_boxes: bool = False
    row_pitch_bytes: int | None = None
    alignment: int = DEFAULT_ALIGNMENT
    device: DeviceLike = "auto"
    errors: Literal["raise", "skip"] = "raise"
    output: Literal["numpy", "tensor", "torch"] = "numpy"

    def __new__(cls, *_values: object, **named: object) -> Self:
        """An object without values; raises `TypeError` for an argument that does not exist, with one that does."""
        known = cls.__dataclass_fields__
        for name in named:
            if name not in known:
                raise TypeError(unknown_argument(name, known))
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Normalise the values (sequences to tuples, the type to its name), and check them."""

        def store(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        for name, (canonical, form) in _FORMS.items():
            value = getattr(self, name)
            try:
                store(name, None if value is None else canonical(value))
            except (TypeError, ValueError, OverflowError):
                raise LayoutError(f"{name}={value!r} must be {form}.") from None
        for name in ("dims", "layout"):
            if isinstance(getattr(self, name), str):
                letters = axis_letters(getattr(self, name))
                store(name, f"N{letters}" if letters and "N" not in letters else letters)
        if self.matrix is not None:
            store("matrix", tuple(tuple(memoryview(row).cast("d")) for row in matrix_rows(self.matrix)))
        store("dtype", element_type(self.dtype).name)
        checked_alignment(self.alignment)
        for refusals in (_of_choices, _of_axes, _of_geometry, _of_numbers, _of_chance):
            for refusal in refusals(self):
                raise LayoutError(refusal)
        if self.flip is not None:  # with a seed its probability
            share = 0.5 if self.flip is True else float(self.flip)
            store("flip", bool(self.flip) if self.seed is None else share)
        device: object = self.device
        if not (isinstance(device, str) and device == "auto"):
            device_name(device)

    @property
    def moves_windows(self) -> bool:
        """True if images are resized, padded, cropped or mirrored."""
        return self.resizes or self.crop is not None or self.pad is not None or bool(self.flip)

    @property
    def resizes(self) -> bool:
        """True if images are resized."""
        return self.resize is not None or self.random_resized_crop is not None or self.letterbox is not None

    @property
    def surrounds(self) -> bool:
        """True if results may have pixels of no image."""
        return self.pad is not None or self.letterbox is not None or self.smaller == "pad"

    @property
    def colours(self) -> bool:
        """True if gains or offsets are drawn."""
        return self.gain is not None or self.offset is not None

    @property
    def annotations(self) -> tuple[str | int, ...]:
        """The columns that move with the images."""
        return tuple(column for column in (self.mask, self.boxes, self.points) if column is not None)

    @property
    def image_axes(self) -> str:
        """The order of the axes of one image of a call."""
        return self.dims.replace("N", "")

    @property
    def order(self) -> str:
        """The order of the axes of `layout`, which may end in a number: "NHWC" of "NHWC8"."""
        return parse_order(self.layout).letters

    @property
    def image_mode(self) -> Mode:
        """The mode that Pillow's images are converted to: the declared one, else RGB if there is a channel axis."""
        return self.mode or ("rgb" if "C" in self.dims else "gray")

    @property
    def window(self) -> tuple[int, int] | None:
        """Height and width of every result, or None if the declaration leaves them open."""
        chosen = self.crop or self.letterbox
        if chosen is not None:
            return chosen[0], chosen[1]
        if self.resize is None or len(self.resize) == 1:
            return None
        above, before, below, after = self.pad or (0, 0, 0, 0)
        return self.resize[0] + above + below, self.resize[1] + before + after

    @property
    def chosen_fill(self) -> Declared:
        """The fill around an image in bytes: the declared one, else 114 for letterbox, as in YOLO, and 0 otherwise."""
        if border_of(self) is not None:
            return 0
        if self.fill is not None:
            return self.fill[0] if len(self.fill) == 1 else self.fill
        return LETTERBOX_BORDER if self.letterbox is not None else 0

    @property
    def chosen_interpolation(self) -> Interpolation:
        """The interpolation; by default OpenCV's for letterbox, as in YOLO, else Pillow's, as in torchvision."""
        return self.interpolation or ("pillow-bilinear" if self.letterbox is None else "opencv-linear")

    @property
    def chosen_mask_interpolation(self) -> Interpolation:
        """The nearest rule of masks; by default that of the library whose rule resizes the images."""
        library, _, _ = self.chosen_interpolation.partition("-")
        return self.mask_interpolation or interpolation_named(f"{library}-nearest").name

    @property
    def chosen_passes(self) -> Passes:
        """The order of the passes; by default that of Pillow 13 for Pillow's filters."""
        return self.passes or default_passes(interpolation_named(self.chosen_interpolation))

    @property
    def chooses_channels(self) -> bool:
        """True if the declaration says which channels the result has, whatever an image has."""
        return self.channels is not None or self.matrix is not None

    def output_channels(self, source_channels: int) -> int:
        """The channels of the result of an image with so many."""
        chosen = self.channels if self.matrix is None else self.matrix
        return source_channels if chosen is None else len(chosen)

    @property
    def channel_count(self) -> int | None:
        """The channels of the result, or None if the declaration leaves them open."""
        if self.chooses_channels:
            return self.output_channels(0)
        if self.mode is not None:
            return 3 if self.mode == "rgb" else 1
        declared = (len(values) for values in (*mean_and_std(self), self.scale, self.bias) if values is not None)
        return next((count for count in declared if count > 1), None)


def unknown_argument(name: str, known: Collection[str]) -> str:
    """The sentence for an argument that does not exist.

    >>> unknown_argument("size", ["crop", "resize"])
    'Preprocess has no argument size=; crop=, resize= or letterbox= do that.'
    >>> unknown_argument("normalise", ["crop", "normalize"])
    'Preprocess has no argument normalise=; normalize= is one.'
    """
    for meant, names in _MEANT.items():
        if name.lower() in names.split():
            return f"Preprocess has no argument {name}=; {meant} {'do' if ' ' in meant else 'does'} that."
    from difflib import get_close_matches

    close = get_close_matches(name.lower(), known, 1, _TYPED)
    return f"Preprocess has no argument {name}=; " + (
        f"{close[0]}= is one." if close else "help(stridedgpu.Preprocess) describes those that it has."
    )


# ---- canonical forms


def _entries(value: object) -> tuple[Any, ...]:
    """A sequence of any library as a tuple of Python's values, and one value as a tuple."""
    values = plain(value)
    return tuple(values) if isinstance(values, (Sequence, tuple)) and not isinstance(values, str) else (values,)


def _numbers(value: object) -> Numbers:
    numbers = tuple(map(float, _entries(value)))
    return numbers or _refused()


def _fill(value: object) -> Numbers | str:
    if isinstance(value, str):
        return value if value in BORDERS else _refused()
    return _numbers(value)


def _whole(value: object) -> tuple[int, ...]:
    entries = _entries(value)
    numbers = tuple(map(int, entries))
    exact = all(number == one and not isinstance(one, bool) for number, one in zip(numbers, entries, strict=True))
    return numbers if exact and numbers else _refused()


def _window(value: object) -> tuple[int, ...]:
    numbers = _whole(value)
    return numbers * 2 if len(numbers) == 1 else numbers


def _range(value: object) -> Numbers:
    low, high = map(float, _entries(value))
    return (low, high) if isfinite(low) and isfinite(high) and low <= high else _refused()


def _clip(value: object) -> Numbers:
    low, high = _range(value)
    return (low, high) if low < high else _refused()


def _integer(value: Any) -> int:
    return _refused() if isinstance(value, bool) else index(value)


def _box_ranges(value: Any) -> tuple[Numbers, Numbers]:
    if value is True:
        return _USUAL_RANGES
    (least, most), (narrow, wide) = ((float(low), float(high)) for low, high in value)
    fits = 0 < least <= most <= 1 and 0 < narrow <= wide and isfinite(wide)
    return ((least, most), (narrow, wide)) if fits else _refused()


def _sides(value: object) -> tuple[int, ...]:
    """Rows above, columns before, rows below and columns after an image; one number stands for all, two for pairs."""
    entries = _entries(value)
    is_whole = all(isinstance(entry, int) and not isinstance(entry, bool) and entry >= 0 for entry in entries)
    return entries * (4 // len(entries)) if is_whole and len(entries) in (1, 2, 4) else _refused()


def _probability(value: object) -> object:
    return value if isinstance(value, Real) and 0 <= float(value) <= 1 else _refused()


def _largest(value: object) -> object:
    fits = not isinstance(value, bool) and isinstance(value, Real) and 0 < float(value) < float("inf")
    return value if fits else _refused()


def _column(value: object) -> object:
    return value if isinstance(value, (str, int)) and not isinstance(value, bool) else _refused()


def _refused() -> NoReturn:
    raise ValueError


_CHANNELS: Final = (_numbers, "a number, or one for each channel")
_WINDOW: Final = (_window, "integers, a height and a width in pixels, or one for both")
_COLUMN: Final = (_column, "one column's name, or its place in a tuple")

_FORMS: Final[dict[str, tuple[Callable[[Any], Any], str]]] = {
    **dict.fromkeys(("mean", "std", "scale", "bias"), _CHANNELS),
    "fill": (_fill, f"a number, one for each channel, or a word: {', '.join(map(repr, BORDERS))}"),
    "clip": (_clip, "two numbers in order: the least and the largest value that are kept, such as (-1000, 400)"),
    "gain": (_range, "two numbers in order: the range of a factor, such as (0.8, 1.2)"),
    "offset": (_range, "two numbers in order: the range of an addend in units of 0..1, such as (-0.1, 0.1)"),
    "maximum": (_largest, "the largest value of a sample, such as 4095 of 12 bits"),
    "channels": (_whole, "integers, such as (2, 1, 0)"),
    "resize": (_whole, "integers, a height and a width in pixels, or one for the shorter side"),
    **dict.fromkeys(("crop", "letterbox"), _WINDOW),
    "random_resized_crop": (
        _box_ranges,
        (
            "two ranges, of the share of an image's area, up to 1, and of width / height, such as "
            f"{_USUAL_RANGES}; True stands for these. The size of the result is crop="
        ),
    ),
    "pad": (
        _sides,
        (
            "numbers of pixels from 0: one for all sides, two for rows and columns, or four for "
            "top, left, bottom and right"
        ),
    ),
    "flip": (_probability, "True, False, or a probability between 0 and 1"),
    **dict.fromkeys(("seed", "max_size", "row_pitch_bytes", "mask_fill"), (_integer, "an integer")),
    **dict.fromkeys(("column", "key", "mask", "boxes", "points"), _COLUMN),
}
"""The function from what was declared to its canonical form, and what the error text says that it must be."""


# ---- refusals


def _of_choices(step: Declaration) -> Iterator[str]:
    """Columns that are not of their own, and values beside the valid ones."""
    columns = [column for column in (step.column, *step.annotations) if column is not None]
    if len(set(columns)) < len(columns):
        yield f"column, mask, boxes and points are columns of their own, and {columns} repeats one."
    for name, known in _CHOICES.items():
        value = getattr(step, name)
        if not any(type(value) is type(entry) and value == entry for entry in known):
            words = [repr(entry) for entry in known if entry is not None]
            yield f"{name}={value!r} is unknown; it is {', '.join(words[:-1])} or {words[-1]}."


def _of_axes(step: Declaration) -> Iterator[str]:
    """`dims` and `layout` that order other axes, or axes without rows or what the rest needs."""
    if not isinstance(step.layout, str):
        yield f"layout={step.layout!r} is not an axis order such as 'NCHW'."
    if parse_order(step.layout).is_blocked:
        yield (
            f"layout={step.layout!r} splits channels into an axis more, which no image has: leave it out, and relayout "
            f"the result, by sg.relayout(batch, layout={step.layout!r})."
        )
    wanted = canonical_axes(step.order)
    if sorted(str(step.dims)) != sorted(wanted):
        yield f"dims={step.dims!r} and layout={step.layout!r} must order the same axes, N among them, such as 'NHWC'."
    if step.moves_windows and wanted != "NCHW":
        yield f"resize, pad, crop and flip are for the axes N, C, H and W, not dims={step.dims!r}."
    if (step.colours or step.annotations) and wanted != "NCHW":
        yield f"gain, offset, mask, boxes and points are for the axes N, C, H and W, not dims={step.dims!r}."
    if step.mode is not None and wanted not in (("NCHW",) if step.mode == "rgb" else ("NCHW", "NHW")):
        yield f"mode={step.mode!r} is for images with height and width, not dims={step.dims!r}."
    for name in ("crop", "letterbox"):
        window = getattr(step, name)
        if window is not None and (len(window) != 2 or min(window) < 1):
            yield f"{name}={window} must be height and width, in pixels, at least 1 each."


def _of_geometry(step: Declaration) -> Iterator[str]:
    """Several options that resize images, results of several sizes, and more pixels than an image can have."""
    for name in ("resize", "pad", "crop", "letterbox"):
        pixels = getattr(step, name)
        if pixels is not None and max(pixels) > MOST_PIXELS:
            yield f"{name}={pixels} is more than {MOST_PIXELS} pixels along an axis."
    options = [name for name in ("resize", "random_resized_crop", "letterbox") if getattr(step, name) is not None]
    if len(options) > 1 or (step.letterbox is not None and step.crop is not None):
        both = " and ".join([*options, *(["crop"] if len(options) == 1 else [])])
        advice = " The result of random_resized_crop= has the size of crop=." if "random_resized_crop" in both else ""
        yield f"{both} cannot be declared together: each says how large the result is.{advice}"
    if step.random_resized_crop is not None and step.crop is None:
        yield "random_resized_crop= needs crop=, the height and width of the result."
    if step.pad is not None and options and options[0] != "resize":
        yield f"pad= beside {options[0]}= would surround nothing: the box or the borders fill the result."
    if step.resize is not None and (len(step.resize) > 2 or min(step.resize) < 1):
        each = "height and width in pixels, or one for the shorter side, at least 1 each"
        yield f"resize={step.resize} must be {each}."
    if step.max_size is not None and (step.resize is None or len(step.resize) > 1 or step.max_size <= step.resize[0]):
        yield (
            f"max_size={step.max_size} is the most of a longer side, and above that of the shorter one: give it beside "
            "resize=, one number."
        )
    if step.center != "round" and (step.crop is None or step.random_resized_crop is not None):
        yield f"center={step.center!r} says where the middle window of crop= lies: give crop= alone."
    if step.interpolation is not None:
        interpolation_named(step.interpolation)
        if not options:
            yield f"interpolation={step.interpolation!r} is for resize=, random_resized_crop=, letterbox=."
    interpolation = interpolation_named(step.chosen_interpolation)
    if step.passes is not None and not is_one_of(step.passes, PASSES):
        yield f"passes={step.passes!r} is unknown; there are {', '.join(PASSES)}."
    if step.passes not in (None, "horizontal") and not (options and interpolation.is_pillow):
        yield f"passes={step.passes!r} is the order of Pillow's filters: add resize= or random_resized_crop=."
    if options and step.passes is None:
        warn_of_other_passes(interpolation)
    if step.smaller != "refuse" and (step.crop is None or step.random_resized_crop is not None):
        yield f"smaller={step.smaller!r} says what surrounds an image in the window of crop=: give crop= alone."
    if step.fill is not None and not step.surrounds:
        yield f"fill={step.fill!r} is what surrounds an image, for pad=, letterbox= and smaller='pad'."
    if border_of(step) is not None and step.mask is not None and step.mask_fill:
        yield (
            f"mask_fill={step.mask_fill} and fill={step.fill!r} both say what surrounds a mask, which goes on as its "
            "image does: leave mask_fill out."
        )


def _is_product(step: Declaration) -> bool:
    """Whether mean and standard deviation are one factor and one addend."""
    return step.arithmetic == "multiply"


def _of_numbers(step: Declaration) -> Iterator[str]:
    """Options that contradict each other, and numbers that no channels and no samples could have."""
    is_normalised = any(value is not None for value in (step.mean, step.std, step.normalize))
    rescales = ARITHMETIC_RULES[checked_arithmetic(step.arithmetic)].alone is not None
    if not (is_normalised or rescales or _is_product(step)):
        yield f"arithmetic={step.arithmetic!r} is how mean and std are computed: give these, or normalize='0..1'."
    step_options(step)
    for name in ("mean", "std", "scale", "bias"):
        values = getattr(step, name)
        if values is not None and not all(map(isfinite, values)):
            yield f"{name}={values} must be finite."
    if step.std is not None and min(step.std) <= 0:
        yield f"std={step.std} must be above 0."
    if step.channels is not None and min(step.channels) < 0:
        yield f"channels={step.channels} must be channels of the image, counted from 0."
    if step.matrix is not None:
        yield from _of_matrix(step)
    numbers = (*mean_and_std(step), step.scale, step.bias)
    counts = {len(values) for values in numbers if values is not None} - {1}
    if counts and step.chooses_channels:
        counts |= {step.output_channels(0)}
    elif counts and step.mode == "gray":
        counts |= {1}
    if len(counts) > 1:
        yield f"{step} has values for {' and for '.join(map(str, sorted(counts)))} channels."
    if step.maximum is not None and step.clip is not None:
        yield "maximum= and clip= both say which value becomes 1; give one of them."
    if step.maximum is not None and mean_and_std(step) == (None, None):
        yield "maximum= is the unit of mean and std: give these, or normalize='0..1'."
    if step.maximum is not None and step.scale is not None:
        yield f"maximum= and scale={step.scale} both say which value becomes 1; give one of them."
    for name in ("clip", "gain", "offset"):
        if not _is_product(step) and getattr(step, name) is not None:
            yield (
                f"{name}={getattr(step, name)} is one factor and one addend: leave arithmetic={step.arithmetic!r} out."
            )


def _of_matrix(step: Declaration) -> Iterator[str]:
    """A matrix beside what chooses or changes single channels, and numbers that are none."""
    if not all(isfinite(number) for row in step.matrix for number in row):
        yield f"matrix={step.matrix} must be finite."
    if step.channels is not None:
        yield (
            f"channels={step.channels} and matrix= both choose channels: leave channels out, and order the matrix's "
            "columns and rows."
        )
    if not _is_product(step):
        yield f"arithmetic={step.arithmetic!r} is for an image's own channels; leave matrix= out, or relayout twice."
    for name in ("gain", "offset"):
        if getattr(step, name) is not None:
            yield (
                f"{name}={getattr(step, name)} is drawn for each channel of an image, which matrix= mixes; leave one "
                "out, or mix the result: sg.relayout(result, matrix=...)."
            )


def _of_chance(step: Declaration) -> Iterator[str]:
    """An invalid seed, and something random without one."""
    if step.seed is not None and step.seed not in SEEDS:
        yield f"seed={step.seed} must be from {SEEDS.start} to {SEEDS.stop - 1}."
    if step.seed is None and step.flip is not None and step.flip not in (0, 1):
        yield f"flip={step.flip!r} is a probability, which needs seed= to be decided by."
    for name in ("gain", "offset", "random_crop"):
        if step.seed is None and getattr(step, name):
            yield f"{name}={getattr(step, name)} is drawn by chance, which needs seed= to be decided by."
    if step.random_crop is not None and (step.crop is None or step.random_resized_crop is not None):
        yield f"random_crop={step.random_crop} says where the window of crop= lies: give crop= alone."


# ---- what follows for images of a type

_OPTIONS: Final = (set(ConversionOptions._fields) & Declaration.__dataclass_fields__.keys()) - {"maximum"}
"""The fields that every operation takes."""


def step_options(step: Declaration) -> ConversionOptions:
    """How the operations would convert the step's images; `clip=` and `maximum=` are the step's own.

    Raises `LayoutError` for options that contradict each other.
    """
    return ConversionOptions.of("Preprocess", {name: getattr(step, name) for name in _OPTIONS})


def mean_and_std(step: Declaration, source_channels: int | None = None) -> tuple[Numbers | None, Numbers | None]:
    """The mean and standard deviation of each output channel, named or given; None where there is none.

    `source_channels` are those of an image, None while there is none.
    """
    if step.normalize is None:
        return step.mean, step.std
    channels = None if step.mode == "gray" else step.channels  # grey has no red, green and blue to choose from
    return named_figures(step.normalize, channels, source_channels)


def unit_range(step: Declaration, element: ElementType) -> tuple[float, float]:
    """The values of images of a type that become 0 and 1.

    They are the bounds of `clip`, else 0 and the declared maximum, else 0 and an integer type's largest value, else 0
    and 1.
    """
    if step.clip is not None:
        return step.clip[0], step.clip[1]
    if step.maximum is not None:
        return 0.0, float(step.maximum)
    return 0.0, float(2 ** (8 * element.itemsize - (element.kind == "i")) - 1) if element.is_integer else 1.0


def figure_of_bytes(step: Declaration, *, is_integer: bool) -> str | None:
    """The option of a step, with its value, that is right for bytes alone; None without one."""
    if step.scale is not None:
        rescales = ARITHMETIC_RULES[step.arithmetic].alone is not None  # transformers' processors take bytes alone
        of_bytes = is_integer and all(abs(scale * _WHITE - 1) < _EQUAL for scale in step.scale)
        return f"scale={step.scale}" if rescales or of_bytes else None
    values = (step.clip, step.bias, step.matrix, *mean_and_std(step))
    cuts = element_type(step.dtype).itemsize == 1 and all(value is None for value in values)
    return f"dtype={step.dtype!r}" if cuts else None


def clip_bounds(clip: tuple[float, float], element: ElementType) -> tuple[Any, Any]:
    """The least and the largest value that images of a type keep. Raises `LayoutError` if there is none."""
    low, high = clip
    if element.is_integer:
        limits = np.iinfo(element.name)
        least, most = max(int(np.ceil(low)), limits.min), min(int(np.floor(high)), limits.max)
        if least > most:
            raise LayoutError(
                f"clip={clip} keeps no value of {element}, whose values are {limits.min} to {limits.max}."
            )
        return least, most
    if element.kind != "f":
        raise LayoutError(f"clip={clip} is for numbers, and the image holds {element}.")
    number = np.dtype(element.name).type
    return number(low), number(high)


def border_of(step: Declaration) -> Border | None:
    """How an image goes on around itself, or None where `chosen_fill` surrounds it."""
    return next((word for word in BORDERS if word == step.fill), None)


def border_values(step: Declaration, element: ElementType) -> Declared:
    """The step's fill in images of a type: 0 to 255 of the declaration is `unit_range`, rounded for integers.

    Raises `LayoutError` for a value that the type cannot hold.
    """
    fill = step.chosen_fill
    low, high = unit_range(step, element)
    if (low, high) == (0, _WHITE):
        return fill
    values = [low + value / _WHITE * (high - low) for value in (fill if isinstance(fill, tuple) else (fill,))]
    if element.is_integer:
        limits = np.iinfo(element.name)
        for value in values:
            if not limits.min <= value <= limits.max:
                raise LayoutError(
                    f"fill={fill} is {value:g} in images of {element}, which hold {limits.min} to {limits.max}: "
                    f"fill is in units of bytes, and 255 of them are {high:g} here."
                )
        values = list(map(round, values))
    if step.clip is not None:
        least, most = clip_bounds(step.clip, element)
        values = [min(max(value, least), most) for value in values]
    return values[0] if len(values) == 1 else tuple(values)


def step_conversion(step: Declaration, element: ElementType, source_channels: int | None) -> Conversion:
    """The conversion of images of a type with so many channels; None: without a channel axis.

    Raises `LayoutError` or `ElementTypeError` if the step does not fit the type or the number of channels.
    """
    options = step_options(step)
    if options.is_normalised:
        mean, std = mean_and_std(step, source_channels)
        count, outputs = max(len(mean or ()), len(std or ())), step.output_channels(source_channels or 0)
        if count not in (1, outputs or count):
            raise LayoutError(f"mean and std are for {count} channels, and an image here gives {outputs}.")
        if step.maximum is not None and not _is_product(step):
            options = options._replace(maximum=step.maximum)
        elif step.clip is not None or step.maximum is not None:
            scale, bias, _ = _constants_in_range(step, element, mean, std)
            options = conversion_options(step.dtype, scale, bias, channels=step.channels, matrix=step.matrix)
    return options.conversion(element, source_channels, element_type(step.dtype))


def _constants_in_range(
    step: Declaration, element: ElementType, mean: Numbers | None, std: Numbers | None
) -> Constants:
    """The constants by which the bounds of `clip`, or 0 and `maximum`, become 0 and 1, for mean and std."""
    low, high = unit_range(step, element)
    mean, std = mean or (0.0,), std or (1.0,)
    if step.clip is not None and {*mean} == {0.0} and {*std} == {1.0}:
        return _clip_to_unit(step.clip, element, Conversion(element, element_type(step.dtype)).compute)
    count = max(len(mean), len(std))
    means, deviations = (values * (count // len(values)) for values in (mean, std))
    return Constants(
        tuple(1.0 / ((high - low) * deviation) for deviation in deviations),
        tuple(-(low / (high - low) + centre) / deviation for centre, deviation in zip(means, deviations, strict=True)),
    )


def _clip_to_unit(clip: tuple[float, float], element: ElementType, compute: ElementType) -> Constants:
    """The factor and the addend of values between the bounds, by which no value leaves 0..1.

    In the type of the arithmetic the least value becomes 0. The factor is the largest one, near 1 / (high - low), by
    which the largest value does not exceed 1: a product and a sum that are rounded keep the order of values.
    """
    number = np.dtype(compute.name).type
    least, most = map(number, clip_bounds(clip, element))
    factor = number(1.0 / (clip[1] - clip[0]))
    while most * factor - least * factor > 1:
        factor = np.nextafter(factor, number(0))
    return Constants((float(factor),), (-float(least * factor),))
