"""`CudaPlan`: an operation planned for an NVIDIA GPU, as a value that holds its whole launch; and bounds of widths."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import gcd
from typing import Final, Generic, Self

from stridedgpu.problems.device_plan import P_co, Width, describe_access
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import round_up
from stridedgpu.values.tensor_spec import WIDEST_ACCESS, TensorSpec

from .gpu import LONGEST_ROW, KernelLaunch


@dataclass(frozen=True, slots=True)
class CudaPlan(ABC, Generic[P_co]):
    """The kernel of a problem on a GPU: one load, one store, each with its limit, and the bits of offsets, 32 or 64.

    `family` is its family of kernels, "empty" if there is no work. `device` is "cuda:N". `launch` names the
    instantiation, the grid, the threads of a block, the shared memory, the tile and the parameters. It is None if there
    is nothing to move, and for resizes whose windows come with every call: `windows_plan` completes their plan.

    The module of an operation chooses a kernel and lays its launch out; `cuda_plan` puts both together.
    """

    problem: P_co
    load: Width
    store: Width
    index_bits: int
    family: str
    device: str = field(default="", kw_only=True)
    launch: KernelLaunch | None = field(default=None, kw_only=True, hash=False)

    @property
    @abstractmethod
    def kernel(self) -> str:
        """The kernel's name: family, element types and the bytes of an access."""

    @property
    def summary(self) -> str:
        """What a thread does, or the family, in one line."""
        assert isinstance(self.family, KernelFamily), "other choices have words of their own"
        return self.family.description

    @property
    def accesses(self) -> list[str]:
        """The lines about widths and their limits."""
        return [describe_access("loads", self.load) + "; " + describe_access("stores", self.store)]

    def describe(self) -> list[str]:
        """The kernel in lines, as `explain` prints it."""
        return [self.summary, *self.problem.describe(), *self.accesses, f"{self.index_bits}-bit offsets"]

    @property
    def is_complete(self) -> bool:
        """Whether all that decides the launch is known."""
        return self.launch is not None or self.problem.is_empty

    @property
    def tile(self) -> tuple[int, ...]:
        """The box of loops that a block, or a group of its lanes, moves at a time; () if there is none."""
        return () if self.launch is None else self.launch.tile

    @property
    def shape(self) -> str:
        """Grid, threads of a block, and shared memory."""
        if self.launch is None:
            return "no launch" if self.is_complete else "a block for each tile of the windows of a call"
        sides = (self.launch.grid, self.launch.block)
        blocks, threads = (" x ".join(str(size) for size in sizes if size > 1) or "1" for sizes in sides)
        shared = f", {self.launch.shared_bytes} B of shared memory each" if self.launch.shared_bytes else ""
        return f"grid of {blocks} blocks of {threads} threads{shared}"

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, each element once."""
        return self.problem.bytes_moved

    def explain(self) -> str:
        """The plan in plain words: family, widths and their limits, padding, bytes, tile and grid."""
        tile = [f"tile {' x '.join(map(str, self.tile))} along the loops"] if self.tile else []
        return "\n  ".join([f"{self.kernel} on {self.device}", *self.describe(), *tile, self.shape])


@dataclass(frozen=True, slots=True)
class NamedChoice(CudaPlan[P_co]):
    """The kernel of an operation that has one: its `name`, and `words` for what a thread does."""

    name: str
    words: str

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self.name

    @property
    def summary(self) -> str:
        """What a thread does."""
        return self.words


class KernelFamily(StrEnum):
    """A kind of kernels, and its description in plain words."""

    description: str

    def __new__(cls, name: str, description: str) -> Self:
        """A family by its name."""
        family = str.__new__(cls, name)
        family._value_ = name
        family.description = description
        return family


@dataclass(frozen=True, slots=True)
class Bound:
    """A number of bytes that a vector must divide, and its reason. A cap is the planner's choice, not the data's."""

    nbytes: int
    text: str
    mend: str = ""
    is_cap: bool = False


def bounded_width(bounds: Sequence[Bound], itemsize: int, widest: int) -> Width:
    """The largest power of two from an element up to `widest` bytes that divides every bound, and its limit.

    >>> bounded_width([Bound(32, "aligned to 32"), Bound(24, "runs start 24 B apart")], 2, 16)
    Width(nbytes=8, limit='runs start 24 B apart, a multiple of 8 only')
    """
    tightest = min(bounds, key=lambda bound: bound.nbytes & -bound.nbytes)
    nbytes = max(itemsize, min(widest, gcd(widest, *(bound.nbytes for bound in bounds))))
    if nbytes >= widest:
        return Width(nbytes)
    multiple = "" if tightest.is_cap else f", a multiple of {nbytes} only"
    return Width(nbytes, f"{tightest.text}{multiple}{tightest.mend}")


def alignment_bound(side: str, alignment: int) -> Bound:
    """The bound of the first element's address."""
    return Bound(alignment, f"the {side}'s first element is known to lie at a multiple of {alignment} B")


def stride_bound(side: str, stride: int, widest: int) -> Bound:
    """The bound of the step from one run to the next."""
    return Bound(
        stride, f"the {side}'s runs start {stride} B apart", f"; pad that to {round_up(stride, widest)} for {widest}"
    )


def row_width(target: TensorSpec, outer: Iterable[int], bounds: Iterable[Bound], widest: int) -> Width:
    """The widest store to a row of the target, whose steps along the `outer` axes must be whole vectors."""
    layout, itemsize = target.layout, target.element.itemsize
    steps = (abs(layout.strides[axis]) * itemsize for axis in outer if layout.sizes[axis] > 1)
    strides = (stride_bound("target", step, widest) for step in steps)
    return bounded_width([alignment_bound("target", target.alignment), *strides, *bounds], itemsize, widest)


def backwards_bound(target: TensorSpec) -> list[Bound]:
    """The bound of a target whose first element is not its lowest; none if it is."""
    lowest = target.layout.offset * target.element.itemsize
    return [Bound(lowest & -lowest, "the target runs backwards")] if lowest else []


_ALIGNED_BY_A_COPY: Final = " See the bytes as uint8 and relayout them into an aligned tensor."


def check_alignment(name: str, element: ElementType, alignment: int, advice: str = _ALIGNED_BY_A_COPY) -> None:
    """Raise `LayoutError` for elements at addresses that are no multiples of their size, which a GPU cannot access."""
    if alignment < min(element.itemsize, WIDEST_ACCESS):
        raise LayoutError(
            f"The {name}'s {element} elements lie at multiples of {alignment} bytes only; a GPU addresses them at "
            f"multiples of {element.itemsize}.{advice}"
        )


def check_windows(layout: Layout, samples: int = 1) -> None:
    """Raise `LayoutError` for windows (N, C, H, W) without elements, and for rows that are too long for a GPU."""
    if layout.element_count == 0 or not samples:
        raise LayoutError(f"Windows of sizes {layout.sizes} have no elements; there is nothing to launch.")
    _, channels, height, width = layout.sizes
    if max(width * channels, height) > LONGEST_ROW:
        raise LayoutError(f"Windows of sizes {layout.sizes}: a GPU takes rows of up to {LONGEST_ROW} elements.")
