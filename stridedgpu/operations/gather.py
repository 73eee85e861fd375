"""Gather elements, rows and slices of an operand by indices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from stridedgpu.devices.interface import Device, DirectLaunch, GatherLaunch
from stridedgpu.devices.operand import AllocationSpec, Operand
from stridedgpu.devices.selection import CPU, device_named
from stridedgpu.planning.index_rule import Mode
from stridedgpu.values.axis_labels import Labels, dims_of, labels_of
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import integer
from stridedgpu.values.tensor_spec import TensorSpec

from .allocation import DEFAULT_ALIGNMENT
from .index_arguments import (
    INDEX_TYPES,
    IndexedAccess,
    check_index_operand,
    checked_mode,
    elements_access,
    slices_access,
    tuples_access,
)
from .requirements import check_output_layout, check_output_memory

__all__ = [
    "gather_elements_operand",
    "gather_nd_operand",
    "gather_operand",
]


def gather_operand(
    data: Operand, dims: str | None, indices: Operand, axis: int, mode: str, out: Operand | None, stream: object
) -> tuple[Operand, str | None]:
    """`stridedgpu.gather` on operands; also returns the labels of the result."""
    return _gathered(_slices, data, dims, indices, axis, mode, out, stream)


def gather_elements_operand(
    data: Operand, dims: str | None, indices: Operand, axis: int, mode: str, out: Operand | None, stream: object
) -> tuple[Operand, str | None]:
    """`stridedgpu.gather_elements` on operands."""
    return _gathered(_elements, data, dims, indices, axis, mode, out, stream)


def gather_nd_operand(
    data: Operand, dims: str | None, indices: Operand, batch_dims: int, mode: str, out: Operand | None, stream: object
) -> tuple[Operand, str | None]:
    """`stridedgpu.gather_nd` on operands."""
    return _gathered(_tuples, data, dims, indices, batch_dims, mode, out, stream)


_Access = Callable[[TensorSpec, str | None, TensorSpec, int], tuple[IndexedAccess, str | None]]
"""From the specs of data and indices, the data's labels and the axis: the access, and the labels of its result."""


def _slices(data: TensorSpec, dims: str | None, index: TensorSpec, axis: int) -> tuple[IndexedAccess, str | None]:
    """Slices along an axis, whose label is that of the result's axis if one axis of indices replaces it."""
    access = slices_access(data, index, axis)
    place, rank = access.axes.start, index.layout.ndim
    labels = labels_of(dims, data.layout.ndim)
    kept: Labels = (labels[place],) if rank == 1 else (None,) * rank
    return access, dims_of((*labels[:place], *kept, *labels[place + 1 :]))


def _elements(data: TensorSpec, dims: str | None, index: TensorSpec, axis: int) -> tuple[IndexedAccess, str | None]:
    """Elements along an axis; the labels are the data's."""
    return elements_access(data, index, axis), dims


def _tuples(data: TensorSpec, dims: str | None, index: TensorSpec, batch_dims: int) -> tuple[IndexedAccess, str | None]:
    """Slices at tuples of coordinates, which take the place of the indexed axes."""
    access = tuples_access(data, index, batch_dims)
    axes, labels = access.axes, labels_of(dims, data.layout.ndim)
    between = index.layout.ndim - 1 - axes.start
    return access, dims_of((*labels[: axes.start], *(None,) * between, *labels[axes.stop :]))


@dataclass(slots=True)
class _Gathering:
    """A gather of operands with known specs: its access and labels, its result if it is new, its launch once prepared.

    `target` is the spec of the result, new or not.
    """

    access: IndexedAccess
    mode: Mode
    dims: str | None
    allocation: AllocationSpec | None
    data: TensorSpec
    target: TensorSpec
    device: Device
    launch: GatherLaunch | None = None
    direct: DirectLaunch | None = None

    def prepared(self) -> GatherLaunch:
        """The launch, prepared once and kept."""
        problem = self.access.problem(self.data, self.target, self.mode)
        self.launch = self.device.prepare(self.device.plan(problem))
        return self.launch


@lru_cache(maxsize=4096)
def _gathering(
    access_of: _Access,
    data: TensorSpec,
    dims: str | None,
    index: TensorSpec,
    place: int,
    mode: str,
    out: TensorSpec | None,
    device: Device,
) -> _Gathering:
    """A gather, whose arguments are checked but for what their memory decides; cached."""
    wanted = checked_mode(mode)
    access, labels = access_of(data, dims, index, place)
    if out is not None:
        check_output_layout(out.layout, out.element, access.sizes, data.element)
        return _Gathering(access, wanted, labels, None, data, out, device)
    allocation = AllocationSpec.of(Layout(access.sizes), data.element, DEFAULT_ALIGNMENT)
    return _Gathering(access, wanted, labels, allocation, data, allocation.spec, device)


def _gathered(
    access_of: _Access,
    data: Operand,
    dims: str | None,
    indices: Operand,
    place: int,
    mode: str,
    out: Operand | None,
    stream: object,
) -> tuple[Operand, str | None]:
    """Check the indices, then gather into a checked `out`, or into new packed memory; also returns the labels."""
    here = data.buffer.device
    if type(mode) is not str:
        checked_mode(mode)
    if indices.buffer.device != here or indices.element.name not in INDEX_TYPES:
        check_index_operand(indices, here)
    if type(place) is not int:
        place = integer("axis" if access_of is not _tuples else "batch_dims", place)
    written, device = None if out is None else out.spec, CPU if here == "cpu" else device_named(here)
    # mypy has no protocol for hashable
    made = _gathering(access_of, data.spec, dims, indices.spec, place, mode, written, device)  # type: ignore[arg-type]
    if out is not None:
        start, end = out.reach
        is_apart = (data.reach[1] <= start or end <= data.reach[0]) and (
            indices.reach[1] <= start or end <= indices.reach[0]
        )
        if not is_apart or out.buffer.readonly or out.buffer.device != here:
            check_output_memory(out, here, data=data, indices=indices)
        target = out
    elif made.allocation is not None:
        target = made.allocation.allocate(made.device, stream)
    direct = made.direct
    if direct is not None and stream is None:
        direct(target.reach[0], data.reach[0], indices.reach[0])
        return target, made.dims
    launch = made.launch or made.prepared()
    made.direct = launch(
        target.buffer,
        target.start_bytes,
        data.buffer,
        data.start_bytes,
        indices.buffer,
        indices.start_bytes,
        stream,
    )
    return target, made.dims
