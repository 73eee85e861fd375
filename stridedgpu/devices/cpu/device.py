"""The CPU device: aligned memory, and plans run by NumPy, by compiled loops, or by one and then the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.buffer import Buffer, address_of
from stridedgpu.devices.cpu.compiled.jit import why_unavailable
from stridedgpu.devices.cpu.numpy_loops.channel_matrix import mix_channels, numpy_channel_matrix_kernel
from stridedgpu.devices.cpu.numpy_loops.crops import numpy_crops_kernel, run_crops
from stridedgpu.devices.cpu.numpy_loops.frame_samples import numpy_samples_kernel, write_samples
from stridedgpu.devices.cpu.numpy_loops.frames import frame_loops, numpy_frames_kernel
from stridedgpu.devices.cpu.numpy_loops.gather import NumpyGather, check_indices, numpy_gather_kernel
from stridedgpu.devices.cpu.numpy_loops.raw import numpy_raw_kernel, unpack_samples
from stridedgpu.devices.cpu.numpy_loops.relayout import NumpyRelayout, numpy_relayout_kernel
from stridedgpu.devices.cpu.numpy_loops.resize import numpy_resize_kernel, resize_located
from stridedgpu.devices.interface import DeviceInfo, Launch, Located
from stridedgpu.devices.verbose import is_verbose, told
from stridedgpu.planning.channel_matrix_problem import ChannelMatrixProblem
from stridedgpu.planning.crop_windows import CropProblem
from stridedgpu.planning.device_plan import DevicePlan
from stridedgpu.planning.frame_problem import FrameProblem, SamplesProblem
from stridedgpu.planning.gather_problem import GatherProblem
from stridedgpu.planning.index_rule import IndexRule, Mode
from stridedgpu.planning.raw_problem import RawProblem
from stridedgpu.planning.relayout_problem import Problem
from stridedgpu.planning.resize_problem import ResizeProblem
from stridedgpu.values.errors import DeviceError

from .plan import CpuKernel, CpuOperation, CpuPlan, cpu_plan
from .policy import policy
from .promotion import Promotion, compiled_from
from .thread_count import usable_cores

__all__ = ["CpuDevice", "ZeroedMemory"]

_LEAST_ALIGNMENT: Final = 64
"""Alignment of allocations in bytes: one cache line, as non-temporal stores of compiled loops need it."""


class CpuDevice:
    """The CPU of this process."""

    name = "cpu"
    widest_access = 16
    checks_gathers = False
    mixes_windows = True
    _new_bytes: Callable[..., Any] = staticmethod(np.empty)

    def plan(self, problem: Any) -> CpuPlan:
        """The plan of a problem: NumPy's loops, the compiled kernel if there is one, and when it takes over."""
        return cpu_plan(problem, _OPERATIONS[type(problem)])

    def prepare(self, plan: DevicePlan) -> Launch:
        """A plan with its loops prepared; cached by plan."""
        assert isinstance(plan, CpuPlan), "made by this device"
        launch, moves = _prepared(plan)
        if not is_verbose():
            return launch

        def ran() -> tuple[str, CpuKernel]:
            kernel = plan.compiled if moves.is_compiled else None
            return (kernel or plan.numpy).name, kernel or plan.numpy

        return told(plan, launch, ran)

    def allocate(self, nbytes: int, alignment: int, stream: object = None) -> Buffer:  # noqa: ARG002 - it has none
        """Allocate bytes at a multiple of `alignment`. Raises `DeviceError` if the memory is unavailable."""
        step = max(alignment, _LEAST_ALIGNMENT)
        try:
            memory = self._new_bytes(nbytes + step, np.uint8)
        except (MemoryError, ValueError) as error:
            raise DeviceError(f"The CPU has no {nbytes} bytes of memory left to allocate.") from error
        base = address_of(memory)
        return Buffer.trusted(base + -base % step, nbytes, memory, alignment, "cpu", False, True)  # noqa: FBT003 - quicker

    def check_indices(self, rule: IndexRule, indices: Located, mode: Mode, stream: object) -> None:
        """Check the indices at once, in mode "deferred" too: nothing is asynchronous on the CPU."""
        if stream is not None:
            _check_stream(stream)
        in_range = mode in ("raise", "deferred")
        if not rule.axis_pitches and (not in_range or _look(rule)(indices)):
            return
        check_indices(rule, _bytes(indices), in_range=in_range, mode=mode)

    def synchronize(self) -> None:
        """Return at once: every call returns after its work is done."""

    @staticmethod
    def describe() -> DeviceInfo:
        """The description of this CPU."""
        missing = why_unavailable()
        loops = "compiled loops" if missing is None else f"NumPy {np.__version__}"
        return DeviceInfo("cpu", available=True, description=f"{usable_cores()} cores, {loops}", reason=missing)


class ZeroedMemory(CpuDevice):
    """The CPU with new memory of zeros: a large block's are the system's, written when a page is first touched."""

    _new_bytes = staticmethod(np.zeros)


def _check_stream(stream: object) -> None:
    """Raise `DeviceError` for anything but None."""
    if stream is not None:
        raise DeviceError(f"stream={stream!r} has no meaning on the CPU, where calls return when they are done.")


def _bytes(located: Located) -> NDArray[np.uint8]:
    """The memory from an operand's lowest element on."""
    buffer, start = located
    return buffer.bytes[start:]


@lru_cache(maxsize=1024)
def _prepared(plan: CpuPlan) -> tuple[Launch, Promotion]:
    """The plan's launch, cached by plan, and the promotion that says which loops run."""
    operation = plan.operation
    moves = Promotion(
        plan.compiled_from, lambda: operation.run_numpy(plan.problem), lambda: operation.run_compiled(plan)
    )

    # One function for each argument count: packing and unpacking *args would cost more than all else here.
    def launch_of_two(first: Any, second: Any, stream: object) -> None:
        if stream is not None:
            _check_stream(stream)
        (moves.work if moves.at is None else moves.chosen())(first, second)

    def launch_of_three(first: Any, second: Any, third: Any, stream: object) -> None:
        if stream is not None:
            _check_stream(stream)
        (moves.work if moves.at is None else moves.chosen())(first, second, third)

    def launch_of_four(first: Any, second: Any, third: Any, fourth: Any, stream: object) -> None:
        if stream is not None:
            _check_stream(stream)
        (moves.work if moves.at is None else moves.chosen())(first, second, third, fourth)

    launches: dict[int, Launch] = {2: launch_of_two, 3: launch_of_three, 4: launch_of_four}
    return launches[operation.arguments], moves


@lru_cache(maxsize=1024)
def _look(rule: IndexRule) -> Callable[[Located], bool]:
    """A fast check of the indices, cached by rule: True if all are valid. If not, NumPy finds the wrong one."""

    def compiled() -> Callable[[Located], bool] | None:
        from stridedgpu.devices.cpu.compiled.index_check import compiled_index_check

        return compiled_index_check(rule)

    nbytes = rule.index.layout.element_count * rule.index.element.itemsize
    looks = Promotion(compiled_from(nbytes) if nbytes else None, lambda: _unseen, compiled)

    def look(indices: Located) -> bool:
        seen: bool = (looks.work if looks.at is None else looks.chosen())(indices)
        return seen

    return look


def _unseen(indices: Located) -> bool:  # noqa: ARG001 - as every look is called
    """Leave the check of all indices to NumPy."""
    return False


def _numpy_relayout(problem: Problem) -> Callable[[Buffer, int, Buffer, int], None]:
    loops = NumpyRelayout(problem)

    def move(source: Buffer, source_start: int, target: Buffer, target_start: int) -> None:
        loops(source.bytes[source_start:], target.bytes[target_start:])

    return move


def _numpy_gather(problem: GatherProblem) -> Callable[[Located, Located, Located], None]:
    blocks = NumpyGather(problem)
    return lambda dense, indexed, indices: blocks(_bytes(dense), _bytes(indexed), _bytes(indices))


def _numpy_crops(problem: CropProblem) -> Callable[..., None]:
    device = CpuDevice()

    def prepare(rectangle: Problem | ChannelMatrixProblem) -> Launch:
        # Not `CpuDevice.prepare`, which would print a verbose line for each rectangle.
        return _prepared(device.plan(rectangle))[0]

    return lambda crops, sources, target: run_crops(problem, prepare, crops, sources, target)


def _numpy_frames(problem: FrameProblem) -> Callable[..., None]:
    return partial(frame_loops, problem)


def _numpy_resize(problem: ResizeProblem) -> Callable[..., None]:
    return lambda windows, sources, target: resize_located(problem, range(len(windows)), windows, sources, target)


def _numpy_samples(problem: SamplesProblem) -> Callable[..., None]:
    return partial(write_samples, problem)


# These functions import the compiler late: only programs with compiled work load it.


def _relayout_kernel(problem: Problem) -> CpuKernel | None:
    from stridedgpu.devices.cpu.compiled.relayout import relayout_kernel

    return relayout_kernel(problem)


def _compiled_relayout(plan: CpuPlan) -> Callable[..., None] | None:
    from stridedgpu.devices.cpu.compiled.relayout import compiled_relayout

    return compiled_relayout(plan)


def _gather_kernel(problem: GatherProblem) -> CpuKernel | None:
    from stridedgpu.devices.cpu.compiled.gather import gather_kernel

    return gather_kernel(problem)


def _compiled_gather(plan: CpuPlan) -> Callable[..., None] | None:
    from stridedgpu.devices.cpu.compiled.gather import compiled_gather

    return compiled_gather(plan)


def _crops_kernel(problem: CropProblem) -> CpuKernel | None:
    from stridedgpu.devices.cpu.compiled.crops import crops_kernel

    return crops_kernel(problem)


def _compiled_crops(plan: CpuPlan) -> Callable[..., None] | None:
    from stridedgpu.devices.cpu.compiled.crops import compiled_crops

    return compiled_crops(plan)


def _frames_kernel(problem: FrameProblem) -> CpuKernel | None:
    from stridedgpu.devices.cpu.compiled.frames import frames_kernel

    return frames_kernel(problem)


def _compiled_frames(plan: CpuPlan) -> Callable[..., None] | None:
    from stridedgpu.devices.cpu.compiled.frames import compiled_frames

    return compiled_frames(plan)


def _why_numpy_frames(problem: FrameProblem) -> str | None:
    missing = why_unavailable()
    if missing is not None:
        return missing
    from stridedgpu.devices.cpu.compiled.frames import why_numpy

    return why_numpy(problem)


def _samples_kernel(problem: SamplesProblem) -> CpuKernel | None:
    from stridedgpu.devices.cpu.compiled.frame_encode import samples_kernel

    return samples_kernel(problem)


def _compiled_samples(plan: CpuPlan) -> Callable[..., None] | None:
    from stridedgpu.devices.cpu.compiled.frame_encode import compiled_samples

    return compiled_samples(plan)


def _why_numpy_samples(problem: SamplesProblem) -> str | None:
    missing = why_unavailable()
    if missing is not None:
        return missing
    from stridedgpu.devices.cpu.compiled.frame_encode import why_numpy

    return why_numpy(problem)


def _frame_bytes() -> int:
    return policy().promotion.frame_bytes


def _resize_kernel(problem: ResizeProblem) -> CpuKernel | None:
    from stridedgpu.devices.cpu.compiled.resize import resize_kernel

    return resize_kernel(problem)


def _compiled_resize(plan: CpuPlan) -> Callable[..., None] | None:
    from stridedgpu.devices.cpu.compiled.resize import compiled_resize

    return compiled_resize(plan.problem, partial(resize_located, plan.problem))


def _why_numpy_resize(problem: ResizeProblem) -> str | None:
    missing = why_unavailable()
    if missing is not None or problem.window is None:
        return missing
    from stridedgpu.devices.cpu.compiled.resize_recipes import why_numpy

    return why_numpy(problem, problem.window)


def _channel_matrix(problem: ChannelMatrixProblem) -> Callable[..., None]:
    return partial(mix_channels, problem)


def _channel_matrix_kernel(problem: ChannelMatrixProblem) -> CpuKernel | None:
    from stridedgpu.devices.cpu.compiled.channel_matrix import channel_matrix_kernel

    return channel_matrix_kernel(problem)


def _compiled_channel_matrix(plan: CpuPlan) -> Callable[..., None] | None:
    from stridedgpu.devices.cpu.compiled.channel_matrix import compiled_channel_matrix

    return compiled_channel_matrix(plan)


def _why_numpy_channel_matrix(problem: ChannelMatrixProblem) -> str | None:
    missing = why_unavailable()
    if missing is not None:
        return missing
    from stridedgpu.devices.cpu.compiled.channel_matrix import why_numpy

    return why_numpy(problem)


def _numpy_raw(problem: RawProblem) -> Callable[..., None]:
    return partial(unpack_samples, problem)


def _raw_kernel(problem: RawProblem) -> CpuKernel | None:
    from stridedgpu.devices.cpu.compiled.raw import raw_kernel

    return raw_kernel(problem)


def _compiled_raw(plan: CpuPlan) -> Callable[..., None] | None:
    from stridedgpu.devices.cpu.compiled.raw import compiled_raw

    return compiled_raw(plan)


def _why_numpy_raw(problem: RawProblem) -> str | None:
    missing = why_unavailable()
    if missing is not None:
        return missing
    from stridedgpu.devices.cpu.compiled.raw import why_numpy

    return why_numpy(problem)


def _resize_bytes() -> int:
    return policy().promotion.resize_bytes


_OPERATIONS: Final[Mapping[type, CpuOperation]] = MappingProxyType(
    {
        Problem: CpuOperation(numpy_relayout_kernel, _numpy_relayout, _relayout_kernel, _compiled_relayout, 4),
        GatherProblem: CpuOperation(numpy_gather_kernel, _numpy_gather, _gather_kernel, _compiled_gather),
        CropProblem: CpuOperation(numpy_crops_kernel, _numpy_crops, _crops_kernel, _compiled_crops),
        FrameProblem: CpuOperation(
            numpy_frames_kernel,
            _numpy_frames,
            _frames_kernel,
            _compiled_frames,
            at_once_bytes=_frame_bytes,
            why_numpy=_why_numpy_frames,
        ),
        ResizeProblem: CpuOperation(
            numpy_resize_kernel,
            _numpy_resize,
            _resize_kernel,
            _compiled_resize,
            at_once_bytes=_resize_bytes,
            why_numpy=_why_numpy_resize,
        ),
        ChannelMatrixProblem: CpuOperation(
            numpy_channel_matrix_kernel,
            _channel_matrix,
            _channel_matrix_kernel,
            _compiled_channel_matrix,
            4,
            why_numpy=_why_numpy_channel_matrix,
        ),
        RawProblem: CpuOperation(
            numpy_raw_kernel, _numpy_raw, _raw_kernel, _compiled_raw, 4, _frame_bytes, why_numpy=_why_numpy_raw
        ),
        SamplesProblem: CpuOperation(
            numpy_samples_kernel,
            _numpy_samples,
            _samples_kernel,
            _compiled_samples,
            2,
            _frame_bytes,
            why_numpy=_why_numpy_samples,
        ),
    }
)
"""The operations of the CPU, by the type of the problem."""
