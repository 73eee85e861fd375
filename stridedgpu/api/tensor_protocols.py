"""Exports of a tensor: memory by NumPy's, DLPack's and CUDA's protocols, elements as Python numbers, and copies."""

from __future__ import annotations

import sys
import warnings
import weakref
from operator import index
from types import ModuleType, TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.interface import EMULATED
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import device_named
from stridedgpu.exchange.exports import (
    array_of_operand,
    cuda_array_interface,
    dlpack_capsule,
    dlpack_device,
    native_array,
)
from stridedgpu.operations.options import DEFAULT_ALIGNMENT, allocate_operand
from stridedgpu.operations.relayout import assign_operand
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.layout import Layout

from .tensor_facts import Released, TensorFacts, set_operand

__all__ = ["State", "TensorProtocols", "copied_operand", "restored_operand", "state_of_operand"]


class TensorProtocols(TensorFacts):
    """Exports the memory of an operand, or its elements, and releases it."""

    __slots__ = ()

    def numpy(self) -> NDArray[Any]:
        """A NumPy array: over the same memory on the CPU, a copy from any other device."""
        operand = self.operand
        if operand.buffer.device != "cpu":
            target = allocate_operand(Layout(operand.layout.sizes), operand.element, DEFAULT_ALIGNMENT, "cpu")
            assign_operand(operand, target)
            operand = target
        return array_of_operand(operand)

    def native(self) -> Any:
        """The array of the device's library over the same memory: NumPy's on the CPU, CuPy's on a CUDA device.

        Code for both devices computes with it and with `xp`, its module. Nothing is copied, and no stream waits: CuPy's
        current stream orders its work. Raises `LayoutError` for read-only memory on a CUDA device.

        >>> import stridedgpu as sg
        >>> tensor = sg.zeros((2, 3), "float32", device="cpu")
        >>> tensor.native()[:] = tensor.xp.arange(3)
        >>> tensor.tolist()
        [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]
        """
        return native_array(self.operand)

    @property
    def xp(self) -> ModuleType:
        """The module of `native()`'s array: `numpy` on the CPU, `cupy` on a CUDA device.

        Raises `DeviceError` on the emulated device, which has none.
        """
        if self.device == EMULATED:
            self.native()  # raises: CuPy does not reach emulated memory
        return np if self.device == "cpu" else sys.modules["cupy"]  # a tensor on a CUDA device has loaded it

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """For NumPy's functions, on the CPU only."""
        if self.device != "cpu":
            raise TypeError(f"A tensor on {self.device} is not turned into a NumPy array unasked; call .numpy().")
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's type and number of the device."""
        return dlpack_device(self.operand)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule over the same memory, strides and offset included; `BufferError` if DLPack lacks support."""
        request = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        return dlpack_capsule(self.operand, **request)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA Array Interface, version 3, on a CUDA device; absent elsewhere."""
        interface = cuda_array_interface(self.operand)
        self.buffer.is_lent = True  # the consumer refers to this tensor, not to the buffer
        return interface

    def release(self) -> None:
        """Release the memory, as `memoryview.release` does; `with tensor:` does so at the end of its block.

        Memory of the library's own is freed, and borrowed memory is returned to its owner, a decoder or a mapped file.
        The tensor then refuses every use with a `BindingError`; a second release does nothing. On a CUDA device work
        may still use the memory: order the owner's next use on the same stream, or `synchronize` first. Memory whose
        address was exported by the CUDA Array Interface, which cannot be returned, stays as long as the tensor.

        Raises `BufferError`, and releases nothing, while anything else uses the memory: a view or another tensor, a
        NumPy array, a DLPack capsule.

        >>> import stridedgpu as sg
        >>> memory = bytearray(6)
        >>> with sg.asarray(memory) as tensor:
        ...     tensor[...] = 7
        >>> memory.extend(b"!")  # which a bytearray refuses while anything looks at it
        >>> tensor
        StridedTensor(released)
        """
        if isinstance(self.operand, Released):
            return
        buffer, facts = self.buffer, (self.layout, self.element, self.operand.owns_padding)
        if buffer.is_lent:
            set_operand(self, Released(buffer))
            return
        kept, watched = buffer if buffer.has_arrays() else None, weakref.ref(buffer)
        set_operand(self, Released())
        del buffer
        if (user := kept or watched()) is not None:
            set_operand(self, Operand(user, *facts))
            raise BufferError(
                "This tensor's memory is still in use, by a view, another tensor, a NumPy array or a DLPack capsule; "
                "let go of those first."
            )

    def __enter__(self) -> Self:
        """This tensor, for the length of a `with` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Release; after an error, whose frames may refer to views, memory that is in use stays with its users."""
        try:
            self.release()
        except BufferError:
            if kind is None:
                raise
            set_operand(self, Released())

    # As Python's numbers and lists; from a device the elements are copied

    def item(self) -> Any:
        """The one element as a Python number. Raises `ValueError` where there are more, or none.

        >>> import stridedgpu as sg
        >>> sg.asarray([[1, 2], [3, 4]])[1, 0].item()
        3
        """
        if self.layout.element_count != 1:
            raise ValueError(f"A tensor of sizes {self.sizes} has {self.layout.element_count} elements, not one.")
        return self.numpy().item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; a number at rank 0."""
        return self.numpy().tolist()

    def __bool__(self) -> bool:
        """The truth of a tensor of one element; an error otherwise, as in NumPy."""
        if self.layout.element_count != 1:
            raise ValueError(f"The truth of a tensor of sizes {self.sizes} is ambiguous; compare its .numpy().")
        return bool(self.numpy().reshape(()))

    def __float__(self) -> float:
        """The one element. Raises `TypeError` where there are more, as the other conversions do."""
        return float(self._number())

    def __int__(self) -> int:
        """The one element, truncated towards zero."""
        return int(self._number())

    def __complex__(self) -> complex:
        """The one element."""
        return complex(self._number())

    def __index__(self) -> int:
        """The one element, which must be an integer."""
        return index(self._number())

    def __format__(self, spec: str) -> str:
        """The one element formatted with `spec`, such as ".2f"; without a `spec`, the tensor's `repr`."""
        return format(self._number(), spec) if spec else str(self)

    def _number(self) -> Any:
        try:
            return self.item()
        except ValueError as problem:
            raise TypeError(str(problem)) from None


State = tuple[bytes, Layout, str, int, str]
"""A pickled operand: the spanned bytes, the layout within them, the type's name, alignment and device."""


def copied_operand(operand: Operand) -> Operand:
    """A copy of every byte that an operand spans, gaps included, in new memory on the same device."""
    layout = operand.layout.shifted(-operand.layout.first_offset)
    alignment = max(operand.buffer.alignment, operand.element.itemsize)
    result = allocate_operand(layout, operand.element, alignment, operand.buffer.device)
    assign_operand(_spanned(operand), _spanned(result))
    return result


def state_of_operand(operand: Operand) -> State:
    """An operand as host values; the bytes of device memory are copied to the host."""
    spanned = _spanned(operand)
    if operand.buffer.device != "cpu":
        there, spanned = spanned, allocate_operand(spanned.layout, spanned.element, 1, "cpu")
        assign_operand(there, spanned)
    contents = spanned.buffer.bytes[spanned.start_bytes : spanned.start_bytes + spanned.span_bytes].tobytes()
    layout = operand.layout.shifted(-operand.layout.first_offset)
    return contents, layout, operand.element.name, operand.buffer.alignment, operand.buffer.device


def restored_operand(state: State) -> Operand:
    """The operand of a pickled state, on the same kind of device.

    If there is no such device, the operand is restored on the CPU, with a warning that gives the reason.
    """
    contents, layout, dtype, alignment, device = state
    element = element_type(dtype)
    result = allocate_operand(layout, element, max(alignment, element.itemsize), _device_like(device))
    memory = Buffer.of(contents)
    assign_operand(Operand(memory, Layout((memory.nbytes,)), element_type("uint8")), _spanned(result))
    return result


def _spanned(operand: Operand) -> Operand:
    """The bytes from the lowest element to the highest, gaps included."""
    layout = Layout((operand.span_bytes,), (1,), operand.start_bytes if operand.span_bytes else 0)
    return Operand(operand.buffer, layout, element_type("uint8"))


def _device_like(device: str) -> str:
    """The same device if it is available, else the first of its kind, else the CPU."""
    for name in dict.fromkeys((device, device.partition(":")[0])):
        try:
            return device_named(name).name
        except DeviceError as error:
            missing = error
    warnings.warn(f"A tensor from {device} is unpickled on the CPU: {missing}", RuntimeWarning, stacklevel=4)
    return "cpu"
