"""Where and with what results came about: device, driver, versions, commit and date; no names of hosts or folders."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import stridedgpu as sg
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.target import VARIABLE

from .peers.peer import Peer

__all__ = ["printed_by", "provenance_of"]


def provenance_of(device: str, peers: Iterable[Peer], scale: str) -> dict[str, Any]:
    """Everything about a run but its figures."""
    return {
        "device": _processor() if device == "cpu" else _gpu(device),
        "scale": scale,
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {
            "stridedgpu": sg.__version__,
            "python": platform.python_version(),
            **{peer.name: peer.version for peer in peers},
        },
        "commit": _commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def _processor() -> dict[str, Any]:
    """The processor, and what of it this process may use."""
    level = os.environ.get(VARIABLE, "native")
    return {
        "name": _model() if level == "native" else f"{_model()} as {level}",
        "kind": "cpu",
        "threads": sg.get_num_threads(),
        "loops": "NumPy's" if policy().native_level is None else "native",
        "load_average": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
    }


def _model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _gpu(device: str) -> dict[str, Any]:
    """The GPU as `stridedgpu.devices()` has it, with the driver."""
    import cupy

    found = next(entry for entry in sg.devices() if entry.name == device)
    runtime = cupy.cuda.runtime
    return {
        "name": found.description,
        "kind": "cuda",
        "driver": printed_by("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").partition("\n")[0],
        "cuda_of_driver": runtime.driverGetVersion(),
        "cuda_runtime": runtime.runtimeGetVersion(),
    }


def _commit() -> str | None:
    """The commit of the checkout that this package lies in, if it does; "+" where its code was changed since."""
    package = Path(sg.__file__).parent
    if not (package.parent / ".git").exists():
        return None
    commit = printed_by("git", "-C", str(package.parent), "rev-parse", "--short=12", "HEAD")
    changed = printed_by("git", "-C", str(package.parent), "status", "--porcelain", "--", "stridedgpu", "kernels")
    return f"{commit}+" if commit and changed else commit or None


def printed_by(*command: str) -> str:
    """What a program printed, or nothing where it cannot be run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
