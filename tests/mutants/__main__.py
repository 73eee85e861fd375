"""Which mutants the tests notice: `PYTHONPATH=tests python -m mutants`, from the project's folder.

Each mutant is applied to a copy of the project, one copy a process, and its tests run there until one fails. What ends
pytest otherwise (a crash, a module that cannot be imported) notices it too, and so does a limit of processor time that
the unchanged project is far from. A mutant whose tests do not end by the clock is undecided, because a machine may be
slow: that limit fails no run.

The mutants are those of the kernels' table, or, with `--of PATH` or `--since COMMIT`, mutants of the package's Python
that cosmic-ray makes, drawn by `--seed`: of the modules below a path, or of the lines that a commit's successors touch.

With `--results` each verdict becomes a line of a file, from which the next run goes on. The score counts mutants that
are decided, and the command fails when it is below `--least`, unless fewer than `--decided` are. With `--known` it
judges mutants of the table that were killed before: one that survives shows a test that was lost.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import queue
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from math import inf

from .drawn import all_lines, draw_mutants, touched_lines
from .judge import EMULATED, Project
from .results import KILLED, SURVIVED, UNDECIDED, Results, score_table
from .table import PROJECT, Mutant, read_killed, read_mutants, write_killed


def judge_all(
    mutants: Sequence[Mutant],
    results: Results,
    processes: int,
    limit: float,
    budget: float = inf,
    *,
    slow: bool = False,
) -> dict[Mutant, str]:
    """The verdict on each mutant, printed as it falls; none is begun after `budget` seconds."""
    verdicts: dict[Mutant, str] = {}
    last = time.monotonic() + budget
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="stridedgpu-mutants-"))
        pool = ThreadPoolExecutor(processes)
        copies: queue.SimpleQueue[Project] = queue.SimpleQueue()
        for number in range(processes):
            project = Project(pathlib.Path(folder, str(number)), results)
            stack.callback(project.close)
            copies.put(project)
        stack.enter_context(pool)

        def judge_one(mutant: Mutant) -> None:
            began = time.monotonic()
            if began >= last:
                return
            copy = copies.get()
            try:
                verdict = copy.judge(mutant, min(limit, last - began), slow=slow)
            finally:
                copies.put(copy)
            verdicts[mutant] = verdict.verdict
            results.add(mutant, verdict)
            print(f"{verdict.verdict:10}{verdict.seconds:6.0f} s  {mutant.name}  {verdict.test}", flush=True)

        list(pool.map(judge_one, sorted(mutants, key=_compiles)))
    return verdicts


def _compiles(mutant: Mutant) -> bool:
    """Whether tests compile kernels of it, which takes longest and comes last."""
    return any(test.startswith(EMULATED) for test in mutant.tests)


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the mutants that the arguments choose; 1 when the score is too low."""
    parser = argparse.ArgumentParser("python -m mutants", description="Which mutants the tests notice.")
    parser.add_argument("--of", action="append", metavar="PATH", help="of Python whose path begins so; more than once")
    parser.add_argument("--since", metavar="COMMIT", help="of Python in lines that differ from those of a commit")
    parser.add_argument("--match", default="", help="only mutants whose name has this in it")
    parser.add_argument("--known", action="store_true", help="only mutants that were killed before")
    parser.add_argument("--draw", type=int, help="only so many, drawn by --seed; of Python, 20 if not given")
    parser.add_argument("--seed", default="0", help="what --draw draws by")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="mutants judged at a time")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for the tests of one mutant")
    parser.add_argument("--budget", type=float, default=inf, help="seconds after which no further mutant is begun")
    parser.add_argument("--least", type=float, default=0.97, help="the score below which the command fails")
    parser.add_argument("--decided", type=int, default=0, help="fewer decided mutants have no score that fails")
    parser.add_argument("--results", type=pathlib.Path, help="a file of verdicts to go on from")
    parser.add_argument("--again", action="append", choices=(KILLED, SURVIVED, UNDECIDED), help="judge these once more")
    parser.add_argument("--slow", action="store_true", help="let those that survive meet the slow tests, too")
    parser.add_argument("--record", action="store_true", help="add what was killed to the list of --known")
    chosen = parser.parse_args(arguments)
    known = read_killed()
    results = Results(chosen.results, _commit(), known)
    if chosen.of or chosen.since:
        mutants = [mutant for mutant in _drawn(chosen, parser) if chosen.match in mutant.name]
    else:
        mutants = [
            mutant
            for mutant in read_mutants()
            if (mutant.name in known or not chosen.known) and chosen.match in mutant.name
        ]
        if not mutants:
            parser.error("no mutant is chosen")
    chosen_ones = [mutant for mutant in mutants if not mutant.equivalent]
    if chosen.draw is not None:
        chosen_ones = mutants = random.Random(chosen.seed).sample(chosen_ones, min(chosen.draw, len(chosen_ones)))
    waiting = [each for each in chosen_ones if results.verdict(each) in (None, *(chosen.again or ()))]
    judge_all(waiting, results, chosen.processes, chosen.limit, chosen.budget, slow=chosen.slow)
    verdicts = {mutant: verdict for mutant in mutants if (verdict := results.verdict(mutant)) is not None}
    if chosen.record:
        killed = (mutant for mutant, verdict in verdicts.items() if verdict == KILLED)
        write_killed(known | {mutant.name: results.killer(mutant) or "" for mutant in killed})
    table, score, decided = score_table(mutants, verdicts)
    print(f"\n{table}")
    return 0 if score >= chosen.least or decided < chosen.decided else 1


def _drawn(chosen: argparse.Namespace, parser: argparse.ArgumentParser) -> list[Mutant]:
    """The mutants of Python that the arguments draw; none where no line of it is touched."""
    if chosen.since is None:
        lines = all_lines(chosen.of)
        if not lines:
            parser.error(f"--of {' '.join(chosen.of)}: no module of the package begins so")
    else:
        try:
            touched = touched_lines(chosen.since)
        except ValueError as error:
            parser.error(str(error))
        lines = {file: at for file, at in touched.items() if file.startswith(tuple(chosen.of or [""]))}
    return draw_mutants(20 if chosen.draw is None else chosen.draw, chosen.seed, lines)


def _commit() -> str:
    asked = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(asked, cwd=PROJECT, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
