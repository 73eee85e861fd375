"""Which device converts frames: the one that their planes are on."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from stridedgpu.devices.cpu.frames import CpuFrames

from .frame_interface import FrameBackend
from .selection import backend_named

if TYPE_CHECKING:  # a module that imports CuPy
    from stridedgpu.devices.cuda.runtime.device import CudaDevice

__all__ = ["frame_backend_named"]

_CPU: Final = CpuFrames()


def frame_backend_named(device: str) -> FrameBackend:
    """The device of that name, ready for frames.

    Raises `DeviceError` when it cannot be had, saying why and how to get it.
    """
    if device == "cpu":
        return _CPU
    backend: CudaDevice = backend_named(device)  # type: ignore[assignment]
    return _of_cuda(backend)


@lru_cache(maxsize=64)
def _of_cuda(backend: CudaDevice) -> FrameBackend:
    """A CUDA device's frames, with the kernels that it has made ready."""
    from stridedgpu.devices.cuda.runtime.frames import CudaFrames

    return CudaFrames(backend, int(backend.name.removeprefix("cuda:")))
