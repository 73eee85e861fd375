"""`python -m benchmarks`, from a checkout: measure here, print a table, write JSON and a chart.

Bad arguments end in one line on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import stridedgpu as sg
from benchmarks.suite.chart import check_plotting, draw_chart
from benchmarks.suite.measure import Bench
from benchmarks.suite.peers.peer import Peer
from benchmarks.suite.peers.registry import PEERS, installed_peers
from benchmarks.suite.provenance import provenance_of
from benchmarks.suite.records import Results, results_text
from benchmarks.suite.table import table_text
from benchmarks.suite.workloads import CURVE_BYTES, CURVES, WORKLOADS, Scale, Workload, curve_of, workloads_named
from stridedgpu.__main__ import INTERRUPTED
from stridedgpu.commands.console import one_line, progress
from stridedgpu.commands.parser import REFUSED, CommandParser
from stridedgpu.preprocess.files import check_writable, replacement
from stridedgpu.values.errors import StridedGpuError

_PROGRAM: Final = "benchmarks"

_SECONDS: Final = {"gpu": 1.5, "cpu": 4.0, "quick": 0.7, "test": 0.01}
"""Seconds of timing a workload, each contender's share included; points of a curve take a third."""

_PIPE_COLUMNS: Final = 120


def main(arguments: Sequence[str] | None = None, scale: Scale | None = None) -> int:
    """Measure, print and write as the arguments say; returns the exit code: 0 done, 2 refused, 130 interrupted.

    `scale` is that of the device unless a rehearsal says another.
    """
    chosen = build_parser().parse_args(arguments)
    try:
        run(chosen, scale)
    except KeyboardInterrupt:
        sys.stderr.write(f"{_PROGRAM}: interrupted\n")
        return INTERRUPTED
    except StridedGpuError as problem:
        sys.stderr.write(f"{_PROGRAM}: {one_line(str(problem))}\n")
        return REFUSED
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = CommandParser(
        prog=_PROGRAM,
        description="Time named workloads on this machine beside the libraries that are installed, each result "
        "compared first. Every figure is also a share of the library's own copy of as many bytes, in the same run.",
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
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def run(chosen: argparse.Namespace, rehearsed: Scale | None = None) -> None:
    """Measure, print, write."""
    known = [workload.name for workload in WORKLOADS]
    unknown = [name for name in chosen.only if name not in known]
    if unknown:
        raise StridedGpuError(f"there is no workload {unknown[0]!r}; there are {', '.join(known)}.")
    device = _device(chosen.device)
    if chosen.out is not None and not chosen.out.is_dir():
        raise StridedGpuError(f"{str(chosen.out)!r} is no folder; --out names one that exists.")
    scale: Scale = rehearsed or ("quick" if chosen.quick else "cpu" if device == "cpu" else "gpu")
    peers, absent = installed_peers(device, chosen.against)
    for name, reason in absent.items():
        if reason.startswith("cannot"):
            sys.stderr.write(f"{_PROGRAM}: {name} {reason}\n")
    provenance = provenance_of(device, peers, scale)
    outputs = {} if chosen.out is None else _outputs(chosen.out, provenance["device"]["name"])
    results = Results(provenance, (), ())
    for results in measured_so_far(device, peers, scale, provenance, chosen.only):
        if outputs:
            with replacement(outputs["json"]) as file:
                file.write(results_text(results).encode())
    columns = shutil.get_terminal_size((_PIPE_COLUMNS, 1)).columns
    sys.stdout.write(table_text(results, columns))
    if outputs:
        sys.stdout.write(f"wrote {str(outputs['json'])!r}\n")
        _write_chart(results, outputs["png"])


def measured_so_far(
    device: str, peers: Sequence[Peer], scale: Scale, provenance: Mapping[str, Any], only: tuple[str, ...] = ()
) -> Iterator[Results]:
    """The results after each workload: all of them, or those of the names in `only`, and without these the curves.

    A run that is cut off has written what it had.
    """
    workloads = workloads_named(only)
    curves = [] if only else _curves(scale)
    bench = Bench(device, peers, scale, _SECONDS[scale])
    short = Bench(device, peers, scale, _SECONDS[scale] / 3)
    results = Results(provenance, (), ())
    with progress(len(workloads) + len(curves), "workloads") as step:
        for workload in workloads:
            results = replace(results, workloads=(*results.workloads, bench.record(workload)))
            step()
            yield results
        for curve in curves:
            results = replace(results, curves=(*results.curves, short.record(curve)))
            step()
            yield results


def _curves(scale: Scale) -> list[Workload]:
    return [curve_of(workload, size) for workload in workloads_named(CURVES) for size in CURVE_BYTES[scale]]


def _device(wanted: str | None) -> str:
    """The device to measure. Says on stderr where there is no GPU; raises `DeviceError` for one that cannot be had."""
    if wanted is not None:
        return sg.empty((1,), "uint8", device=wanted).device
    device = sg.empty((1,), "uint8").device
    if device == "cpu":
        reason = next((entry.reason for entry in sg.devices() if not entry.available), "the CPU was asked for")
        sys.stderr.write(f"{_PROGRAM}: no GPU is measured ({reason}); the CPU is\n")
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
        sys.stderr.write(f"{_PROGRAM}: {problem}\n")
        return
    with replacement(path) as file:
        draw_chart(results, file)
    sys.stdout.write(f"wrote {str(path)!r}\n")


if __name__ == "__main__":
    sys.exit(main())
