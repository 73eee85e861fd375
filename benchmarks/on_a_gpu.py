"""Everything that thirty minutes on a GPU can answer, by one command, in stages with a time limit each.

    python -m benchmarks.on_a_gpu DIR [--commit HASH] [--only STAGE,…] [--again]
    PYTHONPATH=tests python -m benchmarks.on_a_gpu DIR --rehearse         over the stand-in for CUDA, in small sizes

Each stage is a process of its own that leaves DIR/STAGE.log and DIR/STAGE.json; one that has succeeded is not run
again, so that a run that was cut off goes on. `DIR/summary.json` and a table come last. No stage uses the network: the
wheels of the `cuda12` or `cuda13` extra, `pytest`, `pytest-xdist`, `hypothesis` and `numpy` must be there, and torch
where the library stands beside it. Kernels come from CuPy's cache (`CUPY_CACHE_DIR`), which may be brought along.
`where` records the commit, and a hash of the sources that tells it where there is no `.git`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.suite.provenance import printed_by

ROOT = Path(__file__).resolve().parents[1]

LIBRARIES = ("numpy", "cupy-cuda12x", "cupy-cuda13x", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "torch", "pytest")

QUESTIONS = "tests/gpu/test_gpu_questions.py"

METRICS = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "gpu__time_duration.sum",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    "l1tex__data_bank_conflicts_pipe_lsu.sum",
    "lts__t_sector_hit_rate.pct",
    "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
)
"""Hardware counters, in one pass or two."""

PLUGIN = ("-p", "harness.cuda_standin.plugin")


@dataclass(frozen=True)
class Stage:
    """One process: the command, its limit, and another command in a rehearsal (none: it is left out there)."""

    name: str
    seconds: int
    command: tuple[str, ...]
    rehearsed: tuple[str, ...] | None
    needs: str | None = None  # a program beside Python
    environment: tuple[tuple[str, str], ...] = ()


def _pytest(*arguments: str, workers: int = 0) -> tuple[str, ...]:
    # Wherever the tests are brought to, other libraries may warn, and pytest may be older.
    relaxed = ("-o", "minversion=0", "-o", "filterwarnings=default", "-p", "no:cacheprovider", "-q")
    return (sys.executable, "-m", "pytest", *relaxed, *(("-n", str(workers)) if workers else ()), *arguments)


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"benchmarks.{name}", *arguments)


def _sanitized(tool: str, *arguments: str) -> tuple[str, ...]:
    launcher = ("compute-sanitizer", "--tool", tool, "--error-exitcode", "9", "--target-processes", "all")
    return (*launcher, *_pytest(*arguments))


def stages(directory: Path, workers: int) -> tuple[Stage, ...]:
    """All stages in order: what decides most comes first."""

    def output(name: str) -> tuple[str, str]:
        return "--json", str(directory / f"{name}.figures.json")

    quick = ("-m", "gpu and not slow")
    orders = "tests/gpu/test_gpu_order.py"
    small = ("--scale", "test", "--repeats", "2")
    moved = "move_as_bits or pixels_become or refused or crops"
    exchanging = "NCHW or NHWC or transpose or packed"
    bench = (sys.executable, "-m", "benchmarks", "--device", "cuda", "--against", "torch,cupy")
    once = _module("kernels_alone", "--once", *output("counters"))
    return (
        Stage(
            "calls",
            60,
            _module("host_times", *output("calls")),
            _module("host_times", "--rounds", "2", *output("calls")),
        ),
        Stage(
            "questions",
            240,
            _pytest("-m", "gpu", QUESTIONS),
            _pytest(*PLUGIN, *quick, QUESTIONS),
        ),
        Stage(
            "tests",
            300,
            _pytest(*quick, "tests", workers=workers),
            _pytest(*PLUGIN, "-m", "gpu", orders, "-k", "refused and short"),
        ),
        Stage(
            "kernels",
            240,
            _module("kernels_alone", *output("kernels")),
            _module("kernels_alone", *small, "--only", "copy,train,crops", *output("kernels")),
        ),
        Stage("bench", 240, (*bench, "--only", _workloads(), "--out", str(directory)), None),
        Stage(
            "memcheck",
            240,
            _sanitized("memcheck", *quick, "tests/gpu", "-k", moved),
            None,
            "compute-sanitizer",
            (("STRIDEDGPU_TESTS_WITHOUT_POOL", "1"),),
        ),
        Stage(
            "racecheck",
            180,
            _sanitized("racecheck", *quick, "tests/gpu/test_gpu.py", "-k", exchanging),
            None,
            "compute-sanitizer",
        ),
        Stage(
            "synccheck",
            120,
            _sanitized("synccheck", *quick, "tests/gpu/test_gpu.py", "-k", exchanging),
            None,
            "compute-sanitizer",
        ),
        Stage(
            "sweep",
            300,
            _module("kernels_alone", "--sweep", "--repeats", "30", *output("sweep")),
            _module("kernels_alone", *small, "--sweep", "crops.most_rows", *output("sweep")),
        ),
        Stage(
            "counters",
            240,
            ("ncu", "--clock-control", "none", "--metrics", ",".join(METRICS), "--csv", *once),
            (*once, *small, "--only", "copy,crops"),
            "ncu",
        ),
        Stage("slow", 420, _pytest("-m", "gpu and slow", "tests", workers=workers), None),
    )


def _workloads() -> str:
    """All workloads by name, which leaves the curves out."""
    from benchmarks.suite.workloads import WORKLOADS

    return ",".join(workload.name for workload in WORKLOADS)


def where(commit: str | None) -> dict[str, Any]:
    """The commit, the sources' hash, the GPU, the libraries, and the kernels that CuPy has kept."""
    digest = hashlib.sha256()
    for folder in ("stridedgpu", "kernels"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".cu", ".cuh"):
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    cache = Path(os.environ.get("CUPY_CACHE_DIR", Path.home() / ".cupy" / "kernel_cache"))
    kept = list(cache.glob("*.cubin")) if cache.is_dir() else []
    return {
        "commit": commit or printed_by("git", "-C", str(ROOT), "rev-parse", "HEAD") or None,
        "sources": digest.hexdigest()[:16],
        "gpu": printed_by("nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm", "--format=csv,noheader"),
        "libraries": {name: version for name in LIBRARIES if (version := _version(name))},
        "kept_kernels": {"count": len(kept), "bytes": sum(path.stat().st_size for path in kept)},
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def run(stage: Stage, command: tuple[str, ...], directory: Path) -> dict[str, Any]:
    """Run one stage; what it printed goes to its log."""
    began = time.monotonic()
    environment: Mapping[str, str] = {**os.environ, **dict(stage.environment)}
    with (directory / f"{stage.name}.log").open("w") as log:
        try:
            code = subprocess.run(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=stage.seconds,
                cwd=ROOT,
                env=environment,
                check=False,
            ).returncode
            said = "succeeded" if code == 0 else f"failed ({code})"
        except subprocess.TimeoutExpired:
            said = f"ended after {stage.seconds} s"
    return {"result": said, "seconds": round(time.monotonic() - began, 1), "command": command}


def result_of(stage: Stage, directory: Path, *, rehearses: bool, again: bool) -> dict[str, Any]:
    """The stage's result: that of an earlier run, if it succeeded, or a new one."""
    kept = directory / f"{stage.name}.json"
    if kept.exists() and not again:
        earlier: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        if earlier["result"] == "succeeded":
            return earlier
    command = stage.rehearsed if rehearses else stage.command
    if command is None:
        return {"result": "left out of a rehearsal", "seconds": 0}
    if stage.needs and not rehearses and shutil.which(stage.needs) is None:
        return {"result": f"left out: there is no {stage.needs}", "seconds": 0}
    made = run(stage, command, directory)
    kept.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return made


def last_line(directory: Path, name: str) -> str:
    """The last line that a stage printed."""
    log = directory / f"{name}.log"
    lines = log.read_text(errors="replace", encoding="utf-8").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def summary(directory: Path, results: Mapping[str, Mapping[str, Any]]) -> str:
    """The results as a table, and the tables that stages printed."""
    lines = ["| stage | result | seconds | last line |", "|---|---|---|---|"]
    for name, made in results.items():
        lines.append(f"| {name} | {made['result']} | {made['seconds']} | {last_line(directory, name)[:80]} |")
    for name in ("calls", "kernels", "sweep"):
        log = directory / f"{name}.log"
        rows = (
            [line for line in log.read_text(encoding="utf-8").split("\n") if line.startswith("|")]
            if log.exists()
            else []
        )
        lines += ["", *rows] if rows else []
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what has not succeeded yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path, metavar="DIR", help="results, of this run and of earlier ones")
    parser.add_argument("--commit", help="where there is no .git")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], help="stages, by name")
    parser.add_argument("--again", action="store_true", help="run stages that have succeeded, too")
    parser.add_argument("--rehearse", action="store_true", help="over the stand-in for CUDA, in small sizes")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2), help="processes of tests")
    options = parser.parse_args(arguments)
    directory: Path = options.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    results: dict[str, dict[str, Any]] = {}
    about = where(options.commit)
    for stage in stages(directory, options.workers):
        if options.only and stage.name not in options.only:
            continue
        results[stage.name] = result_of(stage, directory, rehearses=options.rehearse, again=options.again)
        print(f"{stage.name}: {results[stage.name]['result']}, {results[stage.name]['seconds']} s", flush=True)
        # After every stage: a run may be cut off.
        (directory / "summary.json").write_text(
            json.dumps({"where": about, "stages": results}, indent=1) + "\n", encoding="utf-8"
        )
    print(summary(directory, results))
    succeeded = sum(made["result"] == "succeeded" for made in results.values())
    print(f"\n{succeeded} of {len(results)} stages succeeded, at commit {about['commit']}, sources {about['sources']}")
    return int(any(made["result"].startswith(("failed", "ended")) for made in results.values()))


if __name__ == "__main__":
    sys.exit(main())
