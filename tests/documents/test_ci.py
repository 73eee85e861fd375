"""What CI installs and runs is pinned: packages by version, GitHub's actions by commit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / ".ci" / "run"
CONSTRAINTS = sorted((ROOT / ".ci" / "constraints").glob("*.txt"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

pytestmark = pytest.mark.skipif(not CI.is_file(), reason="CI's files are not here: the tests lie outside a checkout")


def test_every_environment_of_ci_has_its_versions():
    text = CI.read_text().replace("\\\n", " ")
    installs = [line for line in text.splitlines() if "-m pip install" in line and "--upgrade pip" not in line]
    assert len(installs) >= 9
    named = [re.findall(r"--constraint \.ci/constraints/(\w+)\.txt", line) for line in installs]
    assert all(len(names) == 1 for names in named), installs
    assert {name for (name,) in named} == {path.stem for path in CONSTRAINTS}


@pytest.mark.parametrize("path", CONSTRAINTS, ids=[path.stem for path in CONSTRAINTS])
def test_a_constraint_is_a_name_and_one_public_version(path):
    lines = path.read_text().splitlines()
    assert len(lines) > 5
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==\d[\w.]*", line)] == []
    assert sorted(lines, key=str.lower) == lines


@pytest.mark.parametrize("path", WORKFLOWS, ids=[path.stem for path in WORKFLOWS])
def test_actions_are_pinned_by_commit_and_say_their_version(path):
    uses = re.findall(r"uses: (.*)", path.read_text())
    assert uses
    assert [use for use in uses if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use)] == []


def test_what_is_released_is_attested_and_nothing_else_may_be_written():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "actions/attest-build-provenance@" in text
    assert "SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) python -m build" in text
    assert set(re.findall(r"([\w-]+): write", text)) == {"id-token", "attestations"}
