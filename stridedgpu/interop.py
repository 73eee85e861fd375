"""Exchange with other libraries: operands as NumPy arrays, and foreign arrays as operands, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .buffer import Buffer
from .dtypes import ElementType, element_type
from .errors import ElementTypeError, LayoutError
from .layout import Layout
from .operand import Operand

__all__ = ["array_of_operand", "foreign_array", "numpy_dtype", "operand_of_array"]


def numpy_dtype(element: ElementType) -> np.dtype[Any]:
    """The NumPy dtype of an element type; bfloat16 and float8 come from ml_dtypes.

    Raises `ElementTypeError` where that is not installed.
    """
    if element.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        try:
            import ml_dtypes
        except ImportError:
            raise ElementTypeError(
                f"NumPy has no {element} of its own: pip install ml_dtypes, or see the bits as "
                f"uint{8 * element.itemsize} with reinterpret."
            ) from None
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, element.name))
        return found
    return np.dtype(element.name)


def array_of_operand(operand: Operand) -> NDArray[Any]:
    """A NumPy array over an operand's memory on the CPU; it cannot be written where elements share an address."""
    layout, itemsize = operand.layout, operand.element.itemsize
    memory = operand.buffer.bytes
    steps = tuple(stride * itemsize for stride in layout.strides)
    offset = layout.offset * itemsize if layout.span else 0
    array: NDArray[Any] = np.ndarray(layout.sizes, numpy_dtype(operand.element), memory, offset, steps)
    if array.flags.writeable and layout.is_broadcast:
        array.flags.writeable = False
    return array


def operand_of_array(array: NDArray[Any]) -> Operand:
    """A NumPy array's memory as an operand, borrowed; a read-only array stays read-only.

    Raises `LayoutError` where the array's steps are not whole elements, and `ElementTypeError` for its dtype.
    """
    element = element_type(array.dtype)
    if any(step % element.itemsize for step in array.strides) and array.size:
        raise LayoutError(
            f"The array's strides of {array.strides} bytes are not whole elements of {element.itemsize} bytes; copy it."
        )
    strides = tuple(step // element.itemsize for step in array.strides)
    layout = Layout(array.shape, strides)
    lowest = layout.first_offset
    address = array.ctypes.data + lowest * element.itemsize
    readonly = not array.flags.writeable
    buffer = Buffer(address, layout.span * element.itemsize, owner=array, readonly=readonly)
    return Operand(buffer, layout.shifted(-lowest), element)


def foreign_array(obj: object) -> tuple[NDArray[Any], bool]:
    """Anything array-like as a NumPy array, and whether it shares the object's memory.

    Arrays, objects with DLPack on the CPU, the array interface or the buffer protocol are wrapped; scalars and
    nested sequences are copied. Raises `ElementTypeError` for what NumPy can only hold as objects.
    """
    if isinstance(obj, np.ndarray):
        return obj, True
    if isinstance(obj, (memoryview, bytearray, bytes)):
        return np.asarray(obj) if isinstance(obj, memoryview) else np.frombuffer(obj, np.uint8), True
    if hasattr(obj, "__array_interface__"):
        return np.asarray(obj), True
    if hasattr(obj, "__dlpack__"):
        return np.from_dlpack(obj), True
    array = np.asarray(obj)
    if array.dtype == object:
        raise ElementTypeError(f"{type(obj).__name__} is not array-like: NumPy can only hold it as objects.")
    return array, False
