"""Calls drawn by number, each compared with NumPy to the bit: `PYTHONPATH=tests python -m harness.random_calls`.

Call `n` is the same call in every run, so that a run goes on where another ended (`--first`), and a failure is
repeated by its number (`--first N --calls 1`). Every operation writes into borrowed memory of random bytes, and all of
that memory is compared: a byte beside the output that changes is a failure too. Calls go in blocks, each block once
on NumPy and once by compiled loops on two threads.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness.cpu_paths import picking_by
from harness.gather_cases import random_layout
from harness.guarded_memory import bits_of, guarded
from harness.index_oracle import gather_nd_by_definition, resolved

import stridedgpu as sg
from stridedgpu.values.dtypes import ELEMENT_TYPES

__all__ = ["EXECUTIONS", "Call", "drawn_call", "run_block"]

EXECUTIONS = ("NumPy", "compiled, 2 threads")
BLOCK = 1000

Array = np.ndarray[Any, Any]

_OPAQUE = tuple(name for name, element in ELEMENT_TYPES.items() if element.itemsize in (1, 2, 4, 8))
_FROM = ("uint8", "int8", "uint16", "int16", "float16", "float32")
_TO = ("uint8", "int8", "uint16", "int16", "float32", "float16")
_INDEX_TYPES = ("int32", "int64", "uint32", "uint64")
_EDGES = (0.0, -0.0, 1.0, -1.0, 1 / 255, 0.5, 255.0, 3e38, 2.0**-130)


@dataclass(frozen=True, eq=False)
class Call:
    """A call that writes into `out`, and the words that its elements have to be afterwards."""

    name: str
    run: Callable[[sg.StridedTensor], object]
    sizes: tuple[int, ...]
    dtype: str
    expected: Array


def drawn_call(number: int) -> Call:
    """The call of a number."""
    rng = np.random.default_rng(number)
    return _KINDS[int(rng.integers(len(_KINDS)))](rng)


def run_block(numbers: Sequence[int], execution: str) -> Iterator[tuple[int, str, str | None]]:
    """Run calls by one execution; each one's number and name, and what was wrong with it."""
    with picking_by(execution):
        for number in numbers:
            call = drawn_call(number)
            rng = np.random.default_rng((number, 1))
            layout = random_layout(rng, call.sizes, output=True, packed=rng.random() < 0.3)
            out, memory = guarded(layout, call.dtype, number)
            wanted = memory.copy()
            bits_of(layout, out.itemsize, wanted)[...] = call.expected
            call.run(out)
            wrong = np.flatnonzero(memory != wanted)
            yield number, call.name, None if not wrong.size else f"{wrong.size} bytes differ, byte {wrong[0]} first"


# Calls, one kind after another


def _sizes(rng: np.random.Generator, least: int = 0, most_rank: int = 5) -> tuple[int, ...]:
    rank = int(rng.integers(least, most_rank + 1))
    sizes = [int(size) for size in rng.integers(0 if rng.random() < 0.05 else 1, 6, rank)]
    if rank and rng.random() < 0.5:
        sizes[int(rng.integers(rank))] = int(rng.integers(1, 100))
    return tuple(sizes)


def _tensor(
    rng: np.random.Generator, sizes: tuple[int, ...], dtype: str, words: Array | None = None
) -> tuple[sg.StridedTensor, Array]:
    """A tensor of random bytes, or of drawn `words`, in any layout, and its elements as words."""
    layout = random_layout(rng, sizes)
    tensor, memory = guarded(layout, dtype, int(rng.integers(1 << 32)), words)
    return tensor, bits_of(layout, tensor.itemsize, memory)


def _choice(rng: np.random.Generator, values: Sequence[str]) -> str:
    return values[int(rng.integers(len(values)))]


def _moved(rng: np.random.Generator) -> Call:
    sizes, dtype = _sizes(rng), _choice(rng, _OPAQUE)
    source, words = _tensor(rng, sizes, dtype)
    return Call("relayout", lambda out: sg.relayout(source, out=out), sizes, dtype, words.copy())


def _converted(rng: np.random.Generator) -> Call:
    sizes, dtype, target = _sizes(rng), _choice(rng, _FROM), _choice(rng, _TO)
    source, words = _tensor(rng, sizes, dtype, _finite_words(rng, dtype))
    scale, bias = (float(rng.choice(_EDGES)) if rng.random() < 0.6 else None for _ in range(2))
    truncate = rng.random() < 0.3
    values = np.array(words.view(dtype) if words.size else np.zeros(sizes, dtype))
    return Call(
        f"relayout {dtype} to {target}",
        lambda out: sg.relayout(
            source, scale=scale, bias=bias, rounding="truncate" if truncate else "nearest", out=out
        ),
        sizes,
        target,
        _conversion(values, target, scale, bias, truncate=truncate),
    )


def _finite_words(rng: np.random.Generator, dtype: str) -> Array:
    """Words of numbers: which NaN a conversion of a NaN gives is left to the tests of conversions."""
    words = rng.integers(0, 256, 64 * np.dtype(dtype).itemsize, np.uint8).view(dtype)
    return words[np.isfinite(words)].view(f"u{words.itemsize}")


def _conversion(values: Array, target: str, scale: float | None, bias: float | None, *, truncate: bool) -> Array:
    """What a conversion of types of up to 16 bits, and float32, is stated to be: float32, each step rounded."""
    with np.errstate(all="ignore"):
        if scale is None and bias is None and values.dtype == target:
            made = values
        else:
            made = values.astype(np.float32)
            made = made if scale is None else made * np.float32(scale)
            made = made if bias is None else made + np.float32(bias)
        if np.dtype(target).kind in "ui" and made.dtype != target:
            limits = np.iinfo(target)
            whole = np.trunc(made) if truncate else np.rint(made)
            made = np.clip(np.where(np.isnan(made), np.float32(0), whole), limits.min, limits.max)
        made = made.astype(target)
    return made.view(f"u{made.dtype.itemsize}")


def _gathered(rng: np.random.Generator) -> Call:
    sizes, dtype = _sizes(rng, 1, 4), _choice(rng, _OPAQUE)
    axis = int(rng.integers(len(sizes)))
    if sizes[axis] == 0:
        return _moved(rng)
    data, words = _tensor(rng, sizes, dtype)
    mode = _choice(rng, ("raise", "clip", "wrap"))
    indices = _indices(rng, _sizes(rng, 0, 2), sizes[axis], mode)
    expected = np.take(words, resolved(indices, sizes[axis], mode), axis)
    return Call(
        "gather", lambda out: sg.gather(data, indices, axis, mode=mode, out=out), expected.shape, dtype, expected
    )


def _elements(rng: np.random.Generator) -> Call:
    sizes, dtype = _sizes(rng, 1, 4), _choice(rng, _OPAQUE)
    axis = int(rng.integers(len(sizes)))
    if 0 in sizes:
        return _moved(rng)
    data, words = _tensor(rng, sizes, dtype)
    mode = _choice(rng, ("raise", "clip", "wrap"))
    picked = tuple(int(rng.integers(1, 9)) if place == axis else size for place, size in enumerate(sizes))
    indices = _indices(rng, picked, sizes[axis], mode)
    expected = np.take_along_axis(words, resolved(indices, sizes[axis], mode), axis)
    return Call(
        "gather_elements",
        lambda out: sg.gather_elements(data, indices, axis, mode=mode, out=out),
        expected.shape,
        dtype,
        expected,
    )


def _tuples(rng: np.random.Generator) -> Call:
    sizes, dtype = tuple(int(size) for size in rng.integers(1, 7, int(rng.integers(1, 5)))), _choice(rng, _OPAQUE)
    data, words = _tensor(rng, sizes, dtype)
    length = int(rng.integers(1, len(sizes) + 1))
    count = int(rng.integers(1, 9))
    indices = np.stack([rng.integers(-size, size, count) for size in sizes[:length]], -1)
    expected = gather_nd_by_definition(words, indices, 0)
    return Call("gather_nd", lambda out: sg.gather_nd(data, indices, out=out), expected.shape, dtype, expected)


def _scattered(rng: np.random.Generator) -> Call:
    sizes, dtype = _sizes(rng, 1, 4), _choice(rng, _OPAQUE)
    axis = int(rng.integers(len(sizes)))
    if 0 in sizes:
        return _moved(rng)
    data, words = _tensor(rng, sizes, dtype)
    count = int(rng.integers(1, sizes[axis] + 1))
    into = tuple(count if place == axis else size for place, size in enumerate(sizes))
    order = np.argsort(rng.random(sizes), axis)  # no place twice
    indices = np.take(order, np.arange(count), axis).astype(_choice(rng, _INDEX_TYPES))
    updates, new = _tensor(rng, into, dtype)
    expected = words.copy()
    np.put_along_axis(expected, indices.astype(np.int64), new, axis)
    return Call(
        "scatter_elements",
        lambda out: sg.scatter_elements(data, indices, updates, axis, out=out),
        sizes,
        dtype,
        expected,
    )


def _cropped(rng: np.random.Generator) -> Call:
    count, channels = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    dtype = _choice(rng, ("uint8", "uint16", "float32"))
    pairs = [_tensor(rng, (channels, int(rng.integers(1, 30)), int(rng.integers(1, 30))), dtype) for _ in range(count)]
    height, width = int(rng.integers(1, 20)), int(rng.integers(1, 40))
    origins = rng.integers(-12, 25, (count, 2))
    flips = rng.random(count) < 0.5
    expected = np.zeros((count, channels, height, width), f"u{np.dtype(dtype).itemsize}")
    for window, (_, image), (top, left), flip in zip(expected, pairs, origins, flips, strict=True):
        rows, columns = top + np.arange(height), left + np.arange(width)
        rows_in = (rows >= 0) & (rows < image.shape[1])
        columns_in = (columns >= 0) & (columns < image.shape[2])
        inside = np.zeros((channels, height, width), window.dtype)
        inside[:, rows_in[:, None] & columns_in] = image[:, rows[rows_in][:, None], columns[columns_in]].reshape(
            channels, -1
        )
        window[...] = inside[..., ::-1] if flip else inside
    sources = [tensor for tensor, _ in pairs]
    return Call(
        "gather_crops",
        lambda out: sg.gather_crops(sources, origins, (height, width), flip=flips.tolist(), out=out),
        expected.shape,
        dtype,
        expected,
    )


def _indices(rng: np.random.Generator, shape: tuple[int, ...], size: int, mode: str) -> Array:
    dtype = _choice(rng, _INDEX_TYPES)
    least = 0 if dtype.startswith("u") else -size
    reach = (least * 3, size * 3) if mode != "raise" else (least, size)
    return rng.integers(*reach, shape).astype(dtype)


_KINDS: tuple[Callable[[np.random.Generator], Call], ...] = (
    _moved,
    _converted,
    _gathered,
    _elements,
    _tuples,
    _scattered,
    _cropped,
)


# The command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the calls that the arguments name; 1 at the first that is wrong."""
    parser = argparse.ArgumentParser("python -m harness.random_calls", description="Drawn calls, compared with NumPy.")
    parser.add_argument("--first", type=int, default=0, help="number of the first call")
    parser.add_argument("--calls", type=int, default=100_000, help="how many calls")
    chosen = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    began, end = time.monotonic(), chosen.first + chosen.calls
    for first in range(chosen.first, end, BLOCK):
        for execution in EXECUTIONS:
            for number, name, wrong in run_block(range(first, min(first + BLOCK, end)), execution):
                if wrong is not None:
                    print(f"call {number}, {name}, {execution}: {wrong}")
                    return 1
                counts[name.split()[0]] += 1
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"up to {min(first + BLOCK, end)}: {time.monotonic() - began:.0f} s, at most {peak:.0f} MiB", flush=True)
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())), "calls: every byte equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
