"""Drawn calls, each compared with NumPy to the bit: `PYTHONPATH=tests python -m harness.random_calls`.

Call `n` is the same call in every run, so that a run goes on where another ended (`--first`), and a failure is
repeated by its number (`--first N --calls 1`). Most calls write into borrowed memory of random bytes, and all of that
memory is compared: a byte around the tensor or between its elements that changes is a failure too. The others allocate
their result, and its elements are compared.

Calls go in blocks. A block is drawn once and runs once on NumPy, once by native loops on two threads and, where CuPy
is installed without a GPU and `--cuda` says how often, by the CUDA kernels, which real CuPy launches in the emulator.
The order of a block's calls is drawn, too: what one call leaves behind meets calls of other operations. If a call is
wrong in its block alone, the whole block repeats it.

After each block a line says what the process holds (on Linux): memory, open files, and files of the kernel cache. The
memory includes that of the largest block so far, which the C library keeps.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness.cpu_paths import picking_by
from harness.drawn_calls import CALLS_OF_A_KIND, Call, Side, drawn_call, placed
from harness.guarded_memory import bits_of

import stridedgpu as sg

__all__ = ["BLOCK", "EXECUTIONS", "ON_CUDA", "run_block"]

EXECUTIONS = ("NumPy", "native, 2 threads")
ON_CUDA = "CUDA"
BLOCK = 4 * CALLS_OF_A_KIND


def run_block(calls: Sequence[tuple[int, Call]], execution: str) -> Iterator[tuple[int, str, str | None]]:
    """Run calls by one execution; each one's number and name, and what was wrong with it."""
    if execution == ON_CUDA:
        yield from _judged(calls, _wrong_on_cuda)
    else:
        with picking_by(execution):
            yield from _judged(calls, _wrong_on_cpu)


def _judged(
    calls: Sequence[tuple[int, Call]], wrong_of: Callable[[Call], str | None]
) -> Iterator[tuple[int, str, str | None]]:
    for number, call in calls:
        try:
            wrong = wrong_of(call)
        except Exception as error:
            error.add_note(f"in call {number}, {call.name}")
            raise
        yield number, call.name, wrong


def _wrong_on_cpu(call: Call) -> str | None:
    given = [each.over(each.memory) if isinstance(each, Side) else each for each in call.sources]
    if call.allocates:
        return _wrong_elements(call, call.run(*given, None))
    memory = placed(call.out.memory)
    call.run(*given, call.out.over(memory))
    return _wrong_bytes(call, memory)


def _wrong_on_cuda(call: Call) -> str | None:
    """What is wrong with a call on the first CUDA device, where all that it reads and writes then lies."""
    given = [
        each.over_buffer(_sent(each.memory).buffer) if isinstance(each, Side) else _sent(each) for each in call.sources
    ]
    if call.allocates:
        return _wrong_elements(call, call.run(*given, None).to_device("cpu"))
    held = _sent(call.out.memory)
    call.run(*given, call.out.over_buffer(held.buffer))
    return _wrong_bytes(call, held.to_device("cpu").numpy())


def _sent(array: np.ndarray[Any, Any]) -> sg.StridedTensor:
    return sg.asarray(array).to_device("cuda")


def _wrong_bytes(call: Call, memory: np.ndarray[Any, Any]) -> str | None:
    if memory.tobytes() == call.wanted.tobytes():
        return None
    wrong = np.flatnonzero(memory != call.wanted)
    return f"{wrong.size} bytes differ, byte {wrong[0]} first"


def _wrong_elements(call: Call, result: sg.StridedTensor) -> str | None:
    if (result.sizes, result.dtype) != (call.out.layout.sizes, call.out.dtype):
        return f"the result has sizes {result.sizes} of {result.dtype}"
    words = bits_of(result.layout, result.itemsize, result.buffer.bytes)
    if words.tobytes() == call.wanted_words.tobytes():
        return None
    wrong = np.argwhere(words != call.wanted_words).tolist()
    return f"{len(wrong)} elements differ, the one at {wrong[0]} first"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the calls that the arguments name; 1 at the first that is wrong."""
    parser = argparse.ArgumentParser("python -m harness.random_calls", description="Drawn calls, compared with NumPy.")
    parser.add_argument("--first", type=int, default=0, help="number of the first call")
    parser.add_argument("--calls", type=int, default=100_000, help="how many calls")
    parser.add_argument("--cuda", type=int, default=0, help="of so many kinds, the calls of one on CUDA as well")
    chosen = parser.parse_args(arguments)
    if chosen.cuda:
        from harness.cuda_standin import plugin

        plugin.install()
    counts: Counter[str] = Counter()
    began, end = _spent(), chosen.first + chosen.calls
    for first in range(chosen.first, end, BLOCK):
        numbers = range(first, min(first + BLOCK, end))
        drawn = [(number, drawn_call(number)) for number in numbers]
        calls = [drawn[place] for place in np.random.default_rng((first, 4)).permutation(len(drawn))]
        some = [call for call in calls if chosen.cuda and call[0] // CALLS_OF_A_KIND % chosen.cuda == 0]
        for execution, given in (*((execution, calls) for execution in EXECUTIONS), (ON_CUDA, some)):
            for number, name, wrong in run_block(given, execution):
                if wrong is not None:
                    print(f"call {number} of the block {numbers}, {name}, {execution}: {wrong}")
                    return 1
                counts[f"{name.split()[0]}, {execution}"] += 1
        print(f"up to {numbers.stop}: {_spent() - began:.0f} processor seconds; {_standing()}", flush=True)
    print("\n".join(f"{name}: {count}" for name, count in sorted(counts.items())))
    print(f"{chosen.calls} drawn calls: every byte equal")
    return 0


def _spent() -> float:
    """Processor seconds of this process and its children."""
    return sum(os.times()[:4])


def _standing() -> str:
    """What this process holds: resident memory and open files."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    files = len(list(Path("/proc/self/fd").iterdir()))
    mebibytes = pages * os.sysconf("SC_PAGESIZE") / 2**20
    return f"{mebibytes:.0f} MiB, {files} open files"


if __name__ == "__main__":
    sys.exit(main())
