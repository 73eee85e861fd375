"""`warmup`: plan and load kernels before they are needed, of relayouts and of any call."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final, Unpack, overload

import numpy as np

from stridedgpu.devices.cpu.thread_count import usable_cores
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import chosen_device, default_device
from stridedgpu.operations.gather import PlannedGather
from stridedgpu.operations.options import DEFAULT_ALIGNMENT
from stridedgpu.operations.plans import Plan, Requirement
from stridedgpu.operations.relayout import RelayoutPlan
from stridedgpu.operations.resize import PlannedResize
from stridedgpu.typing import ConversionKeywords, DeviceLike
from stridedgpu.values.conversion import ConversionOptions, refuse_unknown
from stridedgpu.values.descriptor import BufferTensorDesc
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.strides import calculate_strides
from stridedgpu.values.tensor_spec import TensorSpec

from .creation import zeros
from .crops import gather_crops
from .relayout import plan_relayout
from .resize import letterbox, resize
from .tensor import StridedTensor

__all__ = ["warmup"]

Common = tuple[tuple[str, str], tuple[str, str], bool]
"""Types and orders of a source and of a target, and whether there are a scale and a bias."""

COMMON: Final[tuple[Common, ...]] = (
    (("uint8", "NHWC"), ("float32", "NCHW"), True),
    (("uint8", "NHWC"), ("float16", "NCHW"), True),
    (("uint8", "NHWC"), ("uint8", "NCHW"), False),
    (("uint8", "NCHW"), ("uint8", "NHWC"), False),
    (("float32", "NHWC"), ("float32", "NCHW"), False),
    (("float16", "NHWC"), ("float16", "NCHW"), False),
    (("float32", "NCHW"), ("float16", "NCHW"), False),
)
"""The most common relayouts of image pipelines: batches of decoded frames for a network, and back."""

_SIZES: Final = (3, 224, 224)
"""Channels, height and width of the common images; others share their kernels where strides allow the same vectors."""

_IMAGE: Final = (1080, 1920, 3)
"""Height, width and channels of the image that is letterboxed, resized and cropped."""


@overload
def warmup(call: Callable[..., object], /, *arguments: object, **options: object) -> tuple[str, ...]: ...


@overload
def warmup(
    src: StridedTensor | BufferTensorDesc | None = None,
    dst: StridedTensor | BufferTensorDesc | None = None,
    *,
    device: DeviceLike | None = None,
    **options: Unpack[ConversionKeywords],
) -> tuple[str, ...]: ...


def warmup(*arguments: Any, **options: Any) -> tuple[str, ...]:
    """Plan and load ahead what later calls run: the first one is then as fast as the others.

    `warmup(call, *arguments, **options)` calls an operation, a plan or a `Preprocess` step once with these arguments:
    what it needs is imported and planned, and on a GPU compiled. The result is dropped; an `out=` is written. In place
    of images, sizes will do: `warmup(resize, (1080, 1920, 3), 224, dims="HWC")` calls `resize` with bytes of zeros.
    Several sizes, `[(1080, 1920, 3), (480, 640, 3)]`, are a list of images. A descriptor is a tensor of its type and
    layout. Kernels depend on types, layouts and options; those of a resize depend on how far an image shrinks or grows,
    too, and those of a relayout on its sizes. A process warms up its own kernels, and threads share them.

    `warmup(step)` calls a `Preprocess` step with RGB bytes: with batches, lists and images of Pillow that are larger
    than its result, and also of its size and smaller where it resizes; it decodes a JPEG, a PNG and a WebP. Name the
    sizes of other images, and where nothing is resized. `warmup(processor)` calls an `image_processor` with images of
    seven sizes up to 1080p, and with options of a call, such as `return_tensors="pt"`. `warmup(plan)` runs a plan of a
    relayout, a resize or a gather on zeros; other plans need their arguments.

    `warmup(src, dst)` prepares `relayout(src, out=dst)`, and runs nothing; the options are those of `plan_relayout`.
    Without arguments, the most common relayouts of image pipelines are prepared (uint8 NHWC to float32 and float16 NCHW
    with scale and bias, the plain transposes, the narrowing cast), on the device of new tensors. On the CPU, an image
    of 1080p is also letterboxed to 640, resized and cropped to 224, each to float32 planes. CuPy's kernels are cached
    on disk, so that other processes only load them; the CPU's are in the native library, and nothing is compiled.

    Returns the names of the prepared kernels of relayouts; those of a call are not named. Raises `LayoutError` for one
    of `src` and `dst` without the other, `DeviceError` if the named device is unavailable, and what the call raises.

    >>> planes = BufferTensorDesc("uint8", (1, 3, 64, 64))
    >>> pixels = BufferTensorDesc("uint8", (1, 3, 64, 64), (12288, 1, 192, 3))
    >>> warmup(pixels, planes) == (plan_relayout(pixels, planes).kernel,)
    True
    >>> warmup(letterbox, (720, 1280, 3), 640, dims="HWC", dtype="float16", scale=1 / 255)
    ()
    """
    if arguments and callable(arguments[0]):
        call, *operands = arguments
        if operands:
            call(_images_like(operands[0]), *operands[1:], **options)
        elif isinstance(call, Plan):
            refuse_unknown("warmup", options, ())
            _run(call)
        else:
            getattr(call, "rehearse", call)(**options)
        return ()
    return _relayouts(*arguments, **options)


def _images_like(images: object) -> Any:
    """Images of zeros in place of sizes and descriptors; anything else itself."""
    if isinstance(images, BufferTensorDesc):
        spec = TensorSpec.of(images.layout, element_type(images.data_type), base_alignment=DEFAULT_ALIGNMENT)
        return _zeros_like(spec, "cpu")
    if isinstance(images, list):
        return [_images_like(image) for image in images]
    is_sizes = isinstance(images, tuple) and len(images) > 1 and all(type(size) is int for size in images)
    return np.zeros(images, np.uint8) if is_sizes else images


def _run(plan: Any) -> None:
    """Run a plan on zeros. Raises `LayoutError` for a plan that does not say what it runs on."""
    required = [getattr(side, "required", side) for side in plan.sides]
    is_exact = isinstance(plan, (RelayoutPlan, PlannedResize, PlannedGather))
    if not is_exact or not all(isinstance(side, Requirement) for side in required):
        raise LayoutError(f"{plan!r} does not say what it runs on: warmup(plan, ...) takes the arguments of a call.")
    plan.check_runnable()
    plan(*[_zeros_like(side.spec, side.device) for side in required])


def _zeros_like(spec: TensorSpec, device: str) -> StridedTensor:
    nbytes = spec.layout.span * spec.element.itemsize + spec.slack_bytes
    memory = zeros((nbytes,), "uint8", alignment=max(spec.alignment, DEFAULT_ALIGNMENT), device=device)
    return StridedTensor.over(Operand(memory.buffer, spec.layout, spec.element, spec.owns_padding))


def _relayouts(
    src: StridedTensor | BufferTensorDesc | None = None,
    dst: StridedTensor | BufferTensorDesc | None = None,
    *,
    device: DeviceLike | None = None,
    **options: Unpack[ConversionKeywords],
) -> tuple[str, ...]:
    """Prepare one relayout, or all common ones; the names of their kernels."""
    if (src is None) != (dst is None):
        raise LayoutError(f"{'dst' if dst is None else 'src'} is missing: give both sides, or neither.")
    if src is not None and dst is not None:
        plan = plan_relayout(src, dst, device=device, **options)
        plan.check_runnable()
        return (plan.kernel,)
    if ConversionOptions.of("warmup", options) != ConversionOptions():
        raise LayoutError("Options of a conversion are for one pair of tensors: give src and dst with them.")
    where = default_device() if device is None else chosen_device(device)
    if where == "cpu":
        _whole_operations()
    from concurrent.futures import ThreadPoolExecutor  # which imports logging

    with ThreadPoolExecutor(usable_cores()) as threads:  # compilers run side by side, by this thread's policies
        waiting = [threads.submit(copy_context().run, common_plan, case, where) for case in COMMON]
        plans = [plan.result() for plan in waiting]
    for plan in plans:
        plan.check_runnable()
    return tuple(dict.fromkeys(plan.kernel for plan in plans))


_relayouts.__qualname__ = warmup.__qualname__  # which Python names to those who call it by other arguments


def common_plan(case: Common, device: DeviceLike, count: int = 8) -> RelayoutPlan:
    """The plan of one of the most common relayouts, of batches of `count` images."""
    source, target, arithmetic = case
    sizes = (count, *_SIZES)
    sides = (
        BufferTensorDesc(
            dtype, sizes, calculate_strides(order, sizes), guaranteed_base_offset_alignment=DEFAULT_ALIGNMENT
        )
        for dtype, order in (source, target)
    )
    constants = (0.25, 0.5, 0.75) if arithmetic else None
    return plan_relayout(*sides, scale=constants, bias=constants, device=device)


def _whole_operations() -> None:
    """Letterbox, resize and crop an image on the CPU."""
    image, values = zeros(_IMAGE, "uint8", device="cpu"), {"dims": "HWC", "dtype": "float32", "scale": 0.25}
    warmup(letterbox, image, 640, **values)
    warmup(resize, image, (224, 224), passes="horizontal", **values)
    warmup(gather_crops, [image], [[0, 0]], (224, 224), **values)
