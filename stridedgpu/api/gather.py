"""Gather and scatter, and their plans: elements, rows and slices by index."""

from __future__ import annotations

from dataclasses import dataclass

from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_name
from stridedgpu.exchange.array_like import operand_of
from stridedgpu.operations.gather import PlannedGather, elements, gather_operand, planned_gather, slices, tuples
from stridedgpu.operations.index_arguments import (
    IndexedAccess,
    checked_mode,
    elements_access,
    slices_access,
    tuples_access,
)
from stridedgpu.operations.plans import PlanOperand
from stridedgpu.operations.scatter import PlannedScatter, planned_scatter, scatter_operand
from stridedgpu.problems.index_rule import Mode
from stridedgpu.typing import DeviceLike, IndexMode, StreamLike, TensorLike
from stridedgpu.values.descriptor import BufferTensorDesc

from .arguments import index_tensor, plan_operand
from .creation import asarray
from .tensor import StridedTensor, output_tensor


def gather(
    data: TensorLike,
    indices: TensorLike,
    axis: int = 0,
    *,
    dims: str | None = None,
    mode: IndexMode = "raise",
    out: TensorLike | None = None,
    stream: StreamLike | None = None,
) -> StridedTensor:
    """Slices of `data` along `axis`, selected by `indices`: `numpy.take`, ONNX Gather, DML_GATHER.

    `indices` are int32, int64, uint32 or uint64 of any rank, as a tensor, array or Python list (int64). Their axes
    replace `axis`: the result has sizes `data[:axis] + indices + data[axis + 1:]`. `data`, `indices` and `out` may each
    be padded, permuted, flipped or broadcast. The elements are copied bit by bit. Without `out` only the packed result
    is allocated, and with it nothing. `dims` says how the axes of `data` are ordered ("NHWC"), as in `asarray`: `axis`,
    and the axes of the result, are then those in canonical order.

    `mode` is the rule for indices out of range; no mode touches memory outside `data`. "raise": an `IndexError` names
    position, value, axis and valid range; negative indices count from the end. "clip": the nearest valid index, so that
    negative ones are 0. "wrap": the index modulo the axis' size. "deferred", on CUDA: clamped, and the error of "raise"
    follows at the next `synchronize`, `.numpy()` or export to the host; the CPU raises at once.

    Raises before anything is written: `IndexError`, also where `axis` has no elements; `ElementTypeError` for other
    indices; `LayoutError` for a wrong axis or an `out` of other sizes or type; `BindingError` for an `out` that is
    read-only, on another device or shares memory with `data` or `indices`.

    >>> gather(asarray([[1, 2], [3, 4], [5, 6]]), [2, 0, -1]).numpy().tolist()
    [[5, 6], [1, 2], [5, 6]]
    >>> frames = asarray([[[[0, 1, 2]]], [[[3, 4, 5]]]])  # N, H, W, C
    >>> gather(frames, [2, 0], axis=1, dims="NHWC").sizes
    (2, 2, 1, 1)
    """
    tensor = data if type(data) is StridedTensor and dims is None else _tensor(data, dims, stream)
    written = out if out is None or type(out) is StridedTensor else output_tensor(out, stream)
    index = indices.operand if type(indices) is StridedTensor else _indices(indices, tensor, stream)
    target = None if written is None else written.operand
    result = gather_operand(slices, tensor.operand, tensor.dims, index, axis, mode, target, stream)
    return StridedTensor.over(*result) if written is None else written


def gather_elements(
    data: TensorLike,
    indices: TensorLike,
    axis: int = 0,
    *,
    dims: str | None = None,
    mode: IndexMode = "raise",
    out: TensorLike | None = None,
    stream: StreamLike | None = None,
) -> StridedTensor:
    """One element for each index: `numpy.take_along_axis`, ONNX GatherElements, DML_GATHER_ELEMENTS.

    Along `axis` the coordinate is the index; along the others it is the position of the index. `indices` have the rank
    of `data` and, on the other axes, at most its sizes; the result has the sizes of `indices`. Everything else, modes
    and errors included, is as in `gather`. Ranks or sizes that do not fit are a `LayoutError`.

    >>> gather_elements(asarray([[1, 2], [3, 4]]), [[1, 0], [0, 0]], axis=1).numpy().tolist()
    [[2, 1], [3, 3]]
    """
    tensor = data if type(data) is StridedTensor and dims is None else _tensor(data, dims, stream)
    written = out if out is None or type(out) is StridedTensor else output_tensor(out, stream)
    index = indices.operand if type(indices) is StridedTensor else _indices(indices, tensor, stream)
    target = None if written is None else written.operand
    result = gather_operand(elements, tensor.operand, tensor.dims, index, axis, mode, target, stream)
    return StridedTensor.over(*result) if written is None else written


def gather_nd(
    data: TensorLike,
    indices: TensorLike,
    *,
    dims: str | None = None,
    batch_dims: int = 0,
    mode: IndexMode = "raise",
    out: TensorLike | None = None,
    stream: StreamLike | None = None,
) -> StridedTensor:
    """Elements or slices named by tuples of coordinates: ONNX GatherND, DML_GATHER_ND1.

    The last axis of `indices` holds tuples of k coordinates, for the k axes of `data` that follow the first
    `batch_dims` axes, shared by both. The result has sizes `indices[:-1] + data[batch_dims + k:]`. Everything else,
    modes and errors included, is as in `gather`. Ranks or sizes that do not fit are a `LayoutError`.

    >>> gather_nd(asarray([[1, 2], [3, 4]]), [[1, 0], [0, 1]]).numpy().tolist()
    [3, 2]
    """
    tensor = data if type(data) is StridedTensor and dims is None else _tensor(data, dims, stream)
    written = out if out is None or type(out) is StridedTensor else output_tensor(out, stream)
    index = indices.operand if type(indices) is StridedTensor else _indices(indices, tensor, stream)
    target = None if written is None else written.operand
    result = gather_operand(tuples, tensor.operand, tensor.dims, index, batch_dims, mode, target, stream)
    return StridedTensor.over(*result) if written is None else written


def scatter_elements(
    data: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    axis: int = 0,
    *,
    dims: str | None = None,
    unique: bool = False,
    out: TensorLike | None = None,
    stream: StreamLike | None = None,
) -> StridedTensor:
    """A copy of `data` in which each index's element is replaced: ONNX ScatterElements, `numpy.put_along_axis`.

    `indices` are as in `gather_elements`; `updates` have their sizes and the type of `data`. `dims` orders the axes of
    `data`, as in `gather`; those of `indices` and `updates` are in canonical order. If several indices select
    one element, the last one (in row-major order of `indices`) wins on the CPU. On a GPU one of them wins, whole, and
    which one is undefined. `unique=True` refuses such indices with an `IndexError`, where -1 and n-1 are the same. For
    this check the CPU needs up to 40 bytes for each index, and a GPU 1 bit for each element, or slice, of `data`.
    Indices out of range are always refused. `out=data` replaces the elements in place, and copies no others.

    Raises before anything is written what `gather_elements` raises, `ElementTypeError` for updates of another type,
    and `BindingError` for an `out` that shares memory with `indices`, `updates` or other elements of `data`.

    >>> table = asarray([1, 2, 3])
    >>> scatter_elements(table, [2, 0], asarray([30, 10])).numpy().tolist()
    [10, 2, 30]
    >>> scatter_elements(table, [1], asarray([20]), out=table).numpy().tolist()
    [1, 20, 3]
    """
    tensor = data if type(data) is StridedTensor and dims is None else _tensor(data, dims, stream)
    written = out if out is None or type(out) is StridedTensor else output_tensor(out, stream)
    index = indices.operand if type(indices) is StridedTensor else _indices(indices, tensor, stream)
    new = updates.operand if type(updates) is StridedTensor else operand_of(updates, None, stream)[0]
    target = None if written is None else written.operand
    result = scatter_operand(elements_access, tensor.operand, index, new, axis, unique, target, stream)
    return StridedTensor.over(result, tensor.dims) if written is None else written


def scatter_nd(
    data: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    *,
    dims: str | None = None,
    unique: bool = False,
    out: TensorLike | None = None,
    stream: StreamLike | None = None,
) -> StridedTensor:
    """A copy of `data` in which the elements or slices selected by tuples are replaced: ONNX ScatterND, DML_SCATTER_ND.

    The last axis of `indices` holds tuples of k coordinates for the first k axes of `data`; `updates` have sizes
    `indices[:-1] + data[k:]` and the type of `data`. Everything else is as in `scatter_elements`. If several tuples
    select one slice, a GPU may mix their elements.

    >>> scatter_nd(asarray([[1, 2], [3, 4]]), [[1]], asarray([[7, 8]])).numpy().tolist()
    [[1, 2], [7, 8]]
    """
    tensor = data if type(data) is StridedTensor and dims is None else _tensor(data, dims, stream)
    written = out if out is None or type(out) is StridedTensor else output_tensor(out, stream)
    index = indices.operand if type(indices) is StridedTensor else _indices(indices, tensor, stream)
    new = updates.operand if type(updates) is StridedTensor else operand_of(updates, None, stream)[0]
    target = None if written is None else written.operand
    result = scatter_operand(tuples_access, tensor.operand, index, new, 0, unique, target, stream)
    return StridedTensor.over(result, tensor.dims) if written is None else written


def _tensor(data: TensorLike, dims: str | None, stream: StreamLike | None) -> StridedTensor:
    """Anything array-like as a tensor, for work on `stream`."""
    return StridedTensor.over(*operand_of(data, dims, stream))


def _indices(indices: TensorLike, data: StridedTensor, stream: StreamLike | None) -> Operand:
    """Indices as an operand: a tensor stays on its device, other objects are copied to the data's device.

    The memory of such a copy is released on `stream`, after the work that reads it.
    """
    tensor = index_tensor(indices, stream)
    if tensor is indices or tensor.device == data.device:
        return tensor.operand
    return tensor.relayout(device=data.device, stream=stream).operand


def plan_gather(
    data: TensorLike | BufferTensorDesc,
    indices: TensorLike | BufferTensorDesc,
    axis: int = 0,
    *,
    mode: IndexMode = "raise",
    out: StridedTensor | BufferTensorDesc | None = None,
    device: DeviceLike | None = None,
) -> PlannedGather:
    """Plan `gather(data, indices, axis, out=out)` once, to run it many times and to explain it.

    Each operand is a tensor or array, or a descriptor of one that will be bound later; the plan trusts only what a
    descriptor guarantees. Without `out`, the plan is for a packed result. Planning reads only sizes, strides, types and
    alignments. The plan runs on every tensor with these, as `plan(data, indices, out)`, and each run checks the
    indices. `kernel`, `load_bytes`, `store_bytes`, `vector_bytes`, `index_bits`, `bytes_moved` and `explain()` describe
    it. `device` is None for the tensors' device (descriptors: the CPU), or "cuda" or "cuda:N" to plan for a GPU.
    Without such a GPU the plan is for a reference GPU and can only be read.

    Raises what `gather` raises for operands that do not fit each other.

    >>> table, ids = BufferTensorDesc("float32", (1000, 64)), BufferTensorDesc("int32", (256,))
    >>> plan = plan_gather(table, ids, device="cuda")
    >>> plan.kernel, plan.vector_bytes, plan.bytes_moved
    ('gather_rows_float32x16B_int32', 16, 132096)
    """
    wanted = checked_mode(mode)
    operands = _Operands.of(device, data, indices, out)
    return operands.gather(slices_access(operands.data.spec, operands.indices.spec, axis), wanted)


def plan_gather_elements(
    data: TensorLike | BufferTensorDesc,
    indices: TensorLike | BufferTensorDesc,
    axis: int = 0,
    *,
    mode: IndexMode = "raise",
    out: StridedTensor | BufferTensorDesc | None = None,
    device: DeviceLike | None = None,
) -> PlannedGather:
    """Plan `gather_elements(data, indices, axis, out=out)` once; everything else is as in `plan_gather`.

    >>> scores, order = BufferTensorDesc("float16", (32, 128)), BufferTensorDesc("int64", (32, 128))
    >>> plan = plan_gather_elements(scores, order, axis=1, device="cuda")
    >>> plan.kernel, plan.load_bytes, plan.store_bytes
    ('gather_elements_float16x8B_int64', 2, 8)
    """
    wanted = checked_mode(mode)
    operands = _Operands.of(device, data, indices, out)
    return operands.gather(elements_access(operands.data.spec, operands.indices.spec, axis), wanted)


def plan_gather_nd(
    data: TensorLike | BufferTensorDesc,
    indices: TensorLike | BufferTensorDesc,
    *,
    batch_dims: int = 0,
    mode: IndexMode = "raise",
    out: StridedTensor | BufferTensorDesc | None = None,
    device: DeviceLike | None = None,
) -> PlannedGather:
    """Plan `gather_nd(data, indices, batch_dims=batch_dims, out=out)` once; everything else is as in `plan_gather`.

    >>> plan = plan_gather_nd(asarray([[1, 2], [3, 4]]), [[1, 0], [0, 1]])
    >>> result = asarray([0, 0])
    >>> plan(asarray([[1, 2], [3, 4]]), asarray([[1, 0], [0, 1]]), result)
    >>> result.numpy().tolist()
    [3, 2]
    """
    wanted = checked_mode(mode)
    operands = _Operands.of(device, data, indices, out)
    return operands.gather(tuples_access(operands.data.spec, operands.indices.spec, batch_dims), wanted)


def plan_scatter_elements(
    data: TensorLike | BufferTensorDesc,
    indices: TensorLike | BufferTensorDesc,
    updates: TensorLike | BufferTensorDesc,
    axis: int = 0,
    *,
    unique: bool = False,
    out: StridedTensor | BufferTensorDesc | None = None,
    device: DeviceLike | None = None,
) -> PlannedScatter:
    """Plan `scatter_elements(data, indices, updates, axis, out=out)` once, the copy of the data included.

    It runs as `plan(data, indices, updates, out)`, with the data itself as `out` in place; everything else is as in
    `plan_gather`. `bytes_moved` counts the copy and the updates, and `explain()` describes both; `kernel` and widths
    are those of the updates.

    Raises what `scatter_elements` raises for operands that do not fit each other.

    >>> table, ids = BufferTensorDesc("float32", (64, 128)), BufferTensorDesc("int32", (8, 128))
    >>> plan = plan_scatter_elements(table, ids, BufferTensorDesc("float32", (8, 128)), device="cuda")
    >>> plan.kernel, plan.load_bytes, plan.store_bytes, plan.bytes_moved
    ('scatter_elements_float32x16B_int32', 16, 4, 77824)
    """
    operands = _Operands.of(device, data, indices, out, updates)
    return operands.scatter(elements_access(operands.data.spec, operands.indices.spec, axis, unique=unique))


def plan_scatter_nd(
    data: TensorLike | BufferTensorDesc,
    indices: TensorLike | BufferTensorDesc,
    updates: TensorLike | BufferTensorDesc,
    *,
    unique: bool = False,
    out: StridedTensor | BufferTensorDesc | None = None,
    device: DeviceLike | None = None,
) -> PlannedScatter:
    """Plan `scatter_nd(data, indices, updates, out=out)` once; everything else is as in `plan_scatter_elements`.

    >>> rows = BufferTensorDesc("uint8", (16, 256))
    >>> table, ids = BufferTensorDesc("uint8", (64, 256)), BufferTensorDesc("int64", (16, 1))
    >>> plan = plan_scatter_nd(table, ids, rows, device="cuda")
    >>> plan.kernel, plan.vector_bytes, plan.device
    ('scatter_rows_uint8x16B_int64', 16, 'cuda:0')
    """
    operands = _Operands.of(device, data, indices, out, updates)
    return operands.scatter(tuples_access(operands.data.spec, operands.indices.spec, 0, unique=unique))


@dataclass(frozen=True, slots=True)
class _Operands:
    """The specs of the operands, and the device to plan for; without updates, the data takes their place."""

    data: PlanOperand
    indices: PlanOperand
    updates: PlanOperand
    out: PlanOperand | None
    device: str

    @classmethod
    def of(
        cls,
        device: str | None,
        data: TensorLike | BufferTensorDesc,
        indices: TensorLike | BufferTensorDesc,
        out: StridedTensor | BufferTensorDesc | None,
        updates: TensorLike | BufferTensorDesc | None = None,
    ) -> _Operands:
        """The specs of tensors, arrays and descriptors."""
        from stridedgpu.devices.cuda.gather import WIDEST_INDICES  # gathers without a plan do not load it

        table = data if isinstance(data, BufferTensorDesc) else asarray(data)
        index = indices if isinstance(indices, BufferTensorDesc) else index_tensor(indices)
        written = updates if updates is None or isinstance(updates, BufferTensorDesc) else asarray(updates)
        source = plan_operand("data", table)
        tensors = (tensor for tensor in (out, table, written, index) if isinstance(tensor, StridedTensor))
        where = next((tensor.device for tensor in tensors), "cpu")
        return cls(
            source,
            plan_operand("indices", index).within(WIDEST_INDICES),
            source if written is None else plan_operand("updates", written),
            None if out is None else plan_operand("out", out, is_written=True),
            where if device is None else device_name(device),
        )

    def gather(self, access: IndexedAccess, mode: Mode) -> PlannedGather:
        return planned_gather(access, mode, self.data, self.indices, self.out, self.device)

    def scatter(self, access: IndexedAccess) -> PlannedScatter:
        return planned_scatter(access, self.data, self.indices, self.updates, self.out, self.device)
