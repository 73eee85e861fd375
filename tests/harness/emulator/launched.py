"""What kernels of every operation have to pass: the CPU's bytes in all thread orders, machine code as planned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from stridedgpu.devices.cuda.gpu import KernelLaunch
from stridedgpu.devices.cuda.sources import joined_source

from . import machine_code
from .planned import Case
from .runner import ORDERS, Job, Program

__all__ = ["check_launches", "check_widths", "instructions_per_byte", "unspilled"]


class Inspected(Protocol):
    """A problem's choice, and its launch."""

    @property
    def choice(self) -> Any:
        """What was chosen, with the widths `load` and `store`."""

    @property
    def launch(self) -> KernelLaunch:
        """The launch, of several the first."""


class Launched(Inspected, Protocol):
    """A launch with its memory, and the bytes that one of its buffers has to have afterwards."""

    @property
    def expected(self) -> bytes:
        """The bytes as the CPU makes them."""

    def job(self, order: Any) -> Job:
        """The launch for the emulator, in an order of its threads."""


def check_launches(cases: Sequence[Launched], wrapper: str = "") -> None:
    """Run the cases in all thread orders; not a byte beside the target's elements is written.

    A `wrapper` is source text behind the kernel's, which declares what the jobs run.
    """
    for sources in sorted({case.launch.sources for case in cases}):
        jobs = [(case, order) for case in cases if case.launch.sources == sources for order in ORDERS]
        made = [case.job(order) for case, order in jobs]
        program = Program.compile(joined_source(*sources) + wrapper, sorted({job.kernel for job in made}))
        for (case, order), written in zip(jobs, program.run(made), strict=True):
            assert case.expected in written, f"{order}: {case}\n{case.choice}"


def unspilled(launches: Iterable[KernelLaunch], architecture: str) -> dict[str, machine_code.KernelCode]:
    """The machine code of each launch's kernel, by name; nothing is in local memory, and nothing flushed to zero."""
    named: dict[tuple[str, ...], set[str]] = {}
    for launch in launches:
        named.setdefault(launch.sources, set()).add(launch.name)
    found: dict[str, machine_code.KernelCode] = {}
    for sources, names in named.items():
        found |= machine_code.compile_kernels(joined_source(*sources), sorted(names), architecture)
    for name, code in found.items():
        assert (code.local_accesses, code.stack_bytes, code.flushing) == (0, 0, []), name
    return found


def check_widths(cases: Iterable[Inspected], architecture: str) -> None:
    """Compile the cases' kernels: nothing spilled, and accesses as wide as chosen."""
    listed = list(cases)
    code = unspilled([case.launch for case in listed], architecture)
    for case in listed:
        made = code[case.launch.name]
        assert made.loads[8 * case.choice.load.nbytes], (case.launch.name, made.loads)
        assert made.stores[8 * case.choice.store.nbytes], (case.launch.name, made.stores)


def instructions_per_byte(one: Case) -> float:
    """The instructions of a relayout's kernel, on all of its paths, for each byte that a thread moves."""
    code = machine_code.compile_kernels(joined_source(*one.launch.sources), [one.launch.name], "sm_90")
    moved = one.plan.problem.bytes_moved / (one.launch.grid[0] * one.launch.block[0])
    return code[one.launch.name].instructions / moved
