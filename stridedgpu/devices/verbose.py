"""The verbose line: one line a launch on standard error, with `STRIDEDGPU_VERBOSE=1` or `set_verbose`.

    stridedgpu,cpu,relayout,transpose_uint8x64B_uint8x64B,for x86-64-v4,loads 64 B,stores 64 B,tile 64x64,
    source uint8 (512, 512) (1, 512),target uint8 (512, 512) (512, 1),524288 B,31.4 us

all in one line. Of an upload the line says which way its bytes took:

    stridedgpu,cuda:0,upload,pinned_ring,38535168 B,1250.2 us

A device wraps a launch when it prepares it; without verbose output the launch is not wrapped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import Final

from stridedgpu.problems.device_plan import DevicePlan, KernelAccess
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.tensor_spec import TensorSpec

from .settings import SETTINGS

_SIDES: Final = ("source", "indexed", "dense", "index", "target")
"""The attributes of problems that are tensors."""


def is_verbose() -> bool:
    """True if launches prepared from now on print verbose lines."""
    return SETTINGS.verbose


def set_verbose(on: bool = True) -> None:
    """Switch on or off one line on standard error for each launch.

    `STRIDEDGPU_VERBOSE=1` in the environment switches it on from the start. A line has, separated by commas: the
    device, the operation, the kernel, the bytes of a load and of a store, the tile, each tensor's type, sizes and
    strides in elements, the bytes moved, and the microseconds of the call; on a GPU the kernel may still run then.
    Relayouts, gathers, scatters, crops and resizes print a line. Plans that were prepared before stay as they were. An
    upload prints the device, "upload", the way ("pinned_ring", "staged", "page_locked" or "pageable"), bytes and
    microseconds.

    Raises `LayoutError` for anything but a bool.

    >>> set_verbose(False)
    """
    if not isinstance(on, bool):
        raise LayoutError(f"on={on!r} must be True or False.")
    SETTINGS.verbose = on


def with_verbose_line(
    plan: DevicePlan, launch: Callable[..., object], ran: Callable[[], tuple[str, KernelAccess]], processor: str = ""
) -> Callable[..., None]:
    """Wrap a launch to print its verbose line after it returns; `ran` returns the name and kernel of the last call.

    `processor` is the level that loops on the CPU are compiled for.
    """

    def run(*arguments: object) -> None:
        start = perf_counter_ns()
        launch(*arguments)
        spent = perf_counter_ns() - start
        name, kernel = ran()
        sys.stderr.write(verbose_line(plan, name, kernel, spent / 1000, processor) + "\n")

    return run


def verbose_line(plan: DevicePlan, name: str, kernel: KernelAccess, microseconds: float, processor: str = "") -> str:
    """Device, operation, kernel, processor, widths, tile, tensors (type, sizes, strides), bytes and microseconds."""
    problem = plan.problem
    specs = ((side, getattr(problem, side, None)) for side in _SIDES)
    sides = [
        f"{side} {spec.element} {spec.layout.sizes} {spec.layout.strides}"
        for side, spec in specs
        if isinstance(spec, TensorSpec)
    ]
    tile = [f"tile {'x'.join(map(str, kernel.tile))}"] if kernel.tile else []
    fields = [
        "stridedgpu",
        plan.device,
        _operation(problem),
        name,
        *([f"for {processor}"] if processor else []),
        f"loads {kernel.load.nbytes} B",
        f"stores {kernel.store.nbytes} B",
        *tile,
        *sides,
        f"{plan.bytes_moved} B",
        f"{microseconds:.1f} us",
    ]
    return ",".join(fields)


def upload_line(device: str, way: str, nbytes: int, microseconds: float) -> str:
    """The line of a copy from the CPU to a device: device, way, bytes and microseconds of the host."""
    return f"stridedgpu,{device},upload,{way},{nbytes} B,{microseconds:.1f} us"


def _operation(problem: object) -> str:
    """The name of the operation, from the type of its problem."""
    if getattr(problem, "scatters", False):
        return "scatter"
    name = type(problem).__name__.removesuffix("Problem").lower()
    return "crops" if name == "crop" else name
