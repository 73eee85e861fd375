"""Moving elements, on one device or from one to another: which side converts, and what crosses the bus.

Between devices a move has three steps, of which most fall away: pack a carrier on the source's device, copy it,
unpack it on the target's device. The conversion is done on whichever side lets fewer bytes cross, on the GPU where
both are equal. Large tensors cross in pieces, so that the carriers stay small beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.interface import Device, RelayoutLaunch, RemoteDevice
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import backend_named, remote_backend_named
from stridedgpu.planning.pitched_copy import Runs, runs_of
from stridedgpu.planning.relayout_problem import relayout_problem
from stridedgpu.values.conversion import Conversion, conversion
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import packed_strides
from stridedgpu.values.tensor_spec import TensorSpec

__all__ = ["launch_for", "move_elements", "zero_bytes"]

_PIECE_BYTES: Final = 64 * 1024 * 1024
"""Bytes that cross at once: enough for a bus to be busy, little beside a GPU's memory."""

_WIDEST_ELEMENT: Final = 16
"""Bytes of complex128."""

_STAGING_ALIGNMENT: Final = 256
"""Bytes: more than any vector."""


def move_elements(
    source: Operand,
    target: Operand,
    made: Conversion,
    channel_axis: int | None,
    stream: object = None,
    filler: int = 0,
) -> None:
    """Make `target` what `made` makes of `source`, on whatever devices they are.

    `filler` is how many zeros go behind the channels of each pixel, where both are on one device. `stream` is one of
    the target's device, or of the source's where the target is on the CPU. Raises `DeviceError` for a stream on the CPU
    alone, and before anything is written when a device has no memory for the carriers.
    """
    here, there = source.buffer.device, target.buffer.device
    if here == there:
        _move_on_device(source, target, made, channel_axis, stream, filler)
        return
    if target.layout.element_count == 0:
        return
    whole = runs_of(relayout_problem(source.spec, target.spec, made, channel_axis))
    if whole is not None and _is_copied(whole, here, there):
        _copy(source, target, whole, stream)
        return
    crossing: _StagedCopy | None = None
    for piece, place in _pieces(source, target, channel_axis):
        # The first piece is the largest: its carriers serve all.
        crossing = crossing or _StagedCopy.planned(piece, place, stream)
        crossing.move(piece, place, made, channel_axis)


@cache
def zero_bytes(device: str) -> Buffer:
    """One element's worth of zeros on a device, whatever its type."""
    zeros = Buffer.of(bytes(_WIDEST_ELEMENT))
    if device == "cpu":
        return zeros
    bus = remote_backend_named(device)
    buffer = bus.allocate(_WIDEST_ELEMENT, _WIDEST_ELEMENT)
    bus.copy(zeros, 0, buffer, 0, Runs(_WIDEST_ELEMENT), None)
    return buffer


@dataclass(frozen=True, slots=True)
class _StagingLayout:
    """How the elements of a layout travel.

    `stored` is each of them once, where they are; `packed` is where in the carrier they go; `view` is the layout's own
    coordinates over the carrier.
    """

    stored: Layout
    packed: Layout
    view: Layout

    @classmethod
    def of(cls, layout: Layout) -> _StagingLayout:
        """Repeated elements travel once; windows that overlap travel with all that they span."""
        once = tuple(
            size if stride else min(size, 1) for size, stride in zip(layout.sizes, layout.strides, strict=True)
        )
        stored = Layout(once, layout.strides, layout.offset)
        if stored.has_overlap:
            span = Layout((layout.span,), (1,), layout.first_offset)
            return cls(span, Layout((layout.span,)), layout.shifted(-layout.first_offset))
        # The source's own order and directions, so that what is dense already needs no packing.
        order = sorted(range(layout.ndim), key=lambda axis: -abs(stored.strides[axis]))
        steps = packed_strides(once, order)
        signed = tuple(-step if stride < 0 else step for step, stride in zip(steps, stored.strides, strict=True))
        packed = Layout(once, signed)
        packed = packed.shifted(-packed.first_offset)
        return cls(stored, packed, packed.broadcast_to(layout.sizes))


@dataclass(frozen=True, slots=True)
class _StagedCopy:
    """How elements cross: converted before (`early`) or after, through a buffer on either side where one is needed."""

    early: bool
    near: Buffer | None
    far: Buffer | None
    stream: object

    @classmethod
    def planned(cls, source: Operand, target: Operand, stream: object) -> _StagedCopy:
        """Choose the side that converts, and allocate."""
        here, there = source.buffer.device, target.buffer.device
        after, before = _stored_bytes(target), _stored_bytes(source)
        early = after < before or (after == before and there == "cpu")
        carried = target if early else source
        carrier = _StagingLayout.of(carried.layout)
        nbytes = carrier.packed.span * carried.element.itemsize
        ends = (carrier.packed, carrier.stored) if early else (carrier.stored, carrier.packed)
        packs = not _is_copied(_runs(*ends, _opaque(carried)), here, there)
        bus = _bus(here, there)
        near = _allocate(nbytes, here, bus, stream if there == "cpu" else None) if early or packs else None
        far = _allocate(nbytes, there, bus, stream) if packs or not early else None
        return cls(early, near, far, stream)

    def move(self, source: Operand, target: Operand, made: Conversion, channel_axis: int | None) -> None:
        """Move one piece."""
        downloads = target.buffer.device == "cpu"
        near_stream, far_stream = (self.stream, None) if downloads else (None, self.stream)
        carried = target if self.early else source
        carrier, opaque = _StagingLayout.of(carried.layout), _opaque(carried)
        stored = carried.with_layout(carrier.stored)
        near = stored if self.near is None else Operand(self.near, carrier.packed, carried.element)
        far = stored if self.far is None else Operand(self.far, carrier.packed, carried.element)
        if self.early:
            _move_on_device(source, near, made, channel_axis, near_stream)
        elif self.near is not None:
            _move_on_device(stored, near, opaque, None, near_stream)
        _copy(near, far, _runs(near.layout, far.layout, opaque), self.stream)
        if not self.early:
            _move_on_device(far.with_layout(carrier.view), target, made, channel_axis, far_stream)
        elif self.far is not None:
            _move_on_device(far, target, opaque, None, far_stream)


def _move_on_device(
    source: Operand,
    target: Operand,
    made: Conversion,
    channel_axis: int | None,
    stream: object,
    filler: int = 0,
) -> None:
    """Plan, and run."""
    backend = backend_named(target.buffer.device)
    # mypy holds no protocol for hashable
    launch = launch_for(source.spec, target.spec, made, channel_axis, backend, filler)  # type: ignore[arg-type]
    launch(source.buffer, source.start_bytes, target.buffer, target.start_bytes, stream)


@lru_cache(maxsize=4096)
def launch_for(
    source: TensorSpec,
    target: TensorSpec,
    made: Conversion,
    channel_axis: int | None,
    backend: Device,
    filler: int = 0,
) -> RelayoutLaunch:
    """A plan made ready on a device; one that was, is."""
    return backend.prepare(backend.plan(relayout_problem(source, target, made, channel_axis, filler)))


def _pieces(source: Operand, target: Operand, channel_axis: int | None) -> Iterator[tuple[Operand, Operand]]:
    """Corresponding parts of both sides, the largest first, cut along the target's outer axes but not the channels."""
    nbytes = min(_stored_bytes(source), _stored_bytes(target))
    layout = target.layout
    axes = [axis for axis, size in enumerate(layout.sizes) if size > 1 and axis != channel_axis]
    if nbytes <= _PIECE_BYTES or not axes:
        yield source, target
        return
    axis = max(axes, key=lambda candidate: abs(layout.strides[candidate]))
    step = max(1, layout.sizes[axis] * _PIECE_BYTES // nbytes)
    for start in range(0, layout.sizes[axis], step):
        yield from _pieces(_part(source, axis, start, step), _part(target, axis, start, step), channel_axis)


def _part(operand: Operand, axis: int, start: int, step: int) -> Operand:
    """Some indices along one axis; what lies between the elements belongs to the other parts."""
    part = operand.layout.sliced((slice(None),) * axis + (slice(start, start + step),))
    return operand.with_layout(part)


def _stored_bytes(operand: Operand) -> int:
    """The bytes that must be sent to have this operand's elements elsewhere."""
    return _StagingLayout.of(operand.layout).packed.span * operand.element.itemsize


def _opaque(operand: Operand) -> Conversion:
    """No conversion."""
    return conversion(operand.element, operand.element)


def _runs(source: Layout, target: Layout, opaque: Conversion) -> Runs:
    """The runs of a copy between two layouts of one type and equal sizes."""
    read, written = (TensorSpec.of(layout, opaque.source, base_alignment=1) for layout in (source, target))
    runs = runs_of(relayout_problem(read, written, opaque, None))
    assert runs is not None, "bits move in runs, however short"
    return runs


def _is_copied(runs: Runs, here: str, there: str) -> bool:
    """Whether runs are left to the copy engine: between GPUs it takes one, to and from the CPU what it does well."""
    return runs.is_worthwhile if "cpu" in (here, there) else runs.is_one_run


def _copy(source: Operand, target: Operand, runs: Runs, stream: object) -> None:
    """Send runs of bytes."""
    bus = _bus(source.buffer.device, target.buffer.device)
    bus.copy(source.buffer, source.start_bytes, target.buffer, target.start_bytes, runs, stream)


def _bus(here: str, there: str) -> RemoteDevice:
    """The device that sends or receives."""
    return remote_backend_named(here if there == "cpu" else there)


def _allocate(nbytes: int, device: str, bus: RemoteDevice, stream: object) -> Buffer:
    """Memory for a carrier."""
    if device == "cpu":
        return bus.allocate_staging(nbytes)
    return backend_named(device).allocate(nbytes, _STAGING_ALIGNMENT, stream)
