"""More drawn cases on the CPU, of the families that `bench_drawn_cpu.py` leaves out: how often is a peer quicker?

    python benchmarks/bench_drawn_more_cpu.py --one-core     300 cases of seed 0
    pytest benchmarks/bench_drawn_more_cpu.py                some cases once each, as a test

Axes of three to six dimensions in any order, windows of attention, pixel shuffle, video, rotations, packed arrays into
a part of larger ones, borders of zeros, crops, slices and elements along other axes, tuples of indices, scatters into
their data, and changes of type and order at once. Sizes, turns and peers are those of the other file. Half of the
scatters ask that no element is named twice, which no peer looks at.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import exp, prod
from typing import Any, Final

import bench_drawn_cpu as drawn
import numba_loops
import numpy as np
import pytest
from bench_drawn_cpu import Array, Call, Case, Maker, batch_for, check, draw, moved, movers, random_array, size_of

import stridedgpu as sg

cv2, jax, torch = drawn.cv2, drawn.jax, drawn.torch


def permutations(chance: random.Random) -> Case:
    """Three to six axes in any order."""
    dtype, rank = (
        chance.choice(("uint8", "float16", "float32", "float32", "float64")),
        chance.choice((3, 4, 4, 5, 5, 6)),
    )
    weights = [chance.choice((0.3, 1, 1, 2)) for _ in range(rank)]
    count = size_of(chance) / np.dtype(dtype).itemsize
    sizes = tuple(max(2, round(count ** (part / sum(weights)) * chance.uniform(0.8, 1.25))) for part in weights)
    order = tuple(chance.sample(range(rank), rank))
    return moved("permutations", sizes, dtype, lambda x: x.transpose(order), "".join(map(str, order)))


def attention_windows(chance: random.Random) -> Case:
    """Windows of a feature map, as attention within windows reads them."""
    dtype, channels = chance.choice(("float16", "float32")), chance.choice((96, 128, 192, 384, 768))
    side, grid = chance.choice(((7, 8), (7, 4), (7, 2), (8, 8), (12, 2), (7, 1)))
    batch = batch_for(chance, size_of(chance), (side * grid) ** 2 * channels * np.dtype(dtype).itemsize)
    sizes = (batch, grid, side, grid, side, channels)
    return moved("windows of features", sizes, dtype, lambda x: x.transpose(0, 1, 3, 2, 4, 5), "windows")


def shuffles(chance: random.Random) -> Case:
    """Pixel shuffle and its inverse, channel shuffle, space to depth."""
    dtype, by = chance.choice(("uint8", "float16", "float32")), chance.choice((2, 2, 3, 4))
    channels, side = chance.choice(((3, 56), (16, 28), (64, 14), (64, 56), (4, 112), (12, 64)))
    batch = batch_for(chance, size_of(chance), channels * (by * side) ** 2 * np.dtype(dtype).itemsize)
    sizes, order, note = chance.choice(
        (
            ((batch, channels, by, by, side, side), (0, 1, 4, 2, 5, 3), "pixel shuffle"),
            ((batch, channels, side, by, side, by), (0, 1, 3, 5, 2, 4), "pixel unshuffle"),
            ((batch, by * by, channels, side, side), (0, 2, 1, 3, 4), "channel shuffle"),
            ((batch, side, by, side, by, channels), (0, 1, 3, 2, 4, 5), "space to depth"),
        )
    )
    return moved("shuffles", sizes, dtype, lambda x: x.transpose(order), note)


def videos(chance: random.Random) -> Case:
    """Time, channels and pixels in other orders."""
    dtype, channels = chance.choice(("uint8", "float16", "float32")), chance.choice((1, 3, 3, 4, 64))
    frames, (height, width) = chance.choice((4, 8, 16, 32)), chance.choice(((28, 28), (56, 56), (112, 112), (128, 171)))
    batch = batch_for(chance, size_of(chance), channels * frames * height * width * np.dtype(dtype).itemsize)
    sizes, order, note = chance.choice(
        (
            ((batch, frames, height, width, channels), (0, 4, 1, 2, 3), "NTHWC>NCTHW"),
            ((batch, frames, channels, height, width), (0, 2, 1, 3, 4), "NTCHW>NCTHW"),
            ((batch, channels, frames, height, width), (0, 2, 3, 4, 1), "NCTHW>NTHWC"),
        )
    )
    return moved("video", sizes, dtype, lambda x: x.transpose(order), note)


def rotations(chance: random.Random) -> Case:
    """Images turned by quarters, and mirrored along the diagonal."""
    dtype, channels = chance.choice(("uint8", "uint8", "float32")), chance.choice((1, 3, 3, 4))
    height = max(4, round((size_of(chance) / np.dtype(dtype).itemsize / channels) ** 0.5))
    sizes = (height, max(4, round(height * exp(chance.uniform(-0.5, 0.5)))), channels)
    note, turn = chance.choice(
        (
            ("90", lambda x: x[::-1].transpose(1, 0, 2)),
            ("270", lambda x: x[:, ::-1].transpose(1, 0, 2)),
            ("180", lambda x: x[::-1, ::-1]),
            ("transposed", lambda x: x.transpose(1, 0, 2)),
        )
    )
    case = moved("rotations", sizes, dtype, turn, note)
    if cv2 is None:
        return case

    def make() -> dict[str, Call]:
        source = random_array(sizes, dtype)
        codes = {"90": cv2.ROTATE_90_CLOCKWISE, "270": cv2.ROTATE_90_COUNTERCLOCKWISE, "180": cv2.ROTATE_180}

        def turned(out: Array) -> dict[str, Call]:
            if note in codes:
                return {"cv2": lambda: cv2.rotate(source, codes[note], out)}
            return {"cv2": lambda: cv2.transpose(source, out)}

        return movers(source, turn, beside=turned)

    return Case(case.family, case.text, case.nbytes, make)


def insets(chance: random.Random) -> Case:
    """A packed image into a part of a larger one."""
    dtype, channels = chance.choice(("uint8", "float16", "float32")), chance.choice((1, 3, 4))
    height = max(4, round((size_of(chance) / np.dtype(dtype).itemsize / channels) ** 0.5))
    width, more = max(4, round(height * exp(chance.uniform(-0.7, 0.7)))), chance.choice((1, 13, 64, 500))
    sizes = (height, width, channels)

    def make() -> dict[str, Call]:
        source, large = random_array(sizes, dtype), np.zeros((height + 3, width + more, channels), dtype)
        view = large[2 : 2 + height, more // 2 : more // 2 + width]
        tensor, out = sg.asarray(source), sg.asarray(view)
        plan = sg.plan_relayout(tensor, out)
        calls: dict[str, Call] = {"stridedgpu": lambda: plan(tensor, out), "numpy": lambda: np.copyto(view, source)}
        check(calls, large)
        if torch is not None:
            given, made = torch.from_numpy(source), torch.from_numpy(view)
            calls["torch"] = lambda: made.copy_(given)
        if numba_loops.understands(source):
            calls["numba"] = lambda: numba_loops.copied(source, view)
        return calls

    text = f"{dtype} {'x'.join(map(str, sizes))} into {more} columns more"
    return Case("insets", text, 2 * prod(sizes) * np.dtype(dtype).itemsize, make)


def borders(chance: random.Random) -> Case:
    """Images and feature maps with a border of zeros."""
    dtype, channels = chance.choice(("uint8", "float16", "float32")), chance.choice((3, 3, 64))
    height, width = chance.choice(((14, 14), (56, 56), (224, 224), (375, 500), (480, 640)))
    wide, itemsize = chance.choice((1, 2, 16)), np.dtype(dtype).itemsize
    batch = batch_for(chance, size_of(chance), channels * height * width * itemsize)
    sizes, large = (batch, channels, height, width), (batch, channels, height + 2 * wide, width + 2 * wide)

    def make() -> dict[str, Call]:
        source, origins = random_array(sizes, dtype), np.full((batch, 2), -wide)
        tensor, out = sg.asarray(source, dims="NCHW"), sg.empty(large, dtype, dims="NCHW")
        plan, mine = sg.plan_gather_crops(tensor, large[2:], out=out), out.numpy()
        inside = (..., slice(wide, -wide), slice(wide, -wide))

        def padded() -> None:
            mine[...] = 0
            mine[inside] = source

        calls: dict[str, Call] = {"stridedgpu": lambda: plan(tensor, origins, out), "numpy": padded}
        check(calls, mine)
        if torch is not None:
            given, made = torch.from_numpy(source), torch.from_numpy(mine)

            def filled() -> None:
                made.zero_()
                made[inside].copy_(given)

            calls["torch"] = filled
        if jax is not None:
            device, widths = jax.device_put(source), ((0, 0), (0, 0), (wide, wide), (wide, wide))
            jitted = jax.jit(lambda x: jax.numpy.pad(x, widths))
            calls["jax"] = lambda: jitted(device).block_until_ready()
        return calls

    text = f"{dtype} {'x'.join(map(str, sizes))} by {wide}"
    return Case("borders", text, (prod(sizes) + prod(large)) * itemsize, make)


def crops(chance: random.Random) -> Case:
    """Windows at random places of images: as they are, or as planes of floats."""
    height, width, side = chance.choice(
        ((64, 64, 32), (40, 40, 32), (256, 256, 224), (375, 500, 224), (480, 640, 64), (128, 128, 16), (480, 640, 8))
    )
    is_scaled = chance.random() < 0.5
    each = side * side * 3 * (5 if is_scaled else 2)
    count = max(1, min(batch_for(chance, size_of(chance), each), int(2e8) // (height * width * 3)))

    def make() -> dict[str, Call]:
        images, rng = random_array((count, height, width, 3), "uint8"), np.random.default_rng(3)
        origins = np.stack([rng.integers(0, height - side + 1, count), rng.integers(0, width - side + 1, count)], 1)
        tensor, factor = sg.asarray(images, dims="NHWC"), np.float32(1 / 255)
        sizes = (count, 3, side, side)
        if is_scaled:
            out = sg.empty(sizes, "float32", dims="NCHW")
            plan = sg.plan_gather_crops(tensor, side, out=out, scale=1 / 255)
        else:
            out = sg.empty(sizes, "uint8", dims="NCHW", layout="NHWC")
            plan = sg.plan_gather_crops(tensor, side, out=out)
        mine = out.numpy() if is_scaled else out.numpy().transpose(0, 2, 3, 1)

        def sliced() -> None:
            for image, window, (y, x) in zip(images, mine, origins, strict=True):
                part = image[y : y + side, x : x + side]
                if is_scaled:
                    np.multiply(part.transpose(2, 0, 1), factor, out=window)
                else:
                    window[...] = part

        calls: dict[str, Call] = {"stridedgpu": lambda: plan(tensor, origins, out), "numpy": sliced}
        check(calls, mine)
        if numba_loops.understands(mine):
            if is_scaled:
                calls["numba"] = lambda: numba_loops.scaled_crops(images, origins, factor, mine)
            else:
                calls["numba"] = lambda: numba_loops.crops(images, origins, mine)
        return calls

    text = f"{count} of {height}x{width}x3 to {side}x{side}" + (", planes of float32" if is_scaled else "")
    return Case("crops", text, count * each, make)


def slices(chance: random.Random) -> Case:
    """Slices by index along the second of three axes."""
    dtype, index = chance.choice(("uint8", "float16", "float32", "int64")), chance.choice(("int32", "int64"))
    itemsize, size, run = (
        np.dtype(dtype).itemsize,
        chance.choice((10, 50, 197, 1000)),
        chance.choice((1, 3, 16, 64, 768)),
    )
    picks = max(1, round(size * chance.choice((0.25, 1))))
    rows = max(1, min(batch_for(chance, size_of(chance), picks * run * itemsize), int(1e8) // (size * run * itemsize)))

    def make() -> dict[str, Call]:
        data = random_array((rows, size, run), dtype)
        numbers = np.random.default_rng(1).integers(0, size, picks).astype(index)
        tensor, indices, out = sg.asarray(data), sg.asarray(numbers), sg.empty((rows, picks, run), dtype)
        plan, mine = sg.plan_gather(tensor, indices, 1, mode="clip", out=out), out.numpy()
        calls: dict[str, Call] = {"stridedgpu": lambda: plan(tensor, indices, out)}
        calls["numpy"] = lambda: np.take(data, numbers, 1, out=mine, mode="clip")
        check(calls, mine)
        if torch is not None:
            given, made, chosen = torch.from_numpy(data), torch.from_numpy(mine), torch.from_numpy(numbers)
            calls["torch"] = lambda: torch.index_select(given, 1, chosen, out=made)
        if numba_loops.understands(data):
            calls["numba"] = lambda: numba_loops.runs(data, numbers, mine)
        if jax is not None:
            jitted = jax.jit(lambda x, i: jax.numpy.take(x, i, 1, mode="clip"))
            calls["jax"] = in_jax(jitted, data, numbers)
        return calls

    text = f"{dtype} ({rows}, {size}, {run}) {index} ({picks},)"
    return Case("slices by index", text, 2 * rows * picks * run * itemsize, make)


def in_jax(jitted: Callable[..., Any], data: Array, numbers: Array) -> Call:
    """A jitted gather on JAX's own copies."""
    device, along = jax.device_put(data), jax.device_put(numbers)
    return lambda: jitted(device, along).block_until_ready()


def columns(chance: random.Random) -> Case:
    """Elements by number along the first axis."""
    dtype, index = chance.choice(("uint8", "float32", "int64")), chance.choice(("int32", "int64"))
    itemsize, height = np.dtype(dtype).itemsize, chance.choice((10, 100, 1000))
    sizes = (height, max(1, round(size_of(chance) / itemsize / height)))

    def make() -> dict[str, Call]:
        data, numbers = random_array(sizes, dtype), np.random.default_rng(1).integers(0, height, sizes).astype(index)
        tensor, indices, out = sg.asarray(data), sg.asarray(numbers), sg.empty(sizes, dtype)
        plan, mine = sg.plan_gather_elements(tensor, indices, 0, mode="clip", out=out), out.numpy()
        calls: dict[str, Call] = {"stridedgpu": lambda: plan(tensor, indices, out)}
        calls["numpy"] = lambda: np.copyto(mine, np.take_along_axis(data, numbers, 0))
        check(calls, mine)
        if torch is not None and index == "int64":
            given, made, chosen = torch.from_numpy(data), torch.from_numpy(mine), torch.from_numpy(numbers)
            calls["torch"] = lambda: torch.gather(given, 0, chosen, out=made)
        if numba_loops.understands(data):
            calls["numba"] = lambda: numba_loops.column_elements(data, numbers, mine)
        if jax is not None:
            jitted = jax.jit(lambda x, i: jax.numpy.take_along_axis(x, i, 0, mode="clip"))
            calls["jax"] = in_jax(jitted, data, numbers)
        return calls

    nbytes = prod(sizes) * (2 * itemsize + np.dtype(index).itemsize)
    return Case("elements of columns", f"{dtype} {sizes} {index}", nbytes, make)


def tuples(chance: random.Random) -> Case:
    """Elements and slices named by tuples of indices."""
    dtype, run = chance.choice(("uint8", "float32")), chance.choice((1, 1, 3, 16, 64))
    axes, itemsize = chance.choice(((10_000,), (300, 200), (300, 200), (40, 50, 30))), np.dtype(dtype).itemsize
    count = batch_for(chance, size_of(chance), run * itemsize)

    def make() -> dict[str, Call]:
        data, rng = random_array((*axes, run), dtype), np.random.default_rng(1)
        numbers = np.stack([rng.integers(0, size, count) for size in axes], 1)
        tensor, indices, out = sg.asarray(data), sg.asarray(numbers), sg.empty((count, run), dtype)
        plan, mine, places = sg.plan_gather_nd(tensor, indices, out=out), out.numpy(), tuple(numbers.T)
        calls: dict[str, Call] = {"stridedgpu": lambda: plan(tensor, indices, out)}
        calls["numpy"] = lambda: np.copyto(mine, data[places])
        check(calls, mine)
        if torch is not None:
            given, made = torch.from_numpy(data), torch.from_numpy(mine)
            chosen = tuple(torch.from_numpy(np.ascontiguousarray(along)) for along in places)
            calls["torch"] = lambda: made.copy_(given[chosen])
        return calls

    text = f"{dtype} {(*axes, run)} ({count}, {len(axes)})"
    return Case("tuples of indices", text, count * (2 * run * itemsize + 8 * len(axes)), make)


def scatters(chance: random.Random) -> Case:
    """Rows and elements put into an array by number, in place."""
    dtype, is_unique = chance.choice(("uint8", "float16", "float32", "int64")), chance.random() < 0.5
    itemsize, by_row = np.dtype(dtype).itemsize, chance.random() < 0.5
    width = chance.choice((1, 4, 16, 64, 256, 768) if by_row else (10, 100, 1000))
    count = batch_for(chance, size_of(chance), width * itemsize)
    height = max(count, 1000) if is_unique else chance.choice((1000, 10_000))

    def make() -> dict[str, Call]:
        rng, updates = np.random.default_rng(1), random_array((count, width), dtype)
        data = random_array((height if by_row else count, width), dtype)
        if by_row:
            numbers = rng.permutation(height)[:count] if is_unique else rng.integers(0, height, count)
        else:
            numbers = np.argsort(rng.random((count, width)), 1) if is_unique else rng.integers(0, width, (count, width))
        tensor, new = sg.asarray(data), sg.asarray(updates)
        indices = sg.asarray(numbers[:, np.newaxis] if by_row else numbers)
        if by_row:
            plan = sg.plan_scatter_nd(tensor, indices, new, unique=is_unique, out=tensor)
        else:
            plan = sg.plan_scatter_elements(tensor, indices, new, 1, unique=is_unique, out=tensor)
        calls: dict[str, Call] = {
            "stridedgpu": lambda: plan(tensor, indices, new, tensor),
            "numpy": lambda: (
                data.__setitem__(numbers, updates) if by_row else np.put_along_axis(data, numbers, updates, 1)
            ),
        }
        if is_unique:  # otherwise it is undefined which update remains
            check(calls, data)
        if torch is not None:
            made, chosen, given = torch.from_numpy(data), torch.from_numpy(numbers), torch.from_numpy(updates)
            calls["torch"] = lambda: made.index_copy_(0, chosen, given) if by_row else made.scatter_(1, chosen, given)
        if numba_loops.understands(data):
            puts = numba_loops.rows_put if by_row else numba_loops.elements_put
            calls["numba"] = lambda: puts(numbers, updates, data)
        return calls

    text = f"{count} rows of {width}" if by_row else f"elements of ({count}, {width})"
    nbytes = count * (2 * width * itemsize + (8 if by_row else 8 * width))
    return Case("scatters", f"{dtype} {text}{', unique' if is_unique else ''}", nbytes, make)


def converted_orders(chance: random.Random) -> Case:
    """Another order of axes and another type at once."""
    source, target = chance.choice(
        (
            ("float32", "float16"), ("float16", "float32"), ("float32", "uint8"), ("uint8", "float32"),
            ("int16", "float32"), ("float32", "float64"), ("uint8", "int32"), ("float32", "int8"),
        )
    )  # fmt: skip
    channels = chance.choice((1, 3, 3, 4, 16, 17, 64))
    height, width = chance.choice(((14, 14), (28, 28), (56, 56), (224, 224), (33, 35), (480, 640)))
    itemsize = np.dtype(source).itemsize
    batch = batch_for(chance, size_of(chance), channels * height * width * itemsize)
    sizes, order = (batch, channels, height, width), (0, 2, 3, 1)
    if chance.random() < 0.5:
        sizes, order = (batch, height, width, channels), (0, 3, 1, 2)
    nbytes = prod(sizes) * (itemsize + np.dtype(target).itemsize)
    text = f"{source}>{target} {'x'.join(map(str, sizes))} {''.join(map(str, order))}"
    return Case(
        "orders and types",
        text,
        nbytes,
        lambda: movers(random_array(sizes, source), lambda x: x.transpose(order), target),
    )


FAMILIES: Final[list[tuple[Maker, int]]] = [
    (permutations, 3), (attention_windows, 2), (shuffles, 3), (videos, 2), (rotations, 3), (insets, 2), (borders, 3),
    (crops, 3), (slices, 3), (columns, 2), (tuples, 2), (scatters, 4), (converted_orders, 4),
]  # fmt: skip


@pytest.mark.parametrize("case", list(draw(0, 24, FAMILIES)), ids=lambda case: f"{case.family}: {case.text}")
def test_results_are_numpys(case: Case) -> None:
    if case.nbytes < 8e6:
        for call in case.make().values():
            call()


if __name__ == "__main__":
    drawn.main(__doc__.splitlines()[0], FAMILIES)
