"""How long calls take: by the wall on the host, by events on a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, Protocol

import stridedgpu as sg

from .workloads import Scale

__all__ = ["Clock", "CudaClock", "HostClock"]

Call = Callable[[], object]


class Clock(Protocol):
    """Times calls that do the same on different memory, in turn."""

    def seconds(self, calls: Sequence[Call], repeats: int) -> float:
        """Seconds a call, over `repeats` of them."""


class HostClock:
    """The wall clock; where a device works on after a call has returned, it is waited for once, at the end."""

    def __init__(self, device: str) -> None:
        """Remember the device."""
        self._device = device

    def seconds(self, calls: Sequence[Call], repeats: int) -> float:
        """Seconds a call."""
        count = len(calls)
        began = time.perf_counter()
        for number in range(repeats):
            calls[number % count]()
        sg.synchronize(self._device)
        return (time.perf_counter() - began) / repeats


class CudaClock:
    """Events on the current stream of one GPU.

    The host must be ahead of the device, or the events would time the gaps between launches. A delay on the device goes
    before the first event: fills of memory, as many as it takes until the event is not yet done when the host has
    queued every call. A crop takes the host some 90 us, and 60 of them longer than any fixed delay.
    """

    _MOST_FILLS: Final = 4096
    """Some 0.4 s of an H100: a host that is slower than that is what is measured."""

    def __init__(self, number: int, scale: Scale = "gpu") -> None:
        """Import CuPy and make events; in a test's scale the delay is short."""
        self._cupy: Any = import_module("cupy")
        self._number = number
        self._fills = 16
        with self._cupy.cuda.Device(number):
            self._begin, self._end = self._cupy.cuda.Event(), self._cupy.cuda.Event()
            self._filler = self._cupy.empty(1 << 28 if scale == "gpu" else 1 << 16, "uint8")

    def seconds(self, calls: Sequence[Call], repeats: int) -> float:
        """Seconds a call."""
        with self._cupy.cuda.Device(self._number):
            while not self._queued_ahead(calls, repeats) and self._fills < self._MOST_FILLS:
                self._fills *= 2
            self._end.synchronize()
            milliseconds: float = self._cupy.cuda.get_elapsed_time(self._begin, self._end)
        return milliseconds / 1e3 / repeats

    def _queued_ahead(self, calls: Sequence[Call], repeats: int) -> bool:
        """Queue a delay and the calls between events; whether the device was still in the delay afterwards."""
        for _ in range(self._fills):
            self._filler.fill(0)
        self._begin.record()
        for number in range(repeats):
            calls[number % len(calls)]()
        is_ahead = not self._begin.done
        self._end.record()
        return is_ahead
