"""Kernels on a device: loaded one instantiation at a time, their constant tables, and their launch.

Machine code comes from the installed package (`cubins.py`), or from NVRTC through CuPy, which caches it on disk. A call
creates no argument objects: `cuLaunchKernel` takes an array of argument addresses, here of one structure, and copies
the structure before it returns. Each thread has its own parameter block, so no lock is needed.

A launch is asynchronous, and its stream reads the tables later; a captured graph reads them at every replay. A table is
therefore not freed with its prepared kernel, which a cache may drop at any time:

    dropped, never captured    retired: freed after all earlier work of the device
    captured into a graph      kept for the life of the process
"""

from __future__ import annotations

import ctypes
import struct
import threading
import weakref
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any, Final

import cupy

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cuda.cubins import OPTIONS, stored_cubin
from stridedgpu.devices.cuda.gpu import KernelLaunch
from stridedgpu.devices.cuda.policy import policy
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.devices.cuda.status import INSTALL
from stridedgpu.values.errors import DeviceError

from .streams import context_of_thread, stream_handle, stream_of_torch

_TOO_MANY_PARAMETERS: Final = "parameter space overflowed"
"""The message of compilers before CUDA 12.1 for a kernel with more than 4096 bytes of parameters."""

_DEFAULT_SHARED_BYTES: Final = 48 * 1024
"""The most dynamic shared memory of a kernel without an attribute."""

_FIRST_NVRTC: Final = {0: (12, 0), 100: (12, 8), 103: (12, 9), 110: (13, 0), 120: (12, 8), 121: (12, 9)}
"""The first NVRTC that compiles for a compute capability, from each one on. Source: CUDA's release notes."""


_loading: Final[defaultdict[tuple[tuple[str, ...], str, int], threading.RLock]] = defaultdict(threading.RLock)
"""A lock for each kernel: threads load different ones at once, and wait for the thread that loads the same one.

A handler of a signal, or the end of an object, may launch the kernel that its thread is loading, and does not wait.
"""


def compiled_kernel(sources: tuple[str, ...], name: str, device: int, shared_bytes: int) -> Any:
    """The instantiation `name` of the joined `sources` on a device, a `cupy.cuda.Function` whose `ptr` is its handle.

    It is loaded at its first use: machine code that the package brings, else what NVRTC compiles; CuPy's cache on disk
    knows it by the whole text. `shared_bytes` is the dynamic shared memory that its launches will ask for.

    Raises `DeviceError` when there is no compiler, there are no CUDA headers, or the compiler or the device refuses
    the kernel, with the compiler's log as a note.
    """
    driver = cupy.cuda.driver
    with _loading[sources, name, device], cupy.cuda.Device(device):
        function = _loaded(sources, name, device)
        attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        if shared_bytes > _DEFAULT_SHARED_BYTES and driver.funcGetAttribute(attribute, function.ptr) < shared_bytes:
            driver.funcSetAttribute(function.ptr, attribute, shared_bytes)
        return function


@cache
def _loaded(sources: tuple[str, ...], name: str, device: int) -> Any:
    text = joined_source(*sources)
    cubin = stored_cubin(text, name, _capability(device))
    if cubin is not None:
        with suppress(cupy.cuda.driver.CUDADriverError):  # the driver may be older than the machine code
            module = cupy.cuda.function.Module()
            module.load(cubin.code)
            return module.get_function(cubin.symbol)
    return _compiled(text, name, device).kernel


def _compiled(text: str, name: str, device: int) -> Any:
    """A `cupy.RawKernel`, compiled by NVRTC or from CuPy's cache on disk."""
    module = cupy.RawModule(code=text, options=OPTIONS, name_expressions=(name,))
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


def _capability(device: int) -> int:
    properties = cupy.cuda.runtime.getDeviceProperties(device)
    return int(properties["major"]) * 10 + int(properties["minor"])


def _too_old(device: int) -> str:
    """Advice for an NVRTC older than the GPU, for which it compiles code of an earlier one; else ""."""
    capability = _capability(device)
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
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "it gave no reason").rstrip(".")


_captured: Final[list[Buffer]] = []

_freeing: Final = threading.Lock()

_retired: Final[defaultdict[int, deque[Buffer]]] = defaultdict(deque)


def _keep(tables: tuple[Buffer, ...]) -> None:
    """Keep tables for ever: a graph has recorded a launch that reads them."""
    known = {id(table) for table in _captured}
    _captured.extend(table for table in tables if id(table) not in known)


def free_retired(device: int) -> None:
    """Free a device's retired tables, if there are many, after all work that may read them.

    Nothing is freed while a stream records a graph, when the device cannot be synchronised.
    """
    with _freeing:
        waiting = _retired[device]
        tables = tuple(waiting)
        if sum(table.nbytes for table in tables) <= policy().memory.retired_bytes:
            return
        try:
            with cupy.cuda.Device(device):
                cupy.cuda.runtime.deviceSynchronize()
        except cupy.cuda.runtime.CUDARuntimeError:
            return
        for _ in tables:
            waiting.popleft()


_ADDRESSES: Final = struct.Struct("<QQ")

_cuda: Final = cupy.cuda


class PreparedKernel:
    """A prepared launch: `prepared(source, source_start, target, target_start, stream)` runs it.

    `function` is a `cupy.cuda.Function` of device number `device`. `tables` are the device buffers of the launch's
    constant arrays, in its order; they live at least until no launch of this object can read them.
    """

    def __init__(self, launch: KernelLaunch, function: Any, device: int, tables: tuple[Buffer, ...]) -> None:
        self.launch = launch
        self._name = launch.name
        self._device = device
        self._function = function
        self._tables = tables
        if tables:
            weakref.finalize(self, _retired[device].extend, tables).atexit = False
        packed = bytearray(launch.parameters)
        for (position, _), table in zip(launch.tables, tables, strict=True):
            struct.pack_into("<Q", packed, position, table.address)
        self._parameters = bytes(packed)
        self._launch: Callable[[int, int, int], None] = partial(
            cupy.cuda.driver.launchKernel, function.ptr, *launch.grid, *launch.block, launch.shared_bytes
        )
        self._threads = threading.local()

    def __call__(self, source: Buffer, source_start: int, target: Buffer, target_start: int, stream: object) -> None:
        """Launch on a stream; the addresses are those of each side's lowest element."""
        try:
            block, arguments, _ = self._threads.block
        except AttributeError:
            block, arguments, _ = self._block_of_thread()
        _ADDRESSES.pack_into(block, 0, source.address + source_start, target.address + target_start)
        try:
            is_current = _cuda.runtime.getDevice() == self._device
            if stream is None and is_current:
                handle = _cuda.get_current_stream().ptr or stream_of_torch(self._device)
            else:
                handle = stream_handle(stream, self._device)
            if self._tables and _cuda.runtime.streamIsCapturing(handle):
                _keep(self._tables)
            if is_current:
                self._launch(handle, arguments, 0)
            else:
                with cupy.cuda.Device(self._device):
                    self._launch(handle, arguments, 0)
        except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
            raise DeviceError(f"cuda:{self._device} did not launch the kernel {self._name}: {error}.") from error

    def set_parameters(self, further: bytes) -> None:
        """Set what follows the addresses of source and target, for this thread's next launch."""
        try:
            block, _, _ = self._threads.block
        except AttributeError:
            block, _, _ = self._block_of_thread()
        block[16 : 16 + len(further)] = further

    def _block_of_thread(self) -> tuple[Any, int, Any]:
        """This thread's parameters, the address of the array that points to them, and that array."""
        context_of_thread(self._device)
        block = ctypes.create_string_buffer(self._parameters, len(self._parameters))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(block))
        self._threads.block = (block, ctypes.addressof(pointers), pointers)
        return block, ctypes.addressof(pointers), pointers
