"""Measuring a workload: results checked, calls warmed up, contenders timed in turns until the time is used up."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import ceil
from statistics import median
from typing import Any, Final

import numpy as np

import stridedgpu as sg
from stridedgpu.values.errors import StridedGpuError

from .clocks import Call, Clock, CudaClock, HostClock
from .peers.peer import CannotDoError, Peer
from .records import DEVICE_COPY, FEWEST_SAMPLES, OURS, OWN_COPY, Record, Timing
from .work import Array, Move, Work, make_work, our_call
from .workloads import Scale, Workload

__all__ = ["Bench", "check_result", "our_result"]

_ROUND_SECONDS: Final = 0.002
"""A contender's turn is at least so long, in calls repeated."""

_MOST_REPEATS: Final = 2000
_MOST_ROUNDS: Final = 41
_MOST_MEMORY: Final = 0.4
"""The share of a GPU's free memory that rotated buffers may take."""


@dataclass(frozen=True, slots=True)
class _Contender:
    """Someone to be timed: a call for each set of buffers."""

    name: str
    calls: tuple[Call, ...]
    clock: Clock
    result: str = ""


class Bench:
    """One device, the peers on it, and how long to take for a workload, in seconds."""

    def __init__(self, device: str, peers: Sequence[Peer], scale: Scale, seconds: float) -> None:
        """Make the clocks."""
        self._device = device
        self._peers = peers
        self._scale: Scale = scale
        self._seconds = seconds
        self._host = HostClock(device)
        self._gpu = None if device == "cpu" else CudaClock(int(device.partition(":")[2]), scale)

    def record(self, workload: Workload) -> Record:
        """Check everyone's result, time everyone. Raises `StridedGpuError` where our own result is wrong."""
        first = make_work(workload, self._scale, self._device)
        works = [first, *(make_work(workload, self._scale, self._device) for _ in range(self._rotation(first) - 1))]
        contenders, absent = self._contenders(works)
        timings = self._timed(contenders)
        gc.collect()
        return Record(
            workload.name,
            workload.what,
            first.kernel,
            tuple(workload.sizes[self._scale]),
            first.bytes_moved,
            workload.measures,
            timings,
            absent,
        )

    def _rotation(self, work: Work) -> int:
        """Sets of buffers, so that on a GPU none is in the cache when its turn comes again."""
        if self._gpu is None or work.workload.measures == "call":
            return 1
        cupy: Any = import_module("cupy")
        cache = int(cupy.cuda.runtime.getDeviceProperties(int(self._device.partition(":")[2]))["l2CacheSize"])
        free, _ = cupy.cuda.runtime.memGetInfo()
        wanted = 1 + ceil(2 * cache / work.bytes_moved)
        return max(1, min(wanted, int(_MOST_MEMORY * free / (2 * work.bytes_moved)), 64))

    def _contenders(self, works: Sequence[Work]) -> tuple[list[_Contender], dict[str, str]]:
        """Ourselves, the peers that can, and both copies; why the others cannot."""
        expected, first = works[0].expected(), works[0]
        ours = tuple(our_call(work) for work in works)
        result = check_result(our_result(first, ours[0]()), expected)
        if result != "equal":
            raise StridedGpuError(f"{first.workload.name}: the result is {result}: a fault in stridedgpu.")
        found = [_Contender(OURS, ours, self._clock(first, waits=False), result)]
        absent: dict[str, str] = {}
        for peer in self._peers:
            _clear(first)
            try:
                calls = tuple(peer.call(work) for work in works)
                made = calls[0]()
            except CannotDoError as reason:
                absent[peer.name] = str(reason)
                continue
            except Exception as error:  # noqa: BLE001 - whatever another library raises, the others are timed
                absent[peer.name] = f"failed: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
                continue
            sg.synchronize(self._device)
            theirs = check_result(_host(first.target) if made is None else peer.host(first, made), expected)
            if theirs.startswith("different"):
                absent[peer.name] = f"its result is {theirs}"
            else:
                found.append(_Contender(peer.name, calls, self._clock(first, waits=peer.waits), theirs))
        half = max(1, first.bytes_moved // 2)
        clock = self._clock(first, waits=False)
        sets = len(works)
        found.append(_Contender(OWN_COPY, tuple(_own_copy(half, self._device) for _ in range(sets)), clock))
        found.append(_Contender(DEVICE_COPY, tuple(_device_copy(half, self._device) for _ in range(sets)), clock))
        return found, absent

    def _clock(self, work: Work, *, waits: bool) -> Clock:
        """Events, unless a call's cost on the host is the question, or the call itself waits."""
        return self._host if self._gpu is None or waits or work.workload.measures == "call" else self._gpu

    def _timed(self, contenders: Sequence[_Contender]) -> dict[str, Timing]:
        """Medians over rounds in which each has its turn, the first one next in the following round."""
        for contender in contenders:
            for call in contender.calls * (2 if len(contender.calls) > 1 else 20):
                began = time.perf_counter()
                call()
                if time.perf_counter() - began > _ROUND_SECONDS:
                    break
        repeats = {one.name: self._repeats(one) for one in contenders}
        taken: dict[str, list[float]] = {one.name: [] for one in contenders}
        began, rounds = time.perf_counter(), 0
        while rounds < FEWEST_SAMPLES or (rounds < _MOST_ROUNDS and time.perf_counter() - began < self._seconds):
            for contender in _turns(contenders, rounds):
                taken[contender.name].append(contender.clock.seconds(contender.calls, repeats[contender.name]))
            rounds += 1
        return {
            one.name: Timing(median(samples), min(samples), rounds, one.result, tuple(samples))
            for one, samples in zip(contenders, taken.values(), strict=True)
        }

    @staticmethod
    def _repeats(contender: _Contender) -> int:
        once = contender.clock.seconds(contender.calls, len(contender.calls))
        return max(len(contender.calls), min(_MOST_REPEATS, ceil(_ROUND_SECONDS / max(once, 1e-9))))


def our_result(work: Work, made: object) -> Array:
    """What our call made, on the host: with the zeros that fill up the channels, where there are such."""
    if isinstance(work, Move) and work.workload.call == "allocating":
        assert isinstance(made, sg.StridedTensor)
        count, _, *rest = made.sizes
        return _host(made if work.channels is None else made.as_strided((count, work.channels, *rest), made.strides))
    return _host(work.target)


def check_result(result: Array, expected: Array) -> str:
    """Compare: "equal" to the bit, "close" within a rounding or two of the type, or "different" and by how much."""
    if result.shape != expected.shape or result.dtype != expected.dtype:
        return f"different: {result.dtype} {result.shape} and not {expected.dtype} {expected.shape}"
    if np.array_equal(result, expected):
        return "equal"
    if expected.dtype.kind == "f":
        step = float(np.finfo(expected.dtype).eps)
        # A fused multiply-add skips a rounding, which counts for most where a sum is near 0.
        if np.allclose(result.astype(np.float64), expected.astype(np.float64), rtol=2 * step, atol=4 * step):
            return "close"
    return f"different in {np.count_nonzero(result != expected)} of {expected.size} elements"


def _turns(contenders: Sequence[_Contender], turn: int) -> Iterator[_Contender]:
    start = turn % len(contenders)
    yield from contenders[start:]
    yield from contenders[:start]


def _host(tensor: sg.StridedTensor) -> Array:
    return tensor.numpy()


def _clear(work: Work) -> None:
    """Take away the last result, so that a peer that writes nothing is found out."""
    work.target[...] = 0


def _written(nbytes: int, device: str) -> sg.StridedTensor:
    """New bytes in pages of their own: until they are written, all pages of zeros are one, which is in every cache."""
    tensor = sg.empty((nbytes,), "uint8", device=device)
    tensor[...] = np.ones(nbytes, np.uint8)
    return tensor


def _own_copy(nbytes: int, device: str) -> Call:
    source, target = (_written(nbytes, device) for _ in range(2))
    plan = sg.plan_relayout(source, target)
    return lambda: plan(source, target)


def _device_copy(nbytes: int, device: str) -> Call:
    if device == "cpu":
        source, target = (np.ones(nbytes, np.uint8) for _ in range(2))
        return lambda: np.copyto(target, source)
    cupy: Any = import_module("cupy")
    held, into = cupy.zeros(nbytes, "uint8"), cupy.empty(nbytes, "uint8")
    copy: Callable[..., None] = into.data.copy_from_device_async
    return lambda: copy(held.data, nbytes)
