"""Samples of image sensors, unpacked one group a thread (`raw.cu`): the choice of the kernel, and its launch."""

from __future__ import annotations

from stridedgpu.problems.device_plan import Width, index_bits
from stridedgpu.problems.raw_problem import RawProblem

from .choice import Bound, NamedChoice, alignment_bound, backwards_bound, bounded_width, check_alignment, stride_bound
from .gpu import THREADS, KernelLaunch
from .parameters import ParameterBlock, index_argument, instantiation


def choose_raw(problem: RawProblem, widest: int = 16) -> NamedChoice[RawProblem]:
    """The kernel on a GPU with accesses of up to `widest` bytes: byte loads, and stores of a group or of one sample.

    Raises `LayoutError` for unaligned samples.
    """
    samples, target, count = problem.samples, problem.target, problem.samples.count
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
    span = max(target.layout.span, (height - 1) * problem.pitch + problem.groups * samples.nbytes)
    return NamedChoice(
        problem,
        Width(1, "groups lie at any address"),
        store,
        index_bits(span),
        "groups",
        f"raw_{samples.name}_uint16x{store.nbytes}B",
        f"a thread unpacks one group: {count} samples in {samples.nbytes} bytes",
    )


def raw_launch(choice: NamedChoice[RawProblem]) -> KernelLaunch:
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
        of_vectors=choice.store.nbytes == samples.count * problem.target.element.itemsize,
    )
    return block.launch("raw.cu", name, -(-items // THREADS))
