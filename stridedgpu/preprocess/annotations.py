"""Annotations: masks, boxes and points, columns that move with the images that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_named
from stridedgpu.exchange.array_like import array_of_pillow, operand_of, operand_of_array
from stridedgpu.operations.crops import fill_bytes
from stridedgpu.operations.images import CropSources
from stridedgpu.operations.options import MemoryOptions
from stridedgpu.problems.resize_problem import ResizeRule
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ElementType, element_type
from stridedgpu.values.errors import LayoutError, StridedGpuError
from stridedgpu.values.interpolation import interpolation_named
from stridedgpu.values.layout import Layout

from .declaration import Declaration, UserData, border_of
from .decoding import opened_image
from .geometry import Coordinates, Placement, moved_boxes
from .images import Pixels, decoded, is_encoded, is_pillow_image, orientation_of, upright
from .windows import write_placed
from .worker import BatchResult, Worker

Column = Sequence[object] | Mapping[int, UserData]
"""The values of a column by the numbers of rows."""

Result = TypeVar("Result")


def moved_annotations(
    step: Declaration, worker: Worker, result: BatchResult, column_of: Callable[[str | int], Column]
) -> dict[str | int, StridedTensor | list[UserData]]:
    """The declared columns of a result's rows: masks as one tensor or a list of them, boxes and points as arrays.

    Masks of single objects, axes (k, H, W), are a list.

    Raises `LayoutError` for a value that does not fit its image, with its row.
    """

    def boxes(placed: Placement, value: object) -> object:
        def inside(corners: UserData) -> Coordinates:
            return np.clip(placed.points(corners), 0, placed.size[::-1])

        _check_stated(step, value, placed.source)
        move = inside if step.clamp_boxes else placed.points
        return _moved_numbers(value, lambda numbers: moved_boxes(numbers, step.box_format, move))

    def points(placed: Placement, value: object) -> object:
        return _moved_numbers(value, placed.points)

    def mask(placed: Placement, value: object) -> Operand:
        return _mask_operand(value, placed.source, turns=step.exif)

    moved: dict[str | int, StridedTensor | list[UserData]] = {}
    if step.mask is not None:
        masks = _of_rows(result, step.mask, column_of(step.mask), mask)
        moved[step.mask] = _moved_masks(step, worker.device, masks, result)
    for name, move in ((step.boxes, boxes), (step.points, points)):
        if name is not None:
            moved[name] = _of_rows(result, name, column_of(name), move)
    return moved


def _of_rows(
    result: BatchResult, name: str | int, values: Column, move: Callable[[Placement, UserData], Result]
) -> list[Result]:
    """`move` of each row's placement and value in a column. Raises `LayoutError` that names the row."""
    assert result.placements is not None, "a step with annotations moves windows"
    moved = []
    for row, placed in zip(result.rows, result.placements, strict=True):
        try:
            moved.append(move(placed, values[row]))
        except StridedGpuError as problem:
            raise LayoutError(f"row {row} of column {name!r}: {problem}") from problem
    return moved


def _moved_numbers(values: UserData, move: Callable[[UserData], Coordinates]) -> Pixels:
    """Boxes or points moved with their image, in their own type if that is a float, else in float32."""
    if hasattr(values, "numpy") and not isinstance(values, np.ndarray):
        values = values.numpy()
    is_float = isinstance(values, np.ndarray) and values.dtype.kind == "f"
    return move(values).astype(values.dtype if is_float else np.float32, copy=False)


def _check_stated(step: Declaration, boxes: UserData, sizes: tuple[int, int]) -> None:
    """Raise `LayoutError` for boxes that say otherwise what they are, as torchvision's `BoundingBoxes` do."""
    stated, canvas = getattr(boxes, "format", None), getattr(boxes, "canvas_size", None)
    if stated is None or canvas is None:
        return
    box_format = str(getattr(stated, "value", stated)).lower()
    if box_format != step.box_format:
        raise LayoutError(f"the boxes are of the format {box_format!r}, and box_format={step.box_format!r} is stated.")
    if tuple(canvas) != sizes:
        raise LayoutError(f"the boxes are of an image of {tuple(canvas)}, and theirs has {sizes} (height, width).")
    if step.clamp_boxes and getattr(boxes, "clamping_mode", "soft") is None:
        raise LayoutError("the boxes have clamping_mode=None, and clamp_boxes=True is declared.")


def _mask_operand(value: UserData, sizes: tuple[int, int], *, turns: bool) -> Operand:
    """A mask: an array (H, W) or (k, H, W) of any type, or a Pillow image, whose palette is left out.

    Encoded bytes are opened. Raises `LayoutError` unless it has the sizes of its image, and `ImageError` for bytes that
    are no image.
    """
    if is_encoded(value):
        value = opened_image(value, "the mask")
    if is_pillow_image(value):
        pixels = decoded("the mask", lambda: array_of_pillow(value))
        if turns:
            pixels = upright(pixels, orientation_of(value))
        mask = operand_of_array(pixels.astype(np.uint8) if pixels.dtype == np.bool_ else pixels)
    else:
        mask, _ = operand_of(value)
    if mask.layout.ndim not in (2, 3) or mask.layout.sizes[-2:] != sizes:
        raise LayoutError(f"the mask has sizes {mask.layout.sizes}, and its image {sizes} (height, width).")
    return mask


def _moved_masks(
    step: Declaration, device: str, masks: list[Operand], result: BatchResult
) -> StridedTensor | list[StridedTensor]:
    """Masks moved as their images: nearest pixels, in the masks' own type."""
    if len({mask.element for mask in masks}) > 1:
        raise LayoutError(f"the masks of column {step.mask!r} are of several types; one batch has one.")
    element = masks[0].element if masks else element_type("uint8")
    placements = result.placements or ()
    if isinstance(result.images, StridedTensor) and all(mask.layout.ndim == 2 for mask in masks):
        size = result.images.sizes[-2], result.images.sizes[-1]
        return _windows_of_masks(step, device, masks, element, placements, size)
    moved = []
    for mask, placed in zip(masks, placements, strict=True):
        is_single = mask.layout.ndim == 2
        planes = [mask] if is_single else [mask.with_layout(plane) for plane in _planes(mask.layout)]
        windows = _windows_of_masks(step, device, planes, element, [placed] * len(planes), placed.size)
        moved.append(windows[0] if is_single else windows)
    return moved


def _planes(layout: Layout) -> list[Layout]:
    return [layout.sliced(number) for number in range(layout.sizes[0])]


def _windows_of_masks(
    step: Declaration,
    device: str,
    masks: list[Operand],
    element: ElementType,
    placements: Sequence[Placement],
    size: tuple[int, int],
) -> StridedTensor:
    """The windows of masks (H, W) as one batch with axes N, H, W."""
    spec = MemoryOptions().allocation((len(masks), 1, *size), ("N", "C", "H", "W"), element)
    target = spec.allocate(device_named(device))
    if masks:
        rule = ResizeRule(interpolation_named(step.chosen_mask_interpolation)) if step.resizes else None
        fill = fill_bytes(step.mask_fill, element, 1, "mask_fill")
        images = [mask.with_layout(mask.layout.unsqueezed(0)) for mask in masks]
        sources, unchanged = CropSources.of_images(images), conversion(element, element)
        write_placed(sources, placements, rule, unchanged, fill, target, border_of(step))
    return StridedTensor.over(target.with_layout(target.layout.squeezed(1)), "NHW")
