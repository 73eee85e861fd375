"""Wrong indices on a CUDA device: a report in its memory that kernels write and the host reads when it waits anyway."""

from __future__ import annotations

import itertools
import threading
from typing import Final

import cupy
import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cuda.launches.index_checks import (
    REPORT,
    RULES,
    WrongIndex,
    launch_number,
    take_launch,
    wrong_index,
)
from stridedgpu.planning.index_rule import IndexRule

from .compile import compiled_kernel
from .launch import PreparedKernel
from .streams import current_on

__all__ = ["DeferredIndexErrors", "IndexReport", "described"]


class IndexReport:
    """One `sg::IndexReport` in the memory of a device, all zero until a kernel finds a wrong index.

    What a kernel may need besides lies behind it in the same memory.
    """

    def __init__(self, memory: Buffer, device: int) -> None:
        """Take over new memory, to be cleared."""
        self._memory = memory
        self._device = device

    @property
    def address(self) -> int:
        """Where the report is."""
        return self._memory.address

    def clear(self, stream: object) -> None:
        """Forget what was found, in the order of the stream."""
        with current_on(self._device, stream) as handle:
            cupy.cuda.runtime.memsetAsync(self.address, 0, self._memory.nbytes, handle)

    def read(self, stream: object, start: int = 0) -> bytes:
        """What the kernels before on the stream have found; the host waits for them.

        `start` is where in the memory another report begins.
        """
        held = np.empty(REPORT.size, np.uint8)
        with current_on(self._device, stream) as handle:
            runtime = cupy.cuda.runtime
            runtime.memcpyAsync(held.ctypes.data, self.address + start, REPORT.size, runtime.memcpyDeviceToHost, handle)
            runtime.streamSynchronize(handle)
        return held.tobytes()


class DeferredIndexErrors:
    """The wrong indices of launches that nobody has waited for yet, of one device.

    One report serves all launches, and captured graphs may write to it for as long as the process lives. Its memory is
    therefore never given back, and only a kernel empties it, a word at a time, in atomic operations: kernels that are
    still running lose nothing. Rules keep their numbers for the same reason.
    """

    NBYTES: Final = 2 * REPORT.size
    """A report, and room for what is taken from it."""

    def __init__(self, memory: Buffer, device: int) -> None:
        """Take over new memory of `DeferredIndexErrors.NBYTES`, and begin with no wrong index."""
        self._memory = memory
        self._device = device
        self._report = IndexReport(memory, device)
        self._report.clear(None)
        self._report.read(None)  # a kernel of another stream may report from now on
        self._rules: dict[IndexRule, int] = {}
        self._launches = itertools.count()
        self._lock = threading.Lock()

    @property
    def address(self) -> int:
        """Where kernels report."""
        return self._report.address

    def launched(self, rule: IndexRule) -> int:
        """The number of a launch that is about to be made, whose indices have to keep `rule`.

        Rules behind the first 65,535 have no number of their own: of their errors less is said.
        """
        with self._lock:
            number = self._rules.get(rule)
            if number is None:
                number = len(self._rules) + 1 if len(self._rules) + 1 < RULES else _NO_RULE
                if number != _NO_RULE:
                    self._rules[rule] = number
            return launch_number(next(self._launches), number)

    def check(self) -> None:
        """Raise `IndexError` for the first wrong index of the launches that are done; then there is none any more."""
        with self._lock:
            if not self._rules or wrong_index(self._report.read(None)) is None:
                return
            found = wrong_index(self._taken())
            if found is None:
                return
            rule = next((rule for rule, number in self._rules.items() if number == found.rule), None)
        raise IndexError(_undescribed(found) if rule is None else described(rule, found))

    def _taken(self) -> bytes:
        """What the report says, which is then empty."""
        launch = take_launch()
        function = compiled_kernel(launch.sources, launch.name, self._device, launch.shared_bytes)
        PreparedKernel(launch, function, self._device, ())(self._memory, 0, self._memory, REPORT.size, None)
        return self._report.read(None, REPORT.size)


_NO_RULE: Final = 0
"""The number of a rule that has none of its own."""


def described(rule: IndexRule, found: WrongIndex) -> str:
    """What is wrong with a reported index."""
    sizes = rule.index.layout.sizes
    position = [int(place) for place in np.unravel_index(found.number, sizes)] if sizes else []
    assert found.value is not None
    return rule.out_of_range(position, found.value if rule.is_signed else found.value % 2**64)


def _undescribed(found: WrongIndex) -> str:
    """The same where the rule is not known, or other launches reported while this was read."""
    value = "" if found.value is None else f" = {found.value}"
    return (
        f'indices{value}, number {found.number} in row-major order, of a gather with mode="deferred" is out of range; '
        'give mode="raise" to have it named.'
    )
