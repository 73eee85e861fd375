"""Two CUDA devices on a machine that has none: `two_gpus`, and the fixture `gpus`."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness.fake_cupy import FakeCuda

from stridedgpu.devices import selection
from stridedgpu.devices.cuda import cubins, plan as cuda_plan, sources as kernel_sources
from stridedgpu.devices.cuda.status import CudaStatus
from stridedgpu.devices.launch_cache import forget_launches
from stridedgpu.operations import move
from stridedgpu.problems.relayout_problem import RelayoutProblem

RUNTIME = Path(selection.__file__).parent / "cuda" / "runtime"


def forget():
    """Nothing that was planned or made ready for other devices is used."""
    move.zero_bytes.cache_clear()
    forget_launches()


@contextmanager
def two_gpus(monkeypatch):
    """Two devices; the modules that import CuPy are imported anew over the stand-in, and forgotten afterwards."""
    fake = FakeCuda(devices=2)
    names = [f"stridedgpu.devices.cuda.runtime.{path.stem}" for path in RUNTIME.glob("[!_]*.py")]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name, module in fake.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(kernel_sources, "joined_source", lambda *sources: f"joined {' '.join(sources)}")
    monkeypatch.setattr(cubins, "stored_cubin", lambda source, name, capability: fake.cubins.get((name, capability)))
    monkeypatch.setattr(selection, "_remote", {})
    monkeypatch.setattr(selection, "cuda_status", lambda: CudaStatus(2))
    # Launches that name their plans.
    choose, _ = cuda_plan._PLANNERS[RelayoutProblem]
    planners = {**cuda_plan._PLANNERS, RelayoutProblem: (choose, fake.cuda_launch)}
    monkeypatch.setattr(cuda_plan, "_PLANNERS", planners)
    forget()
    yield fake
    forget()
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def gpus(monkeypatch):
    """Two devices for one test."""
    with two_gpus(monkeypatch) as fake:
        yield fake
