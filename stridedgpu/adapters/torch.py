"""`torch.ops.stridedgpu`: relayout, resize, gather_crops and preprocess as operators of PyTorch.

Importing this module registers them, each for one tensor and, where images may have sizes of their own, for a list of
tensors (the overload `images`). With `out=` an operator writes into a tensor and returns nothing. Fake kernels compute
sizes, strides and type of every result: `torch.compile(fullgraph=True)` and `torch.export` carry the operators.

Arguments are those of the function of the same name; PyTorch's schemas have no unions, so that `scale`, `bias`, `mean`,
`std`, `size` and `fill` are always lists, and `matrix`, `origins`, `boxes`, `flip` and `keys` tensors on the CPU.
Results have the axes in canonical order, N C D H W, and `layout` orders their memory: `layout="NHWC"` is PyTorch's
`channels_last`. PyTorch allocates every result. On a GPU the work is ordered on PyTorch's current stream of the device.
There are no derivatives: results need no gradient.

>>> frames = torch.arange(24, dtype=torch.uint8).reshape(1, 2, 4, 3)
>>> planes = torch.ops.stridedgpu.relayout(frames, dims="NHWC", layout="NCHW", dtype=torch.float32, scale=[1 / 255])
>>> planes.shape, planes.stride()
(torch.Size([1, 3, 2, 4]), (24, 8, 4, 1))

Source: https://docs.pytorch.org/docs/stable/library.html.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final, TypeAlias

import torch

from stridedgpu.api.creation import asarray
from stridedgpu.api.crops import gather_crops
from stridedgpu.api.relayout import relayout
from stridedgpu.api.resize import resize
from stridedgpu.devices.selection import device_named
from stridedgpu.operations.options import MemoryOptions
from stridedgpu.operations.resize import shorter_side
from stridedgpu.preprocess.geometry import padded_sizes
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.values.axis_labels import Labels, checked_dims, inferred_labels, labels_of, memory_axes
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.strides import axis_letters, canonical_axes

__all__ = ["declared"]

library: Any = torch.library  # has no types
_LIBRARY: Final = library.Library("stridedgpu", "DEF")
"""The operators live as long as this object."""

_WHERE: Final = {"column", "output", *MemoryOptions._fields} - {"layout"}
"""The fields of a step that say where images come from and where results lie, which PyTorch decides."""

Images: TypeAlias = "torch.Tensor | Sequence[torch.Tensor]"


def declared(step: Preprocess[Any]) -> str:
    """A step as text, which `torch.ops.stridedgpu.preprocess` takes: its options that are not the default, as JSON.

    A compiled graph keeps the text as a constant, and an exported program has it in its file. A step runs on the device
    of its images, whatever its `device=` is. The epoch is an argument of the operator.

    Raises `LayoutError` for a step that may drop rows or moves annotations, and for a row pitch: the operator's result
    is one tensor that PyTorch allocates.

    >>> text = declared(Preprocess(crop=2, normalize="0..1"))
    >>> text
    '{"normalize": "0..1", "crop": [2, 2]}'
    >>> torch.ops.stridedgpu.preprocess(torch.full((1, 4, 6, 3), 255, dtype=torch.uint8), text).shape
    torch.Size([1, 3, 2, 2])
    """
    if step.errors == "skip":
        raise LayoutError(
            "errors='skip' drops rows, and the sizes of an operator's result are known ahead: declare errors='raise'."
        )
    if step.annotations:
        raise LayoutError(f"{step} names columns that belong to the images, and an operator takes images alone.")
    for name, value in (("row_pitch_bytes", step.row_pitch_bytes), ("layout", step.layout)):
        if value is not None and value != step.order:
            raise LayoutError(f"{name}={value!r}: PyTorch allocates the result, with packed rows and pixels.")
    options = {one.name: getattr(step, one.name) for one in fields(step) if one.name not in _WHERE}
    defaults = {one.name: one.default for one in fields(step)}
    return json.dumps({name: value for name, value in options.items() if value != defaults[name]})


@lru_cache(maxsize=32)  # each has a worker, and the memory of its last results
def _step(text: str, device: str) -> Preprocess[Any]:
    """The step that a text declares, for a device. Raises `LayoutError` for other texts."""
    try:
        options = json.loads(text)
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise LayoutError(
            f"step={text!r} is not the text of a step: stridedgpu.adapters.torch.declared(step) writes it."
        )
    return Preprocess(**options, device=device, output="tensor")


# ---- results: the operators and their fakes allocate them alike


def _empty(sizes: Sequence[Any], order: Sequence[int], dtype: torch.dtype | None, like: torch.Tensor) -> torch.Tensor:
    """New packed memory of these sizes; `order` has the axes from outermost to innermost."""
    packed = torch.empty([sizes[axis] for axis in order], dtype=dtype or like.dtype, device=like.device)
    return packed.permute([order.index(axis) for axis in range(len(order))])


def _canonical(image: torch.Tensor, dims: str | None) -> tuple[list[Any], Labels]:
    """Sizes and labels with the axes in canonical order. Raises `LayoutError` for labels that do not fit."""
    letters = checked_dims(dims, image.ndim) or ""
    labels = labels_of(canonical_axes(letters) if letters else None, image.ndim)
    order = [*range(image.ndim - len(letters)), *(labels.index(letter) for letter in letters)]
    return [image.shape[order.index(axis)] for axis in range(image.ndim)], labels


def _memory_order(layout: str | None, labels: Labels) -> Sequence[int]:
    """The axes of a result from outermost to innermost. Raises `LayoutError` for an order of other axes."""
    return range(len(labels)) if layout is None else memory_axes(layout, labels)


def _mixed(count: object, channels: Sequence[int] | None, matrix: torch.Tensor | None) -> Any:
    """The channels of a result, of an image with so many."""
    if channels is not None:
        return len(channels)
    return count if matrix is None else matrix.shape[0]


def _empty_relayout(
    src: torch.Tensor,
    *,
    dims: str | None = None,
    layout: str | None = None,
    dtype: torch.dtype | None = None,
    channels: Sequence[int] | None = None,
    matrix: torch.Tensor | None = None,
    **_values: object,
) -> torch.Tensor:
    sizes, labels = _canonical(src, dims)
    known = inferred_labels(dims and "".join(filter(None, labels)), src.ndim)
    if "C" in known:
        axis = known.index("C")
        sizes[axis] = _mixed(sizes[axis], channels, matrix)
    return _empty(sizes, _memory_order(layout, labels), dtype, src)


def _empty_resize(
    src: torch.Tensor,
    size: Sequence[Any],
    *,
    dims: str | None = None,
    box: Sequence[float] | None = None,
    layout: str | None = None,
    dtype: torch.dtype | None = None,
    channels: Sequence[int] | None = None,
    matrix: torch.Tensor | None = None,
    **_values: object,
) -> torch.Tensor:
    sizes, labels = _canonical(src, dims)
    if src.ndim > 2:
        sizes[-3] = _mixed(sizes[-3], channels, matrix)
    if len(size) == 1:
        top, left, bottom, right = box or (0, 0, *sizes[-2:])
        size = shorter_side(size[0], (bottom - top, right - left))
    sizes[-2:] = size
    return _empty(sizes, _memory_order(layout, labels), dtype, src)


def _empty_crops(
    sources: Images,
    origins: torch.Tensor | None,
    size: Sequence[object],
    *,
    dims: str | None = None,
    boxes: torch.Tensor | None = None,
    layout: str | None = None,
    dtype: torch.dtype | None = None,
    channels: Sequence[int] | None = None,
    matrix: torch.Tensor | None = None,
    **_values: object,
) -> torch.Tensor:
    windows = boxes if origins is None else origins
    if windows is None:
        raise LayoutError("origins= or boxes= is missing: one of them says where the windows lie.")
    first = _first(sources, "sources")
    sizes, _ = _canonical(first, dims)
    axes = 3 if len(size) == 3 or (dims is not None and "D" in axis_letters(dims)) else 2
    window = size if len(size) == axes else (size[0],) * axes
    result = (windows.shape[0], _mixed(sizes[-1 - axes], channels, matrix), *window)
    labels = labels_of("NCHW" if axes == 2 else "NCDHW", len(result))
    return _empty(result, _memory_order(layout, labels), dtype, first)


def _empty_preprocess(images: Images, step: str, **_options: object) -> torch.Tensor:
    first = _first(images, "images")
    declaration = _step(step, "cpu")
    is_batch = isinstance(images, torch.Tensor)
    sizes, labels = _canonical(first, declaration.dims if is_batch else declaration.image_axes)
    if not is_batch:
        if declaration.window is None:
            raise LayoutError(
                "images is a list, whose images may differ in size: declare crop=, letterbox= or resize= to both sides."
            )
        sizes, labels = [len(images), *sizes], ("N", *labels)
    if "C" in labels:
        axis = labels.index("C")
        kept = {None: sizes[axis], "rgb": 3, "gray": 1}[declaration.mode]
        sizes[axis] = declaration.output_channels(kept)
    if declaration.moves_windows:
        sizes[-2:] = declaration.window or padded_sizes(declaration, (sizes[-2], sizes[-1]))
    dtype: torch.dtype = getattr(torch, declaration.dtype)
    return _empty(sizes, memory_axes(declaration.layout, labels), dtype, first)


def _first(images: Images, name: str) -> torch.Tensor:
    """A batch, or the first image of a list. Raises `LayoutError` for a list without images."""
    if isinstance(images, torch.Tensor):
        return images
    if not images:
        raise LayoutError(f"{name} is empty: a batch of no images has no type and no channels.")
    return images[0]


# ---- the operators


def _relayout(out: torch.Tensor, src: torch.Tensor, **options: Any) -> None:
    relayout(src, out=out, **options)


def _resize(out: torch.Tensor, src: torch.Tensor, size: Sequence[int], **options: Any) -> None:
    """Resize into `out`; one number is the shorter side."""
    resize(src, size[0] if len(size) == 1 else size, out=out, **options)


def _gather_crops(
    out: torch.Tensor,
    sources: Images,
    origins: torch.Tensor | None,
    size: Sequence[int],
    *,
    flip: torch.Tensor | None = None,
    fill: Sequence[float] | None = None,
    **options: Any,
) -> None:
    window = size[0] if len(size) == 1 else size
    options |= {"flip": None if flip is None else flip.tolist(), "fill": 0 if fill is None else fill}
    gather_crops(sources, origins, window, out=out, **options)


def _preprocess(
    out: torch.Tensor, images: Images, step: str, *, keys: torch.Tensor | None = None, epoch: int = 0
) -> None:
    device = "cpu" if out.device.type == "cpu" else f"cuda:{out.device.index}"
    declaration = _step(step, device)
    named = None if keys is None else keys.tolist()
    declaration(images, named, epoch=epoch, out=asarray(out, dims=canonical_axes(declaration.layout), copy=False))


def _on_current_stream(tensor: torch.Tensor) -> AbstractContextManager[object]:
    """A context in which a GPU's work, and CuPy's memory for it, is ordered on PyTorch's current stream."""
    if tensor.device.type == "cpu":
        return nullcontext()
    device_named(f"cuda:{tensor.device.index}")  # raises `DeviceError` with the reason where there is no CuPy
    from stridedgpu.devices.cuda.runtime.streams import current_on

    return current_on(tensor.device.index, torch.cuda.current_stream(tensor.device).cuda_stream)


def _without_gradient(value: object) -> Any:
    """An argument whose tensors can be exported: PyTorch exports none that needs a gradient."""
    if isinstance(value, torch.Tensor):
        return value.detach() if value.requires_grad else value
    return [_without_gradient(one) for one in value] if isinstance(value, list) else value


def _define(
    name: str, arguments: str, empty: Callable[..., torch.Tensor], write: Callable[..., None], overload: str = ""
) -> None:
    """Register an operator, and its variant that writes into `out`.

    The variant returns nothing: the compiler carries operators that write only if their results are memory of their
    own, or, from PyTorch 2.13 on, if they have the tag `out`, with which its lowering fails for dynamic sizes.
    """

    def kernel(*values: object, **options: object) -> torch.Tensor:
        out = empty(*values, **options)
        options.pop("layout", None)
        out_kernel(*values, **options, out=out)
        return out

    def out_kernel(*values: object, out: torch.Tensor, **options: object) -> None:
        with _on_current_stream(out):
            write(out, *map(_without_gradient, values), **options)

    def fake_out(*_values: object, **_options: object) -> None:
        pass

    functional = f"{name}.{overload}" if overload else name
    into = f"{name}.{overload}_out" if overload else f"{name}.out"
    _LIBRARY.define(f"{functional}({arguments}) -> Tensor")
    _LIBRARY.define(f"{into}({arguments.replace(_LAYOUT, '')}, Tensor(a!) out) -> ()")
    for key in ("CPU", "CUDA"):
        _LIBRARY.impl(functional, kernel, key)
        _LIBRARY.impl(into, out_kernel, key)
    for operator in (functional, into):  # without derivatives: results need no gradient
        _LIBRARY.impl(operator, library.fallthrough_kernel, "Autograd")
    library.register_fake(f"stridedgpu::{functional}", empty, lib=_LIBRARY)
    library.register_fake(f"stridedgpu::{into}", fake_out, lib=_LIBRARY)


_LAYOUT: Final = "str? layout=None, "
_CONVERSION: Final = (
    f"{_LAYOUT}ScalarType? dtype=None, float[]? scale=None, float[]? bias=None, float[]? mean=None, "
    "float[]? std=None, str? normalize=None, str arithmetic='multiply', int[]? channels=None, Tensor? matrix=None, "
    "str rounding='nearest'"
)
"""The keyword arguments of every operator: the order of the result's memory, and how elements are converted."""

_define("relayout", f"Tensor src, *, str? dims=None, {_CONVERSION}", _empty_relayout, _relayout)
_define(
    "resize",
    "Tensor src, SymInt[] size, *, str? dims=None, str interpolation='pillow-bilinear', float[]? box=None, "
    f"str? passes=None, bool premultiply=False, {_CONVERSION}",
    _empty_resize,
    _resize,
)
for _images, _overload in (("Tensor", ""), ("Tensor[]", "images")):
    _define(
        "gather_crops",
        f"{_images} sources, Tensor? origins, SymInt[] size, *, str? dims=None, Tensor? boxes=None, "
        f"str? interpolation=None, str? passes=None, Tensor? flip=None, float[]? fill=None, {_CONVERSION}",
        _empty_crops,
        _gather_crops,
        _overload,
    )
    _define(
        "preprocess",
        f"{_images} images, str step, *, Tensor? keys=None, int epoch=0",
        _empty_preprocess,
        _preprocess,
        _overload,
    )
