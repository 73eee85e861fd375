"""Copies between a CUDA device and the CPU or another CUDA device: pitched runs, without the gaps between them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import cupy

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.device import CpuDevice
from stridedgpu.planning.pitched_copy import Runs
from stridedgpu.values.errors import DeviceError

from .streams import check_not_capturing, stream_handle, wait_for_stream

__all__ = [
    "FROM_OR_TO_THE_HOST",
    "allocate_pinned",
    "copy_between_devices",
    "copy_runs",
    "copy_with_host",
    "cuda_failures",
    "device_number",
]

FROM_OR_TO_THE_HOST: Final = "A copy between the CPU and a CUDA device"
"""What a refusal under capture calls it."""

_STAGING_ALIGNMENT = 64
"""Bytes: a cache line of the processor that packs there."""


def device_number(device: str) -> int:
    """The number in "cuda:N"."""
    return int(device.removeprefix("cuda:"))


def allocate_pinned(nbytes: int) -> Buffer:
    """Page-locked bytes on the CPU, for direct access by the copy engine; pageable bytes if none are left.

    They come from CuPy's pool of pinned memory. Release them only after all copies that use them.
    """
    try:
        memory = cupy.cuda.alloc_pinned_memory(nbytes)
    except (cupy.cuda.runtime.CUDARuntimeError, MemoryError):
        return CpuDevice().allocate(nbytes, _STAGING_ALIGNMENT)
    return Buffer(memory.ptr, nbytes, owner=memory, owned=True)


def copy_with_host(
    source: Buffer, source_start: int, target: Buffer, target_start: int, runs: Runs, stream: object
) -> None:
    """Copy runs between the CPU and a device, in stream order, and wait for completion.

    After the return the caller may change an uploaded source and read a downloaded target, and any stream may read an
    uploaded target.
    """
    uploads = source.device == "cpu"
    number = device_number(target.device if uploads else source.device)
    with cupy.cuda.Device(number), cuda_failures(source.device, target.device):
        handle = stream_handle(stream, number)
        check_not_capturing(handle, FROM_OR_TO_THE_HOST)
        copy_runs(source.address + source_start, target.address + target_start, runs, handle, uploads=uploads)
        cupy.cuda.runtime.streamSynchronize(handle)


def copy_runs(read: int, written: int, runs: Runs, handle: int, *, uploads: bool) -> None:
    """Queue the copies of runs between the CPU and the current device; both addresses are those of the first place."""
    runtime = cupy.cuda.runtime
    kind = runtime.memcpyHostToDevice if uploads else runtime.memcpyDeviceToHost
    width, height = runs.width, runs.height
    for source_place, target_place in runs.places:
        source, target = read + source_place, written + target_place
        if height == 1:
            runtime.memcpyAsync(target, source, width, kind, handle)
        else:
            runtime.memcpy2DAsync(target, runs.target_pitch, source, runs.source_pitch, width, height, kind, handle)


def copy_between_devices(
    source: Buffer, source_start: int, target: Buffer, target_start: int, nbytes: int, stream: object
) -> None:
    """Copy one run to another CUDA device, after the earlier work of the source's current stream.

    `stream` is on the target's device, and continues after the copy. The driver copies peer to peer if the devices
    support it, else through the host.
    """
    there, here = device_number(target.device), device_number(source.device)
    with cuda_failures(source.device, target.device):
        handle = stream_handle(stream, there)
        check_not_capturing(handle, "A copy between CUDA devices")
        wait_for_stream(there, handle, stream_handle(None, here), producer_device=here)
        with cupy.cuda.Device(there):
            cupy.cuda.runtime.memcpyPeerAsync(
                target.address + target_start, there, source.address + source_start, here, nbytes, handle
            )
        # The source may be freed and reused on its own stream, which must therefore wait for the copy.
        wait_for_stream(here, stream_handle(None, here), handle, producer_device=there)


@contextmanager
def cuda_failures(source: str, target: str) -> Iterator[None]:
    """CUDA's errors as this library's."""
    try:
        yield
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(f"The copy from {source} to {target} failed: {error}.") from error
