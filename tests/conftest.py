"""What holds for every test, and what a run says when all is well: a screen, not a page."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import zlib
from collections import Counter

import pytest
from harness import profiles
from harness.fake_gpus import gpus

__all__ = ["gpus"]

profiles.register()

# Containers often forbid bytecode. Each run would then rewrite the asserts of every file in each worker, and each of
# the many child processes would compile the package anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

TESTS_OF_A_DOT = 20
MODULES_OF_A_LARGE_LIBRARY = 50
_frozen = {"modules": 0}
_passed = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option `--one-in N`."""
    parser.addoption("--one-in", type=int, default=1, help="run a test in N, drawn by its name: the same in every run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Draw tests where `--one-in` asks for it. Begin with those marked `long`; neighbours stay neighbours otherwise."""
    parts = config.getoption("one_in")
    if left_out := [item for item in items if zlib.crc32(item.nodeid.encode()) % parts]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if zlib.crc32(item.nodeid.encode()) % parts == 0]
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Take what collecting made out of the garbage collector's sight: `gc.collect()` in a test looks at its own."""
    freeze()


def pytest_runtest_setup() -> None:
    """Do the same for a large library that a test has loaded."""
    if len(sys.modules) > _frozen["modules"] + MODULES_OF_A_LARGE_LIBRARY:
        freeze()


def freeze() -> None:
    """Keep all objects that are no garbage now, and never look at them again."""
    gc.collect()
    gc.freeze()
    _frozen["modules"] = len(sys.modules)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Give each worker a stretch of neighbours, and more when it is done: one compiles a program and runs its tests."""
    if config.getoption("numprocesses", None) and config.getoption("dist") == "no":
        config.option.dist = "worksteal"


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """One dot for many tests that passed, and none for those that skip: the summary has their reasons."""
    if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
        return "passed", "" if next(_passed) % TESTS_OF_A_DOT else ".", "PASSED"
    if report.skipped and not hasattr(report, "wasxfail"):
        return "skipped", "", "SKIPPED"
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """A line for each reason to skip, with the markers of its tests."""
    markers = {line.partition(":")[0] for line in config.getini("markers")} - {"hypothesis", "slow"}
    skipped: Counter[tuple[str, str]] = Counter()
    for report in terminalreporter.getreports("skipped"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        marked = ", ".join(sorted(markers.intersection(getattr(report, "keywords", ())))) or "-"
        skipped[marked, reason.removeprefix("Skipped: ")] += 1
    if skipped:
        terminalreporter.section("skipped")
        for (marked, reason), count in sorted(skipped.items()):
            terminalreporter.line(f"{count:>5} {marked}: {reason}"[:160])
