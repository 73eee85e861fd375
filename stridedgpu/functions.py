"""The operations as functions: anything array-like in, tensors out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .backends.selection import backend_named, backends_in_use, device_name
from .convert import conversion
from .creation import asarray
from .desc import BufferTensorDesc
from .dims import inferred_labels
from .dtypes import ElementType, element_type
from .errors import ElementTypeError, LayoutError
from .layout import Layout
from .operand import Operand
from .operations.gather import gather_elements_operand, gather_nd_operand, gather_operand
from .operations.relayout_plan import RelayoutPlan
from .operations.scatter import scatter_elements_operand, scatter_nd_operand
from .planning.problem import Side
from .tensor import StridedTensor

__all__ = [
    "gather",
    "gather_elements",
    "gather_nd",
    "plan_relayout",
    "relayout",
    "scatter_elements",
    "scatter_nd",
    "synchronize",
]

_DIRECTML_ALIGNMENT = 16
"""Bytes that every bound buffer offset is a multiple of, whatever a descriptor guarantees beyond it."""


def relayout(
    src: object,
    *,
    layout: str | Layout | None = None,
    dtype: object = None,
    scale: float | Sequence[float] | None = None,
    bias: float | Sequence[float] | None = None,
    channels: Sequence[int] | None = None,
    rounding: str = "nearest",
    row_pitch_bytes: int | None = None,
    alignment: int | None = None,
    device: str | None = None,
    out: StridedTensor | None = None,
    stream: object = None,
) -> StridedTensor:
    """The elements of `src` in another memory layout, converted on the way, in one pass.

    `layout` is the memory order of the result ("NHWC"), an exact `Layout`, or None: packed in the source's own axis
    order, whatever its strides were. Logical axes and sizes do not change. "NHWC8" fills each pixel up with zeros to
    a multiple of 8 channels; "NCHW4" splits C into blocks of 4 that lie innermost, the last filled up with zeros, and
    the result has one axis more: sizes (N, ceil(C/4), 4, H, W). `dtype` is the result's type; `scale` and
    `bias` are one value or one for each output channel: `x * scale + bias`, computed in float32, or in float64 when
    either side is float64 or a 32- or 64-bit integer. `channels` picks the source channel of each output channel:
    `(2, 1, 0)` swaps RGB and BGR. `rounding` to integers is "nearest" (half to even) or "truncate"; it saturates, and
    NaN becomes 0. `row_pitch_bytes` is the bytes from one row to the next, `alignment` that of the result's address
    in bytes (default 32). `device` is where the result goes, None where the source is. With `out` the elements go
    into that tensor, of any layout; only its own padding is ever written besides. `stream` is for CUDA.

    Nothing of the data's size is allocated besides the result. Raises before anything is written: `LayoutError` for
    layouts, channels or sizes that do not fit, `BindingError` for an `out` that is read-only, on another device or
    shares memory with the source, `ElementTypeError` for a conversion that does not exist, `DeviceError` when the
    device or its memory cannot be had.

    >>> import numpy as np
    >>> frame = np.arange(24, dtype=np.uint8).reshape(1, 2, 4, 3)
    >>> planes = relayout(asarray(frame, dims="NHWC"), layout="NCHW", dtype="float32", scale=1 / 255)
    >>> planes.sizes, planes.strides, bool(planes.numpy()[0, 1, 0, 0] == np.float32(1) * np.float32(1 / 255))
    ((1, 3, 2, 4), (24, 8, 4, 1), True)
    """
    return asarray(src).relayout(
        layout=layout,
        dtype=dtype,
        scale=scale,
        bias=bias,
        channels=channels,
        rounding=rounding,
        row_pitch_bytes=row_pitch_bytes,
        alignment=alignment,
        device=device,
        out=out,
        stream=stream,
    )


def plan_relayout(
    src: StridedTensor | BufferTensorDesc,
    dst: StridedTensor | BufferTensorDesc,
    *,
    scale: float | Iterable[float] | None = None,
    bias: float | Iterable[float] | None = None,
    channels: Sequence[int] | None = None,
    rounding: str = "nearest",
    device: str | None = None,
) -> RelayoutPlan:
    """Plan `relayout(src, out=dst)` once, to run it many times and to explain it.

    Each side is a tensor, or a descriptor of one that will be bound later: such a plan trusts only the alignment and
    size that the descriptor guarantees, and real addresses are checked when it runs. `device` is None for where the
    tensors are (descriptors: the CPU), or "cuda" to plan for a GPU, even where there is none: then for a reference GPU,
    and the plan can only be read.

    Raises `LayoutError` when the sides do not fit each other.

    >>> plan = plan_relayout(BufferTensorDesc("uint8", (1, 3, 64, 64), (12288, 1, 192, 3)),
    ...                      BufferTensorDesc("uint8", (1, 3, 64, 64)))
    >>> plan.load_bytes, plan.store_bytes, plan.index_bits, plan.bytes_moved
    (16, 16, 32, 24576)
    """
    source, target = _side_of("src", src), _side_of("dst", dst)
    dims = src.dims if isinstance(src, StridedTensor) else None
    labels = inferred_labels(dims, source.layout.ndim)
    channel_axis = labels.index("C") if "C" in labels else None
    made = conversion(
        source.element,
        target.element,
        scale=scale,
        bias=bias,
        channels=channels,
        source_channels=None if channel_axis is None else source.layout.sizes[channel_axis],
        rounding=rounding,
    )
    wanted = list(source.layout.sizes)
    if made.channels is not None and channel_axis is not None:
        wanted[channel_axis] = len(made.channels)
    if target.layout.sizes != tuple(wanted):
        raise LayoutError(f"dst has sizes {target.layout.sizes}; this relayout makes sizes {tuple(wanted)}.")
    if target.layout.has_overlap:
        raise LayoutError(f"dst repeats or overlaps its own elements: {target.layout}.")
    where = next((side.device for side in (dst, src) if isinstance(side, StridedTensor)), "cpu")
    name = where if device is None else device_name(device)
    return RelayoutPlan.make(source, target, made, channel_axis, name)


# Picking elements by index


def gather(
    data: object,
    indices: object,
    axis: int = 0,
    *,
    mode: str = "raise",
    out: StridedTensor | None = None,
    stream: object = None,
) -> StridedTensor:
    """Slices of `data` along `axis`, in the order of `indices`: `numpy.take`, ONNX Gather, DML_GATHER.

    `indices` are int32, int64, uint32 or uint64 of any rank, as a tensor, array or Python list (int64); their axes
    take the place of `axis`, so that the result has sizes `data[:axis] + indices + data[axis + 1:]`. Any of `data`,
    `indices` and `out` may be padded, permuted, flipped or broadcast. Elements move as opaque bits; nothing is
    allocated besides the packed result, or nothing at all with `out`.

    `mode` is for indices out of range, and in none of them is memory outside `data` touched. "raise": an
    `IndexError` names position, value, axis and valid range; negative ones count from the end. "clip": the nearest
    valid one, so that negative ones are 0. "wrap": counted round the axis. "deferred", on CUDA: as "raise", but
    clamped, and raised at the next `synchronize`, `.numpy()` or export to the host; the CPU raises at once.

    Raises before anything is written: `IndexError`, also where `axis` has no elements; `ElementTypeError` for other
    indices; `LayoutError` for a wrong axis or an `out` of other sizes or type; `BindingError` for an `out` that is
    read-only, on another device or shares memory with `data` or `indices`.

    >>> gather(asarray([[1, 2], [3, 4], [5, 6]]), [2, 0, -1]).numpy().tolist()
    [[5, 6], [1, 2], [5, 6]]
    """
    tensor = asarray(data)
    found = gather_operand(tensor.operand, tensor.dims, _indices(indices, tensor), axis, mode, _out(out), stream)
    return StridedTensor.over(*found) if out is None else out


def gather_elements(
    data: object,
    indices: object,
    axis: int = 0,
    *,
    mode: str = "raise",
    out: StridedTensor | None = None,
    stream: object = None,
) -> StridedTensor:
    """One element for each index: `numpy.take_along_axis`, ONNX GatherElements, DML_GATHER_ELEMENTS.

    Along `axis` the coordinate is the index, on the others it is the index's own. `indices` have the rank of `data`
    and, on the other axes, at most its sizes; the result has the sizes of `indices`. Everything else, modes and
    errors included, is as in `gather`, and ranks or sizes that do not fit are a `LayoutError`.

    >>> gather_elements(asarray([[1, 2], [3, 4]]), [[1, 0], [0, 0]], axis=1).numpy().tolist()
    [[2, 1], [3, 3]]
    """
    tensor = asarray(data)
    index = _indices(indices, tensor)
    found = gather_elements_operand(tensor.operand, tensor.dims, index, axis, mode, _out(out), stream)
    return StridedTensor.over(*found) if out is None else out


def gather_nd(
    data: object,
    indices: object,
    *,
    batch_dims: int = 0,
    mode: str = "raise",
    out: StridedTensor | None = None,
    stream: object = None,
) -> StridedTensor:
    """Elements or slices named by tuples of coordinates: ONNX GatherND, DML_GATHER_ND1.

    The last axis of `indices` holds tuples of k coordinates, for the k axes of `data` that follow its first
    `batch_dims` ones, which are common to both. The result has sizes `indices[:-1] + data[batch_dims + k:]`.
    Everything else, modes and errors included, is as in `gather`, and ranks or sizes that do not fit are a
    `LayoutError`.

    >>> gather_nd(asarray([[1, 2], [3, 4]]), [[1, 0], [0, 1]]).numpy().tolist()
    [3, 2]
    """
    tensor = asarray(data)
    index = _indices(indices, tensor)
    found = gather_nd_operand(tensor.operand, tensor.dims, index, batch_dims, mode, _out(out), stream)
    return StridedTensor.over(*found) if out is None else out


def scatter_elements(
    data: object,
    indices: object,
    updates: object,
    axis: int = 0,
    *,
    unique: bool = False,
    out: StridedTensor | None = None,
    stream: object = None,
) -> StridedTensor:
    """A copy of `data` in which each index's element is replaced: ONNX ScatterElements, `numpy.put_along_axis`.

    `indices` are as in `gather_elements`, and `updates` have their sizes and the type of `data`. Where indices name
    one element several times, the last one (in row-major order of `indices`) wins on the CPU; on a GPU the element is
    one of them, whole, and which one is not defined. `unique=True` refuses that with an `IndexError`, -1 and n-1
    being the same; it sorts the indices, with 24 bytes for each besides. Indices out of range are always refused.

    Raises before anything is written what `gather_elements` raises, `ElementTypeError` for updates of another type,
    and `BindingError` for an `out` that shares memory with `data`, `indices` or `updates`.

    >>> scatter_elements(asarray([1, 2, 3]), [2, 0], asarray([30, 10])).numpy().tolist()
    [10, 2, 30]
    """
    tensor = asarray(data)
    operands = (tensor.operand, _indices(indices, tensor), asarray(updates).operand)
    found = scatter_elements_operand(*operands, axis, unique=unique, out=_out(out), stream=stream)
    return StridedTensor.over(found, tensor.dims) if out is None else out


def scatter_nd(
    data: object,
    indices: object,
    updates: object,
    *,
    unique: bool = False,
    out: StridedTensor | None = None,
    stream: object = None,
) -> StridedTensor:
    """A copy of `data` in which the elements or slices that tuples name are replaced: ONNX ScatterND, DML_SCATTER_ND.

    The last axis of `indices` holds tuples of k coordinates for the first k axes of `data`; `updates` have sizes
    `indices[:-1] + data[k:]` and the type of `data`. Everything else is as in `scatter_elements`; of slices that are
    named several times, a GPU may mix elements.

    >>> scatter_nd(asarray([[1, 2], [3, 4]]), [[1]], asarray([[7, 8]])).numpy().tolist()
    [[1, 2], [7, 8]]
    """
    tensor = asarray(data)
    operands = (tensor.operand, _indices(indices, tensor), asarray(updates).operand)
    found = scatter_nd_operand(*operands, unique=unique, out=_out(out), stream=stream)
    return StridedTensor.over(found, tensor.dims) if out is None else out


def _indices(indices: object, data: StridedTensor) -> Operand:
    """Indices as an operand on the data's device: a tensor stays where it is, Python numbers are int64."""
    if isinstance(indices, StridedTensor):
        return indices.operand
    try:
        tensor = asarray(indices)
    except (ElementTypeError, ValueError) as error:
        raise ElementTypeError(f"indices={indices!r} must be integers of at most 64 bits, of even rows.") from error
    if isinstance(indices, (list, tuple)) and tensor.layout.element_count == 0:
        tensor = asarray(indices, dtype="int64")
    return tensor.to_device(data.device).operand


def _out(out: object) -> Operand | None:
    """The operand of `out`, where there is one."""
    if out is None or isinstance(out, StridedTensor):
        return None if out is None else out.operand
    raise LayoutError(f"out must be a StridedTensor, not {type(out).__name__}; wrap it with asarray.")


def synchronize(device: str | None = None) -> None:
    """Wait until the work of a device is done (None: of every device in use), and raise what went wrong there.

    >>> synchronize("cpu")
    """
    for backend in backends_in_use() if device is None else (backend_named(device),):
        backend.synchronize()


def _side_of(name: str, operand: StridedTensor | BufferTensorDesc) -> Side:
    """What is known of a tensor or of a descriptor."""
    if isinstance(operand, StridedTensor):
        return operand.operand.side
    if not isinstance(operand, BufferTensorDesc):
        raise LayoutError(f"{name} must be a StridedTensor or a BufferTensorDesc, not {type(operand).__name__}.")
    element: ElementType = element_type(operand.data_type)
    return Side.of(
        operand.layout,
        element,
        base_alignment=max(operand.guaranteed_base_offset_alignment, _DIRECTML_ALIGNMENT),
        buffer_bytes=operand.total_tensor_size_in_bytes,
        owns_padding=name == "dst",
    )
