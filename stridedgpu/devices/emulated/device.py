"""`EmulatedDevice`: what a CUDA device takes, refuses and orders, done by the CPU's loops when somebody waits."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.device import CpuDevice
from stridedgpu.devices.cpu.plan import CpuPlan
from stridedgpu.devices.cuda.choice import CudaPlan
from stridedgpu.devices.cuda.gpu import REFERENCE_GPU
from stridedgpu.devices.cuda.plan import GpuPlanner
from stridedgpu.devices.cuda.policy import policy
from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.interface import EMULATED, EvenlyLocated, Launch, Located, LocatedOperands
from stridedgpu.devices.launch_cache import CachedLaunches
from stridedgpu.devices.operand import Operand
from stridedgpu.problems.crop_windows import Crops
from stridedgpu.problems.device_plan import DevicePlan, Problem
from stridedgpu.problems.gather_problem import GatherProblem
from stridedgpu.problems.index_rule import IndexRule
from stridedgpu.problems.pitched_copy import Runs
from stridedgpu.values.errors import DeviceError

from .memory import Pages, host_alias, live_bytes, opened
from .streams import Stream, finish_everything, stream_of

_PENDING_BYTES: Final = 256 * 1024 * 1024
"""Bytes of live memory from which on an allocation carries out what waits, since waiting work keeps its memory. Not
measured."""

_STAGING_ALIGNMENT: Final = 64
"""Bytes: a cache line."""


def _of_the_loops(name: str) -> Any:
    """What a plan's loops say."""
    return property(lambda plan: getattr(plan.loops, name))


@dataclass(frozen=True, slots=True)
class EmulatedPlan:
    """A plan of the CPU's loops, which run, and the kernel that a GPU would run in their place.

    Kernel, widths, tile and threads are those of the loops.
    """

    loops: CpuPlan[Problem]
    on_gpu: CudaPlan[Problem]

    device = EMULATED
    problem = property(lambda plan: plan.on_gpu.problem)
    kernel, load, store, index_bits, tile, shape, bytes_moved = map(
        _of_the_loops, ("kernel", "load", "store", "index_bits", "tile", "shape", "bytes_moved")
    )

    def explain(self) -> str:
        """The loops of the CPU, when they run, and the kernel of a GPU."""
        gpu = self.on_gpu
        widths = f"loads {gpu.load.nbytes} B, stores {gpu.store.nbytes} B"
        return "\n  ".join(
            [
                f"{self.kernel} on {self.device}: loops of the CPU, run when somebody waits for them",
                *(line.strip() for line in self.loops.explain().splitlines()[1:]),
                f"a GPU such as {REFERENCE_GPU.name} would run {gpu.kernel}: {widths}",
            ]
        )


class EmulatedDevice(CachedLaunches):
    """The device "cuda-emulated", for tests of programs on machines without a GPU."""

    name = EMULATED
    mixes_windows = False

    def __init__(self) -> None:
        self._cpu = CpuDevice()
        self._gpu = GpuPlanner(EMULATED)
        self._wrong_index: IndexError | None = None

    @property
    def widest_access(self) -> int:
        """Bytes of the widest single load or store of the GPU that is emulated."""
        return self._gpu.widest_access

    def plan(self, problem: Problem) -> EmulatedPlan:
        """The plan of the CPU's loops. Raises what a GPU's planner raises for the problems that it refuses."""
        return EmulatedPlan(self._cpu.plan(problem), self._gpu.plan(problem))

    def prepare(self, plan: DevicePlan) -> Launch:
        """A launch that checks its stream and its addresses at once, and runs when somebody waits."""
        assert isinstance(plan, EmulatedPlan), "made by this device"
        problem = plan.problem
        mode = problem.mode if isinstance(problem, GatherProblem) and problem.refuses_indices else None
        loops = self._cpu.prepare(plan.loops)
        if mode == "deferred":
            loops = self._deferred(loops)

        def launch(*arguments: Any) -> None:
            *operands, stream = arguments
            here = stream_of(stream)
            self._submit(here, lambda *seen: loops(*seen, None), *operands)
            if mode == "raise":
                here.synchronize()

        return launch

    def _deferred(self, loops: Launch) -> Launch:
        """A gather that keeps the error of a wrong index until somebody waits; it then writes nothing."""

        def launch(*arguments: Any) -> None:
            try:
                loops(*arguments)
            except IndexError as error:
                self._wrong_index = self._wrong_index or error

        return launch

    def _submit(self, stream: Stream, work: Callable[..., object], *arguments: Any) -> None:
        """Queue work on aliases of its arguments."""
        used: set[Pages] = set()
        seen = [_alias(argument, used) for argument in arguments]

        def run() -> None:
            with opened(used):
                work(*seen)

        stream.submit(run)

    def allocate(self, nbytes: int, alignment: int, stream: object = None) -> Buffer:
        """New bytes of poison for work on `stream`. Raises `DeviceError` if the memory is unavailable."""
        stream_of(stream)
        if live_bytes() > _PENDING_BYTES:
            finish_everything()
        pages = Pages(nbytes + alignment)
        start = pages.address + -pages.address % alignment
        return Buffer(start, nbytes, owner=pages, device=EMULATED, alignment=alignment, owned=True)

    def allocate_staging(self, nbytes: int) -> Buffer:
        """Bytes on the CPU."""
        return self._cpu.allocate(nbytes, _STAGING_ALIGNMENT)

    @property
    def upload_bytes(self) -> int:
        """As many as a GPU's ring has in a piece, though copies are waited for here."""
        return policy().memory.upload_bytes

    def staging(self, nbytes: int) -> AbstractContextManager[Buffer]:
        """Bytes on the CPU."""
        return nullcontext(self.allocate_staging(nbytes))

    def uploaded(self, contents: bytes) -> Buffer:
        """Constants in this device's memory."""
        buffer = self.allocate(len(contents), _STAGING_ALIGNMENT)
        self.copy(Buffer.of(contents), 0, buffer, 0, Runs(len(contents)), None)
        return buffer

    def check_indices(self, rule: IndexRule, indices: Located, stream: object) -> None:
        """Wait for the stream and check every index."""
        if rule.index.layout.span != 0:
            here = stream_of(stream)
            self._submit(here, lambda seen: self._cpu.check_indices(rule, seen, None), indices)
            here.synchronize()

    def copy(
        self, source: Buffer, source_start: int, target: Buffer, target_start: int, runs: Runs, stream: object
    ) -> None:
        """Copy runs between this device and the CPU in the order of the stream, and wait for that stream alone."""
        others = {source.device, target.device} - {"cpu", EMULATED}
        if others:
            raise DeviceError(f"{EMULATED} and {others.pop()} share no bus; go through the CPU with to_device('cpu').")

        def move(read: Buffer, written: Buffer) -> None:
            for source_place, target_place in runs.places:
                start = read.address + source_start + source_place
                end = written.address + target_start + target_place
                for row in range(runs.height):
                    ctypes.memmove(end + row * runs.target_pitch, start + row * runs.source_pitch, runs.width)

        here = stream_of(stream)
        self._submit(here, move, source, target)
        here.synchronize()
        if target.device == "cpu":
            self._raise_wrong_index()

    def synchronize(self) -> None:
        """Carry out the work of every stream, and raise its errors."""
        finish_everything()
        self._raise_wrong_index()

    def _raise_wrong_index(self) -> None:
        """Raise the first wrong index of gathers in mode "deferred"."""
        error, self._wrong_index = self._wrong_index, None
        if error is not None:
            raise error


def _alias(argument: Any, used: set[Pages]) -> Any:
    """An argument of a launch with memory that the CPU's loops can access; what the caller may change is copied."""
    if isinstance(argument, Buffer):
        return argument if argument.device == "cpu" else host_alias(argument, used)
    if isinstance(argument, Operand):
        return Operand(_alias(argument.buffer, used), argument.layout, argument.element, argument.owns_padding)
    if isinstance(argument, FrameOperand):
        return replace(argument, planes=_alias(argument.planes, used))
    if isinstance(argument, EvenlyLocated):
        return EvenlyLocated(_alias(argument.buffer, used), argument.start, argument.step, argument.number)
    if isinstance(argument, LocatedOperands):
        return [_alias(located, used) for located in argument]
    if isinstance(argument, Crops):
        return replace(argument, origins=argument.origins.copy())
    if type(argument) in (list, tuple):
        return type(argument)(_alias(part, used) for part in argument)
    return argument
