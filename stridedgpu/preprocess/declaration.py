"""The declaration of a `Preprocess` step: plain values, checked before any image arrives."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

from stridedgpu.devices.buffer import checked_alignment
from stridedgpu.devices.selection import device_name
from stridedgpu.operations.allocation import DEFAULT_ALIGNMENT
from stridedgpu.operations.pillow_passes import DEFAULT_PASSES
from stridedgpu.typing import DeviceLike, Interpolation, LayoutName
from stridedgpu.values.conversion import Arithmetic
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.interpolation import Passes
from stridedgpu.values.strides import axis_letters

from .declaration_checks import (
    check_axes,
    check_chance,
    check_choices,
    check_numbers,
    check_resize,
    check_samples,
)
from .declared_names import unknown_argument
from .declared_values import (
    INTEGERS,
    NUMBERS,
    plain_flip,
    plain_integer,
    plain_matrix,
    plain_numbers,
    plain_pad,
    plain_ranges,
)
from .modes import Mode
from .normalisation import Normalization, mean_and_std

__all__ = ["Center", "Declaration"]

LETTERBOX_BORDER = 114
"""The byte of every channel around a letterboxed image, as in YOLO."""

Center = Literal["round", "floor"]
"""What becomes of half a pixel beside the middle window."""


@dataclass(frozen=True, repr=False)
class Declaration:
    """The fields of `Preprocess`, whose docstring explains them."""

    column: str | int | None = None
    _: KW_ONLY
    dims: str = "NHWC"
    layout: LayoutName | str = "NCHW"
    dtype: Any = "float32"
    mode: Mode | None = None
    exif: bool = True
    normalize: Normalization | None = None
    mean: Any = None
    std: Any = None
    maximum: float | None = None
    arithmetic: Arithmetic = "multiply"
    clip: Any = None
    scale: Any = None
    bias: Any = None
    channels: Any = None
    matrix: Any = None
    resize: Any = None
    pad: Any = None
    crop: Any = None
    center: Center = "round"
    random_crop: bool | None = None
    random_resized_crop: Any = None
    letterbox: Any = None
    interpolation: Interpolation | None = None
    passes: Passes | None = None
    fill: Any = None
    flip: bool | float | None = None
    gain: Any = None
    offset: Any = None
    seed: int | None = None
    key: str | int | None = None
    mask: str | int | None = None
    boxes: str | int | None = None
    points: str | int | None = None
    box_format: Literal["xyxy", "xywh", "cxcywh", "tlbr"] = "xyxy"
    mask_fill: int = 0
    row_pitch_bytes: int | None = None
    alignment: int = DEFAULT_ALIGNMENT
    device: DeviceLike = "auto"
    errors: Literal["raise", "skip"] = "raise"
    output: Literal["numpy", "tensor"] = "numpy"

    def __new__(cls, *_given: object, **named: object) -> Self:
        """An object without values; raises `TypeError` for an argument that does not exist, with one that does."""
        known = cls.__dataclass_fields__
        for name in named:
            if name not in known:
                raise TypeError(unknown_argument(name, known))
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Normalise the values (sequences to tuples, the type to its name), and check them."""
        for name in NUMBERS:
            object.__setattr__(self, name, plain_numbers(name, getattr(self, name)))
        for name in INTEGERS:
            object.__setattr__(self, name, plain_integer(name, getattr(self, name)))
        for name in ("dims", "layout"):
            if isinstance(getattr(self, name), str):
                letters = axis_letters(getattr(self, name))
                object.__setattr__(self, name, f"N{letters}" if letters and "N" not in letters else letters)
        object.__setattr__(self, "matrix", plain_matrix(self.matrix))
        object.__setattr__(self, "dtype", element_type(self.dtype).name)
        checked_alignment(self.alignment)
        check_choices(self)
        object.__setattr__(self, "random_resized_crop", plain_ranges(self.random_resized_crop))
        object.__setattr__(self, "pad", plain_pad(self.pad))
        object.__setattr__(self, "flip", plain_flip(self.flip, self.seed))
        check_axes(self)
        check_resize(self)
        check_numbers(self)
        check_samples(self)
        check_chance(self)
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
    def colours(self) -> bool:
        """True if gains or offsets are drawn."""
        return self.gain is not None or self.offset is not None

    @property
    def annotations(self) -> tuple[str | int, ...]:
        """The columns that move with the images."""
        if self.mask is None and self.boxes is None and self.points is None:
            return ()
        return tuple(column for column in (self.mask, self.boxes, self.points) if column is not None)

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
    def chosen_fill(self) -> Any:
        """The fill around an image in bytes: the declared one, else 114 for letterbox, as in YOLO, and 0 otherwise."""
        if self.fill is not None:
            return self.fill[0] if len(self.fill) == 1 else self.fill
        return LETTERBOX_BORDER if self.letterbox is not None else 0

    @property
    def chosen_interpolation(self) -> Interpolation:
        """The interpolation; by default OpenCV's for letterbox, as in YOLO, else Pillow's, as in torchvision."""
        return self.interpolation or ("pillow-bilinear" if self.letterbox is None else "opencv-linear")

    @property
    def chosen_passes(self) -> Passes:
        """The order of the passes of Pillow's filters; by default that of Pillow up to 12."""
        return self.passes or DEFAULT_PASSES

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
