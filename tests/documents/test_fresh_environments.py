"""The commands of each page in an environment of its own, where nothing is installed but what the page installs.

README.md's two commands and CONTRIBUTING.md's are what `.ci/run` itself does, from a clean clone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md") if "\n```sh\n" in path.read_text(encoding="utf-8"))
ENDLESS = ("python3 -m http.server",)
"""Commands that end when the reader ends them: the browser's tests serve the site themselves."""

pytestmark = pytest.mark.skipif(
    not (ROOT / ".git").exists() or shutil.which("git") is None or os.name == "nt",
    reason="what is installed is a copy of a checkout, by the commands of a POSIX shell",
)


def commands(text: str) -> list[str]:
    """The lines of a page's `sh` blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.strip().splitlines()]


def test_pages_with_commands_say_what_to_install_first():
    assert PAGES
    for page in PAGES:
        assert commands((ROOT / "docs" / page).read_text(encoding="utf-8"))[0].startswith("pip install "), page


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_in_a_fresh_environment(page, tmp_path):
    checkout = tmp_path / "checkout"
    listing = ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, checkout / name)
    subprocess.run([sys.executable, "-m", "venv", checkout / ".venv"], check=True)
    lines = [
        line for line in commands((ROOT / "docs" / page).read_text(encoding="utf-8")) if not line.startswith(ENDLESS)
    ]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "STRIDEDGPU"))}
    environment = kept | {
        "PATH": f"{checkout / '.venv/bin'}{os.pathsep}{kept['PATH']}",
        "PIP_QUIET": "1",
        "PIP_NO_COMPILE": "1",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_commands_for_contributors_are_those_of_ci():
    ci = "".join((ROOT / ".ci" / name).read_text(encoding="utf-8") for name in ("run", "environment"))
    assert "readme_command pytest" in ci
    for ours, typed in (
        ('"$python"', "python3"),
        ('"$folder"', ".venv"),
        ("pip main", "pip install"),
        ("--editable", "-e"),
    ):
        ci = ci.replace(ours, typed)
    done = [set(re.split(r"[ /]", step)) for step in ci.splitlines()]
    lines = commands((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    own = [line for line in lines if not line.endswith(("activate", "pytest -n auto"))]
    assert [line for line in own if not any(set(line.split()) <= words for words in done)] == []
