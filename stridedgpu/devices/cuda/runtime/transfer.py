"""Copies between a CUDA device and the CPU or another CUDA device, and the page-locked memory that they go through.

    source, pageable   ->   pieces of the ring   ->   target, on the device
            CPU's worker pool           copy engine, in stream order

Uploads fill a piece of the ring while the copy engine reads those before it; on return the source may be changed.
Memory that is page-locked already is read where it lies, and waited for. Records of launches go through a ring of their
own, without a wait; a captured graph copies them anew at every replay, from memory that is never freed.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from ctypes import memmove
from itertools import accumulate, product
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import cupy
import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.buffer import Buffer, address_of
from stridedgpu.devices.cpu.device import CpuDevice
from stridedgpu.devices.cuda.policy import policy
from stridedgpu.devices.interface import Launch, Located
from stridedgpu.devices.launch_cache import cached_launches, settings
from stridedgpu.devices.verbose import is_verbose, upload_line
from stridedgpu.problems.pitched_copy import Runs
from stridedgpu.problems.relayout_problem import relayout_problem
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .kernels import PreparedKernel
from .streams import check_not_capturing, current_on, relaxed_capture, stream_handle, wait_for_stream

if TYPE_CHECKING:
    from .device import CudaDevice

_ALIGNMENT: Final = 256
"""Bytes: CuPy's pool of page-locked memory cuts blocks of 512."""


class Piece:
    """Page-locked memory, and the handle of the event behind the copies that read it."""

    __slots__ = ("_copied", "_memory", "address", "bytes", "event", "nbytes")

    def __init__(self, nbytes: int) -> None:
        """Allocate on the current device; no copy reads it yet. Raises CuPy's errors without such memory."""
        self._memory: Any = cupy.cuda.alloc_pinned_memory(nbytes)
        self._copied: Any = cupy.cuda.Event(disable_timing=True)
        self.address: int = self._memory.ptr
        self.event: int = self._copied.ptr
        self.nbytes = nbytes
        self.bytes = Buffer.trusted(self.address, nbytes, self._memory).bytes

    def buffer(self, nbytes: int) -> Buffer:
        """The first bytes of the piece, which own it."""
        return Buffer.trusted(self.address, nbytes, self, _ALIGNMENT, owned=True)

    def sent(self, handle: int) -> None:
        """Record that the copies queued so far on the stream read this piece."""
        cupy.cuda.runtime.eventRecord(self.event, handle)

    def wait(self) -> None:
        """Wait for the copies that read the piece."""
        cupy.cuda.runtime.eventSynchronize(self.event)


class PinnedRing:
    """The pieces of one device, up to `most` of them; a piece has `least_bytes` or the next larger power of two."""

    def __init__(self, most: int, least_bytes: int) -> None:
        """Nothing is allocated before the first piece is taken."""
        self._most = most
        self._least_bytes = least_bytes
        self._count = 0
        self._idle: deque[Piece] = deque()
        """The pieces that nobody fills, in the order in which they were sent."""
        self._lock = threading.Lock()
        self._returned = threading.Condition(self._lock)
        self._waiting = 0
        """Threads that wait for a piece."""

    def take(self, nbytes: int) -> Piece | None:
        """A piece of at least `nbytes`, for this caller alone until `give`; None where no such memory can be had.

        The ring's device is current. The host waits for a copy only if all pieces are queued, and for another thread
        only if all pieces are being filled.
        """
        while True:
            piece, is_free = self._idle_piece()
            if piece is None:
                try:
                    return self._new(nbytes)
                except _NO_MEMORY:
                    if not self._has_others():
                        return None
            else:
                try:
                    if not is_free:
                        piece.wait()
                    return piece if piece.nbytes >= nbytes else self._new(nbytes)
                except BaseException as error:
                    self.give(piece)
                    if isinstance(error, _NO_MEMORY):
                        return None
                    raise

    def give(self, piece: Piece) -> None:
        """Give a piece back; it is taken again after its copies."""
        with self._lock:
            self._idle.append(piece)
            if self._waiting:
                self._returned.notify()

    def _idle_piece(self) -> tuple[Piece | None, bool]:
        """The piece that was sent longest ago, and whether its copies are done; None, and counted, for a new one."""
        with self._lock:
            while not self._idle and self._count == self._most:
                self._waiting += 1
                self._returned.wait()
                self._waiting -= 1
            is_full = self._count == self._most
            if self._idle and (is_full or not cupy.cuda.runtime.eventQuery(self._idle[0].event)):
                return self._idle.popleft(), not is_full
            self._count += 1
            return None, True

    def _new(self, nbytes: int) -> Piece:
        return Piece(max(self._least_bytes, 1 << (nbytes - 1).bit_length()))

    def _has_others(self) -> bool:
        """Whether there are pieces beside the one that could not be made; then no other new one is tried for."""
        with self._lock:
            self._count -= 1
            self._returned.notify()
            self._most = self._count or self._most
            return self._count > 0


_NO_MEMORY: Final = (cupy.cuda.runtime.CUDARuntimeError, MemoryError)
"""CuPy's errors where no page-locked memory is left."""

FROM_OR_TO_THE_HOST: Final = "A copy between the CPU and a CUDA device"
"""What a refusal under capture calls it."""

_STAGING_ALIGNMENT = 64
"""Bytes: a cache line of the processor that packs there."""


def device_number(device: str) -> int:
    """The number in "cuda:N"."""
    return int(device.removeprefix("cuda:"))


def allocate_pinned(nbytes: int) -> Buffer:
    """Page-locked bytes on the CPU, for direct access by the copy engine; pageable bytes if none are left.

    They come from CuPy's pool of pinned memory. Release them only after all copies that use them.
    """
    try:
        memory = cupy.cuda.alloc_pinned_memory(nbytes)
    except (cupy.cuda.runtime.CUDARuntimeError, MemoryError):
        return CpuDevice().allocate(nbytes, _STAGING_ALIGNMENT)
    return Buffer(memory.ptr, nbytes, owner=memory, owned=True)


def copy_with_host(
    source: Buffer, source_start: int, target: Buffer, target_start: int, runs: Runs, stream: object
) -> None:
    """Copy runs between the CPU and a device, in stream order, and wait for completion.

    After the return the caller may change an uploaded source and read a downloaded target, and any stream may read an
    uploaded target.
    """
    uploads = source.device == "cpu"
    number = device_number(target.device if uploads else source.device)
    with cupy.cuda.Device(number), cuda_failures(source.device, target.device):
        handle = stream_handle(stream, number)
        check_not_capturing(handle, FROM_OR_TO_THE_HOST)
        copy_runs(source.address + source_start, target.address + target_start, runs, handle, uploads=uploads)
        cupy.cuda.runtime.streamSynchronize(handle)


def copy_runs(read: int, written: int, runs: Runs, handle: int, *, uploads: bool) -> None:
    """Queue the copies of runs between the CPU and the current device; both addresses are those of the first place."""
    runtime = cupy.cuda.runtime
    kind = runtime.memcpyHostToDevice if uploads else runtime.memcpyDeviceToHost
    width, height = runs.width, runs.height
    for source_place, target_place in runs.places:
        source, target = read + source_place, written + target_place
        if height == 1:
            runtime.memcpyAsync(target, source, width, kind, handle)
        else:
            runtime.memcpy2DAsync(target, runs.target_pitch, source, runs.source_pitch, width, height, kind, handle)


def copy_between_devices(
    source: Buffer, source_start: int, target: Buffer, target_start: int, nbytes: int, stream: object
) -> None:
    """Copy one run to another CUDA device, after the earlier work of the source's current stream.

    `stream` is on the target's device, and continues after the copy. The driver copies peer to peer if the devices
    support it, else through the host.
    """
    there, here = device_number(target.device), device_number(source.device)
    with cuda_failures(source.device, target.device):
        handle = stream_handle(stream, there)
        check_not_capturing(handle, "A copy between CUDA devices")
        wait_for_stream(there, handle, stream_handle(None, here), producer_device=here)
        with cupy.cuda.Device(there):
            cupy.cuda.runtime.memcpyPeerAsync(
                target.address + target_start, there, source.address + source_start, here, nbytes, handle
            )
        # The source may be freed and reused on its own stream, which must therefore wait for the copy.
        wait_for_stream(here, stream_handle(None, here), handle, producer_device=there)


@contextmanager
def cuda_failures(source: str, target: str) -> Iterator[None]:
    """CUDA's errors as this library's."""
    try:
        yield
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(f"The copy from {source} to {target} failed: {error}.") from error


_captured: Final[list[tuple[Any, Any]]] = []
"""Memory that graphs copy from, and to, for the life of the process."""

Recorder = Callable[[PreparedKernel, NDArray[np.uint8], int, Located, object], None]
"""What receives the arguments of `Records.launch`, in the place of the launch."""


class Records:
    """The ring of one device."""

    def __init__(self, gpu: CudaDevice, number: int) -> None:
        """Nothing is allocated before the first send."""
        self._gpu = gpu
        self._number = number
        limits = policy().memory
        self._ring = PinnedRing(limits.pieces, limits.piece_bytes)
        self._of_thread = threading.local()

    def launch(
        self, kernel: PreparedKernel, contents: NDArray[np.uint8], step: int, target: Located, stream: object
    ) -> None:
        """Run a kernel that reads these bytes; in a thread whose launches are recorded, hand all to its recorder.

        The bytes begin with a record of `step` bytes for each sample, which begins with three addresses in its source.
        """
        recorder: Recorder | None = getattr(self._of_thread, "recorder", None)
        if recorder is None:
            kernel(self.sent(contents, stream), 0, *target, stream)
        else:
            recorder(kernel, contents, step, target, stream)

    @contextmanager
    def recorded_by(self, recorder: Recorder) -> Iterator[None]:
        """Hand this thread's launches to `recorder`, inside the block."""
        self._of_thread.recorder = recorder
        try:
            yield
        finally:
            self._of_thread.recorder = None

    def sent(self, contents: NDArray[np.uint8], stream: object) -> Buffer:
        """Device memory with these bytes, for later work of the stream."""
        with current_on(self._number, stream) as handle:
            if cupy.cuda.runtime.streamIsCapturing(handle):
                return self._sent_at_replays(contents, handle)
            there = self._gpu.allocate(contents.nbytes, _ALIGNMENT)
            self.write(there.address, contents, handle)
            return there

    def write(self, address: int, contents: NDArray[np.uint8], handle: int) -> None:
        """Copy bytes to an address of the device, in stream order; they may be changed on return."""
        piece = self._ring.take(contents.nbytes)
        if piece is None:  # of pageable memory CUDA takes a copy of its own before it returns
            _copy(address, address_of(contents), contents.nbytes, handle)
            return
        try:
            piece.bytes[: contents.nbytes] = contents
            _copy(address, piece.address, contents.nbytes, handle)
            piece.sent(handle)
        finally:
            self._ring.give(piece)

    def _sent_at_replays(self, contents: NDArray[np.uint8], handle: int) -> Buffer:
        """Memory of a graph's own on both sides. CuPy's pool might hand out what earlier work still uses."""
        with relaxed_capture():
            near = cupy.cuda.alloc_pinned_memory(contents.nbytes)
            there = cupy.cuda.Memory(contents.nbytes)
        memmove(near.ptr, address_of(contents), contents.nbytes)
        _captured.append((near, there))
        _copy(there.ptr, near.ptr, contents.nbytes, handle)
        return Buffer(there.ptr, contents.nbytes, owner=there, device=f"cuda:{self._number}")


def _copy(target: int, source: int, nbytes: int, handle: int) -> None:
    """Copy from page-locked memory, in stream order."""
    cupy.cuda.runtime.memcpyAsync(target, source, nbytes, cupy.cuda.runtime.memcpyHostToDevice, handle)


_STEP: Final = 64
"""Bytes: each run of a piece begins at a cache line of the processor that fills it."""

_UNREGISTERED: Final = 0
"""`cudaMemoryTypeUnregistered`: pageable memory."""


class Uploads:
    """The uploads to one device, and their ring."""

    def __init__(self, number: int) -> None:
        """Nothing is allocated before the first upload."""
        limits = policy().memory
        self._number = number
        self._name = f"cuda:{number}"
        self.piece_bytes = limits.upload_bytes
        self._ring = PinnedRing(limits.uploads, limits.least_upload_bytes)

    def send(
        self, source: Buffer, source_start: int, target: Buffer, target_start: int, runs: Runs, stream: object
    ) -> None:
        """Copy runs from the CPU, in stream order; the source may be changed on return."""
        start = perf_counter_ns()
        way = self._sent(source, source_start, target, target_start, runs, stream)
        if is_verbose():
            spent = perf_counter_ns() - start
            nbytes = runs.width * runs.height * runs.copies
            sys.stderr.write(upload_line(self._name, way, nbytes, spent / 1000) + "\n")

    @contextmanager
    def staging(self, nbytes: int) -> Iterator[Buffer]:
        """A piece of the ring to fill and send; where it is too small, or there is none, memory of its own."""
        piece = None
        if nbytes <= self.piece_bytes:
            with cupy.cuda.Device(self._number):
                piece = self._ring.take(nbytes)
        if piece is None:
            yield allocate_pinned(nbytes)
            return
        try:
            yield piece.buffer(nbytes)
        finally:
            self._ring.give(piece)

    def _sent(
        self, source: Buffer, source_start: int, target: Buffer, target_start: int, runs: Runs, stream: object
    ) -> str:
        """Copy, and name the way that the bytes took."""
        read, written = source.address + source_start, target.address + target_start
        with cupy.cuda.Device(self._number), cuda_failures(source.device, target.device):
            handle = stream_handle(stream, self._number)
            check_not_capturing(handle, FROM_OR_TO_THE_HOST)
            if isinstance(source.owner, Piece):
                try:
                    copy_runs(read, written, runs, handle, uploads=True)
                finally:
                    source.owner.sent(handle)
                return "staged"
            is_pageable = cupy.cuda.runtime.pointerGetAttributes(read).type == _UNREGISTERED
            groups = _groups(runs, self.piece_bytes) if is_pageable else ()
            if is_pageable and all(self._sent_together(source, source_start, written, one, handle) for one in groups):
                return "pinned_ring"
        copy_with_host(source, source_start, target, target_start, runs, stream)
        return "pageable" if is_pageable else "page_locked"

    def _sent_together(
        self, source: Buffer, source_start: int, target: int, rectangles: list[_Rectangle], handle: int
    ) -> bool:
        """Send rectangles by one piece; False, and nothing is sent, if there is none."""
        *offsets, nbytes = accumulate((_stepped(one.width * one.height) for one in rectangles), initial=0)
        piece = self._ring.take(nbytes)
        if piece is None:
            return False
        try:
            for one, offset in zip(rectangles, offsets, strict=True):
                _fill(piece.buffer(nbytes), offset, source, source_start + one.read, one)
            try:
                for one, offset in zip(rectangles, offsets, strict=True):
                    packed = Runs(one.width, one.height, one.width, one.target_pitch)
                    copy_runs(piece.address + offset, target + one.written, packed, handle, uploads=True)
            finally:
                piece.sent(handle)
        finally:
            self._ring.give(piece)
        return True


class _Rectangle(NamedTuple):
    """`height` runs of `width` bytes; where they begin on each side, and their pitches there."""

    read: int
    written: int
    width: int
    height: int = 1
    source_pitch: int = 0
    target_pitch: int = 0


def _groups(runs: Runs, most: int) -> Iterator[list[_Rectangle]]:
    """The runs as rectangles, in groups of up to `most` bytes, a multiple of the step."""
    group: list[_Rectangle] = []
    nbytes = 0
    for one in _rectangles(runs, most):
        size = _stepped(one.width * one.height)
        if group and nbytes + size > most:
            yield group
            group, nbytes = [], 0
        group.append(one)
        nbytes += size
    yield group


def _rectangles(runs: Runs, most: int) -> Iterator[_Rectangle]:
    width, height, pitches = runs.width, runs.height, (runs.source_pitch, runs.target_pitch)
    if width <= most:
        rows = min(height, most // width)
        for read, written in runs.places:
            for row in range(0, height, rows):
                start = read + row * pitches[0], written + row * pitches[1]
                yield _Rectangle(*start, width, min(rows, height - row), *pitches)
        return
    for read, written in runs.places:
        for row, column in product(range(height), range(0, width, most)):
            begins = read + row * pitches[0] + column, written + row * pitches[1] + column
            yield _Rectangle(*begins, min(most, width - column))


def _stepped(nbytes: int) -> int:
    """Bytes up to the next step."""
    return nbytes + -nbytes % _STEP


def _fill(target: Buffer, target_start: int, source: Buffer, source_start: int, runs: _Rectangle) -> None:
    """Pack runs into a piece; Python's lock is released."""
    if runs.height == 1 and runs.width < policy().memory.filled_alone_bytes:
        memmove(target.address + target_start, source.address + source_start, runs.width)
        return
    pack = _packing(runs.width, runs.height, runs.source_pitch, settings())
    pack(source, source_start, target, target_start, None)


@cached_launches
def _packing(width: int, height: int, pitch: int, *_settings: Hashable) -> Launch:
    """The launch of the CPU's loops that pack runs of bytes, by its worker pool."""
    byte = ELEMENT_TYPES["uint8"]
    pitched = Layout((width,)) if height == 1 else Layout((height, width), (pitch, 1))
    source = TensorSpec.of(pitched, byte, base_alignment=1)
    target = TensorSpec.of(Layout(pitched.sizes), byte, base_alignment=_STEP)
    return _CPU.prepare(_CPU.plan(relayout_problem(source, target, conversion(byte, byte), None)))


_CPU: Final = CpuDevice()
