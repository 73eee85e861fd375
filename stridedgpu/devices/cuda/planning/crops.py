"""`CropChoice`: which CUDA kernel writes windows of images into a batch, and how wide."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from stridedgpu.planning.crop_windows import CropProblem
from stridedgpu.planning.device_plan import Width, in_words, index_bits
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .policy import policy
from .widths import Bound, alignment_bound, bounded_width, stride_bound

__all__ = ["CropChoice", "CropFamily", "choose_crops"]

_WORD: Final = 4
"""Bytes of the loads of an unaligned source run."""


class CropFamily(StrEnum):
    """Kinds of crops, by the contiguity of both sides."""

    PLANES = "planes"
    RUNS = "runs"
    SPLIT = "split"
    PIXELS = "pixels"

    @property
    def description(self) -> str:
        """The family in plain words."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS: Final = {
    CropFamily.PLANES: "planes: a store takes neighbouring columns of one channel",
    CropFamily.RUNS: "runs: a store takes neighbouring elements of pixels with all their channels",
    CropFamily.SPLIT: "split: pixels are read whole, once, and stored as neighbouring columns of each channel",
    CropFamily.PIXELS: "pixels: pixels are read whole, once, and stored whole",
}


_ELEMENT_BY_ELEMENT: Final = {CropFamily.SPLIT: CropFamily.PLANES, CropFamily.PIXELS: CropFamily.RUNS}
"""The replacement of families whose vectors of pixels are not whole words."""


@dataclass(frozen=True, slots=True)
class CropChoice:
    """The kernel that writes a problem's windows, and its access widths.

    `load` is the width of an aligned load. The columns of a window start anywhere, so each row checks its alignment
    and otherwise loads words of 4 bytes, which are funnel-shifted. With `reads_runs`, the elements of a store
    are consecutive in the sources, too.
    """

    problem: CropProblem
    family: CropFamily
    load: Width
    store: Width
    reads_runs: bool
    index_bits: int

    @property
    def kernel(self) -> str:
        """The kernel's name: family, then type and bytes of a load and of a store."""
        made = self.problem.conversion
        return f"crops_{self.family}_{made.source}x{self.load.nbytes}B_{made.target}x{self.store.nbytes}B"

    def in_words(self) -> list[str]:
        """The kernel in lines, as plans explain it."""
        accesses = [in_words("loads", self.load), in_words("stores", self.store)]
        return [self.family.description, *self.problem.in_words(), *accesses, f"{self.index_bits}-bit offsets"]


def choose_crops(problem: CropProblem, widest: int = 16) -> CropChoice:
    """The kernel for a problem; `widest` is the largest access of the device, in bytes."""
    target, conversion, source_steps = problem.target, problem.conversion, problem.source_steps
    layout, itemsize = target.layout, conversion.source.itemsize
    family = _family(layout, source_steps, conversion, problem.source_channels)
    whole = family in (CropFamily.SPLIT, CropFamily.PIXELS)
    pixel_bytes = itemsize * source_steps[1] if whole else itemsize
    store = _store_width(target, family, pixel_bytes, widest)
    length = store.nbytes // conversion.target.itemsize
    run = length * pixel_bytes
    follows = _follows(family, layout, source_steps, conversion)
    reads_runs = follows and run % max(itemsize, _WORD) == 0
    if reads_runs:
        width = min(run & -run, widest)
        load = Width(width, "" if width == widest else f"what one store takes are {run} B of a source")
    else:
        short = f"what one store takes are {run} B of a source, less than a word"
        reason = short if follows else "the sources' elements do not lie in the target's order"
        load = Width(min(itemsize, widest), reason)
        family = _ELEMENT_BY_ELEMENT.get(family, family)
    bits = index_bits(layout.span)
    return CropChoice(problem, family, load, store, reads_runs, bits)


def _family(target: Layout, source_steps: tuple[int, int], conversion: Conversion, source_channels: int) -> CropFamily:
    """The family of crops, by the contiguity of both sides."""
    _, count, _, width = target.sizes
    channel, pitch = source_steps
    chosen = tuple(conversion.channels or range(source_channels))
    most = policy().crops.most_pitch
    whole = channel == 1 and max(source_channels, 2) <= pitch <= most
    if target.strides[3] == count > 1 and target.strides[1] == 1:
        return CropFamily.PIXELS if whole and count <= most else CropFamily.RUNS
    splits = whole and len(set(chosen)) == len(chosen) and (target.strides[3] == 1 or width == 1)
    return CropFamily.SPLIT if splits else CropFamily.PLANES


def _follows(family: CropFamily, target: Layout, source_steps: tuple[int, int], conversion: Conversion) -> bool:
    """True if the elements of a target vector are consecutive in the sources."""
    if family is CropFamily.RUNS:
        return source_steps == (1, target.sizes[1]) and conversion.channels is None
    if family is CropFamily.PLANES:
        return source_steps[1] == 1 and (target.strides[3] == 1 or target.sizes[3] == 1)
    return True


def _store_width(target: TensorSpec, family: CropFamily, pixel_bytes: int, widest: int) -> Width:
    """The widest store to a row of the target: its run, strides and alignment must be whole vectors.

    `pixel_bytes` is the number of source bytes read for one element of an interleaved store.
    """
    layout, itemsize = target.layout, target.element.itemsize
    channels, _, width = layout.sizes[1:]
    pixels_run = family in (CropFamily.RUNS, CropFamily.PIXELS)
    if not pixels_run and layout.strides[3] != 1 and width != 1:
        return Width(min(itemsize, widest), "the target's columns do not lie side by side")
    outer = (0, 2) if pixels_run else (0, 1, 2)
    run = (channels if pixels_run else 1) * width * itemsize
    lowest = layout.offset
    limits = policy().crops
    longest = limits.pixels_bytes if family in (CropFamily.SPLIT, CropFamily.PIXELS) else limits.run_bytes
    most = longest // pixel_bytes
    bounds = [
        alignment_bound("target", target.alignment),
        *(
            stride_bound("target", abs(layout.strides[axis]) * itemsize, widest)
            for axis in outer
            if layout.sizes[axis] > 1
        ),
        Bound((1 << most.bit_length() - 1) * itemsize, f"a thread holds up to {longest} B of a source"),
    ]
    if lowest:
        bounds.append(Bound(lowest * itemsize & -(lowest * itemsize), "the target runs backwards"))
    if run < policy().family.peeled_run_bytes and not target.owns_padding:
        bounds.append(Bound(run & -run, f"a run of the target is {run} B long and what follows is not ours"))
    return bounded_width(bounds, itemsize, widest)
