"""Elements moved on any devices: on one by one launch, or from one to another in pieces.

A transfer has up to three steps: pack a staging buffer on the source's device, copy it, unpack it on
the target's device. Most transfers need fewer. The side that lets fewer bytes be sent does the conversion; if both are
equal, the GPU does. Large tensors are sent in pieces, so that the staging buffers stay small beside them. An upload
packs a piece while those before it are copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.interface import RemoteDevice
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import CPU, device_named, remote_device_named
from stridedgpu.problems.channel_matrix_problem import moving_problem
from stridedgpu.problems.pitched_copy import Runs, runs_of
from stridedgpu.problems.relayout_problem import relayout_problem
from stridedgpu.values.conversion import Conversion, conversion
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import packed_strides
from stridedgpu.values.tensor_spec import TensorSpec

_PIECE_BYTES: Final = 64 * 1024 * 1024
"""Bytes sent at once, to any device: enough to keep a bus busy, little beside a GPU's memory. Not measured."""

_STAGING_ALIGNMENT: Final = 256
"""Bytes: more than any vector access."""

_WIDEST_ELEMENT: Final = 16
"""Bytes of complex128, the largest element."""


def move_elements(
    source: Operand,
    target: Operand,
    conversion: Conversion,
    channel_axis: int | None,
    stream: object = None,
    filler: int = 0,
) -> None:
    """Write `source`, converted, into `target`, on any devices.

    `filler` is the number of zeros after the channels of each pixel; both sides are then on one device. `stream`
    belongs to the target's device, or to the source's if the target is on the CPU. Raises `DeviceError` for a stream if
    both sides are on the CPU. Also raises it, before anything is written, if a device has no memory for the staging
    buffers.
    """
    there = target.buffer.device
    if source.buffer.device == there:
        problem = moving_problem(source.spec, target.spec, conversion, channel_axis, filler)
        launch = (CPU if there == "cpu" else device_named(there)).launch_for(problem)
        launch(source, target, stream)
    elif target.layout.element_count:
        _transfer(source, target, conversion, channel_axis, stream)


@lru_cache(maxsize=32)
def zero_bytes(device: str) -> Buffer:
    """One element of zeros on a device, large enough for any type."""
    zeros = bytes(_WIDEST_ELEMENT)
    return Buffer.of(zeros) if device == "cpu" else remote_device_named(device).uploaded(zeros)


def clear_fillers(buffer: Buffer) -> None:
    """Make the fillers of borrowed memory zero, before its first write; done on return, whatever stream writes then."""
    assert buffer.fillers is not None, "callers look first"
    (layout, element), buffer.fillers = buffer.fillers, None
    zeros = Operand(zero_bytes(buffer.device), Layout(()).broadcast_to(layout.sizes), element)
    move_elements(zeros, Operand(buffer, layout, element), conversion(element, element), None)
    device_named(buffer.device).synchronize()


def _transfer(
    source: Operand, target: Operand, conversion: Conversion, channel_axis: int | None, stream: object = None
) -> None:
    here, there = source.buffer.device, target.buffer.device
    is_mixed = conversion.matrix is not None
    whole = None if is_mixed else runs_of(relayout_problem(source.spec, target.spec, conversion, channel_axis))
    if whole is not None and _is_copied(whole, here, there):
        _copy(source, target, whole, stream)
        return
    steps = _Steps.of(*next(_pieces(source, target, channel_axis, _PIECE_BYTES)))
    staged: _StagedCopy | None = None
    for piece, place in _pieces(source, target, channel_axis, steps.piece_bytes):
        # The first piece is the largest: its staging buffers serve all pieces.
        staged = staged or _StagedCopy.allocated(steps, piece, place, stream)
        staged.move(piece, place, conversion, channel_axis)


def without_repeats(layout: Layout) -> Layout:
    """A layout with each element of its broadcast axes once."""
    sizes = tuple(size if stride else min(size, 1) for size, stride in zip(layout.sizes, layout.strides, strict=True))
    return Layout(sizes, layout.strides, layout.offset)


@dataclass(frozen=True, slots=True)
class _StagingLayout:
    """The packed staging layout of a transfer.

    `stored` has each element of the layout once, in its own memory; `packed` is the same elements in the staging
    buffer; `view` is the layout's own coordinates over the staging buffer.
    """

    stored: Layout
    packed: Layout
    view: Layout

    @classmethod
    def of(cls, layout: Layout) -> _StagingLayout:
        """Broadcast elements are sent once; for overlapping windows the whole span is sent."""
        stored = without_repeats(layout)
        once = stored.sizes
        if stored.has_overlap:
            span = Layout((layout.span,), (1,), layout.first_offset)
            return cls(span, Layout((layout.span,)), layout.shifted(-layout.first_offset))
        # The source's own order and directions, so that a dense source needs no packing.
        order = sorted(range(layout.ndim), key=lambda axis: -abs(stored.strides[axis]))
        steps = packed_strides(once, order)
        signed = tuple(-step if stride < 0 else step for step, stride in zip(steps, stored.strides, strict=True))
        packed = Layout(once, signed)
        packed = packed.shifted(-packed.first_offset)
        return cls(stored, packed, packed.broadcast_to(layout.sizes))


@dataclass(frozen=True, slots=True)
class _Steps:
    """A transfer's steps: whether it converts before sending (`early`), and whether a staging buffer is packed."""

    early: bool
    packs: bool
    here: str
    there: str

    @classmethod
    def of(cls, source: Operand, target: Operand) -> _Steps:
        here, there = source.buffer.device, target.buffer.device
        after, before = _stored_bytes(target), _stored_bytes(source)
        early = after < before or (after == before and there == "cpu")
        carried = target if early else source
        carrier = _StagingLayout.of(carried.layout)
        ends = (carrier.packed, carrier.stored) if early else (carrier.stored, carrier.packed)
        return cls(early, not _is_copied(_runs(*ends, _opaque(carried)), here, there), here, there)

    @property
    def bus(self) -> RemoteDevice:
        return _bus(self.here, self.there)

    @property
    def is_lent(self) -> bool:
        """Whether the bus lends a staging buffer for each piece, which is copied while the next one is packed."""
        return self.here == "cpu" and (self.early or self.packs)

    @property
    def piece_bytes(self) -> int:
        return min(self.bus.upload_bytes, _PIECE_BYTES) if self.is_lent else _PIECE_BYTES


@dataclass(frozen=True, slots=True)
class _StagedCopy:
    """A transfer's steps, and the staging buffers that serve all of its pieces."""

    steps: _Steps
    near: Buffer | None
    far: Buffer | None
    stream: object

    @classmethod
    def allocated(cls, steps: _Steps, source: Operand, target: Operand, stream: object) -> _StagedCopy:
        """Allocate the staging buffers for the largest piece."""
        nbytes = _stored_bytes(target if steps.early else source)
        here, there = steps.here, steps.there
        packs_here = (steps.early or steps.packs) and not steps.is_lent
        near = _allocate(nbytes, here, steps.bus, stream if there == "cpu" else None) if packs_here else None
        far = _allocate(nbytes, there, steps.bus, stream) if steps.packs or not steps.early else None
        return cls(steps, near, far, stream)

    def move(self, source: Operand, target: Operand, conversion: Conversion, channel_axis: int | None) -> None:
        if not self.steps.is_lent:
            self._move(self.near, source, target, conversion, channel_axis)
            return
        with self.steps.bus.staging(_stored_bytes(target if self.steps.early else source)) as near:
            self._move(near, source, target, conversion, channel_axis)

    def _move(
        self, packed: Buffer | None, source: Operand, target: Operand, conversion: Conversion, channel_axis: int | None
    ) -> None:
        """Pack one piece into `packed`, unless there is none, copy it, and unpack it."""
        early = self.steps.early
        near_stream, far_stream = (self.stream, None) if self.steps.there == "cpu" else (None, self.stream)
        carried = target if early else source
        carrier, opaque = _StagingLayout.of(carried.layout), _opaque(carried)
        stored = carried.with_layout(carrier.stored)
        near = stored if packed is None else Operand(packed, carrier.packed, carried.element)
        far = stored if self.far is None else Operand(self.far, carrier.packed, carried.element)
        if early:
            move_elements(source, near, conversion, channel_axis, near_stream)
        elif packed is not None:
            move_elements(stored, near, opaque, None, near_stream)
        _copy(near, far, _runs(near.layout, far.layout, opaque), self.stream)
        if not early:
            move_elements(far.with_layout(carrier.view), target, conversion, channel_axis, far_stream)
        elif self.far is not None:
            move_elements(far, target, opaque, None, far_stream)


def _pieces(source: Operand, target: Operand, channel_axis: int | None, most: int) -> Iterator[tuple[Operand, Operand]]:
    """Corresponding parts of both sides, the largest first, cut along the target's outer axes except the channels.

    Each sends up to `most` bytes, unless it cannot be cut.
    """
    nbytes = min(_stored_bytes(source), _stored_bytes(target))
    layout = target.layout
    axes = [axis for axis, size in enumerate(layout.sizes) if size > 1 and axis != channel_axis]
    if nbytes <= most or not axes:
        yield source, target
        return
    axis = max(axes, key=lambda candidate: abs(layout.strides[candidate]))
    step = max(1, layout.sizes[axis] * most // nbytes)
    for start in range(0, layout.sizes[axis], step):
        yield from _pieces(_part(source, axis, start, step), _part(target, axis, start, step), channel_axis, most)


def _part(operand: Operand, axis: int, start: int, step: int) -> Operand:
    """A range of indices along one axis; the gaps between its elements belong to the other parts."""
    part = operand.layout.sliced((slice(None),) * axis + (slice(start, start + step),))
    return operand.with_layout(part)


def _stored_bytes(operand: Operand) -> int:
    """The bytes that a transfer of this operand sends."""
    return _StagingLayout.of(operand.layout).packed.span * operand.element.itemsize


def _opaque(operand: Operand) -> Conversion:
    return conversion(operand.element, operand.element)


def _runs(source: Layout, target: Layout, opaque: Conversion) -> Runs:
    """The runs of a copy between two layouts of one type and equal sizes."""
    read, written = (TensorSpec.of(layout, opaque.source, base_alignment=1) for layout in (source, target))
    runs = runs_of(relayout_problem(read, written, opaque, None))
    assert runs is not None, "bits move in runs, however short"
    return runs


def _is_copied(runs: Runs, here: str, there: str) -> bool:
    """True if a copy engine does the runs: between GPUs a single run, to and from the CPU any worthwhile ones."""
    return runs.is_worthwhile if "cpu" in (here, there) else runs.is_one_run


def _copy(source: Operand, target: Operand, runs: Runs, stream: object) -> None:
    bus = _bus(source.buffer.device, target.buffer.device)
    bus.copy(source.buffer, source.start_bytes, target.buffer, target.start_bytes, runs, stream)


def _bus(here: str, there: str) -> RemoteDevice:
    return remote_device_named(here if there == "cpu" else there)


def _allocate(nbytes: int, device: str, bus: RemoteDevice, stream: object) -> Buffer:
    if device == "cpu":
        return bus.allocate_staging(nbytes)
    return device_named(device).allocate(nbytes, _STAGING_ALIGNMENT, stream)
