"""Batched crops: windows of photographs as one batch, mirrored, converted and laid out in one pass."""

from __future__ import annotations

from collections.abc import Sequence

from stridedgpu.creation import asarray
from stridedgpu.dims import inferred_labels
from stridedgpu.errors import LayoutError
from stridedgpu.operand import Operand
from stridedgpu.operations.crops import crop_operands, samples_of_batch
from stridedgpu.tensor import StridedTensor
from stridedgpu.typing import DTypeLike, LayoutLike, StreamLike, SupportsArray, TensorLike

from .arguments import output_operand

__all__ = ["gather_crops"]


def gather_crops(
    sources: TensorLike,
    origins: TensorLike,
    size: Sequence[int],
    *,
    dims: str | None = None,
    flip: bool | Sequence[bool] | SupportsArray | None = None,
    layout: LayoutLike | None = None,
    dtype: DTypeLike | None = None,
    scale: float | Sequence[float] | None = None,
    bias: float | Sequence[float] | None = None,
    channels: Sequence[int] | None = None,
    fill: complex | Sequence[complex] | SupportsArray = 0,
    rounding: str = "nearest",
    row_pitch_bytes: int | None = None,
    alignment: int | None = None,
    out: StridedTensor | None = None,
    stream: StreamLike | None = None,
) -> StridedTensor:
    """One window of each image as a batch (N, C, height, width): the crop-mirror-normalise step of training.

    `sources` is a batch (N, C, H, W), or a list of images (C, H, W) of one type and channel count, each of its own
    size and layout. `dims` says how the given objects' axes are ordered ("NHWC", "HWC"), as in `asarray`; tensors
    that have labels need none, and other arrays are taken to be canonical. `origins` are integers (N, 2): the row and
    column, in pixels of the source, where each window begins; they are read on the host. `size` is the height and
    width of every window, in pixels. `flip` mirrors left and right: a bool, or one for each sample.

    A window may lie over the edge or wholly outside: there every pixel has the value `fill`, one number of the
    sources' type or one for each source channel, which is converted like any other pixel, so that a black border is
    normalised like black. `layout`, `dtype`, `scale`, `bias`, `channels`, `rounding`, `row_pitch_bytes`, `alignment`,
    `out` and `stream` are those of `relayout`, to the bit; without `layout` the batch is packed, NCHW.

    Nothing is allocated besides the batch. Raises before anything is written: `LayoutError` for ranks, sizes,
    origins, flips and fills that do not fit, `ElementTypeError` for types that differ and conversions that do not
    exist, `BindingError` for devices that differ and an `out` that is read-only or shares memory with a source.

    >>> import numpy as np
    >>> photos = [np.full((4, 6, 3), 10, np.uint8), np.full((5, 2, 3), 20, np.uint8)]
    >>> batch = gather_crops(photos, [[0, 2], [1, 1]], (2, 2), dims="HWC", dtype="float16", scale=0.5, fill=1)
    >>> batch.sizes, batch.numpy()[:, 0].tolist()
    ((2, 3, 2, 2), [[[5.0, 5.0], [5.0, 5.0]], [[10.0, 0.5], [10.0, 0.5]]])
    """
    samples, first = _samples(sources, dims)
    made = crop_operands(
        samples,
        first.layout.sizes[-3],
        first.element,
        first.buffer.device,
        asarray(origins).operand if samples or isinstance(origins, StridedTensor) else _no_origins(origins),
        size,
        flip=flip,
        layout=layout,
        dtype=dtype,
        scale=scale,
        bias=bias,
        channels=channels,
        fill=fill,
        rounding=rounding,
        row_pitch_bytes=row_pitch_bytes,
        alignment=alignment,
        out=output_operand(out),
        stream=stream,
    )
    if out is not None:
        return out
    return StridedTensor.over(made, "NCHW" if made.layout.ndim == 4 else None)


def _no_origins(origins: TensorLike) -> Operand:
    """The origins of an empty batch: `[]` holds no integers, nor anything else."""
    tensor = asarray(origins)
    return tensor.operand if tensor.layout.element_count else asarray(origins, dtype="int64").operand


def _samples(sources: TensorLike, dims: str | None) -> tuple[list[Operand], Operand]:
    """The images with axes C, H, W, and an operand that has their type, device and, third from last, channels."""
    if isinstance(sources, (list, tuple)):
        images = [_labelled(f"sources[{n}]", asarray(image, dims=dims), "CHW") for n, image in enumerate(sources)]
        if not images:
            raise LayoutError("sources is empty: a batch of no images has no type and no channels.")
        return images, images[0]
    batch = _labelled("sources", asarray(sources, dims=dims), "NCHW")
    return samples_of_batch(batch), batch


def _labelled(name: str, tensor: StridedTensor, wanted: str) -> Operand:
    """The operand of a tensor with these axes. Raises `LayoutError` for others."""
    labels = inferred_labels(tensor.dims, tensor.ndim, wanted)
    if "".join(label or "?" for label in labels) != wanted:
        raise LayoutError(
            f"{name} has sizes {tensor.sizes} and dims={tensor.dims!r}; it must have the axes {', '.join(wanted)}: "
            "say with dims= how they are ordered."
        )
    return tensor.operand
