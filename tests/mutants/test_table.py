"""The table of mutants says what is there: sources, texts in them, tests."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections import Counter

import pytest

from mutants.__main__ import main
from mutants.judge import Project, link_entries
from mutants.results import KILLED, SURVIVED, UNDECIDED, Results, Verdict, score_table
from mutants.table import KILLED_BEFORE, PROJECT, Mutant, read_killed, read_mutants

MUTANTS = read_mutants()


def test_no_two_mutants_have_a_name():
    assert [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1] == []


def test_every_text_stands_once_in_its_source_and_the_tests_are_there():
    for mutant in MUTANTS:
        source = (PROJECT / mutant.file).read_text(encoding="utf-8")
        assert mutant.applied(source) != source, mutant.name  # raises where the text is not, or more than once
        assert [test for test in mutant.tests if not (PROJECT / test.partition("::")[0]).exists()] == []


def test_what_was_killed_before_is_in_the_table():
    killed = read_killed()
    assert list(killed) == sorted(killed)
    assert len(killed) == len(KILLED_BEFORE.read_text(encoding="utf-8").splitlines())
    assert set(killed) <= {mutant.name for mutant in MUTANTS if not mutant.equivalent}


def test_the_figures_of_the_page_are_those_of_the_table():
    page, killed = (PROJECT / "tests" / "mutants" / "README.md").read_text(encoding="utf-8"), read_killed()
    equivalent = sum(bool(mutant.equivalent) for mutant in MUTANTS)
    assert f"has {len(MUTANTS)} mutants; {equivalent} are equivalent" in " ".join(page.split())
    assert f"{len(killed)} of the others were killed" in " ".join(page.split())


def test_the_score_is_of_those_that_are_decided():
    five = [mutant(str(number)) for number in range(5)]
    verdicts = dict(zip(five, (KILLED, KILLED, KILLED, SURVIVED, UNDECIDED), strict=True))
    equal = Mutant("area", "6", "source.py", "2 * x", "x * 2", (), equivalent="multiplication commutes")
    table, score, decided = score_table([*five, equal, mutant("7")], verdicts)
    assert (score, decided) == (0.75, 4)
    assert table.splitlines()[-1].split() == ["all", "3", "1", "1", "1", "1", "75.0%"]


def test_a_run_goes_on_from_the_lines_of_another_and_judges_changed_entries_again(tmp_path):
    file, one = tmp_path / "results.jsonl", mutant("3 * x")
    results = Results(file, "a commit", {})
    results.add(one, Verdict(SURVIVED, "", 1.5))
    results.add(one, Verdict(KILLED, "test_source.py::test_of_two", 0.5))
    read = Results(file, "another", {})
    assert read.verdict(one) == KILLED
    assert read.killer(one) == "test_source.py::test_of_two"
    assert read.verdict(dataclasses.replace(one, new="4 * x")) is None


FILES = {
    "source.py": "import os\n\ndef double(x):\n    return 2 * x\n",
    "conftest.py": 'from hypothesis import settings\n\nsettings.register_profile("judging")\n',
    "pytest.ini": "[pytest]\naddopts = -m 'not slow'\nmarkers = slow: waits\n",
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
        (original / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=original, check=True)
    monkeypatch.setattr("mutants.judge.PROJECT", original)
    monkeypatch.setenv("STRIDEDGPU_EMULATION_CACHE", str(tmp_path / "programs"))
    made = Project(copy, Results(None, "a commit", {}))
    yield made
    made.close()


def mutant(new, tests=("test_source.py",), old="2 * x"):
    return Mutant("area", new, "source.py", old, new, tests)


@pytest.mark.slow
def test_a_mutant_that_a_test_notices_is_killed_and_the_source_is_itself_again(project, tmp_path):
    verdict = project.judge(mutant("3 * x"), 600)
    assert (verdict.verdict, verdict.test) == (KILLED, "test_source.py::test_of_two")
    assert (tmp_path / "copy/source.py").read_text(encoding="utf-8") == FILES["source.py"]
    assert project.judge(mutant("x * 2"), 600).verdict == SURVIVED
    assert project.judge(mutant("2 * ("), 600).verdict == KILLED
    assert project.judge(mutant("os._exit(3)"), 600).verdict == KILLED


@pytest.mark.slow
def test_what_fails_without_the_mutant_decides_nothing_and_the_other_tests_still_do(project, tmp_path):
    (tmp_path / "copy/test_source.py").write_text(FILES["test_source.py"].replace("== 4", "== 5"), encoding="utf-8")
    assert project.judge(mutant("3 * x"), 600).verdict == SURVIVED
    (tmp_path / "copy/test_broken.py").write_text("import a_module_that_is_not_there\n", encoding="utf-8")
    (tmp_path / "copy/test_sound.py").write_text(FILES["test_source.py"], encoding="utf-8")
    verdict = project.judge(mutant("3 * x", ("test_broken.py", "test_source.py", "test_sound.py")), 600)
    assert (verdict.verdict, verdict.test) == (KILLED, "test_sound.py::test_of_two")


@pytest.mark.slow
def test_a_mutant_without_an_end_is_killed_by_its_processor_time_and_stopped_by_the_clock(project, monkeypatch):
    endless = mutant("[None for _ in iter(int, 1)]")
    assert project.judge(endless, 5).verdict == UNDECIDED
    monkeypatch.setattr("mutants.judge._MOST_SECONDS", 3.0)
    verdict = project.judge(endless, 600)
    assert verdict.verdict == KILLED
    assert "ran out of processor time" in verdict.test


@pytest.mark.slow
def test_tests_without_an_end_decide_nothing(project, tmp_path, monkeypatch):
    endless = FILES["test_source.py"].replace("import source", "import source\n\nwhile True:\n    pass")
    (tmp_path / "copy/test_source.py").write_text(endless, encoding="utf-8")
    monkeypatch.setattr("mutants.judge._MOST_SECONDS", 1.0)
    assert project.judge(mutant("3 * x"), 600).verdict == SURVIVED


@pytest.mark.slow
def test_the_slow_tests_judge_what_lives_through_the_others(project, tmp_path):
    marked = "import pytest\nimport source\n\n@pytest.mark.slow\ndef test_of_two():\n    assert source.double(2) == 4\n"
    (tmp_path / "copy/test_source.py").write_text(marked, encoding="utf-8")
    assert project.judge(mutant("3 * x"), 600).verdict == SURVIVED
    assert project.judge(mutant("3 * x"), 600, slow=True).verdict == KILLED


def test_what_another_process_builds_under_a_passing_name_is_not_linked(monkeypatch, tmp_path):
    cache, copy = tmp_path / "cache", tmp_path / "copy"
    copy.mkdir()
    (cache / "host").mkdir(parents=True)
    for name in ("kernel.so", "kernel.so.27860", "table.json"):
        (cache / name).write_text(name, encoding="utf-8")
    seen = list(os.scandir(cache))
    (cache / "kernel.so.27860").rename(cache / "kernel.so")
    monkeypatch.setattr(os, "scandir", lambda _: iter(seen))
    link_entries(cache, copy)
    assert sorted(path.name for path in copy.iterdir()) == ["host", "kernel.so", "table.json"]
    assert (copy / "kernel.so").read_text(encoding="utf-8") == "kernel.so.27860"


def test_the_command_fails_below_the_score_and_judges_what_is_known(monkeypatch, capsys):
    judged = []

    def all_survive(mutants, results, *rest, **options):
        judged.extend(mutants)
        for one in mutants:
            results.add(one, Verdict(SURVIVED, "", 1.0))

    monkeypatch.setattr("mutants.__main__.judge_all", all_survive)
    assert main(["--known", "--draw", "5", "--seed", "a commit"]) == 1
    assert len(judged) == 5
    assert {mutant.name for mutant in judged} <= set(read_killed())
    once = [*judged]
    judged.clear()
    main(["--known", "--draw", "5", "--seed", "a commit"])
    assert judged == once
    assert "0.0%" in capsys.readouterr().out
