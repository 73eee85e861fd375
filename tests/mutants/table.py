"""The kernels' table of mutants: the text of a source that each changes, and the tests that have to notice.

A mutant is a small wrong change of a source: a boundary off by one, a condition turned round, a barrier left out. One
that no test notices shows a test that is missing. An entry says which source, which text in it, and what stands there
instead. One that cannot change what the library does says why it is `equivalent`, and counts nowhere. No tool mutates
CUDA C++; mutants of Python are drawn (`drawn.py`).

`killed.txt` has the names of the mutants that a run has seen killed, each with the test that killed it where one can be
named. CI draws from these: one that lives shows that a test was lost. The others wait for a run, or for a test.
"""

from __future__ import annotations

import pathlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["KILLED_BEFORE", "PROJECT", "Mutant", "read_killed", "read_mutants", "write_killed"]

_FOLDER = pathlib.Path(__file__).parent
KILLED_BEFORE = _FOLDER / "killed.txt"
PROJECT = _FOLDER.parents[1]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One wrong change.

    `old` stands once in `file`; `tests` are the test files, or arguments of pytest, that judge it, quickest first.
    """

    area: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str | None = None

    def applied(self, text: str) -> str:
        """The source with the change.

        Raises:
            ValueError: the text that it replaces is not there, or is there more than once.
        """
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.name}: {self.old!r} is {found} times in {self.file}, and has to be there once")
        return text.replace(self.old, self.new)


def read_mutants() -> list[Mutant]:
    """All mutants of the table, source by source."""
    return [
        Mutant(
            "kernels",
            f"{source['file']}: {each['name']}",
            source["file"],
            each["old"],
            each["new"],
            tuple(each.get("tests", source["tests"])),
            each.get("equivalent"),
        )
        for source in tomllib.loads((_FOLDER / "kernels.toml").read_text(encoding="utf-8"))["source"]
        for each in source["mutant"]
    ]


def read_killed() -> dict[str, str]:
    """The mutants that were killed before, by name, each with its test or an empty text."""
    lines = KILLED_BEFORE.read_text(encoding="utf-8").splitlines()
    return {name: test for name, _, test in (line.partition("\t") for line in lines)}


def write_killed(killed: Mapping[str, str]) -> None:
    """Write the list anew, by name."""
    lines = (f"{name}\t{test}".rstrip() for name, test in sorted(killed.items()))
    KILLED_BEFORE.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
