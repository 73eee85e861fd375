"""`CpuPlan`: the plan of an operation on the CPU, as a value, and its launch: native loops, or NumPy's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, Generic

from stridedgpu.devices.interface import DirectCrops, DirectLaunch, Launch
from stridedgpu.problems.device_plan import P, P_co, Problem, Width, describe_access
from stridedgpu.values.errors import DeviceError

from .policy import policy
from .thread_count import get_num_threads

_NUMPY_DECIDES: Final = "NumPy's own loops decide how many at once"
"""The reason given for NumPy's unknown access widths."""


@dataclass(frozen=True, slots=True)
class CpuKernel:
    """Loops on the CPU, with all that decides how they run.

    `load` and `store` are the widths of one access. `tile` is the box that one step moves, along the problem's loops.
    `items` are what threads share, in calls that move `shared_bytes` or more (None: one thread does it all). `calls`
    are the native library's loops with their extents, none on NumPy.
    """

    name: str
    words: str
    load: Width
    store: Width
    tile: tuple[int, ...] = ()
    items: int = 1
    shared_bytes: int | None = None
    calls: tuple[Any, ...] = ()

    def shape(self, nbytes: int) -> str:
        """The division of work in a call that moves `nbytes`."""
        if self.shared_bytes is None or nbytes < self.shared_bytes or self.items < 2:
            return "one thread"
        return f"{self.items} items, shared by threads"

    def describe(self, nbytes: int) -> list[str]:
        """The lines that `explain` prints."""
        tile = [f"tile {' x '.join(map(str, self.tile))} along the loops"] if self.tile else []
        accesses = describe_access("loads", self.load) + "; " + describe_access("stores", self.store)
        return [self.words, accesses, *tile, self.shape(nbytes)]


def numpy_kernel(
    name: str, words: str, load_bytes: int, store_bytes: int, tile: tuple[int, ...] = (), items: int = 1
) -> CpuKernel:
    """NumPy's loops over elements of so many bytes on either side."""
    return CpuKernel(name, words, Width(load_bytes, _NUMPY_DECIDES), Width(store_bytes, _NUMPY_DECIDES), tile, items)


@dataclass(frozen=True, slots=True)
class CpuOperation:
    """How the CPU does one type of problem: the names of functions, whose modules are imported with the first call.

    `numpy` plans NumPy's loops for a problem; `run_numpy` takes the problem before its operands. `native` plans the
    loops of the native library; it returns None, or the reason in words, where a problem is left to NumPy. `run_native`
    makes the loops of a plan that has them. With `prepares`, `run_numpy` takes the problem alone and returns loops that
    are prepared once. With `by_address`, native loops take one address in place of each buffer and its start.
    `tells_why`: plans say why there are none.
    """

    numpy: str
    run_numpy: str
    native: str
    run_native: str
    prepares: bool = False
    by_address: bool = False
    tells_why: bool = True

    def numpy_loops(self, problem: Problem) -> Callable[..., Any]:
        """NumPy's loops of a problem."""
        run = _function(self.run_numpy)
        loops: Callable[..., Any] = run(problem) if self.prepares else partial(run, problem)
        return loops


def _function(name: str) -> Callable[..., Any]:
    """A function of the CPU's packages, whose module is imported: what moves tensors imports nothing of resizes."""
    module, _, name = name.rpartition(".")
    function: Callable[..., Any] = getattr(import_module(f"{__package__}.{module}"), name)
    return function


_OPERATIONS: Final[Mapping[str, CpuOperation]] = MappingProxyType(
    {
        "RelayoutProblem": CpuOperation(
            "numpy_loops.relayout.numpy_relayout_kernel",
            "numpy_loops.relayout.relayout_loops",
            "native.relayout.relayout_kernel",
            "native.relayout.relayout_move",
            prepares=True,
            by_address=True,
            tells_why=False,
        ),
        "GatherProblem": CpuOperation(
            "numpy_loops.gather.numpy_gather_kernel",
            "gather.checked_numpy_loops",
            "native.gather.gather_kernel",
            "gather.gather_move",
            prepares=True,
            by_address=True,
            tells_why=False,
        ),
        "CropProblem": CpuOperation(
            "numpy_loops.crops.numpy_crops_kernel",
            "numpy_loops.crops.run_crops",
            "native.crops.crops_kernel",
            "native.crops.crops_move",
            tells_why=False,
        ),
        "ChannelMatrixProblem": CpuOperation(
            "numpy_loops.channel_matrix.numpy_channel_matrix_kernel",
            "numpy_loops.channel_matrix.mix_channels",
            "native.matrix.channel_matrix_kernel",
            "native.matrix.channel_matrix_move",
            by_address=True,
        ),
        "ResizeProblem": CpuOperation(
            "numpy_loops.resize.numpy_resize_kernel",
            "numpy_loops.resize.resize_located",
            "native.resize.resize_kernel",
            "native.resize.resize_move",
        ),
        "FrameProblem": CpuOperation(
            "numpy_loops.frames.numpy_frames_kernel",
            "numpy_loops.frames.frame_loops",
            "native.frames.frames_kernel",
            "native.frames.frames_move",
        ),
        "SamplesProblem": CpuOperation(
            "numpy_loops.frames.numpy_samples_kernel",
            "numpy_loops.frames.write_samples",
            "native.frames.samples_kernel",
            "native.frames.samples_move",
        ),
        "RawProblem": CpuOperation(
            "numpy_loops.raw.numpy_raw_kernel",
            "numpy_loops.raw.unpack_samples",
            "native.raw.raw_kernel",
            "native.raw.raw_move",
            by_address=True,
        ),
    }
)
"""The operations, by the name of the problem's type."""


@dataclass(frozen=True, slots=True)
class CpuPlan(Generic[P_co]):
    """The plan of a problem on this CPU.

    `native` are the native library's loops; None where NumPy does the work, for a `reason` in words. `shared`: it was
    planned for several threads, which write more into the caches than one does.
    """

    problem: P_co
    shared: bool
    native: CpuKernel | None = field(default=None, repr=False, compare=False)
    reason: str | None = field(default=None, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the problem only: the receiving process plans for its own processor."""
        return cpu_plan, (self.problem,)

    @property
    def operation(self) -> CpuOperation:
        """How problems of this type are done."""
        return _OPERATIONS[type(self.problem).__name__]

    @property
    def device(self) -> str:
        """The device's name."""
        return "cpu"

    @property
    def numpy(self) -> CpuKernel:
        """NumPy's loops."""
        kernel: CpuKernel = _function(self.operation.numpy)(self.problem)
        return kernel

    @property
    def loops(self) -> CpuKernel:
        """The loops that run."""
        return self.native or self.numpy

    @property
    def kernel(self) -> str:
        """The name of the loops."""
        return self.loops.name

    @property
    def load(self) -> Width:
        """The width of one load, and why it is not wider."""
        return self.loops.load

    @property
    def store(self) -> Width:
        """The width of one store, and why it is not wider."""
        return self.loops.store

    @property
    def index_bits(self) -> int:
        """Bits of the arithmetic for offsets: always 64 on the CPU."""
        return 64

    @property
    def tile(self) -> tuple[int, ...]:
        """The box that one step moves, along the problem's loops."""
        return self.loops.tile

    @property
    def shape(self) -> str:
        """The division of work."""
        return self.loops.shape(self.bytes_moved)

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, each element once."""
        return self.problem.bytes_moved

    def explain(self) -> str:
        """The plan in plain words: loops, widths and their limits, tile and threads."""
        loops, reason = self.loops, self.reason if self.operation.tells_why else None
        name = f"{loops.name} on {self.device}" + (f" ({reason})" if reason else "")
        lines = [name, *self.problem.describe(), *loops.describe(self.bytes_moved), f"{self.index_bits}-bit offsets"]
        return "\n  ".join(lines)


def cpu_plan(problem: P) -> CpuPlan[P]:
    """The plan of a problem: the native library's loops, or NumPy's if it has none."""
    several, reason = get_num_threads() > 1, policy().why_numpy
    planned = _function(_OPERATIONS[type(problem).__name__].native)(problem) if reason is None else reason
    if isinstance(planned, CpuKernel):
        return CpuPlan(problem, several, planned)
    return CpuPlan(problem, several, reason=planned)


def check_stream(stream: object) -> None:
    """Raise `DeviceError` for anything but None: the CPU has no streams."""
    if stream is not None:
        raise DeviceError(f"stream={stream!r} has no meaning on the CPU, where calls return when they are done.")


def prepared(plan: CpuPlan[Problem]) -> Launch:
    """The launch of a plan, whose loops are prepared."""
    operation = plan.operation
    if plan.native is None:
        return _launch(operation.numpy_loops(plan.problem))
    loops = _function(operation.run_native)(plan)
    return _launch_by_address(loops) if operation.by_address else _launch(loops)


def _launch(loops: Callable[..., DirectCrops | None]) -> Launch:
    """The launch of loops that take the operands as they are."""

    def launch(*arguments: object) -> DirectCrops | None:
        *operands, stream = arguments
        check_stream(stream)
        return loops(*operands)

    return launch


def _launch_by_address(loops: DirectLaunch) -> Launch:
    """The launch of loops that take an address in place of each buffer and its start."""

    def launch(*arguments: Any) -> DirectLaunch:
        *operands, stream = arguments
        check_stream(stream)
        loops(*[buffer.address + start for buffer, start in zip(operands[::2], operands[1::2], strict=True)])
        return loops

    return launch
