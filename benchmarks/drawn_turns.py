"""The drawn cases of this checkout and of another one, in turns: is a change slower anywhere?

    git worktree add /tmp/before HEAD~1
    python benchmarks/drawn_turns.py /tmp/before                    150 cases of each file of drawn cases
    python benchmarks/drawn_turns.py /tmp/before --cases 40 --only images,rows --seed 7
    STRIDEDGPU_CPU=x86-64-v3 python benchmarks/drawn_turns.py /tmp/before --one-core

Each checkout has a process of its own, which draws the same cases from this checkout's files. A case is timed in both
by turns, a few milliseconds each; compared are the quickest calls. Printed are the ratios before / now: above 1 this
checkout is quicker. The last lines have the geometric mean of each family.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from math import exp, log
from pathlib import Path
from time import perf_counter_ns

HERE = Path(__file__).resolve().parent
TURN_NS = 4_000_000


def serve(package: str, seed: int, count: int, families: list[str], *, one_core: bool) -> None:
    """Make each case when a line asks for it, and answer further lines with the quickest call of a turn."""
    sys.path[:0] = [package]
    import stridedgpu

    assert str(stridedgpu.__file__).startswith(package), stridedgpu.__file__
    sys.path[:0] = [str(HERE)]
    import bench_drawn_cpu
    import bench_drawn_more_cpu
    import bench_drawn_pixels_cpu

    if one_core:
        bench_drawn_cpu.use_one_core()
    cases = [
        case
        for number, chosen in enumerate((None, bench_drawn_more_cpu.FAMILIES, bench_drawn_pixels_cpu.FAMILIES))
        for case in bench_drawn_cpu.draw(seed + number, count, chosen)
        if not families or case.family in families
    ]
    print(json.dumps([(case.family, case.text) for case in cases]), flush=True)
    for case in cases:
        sys.stdin.readline()
        call = case.make()["stridedgpu"]
        bench_drawn_cpu.measured({"stridedgpu": call}, rounds=1)
        print(json.dumps(0), flush=True)
        while sys.stdin.readline().strip() == "turn":
            best, ends = 1 << 62, perf_counter_ns() + TURN_NS
            while True:
                started = perf_counter_ns()
                call()
                now = perf_counter_ns()
                best = min(best, now - started)
                if now > ends:
                    break
            print(json.dumps(best), flush=True)


def ratios(packages: list[str], arguments: list[str], rounds: int) -> Iterator[tuple[str, str, float, float]]:
    """Family, text, nanoseconds before and now of each case."""
    servers = [
        subprocess.Popen(
            [sys.executable, __file__, package, "--serve", *arguments],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for package in packages
    ]

    def said(server: subprocess.Popen[str], text: str | None) -> object:
        assert server.stdin is not None
        assert server.stdout is not None
        if text is not None:
            server.stdin.write(f"{text}\n")
            server.stdin.flush()
        return json.loads(server.stdout.readline()) if text != "next" else None

    first, second = (said(server, None) for server in servers)
    assert first == second, "the checkouts draw other cases"
    assert isinstance(first, list)
    for family, text in first:
        for server in servers:
            said(server, "make")
        best = [float("inf")] * 2
        for number in range(2 * rounds):
            side = number % 2 if number // 2 % 2 else 1 - number % 2
            best[side] = min(best[side], float(str(said(servers[side], "turn"))))
        for server in servers:
            said(server, "next")
        yield family, text, *best
    for server in servers:
        server.communicate()


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, values)) / len(values))


def main() -> None:
    """Draw, measure in turns, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", help="the other checkout")
    parser.add_argument("--cases", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="families, with commas between them")
    parser.add_argument("--one-core", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    families = [family.strip() for family in options.only.split(",") if family.strip()]
    if options.serve:
        serve(options.before, options.seed, options.cases, families, one_core=options.one_core)
        return
    arguments = [f"--cases={options.cases}", f"--seed={options.seed}", f"--only={options.only}"]
    arguments += ["--one-core"] if options.one_core else []
    found: dict[str, list[tuple[float, str]]] = {}
    packages = [str(Path(options.before).resolve()), str(HERE.parent)]
    for family, text, before, now in ratios(packages, arguments, options.rounds):
        found.setdefault(family, []).append((before / now, text))
        print(
            f"{family:18} {text:64} {before / 1e3:10.1f} us before {now / 1e3:10.1f} now {before / now:6.2f}",
            flush=True,
        )
    print(f"\n{'family':18} {'cases':>5} {'mean':>6} {'< 0.9':>6}  worst")
    for family, results in [*sorted(found.items()), ("all", [entry for part in found.values() for entry in part])]:
        values, (worst, text) = [ratio for ratio, _ in results], min(results)
        behind = sum(ratio < 0.9 for ratio in values)
        print(f"{family:18} {len(values):5} {mean(values):6.2f} {behind:6}  {worst:.2f} {text}")


if __name__ == "__main__":
    main()
