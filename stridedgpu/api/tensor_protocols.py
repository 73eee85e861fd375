"""What other libraries ask of a tensor to see its memory, and letting go of it: NumPy's, DLPack's, CUDA's protocols."""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.operand import Operand
from stridedgpu.exchange.exports import array_of_operand, cuda_array_interface, dlpack_capsule, dlpack_device
from stridedgpu.operations.allocation import DEFAULT_ALIGNMENT, allocate_operand
from stridedgpu.operations.relayout import assign_operand
from stridedgpu.values.layout import Layout

from .tensor_facts import Described, Released

__all__ = ["Exported"]


class Exported(Described):
    """Hands out the memory of its operand, on the CPU or on a device, and gives it back."""

    __slots__ = ()

    def numpy(self) -> NDArray[Any]:
        """A NumPy array: over the same memory on the CPU, a copy from any other device."""
        operand = self._operand
        if operand.buffer.device != "cpu":
            target = allocate_operand(Layout(operand.layout.sizes), operand.element, DEFAULT_ALIGNMENT, "cpu")
            assign_operand(operand, target)
            operand = target
        return array_of_operand(operand)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """For NumPy's functions, on the CPU only."""
        if self.device != "cpu":
            raise TypeError(f"A tensor on {self.device} is not turned into a NumPy array unasked; call .numpy().")
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's type and number of the device."""
        return dlpack_device(self._operand)

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
        return dlpack_capsule(self._operand, **request)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA Array Interface, version 3, on a CUDA device; absent elsewhere."""
        found = cuda_array_interface(self._operand)
        self.buffer.is_lent = True  # to somebody who holds this tensor, and not the buffer
        return found

    def release(self) -> None:
        """Let go of the memory, as `memoryview.release` does; `with tensor:` does so at the end of its block.

        Memory of the library's own is free again, and the owner of borrowed memory, a decoder or a mapped file, has it
        back. The tensor then refuses everything with a `BindingError`; a second release does nothing. On a CUDA device
        work may still use the memory: let what its owner does next follow in the same stream, or `synchronize` before.
        Memory whose address went out by the CUDA Array Interface, which has no way back, stays as long as the tensor.

        Raises `BufferError`, and lets go of nothing, while anything else uses the memory: a view or another tensor, a
        NumPy array, a DLPack capsule.

        >>> import stridedgpu as sg
        >>> memory = bytearray(6)
        >>> with sg.asarray(memory) as tensor:
        ...     tensor[...] = 7
        >>> memory.extend(b"!")  # which a bytearray refuses while anything looks at it
        >>> tensor
        StridedTensor(released)
        """
        if isinstance(self._operand, Released):
            return
        buffer, facts = self.buffer, (self.layout, self.element, self._operand.owns_padding)
        if buffer.is_lent:
            self._operand = cast("Operand", Released(buffer))
            return
        kept, watched = buffer if buffer.has_arrays() else None, weakref.ref(buffer)
        self._operand = cast("Operand", Released())
        del buffer
        if (user := kept or watched()) is not None:
            self._operand = Operand(user, *facts)
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
        """Release; after an error, whose frames may hold views, memory that is in use stays with its users."""
        try:
            self.release()
        except BufferError:
            if kind is None:
                raise
            self._operand = cast("Operand", Released())
