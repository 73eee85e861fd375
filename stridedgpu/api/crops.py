"""Batched crops: windows of images or volumes as one batch, mirrored, converted and laid out in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Unpack, cast

from stridedgpu.devices.buffer import PROCESS_BYTES
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_name
from stridedgpu.exchange.array_like import operand_of
from stridedgpu.exchange.named_axes import named_axes
from stridedgpu.operations.batches import BATCH
from stridedgpu.operations.crops import PlannedCrops, crop_operands, crop_request, planned_crops, planned_frame_crops
from stridedgpu.operations.images import CropSources
from stridedgpu.operations.options import DEFAULT_ALIGNMENT, MemoryOptions, result_options
from stridedgpu.operations.plans import PlanOperand
from stridedgpu.operations.resize import resized_boxes
from stridedgpu.problems.crop_windows import distinct_layouts
from stridedgpu.typing import (
    Border,
    ConversionKeywords,
    DeviceLike,
    DTypeLike,
    ImageSize,
    Interpolation,
    LayoutLike,
    Passes,
    ResultKeywords,
    StreamLike,
    SupportsArray,
    TensorLike,
)
from stridedgpu.values.axis_labels import inferred_labels
from stridedgpu.values.conversion import ConversionOptions
from stridedgpu.values.descriptor import BufferTensorDesc
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import axis_letters
from stridedgpu.values.tensor_spec import TensorSpec

from .arguments import (
    FrameLike,
    is_frames,
    operands_of_list,
    plan_operand,
    refuse_interleaved,
    refuse_unlabelled,
    result_tensor,
)
from .frames import Frame, check_planned, frame_images
from .tensor import StridedTensor, output_tensor

_VOLUME: Final = "CDHW"
_IMAGE: Final = 2
"""The axes of a window of images."""

_RESULTS: Final = {2: "NCHW", 3: "NCDHW"}
"""The labels of a batch of windows with so many axes."""


def gather_crops(
    sources: TensorLike | FrameLike,
    origins: TensorLike | None = None,
    size: ImageSize | None = None,
    *,
    dims: str | None = None,
    boxes: TensorLike | None = None,
    interpolation: Interpolation | None = None,
    passes: Passes | None = None,
    flip: bool | Sequence[bool] | SupportsArray | None = None,
    fill: complex | Sequence[complex] | SupportsArray | Border = 0,
    out: TensorLike | None = None,
    stream: StreamLike | None = None,
    **options: Unpack[ResultKeywords],
) -> StridedTensor:
    """One window of each image as a batch (N, C, height, width): the crop-mirror-normalise step of training.

    `sources` is a batch (N, C, H, W), or a list of images (C, H, W) of one type and channel count, each of its own
    size and layout. `dims` is the order of their axes ("NHWC", "HWC"), as in `asarray`. Tensors with labels need none;
    arrays without `dims` have canonical axes, and an order string as `layout` needs `dims` beside an array, as in
    `relayout`. A frame, or a list of frames of any sizes and formats, counts as RGB images. `origins` are integers
    (N, 2): the row and column, in pixels of the source, where each window begins; they are read on the host. `size` is
    the height and width of every window, in pixels, or one number for a square of this side, as in torchvision's
    CenterCrop. `flip` mirrors left and right: a bool, or one for each sample.

    Volumes have an axis D besides: a batch (N, C, D, H, W), or a list of volumes (C, D, H, W), whose axes `dims` or
    labels name ("CDHW", or "CZYX"); three numbers as `size` name them, too. `size` is then the depth, height and width,
    `origins` (N, 3) the slice, row and column, and the result a batch (N, C, D, H, W). `flip` mirrors left and right
    here, too.

    A window may reach beyond an image or lie outside it. Pixels outside have the value `fill`: one number of the
    sources' own type, or one for each source channel, as `value` of `letterbox`. It is converted like any pixel, so a
    black border is normalised like black. "reflect", "symmetric" and "edge" continue an image instead, as `numpy.pad`
    does: pixels are copied within the result, and a window that lacks them comes from a larger one, which needs memory
    of its own. Volumes have no such border. All other keywords are those of `relayout`, to the bit; without `layout`
    the batch is packed, NCHW. On a GPU a matrix mixes the windows of images and all resized boxes in a second pass,
    which needs memory in the sources' type.

    With `boxes` instead of `origins`, each box is resized to `size`. Boxes are numbers (N, 4): top, left, bottom and
    right, in pixels of the source and fractions of them, inside it. A single image may have any number of boxes.
    `interpolation` (default "pillow-bilinear") and `passes` are those of `resize`. Volumes are not resized.

    No memory but the batch is allocated, except for that second pass and these windows. Raises before anything is
    written: `LayoutError` for ranks, sizes, origins, flips and fills that do not fit; `ElementTypeError` for types that
    differ and conversions that do not exist; `BindingError` for devices that differ and for an `out` that is read-only
    or shares memory with a source.

    >>> import numpy as np
    >>> photos = [np.full((4, 6, 3), 10, np.uint8), np.full((5, 2, 3), 20, np.uint8)]
    >>> batch = gather_crops(photos, [[0, 2], [1, 1]], (2, 2), dims="HWC", dtype="float16", scale=0.5, fill=1)
    >>> batch.sizes, batch.numpy()[:, 0].tolist()
    ((2, 3, 2, 2), [[[5.0, 5.0], [5.0, 5.0]], [[10.0, 0.5], [10.0, 0.5]]])
    >>> gather_crops(photos, size=(2, 2), boxes=[[0, 1.5, 2, 4], [0, 0, 5, 2]], dims="HWC").numpy()[:, 0].tolist()
    [[[10, 10], [10, 10]], [[20, 20], [20, 20]]]
    >>> scan = np.arange(4 * 5 * 6, dtype=np.int16).reshape(1, 4, 5, 6)
    >>> patch = gather_crops([scan], [[1, 0, 2]], (2, 3, 3), dims="CZYX")
    >>> patch.sizes, np.array_equal(patch.numpy()[0], scan[:, 1:3, :3, 2:5])
    ((1, 1, 2, 3, 3), True)
    """
    if size is None:
        raise LayoutError("size= is missing: the height and width of every window, in pixels.")
    values, memory = result_options("gather_crops", options)
    written = output_tensor(out, stream)
    if written is not None:
        memory.check_beside_out()
    target = None if written is None else written.operand
    _check_choice(origins, boxes, interpolation, passes)
    images = _images(sources, dims, memory.layout, size, stream)
    axes = images.axes
    if boxes is None:
        result = crop_operands(images, origins, size, values, memory, flip=flip, fill=fill, out=target, stream=stream)
    elif axes != _IMAGE:
        raise LayoutError("boxes= are resized in images; windows of volumes are at origins=, and not resized.")
    else:
        rule = ("pillow-bilinear" if interpolation is None else interpolation, passes)
        result = resized_boxes(
            images, boxes, size, rule, values, memory, flip=flip, fill=fill, out=target, stream=stream
        )
    return result_tensor(result, _RESULTS[axes], written)


def _check_choice(origins: object, boxes: object, interpolation: object, passes: object) -> None:
    """Raise `LayoutError` unless exactly one argument states the windows, and only boxes are resized."""
    if origins is not None and boxes is not None:
        raise LayoutError("origins= and boxes= both say where windows lie; give one of them.")
    if origins is None and boxes is None:
        raise LayoutError("origins= or boxes= is missing: one of them says where the windows lie.")
    if boxes is None and (interpolation is not None or passes is not None):
        raise LayoutError("interpolation= and passes= are for boxes=, which are resized; windows at origins= are not.")


def plan_gather_crops(
    sources: TensorLike | BufferTensorDesc | Sequence[TensorLike | BufferTensorDesc] | FrameLike,
    size: ImageSize,
    *,
    dims: str | None = None,
    fill: complex | Sequence[complex] | SupportsArray = 0,
    layout: LayoutLike | None = None,
    dtype: DTypeLike | None = None,
    row_pitch_bytes: int | None = None,
    out: StridedTensor | BufferTensorDesc | None = None,
    device: DeviceLike | None = None,
    **options: Unpack[ConversionKeywords],
) -> PlannedCrops:
    """Plan `gather_crops(sources, origins, size, ...)` once; the plan runs many times, and explains itself.

    `sources` are those of `gather_crops`, or descriptors: one of a batch (N, C, H, W), or a list of those of images
    (C, H, W). `plan(sources, origins, out, flip)` runs on as many tensors, of any heights and widths, and of the same
    type, channels, and channel and column strides. The other arguments are those of `gather_crops`, and `device` that
    of `plan_gather`. An order that pads channels needs one plan for each block, with `out`. With a `matrix` a
    plan for a GPU has two `steps`: the windows, and the mixing of their channels. Windows of volumes, and borders that
    continue images, have no such plan.

    `sources` may also be a frame or a list of frames of any sizes and formats. Such a plan runs on frames like these,
    with a launch for each; a matrix is part of it.

    Raises what `gather_crops` raises for what does not fit.

    >>> photos = BufferTensorDesc("uint8", (32, 3, 480, 640), (921600, 1, 1920, 3))
    >>> plan = plan_gather_crops(photos, (224, 224), dtype="float16", scale=1 / 255, device="cuda")
    >>> plan.kernel, plan.load_bytes, plan.store_bytes
    ('crops_split_uint8x8B_float16x16B', 8, 16)
    """
    values = ConversionOptions.of("plan_gather_crops", {"dtype": dtype, **options})
    memory = MemoryOptions(layout, row_pitch_bytes)
    if out is not None:
        memory.check_beside_out()
    frames = None
    if is_frames(sources):
        check_planned(sources)
        frames = frame_images(sources)[0]
    images: list[TensorSpec] = []
    if frames is not None:
        counts, element = (len(frames.layouts), frames.channels), frames.element
    else:
        first = next(iter(_items(sources)), sources)
        named = dims if isinstance(dims, str) and dims else None
        if _axes_of(first, named, size) == _VOLUME:
            raise LayoutError("sources= are volumes, whose windows have no plan: gather_crops(sources, ...) cuts them.")
        images = _described(cast("TensorLike", sources), dims, layout)
        if not images:
            raise LayoutError("sources is empty: a batch of no images has no type and no channels.")
        counts, element = (len(images), images[0].layout.sizes[0]), images[0].element
    target = None if out is None else plan_operand("out", out, is_written=True)
    if target is not None and dtype is None:
        values = values._replace(dtype=target.spec.element)
    request = crop_request(counts, element, size, values, fill)
    if target is None:
        spec = memory.allocation(request.sizes, BATCH, request.conversion.target)
        if spec.layout.sizes != request.sizes or not spec.owns_padding:
            raise LayoutError(
                f"layout={layout!r} fills channels up, which is more than one plan: plan for out= of each block."
            )
        nbytes = spec.layout.span * spec.spec.element.itemsize
        if nbytes >= PROCESS_BYTES:
            raise LayoutError(f"size={size!r}: the windows take {nbytes} bytes, more than any process can have.")
        side = TensorSpec.of(spec.layout, spec.spec.element, base_alignment=DEFAULT_ALIGNMENT, owns_padding=True)
        target = PlanOperand(side)
    tensors = (entry for entry in (out, sources, *_items(sources)) if isinstance(entry, (StridedTensor, Frame)))
    where = next((tensor.device for tensor in tensors), "cpu") if device is None else device_name(device)
    if frames is not None:
        return planned_frame_crops(frames, request, target, where)
    return planned_crops(request, images, target, where)


def _items(sources: object) -> Sequence[object]:
    """The images of a list, or an empty sequence if `sources` is one object."""
    return sources if isinstance(sources, (list, tuple)) else ()


def _described(
    sources: TensorLike | BufferTensorDesc | Sequence[TensorLike | BufferTensorDesc],
    dims: str | None,
    order: LayoutLike | None,
) -> list[TensorSpec]:
    """The specs of images with axes C, H, W, given one by one or as a batch, as objects or as descriptors."""
    if isinstance(sources, (list, tuple)):
        return [_spec(f"sources[{number}]", image, dims, "CHW", order) for number, image in enumerate(sources)]
    batch = _spec("sources", cast("TensorLike | BufferTensorDesc", sources), dims, "NCHW", order)
    return [replace(batch, layout=batch.layout.sliced(n)) for n in range(batch.layout.sizes[0])]


def _spec(
    name: str, source: TensorLike | BufferTensorDesc, dims: str | None, wanted: str, order: LayoutLike | None
) -> TensorSpec:
    """The spec of one object with these axes, or of a descriptor, whose sizes are in their order already."""
    if not isinstance(source, BufferTensorDesc):
        return _image(name, source, dims, wanted, order).spec
    side = plan_operand(name, source).spec
    if side.layout.ndim != len(wanted):
        raise LayoutError(f"{name} describes sizes {side.layout.sizes}; it must have the axes {', '.join(wanted)}.")
    return side


def _images(
    sources: TensorLike | FrameLike, dims: str | None, order: LayoutLike | None, size: ImageSize, stream: object
) -> CropSources:
    """The images with axes C, H, W or the volumes with D besides, or their batch with N besides; or frames."""
    if is_frames(sources):
        return frame_images(sources, stream)[0]
    if isinstance(sources, (list, tuple)):
        if not sources:
            raise LayoutError("sources is empty: a batch of no images has no type and no channels.")
        wanted = _axes_of(sources[0], dims, size)
        if dims is None:
            known = [image.operand for image in sources if type(image) is StridedTensor and image.dims == wanted]
            if len(known) == len(sources):
                tensors = CropSources.of_images(known)
                if {layout.ndim for layout in distinct_layouts(tensors.layouts).values()} == {len(wanted)}:
                    return tensors
        images = operands_of_list(
            "sources", sources, lambda name, image: _image(name, image, dims, wanted, order, stream)
        )
        return CropSources.of_images(images)
    wanted = _axes_of(sources, dims, size)
    return CropSources.of_batch(_image("sources", sources, dims, f"N{wanted}", order, stream))


def _axes_of(source: object, dims: str | None, size: ImageSize) -> str:
    """The axes of an image, or of a volume: by `dims` or the names that it has, else by three numbers as `size`."""
    named: object = dims if isinstance(dims, str) else getattr(source, "dims", None)
    if isinstance(named, tuple):
        named = named_axes(source)
    if isinstance(named, str):
        is_volume = "D" in axis_letters(named)
    else:
        is_volume = isinstance(size, Sequence) and len(size) == len("DHW")
    return _VOLUME if is_volume else "CHW"


def _image(
    name: str, source: object, dims: str | None, wanted: str, order: LayoutLike | None, stream: object = None
) -> Operand:
    """The operand of an object with these axes. Raises `LayoutError` for others, and for an order of unnamed axes."""
    operand, labels = operand_of(source, dims, stream)
    if labels is None and isinstance(order, str) and not isinstance(source, StridedTensor):
        refuse_unlabelled(operand.layout, order)
    if labels != wanted or len(operand.layout.sizes) != len(wanted):
        _check_axes(name, operand.layout, labels, wanted)
        if labels is None and not isinstance(source, StridedTensor):
            refuse_interleaved(name, operand.layout, wanted)
    return operand


def _check_axes(name: str, layout: Layout, labels: str | None, wanted: str) -> None:
    """Raise `LayoutError` unless a layout has these axes; without labels they are taken to be in canonical order."""
    inferred = inferred_labels(labels, layout.ndim, wanted)
    if "".join(label or "?" for label in inferred) != wanted:
        raise LayoutError(
            f"{name} has sizes {layout.sizes} and dims={labels!r}; it must have the axes {', '.join(wanted)}: "
            "say with dims= how they are ordered" + (", such as 'CDHW' of volumes." if "D" in (labels or "D") else ".")
        )
