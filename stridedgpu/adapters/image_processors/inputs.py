"""The images of a call as operands with axes C, H, W: nested lists, batches, and modes of Pillow, as transformers does.

- Lists of lists and batches (N, C, H, W) are taken apart; how they were nested is kept for the processors that ask.
- An array's channels are its first axis if that has 1, 3 or 4 elements, else its last. `input_data_format` says so.
- Encoded bytes are opened by Pillow, with the limits of `sg.load`. They keep the camera's orientation and their mode;
  with `as_files` they become upright and RGB, as transformers' `load_image` makes them of a path.
- With `do_convert_rgb` images of Pillow become RGB, transparent ones over white; so do arrays of 1 and 4 channels.

Source: transformers, image_utils.py (`make_flat_list_of_images`, `infer_channel_dimension_format`), image_transforms.py
(`convert_to_rgb`) and image_processing_backends.py (`process_image`).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stridedgpu.devices.operand import Operand
from stridedgpu.exchange.array_like import (
    array_of_pillow,
    canonical_layout,
    frame_tensor,
    operand_of,
    operand_of_array,
)
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.operations.frames import rgb_image
from stridedgpu.operations.video_frames import frame_operand, is_frame
from stridedgpu.preprocess.decoding import opened_image
from stridedgpu.preprocess.images import Encoded, decoded, is_encoded, is_pillow_image
from stridedgpu.preprocess.pillow_memory import shared_operand
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.strides import is_one_of

from .normalising import Backend

_CHANNELS: Final = (1, 3, 4)
_WHITE: Final = 255

_NEST = (list, tuple)


def nested_images(images: Any, *, as_files: bool = False, alone: bool = False) -> list[list[Any]]:
    """The images of a call as a list of lists: those of a flat call are one list, or one each with `alone`.

    Encoded ones are opened.

    Raises `LayoutError` for a call without images and for what is none, and `ImageError` for bytes that are no image.
    """
    if isinstance(images, _NEST):
        if images and all(isinstance(entry, _NEST) for entry in images):
            return [_taken_apart(list(entry), as_files=as_files) for entry in images]
        if any(isinstance(entry, _NEST) for entry in images):
            raise LayoutError("images holds both images and lists of images; give one kind.")
        ranks = {rank_of(entry) for entry in images}
        if ranks == {4}:
            return [list(batch) for batch in images]
        flat = _taken_apart(list(images), as_files=as_files)
    elif rank_of(images) == 4:
        flat = list(images)
    else:
        flat = _taken_apart([images], as_files=as_files)
    return [[image] for image in flat] if alone else [flat]


def _taken_apart(images: list[Any], *, as_files: bool) -> list[Any]:
    """The images of a list, which may be changed, with encoded bytes opened."""
    for number, image in enumerate(images):
        if is_encoded(image):
            images[number] = opened(image, f"images[{number}]", as_files=as_files)
        elif isinstance(image, (str, dict)) or (
            rank_of(image) is None and not is_pillow_image(image) and not is_frame(image)
        ):
            raise LayoutError(
                f"images[{number}] is of type {type(image).__name__}; images are Pillow's, arrays, tensors or encoded "
                "bytes: open a file with PIL.Image.open(path)."
            )
    return images


def opened(encoded: Encoded, name: str, *, as_files: bool) -> Any:
    """The image of encoded bytes."""
    image = opened_image(encoded, name)
    if not as_files:
        return image
    from PIL import ImageOps

    return decoded(name, lambda: ImageOps.exif_transpose(image).convert("RGB"))


def rank_of(image: Any) -> int | None:
    """The number of an array's axes; None for what has none, and for encoded bytes."""
    shape: Any = None if is_encoded(image) else getattr(frame_tensor(image), "shape", None)
    return len(shape) if hasattr(shape, "__len__") else None


def image_operand(
    name: str,
    image: Any,
    backend: Backend,
    *,
    converts: bool,
    channels_of: str | None = None,
    known: tuple[int, ...] = _CHANNELS,
) -> Operand:
    """An image as bytes with axes C, H, W, over its own memory where its pixels are not converted.

    `converts` is `do_convert_rgb`, and `channels_of` is `input_data_format`; without it a first or last axis of so
    many as `known` is that of the channels. Raises `ElementTypeError` unless it holds
    bytes, and `LayoutError` for axes that no image has; messages call it `name`.
    """
    is_pillow = is_pillow_image(image)
    if is_frame(image):
        pixels, place = rgb_image(frame_operand(image)), 0
    elif is_pillow:
        pixels = decoded(name, lambda: _of_pillow(image, converts=converts))
        place = 2
    else:
        pixels, labels = operand_of(image)
        place = _channel_axis(
            name, pixels.layout.sizes, _LABELLED.get(labels or "") if channels_of is None else channels_of, known
        )
    if pixels.element.name != "uint8":
        raise ElementTypeError(
            f"{name} holds {pixels.element}; the bits of image processors are those of bytes: give uint8, "
            "such as the decoder's pixels."
        )
    layout = pixels.layout
    if 0 in layout.sizes:
        raise LayoutError(f"{name} has sizes {layout.sizes}; an image has pixels.")
    operand = pixels
    if layout.ndim == 2:
        operand = pixels.with_layout(layout.unsqueezed(0))
    elif place == 2:
        operand = pixels.with_layout(canonical_layout(layout, "HWC"))
    return _converted(name, operand, backend) if converts and not is_pillow else operand


_LABELLED: Final = {"CHW": "channels_first", "HWC": "channels_last"}


def _channel_axis(name: str, sizes: tuple[int, ...], channels_of: str | None, known: tuple[int, ...]) -> int:
    """The axis of an array's channels, 0 or 2. Raises `LayoutError` for arrays of other ranks or channels."""
    if len(sizes) == 2:
        return 0
    if len(sizes) != 3:
        raise LayoutError(f"{name} has sizes {sizes}; an image has two axes, or three with its channels.")
    if channels_of is not None:
        value = getattr(channels_of, "value", channels_of)
        if not is_one_of(value, _LABELLED.values()):
            raise LayoutError(f"input_data_format={value!r} is unknown; it is 'channels_first' or 'channels_last'.")
        return 0 if value == "channels_first" else 2
    if sizes[0] in known:
        return 0
    if sizes[2] in known:
        return 2
    *few, most = known
    raise LayoutError(
        f"{name} has sizes {sizes}, and neither the first nor the last axis has {', '.join(map(str, few))} or {most} "
        "channels: say which with input_data_format='channels_first' or 'channels_last'."
    )


def _of_pillow(image: Any, *, converts: bool) -> Operand:
    """The pixels of an image of Pillow, axes H, W, C or H, W: in its own mode, or as RGB."""
    image.load()
    mode = image.mode
    if converts and (image.info.get("transparency") is not None or (mode != "RGB" and "A" in image.getbands())):
        from PIL import Image

        coloured = image.convert("RGBA")
        white = Image.new("RGBA", coloured.size, (_WHITE,) * 4)
        image = Image.alpha_composite(white, coloured).convert("RGB")
    elif converts and mode != "RGB":
        image = image.convert("RGB")
    if converts or mode == "RGB":
        return shared_operand(image)
    return operand_of_array(array_of_pillow(image))


def broadcast(image: Operand, channels: int) -> Operand:
    """An image of one channel as a view of it so many times."""
    return image.with_layout(image.layout.broadcast_to((channels, *image.layout.sizes[1:])))


def _converted(name: str, image: Operand, backend: Backend) -> Operand:
    """An array's image as RGB: a gray one as a view of its channel three times, a transparent one over white."""
    layout = image.layout
    if layout.sizes[0] == 1:
        return broadcast(image, 3)
    if layout.sizes[0] != 4:
        return image
    if image.buffer.device != "cpu":
        raise BindingError(
            f"{name} is on {image.buffer.device} with 4 channels; images are laid over white on the CPU: "
            "bring it with .cpu()."
        )
    pixels = array_of_operand(image)
    colours, alpha = pixels[:3], pixels[3:]
    if backend == "pil":
        part = alpha / _WHITE
        return operand_of_array(np.round(part * colours + (1 - part) * _WHITE).astype(np.uint8))
    unit = np.float32(1.0 / _WHITE)
    share = alpha.astype(np.float32) * unit
    mixed = colours.astype(np.float32) * unit * share + (np.float32(1) - share)
    return operand_of_array((mixed * np.float32(_WHITE + 1.0 - 1e-3)).astype(np.uint8))
