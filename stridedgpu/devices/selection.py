"""Device selection: by name, by an environment variable, or by what the machine has.

`device=` is "cpu", "cuda", "cuda:N" or "auto" everywhere: "auto" is the first CUDA device that works, else the CPU.
"cuda-emulated" is for tests: it is taken only where it is named, and `devices()` does not list it.
`STRIDEDGPU_DEVICE=NAME` is the device of "auto" and of new tensors. `STRIDEDGPU_DEVICE=force:NAME` takes the place of a
device that a program names, too: a program written for "cuda" then runs on a machine without a GPU, as in CI. Memory
that exists stays where it is, and a plan for "cuda" stays one: it can be read without a GPU. With
`force:cuda-emulated` addresses on "cuda" are taken to be emulated ones.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Final

from stridedgpu.devices.cpu.device import CpuDevice
from stridedgpu.devices.cuda.status import cuda_status
from stridedgpu.values.errors import DeviceError

from .interface import EMULATED, Device, DeviceInfo, Planner, RemoteDevice
from .settings import variable

VARIABLE: Final = "STRIDEDGPU_DEVICE"
"""The environment variable that names the device of new tensors."""

_preferred: Final = variable(VARIABLE)

_FORCE: Final = "force:"
"""The variable's prefix that overrides named devices."""

CPU: Final = CpuDevice()
"""The one CPU device."""

_remote: Final[dict[str, RemoteDevice]] = {}
"""The devices in use, by name."""

_of_other_process: Final[list[RemoteDevice]] = []
"""The devices of the process that this one was forked from."""


def devices() -> tuple[DeviceInfo, ...]:
    """Every usable device, and the reason why the others are not.

    >>> [device.name for device in devices() if device.available][0]
    'cpu'
    """
    status = cuda_status()
    if status.device_count == 0:
        cuda = (DeviceInfo("cuda", available=False, description="NVIDIA GPUs through CuPy", reason=status.reason),)
        return (CpuDevice.describe(), *cuda)
    from stridedgpu.devices.cuda.runtime.device import describe_device

    return (CpuDevice.describe(), *(describe_device(number) for number in range(status.device_count)))


def device_name(device: object) -> str:
    """`device` in full: "cpu", "cuda:N" or "cuda-emulated" ("cuda" is "cuda:0", "auto" the default device).

    Raises `DeviceError` for any other name.
    """
    if isinstance(device, str):
        if device in ("cpu", EMULATED):
            return device
        if device == "cuda":
            return "cuda:0"
        if device.startswith("cuda:") and device[5:].isdecimal():
            return f"cuda:{int(device[5:])}"
        if device == "auto":
            return default_device()
    its_name = f" Give its name, {str(device)!r}." if type(device).__module__ == "torch" else ""
    raise DeviceError(f"device={device!r} is unknown; it is 'cpu', 'cuda', 'cuda:N', 'auto' or {EMULATED!r}.{its_name}")


def cuda_device_of_memory(number: int) -> str:
    """The device of CUDA memory that another object describes: the emulated one if it takes the place of GPUs."""
    forced = _preferred() == _FORCE + EMULATED
    return EMULATED if forced or (EMULATED in _remote and not cuda_status().device_count) else f"cuda:{number}"


def chosen_device(device: object) -> str:
    """The device, in full, of new memory and work for which a program names `device`.

    `STRIDEDGPU_DEVICE=force:NAME` takes its place. Raises `DeviceError` for an unknown name, even where it is replaced.
    """
    preferred = _preferred()
    if preferred is not None and preferred.startswith(_FORCE):
        if device != "auto":
            device_name(device)
        return default_device()
    return device_name(device)


def default_device() -> str:
    """The device of new tensors: `STRIDEDGPU_DEVICE`, else the first CUDA device that works, else the CPU.

    One line is logged, once, if the CPU is taken on a machine with a GPU. Raises `DeviceError` when the variable names
    a device that cannot be had.
    """
    chosen = _preferred()
    if chosen:
        name = chosen.removeprefix(_FORCE)
        if name == "auto":
            raise DeviceError(f"{VARIABLE}={chosen!r} must name a device: 'cpu', 'cuda' or 'cuda:N'.")
        try:
            return device_named(name).name
        except DeviceError as error:
            raise DeviceError(f"{VARIABLE}={chosen!r}: {error}") from None
    status = cuda_status()
    if status.device_count:
        return "cuda:0"
    if status.has_gpu:
        _log_unused_gpu(status.reason)
    return "cpu"


@lru_cache(maxsize=8)
def _log_unused_gpu(reason: str | None) -> None:
    """Log, once for each reason, that a GPU is there and the CPU is taken."""
    import logging

    words = "This machine has a GPU, and stridedgpu works on the CPU: %s. device='cpu' chooses that."
    logging.getLogger("stridedgpu").warning(words, reason)


def device_named(device: object) -> Device:
    """The device of that name, ready for work.

    Raises `DeviceError` when it cannot be had, saying why and how to get it.
    """
    if isinstance(device, str):
        if device == "cpu":
            return CPU
        remote = _remote.get(device)  # as `remote_device_named` does, whose call would show in each launch on a GPU
        if remote is not None:
            return remote
        if device == "auto" and default_device() == "cpu":
            return CPU
    return remote_device_named(device)


def planner_named(device: str) -> tuple[Planner, str | None]:
    """The planner of a device, and the reason if the device is unusable: a reference GPU then plans instead."""
    try:
        return device_named(device), None
    except DeviceError as error:
        # The planners of a GPU are some thirty modules, which a program without a GPU rarely needs.
        from stridedgpu.devices.cuda.plan import GpuPlanner

        return GpuPlanner(device), str(error)


def remote_device_named(device: object) -> RemoteDevice:
    """The CUDA device of that name, or the emulated one; raises as `device_named` does."""
    remote = _remote.get(device) if isinstance(device, str) else None
    if remote is not None:
        return remote
    name = device_name(device)
    if name == EMULATED:
        return _emulated()
    status = cuda_status()
    if status.device_count == 0:
        raise DeviceError(f"device={device!r} cannot be had: {status.reason}.")
    number = int(name.removeprefix("cuda:"))
    if number >= status.device_count:
        last = f"cuda:{status.device_count - 1}"
        raise DeviceError(f"device={device!r} cannot be had: this machine's CUDA devices end with {last}.")
    from stridedgpu.devices.cuda.runtime.device import CudaDevice

    return _remote.setdefault(name, CudaDevice(number))


def _emulated() -> RemoteDevice:
    """The emulated device. Raises `DeviceError` in a process that was forked from one that used it, as CUDA fails."""
    if any(device.name == EMULATED for device in _of_other_process):
        raise DeviceError(
            f"device={EMULATED!r} was used before this process was forked, and works there alone, as CUDA does: start "
            'processes with the method "spawn" or "forkserver", or give device="cpu".'
        )
    from stridedgpu.devices.emulated.device import EmulatedDevice

    return _remote.setdefault(EMULATED, EmulatedDevice())


def _forget_devices() -> None:
    """In the child of a fork: CUDA devices belong to the parent process. None of their resources are freed here."""
    _of_other_process.extend(_remote.values())
    _remote.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_devices)


def devices_in_use() -> tuple[Device, ...]:
    """The devices that this process uses."""
    return (CPU, *_remote.values())
