"""Arguments that several functions take, and the operands that plans are made for.

What a frame is known by is here: operations ask every argument, and load what moves frames only for frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias, TypeGuard, TypeVar

from stridedgpu.devices.operand import Operand
from stridedgpu.exchange.array_like import is_video_frame, operand_of_argument, video_frame_types
from stridedgpu.operations.plans import PlanOperand
from stridedgpu.typing import TensorLike, VideoFrameLike
from stridedgpu.values.descriptor import BufferTensorDesc
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import LayoutError, StridedGpuError
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .creation import asarray
from .tensor import StridedTensor

if TYPE_CHECKING:
    from .frames import Frame

FrameLike: TypeAlias = "Frame | VideoFrameLike | Sequence[Frame | VideoFrameLike]"
"""A frame, or a batch of frames; PyAV's are frames as they are."""

_FEW: Final = 4
"""The most channels of an image whose unlabelled last axis could be channels; such an image must state `dims`."""

_USUAL_ORDERS: Final = {2: "HW", 3: "HWC", 4: "NHWC", 5: "NDHWC"}
"""The most common order of the axes of an array of each rank: the example in a message."""

GREY: Final = 114
"""The value of borders that YOLO takes."""


Read = TypeVar("Read")
"""The operand of an image or of a frame."""


class FrameBase:
    """The base of `Frame`, which loads nothing."""


def is_frames(thing: object) -> TypeGuard[FrameLike]:
    """True for a frame, or a list of frames. Raises `LayoutError` for a list of frames and other things."""
    if isinstance(thing, FrameBase):
        return True
    if not isinstance(thing, (list, tuple)):
        return is_video_frame(thing)
    frames = (FrameBase, *video_frame_types())
    kinds = set(map(type, thing))
    other = [kind for kind in kinds if not issubclass(kind, frames)]
    if len(other) == len(kinds):
        return False
    if other:
        others = ", ".join(sorted(kind.__name__ for kind in other))
        raise LayoutError(
            f"The list has Frames and other images ({others}): make tensors of the frames with frame.relayout(), or "
            "give both to Preprocess."
        )
    return True


def operands_of_list(argument: str, images: Sequence[object], read: Callable[[str, object], Read]) -> list[Read]:
    """The operand of each image of a list, as `read` makes it of the image and its name in messages.

    A refusal names the image. An error of the image's own library is passed on, with a note that names the image.
    """
    operands, name = [], ""
    try:
        for number, image in enumerate(images):
            name = f"{argument}[{number}]"
            operands.append(read(name, image))
    except StridedGpuError as refusal:
        if name in str(refusal):
            raise
        raise type(refusal)(f"{name}: {refusal}") from refusal
    except Exception as error:
        error.add_note(f"This was raised while {name} was read.")
        raise
    return operands


def result_tensor(result: Operand, labels: str, written: StridedTensor | None) -> StridedTensor:
    """The tensor of a result: `written`, the argument `out`, or a new one, without labels where its channels split."""
    if written is not None:
        return written
    return StridedTensor.over(result, labels if len(result.layout.sizes) == len(labels) else None)


def border(value: object, fill: object) -> tuple[object, str]:
    """What surrounds a letterboxed image, and which argument says it. Raises `LayoutError` for both."""
    if fill is None:
        return value, "value"
    if type(value) is not int or value != GREY:
        raise LayoutError(f"value={value!r} and fill={fill!r} both say what surrounds an image; give one of them.")
    return fill, "fill"


def index_tensor(indices: TensorLike, stream: object = None) -> StridedTensor:
    """Indices as a tensor for work on `stream`; Python numbers become int64.

    Raises `ElementTypeError` for objects that are not numbers, and `LayoutError` for a mask that hides some.
    """
    if isinstance(indices, StridedTensor):
        return indices
    wanted = "integers of at most 64 bits, of even rows"
    tensor = StridedTensor.over(*operand_of_argument("indices", indices, wanted, stream))
    if isinstance(indices, (list, tuple)) and tensor.layout.element_count == 0:
        return asarray(indices, dtype="int64")
    return tensor


def refuse_unlabelled(layout: Layout, order: str) -> NoReturn:
    """Raise `LayoutError`: an order for unlabelled axes would silently do nothing."""
    raise LayoutError(
        f"layout={order!r} orders axes, and nothing says which those of sizes {layout.sizes} are: give dims= too, the "
        f"order of the given axes, such as dims={_USUAL_ORDERS.get(layout.ndim, order)!r}."
    )


def refuse_interleaved(name: str, layout: Layout, letters: str) -> None:
    """Raise `LayoutError` for unlabelled images that are taken to be `letters`, (N)CHW, and look like (N)HWC.

    The last of three or four axes is then short enough for channels, and the assumed channel axis is not.
    """
    if layout.ndim in (3, 4) and layout.sizes[-1] <= _FEW < layout.sizes[-3]:
        raise LayoutError(
            f"{name} has sizes {layout.sizes}, which look like channels that come last: say "
            f"dims={letters[:-3] + 'HWC'!r} if they do, and dims={letters!r} if not."
        )


_DIRECTML_ALIGNMENT: Final = 16
"""Bytes that every bound buffer offset is a multiple of, even if a descriptor guarantees more."""


def plan_operand(name: str, operand: object, *, is_written: bool = False) -> PlanOperand:
    """The spec of a tensor, or of a descriptor of one that will be bound later.

    Raises `LayoutError` for anything else.
    """
    if isinstance(operand, StridedTensor):
        return _operand_alike(operand.operand.spec)
    if not isinstance(operand, BufferTensorDesc):
        raise LayoutError(
            f"{name} must be a StridedTensor or a BufferTensorDesc, not {type(operand).__name__}; "
            "asarray() makes a tensor of any array."
        )
    side = TensorSpec.of(
        operand.layout,
        element_type(operand.data_type),
        base_alignment=max(operand.guaranteed_base_offset_alignment, _DIRECTML_ALIGNMENT),
        buffer_bytes=operand.total_tensor_size_in_bytes,
        owns_padding=is_written,
    )
    return PlanOperand(side, promised=True)


@lru_cache(maxsize=1024)
def _operand_alike(spec: TensorSpec) -> PlanOperand:
    """What is known of every tensor like one: what follows a window is there for that one only."""
    return PlanOperand(spec if spec.owns_padding else replace(spec, slack_bytes=0))
