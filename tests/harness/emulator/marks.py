"""Where kernels cannot be run or compiled, their tests skip and say why."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from . import machine_code, runner

Test = TypeVar("Test", bound=Callable[..., object])

inspected = pytest.mark.skipif(machine_code.why_unavailable() is not None, reason=str(machine_code.why_unavailable()))


def emulated(test: Test) -> Test:
    """A test that runs kernels in the emulator."""
    reason = runner.why_unavailable()
    return pytest.mark.emulation(pytest.mark.skipif(reason is not None, reason=str(reason))(test))
