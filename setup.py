"""The description on a package index, and an sdist that is the same bytes each time.

The description is README.md without what an index cannot follow. An index resolves no relative links and shows no
pictures of a repository. There is no public address to write in front of them: links become their words, and a picture
goes with its caption. All else is declared in pyproject.toml.
"""

from __future__ import annotations

import gzip
import os
import re
import tarfile
from pathlib import Path
from typing import Any


def description(readme: str) -> str:
    """The text of a README without pictures of the repository and links into it."""
    shown = re.sub(r"^!\[[^\]]*\]\((?!\w+:)[^)]*\)\n\n(\*[^*]+\*\n\n)?", "", readme, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]+)\]\((?!\w+:)[^)]*\)", r"\1", shown)


def write_archive(path: Path, folder: Path, seconds: int) -> None:
    """Write a folder as a .tar.gz file in which everything is of one time, of no user, and in the order of names.

    Source of the variable SOURCE_DATE_EPOCH, whose `seconds` these are:
    https://reproducible-builds.org/specs/source-date-epoch/.
    """

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = seconds, 0, 0, "", ""
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=seconds) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        archive.add(folder, folder.name, filter=plain)


if __name__ == "__main__":
    from setuptools import setup
    from setuptools.command.sdist import sdist

    class Sdist(sdist):
        """Setuptools' command, whose archive depends on the files and on SOURCE_DATE_EPOCH alone, where it is set."""

        def make_archive(self, base_name: str, format: str, *rest: Any, **named: Any) -> str:  # noqa: A002
            """The path of the archive; the arguments are those of setuptools, which names the folder `base_dir`."""
            seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
            if format != "gztar" or not seconds:
                path: str = super().make_archive(base_name, format, *rest, **named)
                return path
            Path(base_name).parent.mkdir(parents=True, exist_ok=True)
            write_archive(Path(f"{base_name}.tar.gz"), Path(named["base_dir"]), int(seconds))
            return f"{base_name}.tar.gz"

    setup(
        long_description=description(Path(__file__).with_name("README.md").read_text(encoding="utf-8")),
        long_description_content_type="text/markdown",
        cmdclass={"sdist": Sdist},
    )
