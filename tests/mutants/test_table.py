"""The table of mutants says what is there: sources, texts in them, tests."""

from __future__ import annotations

import subprocess
from collections import Counter

import pytest

from mutants.__main__ import KILLED, SURVIVED, UNDECIDED, Project, main, score_table
from mutants.table import KILLED_BEFORE, PROJECT, Mutant, read_mutants

MUTANTS = read_mutants()
AREAS = ("compiled", "cuda", "exchange", "kernels", "numpy_loops", "operations", "planning", "values")


def test_there_are_mutants_of_every_area():
    counts = Counter(mutant.area for mutant in MUTANTS)
    assert tuple(sorted(counts)) == AREAS
    assert min(counts.values()) >= 20
    assert len(MUTANTS) >= 200


def test_no_two_mutants_have_a_name():
    assert [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1] == []


@pytest.mark.parametrize("area", AREAS)
def test_every_text_stands_once_in_its_source_and_the_tests_are_there(area):
    for mutant in MUTANTS:
        if mutant.area == area:
            source = (PROJECT / mutant.file).read_text()
            assert mutant.applied(source) != source, mutant.name  # raises where the text is not, or more than once
            assert [test for test in mutant.tests if not (PROJECT / test.partition("::")[0]).exists()] == []


def test_what_was_killed_before_is_in_the_table():
    killed = KILLED_BEFORE.read_text().splitlines()
    assert killed == sorted(set(killed))
    assert set(killed) <= {mutant.name for mutant in MUTANTS if not mutant.equivalent}


def test_the_score_is_of_those_that_are_decided():
    verdicts = dict(zip(MUTANTS, (KILLED, KILLED, KILLED, SURVIVED, UNDECIDED), strict=False))
    table, score = score_table(verdicts)
    assert score == 0.75
    assert table.splitlines()[-1].split() == ["all", "3", "1", "1", "75.0%"]


FILES = {
    "source.py": "def double(x):\n    return 2 * x\n",
    "conftest.py": 'from hypothesis import settings\n\nsettings.register_profile("judging")\n',
    "test_source.py": """\
import source

def test_of_two():
    assert source.double(2) == 4

def test_of_nothing_that_was_changed():
    assert True
""",
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A copy of a project of one function."""
    original, copy = tmp_path / "original", tmp_path / "copy"
    original.mkdir()
    for name, text in FILES.items():
        (original / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=original, check=True)
    monkeypatch.setattr("mutants.__main__.PROJECT", original)
    return Project(copy)


def mutant(new, tests=("test_source.py",), old="2 * x"):
    return Mutant("area", new, "source.py", old, new, tests)


@pytest.mark.slow
def test_a_mutant_that_a_test_notices_is_killed_and_the_source_is_itself_again(project, tmp_path):
    assert project.judge(mutant("3 * x"), 600) == (KILLED, "test_source.py::test_of_two")
    assert (tmp_path / "copy/source.py").read_text() == FILES["source.py"]
    assert project.judge(mutant("x * 2"), 600) == (SURVIVED, "")
    assert project.judge(mutant("2 * ("), 600)[0] == KILLED


@pytest.mark.slow
def test_a_test_that_fails_anyhow_decides_nothing(project, tmp_path):
    (tmp_path / "copy/test_source.py").write_text(FILES["test_source.py"].replace("== 4", "== 5"))
    verdict, why = project.judge(mutant("3 * x"), 600)
    assert verdict == UNDECIDED
    assert "does not pass without it" in why


def test_a_mutant_whose_tests_do_not_exist_is_an_error(project, monkeypatch):
    monkeypatch.setattr(project, "_run", lambda tests, limit: (4, "file not found"))
    with pytest.raises(RuntimeError, match="nothing to run"):
        project.judge(mutant("3 * x"), 600)


def test_the_command_fails_below_the_score_and_judges_what_is_known(monkeypatch, capsys):
    judged = []

    def all_survive(mutants, processes, limit, budget):
        judged.extend(mutants)
        return dict.fromkeys(mutants, SURVIVED)

    monkeypatch.setattr("mutants.__main__.judge_all", all_survive)
    assert main(["--known", "--draw", "5", "--seed", "a commit"]) == 1
    assert len(judged) == 5
    assert {mutant.name for mutant in judged} <= set(KILLED_BEFORE.read_text().splitlines())
    once = [*judged]
    judged.clear()
    main(["--known", "--draw", "5", "--seed", "a commit"])
    assert judged == once
    assert "0.0%" in capsys.readouterr().out
