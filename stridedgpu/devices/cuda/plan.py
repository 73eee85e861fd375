"""`CudaPlan`: one operation planned for an NVIDIA GPU, as a value that holds its whole launch. Needs no GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from stridedgpu.devices.cuda.relayout.families import choose_relayout, relayout_launch
from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem
from stridedgpu.problems.crop_windows import CropProblem
from stridedgpu.problems.device_plan import Problem, Width
from stridedgpu.problems.frame_problem import FrameProblem, SamplesProblem
from stridedgpu.problems.gather_problem import GatherProblem
from stridedgpu.problems.raw_problem import RawProblem
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.problems.resize_problem import ResizeProblem
from stridedgpu.problems.resize_taps import WindowTaps
from stridedgpu.values.errors import DeviceError

from .channel_matrix import channel_matrix_launch, choose_channel_matrix
from .choice import KernelChoice
from .crops import choose_crops, crops_launch
from .frames import choose_frame, choose_frame_encode, frame_encode_launch, frames_launch
from .gather import choose_gather, gather_launch
from .gpu import REFERENCE_GPU, GpuProperties, KernelLaunch
from .raw import choose_raw, raw_launch
from .resize import ResizeChoice, choose_resize, resize_launch, window_launch


@dataclass(frozen=True, slots=True)
class CudaPlan:
    """A kernel, chosen and laid out by the module of its operation.

    `launch` names the instantiation, the grid, the threads of a block, the shared memory, the tile and the parameters.
    It is None if there is nothing to move, and for resizes whose windows come with every call: `windows_plan` completes
    their plan.
    """

    device: str
    choice: KernelChoice[Problem]
    launch: KernelLaunch | None

    def __hash__(self) -> int:
        """Equal for equal plans; hashes only the fields that differ most often."""
        return hash((self.device, self.choice.problem))

    @property
    def problem(self) -> Problem:
        """The operation as loops."""
        return self.choice.problem

    @property
    def family(self) -> str:
        """The family of kernels."""
        return self.choice.family

    @property
    def kernel(self) -> str:
        """The kernel's name: family, element types and the bytes of an access."""
        return self.choice.kernel

    @property
    def load(self) -> Width:
        """The width of one load, and its limit."""
        return self.choice.load

    @property
    def store(self) -> Width:
        """The width of one store, and its limit."""
        return self.choice.store

    @property
    def index_bits(self) -> int:
        """Bits of the arithmetic for offsets: 32 or 64."""
        return self.choice.index_bits

    @property
    def is_complete(self) -> bool:
        """Whether all that decides the launch is known."""
        return self.launch is not None or self.problem.is_empty

    @property
    def tile(self) -> tuple[int, ...]:
        """The box of loops that a block, or a group of its lanes, moves at a time; () if there is none."""
        return () if self.launch is None else self.launch.tile

    @property
    def shape(self) -> str:
        """Grid, threads of a block, and shared memory."""
        if self.launch is None:
            return "no launch" if self.is_complete else "a block for each tile of the windows of a call"
        sides = (self.launch.grid, self.launch.block)
        blocks, threads = (" x ".join(str(size) for size in sizes if size > 1) or "1" for sizes in sides)
        shared = f", {self.launch.shared_bytes} B of shared memory each" if self.launch.shared_bytes else ""
        return f"grid of {blocks} blocks of {threads} threads{shared}"

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written, each element once."""
        return self.choice.problem.bytes_moved

    def explain(self) -> str:
        """The plan in plain words: family, widths and their limits, padding, bytes, tile and grid."""
        tile = [f"tile {' x '.join(map(str, self.tile))} along the loops"] if self.tile else []
        return "\n  ".join([f"{self.kernel} on {self.device}", *self.choice.describe(), *tile, self.shape])


_Choose = Callable[[Any, GpuProperties], KernelChoice[Problem]]
_LayOut = Callable[[Any, GpuProperties], KernelLaunch | None]


def _by_width(choose: Callable[[Any, int], KernelChoice[Problem]]) -> _Choose:
    """A choice that depends on a GPU's widest access alone."""
    return lambda problem, gpu: choose(problem, gpu.widest_access)


_PLANNERS: Final[Mapping[type, tuple[_Choose, _LayOut]]] = MappingProxyType(
    {
        RelayoutProblem: (_by_width(choose_relayout), relayout_launch),
        GatherProblem: (_by_width(choose_gather), gather_launch),
        CropProblem: (_by_width(choose_crops), crops_launch),
        ChannelMatrixProblem: (_by_width(choose_channel_matrix), lambda choice, _: channel_matrix_launch(choice)),
        RawProblem: (_by_width(choose_raw), lambda choice, _: raw_launch(choice)),
        FrameProblem: (_by_width(choose_frame), lambda choice, _: frames_launch(choice)),
        SamplesProblem: (_by_width(choose_frame_encode), lambda choice, _: frame_encode_launch(choice)),
        ResizeProblem: (choose_resize, lambda choice, _: window_launch(choice)),
    }
)
"""The choice of a kernel and of its launch, by problem type; types without a row run only on the CPU."""


def cuda_plan(problem: Problem, device: str, gpu: GpuProperties) -> CudaPlan:
    """The plan of a problem for a GPU with the name `device`, "cuda:N".

    Raises `LayoutError` for elements at addresses that are not multiples of their size, which a GPU cannot access, and
    `DeviceError` for problems that only the CPU does.
    """
    planner = _PLANNERS.get(type(problem))
    if planner is None:
        raise DeviceError(
            f"{device} has no kernel that makes {problem.describe()[0]}; bring the operands to the CPU with "
            "to_device('cpu')."
        )
    choose, lay_out = planner
    choice = choose(problem, gpu)
    return CudaPlan(device, choice, None if problem.is_empty else lay_out(choice, gpu))


def windows_plan(plan: CudaPlan, taps: Sequence[WindowTaps]) -> CudaPlan:
    """A resize's plan for the windows of a call that have these taps, summed alike and in one order of passes.

    A plan whose windows come with every call gets their tile and launch; a complete one stays as it is. Raises
    `DeviceError` for windows that no tile can be made for.
    """
    if plan.is_complete:
        return plan
    assert isinstance(plan.choice, ResizeChoice), "no other plan is incomplete"
    choice = plan.choice.for_taps(taps)
    return replace(plan, choice=choice, launch=resize_launch(choice, taps))


@dataclass(frozen=True, slots=True)
class GpuPlanner:
    """Plans for a GPU that need not be present: the reference GPU, unless another is named."""

    name: str
    properties: GpuProperties = REFERENCE_GPU

    @property
    def mixes_windows(self) -> bool:
        """False: the kernels of resizes and crops make each channel by itself."""
        return False

    @property
    def widest_access(self) -> int:
        """Bytes of the widest single load or store."""
        return self.properties.widest_access

    def plan(self, problem: Problem) -> CudaPlan:
        """The plan of a problem for this GPU."""
        return cuda_plan(problem, self.name, self.properties)
