"""README.md is true: its examples run, its two commands exist, its figures are those of the pages that it names."""

from __future__ import annotations

import operator
import re
from pathlib import Path

import numpy as np
import pytest

import stridedgpu as sg
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


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its first two lines."""
    section = README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[1:]]


@pytest.mark.parametrize("row", rows("Measured"), ids=lambda row: row[0])
def test_a_figure_is_that_of_the_page_in_its_row(row):
    _, figure, beside, processor, page = row
    (target,) = re.findall(r"\]\(([^)#]+)", page)
    if not (ROOT / target).is_file():
        pytest.skip("the documentation is not here: the tests lie outside a checkout")
    text = (ROOT / target).read_text(encoding="utf-8")
    assert processor.split(" (")[0] in text
    missing = [number for number in re.findall(r"\d+(?:\.\d+)?", f"{figure} {beside}") if number not in text]
    assert not missing


def test_the_calls_of_the_five_uses_exist():
    calls = [re.match(r"`sg\.([\w.]+)\(", call)[1] for _, call, _ in rows("Five uses")]
    assert len(calls) == 5
    for call in calls:
        assert callable(operator.attrgetter(call)(sg)), call


def test_the_first_screen_says_that_no_gpu_has_run():
    assert "**nothing yet on a GPU.**" in README.partition("![")[0]


def test_one_command_runs_the_main_job_and_one_the_tests():
    install, *commands = [text.strip() for _, text in blocks("sh")]
    assert install == "pip install ."
    assert len(commands) == 2
    assert all(command.startswith("python3 -m venv .venv && ") and "\n" not in command for command in commands)
    assert "stridedgpu preprocess --samples" in commands[0]
    assert commands[1].endswith("pytest -n auto")


def test_the_command_lines_are_accepted():
    given = re.findall(r"stridedgpu (preprocess .*?--out \S+)[`\n]", README.replace("\n--", " --"))
    assert given
    for line in given:
        build_parser().parse_args(line.rstrip("`").split())


def test_linked_files_exist():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
