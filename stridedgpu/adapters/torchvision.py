"""torchvision's transforms as the options of a `Preprocess` step; torchvision is not imported.

Beside v2's transforms a mask has torch's nearest pixels, and around it the same fill as the image; crops and pads clamp
boxes to their result.

A step has one order: grey, resize, pad, crop, mirror, and then bytes become floats. A chain of transforms is read in
its own order, and refused where the order of a step would give other values. What a transform computes depends on what
it is given; `x` is a byte, and float32 is rounded after every operation:

| transform | of PIL images | of tensors |
|---|---|---|
| Resize, RandomResizedCrop | Pillow's resize | ATen's for v2; the older transforms resize float32 and are refused |
| ToTensor | `x / 255` | refused |
| ToDtype(scale=True), v2's ConvertImageDtype | refused | `x * (1 / 255)` |
| the older ConvertImageDtype | refused | `x / 255` |
| Normalize | refused | `(x - mean) / std` of floats |
| Grayscale | Pillow's luma | refused |
| RGB | three channels | three channels; alpha, which v2 keeps, is dropped |

Source: torchvision/transforms/transforms.py, _presets.py, _functional_tensor.py, functional.py, and v2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NoReturn, get_args

from stridedgpu.operations.borders import BORDERS
from stridedgpu.operations.resize import installed_passes
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.strides import is_one_of

__all__ = ["ImageKind", "step_options"]

ImageKind = Literal["pil", "tensor"]
"""What a chain of transforms is given."""

_ORDER: Final = ("grey", "resize", "pad", "crop", "mirror")
"""What a step does to an image, in order, before bytes become floats."""

_CONSTANTS: Final = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
"""The interpolations by Pillow's numbers, which v2 keeps as they are."""

_PILLOW: Final[tuple[str, ...]] = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
_ATEN: Final[tuple[str, ...]] = ("nearest", "bilinear", "bicubic", "lanczos")
"""The interpolations of both libraries that are reproduced."""

_FINAL: Final = ("float16", "bfloat16", "float64")
"""The types that floats may be cast to behind all arithmetic."""

_TO_FLOATS: Final = "ToDtype(torch.float32, scale=True)"


def step_options(transforms: object, images: ImageKind, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a step with the values of these transforms, for images of a kind, beside further `options`.

    Raises `LayoutError` for what a step does not reproduce to the bit, with what to do instead.
    """
    if not is_one_of(images, get_args(ImageKind)):
        raise LayoutError(f"images={images!r} must be 'pil' or 'tensor': what the transforms are given.")
    chain = _Chain(images, list(_flat(transforms)))
    for transform in chain.transforms:
        chain.take(transform)
    return chain.result(options)


def _flat(transforms: Any) -> Iterator[object]:
    """Single transforms, one by one, of whatever contains them."""
    nested = transforms.transforms if _name(transforms) == "Compose" else transforms
    if isinstance(nested, (list, tuple)) or type(nested).__module__ == "torch.nn.modules.container":
        for one in nested:
            yield from _flat(one)
    else:
        yield nested


def _name(transform: object) -> str:
    """The name of a transform's class if it is one of torchvision's own, whose meaning is known; else nothing."""
    kind = type(transform)
    is_own = kind.__module__.startswith("torchvision.transforms.")
    return kind.__name__ if is_own else ""


def _is_newer(transform: object) -> bool:
    """True for a transform of `torchvision.transforms.v2`."""
    return type(transform).__module__.startswith("torchvision.transforms.v2")


def _numbers(values: object) -> list[object]:
    """One number, or several, as a list."""
    return list(values) if isinstance(values, (list, tuple)) else [values]


class _Chain:
    """What transforms have done to an image so far, and the options of a step that does the same."""

    def __init__(self, images: ImageKind, transforms: list[object]) -> None:
        self.transforms = transforms
        self._options: dict[str, object] = {"exif": False} if images == "pil" else {"dims": "NCHW"}
        self._draws: list[str] = []  # the transforms that choose by chance
        self._taken = 0
        self._stage, self._latest = 0, ""  # how far the pixels have come in the order, and by which transform
        self._is_tensor = images == "tensor"
        self._dtype = "uint8"
        self._arithmetic: str | None = None  # how bytes became floats of 0..1; None: they are 0..255
        self._figures: tuple[list[float], list[float]] | None = None

    def take(self, transform: object) -> None:
        """Add one transform. Raises `LayoutError` if a step cannot do the same."""
        name = _name(transform)
        handler = _HANDLERS.get(name)
        if handler is None:
            self._refuse_unknown(transform)
        handler(self, name, transform)
        self._taken += 1

    def result(self, further: dict[str, Any]) -> dict[str, Any]:
        """The options of the step. Raises `LayoutError` for choices by chance without a seed."""
        options = self._options
        if self._draws and further.get("seed") is None:
            raise LayoutError(
                f"{self._draws[0]} chooses by chance, which depends on a seed, the epoch and each image's key here: "
                "give seed=, an integer."
            )
        if "center" in self._options and further.get("seed") is not None:
            options["random_crop"] = False
        if str(options.get("interpolation")).startswith("pillow") and "passes" not in further:
            options["passes"] = installed_passes()
        self._convert()
        twice = sorted(options.keys() & further.keys() - {"dtype"})
        if twice:
            raise LayoutError(f"{twice[0]}={further[twice[0]]!r} is what the transforms say: leave {twice[0]}= out.")
        return options | self._of_annotations(further) | further

    def _of_annotations(self, further: dict[str, Any]) -> dict[str, Any]:
        """What v2 does to masks and boxes beside an image; the older transforms take images alone."""
        rules: dict[str, Any] = {}
        if not any(map(_is_newer, self.transforms)):
            return rules
        options = self._options
        if further.get("mask") is not None:
            if options.keys() & {"resize", "random_resized_crop"}:
                rules["mask_interpolation"] = "torch-nearest"
            if isinstance(options.get("fill"), (int, float)):
                rules["mask_fill"] = options["fill"]
        if further.get("boxes") is not None and options.keys() & {"crop", "pad"}:
            rules["clamp_boxes"] = True
        return rules

    def _convert(self) -> None:
        """Add the conversion of bytes: type, mean and std, and in which steps they are computed."""
        options = self._options
        options["dtype"] = self._dtype
        if self._figures is not None:
            options["mean"], options["std"] = self._figures
            options["arithmetic"] = self._arithmetic or "divide"
            if self._arithmetic is None:
                options["maximum"] = 1
        elif self._arithmetic is not None:
            options["normalize"] = "0..1"
            options["arithmetic"] = self._arithmetic

    # ---- where pixels go

    def _reach(self, stage: str, name: str, *, in_bytes: bool = False) -> None:
        """Go on to a part of the order. Raises `LayoutError` if the pixels have come further already.

        `in_bytes`: the part computes values of bytes, so that it must lie before they become floats.
        """
        place = _ORDER.index(stage) + 1
        if place <= self._stage:
            raise LayoutError(
                f"{name} comes behind {self._latest}, and a step's order is {', '.join(_ORDER)}, each once: put {name} "
                f"before {self._latest}, or make two steps of the transforms."
            )
        if in_bytes and self._dtype != "uint8":
            raise LayoutError(f"{name} would compute with floats: put it before what makes floats of bytes.")
        self._stage, self._latest = place, name

    def resize(self, name: str, transform: Any) -> None:
        self._reach("resize", name, in_bytes=True)
        if transform.size is None:
            raise LayoutError(f"{name}(size=None): a step resizes to both sides, or by the shorter one; name either.")
        size = _numbers(transform.size)
        self._options["resize"] = size[0] if len(size) == 1 else tuple(size)
        if transform.max_size is not None:
            self._options["max_size"] = transform.max_size
        self._interpolate(name, transform)

    def _interpolate(self, name: str, transform: Any) -> None:
        word = getattr(transform.interpolation, "value", transform.interpolation)
        if isinstance(word, int):
            word = _CONSTANTS[word]
        if not self._is_tensor:
            word = "nearest" if word == "nearest-exact" else word
            library, known = "pillow", _PILLOW
        else:
            if not _is_newer(transform):
                raise LayoutError(
                    f"{name} of torchvision.transforms resizes tensors as float32; "
                    f"torchvision.transforms.v2.{name} resizes bytes, and a step has its bits."
                )
            if word != "nearest" and not transform.antialias:
                raise LayoutError(f"{name}(antialias={transform.antialias}) of tensors: antialias=True is reproduced.")
            library, known = "torch", _ATEN
        if word not in known:
            raise LayoutError(
                f"{name}(interpolation={word!r}) of {'tensors' if self._is_tensor else 'PIL images'}: the "
                f"interpolations that are reproduced are {', '.join(known)}."
            )
        self._options["interpolation"] = f"{library}-{word}"

    def random_resized_crop(self, name: str, transform: Any) -> None:
        """RandomResizedCrop: a drawn box that is cut out and resized."""
        self._reach("resize", name, in_bytes=True)
        self._stage = _ORDER.index("crop") + 1
        self._options["random_resized_crop"] = tuple(transform.scale), tuple(transform.ratio)
        self._options["crop"] = tuple(_numbers(transform.size))
        self._interpolate(name, transform)
        self._draws.append(name)

    def pad(self, name: str, transform: Any) -> None:
        """Pad with a constant, or with the image's own pixels."""
        self._reach("pad", name)
        self._options["fill"] = self._surrounding(name, transform)
        sides = _numbers(transform.padding)
        across, down, *others = sides * 2 if len(sides) == 1 else sides
        right, below = others or (across, down)
        self._options["pad"] = (down, across, below, right)

    def _surrounding(self, name: str, transform: Any) -> Any:
        """What a transform puts around an image, as the step's `fill`."""
        mode = transform.padding_mode
        if mode == "constant":
            return self._constant(name, transform.fill)
        if mode not in BORDERS:
            raise LayoutError(f"{name}(padding_mode={mode!r}) is unknown; constant and {', '.join(BORDERS)} are known.")
        return mode

    def _constant(self, name: str, fill: Any) -> Any:
        """One fill of all channels, or of each."""
        if isinstance(fill, dict):
            raise LayoutError(f"{name}(fill={fill!r}): give one fill, that of images.")
        colours = [0 if value is None else value for value in _numbers(fill)]
        if self._dtype != "uint8" and (any(colours) or self._figures is not None):
            raise LayoutError(f"{name} fills with {fill} beside floats: put it before what makes floats of bytes.")
        return colours[0] if len(colours) == 1 else tuple(colours)

    def center_crop(self, name: str, transform: Any) -> None:
        """The middle window, half a pixel rounded to even."""
        self._reach("crop", name)
        self._middle(transform.size)

    def _middle(self, size: object) -> None:
        """The middle window of an image, with zeros around a smaller one, if no other fill and no mean change these."""
        self._options["crop"] = tuple(_numbers(size))
        self._options["center"] = "round"
        if self._figures is None and not any(_numbers(self._options.get("fill", 0))):
            self._options["smaller"] = "pad"

    def random_crop(self, name: str, transform: Any) -> None:
        """A drawn window, of a padded image."""
        if transform.padding is not None:
            self.pad(f"{name}(padding={transform.padding})", transform)
        self._reach("crop", name)
        if transform.pad_if_needed:
            self._pad_smaller(name, self._surrounding(name, transform))
        self._options["crop"] = tuple(_numbers(transform.size))
        self._draws.append(name)

    def _pad_smaller(self, name: str, fill: Any) -> None:
        """Surround images that are smaller than the window. Raises `LayoutError` beside pads that go on otherwise."""
        if "pad" in self._options and (fill != self._options["fill"] or fill in ("reflect", "symmetric")):
            raise LayoutError(
                f"{name}(pad_if_needed=True) pads what is padded by {self._options['fill']!r} again, by {fill!r}: a "
                "step does both at once, by one constant or by 'edge'."
            )
        self._options["fill"], self._options["smaller"] = fill, "pad"

    def flip(self, name: str, transform: Any) -> None:
        """Mirrored left and right with a probability."""
        self._reach("mirror", name)
        self._options["flip"] = float(transform.p)
        if 0 < transform.p < 1:
            self._draws.append(name)

    # ---- what values become

    def grey(self, name: str, transform: Any) -> None:
        """Pillow's luma, once or three times."""
        if self._is_tensor:
            raise LayoutError(f"{name} of tensors sums floats: put it before the tensors, where images are PIL's.")
        self._reach("grey", name)
        self._options["mode"] = "gray"
        if transform.num_output_channels == 3:
            self._options["channels"] = (0, 0, 0)

    def rgb(self, _name: str, _transform: object) -> None:
        """Three channels of a grey image, wherever in the chain: what is before treats all channels alike."""
        if self._options.get("mode") == "gray":
            self._options["channels"] = (0, 0, 0)
        else:
            self._options["mode"] = "rgb"

    def tensor_of_bytes(self, name: str, _transform: object) -> None:
        """A PIL image as a tensor of bytes."""
        if self._is_tensor and name == "PILToTensor":
            raise LayoutError(f"{name} takes a PIL image, and here it is given a tensor: leave it out.")
        self._is_tensor = True

    def to_tensor(self, name: str, _transform: object) -> None:
        """A PIL image as a tensor of floats, divided by 255."""
        if self._is_tensor:
            raise LayoutError(f"{name} takes a PIL image, and here it is given a tensor: {_TO_FLOATS} converts that.")
        self._is_tensor = True
        self._dtype, self._arithmetic = "float32", "divide"

    def convert(self, name: str, transform: Any) -> None:
        """Another type, of 0..1 for floats."""
        if not self._is_tensor:
            raise LayoutError(f"{name} converts tensors, and here it is given a PIL image: put ToImage() before it.")
        if isinstance(transform.dtype, dict):
            raise LayoutError(f"{name}(dtype={transform.dtype!r}): give one type, that of images.")
        dtype, scale = str(transform.dtype).removeprefix("torch."), getattr(transform, "scale", True)
        if dtype == self._dtype:
            return
        if self._dtype == "float32" and dtype in _FINAL:
            self._dtype = dtype
        elif self._dtype == "uint8" and dtype == "float32":
            self._dtype = dtype
            if scale:
                self._arithmetic = "torchvision-v2" if _is_newer(transform) else "divide"
        else:
            raise LayoutError(
                f"{name}(torch.{dtype}) of {self._dtype}: bytes become float32, by {_TO_FLOATS}, and floats become "
                f"{', '.join(_FINAL)} behind Normalize."
            )

    def normalise(self, name: str, transform: Any) -> None:
        """Mean and standard deviation of each channel."""
        if not self._is_tensor or self._dtype != "float32":
            given = f"a tensor of {self._dtype}" if self._is_tensor else "a PIL image"
            raise LayoutError(f"{name} takes float32, and here it is given {given}: put {_TO_FLOATS} before it.")
        if self._figures is not None:
            raise LayoutError(f"{name} comes twice: one Normalize with the figures of both is one step.")
        self._figures = [float(value) for value in transform.mean], [float(value) for value in transform.std]

    def nothing(self, name: str, transform: object) -> None:
        """What changes no pixel."""

    def preset(self, name: str, transform: Any) -> None:
        """`ImageClassification`, the transforms of weights: Resize, CenterCrop, bytes to floats, Normalize."""
        self._reach("resize", name, in_bytes=True)
        self._stage = _ORDER.index("crop") + 1
        if self._is_tensor:
            raise LayoutError(f"{name} resizes tensors as float32: give it PIL images.")
        self._options["resize"] = transform.resize_size[0]
        self._middle(transform.crop_size)
        self._interpolate(name, transform)
        self._is_tensor, self._dtype, self._arithmetic = True, "float32", "divide"
        self.normalise(name, transform)

    def _refuse_unknown(self, transform: object) -> NoReturn:
        """Raise `LayoutError`, with where the transform can go."""
        name = type(transform).__name__
        if self._taken == 0:
            advice = "call it on the images before the step"
        elif self._taken == len(self.transforms) - 1:
            advice = "call it on the result, behind the step"
        else:
            advice = "make a step of what is before it, and one of what is behind"
        raise LayoutError(f"{name} is no part of a step: take it out of the transforms, and {advice}.")


_HANDLERS: Final[dict[str, Callable[[_Chain, str, Any], None]]] = {
    "CenterCrop": _Chain.center_crop,
    "ConvertImageDtype": _Chain.convert,
    "Grayscale": _Chain.grey,
    "Identity": _Chain.nothing,
    "ImageClassification": _Chain.preset,
    "Normalize": _Chain.normalise,
    "PILToTensor": _Chain.tensor_of_bytes,
    "Pad": _Chain.pad,
    "RGB": _Chain.rgb,
    "RandomCrop": _Chain.random_crop,
    "RandomHorizontalFlip": _Chain.flip,
    "RandomResizedCrop": _Chain.random_resized_crop,
    "Resize": _Chain.resize,
    "ToDtype": _Chain.convert,
    "ToImage": _Chain.tensor_of_bytes,
    "ToPureTensor": _Chain.nothing,
    "ToTensor": _Chain.to_tensor,
}
"""What is done for each transform of torchvision that a step reproduces."""
