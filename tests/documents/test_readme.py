"""README.md is true: its examples run, its two commands exist, its table of extras is the project's."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from stridedgpu.__main__ import build_parser

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[tuple[str, str]]:
    """The fenced blocks of one language, each with the heading it stands under."""
    found = []
    for section in re.split(r"^## ", README, flags=re.MULTILINE):
        heading = section.partition("\n")[0]
        fences = re.findall(rf"^```{language}\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
        found += [(heading, text) for text in fences]
    return found


EXAMPLES = blocks("python")


@pytest.mark.parametrize(
    "code", [code for _, code in EXAMPLES], ids=[f"{place} {heading}" for place, (heading, _) in enumerate(EXAMPLES)]
)
def test_example_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})


def test_before_and_after_have_the_same_bits():
    cv2 = pytest.importorskip("cv2", reason="the chain of OpenCV that the first screen shows")
    (before,) = (text for _, text in blocks("text") if "cv2.cvtColor" in text)
    (after,) = (text for _, text in EXAMPLES if "sg.Frame.over" in text)
    surface = np.random.default_rng(0).integers(0, 256, (1620, 2048), np.uint8)
    chain, here = {"cv2": cv2, "np": np, "surface": surface}, {"surface": surface}
    exec(compile(before, "README.md", "exec"), chain)
    exec(compile(re.sub(r"^surface = .*$", "", after, flags=re.MULTILINE), "README.md", "exec"), here)
    assert np.array_equal(here["batch"].numpy(), chain["batch"])


def test_the_home_page_begins_as_the_readme_does():
    home = ROOT / "docs" / "index.md"
    if not home.is_file():
        pytest.skip("the documentation is not here: the tests lie outside a checkout")
    page = home.read_text(encoding="utf-8")
    first, rest = README.split("Start from a checkout", 1)
    table = rest[rest.index("| for | take |") : rest.index("\n\nThe library works on")]
    assert page.startswith(first.replace("docs/resize", "resize").rstrip())
    assert table in page


def test_there_are_examples():
    assert len(EXAMPLES) >= 5


def test_one_command_runs_the_main_job_and_one_the_tests():
    install, *commands = [text.strip() for _, text in blocks("sh")]
    assert install == 'pip install ".[cpu]"'
    assert len(commands) == 2
    assert all(command.startswith("python3 -m venv .venv && ") and "\n" not in command for command in commands)
    assert "stridedgpu preprocess --samples" in commands[0]
    assert commands[1].endswith("pytest -n auto")


def test_the_command_lines_are_accepted():
    given = re.findall(r"stridedgpu (preprocess .*?--out \S+)[`\n]", README.replace("\n--", " --"))
    assert len(given) >= 2
    for line in given:
        build_parser().parse_args(line.rstrip("`").split())


def test_the_table_of_extras_is_the_projects():
    table, _, below = README.partition("| extra | brings | for |")[2].partition("\n\n")
    rows = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
    named = {name for row in (*rows, below.partition(" are for")[0]) for name in re.findall(r"`([^`]+)`", row)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert named == set(project["project"]["optional-dependencies"])


def test_linked_files_exist():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
