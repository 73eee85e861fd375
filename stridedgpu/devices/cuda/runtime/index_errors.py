"""Wrong indices on a CUDA device: a report in its memory that kernels write and the host reads when it waits anyway."""

from __future__ import annotations

import threading
from typing import Final

import cupy
import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cuda.launches.index_checks import REPORT, WrongIndex, wrong_index
from stridedgpu.planning.index_rule import IndexRule

from .streams import current_on

__all__ = ["DeferredIndexErrors", "IndexReport", "described"]


class IndexReport:
    """One `sg::IndexReport` in the memory of a device, all zero until a kernel finds a wrong index.

    What a kernel may need besides lies behind it in the same memory.
    """

    def __init__(self, memory: Buffer, device: int) -> None:
        """Take over new memory and clear it."""
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

    def read(self, stream: object) -> bytes:
        """What the kernels before on the stream have found; the host waits for them."""
        held = np.empty(REPORT.size, np.uint8)
        with current_on(self._device, stream) as handle:
            runtime = cupy.cuda.runtime
            runtime.memcpyAsync(held.ctypes.data, self.address, REPORT.size, runtime.memcpyDeviceToHost, handle)
            runtime.streamSynchronize(handle)
        return held.tobytes()


_RULE_BITS: Final = 12
"""Bits of a launch's number that say which rule its indices have to keep; the others count launches."""


class DeferredIndexErrors:
    """The wrong indices of launches that nobody has waited for yet, of one device."""

    def __init__(self, report: IndexReport) -> None:
        """Begin with none."""
        self._report = report
        self._rules: dict[IndexRule, int] = {}
        self._launched = 0
        self._lock = threading.Lock()
        self._clear()

    @property
    def address(self) -> int:
        """Where kernels report."""
        return self._report.address

    def launched(self, rule: IndexRule) -> int:
        """The number of a launch that is about to be made, whose indices have to keep `rule`.

        Raises `IndexError` for earlier launches where there are too many different rules to go on without waiting.
        """
        if rule not in self._rules and len(self._rules) >> _RULE_BITS:
            cupy.cuda.runtime.deviceSynchronize()
            self.check()
            self._rules.clear()
        with self._lock:
            number = self._rules.setdefault(rule, len(self._rules))
            self._launched = (self._launched + 1) % 2 ** (32 - _RULE_BITS)
            return self._launched << _RULE_BITS | number

    def check(self) -> None:
        """Raise `IndexError` for the first wrong index of the launches that are done; then there is none any more."""
        with self._lock:
            if not self._rules:
                return
            found = wrong_index(self._report.read(None))
            if found is None:
                return
            self._clear()
            rules = list(self._rules)
        raise IndexError(described(rules[found.launch % (1 << _RULE_BITS)], found))

    def _clear(self) -> None:
        """Forget what was found, before a kernel of any stream can write again."""
        self._report.clear(None)
        self._report.read(None)


def described(rule: IndexRule, found: WrongIndex) -> str:
    """What is wrong with a reported index."""
    sizes = rule.index.layout.sizes
    outer = sizes[:-1] if rule.has_tuples else sizes
    position = [int(place) for place in np.unravel_index(found.position, outer)] if outer else []
    if rule.has_tuples:
        position.append(found.component)
    return rule.out_of_range(position, found.value if rule.is_signed else found.value % 2**64)
