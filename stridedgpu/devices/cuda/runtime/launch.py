"""Launching: a compiled kernel with its grid and packed parameters, run by writing two addresses.

A call creates no argument objects: `cuLaunchKernel` takes an array of argument addresses, here of one structure, and
copies the structure before it returns. Each thread has its own parameter block, so no lock is needed.
"""

from __future__ import annotations

import ctypes
import struct
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import cupy

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cuda.planning.gpu import KernelLaunch
from stridedgpu.values.errors import DeviceError

from .streams import context_of_thread, stream_handle
from .tables import keep, retire

__all__ = ["PreparedKernel"]

_ADDRESSES: Final = struct.Struct("<QQ")

_cuda: Final = cupy.cuda


class PreparedKernel:
    """A prepared launch: `prepared(source, source_start, target, target_start, stream)` runs it.

    `function` is a `cupy.cuda.Function` of device number `device`. `tables` are the device buffers of the launch's
    constant arrays, in its order; they live at least until no launch of this object can read them.
    """

    def __init__(self, launch: KernelLaunch, function: Any, device: int, tables: tuple[Buffer, ...]) -> None:
        """Pack the parameters."""
        self._name = launch.name
        self._device = device
        self._function = function
        self._tables = tables
        if tables:
            weakref.finalize(self, retire, device, tables).atexit = False
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
                handle = _cuda.get_current_stream().ptr
            else:
                handle = stream_handle(stream, self._device)
            if self._tables and _cuda.runtime.streamIsCapturing(handle):
                keep(self._tables)
            if is_current:
                self._launch(handle, arguments, 0)
            else:
                with cupy.cuda.Device(self._device):
                    self._launch(handle, arguments, 0)
        except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
            raise DeviceError(f"cuda:{self._device} did not launch the kernel {self._name}: {error}.") from error

    def _block_of_thread(self) -> tuple[Any, int, Any]:
        """This thread's parameters, the address of the array that points to them, and that array."""
        context_of_thread(self._device)
        block = ctypes.create_string_buffer(self._parameters, len(self._parameters))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(block))
        made = self._threads.block = (block, ctypes.addressof(pointers), pointers)
        return made
