"""What holds for every test."""

from __future__ import annotations

import pytest
from harness.fake_gpus import gpus
from hypothesis import settings

__all__ = ["gpus"]

# A shared machine may stop for longer than any deadline; what a call may take is measured by benchmarks.
settings.register_profile("stridedgpu", deadline=None)
settings.load_profile("stridedgpu")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what tests recorded with pytest's `record_property`: figures that are worth a look when all is well."""
    passed = terminalreporter.getreports("passed")
    recorded = [(name, value) for report in passed if report.when == "call" for name, value in report.user_properties]
    if recorded:
        terminalreporter.section("recorded")
        for name, value in recorded:
            terminalreporter.line(f"{name}: {value}")
