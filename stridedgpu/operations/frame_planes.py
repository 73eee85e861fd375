"""The planes of a frame: checked one by one, or laid over one piece of memory that contains them all."""

from __future__ import annotations

from collections.abc import Sequence

from stridedgpu.devices.operand import Operand
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.pixel_formats import PixelFormat
from stridedgpu.values.strides import integers

__all__ = ["checked_plane", "checked_sizes", "planes_over"]


def checked_sizes(sizes: Sequence[int], samples: PixelFormat) -> tuple[int, int]:
    """Height and width of a frame, in pixels. Raises `LayoutError` for sizes that the format cannot have."""
    size = integers("sizes", sizes, least=1)
    if len(size) != 2:
        raise LayoutError(f"sizes={size} must be the height and the width of the picture, in pixels.")
    for name, extent, multiple, pairs in zip(
        ("height", "width"), size, samples.multiple, ("rows", "columns"), strict=True
    ):
        if extent % multiple:
            raise LayoutError(
                f"sizes={size}: two {pairs} of {samples.name} share chroma, and the {name} {extent} is odd; describe "
                f"a surface of {extent + 1} {pairs}, whose last of luma is padded where the decoder has no more, and "
                "take the picture out of it with gather_crops."
            )
    return (size[0], size[1])


def checked_plane(number: int, operand: Operand, samples: PixelFormat, size: tuple[int, int]) -> Operand:
    """One plane with its format's axes; the given plane may have the last two merged, or split otherwise.

    Raises `ElementTypeError` for another element type, `LayoutError` for other sizes.
    """
    plane, name = samples.planes[number], f"planes[{number}]"
    wanted, layout = plane.sizes(size), operand.layout
    if operand.element != samples.element:
        raise ElementTypeError(f"{name} holds {operand.element}; planes of {samples.name} hold {samples.element}.")
    if layout.sizes == wanted:
        return operand
    row = plane.row_elements(size[1])
    joined = Layout(layout.sizes[1:]).element_count if layout.ndim > 1 else 0
    if layout.ndim in (2, 3) and layout.sizes[0] == wanted[0] and joined == row:
        try:
            return operand.with_layout(layout.reshaped(wanted))
        except LayoutError:
            pass  # its elements are not contiguous: the error below says so
    raise LayoutError(
        f"{name} has sizes {layout.sizes} and strides {layout.strides}; that plane of a {samples.name} frame of "
        f"{size[0]} x {size[1]} pixels has sizes {wanted}."
    )


def planes_over(
    memory: Operand,
    samples: PixelFormat,
    size: tuple[int, int],
    row_pitch_bytes: int | Sequence[int] | None,
    plane_offsets_bytes: Sequence[int] | None,
) -> tuple[Operand, ...]:
    """Every plane as a view of `memory`.

    Raises `LayoutError` for pitches and offsets that no plane can have, `BindingError` if the memory is too small.
    """
    layout = memory.layout
    if layout.first_offset != layout.offset:
        raise LayoutError(f"memory runs backwards, with strides {layout.strides}; turn it round before.")
    itemsize = samples.element.itemsize
    pitches = _pitches(row_pitch_bytes, memory, samples, size[1])
    offsets = _offsets(plane_offsets_bytes, samples, size[0], pitches)
    start, nbytes = layout.offset * memory.element.itemsize, layout.span * memory.element.itemsize
    planes = []
    for number, (plane, pitch, offset) in enumerate(zip(samples.planes, pitches, offsets, strict=True)):
        rows = size[0] // plane.rows
        end = offset + (rows - 1) * pitch + plane.row_elements(size[1]) * itemsize
        if end > nbytes:
            raise BindingError(
                f"memory has {nbytes} bytes, and plane {number} of {samples.name} lies from byte {offset} to {end}: "
                f"{rows} rows {pitch} bytes apart."
            )
        if (start + offset) % itemsize:
            raise BindingError(
                f"plane {number} begins {start + offset} bytes into its buffer, which is no whole {samples.element}."
            )
        sizes = plane.sizes(size)
        strides = (pitch // itemsize, *((plane.samples, 1) if plane.samples > 1 else (1,)))
        planes.append(Operand(memory.buffer, Layout(sizes, strides, (start + offset) // itemsize), samples.element))
    return tuple(planes)


def _pitches(
    row_pitch_bytes: int | Sequence[int] | None, memory: Operand, samples: PixelFormat, width: int
) -> tuple[int, ...]:
    """The row pitch of each plane, in bytes."""
    itemsize = samples.element.itemsize
    rows = [plane.row_elements(width) * itemsize for plane in samples.planes]
    own = _own_pitch(memory)
    if row_pitch_bytes is None:
        pitches = _of_first(own if own is not None else rows[0], samples)
    elif isinstance(row_pitch_bytes, Sequence):
        pitches = integers("row_pitch_bytes", row_pitch_bytes, least=1)
        if len(pitches) != len(rows):
            raise LayoutError(f"row_pitch_bytes={pitches}: {samples.name} has {len(rows)} planes; give one for each.")
    else:
        pitches = _of_first(integers("row_pitch_bytes", (row_pitch_bytes,), least=1)[0], samples)
    for number, (pitch, row) in enumerate(zip(pitches, rows, strict=True)):
        if pitch < row or pitch % itemsize:
            said = "row_pitch_bytes" if row_pitch_bytes is not None else "the step from row to row of memory"
            raise LayoutError(
                f"{said} is {pitch} for plane {number}, whose rows of {width} pixels take {row} bytes in whole "
                f"elements of {itemsize}: the pitch would cut them."
            )
    if own is not None and pitches[0] != own and not memory.layout.is_packed:
        raise LayoutError(
            f"row_pitch_bytes={pitches[0]}, but the rows of memory are {own} bytes apart, with gaps between them."
        )
    return pitches


def _of_first(pitch: int, samples: PixelFormat) -> tuple[int, ...]:
    """Every plane's pitch from the first one's: a chroma plane whose rows have half the bytes has half the pitch."""
    return tuple(
        pitch * plane.samples // plane.columns * samples.planes[0].columns // samples.planes[0].samples
        for plane in samples.planes
    )


def _own_pitch(memory: Operand) -> int | None:
    """The row pitch, in bytes, of memory with rows. Raises `LayoutError` if the bytes of a row are not contiguous."""
    layout = memory.layout
    if layout.ndim < 2:
        if not layout.is_packed:
            raise LayoutError(f"memory has strides {layout.strides}; its bytes must follow each other.")
        return None
    if not Layout(layout.sizes[1:], layout.strides[1:]).is_packed:
        raise LayoutError(f"memory has strides {layout.strides}; the elements of a row must follow each other.")
    return layout.strides[0] * memory.element.itemsize


def _offsets(
    plane_offsets_bytes: Sequence[int] | None, samples: PixelFormat, height: int, pitches: tuple[int, ...]
) -> tuple[int, ...]:
    """The start of each plane, in bytes: one after the other, or the given offsets."""
    if plane_offsets_bytes is not None:
        offsets = integers("plane_offsets_bytes", plane_offsets_bytes, least=0)
        if len(offsets) != len(pitches):
            raise LayoutError(
                f"plane_offsets_bytes={offsets}: {samples.name} has {len(pitches)} planes; give one for each."
            )
        return offsets
    found = [0]
    for plane, pitch in zip(samples.planes[:-1], pitches[:-1], strict=True):
        found.append(found[-1] + height // plane.rows * pitch)
    return tuple(found)
