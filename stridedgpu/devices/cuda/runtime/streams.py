"""Streams: handles of whatever a caller calls a stream, and the order of work between them."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any, Final

import cupy

from stridedgpu.values.errors import DeviceError

__all__ = [
    "LEGACY_STREAM",
    "check_not_capturing",
    "context_of_thread",
    "current_on",
    "stream_handle",
    "wait_for_stream",
]

LEGACY_STREAM: Final = 1
"""The default stream's handle where 0 could be mistaken for "none", as in DLPack and the CUDA Array Interface."""


def stream_handle(stream: object, device: int) -> int:
    """The `cudaStream_t`, as an integer, of `stream=` on the device with that number; None is CuPy's current stream.

    Raises `DeviceError` for anything but None, an integer handle or an object with `__cuda_stream__` (CuPy's,
    cuda.core's and newer PyTorch's streams).
    """
    if stream is None:
        current: int = cupy.cuda.get_current_stream(device).ptr
        return current
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream
    protocol: Any = getattr(stream, "__cuda_stream__", None)
    if protocol is None:
        raise DeviceError(
            f"stream={stream!r} is neither an integer handle nor a stream with __cuda_stream__, as CuPy's have; "
            "of a PyTorch stream without it, pass .cuda_stream."
        )
    # A method, or in the protocol's first form the pair itself.
    _, handle = protocol() if callable(protocol) else protocol
    return int(handle)


class current_on:  # noqa: N801 - a context manager, as `contextlib.suppress` is
    """Make the device and the stream CuPy's current ones, for allocations to be ordered on it; `as` is the handle.

    Mostly they are current already, and nothing is entered or left.
    """

    __slots__ = ("_device", "_entered", "_stream")

    def __init__(self, device: int, stream: object) -> None:
        """None is CuPy's current stream of the device."""
        self._device = device
        self._stream = stream
        self._entered: ExitStack | None = None

    def __enter__(self) -> int:
        """The stream's handle. Raises `DeviceError` for what is no stream."""
        if self._stream is None and cupy.cuda.runtime.getDevice() == self._device:
            current: int = cupy.cuda.get_current_stream().ptr
            return current
        with ExitStack() as entered:
            entered.enter_context(cupy.cuda.Device(self._device))
            handle = stream_handle(self._stream, self._device)
            if handle != cupy.cuda.get_current_stream().ptr:
                entered.enter_context(cupy.cuda.Stream.from_external(_Handle(handle)))
            self._entered = entered.pop_all()
        return handle

    def __exit__(self, *failure: object) -> None:
        """Back to the device and the stream from before."""
        if self._entered is not None:
            self._entered.close()


def wait_for_stream(device: int, handle: int, producer: int, *, producer_device: int | None = None) -> None:
    """Let what follows on stream `handle` of a device start after what stream `producer` has been given so far.

    The host does not wait. `producer_device` is None where both streams are of one device.
    """
    there = device if producer_device is None else producer_device
    if there == device and (handle or LEGACY_STREAM) == (producer or LEGACY_STREAM):
        return
    runtime = cupy.cuda.runtime
    with cupy.cuda.Device(there):
        event = cupy.cuda.Event(disable_timing=True)
        runtime.eventRecord(event.ptr, producer)
    with cupy.cuda.Device(device):
        runtime.streamWaitEvent(handle, event.ptr)


def check_not_capturing(handle: int, work: str) -> None:
    """Raise `DeviceError` while the stream is recording a CUDA graph, which `work` cannot be part of.

    The default stream waits for every stream that was not made non-blocking: while one of these records, CUDA refuses
    even to be asked.
    """
    try:
        capturing = cupy.cuda.runtime.streamIsCapturing(handle)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(
            f"{work} cannot be had while a stream that the default one waits for is captured into a CUDA graph; "
            f"capture on a stream made with non_blocking=True ({error})."
        ) from error
    if capturing:
        raise DeviceError(
            f"{work} cannot be captured into a CUDA graph; capture plans with out= on one device, made before."
        )


def context_of_thread(device: int) -> None:
    """Bind the device's context to this thread, which kernel launches need and CuPy does only in its own calls."""
    bound = getattr(_threads, "bound", None)
    if bound is None:
        bound = _threads.bound = set()
    if device not in bound:
        with cupy.cuda.Device(device):
            cupy.cuda.runtime.memGetInfo()
        bound.add(device)


_threads: Final = threading.local()


class _Handle:
    """An integer handle as the object that CuPy makes a stream from, without owning it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        """Version 0 of the protocol, and the handle."""
        return 0, self._handle
