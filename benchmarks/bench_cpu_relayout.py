"""Relayout on the CPU beside NumPy, PyTorch, OpenCV and a memory copy.

    python benchmarks/bench_cpu_relayout.py            a table of ratios: peers take turns, medians of 15 rounds
    pytest benchmarks --benchmark-only                 the same cases through pytest-benchmark
    pytest benchmarks --benchmark-disable              once each in small sizes, as tests

Every peer has THREADS threads, except NumPy and the memory copy, which have one; results are compared before anything
is timed. `memcpy` copies as many bytes as the case must move. All write into memory that exists, but for "normalised",
where everyone allocates: those expressions are what people write, and new memory takes longer to get than to fill. The
same "in place" is what a careful program does. On a machine with other work the
medians punish whoever uses more than one thread, since a call ends with the thread that was kept waiting longest: the
last lines therefore give the ratios of the best rounds too.

Why no other library does the work underneath. OpenCV's split, merge and transpose know packed or row-padded images of
up to 4 channels, one image a call, without float16, without a cast on the way, and run on one thread; blobFromImages
writes float32 from one scale. oneDNN's reorders have no per-channel bias and no layout with padded rows of its own, and
there is no Python package that would bring them without PyTorch. Here every layout and conversion takes one pass
through one set of kernels, with bits that are the same as on a GPU.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import pytest
from turns import Report

import stridedgpu as sg

try:
    import torch
except ImportError:
    torch = None
try:
    import cv2
except ImportError:
    cv2 = None

THREADS = 2
PEERS = ("numpy", "torch", "cv2", "memcpy")
LAST_LEVEL_CACHE = 32 * 1024 * 1024
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


@dataclass(frozen=True)
class Case:
    """A source in one order and a target in another; `pitched` pads the source's rows to a multiple of 64 bytes."""

    goal: str
    sizes: tuple[int, ...]
    dtype: str
    source: str
    target: str
    pitched: bool = False
    normalised: str = ""

    def __str__(self):
        sizes = "x".join(map(str, self.sizes))
        more = " padded" if self.pitched else f"->{self.normalised}" if self.normalised else ""
        place = " in place" if "in place" in self.goal else ""
        return f"{self.source}-{self.target} {sizes} {self.dtype}{more}{place}"

    def small(self):
        """The same with few elements."""
        return Case(self.goal, tuple(min(n, 21) for n in self.sizes), *list(self.__dict__.values())[2:])


def cases():
    for channels in (1, 3, 4):
        for dtype in ("uint8", "float16", "float32"):
            for source, target in (("NHWC", "NCHW"), ("NCHW", "NHWC")):
                for batch, height, width in ((64, 224, 224), (4, 1080, 1920)):
                    for pitched in (False, True):
                        yield Case("images", (batch, channels, height, width), dtype, source, target, pitched)
    for source, target in (("NHWC", "NCHW"), ("NCHW", "NHWC")):
        for dtype in ("uint8", "float16", "float32"):
            yield Case("transposes", (16, 64, 112, 112), dtype, source, target)
            yield Case("transposes", (16, 256, 56, 56), dtype, source, target)
        yield Case("transposes", (8, 256, 55, 55), "float32", source, target)
    for dtype in ("uint8", "float16", "float32", "float64"):
        yield Case("transposes", (4096, 4096), dtype, "WH", "HW")
        yield Case("transposes", (4095, 3001), dtype, "WH", "HW")
    for source, target in (("NDHWC", "NCDHW"), ("NCDHW", "NDHWC")):
        yield Case("transposes", (2, 32, 16, 112, 112), "float32", source, target)
        yield Case("transposes", (2, 3, 16, 224, 224), "uint8", source, target)
    for goal in ("normalised", "normalised in place"):
        for target in ("float16", "float32"):
            yield Case(goal, (64, 3, 224, 224), "uint8", "NHWC", "NCHW", normalised=target)
            yield Case(goal, (4, 3, 1080, 1920), "uint8", "NHWC", "NCHW", normalised=target)
    yield Case("small", (1, 3, 32, 32), "float32", "NHWC", "NCHW")
    yield Case("small", (1, 3, 32, 32), "uint8", "NHWC", "NCHW")


def peers_of(case):
    """What to time by name, each a call without arguments, after a look at what they make."""
    sg.set_num_threads(THREADS)
    if torch is not None:
        torch.set_num_threads(THREADS)
    if cv2 is not None:
        cv2.setNumThreads(THREADS)
    pitch = None
    if case.pitched:
        row = case.sizes[3] * (case.sizes[1] if case.source == "NHWC" else 1) * np.dtype(case.dtype).itemsize
        pitch = (row // 64 + 1) * 64
    source = sg.empty(case.sizes, case.dtype, layout=case.source, row_pitch_bytes=pitch)
    values = np.random.default_rng(0).integers(0, 256, case.sizes, np.uint8)
    source[...] = sg.asarray(values.astype(case.dtype))
    return normalising_peers(case, source) if case.normalised else moving_peers(case, source)


def moving_peers(case, source):
    out = sg.empty(case.sizes, case.dtype, layout=case.target)
    plan = sg.plan_relayout(source, out)
    mine = sg.empty(case.sizes, case.dtype, layout=case.target).numpy()
    array = source.numpy()
    calls = {"stridedgpu": lambda: plan(source, out), "numpy": lambda: np.copyto(mine, array)}
    for call in calls.values():
        call()
    np.testing.assert_array_equal(out.numpy(), array)
    np.testing.assert_array_equal(mine, array)
    if torch is not None:
        theirs, tensor = torch.from_numpy(np.empty_like(mine, order="K")), torch.from_numpy(array)
        calls["torch"] = lambda: theirs.copy_(tensor)
        calls["torch"]()
        np.testing.assert_array_equal(theirs.numpy(), array)
    call = None if cv2 is None else opencv_call(case, array)
    if call is not None:
        calls["cv2"] = call
    return calls | {"memcpy": copy_of(plan.bytes_moved)}


def opencv_call(case, array):
    """OpenCV's split, merge or transpose, for what they know."""
    if case.goal == "small" or case.dtype in ("float16", "float64"):
        return None
    out = np.empty(array.shape, array.dtype)
    if case.target == "HW":
        turned = array.T

        def transpose():
            cv2.transpose(turned, out)

        transpose()
        np.testing.assert_array_equal(out, array)
        return transpose
    if len(case.sizes) != 4 or not 3 <= case.sizes[1] <= 4:
        return None
    pixels = array.transpose(0, 2, 3, 1)
    if case.source == "NHWC":

        def split():
            for frame, planes in zip(pixels, out, strict=True):
                cv2.split(frame, list(planes))

        split()
        np.testing.assert_array_equal(out, array)
        return split
    made = np.empty(pixels.shape, array.dtype)

    def merge():
        for planes, frame in zip(array, made, strict=True):
            cv2.merge(list(planes), frame)

    merge()
    np.testing.assert_array_equal(made, pixels)
    return merge


def normalising_peers(case, source):
    options = {"scale": 1 / (255 * STD), "bias": -MEAN / STD}
    frames = source.numpy().transpose(0, 2, 3, 1)
    out = sg.empty(case.sizes, case.normalised)
    plan = sg.plan_relayout(source, out, **options)
    if "in place" in case.goal:
        calls = in_place_calls(case, source, frames, out, plan)
    else:
        calls = expressions(case, frames)
        calls["stridedgpu"] = lambda: source.relayout(layout="NCHW", dtype=case.normalised, **options).numpy()
    expected = calls["numpy"]()
    for name, call in calls.items():
        if name != "cv2":
            # Three roundings here and two there.
            np.testing.assert_allclose(call(), expected, rtol=2e-3, atol=2e-3)
    return calls | {"memcpy": copy_of(plan.bytes_moved)}


def expressions(case, frames):
    """(x / 255 - mean) / std, as people write it."""
    means, deviations = MEAN.astype(np.float32), STD.astype(np.float32)

    def numpy_expression():
        planes = ((frames.astype(np.float32) / np.float32(255) - means) / deviations).transpose(0, 3, 1, 2)
        return np.ascontiguousarray(planes, case.normalised)

    calls = {"numpy": numpy_expression}
    if torch is not None:
        tensor, dtype = torch.from_numpy(frames), getattr(torch, case.normalised)
        mean, std = (torch.from_numpy(values).view(3, 1, 1) for values in (means, deviations))

        def torch_expression():
            planes = tensor.permute(0, 3, 1, 2).contiguous().to(torch.float32).div(255)
            return planes.sub_(mean).div_(std).to(dtype).numpy()

        calls["torch"] = torch_expression
    if cv2 is not None and hasattr(cv2, "dnn") and case.normalised == "float32":
        # One scale for all channels is what it has.
        images = list(frames)
        calls["cv2"] = lambda: cv2.dnn.blobFromImages(images, 1 / 57.375, mean=tuple(255 * MEAN))
        assert calls["cv2"]().shape == case.sizes
    return calls


def in_place_calls(case, source, frames, out, plan):
    """The same by one product and one sum, in memory that exists."""
    factors, terms = (values.astype(np.float32).reshape(3, 1, 1) for values in (1 / (255 * STD), -MEAN / STD))
    planes = np.empty(case.sizes, np.float32)
    made = planes if case.normalised == "float32" else np.empty(case.sizes, case.normalised)

    def by_plan():
        plan(source, out)
        return out.numpy()

    def by_numpy():
        np.multiply(frames.transpose(0, 3, 1, 2), factors, out=planes)
        np.add(planes, terms, out=made, casting="same_kind")
        return made

    calls = {"stridedgpu": by_plan, "numpy": by_numpy}
    if torch is not None:
        tensor = torch.from_numpy(frames).permute(0, 3, 1, 2)
        theirs, scale, bias = (torch.from_numpy(values) for values in (np.empty_like(planes), factors, terms))
        last = theirs if made is planes else torch.from_numpy(np.empty_like(made))

        def by_torch():
            theirs.copy_(tensor).mul_(scale).add_(bias)
            return (last if last is theirs else last.copy_(theirs)).numpy()

        calls["torch"] = by_torch
    return calls


def copy_of(bytes_moved):
    """One thread copies so many bytes, read and written together."""
    source = np.ones(bytes_moved // 2, np.uint8)
    target = np.zeros_like(source)
    return lambda: np.copyto(target, source)


@pytest.mark.parametrize("peer", ["stridedgpu", "numpy", "torch", "cv2", "memcpy"])
@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_relayout(benchmark, case, peer):
    calls = peers_of(case.small() if benchmark.disabled else case)
    if peer not in calls:
        pytest.skip(f"{peer} is not installed, or has no such operation")
    benchmark.group = str(case)
    benchmark(calls[peer])


def main(wanted):
    report = Report(PEERS)
    for case in cases():
        if not wanted or case.goal in wanted:
            itemsizes = np.dtype(case.dtype).itemsize + np.dtype(case.normalised or case.dtype).itemsize
            bytes_moved = int(np.prod(case.sizes)) * itemsizes
            where = "beyond cache" if bytes_moved > LAST_LEVEL_CACHE else "in cache"
            report.add(case, peers_of(case), bytes_moved, f"{case.goal}, {where}")
    report.close()


if __name__ == "__main__":
    main(sys.argv[1:])
