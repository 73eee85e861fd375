"""SECURITY.md is true: each weakness has its test, and what is said of clocks and interpreters holds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stridedgpu as sg

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "SECURITY.md"
PACKAGE = Path(sg.__file__).parent

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="SECURITY.md is not here: the tests lie outside a checkout")


def test_every_weakness_has_a_test_that_is_there():
    rows = re.findall(r"^\| (\d+) \|(.*)\|(.*)\|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(number) for number, *_ in rows] == [*range(1, 1 + max(9, len(rows)))]
    for number, _, remedy, tests in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", tests)
        assert named, number
        assert tests.count("`") == 2 * len(named), number
        for file, test in named:
            assert re.search(rf"^def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), (
                f"{file}::{test}"
            )
        for module in re.findall(r"`([\w/]+\.py)`", remedy):
            assert (PACKAGE / module).is_file(), module


WALL_CLOCK = re.compile(
    r"\btime\.time|import time_ns|\btime_ns\(|\.(?:utc)?now\(|\.today\(|st_[acm]time|localtime|gmtime"
)


def test_nothing_is_decided_by_a_clock_that_may_jump():
    assert WALL_CLOCK.search("if time.time() > deadline:")
    used = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if WALL_CLOCK.search(path.read_text(encoding="utf-8"))
    }
    assert not used


SECOND = """
import _xxsubinterpreters as interpreters

use = "import stridedgpu as sg; sg.zeros((2, 3), 'uint8', device='cpu')"
exec(use)
try:
    interpreters.run_string(interpreters.create(), use)
except interpreters.RunFailedError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_second_interpreter_is_refused_by_numpy():
    pytest.importorskip("_xxsubinterpreters", reason="Python 3.11 and 3.12 have this module")
    command = [sys.executable, "-c", SECOND]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert re.search("cannot load module more than once per process|does not support loading in sub", done.stdout)
