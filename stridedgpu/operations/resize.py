"""Resize: boxes of images of any sizes into one batch, converted and laid out in the same pass."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import isfinite
from numbers import Integral
from typing import Any, Final, NamedTuple

import numpy as np

from stridedgpu.devices.cpu.memory_left import LARGE_BYTES, check_memory_left
from stridedgpu.devices.frame_operand import CHANNELS, FrameOperand
from stridedgpu.devices.interface import Device, EvenlyLocated, Launch, ResizeSource
from stridedgpu.devices.launch_cache import cached_launches, settings
from stridedgpu.devices.operand import AllocationSpec, Operand, share_memory
from stridedgpu.devices.selection import CPU, device_named
from stridedgpu.exchange.array_like import operand_of
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.problems.crop_windows import are_alike, source_steps
from stridedgpu.problems.frame_problem import FrameSurface
from stridedgpu.problems.resize_problem import ResizeProblem, ResizeRule, ResizeWindow
from stridedgpu.problems.resize_taps import Box
from stridedgpu.typing import Border, ImageSize
from stridedgpu.values.axis_labels import Labels
from stridedgpu.values.bounded_cache import count_bytes
from stridedgpu.values.constants import real
from stridedgpu.values.conversion import Conversion, ConversionOptions
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.interpolation import PASSES, Interpolation, Passes, arithmetic_of, interpolation_named
from stridedgpu.values.layout import Layout
from stridedgpu.values.memoized import interned
from stridedgpu.values.strides import is_one_of
from stridedgpu.values.tensor_spec import TensorSpec

from .batches import batch_result, batched, run_steps, steps_of
from .borders import border_named, fill_borders
from .channel_blocks import order_of_blocks, parse_order
from .crops import fill_bytes, flips_of, window_size
from .images import CropSources, FrameSources, FramesRequirement, as_batch, first_image
from .options import MemoryOptions
from .plans import (
    HasOperand,
    Plan,
    PlanOperand,
    Requirement,
    check_output_layout,
    check_output_memory,
    has_operand,
    no_tensor,
)

_ONE_ORDER: Final[Passes] = "horizontal"
"""The order of Pillow up to 12, and of libraries that have no other."""

_FIRST_OF_TWO_ORDERS: Final = 13
"""The first version of Pillow that chooses the first pass by the sizes."""

_MOST_PIXELS: Final = 1 << 31
"""Of a side: taps are numbered by 32 bits."""


def resized_size(size: ImageSize) -> tuple[int, int]:
    """`size` as height and width; one number is both. Raises `LayoutError` unless both are from 1 to below 2**31."""
    height, width = window_size(size)
    if not height or not width:
        raise LayoutError(f"size={(height, width)} must be a height and a width of at least 1 pixel.")
    if max(height, width) >= _MOST_PIXELS:
        raise LayoutError(f"size={(height, width)} must be a height and a width below 2**31 pixels.")
    return height, width


def side_resized(size: ImageSize, boxes: Sequence[Box]) -> tuple[int, int]:
    """`size` as height and width; one number is the shorter side of what is resized, as by torchvision's Resize.

    Raises `LayoutError` if boxes of several shapes would get different sizes.
    """
    if type(size) is tuple or not isinstance(size, Integral) or isinstance(size, bool):
        return resized_size(size)
    side, _ = resized_size(size)
    sizes = {shorter_side(side, (bottom - top, right - left)) for top, left, bottom, right in boxes}
    if len(sizes) > 1:
        raise LayoutError(
            f"size={side} is the shorter side, and these images would get the sizes {sorted(sizes)}; give height and "
            "width, or resize them one by one."
        )
    return sizes.pop() if sizes else (side, side)


def check_pixels(height: float, width: float, name: str = "an image") -> None:
    """Raise `LayoutError` for an image without pixels; messages call it `name`."""
    if not height or not width:
        raise LayoutError(f"{name} has {height} x {width} pixels; there is nothing to resize.")


def shorter_side(side: int, sizes: tuple[float, float]) -> tuple[int, int]:
    """Height and width of an image whose shorter side becomes `side`; the longer one is rounded down.

    Raises `LayoutError` for an image without pixels.

    Source: torchvision, transforms/functional.py, `_compute_resized_output_size`.

    >>> shorter_side(256, (375, 500)), shorter_side(256, (500, 375))
    ((256, 341), (341, 256))
    """
    height, width = sizes
    check_pixels(height, width)
    if width <= height:
        return int(side * height / width), side
    return side, int(side * width / height)


def checked_rule(
    interpolation: object, passes: object, *, premultiply: bool, element: ElementType, channels: int
) -> ResizeRule:
    """The rule for images of a type; `passes=None` is the order of Pillow 13 for Pillow's filters.

    Raises `LayoutError` and `ElementTypeError` for rules that do not exist.
    """
    named = interpolation_named(interpolation)
    if passes is not None and not is_one_of(passes, PASSES):
        raise LayoutError(f"passes={passes!r} is unknown; there are {', '.join(PASSES)}.")
    if not named.is_pillow and passes not in (None, _ONE_ORDER):
        raise LayoutError(f"passes={passes!r} is Pillow's; with interpolation={str(named)!r} leave it out.")
    arithmetic_of(named, element)
    if premultiply and (not named.is_pillow or element.name != "uint8" or channels not in (2, 4)):
        raise LayoutError(
            f"premultiply=True is for uint8 images whose last channel, of 2 or 4, is alpha, with Pillow's "
            f"interpolations; these have {channels} channels of {element}, and interpolation={str(named)!r}."
        )
    if passes is None:
        warn_of_other_passes(named)
    known = next((name for name in PASSES if name == passes), default_passes(named))
    return ResizeRule(named, known, premultiply and not named.is_nearest)


def default_passes(interpolation: Interpolation) -> Passes:
    """The order of the passes of an interpolation where none is stated."""
    return "pillow-13" if interpolation.is_pillow else _ONE_ORDER


def warn_of_other_passes(interpolation: Interpolation) -> None:
    """Warn, once a process, if the default order is not that of the installed Pillow for this interpolation."""
    if interpolation.is_pillow and not interpolation.is_nearest:
        _warn()


def installed_passes() -> Passes:
    """The order of passes of the Pillow that is installed; that of Pillow 13 where there is none."""
    major = _pillow_version().partition(".")[0]
    return _ONE_ORDER if major.isdecimal() and int(major) < _FIRST_OF_TWO_ORDERS else "pillow-13"


@cache
def _warn() -> None:
    """Warn if the installed Pillow has another order."""
    if installed_passes() != _ONE_ORDER:
        return
    warnings.warn(
        f"passes=None is passes='pillow-13', which takes the rows first where the height shrinks by more than twice as "
        f"many pixels as the width. Pillow {_pillow_version()} is installed, which never does: passes={_ONE_ORDER!r} "
        "has its pixels, and passes='pillow-13' these without this warning.",
        stacklevel=_level_of_the_caller(),
    )


@cache
def _pillow_version() -> str:
    """The version of Pillow, which is not imported; empty where it is not installed."""
    imported: str | None = getattr(sys.modules.get("PIL"), "__version__", None)
    if imported is not None:
        return imported
    from importlib import metadata

    try:
        return metadata.version("pillow")
    except metadata.PackageNotFoundError:
        return ""


def _level_of_the_caller() -> int:
    """The `stacklevel` in `_warn` of the first frame outside this package, as `skip_file_prefixes` of Python 3.12."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("stridedgpu."):
        level, frame = level + 1, frame.f_back
    return level


def box_of(box: Sequence[float] | None, size: tuple[int, int], name: str = "box", image: str = "an image") -> Box:
    """Top, left, bottom, right of a box in an image of `size` (None: all). Raises `LayoutError` for others."""
    height, width = size
    check_pixels(height, width, image)
    if box is None:
        return (0.0, 0.0, float(height), float(width))
    try:
        top, left, bottom, right = map(real, box)
    except (TypeError, ValueError, OverflowError):
        raise LayoutError(f"{name}={box!r} must be four numbers: top, left, bottom and right, in pixels.") from None
    inside = 0 <= top < bottom <= height and 0 <= left < right <= width
    if not inside or not all(isfinite(edge) for edge in (top, left, bottom, right)):
        raise LayoutError(
            f"{name}={(top, left, bottom, right)} must be top, left, bottom and right of a box inside the image, "
            f"which has {height} x {width} pixels."
        )
    return (top, left, bottom, right)


def _box_operand(boxes: object) -> Operand:
    try:
        return operand_of(boxes)[0]
    except (ElementTypeError, ValueError) as error:
        raise LayoutError(f"boxes={boxes!r} must be numbers (k, 4): top, left, bottom and right.") from error


def _boxes_of(operand: Operand, sizes: Sequence[tuple[int, int]]) -> list[Box]:
    """One box for each image of these sizes, from an operand of sizes (k, 4)."""
    count = len(sizes)
    if count == 0 == operand.layout.element_count:
        return []
    if operand.layout.ndim != 2:
        raise LayoutError(f"boxes have sizes {operand.layout.sizes}; they must be (k, 4): one row for each image.")
    if operand.element.kind not in "uif":
        raise ElementTypeError(
            f"boxes hold {operand.element}; they must be numbers: top, left, bottom and right in pixels."
        )
    if operand.buffer.device != "cpu":
        raise BindingError(
            f"boxes are on {operand.buffer.device}, but taps are worked out by the host: bring them with .numpy()."
        )
    if operand.layout.sizes != (count, 4):
        raise LayoutError(
            f"boxes have sizes {operand.layout.sizes}; {count} images need ({count}, 4): top, left, bottom and right."
        )
    listed = np.asarray(array_of_operand(operand), np.float64).tolist()
    pairs = enumerate(zip(listed, sizes, strict=True))
    return [box_of(box, size, f"boxes[{row}]", f"the image of boxes[{row}]") for row, (box, size) in pairs]


class ResizeOptions(NamedTuple):
    """What a resize or letterbox is asked for besides conversion and memory: a hashable value.

    `labels` are the axes of the result, and `size` its height and width. `scale_up` is None where boxes fill the
    result; of a letterbox it says whether smaller images are enlarged. `frame` is what a letterbox is scaled to fit,
    where `size` is less; None is `size`.
    """

    labels: str
    size: tuple[int, int]
    interpolation: object
    passes: object
    premultiply: bool = False
    scale_up: bool | None = None
    fill: object = 0
    fill_name: str = "fill"
    frame: tuple[int, int] | None = None

    @property
    def recur(self) -> bool:
        """Whether these options may be the key of a cache: 0 and -0.0 are equal, too, and fill with other bits."""
        return type(self.interpolation) is str and type(self.passes) in _WORDS and type(self.fill) in (int, str)

    @property
    def border(self) -> Border | None:
        """How the border continues an image; None where it has a colour. Raises `LayoutError` for unknown words."""
        return border_named(self.fill, self.fill_name)

    def rule(self, element: ElementType, channels: int) -> ResizeRule:
        """The rule for images of a type. Raises what `checked_rule` raises."""
        weighs = self.premultiply
        return checked_rule(self.interpolation, self.passes, premultiply=weighs, element=element, channels=channels)

    def window(self, image: Layout, box: Box | None, *, flip: bool = False) -> ResizeWindow:
        """The window of a box, or of all, of an image with axes C, H, W."""
        _, height, width = image.sizes
        box = box or box_of(None, (height, width))
        if self.scale_up is None:
            return ResizeWindow(image, box, (0, 0, *self.size), flip)
        place = placement((height, width), self.frame or self.size, scale_up=self.scale_up, within=self.size)
        return ResizeWindow(image, box, place, flip)


_WORDS: Final = (str, type(None))
"""Types of a checked or missing word."""


class _Resizing(NamedTuple):
    """A resize of images whose memory is not known.

    `shape` is the sizes and labels of the result. `fill` is one element for each channel of an image, as bytes, or
    empty where a border continues the image. `launches` write the result in its memory on the images' device, with
    `room` between two of them; they are None for a result in blocks of channels or on another device. `allocation` is
    that of a new result.
    """

    windows: Sequence[ResizeWindow]
    rule: ResizeRule
    fill: bytes
    conversion: Conversion
    shape: tuple[tuple[int, ...], Labels]
    launches: tuple[Launch, ...] | None
    room: AllocationSpec | None = None
    allocation: AllocationSpec | None = None


def resize_operands(
    sources: CropSources,
    options: ResizeOptions,
    values: ConversionOptions,
    memory: MemoryOptions,
    *,
    boxes: Sequence[Box] | None = None,
    flips: Sequence[bool] | None = None,
    out: Operand | None = None,
    stream: object = None,
) -> Operand:
    """Resize a box of each image, by default all of it, into a batch: one source for each box."""
    first, written = sources.operands[0], None if out is None else out.spec
    here = first.buffer.device
    device = CPU if here == "cpu" else device_named(here)
    if out is not None:
        memory.check_beside_out()
        values = values if values.dtype is not None else values._replace(dtype=out.element)
    recurs = options.recur and sources.is_batch and first.layout.sizes[0] <= _MOST_IMAGES
    if boxes is None and recurs and memory.device is None:
        whole, name, key = first.layout, first.element.name, settings()
        resizing = _resizing_of_batch(whole.sizes, whole.strides, name, options, values, memory, written, device, key)
    else:
        element, channels = sources.element, sources.channels
        windows = _with_surfaces(_windows(sources.layouts, options, boxes, flips), sources.surfaces)
        resizing = _resizing(windows, element, channels, options, values, memory, written, device)
    border = options.border

    def surround(target: Operand) -> None:
        if border is not None:
            fill_borders(target, [window.place for window in resizing.windows], border, stream)

    if resizing.launches is None:

        def write(target: Operand, part: Conversion) -> None:
            write_resized(sources, resizing.windows, resizing.rule, part, resizing.fill, target, stream)
            surround(target)

        return batch_result(sources, resizing.shape, resizing.conversion, memory, out, write, stream)
    if resizing.allocation is not None:
        target = resizing.allocation.allocate(device, stream)
    else:
        assert out is not None, "a result without memory of its own is in out"
        check_output_memory(out, here, **sources.near(out))
        target = out
    if resizing.launches:
        run_steps(resizing.launches, resizing.room, resizing.windows, sources.resized, target, stream)
        surround(batched(target, resizing.shape[1]))
    return target


def _windows(
    layouts: Sequence[Layout], options: ResizeOptions, boxes: Sequence[Box | None] | None, flips: Sequence[bool] | None
) -> Sequence[ResizeWindow]:
    if boxes is None:
        if are_alike(layouts):
            return [options.window(layouts[0], None)] * len(layouts)
        boxes = [None] * len(layouts)
    mirrored = flips or [False] * len(boxes)
    cut = zip(layouts, boxes, mirrored, strict=True)
    return [options.window(layout, box, flip=flip) for layout, box, flip in cut]


def _with_surfaces(
    windows: Sequence[ResizeWindow], surfaces: Sequence[FrameSurface | None] | None
) -> Sequence[ResizeWindow]:
    """The windows, with the surface of each image that is a frame of luma and chroma."""
    if surfaces is None:
        return windows
    return [window._replace(surface=surface) for window, surface in zip(windows, surfaces, strict=True)]


_MOST_IMAGES: Final = 1 << 12
"""Of a batch whose windows are kept: a window each, which costs a large batch less than its pixels."""


@cached_launches
def _resizing_of_batch(
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    element_name: str,
    options: ResizeOptions,
    values: ConversionOptions,
    memory: MemoryOptions,
    out: TensorSpec | None,
    device: Device,
    key: Hashable,  # noqa: ARG001 - of the cache: the settings
) -> _Resizing:
    """The resize of whole images of a batch with axes N, C, H, W; cached. Other boxes and lists seldom recur."""
    image, _ = first_image(Layout(sizes, strides)) if sizes[0] else (Layout(sizes), 0)
    windows = interned((options.window(image, None),) * sizes[0]) if sizes[0] else ()  # devices go by identity
    count_bytes(8 * len(windows))
    return _resizing(windows, ELEMENT_TYPES[element_name], sizes[1], options, values, memory, out, device)


def _resizing(
    windows: Sequence[ResizeWindow],
    element: ElementType,
    channels: int,
    options: ResizeOptions,
    values: ConversionOptions,
    memory: MemoryOptions,
    out: TensorSpec | None,
    device: Device,
) -> _Resizing:
    """The resize of windows of images with this type and as many channels, into new memory or `out`."""
    rule, labels = options.rule(element, channels), options.labels
    conversion = values.conversion(element, channels if "C" in labels else None, element)
    fill = b""
    if options.border is None:
        fill = fill_bytes(options.fill, element, channels, options.fill_name)
    extents = dict(zip("NCHW", (len(windows), conversion.output_channels(channels), *options.size), strict=True))
    sizes = tuple(extents[axis] for axis in labels)
    order = parse_order(memory.layout) if isinstance(memory.layout, str) else None
    if order is not None and order.is_blocked and labels != "NCHW":
        raise LayoutError(f"layout={memory.layout!r} splits the channels of a batch, with axes N, C, H, W, alone.")
    shape = sizes, tuple(labels)
    if out is not None and "C" in labels:
        order = order_of_blocks(sizes, labels.index("C"), out.layout.sizes)
    if memory.device is not None or (order is not None and order.multiple > 1):
        return _Resizing(windows, rule, fill, conversion, shape, None)
    allocation, target = None, out
    if target is None:
        allocation = memory.allocation(*shape, conversion.target)
        target = allocation.spec
    else:
        check_output_layout(target.layout, target.element, sizes, conversion.target)
    if not target.layout.element_count:
        return _Resizing(windows, rule, fill, conversion, shape, (), None, allocation)
    batch = target if labels == "NCHW" else replace(target, layout=as_batch(target.layout, labels))
    problems, room = _steps(windows, rule, fill, _shared_window(windows), batch, conversion, device.name)
    launches = tuple(device.launch_for(problem) for problem in problems)
    return _Resizing(windows, rule, fill, conversion, shape, launches, room, allocation)


def _shared_window(windows: Sequence[ResizeWindow]) -> ResizeWindow | None:
    """The window of all images, a part of the plan; None if they differ.

    It is None, too, for a single image whose box is not the whole image: random boxes never recur, and each would add
    a plan to the cache.
    """
    if not windows or any(window != windows[0] for window in windows):
        return None
    (_, height, width), box = windows[0].layout.sizes, windows[0].box
    return windows[0] if len(windows) > 1 or box == (0, 0, height, width) else None


_TABLE_BYTES: Final = 160
"""The most bytes for each pixel of an axis, of the source or of the result, while its taps are computed: Lanczos'."""


def check_axes(source: Sequence[int], resized: Sequence[int]) -> None:
    """Check the heights and widths of an image and of what it is resized to, of which a window may be a small part.

    Raises `LayoutError` for more pixels along an axis than taps can name, and `DeviceError` for axes whose tables of
    taps the CPU has no memory for.
    """
    table_bytes = _TABLE_BYTES * (sum(source) + sum(resized))
    if table_bytes < LARGE_BYTES:
        return
    for sizes, words in ((source, "an image has"), (resized, "a resized image has")):
        if max(sizes) >= _MOST_PIXELS:
            raise LayoutError(f"{words} {max(sizes)} pixels along an axis; a resize takes up to {_MOST_PIXELS - 1}.")
    check_memory_left("The CPU", table_bytes)


def _steps(
    windows: Sequence[ResizeWindow],
    rule: ResizeRule,
    fill: bytes,
    shared: ResizeWindow | None,
    target: TensorSpec,
    conversion: Conversion,
    device: str,
) -> tuple[tuple[Any, ...], AllocationSpec | None]:
    """The problems that write the windows into a target with axes N, C, H, W, and the memory between two of them.

    Raises what `check_axes` does.
    """
    for source, resized in {(window.layout.sizes[1:], window.place[2:]) for window in windows}:
        check_axes(source, resized)
    strides = source_steps([window.layout for window in windows])
    reads_frames = any(window.surface is not None for window in windows)
    channels = windows[0].layout.sizes[0]

    def problem(spec: TensorSpec, part: Conversion) -> ResizeProblem:
        return ResizeProblem(spec, part, rule, channels, strides, fill, shared, reads_frames)

    return steps_of(problem, target, conversion, device)


def write_resized(
    sources: CropSources,
    windows: Sequence[ResizeWindow],
    rule: ResizeRule,
    conversion: Conversion,
    fill: bytes,
    target: Operand,
    stream: object,
) -> None:
    """Write every window into `target`, axes N, C, H, W; the caller has checked all arguments.

    With an empty `fill` what no image covers may keep its values.
    """
    if not target.layout.element_count:  # no channels, say
        return
    device, windows = device_named(target.buffer.device), _with_surfaces(windows, sources.surfaces)
    shared = _shared_window(windows)
    if len(windows) == 1 and shared is not None:
        launches, room, windows = _of_one(shared, rule, fill, target.spec, conversion, device, settings())
    else:
        problems, room = _steps(windows, rule, fill, shared, target.spec, conversion, device.name)
        launches = tuple(device.launch_for(problem) for problem in problems)
    run_steps(launches, room, windows, sources.resized, target, stream)


@cached_launches
def _of_one(
    window: ResizeWindow,
    rule: ResizeRule,
    fill: bytes,
    target: TensorSpec,
    conversion: Conversion,
    device: Device,
    _settings: tuple[Hashable, ...],
) -> tuple[tuple[Launch, ...], AllocationSpec | None, Sequence[ResizeWindow]]:
    """The launches of a single whole image, whose size recurs, the memory between them, and its window for them."""
    problems, room = _steps((window,), rule, fill, window, target, conversion, device.name)
    return tuple(device.launch_for(problem) for problem in problems), room, (window,)


def resized_boxes(
    sources: CropSources,
    boxes: object,
    size: ImageSize,
    rule: tuple[object, object],
    values: ConversionOptions,
    memory: MemoryOptions,
    *,
    flip: object,
    fill: object,
    out: Operand | None,
    stream: object,
) -> Operand:
    """`stridedgpu.gather_crops` with boxes: one box of each image, or any number of boxes of a single image.

    `rule` is the interpolation and the first pass.
    """
    options = ResizeOptions("NCHW", resized_size(size), *rule, fill=fill)
    sources.check(sources.channels, sources.element, sources.device)
    listed = _box_operand(boxes)
    count = listed.layout.sizes[0] if listed.layout.sizes else 0
    if len(sources.layouts) == 1 != count:
        sources = sources.repeated(count)
    taken = _boxes_of(listed, [(layout.sizes[1], layout.sizes[2]) for layout in sources.layouts])
    flips = flips_of(flip, count)
    return resize_operands(sources, options, values, memory, boxes=taken, flips=flips, out=out, stream=stream)


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """What a plan reads: a tensor of `count` images, the first one `first_bytes` behind its lowest element."""

    required: Requirement
    count: int
    first_bytes: int
    step_bytes: int

    def located(self, src: object) -> tuple[Sequence[ResizeSource], Sequence[Operand]]:
        """Each image's memory, and the operand. Raises `BindingError` and `ElementTypeError` for others."""
        if not has_operand(src):
            raise no_tensor(src=src)
        source: Operand = src.operand
        if not isinstance(source, Operand):
            raise BindingError(f"src={src!r} is no tensor like the one that was planned for.")
        self.required.check("src", source)
        first = source.start_bytes + self.first_bytes
        return EvenlyLocated(source.buffer, first, self.step_bytes, self.count), [source]


class ReadImages(NamedTuple):
    """The images of a plan: their layouts and surfaces, type and channels, and the requirement on those of a call."""

    layouts: Sequence[Layout]
    surfaces: Sequence[FrameSurface | None] | None
    element: ElementType
    channels: int
    required: ReadBatch | FramesRequirement

    @classmethod
    def of_batch(cls, source: PlanOperand, labels: str, device: str) -> ReadImages:
        """The images of a tensor with the axes `labels`, or of a descriptor."""
        batch, itemsize = as_batch(source.spec.layout, labels), source.spec.element.itemsize
        count = batch.sizes[0]
        image, first = first_image(batch) if count else (batch, 0)
        required = ReadBatch(source.required(device), count, first * itemsize, batch.strides[0] * itemsize)
        return cls([image] * count, None, source.spec.element, batch.sizes[1], required)

    @classmethod
    def of_frames(cls, frames: Sequence[FrameOperand], device: str, *, is_batch: bool) -> ReadImages:
        """Frames of any sizes and formats. Raises what `FrameSources.of_frames` raises."""
        sources = FrameSources.of_frames(frames)
        required = FramesRequirement.of(sources, device, is_batch=is_batch)
        return cls(sources.layouts, sources.surfaces, sources.element, CHANNELS, required)


class PlannedResize(Plan):
    """A resize or letterbox, planned once by `plan_resize` or `plan_letterbox` and run many times: `plan(src, out)`.

    It runs on tensors with the sizes, strides and types of the plan, or on frames of the same formats, sizes, pitches,
    matrices and chroma. If the plan's device is unavailable, as `missing` tells, the plan is for a reference GPU and
    can only be read.
    """

    __slots__ = ()

    @property
    def heading(self) -> list[str]:
        """The steps, and a line for each window where they differ."""
        windows, _ = self.options
        problem = self.plan.problem
        alike = isinstance(problem, ResizeProblem) and problem.window is not None
        lines = [] if alike else [f"{number}: {window.describe()}" for number, window in enumerate(windows)]
        return [*super().heading, *lines]

    def __call__(self, src: object, out: HasOperand, stream: object = None) -> None:
        """Run on a tensor, a frame or a list of frames, and a tensor; nothing is written if they do not fit the plan.

        Raises `BindingError` for another layout, type, format, device or alignment than planned, a read-only `out`, or
        sides that share memory. Raises `LayoutError` for another number of frames, and `DeviceError` if the plan's
        device is unavailable.
        """
        self.check_runnable()
        if not has_operand(out):
            raise no_tensor(out=out)
        (read, for_out), (windows, room) = self.sides, self.options
        places, operands = read.located(src)
        target = out.operand
        for_out.check("out", target)
        if any(share_memory(operand, target) for operand in operands):
            raise BindingError("out shares memory with src.")
        if windows:
            run_steps(self.launches, room, windows, places, target, stream)


def planned_resize(
    read: ReadImages,
    target: PlanOperand,
    box: Sequence[float] | None,
    options: ResizeOptions,
    values: ConversionOptions,
    device: str,
) -> PlannedResize:
    """The plan of a resize of one box of each image, by default all of it, into a target.

    Raises `LayoutError` if the target does not fit.
    """
    labels, channels = options.labels, read.channels
    rule = options.rule(read.element, channels)
    written = as_batch(target.spec.layout, labels)
    conversion = values.conversion(read.element, channels if "C" in labels else None, target.spec.element)
    wanted = len(read.layouts), conversion.output_channels(channels)
    if written.sizes[:2] != wanted or 0 in written.sizes[2:]:
        raise LayoutError(
            f"dst has sizes {target.spec.layout.sizes}; this resize makes {wanted[0]} images of {wanted[1]} "
            "channels, of at least 1 x 1 pixels."
        )
    if written.has_overlap:
        raise LayoutError(f"dst repeats or overlaps its own elements: {target.spec.layout}.")
    boxes = None if box is None else [box_of(box, (image.sizes[1], image.sizes[2])) for image in read.layouts]
    windows = tuple(_with_surfaces(_windows(read.layouts, options, boxes, None), read.surfaces))
    shared = windows[0] if len(set(windows)) == 1 else None
    fill = fill_bytes(options.fill, read.element, channels, options.fill_name)
    batch = replace(target.spec, layout=written)
    problems, room = _steps(windows, rule, fill, shared, batch, conversion, device)
    sides = read.required, target.required(device, is_written=True)
    return PlannedResize.of(device, problems, sides, (windows, room))


def whole_strides(source: tuple[int, int], frame: tuple[int, int], stride: int, *, scale_up: bool) -> tuple[int, int]:
    """Height and width of the least rectangle around an image of `source` in `frame` that lacks whole strides of it.

    >>> whole_strides((1080, 1920), (640, 640), 32, scale_up=True)
    (384, 640)
    """
    inner = placement(source, frame, scale_up=scale_up)[2:]
    rows, columns = (size + max(outer - size, 0) % stride for size, outer in zip(inner, frame, strict=True))
    return rows, columns


def placement(
    source: tuple[int, int], frame: tuple[int, int], *, scale_up: bool, within: tuple[int, int] | None = None
) -> tuple[int, int, int, int]:
    """Top, left, height and width of an image of `source` (height, width) inside `frame`, in pixels.

    The scale is `min(frame / source)` over both axes, at most 1 without `scale_up`. Sizes are rounded half to even. The
    image lies in the middle of `within`, by default the frame; the larger half of an odd border is below or to the
    right.

    >>> placement((1080, 1920), (640, 640), scale_up=True)
    (140, 0, 360, 640)
    """
    (height, width), (rows, columns) = source, frame
    check_pixels(height, width)
    ratio = min(rows / height, columns / width)
    if not scale_up:
        ratio = min(ratio, 1.0)
    inner = max(round(height * ratio), 1), max(round(width * ratio), 1)
    top, left = ((outer - size) / 2 for outer, size in zip(within or frame, inner, strict=True))
    return max(round(top - 0.1), 0), max(round(left - 0.1), 0), *inner
