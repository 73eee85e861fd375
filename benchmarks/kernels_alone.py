"""Each kernel alone, from prepared plans: the time between events on the device, divided by that of a copy.

    python -m benchmarks.kernels_alone [--scale test] [--only NAME,…] [--bits] [--sweep] [--once] [--json FILE]

Relayouts, gathers and crops are the workloads of the benchmarks, resizes and frames the works of `suite/resizes.py`,
beside PyTorch's `interpolate` and torchvision's `resize` where these are installed with CUDA. Every figure is in FILE
as soon as it is measured: nine samples, and the interval of their median.

Calls alternate between sets of memory that together exceed the L2 cache. Gathers and crops run through plans as well,
in modes "clip" and "deferred", which wait for nothing: the default mode waits for its check, and shows the host.
`--bits` times nothing, and compares each result with NumPy's.
`--sweep` measures each alternative to a threshold of the planner on the workloads that it decides.
`--once` launches each kernel once between the calls that start and stop a profiler, which reads the device's counters.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import stridedgpu as sg
from benchmarks.host_times import with_a_device
from benchmarks.suite.clocks import CudaClock
from benchmarks.suite.measure import check_result
from benchmarks.suite.records import median_interval, verdict
from benchmarks.suite.resizes import BATCH, RESIZES, ResizeWork
from benchmarks.suite.work import CropWork, Pick, Work, make_work
from benchmarks.suite.workloads import (
    UNWAITED_MODES,
    WORKLOADS,
    Embed,
    Relayout,
    Scale,
    Workload,
    workloads_named,
)
from stridedgpu.devices.cuda.policy import policy, using
from stridedgpu.operations.channel_blocks import parse_order

COLD_BYTES = 256 << 20
"""Bytes of all sets together: four times the L2 cache of an H100 or H200, twice that of a B200."""

MOST_SETS = 20
REPEATS, SAMPLES = 20, 9
"""Calls of a sample, and samples: two of nine lie outside the interval of the median."""

COUNTED = (
    *("copy", "train", "video", "planes", "features-to-NCHW", "transpose-1B", "rotate", "embed-64B-int32", "crops"),
    *("500x375 bilinear", "4K bilinear", "NV12 to 640"),
)
"""The works of which a profiler reads the device's counters: one of each family."""

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
        for mode in UNWAITED_MODES:
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

PEER_WAYS = (", torch", ", torchvision")


@dataclass(frozen=True)
class Sets:
    """One kind of work on several sets of memory: the ways of each set, the bytes that a call moves, and the kernel."""

    ways: list[list[Way]]
    nbytes: int
    kernel: str


def sets_of(workload: Workload, scale: Scale) -> Sets:
    """A workload, as many times as it takes to exceed the cache."""
    first = make_work(workload, scale, "cuda")
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
        if work.format is None and has_cuda("torch"):
            ways[-1] += [(f", {name}", peer(read)) for name, peer in work.peers.items() if has_cuda(name)]
    return Sets(ways, plan.bytes_moved, plan.kernel)


@cache
def has_cuda(peer: str) -> bool:
    """Whether a peer can be imported, and its PyTorch can use the GPU; torchvision beside another PyTorch cannot."""
    try:
        import_module(peer)
    except (ImportError, RuntimeError):
        return False
    return bool(import_module("torch").cuda.is_available())


def _count(nbytes: int, scale: Scale) -> int:
    return min(MOST_SETS, max(2, -(-COLD_BYTES // nbytes))) if scale == "gpu" else 2


def is_one_kernel(workload: Workload) -> bool:
    """Whether a plan does it, and its speed is the question: channels that are filled up take two launches."""
    filled_up = isinstance(workload, Relayout) and parse_order(workload.target_order).multiple > 1
    return workload.measures == "speed" and not filled_up


def chosen_workloads(names: Sequence[str]) -> list[Workload]:
    """The workloads of these names, all without names, that one kernel does."""
    chosen = tuple(name for name in names if name not in RESIZES)
    return [one for one in workloads_named(chosen) if is_one_kernel(one)] if chosen or not names else []


def chosen_resizes(names: Sequence[str], scale: Scale) -> dict[str, ResizeWork]:
    """The resizes of these names, all without names; small ones unless the scale is that of a GPU."""
    chosen = {name: resize for name, resize in RESIZES.items() if not names or name in names}
    if scale == "gpu":
        return chosen
    return {name: replace(resize, source=(48, 64), target=(24, 32)) for name, resize in chosen.items()}


def ids(names: Sequence[str] = ()) -> list[str]:
    """What is measured of the library itself, as results name it: nothing is allocated."""
    found: list[str] = []
    for workload in chosen_workloads(names):
        modes = [f", {mode}" for mode in UNWAITED_MODES] if isinstance(workload, Embed) else [""]
        found += [workload.name + mode for mode in modes]
    return found + list(chosen_resizes(names, "gpu"))


def named_sets(names: Sequence[str], scale: Scale) -> Iterator[tuple[str, Sets]]:
    """The works of these names, all without names, each made when its turn comes."""
    for workload in chosen_workloads(names):
        yield workload.name, sets_of(workload, scale)
    for name, resize in chosen_resizes(names, scale).items():
        yield name, sets_of_resize(resize, scale)


def compared(names: Sequence[str], scale: Scale) -> Iterator[tuple[str, str]]:
    """Of each work and way its id, and "equal", or how its result differs from the one on the CPU.

    With `STRIDEDGPU_COMPILED=0` the CPU's result is NumPy's for resizes, too.
    """
    for workload in chosen_workloads(names):
        work = make_work(workload, scale, "cuda")
        expected = work.expected()
        for way, call in calls(work):
            work.target[...] = 0
            call()
            yield workload.name + way, check_result(work.target.numpy(), expected)
    for name, resize in chosen_resizes(names, scale).items():
        results = []
        for device in ("cuda", "cpu"):
            images, target = resize.tensors(2, device)
            resize.plan(images, target)(images, target)
            results.append(target.numpy())
        yield name, check_result(*results)


def measured(named: Iterable[tuple[str, Sets]], scale: Scale, repeats: int, write: Write) -> dict[str, dict[str, Any]]:
    """By work and way: microseconds of each sample, their median with its interval, bytes, rate and kernel.

    The ways of a work take turns. Times of the library have a verdict beside each peer.
    """
    clock = CudaClock(0, scale)
    figures: dict[str, dict[str, Any]] = {}
    for name, sets in named:
        ways = {named_calls[0][0]: [call for _, call in named_calls] for named_calls in zip(*sets.ways, strict=True)}
        for calls_of_way in ways.values():
            for call in calls_of_way:
                call()
            sg.synchronize()
        samples: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(SAMPLES):
            for way, calls_of_way in ways.items():
                samples[way].append(clock.seconds(calls_of_way, repeats) * 1e6)
        for way, taken in samples.items():
            figures[name + way] = figures_of(taken, sets, way)
        for way in samples.keys() & set(PEER_WAYS):
            figures[name].setdefault("beside", {})[way.removeprefix(", ")] = beside(samples[""], samples[way])
        write(with_shares(figures))
    return with_shares(figures)


def beside(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """How many times as fast as the other, and whether that is decided."""
    return {"ratio": median(theirs) / median(ours), "verdict": verdict(ours, theirs)}


def figures_of(samples: list[float], sets: Sets, way: str) -> dict[str, Any]:
    """What is written of one way: microseconds a call in each sample, and what follows from them."""
    return {
        "microseconds": median(samples),
        "interval": median_interval(samples),
        "samples": samples,
        "bytes": sets.nbytes,
        "terabytes_a_second": sets.nbytes / median(samples) / 1e6,
        "kernel": way.removeprefix(", ") if way in PEER_WAYS else sets.kernel,
    }


def with_shares(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same with each kernel's share of the rate of "copy", where that was measured, from the least to the most."""
    if (copied := found.get("copy")) is None:
        return found

    def share(figures: dict[str, Any], copy: float, own: float) -> float:
        return copy / own * figures["bytes"] / copied["bytes"]

    shares = {}
    for name, figures in found.items():
        (low, high), (copy_low, copy_high) = figures["interval"], copied["interval"]
        shares[name] = {
            **figures,
            "of_copy": share(figures, copied["microseconds"], figures["microseconds"]),
            "of_copy_interval": [share(figures, copy_low, high), share(figures, copy_high, low)],
        }
    return shares


def swept(scale: Scale, repeats: int, only: tuple[str, ...], write: Write) -> dict[str, dict[str, Any]]:
    """The same by threshold, value and workload; an alternative has a verdict beside the planner's own value."""
    found: dict[str, dict[str, Any]] = {}
    for (part, knob), (values, beginnings) in SWEEP.items():
        if only and f"{part}.{knob}" not in only:
            continue
        names = [one.name for one in WORKLOADS if one.name.startswith(beginnings) and one.measures == "speed"]
        section = getattr(policy(), part)
        usual = getattr(section, knob)
        samples: dict[str, list[float]] = {}
        for value in (usual, *values):
            with using(replace(policy(), **{part: replace(section, **{knob: value})})):
                try:
                    figures = measured(named_sets(names, scale), scale, repeats, lambda _: None)
                except sg.StridedGpuError as error:
                    figures = {"refused": {"why": str(error)}}
                for name, each in figures.items():
                    if value == usual and "samples" in each:
                        samples[name] = each["samples"]
                    elif name in samples:
                        each["beside"] = {f"{knob}={usual}": beside(each["samples"], samples[name])}
                    found[f"{part}.{knob}={value}: {name}"] = each
                write(found)
    return found


def launched_once(named: Iterable[tuple[str, Sets]]) -> dict[str, dict[str, Any]]:
    """Each kernel, launched once while a profiler looks, after a call that compiles it."""
    runtime: Any = import_module("cupy").cuda.runtime
    found: dict[str, dict[str, Any]] = {}
    for name, sets in named:
        for way, call in sets.ways[0]:
            call()
            sg.synchronize()
            runtime.profilerStart()
            call()
            sg.synchronize()
            runtime.profilerStop()
            found[name + way] = {"kernel": sets.kernel}
    return found


def table(found: dict[str, dict[str, Any]]) -> str:
    """The figures as text."""
    lines = ["| work | µs | from | to | TB/s | of copy | kernel | beside |", "|---|---|---|---|---|---|---|---|"]
    for name, each in found.items():
        if "microseconds" in each:
            low, high = each["interval"]
            share = f"{each['of_copy']:.0%}" if "of_copy" in each else ""
            beside = "; ".join(
                f"{peer} {told['ratio']:.2f}x, {told['verdict']}" for peer, told in each.get("beside", {}).items()
            )
            lines.append(
                f"| {name} | {each['microseconds']:.1f} | {low:.1f} | {high:.1f} | {each['terabytes_a_second']:.2f} "
                f"| {share} | {each['kernel']} | {beside} |"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print; 1 where a result differs from NumPy's."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", choices=("gpu", "quick", "test"), default="gpu")
    parser.add_argument("--only", type=lambda text: tuple(text.split(",")), default=(), help="names of works")
    parser.add_argument("--sweep", nargs="?", const="", help="the planner's thresholds, or those named PART.KNOB,…")
    parser.add_argument("--bits", action="store_true", help="compare each result with NumPy's, and time nothing")
    parser.add_argument("--once", action="store_true", help="launch each kernel once")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args(arguments)
    with_a_device()

    def write(figures: dict[str, dict[str, Any]]) -> None:
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")

    if options.bits:
        found = {}
        for name, result in compared(options.only, options.scale):
            print(f"{name}: {result}", flush=True)
            found[name] = {"result": result}
            write(found)
        differing = [name for name, each in found.items() if each["result"] != "equal"]
        print(f"{len(found) - len(differing)} of {len(found)} results have the bits of NumPy's")
        return int(bool(differing))
    if options.sweep is not None:
        found = swept(options.scale, options.repeats, tuple(filter(None, options.sweep.split(","))), write)
    elif options.once:
        found = launched_once(named_sets(options.only, options.scale))
    else:
        found = measured(named_sets(options.only, options.scale), options.scale, options.repeats, write)
    print(table(found))
    write(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
