"""CONTRIBUTING.md is true: each friction that newcomers met has a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "CONTRIBUTING.md"

pytestmark = pytest.mark.skipif(
    not PAGE.is_file(), reason="CONTRIBUTING.md is not here: the tests lie outside a checkout"
)


def test_every_friction_has_a_test_that_is_there():
    rows = re.findall(r"^\| (\d+) \|(.*)\|(.*)\|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(number) for number, *_ in rows] == [*range(1, 1 + max(20, len(rows)))]
    for number, *_, tests in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", tests)
        assert named, number
        assert tests.count("`") == 2 * len(named), number
        for file, test in named:
            assert re.search(rf"^def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), (
                f"{file}::{test}"
            )
