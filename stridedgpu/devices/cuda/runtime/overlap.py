"""Separate streams for work that overlaps the caller's, and the events that order the two."""

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
    """Make a new stream this thread's current one; it waits for others only through events."""
    with cupy.cuda.Device(device_number(device)), cupy.cuda.Stream(non_blocking=True):
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
