"""Compile one instantiation of a kernel at a time, by NVRTC through CuPy, which caches it on disk."""

from __future__ import annotations

import threading
from typing import Any, Final

import cupy

from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.devices.cuda.status import INSTALL
from stridedgpu.values.errors import DeviceError

__all__ = ["compiled_kernel"]

_OPTIONS: Final = ("-std=c++20",)
"""CuPy adds `--device-as-default-execution-space`, without which NVRTC takes some lambdas for functions of the host.

NVRTC 12 refuses an option that is given twice.
"""

_TOO_MANY_PARAMETERS: Final = "parameter space overflowed"
"""The message of compilers before CUDA 12.1 for a kernel with more than 4096 bytes of parameters."""

_DEFAULT_SHARED_BYTES: Final = 48 * 1024
"""The most dynamic shared memory of a kernel without an attribute."""

_FIRST_NVRTC: Final = {0: (12, 0), 100: (12, 8), 103: (12, 9), 110: (13, 0), 120: (12, 8), 121: (12, 9)}
"""The first NVRTC that compiles for a compute capability, from each one on. Source: CUDA's release notes."""

_kernels: Final[dict[tuple[tuple[str, ...], str, int], Any]] = {}
_compiling: Final = threading.Lock()


def compiled_kernel(sources: tuple[str, ...], name: str, device: int, shared_bytes: int) -> Any:
    """The instantiation `name` of the joined `sources` on a device, a `cupy.cuda.Function` whose `ptr` is its handle.

    It is compiled at its first use; CuPy's cache on disk knows it by the whole text. `shared_bytes` is the dynamic
    shared memory that its launches will ask for.

    Raises `DeviceError` when there is no compiler, there are no CUDA headers, or the compiler or the device refuses
    the kernel, with the compiler's log as a note.
    """
    key = (sources, name, device)
    with _compiling, cupy.cuda.Device(device):
        kernel = _kernels.get(key)
        if kernel is None:
            kernel = _kernels[key] = _compile(sources, name, device)
        if shared_bytes > _DEFAULT_SHARED_BYTES and kernel.max_dynamic_shared_size_bytes < shared_bytes:
            kernel.max_dynamic_shared_size_bytes = shared_bytes
        return kernel.kernel


def _compile(sources: tuple[str, ...], name: str, device: int) -> Any:
    """A `cupy.RawKernel`, loaded on the current device."""
    module = cupy.RawModule(code=joined_source(*sources), options=_OPTIONS, name_expressions=(name,))
    try:
        return module.get_function(name)
    except cupy.cuda.compiler.CompileException as error:
        if _TOO_MANY_PARAMETERS in str(error):
            raise DeviceError(
                f"The kernel {name} has more than 4096 bytes of parameters, which tuples of many indices over tensors "
                f"of 2^31 elements or more take: NVRTC 12.1 is the first that allows them, with a driver of release "
                f"530; {INSTALL} in its newest version."
            ) from error
        refusal = DeviceError(
            f"The CUDA compiler refused the kernel {name} for cuda:{device}: {_reason(str(error))}. "
            f"NVRTC may be older than the GPU; {INSTALL} in its newest version."
        )
        refusal.add_note(str(error))
        raise refusal from error
    except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
        raise DeviceError(f"cuda:{device} could not load the kernel {name}: {error}.{_too_old(device)}") from error
    except (ImportError, RuntimeError, OSError) as error:
        text = str(error)
        missing = "headers" if "header" in text.lower() else "compiler (NVRTC)"
        refusal = DeviceError(f"The kernel {name} cannot be compiled: CuPy finds no CUDA {missing}: {INSTALL}.")
        refusal.add_note(text)
        raise refusal from error


def _too_old(device: int) -> str:
    """Advice for an NVRTC older than the GPU, for which it compiles code of an earlier one; else ""."""
    properties = cupy.cuda.runtime.getDeviceProperties(device)
    capability = int(properties["major"]) * 10 + int(properties["minor"])
    needed = _FIRST_NVRTC[max((least for least in _FIRST_NVRTC if least <= capability), default=0)]
    version = tuple(cupy.cuda.nvrtc.getVersion())
    if version >= needed:
        return ""
    has, needs = (".".join(map(str, each)) for each in (version, needed))
    return (
        f" A GPU of compute capability {capability // 10}.{capability % 10} needs NVRTC {needs} or newer, and this is "
        f"{has}: {INSTALL} in its newest version."
    )


def _reason(log: str) -> str:
    """The first error of a compiler's log."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "it gave no reason").rstrip(".")
