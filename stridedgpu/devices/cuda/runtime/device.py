"""The CUDA device: memory from CuPy's allocator, plans run by the kernels of `kernels/`, on CuPy's current stream."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any, Final

import cupy

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cuda.choice import CudaPlan
from stridedgpu.devices.cuda.gpu import GpuProperties, KernelLaunch, bytes_in_flight
from stridedgpu.devices.cuda.plan import cuda_plan
from stridedgpu.devices.interface import DeviceInfo, Launch, Located
from stridedgpu.devices.launch_cache import CachedLaunches
from stridedgpu.devices.verbose import is_verbose, with_verbose_line
from stridedgpu.problems.device_plan import DevicePlan, Problem
from stridedgpu.problems.index_rule import IndexRule
from stridedgpu.problems.pitched_copy import Runs
from stridedgpu.values.bounded_cache import bounded_cache, count_bytes
from stridedgpu.values.errors import DeviceError

from .index_checks import DeferredIndexErrors, IndexChecks
from .kernels import PreparedKernel, compiled_kernel, free_retired
from .launches import checks_indices, launches_of
from .streams import check_not_capturing, current_on, stream_handle
from .transfer import Records, Uploads, allocate_pinned, copy_between_devices, copy_with_host


def gpu_properties(number: int) -> GpuProperties:
    """The properties of the device with that number that change a plan."""
    properties = _properties(number)
    name = _name(properties)
    capability = int(properties["major"]) * 10 + int(properties["minor"])
    return GpuProperties(
        name=name,
        compute_capability=capability,
        multiprocessors=int(properties["multiProcessorCount"]),
        shared_bytes=int(properties["sharedMemPerBlockOptin"]),
        bytes_in_flight=bytes_in_flight(name, capability),
    )


def describe_device(number: int) -> DeviceInfo:
    """The device's name, memory and compute capability."""
    properties = _properties(number)
    memory = f"{int(properties['totalGlobalMem']) / 1e9:.0f} GB"
    capability = f"compute capability {properties['major']}.{properties['minor']}"
    return DeviceInfo(f"cuda:{number}", available=True, description=f"{_name(properties)}, {memory}, {capability}")


def _properties(number: int) -> dict[str, Any]:
    """The CUDA runtime's own table."""
    properties: dict[str, Any] = cupy.cuda.runtime.getDeviceProperties(number)
    return properties


def _name(properties: dict[str, Any]) -> str:
    """The product's name, which the runtime gives as bytes."""
    name = properties["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


_ALLOCATOR_ALIGNMENT: Final = 256
"""Bytes that CUDA's, CuPy's and RMM's allocators guarantee."""

_NEW_MEMORY: Final = "New memory"


class CudaDevice(CachedLaunches):
    """One NVIDIA GPU: "cuda:N"."""

    mixes_windows = False

    def __init__(self, number: int) -> None:
        """Read the device's properties; nothing is compiled or allocated yet."""
        self._number = number
        self.name: str = f"cuda:{number}"
        self.properties: GpuProperties = gpu_properties(number)
        self._index_errors: DeferredIndexErrors | None = None
        self._first_deferred = threading.Lock()
        self.checks = IndexChecks(self, number)
        self.records = Records(self, number)
        self.uploads = Uploads(number)

    @property
    def widest_access(self) -> int:
        """Bytes of the widest single load or store."""
        return self.properties.widest_access

    def allocate(self, nbytes: int, alignment: int, stream: object = None) -> Buffer:
        """New bytes from CuPy's current allocator, for work on `stream`.

        Raises `DeviceError` if the device is out of memory, and while the stream records a CUDA graph: replays of the
        graph would write to memory that may have been freed and allocated again.
        """
        extra = alignment if alignment > _ALLOCATOR_ALIGNMENT else 0
        try:
            with current_on(self._number, stream) as handle:
                check_not_capturing(handle, _NEW_MEMORY)
                memory = cupy.cuda.alloc(nbytes + extra)
        except MemoryError as error:
            raise DeviceError(self._out_of_memory(nbytes + extra)) from error
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise DeviceError(f"{self.name} could not allocate {nbytes + extra} bytes: {error}.") from error
        address = memory.ptr
        start = -address % alignment
        if start > extra:
            raise DeviceError(
                f"The allocator that CuPy was given returned {address:#x}, which is no multiple of {alignment}; "
                f"CUDA's own allocators keep to {_ALLOCATOR_ALIGNMENT}."
            )
        return Buffer.trusted(address + start, nbytes, memory, alignment, self.name, False, True)  # noqa: FBT003 - quicker

    def plan(self, problem: Problem) -> CudaPlan[Problem]:
        """The kernel and launch for a problem."""
        return cuda_plan(problem, self.name, self.properties)

    def prepare(self, plan: DevicePlan) -> Launch:
        """A plan with its kernel compiled and its parameters packed."""
        assert isinstance(plan, CudaPlan), "made by a device like this"
        if not plan.problem.is_empty or checks_indices(plan.problem):
            launch = launches_of(plan, self)
        else:  # without elements only the stream is checked

            def launch(*arguments: object) -> None:
                stream_handle(arguments[-1], self._number)

        # The windows of a resize that come with every call are planned by the launch, which tells of each.
        tells = is_verbose() and plan.is_complete
        return with_verbose_line(plan, launch, lambda: (plan.kernel, plan)) if tells else launch

    def check_indices(self, rule: IndexRule, indices: Located, stream: object) -> None:
        """Check every index, and wait for the result.

        If indices must be distinct, each index sets a bit of its element. Raises `DeviceError` while the stream records
        a CUDA graph, during which the host cannot wait.
        """
        if rule.index.layout.span != 0:
            self.checks.check(rule, indices, stream)

    def synchronize(self) -> None:
        """Wait for all streams of this device. Raises `DeviceError` if any of its work failed."""
        try:
            with cupy.cuda.Device(self._number):
                cupy.cuda.runtime.deviceSynchronize()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise DeviceError(f"{self.name} failed: {error}.") from error
        self._check_index_errors()

    def allocate_staging(self, nbytes: int) -> Buffer:
        """Page-locked bytes on the CPU."""
        return allocate_pinned(nbytes)

    @property
    def upload_bytes(self) -> int:
        """The bytes of a piece of the ring."""
        return self.uploads.piece_bytes

    def staging(self, nbytes: int) -> AbstractContextManager[Buffer]:
        """Page-locked bytes on the CPU for an upload: a piece of the ring if it is large enough."""
        return self.uploads.staging(nbytes)

    def copy(
        self, source: Buffer, source_start: int, target: Buffer, target_start: int, runs: Runs, stream: object
    ) -> None:
        """Copy runs between this device and the CPU, or one run from another CUDA device to this one."""
        if source.device == "cpu":
            self.uploads.send(source, source_start, target, target_start, runs, stream)
            return
        if target.device == "cpu":
            copy_with_host(source, source_start, target, target_start, runs, stream)
            self._check_index_errors()
            return
        assert runs.is_one_run, "between devices, operations pack first"
        copy_between_devices(source, source_start + runs.source_start, target, target_start, runs.width, stream)

    @property
    def index_errors(self) -> DeferredIndexErrors:
        """The wrong indices of gathers in mode "deferred" that have not been raised yet."""
        with self._first_deferred:
            if self._index_errors is None:
                memory = self.allocate(DeferredIndexErrors.NBYTES, _ALLOCATOR_ALIGNMENT)
                self._index_errors = DeferredIndexErrors(memory, self._number)
            return self._index_errors

    def _check_index_errors(self) -> None:
        """Raise `IndexError` for the first of them."""
        if self._index_errors is not None:
            self._index_errors.check()

    @bounded_cache
    def kernel(self, launch: KernelLaunch) -> PreparedKernel:
        """A launch with its kernel compiled and its constants uploaded; cached."""
        count_bytes(sum(len(contents) for _, contents in launch.tables))
        function = compiled_kernel(launch.sources, launch.name, self._number, launch.shared_bytes)
        tables = tuple(self.uploaded(contents) for _, contents in launch.tables)
        return PreparedKernel(launch, function, self._number, tables)

    def uploaded(self, contents: bytes) -> Buffer:
        """Constants in device memory; the upload is complete on return, so any stream may read them."""
        free_retired(self._number)
        buffer = self.allocate(len(contents), _ALLOCATOR_ALIGNMENT)
        # On the stream of the allocation, whose earlier work may still use the memory.
        copy_with_host(Buffer.of(contents), 0, buffer, 0, Runs(len(contents)), None)
        return buffer

    def _out_of_memory(self, nbytes: int) -> str:
        """The message: the requested bytes, the free bytes, and remedies."""
        with cupy.cuda.Device(self._number):
            free, total = cupy.cuda.runtime.memGetInfo()
        return (
            f"{self.name} has no {nbytes} bytes of memory left to allocate: {free} of {total} are free. "
            "Free tensors, give CuPy's unused blocks back with cupy.get_default_memory_pool().free_all_blocks(), "
            "or work on fewer items at once."
        )
