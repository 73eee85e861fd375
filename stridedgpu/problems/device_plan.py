"""`DevicePlan`: the facts that every plan reports, whatever the operation and the device.

A plan is a value: it can be printed, compared, hashed and pickled. The device that made it runs it; pictures, the
benchmark's tables, `explain()` and the verbose line read it and derive nothing of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

_LARGEST_32_BIT_OFFSET: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Width:
    """The bytes of one access on one side, and what limits them ("" if nothing does)."""

    nbytes: int
    limit: str = ""


class Problem(Protocol):
    """An operation as loops: what every plan needs of it."""

    def __hash__(self) -> int:
        """Equal for equal problems."""

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to move."""

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, each element once."""

    def describe(self) -> list[str]:
        """The lines that `explain()` prints for the problem."""


P = TypeVar("P", bound=Problem)
P_co = TypeVar("P_co", bound=Problem, covariant=True)


class KernelAccess(Protocol):
    """How a kernel accesses memory: that of a plan, or one of a plan's kernels."""

    @property
    def load(self) -> Width:
        """The width of one load, and why it is not wider."""

    @property
    def store(self) -> Width:
        """The width of one store, and why it is not wider."""

    @property
    def tile(self) -> tuple[int, ...]:
        """The box that is moved at a time, as an extent along each of the problem's loops; () for no box."""


class DevicePlan(KernelAccess, Protocol):
    """One operation planned for one device: its kernel, widths and launch."""

    @property
    def problem(self) -> Problem:
        """The operation as loops: `RelayoutProblem`, `GatherProblem`, `CropProblem` or another."""

    @property
    def kernel(self) -> str:
        """The name of the kernel or loops that run: family, then element types and bytes of an access."""

    @property
    def index_bits(self) -> int:
        """Bits of the arithmetic for offsets: 32 or 64."""

    @property
    def device(self) -> str:
        """The device's name: "cpu" or "cuda:N"."""

    @property
    def shape(self) -> str:
        """How the work is divided: a grid of blocks of threads, or work items that threads share."""

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, each element once."""

    def explain(self) -> str:
        """The plan in plain words: kernel, widths and why not wider, tile, grid or threads, bytes."""


def index_bits(reach: int) -> int:
    """The bits, 32 or 64, of linear indices and offsets up to `reach`.

    >>> index_bits(2**31 - 1), index_bits(2**31)
    (32, 64)
    """
    return 32 if reach <= _LARGEST_32_BIT_OFFSET else 64


def describe_access(verb: str, width: Width) -> str:
    """One line of `explain()` about an access width.

    >>> describe_access("loads", Width(4, "rows start 12 B apart"))
    'loads 4 B (rows start 12 B apart)'
    """
    return f"{verb} {width.nbytes} B" + (f" ({width.limit})" if width.limit else "")
