"""Frames drawn for calls: planes of any strides over one memory, and the oracle of their colours and their samples.

The oracle computes in int64, by the formulas of `colour_matrix` and `frame_problem`, and knows from a format's name
where its samples lie. Samples have any bits of their elements, also those that a format of 10 bits leaves empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness.frame_cases import COLOURS, chroma_step, depth_of

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.values.colour_matrix import STANDARDS, LumaMatrix, colour_matrix, luma_matrix
from stridedgpu.values.pixel_formats import PIXEL_FORMATS

__all__ = ["DrawnFrame", "drawn_frame"]

Array = np.ndarray[Any, Any]
Rng = np.random.Generator
Sizes = tuple[int, int]

_OF_SWSCALE = ("i420", "yv12", "i422", "i444")
_FORMATS = {
    dtype: [name for name in PIXEL_FORMATS if (depth_of(name)[0] == 8) == (dtype == "uint8")]
    for dtype in ("uint8", "uint16")
}


@dataclass(frozen=True)
class DrawnFrame:
    """A frame, or a view of one, over planes with the axes (rows, elements of a row) in one memory.

    `sizes` are those of the frame, and `view` is "", "top", "bottom", "mirrored" or an angle. `is_over`: the planes are
    described by pitches and offsets.
    """

    format: str
    dtype: str
    sizes: Sizes
    planes: tuple[Layout, ...]
    options: dict[str, Any]
    view: str
    is_over: bool

    @property
    def span(self) -> int:
        """The elements of memory up to the last one of the planes."""
        return max(plane.first_offset + plane.span for plane in self.planes)

    @property
    def shown(self) -> Sizes:
        """The height and width of the view."""
        height, width = self.sizes
        if self.view in ("top", "bottom"):
            return height // 2, width
        return (width, height) if self.view in ("90", "270") else (height, width)

    def over(self, memory: sg.StridedTensor) -> sg.Frame:
        """The view of the frame, over a tensor of one axis."""
        given: dict[str, Any] = {"sizes": self.sizes, **self.options}
        if self.is_over:
            given["row_pitch_bytes"] = [plane.strides[0] * memory.itemsize for plane in self.planes]
            given["plane_offsets_bytes"] = [plane.offset * memory.itemsize for plane in self.planes]
            frame = sg.Frame.over(self.format, memory, **given)
        else:
            planes = [memory.as_strided(plane.sizes, plane.strides, plane.offset) for plane in self.planes]
            frame = sg.Frame(self.format, planes, **given)
        if self.view in ("top", "bottom"):
            return frame.fields[self.view == "bottom"]
        if self.view == "mirrored":
            return frame.mirrored()
        return frame.rotated(int(self.view)) if self.view else frame

    def colours(self, elements: Array) -> Array:
        """Red, green and blue (3, H, W) of the view."""
        (height, width), planes = self.sizes, self._rows(elements)
        if self.view in ("top", "bottom"):
            height, planes = height // 2, [rows[self.view == "bottom" :: 2] for rows in planes]
        samples = [planes[plane][:, first::step].astype(np.int64) for plane, first, step in _places(self.format)]
        pixels = np.stack(self._pixels([samples[0][:, :width], *samples[1:]], (height, width))).astype(self.dtype)
        if self.view == "mirrored":
            return pixels[:, :, ::-1]
        return np.rot90(pixels, int(self.view) // 90 if self.view.isdecimal() else 0, (1, 2))

    def _pixels(self, samples: Sequence[Array], sizes: Sizes) -> list[Array]:
        """Red, green and blue by the integers of `ColourMatrix`."""
        names = {name: self.options[name] for name in ("full_range", "arithmetic")}
        rule = colour_matrix(self.options["matrix"], PIXEL_FORMATS[self.format], **names)
        if not _is_yuv(self.format):
            scaled = [np.minimum(sample * rule.luma + 2**19 >> 20, rule.most) for sample in samples]
            return scaled if len(scaled) == 3 else scaled * 3
        y = (np.maximum(samples[0], rule.luma_least) - rule.luma_floor) * rule.luma
        u, v = (self._upsampled(chroma, sizes) - rule.chroma_centre for chroma in samples[1:])
        products = [v * rule.red_v], [v * rule.green_v, u * rule.green_u], [u * rule.blue_u]
        if self.options["arithmetic"] == "rounded":
            sums = [y + sum(added) + 2 ** (rule.bits - 1) >> rule.bits for added in products]
        elif _step(self.format)[1] == 2:
            sums = [(y >> rule.bits) + sum(product >> rule.bits for product in added) for added in products]
        else:  # 32 bits wrap round
            sums = [(y + sum(added) + 2 ** (rule.bits - 1)).astype(np.int32) >> rule.bits for added in products]
        return [np.clip(total, 0, rule.most) for total in sums]

    def _upsampled(self, chroma: Array, sizes: Sizes) -> Array:
        """Chroma of each pixel: repeated, or by its distance from the samples beside it."""
        rows, columns, (down, across) = np.arange(sizes[0]), np.arange(sizes[1]), _step(self.format)
        if self.options["chroma"] == "repeated" or across == 1:
            return chroma[rows // down][:, columns // across]
        beside = np.clip(rows // 2 - 1 + 2 * (rows % 2), 0, len(chroma) - 1)
        sums = 3 * chroma[rows // 2] + chroma[beside] if down == 2 else 4 * chroma
        near, far = (sums[:, np.minimum(columns // 2 + ahead, sums.shape[1] - 1)] for ahead in (0, 1))
        return np.where(columns % 2, near + far + 4 >> 3, near + 2 >> 2)

    def write(self, image: Array, elements: Array) -> None:
        """Write the samples of red, green and blue (3, H, W) into the planes of the frame itself."""
        rule = luma_matrix(self.options["matrix"], PIXEL_FORMATS[self.format], full_range=self.options["full_range"])
        planes, (down, across) = self._rows(elements), _step(self.format)
        colours = image.astype(np.int64)
        for number, (place, weights) in enumerate(zip(_places(self.format), (rule.y, rule.u, rule.v), strict=False)):
            of_chroma = number and across == 2
            samples = _weighed(_joined(colours, down) if of_chroma else colours, weights, rule)
            into = planes[place[0]][:, place[1] :: place[2]]
            into[:, : samples.shape[1]] = samples
            into[:, samples.shape[1] :] = samples[:, -1:]  # of a pair that the image cuts

    def _rows(self, elements: Array) -> list[Array]:
        """The planes as views of the elements of memory."""
        return [
            np.lib.stride_tricks.as_strided(
                elements[plane.offset :], plane.sizes, [stride * elements.itemsize for stride in plane.strides]
            )
            for plane in self.planes
        ]


def _weighed(colours: Array, weights: Sequence[int], rule: LumaMatrix) -> Array:
    """One kind of sample by the integers of `LumaMatrix`."""
    *shares, added = weights
    sums = sum(colour * share for colour, share in zip(colours, shares, strict=True)) + (added << rule.bits)
    return np.clip(sums + 2 ** (rule.bits - 1) >> rule.bits, 0, rule.most) << rule.shift


def _joined(colours: Array, down: int) -> Array:
    """The pixels that give chroma: the upper left one of four, or the sum of two."""
    if down == 2:
        return colours[:, ::2, ::2]
    even, odd = colours[:, :, ::2], colours[:, :, 1::2]
    return even + np.concatenate([odd, even[:, :, odd.shape[2] :]], 2)


def _is_yuv(name: str) -> bool:
    return not name.startswith(("gray", "gbrp")) and name not in COLOURS


def _step(name: str) -> tuple[int, int]:
    """The rows and columns of pixels that share a sample other than the first."""
    return chroma_step(name) if _is_yuv(name) else (1, 1)


def _places(name: str) -> list[tuple[int, int, int]]:
    """The plane of each kind of sample, and the first one's place and the step in a row: Y, U and V, or R, G and B."""
    if name in COLOURS:
        return [(0, name.index(letter), 4) for letter in "rgb"]
    if name.startswith("gray"):
        return [(0, 0, 1)]
    if name.startswith("gbrp"):
        return [(2, 0, 1), (0, 0, 1), (1, 0, 1)]
    if name == "uyvy":
        return [(0, 1, 2), (0, 0, 4), (0, 2, 4)]
    if name.startswith("y") and name != "yv12":
        return [(0, 0, 2), (0, 1, 4), (0, 3, 4)]
    if name in ("nv21", "nv61", "nv42"):
        return [(0, 0, 1), (1, 1, 2), (1, 0, 2)]
    if name.startswith(("nv", "p")):
        return [(0, 0, 1), (1, 0, 2), (1, 1, 2)]
    return [(0, 0, 1), (2, 0, 1), (1, 0, 1)] if name == "yv12" else [(0, 0, 1), (1, 0, 1), (2, 0, 1)]


def _plane_sizes(name: str, sizes: Sizes) -> list[Sizes]:
    """The rows and the elements of a row of each plane."""
    (height, width), (down, across) = sizes, _step(name)
    places = _places(name)
    if name in COLOURS:
        return [(height, 4 * width)]
    if len(places) == 3 and places[2][0] == 0:  # packed pairs
        return [(height, -(-width // 2) * 4)]
    step = places[-1][2]
    chroma = (-(-height // down), -(-width // across) * step) if _is_yuv(name) else sizes
    return [sizes, *[chroma] * max(plane for plane, _, _ in places)]


def drawn_frame(kind: Rng, shape: Rng, dtype: str, shown: Sizes, *, is_output: bool = False) -> DrawnFrame:
    """A frame of elements of this type, whose view has these sizes; a frame to write into is no view."""
    name = str(kind.choice(_FORMATS[dtype]))
    options = {
        "matrix": str(kind.choice(list(STANDARDS))),
        "full_range": bool(kind.random() < 0.5),
        "chroma": "linear" if kind.random() < 0.4 else "repeated",
        "arithmetic": "rounded",
    }
    if name in _OF_SWSCALE and kind.random() < 0.6 and not is_output:
        options |= {"chroma": "repeated", "arithmetic": "swscale"}
    wanted, lying, orders = kind.random(), kind.random(3), kind.random(3)
    known = [(view, sizes) for view, sizes in _views(shown).items() if _is_possible(view, sizes, name, options)]
    if not known:  # an odd height, of which swscale has other pixels
        options["arithmetic"] = "rounded"
        known = [("", shown)]
    view, sizes = known[0] if is_output or wanted < 0.5 else known[int((wanted - 0.5) * 2 * len(known))]
    planes = [_plane(rows, lying, shape) for rows in _plane_sizes(name, sizes)]
    starts, end = {}, int(shape.integers(0, 3))
    for number in sorted(range(len(planes)), key=lambda number: orders[number]):
        starts[number] = end
        end += planes[number].span + int(shape.integers(0, 5))
    placed = tuple(plane.shifted(starts[number] - plane.first_offset) for number, plane in enumerate(planes))
    return DrawnFrame(name, dtype, sizes, placed, options, view, bool(lying[0] < 0.4 and orders[0] < 0.7))


def _plane(sizes: Sizes, lying: Array, shape: Rng) -> Layout:
    """A plane with a pitch; of some, rows lie upwards, columns lie apart or backwards, or both axes are exchanged."""
    (rows, columns), gap = sizes, int(shape.integers(0, 9))
    if lying[0] < 0.4:
        return Layout(sizes, (columns + gap, 1))
    if lying[0] < 0.7:
        return Layout(sizes, (-columns - gap, 1))
    step = 2 if lying[1] < 0.5 else 1
    strides = (step, (rows * step) + gap) if lying[2] < 0.5 else (columns * step + gap, step)
    return Layout(sizes, (strides[0], -strides[1]) if lying[1] < 0.7 else strides)


def _views(shown: Sizes) -> dict[str, Sizes]:
    """The sizes of the frame of which each view has these."""
    height, width = shown
    doubled, turned = (2 * height, width), (width, height)
    same = dict.fromkeys(("", "mirrored", "180"), shown)
    return {**same, "top": doubled, "bottom": doubled, "90": turned, "270": turned}


def _is_possible(view: str, sizes: Sizes, name: str, options: dict[str, Any]) -> bool:
    """Whether a frame of these sizes has the view, as `docs/video.md` says, and its arithmetic is known."""
    (height, width), (down, across) = sizes, _step(name)
    if options["arithmetic"] == "swscale" and across == 2 and height % 2:
        return False
    if view in ("top", "bottom"):
        return height % (2 * down) == 0
    if not view:
        return True
    is_packed = _is_yuv(name) and len(_plane_sizes(name, sizes)) == 1
    if is_packed or (across == 2 and options["chroma"] == "linear") or (view in ("90", "270") and down != across):
        return False
    begins_last = {"mirrored": (1, across), "180": (down, across), "90": (1, across), "270": (down, 1)}[view]
    return height % begins_last[0] == 0 == width % begins_last[1]
