"""Device memory for other code, without a copy: CuPy arrays, DLPack, the CUDA Array Interface; and own streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_int64
from typing import Any

import cupy
import numpy as np

from stridedgpu.devices.array_interface import array_interface as interface_of_array, described_array
from stridedgpu.devices.buffer import Buffer
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.layout import Layout

from .streams import LEGACY_STREAM, current_on, relaxed_capture, stream_handle, wait_for_stream
from .transfer import device_number


def cupy_array(buffer: Buffer, layout: Layout, dtype: np.dtype[Any]) -> Any:
    """A `cupy.ndarray` over a layout in a device buffer, which it keeps alive."""
    memory = cupy.cuda.UnownedMemory(buffer.address, buffer.nbytes, buffer, device_number(buffer.device))
    pointer = cupy.cuda.MemoryPointer(memory, layout.offset * dtype.itemsize if layout.span else 0)
    return cupy.ndarray(layout.sizes, dtype, pointer, strides=tuple(step * dtype.itemsize for step in layout.strides))


def device_capsule(buffer: Buffer, layout: Layout, dtype: np.dtype[Any], **request: Any) -> Any:
    """The capsule of `__dlpack__(**request)`; the consumer's stream waits for the current one."""
    with current_on(device_number(buffer.device), None):
        return cupy_array(buffer, layout, dtype).__dlpack__(**request)


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
