"""Frames on the CPU beside OpenCV, PyAV (swscale) and the usual chains, in one run.

    python benchmarks/bench_frames.py                  a table of ratios: peers take turns, medians of 15 rounds
    python benchmarks/bench_frames.py 1                the same on one thread, for a machine that has other work
    pytest benchmarks --benchmark-disable              once each in small sizes, as tests

`opencv` is `cv2.cvtColor` alone, and for the tensors of a network `cvtColor`, then NumPy's arithmetic in float32 with
the results in memory that exists: the chain that users write. `opencv+blob` is `cvtColor` and `cv2.dnn.blobFromImage`,
which normalises by one scale and makes planes of float32, and NumPy's cast. `opencv+torch` is `cvtColor` and torch's
arithmetic, by torchvision's functions where it is installed; its resize has other bits. `pyav` is a frame's `reformat`
by FFmpeg's swscale, to rgb24 or from it, whose bits differ. `memcpy` copies as many bytes as the case must move. The
library, OpenCV and torch have THREADS threads, NumPy one, and swscale as many as it chooses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from turns import Report

import stridedgpu as sg

cv2 = pytest.importorskip("cv2", reason="OpenCV, which is compared, is not installed")

try:
    import av
except ImportError:
    av = None

try:
    import torch
except ImportError:
    torch = None

try:
    from torchvision.transforms import functional as vision
except (ImportError, RuntimeError):  # the wheel for CUDA beside PyTorch for the CPU cannot register its operators
    vision = None

THREADS = 2
PEERS = ("opencv", "opencv+blob", "opencv+torch", "pyav", "memcpy")
MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
SCALE, BIAS = (1 / (255 * STD)).tolist(), (-MEAN / STD).tolist()
ENCODES = {"nv12": cv2.COLOR_RGB2YUV_I420, "i420": cv2.COLOR_RGB2YUV_I420, "yuyv": cv2.COLOR_RGB2YUV_YUY2}
CODES = {"nv12": cv2.COLOR_YUV2RGB_NV12, "i420": cv2.COLOR_YUV2RGB_I420, "yuyv": cv2.COLOR_YUV2RGB_YUY2}


@dataclass(frozen=True)
class Case:
    """An image of some size and format, and what becomes of it."""

    goal: str
    format: str
    sizes: tuple[int, int]

    def __str__(self):
        return f"{self.goal}: {self.format} {self.sizes[0]} x {self.sizes[1]}"

    def small(self):
        """The same with few pixels."""
        return Case(self.goal, self.format, (36, 64))


CASES = [
    *(Case("rgb", name, (1080, 1920)) for name in CODES),
    Case("rgb", "nv12", (2160, 3840)),
    Case("float16 planes", "nv12", (1080, 1920)),
    Case("float32 planes", "nv12", (1080, 1920)),
    Case("four float16 crops", "nv12", (1080, 1920)),
    Case("four letterboxed to 640 float16", "nv12", (1080, 1920)),
    *(Case("encoded", name, (1080, 1920)) for name in ENCODES),
]


def surface(case):
    """Random samples as OpenCV takes them: rows of luma and of chroma, packed."""
    height, width = case.sizes
    shape = (height, width, 2) if case.format == "yuyv" else (height * 3 // 2, width)
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


def with_torch(case, rgb, window=None):
    """The call's chain behind `cvtColor` with torch: normalised planes, or a letterboxed window."""
    code, memory, half = CODES[case.format], surface(case), torch.float16
    dtype = torch.float32 if "float32" in case.goal else half
    if window is None:

        def planes():
            cv2.cvtColor(memory, code, rgb)
            colours = torch.from_numpy(rgb).permute(2, 0, 1)
            if vision is not None:
                scaled = vision.convert_image_dtype(colours, torch.float32)
                return vision.normalize(scaled, MEAN.tolist(), STD.tolist()).to(dtype)
            scale, bias = torch.tensor(SCALE).view(3, 1, 1), torch.tensor(BIAS).view(3, 1, 1)
            return (colours * scale + bias).to(dtype)

        return planes
    top, left, rows, columns = sg.letterbox_placements([case.sizes], (640, 640))[0].tolist()
    batch = torch.full((4, 3, 640, 640), 114 / 255, dtype=half)

    def letterbox():
        for image in batch:
            cv2.cvtColor(memory, code, rgb)
            colours = torch.from_numpy(rgb).permute(2, 0, 1)
            if vision is not None:
                resized = vision.resize(colours, [rows, columns], antialias=False)
            else:
                resized = torch.nn.functional.interpolate(
                    colours[None].float(), (rows, columns), mode="bilinear", align_corners=False
                )[0]
            image[:, top : top + rows, left : left + columns] = resized.float() * (1 / 255)
        return batch

    return letterbox


def encoding(case):
    """The calls that write an image as a frame, and the bytes that must move."""
    height, width = case.sizes
    picture = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    memory, source = np.zeros(surface(case).shape, np.uint8), sg.asarray(picture, dims="HWC")
    frame, made = sg.Frame.over(case.format, memory, case.sizes), np.empty_like(memory)
    calls = {
        "stridedgpu": lambda: sg.relayout(source, out=frame),
        "opencv": lambda: cv2.cvtColor(picture, ENCODES[case.format], made),
    }
    if av is not None:
        given = av.VideoFrame.from_ndarray(picture, format="rgb24")
        name = {"nv12": "nv12", "i420": "yuv420p", "yuyv": "yuyv422"}[case.format]
        calls["pyav"] = lambda: given.reformat(format=name)
    for call in calls.values():
        call()
    assert case.format == "nv12" or np.array_equal(memory, made), "one bit more or less"  # OpenCV writes no NV12
    moved = picture.nbytes + memory.nbytes
    block = np.ones(moved // 2, np.uint8)
    other = np.empty_like(block)
    calls["memcpy"] = lambda: np.copyto(other, block)
    return calls, moved


def calls_of(case) -> tuple[dict[str, Callable[[], object]], int]:
    """Each peer's way, checked against the library's bits, and the bytes that must move."""
    if case.goal == "encoded":
        return encoding(case)
    height, width = case.sizes
    memory = surface(case)
    frame, code = sg.Frame.over(case.format, memory, case.sizes), CODES[case.format]
    rgb = np.empty((height, width, 3), np.uint8)
    numbers = np.empty((height, width, 3), np.float32)
    if case.goal == "rgb":
        out = sg.empty((3, height, width), "uint8", layout="HWC", device="cpu")
        calls = {
            "stridedgpu": lambda: sg.relayout(frame, out=out),
            "opencv": lambda: cv2.cvtColor(memory, code, rgb),
        }
        if av is not None and case.format == "nv12":
            picture = av.VideoFrame.from_ndarray(memory, format="nv12")
            calls["pyav"] = lambda: picture.reformat(format="rgb24")
        results = [out.permute("HWC").numpy(), rgb]
    elif case.goal.endswith("planes"):
        dtype = case.goal.split()[0]
        out = sg.empty((3, height, width), dtype, device="cpu")
        planes = np.empty((3, height, width), dtype)

        def chain():
            cv2.cvtColor(memory, code, rgb)
            np.multiply(rgb, np.float32(SCALE), out=numbers)
            np.add(numbers, np.float32(BIAS), out=numbers)
            planes[...] = numbers.transpose(2, 0, 1)

        calls = {
            "stridedgpu": lambda: sg.relayout(frame, out=out, scale=SCALE, bias=BIAS),
            "opencv": chain,
            "opencv+blob": lambda: cv2.dnn.blobFromImage(cv2.cvtColor(memory, code, rgb), 1 / 255).astype(dtype),
        }
        if torch is not None:
            calls["opencv+torch"] = with_torch(case, rgb)
        results = [out.numpy(), planes]
    elif "letterboxed" in case.goal:
        frames, half = [frame] * 4, np.float16
        out = sg.empty((4, 3, 640, 640), "float16", device="cpu")
        windows, boxed = np.empty((4, 3, 640, 640), half), np.full((640, 640, 3), 114, np.uint8)
        top, left, rows, columns = sg.letterbox_placements([case.sizes], (640, 640))[0]

        def letterbox():
            for window in windows:
                cv2.cvtColor(memory, code, rgb)
                boxed[top : top + rows, left : left + columns] = cv2.resize(rgb, (columns, rows))
                window[...] = (boxed.astype(np.float32) * np.float32(1 / 255)).transpose(2, 0, 1)

        def blob():
            for window in windows:
                cv2.cvtColor(memory, code, rgb)
                boxed[top : top + rows, left : left + columns] = cv2.resize(rgb, (columns, rows))
                window[...] = cv2.dnn.blobFromImage(boxed, 1 / 255)[0]

        calls = {
            "stridedgpu": lambda: sg.letterbox(frames, (640, 640), out=out, scale=1 / 255),
            "opencv": letterbox,
            "opencv+blob": blob,
        }
        if torch is not None:
            calls["opencv+torch"] = with_torch(case, rgb, windows)
        results = [out.numpy(), windows]
    else:
        side, origins = min(height // 2, 512), [(n * height // 9, n * width // 9) for n in range(4)]
        out = sg.empty((4, 3, side, side), "float16", device="cpu")
        windows = np.empty((4, 3, side, side), np.float16)

        def crop():
            cv2.cvtColor(memory, code, rgb)
            for window, (y, x) in zip(windows, origins, strict=True):
                part = rgb[y : y + side, x : x + side].astype(np.float32)
                np.multiply(part, np.float32(SCALE), out=part)
                np.add(part, np.float32(BIAS), out=part)
                window[...] = part.transpose(2, 0, 1)

        calls = {
            "stridedgpu": lambda: sg.gather_crops([frame] * 4, origins, (side, side), out=out, scale=SCALE, bias=BIAS),
            "opencv": crop,
        }
        results = [out.numpy(), windows]
    for call in calls.values():
        call()
    assert np.array_equal(*results), "one bit more or less"
    moved = out.nbytes + (
        memory.nbytes
        if "four" not in case.goal
        else 4 * memory.nbytes
        if "box" in case.goal
        else out.layout.element_count // 2
    )
    block = np.ones(moved // 2, np.uint8)
    other = np.empty_like(block)
    calls["memcpy"] = lambda: np.copyto(other, block)
    return calls, moved


@pytest.mark.parametrize("case", CASES, ids=str)
def test_frames(benchmark, case):
    calls, _ = calls_of(case.small() if benchmark.disabled else case)
    benchmark(calls["stridedgpu"])


def main():
    """Time every case."""
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else THREADS
    sg.set_num_threads(threads)
    cv2.setNumThreads(threads)
    if torch is not None:
        torch.set_num_threads(threads)
    report = Report(PEERS)
    for case in CASES:
        report.add(case, *calls_of(case), case.goal)
    report.close()


if __name__ == "__main__":
    main()
