"""The CUDA devices: their number, or the reason in plain words why there are none."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Final

INSTALL: Final = 'pip install "stridedgpu[cuda12]" or "stridedgpu[cuda13]", whichever your driver supports'
"""How to install CuPy together with the compiler and headers that it needs."""

_DRIVERS: Final = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")

_DEVICE_FILES: Final = re.compile(r"nvidia\d+|nvgpu|nvhost-gpu|dxg")
"""The files of GPUs in /dev: of a card's driver, of Jetson's, and of Windows' under WSL."""


@dataclass(frozen=True, slots=True)
class CudaStatus:
    """The number of usable CUDA devices; `reason` says why there are none, and how to get one.

    `has_gpu` is True if the machine has a GPU, usable or not.
    """

    device_count: int
    reason: str | None = None
    has_gpu: bool = False


@lru_cache(maxsize=1)
def cuda_status() -> CudaStatus:
    """The status, determined once. CuPy is imported only if there is a driver, which is cheap to find out.

    A process forked from one that used CUDA has no devices: CUDA works only in the process that initialised it.
    """
    if _processes.forked_from is not None:
        return CudaStatus(
            0,
            f"CUDA was initialised in the process {_processes.forked_from} before this one was forked from it, and "
            'works there alone: start processes with the method "spawn" or "forkserver", or give device="cpu"',
            has_gpu=True,
        )
    if find_spec("cupy") is None:
        missing = "" if _driver_is_there() else " (and this machine has no NVIDIA driver)"
        return CudaStatus(0, f"CuPy is not installed{missing}: {INSTALL}", not missing and _gpu_is_there())
    if not _driver_is_there():
        return CudaStatus(0, "no NVIDIA driver was found (libcuda is missing): install the driver of your GPU")
    try:
        import cupy
    except Exception as error:  # noqa: BLE001 - whatever a broken installation raises is the reason
        reason = f"CuPy is installed but cannot be imported ({_first_line(error)}): {INSTALL}"
        return CudaStatus(0, reason, _gpu_is_there())
    _processes.initialised_in = os.getpid()
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return CudaStatus(0, f"the NVIDIA driver offers no device ({error})")
    if count == 0:
        return CudaStatus(0, "the NVIDIA driver offers no device; CUDA_VISIBLE_DEVICES may hide it")
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:  # noqa: BLE001 - the loader's own error, an ImportError or an NVRTCError
        reason = f"CuPy finds no CUDA compiler, NVRTC ({_first_line(error)}): {INSTALL}"
        return CudaStatus(0, reason, has_gpu=True)
    return CudaStatus(count, has_gpu=True)


@dataclass(slots=True)
class _Processes:
    """Where CUDA was initialised: in this process, or in one that it was forked from."""

    initialised_in: int | None = None
    forked_from: int | None = None

    def after_fork(self) -> None:
        """In the child of a fork: discard the results from before the fork."""
        if self.initialised_in is not None:
            self.forked_from, self.initialised_in = self.initialised_in, None
            cuda_status.cache_clear()


_processes: Final = _Processes()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_processes.after_fork)


def _first_line(error: Exception) -> str:
    """The first line of an error's message, for use inside a sentence."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _gpu_is_there() -> bool:
    """True if a machine with a driver has a GPU, by its device files; on Windows a driver implies a GPU."""
    if sys.platform == "win32":
        return True
    return any(_DEVICE_FILES.fullmatch(name) for name in _device_names())


def _device_names() -> list[str]:
    """The names in /dev, or none if it cannot be read."""
    try:
        return os.listdir("/dev")  # noqa: PTH208 - every program on the CPU would load pathlib for it
    except OSError:
        return []


def _driver_is_there() -> bool:
    """True if the driver's library loads. CUDA is not initialised, so a later fork stays safe."""
    for name in _DRIVERS:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False
