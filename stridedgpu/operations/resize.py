"""Resize: boxes of images of any sizes into one batch, converted and laid out in the same pass."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import isfinite
from numbers import Integral
from typing import Final, NamedTuple

import numpy as np

from stridedgpu.devices.frame_operand import CHANNELS, FrameOperand
from stridedgpu.devices.interface import EvenlyLocated, ResizeSource
from stridedgpu.devices.operand import AllocationSpec, Operand, share_memory
from stridedgpu.devices.selection import CPU, device_named
from stridedgpu.exchange.array_like import operand_of
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.problems.crop_windows import source_steps
from stridedgpu.problems.frame_problem import FrameSurface
from stridedgpu.problems.resize_problem import Box, Place, ResizeProblem, ResizeRule, ResizeWindow
from stridedgpu.typing import ImageSize
from stridedgpu.values.constants import real
from stridedgpu.values.conversion import Conversion, ConversionOptions
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.interpolation import PASSES, Interpolation, Passes, arithmetic_of, interpolation_named
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import is_one_of
from stridedgpu.values.tensor_spec import TensorSpec

from .channel_blocks import parse_order
from .channel_mixing import run_steps, unmixed_step, write_mixed
from .crops import batch_result, fill_bytes, flips_of, window_size
from .images import MOST_IMAGES, CropSources, FrameSources, FramesRequirement, as_batch
from .options import MemoryOptions
from .plans import HasOperand, Plan, PlanOperand, Requirement, has_operand, no_tensor

__all__ = [
    "DEFAULT_PASSES",
    "PlannedResize",
    "ReadImages",
    "box_of",
    "checked_rule",
    "installed_passes",
    "placement",
    "planned_resize",
    "resize_operands",
    "resized_boxes",
    "resized_size",
    "shorter_side",
    "side_resized",
    "warn_of_other_passes",
    "whole_images_resized",
    "write_resized",
]

DEFAULT_PASSES: Final[Passes] = "horizontal"
"""The order of Pillow up to 12, in which most networks saw their images."""

_FIRST_OF_OTHER_PASSES: Final = 13
"""The first version of Pillow that chooses the first pass by the sizes."""


def resized_size(size: ImageSize) -> tuple[int, int]:
    """`size` as height and width; one number is both. Raises `LayoutError` unless both are at least 1."""
    height, width = window_size(size)
    if not height or not width:
        raise LayoutError(f"size={(height, width)} must be a height and a width of at least 1 pixel.")
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


def shorter_side(side: int, sizes: tuple[float, float]) -> tuple[int, int]:
    """Height and width of an image whose shorter side becomes `side`; the longer one is rounded down.

    Source: torchvision, transforms/functional.py, `_compute_resized_output_size`.

    >>> shorter_side(256, (375, 500)), shorter_side(256, (500, 375))
    ((256, 341), (341, 256))
    """
    height, width = sizes
    if width <= height:
        return int(side * height / width), side
    return side, int(side * width / height)


def checked_rule(
    interpolation: object, passes: object, *, premultiply: bool, element: ElementType, channels: int
) -> ResizeRule:
    """The rule for images of a type. Raises `LayoutError` and `ElementTypeError` for rules that do not exist."""
    if type(interpolation) is str and (passes is None or type(passes) is str):
        return _rule_of_words(interpolation, passes, premultiply=premultiply, element=element, channels=channels)
    return _rule(interpolation, passes, premultiply=premultiply, element=element, channels=channels)


def _rule(
    interpolation: object, passes: object, *, premultiply: bool, element: ElementType, channels: int
) -> ResizeRule:
    """The rule of an interpolation and the order of its passes; None is the default order."""
    named = interpolation_named(interpolation)
    if passes is not None and not is_one_of(passes, PASSES):
        raise LayoutError(f"passes={passes!r} is unknown; there are {', '.join(PASSES)}.")
    if not named.is_pillow and passes not in (None, DEFAULT_PASSES):
        raise LayoutError(f"passes={passes!r} is Pillow's; with interpolation={str(named)!r} leave it out.")
    arithmetic_of(named, element)
    if premultiply and (not named.is_pillow or element.name != "uint8" or channels not in (2, 4)):
        raise LayoutError(
            f"premultiply=True is for uint8 pictures whose last channel, of 2 or 4, is alpha, with Pillow's "
            f"interpolations; these have {channels} channels of {element}, and interpolation={str(named)!r}."
        )
    if passes is None:
        warn_of_other_passes(named)
    known = next((name for name in PASSES if name == passes), DEFAULT_PASSES)
    return ResizeRule(named, known, premultiply and not named.is_nearest)


_rule_of_words = lru_cache(maxsize=256)(_rule)


def warn_of_other_passes(interpolation: Interpolation) -> None:
    """Warn, once a process, if the default order is not that of the installed Pillow for this interpolation."""
    if interpolation.is_pillow and not interpolation.is_nearest:
        _warn()


@cache
def installed_passes() -> Passes:
    """The order of passes of the Pillow that is installed; the default order where there is none."""
    version = _pillow_version()
    return "pillow-13" if version is not None and _is_later(version) else DEFAULT_PASSES


@cache
def _warn() -> None:
    """Warn if the installed Pillow has another order. Cached, so that Pillow is looked for once."""
    version = _pillow_version()
    if version is None or not _is_later(version):
        return
    warnings.warn(
        f"passes=None is passes={DEFAULT_PASSES!r}, the order of Pillow up to 12. Pillow {version} is installed, which "
        "takes the rows first where the height shrinks by more than twice as many pixels as the width: "
        f"passes='pillow-13' has its pixels, and passes={DEFAULT_PASSES!r} these without this warning.",
        stacklevel=_level_of_the_caller(),
    )


def _pillow_version() -> str | None:
    """The version of Pillow, which is not imported; None where it is not installed."""
    imported: str | None = getattr(sys.modules.get("PIL"), "__version__", None)
    if imported is not None:
        return imported
    from importlib import metadata

    try:
        return metadata.version("pillow")
    except metadata.PackageNotFoundError:
        return None


def _is_later(version: str) -> bool:
    """Whether a version chooses the first pass by the sizes."""
    major = version.partition(".")[0]
    return major.isdecimal() and int(major) >= _FIRST_OF_OTHER_PASSES


def _level_of_the_caller() -> int:
    """The `stacklevel` in `_warn` of the first frame outside this package, as `skip_file_prefixes` of Python 3.12."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("stridedgpu."):
        level, frame = level + 1, frame.f_back
    return level


def box_of(box: Sequence[float] | None, size: tuple[int, int], name: str = "box") -> Box:
    """Top, left, bottom, right of a box in an image of `size` (None: all). Raises `LayoutError` for others."""
    height, width = size
    if not height or not width:
        raise LayoutError(f"a picture has {height} x {width} pixels; there is nothing to resize.")
    if box is None:
        return (0.0, 0.0, float(height), float(width))
    try:
        top, left, bottom, right = map(real, box)
    except (TypeError, ValueError):
        raise LayoutError(f"{name}={box!r} must be four numbers: top, left, bottom and right, in pixels.") from None
    inside = 0 <= top < bottom <= height and 0 <= left < right <= width
    if not inside or not all(isfinite(edge) for edge in (top, left, bottom, right)):
        raise LayoutError(
            f"{name}={(top, left, bottom, right)} must be top, left, bottom and right of a box inside the picture, "
            f"which has {height} x {width} pixels."
        )
    return (top, left, bottom, right)


def _box_operand(boxes: object) -> Operand:
    """An array-like object of boxes as an operand."""
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
        raise LayoutError(f"boxes have sizes {operand.layout.sizes}; they must be (k, 4): one row a picture.")
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
            f"boxes have sizes {operand.layout.sizes}; {count} pictures need ({count}, 4): top, left, bottom and right."
        )
    listed = np.asarray(array_of_operand(operand), np.float64).tolist()
    return [box_of(box, size, f"boxes[{number}]") for number, (box, size) in enumerate(zip(listed, sizes, strict=True))]


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
    window = resized_size(size)
    sources.check(sources.channels, sources.element, sources.device)
    listed = _box_operand(boxes)
    count = listed.layout.sizes[0] if listed.layout.sizes else 0
    if len(sources.layouts) == 1 != count:
        sources = sources.repeated(count)
    sizes = [(layout.sizes[1], layout.sizes[2]) for layout in sources.layouts]
    taken = _boxes_of(listed, sizes)
    checked = checked_rule(*rule, premultiply=False, element=sources.element, channels=sources.channels)
    windows = [
        ResizeWindow(layout, box, (0, 0, *window), mirrored)
        for layout, box, mirrored in zip(sources.layouts, taken, flips_of(flip, count), strict=True)
    ]
    return resize_operands(sources, windows, window, checked, values, memory, fill=fill, out=out, stream=stream)


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

    A matrix mixes the channels of the resized batch, in a second step where the device does not mix windows.
    """
    if not target.layout.element_count:  # no channels, say
        return
    if conversion.matrix is not None and not device_named(target.buffer.device).mixes_windows:

        def resized(unchanged: Conversion, unmixed: Operand) -> None:
            write_resized(sources, windows, rule, unchanged, fill, unmixed, stream)

        write_mixed(resized, conversion, target, stream)
        return
    read, reads_frames = sources.resized, False
    if isinstance(sources, FrameSources):
        windows = [
            window._replace(surface=source.surface) if isinstance(source, FrameOperand) else window
            for window, source in zip(windows, read, strict=True)
        ]
        reads_frames = any(window.surface is not None for window in windows)
    steps = source_steps([window.layout for window in windows])
    shared = _shared_window(windows)
    channels = len(fill) // conversion.source.itemsize
    problem = ResizeProblem(target.spec, conversion, rule, channels, steps, fill, shared, reads_frames)
    device = device_named(target.buffer.device)
    launch = device.launch_for(problem)
    launch(windows, read, (target.buffer, target.start_bytes), stream)


def _shared_window(windows: Sequence[ResizeWindow]) -> ResizeWindow | None:
    """The window of all images, a part of the plan; None if they differ.

    It is None, too, for a single image whose box is not the whole image: random boxes never recur, and each would add
    a plan to the cache.
    """
    if not windows or any(window != windows[0] for window in windows):
        return None
    (_, height, width), box = windows[0].layout.sizes, windows[0].box
    return windows[0] if len(windows) > 1 or box == (0, 0, height, width) else None


def resize_operands(
    sources: CropSources,
    windows: Sequence[ResizeWindow],
    size: tuple[int, int],
    rule: ResizeRule,
    values: ConversionOptions,
    memory: MemoryOptions,
    *,
    labels: str = "NCHW",
    fill: object = 0,
    fill_name: str = "fill",
    out: Operand | None = None,
    stream: object = None,
) -> Operand:
    """Resize every window into a batch with the axes `labels`, from images of `size`; one source for each window."""
    channel_count, element = sources.channels, sources.element
    if out is not None:
        memory.check_beside_out()
        values = values if values.dtype is not None else values._replace(dtype=out.element)
    conversion = values.conversion(element, channel_count if "C" in labels else None, element)
    color = fill_bytes(fill, element, channel_count, fill_name)
    channels = conversion.output_channels(channel_count)
    extents = dict(zip("NCHW", (len(windows), channels, *size), strict=True))
    sizes = tuple(extents[axis] for axis in labels)
    order = parse_order(memory.layout) if isinstance(memory.layout, str) else None
    if order is not None and order.is_blocked and labels != "NCHW":
        raise LayoutError(f"layout={memory.layout!r} splits the channels of a batch, with axes N, C, H, W, alone.")

    def write(target: Operand, part: Conversion) -> None:
        write_resized(sources, windows, rule, part, color, target, stream)

    return batch_result(sources, (sizes, tuple(labels)), conversion, memory, out, write, stream)


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
        return self.places_in(source), [source]

    def places_in(self, source: Operand) -> Sequence[ResizeSource]:
        """Each image's memory in an operand that meets the requirement."""
        return EvenlyLocated(source.buffer, source.start_bytes + self.first_bytes, self.step_bytes, self.count)


class ReadImages(NamedTuple):
    """The images of a plan: their layouts and surfaces, type and channels, and what a run is given in their place.

    `channels` is None for images without a channel axis.
    """

    layouts: Sequence[Layout]
    surfaces: Sequence[FrameSurface | None]
    element: ElementType
    channels: int | None
    given: ReadBatch | FramesRequirement

    @classmethod
    def of_batch(cls, source: PlanOperand, labels: str, device: str) -> ReadImages:
        """The images of a tensor with the axes `labels`, or of a descriptor."""
        batch = as_batch(source.spec.layout, labels)
        layouts, first, itemsize = [], 0, source.spec.element.itemsize
        if batch.sizes[0]:
            image = batch.sliced(0)
            first = image.first_offset
            layouts = [image.shifted(-first)] * batch.sizes[0]
        channels = batch.sizes[1] if "C" in labels else None
        given = ReadBatch(source.required(device), len(layouts), first * itemsize, batch.strides[0] * itemsize)
        return cls(layouts, [None] * len(layouts), source.spec.element, channels, given)

    @classmethod
    def of_frames(cls, frames: Sequence[FrameOperand], device: str, *, is_batch: bool) -> ReadImages:
        """Frames of any sizes and formats. Raises what `FrameSources.of_frames` raises."""
        sources = FrameSources.of_frames(frames)
        surfaces = [frame.surface if frame.colours is None else None for frame in frames]
        required = FramesRequirement.of(frames, device, is_batch=is_batch)
        return cls(sources.layouts, surfaces, sources.element, CHANNELS, required)


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
            run_steps(self.launches, room, (windows, places), target, stream)


def planned_resize(
    read: ReadImages,
    target: PlanOperand,
    labels: str,
    place: Callable[[tuple[int, int], tuple[int, int]], tuple[Box, Place]],
    rule: ResizeRule,
    values: ConversionOptions,
    device: str,
    fill: object = 0,
    fill_name: str = "fill",
) -> PlannedResize:
    """The plan of a resize into a target with the axes `labels`.

    `place` is the box of an image, and where it goes, of the image's height and width and those of the target. Raises
    `LayoutError` if the target does not fit.
    """
    written = as_batch(target.spec.layout, labels)
    channels = 1 if read.channels is None else read.channels
    wanted_conversion = values.conversion(read.element, read.channels, target.spec.element)
    wanted = len(read.layouts), wanted_conversion.output_channels(channels)
    if written.sizes[:2] != wanted or 0 in written.sizes[2:]:
        raise LayoutError(
            f"dst has sizes {target.spec.layout.sizes}; this resize makes {wanted[0]} pictures of {wanted[1]} "
            "channels, of at least 1 x 1 pixels."
        )
    if written.has_overlap:
        raise LayoutError(f"dst repeats or overlaps its own elements: {target.spec.layout}.")
    size = written.sizes[2], written.sizes[3]
    windows = tuple(
        ResizeWindow(image, *place((image.sizes[1], image.sizes[2]), size), surface=surface)
        for image, surface in zip(read.layouts, read.surfaces, strict=True)
    )
    shared = windows[0] if len(set(windows)) == 1 else None
    fills = fill_bytes(fill, read.element, channels, fill_name)
    room, spec, conversion, mixing = unmixed_step(replace(target.spec, layout=written), wanted_conversion, device)
    steps, reads_frames = source_steps(read.layouts), any(window.surface is not None for window in windows)
    problem = ResizeProblem(spec, conversion, rule, channels, steps, fills, shared, reads_frames)
    sides = read.given, target.required(device, is_written=True)
    return PlannedResize.of(device, (problem, *mixing), sides, (windows, room))


def placement(source: tuple[int, int], frame: tuple[int, int], *, scale_up: bool) -> tuple[int, int, int, int]:
    """Top, left, height and width of an image of `source` (height, width) inside `frame`, in pixels.

    The scale is `min(frame / source)` over both axes, at most 1 without `scale_up`. Sizes are rounded half to even. The
    larger half of an odd border is below or to the right.

    >>> placement((1080, 1920), (640, 640), scale_up=True)
    (140, 0, 360, 640)
    """
    (height, width), (rows, columns) = source, frame
    if not height or not width:
        raise LayoutError(f"a picture has {height} x {width} pixels; there is nothing to resize.")
    ratio = min(rows / height, columns / width)
    if not scale_up:
        ratio = min(ratio, 1.0)
    inner = max(round(height * ratio), 1), max(round(width * ratio), 1)
    top, left = ((outer - size) / 2 for outer, size in zip(frame, inner, strict=True))
    return max(round(top - 0.1), 0), max(round(left - 0.1), 0), *inner


_WORDS: Final = (str, type(None))
"""Types of `layout` and `passes` that are part of a cache key."""


def whole_images_resized(
    source: Operand,
    labels: str,
    size: tuple[int, int],
    rule: tuple[object, object],
    values: ConversionOptions,
    memory: MemoryOptions,
    *,
    premultiply: bool,
    stream: object,
) -> Operand | None:
    """The images of a tensor with the axes `labels`, resized to `size` in new memory on their device.

    `rule` is the interpolation and the first pass. The result is None for options that are not cached: an exact layout,
    an order that fills channels up, another device, a matrix, and an empty batch.
    """
    interpolation, passes = rule
    layout, row_pitch_bytes, alignment, there = memory
    plain = row_pitch_bytes is None and alignment is None and there is None and values.matrix is None
    words = type(interpolation) is str and type(passes) in _WORDS
    if not plain or not words or type(layout) not in _WORDS:
        return None
    here = source.buffer.device
    device = CPU if here == "cpu" else device_named(here)
    read = source.layout
    key = read.sizes, read.strides, source.element.name, labels, size, interpolation, passes, premultiply
    planned = _planned_whole(*key, values, layout, here)
    if planned is None:
        return None
    allocation, plan = planned
    target = allocation.allocate(device, stream)
    (images, _), (windows, _) = plan.sides, plan.options
    problem = plan.plan.problem
    assert isinstance(problem, ResizeProblem), "plans of resizes have no other"
    launch = device.launch_for(problem)
    launch(windows, images.places_in(source), (target.buffer, target.start_bytes), stream)
    return target


@lru_cache(maxsize=512, typed=True)
def _planned_whole(
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    element_name: str,
    labels: str,
    size: tuple[int, int],
    interpolation: str,
    passes: str | None,
    premultiply: bool,
    values: ConversionOptions,
    layout: str | None,
    device: str,
) -> tuple[AllocationSpec, PlannedResize] | None:
    """The memory of a result and the plan; None for an order that fills channels up and an empty batch."""
    element, whole = ELEMENT_TYPES[element_name], Layout(sizes, strides)
    count, channel_count, height, width = as_batch(whole, labels).sizes
    if not count or count > MOST_IMAGES or (layout is not None and parse_order(layout).multiple != 1):
        return None
    rule = checked_rule(interpolation, passes, premultiply=premultiply, element=element, channels=channel_count)
    box = box_of(None, (height, width))
    conversion = values.conversion(element, channel_count if "C" in labels else None, element)
    extents = dict(zip("NCHW", (count, conversion.output_channels(channel_count), *size), strict=True))
    wanted = tuple(extents[axis] for axis in labels)
    allocation = MemoryOptions(layout).allocation(wanted, tuple(labels), conversion.target)
    source = PlanOperand(TensorSpec.of(whole.shifted(-whole.first_offset), element, base_alignment=element.itemsize))
    plan = planned_resize(
        ReadImages.of_batch(source, labels, device),
        PlanOperand(allocation.spec),
        labels,
        lambda _, pixels: (box, (0, 0, *pixels)),
        rule,
        values,
        device,
    )
    return allocation, plan
