"""Frames on the native library: kernels and parameters of the loops from samples to colours, and back.

Formats are data: how chroma lies, and which samples come first. Behind the colours of a strip come the stages of
`matrix.py`: a conversion or a mix of them, and what puts pixels together. A work item is one row of a window; from
colours to samples it is one row of chroma: two rows of pixels, or one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.cpu.numpy_loops.conversion import constants
from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.device_plan import Width
from stridedgpu.values.strides import power_of_two

from .calls import NativeFunction, native_function
from .elements import can_convert
from .matrix import STRIP, Stage, mixing_constants, mixing_stages, pixels, stage_fields
from .moves import conversion_moves, copy_move
from .pool import run_shared

if TYPE_CHECKING:
    from stridedgpu.devices.operand import Operand
    from stridedgpu.problems.frame_problem import FrameProblem, FrameSurface, SamplesProblem
    from stridedgpu.values.colour_matrix import ColourMatrix
    from stridedgpu.values.dtypes import ElementType
    from stridedgpu.values.pixel_formats import PixelFormat

_STRIP_BYTES: Final = 2048
"""The most bytes of a strip's row of samples."""

_MOST_CHANNELS: Final = 4
"""Channels that go through the stages together; of more, each goes alone."""

_OF_PLANES: Final = 6
_OF_WINDOW: Final = 12
"""Fields of the planes, and those with what else a window has of its own: the first of `Frame`."""

_OF_COLOURS: Final = 4
"""Fields of the colours: the first of `FrameEncoding`, before those of the planes."""

_PLANAR: Final = 0
_PAIRED: Final = 1
_PACKED: Final = 2
_COLOURS: Final = 3
"""How chroma lies, in the order of the library's; or that the planes are colours."""


FrameMove = Callable[["Sequence[Operand]", tuple[int, int], "Operand"], None]
"""What writes the window of a frame's planes that begins at a pixel."""

SamplesMove = Callable[["Sequence[Operand]", "Sequence[Operand]"], None]
"""What writes the planes of a frame from its colours."""


@dataclass(frozen=True, slots=True)
class FrameKernel:
    """A loop over the rows of windows, in steps of `lanes` pixels.

    `pixel` is the elements from one pixel of an interleaved target to the next, or 0 for planes. With `mirrored` the
    target's columns run backwards. With `linear`, chroma is that of `stridedgpu.problems.frame_problem.CHROMA`, else
    repeated. `finite`: scale and bias are finite.
    """

    samples: PixelFormat
    target: ElementType
    finite: bool
    lanes: int
    pixel: int
    mirrored: bool
    linear: bool

    @property
    def name(self) -> str:
        """The kernel in a word, as plans name it."""
        lies = f"pixels{self.pixel}" if self.pixel else "planes"
        chroma = "_linear" if self.linear else ""
        return f"frame_{self.samples.name}{chroma}_{lies}_{self.target}x{self.lanes}"

    @property
    def loop(self) -> NativeFunction:
        """The library's loop."""
        of_odd_columns = self.samples.kind == "yuv" and (self.linear or self.samples.chroma_step[1] == 1)
        return NativeFunction.of("frames", 2 * (self.samples.element.itemsize - 1) + of_odd_columns)


def frame_kernel(problem: FrameProblem) -> FrameKernel | str:
    """The kernel of a problem, or why there is none."""
    conversion, layout, limits = problem.conversion, problem.target.layout, policy().pixels
    channels, height, width = layout.sizes
    across, _, right = layout.strides
    if not can_convert(conversion):
        return f"{conversion} is left to NumPy"
    if not height or width < limits.least_lanes:
        return f"windows narrower than {limits.least_lanes} pixels are left to NumPy"
    reason = _planes_left_to_numpy(problem)
    if reason is not None:
        return reason
    if abs(right) == 1:
        pixel = 0
    elif across == 1 and abs(right) == channels:
        pixel = channels
    else:
        return f"targets with steps of {layout.strides} elements along C, H, W are left to NumPy"
    if conversion.matrix is not None and len(conversion.matrix) > limits.most_channels:
        return f"{conversion} is left to NumPy"
    widest = max(conversion.target.itemsize, problem.samples.element.itemsize)
    lanes = min(max(limits.step_bytes // widest, limits.least_lanes), power_of_two(width))
    finite = all(
        values is None or np.isfinite(constants(values, conversion.compute)).all()
        for values in (conversion.scale, conversion.bias)
    )
    return FrameKernel(problem.samples, conversion.target, finite, lanes, pixel, right < 0, problem.chroma == "linear")


def _planes_left_to_numpy(problem: FrameProblem | SamplesProblem) -> str | None:
    """The reason why a problem's planes are left to NumPy; None if their rows are contiguous."""
    for plane, strides in zip(problem.samples.planes, problem.plane_strides, strict=True):
        if strides[1:] != ((plane.samples, 1) if plane.samples > 1 else (1,)):
            return f"planes with steps of {strides} elements are left to NumPy"
    return None


def frames_kernel(problem: FrameProblem) -> CpuKernel | str:
    """The native loop of a problem, or why there is none."""
    kernel = frame_kernel(problem)
    if isinstance(kernel, str):
        return kernel
    return CpuKernel(
        kernel.name,
        f"rows in steps of {kernel.lanes} pixels, from samples to elements of the target in the L1 cache",
        Width(kernel.lanes * problem.samples.channels[0].step * problem.samples.element.itemsize),
        Width(kernel.lanes * problem.target.element.itemsize),
        items=problem.target.layout.sizes[1],
        shared_bytes=policy().pixels.shared_bytes,
        calls=(kernel,),
    )


def frames_move(plan: CpuPlan[FrameProblem]) -> FrameMove:
    """The native loop over a plan's windows."""
    assert plan.native is not None, "the plan has a native loop"
    (kernel,), problem, limits = plan.native.calls, plan.problem, policy().pixels
    loop, pack = kernel.loop, FrameParameters(problem, kernel)
    work, shared = (limits.arithmetic * nbytes for nbytes in (problem.bytes_moved, limits.shared_bytes))

    def write(planes: Sequence[Operand], origin: tuple[int, int], target: Operand) -> None:
        parameters = pack(planes, origin)
        address, height = ctypes.addressof(parameters), target.layout.sizes[1]
        run_shared(loop, 0, target.address, address, height, nbytes=work, shared_bytes=shared)

    return write


@dataclass(frozen=True, slots=True)
class RowLoop:
    """The native loop that other loops call for single rows of a frame, as packed RGB pixels of the samples' type.

    Columns begin at an even `left`. The item number of the loop is the number of a row; consecutive rows are written
    `pitch` bytes apart.
    """

    loop: NativeFunction
    left: int
    pitch: int
    pack: FrameParameters

    def parameters(self, planes: Sequence[Operand]) -> ctypes.Array[ctypes.c_int64]:
        """The parameters of the loop for a frame; the caller keeps them alive while it runs."""
        return self.pack(planes, (0, self.left))


def row_loop(surface: FrameSurface, columns: tuple[int, int]) -> RowLoop | None:
    """The loop over a frame's rows between two columns, the first of them even; None for NumPy."""
    left, right = columns
    problem = surface.window(surface.sizes[0], right - left)
    kernel = frame_kernel(problem)
    if isinstance(kernel, str):
        return None
    pitch = problem.target.layout.strides[1] * surface.samples.element.itemsize
    return RowLoop(kernel.loop, left, pitch, FrameParameters(problem, kernel))


class FrameParameters:
    """The parameters of a problem's loop for a window: those that all windows share are computed once."""

    def __init__(self, problem: FrameProblem, kernel: FrameKernel) -> None:
        """Those of all windows."""
        self._samples, self._sizes = problem.samples, problem.sizes
        conversion, itemsize, element = problem.conversion, problem.target.element.itemsize, problem.samples.element
        across, down, right = problem.target.layout.strides
        channels, _, width = problem.target.layout.sizes
        order, stages, unit = conversion.channels or (0, 1, 2), list[Stage](), 0.0
        numbers, kept, pitch = [0, 0, 0], list[NDArray[Any]](), 0
        if conversion.matrix is not None:
            stages = mixing_stages(conversion, 3)
            numbers, unit, kept = mixing_constants(conversion, channels)
        else:
            if not conversion.is_bitwise_copy:
                moves, _ = conversion_moves(conversion, finite=kernel.finite, products=False, along=False)
                stages = [Stage(move, channels) for move in moves]
            if conversion.has_arithmetic:
                pitch, unit = conversion.compute.itemsize, conversion.unit or 0.0
                given = conversion.scale or (1.0,), conversion.bias or (-0.0,), (0.0,)
                kept = [np.resize(constants(values, conversion.compute), channels) for values in given]
                numbers = [values.ctypes.data for values in kept]
        is_direct = self._samples.kind == "yuv" and order in ((0, 1, 2), (2, 1, 0))
        is_direct &= not (stages or kernel.pixel or kernel.mirrored)
        if 1 < kernel.pixel <= _MOST_CHANNELS:
            stages.append(Stage(pixels("put together", itemsize, kernel.pixel), channels))
        elif kernel.pixel > 1 or not stages or stages[-1].move.family.startswith("mix"):  # whose steps are whole
            stages.append(Stage(copy_move(itemsize), channels))
        groups = channels if channels > _MOST_CHANNELS else 1
        stages = [stage._replace(rows=stage.rows // groups) for stage in stages]
        staged = stage_fields(stages, numbers, itemsize * channels // groups, pitch=pitch, unit=unit)
        staged[STRIP] = min(staged[STRIP], _STRIP_BYTES // element.itemsize)
        steps, count = {after - before for before, after in pairwise(order)} or {0}, len(order) // groups
        is_even = len(steps) == 1 or groups > 1
        kept.append(np.array(order, np.int64))
        ordered = [groups, count, next(iter(steps)), 0 if is_even else count, kept[-1].ctypes.data]
        self._kept = kept
        shared = [
            *_format_fields(self._samples),
            *_matrix_fields(problem.matrix),
            *_moves(self._samples),
            *(down * itemsize, across * itemsize, right * itemsize, width, int(kernel.mirrored), int(is_direct)),
            *ordered,
            *staged,
        ]
        self._fields = _array([0] * _OF_WINDOW + shared)

    def __call__(self, planes: Sequence[Operand], origin: tuple[int, int]) -> ctypes.Array[ctypes.c_int64]:
        """The parameters for a window that begins at a pixel of a frame."""
        (top, left), (height, width), (rows, columns) = origin, self._sizes, self._samples.chroma_step
        above, before = top // rows, left // columns
        fields = type(self._fields).from_buffer_copy(self._fields)
        given = _plane_fields(self._samples, planes, (top, before * columns))
        fields[:_OF_PLANES] = [*(given * 3)[:_OF_PLANES]]
        last_row, last_column = (height - 1) // rows, (width - 1) // columns
        edges = -above, last_row - above, last_column - before, width - before * columns
        fields[_OF_PLANES:_OF_WINDOW] = [top % rows, left % columns, *edges]
        return fields


def _plane_fields(samples: PixelFormat, planes: Sequence[Operand], origin: tuple[int, int]) -> list[int]:
    """The addresses and row pitches of the planes of luma, blue and red, or of red, green and blue, at a pixel.

    Gray has one plane alone.
    """
    itemsize, (top, left), fields = samples.element.itemsize, origin, list[int]()
    for kind in samples.channels:
        plane, operand = samples.planes[kind.plane], planes[kind.plane]
        down, right = operand.layout.strides[:2]
        place = top // plane.rows * down + left // plane.columns * right
        fields += [operand.address + place * itemsize, down * itemsize]
    return fields


def _format_fields(samples: PixelFormat) -> list[int]:
    """How a format's chroma lies, whether red comes before blue and luma behind, and what shares chroma."""
    if samples.kind != "yuv":
        return [_COLOURS, 0, 0, *samples.chroma_step]
    luma, blue, red = samples.channels
    arrangement = _PLANAR if blue.plane != red.plane else _PACKED if blue.plane == luma.plane else _PAIRED
    return [arrangement, int(arrangement != _PLANAR and red.first < blue.first), luma.first, *samples.chroma_step]


def _moves(samples: PixelFormat) -> list[int]:
    """The moves that take pairs of samples apart, and that copy samples."""
    itemsize = samples.element.itemsize
    moves = pixels("take apart", itemsize, 2), copy_move(itemsize)
    return [native_function(move.family, move.place) for move in moves]


def _matrix_fields(matrix: ColourMatrix) -> list[int]:
    return [
        *(matrix.luma_least, matrix.luma_floor, matrix.chroma_centre),
        *(matrix.luma, matrix.red_v, matrix.green_u, matrix.green_v, matrix.blue_u),
        *(matrix.bits, int(matrix.floors)),
    ]


@dataclass(frozen=True, slots=True)
class SamplesKernel:
    """A loop over rows, in steps of `lanes` pixels; `places` are those of red, green and blue in a packed pixel."""

    samples: PixelFormat
    places: tuple[int, ...] | None
    lanes: int

    @property
    def name(self) -> str:
        """The kernel in a word, as plans name it."""
        return f"frame_encode_{self.samples.name}_{'planes' if self.places is None else 'pixels'}x{self.lanes}"


def samples_kernel(problem: SamplesProblem) -> CpuKernel | str:
    """The native loop of a problem, or why it is left to NumPy."""
    limits, (height, width), itemsize = policy().pixels, problem.sizes, problem.samples.element.itemsize
    if width < limits.least_lanes:
        return f"images narrower than {limits.least_lanes} pixels are left to NumPy"
    reason = _planes_left_to_numpy(problem)
    if reason is not None:
        return reason
    steps = {layout.strides for layout in problem.colours}
    lowest = min(layout.offset for layout in problem.colours)
    places = tuple(layout.offset - lowest for layout in problem.colours)
    right = {layout.strides[1] for layout in problem.colours}
    if len(steps) != 1 or not (right == {1} or (right == {3} and max(places) < 3)):
        return f"images with steps of {sorted(steps)} elements along H, W are left to NumPy"
    lanes = min(limits.step_bytes // itemsize, power_of_two(width))
    kernel = SamplesKernel(problem.samples, places if right == {3} else None, lanes)
    return CpuKernel(
        kernel.name,
        f"rows in steps of {lanes} pixels, from colours to samples in the L1 cache",
        Width(lanes * itemsize),
        Width(lanes * itemsize),
        items=-(-height // problem.samples.chroma_step[0]),
        shared_bytes=limits.shared_bytes,
        calls=(kernel,),
    )


def samples_move(plan: CpuPlan[SamplesProblem]) -> SamplesMove:
    """The native loop of a plan's samples."""
    assert plan.native is not None, "the plan has a native loop"
    problem, limits, items = plan.problem, policy().pixels, plan.native.items
    loop = NativeFunction.of("frame samples", problem.samples.element.itemsize - 1)
    work, shared = (limits.arithmetic * nbytes for nbytes in (problem.bytes_moved, limits.shared_bytes))
    pack = SamplesParameters(problem, plan.native.calls[0].places)

    def write(colours: Sequence[Operand], planes: Sequence[Operand]) -> None:
        parameters = pack(colours, planes)
        run_shared(loop, 0, 0, ctypes.addressof(parameters), items, nbytes=work, shared_bytes=shared)

    return write


class SamplesParameters:
    """The parameters of that loop: those of a problem are computed once."""

    def __init__(self, problem: SamplesProblem, places: tuple[int, ...] | None) -> None:
        """Those of all images; `places` are those of red, green and blue in a packed pixel."""
        samples, matrix = problem.samples, problem.matrix
        itemsize = samples.element.itemsize
        fields = [*(places or (0, 1, 2)), int(places is not None), *_format_fields(samples)]
        for *weights, offset in (matrix.y, matrix.u, matrix.v):
            fields += [*weights, (1 << (matrix.bits - 1)) + (offset << matrix.bits)]
        fields += [matrix.bits, matrix.most, matrix.shift]
        moves = pixels("take apart", itemsize, 3), pixels("put together", itemsize, 2), copy_move(itemsize)
        fields += [native_function(move.family, move.place) for move in moves]
        self._samples, self._of_pixels = samples, places is not None
        self._fields = _array([0] * (_OF_COLOURS + _OF_PLANES) + [*fields, *problem.sizes])

    def __call__(self, colours: Sequence[Operand], planes: Sequence[Operand]) -> ctypes.Array[ctypes.c_int64]:
        """The parameters for the planes of an image's colours and those of a frame."""
        addresses = [colour.address for colour in colours]
        if self._of_pixels:
            addresses = [min(addresses)] * len(addresses)
        fields = type(self._fields).from_buffer_copy(self._fields)
        pitch = colours[0].layout.strides[0] * self._samples.element.itemsize
        fields[:_OF_COLOURS] = [*addresses, pitch]
        samples = _plane_fields(self._samples, planes, (0, 0))
        fields[_OF_COLOURS : _OF_COLOURS + len(samples)] = [*samples]  # without chroma, its address stays null
        return fields


def _array(fields: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(fields))(*fields)
