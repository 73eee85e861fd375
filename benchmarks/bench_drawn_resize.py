"""`opencv-linear` beside `cv2.resize` over drawn sizes of images of 1, 3 and 4 channels, on one thread.

    python benchmarks/bench_drawn_resize.py          60 sizes, 12 of a family, by processor time
    pytest benchmarks --benchmark-disable            one of each family, as a test

Families: any sizes; shrunk by 1.1 to 6; grown by 1.1 to 3; exactly halved; large frames shrunk. `call` is `sg.resize`
of an array into new memory, as users write it; `plan` is a plan's run into a tensor that is there. Every result is
compared with OpenCV's first. Ratios are OpenCV's time divided by the time here, of the least of all turns.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import thread_time_ns

import numpy as np
import pytest

import stridedgpu as sg

TURNS, SIZES, SEED = 12, 60, 20261122
FAMILIES = ("any", "shrunk", "grown", "halved", "large")
Size = tuple[int, int]


@dataclass(frozen=True)
class Drawn:
    """An image and its new size."""

    family: str
    source: Size
    target: Size
    channels: int

    @property
    def calls(self) -> dict[str, Callable[[], object]]:
        """Each contender's call. Raises `AssertionError` where a byte differs."""
        import cv2

        shape = (*self.source, self.channels) if self.channels > 1 else self.source
        image = np.random.default_rng(self.channels).integers(0, 256, shape, np.uint8)
        dims, size = "HWC"[: image.ndim], self.target[::-1]

        def resized() -> sg.StridedTensor:
            return sg.resize(image, self.target, dims=dims, layout=dims, interpolation="opencv-linear")

        source, made = sg.asarray(image, dims=dims), resized()
        np.testing.assert_array_equal(made.permute(dims).numpy(), cv2.resize(image, size))
        plan = sg.plan_resize(source, made, interpolation="opencv-linear")
        return {"opencv": lambda: cv2.resize(image, size), "call": resized, "plan": lambda: plan(source, made)}


def drawn(count: int) -> Iterator[Drawn]:
    """So many sizes, each with 1, 3 and 4 channels."""
    rng = np.random.default_rng(SEED)

    def pair(low: int, high: int) -> Size:
        return int(rng.integers(low, high)), int(rng.integers(low, high))

    def scaled(size: Size, low: float, high: float) -> Size:
        factor = rng.uniform(low, high)
        return int(size[0] * factor), int(size[1] * factor * rng.uniform(0.8, 1.25))

    for number in range(count):
        family = FAMILIES[number % len(FAMILIES)]
        source, target = pair(100, 1200), pair(100, 900)
        if family == "shrunk":
            target = pair(100, 500)
            source = scaled(target, 1.1, 6)
        elif family == "grown":
            source = pair(80, 500)
            target = scaled(source, 1.1, 3)
        elif family == "halved":
            target = pair(60, 700)
            source = 2 * target[0], 2 * target[1]
        elif family == "large":
            source, target = (int(rng.integers(1080, 2300)), int(rng.integers(1900, 4000))), pair(160, 700)
        for channels in (1, 3, 4):
            yield Drawn(family, source, target, channels)


def ratios(case: Drawn) -> dict[str, float]:
    """OpenCV's least time divided by that of a call and of a plan."""
    calls = case.calls
    least = dict.fromkeys(calls, sys.maxsize)
    for _ in range(TURNS):
        for name, call in calls.items():
            start = thread_time_ns()
            call()
            least[name] = min(least[name], thread_time_ns() - start)
    return {name: least["opencv"] / least[name] for name in ("call", "plan")}


@pytest.mark.parametrize("case", [case for case in drawn(4) if case.channels == 3], ids=lambda case: case.family)
def test_drawn_resizes(benchmark, case):
    pytest.importorskip("cv2", reason="the peer is OpenCV")
    benchmark(case.calls["call"])


def main() -> None:
    """Print the median and the least ratio of each family, and how often OpenCV is ahead."""
    import cv2

    sg.set_num_threads(1)
    cv2.setNumThreads(1)
    print(f"one thread, processor time, OpenCV {cv2.__version__}, load {os.getloadavg()[0]:.1f}")
    found = [(case, ratios(case)) for case in drawn(SIZES)]
    for family in FAMILIES:
        for channels in (1, 3, 4):
            here = [made for case, made in found if (case.family, case.channels) == (family, channels)]
            words = [
                f"{name} {np.median([made[name] for made in here]):.2f} (least {min(made[name] for made in here):.2f})"
                for name in ("call", "plan")
            ]
            print(f"{family:7} {channels} channels: " + ", ".join(words))
    for name in ("call", "plan"):
        all_of = np.array([made[name] for _, made in found])
        mean, ahead = np.exp(np.log(all_of).mean()), (all_of < 1).sum()
        print(f"{name}: geometric mean {mean:.2f}, OpenCV ahead in {ahead} of {len(all_of)}")


if __name__ == "__main__":
    main()
