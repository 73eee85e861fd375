"""What calls cost on the CPU, as multiples of NumPy's copy of 1 KB in the same run: Python's share of small work.

    python -m benchmarks.call_times [--json FILE] [--rounds 200]

Processor time of one thread, the least of many short rounds in which all calls take turns, so that other work on the
machine lengthens the unit as it lengthens the calls.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np

import stridedgpu as sg
from stridedgpu.devices.operand import Operand

UNIT = "numpy.copyto, 1 KB"

WARM = 60
"""Calls after which every cache is filled."""

CALLS = 20
"""Calls of a round."""

Call = Callable[[], object]


def calls() -> dict[str, Call]:
    """The calls, with everything that they need in place."""
    pixels = np.zeros((1, 32, 32, 3), np.uint8)
    source, out = sg.asarray(pixels, dims="NHWC"), sg.empty((1, 3, 32, 32), "uint8", device="cpu")
    data, rows = (sg.zeros((64, 32), "float32", device="cpu") for _ in range(2))
    indices, plan = sg.zeros((64,), "int64", device="cpu"), sg.plan_relayout(source, out)
    read, written = (np.zeros(1024, np.uint8) for _ in range(2))
    buffer, layout, element = source.buffer, source.layout, source.element
    shapes = iter(product(range(1, 50), range(1, 50), (1, 2, 3, 4)))

    def new_shape() -> sg.StridedTensor:
        image = np.empty((1, *next(shapes)), np.uint8)
        return sg.relayout(image, dims="NHWC", layout="NCHW")

    return {
        UNIT: lambda: np.copyto(written, read),
        "an empty function": lambda: None,
        "asarray(array)": lambda: sg.asarray(pixels),
        "asarray(array, dims=)": lambda: sg.asarray(pixels, dims="NHWC"),
        "slice of two axes": lambda: source[:, :, 4:-4, ::2],
        "first of a batch": lambda: source[0],
        "permute": lambda: source.permute("NHWC"),
        "numpy()": source.numpy,
        "zeros": lambda: sg.zeros((1, 3, 32, 32), "uint8", device="cpu"),
        "plan(src, out)": lambda: plan(source, out),
        "plan_relayout, known": lambda: sg.plan_relayout(source, out),
        "relayout(out=)": lambda: sg.relayout(source, out=out),
        "relayout()": lambda: sg.relayout(source, layout="NCHW"),
        "t[...] = tensor": lambda: out.__setitem__(..., source),
        "gather(out=)": lambda: sg.gather(data, indices, out=rows),
        "relayout(), new shape": new_shape,
        "the objects of a tensor": lambda: sg.StridedTensor.over(
            Operand.trusted(buffer.trusted(buffer.address, buffer.nbytes, pixels), layout, element)
        ),
        **_calls_of_torch(),
    }


def _calls_of_torch() -> dict[str, Call]:
    """The same by PyTorch, and from it, where it is installed."""
    try:
        import torch
    except ImportError:
        return {}
    pixels, tensor = np.zeros((1, 32, 32, 3), np.uint8), torch.zeros(1, 3, 32, 32, dtype=torch.uint8)
    return {
        "asarray(torch)": lambda: sg.asarray(tensor),
        "torch.from_numpy": lambda: torch.from_numpy(pixels),
        "torch slice of two axes": lambda: tensor[:, :, 4:-4, ::2],
        "torch permute": lambda: tensor.permute(0, 2, 3, 1),
        "torch.zeros": lambda: torch.zeros(1, 3, 32, 32, dtype=torch.uint8),
    }


def measured(rounds: int) -> dict[str, float]:
    """The microseconds of each call."""
    found = calls()
    for call in found.values():
        for _ in range(WARM):
            call()
    best = dict.fromkeys(found, float("inf"))
    for _ in range(rounds):
        for name, call in found.items():
            started = time.thread_time()
            for _ in range(CALLS):
                call()
            best[name] = min(best[name], time.thread_time() - started)
    return {name: seconds / CALLS * 1e6 for name, seconds in best.items()}


def table(times: dict[str, float]) -> str:
    """The times as text: microseconds, and multiples of the unit."""
    lines = [f"| call | µs | of {UNIT} |", "|---|---|---|"]
    return "\n".join(
        [*lines, *(f"| {name} | {taken:.2f} | {taken / times[UNIT]:.1f} |" for name, taken in times.items())]
    )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the times there, too")
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    times = measured(options.rounds)
    sys.stdout.write(table(times) + "\n")
    if options.json:
        options.json.write_text(json.dumps(times, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
