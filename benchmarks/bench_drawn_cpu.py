"""Cases drawn by a seed, not listed, beside NumPy, PyTorch, OpenCV, Numba, JAX: how often is a peer quicker?

    python benchmarks/bench_drawn_cpu.py                     300 cases of seed 0, about ten minutes on two cores
    python benchmarks/bench_drawn_cpu.py --cases 40 --seed 7
    python benchmarks/bench_drawn_cpu.py --one-core          every library with one thread
    pytest benchmarks/bench_drawn_cpu.py                     some cases once each, as a test

Nobody can tune to what is drawn: the layouts, casts and gathers that users have, in sizes from 8 KB to 48 MB that are
as likely in each decade. The library's calls are planned before, and only run here. All contenders read the same memory
and write into the same, so that none has better pages, except JAX, which has no strides (it gets a packed copy) and
allocates. Indices are as long for all: JAX is told to take 64-bit numbers. Half of the gathers check their indices
before they write, beside peers that check them; the other half clip them, beside all peers. They take turns; compared
are the quickest rounds, which other work on the machine disturbs least, and the medians beside them. After a peer whose
threads spin there is a pause, so that nobody runs beside them. NumPy's copy of as many bytes takes its turns, too: the
share of memcpy. Every result of the library must have NumPy's bits. Images are scaled by albucore, too, where it is
installed.
"""

from __future__ import annotations

import argparse
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, log, prod
from statistics import median
from time import perf_counter_ns, sleep
from typing import Any

import numba_loops
import numpy as np
import pytest

import stridedgpu as sg

try:
    import torch
except ImportError:
    torch = None
try:
    import cv2
except ImportError:
    cv2 = None
try:
    import jax
except ImportError:
    jax = None
else:
    jax.config.update("jax_enable_x64", True)  # noqa: FBT003 - it would make 64-bit numbers 32-bit ones
try:
    import albucore
except ImportError:
    albucore = None

LEAST_BYTES, MOST_BYTES = 8e3, 48e6
ROUNDS, TURN_NS = 7, 3_000_000
PAUSE_SECONDS = 0.006
"""As long as threads of OpenMP spin after their work."""

MEMCPY = "memcpy"

Call = Callable[[], Any]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A drawn case: its family, its text, bytes that must move, and how its contenders are made."""

    family: str
    text: str
    nbytes: int
    make: Callable[[], dict[str, Call]]


Maker = Callable[[random.Random], Case]
"""A family: a case by chance."""


def draw(seed: int, count: int, families: Sequence[tuple[Maker, int]] | None = None) -> Iterator[Case]:
    """So many cases of families with weights, by default this file's; the same for the same seed."""
    chance = random.Random(seed)
    chosen = families or [
        (orders, 6), (matrices, 3), (attention, 2), (patches, 2), (windows, 3), (flips, 2), (steps, 2), (casts, 6),
        (images, 3), (rows, 4), (elements, 3),
    ]  # fmt: skip
    makers, weights = zip(*chosen, strict=True)
    for _ in range(count):
        (maker,) = chance.choices(makers, weights)
        yield maker(chance)


def size_of(chance: random.Random) -> float:
    """Bytes of a source, as likely in each decade."""
    return exp(chance.uniform(log(LEAST_BYTES), log(MOST_BYTES)))


def batch_for(chance: random.Random, nbytes: float, each: int) -> int:
    """How many of so many bytes come near a size."""
    return max(1, round(nbytes / each * chance.uniform(0.8, 1.2)))


def moved(family: str, sizes: tuple[int, ...], dtype: str, turn: Callable[[Any], Any], note: str) -> Case:
    """A case that copies a view of a packed array into packed memory; `turn` makes the view of array or tensor."""
    nbytes = 2 * prod(turn(np.broadcast_to(np.zeros(1, np.uint8), sizes)).shape) * np.dtype(dtype).itemsize

    def make() -> dict[str, Call]:
        source = random_array(sizes, dtype)
        return movers(source, turn)

    return Case(family, f"{note} {dtype} {'x'.join(map(str, sizes))}", nbytes, make)


def movers(
    source: Array,
    turn: Callable[[Any], Any],
    dtype: str | None = None,
    beside: Callable[[Array], dict[str, Call]] = lambda out: {},  # noqa: ARG005
) -> dict[str, Call]:
    """Contenders that copy a view of an array into packed memory, of another type if one is named.

    `beside` makes more of them, which write into the memory that it gets.
    """
    view = turn(source)
    wanted = dtype or source.dtype.name
    out = sg.empty(view.shape, wanted)
    mine = out.numpy()
    tensor = sg.asarray(view)
    plan = sg.plan_relayout(tensor, out)
    calls: dict[str, Call] = {"stridedgpu": lambda: plan(tensor, out)}
    if dtype is None or not (np.dtype(wanted).kind in "ui" and view.dtype.kind == "f"):
        calls["numpy"] = lambda: np.copyto(mine, view, casting="unsafe")
    else:
        limits, compute = np.iinfo(wanted), np.promote_types(view.dtype, np.float32)

        def rounded() -> None:
            np.copyto(mine, np.clip(np.rint(view, dtype=compute), limits.min, limits.max), casting="unsafe")

        calls["numpy"] = rounded
    check(calls, mine)
    calls |= beside(mine)
    if torch is not None and all(step > 0 for step in view.strides):
        given, made = torch.from_numpy(source), torch.from_numpy(mine)
        seen = torch.as_strided(
            given, view.shape, [step // view.itemsize for step in view.strides], storage_offset(view, source)
        )
        calls["torch"] = lambda: made.copy_(seen)
    elif torch is not None:
        axes = [axis for axis, step in enumerate(view.strides) if step < 0]
        given, made = torch.from_numpy(np.flip(view, axes)), torch.from_numpy(mine)
        if given.is_contiguous():
            calls["torch"] = lambda: torch.flip(given, axes)
        else:  # its result would be ordered as the source is
            calls["torch"] = lambda: made.copy_(torch.flip(given, axes))
    if numba_loops.understands(view, mine):
        calls["numba"] = lambda: numba_loops.copied(view, mine)
    if jax is not None:
        device = jax.device_put(source)
        jitted = jax.jit(lambda array: turn(array).astype(wanted))
        calls["jax"] = lambda: jitted(device).block_until_ready()
    return calls


def check(calls: dict[str, Call], result: Array) -> None:
    """Raise unless the library and NumPy write the same bits."""
    bits = []
    for name in ("stridedgpu", "numpy"):
        result.view(np.uint8)[...] = 0xA5
        calls[name]()
        bits.append(result.view(np.uint8).copy())
    assert np.array_equal(*bits), "the bits are NumPy's"


def storage_offset(view: Array, source: Array) -> int:
    """Elements from a source's first to a view's."""
    return (view.__array_interface__["data"][0] - source.__array_interface__["data"][0]) // view.itemsize


def random_array(sizes: tuple[int, ...], dtype: str) -> Array:
    """Numbers that every type holds."""
    rng = np.random.default_rng(0)
    if dtype == "bool":
        return rng.integers(0, 2, sizes, np.uint8).astype(bool)
    if np.dtype(dtype).kind == "f":
        return (rng.integers(0, 2000, sizes, np.int16) / np.float32(16)).astype(dtype)
    return rng.integers(0, 100, sizes, np.uint8).astype(dtype)


def orders(chance: random.Random) -> Case:
    """Images and feature maps between NHWC and NCHW."""
    dtype = chance.choice(("uint8", "uint8", "float16", "float32", "float32"))
    channels = chance.choice((1, 2, 3, 3, 3, 4, 9, 13, 16, 32, 64, 128, 256, 512, 768, 17, 100))
    height, width = chance.choice(
        (
            (7, 7),
            (14, 14),
            (28, 28),
            (32, 32),
            (56, 56),
            (112, 112),
            (224, 224),
            (480, 640),
            (375, 500),
            (197, 1),
            (33, 35),
            (299, 299),
        )
    )
    each = channels * height * width * np.dtype(dtype).itemsize
    batch = batch_for(chance, size_of(chance), each)
    if chance.random() < 0.5:
        return moved("orders", (batch, height, width, channels), dtype, lambda x: x.transpose(0, 3, 1, 2), "NHWC>NCHW")
    return moved("orders", (batch, channels, height, width), dtype, lambda x: x.transpose(0, 2, 3, 1), "NCHW>NHWC")


def matrices(chance: random.Random) -> Case:
    """Matrices transposed, of any size."""
    dtype = chance.choice(("uint8", "float16", "float32", "float32", "float64"))
    count = size_of(chance) / np.dtype(dtype).itemsize
    height = max(2, round(count**0.5 * exp(chance.uniform(-2, 2))))
    width = max(2, round(count / height))
    if chance.random() < 0.5:
        height, width = (max(16, size // 16 * 16) for size in (height, width))
    case = moved("matrices", (height, width), dtype, lambda x: x.T, "transpose")
    if cv2 is None or dtype == "float16":
        return case

    def make() -> dict[str, Call]:
        source = random_array((height, width), dtype)
        return movers(source, lambda x: x.T, beside=lambda out: {"cv2": lambda: cv2.transpose(source, out)})

    return Case(case.family, case.text, case.nbytes, make)


def attention(chance: random.Random) -> Case:
    """Heads before the sequence, and behind it."""
    dtype, heads, width = (
        chance.choice(("float16", "float32")),
        chance.choice((8, 12, 16, 32)),
        chance.choice((32, 64, 80, 128)),
    )
    length = chance.choice((1, 64, 128, 197, 512, 1024))
    batch = batch_for(chance, size_of(chance), heads * width * length * np.dtype(dtype).itemsize)
    return moved(
        "rows of layouts", (batch, length, heads, width), dtype, lambda x: x.transpose(0, 2, 1, 3), "BSHD>BHSD"
    )


def patches(chance: random.Random) -> Case:
    """Patches out of planes or pixels, and back."""
    dtype, side = chance.choice(("uint8", "float16", "float32")), chance.choice((2, 2, 4, 7, 8, 14, 16))
    channels, grid = chance.choice((3, 3, 4, 16, 64)), chance.choice((8, 14, 16, 32))
    batch = batch_for(chance, size_of(chance), channels * (grid * side) ** 2 * np.dtype(dtype).itemsize)
    if chance.random() < 0.5:
        sizes = (batch, channels, grid, side, grid, side)
        return moved("patches", sizes, dtype, lambda x: x.transpose(0, 2, 4, 3, 5, 1), "NCHW>patches")
    sizes = (batch, grid, side, grid, side, channels)
    return moved("patches", sizes, dtype, lambda x: x.transpose(0, 1, 3, 2, 4, 5), "NHWC>patches")


def windows(chance: random.Random) -> Case:
    """A window of a larger picture: rows with a pitch."""
    dtype, channels = chance.choice(("uint8", "float16", "float32")), chance.choice((1, 3, 4))
    rows = max(4, round((size_of(chance) / np.dtype(dtype).itemsize / channels) ** 0.5))
    width, more = max(4, round(rows * exp(chance.uniform(-0.7, 0.7)))), chance.choice((1, 13, 64, 500))
    sizes = (rows + 3, width + more, channels)
    return moved(
        "rows of layouts",
        sizes,
        dtype,
        lambda x: x[2 : 2 + rows, more // 2 : more // 2 + width],
        f"window {rows}x{width} of",
    )


def flips(chance: random.Random) -> Case:
    """Channels or columns the other way."""
    dtype, channels = chance.choice(("uint8", "uint8", "float32")), chance.choice((1, 3, 4))
    rows = max(4, round((size_of(chance) / np.dtype(dtype).itemsize / channels) ** 0.5))
    sizes = (rows, rows, channels)
    if chance.random() < 0.4 and channels > 1:
        return moved("flips", sizes, dtype, lambda x: x[..., ::-1], "BGR>RGB")
    return moved("flips", sizes, dtype, lambda x: x[:, ::-1], "mirrored")


def steps(chance: random.Random) -> Case:
    """Every so-manieth row and column."""
    dtype, step = chance.choice(("uint8", "float16", "float32")), chance.choice((2, 2, 3, 4, 5, 10))
    side = max(32, round((size_of(chance) / np.dtype(dtype).itemsize) ** 0.5))
    return moved("steps", (side, side), dtype, lambda x: x[::step, ::step], f"every {step}")


def casts(chance: random.Random) -> Case:
    """From one type to another, as they lie."""
    names = ("bool", "uint8", "int16", "int32", "int64", "float16", "float32", "float32", "float64")
    source, target = chance.sample(names, 2)
    if source == target:
        source, target = "uint8", "float32"
    sizes = (max(64, round(size_of(chance) / np.dtype(source).itemsize)),)
    nbytes = sizes[0] * (np.dtype(source).itemsize + np.dtype(target).itemsize)
    return Case(
        "casts",
        f"{source}>{target} {sizes[0]}",
        nbytes,
        lambda: movers(random_array(sizes, source), lambda x: x, target),
    )


def images(chance: random.Random) -> Case:
    """Photographs as a network wants them: planes of floats."""
    target, (height, width) = (
        chance.choice(("float16", "float32")),
        chance.choice(((32, 32), (224, 224), (299, 299), (480, 640))),
    )
    batch = batch_for(chance, size_of(chance), 3 * height * width)
    sizes, scale = (batch, height, width, 3), 1 / 255

    def make() -> dict[str, Call]:
        frames = random_array(sizes, "uint8")
        tensor = sg.asarray(frames, dims="NHWC")
        out = sg.empty((batch, 3, height, width), target)
        plan = sg.plan_relayout(tensor, out, scale=scale)
        planes, factor = frames.transpose(0, 3, 1, 2), np.float32(scale)
        mine = out.numpy()
        calls: dict[str, Call] = {
            "stridedgpu": lambda: plan(tensor, out),
            "numpy": lambda: np.multiply(planes, factor, out=mine, casting="unsafe", dtype=np.float32),
        }
        check(calls, mine)
        if numba_loops.understands(mine):
            calls["numba"] = lambda: numba_loops.scaled(planes, factor, mine)
        if torch is not None:
            given, made = torch.from_numpy(frames).permute(0, 3, 1, 2), torch.from_numpy(mine)
            calls["torch"] = lambda: torch.mul(given, float(factor), out=made)
        if albucore is not None:
            calls["albucore"] = lambda: np.copyto(mine, albucore.to_float(frames).transpose(0, 3, 1, 2))
        if cv2 is not None and target == "float32" and batch <= 64:
            calls["cv2"] = lambda: cv2.dnn.blobFromImages(list(frames), scale)
        if jax is not None:
            device = jax.device_put(frames)
            jitted = jax.jit(lambda x: (x.transpose(0, 3, 1, 2).astype("float32") * factor).astype(target))
            calls["jax"] = lambda: jitted(device).block_until_ready()
        return calls

    nbytes = prod(sizes) * (1 + np.dtype(target).itemsize)
    return Case("images", f"HWC uint8>{target} CHW {'x'.join(map(str, sizes))}", nbytes, make)


def rows(chance: random.Random) -> Case:
    """Rows of a table by number: embeddings, look-ups."""
    width, count = chance.choice((1, 4, 16, 64, 256, 768, 1024)), chance.choice((1000, 10_000, 50_000))
    dtype, index = chance.choice(("uint8", "float16", "float32")), chance.choice(("int32", "int64"))
    itemsize = np.dtype(dtype).itemsize
    picks = batch_for(chance, size_of(chance), width * itemsize)
    return gathered(
        "rows by index", (min(count, int(64e6) // (width * itemsize)), width), (picks,), dtype, index, rows=True
    )


def elements(chance: random.Random) -> Case:
    """Elements by number, along an axis."""
    width, dtype = chance.choice((10, 100, 1000)), chance.choice(("uint8", "float32", "int64"))
    height = batch_for(chance, size_of(chance), width * np.dtype(dtype).itemsize)
    return gathered(
        "elements by index", (height, width), (height, width), dtype, chance.choice(("int32", "int64")), rows=False
    )


def gathered(
    family: str, table: tuple[int, int], picks: tuple[int, ...], dtype: str, index: str, *, rows: bool
) -> Case:
    """Rows of a table (`rows`), or one element of each row for each index along the last axis."""
    axis, text = (0 if rows else 1), f"{dtype} {table} {index} {picks}"
    checked = random.Random(text).random() < 0.5
    mode = "raise" if checked else "clip"

    def make() -> dict[str, Call]:
        data = random_array(table, dtype)
        numbers = np.random.default_rng(1).integers(0, table[axis], picks).astype(index)
        shape = (*picks, table[1]) if rows else picks
        tensor, indices, out = sg.asarray(data), sg.asarray(numbers), sg.empty(shape, dtype)
        mine = out.numpy()
        planned = sg.plan_gather if rows else sg.plan_gather_elements
        plan = planned(tensor, indices, axis, mode=mode, out=out)
        calls: dict[str, Call] = {"stridedgpu": lambda: plan(tensor, indices, out)}
        if rows:
            calls["numpy"] = lambda: np.take(data, numbers, 0, out=mine, mode=mode)
        else:
            calls["numpy"] = lambda: np.copyto(mine, np.take_along_axis(data, numbers, 1))
        check(calls, mine)
        if torch is not None:
            given, made, chosen = torch.from_numpy(data), torch.from_numpy(mine), torch.from_numpy(numbers)
            if rows:
                calls["torch"] = lambda: torch.index_select(given, 0, chosen, out=made)
            elif index == "int64":
                calls["torch"] = lambda: torch.gather(given, 1, chosen, out=made)
        if numba_loops.understands(data):
            loops = numba_loops
            checks = loops.checked_rows if rows else loops.checked_elements
            gathers = checks if checked else loops.rows if rows else loops.elements
            calls["numba"] = lambda: gathers(data, numbers, mine)
        if jax is not None and not checked:
            device, along = jax.device_put(data), jax.device_put(numbers)
            jitted = jax.jit(lambda x, i: x[i] if rows else jax.numpy.take_along_axis(x, i, 1))
            calls["jax"] = lambda: jitted(device, along).block_until_ready()
        return calls

    moved_bytes = prod(picks) * ((table[1] if rows else 1) * 2 * np.dtype(dtype).itemsize + np.dtype(index).itemsize)
    return Case(family, f"{text} {mode}", moved_bytes, make)


def measured(calls: dict[str, Call], rounds: int = ROUNDS) -> dict[str, tuple[float, float]]:
    """Each contender's quickest and median seconds, taken in turns."""
    repeats, taken = {}, {name: [] for name in calls}
    for name, call in calls.items():
        for _ in range(20 if name == "stridedgpu" else 2):
            call()
        for thread in threading.enumerate():
            if thread.name == "stridedgpu-compiler":
                thread.join()  # of a checkout before the native library: NumPy does the work meanwhile
        # The quickest of some calls: the first may start threads.
        repeats[name] = max(1, min(200, TURN_NS // min(_nanoseconds(call) for _ in range(5))))
        sleep(PAUSE_SECONDS)
    order, chance = list(calls.items()), random.Random(0)
    for _ in range(rounds):
        chance.shuffle(order)
        for name, call in order:
            for _ in range(repeats[name]):
                start = perf_counter_ns()
                call()
                taken[name].append((perf_counter_ns() - start) / 1e9)
            if name not in ("numpy", MEMCPY):
                sleep(PAUSE_SECONDS)
    return {name: (min(times), median(times)) for name, times in taken.items()}


def _nanoseconds(call: Call) -> int:
    """The time of one call."""
    start = perf_counter_ns()
    call()
    return max(1, perf_counter_ns() - start)


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, ratios)) / len(ratios))


def memcpy(nbytes: int) -> Call:
    """NumPy's copy that moves so many bytes, read and written."""
    source = np.ones(max(1, nbytes // 2), np.uint8)
    target = np.empty_like(source)
    return lambda: np.copyto(target, source)


def use_one_core() -> None:
    """One thread of every library, on one core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    sg.set_num_threads(1)
    if torch is not None:
        torch.set_num_threads(1)
    if cv2 is not None:
        cv2.setNumThreads(1)


def main(title: str, families: Sequence[tuple[Maker, int]] | None = None) -> None:
    """Draw, measure, and print a line for each case, then the shares."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--one-core", action="store_true", help="one thread of every library")
    options = parser.parse_args()
    if options.one_core:
        use_one_core()
    found: dict[str, list[tuple[float, float, float, str]]] = {}
    losses: dict[str, int] = {}
    for number, case in enumerate(draw(options.seed, options.cases, families)):
        taken = measured(case.make() | {MEMCPY: memcpy(case.nbytes)}, options.rounds)
        own, copied, peers = taken.pop("stridedgpu"), taken.pop(MEMCPY), taken
        best = min(peers, key=lambda name: peers[name][0])
        ratio, of_medians = peers[best][0] / own[0], min(times[1] for times in peers.values()) / own[1]
        losses[best] = losses.get(best, 0) + (ratio < 1)
        found.setdefault(case.family, []).append((ratio, of_medians, copied[0] / own[0], case.text))
        line = f"{number:4} {case.family:18} {case.text:60} {own[0] * 1e6:10.1f} us"
        print(f"{line} {ratio:6.2f} of {best:6} {of_medians:6.2f}, memcpy {copied[0] / own[0]:5.2f}", flush=True)
    print(
        f"\n{'family':18} {'cases':>5} {'mean':>6} {'of medians':>10} {'memcpy':>6} {'behind':>7} {'< 0.8':>6}  worst"
    )
    for family, results in [*sorted(found.items()), ("all", [entry for part in found.values() for entry in part])]:
        ratios = [ratio for ratio, *_ in results]
        worst, medians = min(results), [of_medians for _, of_medians, *_ in results]
        behind, far = (sum(ratio < limit for ratio in ratios) for limit in (1, 0.8))
        share = median(share for _, _, share, _ in results)
        means = f"{mean(ratios):6.2f} {mean(medians):10.2f} {share:6.2f}"
        print(f"{family:18} {len(ratios):5} {means} {behind:7} {far:6}  {worst[0]:.2f} {worst[-1]}")
    print("behind", ", ".join(f"{name} {count}" for name, count in sorted(losses.items())))


@pytest.mark.parametrize("case", list(draw(0, 12)), ids=lambda case: f"{case.family}: {case.text}")
def test_results_are_numpys(case: Case) -> None:
    if case.nbytes < 8e6:
        for call in case.make().values():
            call()


if __name__ == "__main__":
    main(__doc__.splitlines()[0])
