"""`CpuPlan`: the plan of an operation on the CPU, as a value, and its launch: NumPy's loops, compiled ones, or both."""

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

from .compiled.compiler import LoopError
from .compiled.jit import why_unavailable
from .policy import policy
from .promotion import Promotion, compiled_from
from .thread_count import get_num_threads

_NUMPY_DECIDES: Final = "NumPy's own loops decide how many at once"
"""The reason given for NumPy's unknown access widths."""


@dataclass(frozen=True, slots=True)
class CpuKernel:
    """Loops on the CPU, with all that decides how they run.

    `load` and `store` are the widths of one access. `tile` is the box that one step moves, along the problem's loops.
    `items` are what threads share, in calls that move `shared_bytes` or more (None: one thread does it all). `calls`
    are the compiled loops with their extents, none on NumPy.
    """

    name: str
    words: str
    load: Width
    store: Width
    tile: tuple[int, ...] = ()
    items: int = 1
    shared_bytes: int | None = None
    calls: tuple[Any, ...] = ()
    is_native: bool = False
    """Whether the native library has all the loops: then nothing is compiled."""

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

    `numpy` plans NumPy's loops for a problem; `run_numpy` takes the problem before its operands. `compiled` plans the
    compiled loops; it returns None, or the reason in words, where a problem is left to NumPy. `run_compiled` takes a
    plan, and returns None where this processor cannot run it. Both ways take so many `arguments`: those of the launch
    without the stream. With `prepares`, `run_numpy` takes the problem alone and returns loops that are prepared once.
    With `by_address`, compiled loops take one address in place of each buffer and its start. `at_once` is the name, in
    the policy's `promotion`, of the bytes from which on work begins on compiled loops. `tells_why`: plans say why there
    are none. `has_native`: the native library has some of the loops, which then run from the first call on.
    """

    numpy: str
    run_numpy: str
    compiled: str
    run_compiled: str
    arguments: int = 3
    prepares: bool = False
    by_address: bool = False
    at_once: str = "at_once_bytes"
    tells_why: bool = True
    has_native: bool = False

    def numpy_loops(self) -> Callable[[Problem], Callable[..., Any]]:
        """What makes NumPy's loops of a problem.

        Those of relayouts and gathers are imported at once: a small call after a warm-up of large ones begins on them.
        """
        if self.prepares:
            return _function(self.run_numpy)
        return lambda problem: partial(_function(self.run_numpy), problem)

    def compiled_loops(self, plan: CpuPlan[Problem]) -> Callable[..., Any] | None:
        """The compiled loops of a plan; None where this processor cannot run them."""
        loops: Callable[..., Any] | None = _function(self.run_compiled)(plan)
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
            "compiled.relayout.relayout_kernel",
            "compiled.relayout.compiled_relayout",
            arguments=4,
            prepares=True,
            by_address=True,
            tells_why=False,
            has_native=True,
        ),
        "GatherProblem": CpuOperation(
            "numpy_loops.gather.numpy_gather_kernel",
            "gather.checked_numpy_loops",
            "compiled.gather.gather_kernel",
            "gather.checked_compiled_loops",
            arguments=6,
            prepares=True,
            by_address=True,
            tells_why=False,
            has_native=True,
        ),
        "CropProblem": CpuOperation(
            "numpy_loops.crops.numpy_crops_kernel",
            "numpy_loops.crops.run_crops",
            "compiled.crops.crops_kernel",
            "compiled.crops.compiled_crops",
            tells_why=False,
            has_native=True,
        ),
        "ChannelMatrixProblem": CpuOperation(
            "numpy_loops.channel_matrix.numpy_channel_matrix_kernel",
            "numpy_loops.channel_matrix.mix_channels",
            "compiled.channel_matrix.channel_matrix_kernel",
            "compiled.channel_matrix.compiled_channel_matrix",
            arguments=4,
            by_address=True,
            has_native=True,
        ),
        "ResizeProblem": CpuOperation(
            "numpy_loops.resize.numpy_resize_kernel",
            "numpy_loops.resize.resize_located",
            "native.resize.resize_kernel",
            "native.resize.resize_move",
            at_once="resize_bytes",
            has_native=True,
        ),
        "FrameProblem": CpuOperation(
            "numpy_loops.frames.numpy_frames_kernel",
            "numpy_loops.frames.frame_loops",
            "compiled.frames.frames_kernel",
            "compiled.frames.compiled_frames",
            at_once="frame_bytes",
            has_native=True,
        ),
        "SamplesProblem": CpuOperation(
            "numpy_loops.frames.numpy_samples_kernel",
            "numpy_loops.frames.write_samples",
            "compiled.frame_encode.samples_kernel",
            "compiled.frame_encode.compiled_samples",
            arguments=2,
            at_once="frame_bytes",
            has_native=True,
        ),
        "RawProblem": CpuOperation(
            "numpy_loops.raw.numpy_raw_kernel",
            "numpy_loops.raw.unpack_samples",
            "compiled.raw.raw_kernel",
            "compiled.raw.compiled_raw",
            arguments=4,
            by_address=True,
            at_once="frame_bytes",
            has_native=True,
        ),
    }
)
"""The operations, by the name of the problem's type."""


@dataclass(frozen=True, slots=True)
class CpuPlan(Generic[P_co]):
    """The plan of a problem on this CPU.

    Calls from number `compiled_from` on run compiled loops: 1 for all calls, None for none. The compiled loops are
    planned on first access, because that loads the compiler. `shared`: it was planned for several threads, which write
    more into the caches than one does.
    """

    problem: P_co
    compiled_from: int | None
    shared: bool
    _kernels: list[CpuKernel | str | None] = field(default_factory=list, init=False, repr=False, compare=False)

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
    def compiled(self) -> CpuKernel | None:
        """The compiled loops; None where there are none."""
        if self.compiled_from is None:
            return None
        if not self._kernels:
            self._kernels.append(_function(self.operation.compiled)(self.problem))
        kernel = self._kernels[0]
        return None if isinstance(kernel, str) else kernel

    @property
    def settled(self) -> CpuKernel:
        """The loops of later calls: compiled ones, or NumPy's if there are none."""
        return self.compiled or self.numpy

    @property
    def first(self) -> CpuKernel:
        """The loops of the first call."""
        return self.settled if self.compiled_from == 1 else self.numpy

    @property
    def kernel(self) -> str:
        """The name of the loops of later calls; `explain` also names those of the first calls."""
        return self.settled.name

    @property
    def load(self) -> Width:
        """The width of one load, and why it is not wider."""
        return self.settled.load

    @property
    def store(self) -> Width:
        """The width of one store, and why it is not wider."""
        return self.settled.store

    @property
    def index_bits(self) -> int:
        """Bits of the arithmetic for offsets: always 64 on the CPU."""
        return 64

    @property
    def tile(self) -> tuple[int, ...]:
        """The box that one step moves, along the problem's loops."""
        return self.settled.tile

    @property
    def shape(self) -> str:
        """The division of work."""
        return self.settled.shape(self.bytes_moved)

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, each element once."""
        return self.problem.bytes_moved

    def explain(self) -> str:
        """The plan in plain words: loops, the call that they run from, widths and their limits, tile and threads."""
        settled, first, nbytes = self.settled, self.first, self.bytes_moved
        reason = None
        if self.operation.tells_why and self.compiled is None:
            reason = why_unavailable() or next(iter(self._kernels), None)
        name = f"{settled.name} on {self.device}" + (f" ({reason})" if reason else "")
        lines = [name, *self.problem.describe(), *settled.describe(nbytes)]
        lines.append(f"{self.index_bits}-bit offsets")
        if first != settled:
            lines += [f"until call {self.compiled_from}, which loads it: {first.name}", *first.describe(nbytes)[:1]]
        return "\n  ".join(lines)


def cpu_plan(problem: P) -> CpuPlan[P]:
    """The plan of a problem: NumPy's loops, the compiled kernel if there is one, and when it takes over."""
    operation, several = _OPERATIONS[type(problem).__name__], get_num_threads() > 1
    if operation.has_native and policy().native_level is not None:
        kernel = _function(operation.compiled)(problem)
        if isinstance(kernel, CpuKernel) and kernel.is_native:
            plan = CpuPlan(problem, 1, several)
            plan._kernels.append(kernel)
            return plan
    at_once: int = getattr(policy().promotion, operation.at_once)
    return CpuPlan(problem, compiled_from(problem.bytes_moved, at_once), several)


def check_stream(stream: object) -> None:
    """Raise `DeviceError` for anything but None: the CPU has no streams."""
    if stream is not None:
        raise DeviceError(f"stream={stream!r} has no meaning on the CPU, where calls return when they are done.")


def prepared(plan: CpuPlan[Problem]) -> tuple[Launch, Promotion]:
    """The plan's launch, and the promotion that says which loops run."""
    operation, problem = plan.operation, plan.problem
    numpy_loops = operation.numpy_loops()
    moves = Promotion(plan.compiled_from, lambda: numpy_loops(problem), lambda: operation.compiled_loops(plan))
    return (_launch_by_address if operation.by_address else _launch)(moves), moves


def _launch(moves: Promotion) -> Launch:
    """The launch of loops that take the same operands, compiled or not."""

    def launch(*arguments: object) -> DirectCrops | None:
        *operands, stream = arguments
        check_stream(stream)
        direct: DirectCrops | None
        try:
            direct = (moves.work if moves.at is None else moves.chosen())(*operands)
        except LoopError:
            direct = moves.left_to_numpy()(*operands)
        return direct

    return launch


def _launch_by_address(moves: Promotion) -> Launch:
    """The launch of loops that take buffers, each with its start; compiled ones take addresses."""
    plain = moves.work

    def launch(*arguments: Any) -> DirectLaunch | None:
        *operands, stream = arguments
        check_stream(stream)
        if moves.at is not None:
            moves.chosen()
        loops = moves.loops
        if loops is None:
            plain(*operands)
            return None
        loops(*[buffer.address + start for buffer, start in zip(operands[::2], operands[1::2], strict=True)])
        return loops

    return launch
