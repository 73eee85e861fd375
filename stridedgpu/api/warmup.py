"""`warmup`: prepare plans before they are needed; compile kernels, or build the CPU's loops, ahead of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stridedgpu.devices.selection import chosen_device, default_device
from stridedgpu.operations.allocation import DEFAULT_ALIGNMENT
from stridedgpu.typing import DeviceLike, PerChannel, Rounding
from stridedgpu.values.descriptor import BufferTensorDesc
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.strides import calculate_strides

from .relayout_plans import plan_relayout
from .tensor import StridedTensor

__all__ = ["warmup"]

_COMMON: Final = (
    # (source type, order), (target type, order), with scale and bias
    (("uint8", "NHWC"), ("float32", "NCHW"), True),
    (("uint8", "NHWC"), ("float16", "NCHW"), True),
    (("uint8", "NHWC"), ("uint8", "NCHW"), False),
    (("uint8", "NCHW"), ("uint8", "NHWC"), False),
    (("float32", "NHWC"), ("float32", "NCHW"), False),
    (("float16", "NHWC"), ("float16", "NCHW"), False),
    (("float32", "NCHW"), ("float16", "NCHW"), False),
)
"""The most common relayouts of image pipelines: batches of decoded frames for a network, and back."""

_SIZES: Final = (8, 3, 224, 224)
"""Sizes of the common batches; other sizes share their kernels when their strides allow the same vectors."""


def warmup(
    src: StridedTensor | BufferTensorDesc | None = None,
    dst: StridedTensor | BufferTensorDesc | None = None,
    *,
    scale: PerChannel | None = None,
    bias: PerChannel | None = None,
    channels: Sequence[int] | None = None,
    rounding: Rounding = "nearest",
    device: DeviceLike | None = None,
) -> tuple[str, ...]:
    """Compile ahead what `relayout(src, out=dst)` will run, so that the first call is as fast as the others.

    The arguments are those of `plan_relayout`. Without `src` and `dst`, the most common relayouts of image pipelines
    are prepared (uint8 NHWC to float32 and float16 NCHW with scale and bias, the plain transposes, the narrowing cast),
    on the device of new tensors. CuPy caches compiled kernels on disk, so that other processes only load them.

    Returns the names of the prepared kernels. Raises `LayoutError` for one of `src` and `dst` without the other, and
    `DeviceError` if the named device is unavailable.

    >>> planes = BufferTensorDesc("uint8", (1, 3, 64, 64))
    >>> pixels = BufferTensorDesc("uint8", (1, 3, 64, 64), (12288, 1, 192, 3))
    >>> warmup(pixels, planes) == (plan_relayout(pixels, planes).kernel,)
    True
    """
    if (src is None) != (dst is None):
        raise LayoutError(f"{'dst' if dst is None else 'src'} is missing: give both sides, or neither.")
    if src is not None and dst is not None:
        plan = plan_relayout(src, dst, scale=scale, bias=bias, channels=channels, rounding=rounding, device=device)
        plan.check_runnable()
        return (plan.kernel,)
    if any(given is not None for given in (scale, bias, channels)):
        raise LayoutError("scale, bias and channels are for one pair of tensors: give src and dst with them.")
    where = default_device() if device is None else chosen_device(device)
    return tuple(dict.fromkeys(name for common in _COMMON for name in _warmed(*common, where)))


def _warmed(source: tuple[str, str], target: tuple[str, str], arithmetic: bool, device: str) -> tuple[str, ...]:
    """Prepare one of the common relayouts."""
    sides = (
        BufferTensorDesc(
            dtype, _SIZES, calculate_strides(order, _SIZES), guaranteed_base_offset_alignment=DEFAULT_ALIGNMENT
        )
        for dtype, order in (source, target)
    )
    constants = (0.25, 0.5, 0.75) if arithmetic else None
    return warmup(*sides, scale=constants, bias=constants, device=device)
