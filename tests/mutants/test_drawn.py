"""Mutants of Python: which lines a commit touches, what is changed in them, and which tests judge a module."""

from __future__ import annotations

import ast
import subprocess
from fnmatch import fnmatch

import pytest

from mutants import drawn
from mutants.__main__ import main
from mutants.nearest_tests import ROWS, nearest_tests
from mutants.results import KILLED, SURVIVED, Verdict
from mutants.table import PROJECT

MODULES = drawn.all_lines([""])

SOURCE = """\
from __future__ import annotations
if TYPE_CHECKING:
    import numpy
@dataclass(frozen=True, slots=True)
class Pair:
    first: int | None = 1
    def plus(self, x: int | None, *more: int | None) -> int | None:
        if x is None:
            return self.first
        return [a + b for a, b in zip(self, more, strict=True)]
    @overload
    def minus(self, x: int = 1) -> int: ...
    @overload
    @staticmethod
    def minus(self, x: str = 1) -> str: ...
if TYPE_CHECKING:
    Number = 3
else:
    Number = 4
"""


def git(folder, *arguments):
    as_somebody = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *as_somebody, *arguments], cwd=folder, check=True, capture_output=True)


def test_touched_are_the_lines_of_the_package_that_differ_from_a_commit(tmp_path):
    package = tmp_path / "stridedgpu"
    package.mkdir()
    (package / "moved.py").write_text("".join(f"a{number} = {number}\n" for number in range(9)), encoding="utf-8")
    (tmp_path / "other.py").write_text("x = 1\n", encoding="utf-8")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "a")
    lines = (package / "moved.py").read_text(encoding="utf-8").splitlines()
    del lines[1]  # a line that is gone is no line of the module
    lines[4:6] = ["changed = 1", "changed = 2"]
    (package / "moved.py").write_text("\n".join([*lines, "added = 1", ""]), encoding="utf-8")
    (package / "new.py").write_text("x = 1\ny = 2\n", encoding="utf-8")
    (tmp_path / "other.py").write_text("x = 2\n", encoding="utf-8")
    git(tmp_path, "add", ".")
    assert drawn.touched_lines("HEAD", tmp_path) == {"stridedgpu/moved.py": {5, 6, 9}, "stridedgpu/new.py": {1, 2}}
    with pytest.raises(ValueError, match=r"^--since nothing: "):
        drawn.touched_lines("nothing", tmp_path)


@pytest.mark.slow
def test_annotations_and_what_changes_no_result_are_left_as_they_are():
    pytest.importorskip("cosmic_ray")
    changed = {(place.first_line, name) for place in drawn.places("a.py", SOURCE) for name, _ in place.changes}
    assert changed == {
        (4, "core/RemoveDecorator"),
        (4, "core/ReplaceTrueWithFalse"),  # frozen
        (6, "core/NumberReplacer"),
        (8, "core/AddNot"),
        (8, "core/ReplaceComparisonOperator_Is_IsNot"),
        *((10, name) for line, name in changed if line == 10 and name.startswith("core/ReplaceBinaryOperator_Add_")),
        (19, "core/NumberReplacer"),
    }
    assert len(changed) == 17


@pytest.mark.slow
def test_a_seed_draws_the_same_mutants_each_of_another_line_and_they_are_python():
    pytest.importorskip("cosmic_ray")
    lines = drawn.all_lines(["stridedgpu/preprocess/geometry.py", "stridedgpu/preprocess/torch_loader.py"])
    mutants = drawn.draw_mutants(8, "a commit", lines)
    assert mutants == drawn.draw_mutants(8, "a commit", lines)
    assert mutants != drawn.draw_mutants(8, "another", lines)
    assert len({mutant.name.split(" ")[0] for mutant in mutants}) == 8
    for mutant in mutants:
        source = (PROJECT / mutant.file).read_text(encoding="utf-8")
        assert mutant.area == "preprocess"
        assert ast.dump(ast.parse(mutant.applied(source))) != ast.dump(ast.parse(source))


@pytest.mark.slow
def test_what_is_no_python_is_no_mutant(monkeypatch, tmp_path):
    pytest.importorskip("cosmic_ray")
    (tmp_path / "a.py").write_text("x = {**y}\n", encoding="utf-8")
    monkeypatch.setattr(drawn, "PROJECT", tmp_path)
    assert len(drawn.places("a.py", "x = {**y}\n")) == 1
    assert drawn.draw_mutants(8, "a commit", {"a.py": [1]}) == []


@pytest.mark.parametrize(
    "module, test",
    [
        ("preprocess/decoding.py", "tests/preprocess/test_decoding.py"),
        ("devices/cpu/native/pool.py", "tests/cpu/test_worker_pool.py"),
        ("devices/cpu/target.py", "tests/cpu/test_target.py"),
        ("devices/cpu/native/gather.py", "tests/cpu/test_native_gather.py"),
        ("api/resize.py", "tests/operations/test_resize.py"),
        ("values/layout.py", "tests/values/test_layout.py"),
    ],
)
def test_the_test_of_a_modules_name_or_subject_comes_first(module, test):
    assert nearest_tests(f"stridedgpu/{module}")[0] == test


def test_every_module_has_tests_and_every_row_has_modules_and_tests():
    assert [file for file in MODULES if not nearest_tests(file)] == []
    paths = [file.removeprefix("stridedgpu/") for file in MODULES]
    assert [pattern for pattern, _ in ROWS if not any(fnmatch(path, pattern) for path in paths)] == []
    named = [test for _, tests in ROWS for test in tests if "{module}" not in test]
    assert [test for test in named if not (PROJECT / "tests" / test).is_file()] == []


@pytest.mark.slow
@pytest.mark.parametrize("survivors, decided, code", [(3, 20, 1), (2, 20, 0), (3, 21, 0)])
def test_too_many_survivors_fail_the_command_where_enough_are_decided(monkeypatch, survivors, decided, code):
    pytest.importorskip("cosmic_ray")

    def some_survive(mutants, results, *rest, **options):
        for number, one in enumerate(mutants):
            results.add(one, Verdict(SURVIVED if number < survivors else KILLED, "", 1.0))

    monkeypatch.setattr("mutants.__main__.judge_all", some_survive)
    which = ["--of", "stridedgpu/preprocess/step.py", "--draw", "20"]
    assert main([*which, "--least", "0.9", "--decided", str(decided)]) == code


def test_a_commit_that_touches_no_python_has_no_mutants_and_passes(monkeypatch):
    monkeypatch.setattr("mutants.__main__.touched_lines", lambda commit: {})
    monkeypatch.setattr("mutants.__main__.judge_all", lambda mutants, *rest, **options: {})
    assert main(["--since", "HEAD"]) == 0
