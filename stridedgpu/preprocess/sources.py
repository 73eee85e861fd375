"""A step's inputs as operands: a batch, one image of a list, a frame, or a mask; in the declared mode and clipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from stridedgpu.api.frames import Frame
from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.operand import Operand
from stridedgpu.exchange.array_like import operand_of, operand_of_array, with_canonical_axes
from stridedgpu.operations.crop_sources import CropSources
from stridedgpu.operations.frame_sources import FrameSources
from stridedgpu.operations.frames import moved_frame, rgb_image
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.strides import canonical_axes

from .decoding import decoded
from .modes import gray_frame, is_pillow_image, pixels_of, upright, with_mode
from .normalisation import clipped

if TYPE_CHECKING:
    from stridedgpu.typing import TensorLike

    from .declaration import Declaration

__all__ = [
    "Image",
    "batch_operand",
    "image_operand",
    "mask_operand",
    "memory_of",
    "pixels_in",
    "sources_of",
]

_FEW: Final = 4
"""The most channels, or rows, of an image whose axes may be mistaken for others."""

_IMAGE_AXES: Final = len("CHW")

Image: TypeAlias = "Operand | FrameOperand"
"""One image of a list: its pixels with axes C, H, W, or a frame of luma and chroma that is converted as it is read."""


def batch_operand(step: Declaration, given: TensorLike) -> Operand:
    """Images of one size in one array, with axes in canonical order. Raises `LayoutError` for other ranks."""
    shape = getattr(given, "shape", None)
    if not hasattr(shape, "__len__"):  # of a class or a module
        shape = None
    if shape is not None and len(shape) != len(step.dims):  # in the order of the given axes
        raise _wrong_rank(shape, step.dims)
    named = getattr(given, "dims", None)
    if isinstance(named, str) and named == canonical_axes(step.dims):  # the batch names its axes
        return _adapted(step, operand_of(given)[0])
    batch, _ = operand_of(given, step.dims)
    if shape is None and len(batch.layout.sizes) != len(step.dims):
        raise _wrong_rank(batch.layout.sizes, step.dims)
    sizes = batch.layout.sizes
    if len(sizes) > _IMAGE_AXES and sizes[-2] <= _FEW < sizes[-3]:
        _refuse_planes(step, sizes)
    return _adapted(step, batch)


def image_operand(step: Declaration, given: Any, device: str) -> Image:
    """One image of a list, with its axes in canonical order. Raises `LayoutError` for anything else.

    A frame of luma and chroma is moved to `device`, where its planes are smaller than its pixels, and stays a frame
    unless its pixels are needed for `clip`. For grey it becomes its luma.
    """
    if isinstance(given, (list, tuple, str, bytes, dict, type(None), int, float)):
        raise LayoutError(
            f"it is of type {type(given).__name__}, which has no element type; pictures are arrays, as "
            "with_format('numpy') makes them."
        )
    if isinstance(given, Frame):
        return _of_frame(step, given.operand, device)
    axes = step.dims.replace("N", "")
    if is_pillow_image(given):
        image = _of_pillow(step, given, axes)
        return image if step.clip is None else clipped(image, step.clip)
    image, labels = operand_of(given)
    if labels is not None and labels == canonical_axes(axes):  # the image names its axes
        return _adapted(step, image)
    if step.mode is not None and image.layout.ndim == 2 and len(axes) == 3:  # grey, without an axis of one channel
        return _adapted(step, image.with_layout(image.layout.unsqueezed(0)))
    if image.layout.ndim != len(axes):
        raise LayoutError(f"it has sizes {image.layout.sizes}; a picture here has the axes {axes}.")
    ordered = with_canonical_axes(image, axes)[0]
    sizes = ordered.layout.sizes
    if len(sizes) == _IMAGE_AXES and sizes[-2] <= _FEW < sizes[-3]:
        _refuse_planes(step, sizes)
    return _adapted(step, ordered)


def sources_of(images: Sequence[Image]) -> CropSources:
    """Images of one type and channel count, either all frames or none, as the sources of crops and resizes."""
    frames = [image for image in images if isinstance(image, FrameOperand)]
    return FrameSources.of_frames(frames) if frames else CropSources.of_images(pixels_in(images))


def pixels_in(images: Sequence[Image]) -> list[Operand]:
    """The pixels of each image; those of frames in new memory."""
    return [rgb_image(image, None) if isinstance(image, FrameOperand) else image for image in images]


def memory_of(images: Sequence[Image]) -> dict[str, Operand]:
    """The memory that images are read from, by the name that messages have for it."""
    named: dict[str, Operand] = {}
    for row, image in enumerate(images):
        if isinstance(image, FrameOperand):
            named.update({f"plane {number} of image {row}": plane for number, plane in enumerate(image.planes)})
        else:
            named[f"image {row}"] = image
    return named


def mask_operand(given: Any, sizes: tuple[int, int], *, turns: bool) -> Operand:
    """A mask with the axes C (1), H, W: an array (H, W) of any type, or a Pillow image, whose palette is left out.

    Raises `LayoutError` unless it has the sizes of its image.
    """
    if is_pillow_image(given):
        held = decoded("the mask", lambda: np.asarray(upright(given) if turns else given))
        mask = operand_of_array(held.astype(np.uint8) if held.dtype == np.bool_ else held)
    else:
        mask, _ = operand_of(given)
    if mask.layout.sizes != sizes:
        raise LayoutError(f"the mask has sizes {mask.layout.sizes}, and its image {sizes} (height, width).")
    return mask.with_layout(mask.layout.unsqueezed(0))


def _of_frame(step: Declaration, frame: FrameOperand, device: str) -> Image:
    """A frame as it is, as its luma, or as RGB pixels."""
    if step.image_mode == "gray":
        image = gray_frame(moved_frame(frame, device))
        if "C" not in step.dims:
            image = image.with_layout(image.layout.sliced(0))
    elif frame.colours is None and step.clip is None:
        return moved_frame(frame, device)
    else:
        image = rgb_image(frame, None)
    return image if step.clip is None else clipped(image, step.clip)


def _of_pillow(step: Declaration, image: Any, axes: str) -> Operand:
    """A Pillow image, upright and in the declared mode. One that was opened and not loaded is decoded here."""
    if sorted(axes) not in (["C", "H", "W"], ["H", "W"]):
        raise LayoutError(f"it is a picture of Pillow, with height and width, and an image here has the axes {axes}.")
    pixels = decoded("it", lambda: pixels_of(image, step.image_mode, turns=step.exif))
    if len(axes) == 2:
        return operand_of(pixels)[0]
    return operand_of(pixels[..., None] if pixels.ndim == 2 else pixels, "HWC")[0]


def _adapted(step: Declaration, image: Operand) -> Operand:
    """An image or a batch in the declared mode, and clipped."""
    if step.mode is not None and "C" in step.dims:
        image = with_mode(image, step.mode)
    return image if step.clip is None else clipped(image, step.clip)


def _refuse_planes(step: Declaration, sizes: tuple[int, ...]) -> None:
    """Raise `LayoutError` for an image of so many channels and rows in the order NHWC: it looks like NCHW."""
    channels, height, width = sizes[-3:]
    if step.dims == "NHWC" and width > _FEW:
        raise LayoutError(
            f"it has sizes {(height, width, channels)} along H, W, C, which look like channels that come first: "
            "declare dims='NCHW' if they do; if not, name the axes, by sg.asarray(image, dims='HWC')."
        )


def _wrong_rank(sizes: Sequence[int], dims: str) -> LayoutError:
    """What is wrong with a batch that has more or fewer axes than `dims`."""
    return LayoutError(f"The batch has sizes {tuple(sizes)}; dims={dims!r} means {len(dims)} axes.")
