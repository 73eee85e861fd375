"""What operations see of frames: windows of RGB colours; of high dynamic range, images of linear light or SDR colours.

Such an image is made a band of rows at a time. Colours become indices of the tables of
`stridedgpu.problems.transfer_functions`, so that each device gives the entries that NumPy made. Beside the image there
is memory for a band.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from numpy.typing import NDArray

from stridedgpu.devices.frame_operand import CHANNELS, FrameOperand
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import CPU, device_named
from stridedgpu.exchange.array_like import operand_of_array
from stridedgpu.problems.frame_problem import packed_pixels
from stridedgpu.problems.transfer_functions import (
    LIGHTS,
    STEPS,
    TO_BT709,
    TRANSFERS,
    light_of_codes,
    sdr_of_light,
)
from stridedgpu.values.conversion import AS_IT_IS, Conversion, conversion, conversion_options
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.pixel_formats import PixelFormat, Plane, Samples

from .gather import gather_operand, slices
from .move import move_elements
from .options import DEFAULT_ALIGNMENT, MemoryOptions, allocate_operand
from .relayout import relayout_operand

_INDEX: Final = ELEMENT_TYPES["int32"]
_LIGHT: Final = ELEMENT_TYPES["float32"]

_BAND_COLOURS: Final = 2**18
"""Colours of a band on the CPU, whose caches hold their indices and their light."""

_BAND_COLOURS_ON_GPU: Final = 2**26
"""Colours of a band on a GPU: those of most frames."""


def _pixels(name: str, element: ElementType) -> PixelFormat:
    """Red, green and blue side by side."""
    channels = tuple(Samples(0, place, CHANNELS) for place in range(CHANNELS))
    return PixelFormat(name, "rgb", element, 8 * element.itemsize, 0, (Plane(1, 1, CHANNELS),), channels)


_PIXELS: Final = {"linear": _pixels("linear light", _LIGHT), "sdr": _pixels("SDR colours", ELEMENT_TYPES["uint8"])}

_TO_STEPS: Final = conversion_options(matrix=TO_BT709, scale=STEPS).conversion(_LIGHT, CHANNELS, _INDEX)
"""Light in BT.709's primaries, in the steps of SDR's curve. What is below 0 or above 1 is clamped as an index."""


def check_light(transfer: object, light: object) -> None:
    """Raise `LayoutError` for an unknown transfer function or light, and for light without a transfer function."""
    for name, value, known in (("transfer", transfer, TRANSFERS), ("light", light, LIGHTS)):
        if value is not None and not (isinstance(value, str) and value in known):
            raise LayoutError(f"{name}={value!r} is unknown; it is one of {', '.join(map(repr, known))}, or None.")
    if light is not None and transfer is None:
        raise LayoutError(
            f"light={light!r} follows from a transfer function, and this frame states none of HDR: say transfer='pq' "
            "or 'hlg' if it is, or leave light= out."
        )


def write_frame_window(
    frame: FrameOperand, origin: tuple[int, int], target: Operand, conversion: Conversion, stream: object
) -> None:
    """Write the window of a frame from pixel `origin` on to a target with axes C, H, W."""
    if not target.layout.element_count:
        return
    colours = frame.colours
    _, height, width = target.layout.sizes
    if colours is not None:
        rows, columns = slice(origin[0], origin[0] + height), slice(origin[1], origin[1] + width)
        window = colours.with_layout(colours.layout.sliced((slice(None), rows, columns)))
        move_elements(window, target, conversion, 0, stream)
        return
    device = device_named(frame.device)
    launch = device.launch_for(frame.window(target.spec, conversion))
    launch(frame.planes, origin, target, stream)


def with_light(frame: FrameOperand, stream: object = None) -> FrameOperand:
    """The frame itself, or for one with `light` a frame of packed pixels in new memory."""
    if frame.light is None or frame.transfer is None:
        return frame
    samples, (height, width) = _PIXELS[frame.light], frame.sizes
    row = CHANNELS * width
    rows = min(height, max(1, (_BAND_COLOURS if frame.device == CPU.name else _BAND_COLOURS_ON_GPU) // row))
    image, indices, light = (
        allocate_operand(Layout(sizes), element, DEFAULT_ALIGNMENT, frame.device, stream=stream)
        for sizes, element in (
            ((height, width, CHANNELS), samples.element),
            ((rows, width, CHANNELS), _INDEX),
            ((rows, width, CHANNELS) if frame.light == "sdr" else (0,), _LIGHT),
        )
    )
    as_index = conversion(frame.element, _INDEX)
    lights = _on_device(light_of_codes(frame.transfer, frame.light, frame.element.limits[1]), frame.device, stream)
    curve = _on_device(sdr_of_light(), frame.device, stream) if frame.light == "sdr" else None
    for top in range(0, height, rows):
        count = min(rows, height - top) * row
        window = packed_pixels(count // row, width)
        codes = indices.with_layout(window)
        write_frame_window(frame, (top, 0), codes, as_index, stream)
        part = image.with_layout(Layout((count,), offset=top * row))
        listed = indices.with_layout(Layout((count,)))
        if curve is None:
            gather_operand(slices, lights, None, listed, 0, "clip", part, stream)
            continue
        gather_operand(slices, lights, None, listed, 0, "clip", light.with_layout(Layout((count,))), stream)
        move_elements(light.with_layout(window), codes, _TO_STEPS, 0, stream)
        gather_operand(slices, curve, None, listed, 0, "clip", part, stream)
    return replace(frame, samples=samples, planes=(image,), transfer=None, light=None)


def _on_device(table: NDArray[Any], device: str, stream: object) -> Operand:
    """A table in a device's memory."""
    operand = operand_of_array(table)
    if device == CPU.name:
        return operand
    return relayout_operand(operand, None, AS_IT_IS, MemoryOptions(device=device), None, stream)[0]
