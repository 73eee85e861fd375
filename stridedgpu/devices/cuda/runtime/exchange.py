"""Exchange of device memory without a copy: CuPy arrays, DLPack export, CUDA Array Interface import and export."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.values.dtypes import ElementType, element_type
from stridedgpu.values.errors import LayoutError
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
    """The dictionary of `__cuda_array_interface__`, version 3, its work ordered on CuPy's current stream.

    Source: https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html.
    """
    address = buffer.address + layout.offset * dtype.itemsize if layout.span else 0
    return {
        "version": 3,
        "shape": layout.sizes,
        "typestr": dtype.str,
        "data": (address, buffer.readonly),
        # CuPy computes a size from strides, and cannot find the device of memory of that size at address 0.
        "strides": tuple(step * dtype.itemsize for step in layout.strides) if layout.span else None,
        "stream": stream_handle(None, device_number(buffer.device)) or LEGACY_STREAM,
    }


def borrowed(obj: Any) -> tuple[Buffer, Layout, ElementType]:
    """The memory of an object with the CUDA Array Interface; the buffer keeps the object alive.

    CuPy's current stream waits for the object's. Raises `LayoutError` for a mask, and for strides that are not whole
    elements.
    """
    found = obj.__cuda_array_interface__
    if found.get("mask") is not None:
        raise LayoutError(f"{type(obj).__name__} has a mask, which a tensor cannot hold; fill it in first.")
    dtype = np.dtype(found["typestr"])
    element = element_type(getattr(obj, "dtype", dtype) if dtype.kind == "V" else dtype)
    address, readonly = found["data"]
    steps = found.get("strides")
    if steps is not None and any(step % element.itemsize for step in steps):
        raise LayoutError(f"strides={steps} bytes are not whole elements of {element.itemsize} bytes; copy it first.")
    strides = None if steps is None else tuple(step // element.itemsize for step in steps)
    layout = Layout(found["shape"], strides)
    lowest = layout.first_offset
    device = int(cupy.cuda.runtime.pointerGetAttributes(address).device) if address else 0
    producer = found.get("stream")
    if producer is not None:
        wait_for_stream(device, stream_handle(None, device), producer)
    buffer = Buffer(
        (address or 0) + lowest * element.itemsize,
        layout.span * element.itemsize,
        owner=obj,
        device=f"cuda:{device}",
        readonly=readonly,
    )
    return buffer, layout.shifted(-lowest), element
