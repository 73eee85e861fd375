"""What every argument says that cannot be: the texts of errors, as `error_texts.txt` lists them.

Each argument of a call that works is replaced by values that are wrong for most arguments, or lie at a bound of theirs.
What is accepted is listed, too, by what comes of it. Where a text is changed on purpose, `PYTHONPATH=tests python -m
interface.test_error_texts` writes the listing anew; its difference shows what users will read.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import stridedgpu as sg

LISTING = Path(__file__).with_name("error_texts.txt")

MOST = 2**31

VALUES = (
    None,
    -1,
    0,
    1,
    2.5,
    True,
    "2",
    "",
    (),
    (2,),
    (2, 1),
    (0.5, 3),
    (1, 2, 3),
    MOST - 1,
    MOST,
    2**63,
    float("nan"),
)

IMAGES = np.arange(2 * 4 * 6 * 3, dtype=np.uint8).reshape(2, 4, 6, 3)
TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)
ONE_ROW = np.zeros((1, 3), np.int64)
FLAT = bytes(72)
KEPT = np.arange(72, dtype=np.uint8)
ADDRESS = KEPT.ctypes.data


def tensor(sizes: tuple[int, ...] = (2, 4, 6, 3)) -> sg.StridedTensor:
    return sg.empty(sizes, "uint8", dims="NCHW"[: len(sizes)], device="cpu")


def is_large(value: Any) -> bool:
    return any(isinstance(one, int) and one >= MOST - 1 for one in (value if isinstance(value, tuple) else (value,)))


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[str, ...]]] = {
    # what is called, its first arguments, and the arguments that are replaced, each by name
    "resize": (
        sg.resize,
        (IMAGES,),
        ("size", "dims", "interpolation", "box", "passes", "premultiply", "layout", "dtype"),
    ),
    "letterbox": (sg.letterbox, (IMAGES,), ("size", "value", "fill", "scale_up", "interpolation", "row_pitch_bytes")),
    "letterbox_placements": (sg.letterbox_placements, (), ("sizes", "size", "scale_up")),
    "gather_crops": (sg.gather_crops, (IMAGES,), ("origins", "size", "boxes", "flip", "fill", "passes", "mean", "std")),
    "relayout": (sg.relayout, (IMAGES,), ("dims", "layout", "dtype", "scale", "bias", "channels", "matrix")),
    "gather": (sg.gather, (TABLE,), ("indices", "axis", "mode", "dims", "out")),
    "gather_nd": (sg.gather_nd, (TABLE,), ("indices", "batch_dims", "mode")),
    "gather_elements": (sg.gather_elements, (TABLE,), ("indices", "axis")),
    "scatter_elements": (sg.scatter_elements, (TABLE, ONE_ROW), ("updates", "axis", "unique")),
    "zeros": (sg.zeros, (), ("sizes", "dtype", "layout", "dims", "row_pitch_bytes", "alignment", "device")),
    "full": (sg.full, ((2, 3),), ("value", "dtype")),
    "frombuffer": (sg.frombuffer, (FLAT,), ("sizes", "dtype", "dims", "row_pitch_bytes", "offset_bytes")),
    "unpack_raw": (sg.unpack_raw, (FLAT,), ("format", "sizes", "row_pitch_bytes", "alignment")),
    "asarray": (sg.asarray, (IMAGES,), ("dims", "dtype", "device", "copy")),
    "Frame.over": (
        sg.Frame.over,
        (),
        ("format", "memory", "sizes", "row_pitch_bytes", "plane_offsets_bytes", "matrix"),
    ),
    "Layout": (sg.Layout, (), ("sizes", "strides", "offset")),
    "permute": (tensor().permute, (), ("order",)),
    "squeeze": (tensor((1, 4, 6)).squeeze, (), ("axis",)),
    "unsqueeze": (tensor().unsqueeze, (), ("axis",)),
    "broadcast_to": (tensor((1, 4)).broadcast_to, (), ("sizes",)),
    "as_strided": (tensor().as_strided, (), ("sizes", "strides", "offset")),
    "reinterpret": (tensor().reinterpret, (), ("dtype", "sizes", "strides")),
    "ensure_rank": (tensor().ensure_rank, (), ("rank",)),
    "to_device": (tensor().to_device, (), ("device",)),
    "scatter_nd": (sg.scatter_nd, (TABLE,), ("indices", "updates", "unique")),
    "from_pointer": (
        partial(sg.from_pointer, ADDRESS, owner=KEPT),
        (),
        ("sizes", "dtype", "layout", "dims", "row_pitch_bytes", "device", "readonly"),
    ),
    "calculate_strides": (sg.calculate_strides, (), ("layout", "sizes", "broadcast")),
    "packed_strides": (sg.packed_strides, (), ("sizes", "order")),
    "calc_buffer_tensor_size": (sg.calc_buffer_tensor_size, (), ("data_type", "sizes", "strides")),
    "plan_relayout": (sg.plan_relayout, (tensor(), tensor()), ("device", "scale", "bias", "channels", "rounding")),
    "plan_resize": (sg.plan_resize, (tensor(), tensor((2, 4, 5, 5))), ("interpolation", "box", "passes", "scale")),
    "plan_letterbox": (sg.plan_letterbox, (tensor(), tensor((2, 4, 5, 5))), ("value", "fill", "scale_up", "bias")),
    "plan_gather_crops": (sg.plan_gather_crops, (tensor(),), ("size", "dims", "fill", "layout", "dtype", "out")),
    "plan_gather": (sg.plan_gather, (TABLE,), ("indices", "axis", "mode", "device")),
    "plan_gather_nd": (sg.plan_gather_nd, (TABLE,), ("indices", "batch_dims", "mode")),
    "plan_scatter_elements": (sg.plan_scatter_elements, (TABLE, ONE_ROW), ("updates", "axis", "unique")),
    "synchronize": (sg.synchronize, (), ("device",)),
    "load": (sg.load, ([], sg.Preprocess(crop=2)), ("batch", "threads", "ahead", "decoder", "progress", "device")),
    "prefetch": (sg.prefetch, ([],), ("device", "depth")),
}

WORKING: dict[str, Any] = {
    "size": (2, 3), "sizes": (2, 3), "dtype": "uint8", "indices": np.zeros((1, 3), np.int64), "boxes": None,
    "updates": np.ones((1, 3), np.float32), "layout": "NCHW", "data_type": 1,
    "strides": (3, 1), "memory": FLAT, "value": 1,
}  # fmt: skip
"""What required arguments are where another is replaced."""

OF_CALLS: dict[str, dict[str, Any]] = {
    "letterbox": {"value": 114, "dtype": None, "dims": "NHWC"},
    "letterbox_placements": {"sizes": [(4, 6)]},
    "gather_crops": {"origins": ((0, 0), (1, 1)), "size": (2, 3), "dims": "NHWC"},
    "unpack_raw": {"format": "mipi-raw10", "sizes": (2, 8)},
    "Frame.over": {"format": "nv12", "sizes": (4, 6)},
    "resize": {"dims": "NHWC"},
    "from_pointer": {"sizes": (2, 3), "dtype": "uint8"},
    "calculate_strides": {"layout": "NHWC", "sizes": (2, 3, 4, 5)},
    "scatter_nd": {"indices": ((0,), (2,)), "updates": np.ones((2, 3), np.float32)},
    "plan_gather_nd": {"indices": ((0,), (2,))},
}

OPTIONS = tuple(inspect.signature(sg.Preprocess).parameters)

ALLOCATED = ("size", "sizes", "row_pitch_bytes", "alignment", "plane_offsets_bytes")
"""Arguments by which memory is allocated: they have no large values here."""

RESIZED = ("interpolation", "passes", "fill", "pad")


def required(name: str, call: Callable[..., Any], first: int) -> dict[str, Any]:
    parameters = [*inspect.signature(call).parameters.values()][first:]
    needed = {one.name: WORKING[one.name] for one in parameters if one.default is one.empty and one.name in WORKING}
    return {**needed, **OF_CALLS.get(name, {})}


def outcome(call: Callable[..., Any], *first: Any, **named: Any) -> str:
    """What comes of a call: an error's words, or what a result is. Python's own errors have words of each version."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call(*first, **named)
    except (sg.StridedGpuError, IndexError) as error:
        return f"{type(error).__name__}: {error}"
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        return type(error).__name__
    if isinstance(result, sg.StridedTensor):
        return f"{result.dtype} {result.sizes} {result.strides}"
    return repr(result) if isinstance(result, (int, tuple)) else type(result).__name__


def declared(**named: Any) -> str:
    """What a declaration makes of its arguments."""
    told = outcome(sg.Preprocess, **named)
    return told if told != "Preprocess" else repr(sg.Preprocess(**named))


def listed() -> Iterator[str]:
    """A line for each argument, and below it one for each outcome, with the values that have it."""
    for name, (call, first, replaced) in CALLS.items():
        needed = required(name, call, len(first))
        for argument in replaced:
            yield f"{name}({argument}=)"
            yield from grouped(partial(outcome, call, *first), needed, argument)
    for option in OPTIONS:
        needed = {"resize": (4, 4)} if option in RESIZED else {"seed": 1} if option != "seed" else {}
        needed |= {"pad": 1} if option == "fill" else {}
        needed |= {"crop": (2, 2)} if option not in ("crop", "letterbox", "interpolation") else {}
        yield f"Preprocess({option}=)"
        yield from grouped(declared, needed, option)


def grouped(told: Callable[..., str], needed: dict[str, Any], argument: str) -> Iterator[str]:
    """Outcomes of values, those together that differ only by the value itself."""
    by_text: dict[str, list[str]] = {}
    for value in VALUES:
        if told is declared or argument not in ALLOCATED or not is_large(value):
            text = told(**{**needed, argument: value}).replace(f"{argument}={value!r}", f"{argument}={{}}")
            by_text.setdefault(text, []).append(repr(value))
    for text, which in by_text.items():
        yield f"  {', '.join(which)}: {text}"


def test_arguments_that_cannot_be_are_refused_in_the_words_of_the_listing():
    assert [*listed()] == LISTING.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    LISTING.write_text("\n".join([*listed(), ""]), encoding="utf-8")
