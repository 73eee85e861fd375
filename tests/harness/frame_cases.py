"""Surfaces of every pixel format, built sample by sample, and what OpenCV and float64 make of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import stridedgpu as sg
from stridedgpu.devices.cpu import thread_count as threads
from stridedgpu.devices.cpu.policy import policy, using
from stridedgpu.devices.launch_cache import forget_launches
from stridedgpu.values.strides import round_up

__all__ = [
    "COLOURS",
    "DEEP",
    "OF_OPENCV",
    "SCALED",
    "YUV",
    "Surface",
    "chroma_step",
    "converting_by",
    "depth_of",
    "float_colours",
    "opencv",
    "opencv_colours",
    "surfaces",
]

OF_OPENCV = ("nv12", "nv21", "i420", "yv12", "yuyv", "uyvy")
YUV = (*OF_OPENCV, "nv16", "nv61", "nv24", "nv42", "i422", "i444")
DEEP = ("p010", "p012", "p016", "i009", "i010", "i014", "p210", "i212", "y210", "y216", "p416", "i410", "i416")
SCALED = ("gbrp", "gbrp9", "gbrp10", "gbrp14", "gbrp16", "gray9", "gray12")
"""Formats of YUV of 8 bits and deeper, and of colours that are multiplied; not all depths, which differ by numbers."""

COLOURS = ("rgbx", "bgrx", "rgba", "bgra", "argb", "abgr")

SHARES = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722), "bt2020": (0.2627, 0.0593)}
"""Of red and of blue in brightness, as the standards have them."""


@dataclass(frozen=True)
class Surface:
    """Samples, and the memory that they were laid out in; `luma` is None for pixels of `colours` (H, W, 3)."""

    format: str
    sizes: tuple[int, int]
    memory: np.ndarray[Any, Any]
    pitches: tuple[int, ...]
    offsets: tuple[int, ...]
    luma: np.ndarray[Any, Any] | None
    blue: np.ndarray[Any, Any] | None
    red: np.ndarray[Any, Any] | None
    colours: np.ndarray[Any, Any] | None

    def frame(self, chroma: str = "repeated", **options: Any) -> sg.Frame:
        """The frame over the memory. `chroma` may be "swscale" for its arithmetic, which repeats chroma."""
        name = "arithmetic" if chroma == "swscale" else "chroma"
        return sg.Frame.over(
            self.format,
            self.memory,
            self.sizes,
            row_pitch_bytes=self.pitches,
            plane_offsets_bytes=self.offsets,
            **{name: chroma},
            **options,
        )


def depth_of(name: str) -> tuple[int, int]:
    """The bits of a format's samples, and their left shift in an element, as its name says."""
    deep = re.fullmatch(r"(gbrp|gray|i[024]|p[024]|y2)(\d+)", name)
    if deep is None or name in ("i420", "i422", "i444"):
        return 8, 0
    bits = int(deep[2])
    return bits, 16 - bits if name[0] in "py" else 0


def chroma_step(name: str) -> tuple[int, int]:
    """The rows and columns that share chroma."""
    if name in ("nv12", "nv21", "i420", "yv12") or (name[0] in "ip" and name[1] == "0"):
        return 2, 2
    if name in ("nv24", "nv42", "i444") or (name[0] in "ip" and name[1:3] in ("40", "41")):
        return 1, 1
    return 1, 2


def planes_of(name: str, samples: dict[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """The rows of each plane, written out."""
    if "pixels" in samples:
        return [samples["pixels"].reshape(len(samples["pixels"]), -1)]
    if name.startswith("gbrp"):
        return [samples["G"], samples["B"], samples["R"]]
    luma, blue, red = samples["Y"], samples["U"], samples["V"]
    if name in ("nv21", "nv61", "nv42"):
        return [luma, np.stack([red, blue], -1).reshape(len(blue), -1)]
    if name.startswith(("nv", "p")):
        return [luma, np.stack([blue, red], -1).reshape(len(blue), -1)]
    if name == "yv12":
        return [luma, red, blue]
    if name.startswith("i"):
        return [luma, blue, red]
    luma = np.pad(luma, ((0, 0), (0, luma.shape[1] % 2)), mode="edge")  # a last pair that the image cuts
    even, odd = luma[:, ::2], luma[:, 1::2]
    order = (blue, even, red, odd) if name == "uyvy" else (even, blue, odd, red)
    return [np.stack(order, -1).reshape(len(luma), -1)]


def surface(name: str, sizes: tuple[int, int], seed: int, gap: int = 0, lead: int = 0, alignment: int = 1) -> Surface:
    """A surface of random samples whose rows have `gap` elements behind them, and its planes `lead` before them.

    Pitches, and the offsets of planes without what is before them, are multiples of `alignment` bytes.
    """
    height, width = sizes
    rng = np.random.default_rng(seed)
    bits, shift = depth_of(name)
    dtype, most = (np.uint8 if bits == 8 else np.uint16), 2**bits
    down, across = chroma_step(name)

    def draw(rows: int, columns: int) -> np.ndarray[Any, Any]:
        return (rng.integers(0, most, (rows, columns)) << shift).astype(dtype)

    samples, colours = {}, None
    if name.startswith("gray"):
        samples["pixels"] = draw(height, width)
        colours = np.repeat(samples["pixels"][..., None], 3, -1)
    elif name.startswith("gbrp"):
        samples = {letter: draw(height, width) for letter in "RGB"}
        colours = np.stack(list(samples.values()), -1)
    elif name in COLOURS:
        samples["pixels"] = rng.integers(0, 256, (height, width, 4), np.uint8)
        colours = samples["pixels"][..., [name.index(letter) for letter in "rgb"]]
    else:
        samples = {
            "Y": draw(height, width),
            "U": draw(-(-height // down), -(-width // across)),
            "V": draw(-(-height // down), -(-width // across)),
        }
    planes, itemsize = planes_of(name, samples), np.dtype(dtype).itemsize
    pitches = tuple(round_up((plane.shape[1] + gap) * itemsize, alignment) for plane in planes)
    offsets, end = [], 0
    for plane, pitch in zip(planes, pitches, strict=True):
        offsets.append(round_up(end, alignment) + lead * itemsize)
        end = offsets[-1] + (len(plane) - 1) * pitch + plane.shape[1] * itemsize
    memory = rng.integers(0, 256, end, np.uint8)  # ends with the last sample
    for plane, pitch, offset in zip(planes, pitches, offsets, strict=True):
        np.ndarray(plane.shape, dtype, memory, offset, (pitch, itemsize))[:] = plane
    parts = (samples.get(name) for name in "YUV")
    return Surface(name, sizes, memory, pitches, tuple(offsets), *parts, colours)


@st.composite
def surfaces(draw: Any, names: tuple[str, ...], most: int = 40, step: int = 1) -> Surface:
    """Surfaces of these formats, of sizes that are multiples of `step`, pitches and offsets of whole elements."""
    name = draw(st.sampled_from(names))
    sizes = tuple(step * draw(st.integers(1, most // step)) for _ in range(2))
    return surface(name, sizes, draw(st.integers(0, 2**32 - 1)), draw(st.integers(0, 9)), draw(st.integers(0, 5)))


def opencv() -> Any:
    """The module, or the test is skipped."""
    return pytest.importorskip("cv2", reason="OpenCV, whose bits are compared, is not installed")


def whole_chroma(made: Surface) -> tuple[np.ndarray[Any, Any], ...]:
    """Luma, blue and red difference of each pixel."""
    (height, width), (down, across) = made.sizes, chroma_step(made.format)
    blue, red = (np.repeat(np.repeat(plane, down, 0), across, 1)[:height, :width] for plane in (made.blue, made.red))
    return made.luma, blue, red


def opencv_colours(made: Surface) -> np.ndarray[Any, Any]:
    """Red, green and blue (H, W, 3) as `cv2.cvtColor` has them.

    Of a format or size that it does not have, four pixels of NV12 stand for each, and have the chroma of its own.
    """
    cv2 = opencv()
    height, width = made.sizes
    samples = {"Y": made.luma, "U": made.blue, "V": made.red}
    if made.format not in OF_OPENCV or height % 2 or width % 2:
        luma, blue, red = whole_chroma(made)
        rows = planes_of("nv12", {"Y": np.repeat(np.repeat(luma, 2, 0), 2, 1), "U": blue, "V": red})
        return cv2.cvtColor(np.concatenate(rows), cv2.COLOR_YUV2RGB_NV12)[::2, ::2]
    rows = planes_of(made.format, samples)  # type: ignore[arg-type]
    if made.format in ("yuyv", "uyvy"):
        packed = rows[0].reshape(height, width, 2)
        return cv2.cvtColor(packed, cv2.COLOR_YUV2RGB_YUY2 if made.format == "yuyv" else cv2.COLOR_YUV2RGB_UYVY)
    joined = np.concatenate([plane.reshape(-1) for plane in rows]).reshape(height * 3 // 2, width)
    return cv2.cvtColor(joined, getattr(cv2, f"COLOR_YUV2RGB_{made.format.upper()}"))


def float_colours(made: Surface, matrix: str, *, full_range: bool, blue: Any = None, red: Any = None) -> Any:
    """Red, green and blue (H, W, 3) in float64, in units of the largest; chroma of luma's size where it is given."""
    bits, shift = depth_of(made.format)
    scale, (_, *repeated) = 2.0**-shift, whole_chroma(made)
    blue, red = (own if given is None else given for own, given in zip(repeated, (blue, red), strict=True))
    y, u, v = (np.asarray(plane, np.float64) * scale for plane in (made.luma, blue, red))
    one = 2.0 ** (bits - 8)
    if full_range:
        y, u, v = (plane / (256 * one - 1) for plane in (y, u - 128 * one, v - 128 * one))
    else:
        y = (y - 16 * one) / (219 * one)
        u, v = ((plane - 128 * one) / (224 * one) for plane in (u, v))
    kr, kb = SHARES[matrix]
    red_, blue_ = y + 2 * (1 - kr) * v, y + 2 * (1 - kb) * u
    green = (y - kr * red_ - kb * blue_) / (1 - kr - kb)
    return np.clip(np.stack([red_, green, blue_], -1), 0, 1)


@contextmanager
def converting_by(path: str) -> Iterator[None]:
    """Frames are converted this way: "NumPy", or natively on one thread or two."""
    from harness.native_loops import policy_with

    with pytest.MonkeyPatch.context() as patch, policy_with(pixels={"shared_bytes": 0}), ExitStack() as stack:
        if path == "NumPy":
            stack.enter_context(using(policy()._replace(native=False)))
        else:
            patch.setattr(threads, "_chosen", int(path.split()[1]))
        forget_launches()
        try:
            yield
        finally:
            forget_launches()
