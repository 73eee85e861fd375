"""Samples of image sensors, unpacked one group a thread (`raw.cu`): the choice of the kernel, and its launch."""

from __future__ import annotations

from dataclasses import dataclass

from stridedgpu.problems.device_plan import Width, index_bits
from stridedgpu.problems.raw_problem import RawProblem

from .choice import (
    Bound,
    KernelChoice,
    alignment_bound,
    backwards_bound,
    bounded_width,
    check_alignment,
    stride_bound,
)
from .gpu import THREADS, KernelLaunch
from .parameters import ParameterBlock, index_argument, instantiation


@dataclass(frozen=True, slots=True)
class RawChoice(KernelChoice[RawProblem]):
    """The kernel of a problem: byte loads, and stores of a group's samples, as one vector or one by one."""

    @property
    def of_vectors(self) -> bool:
        """True if a group's samples are one store."""
        return self.store.nbytes == self.problem.samples.count * self.problem.target.element.itemsize

    @property
    def kernel(self) -> str:
        """The kernel's name: the format, and the bytes of a store."""
        return f"raw_{self.problem.samples.name}_uint16x{self.store.nbytes}B"

    @property
    def summary(self) -> str:
        """What a thread does."""
        samples = self.problem.samples
        return f"a thread unpacks one group: {samples.count} samples in {samples.nbytes} bytes"


def choose_raw(problem: RawProblem, widest: int = 16) -> RawChoice:
    """The kernel on a GPU with accesses of up to `widest` bytes. Raises `LayoutError` for unaligned samples."""
    target, count = problem.target, problem.samples.count
    itemsize, (height, _), (down, right) = target.element.itemsize, target.layout.sizes, target.layout.strides
    check_alignment("target", target.element, target.alignment, advice="")
    store = Width(itemsize, "the target's columns do not lie side by side")
    if right == 1:
        bounds = [alignment_bound("target", target.alignment), Bound(count * itemsize, "a group has no more samples")]
        if height > 1:
            bounds.append(stride_bound("target", abs(down) * itemsize, widest))
        bounds += backwards_bound(target)
        store = bounded_width(bounds, itemsize, widest)
        if store.nbytes < count * itemsize:
            store = Width(itemsize, store.limit)
    span = max(target.layout.span, (height - 1) * problem.pitch + problem.groups * problem.samples.nbytes)
    return RawChoice(problem, Width(1, "groups lie at any address"), store, index_bits(span), "groups")


def raw_launch(choice: RawChoice) -> KernelLaunch:
    """The kernel, grid and parameters that carry out a choice."""
    problem, bits = choice.problem, choice.index_bits
    samples, layout = problem.samples, problem.target.layout
    items = layout.sizes[0] * problem.groups
    block = ParameterBlock(bits)
    for fields in samples.samples:
        for field in fields:
            block.add_indices(8 * field.byte + field.right, field.mask, field.left, bits=32)
    block.add_divisors(problem.groups)
    block.add_indices(problem.pitch, bits=64)
    block.add_indices(*layout.strides, layout.offset, items)
    name = instantiation(
        "unpack_raw",
        (index_argument(bits),),
        "RawPolicy",
        bytes=samples.nbytes,
        count=samples.count,
        of_vectors=choice.of_vectors,
    )
    return block.launch("raw.cu", name, -(-items // THREADS))
