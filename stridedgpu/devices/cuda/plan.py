"""Plans for NVIDIA GPUs, which need not be there: the module of an operation chooses a kernel and lays it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from stridedgpu.devices.cuda.relayout.families import choose_relayout, relayout_launch
from stridedgpu.problems.channel_matrix_problem import ChannelMatrixProblem
from stridedgpu.problems.crop_windows import CropProblem
from stridedgpu.problems.device_plan import Problem
from stridedgpu.problems.frame_problem import FrameProblem, SamplesProblem
from stridedgpu.problems.gather_problem import GatherProblem
from stridedgpu.problems.raw_problem import RawProblem
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.problems.resize_problem import ResizeProblem
from stridedgpu.problems.resize_taps import WindowTaps
from stridedgpu.values.errors import DeviceError

from .channel_matrix import channel_matrix_launch, choose_channel_matrix
from .choice import CudaPlan
from .crops import choose_crops, crops_launch
from .frames import choose_frame, choose_frame_encode, frame_encode_launch, frames_launch
from .gather import choose_gather, gather_launch
from .gpu import REFERENCE_GPU, GpuProperties, KernelLaunch
from .raw import choose_raw, raw_launch
from .resize import ResizeChoice, choose_resize, resize_launch, window_launch

_Choose = Callable[[Any, GpuProperties], CudaPlan[Problem]]
_LayOut = Callable[[Any, GpuProperties], KernelLaunch | None]


def _by_width(choose: Callable[[Any, int], CudaPlan[Problem]]) -> _Choose:
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


def cuda_plan(problem: Problem, device: str, gpu: GpuProperties) -> CudaPlan[Problem]:
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
    return replace(choice, device=device, launch=None if problem.is_empty else lay_out(choice, gpu))


def windows_plan(plan: CudaPlan[Problem], taps: Sequence[WindowTaps]) -> CudaPlan[Problem]:
    """A resize's plan for the windows of a call that have these taps, summed alike and in one order of passes.

    A plan whose windows come with every call gets their tile and launch; a complete one stays as it is. Raises
    `DeviceError` for windows that no tile can be made for.
    """
    if plan.is_complete:
        return plan
    assert isinstance(plan, ResizeChoice), "no other plan is incomplete"
    choice = plan.for_taps(taps)
    return replace(choice, device=plan.device, launch=resize_launch(choice, taps))


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

    def plan(self, problem: Problem) -> CudaPlan[Problem]:
        """The plan of a problem for this GPU."""
        return cuda_plan(problem, self.name, self.properties)
