"""Streams on the CPU: there are none, and `None` says so."""

from __future__ import annotations

from stridedgpu.values.errors import DeviceError

__all__ = ["check_stream"]


def check_stream(stream: object) -> None:
    """Raise `DeviceError` for anything but None."""
    if stream is not None:
        raise DeviceError(f"stream={stream!r} has no meaning on the CPU, where calls return when they are done.")
