"""What was measured, as values: one record a workload and size, and all of a run with where it was run; as JSON.

Samples are kept, and two contenders are compared by the intervals in which their medians lie.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import comb
from pathlib import Path
from typing import Any, Final

from stridedgpu.preprocess.files import opened_file
from stridedgpu.values.errors import StridedGpuError

__all__ = [
    "DEVICE_COPY",
    "FEWEST_SAMPLES",
    "OURS",
    "OWN_COPY",
    "UNDECIDED",
    "Record",
    "Results",
    "Timing",
    "median_interval",
    "read_results",
    "results_text",
    "verdict",
]

OURS: Final = "stridedgpu"
OWN_COPY: Final = "own copy"
"""The library's own copy of one packed array, as many bytes read and written as the workload moves."""
DEVICE_COPY: Final = "device copy"
"""What the machine brings: one thread's memcpy, or the driver's copy within a GPU's memory."""

UNDECIDED: Final = "undecided"
"""The verdict where two intervals overlap."""

FEWEST_SAMPLES: Final = 6
"""With fewer, no two of them enclose the median with 95 %: all six do with 1 - 2 / 2**6."""

_CONFIDENCE: Final = 0.95
_FORMAT: Final = 1


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """The narrowest pair of order statistics that encloses the median with a probability of at least 95 %.

    Of n independent samples of any distribution, the k-th smallest and the k-th largest miss the median with the
    probability that fewer than k of n tosses of a coin are heads, twice (David and Nagaraja, Order Statistics, 7.1).
    Nine samples leave out one at either end. Raises `ValueError` for fewer than six.
    """
    count = len(samples)
    if count < FEWEST_SAMPLES:
        raise ValueError(f"{count} samples have no interval of the median; {FEWEST_SAMPLES} are needed.")
    missed, left_out = 2 / 2**count, 0
    while missed + 2 * comb(count, left_out + 1) / 2**count <= 1 - _CONFIDENCE:
        left_out += 1
        missed += 2 * comb(count, left_out) / 2**count
    ordered = sorted(samples)
    return ordered[left_out], ordered[-1 - left_out]


def verdict(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """From the times of two: "faster", "slower", or "undecided" where the intervals of their medians overlap."""
    low, high = median_interval(ours)
    others_low, others_high = median_interval(theirs)
    return "faster" if high < others_low else "slower" if others_high < low else UNDECIDED


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds a call: the median of the rounds and the quickest; `result` is how the result compared, before.

    `samples` are the seconds of each round; results of before they were kept have none.
    """

    seconds: float
    quickest: float
    rounds: int
    result: str
    samples: tuple[float, ...] = ()


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

    @property
    def verdict(self) -> str | None:
        """Whether the library is faster or slower than the best peer, or undecided; by medians without samples."""
        best = self.best_peer
        if best is None:
            return None
        ours, theirs = self.timings[OURS], self.timings[best]
        if ours.samples and theirs.samples:
            return verdict(ours.samples, theirs.samples)
        return "faster" if ours.seconds < theirs.seconds else "slower"

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
    timings = {
        name: Timing(**timing | {"samples": tuple(timing.get("samples", ()))})
        for name, timing in held.pop("timings").items()
    }
    return Record(**held | {"sizes": tuple(held["sizes"]), "timings": timings})


def _rounded(value: Any) -> Any:
    """Seconds to four figures: more are noise."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: _rounded(entry) for key, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, (list, tuple)) else value
