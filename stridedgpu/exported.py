"""What other libraries ask of a tensor to see its memory: NumPy's, DLPack's and CUDA's protocols."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .interop import array_of_operand, cuda_array_interface, dlpack_capsule, dlpack_device
from .layout import Layout
from .operand import Operand
from .operations.allocation import DEFAULT_ALIGNMENT, allocate_operand
from .operations.relayout import assign_operand

__all__ = ["Exported"]


class Exported:
    """Hands out the memory of its `operand`, on the CPU or on a device."""

    __slots__ = ()

    @property
    def operand(self) -> Operand:
        """Buffer, layout and element type."""
        raise NotImplementedError

    def numpy(self) -> NDArray[Any]:
        """A NumPy array: over the same memory on the CPU, a copy from any other device."""
        operand = self.operand
        if operand.buffer.device != "cpu":
            target = allocate_operand(Layout(operand.layout.sizes), operand.element, DEFAULT_ALIGNMENT, "cpu")
            assign_operand(operand, target)
            operand = target
        return array_of_operand(operand)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """For NumPy's functions, on the CPU only."""
        device = self.operand.buffer.device
        if device != "cpu":
            raise TypeError(f"A tensor on {device} is not turned into a NumPy array unasked; call .numpy().")
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
        """A DLPack capsule over the same memory, strides and offset included; `BufferError` for what DLPack lacks."""
        request = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        return dlpack_capsule(self.operand, **request)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA Array Interface, version 3, on a CUDA device; absent elsewhere."""
        return cuda_array_interface(self.operand)
