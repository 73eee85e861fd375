"""`Recipe`: one geometry of a resize, prepared for compiled loops: its kernel, tables, and moves of bands."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from operator import itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.cpu.native.calls import CompiledFunction
from stridedgpu.devices.cpu.native.elements import can_convert
from stridedgpu.devices.cpu.native.pool import LoopCall
from stridedgpu.devices.cpu.native.registers import LINE_BYTES
from stridedgpu.devices.cpu.native.resize import LEAST_HALVES, Bands, resize_fields, resize_loop
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem, moving_problem
from stridedgpu.problems.relayout_problem import RelayoutProblem, relayout_problem
from stridedgpu.problems.resize_problem import Place, ResizeProblem, ResizeWindow
from stridedgpu.problems.resize_taps import AxisTaps, WindowTaps
from stridedgpu.values.interpolation import Finish, ResizeSums, arithmetic_of
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import round_up
from stridedgpu.values.tensor_spec import TensorSpec

from .channel_matrix import mixing_call, mixing_kernel
from .compiler import LoopError
from .frames import RowLoop, row_loop
from .jit import loop_of
from .relayout import plan_relayout
from .resize_kernel import BAND_MOVES, BAND_ROWS, GEOMETRY, MOVE, NATIVE_FIELDS, ROWS, ResizeKernel
from .resize_passes import PairPass, RowPairPass, passes_of
from .resize_rows import WORD_BYTES, HalfRows, TapRows
from .resize_tables import FilterAxes, elements_read, filter_axes, scratch_fields, window_tables

_IN_ORDER: Final = itemgetter(*GEOMETRY)
_ROW_STRIDE, _SOURCES = GEOMETRY.index("row_stride"), GEOMETRY.index("sources")

MOST_GEOMETRIES: Final = 256
"""Geometries whose tables are kept, some 20 KB each for 224 x 224: random boxes never recur."""

_WIDEST_ELEMENT: Final = 8
"""Bytes of the widest element in a vector's lane."""


@dataclass(frozen=True, slots=True)
class RowShape:
    """The layout of a row's elements: `channels` interleaved at every `step`, or planes; in elements.

    `elements` is the distance from the lowest to the highest element of a row in one plane, both included. `mirrored`:
    x runs backwards.
    """

    channels: int
    step: int
    planes: int
    plane_stride: int
    elements: int
    mirrored: bool

    @classmethod
    def of(cls, layout: Layout) -> RowShape | None:
        """The shape of a layout with axes C, H, W; None for other layouts."""
        (count, _, width), (across, _, right) = layout.sizes, layout.strides
        step, limits = 1 if width == 1 else abs(right), policy().resize
        if count == 1:
            across = 1
        if across == 1 and count <= step and count <= limits.most_channels and step <= limits.most_step:
            return cls(count, step, 1, 0, (width - 1) * step + count, right < 0)
        if step <= limits.most_step:
            return cls(1, step, count, across, (width - 1) * step + 1, right < 0)
        return None

    def gathered(self) -> RowShape:
        """The shape of rows into which pixels are gathered: all their channels side by side, or those of one plane."""
        together, width = self.channels * self.planes, (self.elements - self.channels) // self.step + 1
        if together > policy().resize.most_channels:
            return replace(self, step=1, elements=width, mirrored=False)
        return RowShape(together, together, 1, 0, width * together, mirrored=False)

    @property
    def in_words(self) -> bool:
        """Whether a word has two neighbouring pixels, or four pairs of neighbours in a plane."""
        return self.step == 1 or (self.channels > 1 and 2 * self.step <= WORD_BYTES)

    def columns(self, reach: tuple[int, int], width: int) -> tuple[int, int]:
        """The columns of the source that are read, from first to one past the last: a vector of them at least."""
        first, last = reach
        least = min(width, -(-(ROWS - self.channels) // self.step) + 1)
        last = min(width, max(last, first + least))
        return min(first, last - least), last


def why_numpy(problem: ResizeProblem, window: ResizeWindow) -> str | None:
    """None if a window's loops are compiled; else the reason why NumPy resizes it."""
    choice = _choice(problem, window)
    return choice if isinstance(choice, str) else None


def _choice(problem: ResizeProblem, window: ResizeWindow) -> tuple[RowShape, FilterAxes | WindowTaps] | str:
    """The shape of a window's rows and its taps, or the reason why NumPy resizes it."""
    conversion, surface = problem.conversion, window.surface
    _, _, height, width = problem.visible(window)
    shape = RowShape.of(window.layout)
    if not height or not width:
        return "nothing of the image is seen"
    if not can_convert(conversion):
        return f"{conversion} is left to NumPy"
    if conversion.source.itemsize > _WIDEST_ELEMENT:
        return f"elements of {conversion.source.itemsize} bytes are left to NumPy"
    if shape is None:
        return f"images with steps of {window.layout.strides} elements along C, H, W are left to NumPy"
    if shape.elements < ROWS:
        return f"images with less than {ROWS} elements in a row are left to NumPy"
    taps = filter_axes(problem, window) or problem.taps(window)
    is_native = policy().native_level is not None
    if problem.rule.premultiplies and isinstance(taps, FilterAxes) and not is_native:
        taps = problem.taps(window)
    if isinstance(taps, WindowTaps) and taps.arithmetic.fuses and not policy().target.fuses:
        return "sums of fused products are left to NumPy, since no instruction fuses them"
    if surface is not None and not (taps.columns_first or is_native):
        return "frames whose rows are resized first are left to NumPy"
    if surface is not None and row_loop(surface, _columns(shape, taps, window)) is None:
        return f"{surface} of {surface.sizes[1]} columns are left to NumPy"
    if _weighs_colours(problem, taps) and (shape.planes > 1 or shape.step != shape.channels):
        return "alpha in a plane of its own, or of padded pixels, is left to NumPy"
    if conversion.matrix is not None:
        for rows in sorted({min(height, BAND_ROWS), height % BAND_ROWS} - {0}):
            band = _band_problem(problem, rows, width, (2 * rows * width, 2 * width, 1))
            kernel = mixing_kernel(band) if isinstance(band, ChannelMatrixProblem) else None
            if isinstance(kernel, str):
                return kernel
    return shape, taps


def _columns(shape: RowShape, taps: FilterAxes | WindowTaps, window: ResizeWindow) -> tuple[int, int]:
    """The columns of the source that are read, from first to one past the last; those of a frame in whole pairs."""
    (_, _, width), surface = window.layout.sizes, window.surface
    first, last = shape.columns(taps.columns.reach, width)
    return (first, last) if surface is None else (first & -2, min(last + last % 2, width))


def _weighs_colours(problem: ResizeProblem, taps: FilterAxes | WindowTaps) -> bool:
    """Whether alpha weights the colours: not where all pixels are copies."""
    return problem.rule.premultiplies and not (taps.rows.copies and taps.columns.copies)


# The kernel


def adds_products() -> bool:
    """Whether one instruction adds pairs of products."""
    return "avx2" in policy().target.features


def _kernel(
    problem: ResizeProblem,
    taps: FilterAxes | WindowTaps,
    shape: RowShape,
    *,
    converts_rows: bool,
    native: bool = False,
) -> ResizeKernel:
    """The kernel of a window; that of filters over bytes serves all geometries."""
    pairs = native or adds_products()
    element, columns_first = problem.conversion.source, taps.columns_first
    if isinstance(taps, FilterAxes) or (native and taps.arithmetic is ResizeSums.FIXED_POINT):
        narrow = isinstance(taps, FilterAxes) and problem.rule.interpolation.has_narrow_weights
        passes = passes_of(ResizeSums.FIXED_POINT, element, (False, False), pairs=pairs, narrow=narrow)
        kernel = ResizeKernel(*passes, shape.channels, shape.step, columns_first, converts_rows=converts_rows)
        if not pairs or not kernel.block_pixels:
            return kernel
        if columns_first and 1 < shape.planes <= policy().resize.most_channels:
            kernel = replace(kernel, channels=shape.planes, joins_planes=True)
        return replace(kernel, premultiplies=_weighs_colours(problem, taps)).with_pairs()
    arithmetic = taps.arithmetic
    if arithmetic is ResizeSums.OPENCV_QUARTER and element.name == "uint8":
        is_wide = not native or taps.columns.count >= LEAST_HALVES
        if is_wide and shape.step == shape.channels and not shape.mirrored and _halves(taps, shape.channels):
            return ResizeKernel(
                PairPass("i8", "i16", 1, Finish.KEPT, 0, pairs=False),  # its types alone are read
                RowPairPass("i16", "i8", weighted=False),
                shape.channels,
                shape.step,
                by_rows=HalfRows(shape.channels),
                joins_passes=native or not converts_rows,
                converts_rows=converts_rows,
            )
        # The mean of four bytes is INTER_LINEAR with weights of one half.
        arithmetic = ResizeSums.OPENCV_LINEAR
    copies = taps.columns.copies, taps.rows.copies
    passes = passes_of(arithmetic, element, copies if columns_first else copies[::-1], pairs=pairs)
    is_linear = arithmetic is ResizeSums.OPENCV_LINEAR and pairs and not shape.mirrored
    by_rows = TapRows(shape.channels, shape.step) if is_linear and shape.in_words else None
    return ResizeKernel(
        *passes,
        shape.channels,
        shape.step,
        columns_first,
        by_rows,
        _weighs_colours(problem, taps),
        joins_passes=by_rows is not None and (native or not converts_rows) and _share_few_rows(taps.rows),
        converts_rows=converts_rows,
    )


def _halves(taps: WindowTaps, channels: int) -> bool:
    """Whether each pixel is made of two neighbours in each of two rows, in order, and a row fills a vector."""
    columns = taps.columns
    in_order = np.array_equal(columns.starts, columns.starts[0] + 2 * np.arange(columns.count))
    whole = all(axis.counts.min() == axis.counts.max() == axis.most == 2 for axis in (columns, taps.rows))
    inside = columns.first <= columns.starts[0] and columns.starts[-1] + 2 <= columns.stop
    return in_order and whole and bool(inside) and columns.count >= HalfRows(channels).pixels


def _share_few_rows(rows: AxisTaps) -> bool:
    """Whether rows of the result read so few source rows together that a kept row seldom serves another one."""
    first, stop = rows.reach
    return stop - first >= policy().resize.joined_rows * rows.count


# The native library


def is_native(problem: ResizeProblem) -> bool:
    """Whether the native library resizes a problem's windows, or those of usual images where calls state them."""
    if policy().native_level is None:
        return False
    if problem.window is not None:
        choice, (_, _, height, width) = _choice(problem, problem.window), problem.visible(problem.window)
        native = None if isinstance(choice, str) else _native(problem, problem.window, *choice)
        return native is not None and _moves_bands(problem, native[1], height, width)
    _, _, height, width = problem.target.layout.sizes
    arithmetic = arithmetic_of(problem.rule.interpolation, problem.conversion.source)
    passes, channels = passes_of(arithmetic, problem.conversion.source, (False, False), pairs=True), problem.channels
    channels = channels if channels <= policy().resize.most_channels else 1
    by_rows = TapRows(channels, channels) if arithmetic is ResizeSums.OPENCV_LINEAR else None
    kernel = ResizeKernel(*passes, channels, channels, by_rows=by_rows, premultiplies=problem.rule.premultiplies)
    return _moves_bands(problem, _bands(problem, kernel), height, width)


def _moves_bands(problem: ResizeProblem, bands: Bands, height: int, width: int) -> bool:
    """Whether the native library moves the bands of so many pixels to the target."""
    if problem.conversion.matrix is not None:
        return True
    strides = band_strides(bands, width, LINE_BYTES * width)
    rows = [rows for rows in (BAND_ROWS if height >= BAND_ROWS else 0, height % BAND_ROWS) if rows]
    moves = (plan_relayout(_native_band(problem, count, width, strides, bands)) for count in rows)
    return all(call is not None and call.is_native for call in moves)


def _native(
    problem: ResizeProblem, window: ResizeWindow, shape: RowShape, taps: FilterAxes | WindowTaps
) -> tuple[ResizeKernel, Bands] | None:
    """The kernel and the bands of a window on the native library; None without it."""
    if policy().native_level is None:
        return None
    gathers = _gathers(problem, shape, taps)
    rows = shape.gathered() if gathers else shape
    kernel = _kernel(problem, taps, rows, converts_rows=window.surface is not None, native=True)
    bands = _bands(problem, kernel)
    return replace(kernel, gathers=gathers, channels=len(bands.channels)), bands


def _gathers(problem: ResizeProblem, shape: RowShape, taps: FilterAxes | WindowTaps) -> bool:
    """Whether pixels are gathered first: where no vector has a pair of them, or no word has both taps in order."""
    arithmetic = ResizeSums.FIXED_POINT if isinstance(taps, FilterAxes) else taps.arithmetic
    if arithmetic is ResizeSums.FIXED_POINT:
        return 2 * shape.step > ROWS
    is_linear = arithmetic in (ResizeSums.OPENCV_LINEAR, ResizeSums.OPENCV_QUARTER)
    return is_linear and problem.conversion.source.name == "uint8" and (shape.mirrored or not shape.in_words)


def _bands(problem: ResizeProblem, kernel: ResizeKernel) -> Bands:
    """The bands of a kernel: planes where the target has the channels of a pixel apart, and where they are mixed."""
    chosen, together = problem.conversion.channels, kernel.channels  # others are planes by themselves
    _, across, _, right = problem.target.layout.strides
    planar = right == 1 or across != 1 or problem.conversion.matrix is not None
    are_all = chosen is not None and together == problem.channels == len(chosen)
    leaves = kernel.by_rows is None and not kernel.premultiplies
    may_leave = chosen is not None and together == problem.channels and leaves
    if chosen is not None and (are_all or may_leave) and len(set(chosen)) == len(chosen):
        return Bands(chosen, planar, chosen=True)
    return Bands(tuple(range(together)), planar)


def band_strides(bands: Bands, width: int, pitch: int) -> tuple[int, int, int]:
    """The strides of finished rows along C, H, W; one channel alone is one of planes without a gap between."""
    if len(bands.channels) == 1:
        return width, pitch, 1
    return (bands.segment(width), pitch, 1) if bands.planar else (1, pitch, len(bands.channels))


def _native_band(
    problem: ResizeProblem, rows: int, width: int, strides: tuple[int, int, int], bands: Bands
) -> RelayoutProblem:
    """The conversion of finished rows; that of pixels with constants of their own is one of rows with as many."""
    conversion, channels = problem.conversion, problem.channels
    if bands.chosen:
        conversion, channels = replace(conversion, channels=None), len(bands.channels)
    written = _placed(problem, rows, width)
    if strides[0] == 1 and channels > 1 and conversion.channels is None and written.strides[2] == channels:
        sizes = rows, width * channels
        read, into = Layout(sizes, strides[1::-1]), Layout(sizes, (written.strides[1], 1))
        repeated = (
            None if values is None else (values * width if len(values) > 1 else values)
            for values in (conversion.scale, conversion.bias)
        )
        scale, bias = repeated
        conversion = replace(conversion, scale=scale, bias=bias)
        source, target = TensorSpec(read, conversion.source, 1), TensorSpec(into, conversion.target, 1)
        return relayout_problem(source, target, conversion, 1)
    source = TensorSpec(Layout((channels, rows, width), strides), conversion.source, 1)
    target = TensorSpec(written.shifted(-written.first_offset), conversion.target, 1)
    return relayout_problem(source, target, conversion, 0)


# Bands


def _band_fields(
    problem: ResizeProblem, height: int, width: int, strides: tuple[int, int, int], bands: Bands | None
) -> tuple[dict[str, int], list[LoopCall]]:
    """The moves of a whole band of finished rows and of the remaining rows of `height`, with what they refer to.

    Rows have these strides along C, H, W; they are native `bands`, or compiled ones.
    """
    fields, calls = dict.fromkeys(BAND_MOVES, 0), []
    for kind, rows in (("whole", BAND_ROWS if height >= BAND_ROWS else 0), ("rest", height % BAND_ROWS)):
        if rows:
            call = _band_call(problem, rows, width, strides, bands)
            calls.append(call)
            source, target = call.offsets
            first = _placed(problem, rows, width).first_offset * problem.conversion.target.itemsize
            numbers = call.loop.address, call.parameters, call.items, source, first + target
            fields |= {f"{kind}_{name}": number for name, number in zip(MOVE, numbers, strict=True)}
    return fields, calls


def _band_call(
    problem: ResizeProblem, rows: int, width: int, strides: tuple[int, int, int], bands: Bands | None
) -> LoopCall:
    """What moves finished rows with these strides along C, H, W to the target's lowest element."""
    band: RelayoutProblem | ChannelMatrixProblem
    if bands is None or problem.conversion.matrix is not None:
        band = _band_problem(problem, rows, width, strides)
    else:
        band = _native_band(problem, rows, width, strides, bands)
    if isinstance(band, ChannelMatrixProblem):
        kernel = mixing_kernel(band)
        assert not isinstance(kernel, str), "bands that no compiled loop mixes are left to NumPy"
        return mixing_call(band, kernel)
    call = plan_relayout(band)
    assert call is not None, "the conversion can be compiled, and there are pixels"
    return call.loop()


def _band_problem(
    problem: ResizeProblem, rows: int, width: int, strides: tuple[int, int, int]
) -> RelayoutProblem | ChannelMatrixProblem:
    """The conversion of finished rows with these strides along C, H, W into the target."""
    conversion, written = problem.conversion, _placed(problem, rows, width)
    # Scratch memory has whole words of pixels: elements behind the last one's channels may be read.
    behind = max(strides[2] - problem.channels, 0) * conversion.source.itemsize
    source = TensorSpec(Layout((problem.channels, rows, width), strides), conversion.source, 1, behind)
    target = TensorSpec(written.shifted(-written.first_offset), conversion.target, 1)
    return moving_problem(source, target, conversion, 0)


def _placed(problem: ResizeProblem, rows: int, width: int) -> Layout:
    """The layout of some rows of a window in the target, with axes C, H, W."""
    into = problem.target.layout.sliced((0, slice(None), slice(0, rows), slice(0, width)))
    return Layout(into.sizes, into.strides)


# Recipes


@dataclass(frozen=True, slots=True)
class Recipe:
    """A prepared geometry: its loop, the address of its fields, and the objects that keep these alive.

    `place` is the top, left, height and width of what is seen. `source` is the distance in bytes from the lowest
    element to the lowest element of the first row and plane. `work` is the number of products of both passes. `rows` is
    what converts the rows of a frame. `sources` are the numbers of the rows that are read, in their order, and None
    where the kernel reads rows by number.
    """

    loop: CompiledFunction
    fields: int
    place: Place
    source: int
    work: int
    rows: RowLoop | None
    sources: NDArray[np.int64] | None
    packed: ctypes.Array[ctypes.c_int64]
    kept: tuple[object, ...]

    def over_rows(self, rows: NDArray[np.int64]) -> Recipe:
        """The same for an image whose rows lie at these addresses: an entry's source is then the bytes into a row."""
        assert self.sources is not None, "the kernel reads rows that are listed"
        sources = rows[self.sources]
        packed = type(self.packed).from_buffer_copy(self.packed)
        packed[_ROW_STRIDE], packed[_SOURCES] = 1, sources.ctypes.data
        return replace(self, fields=ctypes.addressof(packed), packed=packed, kept=(self.kept, sources))


class Recipes:
    """The recipes of a problem's windows; of those that were seen, the latest are kept."""

    def __init__(self, problem: ResizeProblem) -> None:
        self._problem = problem
        self.of = lru_cache(MOST_GEOMETRIES)(self._of)
        self._band_fields = lru_cache(MOST_GEOMETRIES)(partial(_band_fields, problem))

    def _of(self, window: ResizeWindow) -> Recipe | None:
        """The recipe of a window; None if NumPy resizes it."""
        choice = _choice(self._problem, window)
        try:
            return None if isinstance(choice, str) else self.prepared(window, *choice)
        except LoopError:
            return None

    def prepared(self, window: ResizeWindow, shape: RowShape, taps: FilterAxes | WindowTaps) -> Recipe:
        """Choose the kernel of a window's geometry and build its tables."""
        problem, place, surface = self._problem, self._problem.visible(window), window.surface
        columns = _columns(shape, taps, window)
        rows = None if surface is None else row_loop(surface, columns)
        found = _native(problem, window, shape, taps)
        kernel = _kernel(problem, taps, shape, converts_rows=rows is not None) if found is None else found[0]
        read = shape.gathered() if kernel.gathers else shape
        tables = window_tables(problem.rule.interpolation, taps, kernel, columns, mirrored=read.mirrored)
        itemsize, (height, width) = problem.conversion.source.itemsize, place[2:]
        elements = elements_read(kernel, columns, read.channels)
        unit, pitch = width * kernel.out_step, 0 if rows is None else rows.pitch
        if found is not None and (kernel.premultiplies or kernel.gathers):
            pitch = round_up(elements, LINE_BYTES)
        planes = 1 if kernel.joins_planes else read.planes
        strides = (width, 1) if planes > 1 else (1, kernel.out_step)
        level, bands, native = policy().native_level, None, dict.fromkeys(NATIVE_FIELDS, 0)
        if found is None or level is None:
            loop = loop_of(kernel)
        else:
            _, bands = found
            loop = resize_loop(level, kernel)
            native |= resize_fields(level, kernel, bands, width, columns[1] - columns[0], shape.plane_stride)
            if kernel.gathers:
                across = shape.plane_stride if shape.channels == 1 else 1
                first, apart = 0, shape.step
                if shape.mirrored:
                    first, apart = (columns[1] - columns[0] - 1) * apart, -apart
                native |= {f"gathered_{channel}": first + channel * across for channel in range(read.channels)}
                native["apart"] = apart
            unit = bands.unit(width, in_words=kernel.by_rows is not None)
            strides = band_strides(bands, width, 0)[::2]
        scratch = scratch_fields(kernel, elements, unit, planes, tables, pitch)
        across, right = strides
        moves, moved = self._band_fields(height, width, (across, scratch["band_pitch"], right), bands)
        allocate, free = memory_functions()
        fields = {
            "allocate": allocate,
            "free": free,
            "row_stride": 0 if found is not None and rows is not None else window.layout.strides[1] * itemsize,
            "planes": planes,
            "plane_stride": shape.plane_stride * itemsize,
            "elements": elements,
            "columns": width,
            "unit": unit,
            "target_row": problem.target.layout.strides[2] * problem.target.element.itemsize,
            "rows_kernel": 0 if rows is None else rows.loop.address,
            "rows_pitch": pitch,
            **scratch,
            **tables.fields,
            **moves,
            **native,
        }
        packed = (ctypes.c_int64 * len(GEOMETRY))(*_IN_ORDER(fields))
        start = (1 - columns[1] if shape.mirrored else columns[0]) * shape.step
        source = (window.layout.offset - window.layout.first_offset + start) * itemsize
        work, sources = taps.products * problem.channels, tables.sources if kernel.keeps_rows else None
        return Recipe(loop, ctypes.addressof(packed), place, source, work, rows, sources, packed, (tables, moved))


def memory_functions() -> tuple[int, int]:
    """The addresses of allocate and free functions that need no Python lock."""
    python = ctypes.pythonapi
    allocate, free = (
        ctypes.cast(function, ctypes.c_void_p).value for function in (python.PyMem_RawMalloc, python.PyMem_RawFree)
    )
    assert allocate is not None, "every Python has it"
    assert free is not None, "every Python has it"
    return allocate, free
