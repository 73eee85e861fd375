"""Relayouts planned once, to be explained and run many times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, overload

from stridedgpu.devices.selection import device_name
from stridedgpu.operations.relayout import RelayoutPlan, planned_relayout
from stridedgpu.typing import ConversionKeywords, DeviceLike
from stridedgpu.values.conversion import ConversionOptions
from stridedgpu.values.descriptor import BufferTensorDesc

from .frame_like import FrameBase, FrameLike, is_frames
from .given import given
from .tensor import StridedTensor

if TYPE_CHECKING:
    from stridedgpu.operations.frames import PlannedFrames

__all__ = ["plan_relayout"]


@overload
def plan_relayout(
    src: FrameLike,
    dst: StridedTensor | BufferTensorDesc,
    *,
    device: DeviceLike | None = None,
    **options: Unpack[ConversionKeywords],
) -> PlannedFrames: ...


@overload
def plan_relayout(
    src: StridedTensor | BufferTensorDesc,
    dst: StridedTensor | BufferTensorDesc,
    *,
    device: DeviceLike | None = None,
    **options: Unpack[ConversionKeywords],
) -> RelayoutPlan: ...


def plan_relayout(
    src: StridedTensor | BufferTensorDesc | FrameLike,
    dst: StridedTensor | BufferTensorDesc,
    *,
    device: DeviceLike | None = None,
    **options: Unpack[ConversionKeywords],
) -> RelayoutPlan | PlannedFrames:
    """Plan `relayout(src, out=dst)` once; the plan runs many times, and explains itself.

    Each side is a tensor, or a descriptor of one that will be bound later. The plan runs on every tensor of the same
    type, sizes and strides, such as each `batch[i]` in turn. On a GPU these tensors need the alignment of the planned
    one; on the CPU an address need only be aligned to an element. A descriptor guarantees an alignment and a size; the
    plan relies on no more, and every run checks both. `device` is None for the tensors' device (descriptors: the CPU),
    or "cuda" to plan for a GPU. Without a GPU the plan is for a reference GPU, and can be read but not run.
    With a `Frame` as `src`, the plan runs on frames of its format, sizes, pitches, matrix and chroma; with a list of
    frames of one size, whose `dst` has the axes N, C, H, W, on lists of frames like these.

    Plans pickle: unpickling prepares them again, for the device of the same name in the new process.

    Raises `LayoutError` when the sides do not fit each other.

    >>> plan = plan_relayout(BufferTensorDesc("uint8", (1, 3, 64, 64), (12288, 1, 192, 3)),
    ...                      BufferTensorDesc("uint8", (1, 3, 64, 64)), device="cuda")
    >>> plan.load_bytes, plan.store_bytes, plan.index_bits, plan.bytes_moved
    (16, 16, 32, 24576)
    """
    written = given("dst", dst, is_written=True)
    conversion = ConversionOptions.of("plan_relayout", options)
    if type(src) is not StridedTensor and is_frames(src):
        from stridedgpu.operations.frames import planned_frames  # only programs with frames load it

        from .frames import frame_operands

        frames = frame_operands(src)
        here = frames[0].device if device is None else device_name(device)
        return planned_frames(frames, written, conversion, here, is_batch=not isinstance(src, FrameBase))
    read = given("src", src)
    dims = src.dims if isinstance(src, StridedTensor) else None
    if device is not None:
        where = device_name(device)
    elif isinstance(dst, StridedTensor):
        where = dst.operand.buffer.device
    else:
        where = src.device if isinstance(src, StridedTensor) else "cpu"
    return planned_relayout(read, written, dims, conversion, where)
