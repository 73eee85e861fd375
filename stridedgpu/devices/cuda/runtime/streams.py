"""Streams: the handle of any stream object, the order of work between streams, and captures into graphs.

`stream=None` is CuPy's current stream of the device and, where that is the default stream, PyTorch's current one.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import Any, Final

import cupy

from stridedgpu.values.errors import DeviceError

LEGACY_STREAM: Final = 1
"""The default stream's handle in DLPack and the CUDA Array Interface, where 0 is ambiguous."""


def stream_handle(stream: object, device: int) -> int:
    """The `cudaStream_t`, as an integer, of `stream=` on the device with that number; None as the module says.

    Raises `DeviceError` for anything but None, an integer handle or an object with `__cuda_stream__` (CuPy's,
    cuda.core's and newer PyTorch's streams).
    """
    if stream is None:
        current: int = cupy.cuda.get_current_stream(device).ptr
        return current or stream_of_torch(device)
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream
    protocol: Any = getattr(stream, "__cuda_stream__", None)
    if protocol is None:
        raise DeviceError(
            f"stream={stream!r} is neither an integer handle nor a stream with __cuda_stream__, as CuPy's have; "
            "of a PyTorch stream without it, pass .cuda_stream."
        )
    # The protocol has a method, or in its first version the pair itself.
    _, handle = protocol() if callable(protocol) else protocol
    return int(handle)


def stream_of_torch(device: int) -> int:
    """PyTorch's current stream of a device; 0, the default stream, where PyTorch is not loaded or uses no GPU.

    `torch.cuda.stream` and `torch.cuda.graph` make streams current that CuPy does not know. Work on another stream
    would have no order with theirs, and a graph that is captured would not have it.
    """
    torch = sys.modules.get("torch")
    cuda: Any = getattr(torch, "cuda", None)
    # Another thread may be importing PyTorch, whose modules have no functions yet.
    if not getattr(cuda, "is_initialized", bool)():
        return 0
    raw_stream = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
    return int(cuda.current_stream(device).cuda_stream if raw_stream is None else raw_stream(device))


def keep_for_stream(obj: object, device: int, handle: int) -> None:
    """Have PyTorch keep the memory of a tensor of its own until a stream has read it (`record_stream`).

    PyTorch's allocator gives the memory of a tensor that is freed to the next one of the same stream, and knows no
    other stream that still reads it. Work on PyTorch's current stream is in its order anyway.
    """
    torch: Any = sys.modules.get("torch")
    if not isinstance(obj, getattr(torch, "Tensor", ())):
        return
    tensor: Any = obj
    is_default = handle in (0, LEGACY_STREAM)
    if (0 if is_default else handle) != stream_of_torch(device):
        cuda = torch.cuda
        stream = cuda.default_stream(device) if is_default else cuda.ExternalStream(handle, device=device)
        with suppress(RuntimeError):  # the allocator of cudaMallocAsync refuses memory that is not its own
            tensor.record_stream(stream)


class current_on:  # noqa: N801 - a context manager, as `contextlib.suppress` is
    """Make the device and the stream current in CuPy, so that allocations are ordered on it; yields the handle.

    Usually both are current already, and nothing changes.
    """

    __slots__ = ("_device", "_entered", "_stream")

    def __init__(self, device: int, stream: object) -> None:
        self._device = device
        self._stream = stream
        self._entered: ExitStack | None = None

    def __enter__(self) -> int:
        """The stream's handle. Raises `DeviceError` for an object that is not a stream."""
        if self._stream is None and cupy.cuda.runtime.getDevice() == self._device:
            current: int = cupy.cuda.get_current_stream().ptr
            if current or not stream_of_torch(self._device):
                return current
        with ExitStack() as entered:
            entered.enter_context(cupy.cuda.Device(self._device))
            handle = stream_handle(self._stream, self._device)
            if handle != cupy.cuda.get_current_stream().ptr:
                entered.enter_context(cupy.cuda.Stream.from_external(_Handle(handle)))
            self._entered = entered.pop_all()
        return handle

    def __exit__(self, *failure: object) -> None:
        if self._entered is not None:
            self._entered.close()


def wait_for_stream(device: int, handle: int, producer: int, *, producer_device: int | None = None) -> None:
    """Make later work on stream `handle` wait for the earlier work of stream `producer`.

    The host does not wait. `producer_device` is None if both streams are on one device.
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
    """Raise `DeviceError` while the stream is recording a CUDA graph, which cannot include `work`.

    The default stream synchronises with every stream that is not non-blocking: while one of these records, even the
    query of the default stream's state fails.
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


@contextmanager
def relaxed_capture() -> Iterator[None]:
    """Keep this thread's calls from breaking a capture of another thread, inside the block.

    PyTorch captures in global mode, in which CUDA refuses allocations and queries of events in every thread, and the
    capture fails with them, unless a thread says that its calls have nothing to do with it.
    """
    exchange = _capture_mode_exchange()
    mode = ctypes.c_int(cupy.cuda.runtime.streamCaptureModeRelaxed)
    if exchange is None:
        yield
        return
    exchange(ctypes.byref(mode))
    try:
        yield
    finally:
        exchange(ctypes.byref(mode))


@cache
def _capture_mode_exchange() -> Callable[[Any], int] | None:
    """`cuThreadExchangeStreamCaptureMode` of the driver, which CuPy has not; None where there is none."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        return driver.cuThreadExchangeStreamCaptureMode
    except (OSError, AttributeError):
        return None


def context_of_thread(device: int) -> None:
    """Bind the device's context to this thread; kernel launches need it, and CuPy binds it only in its own calls."""
    bound = getattr(_threads, "bound", None)
    if bound is None:
        bound = _threads.bound = set()
    if device not in bound:
        with cupy.cuda.Device(device):
            cupy.cuda.runtime.memGetInfo()
        bound.add(device)


_threads: Final = threading.local()


class _Handle:
    """An integer handle as an object that CuPy wraps in a stream without owning it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle
