"""Each kernel alone, from prepared plans: the time between events on the device, divided by that of a copy.

    python -m benchmarks.kernels_alone [--scale test] [--only NAME,…] [--sweep] [--once] [--json FILE]

Relayouts, gathers and crops are the workloads of the benchmarks, resizes and frames the works of `suite/resizes.py`,
beside PyTorch's `interpolate` where PyTorch is installed with CUDA. Every figure is in FILE as soon as it is measured.

Calls alternate between sets of memory that together exceed the L2 cache. Gathers and crops run through plans as well,
in modes "clip" and "deferred", which wait for nothing: the default mode waits for its check, and shows the host.
`--sweep` measures each alternative to a threshold of the planner on the workloads that it decides.
`--once` launches each kernel once, for a profiler that reads the device's counters.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import stridedgpu as sg
from benchmarks.host_times import with_a_device
from benchmarks.suite.clocks import CudaClock
from benchmarks.suite.resizes import BATCH, RESIZES, ResizeWork
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
Write = Callable[[dict[str, dict[str, Any]]], None]
"""Writes all figures up to now."""


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


Way = tuple[str, Call]
"""A name to follow that of the work, and the call."""


@dataclass(frozen=True)
class Sets:
    """One kind of work on several sets of memory: the ways of each set, the bytes that a call moves, and the kernel."""

    ways: list[list[Way]]
    nbytes: int
    kernel: str


def sets_of(workload: Workload, scale: Scale) -> Sets | None:
    """A workload, as many times as it takes to exceed the cache; None for one that takes several launches."""
    first = make_work(workload, scale, "cuda")
    if not is_one_kernel(workload, first):
        return None
    works = [first, *(make_work(workload, scale, "cuda", seed) for seed in range(1, _count(first.bytes_moved, scale)))]
    return Sets([list(calls(work)) for work in works], first.bytes_moved, first.kernel)


def sets_of_resize(work: ResizeWork, scale: Scale) -> Sets:
    """The same of a resize."""
    count = BATCH if scale == "gpu" else 2
    images, target = work.tensors(count, "cuda")
    plan = work.plan(images, target)
    several = [
        (images, target),
        *(work.tensors(count, "cuda", seed) for seed in range(1, _count(plan.bytes_moved, scale))),
    ]
    ways: list[list[Way]] = []
    for read, written in several:
        ways.append([("", lambda plan=plan, read=read, written=written: plan(read, written))])
        if work.format is None and torch_has_cuda():
            ways[-1].append((", torch", work.call_of_torch(read)))
    return Sets(ways, plan.bytes_moved, plan.kernel)


def torch_has_cuda() -> bool:
    """Whether PyTorch is installed, and can use the GPU."""
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def _count(nbytes: int, scale: Scale) -> int:
    return min(MOST_SETS, max(2, -(-COLD_BYTES // nbytes))) if scale == "gpu" else 2


def is_one_kernel(workload: Workload, work: Work) -> bool:
    """Whether a plan does it: channels that are filled up take a launch for each part."""
    return workload.measures == "speed" and not (isinstance(work, Move) and work.channels is not None)


def named_sets(names: Sequence[str], scale: Scale) -> Iterator[tuple[str, Sets]]:
    """The works of these names, all without names, each made when its turn comes."""
    chosen = [name for name in names if name not in RESIZES]
    for workload in workloads_named(chosen) if chosen or not names else ():
        sets = sets_of(workload, scale)
        if sets is not None:
            yield workload.name, sets
    for name, resize in RESIZES.items():
        if not names or name in names:
            small = resize if scale == "gpu" else replace(resize, source=(48, 64), target=(24, 32))
            yield name, sets_of_resize(small, scale)


def measured(named: Iterable[tuple[str, Sets]], repeats: int, write: Write) -> dict[str, dict[str, Any]]:
    """By work and way: microseconds of each of three runs, bytes, terabytes a second and the kernel."""
    clock = CudaClock(0)
    figures: dict[str, dict[str, Any]] = {}
    for name, sets in named:
        for ways in zip(*sets.ways, strict=True):
            together = [call for _, call in ways]
            for call in together:
                call()
            sg.synchronize()
            seconds = [clock.seconds(together, repeats) for _ in range(3)]
            figures[name + ways[0][0]] = {
                "microseconds": min(seconds) * 1e6,
                "samples": [each * 1e6 for each in seconds],
                "bytes": sets.nbytes,
                "terabytes_a_second": sets.nbytes / min(seconds) / 1e12,
                "kernel": "torch" if ways[0][0] == ", torch" else sets.kernel,
            }
            write(with_shares(figures))
    return with_shares(figures)


def with_shares(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same with each kernel's share of the rate of "copy", where that was measured."""
    if (copied := found.get("copy")) is None:
        return found
    rate = copied["terabytes_a_second"]
    return {name: {**figures, "of_copy": figures["terabytes_a_second"] / rate} for name, figures in found.items()}


def swept(scale: Scale, repeats: int, only: tuple[str, ...], write: Write) -> dict[str, dict[str, Any]]:
    """The same by threshold, value and workload."""
    found: dict[str, dict[str, Any]] = {}
    for (part, knob), (values, beginnings) in SWEEP.items():
        if only and f"{part}.{knob}" not in only:
            continue
        names = [one.name for one in WORKLOADS if one.name.startswith(beginnings) and one.measures == "speed"]
        section = getattr(policy(), part)
        for value in (getattr(section, knob), *values):
            with using(replace(policy(), **{part: replace(section, **{knob: value})})):
                try:
                    figures = measured(named_sets(names, scale), repeats, lambda _: None)
                except sg.StridedGpuError as error:
                    figures = {"refused": {"why": str(error)}}
                found |= {f"{part}.{knob}={value}: {name}": each for name, each in figures.items()}
                write(found)
    return found


def launched_once(named: Iterable[tuple[str, Sets]]) -> dict[str, dict[str, Any]]:
    """Each kernel, launched once."""
    found: dict[str, dict[str, Any]] = {}
    for name, sets in named:
        for way, call in sets.ways[0]:
            call()
            sg.synchronize()
            found[name + way] = {"kernel": sets.kernel}
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
    parser.add_argument("--only", type=lambda text: tuple(text.split(",")), default=(), help="names of works")
    parser.add_argument("--sweep", nargs="?", const="", help="the planner's thresholds, or those named PART.KNOB,…")
    parser.add_argument("--once", action="store_true", help="launch each kernel once")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args(arguments)
    with_a_device()

    def write(figures: dict[str, dict[str, Any]]) -> None:
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")

    if options.sweep is not None:
        found = swept(options.scale, options.repeats, tuple(filter(None, options.sweep.split(","))), write)
    elif options.once:
        found = launched_once(named_sets(options.only, options.scale))
    else:
        found = measured(named_sets(options.only, options.scale), options.repeats, write)
    print(table(found))
    write(found)


if __name__ == "__main__":
    main()
