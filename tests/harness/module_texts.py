"""The modules of compiled loops, for any stated processor: what each operation would compile there, by its family.

Nothing of it runs here. Loops are addresses of a function that does nothing, so that an operation asks for all that it
needs, and NumPy is not asked to do it instead; what the operation returns is no result.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from harness.compiled_loops import forget_loops, policy_with
from harness.cpu_paths import picking_by
from harness.emulator.exact_conversion import FLOATS, INTEGERS
from harness.frame_cases import DEEP, YUV, surface
from harness.gather_walks import RUNS, VARIANTS, elements_of_rows, kernel_of, planned_as, side_of
from harness.plans import chosen_relayout

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.devices.cpu.compiled import jit
from stridedgpu.devices.cpu.compiled.relayout import relayout_kernel
from stridedgpu.devices.cpu.policy import Policy, policy, using
from stridedgpu.devices.cpu.target import Target
from stridedgpu.problems.gather_problem import gather_problem
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.interpolation import INTERPOLATIONS
from stridedgpu.values.raw_formats import RAW_FORMATS
from stridedgpu.values.tensor_spec import TensorSpec

__all__ = ["modules_for"]

Texts = Iterator[str]


class _Family(NamedTuple):
    """Cases of an operation, and the modules that one of them needs under the current policy."""

    cases: Sequence[Any]
    texts: Callable[..., Texts]


def modules_for(target: Target, stride: int = 1) -> Iterator[tuple[str, str]]:
    """The families and texts of modules that a processor gets, each once: of each family every `stride`-th case's."""
    seen: set[str] = set()
    with using(Policy.of(target)):
        for name, family in _FAMILIES.items():
            for case in family.cases[::stride]:
                for text in family.texts(*case):
                    if text not in seen:
                        seen.add(text)
                        yield name, text


# What is planned alone

_SIZES = (1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 64, 100, 130)
_ELEMENTS = ("uint8", "uint16", "float16", "float32", "float64", "complex128")
_NUMBERS = (*INTEGERS, *FLOATS, "bool")
_INDICES = ("int32", "int64", "uint32", "uint64")
_LIMITS: tuple[dict[str, Any], ...] = (
    {},
    {"streamed_bytes": 0, "long_row_bytes": 0},
    {"cached_bytes": 0, "short_side": 0, "long_channels": 99},
    {"short_side": 0},
)
"""Thresholds by which each kernel of a relayout has its turn."""


def _moved(source: Layout, target: Layout, types: tuple[str, str], **options: Any) -> Texts:
    axis, filler = options.pop("axis", None), options.pop("filler", 0)
    made = conversion(*map(element_type, types), **options)
    sides = [
        TensorSpec.of(layout, element, base_alignment=element.itemsize)
        for layout, element in ((source, made.source), (target, made.target))
    ]
    kernel = relayout_kernel(chosen_relayout(*sides, made, axis, filler=filler).problem)
    for call in kernel.calls if kernel else ():
        yield call.kernel.text("kernel")


def _layout(rng: np.random.Generator, sizes: tuple[int, ...], *, turns: bool) -> Layout:
    """Axes in any order, some with gaps behind them, and some of a source backward."""
    strides, step, before = [0] * len(sizes), 1, 0
    for axis in rng.permutation(len(sizes)) if rng.random() < 0.7 else range(len(sizes))[::-1]:
        step += int(rng.choice((0, 0, 0, 1, 3, 5)))
        strides[axis] = -step if turns and rng.random() < 0.2 else step
        before -= min(0, strides[axis] * (sizes[axis] - 1))
        step *= sizes[axis]
    return Layout(sizes, strides, before)


def _relayouts(number: int, limits: dict[str, Any]) -> Texts:
    """Drawn layouts: rows, blocks, channels, transposes and strips."""
    rng = np.random.default_rng((number, 11))
    sizes = tuple(int(rng.choice(_SIZES)) for _ in range(rng.integers(2, 5)))
    element = str(rng.choice(_ELEMENTS))
    with policy_with(relayout=limits):
        source, target = (_layout(rng, sizes, turns=turns) for turns in (True, False))
        yield from _moved(source, target, (element, element))


def _pixels(limits: dict[str, Any], types: tuple[str, str], channels: int) -> Texts:
    """Planes to pixels, back, and into wider pixels."""
    planes, pixels, packed = Layout((channels, 40, 50)), Layout((40, 50, channels)), Layout((40, 50, channels))
    wider = Layout(packed.sizes, (50 * channels + 50, channels + 1, 1))
    scale = [0.5 + channel for channel in range(channels)]
    with policy_with(relayout=limits):
        yield from _moved(planes, pixels.permuted((2, 0, 1)), types)
        yield from _moved(pixels.permuted((2, 0, 1)), planes, types, axis=0, source_channels=channels, scale=scale)
        yield from _moved(packed, wider, types, axis=2, source_channels=channels, filler=1)


def _scaled_transposes(sizes: tuple[int, int], types: tuple[str, str], axis: int) -> Texts:
    """A scale for each line of either side."""
    source, options = Layout(sizes).permuted((1, 0)), {"axis": axis, "source_channels": sizes[1 - axis]}
    scale = [0.5 + channel for channel in range(sizes[1 - axis])]
    yield from _moved(source, Layout((sizes[1], sizes[0])), types, scale=scale, **options)


def _casts(source: str, target: str, options: dict[str, Any]) -> Texts:
    yield from _moved(Layout((300,)), Layout((300,)), (source, target), **options)


def _gathers(variant: str, mode: Any, index: str, nbytes: int) -> Texts:
    """Runs of rows."""
    table, dense = side_of(Layout((30, nbytes)), "uint8"), side_of(Layout((520, nbytes)), "uint8")
    with planned_as(variant):
        yield kernel_of(gather_problem(table, side_of(Layout((520,)), index), dense, 0), mode).text("kernel")


def _row_gathers(variant: str, mode: Any, element: str, index: str, size: int) -> Texts:
    """Elements of each row."""
    with planned_as(variant):
        yield kernel_of(elements_of_rows(element, index, 60, size, 70), mode).text("kernel")


def _scatters(element: str, index: str, width: int) -> Texts:
    yield kernel_of(elements_of_rows(element, index, 40, 100, width, scatters=True)).text("kernel")


# What operations ask for


def _nothing(*_: object) -> int:
    return 0


_NOTHING = ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_void_p] * 6)(_nothing)


@contextmanager
def _recorded() -> Iterator[list[str]]:
    """The texts that operations compile in the block, whose loops do nothing."""
    texts: list[str] = []
    address = ctypes.cast(_NOTHING, ctypes.c_void_p).value or 0

    def machine_functions(text: str, *endings: str) -> tuple[int, ...]:
        texts.append(text)
        return (address,) * len(endings)

    compiling = using(policy()._replace(native=False))
    with pytest.MonkeyPatch.context() as patch, compiling, policy_with(promotion={"frame_bytes": 0}):
        patch.setattr(jit, "machine_functions", machine_functions)
        forget_loops()
        try:
            with picking_by("compiled, 1 thread"):
                yield texts
        finally:
            forget_loops()


def _asked(operation: Callable[..., object], *arguments: Any, **options: Any) -> Texts:
    """The modules that a call compiles."""
    with _recorded() as texts:
        operation(*arguments, **options)
    yield from texts


def _picture(element: str = "uint8", channels: int = 3, size: tuple[int, int] = (61, 90)) -> np.ndarray[Any, Any]:
    return np.zeros((*size, channels), element)


def _index_checks(index: str) -> Texts:
    table = np.zeros((300, 16), np.uint8)
    yield from _asked(sg.gather, table, np.zeros(1000, index))
    yield from _asked(sg.gather_elements, table, np.zeros((300, 400), index), 1)
    yield from _asked(sg.gather_nd, table, np.zeros((70, 2), index))
    for count in (9, 200):
        rows = np.arange(count, dtype=index)[:, None]
        yield from _asked(sg.scatter_nd, table, rows, table[:count], unique=True)
        yield from _asked(sg.scatter_nd, table, np.hstack([rows, rows % 16]), table[:count, 0], unique=True)
    yield from _asked(
        sg.scatter_elements, table, np.arange(9, dtype=index)[None].repeat(300, 0), table[:, :9], 1, unique=True
    )


def _small_tables(element: str, index: str, size: int, count: int) -> Texts:
    """Elements of each row by the same indices."""
    for rows in (1, 300):
        yield from _asked(sg.gather, np.zeros((rows, size), element), np.zeros(count, index), axis=1)


def _crops(layout: str, dtype: str, origin: tuple[int, int]) -> Texts:
    batch, options = np.zeros((2, 70, 90, 3), np.uint8), {"layout": layout, "dtype": dtype, "flip": [True, False]}
    yield from _asked(sg.gather_crops, batch, [origin] * 2, (40, 50), dims="NHWC", **options)


def _windows(layout: str, channels: int, origins: list[tuple[int, int]]) -> Texts:
    """Bytes that stay unchanged, in windows inside their images or over their edges."""
    batch = np.zeros((len(origins), 70, 90, channels), np.uint8)
    for size in ((40, 50), (100, 120), (9, 12)):
        yield from _asked(sg.gather_crops, batch, origins, size, dims="NHWC", layout=layout)


def _resizes(rule: str, element: str, channels: int, size: tuple[int, int], layout: str) -> Texts:
    types = INTERPOLATIONS[rule].arithmetic_of
    if types and element not in types:
        return
    options = {"dtype": "float16", "scale": 0.5} if size == _HALF else {}
    picture = _picture(element, channels)
    yield from _asked(sg.resize, picture, size, dims="HWC", layout=layout, interpolation=rule, **options)
    if rule.startswith("pillow"):
        yield from _asked(sg.resize, picture, size, dims="HWC", interpolation=rule, passes="horizontal")
        rows_first = {"interpolation": rule, "passes": "pillow-13"}
        yield from _asked(sg.resize, picture, (size[0] // 4, size[1]), dims="HWC", **rows_first)


def _halved(rule: str, channels: int, options: dict[str, Any]) -> Texts:
    """Blocks of 2 x 2 pixels, colours weighted by alpha, and padded pixels."""
    picture = _picture("uint8", channels, (60, 90))
    weighs = {"premultiply": True} if rule.startswith("pillow") and channels in (2, 4) else {}
    yield from _asked(sg.resize, picture, _HALF, dims="HWC", interpolation=rule, **weighs, **options)
    yield from _asked(sg.resize, picture, (90, 45), dims="HWC", interpolation=rule, **weighs, **options)
    padded = np.zeros((60, 90, channels + 1), np.uint8)[:, :, :channels]
    yield from _asked(sg.resize, padded, _HALF, dims="HWC", interpolation=rule, **options)
    mirrored = _picture("uint8", channels, (60, 90))[:, ::-1]
    yield from _asked(sg.resize, mirrored, _HALF, dims="HWC", interpolation=rule, **options)


_HALF = 30, 45
_SHAPES = ((61, 90), _HALF, (20, 20), (122, 200))
"""Sizes of resized pictures of 61 x 90 pixels: as it was, halved, shrunk and enlarged."""


def _frames(name: str, dtype: str, layout: str) -> Texts:
    yield from _asked(sg.relayout, surface(name, (64, 96), 1).frame(), dtype=dtype, layout=layout)


def _frame_windows(name: str, chroma: str, dtype: str, origin: tuple[int, int]) -> Texts:
    """Windows of odd widths, from even and odd columns, mirrored or not."""
    frame = surface(name, (64, 96), 1).frame(chroma=chroma)
    for layout in ("NCHW", "NHWC"):
        options = {"dtype": dtype, "layout": layout, "flip": [False, True]}
        yield from _asked(sg.gather_crops, [frame, frame], [origin] * 2, (31, 45), **options)


def _resized_frames(name: str, chroma: str, rule: str) -> Texts:
    frame = surface(name, (64, 96), 1).frame(chroma=chroma)
    for size in ((32, 48), (20, 30), (100, 120)):
        yield from _asked(sg.resize, frame, size, interpolation=rule, dtype="float16", scale=1 / 255)


def _encoded_frames(name: str) -> Texts:
    frame = sg.Frame.over(name, bytearray(64 * 96 * 2), (64, 96))
    for planes in (False, True):
        colours = np.zeros((3, 64, 96) if planes else (64, 96, 3), np.uint8)
        yield from _asked(sg.relayout, colours, dims="CHW" if planes else "HWC", out=frame)


def _matrices(sizes: tuple[int, int], source: str, target: str) -> Texts:
    rows, columns = sizes
    matrix, picture = [[0.25] * columns for _ in range(rows)], _picture(source, columns)
    yield from _asked(sg.relayout, picture, dims="HWC", matrix=matrix, dtype=target, layout="CHW")
    planes = np.zeros((columns, 61, 90), source)
    yield from _asked(sg.relayout, planes, dims="CHW", matrix=matrix, dtype=target, layout="HWC", scale=0.5, bias=1.0)


def _raw(name: str) -> Texts:
    yield from _asked(sg.unpack_raw, np.zeros(64 * 120, np.uint8), name, (64, 60))


_COMMON_RULES = ("opencv-linear", "opencv-area", "pillow-bilinear")


def _every(*choices: Sequence[Any]) -> list[tuple[Any, ...]]:
    """All combinations, in an order of which any stretch has some of each."""
    cases = list(product(*choices))
    return [cases[place] for place in np.random.default_rng(len(cases)).permutation(len(cases))]


_TYPES = (("uint8", "uint8"), ("uint8", "float32"), ("float32", "uint8"), ("float16", "float16"))

_FAMILIES: Mapping[str, _Family] = {
    "relayout": _Family([(number, _LIMITS[number % len(_LIMITS)]) for number in range(360)], _relayouts),
    "pixels": _Family(_every(_LIMITS, _TYPES, (1, 2, 3, 4, 5, 8, 12, 16)), _pixels),
    "scaled transpose": _Family(_every(((40, 64), (64, 40)), _TYPES, (0, 1)), _scaled_transposes),
    "cast": _Family(
        _every(_NUMBERS, _NUMBERS, ({}, {"scale": 1 / 255, "bias": -0.5}, {"scale": 3.0, "rounding": "truncate"})),
        _casts,
    ),
    "gather": _Family(_every(list(VARIANTS), ("raise", "clip", "wrap"), _INDICES, RUNS), _gathers),
    "gather from rows": _Family(
        _every(
            list(VARIANTS),
            ("raise", "clip"),
            ("uint8", "float16", "float32", "int64"),
            _INDICES,
            (7, 100, 1000),
        ),
        _row_gathers,
    ),
    "gather from small tables": _Family(
        _every(("uint8", "float16", "float32", "int64"), ("int32", "int64"), (7, 100, 200), (7, 100)), _small_tables
    ),
    "scatter": _Family(
        _every(("uint8", "float16", "float32", "int64"), ("int32", "int64"), (1, 7, 33, 500)), _scatters
    ),
    "index check": _Family(_every(_INDICES), _index_checks),
    "crops": _Family(
        _every(("NCHW", "NHWC"), ("uint8", "float32", "float16"), ((3, 4), (-3, 60))),
        _crops,
    ),
    "windows": _Family(_every(("NCHW", "NHWC"), (1, 3, 4), ([(3, 4), (20, 30)], [(-3, 60)] * 2)), _windows),
    "resize": _Family(
        _every(tuple(INTERPOLATIONS), ("uint8", "uint16", "float32"), (1, 3, 4), _SHAPES, ("CHW", "HWC")), _resizes
    ),
    "frame": _Family(
        _every((*YUV, *DEEP, "gray", "rgba", "bgrx"), ("uint8", "float32", "float16"), ("CHW", "HWC")), _frames
    ),
    "halved": _Family(_every(_COMMON_RULES, (1, 2, 3, 4), ({}, {"dtype": "float16", "layout": "CHW"})), _halved),
    "frame window": _Family(
        _every(("nv12", "i420", "yuyv", "p010"), ("repeated", "linear"), ("uint8", "float32"), ((3, 4), (6, 7))),
        _frame_windows,
    ),
    "frame resized": _Family(_every(("nv12", "yuyv", "p010"), ("repeated", "linear"), _COMMON_RULES), _resized_frames),
    "to a frame": _Family(_every(("nv12", "i420", "yuyv")), _encoded_frames),
    "channel matrix": _Family(
        _every(
            ((1, 3), (3, 3), (4, 4), (3, 1)),
            ("uint8", "float32", "int32"),
            ("uint8", "float32", "float64"),
        ),
        _matrices,
    ),
    "raw": _Family(_every(list(RAW_FORMATS)), _raw),
}
