"""The pixels of a Pillow image without a copy, through the Arrow C data interface.

Pillow stores RGB in 4 bytes a pixel. `numpy.asarray(image)` packs them through a chain of byte strings, which takes a
quarter of the time that decoding takes; strided memory needs no packing. The capsules and structures are those of
https://arrow.apache.org/docs/format/CDataInterface.html and its PyCapsule protocol.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

__all__ = ["shared_pixels"]

_PIXEL_BYTES: Final = 4


class _ArrowArray(ctypes.Structure):
    """`struct ArrowArray`, whose children and buffers are arrays of pointers."""


_ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowArray))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]

_pointer_of: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _SharedPixels:
    """The memory of an image as NumPy's array interface; the capsule keeps the memory alive."""

    def __init__(self, capsule: object, address: int, shape: tuple[int, int, int]) -> None:
        self._capsule = capsule
        self.__array_interface__ = {"version": 3, "data": (address, True), "shape": shape, "typestr": "|u1"}


def shared_pixels(image: PillowImage) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The pixels of a loaded image of mode RGB, axes HWC: read-only and shared if Pillow can, otherwise a copy."""
    export: Any = getattr(image, "__arrow_c_array__", None)
    if export is None:  # Pillow before 11.2
        return np.asarray(image)
    try:
        _, capsule = export()
    except ValueError:  # the image lies in several blocks of memory, as one of more than 4 megapixels may
        return np.asarray(image)
    array = _ArrowArray.from_address(_pointer_of(capsule, b"arrow_array"))
    pixels = array.children[0].contents if array.n_children else array
    count = image.width * image.height
    if pixels.length != count * _PIXEL_BYTES or pixels.n_buffers < 2 or array.offset or pixels.offset:
        return np.asarray(image)
    shared = _SharedPixels(capsule, pixels.buffers[1], (image.height, image.width, _PIXEL_BYTES))
    return np.asarray(shared)[..., :3]
