"""What was measured, as values: one record a workload and size, and all of a run with where it was run; as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from stridedgpu.preprocess.files import opened_file
from stridedgpu.values.errors import StridedGpuError

__all__ = ["DEVICE_COPY", "OURS", "OWN_COPY", "Record", "Results", "Timing", "read_results", "results_text"]

OURS: Final = "stridedgpu"
OWN_COPY: Final = "own copy"
"""The library's own copy of one packed array, as many bytes read and written as the workload moves."""
DEVICE_COPY: Final = "device copy"
"""What the machine brings: one thread's memcpy, or the driver's copy within a GPU's memory."""

_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds a call: the median of the rounds and the quickest; `result` is how the result compared, before."""

    seconds: float
    quickest: float
    rounds: int
    result: str


@dataclass(frozen=True, slots=True)
class Record:
    """One workload in one size: who took how long. `absent` says why a peer is not among them."""

    workload: str
    what: str
    kernel: str
    sizes: tuple[int, ...]
    bytes_moved: int
    measures: str
    timings: Mapping[str, Timing]
    absent: Mapping[str, str]

    @property
    def family(self) -> str:
        """The kernel's family."""
        return self.kernel.split("_")[0] if not self.kernel.startswith("packed") else "packed tile"

    @property
    def seconds(self) -> float:
        """Our median."""
        return self.timings[OURS].seconds

    @property
    def peers(self) -> dict[str, float]:
        """Medians of the peers, quickest first."""
        found = {name: timing.seconds for name, timing in self.timings.items() if name not in _NO_PEERS}
        return dict(sorted(found.items(), key=lambda item: item[1]))

    @property
    def best_peer(self) -> str | None:
        """The quickest peer, if there is one."""
        return next(iter(self.peers), None)

    @property
    def ratio(self) -> float | None:
        """How many times as fast as the best peer."""
        best = self.best_peer
        return None if best is None else self.peers[best] / self.seconds

    def share(self, copy: str, name: str = OURS) -> float:
        """The speed of `name` as a share of a copy's."""
        return self.timings[copy].seconds / self.timings[name].seconds

    def gigabytes_per_second(self, name: str = OURS) -> float:
        """Bytes that must move, read and written, by the time taken."""
        return self.bytes_moved / self.timings[name].seconds / 1e9


_NO_PEERS: Final = frozenset((OURS, OWN_COPY, DEVICE_COPY))


@dataclass(frozen=True, slots=True)
class Results:
    """A run: where and with what (`provenance`), the workloads, and those over sizes."""

    provenance: Mapping[str, Any]
    workloads: tuple[Record, ...]
    curves: tuple[Record, ...]


def results_text(results: Results) -> str:
    """The results as JSON."""
    return json.dumps({"format": _FORMAT, **_rounded(asdict(results))}, indent=1) + "\n"


def read_results(path: Path) -> Results:
    """The results in a JSON file. Raises `StridedGpuError` for a file that holds none."""
    try:
        with opened_file(path, "results") as file:
            held = json.load(file)
        if held["format"] != _FORMAT:
            raise StridedGpuError(f"{str(path)!r} has format {held['format']!r} of results; {_FORMAT} is read.")
        return Results(held["provenance"], *(tuple(map(_record, held[name])) for name in ("workloads", "curves")))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise StridedGpuError(f"{str(path)!r} holds no benchmark results: {error}.") from error


def _record(held: dict[str, Any]) -> Record:
    timings = {name: Timing(**timing) for name, timing in held.pop("timings").items()}
    return Record(**held | {"sizes": tuple(held["sizes"]), "timings": timings})


def _rounded(value: Any) -> Any:
    """Seconds to four figures: more are noise."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: _rounded(entry) for key, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, (list, tuple)) else value
