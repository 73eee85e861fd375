"""Wrong indices on a CUDA device: checks before anything is written, and reports that the host reads later.

A report lies in device memory. Kernels write to it; the host reads it where it waits anyway.
"""

from __future__ import annotations

import itertools
import struct
import threading
from collections.abc import Callable
from ctypes import c_char
from functools import lru_cache
from typing import Any, Final

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
from stridedgpu.devices.cuda.gpu import KernelLaunch
from stridedgpu.devices.interface import GatherLaunch, Located
from stridedgpu.problems.index_rule import IndexRule
from stridedgpu.problems.pitched_copy import Runs

from .kernels import KernelDevice, PreparedKernel, compiled_kernel
from .streams import check_not_capturing, current_on, stream_handle

INDICES: Final = struct.Struct("<QQI")
"""The parameters after the source and target addresses: the addresses of indices and report, and a number."""

_ALIGNMENT: Final = 256

_CHECKED: Final = 'a gather with mode="raise"'

_NO_REPORT: Final = bytes(REPORT.size)


class IndexReport:
    """One `sg::IndexReport` in device memory, all zero until a kernel reports a wrong index.

    Scratch memory of a kernel, if any, follows the report.
    """

    def __init__(self, memory: Buffer, device: int, stream: object = None) -> None:
        """Take over new memory, and clear it in stream order."""
        self.memory = memory
        self._device = device
        with current_on(device, stream) as handle:
            cupy.cuda.runtime.memsetAsync(memory.address, 0, memory.nbytes, handle)

    def read(self, stream: object, start: int = 0) -> bytes:
        """Read the report after all earlier kernels of the stream; the host waits for them.

        `start` is the offset of another report in the memory.
        """
        report = np.empty(REPORT.size, np.uint8)
        with current_on(self._device, stream) as handle:
            runtime = cupy.cuda.runtime
            source = self.memory.address + start
            runtime.memcpyAsync(report.ctypes.data, source, REPORT.size, runtime.memcpyDeviceToHost, handle)
            runtime.streamSynchronize(handle)
        return report.tobytes()


class ThreadReport(IndexReport):
    """A report for the checks of one thread, and its copy in page-locked memory; both all zero between calls.

    Entered by `with`: after a failure inside, what the report contains is not known.
    """

    def __init__(self, memory: Buffer, device: int) -> None:
        """Take over new memory, and clear it."""
        super().__init__(memory, device)
        self.read(None)  # from now on kernels of any stream may report
        self.is_unknown = False
        self._pinned = cupy.cuda.alloc_pinned_memory(REPORT.size)
        self._copy: Any = (c_char * REPORT.size).from_address(self._pinned.ptr)
        self._copy.raw = _NO_REPORT

    def __enter__(self) -> None:
        """Nothing changes."""

    def __exit__(self, failure: object, *_: object) -> None:
        """Note a failure."""
        if failure is not None:
            self.is_unknown = True

    def wrong_index(self, handle: int) -> WrongIndex | None:
        """What kernels of the stream reported; the host waits for them, once if there is no report."""
        runtime = cupy.cuda.runtime
        if runtime.getDevice() != self._device:
            with cupy.cuda.Device(self._device):
                return self.wrong_index(handle)
        runtime.memcpyAsync(self._pinned.ptr, self.memory.address, REPORT.size, runtime.memcpyDeviceToHost, handle)
        runtime.streamSynchronize(handle)
        copied = self._copy.raw
        if copied == _NO_REPORT:
            return None
        runtime.memsetAsync(self.memory.address, 0, REPORT.size, handle)
        runtime.streamSynchronize(handle)
        return wrong_index(copied)


class IndexChecks:
    """Checks indices on one GPU before anything is written; the host waits for the result.

    Each host thread has its own report, which is all zero between calls. A call waits before it returns, so the kernels
    of the next call come after it on any stream.
    """

    def __init__(self, gpu: KernelDevice, number: int) -> None:
        """Store the device; nothing is compiled or allocated yet."""
        self._gpu = gpu
        self._number = number
        self._threads = threading.local()
        self._kernel = lru_cache(maxsize=1024)(self._prepared)

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
            with report:
                check(indices, indices_start, report.memory, 0, handle)
                if gather is not None:
                    gather.set_parameters(INDICES.pack(indices.address + indices_start, report.memory.address, 0))
                    gather(indexed, indexed_start, dense, dense_start, handle)
                wrong = report.wrong_index(handle)
            if wrong is not None:
                raise IndexError(_described(rule, wrong))

        return launch

    def check(self, rule: IndexRule, indices: Located, stream: object) -> None:
        """Raise `IndexError` for the first index that breaks the rule."""
        self.gather(rule, None)(*indices, *indices, *indices, stream)
        if rule.axis_pitches and self._has_doubles(rule, indices, stream):
            self._raise_for_doubles(rule, indices, stream)

    def _report(self) -> ThreadReport:
        """This thread's report, or a new one after a failure."""
        report: ThreadReport | None = getattr(self._threads, "report", None)
        if report is None or report.is_unknown:
            memory = self._gpu.allocate(REPORT.size, _ALIGNMENT)
            report = self._threads.report = ThreadReport(memory, self._number)
        return report

    def _has_doubles(self, rule: IndexRule, indices: Located, stream: object) -> bool:
        """True if two indices select one element; the bits that they set follow the report."""
        memory = self._gpu.allocate(distinct_report_bytes(rule), _ALIGNMENT, stream)
        report = IndexReport(memory, self._number, stream)
        self._kernel(distinct_launch, rule)(*indices, memory, 0, stream)
        return wrong_index(report.read(stream)) is not None

    def _raise_for_doubles(self, rule: IndexRule, indices: Located, stream: object) -> None:
        """Find the two indices that select one element on the host, as on the CPU, and raise `IndexError`."""
        nbytes = rule.index.layout.span * rule.index.element.itemsize
        copied = Buffer.of(np.empty(nbytes, np.uint8))
        self._gpu.copy(*indices, copied, 0, Runs(nbytes), stream)
        check_indices(rule, copied.bytes)

    def _prepared(self, launch_of: Callable[[IndexRule], KernelLaunch], rule: IndexRule) -> PreparedKernel:
        return self._gpu.kernel(launch_of(rule))


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
        """Read and clear the report."""
        launch = take_launch()
        function = compiled_kernel(launch.sources, launch.name, self._device, launch.shared_bytes)
        memory = self._report.memory
        PreparedKernel(launch, function, self._device, ())(memory, 0, memory, REPORT.size, None)
        return self._report.read(None, REPORT.size)


_NO_RULE: Final = 0
"""The number shared by rules without one of their own."""


def _described(rule: IndexRule, wrong: WrongIndex) -> str:
    """The error message of a reported index."""
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
