"""What a peer is: a library that can do some of the workloads, as its users would write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from benchmarks.suite.work import Array, CropWork, Move, Work
from benchmarks.suite.workloads import Crops, Relayout

__all__ = ["Call", "CannotDoError", "Peer", "factors", "in_place", "memory_axes"]

Call = Callable[[], object]
"""Does the work once. It returns None when the result is in the work's target, else the result."""


class CannotDoError(Exception):
    """A peer that has no such operation, with the reason in a few words."""


class Peer(Protocol):
    """One library on one kind of device.

    `waits` says that a call returns when its work is done, whatever the device, so that it is timed on the host.
    """

    name: str
    version: str
    waits: bool

    def call(self, work: Work) -> Call:
        """The work, ready to be done. Raises `CannotDoError`."""

    def host(self, work: Work, result: Any) -> Array:
        """What a call for `work` returned as a NumPy array, axes in canonical order."""


def factors(how: Relayout | Crops) -> tuple[Array, Array] | None:
    """Factor and term of a normalisation as float32 arrays that broadcast over (C, H, W) or (W,); None without one."""
    if how.scale is None:
        return None
    bias = (0.0,) * len(how.scale) if how.bias is None else how.bias
    shape = (len(how.scale), 1, 1) if len(how.scale) > 1 else (1,)
    return np.array(how.scale, np.float32).reshape(shape), np.array(bias, np.float32).reshape(shape)


def memory_axes(work: Move | CropWork) -> tuple[int, ...]:
    """The axes of a target, outermost in memory first."""
    strides = work.target.strides
    return tuple(sorted(range(len(strides)), key=lambda axis: -strides[axis]))


def in_place(function: Callable[..., object], *arguments: object) -> Call:
    """A call of a function whose result stands in one of its arguments, whatever it returns."""

    def call() -> None:
        function(*arguments)

    return call
