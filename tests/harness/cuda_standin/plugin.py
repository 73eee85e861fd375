"""A pytest plugin: the stand-in is there before any test imports CuPy; `-m gpu` then runs what it can run.

Work is late, or done at once with `STRIDEDGPU_STANDIN_WORKS=at-once`.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from . import seam
from .runtime import StandIn

DEVICES = 2

_WANTS_A_GPU = {
    "test_cupy_shares_the_memory_both_ways": "runs CuPy's own kernels, of which the stand-in has none",
    "test_large_tensors_cross_in_pieces": "moves 300 MB by one kernel, which takes fibers a minute",
}

_TABLES = {
    "test_every_pair_of_types_converts_to_the_cpus_bits": 24,
    "test_elements_move_as_bits": 2,
    "test_gathers_have_the_bits_of_the_cpu": 8,
}
"""Tests of which CI runs one in so many: g++ takes a second for each of their kernels. The rest is marked `sweep`."""


def install(status: str = "stridedgpu.devices.cuda.status") -> StandIn:
    """Put the stand-in under CuPy, and tell the library that there is a driver, in its module `status`.

    Raises `pytest.UsageError` for another CuPy than the one whose seam is known.
    """
    version = next((d.version for d in importlib.metadata.distributions() if d.name.startswith("cupy-cuda")), None)
    if find_spec("cupy") is None or version != seam.CUPY:
        raise pytest.UsageError(f"the stand-in for CUDA is for CuPy {seam.CUPY}, not {version}: its seam is private.")
    from cupy_backends.cuda.api import driver, runtime

    def driver_error(name: str) -> Exception:
        """CuPy's error without its constructor, which asks the driver for the error's name."""
        kind = driver.CUDADriverError
        error: Exception = kind.__new__(kind, name)
        return error

    is_eager = os.environ.get("STRIDEDGPU_STANDIN_WORKS") == "at-once"
    standin = StandIn(DEVICES, runtime.CUDARuntimeError, runtime.PointerAttributes, driver_error, is_eager=is_eager)
    functions = standin.functions()
    seam.replace(runtime, {**functions, "_ensure_context": functions["ensure_context"]})
    seam.replace(driver, functions)
    import cupy

    told: Any = import_module(status)
    told._driver_is_there = lambda: True
    told.cuda_status.cache_clear()
    streams: Any = import_module("stridedgpu.devices.cuda.runtime.streams")
    streams._capture_mode_exchange = lambda: functions["exchange_capture_mode"]
    raw_module = cupy.RawModule

    class Module:
        """CuPy's `RawModule`, whose kernel the stand-in compiles from the same text."""

        def __init__(self, *, code: str, name_expressions: tuple[str, ...], **options: Any) -> None:
            self._expression = code, name_expressions[0]
            self._module = raw_module(code=code, name_expressions=name_expressions, **options)

        def get_function(self, name: str) -> Any:
            with standin.compiling(*self._expression):
                return self._module.get_function(name)

    def stored_cubin(source: str, name: str, capability: int) -> Any:
        """The package's machine code; the stand-in compiles the same text when it is launched."""
        cubin = read_cubin(source, name, capability)
        if cubin is not None:
            standin.images[cubin.code] = source, name
        return cubin

    cupy.RawModule = Module
    kernels: Any = import_module("stridedgpu.devices.cuda.runtime.kernels")
    read_cubin, kernels.stored_cubin = kernels.stored_cubin, stored_cubin
    return standin


def pytest_configure(config: pytest.Config) -> None:
    """Install it once."""
    config.stash[_STANDIN] = install()
    config.stash[_RAN] = Counter()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what only a GPU can do, and mark what goes further than CI does, before tests are chosen by marks."""
    seen: Counter[str] = Counter()
    for item in items:
        name = item.name.partition("[")[0]
        if reason := _WANTS_A_GPU.get(name):
            item.add_marker(pytest.mark.skip(reason=reason))
        if seen[name] % _TABLES.get(name, 1):
            item.add_marker(pytest.mark.sweep)
        seen[name] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that distributes the tests, if there is one, what ran here."""
    standin = session.config.stash[_STANDIN]
    ran = Counter(launches=standin.launches, kernels=standin.kernels_run)
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["standin"] = dict(ran)
    session.config.stash[_RAN].update(ran)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Count what one of the processes ran."""
    node.config.stash[_RAN].update(getattr(node, "workeroutput", {}).get("standin", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Count the tests that ran."""
    config.stash[_RAN]["passed"] = sum(report.when == "call" for report in terminalreporter.getreports("passed"))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line of the run: what ran over real CuPy."""
    if not hasattr(config, "workeroutput"):
        ran = config.stash[_RAN]
        streams = "streams that work at once" if config.stash[_STANDIN].is_eager else "late streams"
        print(
            f"{ran['passed']} GPU tests passed on real CuPy {seam.CUPY} with {streams}, without a GPU: "
            f"{ran['launches']} launches of {ran['kernels']} kernels"
        )


_STANDIN = pytest.StashKey[StandIn]()
_RAN = pytest.StashKey[Counter[str]]()
