"""The documentation is true: every code block runs, every output is what is printed, every link leads somewhere."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import json
import operator
import os
import re
import shlex
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest
from harness.torchvision_transforms import torchvision_transforms
from harness.transformers_processors import transformers_library

import stridedgpu as sg
from stridedgpu import picture
from stridedgpu.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

pytestmark = pytest.mark.skipif(
    not DOCS.is_dir(), reason="the documentation is not here: the tests lie outside a checkout"
)

PAGES = (
    {path.name: path.read_text(encoding="utf-8") for path in (*sorted(DOCS.glob("*.md")), ROOT / "CONTRIBUTING.md")}
    if DOCS.is_dir()
    else {}
)
SECTIONED = {"engines.md", "frames.md", "interop.md", "recipes.md", "video.md", "CONTRIBUTING.md"}
"""Pages whose blocks stand alone; on the others they follow each other."""

ALLOWED = re.compile(
    r'pip install (-e )?("[^"]+"|\.)( --group style)?|pip install --upgrade pip|'
    r"python3 -m venv \.venv|\. \.venv/bin/activate|"
    r"mkdocs build --strict|python3 -m http\.server --directory site --bind 127\.0\.0\.1|"
    r"ruff (check|format --check) \.|mypy|pytest( .*)?|"
    r"python -m conformance set.*|python set/check\.py .*"  # tests/adapters/test_conformance.py runs these
)


def blocks(page: str) -> list[tuple[str, str, int]]:
    """The fenced blocks of a page: language, text and line."""
    text = PAGES[page]
    fences = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(fence[1], fence[2], text[: fence.start()].count("\n") + 1) for fence in fences]


def expected_after(page: str, line: int) -> str | None:
    """The text block that follows the block at a line with nothing but an empty line between: its output."""
    found = [(language, text, start) for language, text, start in blocks(page) if start >= line]
    (_, code, start), *rest = found
    if rest and rest[0][0] == "text" and rest[0][2] == start + code.count("\n") + 3:
        return rest[0][1]
    return None


def check_output(printed: str, expected: str) -> None:
    """Compare what was printed with a text block, in which a line `…` stands for any lines."""
    pattern = "".join("(?:.*\n)*?" if line == "…" else re.escape(f"{line}\n") for line in expected.splitlines())
    assert re.fullmatch(pattern, printed), printed


def scripts() -> list[tuple[str, list[tuple[str, int]]]]:
    """What is run together: a page's blocks, or one block of a page of recipes."""
    found = []
    for page in PAGES:
        code = [(text, line) for language, text, line in blocks(page) if language == "python"]
        if page in SECTIONED:
            found += [(page, [block]) for block in code]
        elif code:
            found.append((page, code))
    return found


@pytest.mark.filterwarnings("ignore:::ray")  # Ray's modules warn of what it will change in itself
@pytest.mark.parametrize(
    "page, code", scripts(), ids=lambda value: value if isinstance(value, str) else f"line {value[0][1]}"
)
def test_python_runs_and_prints_what_the_page_says(page, code, tmp_path, monkeypatch):
    optional = (
        r"^(?:import|from) (av|cv2|dask|datasets|nvidia|onnx|onnxruntime|PIL|PyNvVideoCodec|ray|torch|torchcodec|"
        r"torchvision|transformers|skimage)\b"
    )
    for name in re.findall(optional, "".join(text for text, _ in code), re.MULTILINE):
        if name == "transformers":
            transformers_library()
        if name == "torchvision":
            torchvision_transforms()
        module = "nvidia.nvimgcodec" if name == "nvidia" else name  # NVIDIA's other packages are in that folder as well
        pytest.importorskip(module, reason=f"{module} is what this recipe is about", exc_type=ImportError)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "documentation"}
    for text, line in code:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + text, page, "exec"), names)
        expected = expected_after(page, line)
        if expected is not None:
            check_output(printed.getvalue(), expected)


def command_lines() -> list[tuple[str, str, str | None]]:
    """Every line of every `sh` block, with the output that the page shows for a block of one line."""
    found = []
    for page in PAGES:
        for language, text, line in blocks(page):
            if language == "sh":
                lines = text.strip().splitlines()
                output = expected_after(page, line) if len(lines) == 1 else None
                found += [(page, entry, output) for entry in lines]
    return found


@pytest.mark.parametrize("page, line, output", command_lines())
def test_command_lines_run_and_print_what_the_page_says(page, line, output, tmp_path, monkeypatch, capsys):
    if not line.startswith("stridedgpu "):
        assert ALLOWED.fullmatch(line), f"{page}: {line!r} is not a command that these tests know"
        return
    if "--samples" in line:
        pytest.importorskip("skimage")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    assert main(shlex.split(line)[1:]) == 0
    printed, problems = capsys.readouterr()
    assert problems == ""
    if output is not None:
        check_output(printed, output)


def test_every_block_is_of_a_language_that_is_tested():
    languages = {page: {language for language, _, _ in blocks(page)} - {"python", "sh", "text"} for page in PAGES}
    assert languages.pop("conformance.md") == {"c"}  # tests/adapters/test_conformance.py compiles it
    assert set().union(*languages.values()) == set()


def test_extras_that_are_named_exist():
    extras = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    )
    for page, text in PAGES.items():
        for names in re.findall(r"(?:stridedgpu|\.)\[([\w,-]+)\]\"", text):
            assert set(names.split(",")) <= extras, page


def test_the_table_of_extras_is_the_projects():
    table, _, below = PAGES["reference.md"].partition("| extra | brings | for |")[2].partition("\n\n")
    rows = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
    named = {name for row in (*rows, below.partition(" are for")[0]) for name in re.findall(r"`([^`]+)`", row)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert named == set(project["project"]["optional-dependencies"])


def test_the_home_page_has_the_text_of_the_readme(hooks):
    page = hooks.on_page_markdown(PAGES["index.md"])
    assert page.startswith("# stridedgpu\n")
    assert "](recipes.md#yolo-" in page
    assert "](resize/shrunk.png)" in page
    assert not re.search(r"\]\((docs|benchmarks)/|\]\([A-Z]+\.md", page)


def test_links_lead_to_files_and_every_page_is_in_the_navigation():
    for page, text in PAGES.items():
        folder = DOCS if (DOCS / page).is_file() else ROOT
        for target in re.findall(
            r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
        ):
            assert target.startswith("https://") or (folder / target).exists(), f"{page}: {target}"
    navigation = re.findall(r"^ +- .*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(navigation) == sorted(set(PAGES) - {"CONTRIBUTING.md"})


def test_every_file_that_a_page_names_is_there():
    files = [
        path.as_posix()
        for folder in ("stridedgpu", "kernels", "tests", "benchmarks", "conformance", "docs")
        for path in (ROOT / folder).rglob("*")
    ]
    files += [path.as_posix() for path in ROOT.iterdir()]
    missing = [
        f"{page}: {name}"
        for page, text in PAGES.items()
        for name in re.findall(r"`([\w./-]+\.(?:py|cu|cuh|toml))`", text)
        if "NAME" not in name and not any(path.endswith(f"/{name}") for path in files)
    ]
    assert not missing


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "site_hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_has_every_public_name_with_a_docstring():
    listed = re.findall(r"^::: stridedgpu\.([\w.]+)$", PAGES["reference.md"], re.MULTILINE)
    assert {name.partition(".")[0] for name in listed} == set(sg.__all__) - {"__version__"}
    assert {name.partition(".")[2] for name in listed if name.startswith("picture.")} == set(picture.__all__)
    for name in listed:
        thing = operator.attrgetter(name)(sg)
        assert inspect.getdoc(thing), name
        members = vars(thing).items() if inspect.isclass(thing) else ()
        bare = [member for member, value in members if is_documented(member, value) and not inspect.getdoc(value)]
        assert not bare, (name, bare)


def is_documented(name: str, value: object) -> bool:
    """True for the public methods and properties of a class."""
    return not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, (property, classmethod)))


def test_every_picture_that_a_page_asks_for_is_drawn(hooks):
    for page, text in PAGES.items():
        html = hooks.on_page_content(text)
        assert "<!-- picture" not in html, page
        assert "<!-- explore" not in html, page
        assert html.count('class="sg-svg" role="img"') == text.count("<!-- picture: "), page
        assert html.count('class="sg-picture"') == text.count("<!-- explore: "), page


class Loads(HTMLParser):
    """What a page makes the browser fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        facts = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.found += [facts["src"]] if "src" in facts else []
        if tag == "link" and facts.get("rel") != "canonical":
            self.found.append(facts.get("href", ""))


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings") is None:
        pytest.skip("mkdocs and mkdocstrings build the site: pip install stridedgpu[docs]")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    built = sorted((tmp_path / "site").rglob("*.html"))
    assert len(built) >= len(PAGES) - 1
    for path in built:
        text = path.read_text(encoding="utf-8")
        assert not [link for link in Loads(text).found if re.match(r"(https?:)?//", link)], path
        assert str(ROOT) not in text
    index = json.loads((tmp_path / "site" / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    found = {entry["location"] for entry in index if "DMLCalcBufferTensorSize" in entry["text"]}
    assert "reference/#stridedgpu.calc_buffer_tensor_size" in found
