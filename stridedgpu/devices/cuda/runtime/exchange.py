"""Device memory for other code, without a copy: CuPy arrays, DLPack, the CUDA Array Interface; and own streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import c_int64
from typing import Any

import cupy
import numpy as np

from stridedgpu.devices.array_interface import array_interface as interface_of_array, described_array
from stridedgpu.devices.buffer import Buffer
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.layout import Layout

from .streams import LEGACY_STREAM, current_on, relaxed_capture, stream_handle, stream_of_torch, wait_for_stream
from .transfer import device_number


def cupy_array(buffer: Buffer, layout: Layout, dtype: np.dtype[Any], owner: object = None) -> Any:
    """A `cupy.ndarray` over a layout in a device buffer, which it keeps alive, or its `owner` in its place."""
    memory = cupy.cuda.UnownedMemory(buffer.address, buffer.nbytes, owner or buffer, device_number(buffer.device))
    pointer = cupy.cuda.MemoryPointer(memory, layout.offset * dtype.itemsize if layout.span else 0)
    return cupy.ndarray(layout.sizes, dtype, pointer, strides=tuple(step * dtype.itemsize for step in layout.strides))


def device_capsule(buffer: Buffer, layout: Layout, dtype: np.dtype[Any], **request: Any) -> Any:
    """The capsule of `__dlpack__(**request)`; the consumer's stream waits for the current one.

    The current one waits for PyTorch's when PyTorch gives the memory back.
    """
    number = device_number(buffer.device)
    with current_on(number, None) as handle:
        lent = _Lent.to_torch(buffer, number, handle, request.get("stream"))
        return cupy_array(buffer, layout, dtype, lent).__dlpack__(**request)


class _Lent:
    """Memory that PyTorch uses on its current stream, which is not the lender's current one.

    CuPy's pool gives memory that is freed to the next one of the lender's stream, which therefore waits for PyTorch's
    work. Streams of other consumers may have ended by then, where PyTorch's never do.
    """

    __slots__ = ("_buffer", "_device", "_lender", "_torch")

    def __init__(self, buffer: Buffer, device: int, lender: int, torch: int) -> None:
        self._buffer = buffer
        self._device = device
        # CuPy's stream ends with its object.
        self._lender = cupy.cuda.get_current_stream(), lender
        self._torch = torch

    @classmethod
    def to_torch(cls, buffer: Buffer, device: int, lender: int, consumer: object) -> _Lent | None:
        """The memory as it is lent to the stream `consumer`; None if that is not PyTorch's, or the lender's own."""
        torch = stream_of_torch(device)
        if consumer != (torch or LEGACY_STREAM) or torch == lender:
            return None
        return cls(buffer, device, lender, torch)

    def __del__(self) -> None:
        """Order the lender's stream behind PyTorch's; a graph that either captures would not keep the order."""
        _, lender = self._lender
        with suppress(cupy.cuda.runtime.CUDARuntimeError):
            if not any(map(cupy.cuda.runtime.streamIsCapturing, (lender, self._torch))):
                wait_for_stream(self._device, lender, self._torch)


def array_interface(buffer: Buffer, layout: Layout, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The dictionary of `__cuda_array_interface__`, its work ordered on the current stream."""
    stream = stream_handle(None, device_number(buffer.device)) or LEGACY_STREAM
    return interface_of_array(buffer, layout, dtype, stream)


def borrowed(obj: Any, stream: object = None) -> tuple[Buffer, Layout, ElementType]:
    """The memory of an object with the CUDA Array Interface; the buffer keeps the object alive.

    `stream`, or else the current stream, waits for the object's. Raises what `described_array` raises, and
    `DeviceError` for memory that CUDA does not know.
    """
    array = described_array(obj)
    # CuPy takes an address as a signed number.
    address = c_int64(array.address).value
    device = int(cupy.cuda.runtime.pointerGetAttributes(address).device) if address else 0
    if device < 0:
        raise DeviceError(f"{type(obj).__name__} describes memory at {array.address:#x} that no CUDA device knows.")
    if array.stream is not None:
        wait_for_stream(device, stream_handle(stream, device), array.stream)
    return array.located(f"cuda:{device}")


@contextmanager
def own_stream(device: str) -> Iterator[None]:
    """Make a new stream this thread's current one; it waits for others only through events, and breaks no capture."""
    with relaxed_capture(), cupy.cuda.Device(device_number(device)), cupy.cuda.Stream(non_blocking=True):
        yield


def event_of_current_stream(device: str) -> Any:
    """An event that completes when the earlier work of this thread's current stream has completed."""
    number = device_number(device)
    with cupy.cuda.Device(number):
        event = cupy.cuda.Event(disable_timing=True)
        cupy.cuda.runtime.eventRecord(event.ptr, stream_handle(None, number))
        return event


def wait_for_event(device: str, event: Any) -> None:
    """Make later work on this thread's current stream wait for the event; the host does not wait."""
    number = device_number(device)
    with cupy.cuda.Device(number):
        cupy.cuda.runtime.streamWaitEvent(stream_handle(None, number), event.ptr)
