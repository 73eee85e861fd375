"""Host time of calls on a CUDA device: microseconds of Python and CuPy until a call returns.

    PYTHONPATH=tests python -m benchmarks.host_times [--json FILE]

On a GPU the times include the driver's launch. Where there is none, and CuPy 14.2.0 is installed, CUDA's calls are a
stand-in that returns at once (`tests/harness/cuda_standin`), so that the library's and CuPy's own time remains.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import cycle
from pathlib import Path

import numpy as np

import stridedgpu as sg

GOALS = {
    "plan(src, out)": 1.1,
    "relayout(out=)": 3.0,
    "relayout()": 5.0,
    "gather(out=), raise": 8.0,
    "gather_crops, 256 images of a batch": 150.0,
    "gather_crops, 256 images of a list": 150.0,
    "captured step, 8 images, no arguments": 5.0,
}
"""Microseconds of the host's own time, where there is a goal."""

Case = tuple[Callable[[], object], int]
"""A call, and how many of them make a round."""


def cases() -> dict[str, Case]:
    """The calls, with everything that they need in place."""
    source = sg.zeros((2, 3, 32, 32), "uint8", layout="NHWC", device="cuda")
    out = sg.zeros((2, 3, 32, 32), "float16", device="cuda")
    planes = sg.zeros((2, 3, 32, 32), "uint8", device="cuda")
    plan = sg.plan_relayout(source, out, scale=1 / 255)
    data, rows = (sg.zeros((64, 32), "float32", device="cuda") for _ in range(2))
    indices = sg.zeros((64,), "int64", device="cuda")
    gather = sg.plan_gather(data, indices, mode="clip", out=rows)
    batch = sg.zeros((256, 3, 64, 64), "uint8", layout="NHWC", device="cuda")
    windows = sg.zeros((256, 3, 8, 8), "float16", device="cuda")
    images = [batch[number] for number in range(256)]
    origins = np.random.default_rng(1).integers(0, 56, (256, 2))
    flips = [number % 3 == 0 for number in range(256)]
    crops = sg.plan_gather_crops(batch, (8, 8), scale=1 / 255, out=windows)
    return {
        "plan(src, out)": (lambda: plan(source, out), 200),
        "relayout(out=)": (lambda: sg.relayout(source, out=planes), 200),
        "relayout(out=), normalising": (lambda: sg.relayout(source, scale=1 / 255, dtype="float16", out=out), 200),
        "relayout()": (lambda: sg.relayout(source), 200),
        "relayout(), normalising": (lambda: sg.relayout(source, scale=1 / 255, dtype="float16"), 200),
        "relayout(layout=)": (lambda: sg.relayout(source, layout="NCHW"), 200),
        "gather(out=), raise": (lambda: sg.gather(data, indices, out=rows), 100),
        "gather(), raise": (lambda: sg.gather(data, indices), 100),
        "gather(out=), clip": (lambda: sg.gather(data, indices, mode="clip", out=rows), 100),
        "gather(out=), deferred": (lambda: sg.gather(data, indices, mode="deferred", out=rows), 100),
        "gather plan, clip": (lambda: gather(data, indices, rows), 100),
        **{
            f"gather_crops, {count} images of a batch": (_crops(batch[:count], count, origins, flips, windows), 10)
            for count in (16, 64, 256)
        },
        "gather_crops, 256 images of a list": (_crops(images, 256, origins, flips, windows), 10),
        "crops plan, 256 images of a batch": (lambda: crops(batch, origins, windows, flips), 10),
    }


def step_cases() -> dict[str, Case]:
    """A step, and the same step captured: with the same images, with others of their sizes, with drawn windows."""
    photos, others = (
        [sg.zeros((3, 60 + number, 80), "uint8", dims="CHW", layout="HWC", device="cuda") for number in range(8)]
        for _ in range(2)
    )
    turns, keys = cycle((photos, others)), list(range(8))
    still = sg.Preprocess(resize=40, crop=32, normalize="imagenet", device="cuda", output="tensor")
    drawn = sg.Preprocess(crop=32, seed=1, flip=True, normalize="imagenet", device="cuda", output="tensor")
    drawn.set_epoch(0)  # every call draws the same windows
    replayed, redrawn = still.captured(photos), drawn.captured(photos, keys)
    return {
        "step, 8 images": (lambda: still(photos), 20),
        "captured step, 8 images, no arguments": (replayed, 100),
        "captured step, 8 images, others": (lambda: replayed(next(turns)), 20),
        "step, 8 images, drawn windows": (lambda: drawn(photos, keys), 20),
        "captured step, 8 images, drawn windows": (lambda: redrawn(photos, keys), 20),
    }


def _crops(
    images: object, count: int, origins: np.ndarray, flips: list[bool], windows: sg.StridedTensor
) -> Callable[[], object]:
    there, mirrored, out = origins[:count], flips[:count], windows[:count]
    return lambda: sg.gather_crops(images, there, (8, 8), flip=mirrored, scale=1 / 255, out=out)


def microseconds(case: Case, during: Callable[[], AbstractContextManager[None]], rounds: int = 40) -> float:
    """The least time of a call among rounds of many in a row; the first calls compile and fill caches."""
    call, count = case
    call()
    sg.synchronize()
    call()
    best = float("inf")
    with during():
        for _ in range(rounds):
            started = time.thread_time()
            for _ in range(count):
                call()
            best = min(best, time.thread_time() - started)
    return best / count * 1e6


def with_a_device() -> Callable[[], AbstractContextManager[None]]:
    """A context in which CUDA's calls are timed: with a GPU an empty one, else one where they return at once."""
    from stridedgpu.devices.cuda.status import cuda_status

    if cuda_status().device_count:
        return nullcontext
    from harness.cuda_standin import plugin, seam

    plugin.install()
    return seam.at_once


def measured(rounds: int = 40) -> dict[str, float]:
    """Microseconds of every case."""
    during = with_a_device()
    return {name: microseconds(case, during, rounds) for name, case in (cases() | step_cases()).items()}


def table(times: dict[str, float]) -> str:
    """The times beside the goals, as text."""
    lines = ["| call | µs | goal |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {time:.1f} | {GOALS.get(name, '')} |" for name, time in times.items())])


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the times there, too")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    times = measured(options.rounds)
    print(table(times))
    if options.json:
        options.json.write_text(json.dumps(times, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
