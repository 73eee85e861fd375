"""The memory of Pillow's images of mode RGB, read where it lies.

Pillow stores RGB in 4 bytes a pixel. An image of up to 4 megapixels lies in one block of memory, which Pillow shares by
Arrow's interface. A larger one lies in several, and Pillow lists the addresses of its rows for itself alone. The place
of this list in Pillow's description of an image is searched once, in that of an image whose rows Arrow's interface
shows. Where the list is not found, an image in several blocks is copied.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stridedgpu.devices.buffer import address_of
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.row_buffer import RowBuffer, RowOperand
from stridedgpu.exchange.array_like import array_of_pillow, operand_of_array
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.layout import Layout

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

Pixels = np.ndarray[Any, np.dtype[Any]]

_MODES: Final = ("RGB", "RGBX")
"""The modes of memory with RGB in the first three of four bytes; an image of mode RGB may have either."""

_CHANNELS: Final = 3
_PIXEL_BYTES: Final = 4

_WORD: Final = ctypes.sizeof(ctypes.c_void_p)
_SEARCHED_WORDS: Final = 12
"""Of a description, which has some 25: all fields up to the size of a row."""


class _ArrowArray(ctypes.Structure):
    """`struct ArrowArray` of https://arrow.apache.org/docs/format/CDataInterface.html."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
        *((name, ctypes.POINTER(ctypes.c_void_p)) for name in ("buffers", "children")),
        *((name, ctypes.c_void_p) for name in ("dictionary", "release", "private_data")),
    )


_pointer_of: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _SharedPixels:
    """The memory of an image as NumPy's array interface; the capsule keeps the memory alive."""

    def __init__(self, capsule: object, address: int, shape: tuple[int, int, int]) -> None:
        self._capsule = capsule
        self.__array_interface__ = {"version": 3, "data": (address, True), "shape": shape, "typestr": "|u1"}


def shared_pixels(image: PillowImage) -> Pixels:
    """The pixels of an image of mode RGB, axes HWC: read-only and shared if they lie in one block, else a copy.

    `numpy.asarray(image)` packs them through a chain of byte strings: a step of loaded images of 500 x 375 pixels took
    0.22 ms an image with it and 0.14 without (one core of Zen 5).
    """
    return array_of_operand(shared_operand(image))


def shared_operand(image: PillowImage) -> Operand:
    """The pixels of an image of mode RGB as an operand, axes H, W, C: shared if they can be, otherwise a copy.

    What is shared is described by the memory that the image has now, `core`, and not by the image: another thread, or a
    subclass, may give the image another size or other memory meanwhile.
    """
    image.load()
    core: Any = image.im
    pixels = None
    if type(core) is _type_of_cores() and core.mode in _MODES:
        try:
            pixels = _exported(core)
        except ValueError:  # the image lies in several blocks of memory
            rows = _rows_of(core)
            if rows is not None:
                width, height = core.size
                layout = Layout((height, width, _CHANNELS), (width * _PIXEL_BYTES, _PIXEL_BYTES, 1))
                return RowOperand(RowBuffer(rows, width * _PIXEL_BYTES, core), layout, ELEMENT_TYPES["uint8"])
    return operand_of_array(array_of_pillow(image) if pixels is None else pixels)


@cache
def _type_of_cores() -> Any:
    """The type of the memory of Pillow's images, which has no subclasses and no objects that others describe."""
    from PIL import Image

    return type(Image.new("RGB", (1, 1)).im)


def _exported(core: Any) -> Pixels | None:
    """The memory of an image by Arrow's interface; None where that is missing or describes other bytes.

    Raises `ValueError` for several blocks of memory.
    """
    export = getattr(core, "__arrow_c_array__", None)
    if export is None:  # Pillow before 11.2
        return None
    capsule = export()
    array = _ArrowArray.from_address(_pointer_of(capsule, b"arrow_array"))
    pixels = _ArrowArray.from_address(array.children[0]) if array.n_children else array
    width, height = core.size
    shape = height, width, _PIXEL_BYTES
    if pixels.length != height * width * 4 or pixels.n_buffers < 2 or array.offset or pixels.offset:
        return None
    return np.asarray(_SharedPixels(capsule, pixels.buffers[1], shape))[..., :_CHANNELS]


# ---- rows in several blocks of memory

_name_of: Final = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))


def _rows_of(core: Any) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """The addresses of the rows of an image's memory; None where they are not known."""
    listed_at, description = _list_place(), _description(core)
    if listed_at is None or description is None:
        return None
    listed = ctypes.c_size_t.from_address(description + listed_at).value
    return np.array((ctypes.c_int64 * core.size[1]).from_address(listed), np.int64)


def _description(core: Any) -> int | None:
    """The address of Pillow's description of an image, `struct ImagingMemoryInstance`; None before Pillow 11."""
    capsule = getattr(core, "ptr", None)
    return None if capsule is None else _pointer_of(capsule, _name_of(capsule))


@cache
def _list_place() -> int | None:
    """The bytes from an image's description to the address of the list of its rows; None where that is not found.

    In every version the description has, one behind the other: lists of the rows of bytes, which RGB has not, of those
    of 32 bits, and of all, which are one list; two addresses of blocks; and the bytes of a pixel and of a row.
    """
    from PIL import Image

    core: Any = Image.new("RGB", (3, 2)).im
    shared, description = _exported(core), _description(core)
    if shared is None or description is None or ctypes.sizeof(ctypes.c_int64) != _WORD:
        return None
    first, row_bytes = address_of(shared), core.size[0] * _PIXEL_BYTES
    words = (ctypes.c_size_t * _SEARCHED_WORDS).from_address(description)
    for place in range(1, _SEARCHED_WORDS - 4):
        of_bytes, of_words, of_all = words[place - 1 : place + 2]
        sizes = (ctypes.c_int32 * 2).from_address(description + (place + 4) * _WORD)
        if of_bytes or not of_words or of_words != of_all or tuple(sizes) != (_PIXEL_BYTES, row_bytes):
            continue
        if tuple((ctypes.c_size_t * 2).from_address(of_all)) == (first, first + row_bytes):
            return (place + 1) * _WORD
    return None
