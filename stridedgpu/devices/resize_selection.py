"""Which device resizes: the one that the pictures are on."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from stridedgpu.devices.cpu.resize import CpuResize

from .resize_interface import ResizeBackend
from .selection import backend_named

if TYPE_CHECKING:  # a module that imports CuPy
    from stridedgpu.devices.cuda.runtime.device import CudaDevice

__all__ = ["resize_backend_named"]

_CPU: Final = CpuResize()


def resize_backend_named(device: str) -> ResizeBackend:
    """The device of that name, ready to resize.

    Raises `DeviceError` when it cannot be had, saying why and how to get it.
    """
    if device == "cpu":
        return _CPU
    backend: CudaDevice = backend_named(device)  # type: ignore[assignment]
    return _of_cuda(backend)


@lru_cache(maxsize=64)
def _of_cuda(backend: CudaDevice) -> ResizeBackend:
    """A CUDA device's resizes, with the kernels that it has made ready."""
    from stridedgpu.devices.cuda.runtime.resize import CudaResize

    return CudaResize(backend, int(backend.name.removeprefix("cuda:")))
