"""`Plan`: how a relayout will be done, as a value that can be compared, cached and explained."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from stridedgpu.planning.device_plan import index_bits
from stridedgpu.planning.relayout_problem import Problem, relayout_problem
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.tensor_spec import TensorSpec

from .families import Family, choose_family
from .kernel_families import kernel_family
from .shifted_rows import shifted_widths
from .widths import Width, width_of

__all__ = ["Plan", "plan_problem", "plan_relayout"]


@dataclass(frozen=True, slots=True)
class Plan:
    """A relayout, planned: the loops, the family of kernels that walks them, and how wide.

    `load` and `store` are the widths of one access on each side, in bytes, with what limits them; `index_bits` is
    32 or 64. `shifts` says that rows begin anywhere in their words, and words are shifted into place.
    """

    problem: Problem
    device: str
    family: Family
    load: Width
    store: Width
    index_bits: int
    shifts: bool = False

    def __hash__(self) -> int:
        """Equal for equal plans, from what tells them apart most often: every call looks its launch up by one."""
        problem = self.problem
        return hash((self.device, problem.sizes, problem.target_strides, problem.source_strides, problem.conversion))

    @property
    def kernel(self) -> str:
        """The kernel's name: family, then what is read and what is written, with the bytes of an access."""
        source, target = self.problem.source.element, self.problem.target.element
        return f"{self.family}_{source}x{self.load.nbytes}B_{target}x{self.store.nbytes}B"

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, each element once."""
        return self.problem.bytes_moved

    def explain(self) -> str:
        """The plan in plain words: which family, how wide and why not wider, padding, bytes."""
        problem = self.problem
        lines = [
            f"{self.kernel} on {self.device}",
            f"  {self.family.description}",
            f"  loops {problem.sizes}",
            f"  writes {problem.target.element} in steps of {problem.target_strides} elements",
            f"  reads {problem.source.element} in steps of {problem.source_strides} elements",
            *([f"  zeros behind each run of {problem.sizes[-1]}: {problem.filler}"] if problem.filler else []),
            f"  {problem.conversion}" + ("" if not problem.conversion.moves_bits else ": bits move unchanged"),
            "  " + self._width_line("loads", self.load) + "; " + self._width_line("stores", self.store),
            *(["  rows begin anywhere in their vectors: words are shifted into place"] if self.shifts else []),
            f"  {self.index_bits}-bit indices",
            "  padding of the target is ours and may be written"
            if problem.target.owns_padding
            else "  nothing between the target's elements is written",
            f"  {self.bytes_moved} bytes must move: {self._read_bytes} read, {self._written_bytes} written",
        ]
        return "\n".join(lines)

    @property
    def _written_bytes(self) -> int:
        return self.problem.written_count * self.problem.target.element.itemsize

    @property
    def _read_bytes(self) -> int:
        return self.bytes_moved - self._written_bytes

    @staticmethod
    def _width_line(verb: str, width: Width) -> str:
        return f"{verb} {width.nbytes} B" + (f" ({width.limit})" if width.limit else "")


@lru_cache(maxsize=4096)
def plan_relayout(
    source: TensorSpec,
    target: TensorSpec,
    conversion: Conversion,
    channel_axis: int | None,
    device: str,
    widest: int = 16,
    filler: int = 0,
) -> Plan:
    """The plan that moves `source` into `target`; `widest` is the largest access of the device, in bytes.

    `filler` is how many zeros the target has room for behind the channels of each pixel.
    """
    return plan_problem(relayout_problem(source, target, conversion, channel_axis, filler), device, widest)


def plan_problem(problem: Problem, device: str, widest: int = 16) -> Plan:
    """The plan of a problem that is already reduced to its loops."""
    family = kernel_family(problem, choose_family(problem))
    reach = max(
        problem.written_count,
        _reach(problem.written_sizes, problem.target_strides),
        _reach(problem.source_extents, problem.source_strides),
    )
    load, store = width_of(problem, family, "source", widest), width_of(problem, family, "target", widest)
    shifted = shifted_widths(problem, family, load, store, widest)
    return Plan(
        problem,
        device,
        family,
        *(shifted or (load, store)),
        index_bits(reach),
        shifted is not None,
    )


def _reach(sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The largest distance, in elements, from the element that is visited first."""
    return sum((size - 1) * abs(stride) for size, stride in zip(sizes, strides, strict=True) if size)
