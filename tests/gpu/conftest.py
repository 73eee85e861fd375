"""A switch for memory checkers: CuPy's pool cuts blocks from larger ones, where an access too far goes unseen."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _pool():
    if os.environ.get("STRIDEDGPU_TESTS_WITHOUT_POOL"):
        import cupy

        cupy.cuda.set_allocator(None)
