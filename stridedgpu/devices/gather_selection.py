"""Which device picks elements by index: the one that the data is on."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from stridedgpu.devices.cpu.gather import CpuGather

from .gather_interface import GatherBackend
from .selection import backend_named

if TYPE_CHECKING:  # a module that imports CuPy
    from stridedgpu.devices.cuda.runtime.device import CudaBackend

__all__ = ["gather_backend_named"]

_CPU: Final = CpuGather()


def gather_backend_named(device: str) -> GatherBackend:
    """The device of that name, ready for gathers.

    Raises `DeviceError` when it cannot be had, saying why and how to get it.
    """
    if device == "cpu":
        return _CPU
    backend: CudaBackend = backend_named(device)  # type: ignore[assignment]
    return _of_cuda(backend)


@lru_cache(maxsize=64)
def _of_cuda(backend: CudaBackend) -> GatherBackend:
    """A CUDA device's gathers, with the kernels that it has made ready."""
    from stridedgpu.devices.cuda.runtime.gather import CudaGather

    return CudaGather(backend, int(backend.name.removeprefix("cuda:")))
