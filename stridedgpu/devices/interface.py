"""`Device`: the one protocol between operations and the modules that compute.

`device.launch_for(problem)` is every operation on every device: `device.prepare(device.plan(problem))`, cached by
`launch_cache`. A device has one table from the type of a problem to its planner and its runner, so a new operation is
one line in each table. The arguments of a prepared launch depend on the type of the problem alone, as the overloads of
`launch_for` state: those of relayouts, gathers and scatters take buffers where they are prepared (`RelayoutLaunch`,
`GatherLaunch`), and operands where they are looked up (`MoveLaunch`, `IndexedLaunch`).

A start is the byte offset of an operand's lowest element in its buffer. A launch keeps no allocation. It returns None,
or a `DirectLaunch` for later calls without a stream, if there is one: the same work, from the addresses of the lowest
elements alone, in the same order. That of windows is a `DirectCrops`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import repeat
from operator import add, attrgetter, mul
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from .buffer import Buffer

if TYPE_CHECKING:
    from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem
    from stridedgpu.problems.crop_windows import CropProblem, Crops
    from stridedgpu.problems.device_plan import DevicePlan, Problem
    from stridedgpu.problems.frame_problem import FrameProblem, SamplesProblem
    from stridedgpu.problems.gather_problem import GatherProblem
    from stridedgpu.problems.index_rule import IndexRule
    from stridedgpu.problems.pitched_copy import Runs
    from stridedgpu.problems.raw_problem import RawProblem
    from stridedgpu.problems.relayout_problem import RelayoutProblem
    from stridedgpu.problems.resize_problem import ResizeProblem, ResizeWindow

    from .frame_operand import FrameOperand
    from .operand import Operand

EMULATED: Final = "cuda-emulated"
"""The name of the emulated device: a CUDA device's streams, pointers and errors, carried out by the CPU."""

Located = tuple[Buffer, int]
"""The memory of an operand: its buffer, and the byte offset of its lowest element."""


class EvenlyLocated(Sequence[Located]):
    """`number` operands in one buffer at even steps: the images of a batch. `start` and `step` are in bytes.

    Every call makes one: a frozen dataclass would take twice as long.
    """

    __slots__ = ("buffer", "number", "start", "step")

    def __init__(self, buffer: Buffer, start: int, step: int, number: int) -> None:
        self.buffer = buffer
        self.start = start
        self.step = step
        self.number = number

    def __len__(self) -> int:
        return self.number

    def __iter__(self) -> Iterator[Located]:
        """One by one, without a call for each."""
        steps = map(mul, range(self.number), repeat(self.step))
        return zip(repeat(self.buffer), map(add, repeat(self.start), steps), strict=False)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(self.number))]
        return self.buffer, self.start + range(self.number)[place] * self.step


@dataclass(frozen=True, slots=True)
class LocatedOperands(Sequence[Located]):
    """Operands anywhere in memory: the images of a list."""

    operands: Sequence[Operand]

    @property
    def addresses(self) -> list[int]:
        """The addresses of their lowest elements."""
        return [operand.reach[0] for operand in self.operands]

    def __len__(self) -> int:
        return len(self.operands)

    def __iter__(self) -> Iterator[Located]:
        """One by one, without a call for each."""
        return zip(map(_BUFFER, self.operands), map(_START, self.operands), strict=True)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return LocatedOperands(self.operands[place])
        operand = self.operands[place]
        return operand.buffer, operand.start_bytes


def addresses_of(sources: Sequence[Located]) -> NDArray[np.int64]:
    """The address of each operand's lowest element, as two's complement of 64 bits."""
    if isinstance(sources, EvenlyLocated):
        return sources.buffer.address + sources.start + np.arange(sources.number) * sources.step
    if isinstance(sources, LocatedOperands):
        return np.array(sources.addresses, np.uint64).view(np.int64)
    return np.array([buffer.address + start for buffer, start in sources], np.uint64).view(np.int64)


_BUFFER: Final = attrgetter("buffer")
_START: Final = attrgetter("start_bytes")

DirectLaunch = Callable[..., None]
"""`direct(source, target)` or `direct(dense, indexed, indices)`, with addresses; the caller keeps the memory alive."""

DirectCrops: TypeAlias = "Callable[[int, int, NDArray[np.int64]], bool]"
"""`direct(source, target, origins)`: the windows of a batch laid out alike that begin there, none of them mirrored.

The addresses are those of the first image's and of the target's lowest element; origins lie row by row. False for
windows that only the launch writes: nothing is written then."""

DirectCheck = Callable[[int], None]
"""`check(indices)`, with the address of the lowest one; the caller keeps the memory alive."""

RelayoutLaunch: TypeAlias = "Callable[[Buffer, int, Buffer, int, object], DirectLaunch | None]"
"""`launch(source, source_start, target, target_start, stream)`."""

GatherLaunch: TypeAlias = "Callable[[Buffer, int, Buffer, int, Buffer, int, object], DirectLaunch | None]"
"""`launch(dense, its start, indexed, its start, indices, their start, stream)`.

A gather raises `IndexError` by its problem's mode, before it writes; the indices of a scatter have been checked."""

MoveLaunch: TypeAlias = "Callable[[Operand, Operand, object], DirectLaunch | None]"
"""`launch(source, target, stream)`."""

IndexedLaunch: TypeAlias = "Callable[[Operand, Operand, Operand, object], DirectLaunch | None]"
"""`launch(dense, indexed, indices, stream)`."""

IndexCheck: TypeAlias = "Callable[[Operand, object], DirectCheck | None]"
"""`check(indices, stream)`, which raises `IndexError` before anything is written."""

CropsLaunch: TypeAlias = "Callable[[Crops, Sequence[Located], Located, object], DirectCrops | None]"
"""`launch(crops, sources, target, stream)`, with a source for each window."""

FrameLaunch: TypeAlias = "Callable[[Sequence[Operand], tuple[int, int], Operand, object], None]"
"""`launch(planes, origin, target, stream)`; the window's first pixel is at `origin` of the frame."""

ResizeSource: TypeAlias = "Located | FrameOperand"
"""The memory of an image, or the frame of a window that has a surface."""

ResizeLaunch: TypeAlias = "Callable[[Sequence[ResizeWindow], Sequence[ResizeSource], Located, object], None]"
"""`launch(windows, sources, target, stream)`, with a source for each window."""

SamplesLaunch: TypeAlias = "Callable[[Sequence[Operand], Sequence[Operand], object], None]"
"""`launch(colours, planes, stream)`; `colours` are red, green and blue."""

Launch = Callable[..., object]
"""A plan prepared by a device: one of the launches above, by the type of the plan's problem."""


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One device, and whether it can be used.

    `name` is the value for `device=`, `description` one line about the hardware. `reason` is why the device cannot be
    used, or what would make it faster, and how.
    """

    name: str
    available: bool
    description: str
    reason: str | None = None


class Planner(Protocol):
    """A planner for a device, which need not be present."""

    @property
    def name(self) -> str:
        """The device's name: "cpu" or "cuda:N"."""

    @property
    def widest_access(self) -> int:
        """Bytes of the widest single load or store that plans for this device may use."""

    @property
    def mixes_windows(self) -> bool:
        """True if a resize or crop with a matrix is one plan; if not, callers mix its channels in a second step."""

    def plan(self, problem: Problem) -> DevicePlan:
        """The plan of a `RelayoutProblem`, `GatherProblem`, `CropProblem`, …: a value with all choices of this device.

        Raises `LayoutError` for a problem that the device cannot do, such as elements that it cannot address, and
        `DeviceError` for one that another device does.
        """


class Device(Planner, Protocol):
    """A device that owns memory and runs plans."""

    def prepare(self, plan: DevicePlan) -> Launch:
        """Prepare a plan: compile its kernels and pack its parameters, so that each run is only the launch."""

    @overload
    def launch_for(self, problem: RelayoutProblem | ChannelMatrixProblem) -> MoveLaunch: ...
    @overload
    def launch_for(self, problem: GatherProblem) -> IndexedLaunch: ...
    @overload
    def launch_for(self, problem: IndexRule) -> IndexCheck: ...
    @overload
    def launch_for(self, problem: CropProblem) -> CropsLaunch: ...
    @overload
    def launch_for(self, problem: FrameProblem) -> FrameLaunch: ...
    @overload
    def launch_for(self, problem: SamplesProblem) -> SamplesLaunch: ...
    @overload
    def launch_for(self, problem: ResizeProblem) -> ResizeLaunch: ...
    @overload
    def launch_for(self, problem: RawProblem) -> RelayoutLaunch: ...
    def launch_for(self, problem: Hashable) -> Any:
        """The launch of a problem, planned and prepared once for the settings of the process."""

    def allocate(self, nbytes: int, alignment: int, stream: object = None) -> Buffer:
        """Allocate uninitialised bytes at an address that is a multiple of `alignment`.

        On a device with streams the allocation is ordered on `stream` (None: the current one): freed memory may be
        reused by later work of that stream. Raises `DeviceError` if the memory is unavailable; existing buffers are
        untouched.
        """

    def check_indices(self, rule: IndexRule, indices: Located, stream: object) -> DirectCheck | None:
        """Raise `IndexError` for the first index that the rule forbids; nothing is written.

        Scatters are checked before their data is copied. The launch of a gather checks its own indices. Returns None,
        or the same check for later calls without a stream, if there is one.
        """

    def synchronize(self) -> None:
        """Wait for the work of this device, and raise its deferred errors."""


class RemoteDevice(Device, Protocol):
    """A device whose memory the CPU cannot address, with copies to and from the CPU."""

    def allocate_staging(self, nbytes: int) -> Buffer:
        """Allocate a staging buffer: memory of the CPU with the fastest copies to and from this device.

        It is released after the copies that use it; `copy` waits for these.
        """

    @property
    def upload_bytes(self) -> int:
        """The most bytes of a staging buffer for uploads that nobody waits for."""

    def staging(self, nbytes: int) -> AbstractContextManager[Buffer]:
        """Lend a staging buffer for uploads: to be filled, copied by `copy`, and given back while that is queued."""

    def uploaded(self, contents: bytes) -> Buffer:
        """Constants in the device's memory, where any stream may read them on return."""

    def copy(
        self, source: Buffer, source_start: int, target: Buffer, target_start: int, runs: Runs, stream: object
    ) -> None:
        """Copy runs of bytes between this device, on either side, and the CPU or a device of the same kind.

        On return, the memory of the CPU may be read or changed at once. The device's memory has the bytes of an upload
        for later work of the stream.
        """
