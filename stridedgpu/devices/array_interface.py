"""The CUDA Array Interface, version 3, written and read as values, and the modules that exchange such memory.

Streams are the devices' matter. Source: https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType, NoneType
from typing import Any

import numpy as np

from stridedgpu.values.dtypes import ElementType, element_type
from stridedgpu.values.errors import ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import element_strides, integers

from .buffer import Buffer, check_range
from .interface import EMULATED


def exchange_of(device: str) -> ModuleType:
    """The module that exchanges and orders the memory of a CUDA device, or of the emulated one, with other code.

    It has `array_interface`, `borrowed`, `cupy_array`, `device_capsule`, `own_stream`, `event_of_current_stream` and
    `wait_for_event`, and loads the library of its device when it is first used.
    """
    return import_module(f"stridedgpu.devices.{'emulated' if device == EMULATED else 'cuda.runtime'}.exchange")


def array_interface(buffer: Buffer, layout: Layout, dtype: np.dtype[Any], stream: int) -> dict[str, Any]:
    """The dictionary of `__cuda_array_interface__`, its work ordered on the stream with that handle."""
    address = buffer.address + layout.offset * dtype.itemsize if layout.span else 0
    return {
        "version": 3,
        "shape": layout.sizes,
        "typestr": dtype.str,
        "data": (address, buffer.readonly),
        # CuPy computes a size from strides, and cannot find the device of memory of that size at address 0.
        "strides": tuple(step * dtype.itemsize for step in layout.strides) if layout.span else None,
        "stream": stream,
    }


@dataclass(frozen=True, slots=True)
class DescribedArray:
    """What an object's interface says: the address of the element at coordinates 0, and the layout from there.

    `stream` is the handle of the producer's stream, or None.
    """

    owner: object
    address: int
    readonly: bool
    layout: Layout
    element: ElementType
    stream: int | None

    @property
    def start(self) -> int:
        """The address of the lowest element."""
        return self.address + self.layout.first_offset * self.element.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes from there to the end of the last element."""
        return self.layout.span * self.element.itemsize

    def located(self, device: str) -> tuple[Buffer, Layout, ElementType]:
        """The memory on a device, the layout from its lowest element, and the type."""
        buffer = Buffer(self.start, self.nbytes, owner=self.owner, device=device, readonly=self.readonly)
        return buffer, self.layout.shifted(-self.layout.first_offset), self.element


def _check_parts(producer: str, interface: object) -> None:
    """Raise `LayoutError` unless an interface has its parts, each of its type; numbers are checked where they count."""
    if not isinstance(interface, Mapping):
        raise LayoutError(f"{producer}.__cuda_array_interface__ is a {type(interface).__name__}, not a dict.")
    data, steps = interface.get("data"), interface.get("strides")
    if not isinstance(data, tuple) or len(data) != 2 or not isinstance(data[0], (int, NoneType)):
        raise LayoutError(f"{producer} has the data {data!r}; it is (address, whether it is read-only).")
    if "shape" not in interface or "typestr" not in interface:
        raise LayoutError(
            f"{producer}.__cuda_array_interface__ has no {'shape' if 'typestr' in interface else 'typestr'}."
        )
    if steps is not None:
        integers("strides", steps)


def described_array(obj: Any) -> DescribedArray:
    """The memory of an object with the interface.

    Raises `LayoutError` for a mask, and for strides that are not whole elements; `ElementTypeError` for what NumPy has
    no type for; `BindingError` for elements outside the address space.
    """
    interface = obj.__cuda_array_interface__
    _check_parts(type(obj).__name__, interface)
    if interface.get("mask") is not None:
        raise LayoutError(f"{type(obj).__name__} has a mask, which a tensor cannot hold; fill it in first.")
    try:
        dtype = np.dtype(interface["typestr"])
    except TypeError as problem:
        raise ElementTypeError(f"{type(obj).__name__} is not array-like: {problem}") from None
    element = element_type(getattr(obj, "dtype", dtype) if dtype.kind == "V" else dtype)
    address, readonly = interface["data"]
    steps = interface.get("strides")
    sizes, strides = interface["shape"], None
    if steps is not None:
        strides = element_strides(sizes, steps, element.itemsize) if len(sizes) == len(steps) else steps
        if strides is None:
            raise LayoutError(
                f"strides={steps} bytes are not whole elements of {element.itemsize} bytes; copy it first."
            )
    layout = Layout(sizes, strides)
    array = DescribedArray(obj, address or 0, readonly, layout, element, interface.get("stream"))
    check_range(type(obj).__name__, array.address, array.start, array.nbytes)
    return array
