"""Gathers and crops on the CPU beside NumPy, PyTorch and a memory copy.

    python benchmarks/bench_cpu_gather.py              a table of ratios: peers take turns, medians of 15 rounds
    python benchmarks/bench_cpu_gather.py rows crops   these groups alone
    pytest benchmarks --benchmark-only                 the same cases through pytest-benchmark
    pytest benchmarks --benchmark-disable              once each in small sizes, as tests

Every peer has THREADS threads, except NumPy and the memory copy, which have one; results are compared before anything
is timed. `memcpy` copies as many bytes as the case must move. All write into memory that exists, but for NumPy's
`take_along_axis` and indexing, which have no such way. `numpy` is `take` in the mode that checks no index, which is its
fastest; the library and PyTorch look at every index before they move anything.

On a machine with other work the medians punish whoever uses more than one thread, since a call ends with the thread
that was kept waiting longest: the last lines therefore give the ratios of the best rounds too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
import pytest
from turns import Report

import stridedgpu as sg

try:
    import torch
except ImportError:
    torch = None

THREADS = 2
PEERS = ("numpy", "torch", "embedding", "memcpy")
MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)


@dataclass(frozen=True)
class Case:
    """What is picked: sizes of the data, and of the indices along `axis`; of crops how many, and their side."""

    goal: str
    sizes: tuple[int, ...]
    picks: tuple[int, ...]
    dtype: str
    index_type: str = "int64"
    axis: int = 0
    pitched: bool = False

    def __str__(self):
        sizes, picks = ("x".join(map(str, given)) for given in (self.sizes, self.picks))
        more = " padded" if self.pitched else ""
        return f"{self.goal} {picks} of {sizes} {self.dtype}{more} {self.index_type} axis {self.axis}"

    def small(self):
        """The same with few elements."""
        sizes, picks = (tuple(min(size, 40) for size in given) for given in (self.sizes, self.picks))
        return Case(self.goal, sizes, picks, *list(self.__dict__.values())[3:])


def cases():
    for index_type in ("int32", "int64"):
        for rows, width in ((1 << 18, 16), (1 << 16, 64), (1 << 17, 128), (1 << 14, 1024)):
            yield Case("rows", (rows, width), (rows,), "float32", index_type)
    yield Case("rows", (1 << 12, 16), (1 << 18,), "float32")
    yield Case("rows", (1 << 16, 75), (1 << 16,), "uint8", pitched=True)
    yield Case("rows", (1 << 15, 128), (1 << 15,), "float32", pitched=True)
    for dtype in ("uint8", "float32", "float64"):
        yield Case("elements", (2000, 2000), (2000, 2000), dtype, axis=1)
    yield Case("elements", (2000, 2000), (1000, 2000), "float32", axis=0)
    yield Case("elements", (100_000, 50), (100_000, 3), "float32", axis=1)
    yield Case("columns", (2000, 2000), (2000,), "float32", axis=1)
    yield Case("columns", (100_000, 50), (20,), "uint8", axis=1)
    yield Case("tuples", (2000, 2000), (1 << 20,), "float32")
    for dtype in ("float16", "float32", "uint8"):
        yield Case("crops", (16, 1080, 1920, 3), (256, 224), dtype)
    yield Case("small", (5000, 16), (1000,), "float32")


def peers_of(case):
    """What to time by name, each a call without arguments, after a look at what they make; and the bytes to move."""
    sg.set_num_threads(THREADS)
    if torch is not None:
        torch.set_num_threads(THREADS)
    made = crop_peers(case) if case.goal == "crops" else picking_peers(case)
    expected = made.calls["numpy"]()
    for name, call in made.calls.items():
        assert np.array_equal(np.asarray(call()), expected), f"{case}: {name}"
    copied = np.ones(made.bytes_moved // 2, np.uint8)
    into = np.zeros_like(copied)
    return made.calls | {"memcpy": lambda: np.copyto(into, copied)}, made.bytes_moved


@dataclass(frozen=True)
class Peers:
    """Calls that return their result as an array, and what each must read and write."""

    calls: dict[str, Callable[[], object]]
    bytes_moved: int


def picking_peers(case):
    rng = np.random.default_rng(0)
    *outer, width = case.sizes
    data = rng.integers(0, 256, (*outer, width + 5 * case.pitched), np.uint8).astype(case.dtype)[..., :width]
    tuples = case.goal == "tuples"
    if tuples:
        indices = np.stack([rng.integers(0, size, case.picks) for size in case.sizes], -1).astype(case.index_type)
    else:
        indices = rng.integers(0, case.sizes[case.axis], case.picks).astype(case.index_type)
    if case.goal == "rows" and case.picks[0] == case.sizes[0]:
        indices = rng.permutation(case.sizes[0]).astype(case.index_type)
    if tuples or case.goal == "elements":
        sizes = case.picks
    else:
        sizes = (*case.sizes[: case.axis], *case.picks, *case.sizes[case.axis + 1 :])
    source, index, out = sg.asarray(data), sg.asarray(indices), sg.empty(sizes, case.dtype, device="cpu")
    mine = np.empty(sizes, case.dtype)
    if tuples:
        calls = {
            "stridedgpu": lambda: sg.gather_nd(source, index, out=out),
            "numpy": lambda: data[indices[:, 0], indices[:, 1]],
        }
    elif case.goal == "elements":
        calls = {
            "stridedgpu": lambda: sg.gather_elements(source, index, case.axis, out=out),
            "numpy": lambda: np.take_along_axis(data, indices, case.axis),
        }
    else:
        calls = {
            "stridedgpu": lambda: sg.gather(source, index, case.axis, out=out),
            "numpy": lambda: np.take(data, indices, case.axis, out=mine, mode="clip"),
        }
    if torch is not None:
        calls |= torch_calls(
            case, torch.from_numpy(data), indices, torch.empty(sizes, dtype=getattr(torch, case.dtype))
        )
    itemsize = np.dtype(case.dtype).itemsize
    return Peers(calls, 2 * prod(sizes) * itemsize + indices.nbytes)


def torch_calls(case, data, indices, out):
    index = torch.from_numpy(indices)
    if case.goal == "tuples":
        return {"torch": lambda: data[index[:, 0], index[:, 1]]}
    if case.goal == "elements":
        wide = index.long()
        return {"torch": lambda: torch.gather(data, case.axis, wide, out=out)}
    calls = {"torch": lambda: torch.index_select(data, case.axis, index, out=out)}
    if case.goal == "rows" and case.dtype == "float32":
        calls["embedding"] = lambda: torch.nn.functional.embedding(index, data)
    return calls


def crop_peers(case):
    """Windows of frames, every other one mirrored; normalised where the result is a float, else only moved."""
    rng = np.random.default_rng(0)
    (count, side), (_, height, width, _) = case.picks, case.sizes
    frames = rng.integers(0, 256, case.sizes, np.uint8)
    origins = np.stack([rng.integers(0, limit - side + 1, count) for limit in (height, width)], 1)
    flips, places = np.arange(count) % 2 == 1, range(count)
    normalised = case.dtype != "uint8"
    options = {"scale": (1 / (255 * STD)).tolist(), "bias": (-MEAN / STD).tolist()} if normalised else {}
    factors, terms = (
        (np.array(options[name], np.float32)[:, None, None] for name in ("scale", "bias"))
        if options
        else (
            None,
            None,
        )
    )
    sizes = (count, 3, side, side)
    tensor, mine = sg.asarray(frames, dims="NHWC"), np.empty(sizes, case.dtype)
    images, out = [tensor[n % len(frames)] for n in places], sg.empty(sizes, case.dtype, device="cpu")

    def by_numpy():
        for n, (y, x) in enumerate(origins):
            window = frames[n % len(frames), y : y + side, x : x + side].transpose(2, 0, 1)[
                :, :, :: -1 if flips[n] else 1
            ]
            mine[n] = window * factors + terms if normalised else window
        return mine

    calls = {
        "stridedgpu": lambda: sg.gather_crops(images, origins, (side, side), flip=flips, out=out, **options),
        "numpy": by_numpy,
    }
    if torch is not None:
        theirs, whole = (
            torch.empty(sizes, dtype=getattr(torch, case.dtype)),
            torch.from_numpy(frames).permute(0, 3, 1, 2),
        )
        scale, bias = (None, None) if not normalised else (torch.from_numpy(factors), torch.from_numpy(terms))

        def by_torch():
            for n, (y, x) in enumerate(origins.tolist()):
                window = whole[n % len(frames), :, y : y + side, x : x + side]
                window = window.flip(2) if flips[n] else window
                theirs[n] = window.float().mul_(scale).add_(bias) if normalised else window
            return theirs

        calls["torch"] = by_torch
    return Peers(calls, prod(sizes) * (1 + np.dtype(case.dtype).itemsize))


@pytest.mark.parametrize("peer", ["stridedgpu", *PEERS])
@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_gather(benchmark, case, peer):
    calls, _ = peers_of(case.small() if benchmark.disabled else case)
    if peer not in calls:
        pytest.skip(f"{peer} is not installed, or has no such operation")
    benchmark.group = str(case)
    benchmark(calls[peer])


def main(wanted):
    report = Report(PEERS)
    for case in cases():
        if not wanted or case.goal in wanted:
            calls, bytes_moved = peers_of(case)
            report.add(case, calls, bytes_moved, case.goal)
    report.close()


if __name__ == "__main__":
    main(sys.argv[1:])
