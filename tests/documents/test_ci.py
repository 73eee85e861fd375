"""What CI installs and runs is pinned, its steps have limits, and those beside the gate are written down."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / ".ci"
CONSTRAINTS = sorted((CI / "constraints").glob("*.txt"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

pytestmark = pytest.mark.skipif(not CI.is_dir(), reason="CI's files are not here: the tests lie outside a checkout")


def test_every_environment_of_ci_has_its_versions():
    text = (CI / "environment").read_text()
    assert re.findall(r"-m pip install.*", text) == [
        "-m pip install --quiet --upgrade pip",
        '-m pip install -qq "$@"; }',
        '-m pip install -qq --constraint ".ci/constraints/$1.txt" "${@:2}"; }',
    ]
    constrained = {*re.findall(r"^ *(?:[\w*-]+\) |peer\(\) \{ )?pip ([a-z0-9-]+) ", text, re.MULTILINE)}
    assert constrained == {path.stem for path in CONSTRAINTS}
    for script in ("run", "deep", "steps", "level"):
        assert "pip install" not in (CI / script).read_text()


def test_the_page_names_the_versions_that_the_tests_beside_transformers_hold_for():
    pinned = dict(line.split("==") for line in (CI / "constraints" / "transformers.txt").read_text().splitlines())
    named = [f"{name} {pinned[name.lower()]}" for name in ("transformers", "torch", "torchvision", "Pillow")]
    page = " ".join((ROOT / "docs" / "transformers.md").read_text(encoding="utf-8").split())
    assert "with {}, {}, {} and {} on drawn images".format(*named) in page


def test_the_limits_of_the_gate_and_its_steps():
    calls = re.findall(r"^(?:if .*; then )?step (.*)", (CI / "run").read_text(), re.MULTILINE)
    limits = [re.match(r'(?:"[\w ]+"|[\w-]+) (\d+) ', call) for call in calls]
    assert len(limits) > 8
    assert all(limit is not None and int(limit[1]) <= 1200 for limit in limits), calls


@pytest.mark.skipif(shutil.which("bash") is None, reason="the steps are named by bash")
def test_contributing_names_every_step_beside_the_gate():
    names = subprocess.run(
        ["bash", CI / "deep", "--names"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert len(names) == len({*names}) > 20
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_folder_of_tests_is_in_one_slow_step():
    calls = re.findall(r"^deep slow-.*", (CI / "deep").read_text().replace("\\\n", " "), re.MULTILINE)
    folders = [folder for call in calls for folder in re.findall(r"tests/(\w+)", call)]
    assert sorted(folders) == sorted(
        {path.relative_to(ROOT / "tests").parts[0] for path in ROOT.glob("tests/*/test_*.py")}
    )


@pytest.mark.parametrize("step", ["transformers", "newest"])
def test_tests_of_operations_beside_transformers_are_in_the_steps_that_have_it(step):
    (call,) = re.findall(rf"^deep {step} .*?^(?=deep|#)", (CI / "deep").read_text(), re.MULTILINE | re.DOTALL)
    expanded = re.sub(r"(\S*)\{(.*)\}(\S*)", lambda m: " ".join(m[1] + n + m[3] for n in m[2].split(",")), call)
    beside = [
        path.relative_to(ROOT).as_posix()
        for path in sorted(ROOT.glob("tests/operations/test_*.py"))
        if "harness.transformers_processors" in path.read_text(encoding="utf-8")
    ]
    assert len(beside) == 2
    assert [path for path in beside if path not in expanded.split()] == []


def test_workflows_run_the_gate_and_every_step_beside_it():
    workflows = {path.stem: path.read_text() for path in WORKFLOWS}
    assert "run: bash .ci/run" in workflows["ci"]
    assert "bash .ci/deep --names" in workflows["nightly"]
    assert 'run: bash .ci/deep "$STEP"' in workflows["nightly"]


@pytest.mark.parametrize("path", CONSTRAINTS, ids=[path.stem for path in CONSTRAINTS])
def test_a_constraint_is_a_name_and_one_public_version(path):
    lines = path.read_text().splitlines()
    assert lines
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
    assert "SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)" in text
    assert set(re.findall(r"([\w-]+): write", text)) == {"id-token", "attestations"}
