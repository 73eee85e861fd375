"""Wrong indices on a CUDA device: a report in its memory that kernels write and the host reads when it waits anyway."""

from __future__ import annotations

import itertools
import threading
from ctypes import c_char
from typing import Any, Final

import cupy
import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cuda.gather import REPORT, RULES, WrongIndex, launch_number, take_launch, wrong_index
from stridedgpu.planning.index_rule import IndexRule

from .kernels import PreparedKernel, compiled_kernel
from .streams import current_on


class IndexReport:
    """One `sg::IndexReport` in device memory, all zero until a kernel reports a wrong index.

    Scratch memory of a kernel, if any, follows the report.
    """

    def __init__(self, memory: Buffer, device: int) -> None:
        """Take ownership of new memory, still to be cleared."""
        self._memory = memory
        self._device = device

    @property
    def address(self) -> int:
        """The address of the report."""
        return self._memory.address

    def clear(self, stream: object) -> None:
        """Clear the report, in stream order."""
        with current_on(self._device, stream) as handle:
            cupy.cuda.runtime.memsetAsync(self.address, 0, self._memory.nbytes, handle)

    def read(self, stream: object, start: int = 0) -> bytes:
        """Read the report after all earlier kernels of the stream; the host waits for them.

        `start` is the offset of another report in the memory.
        """
        held = np.empty(REPORT.size, np.uint8)
        with current_on(self._device, stream) as handle:
            runtime = cupy.cuda.runtime
            runtime.memcpyAsync(held.ctypes.data, self.address + start, REPORT.size, runtime.memcpyDeviceToHost, handle)
            runtime.streamSynchronize(handle)
        return held.tobytes()


class ThreadReport:
    """A report for the checks of one thread, and its copy in page-locked memory; both all zero between calls.

    Entered by `with`: after a failure inside, what the report contains is not known.
    """

    def __init__(self, memory: Buffer, device: int) -> None:
        """Take over new memory, and clear it."""
        self.memory = memory
        self.is_unknown = False
        self._device = device
        report = IndexReport(memory, device)
        report.clear(None)
        report.read(None)  # from now on kernels of any stream may report
        self._pinned = cupy.cuda.alloc_pinned_memory(REPORT.size)
        self._copy: Any = (c_char * REPORT.size).from_address(self._pinned.ptr)
        self._copy.raw = _NO_REPORT

    def __enter__(self) -> None:
        """Nothing changes."""

    def __exit__(self, failure: object, *_: object) -> None:
        """Note a failure."""
        if failure is not None:
            self.is_unknown = True

    def found(self, handle: int) -> WrongIndex | None:
        """What kernels of the stream reported; the host waits for them, once if there is no report."""
        runtime = cupy.cuda.runtime
        if runtime.getDevice() != self._device:
            with cupy.cuda.Device(self._device):
                return self.found(handle)
        runtime.memcpyAsync(self._pinned.ptr, self.memory.address, REPORT.size, runtime.memcpyDeviceToHost, handle)
        runtime.streamSynchronize(handle)
        copied = self._copy.raw
        if copied == _NO_REPORT:
            return None
        runtime.memsetAsync(self.memory.address, 0, REPORT.size, handle)
        runtime.streamSynchronize(handle)
        return wrong_index(copied)


_NO_REPORT: Final = bytes(REPORT.size)


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
        self._memory = memory
        self._device = device
        self._report = IndexReport(memory, device)
        self._report.clear(None)
        self._report.read(None)  # from now on a kernel of any stream may report
        self._rules: dict[IndexRule, int] = {}
        self._launches = itertools.count()
        self._lock = threading.Lock()

    @property
    def address(self) -> int:
        """The address of the kernels' report."""
        return self._report.address

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
            found = wrong_index(self._taken())
            if found is None:
                return
            rule = next((rule for rule, number in self._rules.items() if number == found.rule), None)
        raise IndexError(_undescribed(found) if rule is None else described(rule, found))

    def _taken(self) -> bytes:
        """Read and clear the report."""
        launch = take_launch()
        function = compiled_kernel(launch.sources, launch.name, self._device, launch.shared_bytes)
        PreparedKernel(launch, function, self._device, ())(self._memory, 0, self._memory, REPORT.size, None)
        return self._report.read(None, REPORT.size)


_NO_RULE: Final = 0
"""The number shared by rules without one of their own."""


def described(rule: IndexRule, found: WrongIndex) -> str:
    """The error message of a reported index."""
    sizes = rule.index.layout.sizes
    position = [int(place) for place in np.unravel_index(found.number, sizes)] if sizes else []
    assert found.value is not None
    return rule.out_of_range(position, found.value if rule.is_signed else found.value % 2**64)


def _undescribed(found: WrongIndex) -> str:
    """The message if the rule is unknown, or if other launches reported during the read."""
    value = "" if found.value is None else f" = {found.value}"
    return (
        f'indices{value}, number {found.number} in row-major order, of a gather with mode="deferred" is out of range; '
        'give mode="raise" to have it named.'
    )
