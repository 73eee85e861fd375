"""Two CUDA devices on a machine that has none: `two_gpus`, and the fixture `gpus`."""

from __future__ import annotations

import sys
import types
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness.fake_cupy import FakeCuda

from stridedgpu.devices import selection
from stridedgpu.devices.cuda import sources as kernel_sources
from stridedgpu.devices.cuda.status import CudaStatus
from stridedgpu.operations import transfer

RUNTIME = Path(selection.__file__).parent / "cuda" / "runtime"


@contextmanager
def two_gpus(monkeypatch):
    """Two devices; the modules that import CuPy are imported anew over the stand-in, and forgotten afterwards."""
    fake = FakeCuda(devices=2)
    planner = types.ModuleType("stridedgpu.devices.cuda.launches.relayout")
    planner.cuda_launch = fake.cuda_launch
    names = [f"stridedgpu.devices.cuda.runtime.{path.stem}" for path in RUNTIME.glob("[!_]*.py")]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name, module in {**fake.modules(), planner.__name__: planner}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(kernel_sources, "joined_source", lambda *sources: f"joined {' '.join(sources)}")
    monkeypatch.setattr(selection, "_remote", {})
    monkeypatch.setattr(selection, "cuda_status", lambda: CudaStatus(2))
    transfer.zero_bytes.cache_clear()
    yield fake
    transfer.zero_bytes.cache_clear()
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def gpus(monkeypatch):
    """Two devices for one test."""
    with two_gpus(monkeypatch) as fake:
        yield fake
