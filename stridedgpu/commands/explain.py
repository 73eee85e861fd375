"""The command `stridedgpu explain`: how one tensor would be moved into another, on the CPU and on known GPUs.

Nothing is allocated, so that sizes may be any.
"""

from __future__ import annotations

import argparse
from typing import Any, Final

from stridedgpu.devices.cuda.gpu import KNOWN_GPUS
from stridedgpu.devices.cuda.plan import GpuPlanner
from stridedgpu.devices.interface import Planner
from stridedgpu.devices.selection import device_named
from stridedgpu.operations.relayout import move_between
from stridedgpu.problems.device_plan import DevicePlan
from stridedgpu.problems.relayout_problem import RelayoutProblem, relayout_problem
from stridedgpu.values.conversion import conversion_options
from stridedgpu.values.errors import StridedGpuError
from stridedgpu.values.tensor_spec import TensorSpec

from .console import figures
from .described_tensors import SIDE, DescribedTensor, side_of, sizes_of
from .show import add_outputs, put_picture

_CPU: Final = "cpu"
_DEFAULT: Final = "h200"


def add_explain(commands: argparse._SubParsersAction[Any]) -> None:
    """The parser of `explain`."""
    known = ", ".join((_CPU, *KNOWN_GPUS))
    parser = commands.add_parser(
        "explain",
        help="how one tensor would be moved into another, in words",
        description="Plan a relayout and describe the plan: the kernel, the bytes, the width of loads and "
        f"stores, and what would make them wider. A side is {SIDE}, such as uint8:NHWC:8,3,224,224:pitch=1024.",
    )
    add = parser.add_argument
    add("--from", metavar="SIDE", dest="source", type=side_of, required=True, help="what is read")
    add("--to", metavar="SIDE", dest="target", type=side_of, required=True, help="what is written")
    add("--scale", metavar="X[,X,X]", type=figures, help="factor of each element: one number, or one for each channel")
    add("--bias", metavar="X[,X,X]", type=figures, help="addend of each product (write --bias=-1 for a negative one)")
    add(
        "--channels",
        metavar="rgb|bgr|C,C,C",
        type=_channels_of,
        help="bgr swaps red and blue; or the source channel of each output channel, such as 2,1,0",
    )
    add(
        "--on",
        metavar="NAME[,NAME]",
        type=_planners_of,
        default=_planners_of(_DEFAULT),
        help=f"what to plan for: {known}, or all (default: {_DEFAULT})",
    )
    add_outputs(parser)
    parser.set_defaults(run=_run_explain, refuse=parser.error)


def _run_explain(chosen: argparse.Namespace) -> None:
    """Plan one relayout for each chosen device and print the explanations."""
    sides = ("--from", chosen.source), ("--to", chosen.target)
    hints = [f"hint: {name}: {side.hint}" for name, side in sides if side.hint]
    try:
        problem = _problem(chosen)
    except StridedGpuError as error:
        if not hints:
            raise
        chosen.refuse("; ".join([str(error), *hints]))
    plans = [(label, planner.plan(problem)) for label, planner in chosen.on]
    if chosen.html is not None or chosen.svg is not None:
        if len(plans) > 1:
            chosen.refuse("one picture shows one plan: give --on one name")
        (_, plan), *_ = plans
        put_picture(chosen, plan, plan.kernel, dims=chosen.source.dims)
        return
    print("\n\n".join("\n".join(_lines(label, plan)) for label, plan in plans))
    for hint in hints:
        print(hint)


def _lines(label: str, plan: DevicePlan) -> list[str]:
    """A plan in words, with what limits its widths."""
    limits = [
        f"  wider {verb}: not while {width.limit}"
        for verb, width in (("loads", plan.load), ("stores", plan.store))
        if width.limit
    ]
    return [
        plan.explain(),
        *(limits or ["  loads and stores are as wide as they can be"]),
        f"  planned for {label}; stridedgpu.plan_relayout plans for the device that is there",
    ]


_ORDERS: Final = {"rgb": (0, 1, 2), "bgr": (2, 1, 0)}
"""The orders that `stridedgpu preprocess` has by name."""


def _channels_of(text: str) -> tuple[int, ...]:
    """An order of channels by its name, or as numbers."""
    return _ORDERS.get(text.strip().lower()) or sizes_of(text)


def _planners_of(text: str) -> list[tuple[str, Planner]]:
    """The planners of some names, with what each plans for."""
    names = [_CPU, *KNOWN_GPUS] if text.lower() == "all" else [name.strip().lower() for name in text.split(",")]
    unknown = [name for name in names if name != _CPU and name not in KNOWN_GPUS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"{unknown[0]!r} is not known; there are {', '.join((_CPU, *KNOWN_GPUS))}, and all of them as 'all'"
        )
    return [_planner(name) for name in names]


def _planner(name: str) -> tuple[str, Planner]:
    if name == _CPU:
        return "this machine's CPU", device_named(_CPU)
    gpu = KNOWN_GPUS[name]
    words = f"{gpu.name} (compute capability {gpu.compute_capability / 10}, {gpu.multiprocessors} multiprocessors)"
    return words, GpuPlanner("cuda:0", gpu)


def _problem(chosen: argparse.Namespace) -> RelayoutProblem:
    """The relayout; both sides have the alignment that they state, and the target owns its padding."""
    source, target = chosen.source, chosen.target
    read, written = _spec(source), _spec(target, owns_padding=True)
    options = conversion_options(target.element, chosen.scale, chosen.bias, channels=chosen.channels)
    conversion, channel_axis = move_between(read, written, source.labels, options, "--to")
    return relayout_problem(read, written, conversion, channel_axis)


def _spec(side: DescribedTensor, *, owns_padding: bool = False) -> TensorSpec:
    nbytes = side.stored_elements * side.element.itemsize
    return TensorSpec.of(
        side.layout, side.element, base_alignment=side.alignment, buffer_bytes=nbytes, owns_padding=owns_padding
    )
