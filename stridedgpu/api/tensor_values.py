"""Elements as Python's own numbers and lists."""

from __future__ import annotations

from operator import index
from typing import Any

from .tensor_protocols import Exported

__all__ = ["Valued"]


class Valued(Exported):
    """A tensor of one element is a number to Python, as in NumPy; from a device the element is copied."""

    __slots__ = ()

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
        """The one element, towards zero."""
        return int(self._number())

    def __complex__(self) -> complex:
        """The one element."""
        return complex(self._number())

    def __index__(self) -> int:
        """The one element, which must be an integer."""
        return index(self._number())

    def __format__(self, spec: str) -> str:
        """The one element as `spec` has it, such as ".2f"; without one, what the tensor is."""
        return format(self._number(), spec) if spec else str(self)

    def _number(self) -> Any:
        try:
            return self.item()
        except ValueError as problem:
            raise TypeError(str(problem)) from None
