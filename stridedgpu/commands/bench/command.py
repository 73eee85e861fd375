"""The command `stridedgpu bench`: measure here, print a table, write JSON and a chart."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import stridedgpu as sg
from stridedgpu.commands.bench.peers.peer import Peer
from stridedgpu.commands.bench.peers.registry import PEERS, installed_peers
from stridedgpu.commands.console import progress
from stridedgpu.preprocess.npy import check_writable, replacement
from stridedgpu.values.errors import StridedGpuError

from .chart import check_plotting, draw_chart
from .measure import Bench
from .provenance import provenance_of
from .records import Record, Results, results_text
from .table import table_text
from .workloads import CURVE_BYTES, CURVES, WORKLOADS, Scale, Workload, curve_of, workloads_named

__all__ = ["add_bench", "measure_device"]

_SECONDS: Final = {"gpu": 1.5, "cpu": 4.0, "quick": 0.7, "test": 0.01}
"""Seconds of timing a workload, each contender's share included; points of a curve take a third."""

_PIPE_COLUMNS: Final = 120


def add_bench(commands: argparse._SubParsersAction[Any]) -> None:
    """The parser of `bench`."""
    parser = commands.add_parser(
        "bench",
        help="time the library on this machine, beside others",
        description="Time named workloads on this machine beside the libraries that are installed, each result "
        "compared first. Every figure is also a share of the library's own copy of as many bytes, in the same run.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="small sizes: done in two minutes on two cores")
    add("--out", metavar="DIR", type=Path, help="write there DEVICE.json, and DEVICE.png with matplotlib")
    add(
        "--against",
        metavar="PEER[,PEER]",
        type=_names,
        help=f"whom to be timed beside, of {', '.join(PEERS)} (default: all that are installed)",
    )
    add("--only", metavar="NAME[,NAME]", type=_names, default=(), help="these workloads alone, without curves")
    add("--device", help="cpu, cuda or cuda:N (default: the first CUDA device that works, else cpu)")
    parser.set_defaults(run=run_bench)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def run_bench(chosen: argparse.Namespace) -> None:
    """Measure, print, write."""
    known = [workload.name for workload in WORKLOADS]
    unknown = [name for name in chosen.only if name not in known]
    if unknown:
        raise StridedGpuError(f"there is no workload {unknown[0]!r}; there are {', '.join(known)}.")
    device = _device(chosen.device)
    if chosen.out is not None and not chosen.out.is_dir():
        raise StridedGpuError(f"{str(chosen.out)!r} is no folder; --out names one that exists.")
    scale: Scale = "quick" if chosen.quick else "cpu" if device == "cpu" else "gpu"
    peers, absent = installed_peers(device, chosen.against)
    for name, reason in absent.items():
        if reason.startswith("cannot"):
            sys.stderr.write(f"stridedgpu bench: {name} {reason}\n")
    provenance = provenance_of(device, peers, scale)
    outputs = {} if chosen.out is None else _outputs(chosen.out, provenance["device"]["name"])
    results = measure_device(device, peers, scale, provenance, chosen.only)
    columns = shutil.get_terminal_size((_PIPE_COLUMNS, 1)).columns
    sys.stdout.write(table_text(results, columns))
    if outputs:
        with replacement(outputs["json"]) as file:
            file.write(results_text(results).encode())
        sys.stdout.write(f"wrote {str(outputs['json'])!r}\n")
        _write_chart(results, outputs["png"])


def measure_device(
    device: str, peers: Sequence[Peer], scale: Scale, provenance: Mapping[str, Any], only: tuple[str, ...] = ()
) -> Results:
    """Every workload, or those of the names in `only`, and without these the curves too."""
    workloads = workloads_named(only)
    curves = [] if only else _curves(scale)
    bench = Bench(device, peers, scale, _SECONDS[scale])
    short = Bench(device, peers, scale, _SECONDS[scale] / 3)
    with progress(len(workloads) + len(curves), "workloads") as step:
        return Results(
            provenance,
            tuple(_recorded(bench, workload, step) for workload in workloads),
            tuple(_recorded(short, workload, step) for workload in curves),
        )


def _recorded(bench: Bench, workload: Workload, step: Callable[[], None]) -> Record:
    record = bench.record(workload)
    step()
    return record


def _curves(scale: Scale) -> list[Workload]:
    return [curve_of(workload, size) for workload in workloads_named(CURVES) for size in CURVE_BYTES[scale]]


def _device(wanted: str | None) -> str:
    """The device to measure. Says on stderr where there is no GPU; raises `DeviceError` for one that cannot be had."""
    if wanted is not None:
        return sg.empty((1,), "uint8", device=wanted).device
    device = sg.empty((1,), "uint8").device
    if device == "cpu":
        reason = next((entry.reason for entry in sg.devices() if not entry.available), "the CPU was asked for")
        sys.stderr.write(f"stridedgpu bench: no GPU is measured ({reason}); the CPU is\n")
    return device


def _outputs(folder: Path, device: str) -> dict[str, Path]:
    """The files to write, named after the device: "NVIDIA H200, 141 GB" is nvidia-h200. Raises where they cannot be."""
    name = re.sub(r"[^a-z0-9]+", "-", device.partition(",")[0].lower()).strip("-") or "device"
    outputs = {ending: folder / f"{name}.{ending}" for ending in ("json", "png")}
    for path in outputs.values():
        check_writable(path)
    return outputs


def _write_chart(results: Results, path: Path) -> None:
    """The chart, or on stderr why there is none: the figures are written already."""
    try:
        check_plotting()
    except StridedGpuError as problem:
        sys.stderr.write(f"stridedgpu bench: {problem}\n")
        return
    with replacement(path) as file:
        draw_chart(results, file)
    sys.stdout.write(f"wrote {str(path)!r}\n")
