"""Calls drawn by number, each with the words that NumPy says its output has to have.

What a number draws is shared with its neighbours, level by level. 512 calls have one kind: an operation, types, ranks,
formats and views of frames, the order and direction of axes, which of them are padded or repeated. 32 of these have one
shape: sizes, paddings, constants. Eight of these have one placement: how each tensor's address is aligned, how many
elements follow its last one, where windows begin, and whether the call allocates its result. Each call has its own
bytes, indices and flips. So a compiled kernel serves several shapes, and a plan that is kept serves several calls, as
in programs. A new kernel costs a hundred times as much as a call, and a new plan ten times.

Frames that are resized are compared with the resize of their colours, which has tests of its own.

A million calls are 31,250 problems of 1,954 kinds, each problem in four placements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from harness.drawn_frames import DrawnFrame, drawn_frame
from harness.guarded_memory import bits_of
from harness.index_oracle import gather_nd_by_definition, resolved
from harness.normalised import normalised

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.devices.buffer import Buffer, address_of
from stridedgpu.values.dtypes import ELEMENT_TYPES

__all__ = ["CALLS_OF_A_KIND", "CALLS_OF_A_PLACEMENT", "CALLS_OF_A_SHAPE", "Call", "Side", "drawn_call", "placed"]

CALLS_OF_A_PLACEMENT = 8
CALLS_OF_A_SHAPE = 32
CALLS_OF_A_KIND = 512

Array = np.ndarray[Any, Any]
Rng = np.random.Generator
Filled = Callable[[Rng, Rng], "Call"]
"""A call of a kind and a shape, from what draws its placement, and its bytes and indices."""

_OPAQUE = tuple(name for name, element in ELEMENT_TYPES.items() if element.itemsize in (1, 2, 4, 8))
_FROM = ("uint8", "int8", "uint16", "int16", "float16", "float32")
_TO = ("uint8", "int8", "uint16", "int16", "float32", "float16")
_NORMALISED = ("torchvision-v2", "transformers", "transformers-pil")
_LIBRARIES = ("divide", *_NORMALISED)
_INDEX_TYPES = ("int32", "int64", "uint32", "uint64")
_MODES = ("raise", "clip", "wrap")
_EDGES = (0.0, -0.0, 1.0, -1.0, 1 / 255, 0.5, 255.0, 3e38, 2.0**-130)
_MOST_PADDING = 3
_LINE_BYTES = 64
_NEW_RESULTS = 0.25
"""Share of the placements in which the call allocates its result."""


@dataclass(frozen=True, eq=False, slots=True)
class Side:
    """A layout over a part of `memory`, all of whose bytes are random, with elements before it and behind it.

    `memory` begins at a cache line, the part at `start_bytes`, and at least half a line surrounds it: bytes that no
    call may read or write.
    """

    layout: Layout
    dtype: str
    memory: Array
    start_bytes: int
    nbytes: int

    @property
    def words(self) -> Array:
        """The elements as words that NumPy moves unchanged: a view that can be written."""
        return bits_of(self.layout, ELEMENT_TYPES[self.dtype].itemsize, self._part(self.memory))

    def over(self, memory: Array) -> sg.StridedTensor:
        """The tensor over these bytes, or over others of as many."""
        return sg.StridedTensor(self._part(memory), self.layout, self.dtype)

    def over_buffer(self, memory: Buffer) -> sg.StridedTensor:
        """The tensor over bytes of any device."""
        part = Buffer(memory.address + self.start_bytes, self.nbytes, owner=memory, device=memory.device)
        return sg.StridedTensor(part, self.layout, self.dtype)

    def _part(self, memory: Array) -> Array:
        return memory[self.start_bytes : self.start_bytes + self.nbytes]


def placed(content: Array) -> Array:
    """A copy of bytes, which begins at a cache line."""
    memory = np.empty(content.size + _LINE_BYTES, np.uint8)
    start = -address_of(memory) % _LINE_BYTES
    copy = memory[start : start + content.size]
    copy[...] = content
    return copy


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """A call that reads tensors and arrays of indices, and writes into `out`, its last argument.

    `wanted` has the bytes of the output's memory afterwards: the drawn ones, but for the elements. Where the call
    allocates its result, it gets None instead of `out`, and the result has the elements of `wanted`.
    """

    name: str
    run: Callable[..., sg.StridedTensor]
    sources: tuple[Side | Array, ...]
    out: Side
    wanted: Array
    allocates: bool

    @property
    def wanted_words(self) -> Array:
        """The elements of the output afterwards."""
        return replace(self.out, memory=self.wanted).words


def drawn_call(number: int) -> Call:
    """The call of a number."""
    placement = np.random.default_rng((number // CALLS_OF_A_PLACEMENT, 3))
    return _shape(number // CALLS_OF_A_SHAPE)(placement, np.random.default_rng((number, 0)))


@lru_cache(maxsize=1)
def _shape(number: int) -> Filled:
    kind = np.random.default_rng((number * CALLS_OF_A_SHAPE // CALLS_OF_A_KIND, 1))
    return _KINDS[int(kind.integers(len(_KINDS)))](kind, np.random.default_rng((number, 2)))


# Layouts and their bytes


def _sizes(kind: Rng, shape: Rng, least: int = 0, most_rank: int = 5, smallest: int = 0) -> tuple[int, ...]:
    """Small sizes, one of them often up to 99, and now and then none at all."""
    rank, is_long, where = int(kind.integers(least, most_rank + 1)), kind.random() < 0.5, kind.random()
    low = smallest if shape.random() < 0.05 else 1
    sizes = shape.integers(low, 6, rank).tolist()
    if rank and is_long:
        sizes[int(where * rank)] = int(shape.integers(1, 100))
    return tuple(sizes)


def _layout(kind: Rng, shape: Rng, sizes: tuple[int, ...], *, is_output: bool = False) -> Layout:
    """Axes in any order and direction, with gaps and, for inputs, repeated; or packed. Some elements lie before it."""
    rank = len(sizes)
    before = int(shape.integers(0, 3))
    order = kind.permutation(rank) if kind.random() < 0.5 else range(rank)[::-1]
    repeated, flipped, padded = (kind.random((3, rank)) < ((0.15,), (0.3,), (0.4,))).tolist()
    step, is_packed = int(kind.integers(1, 3)), is_output and kind.random() < 0.3
    paddings = shape.integers(0, _MOST_PADDING + 1, rank).tolist()
    if is_packed:
        return Layout(sizes).shifted(before)
    strides = [0] * rank
    for axis in order:
        if repeated[axis] and not is_output:
            continue
        strides[axis] = -step if flipped[axis] else step
        step = step * max(sizes[axis], 1) + padded[axis] * paddings[axis]
    layout = Layout(sizes, strides)
    return layout.shifted(before - layout.first_offset)


def _side(layout: Layout, dtype: str, placement: Rng, values: Rng, words: Array | None = None) -> Side:
    """Random bytes, or words drawn from `words`, and up to two elements behind the last one.

    Half of the addresses are multiples of half a cache line, the others of an element.
    """
    itemsize, half = ELEMENT_TYPES[dtype].itemsize, _LINE_BYTES // 2
    is_aligned, place, behind = placement.random(3).tolist()
    start = half if is_aligned < 0.5 else half + int(place * (half // itemsize)) * itemsize
    nbytes = (layout.first_offset + layout.span + int(behind * 3)) * itemsize
    count = (start + nbytes + half) // itemsize
    if words is None:
        content = values.integers(0, 256, count * itemsize, np.uint8)
    else:
        content = words[values.integers(0, words.size, count)].view(np.uint8)
    return Side(layout, dtype, placed(content), start, nbytes)


def _call(
    name: str,
    run: Callable[..., sg.StridedTensor],
    sources: tuple[Side | Array, ...],
    out: Side,
    expected: Array,
    placement: Rng,
) -> Call:
    wanted = replace(out, memory=out.memory.copy())
    wanted.words[...] = expected
    return Call(name, run, sources, out, wanted.memory, bool(placement.random() < _NEW_RESULTS))


def _choice(kind: Rng, values: Sequence[str]) -> str:
    return values[int(kind.integers(len(values)))]


# Calls, one kind after another


def _moved(kind: Rng, shape: Rng) -> Filled:
    dtype, sizes = _choice(kind, _OPAQUE), _sizes(kind, shape)
    source, target = _layout(kind, shape, sizes), _layout(kind, shape, sizes, is_output=True)

    def filled(placement: Rng, values: Rng) -> Call:
        side = _side(source, dtype, placement, values)
        return _call("relayout", _relayout, (side,), _side(target, dtype, placement, values), side.words, placement)

    return filled


def _short_runs(kind: Rng, shape: Rng) -> Filled:
    """Runs of 10 to 16 bytes with gaps between them, from a source that is contiguous along another axis.

    Such runs are permuted in vectors that are wider than they are, and are stored in parts.
    """
    dtype, rank = _choice(kind, ("uint8", "uint8", "uint16")), int(kind.integers(2, 4))
    least, most = (nbytes // ELEMENT_TYPES[dtype].itemsize for nbytes in (10, 16))
    sizes = (*shape.integers(2, 60, rank - 1).tolist(), int(shape.integers(least, most + 1)))
    inner = int(kind.integers(rank - 1))
    source = _ordered(sizes, (inner, *kind.permutation([axis for axis in range(rank) if axis != inner])), shape)
    target = _ordered(sizes, (rank - 1, *kind.permutation(rank - 1)), shape)

    def filled(placement: Rng, values: Rng) -> Call:
        side = _side(source, dtype, placement, values)
        out = _side(target, dtype, placement, values)
        return _call("relayout into short runs", _relayout, (side,), out, side.words, placement)

    return filled


def _ordered(sizes: tuple[int, ...], order: Sequence[int], shape: Rng) -> Layout:
    """Axes from the innermost to the outermost one, with a gap behind each."""
    strides, step = [0] * len(sizes), 1
    for axis in order:
        strides[axis] = step
        step = step * sizes[axis] + int(shape.integers(0, 40))
    return Layout(sizes, strides)


def _relayout(source: sg.StridedTensor, out: sg.StridedTensor | None) -> sg.StridedTensor:
    return sg.relayout(source, out=out)


def _converted(kind: Rng, shape: Rng) -> Filled:
    dtype, target = _choice(kind, _FROM), _choice(kind, _TO)
    is_scaled, is_shifted, truncate = (kind.random(3) < (0.6, 0.6, 0.3)).tolist()
    sizes = _sizes(kind, shape)
    source, written = _layout(kind, shape, sizes), _layout(kind, shape, sizes, is_output=True)
    scale, bias = (float(shape.choice(_EDGES)) if given else None for given in (is_scaled, is_shifted))
    rounding = "truncate" if truncate else "nearest"
    arithmetic = _choice(kind, _NORMALISED if dtype.startswith("float") else _LIBRARIES) if kind.random() < 0.4 else ""
    mean, std = float(shape.uniform(-0.5, 1)), float(shape.uniform(0.1, 2))
    if arithmetic:
        options = {"mean": mean, "std": std, "arithmetic": arithmetic, "rounding": rounding}
    else:
        options = {"scale": scale, "bias": bias, "rounding": rounding}

    def filled(placement: Rng, values: Rng) -> Call:
        side = _side(source, dtype, placement, values, _finite_words(values, dtype))
        numbers = side.words.view(dtype)
        if arithmetic:
            with np.errstate(all="ignore"):
                numbers = normalised(numbers, mean, std, arithmetic)
            expected = _conversion(numbers, target, None, None, truncate=truncate)
        else:
            expected = _conversion(numbers, target, scale, bias, truncate=truncate)
        return _call(
            f"relayout {dtype} to {target}",
            run,
            (side,),
            _side(written, target, placement, values),
            expected,
            placement,
        )

    def run(source: sg.StridedTensor, out: sg.StridedTensor | None) -> sg.StridedTensor:
        dtype = None if out is not None else target
        return sg.relayout(source, dtype=dtype, out=out, **options)

    return filled


def _finite_words(values: Rng, dtype: str) -> Array:
    """Words of numbers: which NaN a conversion of a NaN gives is left to the tests of conversions."""
    words = values.integers(0, 256, 64 * np.dtype(dtype).itemsize, np.uint8).view(dtype)
    return words[np.isfinite(words)].view(f"u{words.itemsize}")


def _conversion(values: Array, target: str, scale: float | None, bias: float | None, *, truncate: bool) -> Array:
    """What a conversion of types of up to 16 bits, and float32, is stated to be: float32, each step rounded."""
    with np.errstate(all="ignore"):
        if scale is None and bias is None and values.dtype == target:
            made = values
        else:
            made = values.astype(np.float32)
            made = made if scale is None else made * np.float32(scale)
            made = made if bias is None else made + np.float32(bias)
        if np.dtype(target).kind in "ui" and made.dtype != target:
            limits = np.iinfo(target)
            whole = np.trunc(made) if truncate else np.rint(made)
            made = np.clip(np.where(np.isnan(made), np.float32(0), whole), limits.min, limits.max)
        made = np.asarray(made).astype(target)
    return made.view(f"u{made.dtype.itemsize}")


def _gathered(kind: Rng, shape: Rng) -> Filled:
    dtype, mode, number = _choice(kind, _OPAQUE), _choice(kind, _MODES), _choice(kind, _INDEX_TYPES)
    sizes, picked = _sizes(kind, shape, 1, 4, 1), _sizes(kind, shape, 0, 2)
    axis = int(kind.integers(len(sizes)))
    made = (*sizes[:axis], *picked, *sizes[axis + 1 :])
    source, target = _layout(kind, shape, sizes), _layout(kind, shape, made, is_output=True)

    def filled(placement: Rng, values: Rng) -> Call:
        side, indices = _side(source, dtype, placement, values), _indices(values, picked, sizes[axis], mode, number)
        expected = np.take(side.words, resolved(indices, sizes[axis], mode), axis)
        return _call("gather", run, (side, indices), _side(target, dtype, placement, values), expected, placement)

    def run(data: sg.StridedTensor, indices: Any, out: sg.StridedTensor | None) -> sg.StridedTensor:
        return sg.gather(data, indices, axis, mode=mode, out=out)

    return filled


def _elements(kind: Rng, shape: Rng) -> Filled:
    dtype, mode, number = _choice(kind, _OPAQUE), _choice(kind, _MODES), _choice(kind, _INDEX_TYPES)
    sizes = _sizes(kind, shape, 1, 4, 1)
    axis = int(kind.integers(len(sizes)))
    picked = (*sizes[:axis], int(shape.integers(1, 9)), *sizes[axis + 1 :])
    source, target = _layout(kind, shape, sizes), _layout(kind, shape, picked, is_output=True)

    def filled(placement: Rng, values: Rng) -> Call:
        side, indices = _side(source, dtype, placement, values), _indices(values, picked, sizes[axis], mode, number)
        expected = np.take_along_axis(side.words, resolved(indices, sizes[axis], mode), axis)
        return _call(
            "gather_elements", run, (side, indices), _side(target, dtype, placement, values), expected, placement
        )

    def run(data: sg.StridedTensor, indices: Any, out: sg.StridedTensor | None) -> sg.StridedTensor:
        return sg.gather_elements(data, indices, axis, mode=mode, out=out)

    return filled


def _indices(values: Rng, sizes: tuple[int, ...], size: int, mode: str, number: str) -> Array:
    least = 0 if number.startswith("u") else -size
    reach = (least * 3, size * 3) if mode != "raise" else (least, size)
    return values.integers(*reach, sizes).astype(number)


def _tuples(kind: Rng, shape: Rng) -> Filled:
    dtype, rank = _choice(kind, _OPAQUE), int(kind.integers(1, 5))
    length, sizes = int(kind.integers(1, rank + 1)), tuple(shape.integers(1, 7, rank).tolist())
    made = (int(shape.integers(1, 9)), *sizes[length:])
    source, target = _layout(kind, shape, sizes), _layout(kind, shape, made, is_output=True)

    def filled(placement: Rng, values: Rng) -> Call:
        side, ends = _side(source, dtype, placement, values), np.array(sizes[:length])
        indices = values.integers(-ends, ends, (made[0], length))
        expected = gather_nd_by_definition(side.words, indices, 0)
        return _call(
            "gather_nd", _gather_nd, (side, indices), _side(target, dtype, placement, values), expected, placement
        )

    return filled


def _gather_nd(data: sg.StridedTensor, indices: Any, out: sg.StridedTensor | None) -> sg.StridedTensor:
    return sg.gather_nd(data, indices, out=out)


def _scattered(kind: Rng, shape: Rng) -> Filled:
    dtype, number, sizes = _choice(kind, _OPAQUE), _choice(kind, _INDEX_TYPES), _sizes(kind, shape, 1, 4, 1)
    axis = int(kind.integers(len(sizes)))
    count = int(shape.integers(1, sizes[axis] + 1))
    into = (*sizes[:axis], count, *sizes[axis + 1 :])
    source, updates = _layout(kind, shape, sizes), _layout(kind, shape, into)
    target = _layout(kind, shape, sizes, is_output=True)

    def filled(placement: Rng, values: Rng) -> Call:
        side, new = _side(source, dtype, placement, values), _side(updates, dtype, placement, values)
        order = np.argsort(values.random(sizes), axis)  # no place twice
        indices = np.take(order, np.arange(count), axis).astype(number)
        expected = side.words.copy()
        np.put_along_axis(expected, indices.astype(np.int64), new.words, axis)
        return _call(
            "scatter_elements", run, (side, indices, new), _side(target, dtype, placement, values), expected, placement
        )

    def run(
        data: sg.StridedTensor, indices: Any, updates: sg.StridedTensor, out: sg.StridedTensor | None
    ) -> sg.StridedTensor:
        return sg.scatter_elements(data, indices, updates, axis, out=out)

    return filled


def _cropped(kind: Rng, shape: Rng) -> Filled:
    count, channels = int(kind.integers(1, 5)), int(kind.integers(1, 5))
    dtype = _choice(kind, ("uint8", "uint16", "float32"))
    images = [_layout(kind, shape, (channels, *shape.integers(1, 30, 2).tolist())) for _ in range(count)]
    size = int(shape.integers(1, 20)), int(shape.integers(1, 40))
    target = _layout(kind, shape, (count, channels, *size), is_output=True)

    def filled(placement: Rng, values: Rng) -> Call:
        sides = tuple(_side(layout, dtype, placement, values) for layout in images)
        origins, flips = placement.integers(-12, 25, (count, 2)), (values.random(count) < 0.5).tolist()
        windows = [_window(side.words, origin, size) for side, origin in zip(sides, origins.tolist(), strict=True)]
        expected = np.stack(
            [window[..., ::-1] if flip else window for window, flip in zip(windows, flips, strict=True)]
        )

        def run(*tensors: Any) -> sg.StridedTensor:
            return sg.gather_crops(list(tensors[:-1]), origins, size, flip=flips, out=tensors[-1])

        return _call("gather_crops", run, sides, _side(target, dtype, placement, values), expected, placement)

    return filled


def _window(image: Array, origin: Sequence[int], size: tuple[int, int], fill: Any = 0) -> Array:
    """A window of an image, with `fill` around it."""
    window = np.empty((image.shape[0], *size), image.dtype)
    window[...] = np.reshape(fill, (-1, 1, 1))
    rows, columns = (
        np.flatnonzero((first + np.arange(length) >= 0) & (first + np.arange(length) < extent))
        for first, length, extent in zip(origin, size, image.shape[1:], strict=True)
    )
    into = (slice(None), rows[:, None], columns)
    window[into] = image[:, origin[0] + rows[:, None], origin[1] + columns]
    return window


# Calls on frames


@dataclass(frozen=True)
class _Converted:
    """A drawn conversion of colours: options of a call, the type of its result, and what NumPy makes of colours."""

    options: dict[str, Any]
    target: str

    @property
    def channels(self) -> int:
        """The channels of the result."""
        options = self.options
        return len(options.get("channels") or options.get("matrix") or "RGB")

    def of(self, colours: Array) -> Array:
        """Words of the result for red, green and blue (3, H, W)."""
        options = dict(self.options)
        if (matrix := options.pop("matrix", None)) is not None:
            colours = np.stack([_mixed(colours, np.float32(row)) for row in matrix])
        if (channels := options.pop("channels", None)) is not None:
            colours = colours[list(channels)]
        if arithmetic := options.get("arithmetic"):
            numbers = normalised(np.moveaxis(colours, 0, -1), options["mean"], options["std"], arithmetic)
            return _conversion(np.moveaxis(numbers, -1, 0), self.target, None, None, truncate=False)
        scale, bias = (self._constants(options.get(name)) for name in ("scale", "bias"))
        return _conversion(colours, self.target, scale, bias, truncate=options.get("rounding") == "truncate")

    def _constants(self, values: Any) -> Any:
        """Constants that NumPy multiplies with (C, H, W)."""
        return None if values is None else np.float32(values).reshape(-1, 1, 1)


def _mixed(colours: Array, weights: Array) -> Array:
    """Products of float32, added in the order of channels."""
    red, green, blue = (colour.astype(np.float32) * weight for colour, weight in zip(colours, weights, strict=True))
    return red + green + blue


def _converted_colours(kind: Rng, shape: Rng, dtype: str) -> _Converted:
    how, target = kind.random(), dtype if kind.random() < 0.4 else _choice(kind, _TO)
    order = [int(channel) for channel in kind.integers(0, 3, int(kind.integers(1, 5)))]
    options: dict[str, Any] = {"rounding": "truncate"} if kind.random() < 0.3 else {}
    if kind.random() < 0.3:
        options["channels"] = order
    count, is_single = len(options.get("channels", "RGB")), kind.random() < 0.5
    if how < 0.2:
        return _Converted(options, target)
    if how < 0.4:
        arithmetic = _choice(kind, _LIBRARIES)
        numbers = shape.uniform((-0.5, 0.1), (1, 2), (count, 2)).T.tolist()
        mean, std = (values[0] if is_single else values for values in numbers)
        named = {"arithmetic": arithmetic, "mean": mean, "std": std}
        return _Converted({"channels": options["channels"], **named} if "channels" in options else named, target)
    if how < 0.55:
        options = {"matrix": shape.uniform(-1, 1, (len(order), 3)).tolist()}
        count = len(order)
    for name in ("scale", "bias"):
        if kind.random() < 0.6:
            values = shape.choice(_EDGES[2:7], count).tolist()
            options[name] = values[0] if is_single else values
    return _Converted(options, target)


def _frame_side(frame: DrawnFrame, placement: Rng, values: Rng) -> Side:
    return _side(Layout((frame.span,)), frame.dtype, placement, values)


def _shown(shape: Rng, most: int = 24) -> tuple[int, int]:
    """Heights and widths, most of them small, and some widths of several strips."""
    if shape.random() < 0.04:
        return int(shape.integers(1, 4)), int(shape.integers(700, 2600))
    height, width = shape.integers(1, most, 2).tolist()
    return height, width * int(shape.integers(1, 5))


def _frames(kind: Rng, shape: Rng, *, of_one_size: bool) -> tuple[str, list[DrawnFrame]]:
    dtype, count, one = _choice(kind, ("uint8", "uint8", "uint16")), int(kind.integers(1, 4)), _shown(shape)
    return dtype, [drawn_frame(kind, shape, dtype, one if of_one_size else _shown(shape)) for _ in range(count)]


def _frames_relaid(kind: Rng, shape: Rng) -> Filled:
    dtype, frames = _frames(kind, shape, of_one_size=True)
    is_single = len(frames) == 1 and kind.random() < 0.5
    converted = _converted_colours(kind, shape, dtype)
    height, width = frames[0].shown
    sizes = (len(frames), converted.channels, height, width)[is_single:]
    target = _layout(kind, shape, sizes, is_output=True)

    def filled(placement: Rng, values: Rng) -> Call:
        sides = tuple(_frame_side(frame, placement, values) for frame in frames)
        images = [converted.of(_colours(frame, side)) for frame, side in zip(frames, sides, strict=True)]
        expected = images[0] if is_single else np.stack(images)
        out = _side(target, converted.target, placement, values)
        return _call(f"relayout of frames, {_said(frames)}", run, sides, out, expected, placement)

    def run(*tensors: Any) -> sg.StridedTensor:
        *memories, out = tensors
        given = [frame.over(memory) for frame, memory in zip(frames, memories, strict=True)]
        options = {**converted.options, **_type_of(converted, out)}
        return sg.relayout(given[0] if is_single else given, out=out, **options)

    return filled


def _frames_cropped(kind: Rng, shape: Rng) -> Filled:
    dtype, frames = _frames(kind, shape, of_one_size=False)
    converted, size = _converted_colours(kind, shape, dtype), _shown(shape, 20)
    fill = shape.integers(0, 256, 3).tolist() if kind.random() < 0.5 else int(shape.integers(0, 256))
    target = _layout(kind, shape, (len(frames), converted.channels, *size), is_output=True)

    def filled(placement: Rng, values: Rng) -> Call:
        sides = tuple(_frame_side(frame, placement, values) for frame in frames)
        origins, flips = placement.integers(-12, 20, (len(frames), 2)), (values.random(len(frames)) < 0.5).tolist()
        windows = []
        for frame, side, origin, flip in zip(frames, sides, origins.tolist(), flips, strict=True):
            window = _window(_colours(frame, side), origin, size, fill)
            windows.append(converted.of(window[..., ::-1] if flip else window))

        def run(*tensors: Any) -> sg.StridedTensor:
            *memories, out = tensors
            given = [frame.over(memory) for frame, memory in zip(frames, memories, strict=True)]
            options = {**converted.options, **_type_of(converted, out), "flip": flips, "fill": fill}
            return sg.gather_crops(given, origins, size, out=out, **options)

        out = _side(target, converted.target, placement, values)
        return _call(f"gather_crops of frames, {_said(frames)}", run, sides, out, np.stack(windows), placement)

    return filled


def _frames_resized(kind: Rng, shape: Rng) -> Filled:
    """Resized frames have the bits of their resized colours, whose resize has tests of its own."""
    dtype, frames = _frames(kind, shape, of_one_size=False)
    converted, size = _converted_colours(kind, shape, dtype), tuple(shape.integers(1, 30, 2).tolist())
    operation, interpolation = _choice(kind, ("resize", "letterbox", "boxes")), _choice(kind, _INTERPOLATIONS[dtype])
    corners = np.sort(shape.random((len(frames), 2, 2)), 1).tolist()
    target = _layout(kind, shape, (len(frames), converted.channels, *size), is_output=True)
    boxes = [_box(frame, *ends) for frame, ends in zip(frames, corners, strict=True)]

    def of_images(images: Any, options: dict[str, Any], out: Any = None) -> sg.StridedTensor:
        options = {**converted.options, **options, "interpolation": interpolation}
        if operation == "resize":
            return sg.resize(images, size, out=out, **options)
        if operation == "letterbox":
            return sg.letterbox(images, size, value=77, out=out, **options)
        return sg.gather_crops(images, size=size, boxes=boxes, out=out, **options)

    def filled(placement: Rng, values: Rng) -> Call:
        sides = tuple(_frame_side(frame, placement, values) for frame in frames)
        pixels = [np.moveaxis(_colours(frame, side), 0, -1) for frame, side in zip(frames, sides, strict=True)]
        options = {"dtype": converted.target, "dims": "HWC"}
        if operation == "resize":
            resized = np.stack([of_images(np.ascontiguousarray(image), options).numpy() for image in pixels])
        else:
            resized = of_images([np.ascontiguousarray(image) for image in pixels], options).numpy()
        out = _side(target, converted.target, placement, values)
        words = np.ascontiguousarray(resized).view(f"u{resized.itemsize}")
        return _call(f"{operation} of frames, {_said(frames)}", run, sides, out, words, placement)

    def run(*tensors: Any) -> sg.StridedTensor:
        *memories, out = tensors
        given = [frame.over(memory) for frame, memory in zip(frames, memories, strict=True)]
        return of_images(given, _type_of(converted, out), out)

    return filled


_OF_UINT16 = (
    "pillow-bilinear",
    "pillow-bicubic",
    "pillow-nearest",
    "opencv-linear",
    "opencv-area",
    "opencv-cubic",
    "opencv-nearest",
)
_INTERPOLATIONS = {"uint8": (*_OF_UINT16, "torch-bilinear", "torch-bicubic"), "uint16": _OF_UINT16}


def _box(frame: DrawnFrame, low: Sequence[float], high: Sequence[float]) -> tuple[float, ...]:
    """A box of the frame from two corners in units of its sizes, of a pixel at least."""
    height, width = frame.shown
    top, left = int(low[0] * (height - 1)), int(low[1] * (width - 1))
    return top, left, max(high[0] * height, top + 1), max(high[1] * width, left + 1)


def _into_frame(kind: Rng, shape: Rng) -> Filled:
    dtype, size = _choice(kind, ("uint8", "uint8", "uint16")), _shown(shape)
    frame = drawn_frame(kind, shape, dtype, size, is_output=True)
    channels = kind.permutation(3).tolist() if kind.random() < 0.4 else None
    source = _layout(kind, shape, (3, *size))

    def filled(placement: Rng, values: Rng) -> Call:
        side, out = _side(source, dtype, placement, values), _frame_side(frame, placement, values)
        image, words = side.words if channels is None else side.words[channels], out.words.copy()
        frame.write(image, words)
        made = _call(f"relayout into {frame.format}", run, (side,), out, words, placement)
        return replace(made, allocates=False)

    def run(image: sg.StridedTensor, out: sg.StridedTensor) -> sg.StridedTensor:
        sg.relayout(image, dims="CHW", out=frame.over(out), channels=channels)
        return out

    return filled


def _colours(frame: DrawnFrame, side: Side) -> Array:
    return frame.colours(side.words.view(frame.dtype))


def _said(frames: Sequence[DrawnFrame]) -> str:
    return ", ".join(f"{frame.format} {frame.sizes} {frame.view}" for frame in frames)


def _type_of(converted: _Converted, out: Any) -> dict[str, str]:
    return {} if out is not None else {"dtype": converted.target}


_KINDS: tuple[Callable[[Rng, Rng], Filled], ...] = (
    _moved,
    _short_runs,
    _converted,
    _gathered,
    _elements,
    _tuples,
    _scattered,
    _cropped,
    _frames_relaid,
    _frames_cropped,
    _frames_resized,
    _into_frame,
)
