"""The ways in which the CPU picks elements: on NumPy, or by compiled loops on one thread or two, whatever the size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stridedgpu.devices.cpu import device as cpu, gather as cpu_gather, promotion, thread_count as threads
from stridedgpu.devices.cpu.compiled import (
    crops as compiled_crops,
    gather as compiled_gather,
    index_check as compiled_index_check,
    jit as machine_code,
)

__all__ = ["cpu_paths", "picking_by"]

_MISSING = machine_code.why_unavailable()

_COMPILED = pytest.mark.skipif(_MISSING is not None, reason=f"no compiled loops: {_MISSING}")

cpu_paths = pytest.mark.parametrize(
    "path", ["NumPy", *(pytest.param(f"compiled, {count}", marks=_COMPILED) for count in ("1 thread", "2 threads"))]
)


@contextmanager
def picking_by(path: str) -> Iterator[None]:
    """Gathers, scatters and crops go this way, in many small items, and with 2 threads past the caches too."""
    with pytest.MonkeyPatch.context() as patch:
        if path == "NumPy":
            for module in (cpu, cpu_gather):
                patch.setattr(module, "why_unavailable", lambda: "left out by a test")
        else:
            patch.setattr(promotion, "_LARGE_BYTES", 0)
            patch.setattr(threads, "_chosen", int(path.split()[1]))
            for module in (compiled_crops, compiled_gather, compiled_index_check):
                patch.setattr(module, "_SHARED_BYTES", 0)
            patch.setattr(compiled_crops, "_BAND_BYTES", 16)
            patch.setattr(compiled_gather, "_ITEM_BYTES", range(1024, 1025))
            patch.setattr(compiled_gather, "_STREAMED_BYTES", 0 if path.endswith("s") else 1 << 40)
            patch.setattr(compiled_index_check, "_ITEM_INDICES", 64)
        _forget()
        try:
            yield
        finally:
            _forget()


def _forget() -> None:
    """What was made ready on another path is not used."""
    for cache in (cpu._prepared, cpu_gather._gather, cpu_gather._look, cpu_gather._crops):
        cache.cache_clear()
