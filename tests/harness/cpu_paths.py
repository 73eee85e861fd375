"""The ways in which the CPU picks elements: on NumPy, or by compiled loops on one thread or two, whatever the size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from harness.compiled_loops import policy_with

from stridedgpu.devices.cpu import device as cpu_device, promotion, thread_count as threads
from stridedgpu.devices.cpu.compiled import jit as machine_code
from stridedgpu.devices.cpu.policy import policy, using
from stridedgpu.devices.launch_cache import forget_launches

__all__ = ["cpu_paths", "forget", "picking_by"]

_MISSING = machine_code.why_unavailable()

_COMPILED = pytest.mark.skipif(_MISSING is not None, reason=f"no compiled loops: {_MISSING}")

cpu_paths = pytest.mark.parametrize(
    "path", ["NumPy", *(pytest.param(f"compiled, {count}", marks=_COMPILED) for count in ("1 thread", "2 threads"))]
)


@contextmanager
def picking_by(path: str) -> Iterator[None]:
    """Operations go this way, in many small items. Two threads are woken for every call, and write past the caches."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        if path == "NumPy":
            for module in (cpu_device, promotion):
                patch.setattr(module, "why_unavailable", lambda: "left out by a test")
            stack.enter_context(using(policy()._replace(native=False)))
        else:
            patch.setattr(threads, "_chosen", int(path.split()[1]))
            patch.setattr(threads.SHARED, "several", int(path.split()[1]) > 1)
            streamed_bytes = 0 if path.endswith("s") else 1 << 40
            chosen = policy_with(
                promotion={"at_once_bytes": 0, "resize_bytes": 0},
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
