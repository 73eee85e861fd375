"""Drawn calls, each compared with NumPy to the bit: `PYTHONPATH=tests python -m harness.random_calls`.

Call `n` is the same call in every run, so that a run goes on where another ended (`--first`), and a failure is
repeated by its number (`--first N --calls 1`). Every operation writes into borrowed memory of random bytes, and all of
that memory is compared: a byte beside the output that changes is a failure too. Calls go in blocks: each is drawn once,
and the block runs once on NumPy, once by compiled loops on two threads and, where CuPy is installed without a GPU and
`--cuda` says how often, by the CUDA kernels, which real CuPy launches in the emulator.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from harness.cpu_paths import picking_by
from harness.drawn_calls import CALLS_OF_A_KIND, Call, Side, drawn_call

import stridedgpu as sg

__all__ = ["EXECUTIONS", "run_block", "wrong_on_cuda"]

EXECUTIONS = ("NumPy", "compiled, 2 threads")
BLOCK = 1024


def run_block(calls: Sequence[tuple[int, Call]], execution: str) -> Iterator[tuple[int, str, str | None]]:
    """Run calls by one execution; each one's number and name, and what was wrong with it."""
    with picking_by(execution):
        for number, call in calls:
            memory = call.out.memory.copy()
            call.run(
                *(each.over(each.memory) if isinstance(each, Side) else each for each in call.sources),
                call.out.over(memory),
            )
            yield number, call.name, _difference(memory, call.wanted)


def wrong_on_cuda(call: Call) -> str | None:
    """What is wrong with a call on the first CUDA device, where all that it reads and writes then lies."""
    held = _sent(call.out.memory)
    given = [each.over(_sent(each.memory).buffer) if isinstance(each, Side) else _sent(each) for each in call.sources]
    call.run(*given, call.out.over(held.buffer))
    return _difference(held.to_device("cpu").numpy(), call.wanted)


def _sent(array: np.ndarray[Any, Any]) -> sg.StridedTensor:
    return sg.asarray(array).to_device("cuda")


def _difference(memory: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> str | None:
    if memory.tobytes() == wanted.tobytes():
        return None
    wrong = np.flatnonzero(memory != wanted)
    return f"{wrong.size} bytes differ, byte {wrong[0]} first"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the calls that the arguments name; 1 at the first that is wrong."""
    parser = argparse.ArgumentParser("python -m harness.random_calls", description="Drawn calls, compared with NumPy.")
    parser.add_argument("--first", type=int, default=0, help="number of the first call")
    parser.add_argument("--calls", type=int, default=100_000, help="how many calls")
    parser.add_argument(
        "--cuda",
        type=int,
        default=0,
        help=f"of so many times {CALLS_OF_A_KIND} calls, {CALLS_OF_A_KIND} on CUDA as well",
    )
    chosen = parser.parse_args(arguments)
    if chosen.cuda:
        from harness.cuda_standin import plugin

        plugin.install()
    counts: Counter[str] = Counter()
    began, end = time.process_time(), chosen.first + chosen.calls
    for first in range(chosen.first, end, BLOCK):
        calls = [(number, drawn_call(number)) for number in range(first, min(first + BLOCK, end))]
        for execution in EXECUTIONS:
            for number, name, wrong in run_block(calls, execution):
                if wrong is not None:
                    print(f"call {number}, {name}, {execution}: {wrong}")
                    return 1
                counts[name.split()[0]] += 1
        for number, call in calls:
            if chosen.cuda and number // CALLS_OF_A_KIND % chosen.cuda == 0:
                wrong = wrong_on_cuda(call)
                if wrong is not None:
                    print(f"call {number}, {call.name}, CUDA: {wrong}")
                    return 1
                counts["on CUDA"] += 1
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"up to {first + len(calls)}: {time.process_time() - began:.0f} processor seconds, at most {peak:.0f} MiB",
            flush=True,
        )
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())), "calls: every byte equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
