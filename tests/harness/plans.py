"""What planners choose for operands' specs, without a device."""

from __future__ import annotations

import dataclasses

from stridedgpu.devices.cuda.crops import CropChoice, choose_crops
from stridedgpu.devices.cuda.gather import GatherChoice, choose_gather
from stridedgpu.devices.cuda.relayout.choice import RelayoutChoice
from stridedgpu.devices.cuda.relayout.families import choose_relayout
from stridedgpu.problems.crop_windows import CropProblem
from stridedgpu.problems.gather_problem import GatherProblem
from stridedgpu.problems.index_rule import Mode
from stridedgpu.problems.relayout_problem import relayout_problem
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.tensor_spec import TensorSpec


def chosen_relayout(
    source: TensorSpec,
    target: TensorSpec,
    made: Conversion,
    channel_axis: int | None = None,
    widest: int = 16,
    filler: int = 0,
) -> RelayoutChoice:
    """The kernel that moves `source` into `target` on a GPU with accesses of up to `widest` bytes."""
    return choose_relayout(relayout_problem(source, target, made, channel_axis, filler), widest)


def chosen_gather(problem: GatherProblem, mode: Mode = "raise", widest: int = 16) -> GatherChoice:
    """The kernel for a problem in another mode."""
    return choose_gather(dataclasses.replace(problem, mode=mode), widest)


def chosen_crops(
    target: TensorSpec, source_steps: tuple[int, int], made: Conversion, fill: bytes, widest: int = 16
) -> CropChoice:
    """The kernel for windows into `target`."""
    return choose_crops(CropProblem(target, source_steps, made, fill), widest)
