"""JAX: one compiled function a workload, over packed arrays of its own, since it knows no strides."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

import stridedgpu as sg
from benchmarks.suite.work import Array, CropWork, Move, Pick, Work

from .peer import Call, CannotDoError, factors, memory_axes

__all__ = ["JaxPeer"]


class JaxPeer:
    """JAX on its first device. Every call allocates its result, and is waited for."""

    name = "jax"
    waits = True

    def __init__(self, device: str) -> None:
        """Import JAX; `device` is "cpu" or "cuda". Raises `CannotDoError` where this JAX does not have it."""
        self._jax: Any = import_module("jax")
        self.version = str(self._jax.__version__)
        try:
            self._device = self._jax.devices(device)[0]
        except RuntimeError as error:
            raise CannotDoError(f"this JAX has no device {device!r}") from error

    def call(self, work: Work) -> Call:
        """The work, ready to be done. Raises `CannotDoError`."""
        if isinstance(work, CropWork):
            raise CannotDoError("would compile every set of origins anew")
        jax = self._jax
        if isinstance(work, Pick):
            take = jax.jit(lambda rows, chosen: jax.numpy.take(rows, chosen, axis=0, mode="clip"))
            data, indices = self._array(work.data), self._array(work.indices)
            return lambda: take(data, indices).block_until_ready()
        if work.target.itemsize == 8:
            raise CannotDoError("has no 64-bit types unless told to")
        if work.workload.broadcast or work.source.layout.is_padded or work.workload.window:
            raise CannotDoError("has no strides: padded and repeated memory cannot be handed over")
        order = tuple(sorted(range(work.source.ndim), key=lambda axis: -work.source.strides[axis]))
        source = self._array(work.source.permute(order))
        move = jax.jit(self._function(work, order))
        return lambda: move(source).block_until_ready()

    def host(self, work: Work, result: Any) -> Array:
        """A copy on the host; a move's result has its axes in memory order."""
        array = np.asarray(result)
        return array.transpose(np.argsort(memory_axes(work))) if isinstance(work, Move) else array

    def _array(self, tensor: sg.StridedTensor) -> Any:
        return self._jax.device_put(np.ascontiguousarray(tensor.numpy()), self._device)

    def _function(self, work: Move, order: tuple[int, ...]) -> Any:
        numpy, found, into = self._jax.numpy, factors(work.workload), memory_axes(work)
        back = tuple(order.index(axis) for axis in range(len(order)))
        extra = 0 if work.channels is None else work.channels - work.target.sizes[1]

        def move(stored: Any) -> Any:
            values = stored.transpose(back)
            if found is not None:
                values = values.astype("float32") * found[0] + found[1]
            made = values.astype(work.workload.target_type).transpose(into)
            return numpy.pad(made, [(0, 0)] * (made.ndim - 1) + [(0, extra)]) if extra else made

        return move
