"""Each kernel alone, from prepared plans: the time between events on the device, divided by that of a copy.

    python -m benchmarks.kernels_alone [--scale test] [--only NAME,…] [--sweep] [--once] [--json FILE]

Calls alternate between sets of memory that together exceed the L2 cache. Gathers and crops run through plans as well,
in modes "clip" and "deferred", which wait for nothing: the default mode waits for its check, and shows the host.
`--sweep` measures each alternative to a threshold of the planner on the workloads that it decides.
`--once` launches each kernel once, for a profiler that reads the device's counters.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import stridedgpu as sg
from benchmarks.host_times import with_a_device
from benchmarks.suite.clocks import CudaClock
from benchmarks.suite.work import CropWork, Move, Pick, Work, make_work
from benchmarks.suite.workloads import WORKLOADS, Scale, Workload, workloads_named
from stridedgpu.devices.cuda.policy import policy, using

COLD_BYTES = 256 << 20
"""Bytes of all sets together: four times the L2 cache of an H100 or H200, twice that of a B200."""

MOST_SETS = 20
REPEATS = 60

SWEEP = {
    ("rows", "most_chunks"): ((1, 2, 8), ("odd-pitches", "window", "broadcast")),
    ("rows", "most_accesses"): ((6, 24), ("odd-pitches", "window")),
    ("run_steps", "most_loads"): ((8, 32), ("copy", "cast")),
    ("transpose", "threads"): ((128, 512), ("transpose-1B", "transpose-2B", "transpose-4B", "transpose-8B")),
    ("pixels", "shared_bytes"): ((8 << 10, 32 << 10), ("train", "video", "planes", "pixels")),
    ("pixels", "threads"): ((128, 512), ("train", "video", "planes", "pixels")),
    ("turned_pixels", "tiles"): ((((64, 64),), ((32, 128),)), ("rotate",)),
    ("turned_pixels", "threads"): ((128, 512), ("rotate",)),
    ("gather", "in_flight"): ((2, 8), ("embed-64", "embed-512", "embed-4096")),
    ("gather", "most_indices"): ((1, 2, 8), ("embed-64", "embed-512")),
    ("crops", "in_flight_bytes"): ((32, 128), ("crops",)),
    ("crops", "most_rows"): ((1, 2, 8), ("crops",)),
}
"""Thresholds of `devices/cuda/policy.py`: alternatives, and beginnings of the names of workloads."""

Call = Callable[[], object]


def calls(work: Work) -> Iterator[tuple[str, Call]]:
    """The work through prepared plans, each under a name to follow the workload's."""
    if isinstance(work, Pick):
        for mode in ("clip", "deferred"):
            gather = sg.plan_gather(work.data, work.indices, mode=mode, out=work.target)
            yield f", {mode}", lambda gather=gather: gather(work.data, work.indices, work.target)
    elif isinstance(work, CropWork):
        how, sources = work.workload, work.sources
        crops = sg.plan_gather_crops(sources, work.size, scale=how.scale, bias=how.bias, out=work.target)
        yield "", lambda: crops(sources, work.origins, work.target, work.flips)
    else:
        plan = sg.plan_relayout(work.source, work.target, scale=work.workload.scale, bias=work.workload.bias)
        yield "", lambda: plan(work.source, work.target)


def sets_of(workload: Workload, scale: Scale) -> list[Work]:
    """The workload's tensors, as many times as it takes to exceed the cache."""
    first = make_work(workload, scale, "cuda")
    count = min(MOST_SETS, max(2, -(-COLD_BYTES // first.bytes_moved))) if scale == "gpu" else 2
    return [first, *(make_work(workload, scale, "cuda", seed) for seed in range(1, count))]


def is_one_kernel(workload: Workload, work: Work) -> bool:
    """Whether a plan does it: channels that are filled up take a launch for each part."""
    return workload.measures == "speed" and not (isinstance(work, Move) and work.channels is not None)


def measured(workloads: Sequence[Workload], scale: Scale, repeats: int) -> dict[str, dict[str, Any]]:
    """By workload and way: microseconds, bytes, terabytes a second and the kernel."""
    clock = CudaClock(0)
    found: dict[str, dict[str, Any]] = {}
    for workload in workloads:
        works = sets_of(workload, scale)
        if not is_one_kernel(workload, works[0]):
            continue
        for ways in zip(*(list(calls(work)) for work in works), strict=True):
            together = [call for _, call in ways]
            for call in together:
                call()
            sg.synchronize()
            seconds = min(clock.seconds(together, repeats) for _ in range(3))
            found[workload.name + ways[0][0]] = {
                "microseconds": seconds * 1e6,
                "bytes": works[0].bytes_moved,
                "terabytes_a_second": works[0].bytes_moved / seconds / 1e12,
                "kernel": works[0].kernel,
            }
    return found


def with_shares(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same with each kernel's share of the rate of "copy", where that was measured."""
    if (copied := found.get("copy")) is None:
        return found
    rate = copied["terabytes_a_second"]
    return {name: {**figures, "of_copy": figures["terabytes_a_second"] / rate} for name, figures in found.items()}


def swept(scale: Scale, repeats: int, only: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    """The same by threshold, value and workload."""
    found: dict[str, dict[str, Any]] = {}
    for (part, knob), (values, beginnings) in SWEEP.items():
        if only and f"{part}.{knob}" not in only:
            continue
        workloads = [one for one in WORKLOADS if one.name.startswith(beginnings) and one.measures == "speed"]
        section = getattr(policy(), part)
        for value in (getattr(section, knob), *values):
            with using(replace(policy(), **{part: replace(section, **{knob: value})})):
                try:
                    figures = measured(workloads, scale, repeats)
                except sg.StridedGpuError as error:
                    figures = {"refused": {"why": str(error)}}
                found |= {f"{part}.{knob}={value}: {name}": each for name, each in figures.items()}
    return found


def launched_once(workloads: Sequence[Workload], scale: Scale) -> dict[str, dict[str, Any]]:
    """Each kernel, launched once."""
    found: dict[str, dict[str, Any]] = {}
    for workload in workloads:
        work = make_work(workload, scale, "cuda")
        if is_one_kernel(workload, work):
            for way, call in calls(work):
                call()
                sg.synchronize()
                found[workload.name + way] = {"kernel": work.kernel}
    return found


def table(found: dict[str, dict[str, Any]]) -> str:
    """The figures as text."""
    lines = ["| workload | µs | TB/s | of copy | kernel |", "|---|---|---|---|---|"]
    for name, each in found.items():
        if "microseconds" in each:
            share = f"{each['of_copy']:.0%}" if "of_copy" in each else ""
            lines.append(
                f"| {name} | {each['microseconds']:.1f} | {each['terabytes_a_second']:.2f} | {share} "
                f"| {each['kernel']} |"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", choices=("gpu", "quick", "test"), default="gpu")
    parser.add_argument("--only", type=lambda text: tuple(text.split(",")), default=(), help="names of workloads")
    parser.add_argument("--sweep", nargs="?", const="", help="the planner's thresholds, or those named PART.KNOB,…")
    parser.add_argument("--once", action="store_true", help="launch each kernel once")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args(arguments)
    with_a_device()
    if options.sweep is not None:
        found = swept(options.scale, options.repeats, tuple(filter(None, options.sweep.split(","))))
    elif options.once:
        found = launched_once(workloads_named(options.only), options.scale)
    else:
        found = with_shares(measured(workloads_named(options.only), options.scale, options.repeats))
    print(table(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
