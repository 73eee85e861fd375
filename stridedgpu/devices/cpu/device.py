"""The CPU device: aligned memory, and plans run by the native library or by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stridedgpu.devices.buffer import Buffer, address_of
from stridedgpu.devices.interface import DeviceInfo, DirectCheck, Launch, Located
from stridedgpu.devices.launch_cache import CachedLaunches
from stridedgpu.devices.verbose import is_verbose, with_verbose_line
from stridedgpu.problems.device_plan import DevicePlan, P
from stridedgpu.values.errors import DeviceError

from .memory_left import LARGE_BYTES, check_memory_left
from .plan import CpuPlan, check_stream, cpu_plan, prepared
from .policy import policy
from .thread_count import usable_cores

if TYPE_CHECKING:
    from stridedgpu.problems.index_rule import IndexRule

_LEAST_ALIGNMENT: Final = 64
"""Alignment of allocations in bytes: one cache line, as non-temporal stores need it."""

_PAGE: Final = 4096
_APART: Final = 2048
"""Bytes from the start of a page to that of a large allocation, half a page. A load waits for a store shortly before it
whose address has the same last 12 bits. Large arrays of NumPy begin 16 bytes behind a page and those of PyTorch 64, so
memory at 64 made copies and casts of the same size take 1.13 to 1.19 times as long on a Zen 4."""

_APART_BYTES: Final = 64 * 1024
"""Bytes from which on an allocation is placed so; it takes a page more."""


class CpuDevice(CachedLaunches):
    """The CPU of this process."""

    name = "cpu"
    widest_access = 16
    mixes_windows = True
    _new_bytes: Callable[..., Any] = staticmethod(np.empty)

    def plan(self, problem: P) -> CpuPlan[P]:
        """The plan of a problem: the native library's loops, or NumPy's if it has none."""
        return cpu_plan(problem)

    def prepare(self, plan: DevicePlan) -> Launch:
        """A plan with its loops prepared."""
        assert isinstance(plan, CpuPlan), "made by this device"
        launch = prepared(plan)
        if not is_verbose():
            return launch
        loops = plan.loops
        return with_verbose_line(plan, launch, lambda: (loops.name, loops), policy().target.level)

    def allocate(self, nbytes: int, alignment: int, stream: object = None) -> Buffer:  # noqa: ARG002 - it has none
        """Allocate bytes at a multiple of `alignment`. Raises `DeviceError` if the memory is unavailable."""
        step, place = max(alignment, _LEAST_ALIGNMENT), 0
        if nbytes >= _APART_BYTES:
            if nbytes >= LARGE_BYTES:
                check_memory_left("The CPU", nbytes)
            if step <= _APART:
                step, place = _PAGE, _APART
        try:
            memory = self._new_bytes(nbytes + step, np.uint8)
        except (MemoryError, ValueError) as error:
            raise DeviceError(f"The CPU has no {nbytes} bytes of memory left to allocate.") from error
        base = address_of(memory)
        start = base + (place - base) % step
        return Buffer.trusted(start, nbytes, memory, alignment, "cpu", False, True)  # noqa: FBT003 - quicker

    def check_indices(self, rule: IndexRule, indices: Located, stream: object) -> DirectCheck | None:
        """Check the indices at once."""
        check_stream(stream)
        from .gather import check_by

        return check_by(rule, indices)

    def synchronize(self) -> None:
        """Return at once: every call returns after its work is done."""

    @staticmethod
    def describe() -> DeviceInfo:
        """The description of this CPU."""
        chosen, cores = policy(), usable_cores()
        loops = f"NumPy {np.__version__}" if chosen.why_numpy else f"native loops of {chosen.native_level}"
        words = f"{cores} core{'s' * (cores > 1)}, {chosen.target.words}, {loops}"
        return DeviceInfo("cpu", available=True, description=words, reason=chosen.why_numpy)


class ZeroedMemory(CpuDevice):
    """The CPU with new memory of zeros: a large block's are the system's, written when a page is first touched."""

    _new_bytes = staticmethod(np.zeros)
