"""Gathers and scatters planned once, to be explained and run many times."""

from __future__ import annotations

from dataclasses import dataclass

from stridedgpu.devices.cuda.gather import WIDEST_INDICES
from stridedgpu.devices.selection import device_name
from stridedgpu.operations.gather import PlannedGather, planned_gather
from stridedgpu.operations.index_arguments import (
    IndexedAccess,
    checked_mode,
    elements_access,
    slices_access,
    tuples_access,
)
from stridedgpu.operations.plans import PlanOperand
from stridedgpu.operations.scatter import PlannedScatter, planned_scatter
from stridedgpu.problems.index_rule import Mode
from stridedgpu.typing import DeviceLike, IndexMode, TensorLike
from stridedgpu.values.descriptor import BufferTensorDesc

from .arguments import index_tensor, plan_operand
from .creation import asarray
from .tensor import StridedTensor

__all__ = ["plan_gather", "plan_gather_elements", "plan_gather_nd", "plan_scatter_elements", "plan_scatter_nd"]


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
        """The plan of a gather."""
        return planned_gather(access, mode, self.data, self.indices, self.out, self.device)

    def scatter(self, access: IndexedAccess) -> PlannedScatter:
        """The plan of a scatter."""
        return planned_scatter(access, self.data, self.indices, self.updates, self.out, self.device)
