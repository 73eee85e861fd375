"""Plan and run crops on compiled loops: windows of a batch are one move, or a list of moves that threads share.

A window class is what windows have in common that overlap their sources alike: all that lie inside are of one class,
and those of one image that reach over the same edges by the same number of pixels. Only addresses differ within it.

    class    fill  fill  fill      rectangles, each moved by a relayout in bands of rows; or one for the whole window
             fill image  fill
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from functools import lru_cache
from struct import unpack
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.buffer import Buffer, address_of
from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.thread_count import get_num_threads
from stridedgpu.devices.interface import DirectCrops, DirectLaunch, EvenlyLocated, Located
from stridedgpu.problems.crop_windows import Crop, CropProblem, Crops, Rectangle, covered, overhang, rectangles
from stridedgpu.problems.relayout_problem import RelayoutProblem, relayout_problem
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .conversion import can_compile
from .crop_kernels import ENTRY_FIELDS, LIST_FIELDS, Band, BorderedRows, batch_text, list_text
from .ir import LINE_BYTES
from .jit import CompiledFunction, LoopError, compiled, loop_of, python_function
from .kernel_call import KernelCall, LoopAxis, kernel_call, power_of_two
from .relayout import kernel_of, moving, plan_relayout
from .work_grid import Constants, Elements
from .worker_pool import run_shared

__all__ = ["compiled_crops", "crops_kernel", "plan_bordered"]

_ORIGIN_BYTES: Final = 16
"""Bytes of a row and a column."""


def crops_kernel(problem: CropProblem) -> CpuKernel | None:
    """The compiled loops of windows inside their sources.

    None if the conversion is left to NumPy, if there is nothing to move, or with a matrix, where each rectangle has a
    launch of its own. Parts outside a source, and sources with another row pitch, may run other loops.
    """
    if not can_compile(problem.conversion) or problem.is_empty or problem.conversion.matrix is not None:
        return None
    channel, column = problem.source_steps
    _, _, height, width = problem.target.layout.sizes
    # Windows are parts of larger images, so their rows lie apart.
    strides = (channel or 1, 2 * width * (abs(column) or 1), column or 1)
    crop = Crop(Layout((problem.source_channels, height, width), strides), (0, 0))
    rows = _band_rows(problem)
    band, call, _, _ = _plan_band(problem, crop, Rectangle(slice(0, height), slice(0, width), (0, 0)), rows)
    inner = kernel_of(band, (call,))
    return CpuKernel(
        f"crops_{inner.name}",
        f"a list of windows in bands of {rows} rows, each by {inner.words}",
        inner.load,
        inner.store,
        items=problem.target.layout.sizes[0],
        shared_bytes=policy().crops.shared_bytes,
        walks=inner.walks,
    )


def compiled_crops(
    plan: CpuPlan[CropProblem],
) -> Callable[[Crops, Sequence[Located], Located], DirectCrops | None] | None:
    """Compile a plan's loops; None where the plan has none."""
    return None if plan.compiled is None else _Crops(plan.problem)


class _Crops:
    """A prepared plan: makes the list of entries, and runs the loop over it."""

    def __init__(self, problem: CropProblem) -> None:
        """Store the problem; classes of windows are planned on first use."""
        self._problem, self._loop = problem, compiled(batch_text)
        self._batches: dict[tuple[Layout, int], _EvenBatch] = {}
        self._classes = _WindowClasses(problem)
        self._itemsize = problem.conversion.source.itemsize
        self._pitch = problem.target.layout.strides[0] * problem.conversion.target.itemsize

    def __call__(self, crops: Crops, sources: Sequence[Located], target: Located) -> DirectCrops | None:
        """Write every window."""
        (buffer, first), itemsize, class_of = target, self._itemsize, self._classes.class_of
        place = buffer.address + first
        if isinstance(sources, EvenlyLocated) and True not in crops.flips:
            direct = self._even_batch(crops.layouts[0], sources.step)
            if direct(sources.buffer.address + sources.start, place, crops.origins):
                return direct
        fields: list[int] = []
        classes = []  # kept until the loop is done: another thread may forget them meanwhile
        known: Layout | None = None
        inside: dict[bool, _WindowClass] = {}
        origins = crops.origins.tolist()
        for layout, (y, x), flip, (source, start) in zip(crops.layouts, origins, crops.flips, sources, strict=True):
            if layout is not known:  # most images of a list share one, and most windows are inside
                known, (_, down, right), (below, behind) = layout, layout.strides, self._classes.rooms(layout)
                offset, inside = layout.offset, {}
            pixel = source.address + start + (offset + y * down + x * right) * itemsize
            is_inside = 0 <= y <= below and 0 <= x <= behind
            window_class = inside.get(flip) if is_inside else None
            if window_class is None:
                window_class = class_of(Crop(layout, (y, x), flip))
                classes.append(window_class)
                if is_inside:
                    inside[flip] = window_class
            for is_fill, read, written, band, rows, bands in window_class.copies:
                fields += (read if is_fill else pixel + read, place + written, band, rows, 0, bands)
            place += self._pitch
        if fields:
            _run_entries(self._loop, np.array(fields, np.int64).reshape(-1, ENTRY_FIELDS), self._problem.bytes_moved)
        return None

    def _even_batch(self, image: Layout, step: int) -> _EvenBatch:
        """Batches of such images, which are `step` bytes apart."""
        key = image, step
        batch = self._batches.get(key)
        if batch is None:
            batch = _EvenBatch(self._problem, self._classes, self._loop, image, step)
            if len(self._batches) >= policy().crops.most_batches:
                self._batches.clear()
            self._batches[key] = batch
        return batch


class _RectangleCopy(NamedTuple):
    """A rectangle of a window, with offsets in bytes.

    `source` is relative to the image's pixel at the window's origin, which may lie outside the image; for the fill
    (`is_fill`) it is an address. `target` is relative to the window's place in the batch. `band` is the address of a
    `Band`, of which there are `bands` in `rows` rows.
    """

    is_fill: bool
    source: int
    target: int
    band: int
    rows: int
    bands: int


class _WindowClass(NamedTuple):
    """The rectangles of windows of one class, and what they refer to."""

    copies: tuple[_RectangleCopy, ...]
    kept: tuple[object, ...]


class _WindowClasses:
    """The classes of windows of one problem that were met; each is planned on first use."""

    def __init__(self, problem: CropProblem) -> None:
        """Store the problem."""
        self._problem, self._fill = problem, Buffer.of(problem.fill)
        self._classes: dict[tuple[object, ...], _WindowClass] = {}
        _, _, height, width = problem.target.layout.sizes
        self._size = height, width

    def rooms(self, layout: Layout) -> tuple[int, int]:
        """The last row and column where a window begins that is inside an image."""
        (rows, columns), (_, height, width) = self._size, layout.sizes
        return height - rows, width - columns

    def class_of(self, crop: Crop) -> _WindowClass:
        """The class of a window."""
        layout, (y, x), flip = crop
        below, behind = self.rooms(layout)
        if 0 <= y <= below and 0 <= x <= behind:
            key: tuple[object, ...] = layout.strides, flip
        else:
            key = layout.strides, flip, overhang(crop, self._size)
        window_class = self._classes.get(key)
        if window_class is None:
            window_class = self._planned(crop)
            if len(self._classes) >= policy().crops.most_classes:
                self._classes.clear()
            self._classes[key] = window_class
        return window_class

    def _planned(self, crop: Crop) -> _WindowClass:
        """Plan the class of a window: one copy, if a kernel writes its rows with a border, or its rectangles."""
        bordered = plan_bordered(self._problem, crop) if any(overhang(crop, self._size)) else None
        if bordered is not None:
            call, memory = bordered
            band, kept = _band(call, 1)
            copy = _RectangleCopy(False, call.source_offset, call.target_offset, band, 1, 1)  # noqa: FBT003
            return _WindowClass((copy,), (kept, memory))
        problem, itemsize = self._problem, self._problem.conversion.source.itemsize
        (y, x), (_, down, right) = crop.origin, crop.layout.strides
        copies, alive = [], []
        for part in rectangles(crop, self._size):
            rows = part.rows.stop - part.rows.start
            height = min(rows, _band_rows(problem))
            _, call, source, target = _plan_band(problem, crop, part, height)
            source_pitch, pitch = source.strides[1] * itemsize, target.strides[1] * problem.conversion.target.itemsize
            lowest = -call.source_offset - min(0, (height - 1) * source_pitch)
            band, kept = _band(call, height, source_pitch, pitch, lowest, *_runs_of_row(source, itemsize))
            reads = self._fill.address
            if part.source is not None:
                reads = ((part.source[0] - y) * down + (part.source[1] - x) * right) * itemsize
            reads += source.first_offset * itemsize + call.source_offset
            writes = target.first_offset * problem.conversion.target.itemsize + call.target_offset
            is_fill, bands = part.source is None, -(-rows // height)
            copies.append(_RectangleCopy(is_fill, reads, writes + part.rows.start * pitch, band, rows, bands))
            alive.append(kept)
        return _WindowClass(tuple(copies), tuple(alive))


def _band(call: KernelCall, height: int, *more: int) -> tuple[int, tuple[object, ...]]:
    """The address of a call as a `Band`, with what it refers to."""
    loop, parameters = loop_of(call.kernel), call.packed()
    band = astuple(Band(loop.address, parameters.address, call.items, height, *more))
    fields = (ctypes.c_int64 * len(band))(*band)
    return ctypes.addressof(fields), (parameters, loop, fields)


def _runs_of_row(layout: Layout, itemsize: int) -> tuple[int, int, int]:
    """The runs of one source row (axes C, H, W) that are prefetched: number, distance in bytes, cache lines of each."""
    (channels, _, width), (across, _, right) = layout.sizes, layout.strides
    if not across or not right:
        return 0, 0, 0
    if abs(across) < abs(right):
        reach = (width - 1) * abs(right) + channels * abs(across)
        return 1, 0, reach * itemsize // LINE_BYTES + 1
    return channels, abs(across) * itemsize, (width * abs(right)) * itemsize // LINE_BYTES + 1


def _band_rows(problem: CropProblem) -> int:
    """Rows of one band."""
    return max(1, policy().crops.band_bytes // (len(problem.fill) * problem.target.layout.sizes[3]))


def _plan_band(
    problem: CropProblem, crop: Crop, part: Rectangle, height: int
) -> tuple[RelayoutProblem, KernelCall, Layout, Layout]:
    """The first `height` rows of a rectangle as a relayout, its call, and both layouts, from the first pixel on."""
    conversion, whole = problem.conversion, slice(None)
    window = problem.target.layout.sliced(0)
    if crop.flip:
        window = window.sliced((whole, whole, slice(None, None, -1)))
    target = window.sliced((whole, slice(0, height), part.columns))
    sizes = (crop.layout.sizes[0], *target.sizes[1:])
    source = Layout(sizes, (1, 0, 0) if part.source is None else crop.layout.strides)
    read = TensorSpec(source.shifted(-source.first_offset), conversion.source, 1)
    written = TensorSpec(target.shifted(-target.first_offset), conversion.target, 1)
    band = relayout_problem(read, written, conversion, 0)
    call = plan_relayout(band)
    assert call is not None, "the conversion can be compiled, and no rectangle is empty"
    return band, call, source, target


def _plan_inside(problem: CropProblem, image: Layout, step: int) -> KernelCall:
    """The kernel and loops of windows inside their images, which lie `step` bytes apart: a relayout.

    They begin at the image's pixel at a window's origin, and at the batch's lowest element.
    """
    conversion, target = problem.conversion, problem.target.layout
    count, _, height, width = target.sizes
    strides = (step // conversion.source.itemsize, *image.strides)
    source = Layout((count, image.sizes[0], height, width), strides)
    lowest, first = source.first_offset, target.first_offset
    read = TensorSpec(source.shifted(-lowest), conversion.source, 1)
    written = TensorSpec(target.shifted(-first), conversion.target, 1)
    call = plan_relayout(relayout_problem(read, written, conversion, 1))
    assert call is not None, "the conversion can be compiled, and the windows are not empty"
    return replace(
        call,
        source_offset=call.source_offset + lowest * conversion.source.itemsize,
        target_offset=call.target_offset + first * conversion.target.itemsize,
    )


def plan_bordered(problem: CropProblem, crop: Crop, count: int = 1, step: int = 0) -> tuple[KernelCall, Buffer] | None:
    """The kernel and loops of `count` windows, whose sources lie `step` bytes apart, and the memory of their fill.

    They begin at the source's pixel at a window's origin, and at the batch's lowest element. None for windows whose
    values are converted, that are mirrored or nowhere inside, or whose rows do not lie as they do in the source.
    """
    conversion, (_, _, height, width) = problem.conversion, problem.target.layout.sizes
    if not conversion.is_bitwise_copy or conversion.channels is not None or crop.flip:
        return None
    element, (channels, source_height, source_width) = conversion.source.itemsize, crop.layout.sizes
    across, down, right = (stride * element for stride in crop.layout.strides)
    samples, target_across, target_down, target_right = (stride * element for stride in problem.target.layout.strides)
    fills = [problem.fill[start : start + element] for start in range(0, len(problem.fill), element)]
    outer = [LoopAxis(count, step, samples)]
    if right == target_right == element:
        outer, unit = [*outer, LoopAxis(channels, across, target_across, constants=1)], element
    elif across == target_across == element and right == target_right == channels * element and len(set(fills)) == 1:
        fills, unit = fills[:1], channels * element
    else:
        return None
    if LINE_BYTES % element:  # larger ones, and odd ones without a type
        return None
    rows, columns = covered(crop.origin[0], height, source_height), covered(crop.origin[1], width, source_width)
    if rows.start == rows.stop or columns.start == columns.stop:
        return None
    before, length, behind = (unit * n for n in (columns.start, columns.stop - columns.start, width - columns.stop))
    a, b = LoopAxis(height, down, target_down), LoopAxis(length, 1, 1)
    limits, nbytes = policy().relayout, problem.bytes_moved
    is_distant = abs(down) > length and nbytes >= policy().target.l2_bytes
    ahead = max(limits.rows_ahead, policy().crops.row_ahead_bytes // length) if is_distant else 0
    lanes, fill_lanes = (power_of_two(min(size, LINE_BYTES)) for size in (length, unit * width))
    elements = Elements(conversion, Constants.ITEM, finite=True, itemsize=1)
    dense = target_down == unit * width
    merges = dense and unit * width in policy().crops.merged_bytes and _masks_bytes()
    merged = 1 << (unit * width - 1).bit_length() if merges else 0
    kernel = BorderedRows(elements, len(outer), lanes, fill_lanes, ahead, dense, merged)
    extents = max(1, limits.bytes_of_item(nbytes) // (2 * unit * width)), length
    offsets = before, problem.target.layout.offset * element + before
    call = kernel_call(kernel, conversion, offsets, tuple(outer), ((a, 1), (b, lanes)), extents)
    memory = Buffer.of(b"".join(fill * (LINE_BYTES // element) for fill in fills))
    return replace(call, more=(rows.start, rows.stop, before, behind, memory.address)), memory


def _masks_bytes() -> bool:
    """Whether one instruction loads bytes of a vector of any length by a mask."""
    return {"avx512bw", "avx512vl"} <= policy().target.features


class _EvenBatch:
    """Windows of batches laid out alike, none of them mirrored; a `DirectCrops`.

    `image` is the first image's layout, and images are `step` bytes apart.
    """

    def __init__(
        self, problem: CropProblem, classes: _WindowClasses, loop: CompiledFunction, image: Layout, step: int
    ) -> None:
        """Prepare what lists windows inside; moves are planned on first use."""
        self._problem, self._loop, self._image, self._step = problem, loop, image, step
        count, _, height, width = problem.target.layout.sizes
        self._count, self._size, self._nbytes = count, (height, width), problem.bytes_moved
        self._is_quick = count > 1 and self._nbytes < policy().crops.moved_bytes
        self._moves: dict[tuple[int, int, int, int], DirectLaunch | None] = {}
        self._last: tuple[bytes, int, DirectLaunch] = b"", 0, _no_move
        (_, down, right), (_, rows, columns), itemsize = image.strides, image.sizes, problem.conversion.source.itemsize
        self._down, self._right, self._first = down * itemsize, right * itemsize, image.offset * itemsize
        self._can_list = height <= rows and width <= columns
        if not self._can_list:
            return
        self._class = classes.class_of(Crop(image, (0, 0)))
        (part,) = self._class.copies
        self._begins = self._first + part.source, part.target
        pitch = problem.target.layout.strides[0] * problem.conversion.target.itemsize
        rooms, steps = (rows - height, columns - width), (self._down, self._right, step, pitch)
        self._parameters = (ctypes.c_int64 * LIST_FIELDS)(*rooms, *steps, part.band, part.rows, part.bands)
        self._fields = ctypes.addressof(self._parameters)
        self._list, self._alone = _listing(), loop.alone

    def __call__(self, source: int, target: int, origins: NDArray[np.int64]) -> bool:
        """Write every window; see `DirectCrops`."""
        places = origins.tobytes()
        known, offset, move = self._last
        if places == known:
            move(source + offset, target)
            return True
        is_one = places == places[:_ORIGIN_BYTES] * self._count
        try:
            if is_one and self._is_quick:
                return self._at_once(source, target, places)
            if self._can_list and self._run_list(source, target, origins):
                return True
            return is_one and self._at_once(source, target, places)
        except LoopError:
            return False

    def _run_list(self, source: int, target: int, origins: NDArray[np.int64]) -> bool:
        """Write windows one by one, if all are inside."""
        entries, count = np.empty(1 + self._count * ENTRY_FIELDS, np.int64), self._count
        (read, written), place = self._begins, address_of(entries)
        self._list(address_of(origins), place, self._fields, source + read, target + written, count)
        if entries.item(0):
            return False
        if self._nbytes < policy().crops.shared_bytes:
            self._alone(0, 0, place + 8, 0, count)
        else:
            _run_entries(self._loop, entries[1:].reshape(-1, ENTRY_FIELDS), self._nbytes)
        return True

    def _at_once(self, source: int, target: int, places: bytes) -> bool:
        """Write windows that all begin at one place by one move, if there is one; it is kept for the next call."""
        y, x = unpack("=2q", places[:_ORIGIN_BYTES])
        crop = Crop(self._image, (y, x))
        beyond = overhang(crop, self._size)
        try:
            move = self._moves[beyond]
        except KeyError:
            if len(self._moves) >= policy().crops.most_classes:
                self._moves.clear()
            move = self._moves[beyond] = self._planned(crop, is_inside=not any(beyond))
        if move is None:
            return False
        offset = self._first + y * self._down + x * self._right
        move(source + offset, target)
        self._last = places, offset, move
        return True

    def _planned(self, crop: Crop, *, is_inside: bool) -> DirectLaunch | None:
        """Plan the move of windows like this one, from the pixel at their origin and the batch's lowest element.

        None where a window needs more than one move.
        """
        problem, memory = self._problem, None
        if is_inside:
            call = _plan_inside(problem, self._image, self._step)
        else:
            bordered = plan_bordered(problem, crop, self._count, self._step)
            if bordered is None:
                return None
            call, memory = bordered
        return moving(call, problem.bytes_moved, policy().crops.shared_bytes, memory)


def _no_move(_source: int, _target: int) -> None:
    """The placeholder before the first move; never called."""
    raise AssertionError("no batch has origins without bytes")


@lru_cache(maxsize=1)
def _listing() -> Callable[..., None]:
    """`list_text` as a function of its arguments."""
    loop = compiled(list_text)
    return python_function(loop.address, 6)


def _run_entries(loop: CompiledFunction, entries: NDArray[np.int64], nbytes: int) -> None:
    """Run a kernel over a list of entries; the caller keeps the memory that the entries point to alive."""
    limits = policy().crops
    if nbytes < limits.shared_bytes:
        loop.alone(0, 0, address_of(entries), 0, len(entries))
        return
    pieces = -(-limits.least_entries // len(entries))
    if pieces > 1 and get_num_threads() > 1:
        # Each entry's bands from number 0 on, in about as many pieces.
        steps = [(*fixed, bands, -(-bands // pieces)) for *fixed, _, bands in entries.tolist()]
        cut = [
            (*fixed, first, min(first + step, bands))
            for *fixed, bands, step in steps
            for first in range(0, bands, step)
        ]
        entries = np.array(cut, np.int64)
    run_shared(loop, 0, 0, address_of(entries), len(entries), nbytes=nbytes)
