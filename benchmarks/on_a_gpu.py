"""Everything that thirty minutes on a GPU can answer, by one command, in stages with a time limit each.

    python -m benchmarks.on_a_gpu DIR [--predict [GPU]] [--commit HASH] [--only STAGE,…] [--again] [--budget SECONDS]
    PYTHONPATH=tests python -m benchmarks.on_a_gpu DIR --rehearse         over the stand-in for CUDA, in small sizes

Each stage is a process of its own that leaves DIR/STAGE.log and DIR/STAGE.json; one that has succeeded is not run
again, so that a run that was cut off goes on. A stage that reaches its limit is ended with all its processes. After
every stage `DIR/summary.json` has the results and figures of all, of earlier runs, too; at the end DIR.tar.gz has the
whole folder as one file. With `--budget` no stage goes on for longer than what is left of so many seconds.
`--predict` first writes DIR/predictions.json, what the model computes for the works that `kernels` measures, with the
date (`predictions.py`); the summary shows prediction, measurement and miss. It is refused where kernels were measured.

No stage uses the network: the wheels of the `cuda12` or `cuda13` extra, `pytest`, `pytest-xdist`, `hypothesis` and
`numpy` must be there, and torch and torchvision where the library stands beside them. CuPy keeps native kernels in
`CUPY_CACHE_DIR`, by the folders of its headers among others: a cache from a machine with other folders has no hits.
`where` records the commit, and a hash of the sources that tells it where there is no `.git`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any

from benchmarks import predictions
from benchmarks.kernels_alone import COUNTED
from benchmarks.suite.provenance import printed_by

ROOT = Path(__file__).resolve().parents[1]

LIBRARIES = ("numpy", "cupy-cuda12x", "cupy-cuda13x", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "torch", "pytest")

QUESTIONS = "tests/gpu/test_gpu_questions.py"
GPU_TESTS = ("tests/gpu", "tests/exchange/test_matrix_of_libraries.py")
"""The tests that use a GPU: to collect all tests takes each worker half a minute."""

SANITIZED = (
    *("tests/gpu/test_gpu.py", "tests/gpu/test_gpu_bulk_copies.py", "tests/gpu/test_gpu_gather.py"),
    *("tests/gpu/test_gpu_frames.py", "tests/gpu/test_gpu_resize.py"),
)
MOVED = (
    "(move_as_bits and float16) or (pixels_become and (rows or packed)) or (gathers_have and 4-int32) or crops "
    "or resize or bulk or test_frames or pictures"
)
EXCHANGING = "(move_as_bits and float16 and (NCHW or NHWC or transpose or packed)) or filled_up or resize or bulk"
"""Tests of each family, and those of kernels whose threads exchange through shared memory: some 70 and 35, none of
which starts an interpreter of its own or fills the GPU's memory."""

COMPARED = (
    *("train", "video", "crops", "transpose-1B", "transpose-2B", "transpose-4B", "transpose-8B", "features-to-NCHW"),
    *("rotate", "odd-widths", "embed-64B-int64", "embed-512B-int64"),
)
"""The workloads that the peers do, too."""

LEAST_SECONDS = 10
"""Of a budget, for a stage to begin."""

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

COUNTERS = ("ncu", "--profile-from-start", "off", "--clock-control", "none", "--csv", "--metrics", ",".join(METRICS))

REHEARSED = "copy,train,embed-64B-int32,crops,500x375 bilinear"
"""The works of a rehearsal: g++ takes a second for each kernel."""

PLUGIN = ("-p", "harness.cuda_standin.plugin")


REHEARSED_BENCH = """
from benchmarks.host_times import with_a_device
with_a_device()
from benchmarks.__main__ import main
raise SystemExit(main(scale="test"))
"""


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
    # What CuPy asks of CUDA may fail, and is asked otherwise then: such errors are no findings.
    launcher = ("compute-sanitizer", "--tool", tool, "--error-exitcode", "9", "--report-api-errors", "no")
    return (*launcher, *_pytest(*arguments))


def stages(directory: Path, workers: int) -> tuple[Stage, ...]:
    """All stages in order: what decides most comes first."""

    def output(name: str) -> tuple[str, str]:
        return "--json", str(directory / f"{name}.figures.json")

    quick = ("-m", "gpu and not slow")
    orders = "tests/gpu/test_gpu_order.py"
    small = ("--scale", "test", "--repeats", "2")
    peers = ",".join(name for name in ("torch", "cupy") if find_spec(name))
    compared = ("--device", "cuda", "--against", peers or "cupy", "--out", str(directory / "bench"))
    once = _module("kernels_alone", "--once", *output("counters"))
    sanitizer = "compute-sanitizer"
    return (
        Stage(
            "calls",
            60,
            _module("host_times", *output("calls")),
            _module("host_times", "--rounds", "2", *output("calls")),
        ),
        Stage(
            "bits",
            180,
            _module("kernels_alone", "--bits", "--scale", "quick", *output("bits")),
            _module("kernels_alone", "--bits", "--scale", "test", "--only", REHEARSED, *output("bits")),
            environment=(("STRIDEDGPU_COMPILED", "0"),),
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
            _pytest(*quick, *GPU_TESTS, workers=workers),
            _pytest(*PLUGIN, "-m", "gpu", orders, "-k", "refused and short"),
        ),
        Stage(
            "kernels",
            240,
            _module("kernels_alone", *output("kernels")),
            _module("kernels_alone", *small, "--only", REHEARSED, *output("kernels")),
        ),
        Stage(
            "products",
            60,
            _module("products_rate", *output("products")),
            _module("products_rate", "--turns", "2", *output("products")),
        ),
        Stage(
            "bench",
            240,
            (sys.executable, "-m", "benchmarks", *compared, "--only", ",".join(COMPARED)),
            (sys.executable, "-c", REHEARSED_BENCH, *compared, "--only", "train,embed-64B-int64"),
        ),
        Stage(
            "memcheck",
            240,
            _sanitized("memcheck", *quick, *SANITIZED, "-k", MOVED),
            _pytest("--collect-only", *quick, *SANITIZED, "-k", MOVED),
            sanitizer,
            (("STRIDEDGPU_TESTS_WITHOUT_POOL", "1"),),
        ),
        *(
            Stage(
                tool,
                seconds,
                _sanitized(tool, *quick, *SANITIZED, "-k", EXCHANGING),
                _pytest("--collect-only", *quick, *SANITIZED, "-k", EXCHANGING),
                sanitizer,
            )
            for tool, seconds in (("racecheck", 180), ("synccheck", 120))
        ),
        Stage(
            "sweep",
            300,
            _module("kernels_alone", "--sweep", "--repeats", "10", *output("sweep")),
            _module("kernels_alone", *small, "--sweep", "crops.most_rows", *output("sweep")),
        ),
        Stage(
            "counters",
            240,
            (*COUNTERS, *once, "--only", ",".join(COUNTED)),
            (*once, *small, "--only", "copy,crops"),
            "ncu",
        ),
        Stage("slow", 420, _pytest("-m", "gpu and slow", *GPU_TESTS, workers=workers), None),
    )


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


def run(stage: Stage, command: tuple[str, ...], directory: Path, seconds: float) -> dict[str, Any]:
    """Run one stage for so long at most; what it printed goes to its log. Its processes end with it."""
    began = time.monotonic()
    environment: Mapping[str, str] = {**os.environ, **dict(stage.environment)}
    with (directory / f"{stage.name}.log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT, env=environment, start_new_session=True
        )
        try:
            code = process.wait(seconds)
            said = "succeeded" if code == 0 else f"failed ({code})"
        except subprocess.TimeoutExpired:
            said = f"ended after {seconds:.0f} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    # Results may be published: they name no folder.
    words = ["python" if word == sys.executable else word.replace(str(directory), "DIR") for word in command]
    return {"result": said, "seconds": round(time.monotonic() - began, 1), "command": words}


def result_of(stage: Stage, directory: Path, left: float, *, rehearses: bool, again: bool) -> dict[str, Any]:
    """The stage's result: that of an earlier run, if it succeeded, or a new one within the seconds that are left."""
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
    if left < LEAST_SECONDS:
        return {"result": "left out: the budget is spent", "seconds": 0}
    made = run(stage, command, directory, min(stage.seconds, left))
    kept.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return made


def last_line(directory: Path, name: str) -> str:
    """The last line that a stage printed."""
    log = directory / f"{name}.log"
    lines = log.read_text(errors="replace", encoding="utf-8").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def figures_of(directory: Path) -> dict[str, Any]:
    """What the stages have measured, by their names; a stage that was ended has written what it had."""
    paths = {path.name.removesuffix(".figures.json"): path for path in sorted(directory.glob("*.figures.json"))}
    for path in (directory / "bench").glob("*.json"):
        paths["bench"] = path
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items()}


def write_prediction(directory: Path, gpu: str) -> None:
    """Write what the model predicts, once. Ends the program where the kernels have been measured already."""
    path = directory / "predictions.json"
    if path.exists():
        return
    if (directory / "kernels.figures.json").exists():
        raise SystemExit(f"{directory} has measured kernels: --predict writes what is predicted before they are.")
    path.write_text(json.dumps(predictions.predicted(gpu), indent=1) + "\n", encoding="utf-8")


def prediction_of(directory: Path) -> dict[str, Any]:
    """What was predicted, if it was."""
    path = directory / "predictions.json"
    prediction: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return prediction


def write_summary(directory: Path, about: Mapping[str, Any], results: Mapping[str, Any]) -> None:
    """Everything in one file, the predictions beside the measurements."""
    figures, prediction = figures_of(directory), prediction_of(directory)
    summed = {"where": about, "stages": results, "figures": figures}
    if prediction:
        compared = predictions.compared(prediction, figures.get("kernels", {}))
        summed |= {"prediction": prediction, "compared": compared}
    (directory / "summary.json").write_text(json.dumps(summed, indent=1) + "\n", encoding="utf-8")


def earlier_results(directory: Path, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The results of the stages that have run in any run so far."""
    paths = {name: directory / f"{name}.json" for name in names}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}


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
    if prediction := prediction_of(directory):
        rows = predictions.compared(prediction, figures_of(directory).get("kernels", {}))
        lines += ["", predictions.table(prediction, rows)] if rows else []
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what has not succeeded yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path, metavar="DIR", help="results, of this run and of earlier ones")
    parser.add_argument(
        "--predict",
        nargs="?",
        const="h200",
        choices=predictions.computed_by_gpu(),
        help="first write what the model predicts, for this GPU (h200 without one)",
    )
    parser.add_argument("--commit", help="where there is no .git")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], help="stages, by name")
    parser.add_argument("--again", action="store_true", help="run stages that have succeeded, too")
    parser.add_argument("--rehearse", action="store_true", help="over the stand-in for CUDA, in small sizes")
    parser.add_argument("--budget", type=float, default=inf, metavar="SECONDS", help="for all stages together")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2), help="processes of tests")
    options = parser.parse_args(arguments)
    directory: Path = options.directory.resolve()
    (directory / "bench").mkdir(parents=True, exist_ok=True)
    results: dict[str, dict[str, Any]] = {}
    if options.predict:
        write_prediction(directory, options.predict)
    about, began = where(options.commit), time.monotonic()
    planned = stages(directory, options.workers)
    for stage in planned:
        if options.only and stage.name not in options.only:
            continue
        left = options.budget - (time.monotonic() - began)
        results[stage.name] = result_of(stage, directory, left, rehearses=options.rehearse, again=options.again)
        print(f"{stage.name}: {results[stage.name]['result']}, {results[stage.name]['seconds']} s", flush=True)
        # After every stage: a run may be cut off.
        every = results | earlier_results(directory, [one.name for one in planned])
        write_summary(directory, about, every)
    print(summary(directory, results))
    shutil.make_archive(str(directory), "gztar", directory.parent, directory.name)
    succeeded = sum(made["result"] == "succeeded" for made in results.values())
    print(f"\n{succeeded} of {len(results)} stages succeeded, at commit {about['commit']}, sources {about['sources']}")
    return int(any(made["result"].startswith(("failed", "ended")) for made in results.values()))


if __name__ == "__main__":
    sys.exit(main())
