"""Arrays of other libraries, recognised without importing these: as NumPy arrays over the same memory."""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .dtypes import element_type
from .errors import ElementTypeError
from .interop import numpy_dtype

__all__ = ["foreign_array"]

_NOT_IN_NUMPYS_DLPACK: Final = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2"})
"""Types that other libraries share and NumPy's DLPack does not take."""

_BELOW_A_BYTE: Final = frozenset({"int4", "uint4", "int2", "uint2", "float4_e2m1fn"})
"""Types of which several elements share a byte, or hold one by themselves, as each library likes."""


def foreign_array(obj: object) -> tuple[NDArray[Any], bool]:
    """Anything array-like on the CPU as a NumPy array, and whether it shares the object's memory.

    Arrays, objects with DLPack (PyTorch's and JAX's arrays, ONNX Runtime's values), the array interface or the buffer
    protocol are wrapped; pictures of Pillow, scalars and nested sequences are copied. Raises `ElementTypeError` for
    what NumPy can only hold as objects, and for elements of less than a byte.
    """
    if isinstance(obj, np.ndarray):
        return obj, True
    if isinstance(obj, memoryview):
        return np.asarray(obj), True
    if isinstance(obj, (bytearray, bytes)):
        return np.frombuffer(obj, np.uint8), True
    if _is_of(obj, "PIL.Image", "Image"):  # its array interface is a copy made for the caller
        picture = np.array(obj)
        # Black and white come as 0 and 255, of which NumPy makes no clean bools.
        return (picture.view(np.uint8) != 0 if picture.dtype == np.bool_ else picture), False
    if hasattr(obj, "__array_interface__"):
        return np.asarray(obj), True
    if hasattr(obj, "__dlpack__"):
        return _dlpack_array(obj), True
    array = np.asarray(obj)
    if array.dtype == object:
        raise ElementTypeError(f"{type(obj).__name__} is not array-like: NumPy can only hold it as objects.")
    return array, False


def _dlpack_array(obj: Any) -> NDArray[Any]:
    """An array over the memory of an object with DLPack, of the type that the object itself names."""
    name = str(getattr(obj, "dtype", "")).removeprefix("torch.")
    if name in _BELOW_A_BYTE:
        raise ElementTypeError(
            f"{type(obj).__name__} holds {name}, elements of less than a byte: share its bytes as uint8, "
            "or describe them with a BufferTensorDesc."
        )
    if name not in _NOT_IN_NUMPYS_DLPACK:
        array: NDArray[Any] = np.from_dlpack(obj)
        # ONNX Runtime exports its bools as the bytes that they are.
        return array.view(np.bool_) if _is_of(obj, "onnxruntime", "OrtValue") and "bool" in obj.data_type() else array
    element = element_type(name)
    if _is_of(obj, "torch", "Tensor"):
        bits = sys.modules["torch"].int16 if element.itemsize == 2 else sys.modules["torch"].uint8
        return np.from_dlpack(obj.view(bits)).view(numpy_dtype(element))
    return np.asarray(obj)  # JAX's arrays are ml_dtypes' to NumPy, over the same memory


def _is_of(obj: object, module: str, name: str) -> bool:
    """Whether an object is of a library's class; a library that is not loaded has no objects."""
    found = getattr(sys.modules.get(module), name, None)
    return isinstance(found, type) and isinstance(obj, found)
