"""What holds for every test."""

from __future__ import annotations

from fake_gpus import gpus
from hypothesis import settings

__all__ = ["gpus"]

# A shared machine may stop for longer than any deadline; what a call may take is measured by benchmarks.
settings.register_profile("stridedgpu", deadline=None)
settings.load_profile("stridedgpu")
