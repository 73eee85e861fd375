"""One mutant at a time, applied to a copy of the project and judged by its tests.

The test that killed a mutant before runs first, then the test files about it, in one process that loads the changed
package once. A test that fails without the mutant decides nothing: the others run once more without it. A mutant that
lives through all of that can be given the same files' slow tests.

Emulated programs of mutants are made beside the cache, so that none is ever found by another run.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from harness.emulator.cache import cache_directory

from . import forked
from .results import KILLED, SURVIVED, UNDECIDED, Results, Verdict
from .table import PROJECT, Mutant

__all__ = ["EMULATED", "Project", "link_entries"]

KILLER, DEFAULT, SLOW = "killer", "default", "slow"

_MARKS: Final = {
    KILLER: ("-m", "slow or not slow"),
    DEFAULT: (),
    SLOW: ("-m", "slow and not faults and not sweep and not engines and not speed"),
}

_QUICK: Final = (
    *("-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", "--hypothesis-profile=judging"),
    # Plugins are loaded before the first run, and stay loaded after it.
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)

_KERNELS: Final = "tests/cuda/kernels/"

EMULATED: Final = (_KERNELS, "tests/emulated/")
"""Tests that compile each changed kernel anew, which takes longer than the rest together: they come last."""

_MOST_SECONDS: Final = 60.0
"""Processor seconds of one test file, which no load makes longer. Changed kernels are compiled as long as it takes.

A mutant that uses more is in a loop without an end: killed, unless the unchanged project uses as much.
"""


class Project:
    """A copy of the project, in which one mutant at a time is judged."""

    def __init__(self, folder: pathlib.Path, results: Results) -> None:
        """Copy the files that git knows or does not ignore, without the repository."""
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(listing, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
        self._folder = folder
        self._results = results
        self._seconds = 1_000_000_000
        self._sound: set[str] = set()  # what passes on the project as it is
        self._unsound: set[str] = set()  # and what does not
        self._caches = {"STRIDEDGPU_EMULATION_CACHE": cache_directory()}
        for name in filter(None, listed.split("\0")):
            if (PROJECT / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(PROJECT / name, folder / name)
        for library in PROJECT.glob("stridedgpu/devices/cpu/native/*.bin"):  # built, and ignored by git
            shutil.copy2(library, folder / library.relative_to(PROJECT))
        self._server = subprocess.Popen(
            [sys.executable, "-P", forked.__file__],
            cwd=folder,
            # Some entries install the package as editable: the copy has to come first.
            env={**os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the process whose children run the tests."""
        self._server.communicate()

    def judge(self, mutant: Mutant, limit: float, *, slow: bool = False) -> Verdict:
        """The verdict on a mutant, whose tests may take `limit` seconds altogether."""
        killer = self._results.killer(mutant)
        stages = [(KILLER, [killer])] if killer else []
        stages += [(DEFAULT, mutant.tests), *([(SLOW, mutant.tests)] if slow else [])]
        seconds, last = 0.0, time.monotonic() + limit
        verdict = Verdict(SURVIVED, "", 0.0)
        for stage, tests in stages:
            while True:
                verdict = self._judged(mutant, stage, tests, last - time.monotonic())
                seconds = round(seconds + verdict.seconds, 1)
                try:
                    if verdict.verdict != KILLED or self._passes(verdict.test, stage, limit):
                        break
                except TimeoutError as late:
                    return Verdict(UNDECIDED, str(late), seconds)
            if verdict.verdict != SURVIVED:
                break
        return replace(verdict, seconds=seconds)

    def _judged(self, mutant: Mutant, stage: str, tests: Sequence[str], limit: float) -> Verdict:
        """What the tests of a stage say, without those that fail on the unchanged project."""
        left_out = [argument for test in sorted(self._unsound) for argument in ("--deselect", test)]
        most = None if mutant.file.startswith("kernels/") else _MOST_SECONDS
        runs = [
            {"name": test, "arguments": [*_QUICK, "-x", test, *_marks(stage, test), *left_out], "most": most}
            for test in tests
            if test not in self._unsound
        ]
        original = (self._folder / mutant.file).read_text(encoding="utf-8")
        self._write(mutant.file, mutant.applied(original))
        try:
            return _verdict(self._answer(runs, limit, first=True, apart=True))
        finally:
            self._write(mutant.file, original)

    def _passes(self, test: str, stage: str, limit: float) -> bool:
        """Whether what killed a mutant passes on the project as it is; from now on it is left out where it does not."""
        name, _, ended = test.partition(" (")
        if ended.startswith(forked.NEVER_ENDS):
            name = name.partition("::")[0]
        if name not in self._sound:
            arguments = [*_QUICK, name, *(_MARKS[KILLER] if "::" in name else _marks(stage, name))]
            if "::" not in name and (not ended or ended.startswith("pytest")):  # it was not even read
                arguments.append("--collect-only")
            run = {"name": name, "arguments": arguments, "most": _MOST_SECONDS}
            answer = self._answer([run], limit, first=False, apart=False)
            if answer["ended"] == forked.STOPPED:
                raise TimeoutError(f"{name} did not end in time without the mutant")
            passed = not answer["ended"] and answer["runs"][-1]["code"] in (0, 5)
            (self._sound if passed else self._unsound).add(name)
        return name in self._sound

    def _answer(self, runs: Sequence[dict[str, Any]], limit: float, *, first: bool, apart: bool) -> dict[str, Any]:
        """What the children's process says of some runs; `apart`, in caches that are thrown away."""
        with self._caches_to_use(apart=apart) as caches:
            request = {
                "runs": runs,
                "environment": caches,
                "limit": limit,
                "first": first,
                "output": f"{self._folder}.output",
            }
            assert self._server.stdin is not None
            assert self._server.stdout is not None
            self._server.stdin.write(json.dumps(request) + "\n")
            self._server.stdin.flush()
            answer: dict[str, Any] = json.loads(self._server.stdout.readline())
        if answer["ended"] == forked.COULD_NOT_RUN:
            raise RuntimeError(f"pytest could not run:\n{pathlib.Path(request['output']).read_text(encoding='utf-8')}")
        return answer

    @contextlib.contextmanager
    def _caches_to_use(self, *, apart: bool) -> Iterator[dict[str, str]]:
        """The caches of the unchanged project, or copies of them that consist of links."""
        if not apart:
            yield {name: str(cache) for name, cache in self._caches.items()}
            return
        with tempfile.TemporaryDirectory(dir=self._folder.parent) as folder:
            copies = {name: pathlib.Path(folder, name) for name in self._caches}
            for name, cache in self._caches.items():
                copies[name].mkdir(mode=0o700)
                link_entries(cache, copies[name])
            yield {name: str(copy) for name, copy in copies.items()}

    def _write(self, file: str, text: str) -> None:
        """Change a source, with a time of its own: Python keeps bytecode by a source's size and second."""
        path = self._folder / file
        path.write_text(text, encoding="utf-8")
        self._seconds += 1
        os.utime(path, (self._seconds, self._seconds))


def link_entries(cache: pathlib.Path, copy: pathlib.Path) -> None:
    """Fill a folder with links to a cache's entries, but for those that are gone: others build under passing names."""
    for entry in os.scandir(cache):
        link = os.symlink if entry.is_dir() else os.link
        with contextlib.suppress(FileNotFoundError):
            link(entry.path, copy / entry.name)


def _marks(stage: str, test: str) -> tuple[str, ...]:
    """The tests of a stage. Of slow ones, kernels are run and not inspected: machine code takes minutes a mutant."""
    marks = _MARKS[stage]
    return ("-m", f"emulation and {marks[1]}") if stage == SLOW and test.startswith(_KERNELS) else marks


def _verdict(answer: dict[str, Any]) -> Verdict:
    """What the runs say together: the last one is the one that failed, or did not end."""
    seconds = round(sum(run["seconds"] or 0.0 for run in answer["runs"]), 1)
    last = answer["runs"][-1] if answer["runs"] else {"name": "", "failed": [], "test": "", "code": 0}
    if answer["ended"] == forked.STOPPED:
        return Verdict(UNDECIDED, f"no end in time: {last['test']}", seconds)
    if last["failed"]:
        return Verdict(KILLED, last["failed"][0], seconds)
    if answer["ended"] == forked.NEVER_ENDS or last["code"] is None:
        return Verdict(KILLED, f"{last['test'] or last['name']} ({answer['ended']})", seconds)
    wrong = [run for run in answer["runs"] if run["code"] not in (0, 5)]
    if wrong:  # pytest itself was ended, by a module that cannot be imported
        return Verdict(KILLED, f"{wrong[0]['name']} (pytest: {wrong[0]['code']})", seconds)
    return Verdict(SURVIVED, "", seconds)
