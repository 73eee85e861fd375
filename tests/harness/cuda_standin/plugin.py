"""A pytest plugin: the stand-in is there before any test imports CuPy; `-m gpu` then runs what it can run."""

from __future__ import annotations

import importlib.metadata
from importlib.util import find_spec
from typing import Any

import pytest

from . import seam
from .runtime import StandIn

DEVICES = 2

_WANTS_A_GPU = {
    "test_cupy_shares_the_memory_both_ways": "runs CuPy's own kernels, of which the stand-in has none",
    "test_another_process_compiles_nothing_again": "starts another process, which has no stand-in",
}


def install() -> StandIn:
    """Put the stand-in under CuPy, and tell the library that there is a driver.

    Raises `pytest.UsageError` for another CuPy than the one whose seam is known.
    """
    version = next((d.version for d in importlib.metadata.distributions() if d.name.startswith("cupy-cuda")), None)
    if find_spec("cupy") is None or version != seam.CUPY:
        raise pytest.UsageError(f"the stand-in for CUDA is for CuPy {seam.CUPY}, not {version}: its seam is private.")
    from cupy_backends.cuda.api import driver, runtime

    standin = StandIn(DEVICES, runtime.CUDARuntimeError, runtime.PointerAttributes)
    functions = standin.functions()
    seam.replace(runtime, {**functions, "_ensure_context": functions["ensure_context"]})
    seam.replace(driver, functions)
    import cupy

    from stridedgpu.devices.cuda import status

    status._driver_is_there = lambda: True
    status.cuda_status.cache_clear()
    raw_module = cupy.RawModule

    class Module:
        """CuPy's `RawModule`, whose kernel the stand-in compiles from the same text."""

        def __init__(self, *, code: str, name_expressions: tuple[str, ...], **options: Any) -> None:
            self._expression = code, name_expressions[0]
            self._module = raw_module(code=code, name_expressions=name_expressions, **options)

        def get_function(self, name: str) -> Any:
            standin.compiling = self._expression
            try:
                return self._module.get_function(name)
            finally:
                standin.compiling = None

    cupy.RawModule = Module
    return standin


def pytest_configure(config: pytest.Config) -> None:
    """Install it once."""
    config.stash[_STANDIN] = install()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what only a GPU can do."""
    for item in items:
        if reason := _WANTS_A_GPU.get(item.name.partition("[")[0]):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How many tests ran over real CuPy."""
    ran = sum(report.when == "call" for report in terminalreporter.getreports("passed"))
    launches = config.stash[_STANDIN].launches
    terminalreporter.line(f"{ran} GPU tests over real CuPy {seam.CUPY} with late streams: {launches} launches")


_STANDIN = pytest.StashKey[StandIn]()
