"""A library and its peers timed in turns: a line for each case, then the means of each group of cases."""

from __future__ import annotations

import random
from math import exp, log
from statistics import median
from time import perf_counter

ROUNDS = 15


def fastest(*calls, rounds=7):
    """The least seconds of each call; they take turns, so that a busy machine slows all of them."""
    seconds = [float("inf")] * len(calls)
    for _ in range(rounds):
        for place, call in enumerate(calls):
            started = perf_counter()
            call()
            seconds[place] = min(seconds[place], perf_counter() - started)
    return seconds


def seconds_of(calls, goal):
    """Each peer's median and best time; they take turns, so that a busy machine is busy for all."""
    repeats = 200 if goal == "small" else 1
    taken = {name: [] for name in calls}
    for _ in range(20 if goal == "small" else 2):
        for call in calls.values():
            call()
    order, turns = list(calls.items()), random.Random(0)
    for _ in range(ROUNDS):
        # A long call uses up the time that the system gives at once, and the next one is interrupted.
        turns.shuffle(order)
        for name, call in order:
            start = perf_counter()
            for _ in range(repeats):
                call()
            taken[name].append((perf_counter() - start) / repeats)
    return tuple({name: choice(times) for name, times in taken.items()} for choice in (median, min))


class Report:
    """How many times as fast as its peers the library is: printed case by case, and in the mean."""

    def __init__(self, peers):
        self.peers = peers
        self.ratios = {}
        heads = "".join(f"{'/ ' + name:>12}" for name in peers)
        print(f"{'case':66}{'GB/s':>8}{heads}   (how many times as fast)")

    def add(self, case, calls, bytes_moved, group):
        """Time a case, print its line and count it among its group."""
        medians, best = seconds_of(calls, case.goal)
        for choice, seconds in (("medians", medians), ("best rounds", best)):
            found = {name: seconds[name] / seconds["stridedgpu"] for name in self.peers if name in seconds}
            self.ratios.setdefault((group, choice), []).append(found)
        shown = self.ratios[group, "medians"][-1]
        columns = "".join(f"{shown[name]:12.2f}" if name in shown else f"{'-':>12}" for name in self.peers)
        print(f"{case!s:66}{bytes_moved / medians['stridedgpu'] / 1e9:8.1f}{columns}", flush=True)

    def close(self):
        """Print the means."""
        for (group, choice), rows in self.ratios.items():
            for name in self.peers:
                ratios = [row[name] for row in rows if name in row]
                if ratios:
                    mean = exp(sum(map(log, ratios)) / len(ratios))
                    print(f"{group}, {choice}, / {name}: geometric mean {mean:.2f}, least {min(ratios):.2f}")
