"""Types for annotations: what `asarray` and the operations take, as protocols that need no library.

>>> import numpy as np
>>> from stridedgpu.typing import SupportsDLPack
>>> isinstance(np.zeros(3), SupportsDLPack), isinstance([0, 0, 0], SupportsDLPack)
(True, False)
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from .dtypes import DataType, ElementType
from .layout import Layout
from .tensor import StridedTensor

if TYPE_CHECKING:
    import numpy as np

    if sys.version_info >= (3, 12):
        from collections.abc import Buffer
    else:
        from typing_extensions import Buffer

__all__ = [
    "DTypeLike",
    "LayoutLike",
    "Numbers",
    "StreamLike",
    "SupportsArrayInterface",
    "SupportsCudaArrayInterface",
    "SupportsCudaStream",
    "SupportsDLPack",
    "TensorLike",
]


@runtime_checkable
class SupportsDLPack(Protocol):
    """Memory on any device, shared through DLPack: PyTorch, JAX, CuPy, NumPy, ONNX Runtime."""

    def __dlpack__(self, *, stream: Any = ...) -> Any:
        """A capsule."""

    def __dlpack_device__(self) -> tuple[Any, int]:
        """The type of the device, and its number."""


@runtime_checkable
class SupportsCudaArrayInterface(Protocol):
    """Memory on a CUDA device: CuPy, PyTorch, Numba, DALI, CV-CUDA."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Shape, strides in bytes, address and stream."""


@runtime_checkable
class SupportsArrayInterface(Protocol):
    """Memory on the CPU as NumPy describes it."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Shape, strides in bytes and address."""


@runtime_checkable
class SupportsCudaStream(Protocol):
    """A stream of CuPy, cuda.core or a newer PyTorch."""

    def __cuda_stream__(self) -> tuple[int, int]:
        """The protocol's version, 0, and the handle."""


Numbers: TypeAlias = "complex | Sequence[Numbers]"
"""A number, or sequences of numbers in sequences."""

TensorLike: TypeAlias = (
    "StridedTensor | SupportsDLPack | SupportsCudaArrayInterface | SupportsArrayInterface | Buffer | Numbers"
)
"""What `asarray` makes a tensor of."""

DTypeLike: TypeAlias = "str | DataType | ElementType | np.dtype[Any] | type[Any]"
"""What names an element type."""

LayoutLike: TypeAlias = "str | Layout"
"""A memory order such as "NHWC", or an exact layout."""

StreamLike: TypeAlias = "int | SupportsCudaStream"
"""What `stream=` takes."""
