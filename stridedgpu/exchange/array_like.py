"""Arrays of other libraries as operands over the same memory, recognised without importing these libraries."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.buffer import address_of
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import backend_named
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.errors import ElementTypeError

from .dlpack import dlpack_operand
from .exports import array_of_operand, operand_of_array

__all__ = ["foreign_operand", "listed_integers"]


def foreign_operand(obj: object, copy: bool | None = None) -> tuple[Operand, bool]:
    """Anything array-like as an operand, and whether it shares the object's memory.

    Arrays, objects with DLPack (PyTorch's, JAX's and CuPy's arrays, ONNX Runtime's values), with the CUDA Array
    Interface, NumPy's protocols or the buffer protocol are wrapped; on a CUDA device the current stream waits for
    the object's own. Pillow's pictures, scalars and nested sequences are copied, and so are, unless `copy=False`,
    elements with their bytes swapped, between which part of one lies, or off their own alignment.

    Raises `ElementTypeError` for what NumPy can only hold as objects, for elements of less than a byte and, with
    `copy=False`, for swapped bytes, `LayoutError` then for strides that are not whole elements, and `DeviceError` for
    a device that cannot be had.
    """
    if isinstance(obj, np.ndarray):
        return _operand_of_array(obj, copy)
    if hasattr(obj, "__dlpack__"):
        return _operand_of_capsule(obj, copy)
    if hasattr(obj, "__cuda_array_interface__"):
        backend_named("cuda:0")
        from stridedgpu.devices.cuda.runtime.exchange import borrowed

        return Operand(*borrowed(obj)), True
    if _is_of(obj, "PIL.Image", "Image"):  # its array interface is a copy made for the caller
        picture = np.array(obj)
        # Black and white come as 0 and 255, of which NumPy makes no clean bools.
        return operand_of_array(picture.view(np.uint8) != 0 if picture.dtype == np.bool_ else picture), False
    held = None if isinstance(obj, np.generic) else _held_by(obj, copy)
    if held is not None:
        return _operand_of_array(held, copy)
    try:
        array = np.asarray(obj)
    except ValueError as problem:
        raise ElementTypeError(f"This {type(obj).__name__} is not array-like: {problem}") from None
    if array.dtype == object:
        raise ElementTypeError(f"{type(obj).__name__} is not array-like: NumPy can only hold it as objects.")
    return operand_of_array(array), False


def listed_integers(obj: object, sizes: tuple[int, ...]) -> list[Any] | None:
    """A NumPy array of integers with these sizes as nested lists; None for anything else, which is no shorter way."""
    if type(obj) is not np.ndarray or obj.shape != sizes or obj.dtype.kind not in "iu":
        return None
    listed: list[Any] = obj.tolist()
    return listed


def _held_by(obj: Any, copy: bool | None) -> NDArray[Any] | None:
    """The array of an object with NumPy's protocols or the buffer protocol; None where there is none to be shared."""
    if hasattr(obj, "__array_interface__") or hasattr(obj, "__array__"):
        try:
            return np.array(obj, copy=False if copy is False else None)
        except ValueError:
            return None
    try:
        return np.asarray(memoryview(obj))
    except TypeError:
        return None


def _operand_of_array(array: NDArray[Any], copy: bool | None) -> tuple[Operand, bool]:
    """An array's memory, or a copy of what a tensor should not, or cannot, look at as it lies."""
    address = address_of(array)
    if copy is False or _lies_well(array, address):
        return operand_of_array(array, address), True
    return operand_of_array(array.astype(array.dtype.newbyteorder("="), order="C", copy=True)), False


def _lies_well(array: NDArray[Any], address: int) -> bool:
    """Whether an array's elements are the machine's own, lie on their alignment and are whole strides apart."""
    dtype = array.dtype
    if not dtype.isnative or address % dtype.itemsize:
        return False
    return array.flags.c_contiguous or array.size == 0 or not any(step % dtype.itemsize for step in array.strides)


def _operand_of_capsule(obj: Any, copy: bool | None) -> tuple[Operand, bool]:
    """The memory of an object with DLPack."""
    held = dlpack_operand(obj)
    if held.element.name == "uint8" and _is_of(obj, "onnxruntime", "OrtValue") and "bool" in obj.data_type():
        held = replace(held, element=ELEMENT_TYPES["bool"])  # exported as the bytes that they are
    if copy is None and held.buffer.device == "cpu" and held.address % held.element.itemsize:
        return operand_of_array(array_of_operand(held).copy()), False
    return held, True


def _is_of(obj: object, module: str, name: str) -> bool:
    """Whether an object is of a library's class; a library that is not loaded has no objects."""
    found = getattr(sys.modules.get(module), name, None)
    return isinstance(found, type) and isinstance(obj, found)
