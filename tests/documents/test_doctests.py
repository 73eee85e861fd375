"""Every example in every docstring of the package runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest

import stridedgpu

MODULES = sorted(
    {found.name for found in pkgutil.walk_packages(stridedgpu.__path__, "stridedgpu.")} | {stridedgpu.__name__}
)


def imported(name: str) -> ModuleType:
    """A module of the package; the test is skipped where it needs an optional library that is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] == "stridedgpu":
            raise
        pytest.skip(f"a module needs {missing.name}, which is not installed")


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    failed, _ = doctest.testmod(imported(name))
    assert failed == 0


def test_the_walk_finds_modules_and_their_examples():
    assert {
        "stridedgpu.values.layout",
        "stridedgpu.devices.cuda.relayout.choice",
        "stridedgpu.values.strides",
    } <= set(MODULES)
    floors = (
        "values.dtypes",
        "values.strides",
        "values.overlap",
        "values.layout",
        "problems.loop_nest",
        "values.descriptor",
    )
    for floor in floors:
        assert any(test.examples for test in doctest.DocTestFinder().find(imported(f"stridedgpu.{floor}"))), floor
