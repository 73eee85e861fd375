"""The description on a package index: README.md without what an index cannot follow.

An index resolves no relative links and shows no pictures of a repository. There is no public address to write in
front of them: links become their words, and a picture goes with its caption. All else is declared in pyproject.toml.
"""

from __future__ import annotations

import re
from pathlib import Path


def description(readme: str) -> str:
    """The text of a README without pictures of the repository and links into it."""
    shown = re.sub(r"^!\[[^\]]*\]\((?!\w+:)[^)]*\)\n\n(\*[^*]+\*\n\n)?", "", readme, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]+)\]\((?!\w+:)[^)]*\)", r"\1", shown)


if __name__ == "__main__":
    from setuptools import setup

    setup(
        long_description=description(Path(__file__).with_name("README.md").read_text(encoding="utf-8")),
        long_description_content_type="text/markdown",
    )
