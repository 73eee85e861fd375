"""What was judged, in a file of JSON lines that the next run goes on from, and the score by area."""

from __future__ import annotations

import hashlib
import json
import pathlib
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .table import Mutant

__all__ = ["KILLED", "SURVIVED", "UNDECIDED", "Results", "Verdict", "score_table"]

KILLED, SURVIVED, UNDECIDED = "killed", "survived", "undecided"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the tests say of a mutant: the verdict, the test behind it, and processor seconds."""

    verdict: str
    test: str
    seconds: float


class Results:
    """Verdicts, kept in memory and, where a file is named, in its lines; the last line counts."""

    def __init__(self, file: pathlib.Path | None, commit: str, known: Mapping[str, str]) -> None:
        self._file = file
        self._commit = commit
        self._killers = dict(known)
        self._verdicts: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        if file is not None and file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                self._take(json.loads(line))

    def verdict(self, mutant: Mutant) -> str | None:
        """The last verdict on a mutant as it stands in the table."""
        entry = self._verdicts.get(mutant.name)
        return entry["verdict"] if entry is not None and entry["change"] == _change(mutant) else None

    def killer(self, mutant: Mutant) -> str | None:
        """The test that killed a mutant before, where one can be named."""
        killer = self._killers.get(mutant.name, "")
        return killer if "::" in killer and not killer.endswith(")") else None

    def add(self, mutant: Mutant, verdict: Verdict) -> None:
        """Write a verdict down."""
        entry: dict[str, Any] = {"mutant": mutant.name, "change": _change(mutant), "verdict": verdict.verdict}
        entry |= {"test": verdict.test, "seconds": verdict.seconds, "commit": self._commit}
        with self._lock:
            self._take(entry)
            if self._file is not None:
                with self._file.open("a") as file:
                    file.write(json.dumps(entry) + "\n")

    def _take(self, entry: dict[str, Any]) -> None:
        self._verdicts[entry["mutant"]] = entry
        if entry["verdict"] == KILLED:
            self._killers[entry["mutant"]] = entry["test"]


def score_table(mutants: Iterable[Mutant], verdicts: Mapping[Mutant, str]) -> tuple[str, float, int]:
    """The verdicts counted by area, the share of those decided that were killed, and how many are decided."""
    mutants = list(mutants)
    counts: dict[str, Counter[str]] = {area: Counter() for area in sorted({mutant.area for mutant in mutants})}
    everything: Counter[str] = Counter()
    for mutant in mutants:
        verdict = "equivalent" if mutant.equivalent else verdicts.get(mutant, "not judged")
        counts[mutant.area][verdict] += 1
        everything[verdict] += 1
    columns = (KILLED, SURVIVED, UNDECIDED, "equivalent", "not judged")
    rows = [f"{'area':24}" + "".join(f"{column:>12}" for column in columns) + f"{'score':>9}"]
    for area, counted in [*counts.items(), ("all", everything)]:
        decided = counted[KILLED] + counted[SURVIVED]
        score = f"{_share(counted):9.1%}" if decided else f"{'-':>9}"
        rows.append(f"{area:24}" + "".join(f"{counted[column]:12}" for column in columns) + score)
    return "\n".join(rows), _share(everything), everything[KILLED] + everything[SURVIVED]


def _share(counts: Counter[str]) -> float:
    """The share of decided mutants that were killed."""
    decided = counts[KILLED] + counts[SURVIVED]
    return counts[KILLED] / decided if decided else 1.0


def _change(mutant: Mutant) -> str:
    """A digest of what a mutant changes: an entry that is edited is judged again."""
    return hashlib.sha256(repr((mutant.file, mutant.old, mutant.new)).encode()).hexdigest()[:16]
