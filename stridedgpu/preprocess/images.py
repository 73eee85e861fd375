"""A step's inputs as operands: a batch, one image of a list, or a frame; in the declared mode and clipped.

Pillow's images have a mode, arrays have channels:

| a Pillow image of mode | as "rgb" | as "gray" |
|---|---|---|
| RGB, RGBX, YCbCr, HSV, CMYK | Pillow's conversion | then luma |
| L, 1 (0 and 255) | the sample three times | the sample |
| LA, PA, RGBA, La, RGBa | alpha is dropped; premultiplied colours are divided by it first | likewise |
| P | the palette's colours | their luma |
| I;16 and its byte orders, I, F | the sample three times, as uint16 or float32 | the sample |

Samples of 16 bits keep their depth: Pillow's own conversion to 8 bits would cut off all above 255. Mode I is that of
16 bits in many files, such as PGM: its samples are uint16 where all of an image fit, else int32. `check_depth` says
which steps take them. Luma is Pillow's and ITU-R BT.601's: `(19595 R + 38470 G + 7471 B + 32768) >> 16`. The camera's
orientation (EXIF) is applied before.

The channels of an array state its mode: 1 is grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha. A frame has the luma of
its RGB pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard, TypeVar

import numpy as np

from stridedgpu.api.creation import asarray
from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.operand import Operand
from stridedgpu.exchange.array_like import (
    array_of_pillow,
    frame_tensor,
    operand_of,
    operand_of_array,
    with_canonical_axes,
)
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.operations.frames import moved_frame, relayout_frames, rgb_image
from stridedgpu.operations.images import CropSources, FrameSources
from stridedgpu.operations.options import MemoryOptions
from stridedgpu.operations.video_frames import frame_operand, is_frame
from stridedgpu.typing import TensorLike
from stridedgpu.values.conversion import conversion_options
from stridedgpu.values.errors import BindingError, LayoutError, StridedGpuError
from stridedgpu.values.interpolation import interpolation_named
from stridedgpu.values.strides import canonical_axes

from .declaration import Declaration, Mode, clip_bounds, figure_of_bytes, mean_and_std
from .files import ImageError
from .pillow_memory import shared_operand, shared_pixels

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

    from .decoding import Decoder

Image: TypeAlias = Operand | FrameOperand
"""One image of a list: its pixels with axes C, H, W, or a frame of luma and chroma that is converted as it is read."""

Encoded: TypeAlias = bytes | bytearray | memoryview
"""An image's encoded bytes: the content of a file of JPEG, PNG, WebP and others."""

Pixels = np.ndarray[Any, np.dtype[Any]]
Result = TypeVar("Result")

_ORIENTATION: Final = 0x0112
"""The EXIF tag of the camera's orientation."""

_UPRIGHT: Final[dict[int, Callable[[Pixels], Pixels]]] = {
    2: lambda frame: frame[:, ::-1],
    3: lambda frame: frame[::-1, ::-1],
    4: lambda frame: frame[::-1],
    5: lambda frame: frame.swapaxes(0, 1),
    6: lambda frame: frame.swapaxes(0, 1)[:, ::-1],
    7: lambda frame: frame.swapaxes(0, 1)[::-1, ::-1],
    8: lambda frame: frame.swapaxes(0, 1)[::-1],
}
"""The view that shows an image of each EXIF orientation upright (TIFF 6.0, tag Orientation)."""

DEEP_MODES: Final = frozenset(("I", "F", "I;16", "I;16B", "I;16L", "I;16N"))
"""Pillow's modes with samples of more than 8 bits, all of them grey."""

_SIXTEEN_BITS: Final = 65535
"""The largest sample of 16 bits."""

_UNMULTIPLIED: Final = {"La": "LA", "RGBa": "RGBA"}

_LUMA: Final = (19595, 38470, 7471)
_LUMA_BITS: Final = 16

_LUMA_VALUES: Final = conversion_options(
    matrix=(tuple(weight / (1 << _LUMA_BITS) for weight in _LUMA),), bias=0.5, rounding="truncate"
)
"""`luma` of 8 bits in float32, exactly: every sum has at most 24 bits, half a level included."""

_MOST_REHEARSED: Final = 1 << 24
"""The most pixels of an image of Pillow that is processed ahead: 64 MiB."""

_FIRST_BYTES: Final = 12
"""The bytes of an encoded image that messages show: all signatures of formats end before."""

_FEW: Final = 4
"""The most channels, or rows, of an image whose axes may be mistaken for others."""

_IMAGE_AXES: Final = len("CHW")


# ---- Pillow


def is_pillow_image(value: object) -> bool:
    """True for an image of Pillow, which is not imported."""
    return _is_pillow_type(type(value))  # type: ignore[arg-type]  # types can be hashed


@lru_cache(maxsize=64)
def _is_pillow_type(kind: type) -> bool:
    """Whether a type is that of Pillow's images, or made from it."""
    return any(base.__module__ == "PIL.Image" and base.__name__ == "Image" for base in kind.__mro__)


def is_encoded(value: object) -> TypeGuard[Encoded]:
    """True for an image's encoded bytes: bytes, a bytearray, or a memoryview of one axis of bytes.

    A released memoryview has no axes. It is taken for encoded bytes, which `decoded` refuses by their name.
    """
    if isinstance(value, memoryview):
        return _is_released(value) or (value.ndim == 1 and value.itemsize == 1)
    return isinstance(value, (bytes, bytearray))


def _is_released(view: memoryview) -> bool:
    """Python names no way to ask: every property of a released memoryview raises."""
    try:
        return view.ndim < 0
    except ValueError:
        return True


def encoded_name(name: str, encoded: Encoded) -> str:
    """A name for messages about encoded bytes, with their number and the first of them.

    >>> encoded_name("the mask", b"no image")
    'the mask (8 bytes: 6e 6f 20 69 6d 61 67 65)'
    """
    if isinstance(encoded, memoryview) and _is_released(encoded):
        return f"{name} (a released memoryview)"
    first = bytes(encoded[:_FIRST_BYTES]).hex(" ")
    more = " ..." if len(encoded) > _FIRST_BYTES else ""
    return f"{name} ({len(encoded)} bytes: {first}{more})" if first else f"{name} (0 bytes)"


def decoded(subject: str, decode: Callable[[], Result]) -> Result:
    """The result of `decode`; every failure becomes an `ImageError` of one sentence, which begins with `subject`."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError:
        raise ImageError(
            f'{subject} needs Pillow to be read, which is not installed: pip install "stridedgpu[cli]".'
        ) from None
    try:
        return decode()
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ImageError(
            f"{subject} is refused as a decompression bomb: at most {Image.MAX_IMAGE_PIXELS} pixels are read, which is "
            "PIL.Image.MAX_IMAGE_PIXELS: set that to more for images that you trust."
        ) from None
    except UnidentifiedImageError:
        raise ImageError(f"{subject} is not an image in a format that Pillow reads.") from None
    except StridedGpuError:
        raise
    except MemoryError:  # a damaged file may say that it needs more than there is
        raise ImageError(f"{subject} cannot be read as an image: out of memory for its pixels.") from None
    except Exception as problem:  # noqa: BLE001 - damaged files make decoders raise errors of any type
        reason = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
        raise ImageError(f"{subject} cannot be read as an image: {reason}.") from None


def pillow_images(height: int, width: int) -> Iterator[PillowImage]:
    """A black image of Pillow; none without Pillow, nor of more pixels than requests have."""
    if height * width <= _MOST_REHEARSED:
        with suppress(ModuleNotFoundError):
            from PIL import Image

            yield Image.new("RGB", (width, height))


def encoded_images() -> Iterator[bytes]:
    """A tiny image in each format of requests that Pillow writes; none without Pillow."""
    for image in pillow_images(8, 8):
        for kind in ("JPEG", "PNG", "WEBP"):
            file = BytesIO()
            with suppress(KeyError):  # a Pillow without this format
                image.save(file, kind)
                yield file.getvalue()


def pixels_of(image: PillowImage, mode: Mode = "rgb", *, turns: bool = True) -> Pixels:
    """A Pillow image as pixels: axes H, W, C for "rgb", and H, W for "gray", by the rules above.

    With `turns` the EXIF orientation is applied. RGB shares the image's memory where Pillow can. Raises `LayoutError`
    for a mode that Pillow does not convert.
    """
    image.load()
    pixels = _converted(image, mode)
    return upright(pixels, orientation_of(image)) if turns else pixels


def _converted(image: PillowImage, mode: Mode) -> Pixels:
    """A loaded image's pixels in a mode, as they are stored."""
    if image.mode in DEEP_MODES:
        samples = array_of_pillow(image)
        if image.mode == "I" and samples.min(initial=0) >= 0 and samples.max(initial=0) <= _SIXTEEN_BITS:
            samples = samples.astype(np.uint16)
        return samples if mode == "gray" else np.broadcast_to(samples[..., None], (*samples.shape, 3))
    if mode == "rgb" and image.mode == "RGB":
        return shared_pixels(image)
    wanted, converted = "RGB" if mode == "rgb" else "L", image
    try:
        if image.mode in _UNMULTIPLIED:
            converted = image.convert(_UNMULTIPLIED[image.mode])
        if mode == "gray" and converted.mode not in ("1", "L", "LA"):
            converted = converted.convert("RGB")
        return array_of_pillow(converted if converted.mode == wanted else converted.convert(wanted))
    except ValueError as problem:
        raise LayoutError(f"it has Pillow's mode {image.mode!r}, which does not become {mode!r}: {problem}.") from None


def orientation_of(image: PillowImage) -> int:
    """The EXIF orientation of an image, 1 if it is upright; of a loaded one, since loading turns a TIFF."""
    orientation: int = image.getexif().get(_ORIENTATION, 1)
    return orientation


def upright(pixels: Pixels, orientation: int) -> Pixels:
    """The pixels, axes H, W, ..., as a view by the EXIF orientation."""
    turned = _UPRIGHT.get(orientation)
    return pixels if turned is None else turned(pixels)


# ---- modes and values


def _in_mode(image: Operand, mode: Mode) -> Operand:
    """An image with the axes (N,) C, H, W as RGB or grey: a view, except that colours on the CPU become grey in a copy.

    Raises `LayoutError` for more than 4 channels, and `BindingError` for colours on a GPU that would become grey.
    """
    layout, axis = image.layout, image.layout.ndim - 3
    count = layout.sizes[axis]
    if count not in (1, 2, 3, 4):
        raise LayoutError(f"it has {count} channels, and mode={mode!r} is for 1 (grey) to 4 (RGB and alpha).")
    before = (slice(None),) * axis
    if count <= 2 or not layout.strides[axis]:  # one sample for all channels: grey that was decoded as RGB
        grey = layout.sliced((*before, slice(0, 1)))
        sizes = (*grey.sizes[:axis], 3, *grey.sizes[axis + 1 :])
        return image.with_layout(grey if mode == "gray" else grey.broadcast_to(sizes))
    if mode == "rgb":
        return image if count == 3 else image.with_layout(layout.sliced((*before, slice(0, 3))))
    if image.buffer.device != "cpu":
        raise BindingError(f"it is on {image.buffer.device}, where colours do not become grey: bring it with .numpy().")
    return operand_of_array(luma(np.moveaxis(array_of_operand(image), axis, 0))[(*before, None)])


def luma(colours: Pixels, weights_of: tuple[int, int, int] = _LUMA, bits: int = _LUMA_BITS) -> Pixels:
    """The luma of colours whose first axis is the channels: rounded for integers, exact weights for floats.

    Three integers weigh the colours, in units of 1 / 2^`bits`.
    """
    floats = colours.dtype.kind == "f"
    wide: np.dtype[Any] = colours.dtype if floats else np.dtype(np.uint32 if colours.dtype.itemsize == 1 else np.int64)
    weights: Any = np.array(weights_of, wide)  # 0-d arrays of one type: every product stays in it
    red, green, blue = colours[:3].astype(wide)
    luma: Pixels = red * weights[0] + green * weights[1] + blue * weights[2]
    luma = luma / wide.type(1 << bits) if floats else luma + (1 << bits - 1) >> bits
    return luma.astype(colours.dtype)


def _adapted(step: Declaration, image: Operand) -> Operand:
    """An image or a batch in the declared mode, and clipped."""
    return _clipped(step, _in_mode(image, step.mode) if step.mode is not None and "C" in step.dims else image)


def _clipped(step: Declaration, image: Operand) -> Operand:
    """A copy of an image clamped to the bounds, if there are. Raises for a GPU, and for bounds that no value fits."""
    if step.clip is None:
        return image
    if image.buffer.device != "cpu":
        raise BindingError(
            f"it is on {image.buffer.device}, and clip= is for images on the CPU: bring it with .numpy()."
        )
    low, high = clip_bounds(step.clip, image.element)
    array = array_of_operand(image)
    return operand_of_array(np.clip(array, array.dtype.type(low), array.dtype.type(high)))


# ---- operands


def batch_operand(step: Declaration, value: TensorLike) -> Operand:
    """Images of one size in one array, with axes in canonical order. Raises `LayoutError` for other ranks."""
    shape = getattr(value, "shape", None)
    if not hasattr(shape, "__len__"):  # of a class or a module
        shape = None
    if shape is not None and len(shape) != len(step.dims):  # in the order of the given axes
        raise _wrong_rank(shape, step.dims)
    named = getattr(value, "dims", None)
    if isinstance(named, str) and named == canonical_axes(step.dims):  # the batch names its axes
        return _adapted(step, operand_of(value)[0])
    batch, _ = operand_of(value, step.dims)
    if shape is None and len(batch.layout.sizes) != len(step.dims):
        raise _wrong_rank(batch.layout.sizes, step.dims)
    _refuse_planes(step, batch.layout.sizes)
    return _adapted(step, batch)


def with_named_axes(value: Any) -> Any:
    """A Frame or FrameBatch of TorchCodec as a tensor that names its axes; any other value as it is."""
    return value if frame_tensor(value) is value else asarray(value)


def is_one_image(step: Declaration, value: Any) -> bool:
    """Whether a call is given one image: Pillow's, a frame, an encoded one, or an array of 1 to 4 channels without N.

    With more channels it may be a batch of grey images, whose rows would be its channels.
    """
    if is_pillow_image(value) or is_frame(value) or is_encoded(value):
        return True
    shape: Any = getattr(value, "shape", None)
    named, axes = getattr(value, "dims", None), step.image_axes
    if not hasattr(shape, "__len__") or len(shape) != len(axes) or len(axes) < 2:
        return False
    if isinstance(named, str):
        axes = named
    return "N" not in axes and ("C" not in axes or 1 <= shape[axes.index("C")] <= _FEW)


def image_operand(step: Declaration, value: object, device: str, decoder: Decoder) -> Image:
    """One image of a list, with its axes in canonical order; encoded bytes are decoded by `decoder`.

    Raises `LayoutError` for anything else, and `ImageError` for bytes that are no image.
    A frame of luma and chroma is moved to `device`, where its planes are smaller than its pixels, and stays a frame
    unless its pixels are needed for `clip`. For grey it becomes its luma.
    """
    if is_encoded(value):
        return _of_encoded(step, value, decoder)
    if isinstance(value, (list, tuple, str, dict, type(None), int, float)):
        raise LayoutError(
            f"it is of type {type(value).__name__}, which has no element type; images are arrays, as "
            "with_format('numpy') makes them."
        )
    if is_frame(value):
        return _of_frame(step, frame_operand(value), device)
    axes = step.image_axes
    if is_pillow_image(value):
        return _clipped(step, _of_pillow(step, value, axes))
    image, labels = operand_of(value)
    if labels is not None and labels == canonical_axes(axes):  # the image names its axes
        return _adapted(step, image)
    if step.mode is not None and image.layout.ndim == 2 and len(axes) == 3:  # grey, without an axis of one channel
        return _adapted(step, image.with_layout(image.layout.unsqueezed(0)))
    if image.layout.ndim != len(axes):
        raise LayoutError(f"it has sizes {image.layout.sizes}; images here have the axes {axes}.")
    ordered = with_canonical_axes(image, axes)[0]
    _refuse_planes(step, ordered.layout.sizes)
    return _adapted(step, ordered)


def sources_of(images: Sequence[Image]) -> CropSources:
    """Images of one type and channel count, either all frames or none, as the sources of crops and resizes."""
    frames = [image for image in images if isinstance(image, FrameOperand)]
    return FrameSources.of_frames(frames) if frames else CropSources.of_images(pixels_in(images))


def pixels_in(images: Sequence[Image]) -> list[Operand]:
    """The pixels of each image; those of frames in new memory."""
    return [rgb_image(image) if isinstance(image, FrameOperand) else image for image in images]


def memory_of(images: Sequence[Image]) -> dict[str, Operand]:
    """The memory that images are read from, by the name that messages have for it."""
    named: dict[str, Operand] = {}
    for row, image in enumerate(images):
        if isinstance(image, FrameOperand):
            named.update({f"plane {number} of image {row}": plane for number, plane in enumerate(image.planes)})
        else:
            named[f"image {row}"] = image
    return named


def _of_frame(step: Declaration, frame: FrameOperand, device: str) -> Image:
    """A frame as it is, as its luma, or as RGB pixels."""
    if step.image_mode == "gray":
        image = _gray_frame(moved_frame(frame, device))
        return _clipped(step, image if "C" in step.dims else image.with_layout(image.layout.sliced(0)))
    if frame.colours is None and step.clip is None:
        return moved_frame(frame, device)
    return _clipped(step, rgb_image(frame))


def _gray_frame(frame: FrameOperand) -> Operand:
    """A frame's luma with the axes C (1), H, W: the plane of a gray frame itself, or new memory.

    Samples of 8 bits become luma in one pass. Luma of deeper ones, whose sums need 64 bits, is that of an RGB image.
    """
    if frame.samples.kind == "gray" and frame.colours is not None:
        (plane,) = frame.planes
        return plane.with_layout(plane.layout.unsqueezed(0))
    if frame.element.itemsize > 1:
        return _in_mode(rgb_image(frame), "gray")
    return relayout_frames(FrameSources.of_frames([frame]), "CHW", _LUMA_VALUES, MemoryOptions(), None, None)


def _of_encoded(step: Declaration, encoded: Encoded, decoder: Decoder) -> Operand:
    """A decoded image in the declared mode: RGB, or grey for a step whose images have no channels."""
    axes = step.image_axes
    _check_flat(axes, "an encoded image")
    colours = operand_of(decoder.frame(encoded, "the image"), "HWC")[0]
    if len(axes) == 3:
        return _adapted(step, colours)
    grey = _in_mode(colours, "gray")
    return _clipped(step, grey.with_layout(grey.layout.sliced(0)))


def is_flat(axes: str) -> bool:
    """Whether images have height, width and channels, or the first two alone."""
    return sorted(axes) in (["C", "H", "W"], ["H", "W"])


def _check_flat(axes: str, kind: str) -> None:
    """Raise `LayoutError` for images with other axes than height, width and channels."""
    if not is_flat(axes):
        raise LayoutError(f"it is {kind}, with height and width; images here have the axes {axes}.")


def _of_pillow(step: Declaration, image: Any, axes: str) -> Operand:
    """A Pillow image, upright and in the declared mode. One that was opened and not loaded is decoded here."""
    _check_flat(axes, "an image of Pillow")
    pixels = decoded("it", lambda: _loaded(image, step))
    if isinstance(pixels, Operand):
        return pixels.with_layout(pixels.layout.permuted((2, 0, 1)))
    if len(axes) == 2:
        return operand_of(pixels)[0]
    return operand_of(pixels[..., None] if pixels.ndim == 2 else pixels, "HWC")[0]


def _loaded(image: PillowImage, step: Declaration) -> Operand | Pixels:
    """The pixels of a Pillow image; RGB that Pillow does not have to convert as an operand with the axes H, W, C."""
    image.load()
    is_upright = not step.exif or orientation_of(image) == 1
    if step.image_mode == "rgb" and image.mode == "RGB" and is_upright:
        return shared_operand(image)
    pixels = pixels_of(image, step.image_mode, turns=step.exif)
    check_depth(step, pixels)
    return pixels


def check_depth(step: Declaration, pixels: Pixels) -> None:
    """Raise `LayoutError` for samples that are deeper than a step's figures are for.

    This is for pixels of files and of Pillow's images, whose depth is not in the program's hands as an array's type is.
    Figures of bytes are a `scale` of 1 / 255, the rescale factor of transformers, and a result in bytes without any.
    The largest value of int32 is that of no image: it becomes 1 in none.
    """
    if pixels.dtype == np.uint8:
        return
    figure = figure_of_bytes(step, is_integer=pixels.dtype.kind in "ui")
    if figure is not None:
        raise LayoutError(
            f"it has samples of {pixels.dtype}, and {figure} is for bytes: leave that out, and declare normalize=, or "
            "mean= and std=, which divide by an integer type's largest value, or by maximum=."
        )
    if pixels.dtype == np.int32:
        span = f"it has samples of Pillow's mode I, {pixels.min()} to {pixels.max()}, which are not of 16 bits"
        if step.resizes and not interpolation_named(step.chosen_interpolation).is_nearest:
            raise LayoutError(f"{span} and are not resized: give it as np.asarray(image, np.float32).")
        if step.clip is None and step.maximum is None and mean_and_std(step) != (None, None):
            raise LayoutError(f"{span}: declare clip=, the values that become 0 and 1, or maximum=.")


def _refuse_planes(step: Declaration, sizes: Sequence[int]) -> None:
    """Raise `LayoutError` for an image of few rows and many channels in the order NHWC: it looks like NCHW."""
    if step.dims != "NHWC":
        return
    channels, height, width = sizes[-_IMAGE_AXES:]
    if height <= _FEW < channels and width > _FEW:
        raise LayoutError(
            f"it has sizes {(height, width, channels)} along H, W, C, which look like channels that come first: "
            "declare dims='NCHW' if they do; if not, name the axes, by sg.asarray(image, dims='HWC')."
        )


def _wrong_rank(sizes: Sequence[int], dims: str) -> LayoutError:
    """What is wrong with a batch that has more or fewer axes than `dims`."""
    one = f"{len(dims) - 1} of one image{' of 1 to 4 channels' if 'C' in dims else ''}"
    return LayoutError(f"The batch has sizes {tuple(sizes)}; dims={dims!r} means {len(dims)} axes, or {one}.")
