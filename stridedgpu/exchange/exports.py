"""Exchange with other libraries: operands as NumPy arrays, DLPack capsules and CUDA's interface, without a copy."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.array_interface import exchange_of
from stridedgpu.devices.interface import EMULATED
from stridedgpu.devices.operand import Operand
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType
from stridedgpu.values.errors import ElementTypeError, LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import byte_strides

from .dlpack import CPU, CUDA, labelled_cuda, retyped

_BITS: Final = {
    name: ELEMENT_TYPES[bits]
    for name, bits in (("bfloat16", "uint16"), ("float8_e4m3fn", "uint8"), ("float8_e5m2", "uint8"))
}
"""Types without a DLPack code in NumPy and CuPy, and the type exported in their place."""


def numpy_dtype(element: ElementType) -> np.dtype[Any]:
    """The NumPy dtype of an element type; bfloat16 and float8 come from ml_dtypes.

    Raises `ElementTypeError` if ml_dtypes is not installed.
    """
    if element.name in _BITS:
        try:
            import ml_dtypes
        except ImportError:
            raise ElementTypeError(
                f"NumPy has no {element} of its own: pip install ml_dtypes, or see the bits as "
                f"uint{8 * element.itemsize} with reinterpret."
            ) from None
        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, element.name))
        return dtype
    return np.dtype(element.name)


def array_of_operand(operand: Operand) -> NDArray[Any]:
    """A NumPy array over an operand's memory on the CPU; it is read-only if elements share an address.

    Raises `LayoutError` for a broadcast of more elements than NumPy can count.
    """
    layout = operand.layout
    dtype, offset, steps, is_broadcast = _as_array(layout, operand.element)
    try:
        array: NDArray[Any] = np.ndarray(layout.sizes, dtype, operand.buffer.bytes, offset, steps)
    except ValueError:
        raise LayoutError(
            f"Sizes {layout.sizes} of {operand.element} are more than the 2**63 bytes that an array may seem to have; "
            "slice the tensor first."
        ) from None
    if is_broadcast and array.flags.writeable:
        array.flags.writeable = False
    return array


def native_array(operand: Operand) -> object:
    """An operand's memory as the array of its device: NumPy's on the CPU, CuPy's on a CUDA device.

    Raises `LayoutError` for read-only memory on a CUDA device, as CuPy's arrays can always be written.
    """
    buffer = operand.buffer
    if buffer.device == "cpu":
        return array_of_operand(operand)
    if buffer.readonly:
        raise LayoutError(f"This memory on {buffer.device} is read-only, and CuPy has no such arrays; take a .copy().")
    return exchange_of(buffer.device).cupy_array(buffer, operand.layout, numpy_dtype(operand.element))


@lru_cache(maxsize=1024)
def _as_array(layout: Layout, element: ElementType) -> tuple[np.dtype[np.generic], int, tuple[int, ...], bool]:
    """A layout in NumPy's terms: dtype, offset and strides in bytes; and whether elements repeat."""
    offset = layout.offset * element.itemsize if layout.span else 0
    return numpy_dtype(element), offset, byte_strides(layout.strides, element.itemsize), layout.is_broadcast


def dlpack_device(operand: Operand) -> tuple[int, int]:
    """DLPack's device type and device number of an operand."""
    device = operand.buffer.device
    if device == "cpu":
        return CPU, 0
    return CUDA, 0 if device == EMULATED else int(device.removeprefix("cuda:"))


def dlpack_capsule(operand: Operand, **request: Any) -> Any:
    """What `__dlpack__(**request)` returns: the memory itself, kept alive by the capsule.

    Raises `BufferError` for what consumers refuse: flipped axes, and read-only memory if the capsule cannot say so.
    """
    layout, bits = _exportable(operand), _BITS.get(operand.element.name, operand.element)
    if operand.buffer.device == "cpu":
        seen = operand if bits is operand.element and layout is operand.layout else None
        array = array_of_operand(seen or Operand(operand.buffer, layout, bits))
        _check_request(array, **request)
        capsule = array.__dlpack__(**request)
    elif operand.buffer.readonly:
        raise BufferError(f"Read-only memory on {operand.buffer.device} cannot be exported as such; export a .copy().")
    else:
        device = operand.buffer.device
        capsule = exchange_of(device).device_capsule(operand.buffer, layout, numpy_dtype(bits), **request)
        capsule = labelled_cuda(capsule) if device == EMULATED else capsule
    return capsule if bits is operand.element else retyped(capsule, operand.element)


def _check_request(
    array: NDArray[np.generic],
    *,
    stream: object = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> None:
    """Raise `BufferError` for a request that memory on the CPU cannot meet."""
    if stream is not None:
        raise BufferError(f"stream={stream!r} has no meaning on the CPU; DLPack wants None there.")
    if dl_device is not None and tuple(dl_device) != (CPU, 0):
        raise BufferError(f"dl_device={dl_device} is not where this tensor is, the CPU (1, 0); move it with to_device.")
    if not array.flags.writeable and not copy and (max_version is None or max_version[0] < 1):
        raise BufferError(
            "This memory is read-only or repeats elements, which a consumer cannot be told that does not ask for "
            "DLPack 1.0 (max_version); export a .copy()."
        )


def cuda_array_interface(operand: Operand) -> dict[str, object]:
    """What `__cuda_array_interface__` returns. Raises `AttributeError` for memory that the protocol cannot describe."""
    if operand.buffer.device == "cpu":
        raise AttributeError("A tensor on the CPU has no __cuda_array_interface__.")
    if operand.element.name in _BITS:
        raise AttributeError(f"__cuda_array_interface__ has no {operand.element}; see its bits with reinterpret.")
    try:
        layout = _exportable(operand)
    except BufferError as error:
        raise AttributeError(str(error)) from None
    interface: dict[str, object] = exchange_of(operand.buffer.device).array_interface(
        operand.buffer, layout, numpy_dtype(operand.element)
    )
    return interface


def _exportable(operand: Operand) -> Layout:
    """The layout that is exported; older consumers abort on a negative stride."""
    layout = operand.layout
    if min(layout.strides, default=0) >= 0:
        return layout
    if any(step < 0 and size > 1 for size, step in zip(layout.sizes, layout.strides, strict=True)):
        raise BufferError(
            f"An axis of this tensor runs backwards (strides {layout.strides}), which consumers refuse or crash on; "
            "export .relayout() instead."
        )
    return Layout(layout.sizes, tuple(abs(step) for step in layout.strides), layout.offset)
