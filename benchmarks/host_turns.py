"""Host times of calls on a CUDA device, of this checkout and of another one in turns, as multiples of NumPy's copy.

    git worktree add /tmp/reviewed 5f42a06
    PYTHONPATH=tests python -m benchmarks.host_turns /tmp/reviewed [--json FILE] [--rounds 40]

Goals were set as microseconds of another machine, beside the times of 5f42a06 there. Here both checkouts and the unit
are measured on one machine in one run, so that a goal is a share of the earlier time. CUDA's calls are a stand-in that
returns at once (`tests/harness/cuda_standin`, for CuPy 14.2.0). Each checkout has a process of its own. They take turns
round by round; a time is the least processor time of one thread.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

UNIT = "numpy.copyto, 1 KB"

COPIES = 200
"""Copies of a round."""

REVIEWED = {
    "plan(src, out)": (1.1, 1.1),
    "relayout(out=)": (3.0, 4.3),
    "relayout()": (5.0, 10.6),
    "gather(out=), raise": (8.0, 21.3),
    "gather_crops, 256 images of a batch": (150.0, 3040.0),
    "gather_crops, 256 images of a list": (150.0, 3040.0),
}
"""Microseconds on the machine where the goals were set: the goal, and the time of 5f42a06."""

STATUS = ("stridedgpu.devices.cuda.status", "stridedgpu.backends.cuda_status")
"""The module that looks for a driver, here and at 5f42a06."""


def serve(package: str) -> None:
    """Measure a round for each line of standard input, and print it as a line of JSON."""
    sys.path[:1] = [package]
    import numpy as np

    np.empty = np.zeros  # no copy comes from the stand-in, and a report of zeros is one without a wrong index
    import stridedgpu  # the other checkout's, before its benchmarks could be found

    assert str(stridedgpu.__file__).startswith(package)
    sys.path[:1] = [str(ROOT), str(ROOT / "tests")]
    from harness.cuda_standin import plugin, seam

    from benchmarks.host_times import cases

    plugin.install(STATUS[0] if (Path(package) / "stridedgpu/devices").exists() else STATUS[1])
    source, target = (np.zeros(1024, np.uint8) for _ in range(2))
    with seam.at_once():
        calls = {UNIT: (lambda: np.copyto(target, source), COPIES), **cases()}
        for call, _ in calls.values():
            for _ in range(3):
                call()
        for _ in sys.stdin:
            times = {}
            for name, (call, count) in calls.items():
                started = time.thread_time()
                for _ in range(count):
                    call()
                times[name] = (time.thread_time() - started) / count * 1e6
            print(json.dumps(times), flush=True)


def measured(packages: list[str], rounds: int) -> list[dict[str, float]]:
    """The least microseconds of each call, for each checkout."""
    command = [sys.executable, __file__, "--serve"]
    servers = [
        subprocess.Popen([*command, package], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for package in packages
    ]
    best: list[dict[str, float]] = [{} for _ in packages]
    for _ in range(rounds):
        for server, least in zip(servers, best, strict=True):
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write("\n")
            server.stdin.flush()
            for name, taken in json.loads(server.stdout.readline()).items():
                least[name] = min(taken, least.get(name, taken))
    for server in servers:
        server.communicate()
    return best


def table(now: dict[str, float], before: dict[str, float]) -> str:
    """Both checkouts' times in copies, the share that is left of the earlier time, and the goal as such a share."""
    lines = ["| call | before, copies | now, copies | now / before | goal |", "|---|---|---|---|---|"]
    for name, taken in now.items():
        copies = before[name] / before[UNIT], taken / now[UNIT]
        goal, reviewed = REVIEWED.get(name, (0, 1))
        wanted = f"{goal / reviewed:.2f}" if goal else ""
        lines.append(f"| {name} | {copies[0]:.1f} | {copies[1]:.1f} | {copies[1] / copies[0]:.2f} | {wanted} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", help="the other checkout")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write the times there, too")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    if options.serve:
        serve(options.before)
        return
    before, now = measured([str(Path(options.before).resolve()), str(ROOT)], options.rounds)
    print(table(now, before))
    if options.json:
        options.json.write_text(json.dumps({"before": before, "now": now}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
