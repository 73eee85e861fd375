"""Packed samples of raw sensors by compiled loops: two bytes of every sample, shifted and joined in registers.

    memory    a b c d e a b c d e ...     groups of bytes, loaded as they lie
    first     a b c d a b c d ...         the byte of each sample's first field, and of its second
    second    e e e e e e e e ...
    samples   first >> ... << ... | second >> ... << ...

An item of the work is one row. The last step of a row is moved back to end with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from stridedgpu.devices.cpu.native.pool import LoopCall
from stridedgpu.devices.cpu.native.raw import has_raw, raw_loop
from stridedgpu.devices.cpu.plan import CpuKernel, CpuPlan
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.interface import DirectLaunch
from stridedgpu.problems.device_plan import Width
from stridedgpu.problems.raw_problem import RawProblem
from stridedgpu.values.raw_formats import RawFormat

from .ir import Code, Value, vector_type
from .jit import loop_of


@dataclass(frozen=True, slots=True)
class RawKernel:
    """A kernel over rows of at least `groups` groups."""

    samples: RawFormat
    groups: int

    @property
    def name(self) -> str:
        """What it does, in a word."""
        return f"raw_{self.samples.name}x{self.groups * self.samples.count}"

    def text(self, name: str) -> str:
        """The module."""
        code, samples, groups = Code(), self.samples, self.groups
        pitch, target_pitch, count = code.take(3)
        with code.loop(code.first, code.last) as row:
            source = code.source + row * pitch
            target = code.target + row * target_pitch
            with code.steps(0, count, groups) as at:
                address = source + at * samples.nbytes
                loaded = address.load(vector_type(groups * samples.nbytes, "i8"))
                joined = self._field(loaded, 0) | self._field(loaded, 1)
                code.store(joined, target + at * (2 * samples.count), 2)
        return code.text(name)

    def _field(self, loaded: Value, place: int) -> Value:
        """One field of every sample, where it belongs in the sample."""
        samples = self.samples
        fields = [(group, sample[place]) for group in range(self.groups) for sample in samples.samples]
        chosen = loaded.shuffle([group * samples.nbytes + field.byte for group, field in fields])
        wide = chosen.cast("zext", "i16")
        right, mask, left = (
            loaded.code.lanes("i16", numbers)
            for numbers in zip(*((field.right, field.mask, field.left) for _, field in fields), strict=True)
        )
        return ((wide >> right) & mask) << left


def raw_kernel(problem: RawProblem) -> CpuKernel | str:
    """The compiled loops of a problem, or why it is left to NumPy."""
    samples, limits = problem.samples, policy().pixels
    groups = max(1, limits.step_bytes // 2 // samples.count)
    step = groups * samples.count
    if problem.target.layout.strides[1] != 1:
        return f"targets with steps of {problem.target.layout.strides} elements along H, W are left to NumPy"
    if problem.is_empty or problem.groups < groups:
        return f"rows of less than {step} samples are left to NumPy"
    kernel = RawKernel(samples, groups)
    return CpuKernel(
        kernel.name,
        f"rows in steps of {step} samples, shifted and joined in registers",
        Width(groups * samples.nbytes),
        Width(2 * step),
        items=problem.target.layout.sizes[0],
        shared_bytes=limits.shared_bytes,
        calls=(kernel,),
        is_native=has_raw(kernel),
    )


def compiled_raw(plan: CpuPlan[RawProblem]) -> DirectLaunch | None:
    """A plan's samples by a compiled loop; None where the problem is left to NumPy."""
    chosen, problem = plan.compiled, plan.problem
    if chosen is None:
        return None
    kernel, level, layout = chosen.calls[0], policy().native_level, problem.target.layout
    if level is not None and has_raw(kernel):
        call = raw_loop(problem, kernel, level)
    else:
        fields, offsets = (problem.pitch, 2 * layout.strides[0], problem.groups), (0, 2 * layout.offset)
        call = LoopCall.of(loop_of(kernel), fields, chosen.items, offsets)
    return call.launch(plan.bytes_moved, chosen.shared_bytes)
