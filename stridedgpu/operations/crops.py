"""Crops: a window of each of several images, volumes or frames, converted and laid out as one batch.

Windows of volumes are windows of their slices: a window of D slices is D windows of images. A batch N, C, D, H, W is
planes with axes C, H, W. They are one launch if they lie at even steps: one channel in NCDHW, any channels in NDHWC or
NDCHW, or a single window. Otherwise there is a launch for each window, or for each slice of all windows, whichever are
fewer.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Complex, Integral, Real
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.frame_operand import CHANNELS, FrameOperand
from stridedgpu.devices.interface import Device, DirectCrops, Launch, Located
from stridedgpu.devices.launch_cache import cached_launches, settings
from stridedgpu.devices.operand import AllocationSpec, Operand
from stridedgpu.devices.selection import CPU, device_named, planner_named
from stridedgpu.exchange.array_like import foreign_operand, operand_of_argument, plain
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem, moving_problem
from stridedgpu.problems.crop_windows import CropProblem, Crops, rectangles, source_steps
from stridedgpu.problems.frame_problem import FrameProblem
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.typing import Border, ImageSize
from stridedgpu.values.axis_labels import Labels
from stridedgpu.values.conversion import Conversion, ConversionOptions
from stridedgpu.values.dtypes import ElementType, check_fits
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import integer, integers, listed
from stridedgpu.values.tensor_spec import TensorSpec

from .batches import BATCH, batch_result, run_steps, steps_of
from .borders import BorderPlace, border_named, write_with_borders
from .frame_colours import write_frame_window
from .images import CropSources, FrameSources, FramesRequirement, ImagesRequirement, checked_target
from .move import move_elements
from .options import DEFAULT_ALIGNMENT, MemoryOptions, allocate_operand
from .plans import HasOperand, Plan, PlanOperand, Requirement, check_output_layout, has_operand
from .relayout import assign_operand

_LABELS: Final[dict[int, Labels]] = {2: BATCH, 3: ("N", "C", "D", "H", "W")}
"""The labels of a batch of windows with so many axes."""

_SIZES: Final = {2: "height and width", 3: "depth, height and width"}
_ORIGINS: Final = {2: "the row and the column", 3: "the slice, the row and the column"}


@dataclass(frozen=True, slots=True)
class CropRequest:
    """Checked options of crops: the batch's sizes (N, C, H, W or N, C, D, H, W), their conversion, and the fill.

    `fill` is one source element for each source channel, as bytes.
    """

    sizes: tuple[int, ...]
    conversion: Conversion
    fill: bytes


def crop_request(
    counts: tuple[int, int],
    element: ElementType,
    size: ImageSize,
    values: ConversionOptions,
    fill: object,
    axes: int = 2,
) -> CropRequest:
    """Check windows of `size` from images of `element`; `counts` are the numbers of images and of their channels.

    Windows have as many `axes`: 2, or 3 in volumes.

    Raises `LayoutError` and `ElementTypeError` for sizes, conversions and fills that do not exist.
    """
    images, channel_count = counts
    window = window_size(size) if axes == 2 else _window(size, axes)
    conversion = values.conversion(element, channel_count, element)
    color = fill_bytes(fill, element, channel_count)
    return CropRequest((images, conversion.output_channels(channel_count), *window), conversion, color)


def crop_operands(
    sources: CropSources,
    origins: object,
    size: ImageSize,
    values: ConversionOptions,
    memory: MemoryOptions,
    *,
    flip: object,
    fill: object,
    out: Operand | None,
    stream: object,
) -> Operand:
    """`stridedgpu.gather_crops` on images, volumes or frames."""
    axes, channel_count, element, device = sources.axes, sources.channels, sources.element, sources.device
    if out is not None:
        memory.check_beside_out()
        values = values if values.dtype is not None else values._replace(dtype=out.element)
    sources.check(channel_count, element, device)
    count, border = len(sources.layouts), border_named(fill)
    request = crop_request((count, channel_count), element, size, values, 0 if border else fill, axes)
    starts, flips = origins_of(origins, count, axes), flips_of(flip, count)
    if border is not None:
        _check_continued(border, sources)

    def write(target: Operand, conversion: Conversion) -> None:
        if border is None:
            write_crops(sources, starts, flips, conversion, request.fill, target, stream)
        elif target.layout.element_count:
            _write_continued(sources, starts, flips, border, conversion, request.fill, target, stream)

    return batch_result(sources, (request.sizes, _LABELS[axes]), request.conversion, memory, out, write, stream)


def _check_continued(border: Border, sources: CropSources) -> None:
    """Raise `LayoutError` for what no border continues."""
    if sources.axes != len("HW"):
        raise LayoutError(f"fill={border!r} continues images; around volumes it is a number, or one for each channel.")
    for number, layout in enumerate(sources.layouts):
        if not all(layout.sizes[1:]):
            _, height, width = layout.sizes
            raise LayoutError(
                f"fill={border!r} continues an image, and {sources.argument}[{number}] has {height} x {width} pixels."
            )


def _write_continued(
    sources: CropSources,
    origins: NDArray[np.int64],
    flips: Sequence[bool],
    border: Border,
    conversion: Conversion,
    fill: bytes,
    target: Operand,
    stream: object,
) -> None:
    """Write one window of each image into `target`, axes N, C, H, W, with borders that continue the images."""
    size = target.layout.sizes[2:]
    places = []
    for layout, (top, left), flip in zip(sources.layouts, origins.tolist(), flips, strict=True):
        height, width = layout.sizes[1:]
        # A mirrored window has the image's last column where the image begins.
        places.append((-top, left + size[1] - width if flip else -left, height, width))

    def write(row: int | None, places: Sequence[BorderPlace], part: Operand) -> None:
        mirrored = flips if row is None else [flips[row]]
        span = part.layout.sizes[3]
        starts = [
            (-top, left + width - span if flip else -left)
            for (top, left, _, width), flip in zip(places, mirrored, strict=True)
        ]
        some = sources if row is None else sources.only(row)
        write_crops(some, np.array(starts, np.int64), mirrored, conversion, fill, part, stream)

    write_with_borders(write, places, border, target, stream)


def write_crops(
    sources: CropSources,
    origins: NDArray[np.int64],
    flips: Sequence[bool],
    conversion: Conversion,
    fill: bytes,
    target: Operand,
    stream: object,
) -> None:
    """Write one window of each image into `target`, axes N, C, H, W; all arguments are checked already.

    Windows of volumes are written plane by plane, into axes N, C, D, H, W. A matrix mixes the channels of the batch, in
    a second step where the device does not mix windows.
    """
    if isinstance(sources, FrameSources):
        _write_frames(sources.frames, origins, flips, conversion, fill, target, stream)
        return
    if sources.axes == 3:
        for planes, places, mirrored, part in planes_of(sources, origins, flips, target):
            write_crops(planes, places, mirrored, conversion, fill, part, stream)
        return
    device = CPU if target.buffer.device == "cpu" else device_named(target.buffer.device)
    launches, room = _launches(target.spec, source_steps(sources.layouts), conversion, fill, device, settings())
    run_steps(launches, room, Crops(sources.layouts, origins, flips), sources.places, target, stream)


@cached_launches
def _launches(
    target: TensorSpec,
    strides: tuple[int, int],
    conversion: Conversion,
    fill: bytes,
    device: Device,
    key: Hashable,  # noqa: ARG001 - of the cache: the settings
) -> tuple[list[Launch], AllocationSpec | None]:
    """Crops into targets of this spec, ready to run; cached, since to make a problem takes a small call a tenth."""
    problems, room = _steps(target, strides, conversion, fill, device.name)
    return [device.launch_for(problem) for problem in problems], room


def _steps(
    target: TensorSpec, strides: tuple[int, int], conversion: Conversion, fill: bytes, device: str
) -> tuple[tuple[CropProblem, ...], AllocationSpec | None]:
    """The steps of crops from images with these channel and column strides, and the memory between them."""
    return steps_of(lambda spec, part: CropProblem(spec, strides, part, fill), target, conversion, device)


def window_size(size: ImageSize) -> tuple[int, int]:
    """`size` as height and width; one number is both."""
    if type(size) is tuple and len(size) == 2 and type(size[0]) is type(size[1]) is int and min(size) >= 0:
        return size
    height, width = _window(size, 2)
    return height, width


def _window(size: ImageSize, axes: int) -> tuple[int, ...]:
    """`size` as height and width, or as depth, height and width; one number is all of them."""
    if not isinstance(size, Iterable):
        return (integer("size", size, least=0),) * axes
    window = integers("size", size, least=0)
    if len(window) != axes:
        raise LayoutError(f"size={window} must be {_SIZES[axes]}, in pixels.")
    return window


def origins_of(origins: object, count: int, axes: int = 2) -> NDArray[np.int64]:
    """The origins, anything array-like, as integers: (slice,) row and column of each sample."""
    if type(origins) is np.ndarray and origins.shape == (count, axes) and origins.dtype.kind in "iu":
        return _signed(origins)
    operand, _ = operand_of_argument("origins", origins, f"integers of at most 64 bits: {_ORIGINS[axes]}, in pixels")
    if count == 0 == operand.layout.element_count and isinstance(origins, Sequence):
        return np.empty((0, axes), np.int64)  # an empty list has no integers, nor anything else
    if not operand.element.is_integer:
        raise ElementTypeError(f"origins hold {operand.element}; they must be integers: {_ORIGINS[axes]}, in pixels.")
    if operand.buffer.device != "cpu":
        raise BindingError(
            f"origins are on {operand.buffer.device}, but windows are laid out by the host: bring them with .numpy()."
        )
    if count == 0 == operand.layout.element_count:
        return np.empty((0, axes), np.int64)
    if operand.layout.sizes != (count, axes):
        raise LayoutError(
            f"origins have sizes {operand.layout.sizes}; {count} sources need ({count}, {axes}): {_ORIGINS[axes]} "
            "where each window begins."
        )
    return _signed(array_of_operand(operand))


def _signed(origins: NDArray[np.generic]) -> NDArray[np.int64]:
    """Origins as signed integers; those further away than any source is large stay as far away as that."""
    if origins.dtype.itemsize == 8:
        origins = np.minimum(origins, _FARTHEST[1])
        if origins.dtype.kind == "i":
            origins = np.maximum(origins, _FARTHEST[0])
    return origins.astype(np.int64, "C", copy=False)


_INT64: Final = np.dtype(np.int64)

_FARTHEST: Final = (np.int64(-(2**62)), np.int64(2**62))
"""Bounds of origins, in pixels: the difference from an image's extent must fit 64 bits."""


def flips_of(flip: object, count: int) -> list[bool]:
    """Whether each sample is mirrored, one bool a sample."""
    if flip is None:
        return [False] * count
    if isinstance(flip, bool):
        return [flip] * count
    if type(flip) is list and len(flip) == count and {*map(type, flip)} == _BOOLS:
        return flip.copy()  # work that is late reads it later
    chosen = plain(flip)
    if isinstance(chosen, bool):
        return [chosen] * count
    flips = listed(chosen)
    if flips is None or not set(map(type, flips)) <= {bool}:
        raise LayoutError(f"flip={flip!r} must be a bool, or one bool for each sample.")
    if len(flips) != count:
        raise LayoutError(f"flip has {len(flips)} entries for {count} sources.")
    return flips


_BOOLS: Final = {bool}


def fill_bytes(fill: object, element: ElementType, count: int, name: str = "fill") -> bytes:
    """One source element for each source channel; messages call it `name`."""
    make = _fill_of_integer if type(fill) is int else _fill_of_numbers
    return make(fill, element, count, name)


def _fill_of_numbers(fill: object, element: ElementType, count: int, name: str) -> bytes:
    """One number, or one for each source channel, as bytes."""
    single = plain(fill)
    entries = listed(single)
    values = [single] if entries is None else entries
    for value in values:
        if not (isinstance(value, Real) or (element.kind == "c" and isinstance(value, Complex))):
            raise LayoutError(
                f"{name}={fill!r} must be a number of the sources' type {element}, or one for each channel."
            )
        if element.is_integer and isinstance(value, Real):
            if not isinstance(value, Integral) and not float(value).is_integer():
                raise LayoutError(f"{name}={fill!r} is no integer, and the sources hold {element}.")
            check_fits(name, int(float(value)) if not isinstance(value, Integral) else int(value), element)
    if len(values) not in (1, count):
        raise LayoutError(f"{name} has {len(values)} values for {count} source channels; give one, or one a channel.")
    if element.kind == "o":
        if any(value != 0 for value in values):
            raise ElementTypeError(f"{name}={fill!r}: {element} moves as bits only; fill with 0, or see it as uint8.")
        return bytes(element.itemsize * count)
    if element.is_integer:
        whole = [int(value).to_bytes(element.itemsize, "little", signed=element.kind == "i") for value in values]
        return b"".join(whole * (count // len(whole)))
    if all(type(value) is int and not value for value in values):
        return bytes(element.itemsize * count)
    source, _ = foreign_operand(values)
    target = allocate_operand(Layout((count,)), element, DEFAULT_ALIGNMENT, "cpu")
    assign_operand(source.with_layout(source.layout.broadcast_to((count,))), target)
    return target.buffer.bytes[: count * element.itemsize].tobytes()


_fill_of_integer: Final = lru_cache(maxsize=256)(_fill_of_numbers)
"""Cached, for fills of one Python integer, the most common kind."""


def filled(fill: bytes, element: ElementType, window: tuple[int, ...], device: str, stream: object) -> Operand:
    """An operand of a window's height and width whose every pixel is `fill`, on a device, for use on `stream`."""
    channels = len(fill) // element.itemsize
    colour = Operand(Buffer.of(fill), Layout((channels,)), element)
    if device != "cpu":
        copied = allocate_operand(colour.layout, element, DEFAULT_ALIGNMENT, device, stream=stream)
        assign_operand(colour, copied, stream)
        colour = copied
    return colour.with_layout(Layout((channels, *window), (1, 0, 0)))


def _write_frames(
    frames: Sequence[FrameOperand],
    origins: NDArray[np.int64],
    flips: Sequence[bool],
    conversion: Conversion,
    fill: bytes,
    target: Operand,
    stream: object,
) -> None:
    """Write one window of each frame into `target`, axes N, C, H, W; all arguments are checked already."""
    layouts = [Layout((CHANNELS, *frame.sizes)) for frame in frames]
    _, _, *window = target.layout.sizes
    for number, (frame, crop) in enumerate(zip(frames, Crops(layouts, origins, flips), strict=True)):
        layout = target.layout.sliced(number)
        if crop.flip:
            layout = layout.sliced((slice(None), slice(None), slice(None, None, -1)))
        for rectangle in rectangles(crop, (window[0], window[1])):
            part_of = target.with_layout(layout.sliced((slice(None), rectangle.rows, rectangle.columns)))
            if rectangle.source is not None:
                write_frame_window(frame, rectangle.source, part_of, conversion, stream)
            else:
                border = filled(fill, frame.element, part_of.layout.sizes[1:], frame.device, stream)
                move_elements(border, part_of, conversion, 0, stream)


WindowProblem = FrameProblem | RelayoutProblem | ChannelMatrixProblem
"""The problem of one frame's window: of luma and chroma, or of RGB and gray pixels."""


def launches_of_frames(plan: Plan) -> list[str]:
    """The heading of a plan with a launch for each frame: how many launches there are, and of how many kinds."""
    kinds = len(plan.steps)
    words = f"{len(plan.plans)} frames, each with a launch of its own"
    return [words + (f", of {kinds} kinds" if kinds > 1 else "")]


class PlannedCrops(Plan):
    """Crops that `plan_gather_crops` planned once, to be run many times: `plan(sources, origins, out)`.

    It runs on images of any sizes and row pitches, whose type, channels, and channel and column strides are the planned
    ones, or on frames of the same formats, sizes, pitches, matrices and chroma. Every call states the windows' origins
    and flips. The plans of frames are those of windows inside them: a window that reaches beyond its frame is the
    smaller window inside it, and the fill value beside it.
    """

    __slots__ = ()

    @property
    def heading(self) -> list[str]:
        """The steps, or the launches of frames."""
        return launches_of_frames(self) if isinstance(self.sides[1], FramesRequirement) else super().heading

    def __call__(
        self,
        sources: HasOperand | Sequence[HasOperand],
        origins: object,
        out: HasOperand,
        flip: object = None,
        stream: object = None,
    ) -> None:
        """Write one window of each image into `out`; the arguments are those of `gather_crops`.

        `sources` are tensors, a batch with axes N, C, H, W or images with axes C, H, W; or frames. Raises before
        anything is written: `LayoutError` for another number of images, origins or flips; `BindingError` for images or
        an `out` of other types, strides, alignment or device than planned, and for an `out` that is read-only or shares
        memory with an image; `DeviceError` if the plan's device is unavailable.
        """
        self.check_runnable()
        if self.direct is not None and flip is None is stream and self._ran(sources, origins, out):
            return
        (for_out, for_sources), (room, request) = self.sides, self.options
        images: CropSources = for_sources.images(sources)
        target = checked_target(for_out, images, out)
        count = len(images.layouts)
        starts, flips = origins_of(origins, count), flips_of(flip, count)
        if isinstance(images, FrameSources):
            write_crops(images, starts, flips, request.conversion, request.fill, target, stream)
            return
        crops = Crops(images.layouts, starts, flips)
        direct = run_steps(self.launches, room, crops, images.places, target, stream)
        if direct is not None and images.begins_lowest:
            self.keep((PlanOperand(images.operands[0].spec).required(self.device), direct))

    def _ran(self, sources: object, origins: object, out: HasOperand) -> bool:
        """Run on a batch like the one before, if nothing more has to be looked at than its memory."""
        required: Requirement
        direct: DirectCrops
        required, direct = self.direct
        if type(origins) is not np.ndarray or not has_operand(sources) or not has_operand(out):
            return False
        batch, target = sources.operand, out.operand
        if batch.fitted is not required and not required.fits(batch):
            return False
        if origins.dtype is not _INT64 or origins.shape != (batch.layout.sizes[0], 2) or not origins.flags.c_contiguous:
            return False
        self.sides[0].check("out", target)
        (begin, end), (start, stop) = batch.reach, target.reach
        return (start >= end or stop <= begin) and direct(begin, start, origins)


PlannedFrameCrops = PlannedCrops
"""Another name of `PlannedCrops`, for plans of frames."""


def planned_crops(request: CropRequest, sources: Sequence[TensorSpec], out: PlanOperand, device: str) -> PlannedCrops:
    """The plan of crops from images with these specs into `out`.

    Raises `LayoutError` for an `out` of other sizes or another type, or one that overlaps itself.
    """
    check_output_layout(out.spec.layout, out.spec.element, request.sizes, request.conversion.target)
    planner, _ = planner_named(device)
    target = out.within(planner.widest_access)
    strides = source_steps([side.layout for side in sources])
    problems, room = _steps(target.spec, strides, request.conversion, request.fill, device)
    sides = target.required(device, is_written=True), ImagesRequirement(problems[0], device)
    return PlannedCrops.of(device, problems, sides, (room, request))


def batch_image(batch: TensorSpec, number: int) -> TensorSpec:
    """The spec of one image of a batch, whose gaps may belong to the others."""
    return TensorSpec.of(batch.layout.sliced(number), batch.element, base_alignment=batch.alignment)


def window_problem(frame: FrameOperand, target: TensorSpec, conversion: Conversion) -> WindowProblem:
    """The problem of a window of the target's height and width, or of the frame's where those are less."""
    _, *window = target.layout.sizes
    height, width = map(min, frame.sizes, window)
    rows_and_columns = (slice(None), slice(0, height), slice(0, width))
    if (height, width) != tuple(window):
        inside = target.layout.sliced(rows_and_columns)
        target = TensorSpec.of(inside, target.element, base_alignment=target.alignment)
    colours = frame.colours
    if colours is None:
        return frame.window(target, conversion)
    read = colours.with_layout(colours.layout.sliced(rows_and_columns))
    return moving_problem(read.spec, target, conversion, 0)


def planned_frame_crops(sources: FrameSources, request: CropRequest, target: PlanOperand, device: str) -> PlannedCrops:
    """The plan for a window of each frame into a target with axes N, C, H, W; raises as `planned_crops`."""
    spec, conversion = target.spec, request.conversion
    check_output_layout(spec.layout, spec.element, request.sizes, conversion.target)
    frames = enumerate(sources.frames)
    problems = [window_problem(frame, batch_image(spec, number), conversion) for number, frame in frames]
    sides = target.required(device, is_written=True), FramesRequirement.of(sources, device, is_batch=True)
    return PlannedCrops.of(device, problems, sides, (None, request))


Planes = tuple[CropSources, NDArray[np.int64], list[bool], Operand]
"""Slices, the origins and mirroring of their windows, and where these are written, axes N, C, H, W."""


def planes_of(
    volumes: CropSources, origins: NDArray[np.int64], flips: Sequence[bool], target: Operand
) -> Iterator[Planes]:
    """The launches that write windows of volumes into `target`, axes N, C, D, H, W."""
    layout = target.layout
    count, channels, depth, height, width = layout.sizes
    if not layout.element_count:
        return
    down_batch, across, down, *inside = layout.strides
    numbers, places = np.arange(count), np.arange(depth)
    if count == 1 or depth == 1 or down_batch == depth * down:
        step = down if depth > 1 else down_batch
        together = Layout((count * depth, channels, height, width), (step, across, *inside), layout.offset)
        pairs = np.repeat(numbers, depth), np.tile(places, count)
        yield _planes(volumes, origins, flips, pairs, target.with_layout(together))
    elif count <= depth:
        for number in range(count):
            part = target.with_layout(layout.sliced(number).permuted((1, 0, 2, 3)))
            yield _planes(volumes, origins, flips, (np.full(depth, number), places), part)
    else:
        for place in range(depth):
            part = target.with_layout(layout.sliced((slice(None), slice(None), place)))
            yield _planes(volumes, origins, flips, (numbers, np.full(count, place)), part)


def _planes(
    volumes: CropSources,
    origins: NDArray[np.int64],
    flips: Sequence[bool],
    pairs: tuple[NDArray[np.int64], NDArray[np.int64]],
    target: Operand,
) -> Planes:
    """The planes of one launch; `pairs` are the number of each one's volume, and its place in the window."""
    numbers, places = pairs
    height, itemsize = target.layout.sizes[2], volumes.element.itemsize
    slices = origins[numbers, 0] + places
    extents = np.array([layout.sizes[1] for layout in volumes.layouts])[numbers]
    is_inside = (slices >= 0) & (slices < extents)
    starts = origins[numbers, 1:]
    starts[~is_inside, 0] = -height  # a slice outside its volume: above whatever slice stands in its place
    layouts: list[Layout] = []
    located: list[Located] = []
    for number, place in zip(numbers.tolist(), np.where(is_inside, slices, 0).tolist(), strict=True):
        buffer, start = volumes.places[number]
        plane, lowest, step = _plane(volumes.layouts[number])
        layouts.append(plane)
        located.append((buffer, start + (lowest + place * step) * itemsize))
    sources = replace(volumes, layouts=layouts, places=located, axes=2)
    return sources, starts, [flips[number] for number in numbers.tolist()], target


@lru_cache(maxsize=256)
def _plane(volume: Layout) -> tuple[Layout, int, int]:
    """The layout of a volume's slices from their lowest element, where that of slice 0 is, and the step to the next."""
    channels, depth, *_ = volume.sizes
    if not depth:
        return Layout((channels, 0, 0)), 0, 0
    plane = volume.sliced((slice(None), 0))
    return plane.shifted(-plane.first_offset), plane.first_offset, volume.strides[1]
