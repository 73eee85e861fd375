"""The ways in which the CPU picks elements: on NumPy, or by native loops on one thread or two, whatever the size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from harness.native_loops import needs_library, policy_with

from stridedgpu.devices.cpu import thread_count as threads
from stridedgpu.devices.cpu.policy import policy, using
from stridedgpu.devices.launch_cache import forget_launches

__all__ = ["cpu_paths", "forget", "picking_by"]

cpu_paths = pytest.mark.parametrize(
    "path", ["NumPy", *(pytest.param(f"native, {count}", marks=needs_library) for count in ("1 thread", "2 threads"))]
)


@contextmanager
def picking_by(path: str) -> Iterator[None]:
    """Operations go this way, in many small items. Two threads are woken for every call, and write past the caches."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        if path == "NumPy":
            stack.enter_context(using(policy()._replace(native=False)))
        else:
            patch.setattr(threads, "_chosen", int(path.split()[1]))
            patch.setattr(threads.SHARED, "several", int(path.split()[1]) > 1)
            streamed_bytes = 0 if path.endswith("s") else 1 << 40
            chosen = policy_with(
                sharing={"waking_bytes": 0},
                relayout={"shared_bytes": 0, "item_bytes": range(1024, 1025), "streamed_bytes": streamed_bytes},
                gather={"shared_bytes": 0, "item_bytes": range(1024, 1025)},
                crops={"shared_bytes": 0},
                index_check={"shared_bytes": 0, "item_indices": 64},
            )
            stack.enter_context(chosen)
        forget()
        try:
            yield
        finally:
            forget()


def forget() -> None:
    """What was made ready on another path is not used."""
    forget_launches()
