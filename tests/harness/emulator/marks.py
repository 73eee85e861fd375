"""Which tests of kernels run where: without a compiler they skip and say why; the longer ones have steps of CI."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from . import machine_code, runner

Test = TypeVar("Test", bound=Callable[..., object])

DEFAULT_ARCHITECTURE = "sm_90"
"""The one that plans are made for where there is no GPU."""

every_architecture = pytest.mark.parametrize(
    "architecture",
    [
        pytest.param(name, marks=[] if name == DEFAULT_ARCHITECTURE else [pytest.mark.slow])
        for name in machine_code.ARCHITECTURES
    ],
)
"""A test for each architecture, of which the default run has one."""

inspected = pytest.mark.skipif(machine_code.why_unavailable() is not None, reason=str(machine_code.why_unavailable()))


def emulated(test: Test) -> Test:
    """A test that runs kernels in the emulator."""
    reason = runner.why_unavailable()
    return pytest.mark.emulation(pytest.mark.skipif(reason is not None, reason=str(reason))(test))
