"""Memory of the emulated device for other code: arrays that only describe it, and the order of its streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from stridedgpu.devices.array_interface import array_interface as interface_of_array, described_array
from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.interface import EMULATED
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.layout import Layout

from .memory import host_alias, pages_at
from .streams import LEGACY_STREAM, Event, Stream, get_current_stream, stream_of

_NO_SYNCHRONISATION = -1
"""The `stream` of `__dlpack__` of a consumer that orders its work itself."""

_CUDA = (2, 0)
"""DLPack's type and number of the first CUDA device."""


def cupy_array(buffer: Buffer, layout: Layout, dtype: np.dtype[Any]) -> NoReturn:  # noqa: ARG001 - as for CUDA
    """Raise `DeviceError`: CuPy cannot reach emulated memory."""
    raise DeviceError(
        f"native() and xp are CuPy's on a CUDA device, and CuPy does not reach {EMULATED}; copy with .numpy()."
    )


def device_capsule(
    buffer: Buffer,
    layout: Layout,
    dtype: np.dtype[Any],
    *,
    stream: object = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A capsule over the memory, to be relabelled as CUDA's; the consumer's stream waits for the current one.

    Raises `BufferError` for a copy, and for another device.
    """
    if copy or (dl_device is not None and tuple(dl_device) != _CUDA):
        raise BufferError(f"{EMULATED} exports its memory as it is, as DLPack's device {_CUDA}; export a .copy().")
    if stream != _NO_SYNCHRONISATION:
        stream_of(stream or None).wait_event(get_current_stream().record())
    steps = tuple(step * dtype.itemsize for step in layout.strides)
    offset = layout.offset * dtype.itemsize if layout.span else 0
    array: Any = np.ndarray(layout.sizes, dtype, host_alias(buffer, set()).bytes, offset, steps)
    return array.__dlpack__(max_version=max_version)


def requested(obj: Any, request: Any, stream: object = None) -> Any:
    """A capsule of another object over emulated memory, on which `stream`, or else the current stream, may work."""
    return request(obj, stream=stream_of(stream).ptr or LEGACY_STREAM)


def array_interface(buffer: Buffer, layout: Layout, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The dictionary of `__cuda_array_interface__`, its work ordered on the current stream."""
    return interface_of_array(buffer, layout, dtype, get_current_stream().ptr or LEGACY_STREAM)


def borrowed(obj: Any, stream: object = None) -> tuple[Buffer, Layout, ElementType]:
    """The memory of an object with the CUDA Array Interface; `stream`, or the current one, waits for the object's."""
    array = described_array(obj)
    check_address(type(obj).__name__, array.address)
    if array.stream is not None:
        stream_of(stream).wait_event(stream_of(array.stream).record())
    return array.located(EMULATED)


def check_address(producer: str, address: int) -> None:
    """Raise `DeviceError` if memory that another object describes as a CUDA device's is not emulated."""
    if address and pages_at(address, 1) is None:
        raise DeviceError(
            f"{producer} describes memory of cuda:0 at {address:#x}, which is no memory of {EMULATED}; and there is no "
            "other CUDA device, or STRIDEDGPU_DEVICE puts the emulated one in its place."
        )


@contextmanager
def own_stream(device: str) -> Iterator[None]:  # noqa: ARG001 - as for CUDA, which has several devices
    """Make a new stream this thread's current one; it waits for others only through events."""
    with Stream(non_blocking=True):
        yield


def event_of_current_stream(device: str) -> Event:  # noqa: ARG001
    """An event that completes when the earlier work of this thread's current stream has completed."""
    return get_current_stream().record()


def wait_for_event(device: str, event: Event) -> None:  # noqa: ARG001
    """Make later work on this thread's current stream wait for the event; the host does not wait."""
    get_current_stream().wait_event(event)
