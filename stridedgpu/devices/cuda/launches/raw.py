"""Launches that unpack raw samples (`kernels/raw/raw.cu`)."""

from __future__ import annotations

from stridedgpu.devices.cuda.planning.gpu import KernelLaunch, divisor_words
from stridedgpu.devices.cuda.planning.raw import RawChoice

from .instantiation import instantiation
from .parameters import ParameterBlock, index_argument

__all__ = ["raw_launch"]


def raw_launch(choice: RawChoice) -> KernelLaunch:
    """The kernel, grid and parameters that carry out a choice."""
    problem, bits = choice.problem, choice.index_bits
    samples, layout = problem.samples, problem.target.layout
    (height, _), (down, right) = layout.sizes, layout.strides
    items = height * problem.groups
    block = ParameterBlock()
    for fields in samples.samples:
        for field in fields:
            for number in (8 * field.byte + field.right, field.mask, field.left):
                block.add_index(number, 32)
    for word in divisor_words(problem.groups, bits):
        block.add_index(word, bits)
    block.add_index(problem.pitch, 64)
    for value in (down, right, layout.offset, items):
        block.add_index(value, bits)
    name = instantiation(
        "unpack_raw",
        (index_argument(bits),),
        "RawPolicy",
        bytes=samples.nbytes,
        count=samples.count,
        of_vectors=choice.of_vectors,
    )
    return block.launch_of("raw.cu", name, items)
