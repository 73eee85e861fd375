"""A stream of one's own for work that runs beside the caller's, and events that order the two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cupy

from .streams import stream_handle
from .transfer import device_number

__all__ = ["event_of_current_stream", "own_stream", "wait_for_event"]


@contextmanager
def own_stream(device: str) -> Iterator[None]:
    """A new stream as this thread's current one, which waits for no other unless it is told to."""
    with cupy.cuda.Device(device_number(device)), cupy.cuda.Stream(non_blocking=True):
        yield


def event_of_current_stream(device: str) -> Any:
    """An event that comes to pass when this thread's current stream of the device has done its work so far."""
    number = device_number(device)
    with cupy.cuda.Device(number):
        event = cupy.cuda.Event(disable_timing=True)
        cupy.cuda.runtime.eventRecord(event.ptr, stream_handle(None, number))
        return event


def wait_for_event(device: str, event: Any) -> None:
    """Let what follows on this thread's current stream of the device start after the event; the host does not wait."""
    number = device_number(device)
    with cupy.cuda.Device(number):
        cupy.cuda.runtime.streamWaitEvent(stream_handle(None, number), event.ptr)
