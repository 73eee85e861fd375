"""`unpack_raw`: packed 10- and 12-bit samples of image sensors, unpacked to uint16."""

from __future__ import annotations

from collections.abc import Sequence

from stridedgpu.exchange.array_like import foreign_operand
from stridedgpu.operations.options import MemoryOptions
from stridedgpu.operations.raw import unpack_operand
from stridedgpu.typing import StreamLike, TensorLike

from .tensor import StridedTensor, output_tensor

__all__ = ["unpack_raw"]


def unpack_raw(
    memory: TensorLike,
    format: str,  # noqa: A002 - the field's word, as in `Frame`
    sizes: Sequence[int],
    *,
    row_pitch_bytes: int | None = None,
    alignment: int | None = None,
    out: TensorLike | None = None,
    stream: StreamLike | None = None,
) -> StridedTensor:
    """Unpack an image sensor's samples of 10 or 12 bits each into an image (H, W) of uint16.

    `memory` is bytes or an array of uint8, flat or with one row of bytes for each row of the image. `format` is
    "mipi-raw10" or "mipi-raw12" (MIPI CSI-2; V4L2's `SRGGB10P` and `SRGGB12P`), "mono10p" or "mono12p" (GenICam), or
    "mono12packed" (GigE Vision). `sizes` are the image's height and width in samples; the width is a multiple of 4 for
    10 bits and of 2 for 12. `row_pitch_bytes` is the bytes from one row to the next; by default an array with rows has
    its own row stride, and other memory has packed rows. Samples are 0 to 1023 or 4095. A view shows a Bayer mosaic as
    four planes of half the size: `view(image, "(h y) (w x) -> y x h w", y=2, x=2)`. `alignment`, `out` and `stream` are
    those of `relayout`.

    Raises `LayoutError` for formats, sizes and pitches that do not fit, `BindingError` for memory that is too small,
    and `ElementTypeError` for memory of another type than uint8.

    >>> packed = bytes([0x12, 0x34, 0x56, 0x78, 0b11_10_01_00])  # four samples: upper 8 bits, then the lower 2 of each
    >>> [hex(sample) for sample in unpack_raw(packed, "mipi-raw10", (1, 4)).numpy()[0].tolist()]
    ['0x48', '0xd1', '0x15a', '0x1e3']
    """
    operand = memory.operand if isinstance(memory, StridedTensor) else foreign_operand(memory)[0]
    written = output_tensor(out)
    target = None if written is None else written.operand
    options = MemoryOptions(None, None, alignment, None)
    result = unpack_operand(operand, format, sizes, row_pitch_bytes, options, target, stream)
    return StridedTensor.over(result, "HW") if written is None else written
