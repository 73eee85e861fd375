"""Which mutants the tests notice: `PYTHONPATH=tests python -m mutants`, from the project's folder.

Each mutant is applied to a copy of the project, one copy a process, and its tests are run there until one fails. What
ends pytest otherwise (a crash, a module that cannot be imported) notices it too. A test that fails without the mutant
as well has noticed nothing: the mutant is then undecided, and so is one whose tests do not end in time. Neither limit
can fail a run, because a machine may be slow.

The score counts mutants that are decided, and the command fails when it is below `--least`. With `--known` it judges
mutants that were killed before: one that survives shows a test that was lost.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import queue
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import inf

from .table import KILLED_BEFORE, PROJECT, Mutant, read_mutants

KILLED, SURVIVED, UNDECIDED = "killed", "survived", "undecided"

_FAILED = re.compile(r"^FAILED (.+?)(?: - .*)?$", re.MULTILINE)
"""The line of pytest's summary that names a test."""

_NOTHING_RAN = (4, 5)
"""What pytest returns for wrong arguments, and for no test."""


class Project:
    """A copy of the project, in which one mutant at a time is judged."""

    def __init__(self, folder: pathlib.Path) -> None:
        """Copy the files that git knows or does not ignore, without the repository."""
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(listing, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
        self._folder = folder
        self._seconds = 1_000_000_000
        self._sound: set[str] = set()  # tests that pass on the project as it is
        for name in filter(None, listed.split("\0")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, folder / name)

    def judge(self, mutant: Mutant, limit: float) -> tuple[str, str]:
        """A verdict, and the test behind it; no test of a mutant may take longer than `limit` seconds."""
        original = (self._folder / mutant.file).read_text()
        self._write(mutant.file, mutant.applied(original))
        try:
            code, output = self._run(mutant.tests, limit)
        except subprocess.TimeoutExpired:
            return UNDECIDED, f"no end in {limit:.0f} s"
        finally:
            self._write(mutant.file, original)
        if code in _NOTHING_RAN:
            raise RuntimeError(f"pytest found nothing to run: {' '.join(mutant.tests)}\n{output}")
        if code == 0:
            return SURVIVED, ""
        noticed = _FAILED.search(output)
        if noticed is None:  # pytest ended otherwise
            return KILLED, output.strip().rpartition("\n")[2]
        passes = self._passes(noticed[1], limit)
        return (KILLED, noticed[1]) if passes else (UNDECIDED, f"{noticed[1]} does not pass without it")

    def _write(self, file: str, text: str) -> None:
        """Change a source, with a time of its own: Python keeps bytecode by a source's size and second."""
        path = self._folder / file
        path.write_text(text)
        self._seconds += 1
        os.utime(path, (self._seconds, self._seconds))

    def _passes(self, test: str, limit: float) -> bool:
        """Whether a test passes on the project as it is; one that cannot be named alone is believed."""
        if test not in self._sound:
            with suppress(subprocess.TimeoutExpired):
                if self._run([test], limit)[0] in (0, *_NOTHING_RAN):
                    self._sound.add(test)
        return test in self._sound

    def _run(self, tests: Sequence[str], limit: float) -> tuple[int, str]:
        quick = ["-x", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", "--hypothesis-profile=judging"]
        command = [sys.executable, "-m", "pytest", *quick, *tests]
        # Some entries install the package as editable: the copy has to come first.
        environment = {**os.environ, "PYTHONPATH": str(self._folder)}
        ran = subprocess.run(
            command, cwd=self._folder, env=environment, capture_output=True, text=True, timeout=limit, check=False
        )
        return ran.returncode, ran.stdout


def judge_all(mutants: Sequence[Mutant], processes: int, limit: float, budget: float = inf) -> dict[Mutant, str]:
    """The verdict on each mutant, printed as it falls; none is begun after `budget` seconds."""
    verdicts: dict[Mutant, str] = {}
    last = time.monotonic() + budget
    with tempfile.TemporaryDirectory(prefix="stridedgpu-mutants-") as folder, ThreadPoolExecutor(processes) as pool:
        copies: queue.SimpleQueue[Project] = queue.SimpleQueue()
        for number in range(processes):
            copies.put(Project(pathlib.Path(folder, str(number))))

        def judge_one(mutant: Mutant) -> None:
            began = time.monotonic()
            if began >= last:
                return
            copy = copies.get()
            try:
                verdicts[mutant], why = copy.judge(mutant, min(limit, last - began))
            finally:
                copies.put(copy)
            print(f"{verdicts[mutant]:10}{time.monotonic() - began:6.0f} s  {mutant.name}  {why}", flush=True)

        list(pool.map(judge_one, mutants))
    return verdicts


def score_table(verdicts: dict[Mutant, str]) -> tuple[str, float]:
    """The verdicts counted by area, and the share of those decided that were killed."""
    rows = [f"{'area':14}{'killed':>10}{'survived':>10}{'undecided':>10}{'score':>8}"]
    areas = sorted({mutant.area for mutant in verdicts})
    for area in [*areas, "all"]:
        counts = Counter(verdict for mutant, verdict in verdicts.items() if area in (mutant.area, "all"))
        score = f"{_share(counts):8.1%}" if counts[KILLED] + counts[SURVIVED] else f"{'-':>8}"
        rows.append(f"{area:14}{counts[KILLED]:10}{counts[SURVIVED]:10}{counts[UNDECIDED]:10}{score}")
    return "\n".join(rows), _share(Counter(verdicts.values()))


def _share(counts: Counter[str]) -> float:
    """The share of decided mutants that were killed."""
    decided = counts[KILLED] + counts[SURVIVED]
    return counts[KILLED] / decided if decided else 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the mutants that the arguments choose; 1 when the score is too low."""
    parser = argparse.ArgumentParser("python -m mutants", description="Which mutants the tests notice.")
    parser.add_argument("--area", action="append", help="only this area; may be given more than once")
    parser.add_argument("--match", default="", help="only mutants whose name has this in it")
    parser.add_argument("--known", action="store_true", help="only mutants that were killed before")
    parser.add_argument("--draw", type=int, help="only so many, drawn by --seed")
    parser.add_argument("--seed", default="0", help="what --draw draws by")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="mutants judged at a time")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for the tests of one mutant")
    parser.add_argument("--budget", type=float, default=inf, help="seconds after which no further mutant is begun")
    parser.add_argument("--least", type=float, default=0.97, help="the score below which the command fails")
    parser.add_argument("--record", action="store_true", help="add what was killed to the list of --known")
    chosen = parser.parse_args(arguments)
    known = set(KILLED_BEFORE.read_text().splitlines())
    mutants = [
        mutant
        for mutant in read_mutants()
        if not mutant.equivalent
        and (mutant.name in known or not chosen.known)
        and chosen.match in mutant.name
        and mutant.area in (chosen.area or [mutant.area])
    ]
    if chosen.draw is not None:
        mutants = random.Random(chosen.seed).sample(mutants, min(chosen.draw, len(mutants)))
    if not mutants:
        parser.error("no mutant is chosen")
    verdicts = judge_all(mutants, chosen.processes, chosen.limit, chosen.budget)
    if chosen.record:
        known.update(mutant.name for mutant, verdict in verdicts.items() if verdict == KILLED)
        KILLED_BEFORE.write_text("".join(f"{name}\n" for name in sorted(known)))
    table, score = score_table(verdicts)
    print(f"\n{table}")
    return 0 if score >= chosen.least else 1


if __name__ == "__main__":
    sys.exit(main())
