"""Wrong indices on a CUDA device: checks before anything is written, and reports that the host reads later.

A report lies in device memory. Kernels write to it; the host reads it where it waits anyway.
"""

from __future__ import annotations

import itertools
import struct
import threading
from ctypes import c_char
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import cupy
import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.numpy_loops.gather import check_indices
from stridedgpu.devices.cuda.gather import (
    REPORT,
    RULES,
    WrongIndex,
    check_launch,
    distinct_launch,
    distinct_report_bytes,
    launch_number,
    take_launch,
    wrong_index,
)
from stridedgpu.devices.interface import GatherLaunch, Located
from stridedgpu.problems.index_rule import IndexRule
from stridedgpu.problems.pitched_copy import Runs

from .kernels import PreparedKernel, compiled_kernel
from .streams import check_not_capturing, current_on, stream_handle

if TYPE_CHECKING:
    from .device import CudaDevice

INDICES: Final = struct.Struct("<QQI")
"""The parameters after the source and target addresses: the addresses of indices and report, and a number."""

_ALIGNMENT: Final = 256

_CHECKED: Final = 'a gather with mode="raise"'

_NO_REPORT: Final = bytes(REPORT.size)


class IndexReport:
    """One `sg::IndexReport` in device memory, all zero until a kernel reports a wrong index; and its page-locked copy.

    Scratch memory of a kernel, if any, follows the report.
    """

    def __init__(self, memory: Buffer, device: int, stream: object = None) -> None:
        self.memory = memory
        self._device = device
        self._pinned = cupy.cuda.alloc_pinned_memory(REPORT.size)
        self._copy: Any = (c_char * REPORT.size).from_address(self._pinned.ptr)
        with current_on(device, stream) as handle:
            cupy.cuda.runtime.memsetAsync(memory.address, 0, memory.nbytes, handle)

    def read(self, stream: object, start: int = 0) -> bytes:
        """Read the report after all earlier kernels of the stream; the host waits for them.

        `start` is the offset of another report in the memory.
        """
        with current_on(self._device, stream) as handle:
            return self._read(handle, start)

    def wrong_index(self, handle: int) -> WrongIndex | None:
        """What kernels of the stream reported, and then cleared; the host waits for them, once without a report."""
        runtime = cupy.cuda.runtime
        if runtime.getDevice() != self._device:
            with cupy.cuda.Device(self._device):
                return self.wrong_index(handle)
        copied = self._read(handle, 0)
        if copied == _NO_REPORT:
            return None
        runtime.memsetAsync(self.memory.address, 0, REPORT.size, handle)
        runtime.streamSynchronize(handle)
        return wrong_index(copied)

    def _read(self, handle: int, start: int) -> bytes:
        runtime = cupy.cuda.runtime
        source = self.memory.address + start
        runtime.memcpyAsync(self._pinned.ptr, source, REPORT.size, runtime.memcpyDeviceToHost, handle)
        runtime.streamSynchronize(handle)
        copied: bytes = self._copy.raw
        return copied


class IndexChecks:
    """Checks indices on one GPU before anything is written; the host waits for the result.

    Each host thread has its own report, which is all zero between calls. A call waits before it returns, so the kernels
    of the next call come after it on any stream.
    """

    def __init__(self, gpu: CudaDevice, number: int) -> None:
        """Store the device; nothing is compiled or allocated yet."""
        self._gpu = gpu
        self._number = number
        self._threads = threading.local()
        self._kernel = lru_cache(maxsize=1024)(lambda launch_of, rule: gpu.kernel(launch_of(rule)))

    def gather(self, rule: IndexRule, gather: PreparedKernel | None) -> GatherLaunch:
        """A gather that checks its indices, or only the check if there is nothing to move.

        The check reports the first wrong index. The gather stores nothing if there is a report. The host waits once,
        for the copy of the report.
        """
        check = self._kernel(check_launch, rule)

        def launch(
            dense: Buffer,
            dense_start: int,
            indexed: Buffer,
            indexed_start: int,
            indices: Buffer,
            indices_start: int,
            stream: object,
        ) -> None:
            handle = stream_handle(stream, self._number)
            check_not_capturing(handle, _CHECKED)
            report = self._report()
            try:
                check(indices, indices_start, report.memory, 0, handle)
                if gather is not None:
                    gather.set_parameters(INDICES.pack(indices.address + indices_start, report.memory.address, 0))
                    gather(indexed, indexed_start, dense, dense_start, handle)
                wrong = report.wrong_index(handle)
            except BaseException:
                del self._threads.report  # what it contains is not known
                raise
            if wrong is not None:
                raise IndexError(_described(rule, wrong))

        return launch

    def check(self, rule: IndexRule, indices: Located, stream: object) -> None:
        """Raise `IndexError` for the first index that breaks the rule."""
        self.gather(rule, None)(*indices, *indices, *indices, stream)
        if rule.axis_pitches:
            self._check_distinct(rule, indices, stream)

    def _report(self) -> IndexReport:
        """This thread's report, or a new one after a failure."""
        report: IndexReport | None = getattr(self._threads, "report", None)
        if report is None:
            report = IndexReport(self._gpu.allocate(REPORT.size, _ALIGNMENT), self._number)
            report.read(None)  # from now on kernels of any stream may report
            self._threads.report = report
        return report

    def _check_distinct(self, rule: IndexRule, indices: Located, stream: object) -> None:
        """Raise `IndexError` if two indices select one element; the bits that they set follow the report.

        The host finds the two, as on the CPU.
        """
        memory = self._gpu.allocate(distinct_report_bytes(rule), _ALIGNMENT, stream)
        report = IndexReport(memory, self._number, stream)
        self._kernel(distinct_launch, rule)(*indices, memory, 0, stream)
        if wrong_index(report.read(stream)) is None:
            return
        nbytes = rule.index.layout.span * rule.index.element.itemsize
        copied = Buffer.of(np.empty(nbytes, np.uint8))
        self._gpu.copy(*indices, copied, 0, Runs(nbytes), stream)
        check_indices(rule, copied.bytes)


class DeferredIndexErrors:
    """The wrong indices of launches on one device that no call has waited for yet.

    One report serves all launches, and captured graphs may write to it until the process ends. Its memory is therefore
    never freed, and only a kernel clears it, word by word with atomic operations, so that running kernels lose
    nothing. Rules keep their numbers for the same reason.
    """

    NBYTES: Final = 2 * REPORT.size
    """A report, and the copy that a clearing kernel writes."""

    def __init__(self, memory: Buffer, device: int) -> None:
        """Take over new memory of `DeferredIndexErrors.NBYTES`, and begin with no wrong index."""
        self._device = device
        self._report = IndexReport(memory, device)
        self._report.read(None)  # from now on a kernel of any stream may report
        self._rules: dict[IndexRule, int] = {}
        self._launches = itertools.count()
        self._lock = threading.Lock()

    @property
    def address(self) -> int:
        """The address of the kernels' report."""
        return self._report.memory.address

    def launched(self, rule: IndexRule) -> int:
        """The number of a new launch whose indices must satisfy `rule`.

        Rules after the first 65,535 share one number; their errors have fewer details.
        """
        with self._lock:
            number = self._rules.get(rule)
            if number is None:
                number = len(self._rules) + 1 if len(self._rules) + 1 < RULES else _NO_RULE
                if number != _NO_RULE:
                    self._rules[rule] = number
            return launch_number(next(self._launches), number)

    def check(self) -> None:
        """Raise `IndexError` for the first wrong index of finished launches, and clear the report."""
        with self._lock:
            if not self._rules or wrong_index(self._report.read(None)) is None:
                return
            wrong = wrong_index(self._taken())
            if wrong is None:
                return
            rule = next((rule for rule, number in self._rules.items() if number == wrong.rule), None)
        raise IndexError(_undescribed(wrong) if rule is None else _described(rule, wrong))

    def _taken(self) -> bytes:
        launch = take_launch()
        function = compiled_kernel(launch.sources, launch.name, self._device, launch.shared_bytes)
        memory = self._report.memory
        PreparedKernel(launch, function, self._device, ())(memory, 0, memory, REPORT.size, None)
        return self._report.read(None, REPORT.size)


_NO_RULE: Final = 0
"""The number shared by rules without one of their own."""


def _described(rule: IndexRule, wrong: WrongIndex) -> str:
    sizes = rule.index.layout.sizes
    position = [int(place) for place in np.unravel_index(wrong.number, sizes)] if sizes else []
    assert wrong.value is not None
    return rule.out_of_range(position, wrong.value if rule.is_signed else wrong.value % 2**64)


def _undescribed(wrong: WrongIndex) -> str:
    """The message if the rule is unknown, or if other launches reported during the read."""
    value = "" if wrong.value is None else f" = {wrong.value}"
    return (
        f'indices{value}, number {wrong.number} in row-major order, of a gather with mode="deferred" is out of range; '
        'give mode="raise" to have it named.'
    )
