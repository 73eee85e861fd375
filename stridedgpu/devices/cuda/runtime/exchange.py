"""Exchange of device memory without a copy: CuPy arrays, DLPack export, CUDA Array Interface import and export."""

from __future__ import annotations

from ctypes import c_int64
from typing import Any

import cupy
import numpy as np

from stridedgpu.devices.array_interface import array_interface as interface_of_array, described_array
from stridedgpu.devices.buffer import Buffer
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.layout import Layout

from .streams import LEGACY_STREAM, stream_handle, wait_for_stream
from .transfer import device_number

__all__ = ["array_interface", "borrowed", "cupy_array", "device_capsule"]


def cupy_array(buffer: Buffer, layout: Layout, dtype: np.dtype[Any]) -> Any:
    """A `cupy.ndarray` over a layout in a device buffer, which it keeps alive."""
    memory = cupy.cuda.UnownedMemory(buffer.address, buffer.nbytes, buffer, device_number(buffer.device))
    pointer = cupy.cuda.MemoryPointer(memory, layout.offset * dtype.itemsize if layout.span else 0)
    return cupy.ndarray(layout.sizes, dtype, pointer, strides=tuple(step * dtype.itemsize for step in layout.strides))


def device_capsule(buffer: Buffer, layout: Layout, dtype: np.dtype[Any], **request: Any) -> Any:
    """The capsule of `__dlpack__(**request)`; the consumer's stream waits for CuPy's current one."""
    with cupy.cuda.Device(device_number(buffer.device)):
        return cupy_array(buffer, layout, dtype).__dlpack__(**request)


def array_interface(buffer: Buffer, layout: Layout, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The dictionary of `__cuda_array_interface__`, its work ordered on CuPy's current stream."""
    stream = stream_handle(None, device_number(buffer.device)) or LEGACY_STREAM
    return interface_of_array(buffer, layout, dtype, stream)


def borrowed(obj: Any) -> tuple[Buffer, Layout, ElementType]:
    """The memory of an object with the CUDA Array Interface; the buffer keeps the object alive.

    CuPy's current stream waits for the object's. Raises what `described_array` raises, and `DeviceError` for memory
    that CUDA does not know.
    """
    held = described_array(obj)
    # CuPy takes an address as a signed number.
    address = c_int64(held.address).value
    device = int(cupy.cuda.runtime.pointerGetAttributes(address).device) if address else 0
    if device < 0:
        raise DeviceError(f"{type(obj).__name__} describes memory at {held.address:#x} that no CUDA device knows.")
    if held.stream is not None:
        wait_for_stream(device, stream_handle(None, device), held.stream)
    return held.located(f"cuda:{device}")
