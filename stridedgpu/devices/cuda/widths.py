"""The bytes of one load or store, and the reason why they are not more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from stridedgpu.planning.device_plan import Width
from stridedgpu.values.strides import round_up


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
