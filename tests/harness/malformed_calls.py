"""Malformed calls, drawn by number: `PYTHONPATH=tests python -m harness.malformed_calls`.

A call begins as a good one of any public operation, over memory of random bytes, and one or two of its arguments are
spoiled: another type, NaN, a huge number, an array interface that lies, memory that overlaps itself, an object that
raises when it is looked at. Such a call is carried out, or raises an error of the library, `TypeError`, `ValueError` or
`IndexError` that names an argument. Where it raises, no byte of any memory has changed; where it is carried out, none
but the elements of its output. An error of the spoiled object's own may pass through.

Call `n` of a seed is the same call in every run and every version, so that `--record FILE`, a line a call, can be
compared between two versions with `diff`: it is what errors say, and a digest of the results. Calls run in blocks of
child processes, every other block on NumPy: a call that ends its process, or does not end, is reported by its number.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import mmap
import os
import re
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
from harness.cpu_paths import picking_by
from harness.drawn_calls import placed
from harness.frame_calls import FRAME_OPERATIONS
from harness.spoiled_arguments import SABOTAGE, Spoiled, spoiled

import stridedgpu as sg
from stridedgpu.values.arithmetic import ARITHMETIC_RULES

__all__ = ["BLOCK", "OPERATIONS", "Outcome", "Scene", "drawn", "judged", "main"]

BLOCK: Final = 256
EXECUTIONS: Final = ("native, 2 threads", "NumPy")
_SECONDS: Final = 600.0
"""Seconds without an outcome after which a call is taken to hang."""
_MEMORY: Final = 2 << 30
"""Bytes that a block may allocate beyond those of its parent."""
_EDGE: Final = 64
_NOTE: Final = 4096
_MOST_READ: Final = 1 << 24
_DEEPEST: Final = 8

Array = np.ndarray[Any, Any]
Rng = np.random.Generator
Arguments = dict[str, Any]
Function = Callable[..., Any]


# The memory of a call


@dataclass(eq=False)
class Guarded:
    """Bytes that are not to change, but for those of `written` where the call is carried out."""

    memory: Array
    written: Array | None = None
    before: Array = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.memory.copy()

    def changed(self, *, raised: bool) -> int | None:
        """The first byte that has changed and may not."""
        differ = self.memory != self.before
        if self.written is not None and not raised:
            differ &= ~self.written
        return int(np.argmax(differ)) if differ.any() else None


class Scene:
    """One call's arrays and tensors, over bytes that are compared afterwards."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.guards: list[Guarded] = []

    def pick(self, *values: Any) -> Any:
        """One of some values."""
        return values[int(self.rng.integers(len(values)))]

    def often(self, share: float = 0.5) -> bool:
        """True in this share of the calls."""
        return bool(self.rng.random() < share)

    def memory(self, nbytes: int) -> Array:
        """Random bytes; more lie around them."""
        whole = placed(self.rng.integers(0, 256, nbytes * 9 + 2 * _EDGE, np.uint8))
        self.guards.append(Guarded(whole))
        return whole[_EDGE : _EDGE + nbytes]

    def array(self, shape: Sequence[int], dtype: str, reach: tuple[int, int] | None = None) -> Array:
        """An array of small numbers, or of random bytes."""
        kind = np.dtype(dtype)
        array = np.ndarray(shape, kind, self.memory(int(np.prod(shape)) * kind.itemsize))
        low, high = reach or (0, 100)
        array[...] = self.rng.integers(low, high, shape)
        self.guards[-1].__post_init__()
        return array

    def out(self, sizes: Sequence[int], dtype: str, dims: str | None = None) -> sg.StridedTensor:
        """A tensor that may be written, with gaps between its rows now and then."""
        strides = list(sg.Layout(sizes).strides)
        if len(sizes) > 1 and self.often(0.4):
            strides = [stride * 2 for stride in strides[:-1]] + strides[-1:]
        return self.written(sg.Layout(sizes, strides), dtype, dims)

    def written(self, layout: sg.Layout, dtype: str, dims: str | None = None) -> sg.StridedTensor:
        """A tensor of a layout that may be written."""
        itemsize = np.dtype(dtype).itemsize
        part = self.memory((layout.first_offset + layout.span) * itemsize)
        guard = self.guards[-1]
        guard.written = np.zeros(guard.memory.size, bool)
        if layout.span:
            steps = tuple(stride * itemsize for stride in layout.strides)
            elements = np.ndarray(layout.sizes, f"V{itemsize}", guard.written, _EDGE + layout.offset * itemsize, steps)
            elements[...] = np.frombuffer(b"\1" * itemsize, f"V{itemsize}")[0]
        return sg.StridedTensor(part, layout, dtype, dims=dims)

    def may_write(self, array: Array) -> Array:
        """The last memory may be written as a whole: the elements of this array."""
        guard = self.guards[-1]
        guard.written = np.zeros(guard.memory.size, bool)
        guard.written[_EDGE : _EDGE + array.nbytes] = True
        return array


# Good calls


def _relayout(scene: Scene) -> tuple[Function, Arguments]:
    source = sg.asarray(scene.array((2, 4, 5, 3), scene.pick("uint8", "float32", "int16")), dims="NHWC")
    options = {
        "src": source,
        "layout": scene.pick("NCHW", "NHWC", None),
        "dtype": scene.pick("float32", "float16", "uint8"),
        "scale": scene.pick(2.0, (1.0, 2.0, 3.0), None),
        "bias": scene.pick(1.0, (0.0, 0.5, 1.0), None),
        "channels": scene.pick((2, 1, 0), None),
        "rounding": scene.pick("nearest", "truncate"),
        "row_pitch_bytes": scene.pick(None, 256),
        "alignment": scene.pick(None, 64),
        "device": scene.pick("cpu", None),
        "stream": None,
    }
    return sg.relayout, options


def _relayout_out(scene: Scene) -> tuple[Function, Arguments]:
    sizes = scene.pick((2, 3, 4, 5), (1, 3, 2, 2), (2, 1, 3, 3))
    source = scene.array(sizes, scene.pick("uint8", "float32", "uint16"))
    out = scene.out(sizes, scene.pick("float32", "uint8", "float16"), "NCHW")
    options = {"src": source, "dims": "NCHW", "out": out, "scale": 2.0, "bias": scene.pick(None, 1.0)}
    return sg.relayout, options


def _relayout_normalised(scene: Scene) -> tuple[Function, Arguments]:
    source = scene.array((2, 3, 4, 3), "uint8")
    options = {
        "src": source,
        "dims": "NHWC",
        "dtype": "float32",
        "mean": (0.5, 0.4, 0.3),
        "std": scene.pick(0.5, (0.2, 0.3, 0.4)),
        "arithmetic": scene.pick(*ARITHMETIC_RULES),
    }
    if scene.often():
        options["out"] = scene.out((2, 3, 3, 4), "float32", "NCHW")
        del options["dtype"]
    return sg.relayout, options


def _relayout_matrix(scene: Scene) -> tuple[Function, Arguments]:
    source = scene.array((2, 4, 5, 3), scene.pick("uint8", "float32"))
    options = {
        "src": source,
        "dims": "NHWC",
        "matrix": [[0.299, 0.587, 0.114]],
        "scale": scene.pick(None, 2.0),
        "dtype": "float32",
    }
    if scene.often():
        options["out"] = scene.out((2, 1, 4, 5), "float32", "NCHW")
        del options["dtype"]
    return sg.relayout, options


def _resize(scene: Scene) -> tuple[Function, Arguments]:
    source = scene.array((2, 6, 8, 3), scene.pick("uint8", "float32"))
    options = {
        "src": source,
        "size": scene.pick((4, 4), (9, 3), 5),
        "dims": "NHWC",
        "interpolation": scene.pick("pillow-bilinear", "opencv-linear", "pillow-nearest", "pillow-bicubic"),
        "box": scene.pick(None, (0, 0, 4, 4), (1.5, 0.5, 6.0, 5.0)),
        "passes": None,
        "layout": scene.pick(None, "NHWC", "NCHW"),
        "dtype": scene.pick(None, "float32"),
        "scale": None,
        "bias": None,
        "channels": scene.pick(None, (2, 1, 0)),
        "rounding": "nearest",
        "row_pitch_bytes": None,
        "alignment": None,
        "device": None,
    }
    return sg.resize, options


def _resize_out(scene: Scene) -> tuple[Function, Arguments]:
    source = scene.array((6, 8, 3), "uint8")
    dtype = scene.pick("uint8", "float32")
    options = {"src": source, "size": (4, 4), "dims": "HWC", "scale": 2.0, "out": scene.out((3, 4, 4), dtype, "CHW")}
    return sg.resize, options


def _letterbox(scene: Scene) -> tuple[Function, Arguments]:
    images = [scene.array((6, 8, 3), "uint8"), scene.array((3, 4, 3), "uint8")]
    options = {
        "images": images if scene.often() else images[0],
        "size": scene.pick((8, 8), 6),
        "dims": "HWC",
        "fill": scene.pick(114, (1, 2, 3)),
        "interpolation": scene.pick("opencv-linear", "pillow-bilinear"),
        "scale_up": scene.pick(True, False),
        "passes": None,
        "layout": scene.pick(None, "NHWC"),
        "dtype": scene.pick(None, "float32"),
        "scale": scene.pick(None, 2.0),
        "channels": None,
    }
    if scene.often(0.3):
        options |= {"images": images, "size": (8, 8), "layout": None}
        options["out"] = scene.out((2, 3, 8, 8), "float32", "NCHW")
        del options["dtype"]
    return sg.letterbox, options


def _placements(scene: Scene) -> tuple[Function, Arguments]:
    return sg.letterbox_placements, {"sizes": [(4, 6), (5, 5)], "size": scene.pick((8, 8), 7), "scale_up": True}


def _data(scene: Scene) -> tuple[Array, str]:
    dtype = scene.pick("float32", "uint8", "int64", "float16")
    return scene.array((2, 3, 4), dtype), dtype


def _gather(scene: Scene) -> tuple[Function, Arguments]:
    data, dtype = _data(scene)
    indices = scene.array((2,), scene.pick("int64", "int32", "uint32"), (0, 2))
    options = {"data": data, "indices": indices, "axis": 0, "mode": scene.pick("raise", "clip", "wrap"), "stream": None}
    if scene.often():
        options["out"] = scene.out((2, 3, 4), dtype)
    return sg.gather, options


def _gather_elements(scene: Scene) -> tuple[Function, Arguments]:
    data, dtype = _data(scene)
    indices = scene.array((2, 3, 2), "int64", (0, 4))
    options = {"data": data, "indices": indices, "axis": 2, "mode": scene.pick("raise", "clip"), "dims": None}
    if scene.often():
        options["out"] = scene.out((2, 3, 2), dtype)
    return sg.gather_elements, options


def _gather_nd(scene: Scene) -> tuple[Function, Arguments]:
    data, dtype = _data(scene)
    options = {"data": data, "indices": scene.array((3, 2), "int64", (0, 2)), "batch_dims": 0, "mode": "raise"}
    if scene.often():
        options["out"] = scene.out((3, 4), dtype)
    return sg.gather_nd, options


def _scatter_elements(scene: Scene) -> tuple[Function, Arguments]:
    data, dtype = _data(scene)
    options = {
        "data": data,
        "indices": scene.array((1, 3, 4), "int64", (0, 2)),
        "updates": scene.array((1, 3, 4), dtype),
        "axis": 0,
        "unique": scene.pick(False, True),
    }
    if scene.often():
        options["out"] = scene.out((2, 3, 4), dtype)
    return sg.scatter_elements, options


def _scatter_nd(scene: Scene) -> tuple[Function, Arguments]:
    data, dtype = _data(scene)
    indices = scene.array((2, 2), "int64", (0, 2))
    options = {"data": data, "indices": indices, "updates": scene.array((2, 4), dtype), "unique": False}
    if scene.often():
        options["out"] = scene.out((2, 3, 4), dtype)
    return sg.scatter_nd, options


def _crops(scene: Scene) -> tuple[Function, Arguments]:
    sources: Any = [scene.array((6, 8, 3), "uint8"), scene.array((4, 5, 3), "uint8")]
    if scene.often(0.3):
        sources = scene.array((2, 6, 8, 3), "uint8")
    dims = "HWC" if isinstance(sources, list) else "NHWC"
    options = {
        "sources": sources,
        "origins": scene.pick([(0, 0), (1, 2)], scene.array((2, 2), "int64", (0, 2))),
        "size": scene.pick((2, 2), (3, 3)),
        "dims": dims,
        "flip": scene.pick(None, True, (True, False)),
        "layout": scene.pick(None, "NHWC"),
        "dtype": scene.pick(None, "float32"),
        "scale": scene.pick(None, 2.0),
        "bias": None,
        "channels": scene.pick(None, (2, 1, 0)),
        "fill": scene.pick(0, (1, 2, 3)),
        "rounding": "nearest",
    }
    if scene.often(0.4):
        options |= {"size": (2, 2), "layout": None, "out": scene.out((2, 3, 2, 2), "float32", "NCHW")}
        del options["dtype"]
    return sg.gather_crops, options


def _boxes(scene: Scene) -> tuple[Function, Arguments]:
    options = {
        "sources": [scene.array((6, 8, 3), "uint8"), scene.array((4, 5, 3), "uint8")],
        "size": (3, 3),
        "boxes": scene.pick([(0, 0, 4, 4), (0.5, 1, 3, 4.5)], np.array([(0, 0, 4, 4), (0, 1, 3, 4)], np.int64)),
        "interpolation": scene.pick("pillow-bilinear", "opencv-linear", None),
        "dims": "HWC",
        "passes": None,
    }
    if scene.often(0.4):
        options["out"] = scene.out((2, 3, 3, 3), scene.pick("uint8", "float32"), "NCHW")
    return sg.gather_crops, options


def _raw(scene: Scene) -> tuple[Function, Arguments]:
    options = {"memory": scene.memory(40), "format": "mipi-raw10", "sizes": (4, 8), "row_pitch_bytes": None}
    if scene.often():
        options["out"] = scene.out((4, 8), "uint16", "HW")
    return sg.unpack_raw, options


def _asarray(scene: Scene) -> tuple[Function, Arguments]:
    obj = scene.array((2, 4, 5, 3), scene.pick("uint8", "float64", "int32"))
    options = {"obj": obj, "dims": "NHWC", "dtype": scene.pick(None, "float32"), "device": "cpu", "copy": None}
    return _named(sg.asarray, "obj"), options


def _from_dlpack(scene: Scene) -> tuple[Function, Arguments]:
    return _named(sg.from_dlpack, "obj"), {"obj": scene.array((2, 4, 5, 3), "float32"), "dims": "NHWC"}


def _frombuffer(scene: Scene) -> tuple[Function, Arguments]:
    options = {
        "buffer": scene.memory(256),
        "sizes": (4, 5, 3),
        "dtype": scene.pick("uint8", "uint16"),
        "dims": scene.pick("HWC", None),
        "row_pitch_bytes": scene.pick(None, 32),
        "offset_bytes": scene.pick(0, 2),
    }
    return sg.frombuffer, options


def _tensor(scene: Scene) -> tuple[Function, Arguments]:
    layout = sg.Layout((2, 3, 4), (24, 8, 1), scene.pick(0, 1))
    return sg.StridedTensor, {"buffer": scene.memory(256), "layout": layout, "dtype": "uint8", "dims": "CHW"}


def _layout(scene: Scene) -> tuple[Function, Arguments]:
    if scene.often():
        return sg.Layout, {"sizes": (2, 3), "strides": scene.pick((3, 1), None), "offset": 1}
    return sg.Layout.padded, {"sizes": (1, 3, 4, 5), "order": "NHWC", "itemsize": 1, "row_pitch_bytes": 16}


def _layout_methods(scene: Scene) -> tuple[Function, Arguments]:
    layout = sg.Layout((2, 3, 4), (24, 8, 1))
    calls: tuple[tuple[Function, Arguments], ...] = (
        (layout.offset_of, {"coordinates": (0, 1, 2)}),
        (layout.permuted, {"axes": (2, 0, 1)}),
        (layout.sliced, {"index": (0, slice(None))}),
        (layout.broadcast_to, {"sizes": (5, 2, 3, 4)}),
        (layout.unsqueezed, {"axis": 1}),
        (layout.unsqueezed(0).squeezed, {"axis": 0}),
        (layout.aligned_to_rank, {"rank": 5}),
        (layout.split_axis, {"axis": 2, "sizes": (2, 2)}),
        (layout.merged_axes, {"first": 0, "last": 0}),
        (layout.reshaped, {"sizes": (2, 3, 2, 2)}),
        (layout.shifted, {"distance": 3}),
        (layout.axis_of, {"axis": -1}),
        (layout.reinterpreted, {"itemsize": 2, "wanted": 4}),
    )
    return scene.pick(*calls)


def _descriptor(scene: Scene) -> tuple[Function, Arguments]:
    options = {
        "data_type": "uint8",
        "sizes": (1, 2),
        "strides": (2, 1),
        "total_tensor_size_in_bytes": 4,
        "guaranteed_base_offset_alignment": 16,
        "flags": 0,
    }
    return sg.BufferTensorDesc, options


def _descriptor_functions(scene: Scene) -> tuple[Function, Arguments]:
    desc = sg.BufferTensorDesc("uint8", (2, 3, 4, 5))
    binding = sg.Binding(desc, "arena", 0, 120)
    calls: tuple[tuple[Function, Arguments], ...] = (
        (sg.calc_buffer_tensor_size, {"data_type": "uint8", "sizes": (1, 2), "strides": (2, 1)}),
        (sg.calculate_strides, {"layout": "NHWC", "sizes": (1, 3, 4, 5), "broadcast": (True,) * 4}),
        (sg.packed_strides, {"sizes": (2, 3), "order": (1, 0)}),
        (desc.check_binding, {"offset": 0, "size_in_bytes": 120}),
        (sg.Binding, {"desc": desc, "buffer": "arena", "offset": 0, "size_in_bytes": 120}),
        (sg.check_bindings, {"inputs": [binding], "outputs": [None], "in_place": False}),
        (_named(sg.DataType.of, "value"), {"value": "uint8"}),
        (_named(sg.synchronize, "device"), {"device": "cpu"}),
        (_threads, {"count": 2}),
    )
    return scene.pick(*calls)


def _threads(count: Any) -> int:
    before = sg.get_num_threads()
    try:
        sg.set_num_threads(count)
        return sg.get_num_threads()
    finally:
        sg.set_num_threads(before)


def _creation(scene: Scene) -> tuple[Function, Arguments]:
    options = {
        "sizes": (2, 3, 4, 5),
        "dtype": scene.pick("uint8", "float32"),
        "layout": scene.pick("NHWC", None),
        "dims": "NCHW",
        "row_pitch_bytes": scene.pick(None, 64),
        "alignment": scene.pick(64, 256),
        "device": scene.pick("cpu", None),
    }
    if scene.often(0.4):
        return sg.full, {**options, "value": scene.pick(7, 1.5)}
    return scene.pick(_shape_of_empty, sg.zeros), options


def _shape_of_empty(**options: Any) -> Any:
    """What `empty` allocates, without the bytes that happen to lie there."""
    tensor = sg.empty(**options)
    return tensor.layout, str(tensor.element), tensor.dims, tensor.device


def _patterns(scene: Scene) -> tuple[Function, Arguments]:
    function = scene.pick(sg.view, sg.rearrange)
    options = {"src": scene.array((4, 6, 3), "uint8"), "pattern": "(h y) w c -> c h y w", "y": 2}
    return _named(function, "src", "pattern"), options


def _step(scene: Scene) -> tuple[Function, Arguments]:
    options = {
        "column": "image",
        "dims": "NHWC",
        "layout": scene.pick("NCHW", "NHWC"),
        "dtype": scene.pick("float32", "float16"),
        "mean": 0.5,
        "std": scene.pick(0.5, (0.1, 0.2, 0.3)),
        "channels": scene.pick((2, 1, 0), None),
        "flip": 0.5,
        "seed": 0,
        "key": "name",
        "row_pitch_bytes": None,
        "alignment": 32,
        "device": "cpu",
        "errors": scene.pick("raise", "skip"),
        "output": scene.pick("numpy", "tensor"),
        "arithmetic": "multiply",
        "maximum": None,
        "fill": scene.pick(None, 7),
        "mode": scene.pick(None, "rgb"),
        "passes": None,
        "interpolation": None,
    }
    geometry: Arguments = scene.pick(
        {"crop": (2, 2), "pad": 1},
        {"resize": (4, 4)},
        {"resize": 5, "crop": 4, "center": "floor"},
        {"letterbox": 8},
        {"random_resized_crop": True, "crop": 4},
        {"gain": (0.9, 1.1), "offset": (-0.1, 0.1), "crop": 3},
        {"clip": (-10, 100), "crop": 3},
        {"boxes": "boxes", "points": "points", "mask": "mask", "mask_fill": 3, "box_format": "xyxy", "resize": (4, 4)},
    )
    return _stepped, {**options, **geometry, "batch": _batch(scene)}


def _batch(scene: Scene) -> Arguments:
    images = [scene.array((6, 8, 3), "uint8"), scene.array((5, 7, 3), "uint8")]
    return {
        "image": images,
        "name": ["a", "b"],
        "boxes": [np.array([[0, 0, 2, 2.0]]), np.zeros((0, 4))],
        "points": [np.array([[1, 1.5]]), np.array([[0, 0], [2, 2]])],
        "mask": [scene.array((6, 8), "uint8"), scene.array((5, 7), "uint8")],
    }


def _stepped(batch: Any, **declaration: Any) -> Any:
    """What a step makes of a batch."""
    return sg.Preprocess(**declaration)(batch)


def _step_call(scene: Scene) -> tuple[Function, Arguments]:
    step = sg.Preprocess(
        "image", dtype="float32", mean=0.5, std=0.5, resize=(4, 4), device="cpu", flip=True, seed=1, boxes="boxes",
        points="points", mask="mask",
    )  # fmt: skip

    def call(epoch: Any, keys: Any, **columns: Any) -> Any:
        return step(columns, keys, epoch=epoch)

    return call, {"epoch": 1, "keys": [1, 2], **_batch(scene)}


def _step_out(scene: Scene) -> tuple[Function, Arguments]:
    step = sg.Preprocess(dtype="float32", mean=0.5, std=0.5, crop=(2, 2), device="cpu", dims="NHWC")
    batch = scene.pick(scene.array((2, 4, 5, 3), "uint8"), [scene.array((4, 5, 3), "uint8") for _ in range(2)])
    return _named(step, "batch"), {"batch": batch, "out": scene.out((2, 3, 2, 2), "float32", "NCHW"), "keys": None}


def _step_placements(scene: Scene) -> tuple[Function, Arguments]:
    step = scene.pick(
        sg.Preprocess(random_resized_crop=True, crop=8, seed=1, device="cpu"), sg.Preprocess(letterbox=8, device="cpu")
    )

    def call(sizes: Any, keys: Any, epoch: Any, boxes: Any) -> Any:
        return [placement.boxes(boxes) for placement in step.placements(sizes, keys, epoch=epoch)]

    return call, {"sizes": [(4, 6), (5, 5)], "keys": [1, 2], "epoch": 3, "boxes": [[0, 0, 2, 2]]}


def _prefetch(scene: Scene) -> tuple[Function, Arguments]:
    def call(**arguments: Any) -> list[Any]:
        return list(islice(sg.prefetch(**arguments), 100))

    return call, {"batches": [scene.array((2, 3), "uint8")], "device": "cpu", "depth": 2}


def _plans(scene: Scene) -> tuple[Function, Arguments]:
    """A plan, and a call of it."""
    picture = sg.asarray(scene.array((2, 4, 5, 3), "uint8"), dims="NHWC")
    data, dtype = _data(scene)
    features, indices = sg.asarray(data), sg.asarray(scene.array((2,), "int64", (0, 2)))
    pairs = sg.asarray(scene.array((2, 2), "int64", (0, 2)))
    updates = sg.asarray(scene.array((2, 4), dtype))
    calls: tuple[tuple[Function, tuple[str, ...], Arguments, tuple[str, ...]], ...] = (
        (
            sg.plan_relayout,
            ("src", "dst"),
            {"src": picture, "dst": scene.out((2, 3, 4, 5), "float32", "NCHW"), "scale": 2.0, "channels": (2, 1, 0)},
            ("src", "dst"),
        ),
        (
            sg.plan_gather,
            ("data", "indices"),
            {"data": features, "indices": indices, "axis": 0, "mode": "clip", "out": scene.out((2, 3, 4), dtype)},
            ("data", "indices", "out"),
        ),
        (
            sg.plan_gather_nd,
            ("data", "indices"),
            {"data": features, "indices": pairs, "batch_dims": 0, "mode": "clip", "out": scene.out((2, 4), dtype)},
            ("data", "indices", "out"),
        ),
        (
            sg.plan_scatter_nd,
            ("data", "indices", "updates"),
            {"data": features, "indices": pairs, "updates": updates, "out": scene.out((2, 3, 4), dtype)},
            ("data", "indices", "updates", "out"),
        ),
        (
            sg.plan_resize,
            ("src", "out"),
            {"src": picture, "out": scene.out((2, 3, 2, 2), "uint8", "NCHW"), "interpolation": "opencv-linear"},
            ("src", "out"),
        ),
        (
            sg.plan_letterbox,
            ("images", "out"),
            {"images": picture, "out": scene.out((2, 3, 8, 8), "uint8", "NCHW"), "fill": 3},
            ("images", "out"),
        ),
    )
    function, positional, arguments, given = scene.pick(*calls)
    if scene.often():
        return _planned(function, positional), arguments
    plan = _planned(function, positional)(**arguments)
    return _named(plan, *given), {name: arguments[name] for name in given}


def _planned(function: Function, positional: tuple[str, ...]) -> Function:
    call = _named(function, *positional)
    call.__name__ = function.__name__
    return call


def _crop_plan(scene: Scene) -> tuple[Function, Arguments]:
    picture = sg.asarray(scene.array((2, 4, 5, 3), "uint8"), dims="NHWC")
    out = scene.out((2, 3, 2, 2), "float32", "NCHW")
    if scene.often():
        options = {"sources": picture, "size": (2, 2), "dims": "NCHW", "dtype": "float32", "fill": 3, "layout": "NCHW"}
        return _named(sg.plan_gather_crops, "sources", "size"), options
    plan = sg.plan_gather_crops(picture, (2, 2), out=out)
    return _named(plan, "sources", "origins", "out"), {"sources": picture, "origins": [(0, 0), (1, 1)], "out": out}


def _methods(scene: Scene) -> tuple[Function, Arguments]:
    array = scene.array((2, 3, 4), scene.pick("float64", "int32"))
    tensor, picture = sg.asarray(array), sg.asarray(scene.array((2, 3, 4, 3), "uint8"), dims="NHWC")
    calls: tuple[tuple[Function, Arguments], ...] = (
        (picture.permute, {"order": scene.pick("NHWC", (0, 2, 1, 3))}),
        (tensor.broadcast_to, {"sizes": (5, 2, 3, 4)}),
        (tensor[:1].squeeze, {"axis": 0}),
        (tensor.unsqueeze, {"axis": 1}),
        (tensor.ensure_rank, {"rank": 4}),
        (tensor.reinterpret, {"dtype": "uint8", "sizes": (4, 4), "strides": (4, 1)}),
        (tensor.as_strided, {"sizes": (2, 2), "strides": (3, 1), "offset": 1}),
        (_named(tensor.__getitem__, "index"), {"index": scene.pick(0, (1, slice(None, None, 2)), (Ellipsis, None))}),
        (_named(tensor.to_device, "device"), {"device": "cpu"}),
        (tensor.relayout, {"dtype": "float32", "scale": 2.0, "alignment": 64, "row_pitch_bytes": None}),
        (_exported(tensor), {"stream": None, "max_version": (1, 0), "dl_device": (1, 0), "copy": None}),
    )  # fmt: skip
    return scene.pick(*calls)


def _exported(tensor: sg.StridedTensor) -> Function:
    def __dlpack__(**request: Any) -> str:  # noqa: N807 - the name that errors have
        return type(tensor.__dlpack__(**request)).__name__

    return __dlpack__


def _setitem(scene: Scene) -> tuple[Function, Arguments]:
    target = scene.out((2, 3, 4), scene.pick("float32", "uint8"))

    def __setitem__(index: Any, value: Any) -> None:  # noqa: N807
        target[index] = value

    index = scene.pick(0, Ellipsis, (1, slice(None, None, 2)))
    return __setitem__, {"index": index, "value": scene.pick(3, scene.array((4,), "uint8"))}


def _image_processor(scene: Scene) -> tuple[Function, Arguments]:
    """An image processor of transformers, of which each kind has options of its own, made and called."""
    side = {"height": 8, "width": 6}
    name, options = scene.pick(
        ("CLIPImageProcessor", {"size": {"shortest_edge": 6}, "crop_size": 5, "do_center_crop": True}),
        ("PoolFormerImageProcessor", {"size": side, "crop_pct": 0.9, "crop_size": 4, "resample": 3}),
        ("ConvNextImageProcessor", {"size": {"shortest_edge": 6}, "crop_pct": 0.8}),
        ("EfficientNetImageProcessor", {"size": side, "include_top": True, "rescale_offset": False}),
        ("DPTImageProcessor", {"size": side, "ensure_multiple_of": 2, "keep_aspect_ratio": True, "size_divisor": 2}),
        ("Mask2FormerImageProcessor", {"size": {"shortest_edge": 6, "longest_edge": 9}, "size_divisor": 4}),
        ("SamImageProcessor", {"size": {"longest_edge": 6}, "pad_size": side, "do_pad": True}),
        ("PixtralImageProcessor", {"size": {"longest_edge": 6}, "patch_size": {"height": 2, "width": 3}}),
        ("Qwen2VLImageProcessor", {"min_pixels": 16, "max_pixels": 64, "patch_size": 2, "merge_size": 2}),
        ("Glm4vImageProcessor", {"size": {"shortest_edge": 16, "longest_edge": 64}, "patch_size": 2}),
        ("Siglip2ImageProcessor", {"patch_size": 2, "max_num_patches": 9}),
        ("LlavaNextImageProcessor", {"size": side, "crop_size": 4, "image_grid_pinpoints": [[8, 4], [4, 8]]}),
        ("GotOcr2ImageProcessor", {"size": side, "crop_to_patches": True, "min_patches": 1, "max_patches": 2}),
        ("Idefics2ImageProcessor", {"size": {"shortest_edge": 4, "longest_edge": 9}, "do_image_splitting": True}),
        (
            "Gemma3ImageProcessor",
            {"size": side, "do_pan_and_scan": True, "pan_and_scan_min_crop_size": 2, "pan_and_scan_max_num_crops": 2}
            | {"pan_and_scan_min_ratio_to_activate": 1.2},
        ),
    )
    figures: Arguments = {
        "do_resize": True, "do_rescale": True, "do_normalize": True, "do_convert_rgb": True, "rescale_factor": 1 / 255,
        "image_mean": [0.5, 0.4, 0.3], "image_std": 0.25, "input_data_format": "channels_last",
    }  # fmt: skip
    if name == "EfficientNetImageProcessor":
        figures["image_std"] = [0.2, 0.3, 0.4]
    images = [scene.array((6, 8, 3), "uint8"), scene.array((5, 9, 3), "uint8")]
    is_declared = scene.often()

    def processed(images: Any, return_tensors: Any, backend: Any, **stated: Any) -> Any:
        declared, further = (stated, {}) if is_declared else ({}, stated)
        processor = sg.image_processor({"image_processor_type": name, **declared}, backend=backend)
        return sorted(processor(images, return_tensors, **further))

    return processed, {"images": images, "return_tensors": None, "backend": "pil", **figures, **options}


OPERATIONS: Final[dict[str, Callable[[Scene], tuple[Function, Arguments]]]] = {
    "relayout": _relayout,
    "relayout into out": _relayout_out,
    "relayout with mean": _relayout_normalised,
    "relayout with matrix": _relayout_matrix,
    "resize": _resize,
    "resize into out": _resize_out,
    "letterbox": _letterbox,
    "letterbox_placements": _placements,
    "gather": _gather,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "gather_crops": _crops,
    "gather_crops of boxes": _boxes,
    "unpack_raw": _raw,
    "asarray": _asarray,
    "from_dlpack": _from_dlpack,
    "frombuffer": _frombuffer,
    "StridedTensor": _tensor,
    "Layout": _layout,
    "methods of a layout": _layout_methods,
    "BufferTensorDesc": _descriptor,
    "functions of descriptors": _descriptor_functions,
    "creation": _creation,
    "patterns": _patterns,
    "Preprocess": _step,
    "a step's call": _step_call,
    "a step's call into out": _step_out,
    "placements": _step_placements,
    "prefetch": _prefetch,
    "image_processor": _image_processor,
    "plans": _plans,
    "plans of crops": _crop_plan,
    "methods of a tensor": _methods,
    "setitem": _setitem,
    **FRAME_OPERATIONS,
}


def _named(function: Function, *names: str) -> Function:
    """A function with the names of its first arguments, which it takes by position."""

    def call(**arguments: Any) -> Any:
        positional = [arguments.pop(name) for name in names]
        return function(*positional, **arguments)

    return call


# One call


@dataclass(frozen=True)
class Outcome:
    """What became of a call: a line of the record, and what is wrong with it, if anything is."""

    number: int
    operation: str
    spoiled: tuple[str, ...]
    result: str
    wrong: str | None

    @property
    def line(self) -> str:
        """The record's line."""
        parts = {"number": self.number, "call": self.operation, "spoiled": list(self.spoiled), "result": self.result}
        return json.dumps(parts)


@dataclass(frozen=True)
class Drawn:
    """A call with its spoiled arguments."""

    operation: str
    function: Function
    arguments: Arguments
    spoiled: tuple[Spoiled, ...]
    guards: list[Guarded]

    @property
    def titles(self) -> tuple[str, ...]:
        """What was spoiled, and how."""
        return tuple(f"{each.name}={each.title}" for each in self.spoiled)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What a protocol's consumers expect besides."""
        return (BufferError, OverflowError, MemoryError) if self.function.__name__ == "__dlpack__" else ()


def drawn(number: int, seed: int = 0) -> Drawn:
    """The call of a number."""
    rng = np.random.default_rng((seed, number))
    scene = Scene(rng)
    operation = scene.pick(*OPERATIONS)
    function, arguments = OPERATIONS[operation](scene)
    names = sorted(arguments)
    chosen = rng.permutation(len(names))[: scene.pick(1, 1, 2)]
    changes = []
    for place in sorted(int(place) for place in chosen):
        change = spoiled(scene, names[place], arguments[names[place]])
        changes.append(change)
        arguments[names[place]] = change.value
    return Drawn(operation, function, arguments, tuple(changes), scene.guards)


def judged(number: int, call: Drawn) -> Outcome:
    """Carry out the call of a number."""
    wrong = None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = call.function(**call.arguments)
        except Exception as error:  # noqa: BLE001 - which one it is, is the question
            raised, text = True, f"{type(error).__name__}: {_steady(str(error))}"
            wrong = _wrong_error(error, call)
        else:
            raised, text = False, _said_of(result)
            del result
    for guard in call.guards:
        byte = guard.changed(raised=raised)
        if byte is not None:
            wrong = f"byte {byte} of {guard.memory.size} changed, and the call {'raised' if raised else 'returned'}"
    loud = [f"{each.category.__name__}: {each.message}" for each in warned if _is_internal(each)]
    if loud and wrong is None:
        wrong = f"a warning of NumPy: {loud[0]}"
    return Outcome(number, call.operation, call.titles, text, wrong)


def _is_internal(warning: warnings.WarningMessage) -> bool:
    return issubclass(warning.category, (RuntimeWarning, DeprecationWarning, np.exceptions.ComplexWarning))


def _wrong_error(error: Exception, call: Drawn) -> str | None:
    """What is wrong with an error; it may be the spoiled object's own."""
    text = str(error)
    if isinstance(error, SABOTAGE) or (isinstance(error, MemoryError) and text.startswith("Unable to allocate")):
        return None
    if not isinstance(error, (sg.StridedGpuError, TypeError, ValueError, IndexError, *call.errors)):
        return f"{type(error).__name__}: {text[:200]} at {_where(error)}"
    if re.search(_OF_THE_OBJECT, text) or call.function.__name__ == "__dlpack__":
        return None
    if not _is_own(error):
        return f"another's words: {type(error).__name__}: {text[:200]} at {_where(error)}"
    names = (*call.arguments, *(type(each.value).__name__ for each in call.spoiled), *_SUBJECTS)
    if not any(re.search(rf"(?<![A-Za-z]){re.escape(name)}", text, re.IGNORECASE) for name in names):
        return f"no argument is named: {text[:300]}"
    return None


_OF_THE_OBJECT: Final = r"released memoryview|__\w+__(\(\))? should return|returned non-"
"""What Python says where an object breaks a rule of its own."""

_SUBJECTS: Final = (
    "axis", "axes", "bytes of memory left", "channels", "DataType", "device", "DirectML has no element type",
    "__dlpack__", "dtype", "dims", "elements of", "is not array-like", "is text", "key", "layout", "list", "order",
    "image", "no input", "no output", "out", "plan is for", "row", "scale", "sizes", "strides", "tensor", "video",
)  # fmt: skip
"""What an error may name in the place of an argument."""


def _is_own(error: Exception) -> bool:
    """Whether a `raise` of the library's, or Python's check of its signatures, raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    package = str(Path(sg.__file__).parent)
    last = frames[-1]
    if last.filename.startswith(package):
        return (last.line or "").startswith("raise ")
    return False


def _where(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "stridedgpu/" in frame.filename] or frames
    return f"{own[-1].filename.rpartition('stridedgpu/')[2]}:{own[-1].lineno}"


def _steady(text: str) -> str:
    """A text without addresses, which differ from run to run."""
    text = re.sub(r"0x[0-9a-f]+", "0x…", text)
    return re.sub(r"\d{14,15}", lambda found: "…" if 2**45 < int(found[0]) < 2**47 else found[0], text)


def _said_of(result: Any) -> str:
    try:
        return _digest(result)
    except SABOTAGE:
        return "a result with the spoiled object"


def _digest(result: Any, depth: int = 0) -> str:
    """What a result is, and a digest of its bytes."""
    match result:
        case sg.StridedTensor():
            return _digest_of_tensor(result)
        case sg.Frame():
            planes = ", ".join(_digest(plane) for plane in result.planes)
            return f"{result.format} {result.sizes} {result.matrix}: {planes}"
        case np.ndarray() if result.dtype.hasobject:
            return f"array {result.shape} {_digest(result.tolist(), depth + 1)}"
        case np.ndarray():
            content = _hash(np.ascontiguousarray(result).tobytes()) if result.nbytes < _MOST_READ else "large"
            return f"array {result.shape} {result.dtype} {content}"
        case dict():
            return f"{{{', '.join(f'{key}: {_digest(value, depth + 1)}' for key, value in result.items())}}}"
        case list() | tuple() if depth < _DEEPEST:
            return f"[{', '.join(_digest(part, depth + 1) for part in result)}]"
        case sg.Layout() | sg.BufferTensorDesc() | sg.Binding() | sg.DataType() | int() | float() | str() | None:
            return _steady(repr(result))
    return type(result).__name__


def _digest_of_tensor(tensor: sg.StridedTensor) -> str:
    try:
        described = f"{tensor.sizes} {tensor.element} {tensor.dims} on {tensor.device}"
    except sg.BindingError:
        return "a tensor that was released"
    if tensor.device != "cpu":
        return described
    return f"{described} {_bytes_of(tensor)}"


def _bytes_of(tensor: sg.StridedTensor) -> str:
    if not tensor.nbytes or tensor.nbytes > _MOST_READ:
        return f"{tensor.nbytes} bytes"
    return _hash(np.ascontiguousarray(tensor.numpy()).tobytes())


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


# Blocks of calls


def run_block(numbers: range, seed: int) -> Iterator[Outcome]:
    """The outcomes of some calls, in a child process that may end or hang; another one goes on behind such a call."""
    while numbers:
        last = numbers.start
        for outcome in _forked(numbers, seed):
            last = outcome.number
            yield outcome
        numbers = range(last + 1, numbers.stop)


def _forked(numbers: range, seed: int) -> Iterator[Outcome]:
    begun = mmap.mmap(-1, _NOTE)
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.close(reader)
        _child(numbers, seed, begun, writer)
    os.close(writer)
    latest, buffered, said, hung = time.monotonic(), b"", -1, False
    while True:
        ready, _, _ = select.select([reader], [], [], 1.0)
        if ready:
            chunk = os.read(reader, 1 << 16)
            if not chunk:
                break
            latest = time.monotonic()
            *lines, buffered = (buffered + chunk).split(b"\n")
            for line in lines:
                outcome = Outcome(*json.loads(line))
                said = outcome.number
                yield outcome
        elif time.monotonic() - latest > _SECONDS:
            hung = True
            os.kill(child, signal.SIGKILL)
            latest = time.monotonic()
    os.close(reader)
    _, status = os.waitpid(child, 0)
    number, operation, titles = json.loads(begun[:].rstrip(b"\0"))
    if status and number > said:
        ended = f"no end in {_SECONDS:.0f} s" if hung else _ended(status)
        yield Outcome(number, operation, tuple(titles), ended, ended)


def _ended(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"the process ended by {signal.Signals(-code).name}" if code < 0 else f"the process exited with {code}"


def _note(begun: mmap.mmap, number: int, operation: str, titles: tuple[str, ...]) -> None:
    """Leave the call that begins to the parent, in memory that outlives this process."""
    begun[:] = json.dumps((number, operation, titles)).encode()[:_NOTE].ljust(_NOTE, b"\0")


def _child(numbers: range, seed: int, begun: mmap.mmap, writer: int) -> None:
    """Carry out calls and write their outcomes; does not return."""
    code = 1
    try:
        warnings.simplefilter("ignore")
        used = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, used + _MEMORY))
        with picking_by(EXECUTIONS[numbers.start // BLOCK % len(EXECUTIONS)]):
            for number in numbers:
                _note(begun, number, "not drawn yet", ())
                call = drawn(number, seed)
                _note(begun, number, call.operation, call.titles)
                outcome = judged(number, call)
                del call
                parts = (outcome.number, outcome.operation, outcome.spoiled, outcome.result, outcome.wrong)
                os.write(writer, json.dumps(parts).encode() + b"\n")
        code = 0
    except BaseException:  # noqa: BLE001 - a child has nowhere to raise it
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the calls that the arguments name; 1 if any is wrong."""
    parser = argparse.ArgumentParser("python -m harness.malformed_calls", description="Malformed calls.")
    parser.add_argument("--first", type=int, default=0, help="number of the first call")
    parser.add_argument("--calls", type=int, default=10_000, help="how many calls")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other calls")
    parser.add_argument("--record", type=Path, help="a file for a line a call, to compare versions")
    chosen = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    wrong, end, began = 0, chosen.first + chosen.calls, time.monotonic()
    record = None if chosen.record is None else chosen.record.open("w", encoding="utf-8")
    first = chosen.first
    while first < end:
        numbers = range(first, min((first // BLOCK + 1) * BLOCK, end))
        for outcome in run_block(numbers, chosen.seed):
            if record is not None:
                print(outcome.line, file=record, flush=True)
            counts[outcome.result.partition(":")[0] if "Error: " in outcome.result else "carried out"] += 1
            if outcome.wrong is not None:
                wrong += 1
                spoiled_ones = ", ".join(outcome.spoiled)
                print(f"call {outcome.number}, {outcome.operation}, {spoiled_ones}: {outcome.wrong}", flush=True)
        first = numbers.stop
        if first // BLOCK % 40 == 0:
            print(f"up to {first}: {wrong} wrong, {time.monotonic() - began:.0f} s", flush=True)
    print("; ".join(f"{count} {name}" for name, count in counts.most_common()))
    print(f"{chosen.calls} malformed calls, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
