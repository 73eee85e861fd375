"""Crops on the native library: windows of a batch are one list of rectangles, or one move of them all.

A window class is what windows have in common that overlap their sources alike: all that lie inside are of one class,
and those that reach over the same edges by the same number of pixels. Only addresses differ within it.

    class    fill  fill  fill      one loop for the whole window, or for its border beside a relayout (`BorderedRows`);
             fill image  fill      or rectangles, each a relayout
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from struct import unpack
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.buffer import Buffer, address_of
from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.thread_count import get_num_threads
from stridedgpu.devices.interface import DirectCrops, DirectLaunch, EvenlyLocated, Located
from stridedgpu.devices.launch_cache import cached_launches
from stridedgpu.problems.crop_windows import Crop, CropProblem, Crops, Rectangle, covered, overhang, rectangles
from stridedgpu.problems.device_plan import Width
from stridedgpu.problems.relayout_problem import RelayoutProblem, relayout_problem
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import power_of_two
from stridedgpu.values.tensor_spec import TensorSpec

from .calls import NativeFunction, native_function, python_function
from .elements import Constants, Elements, can_convert
from .kernel_call import KernelCall, KernelFacts, LoopAxis, kernel_call
from .pool import LoopCall, run_shared
from .registers import LINE_BYTES
from .relayout import kernel_of, plan_relayout

_LEAST_ENTRIES: Final = 16
"""Entries that threads share evenly; of fewer, they share the items of each one's kernel."""

_ORIGIN_BYTES: Final = 16
"""Bytes of a row and a column."""

Overhang = tuple[int, int, int, int]
"""Rows above and below a source, and columns before and behind it, that a window has."""

_INSIDE: Final[Overhang] = (0, 0, 0, 0)

_ENTRIES: Final = 0
_BORDERED: Final = 1
"""The places of the library's loops."""

_ENTRY_FIELDS: Final = 6
"""Fields of an entry: the addresses of source, target, loop and the loop's parameters, and the loop's first item and
the one after its last."""

_LIST_FIELDS: Final = 9
"""Members of `Windows` in kernels/cpu/crops.hpp."""

_LIST_ARGUMENTS: Final = 6
"""Arguments of the library's `list_windows`."""


@dataclass(frozen=True, slots=True)
class BorderedRows:
    """The loop over rows with a border, in steps of `lanes` bytes of the source.

    Loop `b` runs along the source's bytes, `a` over all rows of a window. `dense`: target rows follow one another.
    `merged`: bytes of a vector that holds a dense row, or 0: where there are masks, the source's bytes are loaded into
    the fill, and the next row overwrites what is too much. `alone`: another loop writes what is inside.

    Further parameters of a call (`more`): the first row of the source and the one behind its last, the bytes of the
    border before and behind a row, and the address of `LINE_BYTES` of the fill; for channels of various fills one after
    the other.
    """

    elements: Elements
    lanes: int
    dense: bool
    merged: int = 0
    alone: bool = False
    family: ClassVar[str] = "bordered_rows"
    streaming: ClassVar[bool] = False

    def facts(self, row: LoopAxis) -> KernelFacts:
        """What `explain` says of the kernel."""
        width = Width(self.lanes, f"rows are {row.size} B of a source")
        return KernelFacts(f"rows of {row.size} B with a border", width, width, (1, row.size))

    def loop(self, call: KernelCall, owner: object) -> LoopCall:
        """The loop of a call of this kernel."""
        return _bordered_loop(call, owner)


def _bordered_loop(call: KernelCall, owner: object) -> LoopCall:
    """The loop of a call of `BorderedRows`; it keeps an `owner` of more memory alive."""
    kernel: BorderedRows = call.kernel  # type: ignore[assignment]
    inner, outer, tables = call.grid()
    fields = [*call.more, int(kernel.dense), kernel.merged, int(kernel.alone), 0, 0, 0, *inner, len(call.outer), *outer]
    offsets = call.source_offset, call.target_offset
    loop = NativeFunction.of("crops", _BORDERED)
    return LoopCall.of(loop, fields, call.items, offsets, (tables, owner))


def crops_kernel(problem: CropProblem) -> CpuKernel | None:
    """The native loops of windows inside their sources.

    None if the conversion is left to NumPy, if there is nothing to move, or with a matrix, where each rectangle has a
    launch of its own. Parts outside a source, and sources with another row pitch, may run other loops.
    """
    if not can_convert(problem.conversion) or problem.is_empty or problem.conversion.matrix is not None:
        return None
    channel, column = problem.source_steps
    _, _, height, width = problem.target.layout.sizes
    # Windows are parts of larger images, so their rows lie apart.
    strides = (channel or 1, 2 * width * (abs(column) or 1), column or 1)
    crop = Crop(Layout((problem.source_channels, height, width), strides), (0, 0))
    window, call, _, _ = _plan_rectangle(problem, crop, Rectangle(slice(0, height), slice(0, width), (0, 0)))
    inner = kernel_of(window, (call,))
    return CpuKernel(
        f"crops_{inner.name}",
        f"a list of windows, each by {inner.words}",
        inner.load,
        inner.store,
        items=problem.target.layout.sizes[0],
        shared_bytes=policy().crops.shared_bytes,
        calls=inner.calls,
    )


def crops_move(plan: CpuPlan[CropProblem]) -> Callable[[Crops, Sequence[Located], Located], DirectCrops | None]:
    """What writes a plan's windows."""
    return _Crops(plan.problem)


class _Crops:
    """A prepared plan: makes the list of entries, and runs the loop over it."""

    def __init__(self, problem: CropProblem) -> None:
        """Store the problem; classes of windows, and batches laid out alike, are planned on first use."""
        self._loop = NativeFunction.of("crops", _ENTRIES)
        self._problem, (_, _, *size) = problem, problem.target.layout.sizes
        self._size = size[0], size[1]
        self._fill = Buffer.of(problem.fill)
        self._itemsize = problem.conversion.source.itemsize
        self._pitch = problem.target.layout.strides[0] * problem.conversion.target.itemsize

    @cached_launches
    def _class_of(self, strides: tuple[int, ...], flip: bool, beyond: Overhang) -> _WindowClass:
        return _plan_class(self._problem, self._fill, strides, flip, beyond)

    @cached_launches
    def _even_batch(self, image: Layout, step: int) -> _EvenBatch:
        return _EvenBatch(self._problem, self._class_of, self._loop, image, step)

    def __call__(self, crops: Crops, sources: Sequence[Located], target: Located) -> DirectCrops | None:
        """Write every window."""
        (buffer, first), itemsize, (height, width) = target, self._itemsize, self._size
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
                known, strides, (_, rows, columns) = layout, layout.strides, layout.sizes
                (_, down, right), offset, inside = strides, layout.offset, {}
            is_inside = 0 <= y <= rows - height and 0 <= x <= columns - width
            window_class = inside.get(flip) if is_inside else None
            if window_class is None:
                beyond = _INSIDE if is_inside else overhang(Crop(layout, (y, x)), self._size)
                window_class = self._class_of(strides, flip, beyond)
                classes.append(window_class)
                if is_inside:
                    inside[flip] = window_class
            pixel = source.address + start + (offset + y * down + x * right) * itemsize
            for is_fill, read, written, kernel, parameters, items in window_class.copies:
                fields += (read if is_fill else pixel + read, place + written, kernel, parameters, 0, items)
            place += self._pitch
        if fields:
            _run_entries(self._loop, np.array(fields, np.int64).reshape(-1, _ENTRY_FIELDS), self._problem.bytes_moved)
        return None


class _RectangleCopy(NamedTuple):
    """A rectangle of a window, with offsets in bytes, and the kernel that copies it.

    `source` is relative to the image's pixel at the window's origin, which may lie outside the image; for the fill
    (`is_fill`) it is an address. `target` is relative to the window's place in the batch. `kernel` and `parameters` are
    addresses.
    """

    is_fill: bool
    source: int
    target: int
    kernel: int
    parameters: int
    items: int


class _WindowClass(NamedTuple):
    """The rectangles of windows of one class, and what they refer to."""

    copies: tuple[_RectangleCopy, ...]
    kept: tuple[object, ...]


def _plan_class(
    problem: CropProblem, fill: Buffer, strides: tuple[int, ...], flip: bool, beyond: Overhang
) -> _WindowClass:
    """Plan a class of windows: one copy, if a kernel writes its rows with a border; else its rectangles.

    The border is one of them where its rows are filled bytes.
    """
    crop = _typical(problem, strides, flip, beyond)
    bordered = plan_bordered(problem, crop) if any(beyond) else None
    if bordered is not None:
        call, memory = bordered
        copy, kept = _copy(call, call.source_offset, call.target_offset, is_fill=False)
        return _WindowClass((copy,), (kept, memory))
    read, written = problem.conversion.source.itemsize, problem.conversion.target.itemsize
    (y, x), (_, down, right) = crop.origin, strides
    copies: list[tuple[_RectangleCopy, object]] = []
    _, _, height, width = problem.target.layout.sizes
    parts = [*rectangles(crop, (height, width))]
    border = None
    if any(beyond):
        border = _border(problem, crop, _converted_fill(problem, fill), alone=True)
    if border is not None:
        call, memory = border
        copy, kept = _copy(call, fill.address, call.target_offset, is_fill=True)
        copies.append((copy, (kept, memory)))
        parts = [part for part in parts if part.source is not None]
    for part in parts:
        _, call, source, target = _plan_rectangle(problem, crop, part)
        begins = fill.address
        if part.source is not None:
            begins = ((part.source[0] - y) * down + (part.source[1] - x) * right) * read
        begins += source.first_offset * read + call.source_offset
        into = target.first_offset * written + call.target_offset
        copies.append(_copy(call, begins, into, is_fill=part.source is None))
    return _WindowClass(tuple(copy for copy, _ in copies), tuple(kept for _, kept in copies))


def _typical(problem: CropProblem, strides: tuple[int, ...], flip: bool, beyond: Overhang) -> Crop:
    """A window of a class, over the smallest image that such windows overlap."""
    (above, below, before, behind), (_, _, height, width) = beyond, problem.target.layout.sizes
    sizes = problem.source_channels, max(0, height - above - below), max(0, width - before - behind)
    return Crop(Layout(sizes, strides), (-above, -before), flip)


def _copy(call: KernelCall, source: int, target: int, *, is_fill: bool) -> tuple[_RectangleCopy, object]:
    """A call between two places, with what it refers to."""
    loop = call.loop()
    return _RectangleCopy(is_fill, source, target, loop.loop.address, loop.parameters, call.items), loop


def _plan_rectangle(
    problem: CropProblem, crop: Crop, part: Rectangle
) -> tuple[RelayoutProblem, KernelCall, Layout, Layout]:
    """A rectangle as a relayout, its call, and the layouts of both sides from the first pixel on."""
    conversion, window = problem.conversion, problem.target.layout.sliced(0)
    if crop.flip:
        window = window.sliced((slice(None), slice(None), slice(None, None, -1)))
    target = window.sliced((slice(None), part.rows, part.columns))
    sizes = (crop.layout.sizes[0], *target.sizes[1:])
    source = Layout(sizes, (1, 0, 0) if part.source is None else crop.layout.strides)
    read = TensorSpec(source.shifted(-source.first_offset), conversion.source, 1)
    written = TensorSpec(target.shifted(-target.first_offset), conversion.target, 1)
    relayout = relayout_problem(read, written, conversion, 0)
    call = plan_relayout(relayout)
    assert call is not None, "the library has the conversion, and no rectangle is empty"
    return relayout, call, source, target


def plan_bordered(problem: CropProblem, crop: Crop, count: int = 1, step: int = 0) -> tuple[KernelCall, Buffer] | None:
    """The kernel and loops of `count` windows, whose sources lie `step` bytes apart, and the memory of their fill.

    They begin at the source's pixel at a window's origin, and at the batch's lowest element. None for windows whose
    values are converted, that are mirrored or nowhere inside, or whose rows do not lie as they do in the source.
    """
    conversion, (_, _, height, width) = problem.conversion, problem.target.layout.sizes
    if not conversion.is_bitwise_copy or conversion.channels is not None or crop.flip:
        return None
    (y, x), (_, rows, columns) = crop.origin, crop.layout.sizes
    if not (covered(y, height, rows).stop and covered(x, width, columns).stop):
        return None
    return _border(problem, crop, problem.fill, count, step, alone=False)


def _border(
    problem: CropProblem, crop: Crop, fill: bytes, count: int = 1, step: int = 0, *, alone: bool
) -> tuple[KernelCall, Buffer] | None:
    """The same with the windows' fill, an element for each channel; or of their borders `alone`."""
    conversion, (_, channels, height, width) = problem.conversion, problem.target.layout.sizes
    element, (_, source_height, source_width) = conversion.target.itemsize, crop.layout.sizes
    samples, *strides = (stride * element for stride in problem.target.layout.strides)
    target_across, target_down, target_right = strides
    across, down, right = strides if alone else (stride * element for stride in crop.layout.strides)
    fills = [fill[start : start + element] for start in range(0, len(fill), element)]
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
    if not (rows.stop and columns.stop):  # all is border
        rows, columns = slice(height, height), slice(0, width)
    before, length, behind = (unit * n for n in (columns.start, columns.stop - columns.start, width - columns.stop))
    if crop.flip:
        before, behind = behind, before
    a, b = LoopAxis(height, down, target_down), LoopAxis(length, 1, 1)
    lanes = power_of_two(min(length, LINE_BYTES))
    elements = Elements(conversion, Constants.ITEM, finite=True, itemsize=1)
    dense = target_down == unit * width
    merges = dense and not alone and unit * width in policy().crops.merged_bytes
    merged = 1 << (unit * width - 1).bit_length() if merges else 0
    kernel = BorderedRows(elements, lanes, dense, merged, alone)
    extents = max(1, policy().relayout.bytes_of_item(problem.bytes_moved) // (2 * unit * width)), length
    offsets = before, problem.target.layout.offset * element + before
    call = kernel_call(kernel, conversion, offsets, tuple(outer), ((a, 1), (b, lanes)), extents)
    memory = Buffer.of(b"".join(fill * (LINE_BYTES // element) for fill in fills))
    return replace(call, more=(rows.start, rows.stop, before, behind, memory.address)), memory


def _converted_fill(problem: CropProblem, fill: Buffer) -> bytes:
    """The fill as an element of the target for each of its channels."""
    element, channels = problem.conversion.target, problem.target.layout.sizes[1]
    pixel = replace(problem, target=TensorSpec(Layout((1, channels, 1, 1)), element, 1))
    crop = Crop(Layout((problem.source_channels, 1, 1)), (0, 0))
    _, call, _, _ = _plan_rectangle(pixel, crop, Rectangle(slice(0, 1), slice(0, 1), None))
    made = np.empty(channels * element.itemsize, np.uint8)
    call.loop().launch(made.nbytes, None)(fill.address, address_of(made))
    return made.tobytes()


class _EvenBatch:
    """Windows of batches laid out alike, none of them mirrored; a `DirectCrops`.

    `image` is the first image's layout, and images are `step` bytes apart.
    """

    def __init__(
        self,
        problem: CropProblem,
        class_of: Callable[[tuple[int, ...], bool, Overhang], _WindowClass],
        loop: NativeFunction,
        image: Layout,
        step: int,
    ) -> None:
        """Prepare what lists windows inside; moves are planned on first use."""
        self._problem, self._loop, self._image, self._step = problem, loop, image, step
        self._class_of = class_of
        count, _, height, width = problem.target.layout.sizes
        self._count, self._size, self._nbytes = count, (height, width), problem.bytes_moved
        self._last: tuple[bytes, int, DirectLaunch] = b"", 0, lambda _source, _target: None  # a batch without windows
        (_, down, right), (_, rows, columns), itemsize = image.strides, image.sizes, problem.conversion.source.itemsize
        self._down, self._right, self._first = down * itemsize, right * itemsize, image.offset * itemsize
        self._pitch = problem.target.layout.strides[0] * problem.conversion.target.itemsize
        self._can_list = height <= rows and width <= columns
        if not self._can_list:
            return
        self._class = class_of(image.strides, False, _INSIDE)  # noqa: FBT003 - a key of a cache
        (copy,) = self._class.copies
        self._begins = self._first + copy.source, copy.target
        rooms, steps = (rows - height, columns - width), (self._down, self._right, step, self._pitch)
        self._parameters = (ctypes.c_int64 * _LIST_FIELDS)(*rooms, *steps, copy.kernel, copy.parameters, copy.items)
        self._fields = ctypes.addressof(self._parameters)
        self._list = python_function(native_function("crop list"), _LIST_ARGUMENTS)
        self._alone = loop.alone

    def __call__(self, source: int, target: int, origins: NDArray[np.int64]) -> bool:
        """Write every window; see `DirectCrops`."""
        places = origins.tobytes()
        known, offset, move = self._last
        if places == known:
            move(source + offset, target)
            return True
        if self._can_list and self._run_list(source, target, origins):
            return True
        return places == places[:_ORIGIN_BYTES] * self._count and self._at_once(source, target, places)

    def _run_list(self, source: int, target: int, origins: NDArray[np.int64]) -> bool:
        """Write windows one by one, if all are inside."""
        entries, count = np.empty(1 + self._count * _ENTRY_FIELDS, np.int64), self._count
        (read, written), place = self._begins, address_of(entries)
        self._list(address_of(origins), place, self._fields, source + read, target + written, count)
        if entries.item(0):
            return False
        if self._nbytes < policy().crops.shared_bytes:
            self._alone(0, 0, place + 8, 0, count)
        else:
            _run_entries(self._loop, entries[1:].reshape(-1, _ENTRY_FIELDS), self._nbytes)
        return True

    def _at_once(self, source: int, target: int, places: bytes) -> bool:
        """Write windows that reach alike over the edges by one move, if there is one; a next call begins with it."""
        y, x = unpack("=2q", places[:_ORIGIN_BYTES])
        move = self._move_of(overhang(Crop(self._image, (y, x)), self._size))
        if move is None:
            return False
        offset = self._first + y * self._down + x * self._right
        move(source + offset, target)
        self._last = places, offset, move
        return True

    @cached_launches
    def _move_of(self, beyond: Overhang) -> DirectLaunch | None:
        """The move of windows from the pixel at their origin, and the batch's lowest element; cached.

        None where none is over its source: the pixel may then have no address.
        """
        problem, image = self._problem, self._image
        crop = _typical(problem, image.strides, False, beyond)  # noqa: FBT003 - as above
        bordered = plan_bordered(problem, crop, self._count, self._step) if any(beyond) else None
        if bordered is not None:
            call, memory = bordered
            return call.loop(memory).launch(problem.bytes_moved, policy().crops.shared_bytes)
        window_class = self._class_of(image.strides, False, beyond)  # noqa: FBT003 - as above
        reading = np.array([not copy.is_fill for copy in window_class.copies])
        if not reading.any():
            return None
        window = np.array([(*copy[1:5], 0, copy.items) for copy in window_class.copies])
        sources, targets = (np.arange(self._count)[:, None] * step for step in (self._step, self._pitch))

        def move(source: int, target: int, _owner: object = window_class) -> None:
            entries = np.repeat(window[None], self._count, axis=0)
            entries[:, reading, 0] += source + sources
            entries[:, :, 1] += target + targets
            _run_entries(self._loop, entries.reshape(-1, _ENTRY_FIELDS), self._nbytes)

        return move


def _run_entries(loop: NativeFunction, entries: NDArray[np.int64], nbytes: int) -> None:
    """Run a kernel over a list of entries; the caller keeps the memory that the entries point to alive."""
    limits, number = policy().crops, len(entries)
    if nbytes >= limits.shared_bytes and number < _LEAST_ENTRIES and get_num_threads() > 1:
        # A few windows are shared by the items of their kernels.
        entries = np.array(
            [(*fixed, item, item + 1) for *fixed, _, items in entries.tolist() for item in range(items)], np.int64
        )
    place, shared = address_of(entries), limits.shared_bytes
    run_shared(loop, 0, 0, place, len(entries), nbytes=nbytes, shared_bytes=shared)
