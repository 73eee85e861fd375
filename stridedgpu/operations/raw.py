"""Raw sensors: packed samples of 10 and 12 bits as numbers of 16."""

from __future__ import annotations

from collections.abc import Sequence

from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_named
from stridedgpu.problems.raw_problem import RawProblem
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.raw_formats import RawFormat, raw_format
from stridedgpu.values.strides import integers

from .options import MemoryOptions
from .plans import check_output


def unpack_operand(
    memory: Operand,
    name: object,
    sizes: Sequence[int],
    pitch: int | None,
    options: MemoryOptions,
    out: Operand | None,
    stream: object,
) -> Operand:
    """`stridedgpu.unpack_raw` on operands; `pitch` is the bytes from one row to the next."""
    samples = raw_format(name)
    height, width = _image_sizes(sizes, samples)
    if memory.element.itemsize != 1 or memory.element.kind not in "ui":
        raise ElementTypeError(f"memory holds {memory.element}; packed samples are bytes, uint8.")
    row = width // samples.count * samples.nbytes
    step = _pitch(memory, pitch, row)
    start, nbytes = memory.layout.offset, memory.layout.span
    end = (height - 1) * step + row if height else 0
    if end > nbytes:
        raise BindingError(
            f"memory has {nbytes} bytes; {height} rows of {width} samples of {samples.name}, {step} bytes apart, take "
            f"{end}."
        )
    element, device = ELEMENT_TYPES["uint16"], device_named(memory.buffer.device)
    if out is None:
        target = options.allocation((height, width), ("H", "W"), element).allocate(device, stream)
    else:
        options.check_beside_out()
        check_output(out, (height, width), element, memory.buffer.device, {"memory": memory})
        target = out
    if height and width:
        alignment = memory.spec.alignment
        problem = RawProblem(samples, step, alignment, target.spec)
        launch = device.launch_for(problem)
        launch(memory.buffer, start, target.buffer, target.start_bytes, stream)
    return target


def _image_sizes(sizes: Sequence[int], samples: RawFormat) -> tuple[int, int]:
    checked = integers("sizes", sizes, least=0)
    if len(checked) != 2:
        raise LayoutError(f"sizes={checked} must be the height and the width of the image, in samples.")
    height, width = checked
    if width % samples.count:
        raise LayoutError(
            f"sizes={checked}: {samples.name} packs {samples.count} samples in {samples.nbytes} bytes, so a row has a "
            f"multiple of {samples.count} samples; unpack the next multiple, and slice the result."
        )
    return height, width


def _pitch(memory: Operand, pitch: int | None, row: int) -> int:
    """The bytes from one row to the next: given, or those of memory with rows, or packed."""
    layout = memory.layout
    if layout.first_offset != layout.offset or (layout.ndim and layout.strides[-1] != 1 and layout.sizes[-1] > 1):
        raise LayoutError(f"memory has strides {layout.strides}; the bytes of a row must follow each other.")
    own = layout.strides[0] if layout.ndim == 2 else None
    if layout.ndim > 2 or (own is not None and own < layout.sizes[1]):
        raise LayoutError(f"memory has sizes {layout.sizes} and strides {layout.strides}; it must be bytes, or rows.")
    step = integers("row_pitch_bytes", (pitch,), least=1)[0] if pitch is not None else row if own is None else own
    if own is not None and step != own and not layout.is_packed:
        raise LayoutError(f"row_pitch_bytes={step}, but the rows of memory are {own} bytes apart, with gaps between.")
    if step < row:
        raise LayoutError(f"rows of {row} bytes are cut by a pitch of {step}: give row_pitch_bytes of at least {row}.")
    return step
